"""No method of attribution raises for a baseline, a number of steps or a length of text."""

import itertools
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.minis import shared
from workbench.analyses.attribution import methods
from workbench.analyses.attribution.methods import LAYER_METHODS, METHODS

BASELINES = ("mask", "mean", "zero", "pad", "random")
STEPS = (1, 2, 3, 17, 64)
LENGTHS = (1, 2, 7, 60, 200)
# refusals in words: a method or baseline that the model has not, or a text without another word
REFUSED = {"no-attention", "model-unsupported", "setting-invalid", "text-empty", "word-unknown"}
# captum's own rules do not cover transformers, which deeplift says for every input
TRIED = [name for name in METHODS if name != "deeplift"]
QUICK = [
    (name, BASELINES[n % 5], STEPS[n % 4], LENGTHS[n % 3])
    for n, name in enumerate(each for each in TRIED for _ in range(2))
]


def text_of(length: int) -> str:
    words = "Ben sees the big dog and the cat walks to the hill".split()
    return " ".join(words[n % len(words)] for n in range(length))


def explained(model: wb.Model, method: str, baseline: str, steps: int, length: int) -> None:
    word = None if model.objective == "causal" else min(length - 1, 3)
    options = {"baseline": baseline, "max_steps": steps, "samples": 1, "word": word}
    try:
        found = wb.attribute(model, text_of(length), method=method, **options)
    except wb.WorkbenchError as error:
        assert error.code in REFUSED, error
        assert error.remedy
        return
    assert np.isfinite(found.scores).all()


def test_no_method_raises() -> None:
    models = [shared(name) for name in ("mini:bert", "mini:gpt")]
    for number, case in enumerate(QUICK):  # each method by one of both and the other
        explained(models[number % 2], *case)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mini:bert", "mini:gpt", "mini:t5", "mini:elmo"])
@pytest.mark.parametrize("method", TRIED)
def test_no_method_raises_on_the_whole_grid(name: str, method: str) -> None:
    model = shared(name)
    lengths = LENGTHS[:3] if method in LAYER_METHODS else LENGTHS
    for baseline, steps, length in itertools.product(BASELINES, STEPS, lengths):
        explained(model, method, baseline, steps, length)


def test_a_gradient_that_is_not_a_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a square root at the baseline zero, where the output itself is finite."""
    known = methods._Task.of_vectors
    monkeypatch.setattr(methods._Task, "of_vectors", lambda *a: known(*a) * np.nan)
    model = shared("mini:gpt")
    for method in ("integrated-gradients", "gradient-x-input"):
        with pytest.raises(wb.WorkbenchError, match="not a finite number") as caught:
            wb.attribute(model, text_of(5), method=method, baseline="zero")
        assert caught.value.code == "not-a-number"


def test_a_map_that_misses_more_than_one_percent_says_that_it_is_no_explanation() -> None:
    model = shared("mini:gpt")
    path: Any = {"method": "integrated-gradients", "measure": "logit", "baseline": "zero"}
    rough = wb.attribute(model, text_of(7), **path, max_steps=1)
    assert rough.missed > 0.01 and "no explanation" in rough.notes[-1]
    exact = wb.attribute(model, text_of(7), **path)
    assert exact.missed <= 0.01 and not exact.notes
