"""The model families: one table with the inputs, objectives and architecture of each.

A family is a row, not a class; the functions that build its model come first. Sizes have names, and
each of their fields can be overridden. Costs: drawing random weights.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
import transformers as hf
from torch import nn
from transformers import PreTrainedTokenizerBase

from workbench.analyses.training import objectives
from workbench.analyses.training.objectives.electra import Electra
from workbench.analyses.training.objectives.spanbert import SpanBert
from workbench.analyses.training.task import Architecture
from workbench.analyses.training.tokenizers import Algorithm, Layout
from workbench.core.errors import WorkbenchError, did_you_mean, require_one_of
from workbench.models.attention_hooks import attend_globally

# --- architectures, each built from a few sizes and a tokenizer -----------------------------------
#
# They are Hugging Face's classes with their default random initialisation. The layers of an
# encoder-decoder are divided between its two stacks, so that families of one size cost about the
# same. Costs: drawing random weights.

T5_BIAS_STD = 5.0  # standard deviation of T5's relative position biases, in nats
GELU = "gelu_pytorch_tanh"  # the same function as GPT-2's and ALBERT's gelu_new, in one kernel


@dataclass(frozen=True)
class Size:
    """The sizes of a model; `vocabulary_size` is that of the tokenizer, or of ELMo's softmax."""

    n_layers: int
    width: int
    n_heads: int
    vocabulary_size: int
    sequence_length: int
    dropout: float = 0.0  # small training budgets do better without dropout
    generator: float = 0.25  # width of ELECTRA's generator, as a fraction of the discriminator's
    windows: tuple[int, ...] = ()  # of Longformer's layers, both sides together; one: of all
    global_positions: int = 1  # first pieces with global attention, of Longformer


def _shape(size: Size, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """The sizes as arguments of BERT's configuration."""
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": size.width,
        "num_hidden_layers": size.n_layers,
        "num_attention_heads": size.n_heads,
        "intermediate_size": 4 * size.width,
        "max_position_embeddings": size.sequence_length,
        "hidden_dropout_prob": size.dropout,
        "attention_probs_dropout_prob": size.dropout,
        "pad_token_id": tokenizer.pad_token_id,
    }


def gpt(size: Size, tokenizer: PreTrainedTokenizerBase) -> nn.Module:
    """GPT-2, left to right."""
    return hf.GPT2LMHeadModel(
        hf.GPT2Config(
            vocab_size=len(tokenizer),
            n_positions=size.sequence_length,
            n_embd=size.width,
            n_layer=size.n_layers,
            n_head=size.n_heads,
            activation_function=GELU,
            resid_pdrop=size.dropout,
            embd_pdrop=size.dropout,
            attn_pdrop=size.dropout,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def llama(size: Size, tokenizer: PreTrainedTokenizerBase) -> nn.Module:
    """Llama: rotary positions, RMS norms, gated MLPs, and half as many keys as queries."""
    return hf.LlamaForCausalLM(hf.LlamaConfig(**_rotary(size, tokenizer)))


def qwen3(size: Size, tokenizer: PreTrainedTokenizerBase) -> nn.Module:
    """Qwen3: Llama's blocks with norms of queries and keys."""
    head_width = size.width // size.n_heads
    return hf.Qwen3ForCausalLM(hf.Qwen3Config(**_rotary(size, tokenizer), head_dim=head_width))


def _rotary(size: Size, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """The sizes as arguments of Llama's configuration.

    A gated MLP has three matrices, so it is two thirds as wide as one of two; in steps of 8.
    """
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": size.width,
        "num_hidden_layers": size.n_layers,
        "num_attention_heads": size.n_heads,
        "num_key_value_heads": size.n_heads // 2 if size.n_heads % 2 == 0 else size.n_heads,
        "intermediate_size": -(-size.width // 3) * 8,
        "max_position_embeddings": size.sequence_length,
        "attention_dropout": size.dropout,
        "tie_word_embeddings": True,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }


def bert(size: Size, tokenizer: PreTrainedTokenizerBase) -> nn.Module:
    """BERT with heads for masked pieces and next sentences."""
    return hf.BertForPreTraining(hf.BertConfig(**_shape(size, tokenizer)))


def masked_bert(size: Size, tokenizer: PreTrainedTokenizerBase) -> hf.BertForMaskedLM:
    """BERT with a head for masked pieces alone."""
    return hf.BertForMaskedLM(hf.BertConfig(**_shape(size, tokenizer)))


def spanbert(size: Size, tokenizer: PreTrainedTokenizerBase) -> nn.Module:
    """BERT with a head for masked pieces and a span-boundary head."""
    return SpanBert(masked_bert(size, tokenizer))


def roberta(size: Size, tokenizer: PreTrainedTokenizerBase) -> nn.Module:
    """RoBERTa, whose positions start after the id of the padding token."""
    shape = _shape(size, tokenizer)
    shape["max_position_embeddings"] += (
        int(tokenizer.pad_token_id) + 1
    )  # positions that it never uses
    ids = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    return hf.RobertaForMaskedLM(hf.RobertaConfig(**shape, **ids, type_vocab_size=1))


def longformer(size: Size, tokenizer: PreTrainedTokenizerBase) -> nn.Module:
    """Longformer: RoBERTa whose pieces see a window, and some first pieces that see all.

    The config says how many they are (`global_positions`), and the model's own forward pass heeds
    it: in plain transformers they are named in each call.
    """
    shape = _shape(size, tokenizer)
    windows = size.windows or (max(4, size.sequence_length // 4 // 2 * 2),)
    shape["max_position_embeddings"] += int(tokenizer.pad_token_id) + 1
    ids = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    own: dict[str, Any] = {"global_positions": size.global_positions}
    net = hf.LongformerForMaskedLM(
        hf.LongformerConfig(
            **shape,
            **ids,
            **own,
            sep_token_id=tokenizer.sep_token_id,
            type_vocab_size=1,
            attention_window=list(windows if len(windows) > 1 else windows * size.n_layers),
        )
    )
    attend_globally(net)
    return net


def modernbert(size: Size, tokenizer: PreTrainedTokenizerBase) -> nn.Module:
    """ModernBERT: rotary positions, gated MLPs, and two local layers after each global one."""
    return hf.ModernBertForMaskedLM(
        hf.ModernBertConfig(
            vocab_size=len(tokenizer),
            hidden_size=size.width,
            num_hidden_layers=size.n_layers,
            num_attention_heads=size.n_heads,
            intermediate_size=-(-size.width // 3) * 8,
            max_position_embeddings=size.sequence_length,
            local_attention=max(4, size.sequence_length // 4),  # pieces, on both sides together
            embedding_dropout=size.dropout,
            attention_dropout=size.dropout,
            mlp_dropout=size.dropout,
            pad_token_id=tokenizer.pad_token_id,
            cls_token_id=tokenizer.cls_token_id,
            sep_token_id=tokenizer.sep_token_id,
            bos_token_id=tokenizer.cls_token_id,
            eos_token_id=tokenizer.sep_token_id,
        )
    )


def xlnet(
    size: Size, tokenizer: PreTrainedTokenizerBase, sides: Literal["bi", "uni"] = "bi"
) -> nn.Module:
    """XLNet: relative positions and segments, and a second stream that predicts.

    From one side it is Transformer-XL.
    """
    return hf.XLNetLMHeadModel(
        hf.XLNetConfig(
            vocab_size=len(tokenizer),
            d_model=size.width,
            n_layer=size.n_layers,
            n_head=size.n_heads,
            d_inner=4 * size.width,
            dropout=size.dropout,
            attn_type=sides,
            mem_len=None,
            use_mems_eval=False,
            bos_token_id=tokenizer.cls_token_id,
            eos_token_id=tokenizer.sep_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def albert(size: Size, tokenizer: PreTrainedTokenizerBase) -> nn.Module:
    """ALBERT: narrow embeddings, one layer's weights for all, and heads for masks and order."""
    return hf.AlbertForPreTraining(_albert(size, tokenizer))


def masked_albert(size: Size, tokenizer: PreTrainedTokenizerBase) -> nn.Module:
    """ALBERT with a head for masked pieces alone."""
    return hf.AlbertForMaskedLM(_albert(size, tokenizer))


def _albert(size: Size, tokenizer: PreTrainedTokenizerBase) -> hf.AlbertConfig:
    narrow = max(16, size.width // 4)
    shape = _shape(size, tokenizer) | {
        "hidden_act": GELU,
        "bos_token_id": tokenizer.cls_token_id,
        "eos_token_id": tokenizer.sep_token_id,
        "classifier_dropout_prob": size.dropout,
    }
    return hf.AlbertConfig(**shape, embedding_size=narrow)


def distilbert(size: Size, tokenizer: PreTrainedTokenizerBase) -> nn.Module:
    """DistilBERT: BERT without segments and pooler."""
    return hf.DistilBertForMaskedLM(
        hf.DistilBertConfig(
            vocab_size=len(tokenizer),
            max_position_embeddings=size.sequence_length,
            n_layers=size.n_layers,
            n_heads=size.n_heads,
            dim=size.width,
            hidden_dim=4 * size.width,
            dropout=size.dropout,
            attention_dropout=size.dropout,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def electra(size: Size, tokenizer: PreTrainedTokenizerBase) -> nn.Module:
    """ELECTRA: a discriminator, and a generator that is by default a quarter as wide."""
    shape = _shape(size, tokenizer) | {"embedding_size": size.width}
    heads = max(1, int(size.n_heads * size.generator))
    narrow = max(int(size.width * size.generator), 16) // heads * heads
    small = shape | {
        "hidden_size": narrow,
        "num_attention_heads": heads,
        "intermediate_size": 4 * narrow,
    }
    return Electra(
        hf.ElectraForMaskedLM(hf.ElectraConfig(**small)),
        hf.ElectraForPreTraining(hf.ElectraConfig(**shape)),
    )


def t5(size: Size, tokenizer: PreTrainedTokenizerBase) -> nn.Module:
    """T5: an encoder and a decoder with relative positions."""
    more: dict[str, Any] = {"decoder_start_token_id": tokenizer.pad_token_id}
    net = hf.T5ForConditionalGeneration(
        hf.T5Config(
            vocab_size=len(tokenizer),
            d_model=size.width,
            d_kv=size.width // size.n_heads,
            d_ff=4 * size.width,
            num_layers=(size.n_layers + 1) // 2,
            num_decoder_layers=(size.n_layers + 1) // 2,
            num_heads=size.n_heads,
            dropout_rate=size.dropout,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            **more,
        )
    )
    _init_position_biases(net)
    return net


def _init_position_biases(net: nn.Module) -> None:
    """Draw T5's position biases large enough for heads to separate near from far at once.

    They are added to attention logits without scaling. T5's own optimiser takes steps in proportion
    to a weight; AdamW's steps have the size of the learning rate, so it would take thousands.
    """
    for module in net.modules():
        if isinstance(table := getattr(module, "relative_attention_bias", None), nn.Embedding):
            nn.init.normal_(table.weight, std=T5_BIAS_STD)


def bart(size: Size, tokenizer: PreTrainedTokenizerBase) -> nn.Module:
    """BART: an encoder and a decoder with learnt positions."""
    return hf.BartForConditionalGeneration(
        hf.BartConfig(
            vocab_size=len(tokenizer),
            d_model=size.width,
            encoder_layers=(size.n_layers + 1) // 2,
            decoder_layers=(size.n_layers + 1) // 2,
            encoder_attention_heads=size.n_heads,
            decoder_attention_heads=size.n_heads,
            encoder_ffn_dim=4 * size.width,
            decoder_ffn_dim=4 * size.width,
            max_position_embeddings=size.sequence_length,
            dropout=size.dropout,
            attention_dropout=size.dropout,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            decoder_start_token_id=tokenizer.eos_token_id,
            forced_eos_token_id=tokenizer.eos_token_id,
        )
    )


# --- the table of families ------------------------------------------------------------------------

# About 0.2, 1, 14 and 110 million parameters.
SIZES: Mapping[str, Size] = {
    "tiny": Size(2, 64, 2, 1_000, 64),
    "mini": Size(4, 128, 4, 2_048, 128),
    "small": Size(6, 384, 6, 8_192, 256),
    "base": Size(12, 768, 12, 30_000, 512, 0.1),
}

Build = Callable[[Size, PreTrainedTokenizerBase], nn.Module]


@dataclass(frozen=True)
class Family:
    """A row of the table of families; `build` is None for families that read whole words."""

    about: str
    objective: str
    build: Build | None
    algorithm: Algorithm = "wordpiece"
    layout: Layout = "bert"
    others: Architecture | None = None  # whose shared objectives it can learn by too
    alone: Build | None = None  # builds the model for other objectives, with fewer heads
    unit: str = ""  # masked unit, if not single pieces
    reads: Literal["pieces", "words"] = "pieces"


def size_of(name: str, **overrides: Any) -> Size:
    """A size by name, with some fields overridden (None keeps the default)."""
    require_one_of(name, SIZES, f"{name!r} is not a size.", code="setting-invalid")
    chosen = {key: value for key, value in overrides.items() if value is not None}
    size = replace(SIZES[name], **chosen)
    for key in ("n_layers", "width", "n_heads", "vocabulary_size", "sequence_length"):
        if getattr(size, key) < 1:
            raise WorkbenchError(
                f"{key} is {getattr(size, key)}; it must be at least 1.",
                code="setting-invalid",
                remedy=f"Set {key} to 1 or more.",
            )
    require_whole_heads(size)
    require_windows(size)
    return size


def require_windows(size: Size) -> None:
    """Raise an error unless transformers' Longformer can read texts in these windows.

    It cuts a text into chunks of a window, so the largest window is a multiple of each.
    """
    largest = max(size.windows, default=0)
    if any(window < 4 or window % 2 or largest % window for window in size.windows):
        raise WorkbenchError(
            f"the windows are {', '.join(map(str, size.windows))}; each must be an even number, 4 "
            "or more, and divide the largest.",
            code="setting-invalid",
            remedy="Count the pieces on both sides together, such as 16,32: 8 and 16 on each side.",
        )
    if len(size.windows) not in (0, 1, size.n_layers):
        raise WorkbenchError(
            f"there are {len(size.windows)} windows and {size.n_layers} layers.",
            code="setting-invalid",
            remedy="Set one window for all layers, or one for each.",
        )


def require_whole_heads(size: Size) -> None:
    """Raise an error unless all heads are equally wide."""
    if size.width % size.n_heads:
        raise WorkbenchError(
            f"a width of {size.width} is not a multiple of {size.n_heads} heads.",
            code="setting-invalid",
            remedy="Set width to a multiple of n_heads.",
        )


def family_of(name: str) -> Family:
    """The row of a family in the table."""
    require_one_of(name, FAMILIES, f"{name!r} is not a model family.", code="family-not-found")
    return FAMILIES[name]


def build(
    name: str, size: Size, tokenizer: PreTrainedTokenizerBase, seed: int, objective: str = ""
) -> nn.Module:
    """A new model of a family that reads pieces, with the heads that the objective needs."""
    row = family_of(name)
    if row.build is None:
        raise WorkbenchError(
            f"{name} reads whole words and is not built from a tokenizer.",
            code="model-unsupported",
            remedy="Call train instead.",
        )
    builder = row.alone if row.alone and objective not in ("", row.objective) else row.build
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return builder(size, tokenizer)


def objectives_of(name: str) -> tuple[str, ...]:
    """The objectives that a family can learn by, the default first."""
    row = family_of(name)
    if row.others == "vectors":
        return tuple(dict.fromkeys((row.objective, *objectives.of_words())))
    shared = (
        objective
        for objective, each in objectives.known().items()
        if each.shared and each.architecture == row.others
    )
    return tuple(dict.fromkeys((row.objective, *shared)))


def objective_for(name: str, requested: str) -> str:
    """The requested objective, or by default that of the family; an error if they do not fit."""
    known = objectives_of(name)
    if requested and requested not in known:
        raise WorkbenchError(
            f"{name} cannot be trained with the objective {requested!r}.",
            code="setting-invalid",
            remedy=did_you_mean(requested, known),
        )
    return requested or known[0]


FAMILIES: Mapping[str, Family] = {
    "gpt": Family(
        "Left-to-right language model, as GPT-2.", "causal", gpt, "bpe", "gpt", "decoder"
    ),
    "llama": Family(
        "Left-to-right language model with rotary positions and grouped keys, as Llama.",
        "causal",
        llama,
        "bpe",
        "gpt",
        "decoder",
    ),
    "qwen3": Family(
        "Left-to-right language model with norms of queries and keys, as Qwen3.",
        "causal",
        qwen3,
        "bpe",
        "gpt",
        "decoder",
    ),
    "bert": Family(
        "Masked language model and next-sentence prediction, as BERT.",
        "masked-next",
        bert,
        others="encoder",
        alone=masked_bert,
    ),
    "elmo": Family(
        "Forward and backward LSTM over words read by their characters, as ELMo.",
        "bidirectional",
        None,
        reads="words",
    ),
    "t5": Family(
        "Encoder-decoder that restores corrupted spans, as T5.",
        "random-spans",
        t5,
        "unigram",
        "t5",
        others="encoder-decoder",
    ),
    "bart": Family(
        "Encoder-decoder that restores infilled and reordered text, as BART.",
        "bart",
        bart,
        "bpe",
        "roberta",
        others="encoder-decoder",
    ),
    "electra": Family(
        "Detects the pieces that a small generator replaced, as ELECTRA.",
        "replaced",
        electra,
    ),
    "roberta": Family(
        "Masked language model with new masks in every epoch, as RoBERTa.",
        "masked",
        roberta,
        "bpe",
        "roberta",
        "encoder",
    ),
    "longformer": Family(
        "Masked language model of windows, with a first piece that sees all, as Longformer.",
        "masked",
        longformer,
        "bpe",
        "roberta",
        "encoder",
    ),
    "modernbert": Family(
        "Masked language model of local and global layers, as ModernBERT.",
        "masked",
        modernbert,
        others="encoder",
    ),
    "xlnet": Family(
        "Predicts pieces in a random order, with a stream that does not see them, as XLNet.",
        "permuted",
        xlnet,
        "unigram",
    ),
    "unilm": Family(
        "Masked language model that reads texts from one side or both, as UniLM.",
        "unilm",
        masked_bert,
    ),
    "prefix-lm": Family(
        "Language model that reads the start of a text in both directions, a GPT-2.",
        "prefix-lm",
        gpt,
        "bpe",
        "gpt",
    ),
    "albert": Family(
        "Masked language model and sentence order, with shared layers, as ALBERT.",
        "masked-order",
        albert,
        "unigram",
        others="encoder",
        alone=masked_albert,
    ),
    "distilbert": Family(
        "Half of a BERT's layers, distilled from it, as DistilBERT.",
        "distilled",
        distilbert,
    ),
    "spanbert": Family(
        "Masked spans of whole words, also predicted from their boundaries, as SpanBERT.",
        "masked-spans",
        spanbert,
        others="encoder",
        alone=masked_bert,
        unit="span",
    ),
    "vectors": Family(
        "Static word vectors: skip-gram, CBOW or counts, as word2vec and PPMI.",
        "skip-gram",
        None,
        others="vectors",
        reads="words",
    ),
}
