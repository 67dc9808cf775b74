"""Figures of pruning: importance and ablation as grids, curves, gates by price, speed.

Pure functions of the tables of `head-importance`, `head-ablation`, `head-pruning` and `head-gates`;
they cost milliseconds.
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
    shown = []
    for name, some, mark in (
        ("matters (p < 0.05)", sure, MARKS[0]),
        ("does not, or not known", ~sure, "circle-open"),
    ):
        own = both[some]
        shown.append(
            marks(
                own["importance"],
                own["delta"],
                "head %{text}: importance %{x:.4f}, added %{y:.4f}",
                name,
                symbol=mark,
                error_y=interval(own, "delta"),
                mode="markers+text" if len(both) <= 40 else "markers",
                text=named(own, len(groups(first)) > 1),
                textposition="top center",
            )
        )
    x = {"title": "importance to first order, nats"}
    return plot(shown, 460, x, {"title": "added to the loss, nats"})


def pairs(tables: Tables) -> go.Figure:
    """The pairs of heads that do most together beyond what each does alone."""
    table = tables["pairs"]
    table = table[table["mode"] == table["mode"].iloc[0]]
    strongest = table["interaction"].abs().sort_values(ascending=False).index[:BEST]
    own = table.loc[strongest].iloc[::-1]
    sides = [own[[f"{name}_{side}" for name in HEAD]].set_axis([*HEAD], axis=1) for side in "ab"]
    several = any(len(groups(side)) > 1 for side in sides)
    one, other = (named(side, several) for side in sides)
    names = [f"{a} and {b}" for a, b in zip(one, other, strict=True)]
    spread = interval(own, "interaction")
    return plot(
        [bars(own["interaction"], names, "%{y}: %{x:.4f}", spread=spread)],
        120 + 22 * len(own),
        {"title": "added to the loss beyond what each adds alone, nats"},
        {"type": "category"},
    )


# --- curves ---------------------------------------------------------------------------------------


def loss_curve(tables: Tables) -> go.Figure:
    """The loss as heads are removed, for each way to choose; of random orders the mean and span."""
    return curves(tables["curve"], "loss")


def accuracy_curve(tables: Tables) -> go.Figure:
    """The share that is right as heads are removed."""
    return curves(tables["curve"], "accuracy")


def curves(table: pd.DataFrame, metric: str) -> go.Figure:
    """A line a way to choose."""
    table = table[table["metric"] == metric]
    shown = []
    for place, ((method, rescored), own) in enumerate(
        table.groupby(["method", "rescored"], sort=False)
    ):
        colour = COLOURS["light"][list(NAMES).index(str(method)) % len(COLOURS["light"])]
        name = way(str(method), bool(rescored))
        of = own.groupby("fraction").agg({"value": "mean", "lower": "min", "upper": "max"})
        x = of.index.to_list()
        shown += [
            band(x, of["lower"].to_list(), of["upper"].to_list(), colour, name),
            curve(
                x,
                of["value"],
                f"{name}: %{{x:.0%}} removed, %{{y:.3f}}",
                name,
                place,
                colour,
                {"size": 7},
                {"dash": DASHES[1] if rescored else DASHES[0]},
                legendgroup=name,
            ),
        ]
    axis = {"title": "heads removed", "tickformat": ".0%"}
    return plot(shown, 440, axis, {"title": f"{metric}, {PER[metric]}"})


def way(method: str, rescored: bool) -> str:
    """A way to choose heads, in words."""
    return NAMES[method] + (", rescored" if rescored else "")


def alone(tables: Tables) -> go.Figure:
    """What is added to the loss where a layer keeps one head: behind each layer, which one."""
    table = tables["alone"]
    table = table[table["metric"] == "loss"].iloc[::-1]
    names = [f"{row.stack} {row.kind} {row.layer}: {row.head}" for row in table.itertuples()]
    shown = bars(table["delta"], names, "%{y} alone: %{x:+.4f}")
    x = {"title": "added to the loss, nats"}
    return plot([shown], 120 + 22 * len(table), x, {"type": "category"})


def kept(tables: Tables) -> go.Figure:
    """The heads of the model that was kept: 1 stayed, 0 went."""
    return grid(tables["heads"].assign(kept=tables["heads"]["kept"].astype(float)), "kept", "kept",
                form=".0f")  # fmt: skip


def speed(tables: Tables) -> go.Figure:
    """Seconds of a forward pass, of the whole model and the smaller one."""
    table = tables["speed"]
    texts = [f"{number} at a time" for number in table["texts"]]
    shown = [
        bars(table[name], texts, f"{name}, %{{x}}: %{{y:.4f}} s", name, None, upright=True)
        for name in ("whole", "smaller")
    ]
    return plot(shown, 320, y={"title": "seconds"}, barmode="group")


# --- gates ----------------------------------------------------------------------------------------


def gates(tables: Tables) -> go.Figure:
    """How likely each head's gate is open, by price and by budget; a head is a row."""
    table = tables["gates"]
    wide = matrix(named(table), trials(table), table["p_open"])
    shown = heat_map(wide, "head %{y}, %{x}: %{z:.2f}", "open", zmin=0, zmax=1)
    y = {**DOWN, "title": "head"}
    return plot([shown], 160 + 18 * len(wide), {"type": "category"}, y)


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
    names = trials(table)
    known = table["converged"] if "converged" in table else [True] * len(table)
    hatched = {"pattern": {"shape": ["" if done else "/" for done in known]}}
    titles = {"heads": "heads that stay", "delta": "added to the loss, nats"}
    parts: list[tuple[str, list[Trace]]] = [
        ("", [bars(table[column], names, "%{x}: %{y:.4g}", upright=True, marker=hatched)])
        for column in titles
    ]
    if "random" in table:
        hover, name = "%{x}, at random: %{y:.4g}", "heads at random"
        parts[1][1].append(marks(names, table["random"], hover, name, EITHER, "diamond-open", 9))
    x, y = {"type": "category"}, [{"title": title} for title in titles.values()]
    return panels(parts, 230, 2, x=x, y=y, apart=0.32)


def by_role(gates: pd.DataFrame, heads: pd.DataFrame) -> go.Figure:
    """How many heads of each role stay at each price or budget, as Voita et al. (2019) have it."""
    both = gates.assign(at=trials(gates)).merge(heads[[*HEAD, "role"]], on=[*HEAD])
    both["role"] = both["role"].replace("", NONE)
    order = list(dict.fromkeys(both["at"]))
    whole = heads["role"].replace("", NONE).value_counts()
    shown = []
    for role in [*ROLES, NONE]:
        own = both[both["role"] == role]
        if len(own):
            number = own[own["kept"]].groupby("at").size().reindex(order, fill_value=0)
            counts = [int(whole.get(role, 0)), *number]
            colour = COLOUR.get(role, PALE)
            hover = f"{role}, %{{x}}: %{{y}} heads"
            shown.append(bars(counts, ["all", *order], hover, role, colour, upright=True))
    y = {"title": "heads that stay"}
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
