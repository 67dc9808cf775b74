"""Heads as a grid, a layer a row: coloured by role, with its name, or by a score.

Pure functions of the table `heads`. Over the cells lie marks that nobody sees: they are what one
points at, and their `customdata` begins with the row of the table. Costs milliseconds.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.heads.roles import ROLES
from workbench.view.harmless import escaped
from workbench.view.heads_names import (
    CODES,
    COLOUR,
    GROUP,
    NONE,
    SCORES,
    groups,
    named,
    role_of,
    value_of,
)

ROW, LEAST = 30, 14  # pixels of a layer, and where there are many
BETWEEN = 72  # pixels between panels
WRITTEN = 16  # heads beside each other whose cells have words
NOTHING = "rgba(128,128,128,.25)"  # a head without a role
_HOVER = (
    "<b>%{customdata[1]}</b>: %{customdata[2]}<br>%{customdata[3]}: %{customdata[4]:.1%},"
    " baseline %{customdata[5]:.1%}<br>offset %{customdata[6]:+d}: %{customdata[7]:.1%}<br>"
    "confidence %{customdata[8]:.1%}, entropy %{customdata[9]:.1%}<br>"
    "rarest word %{customdata[10]:.1%}<br>special pieces %{customdata[11]:.1%},"
    " by norm %{customdata[12]:.1%}<extra></extra>"
)
_ALSO = (
    "relation_accuracy", "relation_baseline", "offset", "offset_share", "confidence", "entropy",
    "rare_share", "special_mass", "special_mass_normed",
)  # fmt: skip


def by_role(heads: pd.DataFrame, shown: Sequence[bool] | None = None) -> go.Figure:
    """The grid with a colour and a word a role; heads that are not `shown` stay empty."""
    heads = _there(heads)
    order = list(ROLES)
    number = heads["role"].map(lambda role: order.index(role) if role in order else -1)
    kept = _kept(heads, shown)
    words = [CODES.get(role, "") for role in heads["role"]]
    scale = _steps([NOTHING, *(COLOUR[role] for role in order)])
    figure = panels(heads)
    for row, part in enumerate(parts(heads), start=1):
        z, text = laid(part, number.where(kept)), laid(part, pd.Series(words, heads.index))
        figure.add_trace(
            go.Heatmap(
                z=z.to_numpy(dtype=float),
                x=list(z.columns),
                y=list(z.index),
                text=text.where(z.notna(), "").to_numpy(),
                texttemplate="%{text}" if len(z.columns) <= WRITTEN else "",
                zmin=-1.5,
                zmax=len(order) - 0.5,
                colorscale=scale,
                autocolorscale=False,
                showscale=False,
                xgap=2,
                ygap=2,
                hoverinfo="skip",
            ),
            row,
            1,
        )
        _pointed(figure, heads, part[kept[part.index]], row)
    for role in [*(role for role in order if (heads["role"] == role).any()), ""]:
        count = int((heads["role"] == role).sum())
        if count:
            name, colour = f"{role_of(role)} ({count})", COLOUR.get(role, "rgba(128,128,128,.4)")
            figure.add_trace(_sign(name, colour, "square"), 1, 1)
    return figure


def by_score(
    heads: pd.DataFrame, name: str, shown: Sequence[bool] | None = None, visible: bool = True
) -> go.Figure:
    """The grid with a score as colour, one scale for all panels."""
    heads = _there(heads)
    score, values = SCORES[name], value_of(heads, name)
    kept = _kept(heads, shown)
    low, high = ends(values, score.above)
    figure = panels(heads)
    form = ".0%" if score.is_share else ".1f"
    for row, part in enumerate(parts(heads), start=1):
        z = laid(part, values.where(kept))
        figure.add_trace(
            go.Heatmap(
                z=z.to_numpy(dtype=float),
                x=list(z.columns),
                y=list(z.index),
                zmin=low,
                zmax=high,
                autocolorscale=True,
                showscale=row == 1,
                texttemplate=f"%{{z:{form}}}" if len(z.columns) <= WRITTEN else "",
                colorbar={"tickformat": form},
                xgap=2,
                ygap=2,
                visible=visible,
                hoverinfo="skip",
            ),
            row,
            1,
        )
        _pointed(figure, heads, part[kept[part.index]], row)
    return figure


def outlined(figure: go.Figure, heads: pd.DataFrame, row: int, colour: str) -> go.Figure:
    """A frame round the head of one row of the table."""
    here = heads.loc[row]
    panel = groups(heads).index((str(here["stack"]), str(here["kind"]))) + 1
    x, y = int(str(here["head"])), int(str(here["layer"]))
    box = {"x0": x - 0.5, "x1": x + 0.5, "y0": y - 0.5, "y1": y + 0.5}
    figure.add_shape(type="rect", **box, line={"color": colour, "width": 3}, row=panel, col=1)
    return figure


# --- what grids are made of -----------------------------------------------------------------------


def _there(heads: pd.DataFrame) -> pd.DataFrame:
    if heads.empty:
        raise KeyError("no heads")
    return heads.reset_index(drop=True)


def _kept(heads: pd.DataFrame, shown: Sequence[bool] | None) -> pd.Series:
    return pd.Series(True if shown is None else list(shown), heads.index)


def parts(heads: pd.DataFrame) -> list[pd.DataFrame]:
    return [part for _, part in heads.groupby(GROUP, sort=False)]


def laid(part: pd.DataFrame, values: pd.Series) -> pd.DataFrame:
    """Values of these heads by layer and head.  # [layers, heads]"""
    own = part.assign(value=values[part.index])
    return own.pivot(index="layer", columns="head", values="value")


def panels(heads: pd.DataFrame) -> go.Figure:
    """A panel for each stack and kind, a layer a row, the lowest layer on top."""
    there, names = parts(heads), groups(heads)
    sizes = [part["layer"].nunique() for part in there]
    tall = max(LEAST, min(ROW, 900 // sum(sizes)))
    inner = tall * sum(sizes) + BETWEEN * (len(there) - 1)
    figure = make_subplots(
        len(there),
        1,
        subplot_titles=[escaped(" ".join(name)) for name in names] if len(names) > 1 else None,
        row_heights=sizes,
        vertical_spacing=BETWEEN / inner if len(there) > 1 else 0,
    )
    titles_left(figure)
    widest = int(heads["head"].max()) + 1
    figure.update_xaxes(showgrid=False, zeroline=False, dtick=1 if widest <= WRITTEN else 4)
    figure.update_xaxes(title="head", row=len(there))
    figure.update_yaxes(showgrid=False, zeroline=False, title="layer")
    figure.update_yaxes(dtick=1 if max(sizes) <= 24 else 4, fixedrange=True)
    figure.update_xaxes(fixedrange=True, range=[-0.5, widest - 0.5])
    for row, part in enumerate(there, start=1):
        ends = [int(part["layer"].max()) + 0.5, int(part["layer"].min()) - 0.5]
        figure.update_yaxes(range=ends, row=row, col=1)
    top = 84 if len(there) > 1 else 60
    figure.update_layout(height=inner + top + 50, hovermode="closest", margin={"t": top, "b": 50})
    above = 30 if len(there) > 1 else 6
    figure.update_layout(legend={"y": 1 + above / inner}, dragmode=False)
    return figure


def titles_left(figure: go.Figure) -> None:
    """Names of panels where a reader begins."""
    figure.update_annotations(x=0, xanchor="left", font={"size": 13})


def _pointed(figure: go.Figure, heads: pd.DataFrame, part: pd.DataFrame, row: int) -> None:
    """The marks that one points at."""
    names = pd.Series(named(heads), heads.index)[part.index]
    data = [
        [
            number,
            name,
            here["roles"] or NONE,
            f"{here['best_relation'] or 'no relation'} {here['best_direction']}".strip(),
            *(here[name] for name in _ALSO),
        ]
        for name, (number, here) in zip(names, part.iterrows(), strict=True)
    ]
    unseen = {"marker": {"opacity": 0}}
    figure.add_trace(
        go.Scatter(
            x=part["head"],
            y=part["layer"],
            mode="markers",
            marker={"symbol": "square", "size": 26, "opacity": 0, "color": "#808080"},
            selected=unseen,
            unselected=unseen,
            customdata=data,
            hovertemplate=_HOVER,
            showlegend=False,
        ),
        row,
        1,
    )


def _sign(name: str, colour: str, symbol: str) -> go.Scatter:
    """An entry of the legend."""
    marker = {"color": colour, "symbol": symbol, "size": 12}
    return go.Scatter(x=[None], y=[None], name=name, mode="markers", marker=marker)


def _steps(colours: Sequence[str]) -> list[list[float | str]]:
    """A scale of one even step a colour."""
    size = 1 / len(colours)
    return [
        [min(edge * size, 1.0), colour]
        for place, colour in enumerate(colours)
        for edge in (place, place + 1)
    ]


def ends(values: pd.Series, around: bool) -> tuple[float, float]:
    """From nought to the largest; even to both sides where it may be less."""
    found = values.to_numpy(dtype=float)
    largest = float(np.nanmax(np.abs(found), initial=0.0)) or 1.0
    return (
        (-largest, largest)
        if around and float(np.nanmin(found, initial=0.0)) < 0
        else (0.0, largest)
    )
