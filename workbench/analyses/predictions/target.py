"""What an attribution explains, what it gives scores to, and what "without a word" means.

A `Target` turns the logits of a prediction into one number; a `Unit` is a piece, a word or a
segment of what the model reads; `baseline_vectors` are the input vectors that stand for absent
units. Special pieces and the piece in question are fixed: they keep their own vectors, so every
method gives them 0. Costs: a look-up of the embeddings; `mean` reads the embedding table once.
"""

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from workbench.core.errors import WorkbenchError
from workbench.core.public import require_choice
from workbench.corpora.layers import mentions
from workbench.engine.batch import NO_WORD
from workbench.engine.taps import StackName

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.analyses.predictions.prediction import Prediction

Measure = Literal["logit", "log-probability", "probability"]
By = Literal["piece", "word", "segment"]
Baseline = Literal["mask", "mean", "zero", "pad"]
# Segments: parts of the text, or half-open ranges of its characters.
Segments = Sequence[str | tuple[int, int]]


@dataclass(frozen=True)
class Target:
    """The number that is explained: of one choice, or the difference of two choices.

    With `against`, it is the first minus the second: why `choice` rather than `against`.
    """

    choice: int
    against: int | None = None
    measure: Measure = "logit"

    def __post_init__(self) -> None:
        require_choice("measure", self.measure, Measure)

    def value(self, logits: Tensor) -> Tensor:
        """The number for each row.  # [batch, choices] -> [batch]"""
        if self.measure == "log-probability":
            logits = logits.log_softmax(-1)
        elif self.measure == "probability":
            logits = logits.softmax(-1)
        chosen = logits[:, self.choice]
        return chosen if self.against is None else chosen - logits[:, self.against]


def require_measure(prediction: "Prediction", measure: Measure) -> None:
    """Raise where a measure does not fit a prediction: a score has no probability."""
    require_choice("measure", measure, Measure)
    if prediction.kind == "score" and measure != "logit":
        raise WorkbenchError(
            f"{prediction.model.name} predicts a score, which has no {measure}.",
            code="setting-invalid",
            remedy='Use measure="logit", which is the score itself.',
        )


@dataclass(frozen=True)
class Unit:
    """Pieces of one stack's input that get one score together."""

    stack: StackName
    pieces: tuple[int, ...]  # indices of the stack's pieces, ascending
    text: str  # as it is shown
    word: int = NO_WORD  # its word in the Doc, or the first one; -1: none
    fixed: bool = False  # special, or the piece in question: never ablated, always scored 0


# --- units ----------------------------------------------------------------------------------------


def units_of(
    prediction: "Prediction", by: By = "word", segments: Segments | None = None
) -> list[Unit]:
    """The units of all stacks of a prediction, in reading order.

    By word, pieces without a word (such as what a decoder has written) are units of their own. By
    segment, the default segments are the two texts of a pair, else annotated sentences, else the
    paragraphs between blank lines, else sentences by their punctuation; words outside all segments
    form units of their own, and so does all that a decoder has written.
    """
    require_choice("by", by, By)
    if segments is not None and by != "segment":
        raise WorkbenchError(
            "segments are given, but the units are not segments.",
            code="setting-invalid",
            remedy='Add by="segment".',
        )
    ranges = _segments(prediction.doc, segments) if by == "segment" else []
    units: list[Unit] = []
    for index, stack in enumerate(prediction.inputs):
        pieces = prediction.inputs[stack]
        fixed = fixed_pieces(prediction, stack)
        words = pieces.words[0].tolist()
        texts = prediction.model.shown_pieces(pieces)
        groups: dict[tuple[object, ...], list[int]] = {}
        for piece in pieces.mask[0].nonzero()[:, 0].tolist():
            key = _group(piece, words[piece], fixed[piece], by, ranges, written=index > 0)
            groups.setdefault(key, []).append(piece)
        for key, members in groups.items():
            word = words[members[0]]
            text = _text(prediction.doc, key, [texts[m] for m in members], word, ranges)
            units.append(Unit(stack, tuple(members), text, word, bool(fixed[members[0]])))
    return units


def fixed_pieces(prediction: "Prediction", stack: StackName) -> list[bool]:
    """Whether each piece of a stack is fixed: special, or a mark of what is hidden."""
    pieces, symbols = prediction.inputs[stack], prediction.model.symbols
    marks = [*symbols.sentinels, *([] if symbols.mask is None else [symbols.mask])]
    fixed = pieces.special[0] | ~pieces.mask[0]  # [pieces]
    fixed = fixed | torch.isin(pieces.ids[0], torch.tensor(marks, device=pieces.ids.device))
    if pieces.unseen is not None:
        fixed = fixed | pieces.unseen[0]
    if prediction.kind == "hidden":
        fixed[prediction.position] = True
    return fixed.tolist()


def _group(
    piece: int,
    word: int,
    fixed: bool,
    by: By,
    ranges: Sequence[tuple[int, int]],
    written: bool,
) -> tuple[object, ...]:
    """A name of the unit that a piece belongs to: of one stack, the same for its pieces."""
    if by == "piece" or (word == NO_WORD and not (written and by == "segment")):
        return ("piece", piece)
    if by == "word" or fixed:
        return ("word", word, fixed) if word != NO_WORD else ("piece", piece)
    if written:
        return ("written",)
    for index, (first, last) in enumerate(ranges):
        if first <= word < last:
            return ("segment", index)
    return ("rest", sum(first <= word for first, _ in ranges))  # between two segments


def _text(
    doc: "Doc",
    key: tuple[object, ...],
    pieces: Sequence[str],
    word: int,
    ranges: Sequence[tuple[int, int]],
) -> str:
    kind = key[0]
    if kind == "segment":
        assert isinstance(key[1], int)
        first, last = ranges[key[1]]
        return doc[first:last].text.strip()
    if kind == "word" and not key[2]:
        return doc[word].text
    return " ".join(pieces)


def _segments(doc: "Doc", segments: Segments | None) -> list[tuple[int, int]]:
    """The half-open ranges of words of the segments, in reading order."""
    if segments is not None and not len(segments):
        raise WorkbenchError(
            "the list of segments is empty.",
            code="setting-invalid",
            remedy="Name parts of the text, or leave out segments for the default ones.",
        )
    if segments is not None:
        ranges = [_range(doc, *_characters(doc, part)) for part in segments]
    elif len(pair := mentions(doc, "segments")) > 1:
        ranges = [(part.start, part.end) for part in pair]
    else:
        parts = re.finditer(r"(?:(?!\n\s*\n).)+", doc.text, re.DOTALL)
        paragraphs = [_range(doc, m.start(), m.end()) for m in parts if m.group().strip()]
        sentences = _sentences(doc)
        use_paragraphs = len(paragraphs) > 1 and not doc.has_annotation("SENT_START")
        ranges = paragraphs if use_paragraphs else sentences
    ranges = sorted(ranges)
    for (_, end), (start, _) in pairwise(ranges):
        if start < end:
            raise WorkbenchError(
                f"two segments share the word {doc[start].text!r}.",
                code="setting-invalid",
                remedy="Choose segments that do not overlap.",
            )
    ends = [*(start for start, _ in ranges[1:]), len(doc)]
    return [  # with the line breaks after it
        (start, following if all(token.is_space for token in doc[end:following]) else end)
        for (start, end), following in zip(ranges, ends, strict=True)
    ]


def _sentences(doc: "Doc") -> list[tuple[int, int]]:
    """The annotated sentences; else those that spaCy's rules find by their punctuation."""
    if not doc.has_annotation("SENT_START"):
        from spacy.pipeline import Sentencizer

        doc = Sentencizer()(doc.copy())
    return [(sentence.start, sentence.end) for sentence in doc.sents]


def _characters(doc: "Doc", part: str | tuple[int, int]) -> tuple[int, int]:
    if not isinstance(part, str):
        try:
            first, last = map(operator.index, part)
        except (TypeError, ValueError):
            raise WorkbenchError(
                f"the segment {part!r:.60} is neither a text nor a range of characters.",
                code="setting-invalid",
                remedy="Write a part of the text, or (start, end).",
            ) from None
        return first, last
    start = doc.text.find(part)
    if start < 0 or not part.strip():
        raise WorkbenchError(
            f"the segment {part!r:.60} is not in the text.",
            code="setting-invalid",
            remedy="Copy it from the text exactly, or give a range of characters.",
        )
    return start, start + len(part)


def _range(doc: "Doc", start: int, end: int) -> tuple[int, int]:
    """The words that lie in a range of characters, in part at least."""
    inside = [t.i for t in doc if t.idx < end and t.idx + len(t) > start and not t.is_space]
    if not inside:
        raise WorkbenchError(
            f"the segment of characters {start} to {end} has no word.",
            code="setting-invalid",
            remedy=f"Choose a range within 0 to {len(doc.text)}.",
        )
    return inside[0], inside[-1] + 1


# --- baselines ------------------------------------------------------------------------------------


def default_baseline(prediction: "Prediction") -> Baseline:
    """The mask piece, else the mean of the embedding table, else zero (without a vocabulary)."""
    model = prediction.model
    if model.symbols.mask is not None:
        return "mask"
    return "mean" if model.vocabulary else "zero"


def baseline_vectors(
    prediction: "Prediction", kind: Baseline | None = None
) -> dict[StackName, Tensor]:
    """The input vectors without any unit; fixed pieces keep their own.

    # [1, pieces, width] per stack
    """
    own = prediction.input_vectors()
    absent = _absent(prediction, default_baseline(prediction) if kind is None else kind, own)
    vectors = {}
    for stack, x in own.items():
        fixed = torch.tensor(fixed_pieces(prediction, stack), device=x.device)[:, None]
        vectors[stack] = torch.where(fixed, x, absent[stack].to(x.dtype))
    return vectors


def _absent(
    prediction: "Prediction", kind: Baseline, own: Mapping[StackName, Tensor]
) -> Mapping[StackName, Tensor]:
    """The vectors of absent pieces, of a shape that broadcasts to the input vectors."""
    require_choice("baseline", kind, Baseline)
    model = prediction.model
    if kind == "zero":
        return {stack: torch.zeros_like(x) for stack, x in own.items()}
    if kind == "mean":
        return model.mean_input_vectors()
    piece = model.symbols.mask if kind == "mask" else model.symbols.pad
    if piece is None or not model.pieces_to_draw():  # a model of words draws none
        raise WorkbenchError(
            f"{model.name} ({model.family}) has no {kind} piece, so it is no baseline.",
            code="model-unsupported",
            remedy='Choose the baseline "mean" or "zero".',
        )
    target = prediction.target
    with torch.no_grad():
        return model.input_vectors(
            replace(prediction.text, ids=torch.full_like(prediction.text.ids, piece)),
            None if target is None else replace(target, ids=torch.full_like(target.ids, piece)),
        )
