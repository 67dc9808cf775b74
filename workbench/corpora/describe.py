"""Counts of a corpus: sizes, sentence lengths, tags, relations, labels and word frequencies.

The counts are plain data; figures are drawn elsewhere. A word is any token that is not white space,
a type is a word as written, and a Doc without sentence starts counts as one sentence. Costs: one
streaming pass over the Docs; memory is bounded by the vocabulary and the label sets, not by the
number of Docs.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.core.errors import WorkbenchError
from workbench.corpora.corpus import Corpus
from workbench.corpora.formats import WHOLE
from workbench.corpora.layers import chains, edges, mentions

if TYPE_CHECKING:
    from spacy.tokens import Doc

# --- the counts of a corpus, as plain data --------------------------------------------------------


@dataclass(frozen=True)
class Sizes:
    """The size of one split; `documents` is 0 if the corpus has no document names."""

    split: str
    docs: int
    documents: int
    sentences: int
    words: int
    types: int


@dataclass(frozen=True)
class Bin:
    """The number of sentences with `first` to `last` words."""

    first: int
    last: int
    count: int


@dataclass(frozen=True)
class Lengths:
    """Sentence lengths in words."""

    min: int
    median: float
    mean: float
    max: int
    histogram: tuple[Bin, ...]


@dataclass(frozen=True)
class Relation:
    """A dependency relation and the most frequent position of its heads.

    `offset` is the most frequent position of the head relative to the dependent (-1 is the word
    just before it), and `share` the fraction of the relation's edges with this offset.
    """

    label: str
    count: int
    offset: int
    share: float


@dataclass(frozen=True)
class Coreference:
    """The number of chains within Docs, and of the mentions in them."""

    chains: int
    mentions: int


@dataclass(frozen=True)
class Scores:
    """The distribution of a label that is a number."""

    count: int
    min: float
    mean: float
    max: float


@dataclass(frozen=True)
class Zipf:
    """The least-squares line of log count on log rank, over the ranks `first` to `last`."""

    slope: float
    first: int
    last: int


@dataclass(frozen=True)
class Description:
    """All counts of a corpus; mappings are sorted, most frequent first."""

    name: str
    splits: tuple[Sizes, ...]
    lengths: Lengths | None  # None if there is no sentence
    upos: Mapping[str, int]
    xpos: Mapping[str, int]
    relations: tuple[Relation, ...]  # without roots, which have no head
    labels: Mapping[str, Mapping[str, int]]  # of entities, constituents and every edge layer
    coreference: Coreference | None
    classes: Mapping[str, Mapping[str, int]]  # labels of whole texts that are words
    scores: Mapping[str, Scores]  # labels of whole texts that are numbers
    words: Mapping[str, int]  # the most frequent
    zipf: Zipf | None  # None if too few words are frequent enough for a fit

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)


# --- counting -------------------------------------------------------------------------------------

BINS = 20  # maximum number of bins of the sentence-length histogram
MOST_FREQUENT = 100  # number of words listed (default)
ZIPF_COUNT = 5  # minimum count of a word in the Zipf fit: counts of rare words form steps
ZIPF_RANKS = 10  # minimum number of such words


@dataclass
class _Counts:
    """The counts during one pass."""

    splits: list[Sizes] = field(default_factory=list)
    lengths: Counter[int] = field(default_factory=Counter)
    upos: Counter[str] = field(default_factory=Counter)
    xpos: Counter[str] = field(default_factory=Counter)
    offsets: defaultdict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    labels: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    chains: int = 0
    mentions: int = 0
    has_coreference: bool = False
    classes: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    scores: dict[str, Scores] = field(default_factory=dict)
    words: Counter[str] = field(default_factory=Counter)


def describe(
    corpus: "Corpus | Mapping[str, Iterable[Doc]] | Iterable[Doc]",
    on_progress: Callable[[int], object] | None = None,
    most: int = MOST_FREQUENT,
) -> Description:
    """Count the content of a corpus: sizes, layers, labels, relations, lengths, frequent words.

    Args:
        corpus: A corpus, Docs by split, or Docs.
        on_progress: Progress callback; its argument is the number of Docs read so far.
        most: Number of frequent words to list (default 100).

    Returns:
        A `Description`, whose fields are plain tuples.

    Raises:
        WorkbenchError: The argument is neither a corpus nor Docs.

    Example:
        >>> description = wb.describe(wb.read("primer").docs("test", limit=50))
        >>> description.relations[0].label
        'punct'
    """
    from spacy.tokens import Doc

    splits = _by_split(corpus)
    counts = _Counts()
    done = 0
    for split, docs in splits.items():
        words: Counter[str] = Counter()
        docs_here = documents = sentences = 0
        document = ""
        for doc in docs:
            if not isinstance(doc, Doc):
                raise _no_docs(doc)
            words.update(_words(doc))
            sentences += _count_lengths(doc, counts)
            _count_layers(doc, counts)
            documents += bool(doc._.document) and doc._.document != document
            document = doc._.document
            docs_here += 1
            done += 1
            if on_progress:
                on_progress(done)
        counts.splits.append(
            Sizes(split, docs_here, documents, sentences, words.total(), len(words))
        )
        counts.words.update(words)
    return _description(corpus.name if isinstance(corpus, Corpus) else "", counts, most)


def _by_split(
    corpus: "Corpus | Mapping[str, Iterable[Doc]] | Iterable[Doc]",
) -> "Mapping[str, Iterable[Doc]]":
    if isinstance(corpus, Corpus):
        return {name: corpus.docs(name) for name in corpus.splits}
    splits = corpus if isinstance(corpus, Mapping) else {WHOLE: corpus}
    for docs in splits.values():
        if not isinstance(docs, Iterable):
            raise _no_docs(docs)
    return splits


def _no_docs(value: object) -> WorkbenchError:
    return WorkbenchError(
        f"a {type(value).__name__} cannot be described.",
        code="setting-invalid",
        remedy="Pass a corpus from read(), Docs by split, or a list of Docs.",
    )


def _words(doc: "Doc") -> list[str]:
    """The words as written; the parts of a multiword token ("im") by their forms ("in", "dem")."""
    if doc._.multiword:
        return [token._.form or token.text for token in doc if not token.is_space]
    return [token.text for token in doc if not token.is_space]


def _count_lengths(doc: "Doc", counts: _Counts) -> int:
    """Add the lengths of a Doc's sentences; return their number."""
    parts = doc.sents if doc.has_annotation("SENT_START") else [doc]
    lengths = [sum(not token.is_space for token in part) for part in parts]
    lengths = [length for length in lengths if length]
    counts.lengths.update(lengths)
    return len(lengths)


def _count_layers(doc: "Doc", counts: _Counts) -> None:
    for token in doc:
        if token.pos:
            counts.upos[token.pos_] += 1
        if token.tag:
            counts.xpos[token.tag_] += 1
        if token.dep and token.head.i != token.i:
            counts.offsets[token.dep_][token.head.i - token.i] += 1
    spans = {str(layer) for layer in doc.spans} - {"coreference", "segments"}
    for layer in spans | {"entities"}:
        if present := mentions(doc, layer):
            counts.labels[layer].update(mention.label for mention in present)
    for layer in doc._.edges:
        counts.labels[layer].update(label for edge in edges(doc, layer) for label in edge.labels)
    if "coreference" in doc.spans:
        all_chains = chains(doc)
        counts.has_coreference = True
        counts.chains += len(all_chains)
        counts.mentions += sum(map(len, all_chains.values()))
    for name, value in doc._.labels.items():
        _count_label(name, value, counts)


def _count_label(name: str, value: str | float | None, counts: _Counts) -> None:
    if isinstance(value, str):
        counts.classes[name][value] += 1
    elif value is not None:
        old = counts.scores.get(name) or Scores(0, value, 0.0, value)
        count = old.count + 1
        mean = old.mean + (value - old.mean) / count
        counts.scores[name] = Scores(count, min(old.min, value), mean, max(old.max, value))


def _description(name: str, counts: _Counts, most: int) -> Description:
    words = _ranked(counts.words)
    return Description(
        name=name,
        splits=tuple(counts.splits),
        lengths=_lengths(counts.lengths),
        upos=_ranked(counts.upos),
        xpos=_ranked(counts.xpos),
        relations=_relations(counts.offsets),
        labels={layer: _ranked(labels) for layer, labels in sorted(counts.labels.items())},
        coreference=Coreference(counts.chains, counts.mentions) if counts.has_coreference else None,
        classes={label: _ranked(classes) for label, classes in counts.classes.items()},
        scores=counts.scores,
        words=dict(list(words.items())[:most]),
        zipf=zipf_fit(list(words.values())),
    )


def _ranked(counter: Counter[str]) -> dict[str, int]:
    """The counts, most frequent first; equal counts in alphabetical order."""
    return dict(sorted(counter.items(), key=lambda item: (-item[1], item[0])))


def _relations(offsets: Mapping[str, Counter[int]]) -> tuple[Relation, ...]:
    relations = []
    for label, by_offset in offsets.items():
        offset, at_offset = min(
            by_offset.items(), key=lambda item: (-item[1], abs(item[0]), item[0])
        )
        count = by_offset.total()
        relations.append(Relation(label, count, offset, at_offset / count))
    return tuple(sorted(relations, key=lambda relation: (-relation.count, relation.label)))


def _lengths(counter: Counter[int]) -> Lengths | None:
    if not counter:
        return None
    lengths = np.array(sorted(counter))
    counts = np.array([counter[int(length)] for length in lengths])
    total, longest = int(counts.sum()), int(lengths[-1])
    up_to = np.cumsum(counts)
    low, high = (
        lengths[np.searchsorted(up_to, rank)] for rank in ((total + 1) // 2, total // 2 + 1)
    )
    width = -(-longest // BINS)
    histogram = tuple(
        Bin(first, first + width - 1, sum(counter[n] for n in range(first, first + width)))
        for first in range(1, longest + 1, width)
    )
    mean = float((lengths * counts).sum() / total)
    return Lengths(int(lengths[0]), (int(low) + int(high)) / 2, mean, longest, histogram)


def zipf_fit(counts: list[int]) -> Zipf | None:
    """Return the Zipf fit of counts, sorted largest first; None if too few are frequent."""
    frequent = [count for count in counts if count >= ZIPF_COUNT]
    if len(frequent) < ZIPF_RANKS:
        return None
    ranks = np.arange(1, len(frequent) + 1)
    slope, _ = np.polyfit(np.log(ranks), np.log(frequent), 1)
    return Zipf(float(slope), 1, len(frequent))
