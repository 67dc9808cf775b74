"""The page Predict & explain: the text and its predicted place, the predictions, and the reasons.

Costs: those of `predict_results`; the explanation of the open tab only.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.analyses.predictions.views import choices as predict
from workbench.analyses.predictions.views import results as predict_results
from workbench.analyses.predictions.views.choices import Place
from workbench.analyses.predictions.views.results import COUNT, Side, Top
from workbench.app import cache, choice, navigation, selection, style, ways_on
from workbench.app.frame.home import Look
from workbench.app.text import as_html, captions, errors_shown, guarded, plain
from workbench.app.token_views.component import token_views
from workbench.app.token_views.views import (
    Choice,
    Predictions,
    Token,
    View,
    bars,
    index_in,
    strip,
    written_strip,
)
from workbench.core.analysis import tabs_of
from workbench.core.errors import WorkbenchError
from workbench.core.findings import percent
from workbench.experiment.definition import EXPERIMENTS, Need
from workbench.models.references import facts, has_read
from workbench.report.format import number

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.engine.model import Model
    from workbench.engine.task import Task

WRITTEN = 30  # pieces that a decoder writes
ABOUT = {
    "masked": "Click a word: the model reads the text without it and predicts what stands there.",
    "causal": "The model predicts the next word. Click a word to see what it predicts there, from "
    "the words before it.",
    "bidirectional": "The model predicts the next word. Click a word to see what it predicts "
    "there, from both sides.",
    "seq2seq": "Click a word: the model reads the text without it and fills its place.",
    "": "What a model predicts for a text, and why.",
}
GAPS = (
    "The model predicts the hidden words: click one. To hide another, write words for these first."
)
TAGS = ("tags", "entities")  # kinds of tasks with a label for each word
LABEL = "What the fine-tuned model predicts for the text, and why."


def page() -> None:
    """Draw the page."""
    style.draw_text_page()
    st.title("Predict & explain", anchor=False)
    with errors_shown(stop=True):
        _draw()


def _draw() -> None:
    ref = choice.model()
    model = cache.model(ref)
    task = _task(model)
    typed, other = predict.text_and_second_model(_labels(task))
    doc, gaps, places, written = _read(ref, model, typed)
    if not places:
        _ways_on(ref, model)
        return
    sides = [Side(ref, model, doc, _place(places, doc), () if written is None else written.choices)]
    if other == ref:
        st.caption(
            f"{plain(choice.name_of(ref, 'models'))} is the model itself: choose another one to "
            "compare with."
        )
    elif other:
        with errors_shown():
            sides.append(_second(other, typed, sides[0]))
    if task is not None and task.kind == "answers":
        _choose_end(sides[0].place)
    _question(sides, places, gaps, task, written)
    with st.container(key="beside"):
        left, right = st.columns([5, 8], gap="medium")
    with left:
        _predictions(sides)
        st.caption(LABEL if task else GAPS if gaps else ABOUT[model.objective])
        if sides[0].place.kind == "word":
            word = sides[0].doc[sides[0].place.index].text
            navigation.link(
                "word",
                f"All about “{plain(word[:20])}”",
                icon=":material/abc:",
                query_params={**choice.in_url(), "text": sides[0].doc.text[:2000], "word": word},
            )
        if read := has_read(ref):
            st.caption(f"{plain(choice.name_of(ref, 'models'))} has read {read}.")
        for side in sides:
            with errors_shown():
                if note := predict_results.cut_note(side):
                    st.caption(plain(note))
        can_write = model.objective in ("causal", "bidirectional")
        if can_write and model.task_head is None:
            _continue(sides)
    with right:
        _tabs(sides)


def usual_side(ref: str, text: str) -> Side:
    """A text with the place that the page shows at first, on a model of this machine."""
    model = cache.model_of_machine(ref)
    doc, _, places, _ = _read(ref, model, cache.typed(text))
    return Side(ref, model, doc, _usual_place(places, doc))


def show_ahead(ref: str, corpus: str) -> None:
    """Compute the predictions of the example before a visitor sees them."""
    predict_results.top(usual_side(ref, predict.EXAMPLE), COUNT)


def look(ref: str, model: "Model", typed: "Doc", text: str) -> None:
    """Draw a text, whose words can be chosen, and what a model predicts at the chosen place."""
    if not draw_sides(ref, typed):
        return
    navigation.link(
        "predict",
        "Why? Explain a prediction",
        icon=":material/psychology:",
        query_params={**choice.in_url(), "text": text},
    )


LOOK = Look(look, order=2)


def own_text(ref: str) -> "Callable[[], Doc]":
    """Draw the boxes for a text of one's own, as a model reads it; return what reads it."""
    return predict.own_text(_labels(_task(cache.model(ref))))


def draw_sides(ref: str, typed: "Doc", other: str = "") -> list[Side]:
    """Draw a text, and what a model, and another one, predict at the chosen place of it.

    Returns what was drawn: nothing for a model that predicts nothing, which is said.
    """
    model = cache.model(ref)
    doc, gaps, places, written = _read(ref, model, typed)
    if not places:
        _ways_on(ref, model)
        return []
    sides = [Side(ref, model, doc, _place(places, doc), () if written is None else written.choices)]
    if other:
        sides.append(_second(other, typed, sides[0]))
    _question(sides, places, gaps, _task(model), written)
    _predictions(sides)
    return sides


def _read(
    ref: str, model: "Model", typed: "Doc"
) -> tuple["Doc", list[int], list[Place], predict_results.Written | None]:
    """A text as a model reads it, its hidden words, its places, and what the decoder writes."""
    written = _written(Side(ref, model, typed, Place("next")))
    doc, gaps = predict_results.with_gaps(model, typed)
    places = [Place("gap", n) for n in range(len(gaps))]
    places = places or predict_results.places(model, doc)
    if written is not None:
        places = [*places, *(Place("written", n) for n in range(len(written.choices)))]
    return doc, gaps, places, written


def _second(ref: str, typed: "Doc", first: Side) -> Side:
    """The second model on the same text.

    It predicts the same place; next to a model that labels texts, each predicts what it can.
    """
    model = cache.model(ref)
    _require_texts(_task(model), typed)
    labellers = model.task_head is not None, first.model.task_head is not None
    if not any(labellers) and first.place.kind != "written":
        return Side(ref, model, predict_results.with_gaps(model, typed)[0], first.place)
    doc, _, places, written = _read(ref, model, typed)
    if not places:
        _nothing_predicted(model)
    pieces = () if written is None else written.choices
    if not any(labellers):
        alike = model.objective == "seq2seq" and model.vocabulary == first.model.vocabulary
        pieces = first.written if alike else pieces
        at = max(0, min(first.place.index, len(pieces) - 1))
        return Side(ref, model, doc, Place("written", at), pieces)
    place = first.place
    if not all(labellers) and place.kind in ("word", "label"):  # the tag of a word, or the word
        is_tag = place.kind == "word" or predict_results.prediction_at(first).kind == "tag"
        place = Place("word" if place.kind == "label" else "label", place.index if is_tag else -1)
    return Side(ref, model, doc, place if place in places else _place(places, doc), pieces)


def _require_texts(task: "Task | None", doc: "Doc") -> None:
    """Raise if a fine-tuned model takes two texts and there is one, or the other way round."""
    is_pair = "segments" in doc.spans
    if task is None or task.pairs in (None, is_pair):
        return
    raise WorkbenchError(
        f"{task.name} takes {'two texts' if task.pairs else 'one text'}, and "
        f"{'two are' if is_pair else 'one is'} given.",
        code="text-missing",
        remedy="Compare models of tasks with the same number of texts.",
    )


def _task(model: "Model") -> "Task | None":
    return None if model.task_head is None else model.predicts


def _choose_end(place: Place) -> None:
    """Draw a box for the end of the answer that is explained."""
    ends = ("first word", "last word")
    picked = st.segmented_control(
        "Answer",
        ends,
        default=ends[place.index],
        required=True,
        key=f"end {place.index}",
        help="The answer is predicted by its first and its last word. Choose which one to explain.",
    )
    if picked is not None and picked != ends[place.index]:
        predict.choose_place(Place("label", ends.index(picked)))
        st.rerun()


def _labels(task: "Task | None") -> tuple[str, ...]:
    """The names of the boxes for the text."""
    if task is None or not task.pairs:
        return ("Text",)
    return ("Question", "Text") if task.kind == "answers" else ("First text", "Second text")


def _ways_on(ref: str, model: "Model") -> None:
    """Draw what a model without a head can do, or say that the text is too short."""
    if model.objective:
        _nothing_predicted(model)
    ways_on.draw(ref, facts(model))


def _nothing_predicted(model: "Model") -> None:
    """Say why there is no place to predict."""
    if model.objective:
        raise WorkbenchError(
            "The text has no word that this model can predict from the words around it.",
            code="text-empty",
            where=model.name,
            remedy="Type a longer text.",
        )
    raise WorkbenchError(
        f"{model.name} has no head with trained weights, so it predicts nothing.",
        code="model-unsupported",
        remedy="Choose a model saved with such a head, such as mini:bert, or a run of finetune "
        "that saved its model.",
    )


def _place(places: Sequence[Place], doc: "Doc") -> Place:
    """The place in the address, if this model predicts it for this text; else a default."""
    place = predict.place_in_address()
    return place if place is not None and place in places else _usual_place(places, doc)


def _usual_place(places: Sequence[Place], doc: "Doc") -> Place:
    if Place("next") in places and not doc[-1].is_punct:
        return Place("next")
    if places[0].kind == "gap":
        return places[0]
    words = [each for each in places if each.kind == "word"] or list(places)
    return words[0] if words[0].kind == "label" else words[max(0, len(words) - 3)]


def _written(side: Side) -> predict_results.Written | None:
    """What the decoder of an encoder-decoder writes."""
    if side.model.objective != "seq2seq":
        return None
    with st.spinner("Writing …"):
        return predict_results.written(side, WRITTEN)


# --- the text and the predictions -----------------------------------------------------------------


def _question(
    sides: Sequence[Side],
    places: Sequence[Place],
    gaps: Sequence[int],
    task: "Task | None",
    written: predict_results.Written | None,
) -> None:
    """Draw the text, whose words can be chosen."""
    side = sides[0]
    is_whole = task is not None and task.kind not in TAGS
    where = {} if is_whole else _clickable(places, gaps, len(side.doc))
    tokens = _tokens(side, where, task)
    if Place("next") in places:
        tokens.append(Token("what comes next?", len(side.doc), slot=True))
    word = selection.word(len(side.doc))
    tokens = [replace(token, chosen=token.i == word) for token in tokens]
    views: list[View] = [
        strip(
            "place",
            "The text. Choose the place that is predicted",
            tokens,
            selected=_selected(tokens, where, side.place),
            scrolls=True,
        )
    ]
    out: dict[int, Place] = {}
    if written is not None:
        shown = [
            (text.strip() or text or sign, p)
            for text, sign, p in zip(
                written.texts, written.pieces, written.probabilities, strict=True
            )
        ]
        out = {n: Place("written", n) for n in range(len(shown))}
        views.append(
            written_strip(
                "written",
                "What the decoder writes. Choose a piece",
                shown,
                selected=next((n for n, place in out.items() if place == side.place), None),
                note="What the decoder writes for the text as it stands, piece by piece, with the "
                "probability of each"
                f"{'.' if written.ended else f'; the first {WRITTEN} pieces.'}",
            )
        )

    def chosen(pick: Mapping[str, Any]) -> None:
        places_of = where if pick.get("view") == "place" else out
        if (index := index_in(pick, "i", 1_000_000)) in places_of:
            predict.choose_place(places_of[index])

    token_views(views, "question", chosen)


def _predictions(sides: Sequence[Side]) -> None:
    """Draw what each model predicts at the chosen place."""
    tops: list[Top] = []
    lists: list[Predictions] = []
    scored: list[tuple[Side, Top]] = []
    for side in sides:
        with errors_shown():
            tops.append(predict_results.top(side, COUNT))
            if tops[-1].is_score:
                scored.append((side, tops[-1]))
            else:
                lists.append(_list(side, tops[-1]))

    def chosen(pick: Mapping[str, Any]) -> None:
        texts = {c: t for top in tops for c, t in zip(top.choices, top.texts, strict=True)}
        if (choice := index_in(pick, "choice", 1 << 31)) in texts:
            predict.choose_target(texts[choice])

    if lists:
        about = "Explain this choice in Why?"
        token_views([bars("choices", lists, pickable=True, about=about)], "predictions", chosen)
    for side, top in scored:
        name = f": {plain(side.name)}" if len(sides) > 1 else ""
        st.metric(f"Predicted score{name}", number(top.probabilities[0]))
    for side in sides:
        with errors_shown():
            if note := predict_results.unknown_note(side.ref, side.model, side.doc):
                st.caption(plain(note))


def _clickable(places: Sequence[Place], gaps: Sequence[int], n_words: int) -> dict[int, Place]:
    """The places by the index of the token that is clicked; after the words, what comes next."""
    found = {place.index: place for place in places if place.kind in ("word", "label")}
    found |= {gaps[place.index]: place for place in places if place.kind == "gap"}
    return found | {n_words: Place("next")} if Place("next") in places else found


def _selected(tokens: Sequence[Token], where: Mapping[int, Place], place: Place) -> int | None:
    return next((n for n, token in enumerate(tokens) if where.get(token.i) == place), None)


def _tokens(side: Side, place_of: Mapping[int, Place], task: "Task | None") -> list[Token]:
    """The words of the text; with their tags, or with the answer marked."""
    kind = task.kind if task is not None else ""
    if kind in TAGS:
        tags = predict_results.tags(side)
        return [
            Token(
                token.text,
                token.i,
                fixed=token.i not in place_of,
                under=tags[token.i][0] if token.i in tags else "",
                tip=f"{tags[token.i][0]}, {percent(tags[token.i][1], 1)}"
                if token.i in tags
                else "",
            )
            for token in side.doc
        ]
    answer = range(0)
    if kind == "answers":
        answer = _answer(side)
    return [
        Token(
            token.text,
            token.i,
            fixed=bool(kind) or token.i not in place_of,
            mark="changed" if token.i in answer else "",
            tip="the answer" if token.i in answer else "",
        )
        for token in side.doc
    ]


def _answer(side: Side) -> range:
    """The words of the answer: from the most probable first word to the most probable last one."""
    first, last = (
        predict_results.top(Side(side.ref, side.model, side.doc, Place("label", n)), 1).choices[0]
        for n in (0, 1)
    )
    return range(first, last + 1) if first <= last < len(side.doc) else range(0)


def _list(side: Side, top: Top) -> Predictions:
    spans = predict_results.spans(side)
    notes = [f"writes: {span}" for span in spans] or [""] * len(top.choices)
    rows = [
        Choice(choice, text, p, note="in the text" if choice == top.gold else note)
        for choice, text, p, note in zip(
            top.choices, top.texts, top.probabilities, notes, strict=False
        )
    ]
    rest = top.rest
    if top.gold is not None and top.gold not in top.choices:
        share = top.known[top.gold]
        rows.append(
            Choice(top.gold, top.gold_text, share, note=f"in the text, rank {top.gold_rank:,}")
        )
        rest = max(0.0, rest - share)
    return Predictions(f"{side.name}{_place_name(side)}", rows, rest=rest)


def _place_name(side: Side) -> str:
    place = side.place
    if place.kind == "word":
        return f": in the place of “{side.doc[place.index].text}”"
    if place.kind == "written":
        return f": written piece {place.index + 1}"
    if place.kind == "next":
        return ": after the text"
    if place.kind == "gap":
        return f": hidden word {place.index + 1}"
    if place.kind == "label" and predict_results.prediction_at(side).kind in ("start", "end"):
        return f": the answer's {'last' if place.index else 'first'} word"
    return ""


# --- a continuation -------------------------------------------------------------------------------


@st.fragment
def _continue(sides: Sequence[Side]) -> None:
    """Draw a button that lets each model continue the text, piece by piece."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        is_asked = st.button("Continue the text", icon=":material/edit_note:", key="continue")
        count = st.number_input(
            "Pieces",
            1,
            200,
            20,
            key="pieces",
            width=110,
            help="Maximum number of pieces that are written (default 20).",
        )
        sample = st.toggle(
            "Draw at random",
            key="sample",
            help="Draw each piece by its probability (default: the most probable).",
        )
        seed = st.number_input("Seed", 0, 999_999, 0, key="seed", width=110) if sample else 0
    if not is_asked:
        return
    sampling = {"sample": True, "seed": int(seed)} if sample else {}
    for side in sides:
        can_write = side.model.objective in ("causal", "bidirectional")
        if can_write and side.model.task_head is None:
            with errors_shown():
                _stream(side, int(count), sampling)


def _stream(side: Side, count: int, sampling: Mapping[str, Any]) -> None:
    """Draw the continuation while it is written, then piece by piece."""
    place = st.empty()

    def show(so_far: str) -> None:
        place.html(_continued(side, so_far))

    found = predict_results.streamed(side, count, show, **sampling)
    with place.container():
        _continuation(side, found)


def _continued(side: Side, written: str) -> str:
    """HTML of the text with what was written, which may begin or end with a space."""
    name, before, after = (
        as_html(text.replace("\n", "↵")) for text in (side.name, side.doc.text, written)
    )
    style = "white-space:pre-wrap;overflow-wrap:anywhere"
    return f'<p style="{style}"><b>{name}</b>: {before}<b>{after}</b></p>'


def _continuation(side: Side, found: predict_results.Written) -> None:
    end = "" if not found.ended else " The model ended the text."
    st.html(_continued(side, found.whole))
    captions(found.notes)
    token_views(
        [
            written_strip(
                "continuation",
                "The continuation, piece by piece",
                [*zip(found.texts, found.probabilities, strict=True)],
                pickable=False,
                legend=("", "probability of each piece"),
                note=end.strip(),
            )
        ],
        f"continuation {side.ref}",
        lambda chosen: None,
    )


# --- tabs -----------------------------------------------------------------------------------------


def _tabs(sides: Sequence[Side]) -> None:
    """Draw the open tab, of those that analyses add to this page."""
    found = tabs_of("predict")
    drawn = st.tabs([tab.title for _, tab in found], key="view", bind="query-params")
    for place, (analysis, tab) in zip(drawn, found, strict=True):
        if place.open:
            with place, guarded():  # code of a package may be wrong; the page stays
                analysis.imported(tab.draw)(sides)
                _over_a_corpus(tab.experiments, sides[0].model)


def offered(experiments: Mapping[str, str], model: "Model") -> dict[str, str]:
    """The experiments that can be run on a model."""
    known = facts(model)
    return {
        name: label
        for name, label in experiments.items()
        if all(need.met(known) for need in _needs(name))
    }


def _needs(name: str) -> Iterable[Need]:
    experiment = EXPERIMENTS[name]
    return experiment.needs_for(experiment.settings())


def _over_a_corpus(experiments: Mapping[str, str], model: "Model") -> None:
    """Draw links to the experiments that do the same over a corpus, and to their runs."""
    with st.container(horizontal=True):
        for name, label in offered(experiments, model).items():
            st.page_link(
                "pages/experiments.py",
                label=label,
                icon=":material/functions:",
                query_params={**choice.in_url(), "experiment": name},
                help=f"Opens the form of the experiment {name}, with its latest runs.",
            )
