"""The numbers of a word, on planted counts and on the maps of a model."""

import numpy as np
import pytest

import workbench as wb
from workbench.analyses.editing.views.part import heads_of
from workbench.analyses.editing.words import attention_at, frequency, pieces_of


def test_a_word_is_counted_ranked_and_placed() -> None:
    codes = np.array([0, 1, 2, 1, 1, 2, 0, 1])
    found = frequency(codes, 4, 2, 5)
    assert (found.times, found.rank, found.places.tolist()) == (2, 2, [2, 5])
    assert frequency(codes, 4, 1, 2).places.tolist() == [1, 3]
    assert frequency(codes, 4, 3, 2)[:2] == (0, 4)


@pytest.mark.parametrize("ref", ["mini:bert", "mini:gpt"])
def test_attention_to_a_word_is_the_mean_over_the_others(ref: str) -> None:
    model, doc = wb.load(ref, device="cpu"), next(wb.read("primer").docs("test"))
    table = attention_at(model, doc, 1, heads_of(model)).set_index("head")
    assert len(table) == 16 and table["received"].between(0, 1).all()
    assert (table["to"] != doc[1].text).all()
    if ref == "mini:gpt":  # a causal head gives nothing to later words
        assert set(table["to"]) <= {doc[0].text}
    assert len(pieces_of(model, doc, 1)) >= 1
