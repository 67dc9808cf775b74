"""Minimal pairs: two sentences that differ in one thing, of which the first is right.

They come as rows with both sentences (BLiMP's JSONL, whose columns `sentence_good` and
`sentence_bad` are known; a folder of its files is one corpus), or as Docs one after the other that
share a label `pair` (`primer/acceptability`). A stream; costs nothing beside the reading.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from spacy.tokens import Doc, Span

from workbench.corpora.layers import mentions
from workbench.errors import WorkbenchError

RIGHT = "acceptable"


class Pair(NamedTuple):
    """A sentence, the same with a fault, and what the fault is about, from fine to coarse."""

    good: Doc
    bad: Doc
    phenomenon: str  # BLiMP's `linguistics_term`; where there is none, what is next to it
    paradigm: str = ""  # BLiMP's `UID`
    field: str = ""  # BLiMP's: morphology, syntax, semantics, syntax_semantics

    @property
    def identical(self) -> bool:
        """Whether the two are the same text: some of BLiMP's are."""
        return self.good.text == self.bad.text


def minimal_pairs(docs: Iterable[Doc]) -> Iterator[Pair]:
    """The pairs there are in these Docs, in their order."""
    before: Doc | None = None
    found = False
    for doc in docs:
        segments = sorted(mentions(doc, "segments")) if "segments" in doc.spans else []
        if len(segments) == 2:
            good, bad = (_alone(doc[part.start : part.end]) for part in segments)
            found = True
            yield Pair(good, bad, *_about(doc))
        elif before is not None and _are_twins(before, doc):
            found = True
            first = before._.labels.get("acceptability") == RIGHT
            yield Pair(*((before, doc) if first else (doc, before)), *_about(doc))
            before = None
            continue
        before = doc
    if not found:
        raise WorkbenchError(
            "there are no minimal pairs in this corpus.",
            remedy="Read primer/acceptability, or BLiMP's JSONL: a file or the folder of all.",
        )


def _alone(part: Span) -> Doc:
    """A sentence without the space that follows it where another does."""
    spaces = [bool(token.whitespace_) for token in part]
    return Doc(part.doc.vocab, [token.text for token in part], [*spaces[:-1], False])


def _are_twins(first: Doc, second: Doc) -> bool:
    one, other = first._.labels, second._.labels
    judged = {one.get("acceptability"), other.get("acceptability")}
    return (
        "pair" in one and one["pair"] == other.get("pair") and RIGHT in judged and len(judged) == 2
    )


def _about(doc: Doc) -> tuple[str, str, str]:
    """Phenomenon, paradigm and field, as the labels of the text say."""
    known = {name: str(value) for name, value in doc._.labels.items()}
    paradigm, field = known.get("UID", ""), known.get("field", "")
    phenomenon = known.get("phenomenon") or known.get("linguistics_term")
    return phenomenon or paradigm or field or "all", paradigm, field
