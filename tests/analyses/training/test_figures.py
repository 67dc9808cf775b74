"""Figures of a training and of a comparison with trigrams: drawn of tables alone."""

import numpy as np
import pandas as pd
import pytest

from workbench.analyses.basics.figures.model import TRIGRAM_FIGURES as BESIDE
from workbench.analyses.training.figures import FIGURES as TRAINING_FIGURES
from workbench.drawing.sanitize import harmless

CURVES = pd.DataFrame(
    {
        "step": [10, 20, 30],
        "tokens": [100, 200, 300],
        "seconds": [1.0, 2.0, 3.0],
        "loss": [5.0, 4.0, 3.0],
        "rate": [1e-3, 5e-4, 0.0],
        "tokens_per_second": [100.0, 100.0, 100.0],
        "mfu": [np.nan, np.nan, np.nan],
        "held_out": [np.nan, 4.2, 3.1],
    }
)


@pytest.mark.parametrize("name", TRAINING_FIGURES)
@pytest.mark.parametrize("rows", [1, 3])
def test_curves_of_any_length_are_drawn(name: str, rows: int) -> None:
    figure = TRAINING_FIGURES[name]({"curves": CURVES.head(rows)})
    assert figure.data and harmless(figure)["layout"]["height"] > 100


def test_held_out_losses_stand_where_they_were_measured() -> None:
    training, held = TRAINING_FIGURES["loss"]({"curves": CURVES}).data
    assert list(training.x) == [100, 200, 300]
    assert (list(held.x), list(held.y)) == ([200, 300], [4.2, 3.1])


def test_utilisation_has_a_panel_where_it_is_known() -> None:
    assert len(TRAINING_FIGURES["pace"]({"curves": CURVES}).data) == 2
    assert len(TRAINING_FIGURES["pace"]({"curves": CURVES.assign(mfu=0.4)}).data) == 3


def test_a_model_stands_beside_trigrams() -> None:
    table = pd.DataFrame(
        {
            "measure": ["accuracy", "<b>perplexity"],
            "model": [0.5, 10.0],
            "trigram": [0.4, 20.0],
            "n": [7, 7],
        }
    )
    figure = BESIDE["scores"]({"scores": table})
    assert [list(bars.x) for bars in figure.data] == [[0.5, 0.4], [10.0, 20.0]]
    assert "<b>" not in figure.layout.annotations[1].text


@pytest.mark.parametrize("figures", [TRAINING_FIGURES, BESIDE])
def test_a_table_that_is_not_there_is_a_key_error(figures: dict) -> None:
    for draw in figures.values():
        with pytest.raises(KeyError):
            draw({})
