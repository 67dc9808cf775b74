"""Pairs of texts: what a model reads, and what it should write or find in it.

    pairs = text_pairs(wb.read("squad/dev-v2.0.json").docs("dev"))

A pair of a corpus is a source and its target, such as a document and its summary; a question with
its passage has its answers as targets, which may be none. Costs: the reading of the stream.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from workbench.core.errors import WorkbenchError
from workbench.corpora.counterfactuals import alone
from workbench.corpora.layers import mentions

if TYPE_CHECKING:
    from spacy.tokens import Doc

TASK = "task"  # the label with what is to be done, T5's prefix
SENTENCES = 3  # of the null lead-3


class TextPair(NamedTuple):
    """A source with its right texts; of a question, its passage with its answers."""

    doc: "Doc"  # of both texts
    source: str
    targets: tuple[str, ...]  # of a question none if the passage has no answer
    question: str | None = None  # None: it asks nothing
    task: str = ""

    @property
    def lead(self) -> str:
        """The first three sentences of the source, by their punctuation."""
        from spacy.pipeline import Sentencizer

        doc = Sentencizer()(alone(self.doc.spans["segments"][self.question is not None]))
        last = list(doc.sents)[:SENTENCES][-1]
        return str(doc[: last.end].text)


def text_pairs(docs: "Iterable[Doc]") -> list[TextPair]:
    """The pairs of these Docs, in order."""
    pairs = [pair for doc in docs if (pair := _pair(doc)) is not None]
    if not pairs or len({pair.question is None for pair in pairs}) > 1:
        raise WorkbenchError(
            "there are no pairs of texts in this corpus."
            if not pairs
            else "some texts of this corpus have questions, and some have none.",
            code="no-pairs",
            remedy="Read primer/rewrites, primer/questions, a file of SQuAD, or a table with the "
            "columns source and target (or document and summary, or question, context and "
            "answers).",
        )
    return pairs


def _pair(doc: "Doc") -> TextPair | None:
    parts = doc.spans.get("segments", ())
    if len(parts) != 2:
        return None
    first, second = (part.text for part in parts)
    if "answers" not in doc.spans:
        return TextPair(doc, first, (second,), task=str(doc._.labels.get(TASK, "")))
    answers = dict.fromkeys(doc[m.start : m.end].text for m in mentions(doc, "answers"))
    return TextPair(doc, second, tuple(answers), first)
