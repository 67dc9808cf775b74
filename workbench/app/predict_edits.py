"""The tab What if? of the page Predict & explain: edits of the text, and what they change.

Edits are in the address, as JSON. Costs: a forward pass for the edited text; one for each word, in
batches, to hide or delete each word in turn.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import streamlit as st

from workbench.app import predict, predict_results
from workbench.app.predict import Place
from workbench.app.predict_results import COUNT, Side
from workbench.app.tables_and_figures import segment
from workbench.app.text import errors_shown, plain
from workbench.core.errors import WorkbenchError
from workbench.core.files import parse_json
from workbench.token_views.component import token_views
from workbench.token_views.views import (
    Choice,
    Predictions,
    Token,
    Tool,
    bars,
    index_in,
    strip,
)

if TYPE_CHECKING:
    from spacy.tokens import Doc

What = Literal["hide", "delete", "swap", "replace"]
MAX_EDITS = 50
LONGEST_WORD = 80  # characters
TOOLS = (
    Tool("hide", "Hide", "The model reads the text without the word; its place stays."),
    Tool("delete", "Delete", "The word is removed from the text."),
    Tool("swap", "Swap with next", "The word and the next one change places."),
    Tool("replace", "Replace", "Another word stands there. Type it and press Enter."),
)


@dataclass(frozen=True)
class Edit:
    """A change of one word, by its index in the unedited text."""

    what: What
    word: int
    text: str = ""  # of the new word


@dataclass(frozen=True)
class Slot:
    """A word of the edited text: its index in the unedited text, and what happened to it."""

    origin: int
    text: str
    mark: str = ""  # hidden, deleted, changed or moved


def slots(words: Sequence[str], edits: Sequence[Edit]) -> list[Slot]:
    """The words after all edits in turn; deleted ones are marked and stay in the list."""
    found = [Slot(origin, word) for origin, word in enumerate(words)]
    for edit in edits:
        at = next((n for n, slot in enumerate(found) if slot.origin == edit.word), None)
        if at is None:
            continue
        slot = found[at]
        if edit.what == "swap":
            following = [n for n in range(at + 1, len(found)) if found[n].mark != "deleted"]
            if following and slot.mark != "deleted":
                other = following[0]
                found[at] = Slot(
                    found[other].origin, found[other].text, found[other].mark or "moved"
                )
                found[other] = Slot(slot.origin, slot.text, slot.mark or "moved")
        elif edit.what == "replace":
            found[at] = Slot(slot.origin, edit.text, "changed")
        else:
            mark = "hidden" if edit.what == "hide" else "deleted"
            found[at] = Slot(slot.origin, slot.text, "" if slot.mark == mark else mark)
    return found


def edited_doc(doc: "Doc", found: Sequence[Slot]) -> "Doc":
    """The Doc of the edited text; a pair keeps its two texts."""
    from spacy.tokens import Doc

    from workbench.corpora.layers import Mention, mentions, set_spans

    kept = [(n, slot) for n, slot in enumerate(found) if slot.mark != "deleted"]
    if not kept:
        raise WorkbenchError("All words are deleted.", code="text-empty", remedy="Undo an edit.")
    made = Doc(
        doc.vocab,
        words=[slot.text for _, slot in kept],
        spaces=[bool(doc[n].whitespace_) for n, _ in kept],
    )
    parts = sorted(mentions(doc, "segments")) if "segments" in doc.spans else []
    if len(parts) == 2:
        middle = sum(n < parts[0].end for n, _ in kept)
        set_spans(made, "segments", [Mention(0, middle, "1"), Mention(middle, len(made), "2")])
    return made


def moved_place(place: Place, found: Sequence[Slot]) -> Place:
    """The place in the edited text."""
    kept = [slot.origin for slot in found if slot.mark != "deleted"]
    if place.kind != "word":
        return place
    if place.index not in kept:
        raise WorkbenchError(
            "The predicted word is deleted.",
            code="word-unknown",
            remedy="Click it again to bring it back, or choose another word above.",
        )
    return Place("word", kept.index(place.index))


# --- edits in the address -------------------------------------------------------------------------


def edits_in_address(n_words: int) -> list[Edit]:
    """The edits in the address; what is nonsense is left out."""
    try:
        stored = parse_json(st.query_params.get(predict.EDITS, "[]"))
    except ValueError:
        return []
    edits = []
    for each in stored[:MAX_EDITS] if isinstance(stored, list) else []:
        if isinstance(each, list) and len(each) == 3 and each[0] in get_args(What):
            what, word, text = each
            if isinstance(word, int) and 0 <= word < n_words and isinstance(text, str):
                text = " ".join(text.split())[:LONGEST_WORD]
                if what != "replace" or text:
                    edits.append(Edit(what, word, text))
    return edits


def _to_address(edits: Sequence[Edit]) -> None:
    if edits:
        stored = [[edit.what, edit.word, edit.text] for edit in edits[-MAX_EDITS:]]
        st.query_params[predict.EDITS] = json.dumps(stored, separators=(",", ":"))
    elif predict.EDITS in st.query_params:
        del st.query_params[predict.EDITS]


# --- the tab --------------------------------------------------------------------------------------


def what_if(sides: Sequence[Side]) -> None:
    """Draw the tab What if?: the text to edit, and the predictions before and after."""
    doc = sides[0].doc
    edits = edits_in_address(len(doc))
    found = slots([token.text for token in doc], edits)
    place = sides[0].place
    tokens = [
        Token(slot.text, slot.origin, mark=slot.mark, tip=_tip(doc, slot, place)) for slot in found
    ]
    selected = next(
        (n for n, slot in enumerate(found) if place == Place("word", slot.origin)), None
    )

    def chosen(pick: Mapping[str, Any]) -> None:
        word = index_in(pick, "i", len(doc))
        text = pick.get("word")
        if word is not None and pick.get("tool") in get_args(What) and isinstance(text, str):
            _to_address([*edits, Edit(pick["tool"], word, text)])

    token_views(
        [strip("edits", "The text. Choose a word to edit", tokens, selected=selected, tools=TOOLS)],
        "edits",
        chosen,
    )
    with st.container(horizontal=True):
        st.button(
            "Undo",
            on_click=lambda: _to_address(edits[:-1]),
            disabled=not edits,
            icon=":material/undo:",
            key="undo",
        )
        st.button(
            "Start again",
            on_click=lambda: _to_address([]),
            disabled=not edits,
            icon=":material/restart_alt:",
            key="restart",
        )
    if edits:
        for side in sides:
            with errors_shown():
                _before_and_after(side, found)
    else:
        st.caption("Predictions before and after appear here. Edits add up.")
    _each_word(sides)


def _tip(doc: "Doc", slot: Slot, place: Place) -> str:
    said = f"before: {doc[slot.origin].text}" if slot.mark == "changed" else ""
    return said or ("the predicted word" if place == Place("word", slot.origin) else "")


def _before_and_after(side: Side, found: Sequence[Slot]) -> None:
    """Draw the most probable choices before and after the edits, next to each other."""
    before = predict_results.top(side, COUNT)
    kept = [slot for slot in found if slot.mark != "deleted"]
    hidden = tuple(n for n, slot in enumerate(kept) if slot.mark == "hidden")
    after_side = Side(
        side.ref, side.model, edited_doc(side.doc, found), moved_place(side.place, found)
    )
    after = predict_results.top(after_side, COUNT, hidden=hidden, also=before.choices)
    first = predict_results.top(side, COUNT, also=after.choices).known
    names = (f"{side.model.name}, before", f"{side.model.name}, after")
    lists = [
        Predictions(
            name,
            [
                Choice(c, t, p)
                for c, t, p in zip(top.choices, top.texts, top.probabilities, strict=True)
            ],
            rest=top.rest,
        )
        for name, top in zip(names, (before, after), strict=True)
    ]
    lists[1] = Predictions(
        names[1],
        [
            Choice(row.id, row.t, row.p, change=row.p - first.get(row.id, 0.0))
            for row in lists[1].rows
        ],
        rest=after.rest,
    )
    lists[0] = Predictions(
        names[0],
        [
            Choice(row.id, row.t, row.p, note=f"after: {after.known.get(row.id, 0.0):.1%}")
            for row in lists[0].rows
        ],
        rest=before.rest,
    )
    token_views([bars("edited", lists)], f"edited {side.ref}", lambda chosen: None)


def _each_word(sides: Sequence[Side]) -> None:
    """Draw what hiding or deleting each word in turn does to the top prediction."""
    st.markdown("**Each word in turn**")
    what = segment("Each word is", ["hidden", "deleted"], "turn")
    for side in sides:
        with errors_shown():
            with st.spinner("Predicting without each word …"):
                effects = predict_results.effects(side, "hide" if what == "hidden" else "delete")
            by_word = dict(zip(effects["word"], effects.to_dict("records"), strict=True))
            tokens = [
                Token(
                    token.text,
                    token.i,
                    fixed=token.i not in by_word,
                    special=token.i not in by_word,
                    score=by_word[token.i]["change"] if token.i in by_word else None,
                    tip=_effect(by_word[token.i]) if token.i in by_word else "not edited",
                    under=_new_first(by_word, token.i),
                )
                for token in side.doc
            ]
            top = predict_results.top(side, COUNT)
            st.caption(
                plain(
                    f"{side.model.name}: change of the probability of “{top.texts[0]}” "
                    f"({top.probabilities[0]:.1%}) without each word. Where the first choice "
                    "becomes another one, it stands below the word."
                )
            )
            token_views(
                [
                    strip(
                        "turn",
                        f"Change of the prediction if a word is {what}",
                        tokens,
                        pickable=False,
                        legend=("less probable", "more probable"),
                    )
                ],
                f"turn {side.ref}",
                lambda chosen: None,
            )
            with st.expander("Table", icon=":material/table:"):
                st.dataframe(effects, hide_index=True, key=f"effects {side.ref}")


def _new_first(by_word: Mapping[int, Mapping[str, Any]], word: int) -> str:
    effect = by_word.get(word)
    return str(effect["first"]) if effect and effect["is_new"] else ""


def _effect(effect: Mapping[str, Any]) -> str:
    return (
        f"{effect['before']:.1%} → {effect['after']:.1%}; first choice: {effect['first']} "
        f"({effect['first_probability']:.1%})"
    )
