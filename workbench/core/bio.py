"""BIO tags: spans as a tag a word, and back.

O is outside, B- begins a span, I- goes on with it; BIOES and BILOU are read too. Costs one pass.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from workbench.core.errors import WorkbenchError

Span = tuple[int, int, str]  # first word, word after the last, label

OUTSIDE = "O"
BEGINS, GOES_ON, LAST = ("B", "S", "U"), ("I", "E", "L"), ("E", "L", "S", "U")
KNOWN = "Known: O; B- and I- with a label; of BIOES and BILOU also E-, L-, S- and U-."


def spans_of(tags: Sequence[str]) -> set[Span]:
    """Spans of BIO tags; an I- that continues none of its label starts one, as in conlleval.

    E- and L- end a span that goes on to them, S- and U- are one word, as in BIOES and BILOU.
    """
    found: set[Span] = set()
    start, open_label = 0, ""
    for at, tag in enumerate([*tags, "O"]):
        if not is_tag(tag):
            raise WorkbenchError(f"{tag!r:.60} is not a BIO tag.", remedy=KNOWN)
        kind, _, label = tag.partition("-")
        if open_label and not (kind in GOES_ON and label == open_label):
            found.add((start, at, open_label))
            open_label = ""
        if label and not open_label:
            start, open_label = at, label
        if kind in LAST:
            found.add((start, at + 1, label))
            open_label = ""
    return found


def is_tag(tag: str) -> bool:
    """Whether it is O, or one of the letters with a label."""
    return tag == OUTSIDE or (tag[:1] in BEGINS + GOES_ON and tag[1:2] == "-" and len(tag) > 2)


def bio(words: int, spans: AbstractSet[Span]) -> list[str]:
    """BIO tags. Of spans that overlap the longest is kept, of equally long ones the first."""
    tags = ["O"] * words
    for start, end, label in sorted(spans, key=lambda span: (span[0] - span[1], span)):
        if not 0 <= start < end <= words:
            raise WorkbenchError(
                f"The span {start}:{end} ({label}) is not within {words} words.",
                remedy="Count words from 0; a span has at least one, and its end is not in it.",
            )
        if set(tags[start:end]) == {"O"}:
            tags[start:end] = [f"B-{label}"] + [f"I-{label}"] * (end - start - 1)
    return tags
