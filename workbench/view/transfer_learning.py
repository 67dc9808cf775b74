"""Figures of learning: the loss by step and dev by epoch, of every attempt; and how ways look.

Pure functions of the tables `learning` and `epochs`; they cost milliseconds.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.view.harmless import escaped
from workbench.view.heads_grid import titles_left
from workbench.view.theme import DASHES, MANY, MARKS

Tables = Mapping[str, pd.DataFrame]
ATTEMPT = ["model", "method", "head", "seed", "learning_rate"]
TALL, BETWEEN = 280, 64  # pixels of a panel, and between two
KNOWN = {  # ways that every table has, always in the same colour
    "frozen": MANY[3],
    "frozen, LSTM": MANY[5],
    "fine-tuned": MANY[4],
    "fine-tuned, text": MANY[7],
}
OTHERS = [colour for colour in MANY if colour not in KNOWN.values()]


def way(row: Any) -> str:
    """A method under a head, in words."""
    head = str(row["head"])
    return str(row["method"]) + {"plain": "", "lstm": ", LSTM"}.get(head, f", {head}")


def ways(table: pd.DataFrame) -> dict[str, dict[str, str]]:
    """The ways in a table, each with a colour and a mark."""
    names = dict.fromkeys(table.apply(way, axis=1)) if len(table) else {}
    others = [name for name in names if name not in KNOWN]
    return {
        name: {
            "color": KNOWN.get(name) or OTHERS[others.index(name) % len(OTHERS)],
            "symbol": MARKS[place % len(MARKS)],
        }
        for place, name in enumerate(names)
    }


def learning(tables: Tables) -> go.Figure:
    """The loss of each step, a line an attempt, as it was: no mean is taken."""
    return _lines(tables["learning"], "step", "loss", "loss", thin=True)


def hollow(converged: pd.Series | None, symbol: str) -> list[str] | str:
    """The mark of each row: hollow where training was cut off by its maximum of epochs."""
    if converged is None:
        return symbol
    return [symbol if own else f"{symbol}-open" for own in converged]


def epochs(tables: Tables) -> go.Figure:
    """Dev's score after each epoch, a line an attempt; hollow where it was cut off by its maximum
    number of epochs. Of a plain head over a frozen model a mark an optimum, by passes."""
    return _lines(tables["epochs"], "epoch", "value", "on dev", thin=False)


def _lines(table: pd.DataFrame, x: str, y: str, title: str, thin: bool) -> go.Figure:
    """A panel a task, a colour a way, a dash a seed; of one way alone a colour a rate."""
    tasks = list(dict.fromkeys(table["task"]))
    down = max(1, len(tasks))
    inner = down * TALL + (down - 1) * BETWEEN
    figure = make_subplots(
        down,
        1,
        subplot_titles=[escaped(task) for task in tasks] if len(tasks) > 1 else None,
        vertical_spacing=BETWEEN / inner if down > 1 else 0,
    )
    titles_left(figure)
    series = ways(table)
    rates = sorted(set(table["learning_rate"])) if len(series) == 1 else []
    seeds = list(dict.fromkeys(table["seed"]))
    seen: set[str] = set()
    for row, task in enumerate(tasks, start=1):
        for key, own in table[table["task"] == task].groupby(ATTEMPT, sort=False):
            model, method, head, seed, rate = key
            name = way({"method": method, "head": head})
            colour = series[name]["color"]
            if rates:
                name, colour = f"rate {rate:g}", MANY[(rates.index(rate) + 3) % len(MANY)]
            place = seeds.index(seed)
            figure.add_trace(
                go.Scatter(
                    x=own[x],
                    y=own[y],
                    mode="lines" if thin else "lines+markers",
                    line={
                        "color": colour,
                        "width": 1.25 if thin else 1.75,
                        "dash": DASHES[place % len(DASHES)],
                    },
                    marker={
                        "symbol": hollow(own.get("converged"), MARKS[place % len(MARKS)]),
                        "size": 6,
                    },
                    name=escaped(name),
                    legendgroup=name,
                    showlegend=name not in seen,
                    customdata=[[model, seed, f"{rate:g}"]] * len(own),
                    hovertemplate="%{customdata[0]}, seed %{customdata[1]}, rate %{customdata[2]}"
                    f"<br>{x} %{{x}}: %{{y:.4f}}<extra>{escaped(name)}</extra>",
                ),
                row,
                1,
            )
            seen.add(name)
    for place, seed in enumerate(seeds if len(seeds) > 1 else ()):
        line = {"color": "#808080", "dash": DASHES[place % len(DASHES)]}
        figure.add_trace(
            go.Scatter(x=[None], y=[None], mode="lines", line=line, name=f"seed {seed}")
        )
    figure.update_xaxes(title=x, row=down, col=1)
    if len(table) and table[x].max() <= (20 if x == "epoch" else 8):
        figure.update_xaxes(dtick=1)
    figure.update_yaxes(title=title)
    figure.update_layout(height=inner + 120, hovermode="closest", margin={"t": 80})
    figure.update_layout(legend={"y": 1 + (30 if down > 1 else 6) / inner}, showlegend=True)
    return figure
