"""Expected layers, what counts as best, and where a number means nothing."""

import math

import pandas as pd
import pytest

from workbench.analyses.probes.edge_probing import MEANS, MIX, expected_layer, halves_of, summary


def curve(*values: float) -> pd.DataFrame:
    return pd.DataFrame({"layer": range(len(values)), "mean": values})


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.5, 0.5, 0.9, 0.9), 2.0),  # all of it at layer 2
        ((0.5, 0.7, 0.9), 1.5),
        ((0.2, 0.6, 0.5, 0.9), (0.4 - 2 * 0.1 + 3 * 0.4) / 0.7),  # a fall is not clipped
    ],
)
def test_expected_layers_by_hand(values: tuple[float, ...], expected: float) -> None:
    assert expected_layer(curve(*values)) == pytest.approx(expected)


@pytest.mark.parametrize(
    "values", [(0.5, 0.5, 0.502), (0.9, 0.8, 0.7), (0.5, 0.9, 0.55), (0.7,), ()]
)
def test_a_curve_that_does_not_rise_has_none(values: tuple[float, ...]) -> None:
    assert math.isnan(expected_layer(curve(*values)))


def test_the_published_curve_of_parts_of_speech_has_the_published_expected_layer() -> None:
    from pathlib import Path

    from workbench.analyses.probes import figures

    home = Path(figures.__file__).parent / "published" / "tenney2019.csv"
    table = pd.read_csv(home, comment="#")
    own = table[(table["task"] == "pos") & (table["model"] == "bert-base")]
    found = expected_layer(own.rename(columns={"f1": "mean"}).assign(mean=own["f1"] / 100))
    assert found == pytest.approx(1.76, abs=0.01)


def test_the_best_layer_is_of_the_requested_modes_and_not_of_a_baseline() -> None:
    def row(mode: str, layer: int, mean: float) -> dict[str, object]:
        told = dict.fromkeys(MEANS, 0.0) | {"share": 1.0, "control": False, "n": 9, "seeds": 1}
        told |= {"task": "pos", "probe": "edge", "encoder": "model", "stack": "encoder"}
        return told | {"mode": mode, "layer": layer, "mean": mean, "metric": "micro_f1"}

    means = pd.DataFrame([row("lexical", 0, 0.7), row("mix", 3, 0.6)])
    found = summary(means, pd.DataFrame(columns=MIX), halves_of([], [])).iloc[0]
    assert (found["best_layer"], found["best_score"]) == (3, 0.6)
    assert found["baseline_lexical"] == 0.7
    assert math.isnan(found["expected_layer"]) and math.isnan(found["centre_of_gravity"])
