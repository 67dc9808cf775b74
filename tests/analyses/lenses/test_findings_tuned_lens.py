"""The findings of `tuned-lens`: each claim and verdict on tables with known content."""

import pandas as pd
import pytest

from tests.findings import findings_of
from workbench import WorkbenchError

AGREEMENT = {"logit": 0.3, "tuned": 0.6}
LOSS = {"logit": 2.0, "tuned": 0.5}


def tables(
    better: bool = True, predicts: bool = True, converged: bool = True, stacks: int = 1
) -> dict[str, pd.DataFrame]:
    """A model of two layers per stack; layer 0 is worse than frequencies, layer 1 better."""
    layers, gains, bias, training = [], [], [], []
    for stack in ("encoder", "decoder")[:stacks]:
        for layer in (0, 1, 2):
            for lens in ("logit", "tuned"):
                loss, share = (0.0, 1.0) if layer == 2 else (LOSS[lens], AGREEMENT[lens])
                gain = (layer - 0.5) if predicts else -1.0
                layers.append(
                    (stack, layer, lens, loss, loss, loss, share, share - 0.1, share, 0.2, 3.0,
                     gain, gain - 0.1, gain + 0.1, 200)
                )  # fmt: skip
                bias.append((stack, layer, lens, loss / 10, 0.0, loss / 5))
            if layer < 2:
                training.append((stack, layer, 50, 2.0, 0.5, converged, True))
                low = 0.1 if better else -0.1
                for measure, logit, tuned in (
                    ("loss", 2.0, 0.5), ("agreement", 0.3, 0.6), ("bias", 0.2, 0.05),
                ):  # fmt: skip
                    gain = abs(logit - tuned)
                    gains.append((stack, layer, measure, logit, tuned, gain, low, 2.0, better))
    of = (
        "stack layer lens loss lower upper agreement agreement_lower agreement_upper accuracy "
        "cross_entropy gain gain_lower gain_upper n"
    )
    last = 1.5 if predicts else -1.0
    return {
        "layers": _frame(of, layers),
        "gains": _frame("stack layer measure logit tuned gain lower upper better", gains),
        "bias": _frame("stack layer lens bias lower upper", bias),
        "baselines": _frame(
            "baseline loss agreement cross_entropy gain gain_lower gain_upper n",
            [
                ("model", 0.0, 1.0, 4.5 - last, last, last - 0.1, last + 0.1, 500),
                ("constant", 3.0, 0.1, 4.4, 0.1, 0.0, 0.2, 500),
                ("frequencies", 3.1, 0.1, 4.5, 0.0, 0.0, 0.0, 500),
            ],
        ),
        "training": _frame("stack layer best_step dev_logit dev_tuned converged learnt", training),
        "curve": _frame("stack layer split step loss", [("encoder", 0, "dev", 0, 2.0)]),
        "facts": _frame("fact value", [("steps", "250")]),
    }


def _frame(columns: str, rows: list[tuple[object, ...]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=columns.split())


def test_both_lenses_are_compared_half_way_and_over_layers() -> None:
    found = findings_of("tuned-lens", tables())
    first = found["agreement of the tuned lens half way"]
    assert "Half way (layer 1 of 2)" in first.claim
    assert "60 % of 200 predictions, the logit lens in 30 %" in first.claim
    assert (first.value, first.null, first.verdict) == (0.6, 0.3, "supported")
    closer = found["layers at which the tuned lens is closer"]
    assert (
        "at both layers before the last, the embeddings included: 0.500 against 2.00 nats"
        in closer.claim
    )
    assert closer.verdict == "supported"
    biased = found["bias of the logit lens that the tuned lens removes, half way"]
    assert "0.200 nats from the model's, that of the tuned lens 0.0500" in biased.claim
    assert biased.verdict == "supported"


def test_the_first_layer_above_frequencies_is_named() -> None:
    found = findings_of("tuned-lens", tables())
    first = found["first layer whose tuned lens predicts better than frequencies"]
    assert "From layer 1 on" in first.claim and first.value == 1
    assert "+0.50 nats there; last layer: +1.50 nats" in first.claim


def test_a_gain_whose_interval_has_zero_is_not_supported() -> None:
    found = findings_of("tuned-lens", tables(better=False))
    for measure in (
        "agreement of the tuned lens half way",
        "layers at which the tuned lens is closer",
        "bias of the logit lens that the tuned lens removes, half way",
    ):
        assert found[measure].verdict == "not supported"


def test_lenses_of_a_model_that_predicts_nothing_are_undecided() -> None:
    found = findings_of("tuned-lens", tables(predicts=False))
    with_null = [each for each in found.values() if each.null is not None]
    assert with_null and all(each.verdict != "supported" for each in with_null)
    assert found["agreement of the tuned lens half way"].verdict == "undecided"
    assert "no better than the frequencies" in (
        found["gain of the model over the frequencies of pieces"].claim
    )
    first = found["first layer whose tuned lens predicts better than frequencies"]
    assert first.verdict == "not supported" and "At no layer" in first.claim


@pytest.mark.parametrize("converged", [True, False])
def test_maps_that_had_not_converged_are_named(converged: bool) -> None:
    last = findings_of("tuned-lens", tables(converged=converged))["maps that converged"]
    assert ("more steps would bring them closer" in last.claim) is not converged
    assert last.verdict == ("supported" if converged else "not supported")
    assert (
        f"{'Both' if converged else 'Neither of the 2'} maps had converged after 250 steps"
        in last.claim
    )


def test_both_stacks_have_a_finding_of_their_own() -> None:
    found = findings_of("tuned-lens", tables(stacks=2))
    assert list(found)[:2] == [
        "agreement of the tuned lens half way of the decoder",
        "agreement of the tuned lens half way of the encoder",
    ]


def test_a_missing_number_is_an_error() -> None:
    broken = tables()
    broken["layers"]["agreement"] = float("nan")
    with pytest.raises(WorkbenchError, match="missing"):
        findings_of("tuned-lens", broken)
