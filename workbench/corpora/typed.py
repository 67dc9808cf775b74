"""A text that a user typed: as a Doc, and one of its words by its text or its index.

Costs: splitting the text into words, a millisecond.
"""

from typing import TYPE_CHECKING

from workbench.core.errors import WorkbenchError
from workbench.corpora.encode import doc_of

if TYPE_CHECKING:
    from spacy.tokens import Doc


def readable(text: "str | Doc", name: str = "text") -> "Doc":
    """A text as a Doc; an empty one is an error."""
    doc = doc_of(text)
    if not doc.text.strip():
        raise WorkbenchError(f"The {name} is empty.", code="text-empty", remedy="Type a few words.")
    return doc


def word_index(doc: "Doc", word: str | int) -> int:
    """The index of a word of a Doc, given as text or as its index."""
    if isinstance(word, int):
        if 0 <= word < len(doc):
            return word
        raise WorkbenchError(
            f"the text has no word {word}; it has {len(doc):,} words.",
            code="word-unknown",
            remedy=f"Choose an index from 0 to {len(doc) - 1}.",
        )
    found = [token.i for token in doc if token.text == word]
    found = found or [token.i for token in doc if token.text.lower() == word.lower()]
    if len(found) == 1:
        return found[0]
    if found:
        raise WorkbenchError(
            f"the text has the word {word!r} {len(found)} times.",
            code="word-unknown",
            remedy=f"Name its index: {', '.join(map(str, found))}.",
        )
    if word.isdecimal() and word.isascii():
        return word_index(doc, int(word))
    raise WorkbenchError(
        f"the text has no word {word!r}.",
        code="word-unknown",
        remedy=f"Choose a word as it is split: {' · '.join(token.text for token in doc[:20])}",
    )
