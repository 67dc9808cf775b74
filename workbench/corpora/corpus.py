"""A corpus: named splits, each a stream of `Doc`s that can be read again from the start.

Costs: nothing is read until a split is iterated, and at most one Doc is in memory. The layers of
the first Docs are cached (`once`) for the lifetime of the corpus object.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from workbench.core.display import Displayed
from workbench.core.errors import WorkbenchError, did_you_mean, listed
from workbench.core.public import check_fields, public
from workbench.core.registry import once
from workbench.corpora.layers import layers

if TYPE_CHECKING:
    from spacy.tokens import Doc

Unit = Literal["sentence", "document"]
PEEK = 200  # Docs read per split to find the layers of a corpus


@dataclass(frozen=True)
class Options:
    """Options of reading; every format uses those that apply to it."""

    unit: Unit = "sentence"  # unit of one Doc, for formats with documents
    pipeline: str | None = None  # spaCy pipeline for raw text; None: an installed one, else blank
    language: str = "en"  # of the blank pipeline and of the vocabulary
    text: tuple[str, ...] = ()  # the one or two text columns of a table
    labels: tuple[str, ...] = ()  # label columns of a table
    layer: str | None = None  # layer name of an edge file; None: from the file name


class Reading(NamedTuple):
    """A reader prepared for some files: a function that reads one file, and notes for the user."""

    docs: "Callable[[Path], Iterator[Doc]]"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Origin:
    """The source of a corpus, from which it can be read again, and what its Docs depend on.

    Docs read from files depend on the bytes of `files`. Docs of a generated corpus depend on the
    `recipe`: two recipes are equal exactly if their Docs are equal.
    """

    ref: str
    options: Options = Options()
    files: tuple[tuple[str, Path], ...] = ()  # (split, file)
    recipe: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Corpus(Displayed):
    """Docs by split, with a name and notes on what is missing and why; `wb.read` opens one.

    Args:
        name: Name in tables and reports.
        splits: For each split, a function that reads its Docs from the start.
        notes: Notes for the user on how the corpus was read.
        origin: Source to read it from again (default: none, for Docs in memory).

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
    origin: Origin | None = None  # None: Docs in memory, or Docs from the hub
    drawn_by = "workbench.report.notebook:corpus"

    def __post_init__(self) -> None:
        check_fields(self)
        for split, read in self.splits.items():
            if not callable(read):
                raise WorkbenchError(
                    f"split {split!r} must be a function, not a {type(read).__name__}.",
                    code="wrong-type",
                    where="wb.Corpus",
                    remedy="Pass a function that returns an iterator, such as lambda: iter(docs).",
                )

    def __repr__(self) -> str:
        """The name, the splits and the source; nothing is read."""
        source = "Docs in memory"
        if self.origin is not None:
            source = self.origin.ref if self.origin.files else "built in"
        return f"<Corpus {self.name}: {', '.join(self.splits) or 'no splits'}; {source}>"

    @public
    def docs(self, split: str | None = None, limit: int | None = None) -> "Iterator[Doc]":
        """Docs of one split, or of all splits in order; `limit` is the maximum number of Docs."""
        if split is not None and split not in self.splits:
            raise WorkbenchError(
                f"there is no split {split!r}.",
                code="split-not-found",
                where=self.name,
                remedy="Leave the split out to read all of them."
                if split == "all"
                else did_you_mean(split, self.splits),
            )
        limit = _checked(limit)
        names = [split] if split is not None else list(self.splits)
        return islice((doc for name in names for doc in self.splits[name]()), limit)

    def __iter__(self) -> "Iterator[Doc]":
        return self.docs()

    def first_docs(self, n_docs: int) -> "Iterator[Doc]":
        """The first `n_docs` Docs of every split; of a generated corpus, `n_docs` in total.

        The splits of a generated corpus are alike. Held-out splits come first, because a generated
        corpus is drawn in that order.
        """
        each = (self.docs(split, n_docs) for split in reversed([*self.splits]))
        generated = self.origin is not None and bool(self.origin.recipe)
        return islice(chain.from_iterable(each), n_docs if generated else None)

    def layers(self) -> set[str]:
        """The layers found in the first Docs of every split."""
        return set(_layers(self))

    def require(self, required: Iterable[str], purpose: str) -> None:
        """Raise an error that names the missing layers unless every required layer is present."""
        present = self.layers()
        if missing := sorted(set(required) - present):
            raise WorkbenchError(
                f"{purpose} needs {', '.join(missing)}, which this corpus does not have.",
                code="layer-missing",
                where=self.name,
                remedy=f"It has {listed(sorted(present)) or 'no Docs'}. "
                "Read a corpus that has it, or raw text through a spaCy pipeline that predicts it.",
            )


@once
def _layers(corpus: Corpus) -> frozenset[str]:
    return frozenset(layer for doc in corpus.first_docs(PEEK) for layer in layers(doc))


def _checked(limit: int | None) -> int | None:
    """The maximum number of Docs; None (no maximum) if it is larger than any count can be."""
    try:
        if limit is None or index(limit) > sys.maxsize:
            return None
        if limit < 0:
            raise ValueError
    except (TypeError, ValueError):
        raise WorkbenchError(
            f"limit is {limit!r:.80}, which is not a number of Docs.",
            code="setting-invalid",
            remedy="Use a whole number of 0 or more.",
        ) from None
    return index(limit)
