"""A counterfactual exchanges a word on which the prediction depends."""

from typing import Any

import pytest

from tests.analyses.predictions.known import KEY, planted
from tests.minis import shared
from tests.night import mostly
from workbench.analyses.attribution.attribute import prediction_of
from workbench.analyses.predictions.counterfactual import counterfactual
from workbench.analyses.predictions.edits import pieces_of


def prediction(model: Any, text: str, **options: Any) -> Any:
    return prediction_of(model, text, **options)[0]


def test_the_word_that_the_model_reads_is_exchanged() -> None:
    """A planted model depends on one token only."""
    model = planted()
    swap = counterfactual(prediction(model, f"Ben {KEY} to [MASK]"))
    assert swap is not None and swap[0] == 1 and swap[1] != KEY


@pytest.mark.parametrize("name", mostly(("bert", "gpt", "t5", "elmo"), "t5"))
def test_the_suggested_text_changes_the_prediction(name: str) -> None:
    model = shared(f"mini:{name}")
    text = "The girls did not see it because they" + ("" if name == "gpt" else " were tall.")
    options = {} if name == "gpt" else {"word": "were"}
    own = prediction(model, text, **options)
    swap = counterfactual(own)
    assert swap is not None
    word, new = swap
    assert new != own.doc[word].text
    other = "".join(
        (new if token.i == word else token.text) + token.whitespace_ for token in own.doc
    )
    before, after = (
        prediction(model, each, **options).logits()[0].detach().softmax(-1)
        for each in (text, other)
    )
    choice = int(before.argmax())
    assert abs(float(before[choice] - after[choice])) > 0.02


def test_a_word_of_as_many_pieces_comes_before_a_larger_change() -> None:
    """Otherwise no state of the exchanged word could be restored."""
    own = prediction(shared("mini:gpt"), "The zookeeper saw it because")
    swap = counterfactual(own)
    assert swap is not None
    assert int((own.text.words[0] == swap[0]).sum()) == len(pieces_of(own, *swap))


def test_a_text_without_such_a_word_has_no_counterfactual() -> None:
    model = shared("mini:gpt")
    assert counterfactual(prediction(model, "Ben")) is None  # nothing before it predicts another
    assert counterfactual(prediction(model, "...")) is None


def test_a_capital_letter_stays() -> None:
    model = shared("mini:bert")
    own = prediction(model, "Girls were tall.", word="were")
    swap = counterfactual(own)
    assert swap is not None
    assert swap[0] != 0 or swap[1][0].isupper()
