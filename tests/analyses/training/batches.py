"""Batches for objectives, drawn by hypothesis or at random."""

from functools import cache
from typing import NamedTuple

import torch
from hypothesis import strategies as st
from torch import Generator, Tensor

from tests.analyses.training.texts import tokenizer
from workbench.analyses.training.tokenizers import Algorithm, Layout
from workbench.analyses.training.vocabulary import Vocabulary, vocabulary_of


class Drawn(NamedTuple):
    tokens: Tensor  # [batch, length]
    special: Tensor
    sentences: Tensor
    vocabulary: Vocabulary


@cache
def known(algorithm: Algorithm, layout: Layout) -> Vocabulary:
    """What objectives know of a tokenizer."""
    return vocabulary_of(tokenizer(algorithm, layout))


def batch(
    rows: int,
    length: int,
    layout: Layout,
    seed: int = 0,
    *,
    algorithm: Algorithm = "bpe",
    ends: float = 0.02,
    padding: bool = True,
) -> Drawn:
    """Random ordinary tokens in their frame, ends of documents among them, padding after some."""
    vocabulary = known(algorithm, layout)
    generator = Generator().manual_seed(seed)
    picks = torch.randint(len(vocabulary.ordinary), (rows, length), generator=generator)
    tokens = vocabulary.ordinary[picks]
    if vocabulary.end is not None:
        tokens[torch.rand(rows, length, generator=generator) < ends] = vocabulary.end
    for row in range(rows):
        lot = torch.rand((), generator=generator)
        stop = int(length * lot) if padding and row % 3 == 2 else length
        frame = len(vocabulary.before), len(vocabulary.after)
        stop = max(stop, sum(frame))
        tokens[row, : frame[0]] = torch.tensor(vocabulary.before, dtype=torch.long)
        tokens[row, stop - frame[1] : stop] = torch.tensor(vocabulary.after, dtype=torch.long)
        if stop < length:
            assert vocabulary.pad is not None
            tokens[row, stop:] = vocabulary.pad
    special = vocabulary.is_special(tokens)
    sentences = torch.rand(rows, length, generator=generator) < 0.1
    return Drawn(tokens, special, sentences & ~special, vocabulary)


@st.composite
def batches(draw: st.DrawFn, layout: Layout, algorithm: Algorithm = "bpe") -> tuple[Drawn, int]:
    """A batch of any shape, and a seed."""
    shape = draw(st.integers(1, 6)), draw(st.integers(3, 70))
    ends = draw(st.sampled_from([0.0, 0.05, 0.5, 1.0]))
    drawn = batch(*shape, layout, draw(st.integers(0, 999)), algorithm=algorithm, ends=ends)
    return drawn, draw(st.integers(0, 999))


def real(row: Tensor, drawn: Drawn) -> list[int]:
    """A row without its padding."""
    return [token for token in row.tolist() if token not in (drawn.vocabulary.pad, -100)]
