"""Random twins of the families that can be trained but are not built in, as small as they go.

Costs: a second for the tokenizers; milliseconds for a twin.
"""

from functools import cache

from transformers import PreTrainedTokenizerBase

import workbench as wb
from workbench.analyses.training.families import FAMILIES, Size, build
from workbench.analyses.training.tokenizers import Algorithm, Layout, train_tokenizer
from workbench.models.huggingface import HuggingFace

LATER = ("longformer", "xlnet", "unilm", "prefix-lm", "modernbert", "llama", "qwen3")
SIZE = Size(2, 64, 4, 600, 128, windows=(8,))  # Longformer sees four pieces on each side


@cache
def _lines() -> list[str]:
    return [doc.text for doc in wb.read("primer:size=1000").docs("train", 600)]


@cache
def _words(algorithm: Algorithm, layout: Layout) -> PreTrainedTokenizerBase:
    return train_tokenizer(_lines(), algorithm, layout, SIZE.vocabulary_size)


def family_twin(family: str, seed: int) -> HuggingFace:
    """A model of a family with random weights by the seed."""
    row = FAMILIES[family]
    words = _words(row.algorithm, row.layout)
    net = build(family, SIZE, words, seed)
    return HuggingFace(net.eval(), words, f"{family}-twin-{seed}")  # type: ignore[arg-type]
