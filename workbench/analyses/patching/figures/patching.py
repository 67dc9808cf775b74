"""Figures of activation patching of one text: layers by words, and heads.

Pure functions of the table of a `Patching`. Costs: milliseconds.
"""

import pandas as pd
import plotly.graph_objects as go

from workbench.core.findings import percent
from workbench.core.head_names import (
    at_state,
    block_name,
    has_several_kinds,
    head_name,
    head_number,
    state_name,
)
from workbench.drawing.primitives import CELLS, Trace, ends, head_grid, heat_map, panels
from workbench.drawing.sanitize import escaped

LONGEST = 60  # words; of a longer text those with the largest effects are drawn
ROW = 26  # pixels
NAMES = {
    "states": "The state of",
    "mlps": "The MLP output of",
    "attentions": "The attention output of",
    "heads": "",
}


def effects(
    table: pd.DataFrame,
    what: str = "states",
    label: str = "the prediction",
    is_distinguished: bool = True,
) -> go.Figure:
    """Share of the difference between two texts that each restored activation restores.

    How to read: 100 % is the number of the clean text, 0 % that of the corrupt one; below 0 an
    activation moves the prediction further away. Layers by words, the last layer on top, for
    states, MLPs and attentions; layers by heads for heads. Words
    without a counterpart in the other text are empty.
    """
    title = {"text": escaped(finding(table, what, label, is_distinguished))}
    if "head" in table and "position" not in table:
        return _heads(table, title)
    keys = [name for name in ("stack", "kind") if name in table]
    parts: list[tuple[object, list[Trace]]] = []
    heights: list[float] = []
    groups = list(table.groupby(keys, sort=False))
    for names, own in groups:
        wide = _wide(own, what)
        cells = heat_map(
            wide,
            "%{y}, %{x}: %{z:.1%}",
            "effect",
            "%{z:.0%}",
            tickformat=".0%",
            showscale=not parts,
            **ends(table["effect"].fillna(0)),
        )
        parts.append((" ".join(map(str, names)) if len(groups) > 1 else "", [cells]))
        heights.append(max(90, ROW * len(wide)))
    return panels(
        parts,
        heights,
        x={**CELLS, "type": "category"},
        y={**CELLS, "type": "category", "title": "head" if "head" in table else ""},
        title=title,
        top=40,
    )


def finding(
    table: pd.DataFrame,
    what: str = "states",
    label: str = "the prediction",
    is_distinguished: bool = True,
) -> str:
    """The activation with the largest effect, as a sentence; no share of a tiny difference.

    States before the first and after the last layer are left out if there are others: there the
    changed word and the predicted place restore everything in any model.
    """
    if not is_distinguished:
        return f"The two texts hardly differ in {label}: shares say little"
    rows = table[table["effect"].notna()]
    if what == "states":
        inner = rows[(rows["layer"] > 0) & (rows["layer"] < rows["layer"].max())]
        rows = rows if inner.empty else inner
    if rows.empty or not (rows["effect"] > 0).any():
        return f"Nothing restores {label}"
    best = rows.iloc[int(rows["effect"].argmax())]
    return f"{_said(best, table, what)} restores {percent(best['effect'])} of {label}"


def _said(row: pd.Series, table: pd.DataFrame, what: str) -> str:
    word = _restored_word(row) if "corrupt" in table else "all pieces"
    if "head" in table:
        name = head_name(row, has_several_kinds(table))
        name = f"{name[0].upper()}{name[1:]}"
        return name if "corrupt" not in table else f"{name} at {word}"
    several = table["stack"].nunique() > 1
    stack = f"the {row['stack']}, " if several else ""
    layer = (at_state if what == "states" else block_name)(row["layer"])
    return f"{NAMES.get(what, 'The state of')} {word} in {stack}{layer}"


def _restored_word(row: pd.Series) -> str:
    """The word of the clean text, whose activation it is, and the one in whose place it is put."""
    clean, corrupt = row["clean"], row["corrupt"]
    return f"“{clean}”" if clean == corrupt else f"“{clean}” (for “{corrupt}”)"


def _heads(table: pd.DataFrame, title: dict[str, str]) -> go.Figure:
    return head_grid(
        table,
        table["effect"],
        form="%{z:.0%}",
        hover="head %{y}.%{x}: %{z:.1%}",
        title="effect",
        tickformat=".0%",
        top=40,
        **ends(table["effect"].fillna(0)),
    ).update_layout(title=title)


def _wide(table: pd.DataFrame, what: str) -> pd.DataFrame:
    """Effects by layer (or head) and word, the first layer at the bottom.  # [layers, words]"""
    rows = table["layer"].map(state_name if what == "states" else block_name)
    if "head" in table:
        rows = table[["layer", "head"]].apply(lambda row: head_number(*row), axis=1)
    each = rows.groupby(rows, sort=False).cumcount()  # the place of the word in the text
    wide = table.assign(row=rows, column=each).pivot(index="row", columns="column", values="effect")
    wide = wide.loc[list(dict.fromkeys(rows))]
    kept = wide.abs().max().fillna(0).nlargest(LONGEST).index.sort_values()
    wide = wide[kept]
    return wide.set_axis([_names(table)[n] for n in kept], axis=1)


def _names(table: pd.DataFrame) -> list[str]:
    """The words of the columns, made different by spaces where a word occurs again."""
    if "corrupt" not in table:
        return ["all pieces"]
    n_columns = int(table.groupby([n for n in ("layer", "head") if n in table]).size().iloc[0])
    first = table.iloc[:n_columns]
    shown = [
        corrupt or f"({clean})"
        for corrupt, clean in zip(first["corrupt"], first["clean"], strict=True)
    ]
    seen: dict[str, int] = {}
    names = []
    for text in (" ".join(each.split()) for each in shown):
        names.append(text + " " * seen.get(text, 0))
        seen[text] = seen.get(text, 0) + 1
    return names
