"""BIO tags: spans as one tag per word, and back.

O is outside of all spans, B- begins a span, I- continues it. BIOES and BILOU are read too.
Costs: one pass.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from workbench.core.errors import WorkbenchError

Span = tuple[int, int, str]  # first word, word after the last word, label

OUTSIDE = "O"
BEGINS, CONTINUES, LAST = ("B", "S", "U"), ("I", "E", "L"), ("E", "L", "S", "U")
KNOWN = "Known: O; B- and I- with a label; of BIOES and BILOU also E-, L-, S- and U-."


def spans_of(tags: Sequence[str]) -> set[Span]:
    """Return the spans of BIO tags; an I- without a span to continue begins one, as in conlleval.

    E- and L- end a span; S- and U- are spans of one word, as in BIOES and BILOU.
    """
    spans: set[Span] = set()
    start, open_label = 0, ""
    for position, tag in enumerate([*tags, "O"]):
        if not is_tag(tag):
            raise WorkbenchError(f"{tag!r:.60} is not a BIO tag.", code="tag-invalid", remedy=KNOWN)
        kind, _, label = tag.partition("-")
        if open_label and not (kind in CONTINUES and label == open_label):
            spans.add((start, position, open_label))
            open_label = ""
        if label and not open_label:
            start, open_label = position, label
        if kind in LAST:
            spans.add((start, position + 1, label))
            open_label = ""
    return spans


def is_tag(tag: str) -> bool:
    """Return whether a tag is O, or one of the letters with a label."""
    return tag == OUTSIDE or (tag[:1] in BEGINS + CONTINUES and tag[1:2] == "-" and len(tag) > 2)


def bio(n_words: int, spans: AbstractSet[Span]) -> list[str]:
    """Return BIO tags. Of overlapping spans the longest is used; of equally long ones the first."""
    tags = ["O"] * n_words
    for start, end, label in sorted(spans, key=lambda span: (span[0] - span[1], span)):
        if not 0 <= start < end <= n_words:
            raise WorkbenchError(
                f"the span {start}:{end} ({label}) is not within {n_words} words.",
                code="span-invalid",
                remedy="Count words from 0. A span has at least one word and excludes its end.",
            )
        if set(tags[start:end]) == {"O"}:
            tags[start:end] = [f"B-{label}"] + [f"I-{label}"] * (end - start - 1)
    return tags
