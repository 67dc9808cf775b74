"""The findings of `train`: each claim and verdict on curves with known content."""

import math
from collections.abc import Sequence

import pandas as pd
import pytest

from tests.findings import findings_of
from workbench import WorkbenchError
from workbench.analyses.training.experiments import Training

RISE = "rise of the held-out loss from its minimum"


def trained(
    losses: Sequence[float], held_out: Sequence[float | None] = (), mfu: float = math.nan
) -> dict[str, pd.DataFrame]:
    """The tables of a training with a row every ten steps."""
    n = len(losses)
    curves = pd.DataFrame(
        {
            "step": [10 * (row + 1) for row in range(n)],
            "tokens": [100 * (row + 1) for row in range(n)],
            "seconds": [0.5 * (row + 1) for row in range(n)],
            "loss": losses,
            "rate": 1e-3,
            "tokens_per_second": 200.0,
            "mfu": mfu,
            "held_out": pd.Series(held_out or [None] * n, dtype=float),
        }
    )
    facts = {
        "family": "gpt",
        "objective": "causal",
        "parameters": "5000",
        "tokens of text": "200",
        "devices": "1 x cpu",
        "tokens trained on": str(100 * n),
    }
    return {"curves": curves, "facts": pd.DataFrame(facts.items(), columns=["fact", "value"])}


def test_a_held_out_loss_that_falls_is_the_headline() -> None:
    found = findings_of("train", trained([6, 5, 4.5], [6.1, 5.2, 4.9]))
    first = next(iter(found.values()))
    assert "held-out loss fell: 6.10 nats at step 10, 4.90 at step 30" in first.claim
    assert first.verdict == "supported"


def test_a_loss_that_is_lowest_at_the_end_may_fall_further() -> None:
    rise = findings_of("train", trained([6, 5, 4.5], [6.1, 5.2, 4.9]))[RISE]
    assert rise.verdict == "undecided" and "−0.300 nats since step 20" in rise.claim


def test_a_held_out_loss_that_rises_while_the_training_loss_falls_is_over_fitting() -> None:
    found = findings_of("train", trained([6, 4, 2, 1], [6.1, 5.2, 5.5, 6.2]))
    assert found[RISE].verdict == "supported"
    assert "over-fits" in found[RISE].claim and "1.00 nats higher" in found[RISE].claim
    assert "−3.00" in found[RISE].claim
    assert found["held-out loss at the end"].verdict == "not supported"
    assert "lowest: 5.20 at step 20" in found["held-out loss at the end"].claim
    assert "gap +5.20" in found["gap of held-out and training loss"].claim


@pytest.mark.parametrize("held_out", [[5.0, 5.3, 5.1, 5.2], [5.1, 5.1, 5.0, 5.1]])
def test_a_held_out_loss_that_goes_up_and_down_is_not_called_over_fitting(
    held_out: list[float],
) -> None:
    rise = findings_of("train", trained([6, 5.5, 5.2, 5.1], held_out))[RISE]
    assert rise.verdict == "undecided" and "over-fits" not in rise.claim


def test_a_single_row_does_not_say_whether_the_loss_falls() -> None:
    found = findings_of("train", trained([6.0]))
    assert found["training loss at the end"].verdict == "undecided"


def test_without_held_out_text_the_training_loss_is_stated() -> None:
    found = findings_of("train", trained([6.0, 5.0]))
    assert "training loss fell: 6.00" in found["training loss at the end"].claim
    assert "200 tokens, 1.00 times its text" in found["tokens trained on"].claim


def test_the_speed_is_stated_with_the_share_of_the_peak_where_it_is_known() -> None:
    claim = findings_of("train", trained([6.0, 5.0], mfu=0.31))["tokens per second"].claim
    assert "200 tokens per second on 1 x cpu; 31 % of the peak" in claim
    assert "peak" not in findings_of("train", trained([6.0]))["tokens per second"].claim


def test_a_missing_loss_is_an_error() -> None:
    with pytest.raises(WorkbenchError, match="missing"):
        findings_of("train", trained([6.0, 5.0], [6.0, math.inf]))


def test_the_method_in_prose_has_the_settings() -> None:
    prose = Training(steps=123, n_layers=3, learning_rate=0.005).in_prose()
    for words in ("123 steps", "3 layers", "0.005"):
        assert words in prose
    assert "300 s" in Training().in_prose()
