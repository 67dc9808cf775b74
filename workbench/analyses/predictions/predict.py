"""What a model predicts for a text: hidden words, the next piece, a label, or a written text.

    wb.fill(model, "Ben [MASK] to the hill.")       # any number of hidden words
    wb.predict(model, "Ben walks to the")           # what the model can do with this text
    wb.predict([one, other], "Ben ___ to the hill.")
    changed(model, "Ben walks to the", "Ann walks to the")

A masked model predicts all hidden words at once, each from the visible words. T5 writes a span for
each sentinel, and BART the whole text again; each of the most probable first pieces is completed
greedily. ELMo multiplies its two directions, and a causal model reads what comes before the marker.
Costs: a forward pass; for spans one more for each piece of a span.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from workbench.analyses.predictions.generate import (
    MAX_PIECES,
    OnPiece,
    cut_notes,
    generate,
    label,
    require_counts,
    unknown_note,
)
from workbench.analyses.predictions.prediction import (
    Prediction,
    following,
    no_head,
    of_word,
    target_pieces,
)
from workbench.analyses.predictions.results import (
    Generated,
    Labelled,
    Place,
    Predicted,
    SideBySide,
    Span,
    TopChoices,
)
from workbench.core.errors import WorkbenchError
from workbench.core.public import public
from workbench.corpora.encode import encode
from workbench.corpora.markers import beside_markers, has_marker, hidden, with_markers
from workbench.corpora.text_prediction import pair_of, require_texts
from workbench.corpora.typed import readable, word_index
from workbench.engine.batch import Pieces
from workbench.engine.model import Model, refusal

if TYPE_CHECKING:
    from spacy.tokens import Doc

SPAN = 10  # maximum number of pieces of a span
OTHERS_HIDDEN = "Each hidden word is predicted with the others hidden."


@public
def predict(
    model: Model | Sequence[Model],
    text: "str | Doc",
    *,
    second: "str | Doc | None" = None,
    top: int = 5,
    hide: str | int | None = None,
    max_pieces: int | None = None,
    on_piece: OnPiece | None = None,
) -> TopChoices | Generated | Labelled | SideBySide:
    """Predict what the model can for a text.

    A fine-tuned task head or a text classifier labels it. Else a text with a marker (`[MASK]`,
    `<mask>`, `___`) is filled, a causal model and ELMo predict the next piece, and an
    encoder-decoder writes a text.

    Args:
        model: A `Model`, or several to compare.
        text: A text, or a Doc.
        second: The second text of a pair, for tasks of two texts.
        top: Number of most probable choices (default 5).
        hide: A word of the text to hide and predict, or its index; not for models that label.
            A masked model hides markers of the text, too; each counts as one word.
        max_pieces: Maximum number of pieces to write. With it, causal models and ELMo write a
            continuation instead of predicting the next piece only.
        on_piece: Function that is called with each written piece as soon as it is chosen.

    Returns:
        `TopChoices`, `Labelled` or `Generated`; for several models `SideBySide`. Each has a
        `table`.

    Raises:
        WorkbenchError: The model predicts nothing for this text, or the text is empty.

    Example:
        >>> wb.predict(wb.load("mini:bert", device="cpu"), "Ben [MASK] to the hill.", top=2)
        mini:bert: Ben [MASK] to the hill.
          gap 1  walked  15.7 %
                 went    13.9 %
    """
    match model:
        case [*models]:
            pass
        case _:
            return predict_one(model, text, second, top, hide, max_pieces, on_piece)
    if not models:
        raise WorkbenchError(
            "the list of models is empty.", code="setting-invalid", remedy="Name a model."
        )
    return SideBySide(
        tuple(predict_one(one, text, second, top, hide, max_pieces, on_piece) for one in models)
    )


@public
def fill(
    model: Model,
    text: "str | Doc",
    top: int = 5,
    *,
    hide: str | int | None = None,
    max_pieces: int = SPAN,
) -> TopChoices:
    """Fill the hidden words of a text, with the most probable pieces and their probabilities.

    Hidden words are written `[MASK]`, `<mask>` or `___`. Several are predicted independently of
    each other by masked models, and from left to right by encoder-decoders.

    Args:
        model: A masked model, an encoder-decoder, ELMo, or a causal model, which reads only the
            text before the marker.
        text: A text with markers, or any text with `hide`.
        top: Number of most probable pieces for each hidden word (default 5).
        hide: A word of the text to hide instead of writing a marker, or its index. All its pieces
            are hidden, and its first one is predicted. A masked model hides markers of the text,
            too; each counts as one word.
        max_pieces: Maximum number of pieces of a span that an encoder-decoder writes (default 10).

    Returns:
        `TopChoices`, with one place for each hidden word.

    Raises:
        WorkbenchError: The text has no hidden word, or the model cannot fill it.

    Example:
        >>> filled = wb.fill(wb.load("mini:bert", device="cpu"), "Ben [MASK] to the hill.")
        >>> filled.first.text
        'walked'
    """
    doc = readable(text)
    require_counts(top=top, max_pieces=max_pieces)
    if not model.objective:
        raise no_head(model)
    if hide is not None:
        return _hidden_word(model, beside_markers(model, doc), hide, top, max_pieces)
    if not has_marker(doc.text):
        raise WorkbenchError(
            "the text has no hidden word.",
            code="marker-missing",
            remedy="Write [MASK], <mask> or ___ for it, or name a word of the text with "
            "hide= (--hide).",
        )
    doc, words = with_markers(model, doc)
    if model.objective == "causal":
        return _before_marker(model, doc, words, top)
    if model.objective == "bidirectional":
        return _between_markers(model, doc, words, top)
    pieces, positions = hidden(model, doc, words)
    if model.objective == "seq2seq":
        places = _spans_of(model, doc, pieces, positions, top, max_pieces)
        notes = cut_notes(places[0].prediction, doc)
        return TopChoices(model.name, doc.text, tuple(places), tuple(notes))
    with torch.no_grad():
        masked = [Prediction(model, doc, "hidden", pieces, position) for position in positions]
        places = [
            _place(f"gap {number}", prediction, top) for number, prediction in enumerate(masked, 1)
        ]
    notes = cut_notes(masked[0], doc)
    if len(places) > 1:
        notes.append(OTHERS_HIDDEN)
    return TopChoices(model.name, doc.text, tuple(places), tuple(notes))


def changed(
    model: Model,
    before: "str | Doc",
    after: "str | Doc",
    *,
    top: int = 5,
    hide: str | int | None = None,
) -> SideBySide:
    """The predictions for a text before and after an edit; `effects` compares them."""
    results = [predict_one(model, text, None, top, hide, None, None) for text in (before, after)]
    return SideBySide(tuple(results))


# --- the right prediction for a model and a text --------------------------------------------------


def read_by(model: Model, text: "str | Doc", second: "str | Doc | None") -> "Doc":
    """The text that a model reads: with a second text, both as one Doc.

    A task of a run takes one text or two, and refuses the other number.
    """
    doc = readable(text)
    if model.task_head is not None:
        task = model.task_head.task
        if second is None:
            require_texts(task, doc, model.name)
        elif task.pairs is False:
            raise WorkbenchError(
                f"{task.name} takes one text, and two are given.",
                code="text-missing",
                where=model.name,
                remedy="Leave out the second text.",
            )
    if second is None:
        return doc
    if model.task_head is None:
        raise refusal(
            model,
            "has no task head that reads two texts",
            "Write both into one text, or name a run of finetune on pairs of texts.",
        )
    return pair_of(doc, readable(second, "second text"))


def predict_one(
    model: Model,
    text: "str | Doc",
    second: "str | Doc | None",
    top: int,
    hide: str | int | None,
    max_pieces: int | None,
    on_piece: OnPiece | None,
) -> Predicted:
    """What `predict` returns for one model, with a note on words that it does not know."""
    doc = read_by(model, text, second)
    require_counts(top=top, **({} if max_pieces is None else {"max_pieces": max_pieces}))
    found = _predicted(model, doc, top, hide, max_pieces, on_piece)
    has_gaps = model.task_head is None and has_marker(doc.text)
    note = unknown_note(model, with_markers(model, doc)[0] if has_gaps else doc)
    return replace(found, notes=(*found.notes, note)) if note else found


def _predicted(
    model: Model,
    doc: "Doc",
    top: int,
    hide: str | int | None,
    max_pieces: int | None,
    on_piece: OnPiece | None,
) -> Predicted:
    if model.task_head is not None:
        if hide is not None:
            raise labels_texts(model, "hide")
        return label(model, doc)
    if hide is not None or (has_marker(doc.text) and model.objective):
        return fill(model, doc, top, hide=hide, max_pieces=max_pieces or SPAN)
    if model.objective == "seq2seq" or (model.objective and max_pieces is not None):
        return generate(model, doc, max_pieces or MAX_PIECES, top=top, on_piece=on_piece)
    if model.objective == "masked":
        raise WorkbenchError(
            f"{model.name} predicts hidden words, and the text has none.",
            code="marker-missing",
            remedy="Write [MASK], <mask> or ___ for a word, or name a word of the text with "
            "hide= (--hide).",
        )
    if not model.objective:
        raise no_head(model)
    return _next(model, doc, top)


def _next(model: Model, doc: "Doc", top: int) -> TopChoices:
    """The next piece after the text."""
    prediction = following(model, doc)
    notes = cut_notes(prediction, doc)
    with torch.no_grad():
        place = _place("next", prediction, top)
    return TopChoices(model.name, doc.text, (place,), tuple(notes))


def labels_texts(model: Model, argument: str) -> WorkbenchError:
    """The error for a word that is to be predicted by a model that labels texts."""
    remedy = f"Leave out {argument}, or choose a model without a task head."
    if model.objective:
        remedy += " wb.fill asks its language-model head."
    return WorkbenchError(
        f"{argument} names a word, but the task head of {model.name} labels the text.",
        code="setting-invalid",
        remedy=remedy,
    )


# --- hidden places --------------------------------------------------------------------------------


def _place(name: str, prediction: Prediction, top: int, spans: tuple[Span, ...] = ()) -> Place:
    probabilities = prediction.logits()[0].softmax(-1).cpu().numpy()
    return Place(name, prediction, probabilities, top, spans)


def _hidden_word(
    model: Model, doc: "Doc", hide: str | int, top: int, max_pieces: int
) -> TopChoices:
    """The prediction of a word of the text from its context."""
    word = word_index(doc, hide)
    prediction = of_word(model, doc, word)
    notes = cut_notes(prediction, doc)
    owned = (model.encode(encode([doc])).words[0] == word).sum()
    if int(owned) > 1:
        notes.append(f"{doc[word].text!r} has {int(owned)} pieces; the first one is predicted.")
    if model.objective == "causal":
        notes.append(_only_before(model))
    name = f"word {word}"
    with torch.no_grad():
        if prediction.target is None:
            return TopChoices(model.name, doc.text, (_place(name, prediction, top),), tuple(notes))
        prefix = prediction.target.ids[0, :-1].tolist()
        stops = _stops(model, prediction.text, _gap_of(model, prediction.text))
        spans = _completed(prediction, prefix, top, stops, max_pieces)
        place = _place(name, prediction, top, spans)
    return TopChoices(model.name, doc.text, (place,), tuple(notes))


def _before_marker(model: Model, doc: "Doc", words: list[int], top: int) -> TopChoices:
    """What a causal model predicts after the text before the marker, without the last space."""
    from spacy.tokens import Doc

    if len(words) > 1:
        raise refusal(
            model,
            f"reads from left to right and can fill one hidden word; the text has {len(words)}",
            "Leave one marker, or choose a masked model or an encoder-decoder.",
        )
    if not words[0]:
        raise refusal(
            model,
            "reads from left to right, and nothing comes before the hidden word",
            "Write some text before the marker, or choose a masked model or an encoder-decoder.",
        )
    before = Doc(
        doc.vocab,
        words=[token.text for token in doc[: words[0]]],
        spaces=[*(bool(token.whitespace_) for token in doc[: words[0] - 1]), False],
    )
    prediction = following(model, before)
    notes = (*cut_notes(prediction, before), _only_before(model))
    with torch.no_grad():
        place = _place("gap 1", prediction, top)
    return TopChoices(model.name, doc.text, (place,), notes)


def _only_before(model: Model) -> str:
    return f"{model.name} reads from left to right: the text after the hidden word was not read."


def _between_markers(model: Model, doc: "Doc", words: list[int], top: int) -> TopChoices:
    """The product of ELMo's two directions; for each marker, the words up to the other markers."""
    places = []
    bounds = [-1, *words, len(doc)]
    with torch.no_grad():
        for number, (before, word, after) in enumerate(
            zip(bounds, words, bounds[2:], strict=False), 1
        ):
            part = doc[before + 1 : after].as_doc()
            prediction = of_word(model, part, word - before - 1)
            prediction = Prediction(model, part, "hidden", prediction.text, prediction.position)
            places.append(_place(f"gap {number}", prediction, top))
    notes = [f"{model.name} reads the words up to the next hidden word."] if len(words) > 1 else []
    return TopChoices(model.name, doc.text, tuple(places), tuple(notes))


# --- spans that an encoder-decoder writes ---------------------------------------------------------


@dataclass(frozen=True)
class _Gap:
    """Where a span is hidden in the source of an encoder-decoder."""

    position: int
    end: int  # the position of the next gap, or the number of pieces


def _gap_of(model: Model, source: Pieces) -> _Gap:
    """The gap of a source with one hidden span."""
    marks = {model.symbols.mask, *model.symbols.sentinels}
    ids = source.ids[0].tolist()
    return _Gap(next(place for place, id_ in enumerate(ids) if id_ in marks), len(ids))


def _stops(model: Model, source: Pieces, gap: _Gap) -> frozenset[int]:
    """The pieces that end a span: a sentinel or the end; of BART, the visible piece after it."""
    end = model.symbols.end
    ends = [] if end is None else [end]
    if model.symbols.sentinels:
        return frozenset([*model.symbols.sentinels, *ends])
    return frozenset([*source.ids[0, gap.position + 1 : gap.position + 2].tolist(), *ends])


def _spans_of(
    model: Model, doc: "Doc", source: Pieces, positions: list[int], top: int, max_pieces: int
) -> list[Place]:
    """A place for each gap, from left to right; the most probable span is written before the next.

    The decoder is given what it would have written so far: T5 the sentinels and spans, BART the
    text before the gap.
    """
    ids = source.ids[0].tolist()
    places: list[Place] = []
    prefix: list[int] = [] if model.symbols.sentinels else ids[: positions[0]]
    for number, position in enumerate(positions):
        gap = _Gap(position, [*positions[1:], len(ids)][number])
        if model.symbols.sentinels:
            prefix = [*prefix, ids[position]]
        target = target_pieces(model, [*prefix, 0])
        prediction = Prediction(model, doc, "written", source, len(prefix), target)
        with torch.no_grad():
            spans = _completed(prediction, prefix, top, _stops(model, source, gap), max_pieces)
            places.append(_place(f"gap {number + 1}", prediction, top, spans))
        best = places[-1].span
        assert best is not None, "an encoder-decoder writes a span"
        visible = [] if model.symbols.sentinels else ids[position + 1 : gap.end]
        prefix = [*prefix, *best.pieces, *visible]
    return places


def _completed(
    prediction: Prediction, prefix: list[int], top: int, stops: frozenset[int], max_pieces: int
) -> tuple[Span, ...]:
    """The greedy span of each of the most probable first pieces, all in one batch.

    The probability of a span is that of its pieces and of the piece that ends it.
    """
    model = prediction.model
    first = prediction.logits()[0].softmax(-1)  # [choices]
    best = first.topk(min(top, len(first)))
    rows: list[list[int]] = [[piece] for piece in best.indices.tolist()]
    shares: list[float] = best.values.tolist()
    room = min(max_pieces, (model.max_pieces or len(prefix) + max_pieces + 2) - len(prefix) - 2)
    for length in range(1, max(room, 0) + 1):
        open_ = [number for number, row in enumerate(rows) if row[-1] not in stops]
        if not open_:
            break
        probabilities = _next_pieces(prediction, [[*prefix, *rows[n]] for n in open_])
        values, pieces = probabilities.max(-1)
        for number, value, piece in zip(open_, values.tolist(), pieces.tolist(), strict=True):
            if length == room and piece not in stops:
                continue  # the span stays unfinished
            rows[number].append(piece)
            shares[number] *= value
    spans = []
    for row, share in zip(rows, shares, strict=True):
        ended = row[-1] in stops
        content = tuple(row[:-1] if ended else row)
        spans.append(Span(model.decode(content).strip(), share, content, ended))
    return tuple(spans)


def _next_pieces(prediction: Prediction, so_far: list[list[int]]) -> Tensor:
    """The distributions after several targets of equal length.  # [targets, choices]"""
    model = prediction.model
    targets = target_pieces(model, *([*ids, 0] for ids in so_far))
    following_ = Prediction(
        model, prediction.doc, "written", prediction.text, len(so_far[0]), targets
    )
    return following_.logits(prediction.text.take([0] * len(so_far))).softmax(-1)
