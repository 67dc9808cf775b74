"""What the page Predict & explain shows, as plain data: computed once for a content, then cached.

Keys are hashes of weights, tokenizer, text, precision and device, never a model's name alone. One
visitor computes at a time, since some models are hooked in place. Costs: tokenising and a forward
pass for a prediction; what `workbench.analyses.attribution` says for an explanation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.analyses.predictions.views.choices import Place
from workbench.app import choice
from workbench.core.errors import WorkbenchError

if TYPE_CHECKING:
    import pandas as pd
    from spacy.tokens import Doc

    from workbench.analyses.predictions.edits import Edit
    from workbench.analyses.predictions.prediction import Prediction
    from workbench.analyses.predictions.target import Measure, Target
    from workbench.engine.model import Model

ENTRIES = 256  # of each cache
COUNT = 8  # predictions in view
LISTED = 24  # choices that are offered as targets
_NOWHERE = -1e8  # below it are the logits of words where no answer is searched


@dataclass(frozen=True)
class Side:
    """A model with a text, and the place that is predicted."""

    ref: str
    model: "Model"
    doc: "Doc"
    place: Place
    written: tuple[int, ...] = ()  # pieces that a decoder writes

    @property
    def name(self) -> str:
        """The name of the model in the app."""
        return choice.name_of(self.ref, "models")

    @property
    def so_far(self) -> tuple[int, ...]:
        """The pieces that the decoder has written before the place."""
        return self.written[: self.place.index] if self.place.kind == "written" else ()

    @property
    def key(self) -> tuple[str, str, tuple[int, ...]]:
        """The content, for caches."""
        from workbench.corpora.encode import content_key

        return content_key(self.model, self.doc), self.place.as_text, self.so_far


@dataclass(frozen=True)
class Top:
    """The most probable choices of a prediction."""

    choices: tuple[int, ...]
    texts: tuple[str, ...]
    probabilities: tuple[float, ...]
    gold: int | None = None  # the choice that is in the text
    gold_text: str = ""
    gold_rank: int = 0  # 1: the most probable
    is_score: bool = False  # of a regression: the only value is a score
    known: Mapping[int, float] = field(default_factory=dict)  # probability of other choices, too

    @property
    def rest(self) -> float:
        return max(0.0, 1.0 - sum(self.probabilities))


def places(model: "Model", doc: "Doc") -> list[Place]:
    """The places of a text that a model predicts, in reading order."""
    from workbench.corpora.encode import content_key

    return _places(content_key(model, doc), model, doc)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _places(key: str, _model: "Model", _doc: "Doc") -> list[Place]:
    from workbench.analyses.predictions.prediction import labelled, words_to_predict

    if _model.task_head is not None:
        found = labelled(_model, _doc)
        return [Place("label", p.position if p.kind == "tag" else n) for n, p in enumerate(found)]
    if not _model.objective:
        return []
    words = [Place("word", word) for word in words_to_predict(_model, _doc)]
    if _model.objective in ("causal", "bidirectional"):
        return [*words, Place("next")]
    return words


def is_answer(side: Side) -> bool:
    """Whether the choices are words of the text: the first or the last word of an answer."""
    return side.place.kind == "label" and prediction_at(side).kind in ("start", "end")


def is_score(side: Side) -> bool:
    """Whether the prediction is the score of a regression, which has no probability."""
    return side.place.kind == "label" and prediction_at(side).kind == "score"


def with_gaps(model: "Model", doc: "Doc") -> "tuple[Doc, list[int]]":
    """The text with each [MASK] or ___ as one word, and these words."""
    from workbench.corpora.markers import has_marker, with_markers

    if not has_marker(doc.text) or not model.objective or model.task_head is not None:
        return doc, []
    return with_markers(model, doc)


def spans(side: Side) -> tuple[str, ...]:
    """What an encoder-decoder writes for the place, for each of its most probable first pieces."""
    if side.model.objective != "seq2seq" or side.place.kind not in ("word", "gap"):
        return ()
    return _spans(side.key, side)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _spans(key: tuple[str, str, tuple[int, ...]], _side: Side) -> tuple[str, ...]:
    from workbench.analyses.predictions.predict import fill
    from workbench.engine.forward_pass import ALONE

    index = _side.place.index
    with ALONE:
        if _side.place.kind == "gap":
            place = fill(_side.model, _side.doc, COUNT).places[index]
        else:
            place = fill(_side.model, _side.doc, COUNT, hide=index).places[0]
    return tuple(span.shown for span in place.spans)


def prediction_at(side: Side) -> "Prediction":
    """The prediction of a place."""
    from workbench.analyses.predictions.prediction import following, labelled, of_word, written

    model, doc, place = side.model, side.doc, side.place
    if place.kind == "next":
        return following(model, doc)
    if place.kind == "written":
        return written(model, doc, side.so_far)
    if place.kind == "gap":
        from workbench.analyses.predictions.predict import fill

        gaps = fill(model, doc, 1).places
        if place.index < len(gaps):
            return gaps[place.index].prediction
    if place.kind == "word":
        return of_word(model, doc, place.index)
    found = labelled(model, doc)
    for n, prediction in enumerate(found):
        if place.index == (prediction.position if prediction.kind == "tag" else n):
            return prediction
    raise WorkbenchError(
        f"{model.name} has no label number {place.index} for this text.",
        code="word-unknown",
        remedy="Click a word of the text.",
    )


def top(
    side: Side,
    count: int,
    hidden: tuple[int, ...] = (),
    also: tuple[int, ...] = (),
) -> Top:
    """The `count` most probable choices of a place, if the words `hidden` are not read.

    `known` of the result has the probabilities of the choices `also`, too.
    """
    return _top(side.key, count, hidden, also, side)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _top(
    key: tuple[str, str, tuple[int, ...]],
    count: int,
    hidden: tuple[int, ...],
    also: tuple[int, ...],
    _side: Side,
) -> Top:
    from workbench.engine.forward_pass import ALONE

    prediction = prediction_at(_side)
    if hidden:
        from workbench.analyses.predictions.edits import without_words

        prediction = without_words(prediction, hidden)
    with ALONE:
        logits = prediction.logits()[0].detach()  # [choices]
    if prediction.kind == "score":
        score = float(logits[0])
        return Top((0,), prediction.names([0]), (score,), is_score=True, known={0: score})
    probabilities = logits.softmax(-1)
    best = probabilities.topk(min(count, int((logits > _NOWHERE).sum())))
    choices = best.indices.tolist()
    gold = prediction.gold
    asked = [*choices, *also, *([] if gold is None else [gold])]
    return Top(
        tuple(choices),
        prediction.names(choices),
        tuple(best.values.tolist()),
        gold,
        "" if gold is None else prediction.names([gold])[0],
        0 if gold is None else 1 + int((probabilities > probabilities[gold]).sum()),
        known=dict(zip(asked, probabilities[asked].tolist(), strict=True)),
    )


def unknown_note(ref: str, model: "Model", doc: "Doc") -> str:
    """How many words of the text the model does not know; "" if it knows all of them."""
    from workbench.corpora.encode import content_key

    return _unknown_note(content_key(model, doc), choice.name_of(ref, "models"), model, doc)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _unknown_note(key: str, name: str, _model: "Model", _doc: "Doc") -> str:
    from workbench.analyses.predictions.generate import unknown_note as noted

    return noted(_model, _doc, name)


def cut_note(side: Side) -> str:
    """What of the text is read if it is too long for the model; "" if all of it is."""
    return _cut_note(side.key, side)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _cut_note(key: tuple[str, str, tuple[int, ...]], _side: Side) -> str:
    from workbench.corpora.encode import encode

    model, doc = _side.model, _side.doc
    read, end = len(doc), "first"
    if _side.place.kind == "next":
        read, end = int(prediction_at(_side).text.word_counts[0]), "last"
    else:
        text = model.encode(encode([doc]))
        if text.cut:
            read = int(text.kept[0])
    if read >= len(doc):
        return ""
    which = "" if "segments" in doc.spans else f"the {end} "
    return (
        f"The model reads {model.max_pieces:,} pieces: only {which}{read:,} of the "
        f"{len(doc):,} words of this text are read."
    )


def effects(side: Side, what: "Edit") -> "pd.DataFrame":
    """What hiding or deleting each word in turn does to the most probable choice."""
    return _effects(side.key, what, side)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _effects(key: tuple[str, str, tuple[int, ...]], what: "Edit", _side: Side) -> "pd.DataFrame":
    from workbench.analyses.predictions.edits import token_effects
    from workbench.engine.forward_pass import ALONE

    with ALONE:
        found = token_effects(prediction_at(_side), what)
    table = found.table
    return table.assign(is_new=table["first"] != found.choice_text)


# --- what a model writes, and what a task head says -----------------------------------------------


@dataclass(frozen=True)
class Written:
    """The pieces that a model wrote, with their probabilities."""

    choices: tuple[int, ...]
    texts: tuple[str, ...]  # what each adds to the text
    pieces: tuple[str, ...]
    probabilities: tuple[float, ...]
    whole: str
    ended: bool
    notes: tuple[str, ...] = ()


def written(side: Side, count: int) -> Written:
    """The most probable pieces that a decoder writes for the text."""
    from workbench.corpora.encode import content_key

    return _written(content_key(side.model, side.doc), count, side)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _written(key: str, count: int, _side: Side) -> Written:
    return streamed(_side, count, lambda text: None)


def streamed(side: Side, count: int, show: "Callable[[str], object]", **sampling: Any) -> Written:
    """What a model writes; `show` receives the text so far after each piece."""
    from workbench.analyses.predictions.generate import generate
    from workbench.engine.forward_pass import ALONE

    so_far: list[str] = []

    def on_piece(piece: Any) -> None:
        so_far.append(piece.text)
        show("".join(so_far))

    with ALONE:
        found = generate(side.model, side.doc, count, on_piece=on_piece, **sampling)
    return Written(
        tuple(step.index for step in found.steps),
        tuple(step.text for step in found.steps),
        tuple(step.piece for step in found.steps),
        tuple(step.probability for step in found.steps),
        found.written,
        found.ended,
        found.notes,
    )


def tags(side: Side) -> dict[int, tuple[str, float]]:
    """The tag of each word with its probability, by a task head."""
    from workbench.corpora.encode import content_key

    return _tags(content_key(side.model, side.doc), side)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _tags(key: str, _side: Side) -> dict[int, tuple[str, float]]:
    from workbench.corpora.text_prediction import predict_text
    from workbench.engine.forward_pass import ALONE

    with ALONE:
        found = predict_text(_side.model, _side.doc)
    read = [place.index for place in places(_side.model, _side.doc)]
    rows = zip(read, found.words, strict=False)
    return {word: (tag, probability) for word, (_, tag, probability) in rows}


# --- what is explained ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Explained:
    """What is explained of a prediction."""

    target: str  # as text; "" for the top prediction
    against: str  # as text; "" for none
    measure: "Measure" = "logit"


def targets(side: Side, explained: Explained) -> tuple[int, int | None]:
    """The choices that are explained: the target, and what it is compared with."""
    first = top(side, LISTED)
    target = choice_of(side, first, explained.target) if explained.target else first.choices[0]
    against = choice_of(side, first, explained.against) if explained.against else None
    if against == target:
        raise WorkbenchError(
            "The target and what it is compared with are the same choice.",
            code="setting-invalid",
            remedy="Choose another word under Rather than.",
        )
    return target, against


def choice_of(side: Side, first: Top, text: str) -> int:
    """The choice that is shown as this text: of the most probable ones, else of the vocabulary."""
    if text in first.texts:
        return first.choices[first.texts.index(text)]
    from workbench.analyses.predictions import explained

    return explained.choice_of(prediction_at(side), text)


def target_of(side: Side, explained: Explained) -> "Target":
    """The number that is explained."""
    from workbench.analyses.predictions.target import Target

    measure = "logit" if is_score(side) else explained.measure  # the score itself
    return Target(*targets(side, explained), measure)
