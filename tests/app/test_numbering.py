"""Pages name the same layer and the same head alike, counted from 1."""

import pandas as pd
import pytest

import workbench as wb
from tests.app.test_page_predict_data import model_of, side_of
from workbench.analyses.attention.patterns import caption
from workbench.analyses.heads.views.all_heads import OpenHead
from workbench.analyses.heads.views.one_head import address
from workbench.analyses.lenses.views.layers import layers, state_name
from workbench.analyses.lenses.views.parts import grid_of, parts
from workbench.analyses.patching.views import corrupt_side, grids, patching
from workbench.analyses.predictions.views.choices import Place
from workbench.analyses.words.views.neighbours import lists
from workbench.app.token_views.views import View
from workbench.core.head_names import head_name
from workbench.corpora.encode import doc_of
from workbench.runs.builtin import builtin_run

LAYER, HEAD = 2, 3  # indices
SIDE = ("mini:bert", "The girls were tall .", Place("word", 2))


def cell(view: View, row: str, column: str) -> float:
    return float(view["values"][view["rows"].index(row)][view["columns"].index(column)])


def value(table: pd.DataFrame, column: str, **keys: object) -> float:
    rows = table[(table[[*keys]] == [*keys.values()]).all(axis=1)]
    assert len(rows) == 1
    return float(rows[column].iloc[0])


def test_a_head_is_called_alike_on_all_pages() -> None:
    grid = wb.attention(model_of("mini:bert"), "Ben walks to the hill.").grid()
    assert f"{grid.rows[LAYER]}.{grid.columns[HEAD]}" == "3.4"
    assert caption(grid, grid.map(LAYER, HEAD), LAYER, HEAD, None).startswith("Head 3.4 ")
    run = builtin_run("heads-mini-bert")
    table = run.tables["heads"]
    (row,) = table.index[(table["layer"] == LAYER) & (table["head"] == HEAD)]
    opened = OpenHead(run, int(row))
    assert opened.name == address(opened)["head"] == "3.4"
    assert head_name(opened.scores, opened.several) == "head 3.4"


def test_who_and_where_have_the_numbers_of_the_head_that_they_name() -> None:
    side = side_of(*SIDE)
    found = parts(side, "were", "was")
    contribution = value(found.table, "contribution", part="head", layer=LAYER, head=HEAD)
    assert cell(grid_of(found), "layer 3", "head 4") == pytest.approx(contribution)
    of_mlp = value(found.table, "contribution", part="mlp", layer=LAYER)
    assert cell(grid_of(found), "layer 3", "MLP") == pytest.approx(of_mlp)
    corrupt = corrupt_side(side, doc_of("The girl were tall ."))
    patched = patching(side, corrupt, "heads", "were", "was")
    (view,) = grids(patched.table, "heads")
    effect = value(patched.table, "effect", layer=LAYER, head=HEAD)
    assert cell(view, "layer 3", "head 4") == pytest.approx(effect)
    assert view["rows"] == ["layer 4", "layer 3", "layer 2", "layer 1"]


def test_states_have_the_name_of_the_block_that_returns_them() -> None:
    side = side_of(*SIDE)
    corrupt = corrupt_side(side, doc_of("The girl were tall ."))
    names = ["layer 4", "layer 3", "layer 2", "layer 1", "embeddings"]
    (view,) = grids(patching(side, corrupt, "states", "were", "was").table, "states")
    assert view["rows"] == names
    states = layers(side, False, False).table[["stack", "layer", "sublayer"]].drop_duplicates()
    assert [state_name(row, False) for row in states.to_dict("records")][::-1] == names
    corpus = wb.read("primer:size=200")
    found = wb.neighbours(model_of("mini:bert"), corpus, "Ben walks to the hill.", "hill", k=2)
    assert [each.name for each in lists(found)] == ["embeddings", "layer 2", "layer 4"]
    assert "\n  embeddings\n" in repr(found) and "\n  layer 2\n" in repr(found)
