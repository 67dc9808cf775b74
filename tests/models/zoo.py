"""A tiny random model of every architecture, in the hub's own format, made in a folder offline.

`make("gpt2", folder)` leaves what `AutoModel.from_pretrained(folder)` and `AutoTokenizer` read: two
layers, 4 heads, width 32, and a tokenizer of the right kind. No weight keeps its initial constant:
biases are not 0 and norms are not 1, so that one left out or cut wrongly shows. Costs about 30 ms a
model once transformers is imported; `built` makes it in memory, in a third of the time of reading.
"""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModel,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from tests.models.vocabularies import KINDS, tokenizer

__all__ = ["BY_DAY", "KINDS", "NAMES", "built", "make", "tokenizer", "words_of"]

SPREAD = 0.15  # standard deviation of what is added to every weight
POSITIONS = 128


@dataclass(frozen=True)
class Recipe:
    """An architecture's name in transformers, its tokenizer, and its sizes in its own words."""

    model_type: str
    tokenizer: str
    sizes: dict[str, Any] = field(default_factory=dict)


_BERT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": POSITIONS,
}
_ROBERTA = _BERT | {"max_position_embeddings": POSITIONS + 2, "type_vocab_size": 1}
_GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": POSITIONS}
_T5 = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 4,
}
_BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": POSITIONS,
}
_NARROW_BART = _BART | {"d_model": 16, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}


def _t5(encoder: int, decoder: int) -> dict[str, Any]:
    layers = {"num_layers": encoder, "num_decoder_layers": decoder}
    return _T5 | {"d_model": 16, "d_kv": 4, "d_ff": 32} | layers


def _bart(encoder: int, decoder: int) -> dict[str, Any]:
    return _NARROW_BART | {"encoder_layers": encoder, "decoder_layers": decoder}


_DEBERTA = {
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_buckets": 16,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "position_biased_input": False,
}
_MODERN = {"global_attn_every_n_layers": 2, "local_attention": 8, "num_hidden_layers": 3}

RECIPES = {
    "bert": Recipe("bert", "bert-uncased", _BERT),  # SpanBERT, SciBERT, LEGAL-BERT are this too
    "bert-cased": Recipe("bert", "bert-cased", _BERT),
    "roberta": Recipe("roberta", "roberta", _ROBERTA),
    "distilbert": Recipe(
        "distilbert",
        "bert-uncased",
        {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}
        | {"max_position_embeddings": POSITIONS},
    ),
    "electra": Recipe("electra", "bert-uncased", _BERT | {"embedding_size": 16}),
    "albert": Recipe("albert", "albert", _BERT | {"embedding_size": 16, "num_hidden_layers": 3}),
    "modernbert": Recipe("modernbert", "modernbert", _BERT | _MODERN),
    "deberta-v2": Recipe("deberta-v2", "deberta-v2", _BERT | _DEBERTA | {"type_vocab_size": 0}),
    "xlnet": Recipe("xlnet", "xlnet", {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64}),
    "longformer": Recipe("longformer", "roberta", _ROBERTA | {"attention_window": [8, 8]}),
    "openai-gpt": Recipe("openai-gpt", "openai-gpt", _GPT),
    "gpt2": Recipe("gpt2", "gpt2", _GPT),
    "bloom": Recipe("bloom", "gpt2", {"hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "gpt-neox": Recipe("gpt_neox", "gpt-neox", _BERT),
    "llama": Recipe("llama", "llama", _BERT | {"num_key_value_heads": 2}),
    "t5": Recipe("t5", "t5", _T5),
    "t5-gated": Recipe("t5", "t5", _T5 | {"feed_forward_proj": "gated-gelu"}),
    "mt5": Recipe("mt5", "t5", _T5 | {"feed_forward_proj": "gated-gelu"}),
    "bart": Recipe("bart", "roberta", _BART),
    "t5-3-2": Recipe("t5", "t5", _t5(3, 2)),
    "bart-3-2": Recipe("bart", "roberta", _bart(3, 2)),
    "t5-6-12": Recipe("t5", "t5", _t5(6, 12)),  # those of up to twelve layers are for the night
    "t5-12-6": Recipe("t5", "t5", _t5(12, 6)),
    "bart-6-12": Recipe("bart", "roberta", _bart(6, 12)),
    "bart-12-6": Recipe("bart", "roberta", _bart(12, 6)),
}
NAMES = tuple(RECIPES)
BY_DAY = ("bert", "gpt2", "xlnet", "t5-3-2")  # an encoder, a decoder, two streams, both stacks


@cache
def _words(kind: str) -> PreTrainedTokenizerBase:
    """Learnt once: no model changes it."""
    return tokenizer(kind)


def words_of(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer of the named model, shared by all tests: do not change it."""
    return _words(RECIPES[name].tokenizer)


@cache
def built(
    name: str, implementation: str | None = None, dtype: torch.dtype = torch.float32
) -> PreTrainedModel:
    """What reading the named model's folder gives, shared by all tests: change a copy."""
    if implementation is None and dtype == torch.float32:
        net = _drawn(_config(name), 0)
    else:
        net = AutoModel.from_config(_config(name), attn_implementation=implementation, dtype=dtype)
        net.load_state_dict(built(name).state_dict())
    net.train(False)
    return net


def _config(name: str, **overrides: Any) -> PretrainedConfig:
    recipe, words = RECIPES[name], words_of(name)
    special = {
        f"{role}_token_id": getattr(words, f"{role}_token_id")
        for role in ("pad", "bos", "eos", "cls", "sep")
    }
    fields = {"vocab_size": len(words), **special, **recipe.sizes, **overrides}
    if recipe.model_type in {"t5", "mt5"}:
        fields.setdefault("decoder_start_token_id", words.pad_token_id)
    config: PretrainedConfig = AutoConfig.for_model(recipe.model_type, **fields)
    return config


def _drawn(config: PretrainedConfig, seed: int) -> PreTrainedModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net: PreTrainedModel = AutoModel.from_config(config)
        with torch.no_grad():
            for weights in net.parameters():
                weights += SPREAD * torch.randn_like(weights)
    return net


def make(name: str, folder: Path, seed: int = 0, **overrides: Any) -> Path:
    """Write the named model and its tokenizer there; overrides are fields of its config."""
    _drawn(_config(name, **overrides), seed).save_pretrained(folder)
    words_of(name).save_pretrained(folder)
    return folder
