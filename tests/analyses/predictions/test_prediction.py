"""A prediction computes the same from pieces and from input vectors, for every architecture."""

from functools import cache
from typing import TYPE_CHECKING

import pytest
import torch

import workbench as wb
from tests.minis import shared
from tests.models import headed
from tests.models.test_logits import HEADED
from tests.night import mostly
from workbench.analyses.predictions.prediction import (
    Prediction,
    following,
    of_word,
    words_to_predict,
)

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench import Model

MINI = ("mini:bert", "mini:gpt", "mini:elmo", "mini:t5")
BY_DAY = ("mini:elmo", "mini:t5", "bert", "gpt2", "xlnet", "bart-3-2")


@cache
def doc() -> "Doc":
    return next(wb.read("primer").docs("test", limit=1))


def model_of(name: str) -> "Model":
    return shared(name) if ":" in name else headed.made(name, HEADED[name], False)


@pytest.mark.parametrize("name", mostly((*MINI, *HEADED), *BY_DAY))
def test_input_vectors_give_the_same_logits(name: str) -> None:
    prediction = of_word(model_of(name), doc(), 2)
    with torch.no_grad():
        expected = prediction.logits()
        vectors = prediction.input_vectors()
        doubled = {stack: torch.cat([x, x.flip(-1)]) for stack, x in vectors.items()}
        both = prediction.logits_from(doubled)
    torch.testing.assert_close(both[:1], expected, atol=1e-4, rtol=1e-4)
    assert (both[1:] - expected).abs().max() > 1e-4, "other vectors give other logits"
    assert set(vectors) == set(prediction.inputs)
    for stack, pieces in prediction.inputs.items():
        assert vectors[stack].shape[:2] == pieces.ids.shape


@pytest.mark.parametrize("name", mostly((*MINI, *HEADED), *BY_DAY))
def test_gradients_flow_into_input_vectors(name: str) -> None:
    prediction = of_word(model_of(name), doc(), 2)
    vectors = {stack: x.requires_grad_() for stack, x in prediction.input_vectors().items()}
    gradients = torch.autograd.grad(
        prediction.logits_from(vectors)[0].max(), list(vectors.values())
    )
    assert all(bool(gradient.abs().sum()) for gradient in gradients)


@pytest.mark.parametrize("name", MINI)
def test_the_predicted_word_is_not_read(name: str) -> None:
    """The input of a prediction is the same whatever the word is."""
    from spacy.tokens import Doc

    words = [token.text for token in doc()]
    other = Doc(doc().vocab, words=[*words[:2], words[3], *words[3:]])
    model = shared(name)
    first, second = (
        of_word(model, Doc(doc().vocab, words=words), 2),
        of_word(model, other, 2),
    )
    with torch.no_grad():
        torch.testing.assert_close(first.logits(), second.logits())
    assert first.gold != second.gold


@pytest.mark.parametrize("name", mostly(MINI, "mini:bert", "mini:elmo"))
def test_the_mini_models_predict_some_words_of_their_corpus(name: str) -> None:
    model = shared(name)
    hits = total = 0
    for text in wb.read("primer").docs("test", limit=3):
        for word in words_to_predict(model, text):
            prediction: Prediction = of_word(model, text, word)
            with torch.no_grad():
                hits += int(prediction.logits().argmax()) == prediction.gold
            total += 1
    assert hits / total > 0.3


def test_what_follows_a_text() -> None:
    prediction = following(shared("mini:gpt"), doc())
    with torch.no_grad():
        logits = prediction.logits()
    assert logits.shape[0] == 1
    assert prediction.names([int(logits.argmax())])
