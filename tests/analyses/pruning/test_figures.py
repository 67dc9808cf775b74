"""Figures of pruning: what is not significant is grey, and each figure says how to read it."""

import pandas as pd
import plotly.graph_objects as go
import pytest

from tests.analyses.pruning.test_findings import (
    RANDOM,
    ablation,
    gates,
    pruning,
    table,
)
from workbench.analyses.pruning import figures as drawn
from workbench.drawing.theme import BASELINE, MODEL, NOT_SIGNIFICANT

DRAWN = {**drawn.IMPORTANCE, **drawn.ABLATION, **drawn.PRUNING, **drawn.GATES}


def coloured(figure: go.Figure) -> int:
    """The number of cells that are not grey."""
    maps = [trace for trace in figure.data if trace.type == "heatmap" and trace.zmin != -2]
    return sum(int((pd.DataFrame(each.z).notna()).sum().sum()) for each in maps)


@pytest.mark.parametrize("name", DRAWN)
def test_every_figure_says_what_is_measured_and_how_to_read_it(name: str) -> None:
    about, how = str(DRAWN[name].__doc__).split("\n\n")
    assert about.strip().endswith(".") and how.strip().startswith("How to read: ")


def test_only_heads_with_a_significant_change_are_coloured() -> None:
    changes = (0.2, 0.01), (0.6, 0.001), (0.1, 0.3), (-0.3, 0.02)
    assert coloured(drawn.ablation(ablation(*changes))) == 3
    assert coloured(drawn.ablation(ablation(*changes, learnt=False))) == 0
    assert coloured(drawn.importance(ablation(*changes))) == 4
    assert coloured(drawn.importance(ablation(*changes, learnt=False))) == 0
    assert drawn.importance(ablation(*changes)).data[0].colorbar.title.text == "nats", "not wide"


def test_only_significant_heads_are_named_and_their_names_do_not_overlap() -> None:
    tables = ablation((0.6, 0.001), (0.599, 0.001), (0.1, 0.5), (0.3, 0.001))
    names = [text for trace in drawn.agreement(tables).data for text in trace.text if text]
    assert names == ["1.1", "2.2"]


def test_orders_share_their_scales_and_random_ones_are_grey() -> None:
    tables = pruning(("ablation", 2.5, 2, 4, 0.02), *RANDOM)
    rows = [
        (method, rescored, seed, removed, 2.0 + removed)
        for method, rescored, seed in (
            ("ablation", False, 0), ("ablation", True, 0), ("magnitude", False, 0),
            ("random", False, 0), ("random", False, 1),
        )
        for removed in (0, 4)
    ]  # fmt: skip
    columns = "method rescored seed heads_removed value"
    tables["curve"] = table(columns, *rows, metric="loss", lower=1.0, upper=4.0)
    figure = drawn.loss_curve(tables)
    assert {axis.matches for axis in figure.select_yaxes()} == {"y"}
    assert figure.layout.xaxis.title.text == "heads removed, of 4"
    assert [trace.line.color for trace in figure.data if trace.name == "random"] == [BASELINE] * 2
    assert {each.text for each in figure.layout.annotations} == {
        "magnitude", "exact ablation", "scored once", "rescored", "random",
    }  # fmt: skip


def test_gates_no_better_than_random_heads_are_grey() -> None:
    trials = (0.0, 0.5, 2, 0.2, 0.9, 0.03), (0.0, 0.25, 1, 0.8, 1.0, 0.4)
    figure = drawn.survival(gates(*trials))
    assert list(figure.data[1].marker.color) == [MODEL, NOT_SIGNIFICANT]
    assert list(figure.data[1].y) == ["keep 50 %", "keep 25 %"]
    assert "keep 50 % *" in drawn.survival(gates(*trials, done=False)).data[1].y
