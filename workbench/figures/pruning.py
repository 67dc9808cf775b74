"""Figures of pruning: grids of importance and ablation, pruning curves, gates, speed.

Pure functions of the tables of `head-importance`, `head-ablation`, `head-pruning` and `head-gates`.
Costs: milliseconds.
"""

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from workbench.core.experiment import HEAD
from workbench.figures.head_grid import COLOUR, NONE, PALE, groups, named
from workbench.figures.primitives import (
    DOWN,
    Draw,
    Tables,
    Trace,
    band,
    bars,
    curve,
    ends,
    head_grid,
    heat_map,
    interval,
    marks,
    matrix,
    panels,
    plot,
)
from workbench.figures.theme import COLOURS, DASHES, EITHER, MARKS
from workbench.heads.roles import ROLES

UNITS = {"loss": "nats", "accuracy": "share correct"}
BEST = 20  # pairs shown
NAMES = {
    "importance": "importance",
    "ablation": "exact ablation",
    "magnitude": "magnitude",
    "random": "random order",
}


# --- grids ----------------------------------------------------------------------------------------


def grid(
    table: pd.DataFrame, column: str, title: str, around: bool = False, form: str = ".3f"
) -> go.Figure:
    """A grid of heads, one row per layer, coloured by a column; `around`: scale around 0."""
    table = table.reset_index(drop=True)
    return head_grid(
        table,
        table[column].astype(float),
        pd.Series(named(table)),
        hover=f"head %{{text}}: {title} %{{z:.4f}}",
        title=title,
        form=f"%{{z:{form}}}",
        **ends(table[column], around),
    )


def importance(tables: Tables) -> go.Figure:
    """First-order importance: mean absolute gradient of the loss at each head's gate, in nats."""
    return grid(tables["importance"], "importance", "importance (nats)")


def ablation(tables: Tables) -> go.Figure:
    """Exact change of the loss without each head, in nats. Above 0: the model is worse."""
    return grid(loss_rows(tables["ablation"]), "delta", "change of loss (nats)", around=True)


def loss_rows(table: pd.DataFrame, mode: str = "") -> pd.DataFrame:
    """The rows of the loss for one replacement (default: the first one)."""
    table = table[table["metric"] == "loss"]
    modes = list(dict.fromkeys(table["mode"]))
    return table[table["mode"] == (mode if mode in modes else modes[0])].reset_index(drop=True)


def agreement(tables: Tables) -> go.Figure:
    """First-order importance and exact change of the loss of each head. If a mark is far from
    the others, the two measures disagree on this head. Error bars: 95 % intervals."""
    return importance_and_ablation(tables["importance"], loss_rows(tables["ablation"]))


def importance_and_ablation(first: pd.DataFrame, exact: pd.DataFrame) -> go.Figure:
    """One mark per head: filled if the loss is significantly higher without it."""
    both = first.merge(exact, on=[*HEAD])
    sure = both["matters"].astype(bool) if "matters" in both else both["p_value"] < 0.05
    shown = []
    for name, mask, mark in (
        ("loss significantly higher (p < 0.05)", sure, MARKS[0]),
        ("not significant", ~sure, "circle-open"),
    ):
        rows = both[mask]
        shown.append(
            marks(
                rows["importance"],
                rows["delta"],
                "head %{text}: importance %{x:.4f}, change of loss %{y:.4f} nats",
                name,
                symbol=mark,
                error_y=interval(rows, "delta"),
                mode="markers+text" if len(both) <= 40 else "markers",
                text=named(rows, len(groups(first)) > 1),
                textposition="top center",
            )
        )
    x = {"title": "first-order importance, nats"}
    return plot(shown, 460, x, {"title": "change of loss without the head, nats"})


def pairs(tables: Tables) -> go.Figure:
    """Pairs of heads with the largest interaction: change of the loss without both heads, minus the
    changes without each head. Error bars: 95 % intervals."""
    table = tables["pairs"]
    table = table[table["mode"] == table["mode"].iloc[0]]
    strongest = table["interaction"].abs().sort_values(ascending=False).index[:BEST]
    rows = table.loc[strongest].iloc[::-1]
    sides = [rows[[f"{name}_{side}" for name in HEAD]].set_axis([*HEAD], axis=1) for side in "ab"]
    several = any(len(groups(side)) > 1 for side in sides)
    one, other = (named(side, several) for side in sides)
    names = [f"{a} and {b}" for a, b in zip(one, other, strict=True)]
    spread = interval(rows, "interaction")
    return plot(
        [bars(rows["interaction"], names, "%{y}: interaction %{x:.4f} nats", spread=spread)],
        120 + 22 * len(rows),
        {"title": "interaction: change of loss beyond the two single changes, nats"},
        {"type": "category"},
    )


# --- curves ---------------------------------------------------------------------------------------


def loss_curve(tables: Tables) -> go.Figure:
    """Loss as heads are removed, one line per order of removal. Bands: 95 % intervals; for random
    orders, the line is the mean and the band the range."""
    return curves(tables["curve"], "loss")


def accuracy_curve(tables: Tables) -> go.Figure:
    """Accuracy as heads are removed, one line per order of removal. Bands: 95 % intervals; for
    random orders, the line is the mean and the band the range."""
    return curves(tables["curve"], "accuracy")


def curves(table: pd.DataFrame, metric: str) -> go.Figure:
    """The curves of one metric, one line per order of removal."""
    table = table[table["metric"] == metric]
    shown = []
    for index, ((method, rescored), rows) in enumerate(
        table.groupby(["method", "rescored"], sort=False)
    ):
        colour = COLOURS["light"][list(NAMES).index(str(method)) % len(COLOURS["light"])]
        name = way(str(method), bool(rescored))
        values = rows.groupby("fraction").agg({"value": "mean", "lower": "min", "upper": "max"})
        x = values.index.to_list()
        shown += [
            band(x, values["lower"].to_list(), values["upper"].to_list(), colour, name),
            curve(
                x,
                values["value"],
                f"{name}: %{{x:.0%}} of heads removed, {metric} %{{y:.3f}}",
                name,
                index,
                colour,
                {"size": 7},
                {"dash": DASHES[1] if rescored else DASHES[0]},
                legendgroup=name,
            ),
        ]
    axis = {"title": "share of heads removed", "tickformat": ".0%"}
    return plot(shown, 440, axis, {"title": f"{metric}, {UNITS[metric]}"})


def way(method: str, rescored: bool) -> str:
    """An order of removal, in words."""
    return NAMES[method] + (", rescored" if rescored else "")


def alone(tables: Tables) -> go.Figure:
    """Change of the loss if a layer keeps only its best head; labels name layer and head."""
    table = tables["alone"]
    table = table[table["metric"] == "loss"].iloc[::-1]
    names = [
        f"{row.stack} {row.kind} layer {row.layer}: head {row.head}" for row in table.itertuples()
    ]
    shown = bars(table["delta"], names, "%{y} alone: change of loss %{x:+.4f} nats")
    x = {"title": "change of loss, nats"}
    return plot([shown], 120 + 22 * len(table), x, {"type": "category"})


def kept(tables: Tables) -> go.Figure:
    """Heads of the saved model: 1 was kept, 0 was removed."""
    return grid(tables["heads"].assign(kept=tables["heads"]["kept"].astype(float)), "kept", "kept",
                form=".0f")  # fmt: skip


def speed(tables: Tables) -> go.Figure:
    """Time of a forward pass of the whole and the smaller model, by batch size."""
    table = tables["speed"]
    texts = [f"{number} texts" for number in table["texts"]]
    shown = [
        bars(table[name], texts, f"{name}, %{{x}}: %{{y:.4f}} s", name, None, upright=True)
        for name in ("whole", "smaller")
    ]
    return plot(shown, 320, y={"title": "seconds per forward pass"}, barmode="group")


# --- gates ----------------------------------------------------------------------------------------


def gates(tables: Tables) -> go.Figure:
    """Probability that the gate of each head is open, at each cost and budget. Rows: heads."""
    table = tables["gates"]
    wide = matrix(named(table), trials(table), table["p_open"])
    shown = heat_map(wide, "head %{y}, %{x}: probability open %{z:.2f}", "p(open)", zmin=0, zmax=1)
    y = {**DOWN, "title": "head"}
    return plot([shown], 160 + 18 * len(wide), {"type": "category"}, y)


def trials(table: pd.DataFrame) -> list[str]:
    """The cost or budget of each row."""
    return [
        f"keep {budget:.0%}" if budget else f"cost {price:g}"
        for price, budget in zip(table["lambda"], table["budget"], strict=True)
    ]


def survival(tables: Tables) -> go.Figure:
    """Number of heads kept at each cost or budget, and change of the loss without the others.

    Hatched: training of the gates ended before it converged. Diamonds: mean of random choices of
    the same number of heads.
    """
    table = tables["survival"]
    table = table[table["metric"] == "loss"]
    names = trials(table)
    converged = table["converged"] if "converged" in table else [True] * len(table)
    hatched = {"pattern": {"shape": ["" if done else "/" for done in converged]}}
    titles = {"heads": "number of heads kept", "delta": "change of loss, nats"}
    parts: list[tuple[str, list[Trace]]] = [
        ("", [bars(table[column], names, "%{x}: %{y:.4g}", upright=True, marker=hatched)])
        for column in titles
    ]
    if "random" in table:
        hover, name = "%{x}, random heads: %{y:.4g} nats", "random heads"
        parts[1][1].append(marks(names, table["random"], hover, name, EITHER, "diamond-open", 9))
    x, y = {"type": "category"}, [{"title": title} for title in titles.values()]
    return panels(parts, 230, 2, x=x, y=y, apart=0.32)


def by_role(gates: pd.DataFrame, heads: pd.DataFrame) -> go.Figure:
    """Number of heads of each role kept at each cost or budget (as in Voita et al. 2019)."""
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
    "importance": importance,
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
