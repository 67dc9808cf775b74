"""Words of a text in the attention browser: replaced, masked, deleted, swapped, or predicted.

Costs: nothing.
"""

from typing import TYPE_CHECKING

from workbench.core.errors import WorkbenchError
from workbench.engine.model import Model

if TYPE_CHECKING:
    from spacy.tokens import Doc


def mask_of(model: Model) -> str:
    """How the model writes a hidden word; "" if it cannot read one."""
    if model.symbols.mask is None:
        return ""
    return model.piece_texts([model.symbols.mask])[0]


def with_mask(model: Model, doc: "Doc") -> "Doc":
    """The text with each [MASK] or ___ as the model writes a hidden word."""
    from workbench.corpora.markers import has_marker, with_markers

    has_symbol = model.symbols.mask is not None or model.symbols.sentinels
    return with_markers(model, doc)[0] if has_symbol and has_marker(doc.text) else doc


def hidden_words(model: Model, doc: "Doc") -> list[int]:
    """The hidden words of a text."""
    return [token.i for token in doc if token.text and token.text == mask_of(model)]


def predicted_at(model: Model, doc: "Doc", place: int) -> str:
    """What is predicted at a place, and from what; the number of words is the place after them."""
    reads = "from the words before it" if model.objective == "causal" else "from its context"
    if place == len(doc):
        return f"What comes next, {reads}."
    return f"In the place of “{doc[place].text}”, {reads}."


def edited(doc: "Doc", word: int, how: str, text: str = "", mask: str = "") -> str:
    """The text with one word replaced, masked, deleted, or swapped with the next."""
    parts = [[token.text, token.whitespace_] for token in doc]
    if how == "swap" and word + 1 < len(parts):
        parts[word][0], parts[word + 1][0] = parts[word + 1][0], parts[word][0]
    elif how == "delete":
        del parts[word]
    elif how == "mask" and mask:
        parts[word][0] = mask
    elif how == "replace" and text.strip():
        parts[word][0] = " ".join(text.split())
    else:
        raise WorkbenchError(
            f"A word cannot be edited by {how!r:.20}.",
            code="request-invalid",
            remedy="Reload the page: it is older than the state of the app.",
        )
    return "".join(part for pair in parts for part in pair).strip()


def word_in(doc: "Doc", word: object) -> int:
    """The index of a word in a request; an error if the text has no such word."""
    if type(word) is not int or not 0 <= word < len(doc):
        raise WorkbenchError(
            f"There is no word {str(word)!r:.20}.",
            code="request-invalid",
            remedy="Reload the page: it is older than the state of the app.",
        )
    return word
