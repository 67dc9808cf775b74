"""The tab Senses of the page Words: the occurrences of a form on a map, in clusters.

Costs: an index of the corpus, the first time (`words_index`); then a second for 500 occurrences.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from workbench.analyses.words.views import choices as words
from workbench.analyses.words.views import index as words_index
from workbench.analyses.words.views import neighbours as words_neighbours
from workbench.analyses.words.views import results as words_results
from workbench.analyses.words.views.choices import FORM, Searched
from workbench.analyses.words.views.index import Indexed
from workbench.analyses.words.views.results import Mapped
from workbench.app import cache, choice, tables_and_figures
from workbench.app.downloads import downloads
from workbench.app.runs import run_list
from workbench.app.tables_and_figures import Column, draw_columns, select
from workbench.app.text import captions, errors_shown, plain
from workbench.app.text_boxes import row, second_model
from workbench.app.token_views.component import token_views
from workbench.app.token_views.views import Contexts, View, contexts
from workbench.core.findings import plural
from workbench.core.head_names import at_state, state_number
from workbench.drawing.theme import INK

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from workbench.analyses.words.occurrences import Form
    from workbench.analyses.words.senses import Senses

AUTOMATIC = "automatic"
COLOURS = ("tag", "lemma", "relation", "cluster", "split")
OFFERED = 8  # forms with several tags that are offered as buttons
FEWEST = 4  # occurrences of a map
READ = 6  # sentences of a cluster that are listed
CLEAR = 0.05  # p-value
FIT = {
    "gold": Column("labels"),
    "labels": Column("values"),
    "n": Column("n", help="Number of occurrences with such a label."),
    "v_measure": Column(
        "V-measure", "%.2f", help="1: each cluster is one label; 0: clusters say nothing of labels."
    ),
    "v_chance": Column("permuted", "%.2f", help="The mean with permuted labels."),
    "v_p": Column("p", "%.3f", help="Share of permutations with at least this V-measure."),
    "accuracy": Column(
        "nearest (%)", "%.0f", True, "Share of occurrences whose nearest one, in another "
        "sentence, has the same label, in %."
    ),
    "chance": Column("by chance (%)", "%.0f", True, "The mean with permuted labels, in %."),
    "p": Column("p (nearest)", "%.3f", help="Share of permutations with at least this share."),
}  # fmt: skip


def draw(ref: str, word: str) -> None:
    """Draw the tab: a map for each model, with its clusters and measures."""
    from workbench.analyses.words.occurrences import form_count

    first = cache.model(ref)
    with row("senses"):
        stack = words_neighbours.stack_of(first)
        end = words_neighbours.last_layer(first, stack)
        layer = _layer(end)
        colour = select("Colour", COLOURS, "colour", width=120, help="Colour of the marks.")
        n_clusters = select(
            "Clusters",
            [AUTOMATIC, *map(str, range(2, 9))],
            "clusters",
            width=130,
            help="Number of clusters (default: as many as have the largest silhouette).",
        )
        other = second_model(190)
        part = words_neighbours.searched()
    models = words_neighbours.models(ref, other)
    for _, model in models:
        words_index.progress(model, part)
    if (indexed := words_index.ready(first, part)) is None:
        return
    form = st.query_params.get(FORM) or word
    offered = words_results.forms(indexed)
    _forms(form, offered)
    if (count := form_count(indexed.index, form)) < FEWEST:
        if indexed.is_part:
            st.text(so_far(form, count, indexed))
        else:
            _too_few(form, count, part, offered)
        return
    mapped = Mapped(form, layer, stack, None if n_clusters == AUTOMATIC else int(n_clusters))
    for column, (each, model) in zip(st.columns(len(models)), models, strict=True):
        with column, errors_shown():
            if (own := words_index.ready(model, part)) is not None:
                name = stack if stack in [its.name for its in model.stacks] else ""
                last = words_neighbours.last_layer(model, name)
                its_layer = last if layer == end else min(layer, last)  # last next to last
                its_map = replace(mapped, stack=name, layer=its_layer)
                _one(each, model, own, its_map, colour, part)


def _layer(last: int) -> int:
    """Draw the slider for the layer."""
    if not last:
        return 0
    names = [state_number(layer) for layer in range(last + 1)]
    if st.session_state.get("layer", names[-1]) not in names:
        st.session_state["layer"] = names[-1]
    chosen = st.select_slider(
        "Layer",
        names,
        names[-1],
        key="layer",
        bind="query-params",
        width=200,
        help="Layer of the states (default: the last).",
    )
    return names.index(chosen)


def _forms(form: str, offered: "Sequence[Form]") -> None:
    """Draw a box for the form, and buttons for forms with several tags."""
    several = [each for each in offered if each.second and each.form != form.lower()][:OFFERED]
    with row("form"):
        _form(form, offered)
        if not several:
            return
        with st.container(
            horizontal=True, vertical_alignment="center", gap="small", width="content"
        ):
            st.caption("Words with several tags:", width="content")
            for each in several:
                tags = ", ".join(f"{tag} {n:,}" for tag, n in each.tags[:3])
                st.button(
                    plain(each.form),
                    key=f"use {each.form}",
                    type="tertiary",
                    help=plain(tags),
                    on_click=run_list.set_query,
                    args=(FORM, each.form, (words.OPENED,)),
                )


def _form(form: str, offered: "Sequence[Form]") -> None:
    """Draw a box for the form; any form can be typed."""
    key = f"form {form}"
    options = list(dict.fromkeys([form, *(each.form for each in offered)]))

    def changed() -> None:
        picked = str(st.session_state.get(key) or "").strip()
        run_list.set_query(FORM, picked or None, (words.OPENED,))

    st.selectbox(
        "Word",
        options,
        0,
        key=key,
        on_change=changed,
        accept_new_options=True,
        width=190,
        help="The word form, in any case (default: the chosen word of the text). Forms with "
        "several tags come first.",
    )


# --- one model ------------------------------------------------------------------------------------


def _one(
    ref: str, model: Any, indexed: Indexed, mapped: Mapped, colour: str, part: Searched
) -> None:
    with st.spinner("Clustering …"):
        found = words_results.senses(model, indexed, mapped)
    last = words_neighbours.last_layer(model, mapped.stack)
    where = f"layer {mapped.layer} of {last}" if mapped.layer else "embeddings"
    where = f"{where} of the {mapped.stack}" if mapped.stack else where
    st.markdown(f"**{plain(choice.name_of(ref, 'models'))}**, {where}")
    key = f"senses {ref}"
    _map(found, colour, key)
    words_neighbours.open_sentence(model, part, set(found.table["occurrence"]), key)
    st.markdown(plain(verdict(found)))
    if len(found.measures):
        draw_columns(found.measures, FIT, f"fit {ref}", width="content")
    captions(found.notes)
    view = contexts("clusters", clusters(found), pickable=True, about="Opens the sentence.")
    token_views([view], f"clusters {ref}", words_neighbours.opening)
    title = (
        f"Occurrences of “{words.clipped(found.word)}” at {at_state(found.layer)}, {found.model}"
    )
    _downloads(found, colour, view, title)


def so_far(form: str, count: int, indexed: "Indexed") -> str:
    """What a map waits for, while the other words are still read."""
    return (
        f"“{words.clipped(form)}” occurs {times(count)} in the first {len(indexed.index):,} words; "
        f"a map needs {FEWEST} occurrences. The other words are being read."
    )


def times(count: int) -> str:
    """How often, in words."""
    return "once" if count == 1 else f"{count} times" if count else "nowhere"


def _too_few(form: str, count: int, part: Searched, offered: "Sequence[Form]") -> None:
    """Say that a form is too rare, and which are not."""
    st.info(
        plain(
            f"“{words.clipped(form)}” occurs {times(count)} in the searched words of "
            f"{part.corpus}; a map needs {FEWEST} occurrences."
        ),
        icon=":material/info:",
    )
    if offered:
        names = ", ".join(f"{each.form} ({each.n:,})" for each in offered[:12])
        st.markdown(plain(f"Words that occur often enough: {names}. Choose one under Word."))
    else:
        st.markdown("No word of the corpus occurs often enough. Choose a larger corpus.")


def verdict(found: "Senses") -> str:
    """Whether clusters and neighbours fit the labels, in a sentence."""
    if found.measures.empty:
        tags = sorted({str(tag) for tag in found.table["tag"]} - {""})
        if not tags:
            return "The corpus has no tags to compare the clusters with."
        return f"All occurrences have the tag {tags[0]}: there is nothing to compare clusters with."
    best = found.measures.iloc[0]
    fits = "fit" if best["v_p"] < CLEAR else "are not shown to fit"
    return (
        f"The clusters {fits} the {best['gold']} ({best['labels']}): V-measure "
        f"{best['v_measure']:.2f}, with permuted labels {best['v_chance']:.2f} "
        f"(p = {best['v_p']:.3f})."
    )


def clusters(found: "Senses") -> list[Contexts]:
    """Some sentences of each cluster, those nearest to its centre on the map first."""
    opened = words.opened()
    columns = []
    for cluster, own in found.table.groupby("cluster"):
        centre = own[["x", "y"]].mean()
        distance = ((own[["x", "y"]] - centre) ** 2).sum(axis=1)
        shown = own.loc[distance.sort_values(kind="stable").index[:READ]]
        rows = [words_neighbours.context_of(each, opened) for each in shown.to_dict("records")]
        counts = own["tag"].value_counts()
        tags = ", ".join(f"{tag} {n}" for tag, n in counts.items() if tag and n)
        rest = len(own) - len(shown)
        note = f"and {rest:,} more" if rest else ""
        name = f"cluster {cluster}: {plural(len(own), 'occurrence')}"
        columns.append(Contexts(name, rows, tags, note))
    return columns


def _map(found: "Senses", colour: str, key: str) -> None:
    """Draw the map; a click on a mark opens its sentence."""
    from workbench.drawing.sanitize import harmless
    from workbench.report.content import Drawing

    figure = _marked(found.figure(colour), found.table)
    title = figure.layout.title.text or ""
    figure.update_layout(title=None, margin={"t": 32})
    key = f"{key} {found.word} {found.layer} {colour} {words.opened()}"

    def clicked() -> None:
        places = (st.session_state.get(key) or {}).get("selection", {}).get("points", [])
        if places and (index := occurrence_at(found.table, places[0])) is not None:
            words.open_occurrence(index)

    reading = (
        "Each mark is an occurrence: its colour is its label, its shape its cluster. Point at it "
        "to read the sentence; click it to open it."
    )
    drawing = Drawing("senses", title, "", reading, harmless(figure))
    tables_and_figures.draw_figure(drawing, key, clicked)


def occurrence_at(table: pd.DataFrame, point: Any) -> int | None:
    """The occurrence at a place of the map; the browser is not trusted."""
    try:
        x, y = float(point["x"]), float(point["y"])
    except (TypeError, ValueError, LookupError):
        return None
    distances = ((table["x"] - x) ** 2 + (table["y"] - y) ** 2).to_numpy(dtype=float)
    if not math.isfinite(distances.min(initial=math.inf)):
        return None
    return int(table["occurrence"].to_numpy()[distances.argmin()])


def _marked(figure: "go.Figure", table: pd.DataFrame) -> "go.Figure":
    """The figure with a ring around the opened occurrence."""
    import plotly.graph_objects as go

    own = table[table["occurrence"] == words.opened()]
    if own.empty:
        return figure
    ring = {
        "symbol": "circle-open",
        "size": 20,
        "color": INK[tables_and_figures.kind()],
        "line": {"width": 2},
    }
    return figure.add_trace(
        go.Scatter(
            x=own["x"], y=own["y"], mode="markers", marker=ring, hoverinfo="skip", showlegend=False
        )
    )


def _downloads(found: "Senses", colour: str, view: View, title: str) -> None:
    downloads(
        "senses",
        found.table,
        lambda: [(title, [view])],
        lambda: found.figure(colour),
        title,
    )
