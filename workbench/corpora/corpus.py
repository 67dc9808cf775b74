"""A corpus: named splits, each a stream of `Doc`s that can be read again from the start.

Nothing is read until a split is iterated, and no more than one Doc is held. What a look at the
first Docs told is remembered (`once`), for as long as the corpus object is there.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from workbench.core.errors import WorkbenchError, did_you_mean, listed
from workbench.core.public import check_fields, public
from workbench.core.registry import once
from workbench.corpora.layers import layers

if TYPE_CHECKING:
    from spacy.tokens import Doc

Unit = Literal["sentence", "document"]
PEEK = 200  # Docs looked at to say which layers a corpus has


@dataclass(frozen=True)
class Options:
    """How to read: the same for every format, each using what concerns it."""

    unit: Unit = "sentence"  # what one Doc is, where the format knows documents
    pipeline: str | None = None  # spaCy pipeline for raw text; None: an installed one, else blank
    language: str = "en"  # of the blank pipeline and of the vocabulary
    text: tuple[str, ...] = ()  # columns with the one or two texts of a table
    labels: tuple[str, ...] = ()  # columns with what is to be predicted
    layer: str | None = None  # the name of an edge file's layer; None: from the file's name


class Reading(NamedTuple):
    """A format made ready for some files: how to read one, and what the user should know."""

    docs: "Callable[[Path], Iterator[Doc]]"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Origin:
    """Where a corpus can be read from again, and what its Docs depend on.

    That is the bytes of `files`; or, of a corpus that is made, the `recipe`, which is then the same
    exactly where the Docs are.
    """

    ref: str
    options: Options = Options()
    files: tuple[tuple[str, Path], ...] = ()  # (split, file)
    recipe: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Corpus:
    """Docs by split, with a name and notes on what is missing and why; `wb.read` opens one.

    Args:
        name: What it is called in tables and reports.
        splits: For each split a function that reads its Docs from the start.
        notes: What the user should know of how it was read.
        origin: Where it can be read from again (default: nowhere, for Docs that were handed over).

    Example:
        >>> wb.read("primer:size=40")
        <Corpus primer:size=40: train, dev, test; built in>
        >>> docs = list(wb.read("primer:size=40").docs("dev"))
        >>> wb.Corpus("mine", {"test": lambda: iter(docs)})
        <Corpus mine: test; Docs in memory>
    """

    name: str
    splits: "Mapping[str, Callable[[], Iterator[Doc]]]"
    notes: tuple[str, ...] = ()
    origin: Origin | None = None  # None: Docs that were handed over, or that come from the hub

    def __post_init__(self) -> None:
        check_fields(self)
        for split, read in self.splits.items():
            if not callable(read):
                raise WorkbenchError(
                    f"split {split!r} is a {type(read).__name__}, not a function.",
                    code="wrong-type",
                    where="wb.Corpus",
                    remedy="Pass a function that returns an iterator, such as lambda: iter(docs).",
                )

    def __repr__(self) -> str:
        """Its name, its splits and where it comes from; nothing is read."""
        source = "Docs in memory"
        if self.origin is not None:
            source = self.origin.ref if self.origin.files else "built in"
        return f"<Corpus {self.name}: {', '.join(self.splits) or 'no splits'}; {source}>"

    @public
    def docs(self, split: str | None = None, limit: int | None = None) -> "Iterator[Doc]":
        """Docs of one split, or of all in their order; `limit` cuts each reading short."""
        if split is not None and split not in self.splits:
            raise WorkbenchError(
                f"there is no split {split!r}.",
                where=self.name,
                remedy=did_you_mean(split, self.splits),
            )
        limit = _checked(limit)
        chosen = [split] if split is not None else list(self.splits)
        return islice((doc for name in chosen for doc in self.splits[name]()), limit)

    def __iter__(self) -> "Iterator[Doc]":
        return self.docs()

    def first_docs(self, number: int) -> "Iterator[Doc]":
        """So many Docs of every split; of a made corpus, whose splits are alike, so many in all.

        Those that are held out come first, for a made corpus is drawn in that order.
        """
        each = (self.docs(split, number) for split in reversed([*self.splits]))
        made = self.origin is not None and bool(self.origin.recipe)
        return islice(chain.from_iterable(each), number if made else None)

    def layers(self) -> set[str]:
        """The layers found in the first Docs of every split."""
        return set(_layers(self))

    def require(self, wanted: Iterable[str], purpose: str) -> None:
        """Raise, naming what is missing, unless every layer wanted is there."""
        present = self.layers()
        if missing := sorted(set(wanted) - present):
            raise WorkbenchError(
                f"{purpose} needs {', '.join(missing)}, which this corpus does not have.",
                where=self.name,
                remedy=f"It has {listed(sorted(present)) or 'no Docs'}. "
                "Read a corpus that has it, or raw text through a spaCy pipeline that predicts it.",
            )


@once
def _layers(corpus: Corpus) -> frozenset[str]:
    return frozenset(layer for doc in corpus.first_docs(PEEK) for layer in layers(doc))


def _checked(limit: int | None) -> int | None:
    """A number of Docs; one that nothing could count up to is no limit."""
    try:
        if limit is None or index(limit) > sys.maxsize:
            return None
        if limit < 0:
            raise ValueError
    except (TypeError, ValueError):
        raise WorkbenchError(
            f"limit is {limit!r:.80}, but counts Docs.", remedy="Use a whole number from 0."
        ) from None
    return index(limit)
