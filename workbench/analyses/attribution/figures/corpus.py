"""Figures of attribution over a corpus: faithful methods, tags, relations, positions, examples.

Pure functions of the tables of `attribution`. Costs: milliseconds.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from workbench.core.findings import Tables
from workbench.core.stats import SIGNIFICANT
from workbench.drawing.primitives import (
    CELLS,
    DOWN,
    bars,
    choice,
    curve,
    drawable,
    heat_map,
    interval,
    marks,
    panels,
    plot,
)
from workbench.drawing.sanitize import escaped
from workbench.drawing.theme import BASELINE, MODEL, NOT_SIGNIFICANT


def faithfulness(tables: Tables) -> go.Figure:
    """Probability that the prediction loses without the top words of each method
    (comprehensiveness) and with only them (sufficiency), with 95 % intervals over documents.

    How to read: a faithful method is right of its grey diamond on the left, and left of it on the
    right; the diamonds are random orders of the words. Pale points belong to methods that are not
    faithful beyond random orders.
    """
    table = tables["methods"]
    parts = []
    for measure, better in (("comprehensiveness", "high"), ("sufficiency", "low")):
        traces = [
            marks(
                rows[measure],
                rows["method"],
                f"%{{y}}: {measure} %{{x:.3f}} over %{{customdata}} texts",
                name,
                colour,
                "circle",
                size=11,
                error_x={
                    **interval(rows, measure, f"{measure}_lower", f"{measure}_upper"),
                    "color": colour,
                },
                customdata=rows["n"],
            )
            for rows, name, colour in (
                (table[table["faithful"] == "yes"], "faithful", MODEL),
                (table[table["faithful"] != "yes"], "not faithful, or undecided", NOT_SIGNIFICANT),
            )
            if len(rows)
        ]
        traces.append(
            marks(
                table[f"random_{measure}"],
                table["method"],
                "%{y}: %{x:.3f} with random orders",
                "random orders",
                BASELINE,
                "diamond",
                size=8,
            )
        )
        parts.append((f"{measure} ({better} is good)", traces))
    names = {"categoryorder": "array", "categoryarray": list(table["method"])}
    return panels(
        parts,
        40 + 30 * len(table),
        2,
        x={"title": "probability lost", "nticks": 6},
        y=[{**DOWN, **names}, {**DOWN, **names, "showticklabels": False}],
        apart=0.12,
    )


def randomised(tables: Tables) -> go.Figure:
    """Rank correlation of each method's maps with its maps on the same architecture with random
    weights, with 95 % intervals over documents.

    How to read: a map that shows what was learnt is left of its grey diamond, which 95 % of random
    maps do not exceed; from 0.5 on, it hardly depends on the weights.
    """
    table = tables["methods"]
    table = drawable(table[table["check"] != ""], "no weight-randomisation check")
    points = marks(
        table["randomised"],
        table["method"],
        "%{y}: correlation %{x:.2f}, %{customdata[0]} (%{customdata[1]} texts)",
        "random weights",
        MODEL,
        "circle",
        size=11,
        error_x=interval(table, "randomised", "randomised_lower", "randomised_upper"),
        customdata=table[["check", "n_randomised"]],
    )
    chance = marks(
        table["chance"], table["method"], "%{y}: chance is below %{x:.2f}", "chance",
        BASELINE, "diamond", size=8,
    )  # fmt: skip
    ends = table[["randomised_lower", "randomised_upper", "chance"]].abs().to_numpy()
    widest = 1.03 * max(0.6, float(np.nanmax(ends)))  # 0.5 is where maps hardly depend on weights
    x = {"title": "rank correlation with maps of random weights", "range": [-widest, widest]}
    return plot([points, chance], 130 + 30 * len(table), x, DOWN)


def tags(tables: Tables) -> go.Figure:
    """Attribution to words of each tag over that of a mean word of the text (lift), with 95 %
    intervals over documents.

    How to read: words right of 1 get more than their share. The grey diamond is what words as near
    and of as many pieces get. Pale points do not differ from it significantly: the test counts
    distinct words, which are few for tags such as PUNCT, and the interval draws documents.
    """
    table = _best_first(tables, "tags")
    return _by_method(
        table, "tag", "lift", "expected", "%{y}: lift %{x:.2f}", "lift (1: a mean word)"
    )


def relations(tables: Tables) -> go.Figure:
    """Attribution to the governor and dependents of the predicted word over that of a mean word
    of the text, minus the same for unrelated words as near and of as many pieces, with 95 %
    intervals.

    How to read: right of 0, related words get more than words as near to the predicted one. Pale
    points are not significantly above 0.
    """
    table = _best_first(tables, "relations")
    arrow = table["direction"].map(
        {"dependent-to-head": "governor", "head-to-dependent": "dependent"}
    )
    table["name"] = arrow + ": " + table["relation"]
    table["zero"] = 0.0
    return _by_method(
        table,
        "name",
        "difference",
        "zero",
        "%{y}: %{x:+.2f}",
        "difference to words as near and of as many pieces",
    )


def _best_first(tables: Tables, name: str) -> pd.DataFrame:
    """The rows of a table, those of the method with the highest gain first, as findings are."""
    table, methods = tables[name], tables["methods"]
    gains = methods[methods["method"].isin(table["method"])].set_index("method")["gain"]
    if gains.empty:
        return table.copy()
    is_other = table["method"] != gains.idxmax()
    return table.loc[is_other.sort_values(kind="stable").index].reset_index(drop=True)


def _by_method(
    table: pd.DataFrame, key: str, value: str, baseline: str, hover: str, title: str
) -> go.Figure:
    """Points with intervals and baselines, one method at a time."""
    drawable(table, f"no rows by {key}")
    parts = []
    for method, rows in table.groupby("method", sort=False):
        sure = rows["p"] < SIGNIFICANT
        traces = [
            marks(
                some[value],
                some[key],
                f"{hover}, n = %{{customdata[0]:,}}, p = %{{customdata[1]:.2g}}",
                name,
                colour,
                "circle",
                size=10,
                error_x={**interval(some, value), "color": colour},
                customdata=some[["n", "p"]],
            )
            for some, name, colour in (
                (rows[sure], "attribution", MODEL),
                (rows[~sure], "not significant", NOT_SIGNIFICANT),
            )
            if len(some)
        ]
        traces.append(
            marks(
                rows[baseline], rows[key], "%{y}: %{x:.2f} expected",
                "words as near, of as many pieces", BASELINE, "diamond", size=7,
            )
        )  # fmt: skip
        parts.append((method, traces))
    most = int(table.groupby("method").size().max())
    names = {"categoryorder": "array", "categoryarray": list(dict.fromkeys(table[key]))}
    menu = 44 if len(parts) > 1 else 0  # below the legend, which has two rows on a phone
    legend = {"y": 1 + menu / (24 * most)}
    look = {"x": {"title": title}, "y": {**DOWN, **names}, "margin": {"t": 84}, "legend": legend}
    return choice(parts, 150 + 24 * most, 1 + 4 / (24 * most), **look)


def positions(tables: Tables) -> go.Figure:
    """Share of the attribution by the offset of a word, in %; with a 95 % interval over documents
    if there is one method.

    How to read: where a curve is above the grey one (the share of words at that offset), words at
    that offset carry more than their number; 10 and −10 include all words beyond.
    """
    table = drawable(_best_first(tables, "positions"), "no positions")
    lines = []
    methods = list(dict.fromkeys(table["method"]))
    for style, method in enumerate(methods):
        rows = table[table["method"] == method].sort_values("offset")
        lines.append(
            curve(
                rows["offset"],
                rows["attribution"],
                f"{escaped(method)}, offset %{{x}}: %{{y:.1%}} of the attribution",
                method,
                style,
                error_y=interval(rows, "attribution") if len(methods) == 1 else None,
            )
        )
    words = table.groupby("offset", as_index=False)["words"].mean()
    lines.append(
        curve(
            words["offset"], words["words"], "offset %{x}: %{y:.1%} of the words", "words",
            len(methods), BASELINE,
        )
    )  # fmt: skip
    origin = table["origin"].iloc[0]
    return plot(
        lines,
        400,
        {"title": f"offset from the {origin}, in words"},
        {"title": "share of the attribution", "tickformat": ".0%", "rangemode": "tozero"},
    )


def examples(tables: Tables) -> go.Figure:
    """Scores of the words of some texts by each method, each over the largest of its map.

    How to read: blue words support the prediction, orange ones oppose it; the title of a strip is
    the prediction with its probability, and the true word or class if it is another. Cells without
    a colour are special or hidden pieces.
    """
    table = tables["examples"]
    parts, x = [], []
    for number, text in enumerate(table["text"].unique()):
        rows = table[table["text"] == text]
        words = rows.drop_duplicates("position").sort_values("position")
        wide = rows.pivot(index="method", columns="position", values="score")
        wide = wide.loc[list(dict.fromkeys(rows["method"]))]
        wide = wide.div(wide.abs().max(axis=1).replace(0, 1), axis=0)
        wide.loc[:, words.set_index("position")["fixed"].to_numpy(dtype=bool)] = np.nan
        strip = heat_map(
            wide,
            "%{y}, %{customdata}: %{z:.2f}",
            zmin=-1,
            zmax=1,
            showscale=number == 0,
            customdata=_repeated(words["word"], len(wide)),
        )
        strip.hoverongaps = False
        first = rows.iloc[0]
        title = f"{first['predicted']} ({first['probability']:.2f})"
        if first["gold"] and first["gold"] != first["predicted"]:
            title += f", true: {first['gold']}"
        parts.append((title, [strip]))
        x.append(
            {
                "tickmode": "array",
                "tickvals": list(words["position"]),
                "ticktext": list(words["word"]),
                "tickangle": -35,
                "range": [-0.5, len(words) - 0.5],
                **CELLS,
            }
        )
    methods = table["method"].nunique()
    return panels(parts, 14 + 20 * methods, gap=84, x=x, y={**DOWN, **CELLS}, top=20)


def _repeated(words: Sequence[str] | pd.Series, times: int) -> list[list[str]]:
    return [list(words)] * times


def top_words(tables: Tables) -> go.Figure:
    """Words with the highest attribution over that of a mean word of the text (lift).

    How to read: one bar per word that occurs in three texts or more; 1 is a mean word.
    """
    table = drawable(_best_first(tables, "top_words"), "no word occurs in three texts")
    parts = [
        (
            method,
            [
                bars(
                    rows["lift"], rows["word"], "%{y}: lift %{x:.2f}, %{customdata} times",
                    customdata=rows["n"],
                )
            ],
        )
        for method, rows in table.groupby("method", sort=False)
    ]  # fmt: skip
    most = int(table.groupby("method").size().max())
    return choice(parts, 140 + 20 * most, x={"title": "lift (1: a mean word)"}, y=DOWN)


FIGURES = {
    "faithfulness": faithfulness,
    "randomised": randomised,
    "tags": tags,
    "relations": relations,
    "positions": positions,
    "examples": examples,
    "top_words": top_words,
}
