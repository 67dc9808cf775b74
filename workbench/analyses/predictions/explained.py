"""The prediction and the target of an explanation, from what a user names.

    prediction, notes = prediction_of(model, "The dogs ___ here.")
    target = target_of(prediction, "are", against="is")

`attribute`, `contributions` and `patch` explain the prediction that `predict` makes: of a hidden
word, of the next or a written piece, of a label. Costs: a forward pass; a piece further on in a
text that the model writes first costs a pass for each piece before it.
"""

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from workbench.analyses.predictions.generate import cut_notes, generate
from workbench.analyses.predictions.predict import (
    OTHERS_HIDDEN,
    fill,
    labels_texts,
    read_by,
)
from workbench.analyses.predictions.prediction import (
    Prediction,
    following,
    labelled,
    of_word,
    written,
)
from workbench.analyses.predictions.target import Measure, Target, require_measure
from workbench.core.errors import WorkbenchError, did_you_mean, listed
from workbench.corpora.encode import encode
from workbench.corpora.markers import beside_markers, has_marker
from workbench.corpora.typed import word_index
from workbench.engine.batch import NO_WORD, Pieces
from workbench.engine.model import Model, refusal
from workbench.models.output_heads.task_heads import NOWHERE

if TYPE_CHECKING:
    from spacy.tokens import Doc

Position = int | str  # the number of a hidden or written piece, from 1; `start` or `end`
LIKELY = 5  # most probable choices that an error offers


# --- the prediction -------------------------------------------------------------------------------


def prediction_of(
    model: Model,
    text: "str | Doc",
    *,
    word: str | int | None = None,
    second: "str | Doc | None" = None,
    position: Position | None = None,
    so_far: Sequence[int] = (),
) -> tuple[Prediction, list[str]]:
    """The prediction of a text that is explained, and notes on what it reads.

    `so_far` is what the model has written before a position (default: the most probable pieces).
    """
    doc = read_by(model, text, second)
    if model.task_head is not None:
        prediction = _label(labelled(model, doc), doc, word, position)
        return prediction, cut_notes(prediction, doc)
    if word is not None:
        _only_one(position)
        doc = beside_markers(model, doc)
        prediction = of_word(model, doc, word_index(doc, word))
        return prediction, cut_notes(prediction, doc)
    if model.objective and has_marker(doc.text):
        filled = fill(model, doc, top=1, max_pieces=1)
        places = filled.places
        number = _number(position, len(places), "hidden words")
        notes = [note for note in filled.notes if note != OTHERS_HIDDEN]
        if len(places) > 1:
            notes.append(f"Hidden word {number} of {len(places)}; the others stay hidden.")
        return places[number - 1].prediction, notes
    if model.objective == "masked":
        raise WorkbenchError(
            f"{model.name} predicts hidden words, and the text has none.",
            code="marker-missing",
            remedy="Write [MASK], <mask> or ___ for a word, or name a word of the text with word.",
        )
    if not model.objective:
        raise refusal(
            model,
            "has no head with trained weights, so it predicts nothing",
            "Choose a model saved with such a head, or a run of finetune with save_model.",
        )
    prediction = _written(model, doc, _number(position, None, "written pieces"), so_far)
    return prediction, cut_notes(prediction, doc)


def _label(
    predictions: Sequence[Prediction], doc: "Doc", word: str | int | None, position: Position | None
) -> Prediction:
    kind = predictions[0].kind
    if kind == "tag":
        _only_one(position)
        if word is None:
            raise WorkbenchError(
                "the model tags every word, and none is chosen.",
                code="word-unknown",
                remedy='Name the word whose tag is explained: word=0, or word="...".',
            )
        index = word_index(doc, word)
        for prediction in predictions:
            if prediction.position == index:
                return prediction
        raise WorkbenchError(
            f"the word {doc[index].text!r} has no piece: the text was cut off before it.",
            code="word-unknown",
            remedy="Shorten the text.",
        )
    if word is not None:
        raise labels_texts(predictions[0].model, "word")
    if kind in ("start", "end"):
        by_kind: dict[object, Prediction] = {each.kind: each for each in predictions}
        if position is not None and position not in by_kind:
            raise WorkbenchError(
                f"an answer has no position {position!r}.",
                code="setting-invalid",
                remedy="Choose start or end.",
            )
        return by_kind[position or "start"]
    _only_one(position)
    return predictions[0]


def _only_one(position: Position | None) -> None:
    if position not in (None, 1):
        raise WorkbenchError(
            f"there is no prediction {position!r}: the model makes one for this text.",
            code="setting-invalid",
            remedy="Leave out position.",
        )


def _number(position: Position | None, count: int | None, what: str) -> int:
    number = 1 if position is None else position
    if not isinstance(number, int) or number < 1 or (count is not None and number > count):
        raise WorkbenchError(
            f"there is no position {position!r} among the {what}.",
            code="setting-invalid",
            remedy=f"Choose a number from 1{f' to {count}' if count else ''}.",
        )
    return number


def _written(model: Model, doc: "Doc", number: int, given: Sequence[int]) -> Prediction:
    """The prediction of a piece that the model writes, after the most probable ones before it."""
    so_far = list(given)
    if number > 1 and not so_far:
        result = generate(model, doc, number - 1, top=1)
        so_far = [step.index for step in result.steps]
        if len(so_far) < number - 1 or result.ended:
            raise WorkbenchError(
                f"{model.name} writes {len(so_far)} pieces for this text, so there is no piece "
                f"{number}.",
                code="setting-invalid",
                remedy=f"Choose a number from 1 to {max(1, len(so_far))}.",
            )
    if model.objective == "seq2seq":
        return replace(written(model, doc, so_far), so_far=tuple(so_far))
    if model.objective == "bidirectional":
        words = model.choice_texts(so_far)
        prediction = following(model, _with_words(doc, words) if words else doc)
        return replace(prediction, so_far=tuple(so_far))
    prediction = following(model, doc, len(so_far))
    return replace(
        prediction,
        text=_with_pieces(prediction.text, so_far),
        position=prediction.position + len(so_far),
        so_far=tuple(so_far),
    )


def _with_pieces(text: Pieces, ids: Sequence[int]) -> Pieces:
    """The text with pieces after it, which belong to no word."""

    def extended(tensor: Tensor, values: Sequence[int]) -> Tensor:
        more = torch.tensor([values], dtype=tensor.dtype, device=tensor.device)
        return torch.cat([tensor, more], 1)  # [1, pieces]

    if not ids:
        return text
    n_new = len(ids)
    return replace(
        text,
        ids=extended(text.ids, ids),
        mask=extended(text.mask, [1] * n_new),
        words=extended(text.words, [NO_WORD] * n_new),
        special=extended(text.special, [0] * n_new),
        segments=None if text.segments is None else extended(text.segments, [0] * n_new),
    )


def _with_words(doc: "Doc", words: Sequence[str]) -> "Doc":
    from spacy.tokens import Doc

    return Doc(doc.vocab, words=[*(token.text for token in doc), *words])


# --- the target -----------------------------------------------------------------------------------


def target_of(
    prediction: Prediction,
    choice: str | int | None = None,
    against: str | int | None = None,
    measure: Measure = "logit",
) -> Target:
    """The target of names or indices; the most probable choice by default."""
    require_measure(prediction, measure)
    with torch.no_grad():
        logits = prediction.logits()[0]
    chosen = int(logits.argmax()) if choice is None else choice_of(prediction, choice, logits)
    if against is None:
        return Target(chosen, None, measure)
    other = choice_of(prediction, against, logits)
    if other == chosen:
        name = prediction.names([chosen])[0]
        raise WorkbenchError(
            f"the target and the choice it is explained against are the same: {name!r}.",
            code="setting-invalid",
            remedy="Choose two different ones.",
        )
    return Target(chosen, other, measure)


def choice_of(prediction: Prediction, choice: str | int, logits: Tensor | None = None) -> int:
    """The row of the head of a choice, given as a row or as text.

    A word is one piece of the vocabulary. Of a piece that begins a word and one that continues a
    word with the same text, it is the more probable one.
    """
    if logits is None:
        with torch.no_grad():
            logits = prediction.logits()[0]
    n_choices = len(logits)
    if not isinstance(choice, str):
        row = _row(choice)
        if not 0 <= row < n_choices:
            raise _unknown(prediction, row, logits, f"Choose a row from 0 to {n_choices - 1}.")
        return _possible(prediction, row, logits)
    model = prediction.model
    if prediction.kind in ("start", "end"):
        if choice == prediction.names([n_choices - 1])[0]:
            return n_choices - 1
        return _possible(prediction, word_index(prediction.doc, choice), logits)
    if prediction.head is not None:
        names = prediction.names(range(n_choices))
        for name in (choice, choice.casefold()):
            for row, known in enumerate(names):
                if name in (known, known.casefold()):
                    return row
        raise _unknown(prediction, choice, logits, did_you_mean(choice, names))
    if model.objective == "bidirectional":
        for row, known in enumerate(prediction.names(range(n_choices))):
            if known == choice:
                return row
        raise _unknown(prediction, choice, logits, "It is not in the model's vocabulary.")
    return _piece(prediction, choice, logits)


def _row(choice: object) -> int:
    try:
        return operator.index(choice)  # type: ignore[arg-type]
    except TypeError:
        raise WorkbenchError(
            f"a choice is {choice!r:.40}.",
            code="wrong-type",
            remedy="Name it by its text, or by the row of the model's head.",
        ) from None


def _possible(prediction: Prediction, row: int, logits: Tensor) -> int:
    """The row, if it is none of the words where an answer cannot start or end."""
    if prediction.kind in ("start", "end") and float(logits[row]) <= NOWHERE:
        raise WorkbenchError(
            f"no answer has a {prediction.kind} at {prediction.names([row])[0]!r}: the head looks "
            "for answers in the words of the second text that the model reads.",
            code="target-unknown",
            where=prediction.model.name,
            remedy="Choose a word of the second text.",
        )
    return row


def _piece(prediction: Prediction, choice: str, logits: Tensor) -> int:
    """The piece of a word: as it is split after a space or stored, else as it is shown.

    A space before the word, as in ` Mary`, means the piece that begins a word.
    """
    from spacy.tokens import Doc

    model, n_choices = prediction.model, len(logits)
    split: list[int] = []
    word = choice.removeprefix(" ")
    if word.strip() == word != "":
        # between other words, so that it is split as in a text
        doc = Doc(prediction.doc.vocab, words=["a", word, "a"])
        text = model.encode(encode([doc]))
        split = text.ids[0][text.words[0] == 1].tolist()
    begins = split[0] if len(split) == 1 else None
    known = [
        row
        for row in (begins, model.vocabulary.get(choice))
        if row is not None and row != model.symbols.unknown and row < n_choices
    ]
    if known:
        return max(known, key=lambda row: float(logits[row]))
    shown = model.choice_texts(range(min(n_choices, len(model.vocabulary))))
    if choice in shown:
        return shown.index(choice)
    if len(split) > 1:
        parts = " + ".join(model.piece_texts(split))
        remedy = f"The model writes it as {parts}: explain one of these pieces, such as the first."
        raise _unknown(prediction, choice, logits, remedy)
    raise _unknown(prediction, choice, logits, "It is not in the model's vocabulary.")


def _unknown(
    prediction: Prediction, choice: str | int, logits: Tensor, remedy: str
) -> WorkbenchError:
    likely = logits.argsort(descending=True)[:LIKELY].tolist()
    names = listed([repr(name) for name in prediction.names(likely)])
    what = "one choice" if isinstance(choice, str) else "a choice"
    return WorkbenchError(
        f"{choice!r:.60} is not {what} of {prediction.model.name} here.",
        code="target-unknown",
        remedy=f"{remedy} The most probable choices are {names}.",
    )
