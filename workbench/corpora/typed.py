"""A text that a user typed: as a Doc, and one of its words by its text or its index.

Costs: splitting the text into words, a millisecond.
"""

from collections.abc import Sequence
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
    return index_of([token.text for token in doc], word)


def index_of(words: Sequence[str], word: str | int) -> int:
    """The index of one of the words of a text, given as text or as its index."""
    if isinstance(word, int):
        if 0 <= word < len(words):
            return word
        raise WorkbenchError(
            f"the text has no word {word}; it has {len(words):,} words.",
            code="word-unknown",
            remedy=f"Choose an index from 0 to {len(words) - 1}.",
        )
    found = [index for index, text in enumerate(words) if text == word]
    found = found or [n for n, text in enumerate(words) if text.lower() == word.lower()]
    if len(found) == 1:
        return found[0]
    if found:
        raise WorkbenchError(
            f"the text has the word {word!r} {len(found)} times.",
            code="word-unknown",
            remedy=f"Name its index: {', '.join(map(str, found))}.",
        )
    if word.isdecimal() and word.isascii():
        return index_of(words, int(word))
    raise WorkbenchError(
        f"the text has no word {word!r}.",
        code="word-unknown",
        remedy=f"Choose a word as it is split: {' · '.join(words[:20])}",
    )
