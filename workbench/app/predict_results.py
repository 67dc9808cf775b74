"""What the page Predict & explain shows, as plain data: computed once for a content, then cached.

Keys are hashes of weights, tokenizer, text, precision and device, never a model's name alone. One
visitor computes at a time, since some models are hooked in place. Costs: tokenising and a forward
pass for a prediction; what `workbench.attribution` says for an explanation.
"""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.app.predict import Place
from workbench.core.errors import WorkbenchError

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.attribution.faithfulness import Faithfulness
    from workbench.attribution.methods import Attribution
    from workbench.attribution.prediction import Prediction
    from workbench.attribution.target import Target
    from workbench.engine.model import Model

ENTRIES = 256  # of each cache
LISTED = 24  # choices that are offered as targets


@dataclass(frozen=True)
class Side:
    """A model with a text, and the place that is predicted."""

    ref: str
    model: "Model"
    doc: "Doc"
    place: Place

    @property
    def key(self) -> tuple[str, str]:
        """The content, for caches."""
        from workbench.attention_maps.capture import content_key

        return content_key(self.model, self.doc), self.place.as_text


@dataclass(frozen=True)
class Top:
    """The most probable choices of a prediction."""

    choices: tuple[int, ...]
    texts: tuple[str, ...]
    probabilities: tuple[float, ...]
    gold: str = ""  # the word that is in the text
    gold_probability: float = 0.0
    is_score: bool = False  # of a regression: the only value is a score

    @property
    def rest(self) -> float:
        return max(0.0, 1.0 - sum(self.probabilities))


def places(model: "Model", doc: "Doc") -> list[Place]:
    """The places of a text that a model predicts, in reading order."""
    from workbench.attention_maps.capture import content_key

    return _places(content_key(model, doc), model, doc)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _places(key: str, _model: "Model", _doc: "Doc") -> list[Place]:
    from workbench.attribution.prediction import labelled, words_to_predict

    if _model.task_folder is not None or _model.classes:
        found = labelled(_model, _doc)
        return [Place("label", p.position if p.kind == "tag" else n) for n, p in enumerate(found)]
    words = [Place("word", word) for word in words_to_predict(_model, _doc)]
    if _model.objective in ("causal", "bidirectional"):
        return [*words, Place("next")]
    return words


def prediction_at(side: Side, so_far: tuple[int, ...] = ()) -> "Prediction":
    """The prediction of a place; `so_far` are the pieces that a decoder has written."""
    from workbench.attribution.prediction import following, labelled, of_word, written

    model, doc, place = side.model, side.doc, side.place
    if place.kind == "next":
        return following(model, doc)
    if place.kind == "written":
        return written(model, doc, so_far[: place.index])
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


def top(side: Side, count: int, so_far: tuple[int, ...] = ()) -> Top:
    """The `count` most probable choices of a place."""
    return _top(side.key, count, so_far, side)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _top(key: tuple[str, str], count: int, so_far: tuple[int, ...], _side: Side) -> Top:
    from workbench.attention_maps.capture import ALONE

    prediction = prediction_at(_side, so_far)
    with ALONE:
        logits = prediction.logits()[0].detach()  # [choices]
    if prediction.kind == "score":
        return Top((0,), prediction.names([0]), (float(logits[0]),), is_score=True)
    probabilities = logits.softmax(-1)
    best = probabilities.topk(min(count, len(probabilities)))
    choices = best.indices.tolist()
    gold = prediction.gold
    return Top(
        tuple(choices),
        prediction.names(choices),
        tuple(best.values.tolist()),
        "" if gold is None else prediction.names([gold])[0],
        0.0 if gold is None else float(probabilities[gold]),
    )


# --- why: attribution and its faithfulness --------------------------------------------------------


@dataclass(frozen=True)
class Explained:
    """What is explained of a prediction, and how: the choices of the tab Why?"""

    target: str  # as text; "" for the top prediction
    against: str  # as text; "" for none
    measure: str
    method: str
    by: str
    baseline: str  # "" for the model's default
    options: tuple[tuple[str, Any], ...] = ()  # of the method


def targets(side: Side, explained: Explained, so_far: tuple[int, ...] = ()) -> tuple[int, int | None]:
    """The choices that are explained: the target, and what it is compared with."""
    first = top(side, LISTED, so_far)
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
    model = side.model
    names = first.texts if side.place.kind == "label" else ()
    if not names:
        for piece, choice in model.vocabulary.items():
            if piece == text or model.choice_texts([choice])[0].strip() == text.strip():
                return choice
    raise WorkbenchError(
        f"{text!r:.60} is no choice of {model.name} here.",
        code="word-unknown",
        remedy="Choose a word of the list, or one that is a single piece of the model's vocabulary.",
    )


def attribution(side: Side, explained: Explained, so_far: tuple[int, ...] = ()) -> "Attribution":
    """The attribution of the target to what the model reads."""
    from workbench.attribution.methods import Attribution

    fields = _attribution(side.key, explained, so_far, side)
    return Attribution(prediction=prediction_at(side, so_far), **fields)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _attribution(
    key: tuple[str, str], explained: Explained, so_far: tuple[int, ...], _side: Side
) -> dict[str, Any]:
    """The fields of an `Attribution`, but not the model."""
    from workbench.attention_maps.capture import ALONE
    from workbench.attribution.methods import attribute_prediction

    prediction = prediction_at(_side, so_far)
    target = target_of(_side, explained, so_far)
    options = dict(explained.options)
    with ALONE:
        found = attribute_prediction(
            prediction,
            target,
            explained.method,
            by=explained.by,
            baseline=explained.baseline or None,
            **options,
        )
    return {
        field.name: getattr(found, field.name)
        for field in fields(found)
        if field.name != "prediction"
    }


def target_of(side: Side, explained: Explained, so_far: tuple[int, ...] = ()) -> "Target":
    """The number that is explained."""
    from workbench.attribution.target import Target

    return Target(*targets(side, explained, so_far), explained.measure)


def faithfulness(side: Side, explained: Explained, so_far: tuple[int, ...] = ()) -> "Faithfulness":
    """How faithful the map is, next to random orders and attention."""
    return _faithfulness(side.key, explained, so_far, side)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _faithfulness(
    key: tuple[str, str], explained: Explained, so_far: tuple[int, ...], _side: Side
) -> "Faithfulness":
    from workbench.attention_maps.capture import ALONE
    from workbench.attribution.faithfulness import faithfulness

    found = attribution(_side, explained, so_far)
    with ALONE:
        return faithfulness(found.prediction, found.target, found)
