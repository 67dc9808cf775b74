"""Train, dev and test of a corpus: its own splits where it has them, else cut by document.

Training, early stopping and scoring never share a document. Of a split with more sentences than
its maximum (`SplitSizes`) the first are taken, or a random sample. Costs one reading of the corpus.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from pydantic import Field

from workbench.core.errors import WorkbenchError
from workbench.core.experiment import Settings, few_sentences

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.corpora.corpus import Corpus

SHARE = 0.1  # of the documents, for each part that is cut off
TRAIN, DEV, TEST = "train", "dev", "test"
PARTS = (TRAIN, DEV, TEST)


@dataclass(frozen=True)
class SplitSizes:
    """Maximum number of sentences of each split; None for all."""

    train: int | None = None
    dev: int | None = None
    test: int | None = None


class SplitSettings(Settings):
    """Settings of an experiment that trains something: how much of each split it uses."""

    max_sentences: int | None = Field(
        1000, ge=1, description="Maximum number of sentences of each split (empty: all)."
    )
    max_train: int | None = Field(
        None, ge=1, description="Maximum number of sentences to train on (default: max_sentences)."
    )
    max_dev: int | None = Field(
        None,
        ge=1,
        description="Maximum number of sentences for early stopping (default: max_sentences).",
    )
    max_test: int | None = Field(
        None, ge=1, description="Maximum number of sentences to score (default: max_sentences)."
    )

    @property
    def split_sizes(self) -> SplitSizes:
        """The maximum of each split."""
        each = (self.max_train, self.max_dev, self.max_test)
        return SplitSizes(*(self.max_sentences if size is None else size for size in each))


@dataclass(frozen=True)
class Parts:
    """The Docs of each part, and what the user should know of how they came about."""

    train: tuple["Doc", ...]
    dev: tuple["Doc", ...]
    test: tuple["Doc", ...]
    scored: str  # the corpus' own name of what is scored
    notes: tuple[str, ...] = ()

    @property
    def docs(self) -> tuple["Doc", ...]:
        """All, part by part."""
        return (*self.train, *self.dev, *self.test)

    @property
    def part_of(self) -> tuple[int, ...]:
        """The part of each of `docs`, as its place in `PARTS`."""
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
    """The sentences of each part, at most `sizes`; `split` names the one that is scored.

    With `drawn_from`, that many sentences of a split are read, and the part is sampled from them by
    the seed. `sift` gets the name and the Docs of each split that was read, and returns those to
    keep.
    """
    scored = split or next((name for name in (TEST, DEV) if name in corpus.splits), "")
    if scored:
        corpus.docs(scored, 0)  # raises where there is none of that name
    others = [name for name in corpus.splits if name != scored]
    notes: list[str] = []

    def read(name: str | None, most: int | None) -> list["Doc"]:
        found = list(corpus.docs(name, most if most is None or drawn_from is None else drawn_from))
        if drawn_from is not None and most is not None and len(found) == drawn_from:
            notes.append(f"Texts of {name or 'it'} were drawn from its first {drawn_from:,}.")
        return found if sift is None else sift(name or corpus.name, found)

    if scored and others:
        test = read(scored, sizes.test)
        learnt = TRAIN if TRAIN in others else others[0]
        train = read(learnt, sizes.train)
        if learnt != TRAIN:
            notes.append(f"There is no train beside {scored}: what is learnt from is {learnt}.")
        if DEV in others and learnt != DEV:
            dev = read(DEV, sizes.dev)
        else:
            train, dev = cut(train, seed, corpus.name)
            notes.append(
                f"What tells when to stop was cut from {learnt}, for it has no split of its own."
            )
    else:
        limits = (sizes.train, sizes.dev, sizes.test)
        most = None if None in limits else sum(each or 0 for each in limits)
        every = read(None, most)
        _require(every, 3, corpus.name)
        rest, test = cut(every, seed, corpus.name)
        train, dev = cut(rest, seed + 1, corpus.name)
        by = "document" if _documents(every) else "sentence"
        notes.append(
            f"There is nothing but {scored}: train, dev and test were drawn from it by {by}."
            if scored
            else f"The corpus has no splits: train, dev and test were drawn by {by}."
        )
        scored = TEST
    lot = None if drawn_from is None else seed
    wanted = ((train, sizes.train), (dev, sizes.dev), (test, sizes.test))
    if lot is not None and any(most is not None and len(docs) > most for docs, most in wanted):
        notes.append(f"Of more texts than are used some were drawn by seed {seed}.")
    train, dev, test = (_few(docs, most, lot) for docs, most in wanted)
    for name, docs in (("train", train), ("dev", dev), (scored, test)):
        if not docs:
            raise WorkbenchError(
                f"there is nothing in {name}.",
                where=corpus.name,
                remedy="One part is learnt from, one tells when to stop, and one is scored.",
            )
    notes.extend(few_sentences(len(test)))
    return Parts(tuple(train), tuple(dev), tuple(test), scored, tuple(notes))


def _documents(docs: Sequence["Doc"]) -> list[str]:
    """The names of documents; none where they are too few to be divided."""
    names = list(dict.fromkeys(doc._.document for doc in docs))
    return names if len(names) >= 3 else []


def _few(docs: list["Doc"], most: int | None, lot: int | None) -> list["Doc"]:
    """So many at most: the first, or those the lot falls on, in their order."""
    if lot is None or most is None or len(docs) <= most:
        return docs[:most]
    return [docs[place] for place in sorted(Random(f"few {lot}").sample(range(len(docs)), most))]


def _require(docs: Sequence["Doc"], least: int, where: str) -> None:
    if len(docs) >= least:
        return
    raise WorkbenchError(
        f"{len(docs)} sentence{'' if len(docs) == 1 else 's'} cannot be divided in {least}.",
        where=where,
        remedy="Give more sentences, or a folder with train, dev and test files.",
    )


def cut(docs: Sequence["Doc"], seed: int, where: str) -> tuple[list["Doc"], list["Doc"]]:
    """What stays and what is cut off: whole documents where there are several, else sentences."""
    _require(docs, 2, where)
    names = _documents(docs)
    if names:
        off = set(Random(f"parts {seed}").sample(names, max(1, round(SHARE * len(names)))))
        chosen = [doc._.document in off for doc in docs]
    else:
        size = max(1, round(SHARE * len(docs)))
        places = set(Random(f"parts {seed}").sample(range(len(docs)), size))
        chosen = [place in places for place in range(len(docs))]
    stays = [doc for doc, off_ in zip(docs, chosen, strict=True) if not off_]
    return stays, [doc for doc, off_ in zip(docs, chosen, strict=True) if off_]
