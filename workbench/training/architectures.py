"""The transformers of the families, each built from a few sizes and a tokenizer.

They are Hugging Face's own classes with their own weights drawn as these draw them. Layers of an
encoder-decoder are parted between its two stacks, so that families of one size cost about the same.
Costs the drawing of random weights.
"""

from dataclasses import dataclass
from typing import Any

import transformers as hf
from torch import nn
from transformers import PreTrainedTokenizerBase

from workbench.training.electra import Electra
from workbench.training.spanbert import SpanBert

DISTANCES = 5.0  # nats, the spread of T5's biases of attention by distance
GELU = "gelu_pytorch_tanh"  # GPT-2's and ALBERT's gelu_new as one kernel: the same function


@dataclass(frozen=True)
class Size:
    """What a model is built from; `vocabulary` is of the tokenizer, or of ELMo's softmax."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    length: int
    dropout: float = 0.0  # small budgets are better off without


def _shape(size: Size, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """What BERT and its kin call their sizes."""
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": size.width,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "intermediate_size": 4 * size.width,
        "max_position_embeddings": size.length,
        "hidden_dropout_prob": size.dropout,
        "attention_probs_dropout_prob": size.dropout,
        "pad_token_id": tokenizer.pad_token_id,
    }


def gpt(size: Size, tokenizer: PreTrainedTokenizerBase) -> nn.Module:
    """GPT-2, left to right."""
    return hf.GPT2LMHeadModel(
        hf.GPT2Config(
            vocab_size=len(tokenizer),
            n_positions=size.length,
            n_embd=size.width,
            n_layer=size.layers,
            n_head=size.heads,
            activation_function=GELU,
            resid_pdrop=size.dropout,
            embd_pdrop=size.dropout,
            attn_pdrop=size.dropout,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def bert(size: Size, tokenizer: PreTrainedTokenizerBase) -> nn.Module:
    """With heads for masked pieces and next sentences."""
    return hf.BertForPreTraining(hf.BertConfig(**_shape(size, tokenizer)))


def masked_bert(size: Size, tokenizer: PreTrainedTokenizerBase) -> hf.BertForMaskedLM:
    """BERT with a head for masked pieces alone."""
    return hf.BertForMaskedLM(hf.BertConfig(**_shape(size, tokenizer)))


def spanbert(size: Size, tokenizer: PreTrainedTokenizerBase) -> nn.Module:
    """The same, with a second head for spans' boundaries."""
    return SpanBert(masked_bert(size, tokenizer))


def roberta(size: Size, tokenizer: PreTrainedTokenizerBase) -> nn.Module:
    """RoBERTa, whose positions begin behind the padding's number."""
    shape = _shape(size, tokenizer)
    shape["max_position_embeddings"] += int(tokenizer.pad_token_id) + 1  # which it never uses
    ids = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    return hf.RobertaForMaskedLM(hf.RobertaConfig(**shape, **ids, type_vocab_size=1))


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
            max_position_embeddings=size.length,
            n_layers=size.layers,
            n_heads=size.heads,
            dim=size.width,
            hidden_dim=4 * size.width,
            dropout=size.dropout,
            attention_dropout=size.dropout,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def electra(size: Size, tokenizer: PreTrainedTokenizerBase) -> nn.Module:
    """ELECTRA: a discriminator, and a generator a quarter as wide."""
    shape = _shape(size, tokenizer) | {"embedding_size": size.width}
    heads = max(1, size.heads // 4)
    narrow = max(size.width // 4, 16) // heads * heads
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
            d_kv=size.width // size.heads,
            d_ff=4 * size.width,
            num_layers=(size.layers + 1) // 2,
            num_decoder_layers=(size.layers + 1) // 2,
            num_heads=size.heads,
            dropout_rate=size.dropout,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            **more,
        )
    )
    _sharpened(net)
    return net


def _sharpened(net: nn.Module) -> None:
    """Draw T5's distances so that heads tell near from far at once.

    They are added to logits as they are. T5's own optimiser takes steps in proportion to a weight;
    AdamW's steps are of the learning rate, and it would take thousands of them to get so far.
    """
    for module in net.modules():
        if isinstance(table := getattr(module, "relative_attention_bias", None), nn.Embedding):
            nn.init.normal_(table.weight, std=DISTANCES)


def bart(size: Size, tokenizer: PreTrainedTokenizerBase) -> nn.Module:
    """BART: an encoder and a decoder with learnt positions."""
    return hf.BartForConditionalGeneration(
        hf.BartConfig(
            vocab_size=len(tokenizer),
            d_model=size.width,
            encoder_layers=(size.layers + 1) // 2,
            decoder_layers=(size.layers + 1) // 2,
            encoder_attention_heads=size.heads,
            decoder_attention_heads=size.heads,
            encoder_ffn_dim=4 * size.width,
            decoder_ffn_dim=4 * size.width,
            max_position_embeddings=size.length,
            dropout=size.dropout,
            attention_dropout=size.dropout,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            decoder_start_token_id=tokenizer.eos_token_id,
            forced_eos_token_id=tokenizer.eos_token_id,
        )
    )
