"""Figures of pruning: importance and ablation as grids, curves, gates by price, speed.

Pure functions of the tables of `head-importance`, `head-ablation`, `head-pruning` and `head-gates`;
they cost milliseconds.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.colors import hex_to_rgb
from plotly.subplots import make_subplots

from workbench.core.experiment import HEAD
from workbench.figures.head_grid import (
    COLOUR,
    NONE,
    WRITTEN,
    ends,
    laid,
    named,
    panels,
    parts,
)
from workbench.figures.theme import COLOURS, DASHES, EITHER, MARKS
from workbench.heads.roles import ROLES

Tables = Mapping[str, pd.DataFrame]
PER = {"loss": "nats", "accuracy": "share right"}
BEST = 20  # pairs in view
NAMES = {
    "importance": "importance",
    "ablation": "exact ablation",
    "magnitude": "magnitude",
    "random": "at random",
}


# --- grids ----------------------------------------------------------------------------------------


def grid(
    table: pd.DataFrame, column: str, title: str, around: bool = False, form: str = ".3f"
) -> go.Figure:
    """Heads as a grid, a layer a row, coloured by a column; `around`: even to both sides of 0."""
    table = table.reset_index(drop=True)
    values = table[column].astype(float)
    low, high = ends(values, around)
    figure = panels(table)
    names = pd.Series(named(table), table.index)
    for row, part in enumerate(parts(table), start=1):
        z, text = laid(part, values), laid(part, names)
        figure.add_trace(
            go.Heatmap(
                z=z.to_numpy(dtype=float),
                x=list(z.columns),
                y=list(z.index),
                customdata=text.to_numpy(),
                zmin=low,
                zmax=high,
                autocolorscale=True,
                showscale=row == 1,
                texttemplate=f"%{{z:{form}}}" if len(z.columns) <= WRITTEN else "",
                colorbar={"title": {"text": title}},
                xgap=2,
                ygap=2,
                hovertemplate=f"head %{{customdata}}: {title} %{{z:.4f}}<extra></extra>",
            ),
            row,
            1,
        )
    return figure


def importance(tables: Tables) -> go.Figure:
    """Importance to first order: the mean absolute gradient of the loss at each head's gate."""
    return grid(tables["importance"], "importance", "importance")


def ablation(tables: Tables) -> go.Figure:
    """What is exactly added to the loss without each head."""
    return grid(lost(tables["ablation"]), "delta", "added", around=True)


def lost(table: pd.DataFrame, mode: str = "") -> pd.DataFrame:
    """The rows of the loss, of one mode: zero, where there are several."""
    table = table[table["metric"] == "loss"]
    there = list(dict.fromkeys(table["mode"]))
    return table[table["mode"] == (mode if mode in there else there[0])].reset_index(drop=True)


def agreement(tables: Tables) -> go.Figure:
    """Importance to first order and exact ablation: heads far from the others disagree."""
    return beside(tables["importance"], lost(tables["ablation"]))


def beside(first: pd.DataFrame, exact: pd.DataFrame) -> go.Figure:
    """A mark a head: full where the loss is significantly higher without it, hollow elsewhere."""
    both = first.merge(exact, on=[*HEAD])
    sure = both["matters"].astype(bool) if "matters" in both else both["p_value"] < 0.05
    figure = go.Figure()
    for name, some, mark in (
        ("matters (p < 0.05)", sure, MARKS[0]),
        ("does not, or not known", ~sure, "circle-open"),
    ):
        own = both[some]
        figure.add_trace(
            go.Scatter(
                x=own["importance"],
                y=own["delta"],
                error_y={
                    "array": own["upper"] - own["delta"],
                    "arrayminus": own["delta"] - own["lower"],
                    "thickness": 1,
                    "width": 2,
                },
                mode="markers+text" if len(both) <= 40 else "markers",
                text=named(own, len(parts(first)) > 1),
                textposition="top center",
                marker={"symbol": mark, "size": 8},
                name=name,
                hovertemplate="head %{text}: importance %{x:.4f}, added %{y:.4f}<extra></extra>",
            )
        )
    figure.update_xaxes(title="importance to first order, nats")
    figure.update_yaxes(title="added to the loss, nats")
    figure.update_layout(height=460)
    return figure


def pairs(tables: Tables) -> go.Figure:
    """The pairs of heads that do most together beyond what each does alone."""
    table = tables["pairs"]
    table = table[table["mode"] == table["mode"].iloc[0]]
    strongest = table["interaction"].abs().sort_values(ascending=False).index[:BEST]
    own = table.loc[strongest].iloc[::-1]
    sides = [own[[f"{name}_{side}" for name in HEAD]].set_axis([*HEAD], axis=1) for side in "ab"]
    several = any(len(parts(side)) > 1 for side in sides)
    one, other = (named(side, several) for side in sides)
    figure = go.Figure(
        go.Bar(
            x=own["interaction"],
            y=[f"{a} and {b}" for a, b in zip(one, other, strict=True)],
            orientation="h",
            marker={"color": EITHER},
            error_x={
                "array": own["upper"] - own["interaction"],
                "arrayminus": own["interaction"] - own["lower"],
                "thickness": 1,
            },
            hovertemplate="%{y}: %{x:.4f}<extra></extra>",
        )
    )
    figure.update_xaxes(title="added to the loss beyond what each adds alone, nats")
    figure.update_yaxes(type="category")
    figure.update_layout(height=120 + 22 * len(own))
    return figure


# --- curves ---------------------------------------------------------------------------------------


def curve(tables: Tables) -> go.Figure:
    """The loss as heads are removed, for each way to choose; of random orders the mean and span."""
    return curves(tables["curve"], "loss")


def accuracy(tables: Tables) -> go.Figure:
    """The share that is right as heads are removed."""
    return curves(tables["curve"], "accuracy")


def curves(table: pd.DataFrame, metric: str) -> go.Figure:
    """A line a way to choose."""
    table = table[table["metric"] == metric]
    figure = go.Figure()
    for place, ((method, rescored), own) in enumerate(
        table.groupby(["method", "rescored"], sort=False)
    ):
        colour = COLOURS["light"][list(NAMES).index(str(method)) % len(COLOURS["light"])]
        of = own.groupby("fraction")
        x, middle = sorted(own["fraction"].unique()), of["value"].mean()
        low, high = (of["lower"].min(), of["upper"].max())
        red, green, blue = hex_to_rgb(colour)
        figure.add_trace(
            go.Scatter(
                x=[*x, *x[::-1]],
                y=[*high.to_list(), *low.to_list()[::-1]],
                fill="toself",
                fillcolor=f"rgba({red},{green},{blue},.12)",
                line={"width": 0},
                mode="lines",
                hoverinfo="skip",
                showlegend=False,
                legendgroup=str(place),
            )
        )
        name = NAMES[str(method)] + (", rescored" if rescored else "")
        figure.add_trace(
            go.Scatter(
                x=x,
                y=middle,
                mode="lines+markers",
                name=name,
                line={"color": colour, "dash": DASHES[1] if rescored else DASHES[0]},
                marker={"symbol": MARKS[place % len(MARKS)], "size": 7},
                legendgroup=str(place),
                hovertemplate=f"{name}: %{{x:.0%}} removed, %{{y:.3f}}<extra></extra>",
            )
        )
    figure.update_xaxes(title="heads removed", tickformat=".0%")
    figure.update_yaxes(title=f"{metric}, {PER[metric]}")
    figure.update_layout(height=440)
    return figure


def alone(tables: Tables) -> go.Figure:
    """What is added to the loss where a layer keeps one head: behind each layer, which one."""
    table = tables["alone"]
    table = table[table["metric"] == "loss"].iloc[::-1]
    figure = go.Figure(
        go.Bar(
            x=table["delta"],
            y=[f"{row.stack} {row.kind} {row.layer}: {row.head}" for row in table.itertuples()],
            orientation="h",
            marker={"color": EITHER},
            hovertemplate="%{y} alone: %{x:+.4f}<extra></extra>",
        )
    )
    figure.update_xaxes(title="added to the loss, nats")
    figure.update_yaxes(type="category")
    figure.update_layout(height=120 + 22 * len(table))
    return figure


def kept(tables: Tables) -> go.Figure:
    """The heads of the model that was kept: 1 stayed, 0 went."""
    return grid(tables["heads"].assign(kept=tables["heads"]["kept"].astype(float)), "kept", "kept",
                form=".0f")  # fmt: skip


def speed(tables: Tables) -> go.Figure:
    """Seconds of a forward pass, of the whole model and the smaller one."""
    table = tables["speed"]
    figure = go.Figure()
    for name in ("whole", "smaller"):
        figure.add_trace(
            go.Bar(
                x=[f"{number} at a time" for number in table["texts"]],
                y=table[name],
                name=name,
                hovertemplate=f"{name}, %{{x}}: %{{y:.4f}} s<extra></extra>",
            )
        )
    figure.update_yaxes(title="seconds")
    figure.update_layout(height=320, barmode="group")
    return figure


# --- gates ----------------------------------------------------------------------------------------


def gates(tables: Tables) -> go.Figure:
    """How likely each head's gate is open, by price and by budget; a head is a row."""
    table = tables["gates"]
    names = pd.Series(named(table), table.index)
    wide = table.assign(name=names, at=trials(table)).pivot(
        index="name", columns="at", values="p_open"
    )
    wide = wide.loc[list(dict.fromkeys(names)), list(dict.fromkeys(trials(table)))]
    figure = go.Figure(
        go.Heatmap(
            z=wide.to_numpy(),
            x=list(wide.columns),
            y=list(wide.index),
            zmin=0,
            zmax=1,
            xgap=2,
            ygap=1,
            colorbar={"title": {"text": "open"}},
            hovertemplate="head %{y}, %{x}: %{z:.2f}<extra></extra>",
        )
    )
    figure.update_xaxes(type="category")
    figure.update_yaxes(type="category", autorange="reversed", title="head")
    figure.update_layout(height=160 + 18 * len(wide))
    return figure


def trials(table: pd.DataFrame) -> list[str]:
    """Each row's price or budget."""
    return [
        f"keep {budget:.0%}" if budget else f"price {price:g}"
        for price, budget in zip(table["lambda"], table["budget"], strict=True)
    ]


def survival(tables: Tables) -> go.Figure:
    """Heads that stay at each price or budget, and what is added to the loss without the others.

    Hatched: gates were cut off by their number of steps. Diamonds: as many heads chosen at random.
    """
    table = tables["survival"]
    table = table[table["metric"] == "loss"]
    figure = make_subplots(1, 2, horizontal_spacing=0.16)
    names = trials(table)
    known = table["converged"] if "converged" in table else [True] * len(table)
    hatched = ["" if done else "/" for done in known]
    for column, (name, values) in enumerate(
        (("heads that stay", table["heads"]), ("added to the loss, nats", table["delta"])), start=1
    ):
        figure.add_trace(
            go.Bar(x=names, y=values, marker={"color": EITHER, "pattern": {"shape": hatched}},
                   showlegend=False,
                   hovertemplate="%{x}: %{y:.4g}<extra></extra>"), 1, column,
        )  # fmt: skip
        figure.update_yaxes(title=name, col=column)
    if "random" in table:
        figure.add_trace(
            go.Scatter(x=names, y=table["random"], mode="markers", name="heads at random",
                       marker={"symbol": "diamond-open", "size": 9, "color": EITHER},
                       hovertemplate="%{x}, at random: %{y:.4g}<extra></extra>"), 1, 2,
        )  # fmt: skip
    figure.update_xaxes(type="category")
    figure.update_layout(height=340)
    return figure


def by_role(gates: pd.DataFrame, heads: pd.DataFrame) -> go.Figure:
    """How many heads of each role stay at each price or budget, as Voita et al. (2019) have it."""
    both = gates.assign(at=trials(gates)).merge(heads[[*HEAD, "role"]], on=[*HEAD])
    both["role"] = both["role"].replace("", NONE)
    order = list(dict.fromkeys(both["at"]))
    whole = heads["role"].replace("", NONE).value_counts()
    figure = go.Figure()
    for role in [*(role for role in ROLES if role in set(both["role"])), NONE]:
        own = both[both["role"] == role]
        if own.empty:
            continue
        number = own[own["kept"]].groupby("at").size().reindex(order, fill_value=0)
        figure.add_trace(
            go.Bar(
                x=["all", *order],
                y=[int(whole.get(role, 0)), *number],
                name=str(role),
                marker={"color": COLOUR.get(str(role), "rgba(128,128,128,.4)")},
                hovertemplate=f"{role}, %{{x}}: %{{y}} heads<extra></extra>",
            )
        )
    figure.update_xaxes(type="category")
    figure.update_yaxes(title="heads that stay")
    figure.update_layout(height=360, barmode="stack")
    return figure


Draw = Any
IMPORTANCE: Mapping[str, Draw] = {"importance": importance}
ABLATION: Mapping[str, Draw] = {
    "ablation": ablation,
    "agreement": agreement,
    "importance": importance,
    "pairs": pairs,
}
PRUNING: Mapping[str, Draw] = {
    "curve": curve,
    "accuracy": accuracy,
    "alone": alone,
    "kept": kept,
    "speed": speed,
}
GATES: Mapping[str, Draw] = {"gates": gates, "survival": survival}
