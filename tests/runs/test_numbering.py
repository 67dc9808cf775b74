"""Layers and heads are counted from 1 in all findings and figures of the built-in results.

Names in sentences and hover texts are read back, and must be those of a row of the tables.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
import pytest

from tests.night import mostly
from workbench.core.head_names import parse_state, place_name
from workbench.drawing.axes import axes_of
from workbench.drawing.layout import scene
from workbench.drawing.sanitize import harmless
from workbench.drawing.shapes import Words, shown_traces
from workbench.experiment.definition import EXPERIMENTS
from workbench.runs.builtin import builtin_runs
from workbench.runs.run import Run

RUNS = builtin_runs()
FIRST = {run.spec.experiment: run for run in reversed(RUNS)}  # by day one of each experiment
each = pytest.mark.parametrize("run", mostly(RUNS, *FIRST.values()), ids=lambda run: run.path.name)
FROM_ZERO = re.compile(r"\b(?:layers?|heads?|mlp) 0\b|\bheads? 0\.|\b\d+\.0 (?:and|to) head", re.I)
WITH_DASH = re.compile(r"\bheads? \d+-\d+|\(\d+-\d+\)")
HEAD = re.compile(r"\bhead (\d+\.\d+)(?![\d.]*\d)", re.I)
LAYER = re.compile(r"\blayer (\d+)\b", re.I)
AXES = ("layer", "head", "head that stays", "layer from which the prediction is final")


def parse_head(name: str) -> tuple[int, int]:
    """The indices of a head from its numbers, as in `3.7`."""
    layer, head = name.removeprefix("head ").split(".")
    return int(layer) - 1, int(head) - 1


def figures(run: Run) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The figures of a run as plain data; without those of tables that it does not have."""
    tables = run.tables
    for name, draw in EXPERIMENTS[run.spec.experiment].drawings().items():
        try:
            yield name, harmless(draw(tables))
        except KeyError:
            continue


def rows_of_heads(run: Run) -> set[tuple[int, int]]:
    """The indices of all heads that a table has."""
    found: set[tuple[int, int]] = set()
    for name in run.tables:
        table = run.tables[name]
        if {"layer", "head"} <= {*table.columns} and pd.api.types.is_integer_dtype(table["layer"]):
            found |= {*table[["layer", "head"]].itertuples(index=False, name=None)}
    return found


@each
def test_findings_name_layers_and_heads_from_one(run: Run) -> None:
    heads = rows_of_heads(run)
    for finding in run.findings:
        text = f"{finding.claim} {finding.measure}"
        assert not FROM_ZERO.search(text) and not WITH_DASH.search(text), text
        for name in HEAD.findall(finding.claim):
            assert parse_head(name) in heads, text


@each
def test_a_layer_that_a_finding_names_is_that_of_its_keys(run: Run) -> None:
    for finding in run.findings:
        if not isinstance(finding.keys.get("layer"), int) or finding.keys.get("head", -1) >= 0:
            continue
        named = {parse_state(name) for name in LAYER.findall(finding.claim)}
        named |= {0} if "the embeddings" in finding.claim.lower() else set()
        place = place_name(finding.keys, finding.table).removeprefix("MLP of ")
        is_last = "last layer" in finding.claim
        assert is_last or not named or parse_state(place) in named, finding.claim


@each
def test_the_head_that_a_finding_names_is_the_row_of_its_keys(run: Run) -> None:
    for finding in run.findings:
        if finding.keys.get("head", -1) < 0:
            continue
        named = {parse_head(name) for name in HEAD.findall(finding.claim)}
        assert (finding.keys["layer"], finding.keys["head"]) in named, finding.claim


# By day grids of heads, bars and curves; of importance `test_each_cell_of_a_grid_of_heads_…`.
BY_DAY = {
    "built-in/heads-mini-bert",
    "built-in/tuned-lens-mini-bert",
    "built-in/patching-mini-gpt",
}


@pytest.mark.parametrize(
    "run", mostly(RUNS, *(run for run in RUNS if run.name in BY_DAY)), ids=lambda run: run.path.name
)
def test_no_axis_and_no_hover_text_counts_from_zero(run: Run) -> None:
    for name, plain in figures(run):
        for axis in axes_of(shown_traces(plain), plain["layout"]).values():
            ticks = [text for _, text in axis.ticks()]
            if axis.title in AXES:
                assert "0" not in ticks, f"{name}: {axis.title} has {ticks}"
            for text in [*ticks, axis.title]:
                assert not FROM_ZERO.search(text) and not WITH_DASH.search(text), f"{name}: {text}"
        for element in scene(plain).elements:
            if isinstance(element, Words):
                text = " ".join(line.text for line in element.lines)
            else:
                text = element.tip
            assert not FROM_ZERO.search(text) and not WITH_DASH.search(text), f"{name}: {text}"


def tips(experiment: str, figure: str) -> list[str]:
    """The hover texts of a figure of the first built-in result of an experiment."""
    run = next(run for run in RUNS if run.spec.experiment == experiment)
    plain = dict(figures(run))[figure]
    return [
        element.tip
        for element in scene(plain).elements
        if not isinstance(element, Words) and element.tip
    ]


def test_each_cell_of_a_grid_of_heads_is_the_head_it_names() -> None:
    run = next(run for run in RUNS if run.spec.experiment == "head-importance")
    of_head = run.tables["importance"].set_index(["layer", "head"])["importance"]
    found = {
        name: tip for tip in tips("head-importance", "importance") for name in HEAD.findall(tip)
    }
    assert len(found) == len(of_head)
    for name, tip in found.items():
        assert tip.endswith(f"{of_head[parse_head(name)]:.4f}"), tip


def test_each_point_of_a_curve_is_the_layer_it_names() -> None:
    run = next(run for run in RUNS if run.spec.experiment == "tuned-lens")
    table = run.tables["layers"]
    of_layer = table[table["lens"] == "tuned"].set_index("layer")["loss"]
    said = [tip for tip in tips("tuned-lens", "loss") if re.match("embeddings|layer", tip)]
    for index, value in of_layer.items():
        number = f"{value:.3f} nats"
        assert any(parse_state(tip.split(":")[0]) == index and number in tip for tip in said)
    assert {parse_state(tip.split(":")[0]) for tip in said} == {*of_layer.index}
