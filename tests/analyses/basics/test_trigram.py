"""The trigram baseline is a probability distribution, and fills gaps as Bayes would."""

import numpy as np
import pytest

from workbench import WorkbenchError
from workbench.analyses.basics.trigram import count_trigrams, nats

TEXT = [[0, 1, 2, 3], [0, 1, 2, 4], [5, 1, 3, 3], [0, 2, 2, 4, 1], [6]]


@pytest.mark.parametrize("context", [(0, 1), (8, 8), (8, 0), (3, 6), (7, 7)])
def test_probabilities_sum_to_one(context: tuple[int, int]) -> None:
    model = count_trigrams(TEXT, 8)
    assert model.given(*context).sum() == pytest.approx(1)
    assert model.double(context[1]).sum() == pytest.approx(1)
    assert (model.given(*context) > 0).all()  # even of what was never seen


def test_a_text_of_one_certain_course_costs_almost_nothing() -> None:
    model = count_trigrams([[0, 1, 2, 3]] * 1000, 4)
    assert nats(model, [0, 1, 2, 3]).sum() < 0.01
    assert nats(model, [3, 2, 1, 0]).sum() > 10


def test_a_gap_is_filled_as_the_product_of_its_three_trigrams() -> None:
    model = count_trigrams(TEXT, 8)
    for before, after in ([(8, 0), (2, 3)], [(0, 1), (4, 9)], [(5, 1), (3,)], [(0, 2), ()]):
        expected = []
        for w in range(model.vocabulary):
            whole = [*before, w, *after]
            expected.append(
                sum(
                    np.log(model.given(a, b)[c])
                    for a, b, c in zip(whole, whole[1:], whole[2:], strict=False)
                )
            )
        np.testing.assert_allclose(model.filling(before, after), expected, rtol=1e-6)


def test_no_text_is_an_error() -> None:
    with pytest.raises(WorkbenchError, match="too-few-sentences"):
        count_trigrams([], 8)
    with pytest.raises(WorkbenchError, match="vocabulary-too-large"):
        count_trigrams([[1]], 100_000)
