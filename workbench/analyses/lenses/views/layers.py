"""The tab When? of the page Predict & explain: what every layer would predict (logit lens).

Costs: a forward pass, and the model's head for every layer; for the whole text also for every word.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import streamlit as st

from workbench.analyses.lenses.figures import lens as drawn
from workbench.analyses.predictions.views import choices as predict
from workbench.analyses.predictions.views import results as predict_results
from workbench.analyses.predictions.views.choices import Place
from workbench.analyses.predictions.views.results import (
    COUNT,
    ENTRIES,
    Side,
    prediction_at,
    with_gaps,
)
from workbench.app import choice, navigation, selection
from workbench.app.downloads import downloads
from workbench.app.tables_and_figures import segment
from workbench.app.text import captions, errors_shown, plain
from workbench.app.text_boxes import row
from workbench.app.token_views.component import token_views
from workbench.app.token_views.views import View, grid, index_in
from workbench.core.findings import percent
from workbench.core.head_names import state_name as layer_name
from workbench.report.format import number

HERE, EVERYWHERE = "the chosen place", "every word"
WIDEST = 48  # words in the grid at a time
KEYS = ["stack", "layer", "sublayer"]
NAMES = {"attention": ", after attention", "cross-attention": ", after cross-attention"}


# --- what is computed, once for each text ---------------------------------------------------------


@dataclass(frozen=True)
class Layers:
    """What every layer predicts, as the tables of a `LensReading`."""

    table: pd.DataFrame
    choices: pd.DataFrame
    final: pd.DataFrame
    notes: tuple[str, ...]

    @property
    def is_score(self) -> bool:
        """Whether it is a score, which has no choices and no probability."""
        return bool(self.choices["probability"].isna().all())


def layers(side: Side, sublayers: bool, whole: bool) -> Layers:
    """What every layer predicts at the place, or with `whole` at every word of the text."""
    return _layers(side.key, sublayers, whole, side)


@st.cache_data(max_entries=ENTRIES // 4, show_spinner=False)
def _layers(
    key: tuple[str, str, tuple[int, ...]], sublayers: bool, whole: bool, _side: Side
) -> Layers:
    from workbench.analyses.lenses.lens import lens
    from workbench.engine.forward_pass import ALONE

    gaps = with_gaps(_side.model, _side.doc)[1] if whole else []
    with ALONE:
        if gaps:
            return _of_gaps(_side, len(gaps), sublayers)
        found = lens(
            _side.model,
            _side.doc if whole else prediction_at(_side),
            sublayers=sublayers,
            top=1 if whole else COUNT,
        )
    return Layers(found.table, found.choices, found.final, found.notes)


def _of_gaps(side: Side, count: int, sublayers: bool) -> Layers:
    """What every layer predicts for each hidden word, with the others hidden."""
    from workbench.analyses.lenses.lens import lens

    tables: list[list[pd.DataFrame]] = [[], [], []]
    notes: tuple[str, ...] = ()
    for n in range(count):
        prediction = prediction_at(replace(side, place=Place("gap", n)))
        found = lens(side.model, prediction, sublayers=sublayers, top=1)
        for parts, table in zip(tables, (found.table, found.choices, found.final), strict=True):
            parts.append(table.assign(place=n, word=f"hidden word {n + 1}"))
        notes = found.notes
    table, choices, final = (pd.concat(parts, ignore_index=True) for parts in tables)
    return Layers(table, choices, final, notes)


# --- the tab --------------------------------------------------------------------------------------


def when(sides: Sequence[Side]) -> None:
    """Draw the tab When?: a grid for each model."""
    with row("when"):
        what = segment(
            "Show",
            [HERE, EVERYWHERE],
            "lens",
            help="The most probable choices of each "
            "layer for the chosen place; or the top choice of each layer for every word.",
        )
        sublayers = st.toggle(
            "After attention, too",
            key="sublayers",
            bind="query-params",
            help="Also read the state between attention and MLP.",
        )
    for side in sides:
        with errors_shown():
            with st.spinner("Reading the layers …"):
                found = layers(side, sublayers, what == EVERYWHERE)
            if found.is_score:
                _score(side, found)
            elif what == EVERYWHERE:
                _every_word(side, found)
            else:
                _one_place(side, found)
            captions(found.notes)


def state_name(row: Mapping[str, Any], several: bool) -> str:
    """The name of a state: its layer, and what it comes after."""
    stack = f"{row['stack']} " if several else ""
    after = NAMES.get(str(row["sublayer"]), "")
    return f"{stack}{layer_name(row['layer'])}{after}"


def _states(found: Layers) -> list[dict[str, Any]]:
    """The states from the last layer down."""
    table = found.table.drop_duplicates(KEYS)[KEYS]
    return list(reversed(table.to_dict("records")))


def _one_place(side: Side, found: Layers) -> None:
    """Draw layer × most probable choices."""
    states = _states(found)
    several = found.table["stack"].nunique() > 1
    by_state = dict(list(found.choices.groupby(KEYS, sort=False)))
    measures = {tuple(r[k] for k in KEYS): r for r in found.table.to_dict("records")}
    names, texts, values, tips, marked = [], [], [], [], []
    final = {r["stack"]: int(r["layer"]) for r in found.final.to_dict("records")}
    for r, state in enumerate(states):
        key = tuple(state[k] for k in KEYS)
        best = by_state[key].sort_values("rank")
        names.append(state_name(state, several))
        texts.append([str(choice) for choice in best["choice"]])
        values.append([float(p) for p in best["probability"]])
        measure = measures[key]
        tips.append(
            [
                f"{names[-1]}, choice {n + 1}: {choice} {percent(p, 1)}; rank of the final choice "
                f"{int(measure['rank_final']):,}, entropy {measure['entropy']:.2f} nats"
                for n, (choice, p) in enumerate(zip(texts[-1], values[-1], strict=True))
            ]
        )
        if measure["agrees"] and state["layer"] >= final.get(state["stack"], 0):
            marked.append((r, 0))
    width = max(map(len, texts))
    columns = [f"choice {n + 1}" for n in range(width)]
    st.markdown(f"**{plain(side.name)}**: {plain(_final_words(found, side))}")
    view = grid(
        "lens",
        "What each layer would predict",
        names,
        columns,
        values,
        texts=texts,
        tips=tips,
        corner="state",
        marked=marked,
        row=_row(states),
        pickable=True,
        legend=("", "probability"),
        top=1.0,
        note="One row for each state, the last layer on top: the most probable choices if the "
        "model ended there. A frame marks the final prediction, from the layer where it no longer "
        "changes.",
    )

    def chosen(pick: Mapping[str, Any]) -> None:
        at = index_in(pick, "row", len(states))
        if at is not None:
            selection.select(layer=states[at]["layer"])

    token_views([view], f"lens {side.ref}", chosen)
    _links(side, found)
    _downloads(side, found, view, "at the chosen place")


def _row(states: Sequence[Mapping[str, Any]]) -> int | None:
    """The row of the selected layer."""
    layer = selection.layer(1 << 20)
    return next((n for n, state in enumerate(states) if state["layer"] == layer), None)


def _links(side: Side, found: Layers) -> None:
    """Draw a link to the page of the layer from which the prediction no longer changes."""
    for each in found.final.to_dict("records"):
        number = max(1, int(each["layer"]))
        is_several = len(side.model.stacks) > 1
        navigation.link(
            "layer",
            f"What {layer_name(number)} does",
            icon=":material/layers:",
            query_params={
                **choice.in_url(),
                selection.LAYER: f"{each['stack']} {number}" if is_several else str(number),
                "text": side.doc.text[:2000],
                "at": side.place.as_text,
            },
            help="The page of this layer, where it can be turned off, as any other.",
        )


def _score(side: Side, found: Layers) -> None:
    """Draw the score that each layer would predict."""
    table = found.table.drop_duplicates(KEYS).iloc[::-1]
    several = table["stack"].nunique() > 1
    names = [state_name(state, several) for state in _states(found)]
    scores = [float(score) for score in table["score"]]
    near = [bool(agrees) for agrees in table["agrees"]]
    st.markdown(f"**{plain(side.name)}**: the score of each layer")
    view = grid(
        "lens",
        "What score each layer would predict",
        names,
        ["score"],
        [[score] for score in scores],
        texts=[[number(score)] for score in scores],
        tips=[[f"{name}: {number(score)}"] for name, score in zip(names, scores, strict=True)],
        corner="state",
        marked=[(r, 0) for r, agrees in enumerate(near) if all(near[: r + 1])],
        diverging=True,
        note="One row for each state, the last layer on top: "
        "the score if the model ended there. A frame marks the final score, from the layer where "
        "it hardly changes.",
    )
    token_views([view], f"lens {side.ref}", lambda chosen: None)
    _downloads(side, found, view, "of the score")


def _final_words(found: Layers, side: Side) -> str:
    rows = found.final.to_dict("records")
    top = predict_results.top(side, 1).texts[0]
    parts = []
    for each in rows:
        stack = f" of the {each['stack']}" if len(rows) > 1 else ""
        layer, last = int(each["layer"]), int(each["layers"])
        where = "already after the embeddings" if not layer else f"from layer {layer} of {last}"
        parts.append(f"{where}{stack}{' on' if layer else ''}")
    return f"“{top}” is the prediction {', '.join(parts)}."


def _every_word(side: Side, found: Layers) -> None:
    """Draw layer × word."""
    states = _states(found)
    several = found.table["stack"].nunique() > 1
    places = found.final.drop_duplicates("place")
    words = [str(word) for word in places["word"]]
    first = 0
    if len(words) > WIDEST:
        page = int(st.pagination(-(-len(words) // WIDEST), key=f"lens page {side.ref}"))
        first = (page - 1) * WIDEST
        words = words[first : first + WIDEST]
    wanted = [int(place) for place in places["place"]][first : first + len(words)]
    top = found.choices[found.choices["rank"] == 1]
    cells = {(r["place"], *(r[k] for k in KEYS)): r for r in top.to_dict("records")}
    agrees = {
        (r["place"], *(r[k] for k in KEYS)): bool(r["agrees"])
        for r in found.table.to_dict("records")
    }
    final = {(r["place"], r["stack"]): int(r["layer"]) for r in found.final.to_dict("records")}
    names = [state_name(state, several) for state in states]
    texts, values, tips, marked = [], [], [], []
    for r, state in enumerate(states):
        key = tuple(state[k] for k in KEYS)
        line = [cells[(place, *key)] for place in wanted]
        texts.append([str(cell["choice"]) for cell in line])
        values.append([float(cell["probability"]) for cell in line])
        tips.append(
            [
                f"{names[r]}, in the place of {cell['word']}: {cell['choice']} "
                f"{percent(cell['probability'], 1)}"
                for cell in line
            ]
        )
        marked += [
            (r, c)
            for c, place in enumerate(wanted)
            if agrees[(place, *key)] and state["layer"] >= final[place, state["stack"]]
        ]
    column = _column(side, found, wanted)
    words_of = {c: _place_of(side, words[c], place, found) for c, place in enumerate(wanted)}

    def chosen(pick: Mapping[str, Any]) -> None:
        at = index_in(pick, "column", len(wanted))
        if at is not None and (place := words_of[at]) is not None:
            predict.choose_place(place)

    st.markdown(f"**{plain(side.name)}**")
    view = grid(
        "lens",
        "What each layer would predict for each word",
        names,
        words,
        values,
        texts=texts,
        tips=tips,
        corner="state",
        marked=marked,
        column=column,
        row=_row(states),
        chosen=_chosen_column(side, words_of),
        pickable=True,
        legend=("", "probability"),
        top=1.0,
        note=f"Columns: the {'hidden ' if side.place.kind == 'gap' else ''}words of the text, each "
        "predicted from its context. Rows: the top choice if the model ended there. A frame marks "
        "the final prediction, from the layer where it no longer changes. Click a cell to choose "
        "its word.",
    )
    token_views([view], f"lens words {side.ref}", chosen)
    _downloads(side, found, view, "for every word")


def _place_of(side: Side, word: str, place: int, found: Layers) -> Place | None:
    """The place of a column: the word, or what comes next."""
    if word == "(next)":
        return Place("next")
    if side.place.kind == "gap":
        return Place("gap", place)
    predicted = [p.index for p in predict_results.places(side.model, side.doc) if p.kind == "word"]
    names = found.final.drop_duplicates("place")
    same = [n for n, each in enumerate(names["word"]) if str(each) != "(next)"]
    if len(same) != len(predicted):  # words that the model does not know are left out
        known = [n for n in predicted if side.doc[n].text == word]
        return Place("word", known[0]) if len(known) == 1 else None
    return Place("word", predicted[place])


def _column(side: Side, found: Layers, wanted: Sequence[int]) -> int | None:
    names = found.final.drop_duplicates("place")
    texts = dict(zip(names["place"], names["word"], strict=True))
    for c, place in enumerate(wanted):
        if _place_of(side, str(texts[place]), place, found) == side.place:
            return c
    return None


def _chosen_column(side: Side, places: Mapping[int, Place | None]) -> int | None:
    """The column of the selected word."""
    word = selection.word(len(side.doc))
    if word is None:
        return None
    return next((c for c, place in places.items() if place == Place("word", word)), None)


def _downloads(side: Side, found: Layers, view: View, where: str) -> None:
    title = f"Logit lens {where}, {side.name}"
    tables = {"table": found.table, "choices": found.choices, "final": found.final}
    downloads("lens", found.choices, lambda: [(title, [view])], lambda: drawn.grid(tables), title)
