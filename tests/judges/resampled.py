"""What a bootstrap over documents resamples, from its definition in the documentation."""

from collections.abc import Sequence
from typing import Any


def resampled(docs: Sequence[Any]) -> list[str]:
    """The document of each text; of a corpus with fewer than five, each text is its own."""
    names = [doc._.document or f"text {number}" for number, doc in enumerate(docs)]
    if len(set(names)) < 5:
        return [f"text {number}" for number in range(len(docs))]
    return names
