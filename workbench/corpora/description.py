"""What is counted of a corpus, as plain data that `workbench.corpora.describe` fills."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Sizes:
    """How much there is of one split; `documents` is 0 where the corpus names none."""

    split: str
    docs: int
    documents: int
    sentences: int
    words: int
    types: int


@dataclass(frozen=True)
class Bin:
    """How many sentences have `first` to `last` words."""

    first: int
    last: int
    count: int


@dataclass(frozen=True)
class Lengths:
    """Words a sentence."""

    min: int
    median: float
    mean: float
    max: int
    histogram: tuple[Bin, ...]


@dataclass(frozen=True)
class Relation:
    """A dependency relation and where its heads mostly are.

    `offset` is the most frequent place of the head, counted from the dependent (-1 is the word just
    before it), and `share` the part of the relation's edges that have it.
    """

    label: str
    count: int
    offset: int
    share: float


@dataclass(frozen=True)
class Coreference:
    """Chains within Docs, and the mentions in them."""

    chains: int
    mentions: int


@dataclass(frozen=True)
class Scores:
    """A label that is a number."""

    count: int
    min: float
    mean: float
    max: float


@dataclass(frozen=True)
class Zipf:
    """Least squares of log count on log rank, over the ranks from `first` to `last`."""

    slope: float
    first: int
    last: int


@dataclass(frozen=True)
class Description:
    """Everything counted; mappings are sorted, the most frequent first."""

    name: str
    splits: tuple[Sizes, ...]
    lengths: Lengths | None  # None without any sentence
    upos: Mapping[str, int]
    xpos: Mapping[str, int]
    relations: tuple[Relation, ...]  # without roots, which have no head
    labels: Mapping[str, Mapping[str, int]]  # of entities, constituents and every edge layer
    coreference: Coreference | None
    classes: Mapping[str, Mapping[str, int]]  # what is said of whole texts, in words
    scores: Mapping[str, Scores]  # or in numbers
    words: Mapping[str, int]  # the most frequent
    zipf: Zipf | None  # None where too few words are frequent enough for a fit

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)
