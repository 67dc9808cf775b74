"""The tab Where? of the page Predict & explain: which activations carry what a word changes.

Costs: a forward pass for each word and some candidates to find a counterfactual; then a row of a
batch for each layer and word, or for each head.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from workbench.analyses.patching.figures import patching as drawn
from workbench.analyses.predictions.views import choices as predict
from workbench.analyses.predictions.views import edits as predict_edits
from workbench.analyses.predictions.views.choices import Place
from workbench.analyses.predictions.views.results import (
    ENTRIES,
    LISTED,
    Explained,
    Side,
    choice_of,
    is_score,
    prediction_at,
    top,
    with_gaps,
)
from workbench.analyses.predictions.views.target import named_for, target_boxes
from workbench.app import cache, glossary, selection
from workbench.app.downloads import downloads
from workbench.app.runs import run_list
from workbench.app.tables_and_figures import segment
from workbench.app.text import captions, errors_shown, plain
from workbench.app.text_boxes import row
from workbench.app.token_views.component import token_views
from workbench.app.token_views.views import View, grid, index_in
from workbench.core.errors import WorkbenchError
from workbench.core.findings import decimal, percent, signed
from workbench.core.head_names import FIRST, block_name, head_number, state_name
from workbench.report.format import number

if TYPE_CHECKING:
    import pandas as pd
    from spacy.tokens import Doc

    from workbench.models.interventions.patching import What

WHAT = {"states": "states", "heads": "heads", "MLPs": "mlps", "attentions": "attentions"}
OF_CORRUPT = "its top choice"
LONG = 128  # words from which each is restored only when asked for
ONE = {
    "states": "state",
    "heads": "head output",
    "mlps": "MLP output",
    "attentions": "attention output",
}
NOTE = {
    "states": "One cell for each word of the counterfactual text and each layer, the last one on "
    "top. In any model, a single changed word restores everything in the embeddings, and the "
    "predicted place in the last layer: the layers between show where the "
    "information goes from one to the other.",
    "heads": "One cell for each head, at all words together.",
    "mlps": "One cell for each word of the counterfactual text and each MLP, the last one on top.",
    "attentions": "One cell for each word of the counterfactual text and each attention, the last "
    "one on top.",
}


# --- what is computed, once for each text ---------------------------------------------------------


@dataclass(frozen=True)
class Patched:
    """The effect of every restored activation, as of a `Patching`."""

    label: str  # the explained choice, and what it is compared with
    measure: str
    clean: float
    corrupt: float
    table: "pd.DataFrame"
    notes: tuple[str, ...]
    is_distinguished: bool = True


def patching(side: Side, corrupt: Side, what: "What", target: str, against: str) -> Patched:
    """The effects of activations of the text that are restored in its counterfactual."""
    return _patching(side.key, corrupt.key, what, Explained(target, against), side, corrupt)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _patching(
    key: tuple[str, str, tuple[int, ...]],
    corrupt_key: tuple[str, str, tuple[int, ...]],
    what: "What",
    explained: Explained,
    _side: Side,
    _corrupt: Side,
) -> Patched:
    from workbench.analyses.patching.patch import patch_predictions
    from workbench.analyses.predictions.generate import cut_notes
    from workbench.engine.forward_pass import ALONE

    first = top(_side, LISTED)
    choices = [
        choice_of(_side, first, text) if text else None
        for text in (explained.target, explained.against)
    ]
    with ALONE:
        both = [(prediction_at(side), side.doc) for side in (_side, _corrupt)]
        notes = [note for own in both for note in cut_notes(*own)]
        found = patch_predictions(both[0][0], both[1][0], *choices, what=what, notes=notes)
    names = [name for name in (found.target, found.against) if name]
    label = " rather than ".join(f"“{name}”" for name in names)
    measure = f"{found.measure} difference" if found.against else found.measure
    if is_score(_side):
        label, measure = "the score", "value"
    return Patched(
        label,
        measure,
        found.clean_value,
        found.corrupt_value,
        found.table,
        tuple(note for note in found.notes if note not in notes),  # the page says what is cut
        found.is_distinguished,
    )


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _counterfactual_swap(
    key: tuple[str, str, tuple[int, ...]], _side: Side
) -> tuple[int, str] | None:
    from workbench.analyses.predictions.counterfactual import counterfactual
    from workbench.engine.forward_pass import ALONE

    with ALONE:
        return counterfactual(prediction_at(_side))


def corrupt_side(side: Side, doc: "Doc") -> Side:
    """The counterfactual text with the place that corresponds to the one of the text."""
    from workbench.analyses.patching.alignment import word_of

    place = side.place
    is_tag = place.kind == "label" and prediction_at(side).kind == "tag"
    if place.kind == "word" or is_tag:
        place = Place(place.kind, word_of(side.doc, doc, place.index))
    doc, gaps = with_gaps(side.model, doc)
    if place.kind == "gap" and place.index >= len(gaps):
        raise WorkbenchError(
            f"The counterfactual has no hidden word number {place.index + 1}.",
            code="texts-not-aligned",
            remedy="Write [MASK] or ___ in both texts.",
        )
    return Side(side.ref, side.model, doc, place, side.written)


# --- the tab --------------------------------------------------------------------------------------


def where(sides: Sequence[Side]) -> None:
    """Draw the tab Where?: the counterfactual text, and a map for each model."""
    corrupt = _counterfactual(sides[0])
    with row("where"):
        chosen = segment(
            "Restore",
            list(WHAT),
            "restore",
            help="What is taken from the text above and put into its counterfactual: the states of "
            "the layers, or the outputs of heads, MLPs or attentions.",
        )
        target, against = target_boxes(
            sides[0], OF_CORRUPT, "the most probable choice for the counterfactual"
        )
    what = WHAT[chosen]
    if corrupt is None:
        st.caption("Type a counterfactual: the text with another word, which changes what is "
                   "predicted.")  # fmt: skip
        return
    if (
        what != "heads"
        and _is_long(corrupt)
        and not st.toggle(
            "Restore every word", key="every word", help="Takes some time for a long text."
        )
    ):
        return
    for side in sides:
        with errors_shown():
            with st.spinner("Restoring activations …"):
                other = corrupt_side(side, corrupt)
                own = named_for(side, sides[0], target, against)
                found = patching(side, other, cast("What", what), *own)
            _map(side, found, what, own)


def _is_long(doc: "Doc") -> bool:
    return len(doc) > LONG


# --- the counterfactual text ----------------------------------------------------------------------


def _counterfactual(side: Side) -> "Doc | None":
    """Draw the box for the counterfactual, or two for a pair; None if it is empty."""
    from workbench.corpora.text_prediction import pair_of

    own = _texts(side.doc)
    given = _suggested(side, own)
    typed = [
        _box(key, text, len(own), n)
        for n, (key, text) in enumerate(zip(predict.CORRUPT, given, strict=False))
    ]
    is_own = typed == own and not any(key in st.query_params for key in predict.CORRUPT)
    if is_own or not all(text.strip() for text in typed):
        return None
    docs = [cache.typed(text) for text in typed]
    return docs[0] if len(docs) == 1 else pair_of(*docs)


def _box(key: str, suggested: str, n_boxes: int, n: int) -> str:
    """Draw a box whose text is in the address; it follows the suggestion until one types."""
    current = st.query_params.get(key, "")
    name = f"{key} {current or suggested}"

    def changed() -> None:
        text = " ".join(str(st.session_state.get(name) or "").split())
        run_list.set_query(key, None if text == suggested else text)

    found = st.text_input(
        "Counterfactual" + (f", text {n + 1}" if n_boxes > 1 else ""),
        current or suggested,
        key=name,
        on_change=changed,
        help="The text with another word, which changes what is predicted. The suggestion is the "
        "edited text of What if?, or else a word that the model predicts in the place of the word "
        "that matters most.",
    )
    return found or ""


def _texts(doc: "Doc", swap: tuple[int, str] | None = None) -> list[str]:
    """The text, or the two texts of a pair; with a word exchanged."""
    from workbench.corpora.layers import mentions

    words = [token.text_with_ws for token in doc]
    if swap is not None:
        words[swap[0]] = swap[1] + doc[swap[0]].whitespace_
    parts = sorted(mentions(doc, "segments")) if "segments" in doc.spans else []
    ends = [parts[0].end] if len(parts) == 2 else []
    return ["".join(words[a:b]).strip() for a, b in pairwise([0, *ends, len(doc)])]


def _suggested(side: Side, own: Sequence[str]) -> list[str]:
    """The edited text of What if?, else one with an exchanged word."""
    edits = [e for e in predict_edits.edits_in_address(len(side.doc)) if e.what != "hide"]
    if edits:
        with errors_shown():
            words = [token.text for token in side.doc]
            edited = _texts(predict_edits.edited_doc(side.doc, predict_edits.slots(words, edits)))
            if edited != own:
                return edited
    if _is_long(side.doc):
        return list(own)
    return _texts(side.doc, _counterfactual_swap(side.key, side))


# --- the map --------------------------------------------------------------------------------------


def _map(side: Side, found: Patched, what: str, explained: tuple[str, str]) -> None:
    title = drawn.finding(found.table, what, found.label, found.is_distinguished)
    st.markdown(f"**{plain(title)}** · {plain(side.name)}")
    views = grids(found.table, what, None if found.is_distinguished else found.corrupt)

    def chosen(pick: Mapping[str, Any]) -> None:
        view = next((each for each in views if each["name"] == pick.get("view")), None)
        if view is None:
            return
        row, column = (index_in(pick, name, len(view[f"{name}s"])) for name in ("row", "column"))
        if row is not None and column is not None:
            selection.select(**_cells(found.table, what)[view["name"]][row][column])

    token_views(views, f"where {side.ref}", chosen)
    if what == "heads":
        best = max(found.table.to_dict("records"), key=lambda row: abs(row["effect"]))
        name = head_number(int(best["layer"]), int(best["head"]))
        selection.say_first((side.key, *explained), "head", "restoring each head", name)
    about = (
        f"{found.measure.capitalize()} of {found.label}: {number(found.clean)} for the "
        f"text, {number(found.corrupt)} for its counterfactual. A cell is the share of this "
        f"difference that one {ONE[what]} of the text restores in the counterfactual: 100 % "
        "all of it, 0 % nothing; below 0 % it leads further away."
    )
    st.caption(plain(about), help=glossary.explained(f"counterfactual {found.measure} {what}"))
    captions(found.notes)
    heading = f"Restored {what} for {found.label}, {side.name}"
    downloads(
        f"patching-{what}",
        found.table,
        lambda: [(heading, views)],
        lambda: drawn.effects(found.table, what, found.label, found.is_distinguished),
        heading,
    )


def grids(table: "pd.DataFrame", what: str, corrupt: float | None = None) -> list[View]:
    """A grid for each stack and kind of attention: layers by words, or by heads.

    With the number of the corrupt text, effects are said in nats: the shares say little.
    """
    top = float(table["effect"].abs().max())
    groups = _groups(table)
    cells = _cells(table, what)
    selected = {"head": st.query_params.get(selection.HEAD, "").rpartition(" ")[2]}
    word, chosen_layer = selection.word(1 << 20), selection.layer(1 << 20)
    views = []
    for names, own in groups:
        n_layers = own["layer"].nunique()
        columns, tips = _columns(own.iloc[: len(own) // n_layers])
        layers = list(dict.fromkeys(own["layer"]))
        values = own["effect"].to_numpy().reshape(n_layers, -1)[::-1]
        numbers = own["value"].to_numpy().reshape(n_layers, -1)[::-1]
        rows = list(map(state_name if what == "states" else block_name, reversed(layers)))
        name = " ".join(map(str, names))
        is_last = names == groups[-1][0]
        of_cells = cells[f"where {name}"]
        words = [] if what == "heads" else [cell["mark"] for cell in of_cells[0]]
        views.append(
            grid(
                f"where {name}",
                f"Effects of restored {what}{f' of the {name}' if len(groups) > 1 else ''}",
                rows,
                columns,
                values.tolist(),
                tips=[
                    [
                        f"{layer}, {tip}{_effect(value, number, corrupt)}"
                        for tip, value, number in zip(tips, line, own_numbers, strict=True)
                    ]
                    for layer, line, own_numbers in zip(rows, values, numbers, strict=True)
                ],
                corner=name if len(groups) > 1 else "",
                diverging=True,
                percent=True,
                top=top,
                row=layers[::-1].index(chosen_layer) if words and chosen_layer in layers else None,
                chosen=words.index(word) if word in words else None,
                marked=[
                    (r, c)
                    for r, line in enumerate(of_cells)
                    for c, cell in enumerate(line)
                    if cell == selected
                ],
                pickable=True,
                legend=("further away", "restored") if is_last else None,
                note=NOTE[what] if is_last else "",
            )
        )
    return views


def _groups(table: "pd.DataFrame") -> "list[tuple[Any, pd.DataFrame]]":
    """The rows of each stack and kind of attention."""
    keys = [name for name in ("stack", "kind") if name in table]
    return list(table.groupby(keys, sort=False))


def _cells(table: "pd.DataFrame", what: str) -> dict[str, list[list[dict[str, object]]]]:
    """What each cell of each grid selects: a head, or a word and a layer. The last layer first."""
    found = {}
    for names, own in _groups(table):
        lines: list[list[dict[str, object]]] = []
        for layer, line in own.groupby("layer", sort=False):
            if what == "heads":
                lines.append([{"head": head_number(layer, int(head))} for head in line["head"]])
            else:
                lines.append([{"mark": int(word), "layer": layer} for word in line["word"]])
        found[f"where {' '.join(names)}"] = lines[::-1]
    return found


def _effect(share: float, value: float, corrupt: float | None) -> str:
    """The restored share, or with the number of the corrupt text the effect in nats."""
    if math.isnan(share):
        return ""  # a word without a counterpart
    if corrupt is None:
        return f": {percent(share, 1)} restored"
    return f": {signed(decimal(value - corrupt, 3))} nats"


def _columns(first: "pd.DataFrame") -> tuple[list[str], list[str]]:
    """The columns and what is said of them: heads, or words of the counterfactual.

    Words that only the text has are in brackets.
    """
    if "head" in first:
        names = [f"head {head + FIRST}" for head in first["head"]]
        return names, names
    pairs = list(zip(first["corrupt"], first["clean"], strict=True))
    return (
        [corrupt or f"({clean})" for corrupt, clean in pairs],
        [corrupt if corrupt == clean else f"{corrupt} ← {clean}" for corrupt, clean in pairs],
    )
