"""Figures of edge probing: drawn of tables alone, whatever the names, whatever is missing."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from workbench.analyses.probes import edge_probing
from workbench.analyses.probes.edge_probing import Row
from workbench.analyses.probes.figures import probing_curves as curves
from workbench.analyses.probes.figures.probing import FIGURES, published
from workbench.analyses.probes.figures.probing_curves import RunCurves
from workbench.analyses.probes.views.curves import listed, marked
from workbench.drawing.sanitize import harmless
from workbench.drawing.theme import BASELINE, MODEL, TUNED

EVIL = "<img/src=x/onerror=window.evil=1>"
SENTENCES, TARGETS = 40, 5


def probed(
    tasks: Sequence[str] = ("pos", "dependencies"),
    layers: int = 3,
    stacks: Sequence[str] = ("encoder",),
    probe: str = "edge",
    modes: Sequence[str] = ("layer", "cumulative"),
    seeds: Sequence[int] = (0,),
) -> tuple[dict[str, pd.DataFrame], np.ndarray, np.ndarray]:
    """Tables of a run, with the counts of its scores and the hashes of its sentences."""
    rows = [
        Row(task, probe, encoder, mode, stack, layer, 1.0, control, seed, "micro_f1",
            SENTENCES * TARGETS, _counts(place, layer, encoder, control))
        for place, task in enumerate(tasks)
        for stack in stacks
        for seed in seeds
        for encoder, mode, control, last in (
            *(("model", mode, False, layers) for mode in modes),
            ("model", "lexical", False, 0),
            ("model", "layer", True, layers),
            ("random", "top", False, 0),
            ("static", "lexical", False, 0),
            ("majority", "baseline", False, 0),
        )
        for layer in range(last + 1)
    ]  # fmt: skip
    means = edge_probing.means_of(rows, 0)
    mix = pd.DataFrame(
        [
            (task, probe, stack, seed, layer, 1 / (layers + 1))
            for task in tasks
            for stack in stacks
            for seed in seeds
            for layer in range(layers + 1)
            if "cumulative" in modes
        ],
        columns=edge_probing.MIX,
    )
    labels = ["A", EVIL]
    confusion = pd.DataFrame(
        [
            (task, probe, stack, "layer", layer, gold, said, 3 + (gold == said))
            for task in tasks
            for stack in stacks
            for layer in range(layers + 1)
            for gold in labels
            for said in labels
        ],
        columns=edge_probing.CONFUSION,
    )
    text = f"The dog {EVIL} sees a cat."
    gains = pd.DataFrame(
        [
            (task, probe, stack, layer, 0, 0, text, 4, 7, 4, 40, EVIL, "A")
            for task in tasks
            for stack in stacks
            for layer in range(1, layers + 1)
        ],
        columns="task probe stack layer target sentence text span1_start span1_end span2_start "
        "span2_end gold below".split(),
    )
    tables = {
        "scores": edge_probing.scores(rows, "test"),
        "means": means,
        "summary": edge_probing.summary(means, mix, edge_probing.halves_of([], [])),
        "mix": mix,
        "confusion": confusion,
        "gains": gains,
    }
    return tables, np.stack([row.counts for row in rows]), np.arange(SENTENCES, dtype=np.int64)


def _counts(task: int, layer: int, encoder: str, control: bool) -> np.ndarray:
    right = 1 if control or encoder != "model" else min(2 + layer + task, TARGETS)
    return np.tile(np.array([right, TARGETS, TARGETS], dtype=np.int32), (SENTENCES, 1))


def laid(name: str = "", **how: object) -> RunCurves:
    tables = probed(**how)[0]  # type: ignore[arg-type]
    return RunCurves(name, tables["means"], tables["summary"])


@pytest.mark.parametrize("name", [name for name in FIGURES if name != "learning"])
@pytest.mark.parametrize(
    "stacks", [pytest.param(("encoder",), marks=pytest.mark.slow), ("encoder", "decoder")]
)
def test_a_figure_is_drawn_for_any_stacks_and_names(name: str, stacks: Sequence[str]) -> None:
    tables, _, _ = probed(tasks=("pos", EVIL, "roles"), stacks=stacks)
    figure = harmless(FIGURES[name](tables))
    assert figure["data"] and figure["layout"]["height"] > 100
    assert EVIL not in str(figure)


def test_curves_by_share_need_several_shares() -> None:
    tables, _, _ = probed()
    with pytest.raises(KeyError):
        FIGURES["learning"](tables)
    more = tables["means"].assign(share=0.5)
    both = {"means": pd.concat([tables["means"], more], ignore_index=True)}
    assert list(FIGURES["learning"](both).data[1].x) == [0.5, 1.0]


@pytest.mark.parametrize("name", ["pipeline", "mixes"])
def test_where_no_mix_was_learnt_there_is_no_figure_of_it(name: str) -> None:
    tables, _, _ = probed(modes=("layer",), probe="ridge")
    with pytest.raises(KeyError):
        FIGURES[name](tables)


def test_an_expected_layer_that_is_undefined_is_said_so_and_keeps_its_place() -> None:
    tables, _, _ = probed()
    tables["summary"].loc[1, "expected_layer"] = np.nan
    bars = FIGURES["pipeline"](tables).data[0]
    assert bars.text[1] == "undefined" and len(bars.y) == 2
    assert bars.y[0].startswith("pos  40.0 → 100.0")


def test_what_was_published_is_shipped_and_is_what_the_paper_has() -> None:
    table = published().set_index(["task", "model", "layer"])["f1"]
    assert table["pos", "bert-base", 0] == pytest.approx(0.884)
    assert table["relations-semeval", "bert-base", 12] == pytest.approx(0.8287)
    layers = published().groupby(["task", "model"])["layer"].agg(["min", "max"])
    assert set(map(tuple, layers.xs("bert-base", level="model").to_numpy())) == {(0, 12)}
    assert set(map(tuple, layers.xs("bert-large", level="model").to_numpy())) == {(0, 24)}


def test_each_task_has_a_panel_with_the_model_in_its_colour_and_its_best_baseline() -> None:
    run = laid(tasks=("pos", "dependencies", "roles"))
    for figure in (
        curves.draw_curves([run], ["pos", "roles"], "layer"),
        FIGURES["curves"]({"means": run.means, "summary": run.summary}),
    ):
        lines = [trace for trace in figure.data if trace.name in ("model", "one layer")]
        assert {trace.line.color for trace in lines} == {MODEL}
        assert len({trace.yaxis for trace in lines}) == len(lines) > 1
        for trace in lines:  # each at its own data
            low, high = figure.layout[trace.yaxis.replace("y", "yaxis")].range
            assert low <= min(trace.y) and max(trace.y) <= high and high - low < 1
        best = [trace for trace in figure.data if trace.name == "best baseline"]
        assert [(list(trace.y), trace.line.color) for trace in best] == (
            [([0.2, 0.2], BASELINE)] * len(lines)
        )


def test_a_baseline_far_below_is_named_at_the_edge_with_its_value() -> None:
    """Curves between 88 and 99 are not pressed together by a majority of 10."""
    run = laid(tasks=("pos", "roles"))
    means = run.means.copy()
    own = (means["encoder"] == "model") & ~means["control"]
    means.loc[own, ["mean", "lower", "upper"]] = 0.9
    means.loc[own & (means["layer"] == 1), ["mean", "lower", "upper"]] = 0.98
    figure = FIGURES["curves"]({"means": means, "summary": run.summary})
    low, high = figure.layout.yaxis.range
    assert 0.8 < low < 0.9 and 0.98 < high < 1.01
    notes = [note.text for note in figure.layout.annotations]
    assert notes.count("↓ best baseline 20.0") == 2, "in each panel"


def test_a_control_task_that_crosses_the_curves_is_drawn_to_its_top() -> None:
    """Embeddings of 50 below their own control task of 70: the finding is above the curve."""
    run = laid(tasks=("pos",))
    means = run.means.copy()
    means.loc[:, ["mean", "lower", "upper"]] = 0.5
    control = (means["encoder"] == "model") & means["control"]
    means.loc[control & (means["layer"] == means["layer"].min()), "mean"] = 0.7
    figure = FIGURES["curves"]({"means": means, "summary": run.summary})
    assert figure.layout.yaxis.range[1] > 0.7


def test_eight_tasks_fit_in_two_rows() -> None:
    tables = probed(tasks=[f"task {number}" for number in range(8)], layers=1)[0]
    figure = FIGURES["curves"](tables)
    assert len({trace.yaxis for trace in figure.data}) == 8 and figure.layout.height < 600


def test_models_of_other_depths_share_an_axis_of_depth() -> None:
    runs = [laid("a", layers=2), laid("b", layers=4)]
    figure = curves.draw_curves(runs, ["pos"], "layer")
    lines = [trace for trace in figure.data if trace.mode == "lines+markers"]
    assert [list(line.x) for line in lines] == [[0, 0.5, 1], [0, 0.25, 0.5, 0.75, 1]]
    assert [(line.name, line.line.color) for line in lines] == [("a", MODEL), ("b", TUNED)]
    assert "depth" in figure.layout.xaxis.title.text


def test_published_curves_lie_at_the_same_depth_under_our_names() -> None:
    run = laid(tasks=("relations", "my own"))
    assert curves.published_tasks("bert-base", ["relations", "my own"]) == ["relations"]
    figure = curves.draw_curves([run], ["relations", "my own"], "cumulative", "bert-base")
    (beneath,) = [trace for trace in figure.data if "published" in str(trace.name)]
    assert beneath.x[-1] == 1 and len(beneath.x) == 13
    assert beneath.y[-1] == pytest.approx(0.8287)
    same = curves.draw_curves([laid(layers=12)], ["pos"], "layer", "bert-base")
    (beneath,) = [trace for trace in same.data if "published" in str(trace.name)]
    assert beneath.x[-1] == 12 and same.layout.xaxis.title.text == "layer"


def test_selectivity_is_drawn_from_the_control_task_to_the_task() -> None:
    _, control, task = FIGURES["selectivity"](probed()[0]).data
    assert list(control.x) == pytest.approx([0.2, 0.2]) and list(task.x) == [1.0, 1.0]


def test_selectivity_is_the_score_less_the_control_s() -> None:
    line = curves.curve_controls(laid(), ["pos"]).data[1]
    assert list(line.y) == pytest.approx([20, 40, 60, 80])
    assert ": %{y:.1f} points (" in line.hovertemplate[0], "a difference of shares is in points"


def test_published_expected_layers_are_next_to_the_bars() -> None:
    run = laid()
    figure = FIGURES["pipeline"]({"summary": run.summary, "means": run.means})
    assert curves.add_published_layers(figure, run, "bert-base") == ["pos", "dependencies"]
    marks = figure.data[-1]
    assert marks.y == figure.data[0].y
    assert marks.x[0] == pytest.approx(1.76 / 12 * 3, abs=0.02), "SCIENCE: 1.76 of 12 layers"


# --- examples -------------------------------------------------------------------------------------


def test_spans_are_marked_where_they_are_and_nothing_of_them_is_markup() -> None:
    shown = marked(f"a {EVIL} b", [(2, 2 + len(EVIL))], "light")
    assert EVIL not in shown and "&lt;img" in shown
    assert shown.startswith("a <mark") and shown.endswith(" b")


@pytest.mark.parametrize(
    ("spans", "pieces"),
    [
        ([(0, 3)], ["abc"]),
        ([(0, 3), (4, 6)], ["abc", "ef"]),
        ([(0, 6), (2, 3)], ["ab", "c", "def"]),
        ([(0, 3), (2, 6)], ["ab", "c", "def"]),
        ([(1, 4), (1, 4)], ["bcd"]),
    ],
)
def test_spans_within_and_across_each_other(
    spans: list[tuple[int, int]], pieces: list[str]
) -> None:
    shown = marked("abcdefg", spans, "dark")
    found = [part.partition(">")[2].partition("</mark>")[0] for part in shown.split("<mark")[1:]]
    assert found == pieces
    assert shown.count("vertical-align:super") == len(spans)


def test_a_long_text_is_shown_around_its_spans() -> None:
    shown = marked("x" * 5000, [(2000, 2001)], "light")
    assert shown.startswith("… ") and shown.endswith(" …") and len(shown) < 1000


def test_labels_are_text() -> None:
    shown = listed(probed()[0]["gains"], 2, "light")
    assert EVIL not in shown and "layer 1: <b>A</b>" in shown
