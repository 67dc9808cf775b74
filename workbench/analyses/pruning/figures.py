"""Figures of pruning: grids of importance and ablation, pruning curves, gates, speed.

Pure functions of the tables of `head-importance`, `head-ablation`, `head-pruning` and `head-gates`.
Blue is the analysed model or what is significant, orange the smaller model, grey what is not
significant and random choices. In a model no better than its trivial baseline nothing about its
heads is significant. Costs: milliseconds.
"""

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from workbench.analyses.pruning.findings import NAMES, way
from workbench.core.findings import Tables, percent
from workbench.core.head_names import ROLES
from workbench.core.stats import SIGNIFICANT
from workbench.drawing.heads import COLOUR, NONE, PALE, grid, groups, named
from workbench.drawing.primitives import (
    DOWN,
    Draw,
    Trace,
    band,
    bars,
    curve,
    head_grid,
    heat_maps,
    interval,
    marks,
    matrix,
    multiples,
    panels,
    plot,
)
from workbench.drawing.theme import BASELINE, MODEL, NOT_SIGNIFICANT, SERIES, TUNED
from workbench.experiment.definition import HEAD
from workbench.experiment.measured import measured

UNITS = {"loss": "nats", "accuracy": "share correct", "r2": "share of variance explained"}
BEST = 20  # pairs shown
TICKS = 4  # of an axis of heads, beside zero
PLAIN = 8  # pixels above a grid without a legend
LETTERS, LINES = 0.011, 0.05  # shares of an axis: width of a letter, height of a name
TALL, THIN = 18, 7  # height of the row of a head in pixels: maximum and minimum


# --- what is significant --------------------------------------------------------------------------


def _is_better(tables: Tables) -> bool:
    """Whether the whole model is better than its trivial baseline."""
    table = tables["baseline"]
    return bool(table.loc[table["metric"] == "loss", "better"].all())


def _sure(rows: pd.DataFrame, is_better: bool) -> pd.Series:
    """The rows with a significant change, in a model better than its trivial baseline."""
    return (rows["p_value"] < SIGNIFICANT) & is_better


def _colours(sure: pd.Series) -> list[str]:
    """Blue for significant rows, grey for others."""
    return [MODEL if each else NOT_SIGNIFICANT for each in sure]


# --- grids ----------------------------------------------------------------------------------------


def importance(tables: Tables) -> go.Figure:
    """Importance: mean absolute gradient of the loss at each head's gate, in nats.

    How to read: one cell per head; the stronger the colour, the more the loss depends on it. Grey:
    the model is no better than its trivial baseline.
    """
    table = tables["importance"]
    sure = pd.Series(_is_better(tables), table.index)
    title = f"importance for {measured(tables, 'loss')}, nats"
    return grid(table, "importance", title, significant=sure)


def ablation(tables: Tables, mode: str = "") -> go.Figure:
    """Change of the loss without each head, in nats.

    How to read: one cell per head; above 0, the model is worse without it. *: significant (p <
    0.05, corrected over heads) in a model better than its trivial baseline; all others are grey.
    """
    rows = loss_rows(tables["ablation"], mode)
    sure = _sure(rows, _is_better(tables))
    title = f"change of {measured(tables, 'loss')}, nats"
    return grid(rows, "delta", title, around=True, significant=sure)


def loss_rows(table: pd.DataFrame, mode: str = "") -> pd.DataFrame:
    """The rows of the loss for one replacement (default: the first one)."""
    table = table[table["metric"] == "loss"]
    modes = list(dict.fromkeys(table["mode"]))
    return table[table["mode"] == (mode if mode in modes else modes[0])].reset_index(drop=True)


def agreement(tables: Tables, mode: str = "") -> go.Figure:
    """Importance (gradient) and exact change of the loss of each head, both in nats.

    How to read: one mark per head; far from the others, the two measures disagree on it. Blue: the
    change is significant; grey: it is not. Bars: 95 % intervals.
    """
    first = tables["importance"]
    both = first.merge(loss_rows(tables["ablation"], mode), on=[*HEAD])
    sure, names = _sure(both, _is_better(tables)), pd.Series(named(both, len(groups(first)) > 1))
    x, y = both["importance"], both["delta"]
    widest = max(map(len, names)) * LETTERS
    shown = [
        marks(
            x[mask],
            y[mask],
            "head %{customdata}: importance %{x:.4f}, change of loss %{y:.4f} nats",
            colour=colour,
            customdata=names[mask],
            text=names.where(_apart(x, y, both["upper"], names, sure), "")[mask],
            error_y=interval(both[mask], "delta"),
            mode="markers+text",
            textposition="middle right",
        )
        for mask, colour in ((~sure, NOT_SIGNIFICANT), (sure, MODEL))
    ]
    return plot(
        shown,
        420,
        {"title": "importance, nats", "range": [0, (1.05 + widest) * float(x.max()) or 1]},
        {"title": f"change of {measured(tables, 'loss')} without the head, nats"},
    )


def _apart(
    x: pd.Series, y: pd.Series, top: pd.Series, names: pd.Series, wanted: pd.Series
) -> pd.Series:
    """Which wanted marks have room for their names; marks with the largest values come first."""
    wide, tall = float(x.max()) or 1.0, float(top.max() - min(y.min(), 0)) or 1.0
    shown: list[int] = []
    for index in y[wanted].abs().sort_values(ascending=False).index:
        room = (0.03 + LETTERS * len(names[index])) * wide
        if all(
            abs(x[index] - x[other]) > room or abs(y[index] - y[other]) > LINES * tall
            for other in shown
        ):
            shown.append(index)
    return pd.Series(y.index.isin(shown), y.index)


def pairs(tables: Tables) -> go.Figure:
    """Interaction of two heads: change of the loss without both minus both single changes, in nats.

    How to read: the pairs with the largest interactions; above 0, each head can stand in for the
    other. Blue: significant; grey: not. Bars: 95 % intervals.
    """
    table = tables["pairs"]
    table = table[table["mode"] == table["mode"].iloc[0]]
    strongest = table["interaction"].abs().sort_values(ascending=False).index[:BEST]
    rows = table.loc[strongest].iloc[::-1]
    sides = [rows[[f"{name}_{side}" for name in HEAD]].set_axis([*HEAD], axis=1) for side in "ab"]
    several = any(len(groups(side)) > 1 for side in sides)
    one, other = (named(side, several) for side in sides)
    names = [f"{a} and {b}" for a, b in zip(one, other, strict=True)]
    colours = {"color": _colours(_sure(rows, _is_better(tables)))}
    spread = interval(rows, "interaction")
    hover = "%{y}: interaction %{x:.4f} nats"
    return plot(
        [bars(rows["interaction"], names, hover, spread=spread, marker=colours)],
        90 + 22 * len(rows),
        {"title": "interaction, nats"},
        {"type": "category"},
    )


# --- curves ---------------------------------------------------------------------------------------


def loss_curve(tables: Tables) -> go.Figure:
    """Loss on held-out texts as heads are removed, in nats.

    How to read: one panel per order of removal, all on the same scales; the lower, the better the
    order. Grey: mean and range of random orders.
    """
    return curves(tables, "loss")


def accuracy_curve(tables: Tables) -> go.Figure:
    """Accuracy (of scores r2) on held-out texts as heads are removed.

    How to read: one panel per order of removal, all on the same scales; the higher, the better the
    order. Grey: mean and range of random orders.
    """
    metrics = tables["curve"]["metric"].unique()
    return curves(tables, next(str(name) for name in metrics if name != "loss"))


def curves(tables: Tables, metric: str) -> go.Figure:
    """The curves of one metric: one panel per order of removal, next to random orders."""
    table = tables["curve"]
    table = table[table["metric"] == metric]
    by_random = table[table["method"] == "random"]
    references = _random_curve(by_random, metric) if len(by_random) else []
    # Orders that are scored again come last, so that the last panel names all curves.
    tested = table[table["method"] != "random"].groupby("method", sort=False)
    methods = sorted(tested, key=lambda each: each[1]["rescored"].nunique())
    series = [(NAMES[str(method)], _curves_of(rows, metric)) for method, rows in methods]
    n_heads = int(table["heads_removed"].max())
    x = {"title": f"heads removed, of {n_heads}", "dtick": max(1, -(-n_heads // TICKS)), "tick0": 0}
    y = {"title": f"{measured(tables, metric)}, {UNITS[metric]}"}
    if not series:
        return plot(references, 320, x, y)
    return multiples(series, references, 240, x=x, y=y, apart=0.12)


def _curves_of(rows: pd.DataFrame, metric: str) -> list[Trace]:
    """One curve scored once, and one scored again after each step if there is one."""
    shown = []
    for rescored, part in rows.groupby("rescored"):
        name = "rescored" if rescored else "scored once"
        hover = (
            f"{way(str(part['method'].iloc[0]), bool(rescored))}: %{{x}} heads removed, "
            f"{metric} %{{y:.3f}} (95 %: %{{customdata[0]:.3f}} to %{{customdata[1]:.3f}})"
        )
        shown.append(
            curve(
                part["heads_removed"],
                part["value"],
                hover,
                name,
                int(bool(rescored)),
                SERIES[2] if rescored else MODEL,
                customdata=part[["lower", "upper"]].to_numpy(),
            )
        )
    return shown


def _random_curve(rows: pd.DataFrame, metric: str) -> list[Trace]:
    """The mean and the range of random orders, in grey."""
    values = rows.groupby("heads_removed")["value"].agg(["mean", "min", "max"])
    x, name = values.index.to_list(), "random"
    hover = f"random orders: %{{x}} heads removed, {metric} %{{y:.3f}}"
    return [
        band(x, values["min"].to_list(), values["max"].to_list(), BASELINE, name),
        curve(x, values["mean"], hover, name, 2, BASELINE, mode="lines"),
    ]


def alone(tables: Tables) -> go.Figure:
    """Change of the loss if one layer keeps only its best head, in nats.

    How to read: one bar per layer, named by the head that stays; above 0, the model is worse.
    """
    table = tables["alone"]
    table = table[table["metric"] == "loss"].iloc[::-1]
    shown = bars(table["delta"], named(table), "head %{y} alone: change of loss %{x:+.4f} nats")
    x = {"title": f"change of {measured(tables, 'loss')}, nats"}
    return plot([shown], 90 + 22 * len(table), x, {"type": "category", "title": "head that stays"})


def kept(tables: Tables) -> go.Figure:
    """Heads of the saved model: kept (1) or removed (0).

    How to read: one cell per head; blue heads were kept, grey ones removed.
    """
    table = tables["heads"].reset_index(drop=True)
    stays = table["kept"].astype(bool)
    return head_grid(
        table,
        stays.astype(float),
        stays.map({True: "kept", False: "removed"}),
        significant=stays,
        top=PLAIN,
        hover="head %{y}.%{x}: %{text}",
        form="%{text}",
        zmin=0,
        zmax=2,
        showscale=False,
    )


def speed(tables: Tables) -> go.Figure:
    """Seconds of a forward pass of the whole and of the smaller model.

    How to read: one panel per batch size, each on its own scale; the shorter bar is the faster
    model, × is the speed-up. Median of five passes.
    """
    table = tables["speed"]
    parts = [
        (
            f"{row.texts} text{'' if row.texts == 1 else 's'}: × {row.speedup:.2f}",
            [
                bars(
                    [row.smaller, row.whole],
                    ["smaller", "whole"],
                    "%{y} model: %{x:.4f} s",
                    marker={"color": [TUNED, MODEL]},
                )
            ],
        )
        for row in table.itertuples()
    ]
    x, y = {"title": "seconds", "rangemode": "tozero"}, {"type": "category"}
    return panels(parts, 90, 3, x=x, y=y, top=PLAIN, apart=0.3)


# --- gates ----------------------------------------------------------------------------------------


def gates(tables: Tables) -> go.Figure:
    """Probability that the gate of each head is open, by cost or budget.

    How to read: one row per head, one column per cost or budget; blue heads stay, grey ones are
    removed.
    """
    table = tables["gates"]
    at = named(table), trials(table)
    wide, stays = (matrix(*at, table[name]) for name in ("p_open", "kept"))
    hover = "head %{y}, %{x}: probability open %{z:.2f}"
    tall = max(THIN, min(TALL, 900 // len(wide)))
    form = "%{z:.2f}" if tall >= TALL else ""
    shown = heat_maps(wide, stays, hover, title="p(open)", form=form, zmin=0, zmax=1)
    x, y = {"type": "category", "side": "top"}, {**DOWN, "title": "head"}
    return plot(shown, 90 + tall * len(wide), x, y)


def trials(table: pd.DataFrame) -> list[str]:
    """The cost or budget of each row."""
    return [
        f"keep {percent(budget)}" if budget else f"cost {price:g}"
        for price, budget in zip(table["lambda"], table["budget"], strict=True)
    ]


def survival(tables: Tables) -> go.Figure:
    """Heads that stay by cost or budget, and change of the loss of the smaller model, in nats.

    How to read: diamonds are random choices of as many heads; a blue bar is significantly better.
    *: gates that had not converged. Bars: 95 % intervals.
    """
    table = tables["survival"]
    table = table[table["metric"] == "loss"]
    names = [
        f"{name}{'' if done else ' *'}"
        for name, done in zip(trials(table), table["converged"], strict=True)
    ]
    colours = {"color": _colours(table["better"])}
    number = bars(table["heads"], names, "%{y}: %{x} heads stay", marker=colours)
    change = bars(
        table["delta"], names, "%{y}: change of loss %{x:.4g} nats",
        spread=interval(table, "delta"), marker=colours,
    )  # fmt: skip
    hover = "%{y}, random heads: change of loss %{x:.4g} nats"
    random = marks(table["random"], names, hover, None, BASELINE, "diamond", 9)
    parts: list[tuple[str, list[Trace]]] = [("", [number]), ("", [change, random])]
    x = [{"title": "heads that stay", "rangemode": "tozero"}, {"title": "change of loss, nats"}]
    y = [DOWN, {**DOWN, "showticklabels": False}]
    return panels(parts, 40 + 26 * len(table), 2, x=x, y=y, top=PLAIN, apart=0.1)


def by_role(gates: pd.DataFrame, heads: pd.DataFrame) -> go.Figure:
    """Number of heads that stay at each cost or budget, by role (as in Voita et al. 2019).

    How to read: the parts of a bar are roles; the first bar has all heads of the model.
    """
    both = gates.assign(trial=trials(gates)).merge(heads[[*HEAD, "role"]], on=[*HEAD])
    both["role"] = both["role"].replace("", NONE)
    order = list(dict.fromkeys(both["trial"]))
    whole = heads["role"].replace("", NONE).value_counts()
    shown = []
    for role in [*ROLES, NONE]:
        rows = both[both["role"] == role]
        if len(rows):
            number = rows[rows["kept"]].groupby("trial").size().reindex(order, fill_value=0)
            counts = [int(whole.get(role, 0)), *number]
            colour = COLOUR.get(role, PALE)
            hover = f"{role}, %{{x}}: %{{y}} heads"
            shown.append(bars(counts, ["all heads", *order], hover, role, colour, upright=True))
    y = {"title": "number of heads kept"}
    return plot(shown, 360, {"type": "category"}, y, barmode="stack")


IMPORTANCE: Mapping[str, Draw] = {"importance": importance}
ABLATION: Mapping[str, Draw] = {
    "ablation": ablation,
    "agreement": agreement,
    "pairs": pairs,
}
PRUNING: Mapping[str, Draw] = {
    "curve": loss_curve,
    "accuracy": accuracy_curve,
    "alone": alone,
    "kept": kept,
    "speed": speed,
}
GATES: Mapping[str, Draw] = {"gates": gates, "survival": survival}
