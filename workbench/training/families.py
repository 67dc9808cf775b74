"""The families: one table of what each reads, learns by, and is built from.

A family is a row, not a class; `architectures` has the functions that build its model. Sizes go
by name, with any part of them set otherwise. Costs the drawing of random weights.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from workbench.errors import WorkbenchError, did_you_mean
from workbench.training import architectures as make
from workbench.training.architectures import Size
from workbench.training.tokenizers import Algorithm, Layout

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
    """What it reads and learns by; `build` is None where pieces are not what it reads."""

    about: str
    objective: str
    build: Build | None
    algorithm: Algorithm = "wordpiece"
    layout: Layout = "bert"
    others: tuple[str, ...] = ()  # what it can learn by instead
    alone: Build | None = None  # what is built for the others, where that has fewer heads
    unit: str = ""  # what is masked, where it is not single pieces
    reads: Literal["pieces", "words"] = "pieces"
    types: tuple[str, ...] = ()  # transformers' names of models that can be gone on with


def size_of(name: str, **overrides: Any) -> Size:
    """A size by name, with some of its fields set otherwise (None leaves them)."""
    if name not in SIZES:
        raise WorkbenchError(f"there is no size {name!r}.", remedy=did_you_mean(name, SIZES))
    given = {key: value for key, value in overrides.items() if value is not None}
    size = replace(SIZES[name], **given)
    for key in ("layers", "width", "heads", "vocabulary", "length"):
        if getattr(size, key) < 1:
            raise WorkbenchError(f"{key} is {getattr(size, key)}.", remedy="Give 1 or more.")
    if size.width % size.heads:
        raise WorkbenchError(
            f"{size.heads} heads do not part a width of {size.width}.",
            remedy="Give a width that is a multiple of the heads.",
        )
    return size


def family_of(name: str) -> Family:
    """A row of the table."""
    if name not in FAMILIES:
        raise WorkbenchError(f"there is no family {name!r}.", remedy=did_you_mean(name, FAMILIES))
    return FAMILIES[name]


def build(
    name: str, size: Size, tokenizer: PreTrainedTokenizerBase, seed: int, objective: str = ""
) -> nn.Module:
    """A new model of a family that reads pieces, with the heads that its objective needs."""
    row = family_of(name)
    if row.build is None:
        raise WorkbenchError(f"{name} is not built from a tokenizer.", remedy="Use train.")
    builder = row.alone if row.alone and objective in row.others else row.build
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return builder(size, tokenizer)


def objective_for(name: str, asked: str) -> str:
    """The family's own objective, or the one asked for, if the family can learn by it."""
    row = family_of(name)
    known = (row.objective, *row.others)
    if asked and asked not in known:
        raise WorkbenchError(
            f"{name} does not learn by {asked!r}.", remedy=did_you_mean(asked, known)
        )
    return asked or row.objective


_TO_SEQUENCES = (
    "prefix",
    "bert-style",
    "deshuffle",
    "mass-style",
    "replace-spans",
    "drop-tokens",
    "random-spans",
    "denoisers",
    "token-masking",
    "token-deletion",
    "infilling",
    "sentence-permutation",
    "document-rotation",
    "bart",
)
FAMILIES: Mapping[str, Family] = {
    "gpt": Family("Left to right, as GPT-2.", "causal", make.gpt, "bpe", "gpt", types=("gpt2",)),
    "bert": Family(
        "Masked pieces and next sentences, as BERT.",
        "masked-next",
        make.bert,
        others=("masked", "hybrid"),
        alone=make.masked_bert,
        types=("bert",),
    ),
    "elmo": Family(
        "Two LSTMs over words spelt in characters, as ELMo.", "bidirectional", None, reads="words"
    ),
    "t5": Family(
        "Corrupted spans from an encoder to a decoder, as T5.",
        "random-spans",
        make.t5,
        "unigram",
        "t5",
        others=_TO_SEQUENCES,
        types=("t5",),
    ),
    "bart": Family(
        "Infilled and reordered text made whole again, as BART.",
        "bart",
        make.bart,
        "bpe",
        "roberta",
        others=_TO_SEQUENCES,
        types=("bart",),
    ),
    "electra": Family(
        "Which pieces a small generator replaced, as ELECTRA.",
        "replaced",
        make.electra,
        types=("electra",),
    ),
    "roberta": Family(
        "Masked pieces, masked anew each time, as RoBERTa.",
        "masked",
        make.roberta,
        "bpe",
        "roberta",
        others=("hybrid",),
        types=("roberta",),
    ),
    "albert": Family(
        "Masked pieces and the order of sentences, one layer's weights for all, as ALBERT.",
        "masked-order",
        make.albert,
        "unigram",
        others=("masked",),
        alone=make.masked_albert,
        types=("albert",),
    ),
    "distilbert": Family(
        "Half of a BERT's layers, taught by it, as DistilBERT.",
        "distilled",
        make.distilbert,
        types=("distilbert",),
    ),
    "spanbert": Family(
        "Masked spans of whole words, also from the words around them, as SpanBERT.",
        "masked-spans",
        make.spanbert,
        others=("masked",),
        alone=make.masked_bert,
        unit="span",
        types=("bert",),
    ),
    "vectors": Family(
        "A vector a word, by skip-gram with negative samples.", "skip-gram", None, reads="words"
    ),
}
