"""BIO tags: the spans they mean, in all their dialects, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core.bio import Span, bio, spans_of
from workbench.core.errors import WorkbenchError


@pytest.mark.parametrize(
    ("tags", "wanted"),
    [
        ("", set()),
        ("O O", set()),
        ("B-PER I-PER O B-LOC", {(0, 2, "PER"), (3, 4, "LOC")}),
        ("B-PER B-PER I-PER", {(0, 1, "PER"), (1, 3, "PER")}),  # adjacent, of one label
        ("I-PER I-PER O", {(0, 2, "PER")}),  # no B-
        ("B-PER I-LOC I-LOC", {(0, 1, "PER"), (1, 3, "LOC")}),  # I- of another label
        ("B-PER O I-PER", {(0, 1, "PER"), (2, 3, "PER")}),
        ("S-PER B-LOC E-LOC S-LOC", {(0, 1, "PER"), (1, 3, "LOC"), (3, 4, "LOC")}),
        (
            "B-A I-A L-A U-A I-A O E-A I-B",
            {(0, 3, "A"), (3, 4, "A"), (4, 5, "A"), (6, 7, "A"), (7, 8, "B")},
        ),
        ("O B-work-of-art I-work-of-art", {(1, 3, "work-of-art")}),
    ],
)
def test_entities_of_tags(tags: str, wanted: set[Span]) -> None:
    assert spans_of(tags.split()) == wanted


@pytest.mark.parametrize("tag", ["PER", "X-PER", "o", "B-", "I", ""])
def test_other_tags_than_bio_are_refused(tag: str) -> None:
    with pytest.raises(WorkbenchError, match="is not a BIO tag"):
        spans_of(["O", tag])


@given(st.lists(st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"]), max_size=10))
def test_tags_of_entities_of_tags_have_the_same_entities(tags: list[str]) -> None:
    again = bio(len(tags), spans_of(tags))
    assert spans_of(again) == spans_of(tags)
    assert [tag == "O" for tag in again] == [tag == "O" for tag in tags]


def test_of_overlapping_spans_the_longest_is_kept_then_the_first() -> None:
    nested: set[Span] = {(0, 1, "LOC"), (0, 3, "ORG"), (3, 4, "LOC")}
    assert bio(4, nested) == ["B-ORG", "I-ORG", "I-ORG", "B-LOC"]
    assert bio(4, {(1, 3, "B"), (0, 2, "A")}) == ["B-A", "I-A", "O", "O"]


@pytest.mark.parametrize("span", [(2, 4, "A"), (-1, 1, "A"), (1, 1, "A")])
def test_a_span_outside_the_words_is_refused(span: Span) -> None:
    with pytest.raises(WorkbenchError, match="is not within 3 words"):
        bio(3, {span})
