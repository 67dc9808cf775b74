"""The tab What if? of the page Predict & explain: edits of the text, and what they change.

Edits are in the address, as JSON. Costs: a forward pass for the edited text; one for each word, in
batches, to hide or delete each word in turn.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import streamlit as st

from workbench.analyses.predictions import figures as drawn
from workbench.analyses.predictions.views import choices as predict
from workbench.analyses.predictions.views import results as predict_results
from workbench.analyses.predictions.views.choices import Place
from workbench.analyses.predictions.views.results import COUNT, Side, Top
from workbench.app import selection
from workbench.app.downloads import downloads
from workbench.app.tables_and_figures import segment
from workbench.app.text import errors_shown, plain
from workbench.app.token_views.component import token_views
from workbench.app.token_views.views import (
    Choice,
    Predictions,
    Token,
    Tool,
    bars,
    index_in,
    strip,
)
from workbench.core.errors import WorkbenchError
from workbench.core.files import parse_json
from workbench.core.findings import percent
from workbench.report.format import number

if TYPE_CHECKING:
    import pandas as pd
    from spacy.tokens import Doc

What = Literal["hide", "delete", "swap", "replace"]
MAX_EDITS = 50
LONGEST_WORD = 80  # characters
TOOLS = (
    Tool("hide", "Hide", "The model reads the text without the word; its place stays."),
    Tool("delete", "Delete", "The word is removed from the text."),
    Tool("swap", "Swap with next", "The word and the next one change places."),
    Tool("replace", "Replace", "Another word stands there; ___ hides it. Type it and press Enter."),
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


def is_blank(text: str) -> bool:
    """Whether a word is written as a hidden one: `[MASK]` or `___`."""
    from workbench.corpora.counterfactuals import MARKER

    return MARKER.fullmatch(text.strip()) is not None


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
        elif edit.what == "replace" and is_blank(edit.text):
            mark = "" if is_blank(slot.text) else "hidden"
            found[at] = Slot(slot.origin, slot.text, mark)
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


def moved_place(
    place: Place, found: Sequence[Slot], gaps: Sequence[int] = (), is_tag: bool = False
) -> Place:
    """The place in the edited text.

    `gaps` are the hidden words of the unedited text; the label of a tag is that of a word.
    """
    kept = [slot for slot in found if slot.mark != "deleted"]
    if place.kind == "gap":
        word = gaps[place.index]
    elif place.kind == "word" or (place.kind == "label" and is_tag):
        word = place.index
    else:
        return place
    at = next((n for n, slot in enumerate(kept) if slot.origin == word), None)
    if at is None:
        raise WorkbenchError(
            "The predicted word is deleted.",
            code="word-unknown",
            remedy="Click it again to bring it back, or choose another word above.",
        )
    if place.kind != "gap":
        return Place(place.kind, at)
    if not is_blank(kept[at].text):
        raise WorkbenchError(
            "The hidden word that is predicted was replaced, so it is not predicted.",
            code="word-unknown",
            remedy="Undo, or choose another hidden word above.",
        )
    return Place("gap", sum(is_blank(slot.text) for slot in kept[:at] if slot.origin in gaps))


def moved_words(found: Sequence[Slot]) -> dict[int, int]:
    """The index of each word in the edited text; after the last word, that of "no word"."""
    kept = [slot.origin for slot in found if slot.mark != "deleted"]
    return {**{origin: n for n, origin in enumerate(kept)}, len(found): len(kept)}


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
            is_word = isinstance(word, int) and not isinstance(word, bool) and 0 <= word < n_words
            if is_word and isinstance(text, str):
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
    word = selection.word(len(doc))
    tokens = [
        Token(
            slot.text,
            slot.origin,
            mark=slot.mark,
            tip=_tip(doc, slot, place),
            chosen=slot.origin == word,
        )
        for slot in found
    ]
    selected = next(
        (n for n, slot in enumerate(found) if place == Place("word", slot.origin)), None
    )

    def chosen(pick: Mapping[str, Any]) -> None:
        word = index_in(pick, "i", len(doc))
        text = pick.get("word")
        if word is not None and pick.get("tool") in get_args(What) and isinstance(text, str):
            _to_address([*edits, Edit(pick["tool"], word, text)])

    tools = [tool for tool in TOOLS if tool.name != "hide" or any(map(_can_hide, sides))]
    token_views(
        [strip("edits", "The text. Choose a word to edit", tokens, selected=selected, tools=tools)],
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
                _before_and_after(side, _slots_of(side, sides[0], edits))
    else:
        st.caption("Predictions before and after appear here. Edits add up.")
    _each_word(sides)


def _slots_of(side: Side, first: Side, edits: Sequence[Edit]) -> list[Slot]:
    """The words of a side after the edits, which name words of the first one."""
    if len(side.doc) != len(first.doc):
        raise WorkbenchError(
            f"{side.name} reads a hidden word as several words, so it cannot follow edits.",
            code="setting-invalid",
            remedy="Write a word instead of the hidden one.",
        )
    return slots([token.text for token in side.doc], edits)


def _tip(doc: "Doc", slot: Slot, place: Place) -> str:
    said = f"before: {doc[slot.origin].text}" if slot.mark == "changed" else ""
    return said or ("the predicted word" if place == Place("word", slot.origin) else "")


def edited_side(side: Side, found: Sequence[Slot]) -> tuple[Side, tuple[int, ...]]:
    """The side after the edits, and the words of its text that are hidden."""
    gaps = predict_results.with_gaps(side.model, side.doc)[1] if side.place.kind == "gap" else []
    is_tag = side.place.kind == "label" and predict_results.prediction_at(side).kind == "tag"
    place = moved_place(side.place, found, gaps, is_tag)
    kept = [slot for slot in found if slot.mark != "deleted"]
    hidden = tuple(n for n, slot in enumerate(kept) if slot.mark == "hidden")
    return replace(side, doc=edited_doc(side.doc, found), place=place), hidden


def before_and_after(side: Side, found: Sequence[Slot]) -> "tuple[Top, Top, pd.DataFrame]":
    """The most probable choices before and after the edits, and a table of both.

    The table has a row for each of them: `choice`, its index `id` in the unedited text (-1: it is a
    word that only the edited text has), and `before`, `after` and `change` of its probability, or
    of the score. Choices that are words of the text are followed to where the words are.
    """
    import pandas as pd

    after_side, hidden = edited_side(side, found)
    before = predict_results.top(side, COUNT)
    of_words = predict_results.is_answer(side)
    choices = before.choices
    to = moved_words(found) if of_words else {choice: choice for choice in choices}
    after = predict_results.top(
        after_side, COUNT, hidden=hidden, also=tuple(to[c] for c in choices if c in to)
    )
    back = {new: old for old, new in to.items()} if of_words else {c: c for c in after.choices}
    first = predict_results.top(
        side, COUNT, also=tuple(back[c] for c in after.choices if c in back)
    ).known
    names = dict(zip(choices, before.texts, strict=True))
    rows = [
        (text, back.get(c, -1), first.get(back.get(c, -1), 0.0), p)
        for c, text, p in zip(after.choices, after.texts, after.probabilities, strict=True)
    ]
    listed = {row[1] for row in rows}
    rows += [
        (names[c], c, first[c], after.known[to[c]] if c in to else 0.0)
        for c in choices
        if c not in listed
    ]
    table = pd.DataFrame(rows, columns=["choice", "id", "before", "after"])
    return before, after, table.assign(change=table["after"] - table["before"])


def _before_and_after(side: Side, found: Sequence[Slot]) -> None:
    """Draw the most probable choices before and after the edits, next to each other."""
    before, after, table = before_and_after(side, found)
    title = f"Predictions before and after edits, {side.name}"
    if before.is_score:
        (record,) = table.to_dict("records")
        st.metric(
            f"{plain(side.name)}: predicted score after the edits",
            number(record["after"]),
            f"{number(record['change'], signed=True)} from {number(record['before'])}",
            delta_color="off",
        )
        return
    rows = {int(row["id"]): row for row in table.to_dict("records")}
    lists = [
        Predictions(
            f"{side.name}, before",
            [
                Choice(c, text, p, note=f"after: {percent(rows[c]['after'], 1)}")
                for c, text, p in zip(
                    before.choices, before.texts, before.probabilities, strict=True
                )
            ],
            rest=before.rest,
        ),
        Predictions(
            f"{side.name}, after",
            [
                Choice(row["id"], row["choice"], row["after"], change=row["change"])
                for row in table.head(len(after.choices)).to_dict("records")
            ],
            rest=after.rest,
        ),
    ]
    views = [bars("edited", lists)]
    token_views(views, f"edited {side.ref}", lambda chosen: None)
    downloads(
        "edited",
        table,
        lambda: [(title, views)],
        lambda: drawn.before_and_after(table),
        title,
    )


def _each_word(sides: Sequence[Side]) -> None:
    """Draw what hiding or deleting each word in turn does to the top prediction."""
    st.markdown("**Each word in turn**")
    ways = ["hidden", "deleted"] if any(map(_can_hide, sides)) else ["deleted"]
    what = segment("Each word is", ways, "turn")
    for side in sides:
        with errors_shown():
            with st.spinner("Predicting without each word …"):
                effects = predict_results.effects(side, "hide" if what == "hidden" else "delete")
            _effects(side, what, effects)


def _effects(side: Side, what: str, effects: "pd.DataFrame") -> None:
    """Draw the text with the effect of each word."""
    top = predict_results.top(side, 1)
    by_word = dict(zip(effects["word"], effects.to_dict("records"), strict=True))
    chosen_word = selection.word(len(side.doc))
    tokens = [
        Token(
            token.text,
            token.i,
            fixed=token.i not in by_word,
            special=token.i not in by_word,
            score=by_word[token.i]["change"] if token.i in by_word else None,
            tip=_effect(by_word[token.i], top.is_score) if token.i in by_word else "not edited",
            under=_new_first(by_word, token.i),
            chosen=token.i == chosen_word,
        )
        for token in side.doc
    ]
    number_of = "score" if top.is_score else f"probability of “{top.texts[0]}”"
    now = number(top.probabilities[0]) if top.is_score else percent(top.probabilities[0], 1)
    said = f"{side.name}: the {number_of} is {now}. Below each word: its change without the word."
    if not top.is_score:
        said += " Where the first choice becomes another one, it stands there, too."
    st.caption(plain(said))
    views = [
        strip(
            "turn",
            f"Change of the prediction if a word is {what}",
            tokens,
            legend=("lower", "higher") if top.is_score else ("less probable", "more probable"),
        )
    ]

    def chosen(pick: Mapping[str, Any]) -> None:
        if (word := index_in(pick, "i", len(side.doc))) in by_word:
            selection.select(mark=word)

    token_views(views, f"turn {side.ref}", chosen)
    if by_word:
        first = max(by_word, key=lambda word: abs(by_word[word]["change"]))
        way = "hiding each word" if what == "hidden" else "deleting each word"
        selection.say_first((side.key, "", ""), "word", way, f"“{side.doc[int(first)].text}”")
    title = f"Effect of each word if it is {what}, {side.name}"
    downloads(
        f"effects-{what}",
        effects,
        lambda: [(title, views)],
        lambda: drawn.word_effects(effects, number_of),
        title,
    )


def _can_hide(side: Side) -> bool:
    """Whether the model has a piece for a hidden word: ELMo reads every word by its letters."""
    return side.model.objective != "bidirectional"


def _new_first(by_word: Mapping[int, Mapping[str, Any]], word: int) -> str:
    effect = by_word.get(word)
    return str(effect["first"]) if effect and effect["is_new"] else ""


def _effect(effect: Mapping[str, Any], is_score: bool) -> str:
    if is_score:
        return f"{number(effect['before'])} → {number(effect['after'])}"
    return (
        f"{percent(effect['before'], 1)} → {percent(effect['after'], 1)}; first choice: "
        f"{effect['first']} ({percent(effect['first_probability'], 1)})"
    )
