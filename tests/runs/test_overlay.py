"""Several runs on one axis: means and intervals by hand, and what cannot be drawn."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import workbench as wb
from workbench import WorkbenchError
from workbench.drawing.overlay import overlaid as drawn
from workbench.runs.compare import groups
from workbench.runs.overlay import choices, overlaid, panel_of


def scores(up: float = 0.0, seeds: int = 1) -> pd.DataFrame:
    """A score by task and layer: layer / 10 + up, in each seed a tenth more."""
    rows = [
        {"task": task, "layer": layer, "seed": seed, "score": layer / 10 + up + seed / 10,
         "score_lower": layer / 10 + up - 0.1, "score_upper": layer / 10 + up + 0.2, "n": 5}
        for task in ("pos", "ner") for layer in (0, 1, 2) for seed in range(seeds)
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    table.attrs = {"keys": ["task", "layer", "seed"], "labels": []}
    return table


def test_the_axis_is_the_layer_and_few_tasks_are_panels() -> None:
    known = choices([scores(), scores()])
    assert known.values == ["score", "n"] and known.over == ["layer", "task"]
    assert known.others == {"task": ["pos", "ner"]} and panel_of(known) == "task"
    assert choices([scores()], over="task").others == {"layer": [0, 1, 2]}


def test_what_differs_only_between_runs_is_no_choice_that_leaves_one_out() -> None:
    tables = [scores().assign(kind=kind) for kind in ("self", "causal")]
    for table in tables:
        table.attrs = {"keys": ["kind", "task", "layer", "seed"], "labels": []}
    assert "kind" not in {*choices(tables).over, *choices(tables).others}
    assert set(overlaid(tables, ["A", "B"])["group"]) == {"A", "B"}


def test_heads_and_their_layers_are_counted_from_1() -> None:
    rows = [{"layer": n // 2, "head": n % 2, "confidence": n / 10} for n in range(4)]
    table = pd.DataFrame(rows)
    table.attrs = {"keys": ["layer", "head"], "labels": []}
    figure = drawn(overlaid([table, table], ["A", "B"]))
    assert {each.text for each in figure.layout.annotations} >= {"head 1", "head 2"}
    assert figure.layout.xaxis.title.text == "layer" and list(figure.data[0].x) == [1, 2]
    figure = drawn(overlaid([scores(), scores()], ["A", "B"]))
    assert figure.layout.xaxis.title.text == "layer (from 0)", "of states: 0 are the embeddings"


def test_a_run_alone_keeps_its_interval() -> None:
    rows = overlaid([scores(), scores(0.3)], ["A", "B"])
    one = rows[(rows["group"] == "B") & (rows["panel"] == "ner") & (rows["at"] == 2)].iloc[0]
    assert one["value"] == pytest.approx(0.5) and one["runs"] == 1
    assert (one["lower"], one["upper"]) == (pytest.approx(0.4), pytest.approx(0.7))


def test_a_group_is_the_mean_of_its_runs_with_students_interval() -> None:
    rows = overlaid([scores(up) for up in (0.0, 0.1, 0.5)], ["m", "m", "m"], where={"task": "pos"})
    first = rows.iloc[0]
    assert first["value"] == pytest.approx(0.2) and first["runs"] == 3
    half = 4.302652729696142 * np.std([0.0, 0.1, 0.5], ddof=1) / np.sqrt(3)  # t of 2 degrees
    assert first["upper"] - first["value"] == pytest.approx(half)
    assert len(rows) == 3, "one row for each layer of the task that is held"


def test_seeds_are_averaged_and_their_intervals_are_not() -> None:
    row = overlaid([scores(seeds=3)] * 2, ["A", "B"]).iloc[0]
    assert row["value"] == pytest.approx(0.1) and np.isnan(row["lower"])


@pytest.mark.filterwarnings("error")
def test_differences_are_from_one_group_at_the_same_place() -> None:
    rows = overlaid([scores(), scores(0.3)], ["A", "B"], minus="A")
    assert set(rows["group"]) == {"B"} and rows["value"].to_numpy() == pytest.approx(0.3)
    assert (rows["value"] - rows["lower"]).to_numpy() == pytest.approx(np.hypot(0.1, 0.2))


def test_names_that_are_not_there_are_explained() -> None:
    for wrong in ({"value": "scor"}, {"over": "depth"}, {"minus": "C"}):
        with pytest.raises(WorkbenchError, match="no-axis"):
            overlaid([scores(), scores()], ["A", "B"], **wrong)  # type: ignore[arg-type]
    flat = pd.DataFrame({"fact": ["a"], "value": ["b"]})
    flat.attrs = {"keys": ["fact"]}
    with pytest.raises(WorkbenchError, match="no numbers along an axis"):
        overlaid([flat, flat], ["A", "B"])


@pytest.mark.parametrize(("n", "bands"), [(2, 4), (7, 7)])
def test_many_groups_are_small_multiples(n: int, bands: int) -> None:
    figure = drawn(overlaid([scores(k / 10) for k in range(n)], [f"<{k}>" for k in range(n)]))
    assert sum(trace.fill == "toself" for trace in figure.data) == bands
    assert not any("<0>" in str(trace.hovertemplate) for trace in figure.data), "data is escaped"


def test_marks_with_intervals_stand_over_names() -> None:
    figure = drawn(overlaid([scores(), scores(0.3)], ["A", "B"], over="task", where={"layer": 1}))
    first = figure.data[0]
    assert first.x.tolist() == pytest.approx([0.1, 0.1]) and first.y.tolist() == ["pos", "ner"]
    assert first.error_x.array.tolist() == pytest.approx([0.2, 0.2])


def test_versions_are_a_difference_of_runs_of_one_experiment() -> None:
    profile = wb.open_run("built-in/profile-mini-bert")
    older: Any = SimpleNamespace(spec=profile.spec.model_copy(update={"version": 0}))
    assert groups([older, profile])["version"] == ["0", str(profile.spec.version)]
    assert "version" not in groups([older, wb.open_run("built-in/lens-mini-bert")])


def test_runs_are_grouped_by_what_differs() -> None:
    runs = [wb.open_run(f"built-in/profile-mini-{name}") for name in ("bert", "gpt")]
    assert groups(runs) == {"run": ["A", "B"], "model": ["mini:bert", "mini:gpt"]}
    figure = wb.compare(*runs).overlay("modules", by="model")
    assert [trace.name for trace in figure.data] == ["mini:bert", "mini:gpt"]
    with pytest.raises(WorkbenchError, match="no way to group these runs 'sed'"):
        wb.compare(*runs).overlay("modules", by="sed")
