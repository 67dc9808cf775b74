"""One head and what speaks for it: its roles and scores, where it looks, relations, sentences.

Costs reading a run's tables, which are kept.
"""

from typing import TYPE_CHECKING

import streamlit as st

from workbench.heads.roles import ROLES
from workbench.view import heads_names as names
from workbench.view import heads_one as drawn
from workbench.view.parts import figures, heads_run, words
from workbench.view.parts.heads_attention import link
from workbench.view.parts.heads_run import Looked
from workbench.view.parts.heads_sentences import sentences
from workbench.view.parts.plain import plain, shortened

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


def evidence(seen: Looked) -> None:
    """Everything that is known of the head."""
    here = seen.here
    st.subheader(f"Head {plain(seen.name)}", anchor=False)
    with st.container(horizontal=True, vertical_alignment="center"):
        found = [role for role in str(here["roles"]).split(", ") if role]
        for role in found:
            st.badge(plain(role), color="blue" if role == here["role"] else "gray")
        if not found:
            st.badge("no role", color="gray")
        link(seen)
    if found:
        st.caption(
            "; ".join(f"{plain(role)}: {ROLES.get(role, 'unknown')}" for role in found) + "."
        )
    left, right = st.columns([3, 2])
    with left:
        _scores(here)
    with right:
        own = seen.own("offsets")
        if own.empty:
            st.text("No word has a word near it, so there are no offsets.")
        else:
            _draw(seen, drawn.offsets(own), _about(drawn.offsets), "offsets")
        _kin(seen)
    _relations(seen)


def _scores(here: "pd.Series") -> None:
    """All its scores, with intervals and baselines beside."""
    import pandas as pd

    rows = []
    for name, score in names.SCORES.items():
        if score.above:
            continue
        ends = [here[c] for end in ("lower", "upper") if (c := f"{score.column}_{end}") in here]
        nothing = [here[f"{score.of}_{end}"] for end in ("lower", "upper")] if score.of else ends
        if nothing == [0, 1]:  # of nothing, as the tables have it
            rows.append((name, "not asked", "", ""))
            continue
        interval = "–".join(f"{100 * end:.1f}" for end in ends)
        beside = [here[column] for column in score.beside]
        baseline = _written(max(beside), score.is_share) if beside else ""
        value = _written(here[score.column], score.is_share)
        if name == "one offset":
            name = f"offset {here['offset']:+d}"
        if name == "best relation" and here["best_relation"]:
            name = f"{here['best_relation']}, {here['best_direction'].replace('-', ' ')}"
        rows.append((shortened(name), value, interval, baseline))
    columns = ["score", "value", "95 %", "baseline"]
    st.dataframe(
        pd.DataFrame(rows, columns=columns),
        hide_index=True,
        height=(len(rows) + 1) * 35 + 3,
        key="scores of a head",
    )
    with st.expander("What the scores are"):
        words.facts((name, score.about) for name, score in names.SCORES.items())
        st.text(
            "Baselines: a fixed offset, the first or the longest word; shuffled trees or the "
            "longest word; the nearest mention or the same word; uniform attention. Intervals: "
            "bootstrap over documents."
        )


def _written(value: float, is_share: bool) -> str:
    return f"{100 * value:.1f} %" if is_share else f"{value:.2f}"


def _kin(seen: Looked) -> None:
    """The head that looks most like it."""
    own = seen.own("clusters") if "clusters" in seen.run.tables else None
    if own is None or own.empty:
        return
    row = own.iloc[0]
    near = f"{row['nearest_layer']}-{row['nearest_head']}"
    if seen.several:
        near = f"{row['nearest_stack']} {row['nearest_kind']} {near}"
    said = f"Nearest in what it looks at: head {near}, {row['distance']:.2f} apart (0: the same)."
    if "kin" in seen.run.tables and len(other := seen.own("kin")):
        one = other.iloc[0]
        said += (
            f" In {one['model']}: {one['kin_stack']} {one['kin_kind']} {one['kin_layer']}-"
            f"{one['kin_head']}, {one['distance']:.2f} apart."
        )
    st.text(said)


def _relations(seen: Looked) -> None:
    """Its relations in one direction, and the sentences behind one of them."""
    table = seen.own("relations")
    if table.empty:
        st.text(
            "By pieces, relations are not asked for: see level."
            if seen.run.spec.settings.get("level") == "pieces"
            else "The corpus has no dependencies that this head could follow."
        )
        return
    st.subheader("Relations", anchor=False)
    here = seen.here
    with st.container(horizontal=True, vertical_alignment="bottom"):
        usual = next((n for n, way in names.WAYS.items() if way == here["best_direction"]), "")
        there = [n for n, way in names.WAYS.items() if (table["direction"] == way).any()]
        way = heads_run.one("A word looks at", there, heads_run.DIRECTION, usual, seen)
        table = table[table["direction"] == names.WAYS[way]]
        name = heads_run.one(
            "Relation",
            sorted(map(str, table["relation"])),
            heads_run.RELATION,
            str(here["best_relation"]),
            seen,
        )
    _draw(seen, drawn.relations(table), _about(drawn.relations), "relations")
    _told(table[table["relation"] == name].iloc[0], name)
    sentences(seen, name, names.WAYS[way])


def _told(row: "pd.Series", name: str) -> None:
    sure = "beats its baselines, significantly" if row["syntactic"] else "not enough for a role"

    def at(column: str) -> str:
        return f"{100 * row[column]:.1f} %"

    st.markdown(
        f"**{plain(name)}**: {at('accuracy')} of {row['n']:,} dependents "
        f"({100 * row['lower']:.1f} to {100 * row['upper']:.1f}), reliable maxima alone "
        f"{at('accuracy_confident')}; at the offset {row['baseline_offset']:+d} "
        f"{at('baseline_accuracy')}, at the first word {at('baseline_first')}, at the longest "
        f"{at('baseline_longest')}, over shuffled trees {at('null_mean')}. Above the best of these "
        f"by {100 * row['difference']:.1f} points ({100 * row['difference_lower']:.1f} to "
        f"{100 * row['difference_upper']:.1f}), p = {row['p_value_baseline']:.3g}; above shuffled "
        f"trees p = {row['p_value']:.3g}, both corrected. {sure.capitalize()}."
    )


def _draw(seen: Looked, figure: "go.Figure", about: str, name: str) -> None:
    from workbench.report.drawings import Drawing
    from workbench.view.harmless import harmless

    figures.draw(Drawing(name, about, harmless(figure)), f"{name} of a head {seen.run.name}")


def _about(draw: object) -> str:
    return " ".join((draw.__doc__ or "").split())
