"""Figures of heads: values where they belong, whatever the names, whatever is missing."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from workbench import experiments
from workbench.analyses.heads.figures import grid as grids
from workbench.analyses.heads.figures import heads as one
from workbench.analyses.heads.figures.grid import CODES, SCORES, SYMBOL, value_of
from workbench.analyses.heads.figures.heads import FIGURES, Case, cases, sentences_of
from workbench.analyses.heads.tables import BEST, CROSS, RELATIONS
from workbench.analyses.heads.views.one_head import listed
from workbench.core.head_names import ROLES
from workbench.drawing.heads import COLOUR, named
from workbench.drawing.sanitize import harmless
from workbench.drawing.theme import MODEL, NOT_SIGNIFICANT

TABLES = experiments()["heads"].tables

EVIL = "<img/src=x/onerror=window.evil=1>"
SELF = (("encoder", "self"),)
ALL = (("encoder", "self"), ("decoder", "causal"), ("decoder", "cross"))
Group = tuple[str, str]


def tables_of(groups: Sequence[Group] = SELF, relation: str = "nsubj") -> dict[str, pd.DataFrame]:
    """Tables as the experiment leaves them, of two layers of two heads: head 2.1 follows a
    relation, head 1.2 looks at the word before, the others do nothing."""
    keys = [(*group, layer, head) for group in groups for layer in (0, 1) for head in (0, 1)]
    rows, relations, offsets = [], [], []
    for key in keys:
        follows, before = key[2:] == (1, 0), key[2:] == (0, 1)
        row: dict[str, object] = dict(zip(("stack", "kind", "layer", "head"), key, strict=True))
        row["role"] = "syntactic" if follows else "positional" if before else ""
        row["roles"] = "syntactic, rare" if follows else row["role"]
        for score in SCORES.values():
            for column in (score.column, *score.baselines):
                row[column] = 0.25
            row |= {f"{score.column}_lower": 0.2, f"{score.column}_upper": 0.3}
        row |= {
            "offset": -1,
            "offset_share": 0.95 if before else 0.1,
            "best_relation": relation,
            "best_direction": "dependent-to-head",
            "relation_accuracy": 0.9 if follows else 0.3,
            "relation_baseline": 0.4,
            "block": 0.0,
            "block_lower": 0.0,
            "block_upper": 1.0,
            "n": 100,
        }
        rows.append(row)
        for direction in ("dependent-to-head", "head-to-dependent"):
            for name, accuracy in ((relation, 0.9 if follows else 0.3), ("obj", 0.1)):
                sure = follows and name == relation
                row = {
                    **dict(zip(("stack", "kind", "layer", "head"), key, strict=True)),
                    "relation": name,
                    "direction": direction,
                    "accuracy": accuracy,
                    "lower": accuracy - 0.1,
                    "upper": accuracy + 0.05,
                    "n": 50,
                    "accuracy_confident": accuracy - 0.02,
                    "accuracy_any_dependent": accuracy + 0.02,
                    "reliable": 0.95,
                    "baseline_offset": 2,
                    "baseline_accuracy": 0.4,
                    "baseline_first": 0.0,
                    "baseline_longest": 0.1,
                    "difference": accuracy - 0.42,
                    "difference_lower": accuracy - 0.5,
                    "difference_upper": accuracy - 0.35,
                    "p_value_baseline": 0.001 if sure else 1.0,
                    "null_mean": 0.05,
                    "p_value": 0.001 if sure else 1.0,
                    "syntactic": sure,
                }
                relations.append(row)
        offsets += [
            (*key, offset, 0.95 if before and offset == -1 else 0.1, 90) for offset in (-1, 0, 1)
        ]
    followed = pd.DataFrame(relations, columns=list(RELATIONS))
    best = followed.assign(gain=followed["accuracy"] - followed["baseline_accuracy"])
    best = best.sort_values("accuracy", ascending=False, kind="stable")
    best = best.drop_duplicates(["relation", "direction"])[list(BEST)].reset_index(drop=True)
    places = [
        (*key, 1 + (number > 1), float(number), -float(number), *keys[number - 1], 0.5)
        for number, key in enumerate(keys)
    ]
    near = [f"nearest_{name}" for name in ("stack", "kind", "layer", "head")]
    number = len(keys)
    joined = [
        (0 if not at else number + at - 1, at + 1, 0.1 * (at + 1), at + 2)
        for at in range(number - 1)
    ]
    words = ["Dogs", "see", EVIL]
    gold = pd.DataFrame(
        [
            (sentence, word, text, [0, 5, 9][word], [1, -1, 1][word], [relation, "", "obj"][word])
            for sentence in (0, 1)
            for word, text in enumerate(words)
        ],
        columns=["sentence", "word", "text", "start", "governor", "relation"],
    )
    looks = [
        (*key, sentence, word, -1 if sentence else (1 if key[2:] == (1, 0) else 2 - word), 0.5)
        for key in keys
        for sentence in (0, 1)
        for word in range(3)
    ]
    return {
        "heads": pd.DataFrame(rows),
        "relations": followed,
        "best": best,
        "offsets": pd.DataFrame(
            offsets, columns=["stack", "kind", "layer", "head", "offset", "share", "n"]
        ),
        "cross": pd.DataFrame(
            [(k[0], *k[2:], 0.5, -0.3, 0.1, 0.2, 0.3, 0.4, 9) for k in keys if k[1] == "cross"],
            columns=list(CROSS),
        ),
        "clusters": pd.DataFrame(
            places,
            columns=["stack", "kind", "layer", "head", "cluster", "x", "y", *near, "distance"],
        ),
        "dendrogram": pd.DataFrame(joined, columns=["left", "right", "distance", "size"]),
        "looks": pd.DataFrame(
            looks,
            columns="stack kind layer head sentence word looks_at weight".split(),
        ),
        "words": gold,
    }


def test_these_tables_have_the_columns_of_the_experiment() -> None:
    tables = tables_of(ALL)
    assert set(tables) == set(TABLES) - {"kin"}
    for name, table in tables.items():
        assert set(TABLES[name].keys) <= set(table.columns)
        assert not table.duplicated(list(TABLES[name].keys)).any(), name


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize(
    "groups", [pytest.param(ALL, marks=pytest.mark.slow), ((EVIL, "cross"), ("decoder", EVIL))]
)
def test_a_figure_is_drawn_for_any_stacks_and_names(name: str, groups: Sequence[Group]) -> None:
    figure = harmless(FIGURES[name](tables_of(groups, EVIL)))
    assert figure["data"] and figure["layout"]["height"] > 100
    assert EVIL not in str(figure)


@pytest.mark.parametrize("name", FIGURES)
def test_what_a_figure_is_not_given_is_a_key_error(name: str) -> None:
    tables = tables_of(ALL)
    with pytest.raises(KeyError):
        FIGURES[name]({})
    with pytest.raises(KeyError):
        FIGURES[name]({name: table.iloc[:0] for name, table in tables.items()})


# --- grids ----------------------------------------------------------------------------------------


def test_a_head_has_the_colour_and_the_word_of_its_role_at_its_place() -> None:
    figure = FIGURES["roles"](tables_of())
    (cells,) = [trace for trace in figure.data if trace.type == "heatmap"]
    order = list(ROLES)
    assert cells.z.tolist() == [[-1, order.index("positional")], [order.index("syntactic"), -1]]
    assert cells.text.tolist() == [["", "pos"], ["syn", ""]]
    step = 2 * (order.index("syntactic") + 1)  # two edges a step, and one step before the roles
    assert {colour for _, colour in cells.colorscale[step : step + 2]} == {COLOUR["syntactic"]}
    names = [trace.name for trace in figure.data if list(trace.x) == [None]]
    assert names == ["syntactic (1)", "positional (1)", "none (2)"]


def test_each_kind_of_attention_has_a_panel_and_each_mark_its_row() -> None:
    heads = tables_of(ALL)["heads"]
    figure = FIGURES["roles"]({"heads": heads})
    marks = [trace for trace in figure.data if trace.hovertemplate]
    assert [list(trace.yaxis) for trace in marks] == [list("y"), list("y2"), list("y3")]
    rows = [point[0] for trace in marks for point in trace.customdata]
    assert rows == list(range(12))
    for trace in marks:
        for x, y, point in zip(trace.x, trace.y, trace.customdata, strict=True):
            assert (y - 1, x - 1) == tuple(heads.loc[point[0], ["layer", "head"]])
            assert point[1] == named(heads)[point[0]]


def test_heads_that_are_filtered_out_are_empty_and_cannot_be_pointed_at() -> None:
    heads = tables_of()["heads"]
    for figure in (
        grids.by_role(heads, [False, True, False, False]),
        grids.by_score(heads, "confidence", [False, True, False, False]),
    ):
        cells, marks = figure.data[:2]
        assert pd.isna(cells.z).tolist() == [[True, False], [True, True]]
        assert [point[0] for point in marks.customdata] == [1]


def test_a_score_lies_at_its_head_and_one_above_its_baseline_is_a_difference() -> None:
    heads = tables_of()["heads"]
    assert grids.by_score(heads, "one offset").data[0].z.tolist() == [[0.1, 0.95], [0.1, 0.1]]
    above = grids.by_score(heads, "best relation above baseline").data[0]
    assert above.z.tolist() == [pytest.approx([-10, -10]), pytest.approx([50, -10])]
    assert (above.zmin, above.zmax) == (-50, 50) and above.colorbar.title.text == "points"
    assert value_of(heads, "best relation").tolist() == [0.3, 0.3, 0.9, 0.3]


def test_scores_have_one_scale_and_only_heads_with_the_role_are_coloured() -> None:
    tables = tables_of(ALL)
    figure = FIGURES["scores"](tables)
    cells = [trace for trace in figure.data if trace.type == "heatmap"]
    assert len(cells) == 2 * len(one.SHOWN)
    others, with_role = cells[4:6]  # the rarest word: head 2.1 of each stack
    assert pd.isna(with_role.z).sum() == 9 and pd.isna(others.z).sum() == 3
    assert {(trace.zmin, trace.zmax) for trace in cells[1::2]} == {(0, 1)}
    titles = [note.text for note in figure.layout.annotations]
    assert titles == ["first position", *[*one.SHOWN][1:]]


def test_scores_that_were_not_measured_are_not_drawn() -> None:
    tables = tables_of()
    tables["heads"] = tables["heads"].assign(separator_mass=0.0, rare_share_upper=1.2)
    titles = [note.text for note in FIGURES["scores"](tables).layout.annotations]
    assert titles == ["first position", "coreference", "induction"]


def test_the_head_that_is_looked_at_is_framed_in_its_panel() -> None:
    heads = tables_of(ALL)["heads"]
    shape = grids.outlined(grids.by_role(heads), heads, 6, "#000000").layout.shapes[0]
    assert (shape.xref, shape.yref) == ("x2", "y2")
    assert (shape.x0, shape.x1, shape.y0, shape.y1) == (0.5, 1.5, 1.5, 2.5)


def test_roles_differ_by_more_than_colour() -> None:
    for looks in (CODES, SYMBOL, COLOUR):
        assert set(looks) == set(ROLES) and len(set(looks.values())) == len(ROLES)


# --- the others -----------------------------------------------------------------------------------


def test_the_best_head_of_each_relation_stands_beside_its_offset() -> None:
    figure = FIGURES["relations"](tables_of())
    bars = [trace for trace in figure.data if trace.type == "bar" and len(trace.x)]
    assert [list(trace.x) for trace in bars] == [[0.9], [0.1], [0.9], [0.1]]
    assert list(bars[0].y) == ["nsubj"] and bars[0].marker.color == MODEL
    assert bars[1].marker.color == NOT_SIGNIFICANT
    assert list(bars[0].error_x.array) == pytest.approx([0.05])
    assert list(bars[0].error_x.arrayminus) == pytest.approx([0.1])
    names = [*figure.select_traces({"mode": "text"})]
    assert [dict(zip(each.y, each.text, strict=True))["nsubj"] for each in names] == ["2.1"] * 2
    marks = [*figure.select_traces({"mode": "markers"})]
    assert [list(trace.x) for trace in marks] == [[0.4, 0.4]] * 2


def test_offsets_of_all_heads_and_of_one() -> None:
    tables = tables_of()
    cells = FIGURES["offsets"](tables).data[0]
    assert cells.z.tolist()[1] == [0.95, 0.1, 0.1]
    assert list(cells.y) == ["1.1", "1.2", "2.1", "2.2"] and list(cells.x) == [-1, 0, 1]
    assert (cells.zmin, cells.zmax, cells.text.tolist()[1]) == (0, 1, ["95", "10", "10"])
    own = tables["offsets"].query("layer == 0 and head == 1")
    assert list(one.offsets_of_head(own).data[0].y) == [0.95, 0.1, 0.1]


def test_relations_of_one_head_go_by_how_far_they_are_above_their_baselines() -> None:
    own = tables_of()["relations"].query(
        "layer == 1 and head == 0 and direction == 'dependent-to-head'"
    )
    figure = one.relations_of_head(own)
    assert list(figure.layout.yaxis.categoryarray) == ["nsubj", "obj"]
    assert [list(trace.y) for trace in figure.data[:2]] == [["nsubj"], ["obj"]]
    assert {trace.name for trace in figure.data} >= {"fixed offset", "shuffled trees"}


def test_on_the_map_a_role_has_its_colour_and_mark_and_clusters_are_joined() -> None:
    tables = tables_of()
    tables["clusters"]["cluster"] = [1, 1, 2, 1]
    figure = FIGURES["map"](tables)
    by_name = {
        point[1]: (trace.marker.symbol, trace.marker.color, trace.x[place])
        for trace in figure.data
        if trace.customdata is not None
        for place, point in enumerate(trace.customdata)
    }
    assert by_name["2.1"] == (SYMBOL["syntactic"], COLOUR["syntactic"], 2.0)
    assert by_name["1.1"][:2] == by_name["2.2"][:2] != by_name["1.2"][:2]
    bands = figure.data[0]
    assert list(zip(bands.x[::3], bands.x[1::3], strict=True)) == [(0, 3), (1, 0)]


@pytest.mark.parametrize("spread", [0.0, 0.001, 1.0])
def test_names_on_the_map_do_not_overlap(spread: float) -> None:
    number = 30
    draw = np.random.default_rng(0)
    x, y = ([*(spread * draw.random(number - 1)), 5.0] for _ in range(2))
    names = [f"{at}-{at}" for at in range(number)]
    points = pd.DataFrame({"x": x, "y": y, "role": "", "label": names})
    scale = one._scale(points)
    _, shown, _ = one._labels(points, [(0, 1)], scale)
    boxes = [
        (scale * x - 3 * len(text), scale * x + 3 * len(text), scale * y - 6, scale * y + 6)
        for x, y, text in zip(shown.x, shown.y, shown.text, strict=True)
    ]
    assert len(boxes) >= number / 3 and len(set(shown.text)) == len(boxes)
    assert not any(one._overlap(a, b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_leaves_of_the_tree_are_named_and_joined_where_they_join() -> None:
    figure = FIGURES["dendrogram"](tables_of())
    assert list(figure.layout.yaxis.ticktext) == ["1.1", "1.2", "2.1", "2.2"]
    assert list(figure.data[1].x) == pytest.approx([0.1, 0.2, 0.3])
    assert list(figure.data[0].x[:4]) == pytest.approx([0, 0.1, 0.1, 0])
    assert list(figure.data[0].y[:4]) == [0, 0, 1, 1]


def test_cross_attention_is_drawn_where_there_is_any() -> None:
    cells = FIGURES["cross"](tables_of(ALL)).data[0]
    assert cells.z.tolist()[0] == [-0.3, 0.1, 0.2, 0.3, 0.4, 0.5]
    assert list(cells.y) == ["1.1", "1.2", "2.1", "2.2"]


# --- sentences ------------------------------------------------------------------------------------


def own(layer: int, head: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    tables = tables_of()
    return tables["looks"].query(f"layer == {layer} and head == {head}"), tables["words"]


def test_a_word_is_right_where_it_looks_at_its_partner() -> None:
    right, *rest = cases(*own(1, 0), "nsubj", "dependent-to-head", False)
    assert right == Case(0, 0, (1,), 1, 0.5) and right.is_right
    assert [(case.looks_at, case.is_right) for case in rest] == [(-1, False)]
    wrong = cases(*own(0, 0), "nsubj", "dependent-to-head", False)[0]
    assert wrong.looks_at == 2 and not wrong.is_right
    back = cases(*own(0, 0), "obj", "head-to-dependent", False)[0]
    assert (back.word, back.gold, back.is_right) == (1, (2,), False)


def test_any_of_several_partners_is_right() -> None:
    looks, words = own(0, 0)
    words = words.assign(relation="dep")
    case = cases(looks, words, "dep", "head-to-dependent", False)[0]
    assert case.gold == (0, 2)


def test_a_causal_head_has_no_cases_with_later_partners() -> None:
    assert not cases(*own(1, 0), "nsubj", "dependent-to-head", True)
    assert [case.gold for case in cases(*own(1, 0), "obj", "dependent-to-head", True)] == [(1,)] * 2


def test_sentences_are_put_together_as_they_stood_and_shown_as_text() -> None:
    _, words = own(0, 0)
    texts = sentences_of(words)
    assert texts[0].text == f"Dogs see {EVIL}" and texts[0].spans[1] == (5, 8)
    for arcs in (False, True):
        shown = listed([Case(0, 2, (1,), 0, 0.5), Case(1, 0, (1,), 1, 0.9)], texts, "dark", 0, arcs)
        assert EVIL not in shown and "&lt;img" in shown
        assert "attends to <b>Dogs</b>, weight 0.50; gold: <b>see</b>" in shown
        assert shown.count(">gold</span>") == 2
        assert ("data:image/svg" in shown) == arcs
