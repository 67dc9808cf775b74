"""A metric of one's own, and effects to first order, which are what autograd says by itself."""

from typing import Any

import pytest
import torch
from torch import Tensor

import workbench as wb
from tests.minis import shared
from tests.night import mostly
from workbench import WorkbenchError

CLEAN, CORRUPT = "The girls [MASK] tall.", "The girl [MASK] tall."
PAIRS = {
    "mini:bert": (CLEAN, CORRUPT),
    "mini:gpt": ("The girls", "The girl"),
    "mini:t5": (CLEAN, CORRUPT),
    "mini:elmo": ("The girls", "The girl"),
}

WHAT = ("states", "heads", "mlps", "attentions")
CASES = [(name, what) for name in PAIRS for what in WHAT if name != "mini:elmo" or what == "states"]
BY_DAY = [
    *(("mini:gpt", what) for what in WHAT), ("mini:t5", "heads"), ("mini:elmo", "states"),
]  # fmt: skip


def choices(found: Any) -> list[int]:
    return [found.target, found.against]


@pytest.mark.parametrize("name", mostly(("mini:bert", "mini:gpt"), "mini:bert"))
def test_a_metric_of_ones_own_is_restored_like_a_target(name: str) -> None:
    model = shared(name)
    own, other = (model.vocabulary[w] for w in _forms(name))

    def margin(logits: Tensor) -> Tensor:
        return logits[:, own] - logits[:, other]

    for what in ("states", "heads"):
        expected = wb.patch(model, *PAIRS[name], own, other, what=what)  # type: ignore[arg-type]
        found = wb.patch(model, *PAIRS[name], metric=margin, what=what)  # type: ignore[arg-type]
        assert found.table["effect"].equals(expected.table["effect"])
        assert found.target == "margin" and "margin" in repr(found)
        assert found.figure().layout.title.text


def _forms(name: str) -> tuple[str, str]:
    return ("were", "was") if name == "mini:bert" else ("Ġwere", "Ġwas")


def test_a_metric_that_is_not_a_number_for_each_row_is_refused() -> None:
    model = shared("mini:bert")
    with pytest.raises(WorkbenchError, match="metric returns"):
        wb.patch(model, CLEAN, CORRUPT, metric=lambda logits: logits)
    with pytest.raises(WorkbenchError, match="metric"):
        wb.patch(model, CLEAN, CORRUPT, "were", metric=lambda logits: logits[:, 0])
    with pytest.raises(WorkbenchError, match="the metric is") as same:
        wb.patch(model, CLEAN, CORRUPT, metric=lambda logits: logits[:, 0] * 0)
    assert "target" not in str(same.value)  # a target next to a metric is refused
    with pytest.raises(WorkbenchError, match="method"):
        wb.patch(model, CLEAN, CORRUPT, method="fast")  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "what"), mostly(CASES, *BY_DAY))
def test_effects_to_first_order_are_differences_for_small_changes(name: str, what: Any) -> None:
    """A thousandth of the way to the clean state moves the number by a thousandth of the effect."""
    from workbench.analyses.patching.patch import patch_effects
    from workbench.analyses.predictions.explained import prediction_of, target_of
    from workbench.models.interventions import patching

    model = shared(name)
    clean, corrupt = (prediction_of(model, text)[0] for text in PAIRS[name])
    target = target_of(corrupt)
    found = patch_effects(clean, corrupt, target, what, method="gradient")
    step, original = 3e-3, patching.activations
    exact = []
    for sign in (-1, 1):  # a central difference

        def near(points: Any, run: Any, sign: int = sign) -> Any:
            """The corrupt text's activations, a little moved to those of the clean text."""
            own = original(points, lambda: _pass(points, corrupt))
            far = original(points, run)
            return {
                key: own[key] + sign * step * (far[key] - own[key])
                if own[key].shape == far[key].shape else far[key]
                for key in own
            }  # fmt: skip

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("workbench.analyses.patching.patch.activations", near)
            exact.append(patch_effects(clean, corrupt, target, what).values)
    slope = torch.tensor((exact[1] - exact[0]) / (2 * step))
    first = torch.tensor(found.values - found.corrupt)
    known = ~first.isnan()
    assert bool(known.any()) and float(first[known].abs().max()) > 1e-3
    torch.testing.assert_close(slope[known], first[known], atol=1e-2, rtol=2e-2)


def _pass(points: Any, prediction: Any) -> Any:
    if points.is_recurrent:
        return prediction.model.states_with_ends(prediction.text)
    return prediction.logits()


def test_heads_of_the_last_block_are_nearly_linear_and_a_first_head_is_not() -> None:
    """From the last heads to a logit there are a norm and an MLP; the first are read by heads."""
    model = shared("mini:gpt")
    texts = PAIRS["mini:gpt"]
    exact, first = (
        wb.patch(model, *texts, "were", "was", what="heads", method=method)
        for method in ("exact", "gradient")
    )  # type: ignore[misc]
    one, other = (each.effects["decoder.causal"] for each in (exact, first))  # [layers, heads]
    assert abs(one[3] - other[3]).max() < 0.01
    assert abs(one - other).max() > 0.3  # so the largest ones must be computed exactly
    assert any("first order" in note for note in first.notes)
    assert not any("first order" in note for note in exact.notes)
