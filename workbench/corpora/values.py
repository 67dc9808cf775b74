"""What Workbench keeps in a Doc's extension attributes, checked: it may come from any file or hand.

Whatever is wrong with a value is one of the errors in `WRONG`. Costs a microsecond an edge.
"""

from numbers import Real
from typing import Any

from spacy.tokens import Doc

from workbench.corpora.layers import checked_edge, checked_range, checked_text

WRONG = (ValueError, TypeError, AttributeError)


def restored(doc: Doc, key: Any, value: Any) -> Any:
    """An extension value in the types that Workbench gives it, since msgpack knows only its own."""
    match key:
        case ("._.", "edges", None, None):
            return {
                checked_text(name): [checked_edge(doc, edge) for edge in found]
                for name, found in value.items()
            }
        case ("._.", "labels", None, None):
            return {checked_text(name): _label(label) for name, label in value.items()}
        case ("._.", "multiword", None, None):
            return tuple(checked_range(doc, words) for words in value)
        case ("._.", "sent_ids", None, None):
            return tuple(map(checked_text, value))
        case ("._.", "document", None, None) | ("._.", "form", int(), None):
            return checked_text(value)
    return value


def _label(value: Any) -> str | Real | None:
    if not isinstance(value, str | Real | None):
        raise ValueError(f"{value!r:.80} is neither text nor a number")
    return value
