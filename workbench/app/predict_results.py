"""What the page Predict & explain shows, as plain data: computed once for a content, then cached.

Keys are hashes of weights, tokenizer, text, precision and device, never a model's name alone. One
visitor computes at a time, since some models are hooked in place. Costs: tokenising and a forward
pass for a prediction; what `workbench.analyses.attribution` says for an explanation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.app import choice
from workbench.app.predict import Place
from workbench.core.errors import WorkbenchError

if TYPE_CHECKING:
    import pandas as pd
    from spacy.tokens import Doc

    from workbench.analyses.attribution.faithfulness import Faithfulness
    from workbench.analyses.attribution.methods import Attribution, Method
    from workbench.analyses.predictions.edits import Edit
    from workbench.analyses.predictions.prediction import Prediction
    from workbench.analyses.predictions.target import Baseline, By, Measure, Target
    from workbench.engine.model import Model
    from workbench.models.patching import What

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
        from workbench.analyses.attention.capture import content_key

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
    from workbench.analyses.attention.capture import content_key

    return _places(content_key(model, doc), model, doc)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _places(key: str, _model: "Model", _doc: "Doc") -> list[Place]:
    from workbench.analyses.predictions.prediction import labelled, words_to_predict

    if is_labeller(_model):
        found = labelled(_model, _doc)
        return [Place("label", p.position if p.kind == "tag" else n) for n, p in enumerate(found)]
    words = [Place("word", word) for word in words_to_predict(_model, _doc)]
    if _model.objective in ("causal", "bidirectional"):
        return [*words, Place("next")]
    return words


def is_labeller(model: "Model") -> bool:
    """Whether the model labels texts: a fine-tuned run, or a classifier of transformers."""
    return model.task_head is not None


def is_answer(side: Side) -> bool:
    """Whether the choices are words of the text: the first or the last word of an answer."""
    return side.place.kind == "label" and prediction_at(side).kind in ("start", "end")


def is_score(side: Side) -> bool:
    """Whether the prediction is the score of a regression, which has no probability."""
    return side.place.kind == "label" and prediction_at(side).kind == "score"


def with_gaps(model: "Model", doc: "Doc") -> "tuple[Doc, list[int]]":
    """The text with each [MASK] or ___ as one word, and these words."""
    from workbench.analyses.predictions.markers import has_marker, with_markers

    if not has_marker(doc.text) or not model.objective or is_labeller(model):
        return doc, []
    return with_markers(model, doc)


def spans(side: Side) -> tuple[str, ...]:
    """What an encoder-decoder writes for the place, for each of its most probable first pieces."""
    if side.model.objective != "seq2seq" or side.place.kind not in ("word", "gap"):
        return ()
    return _spans(side.key, side)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _spans(key: tuple[str, str, tuple[int, ...]], _side: Side) -> tuple[str, ...]:
    from workbench.analyses.attention.capture import ALONE
    from workbench.analyses.predictions.predict import fill

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
    from workbench.analyses.attention.capture import ALONE

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
    from workbench.analyses.attention.capture import ALONE
    from workbench.analyses.predictions.edits import token_effects

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
    from workbench.analyses.attention.capture import content_key

    return _written(content_key(side.model, side.doc), count, side)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _written(key: str, count: int, _side: Side) -> Written:
    return streamed(_side, count, lambda text: None)


def streamed(side: Side, count: int, show: "Callable[[str], object]", **sampling: Any) -> Written:
    """What a model writes; `show` receives the text so far after each piece."""
    from workbench.analyses.attention.capture import ALONE
    from workbench.analyses.predictions.generate import generate

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
    from workbench.analyses.attention.capture import content_key

    return _tags(content_key(side.model, side.doc), side)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _tags(key: str, _side: Side) -> dict[int, tuple[str, float]]:
    from workbench.analyses.attention.capture import ALONE
    from workbench.corpora.text_prediction import predict_text

    with ALONE:
        found = predict_text(_side.model, _side.doc)
    read = [place.index for place in places(_side.model, _side.doc)]
    rows = zip(read, found.words, strict=False)
    return {word: (tag, probability) for word, (_, tag, probability) in rows}


# --- why: attribution and its faithfulness --------------------------------------------------------


@dataclass(frozen=True)
class Explained:
    """What is explained of a prediction, and how: the choices of the tab Why?"""

    target: str  # as text; "" for the top prediction
    against: str  # as text; "" for none
    measure: "Measure" = "logit"
    method: "Method" = "integrated-gradients"
    by: "By" = "word"
    baseline: "Baseline | None" = None  # None: the model's default
    options: tuple[tuple[str, Any], ...] = ()  # of the method


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


def attribution(side: Side, explained: Explained) -> "Attribution":
    """The attribution of the target to what the model reads."""
    from workbench.analyses.attribution.methods import Attribution

    fields = _attribution(side.key, explained, side)
    return Attribution(prediction=prediction_at(side), **fields)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _attribution(
    key: tuple[str, str, tuple[int, ...]], explained: Explained, _side: Side
) -> dict[str, Any]:
    """The fields of an `Attribution`, but not the model."""
    from workbench.analyses.attention.capture import ALONE
    from workbench.analyses.attribution.methods import attribute_prediction

    prediction = prediction_at(_side)
    target = target_of(_side, explained)
    with ALONE:
        found = attribute_prediction(
            prediction,
            target,
            explained.method,
            baseline=explained.baseline,
            **_options(explained),
        )
    return {
        each.name: getattr(found, each.name) for each in fields(found) if each.name != "prediction"
    }


def target_of(side: Side, explained: Explained) -> "Target":
    """The number that is explained."""
    from workbench.analyses.predictions.target import Target

    measure = "logit" if is_score(side) else explained.measure  # the score itself
    return Target(*targets(side, explained), measure)


def faithfulness(side: Side, explained: Explained, randomise: bool) -> "Faithfulness":
    """How faithful the map is, next to random orders, attention and, if set, random weights."""
    return _faithfulness(side.key, explained, randomise, side)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _faithfulness(
    key: tuple[str, str, tuple[int, ...]], explained: Explained, randomise: bool, _side: Side
) -> "Faithfulness":
    from workbench.analyses.attention.capture import ALONE
    from workbench.analyses.attribution.faithfulness import faithfulness

    found = attribution(_side, explained)
    twins = [_twin(_side.model.content_hash, _side.model)] if randomise else []
    with ALONE:
        return faithfulness(
            found.prediction, found.target, found, twins=twins, **_options(explained)
        )


@st.cache_resource(max_entries=2, show_spinner=False)
def _twin(content: str, _model: "Model") -> "Model":
    """The same architecture with random weights."""
    return _model.reinitialised(0)


def _options(explained: Explained) -> dict[str, Any]:
    """The options of a method by name."""
    return {"by": explained.by, **dict(explained.options)}


# --- when: the lens -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layers:
    """What every layer predicts, as the tables of a `LensReading`."""

    table: "pd.DataFrame"
    choices: "pd.DataFrame"
    final: "pd.DataFrame"
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
    from workbench.analyses.attention.capture import ALONE
    from workbench.analyses.lenses.lens import lens

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
    import pandas as pd

    from workbench.analyses.lenses.lens import lens

    tables: list[list[pd.DataFrame]] = [[], [], []]
    notes: tuple[str, ...] = ()
    for n in range(count):
        prediction = prediction_at(replace(side, place=Place("gap", n)))
        found = lens(side.model, prediction, sublayers=sublayers, top=1)
        for parts, table in zip(tables, (found.table, found.choices, found.final), strict=True):
            parts.append(table.assign(place=n, word=gap_name(n)))
        notes = found.notes
    table, choices, final = (pd.concat(parts, ignore_index=True) for parts in tables)
    return Layers(table, choices, final, notes)


def gap_name(number: int) -> str:
    """How a hidden word is named, by its number from 0."""
    return f"hidden word {number + 1}"


# --- who: direct contributions --------------------------------------------------------------------


@dataclass(frozen=True)
class Parts:
    """What every part of a model contributes, as of `DirectContributions`."""

    of: str  # logit, or head input
    target: str  # as text, with what it is compared with
    total: float
    table: "pd.DataFrame"
    notes: tuple[str, ...] = ()


def parts(side: Side, target: str, against: str) -> Parts:
    """The direct contributions of heads and MLPs to the target."""
    return _parts(side.key, Explained(target, against), side)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _parts(key: tuple[str, str, tuple[int, ...]], explained: Explained, _side: Side) -> Parts:
    from workbench.analyses.attention.capture import ALONE
    from workbench.analyses.lenses.contributions import contributions

    prediction = prediction_at(_side)
    target = target_of(_side, explained)
    with ALONE:
        found = contributions(_side.model, prediction, target=target)
    names = prediction.names(
        [target.choice] if target.against is None else [target.choice, target.against]
    )
    label = " rather than ".join(f"“{name}”" for name in names)
    label = "the score" if is_score(_side) else label
    return Parts(found.of, label, found.total, found.table, tuple(getattr(found, "notes", ())))


# --- where: activation patching -------------------------------------------------------------------


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
    from workbench.analyses.attention.capture import ALONE
    from workbench.analyses.patching.patch import patch_predictions
    from workbench.analyses.predictions.generate import cut_notes

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


def counterfactual_swap(side: Side) -> tuple[int, str] | None:
    """A word on which the prediction depends, by its index, and another word for its place."""
    return _counterfactual_swap(side.key, side)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _counterfactual_swap(
    key: tuple[str, str, tuple[int, ...]], _side: Side
) -> tuple[int, str] | None:
    from workbench.analyses.attention.capture import ALONE
    from workbench.analyses.predictions.counterfactual import counterfactual

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
