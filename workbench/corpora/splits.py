"""Train, dev and test of a corpus: its own splits where it has them, else split by document.

Training, early stopping and scoring never share a document. A split with more sentences than its
maximum (`SplitSizes`) gives its first sentences, or a random sample. Costs: one reading of the
corpus.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from workbench.core.errors import WorkbenchError
from workbench.core.findings import plural

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.corpora.corpus import Corpus

FEW = 30  # sentences or documents; bootstrap intervals over fewer are unreliable
SHARE = 0.1  # share of the documents in each part that is split off
TRAIN, DEV, TEST = "train", "dev", "test"
PARTS = (TRAIN, DEV, TEST)


@dataclass(frozen=True)
class SplitSizes:
    """Maximum number of sentences of each split; None for all."""

    train: int | None = None
    dev: int | None = None
    test: int | None = None


@dataclass(frozen=True)
class Parts:
    """The Docs of each part, and notes on how the parts were made."""

    train: tuple["Doc", ...]
    dev: tuple["Doc", ...]
    test: tuple["Doc", ...]
    scored: str  # the corpus' name of the split that is scored
    notes: tuple[str, ...] = ()

    @property
    def docs(self) -> tuple["Doc", ...]:
        """Return all Docs, part by part."""
        return (*self.train, *self.dev, *self.test)

    @property
    def part_of(self) -> tuple[int, ...]:
        """Return the part of each of `docs`, as an index into `PARTS`."""
        sizes = (len(self.train), len(self.dev), len(self.test))
        return tuple(part for part, size in enumerate(sizes) for _ in range(size))


def parts_of(
    corpus: "Corpus",
    split: str | None,
    sizes: SplitSizes,
    seed: int,
    drawn_from: int | None = None,
    sift: "Callable[[str, list[Doc]], list[Doc]] | None" = None,
) -> Parts:
    """Return the sentences of each part, at most `sizes`; `split` names the one that is scored.

    With `drawn_from`, that many sentences of a split are read, and the part is a random sample of
    them. `sift` gets the name and the Docs of each split, and returns the Docs to use.
    """
    scored = split or next((name for name in (TEST, DEV) if name in corpus.splits), "")
    if scored:
        corpus.docs(scored, 0)  # raises if there is no such split
    others = [name for name in corpus.splits if name != scored]
    notes: list[str] = []

    def read(name: str | None, maximum: int | None) -> list["Doc"]:
        whole = maximum is None or drawn_from is None
        docs = list(corpus.docs(name, maximum if whole else drawn_from))
        if drawn_from is not None and maximum is not None and len(docs) == drawn_from:
            notes.append(
                f"Texts of {name or 'the corpus'} are a random sample of its first {drawn_from:,}."
            )
        return docs if sift is None else sift(name or corpus.name, docs)

    if scored and others:
        test = read(scored, sizes.test)
        trained_on = TRAIN if TRAIN in others else others[0]
        train = read(trained_on, sizes.train)
        if trained_on != TRAIN:
            notes.append(
                f"{scored} is scored, and there is no other train split: {trained_on} is used for "
                "training."
            )
        if DEV in others and trained_on != DEV:
            dev = read(DEV, sizes.dev)
        else:
            train, dev = cut(train, seed, corpus.name)
            notes.append(
                f"The corpus has no dev split: a part of {trained_on} is used for early stopping."
            )
    else:
        limits = (sizes.train, sizes.dev, sizes.test)
        maximum = None if None in limits else sum(each or 0 for each in limits)
        docs = read(None, maximum)
        _require(docs, 3, corpus.name)
        remaining, test = cut(docs, seed, corpus.name)
        train, dev = cut(remaining, seed + 1, corpus.name)
        unit = "document" if _documents(docs) else "sentence"
        notes.append(
            f"The corpus has only the split {scored}: train, dev and test are random parts of it, "
            f"split by {unit}."
            if scored
            else f"The corpus has no splits: train, dev and test are random parts, split by {unit}."
        )
        scored = TEST
    sample_seed = None if drawn_from is None else seed
    limited = ((train, sizes.train), (dev, sizes.dev), (test, sizes.test))
    if sample_seed is not None and any(
        maximum is not None and len(docs) > maximum for docs, maximum in limited
    ):
        notes.append(f"There are more texts than are used: a random sample (seed {seed}) is used.")
    train, dev, test = (_limited(docs, maximum, sample_seed) for docs, maximum in limited)
    for name, docs in (("train", train), ("dev", dev), (scored, test)):
        if not docs:
            raise WorkbenchError(
                f"the split {name} has no sentences.",
                code="split-empty",
                where=corpus.name,
                remedy="Give sentences for training, for early stopping and for scoring.",
            )
    notes.extend(few_sentences_caveat(len(test)))
    return Parts(tuple(train), tuple(dev), tuple(test), scored, tuple(notes))


def _documents(docs: Sequence["Doc"]) -> list[str]:
    """Return the names of documents; none if there are too few to split by document."""
    names = list(dict.fromkeys(doc._.document for doc in docs))
    return names if len(names) >= 3 else []


def _limited(docs: list["Doc"], maximum: int | None, seed: int | None) -> list["Doc"]:
    """Return at most `maximum` Docs in their order: the first, or a random sample by the seed."""
    if seed is None or maximum is None or len(docs) <= maximum:
        return docs[:maximum]
    sample = Random(f"few {seed}").sample(range(len(docs)), maximum)
    return [docs[index] for index in sorted(sample)]


def _require(docs: Sequence["Doc"], n_parts: int, where: str) -> None:
    if len(docs) >= n_parts:
        return
    raise WorkbenchError(
        f"{len(docs)} sentence{'' if len(docs) == 1 else 's'} cannot be split in {n_parts} parts.",
        code="too-few-sentences",
        where=where,
        remedy="Give more sentences, or a folder with train, dev and test files.",
    )


def n_split_off(n: int) -> int:
    """Return how many of `n` documents or sentences are split off for one part."""
    return max(1, round(SHARE * n))


def cut(docs: Sequence["Doc"], seed: int, where: str) -> tuple[list["Doc"], list["Doc"]]:
    """Return what stays and what is split off: whole documents where possible, else sentences."""
    _require(docs, 2, where)
    names = _documents(docs)
    if names:
        sample = set(Random(f"parts {seed}").sample(names, n_split_off(len(names))))
        mask = [doc._.document in sample for doc in docs]
    else:
        size = n_split_off(len(docs))
        indices = set(Random(f"parts {seed}").sample(range(len(docs)), size))
        mask = [index in indices for index in range(len(docs))]
    stays = [doc for doc, is_cut in zip(docs, mask, strict=True) if not is_cut]
    return stays, [doc for doc, is_cut in zip(docs, mask, strict=True) if is_cut]


def few_sentences_caveat(n: int, unit: str = "sentence") -> tuple[str, ...]:
    """Return a caveat for intervals over few sentences, or documents; nothing if n is enough."""
    if n >= FEW:
        return ()
    counted = f"{plural(n, unit)} {'is' if n == 1 else 'are'}"
    return (
        f"Only {counted} scored: with fewer than {FEW}, intervals are too narrow and p-values too "
        "small.",
    )
