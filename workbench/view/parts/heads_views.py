"""Views of all heads of a run: the best of each relation, kin, offsets, cross-attention, tables.

Each reads the tables it needs and draws them. Costs milliseconds.
"""

from typing import TYPE_CHECKING

import streamlit as st

from workbench.view import heads as drawn
from workbench.view import heads_names as names
from workbench.view.parts import figures, results, tables
from workbench.view.parts.heads_run import HEAD, Looked, look_at
from workbench.view.parts.plain import shortened
from workbench.view.theme import INK

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd
    import plotly.graph_objects as go

FEW = 12  # rows in view


def relations(seen: Looked) -> None:
    """Of each relation the head that follows it best, as a table and as bars."""
    best = seen.table("best")
    if best.empty:
        st.text(
            "By pieces, relations are not asked for: see level."
            if seen.run.spec.settings.get("level") == "pieces"
            else "The corpus has no dependencies, or too few of each relation."
        )
        return
    st.caption(
        "The best head of each relation and direction, whatever its role, next to the fixed offset "
        "that hits most often, counted as Clark et al. (2019) do: the argmax over the other words, "
        "each dependent once. Tick a row to look at its head."
    )
    there = {name: row for row, name in enumerate(names.named(seen.heads))}
    heads = names.named(best, seen.several)
    shown = best.assign(head=heads, relation=[shortened(name) for name in best["relation"]])
    shown["direction"] = shown["direction"].map({way: name for name, way in names.WAYS.items()})
    shares = ("accuracy", "lower", "upper", "accuracy_confident", "accuracy_any_dependent",
              "reliable", "baseline_accuracy", "gain")  # fmt: skip
    for name in shares:
        shown[name] = 100 * shown[name]
    shown["interval"] = [
        f"{low:.1f}–{high:.1f}" for low, high in zip(shown["lower"], shown["upper"], strict=True)
    ]
    columns = {
        "relation": "relation",
        "direction": "looks at",
        "head": "head",
        "accuracy": "accuracy",
        "interval": "95 %",
        "gain": "gain",
        "baseline_offset": "offset",
        "baseline_accuracy": "at it",
        "n": "dependents",
        "syntactic": "role",
        "accuracy_confident": "confident",
        "accuracy_any_dependent": "any dependent",
        "reliable": "reliable",
    }
    number = st.column_config.NumberColumn
    key = f"best {seen.run.name} {st.query_params.get(HEAD)}"
    st.dataframe(
        shown[list(columns)].rename(columns=columns),
        hide_index=True,
        height=min(len(shown) + 1, FEW) * 35 + 3,
        column_config={
            "accuracy": number(format="%.1f"),
            "at it": number(format="%.1f", help="Accuracy of that fixed offset."),
            "gain": number(
                format="%+.1f",
                help="Above the best simple rule: a fixed offset, the first or the longest word.",
            ),
            "confident": number(format="%.1f", help="Accuracy where unreliable maxima are misses."),
            "any dependent": number(
                format="%.1f", help="Accuracy with each head word once, any dependent a hit."
            ),
            "reliable": number(format="%.1f", help="Maxima that are reliable, in %."),
            "offset": number(format="%+d", help="The fixed offset that hits most often."),
            "95 %": st.column_config.TextColumn(width=105),
            "role": st.column_config.CheckboxColumn(
                help="Syntactic: confident accuracy above the baselines, by the margin and "
                "significantly."
            ),
        },
        on_select=lambda: _ticked(seen, key, [there.get(head, -1) for head in heads]),
        selection_mode="single-row",
        key=key,
    )
    _here(seen)
    _draw(seen, drawn.relations({"best": best}), drawn.relations, "relations")


def _ticked(seen: Looked, key: str, rows: list[int]) -> None:
    ticked = st.session_state[key]["selection"]["rows"]
    if ticked and ticked[0] < len(rows):
        look_at(seen.run, rows[ticked[0]])


def _here(seen: Looked) -> None:
    """Which head is looked at, where its evidence is not in view."""
    role = names.role_of(seen.here["role"])
    st.text(f"Head {seen.name} is looked at ({role}): see the view Heads.")


def kin(seen: Looked) -> None:
    """Which heads look alike: on a map, and in the order in which they join."""
    if "clusters" not in seen.run.tables or seen.table("clusters").empty:
        st.text("No sentences were kept, so heads were not compared: ask with examples.")
        return
    found = {"clusters": seen.table("clusters"), "heads": seen.heads}
    key = f"map {seen.run.name} {seen.row}"
    own = seen.own("clusters").iloc[0]
    _draw(
        seen,
        _marked(drawn.kin_map(found), own),
        drawn.kin_map,
        key,
        lambda: _clicked(seen, found["clusters"], figures.points(key)),
    )
    _here(seen)
    near = found["clusters"].copy()
    near = near[near["cluster"] == own["cluster"]]
    others = ", ".join(names.named(near, seen.several))
    st.text(f"Cluster {own['cluster']}: {others}." if len(near) > 1 else "It clusters with none.")
    if "kin" in seen.run.tables and len(table := seen.table("kin")):
        st.subheader("Nearest in the other model", anchor=False)
        tables.draw(table, f"kin {seen.run.name}")
    found["dendrogram"] = seen.table("dendrogram")
    _draw(seen, drawn.dendrogram(found), drawn.dendrogram, "dendrogram")


def _marked(figure: "go.Figure", own: "pd.Series") -> "go.Figure":
    """A ring round the head that is looked at."""
    import plotly.graph_objects as go

    ring = {"symbol": "circle-open", "size": 24, "color": INK[figures.kind()], "line": {"width": 2}}
    place = {"x": [own["x"]], "y": [own["y"]], "mode": "markers", "marker": ring}
    return figure.add_trace(go.Scatter(**place, hoverinfo="skip", showlegend=False))


def _clicked(seen: Looked, places: "pd.DataFrame", points: list[list[object]]) -> None:
    """`points` tell the row of `clusters`, which has an order of its own."""
    at = points[0][0] if points else None
    if not isinstance(at, int | float) or not 0 <= int(at) < len(places):
        return
    name = names.named(places, seen.several)[int(at)]
    there = names.named(seen.heads)
    if name in there:
        look_at(seen.run, there.index(name))


def offsets(seen: Looked) -> None:
    """How far every head looks."""
    table = seen.table("offsets")
    if table.empty:
        st.text("No word has a word near it, so there are no offsets.")
        return
    _draw(seen, drawn.offsets({"offsets": table}), drawn.offsets, "offsets of all")


def cross(seen: Looked) -> None:
    """How a decoder's heads go along what the encoder read."""
    table = seen.table("cross")
    _draw(seen, drawn.cross({"cross": table}), drawn.cross, "cross")


def all_tables(seen: Looked) -> None:
    """Every table, and what leaves the app as a file."""
    results.every_table(seen.run)


def _draw(
    seen: Looked,
    figure: "go.Figure",
    draw: object,
    name: str,
    pointed: "Callable[[], None] | None" = None,
) -> None:
    from workbench.report.drawings import Drawing
    from workbench.view.harmless import harmless

    about = " ".join((draw.__doc__ or "").split())
    key = name if pointed else f"{name} {seen.run.name}"
    figures.draw(Drawing(name, about, harmless(figure)), key, pointed)
