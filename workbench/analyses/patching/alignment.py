"""Which pieces of a text stand for which pieces of its counterfactual.

    units, notes = paired(clean, corrupt, "word")

Two texts of the same number of pieces are paired one to one. Otherwise their words are aligned
(difflib): equal words in the same order, and a run of other words with another run of as many; in
runs of unequal length, words of a similar spelling. Aligned words of the same number of pieces are
paired piece by piece. What remains has no counterpart and is listed in a note. Costs: time that
grows with the product of both lengths, microseconds for a sentence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from workbench.analyses.predictions.prediction import Prediction
from workbench.core.errors import WorkbenchError, listed
from workbench.engine.batch import NO_WORD
from workbench.engine.taps import StackName

if TYPE_CHECKING:
    from spacy.tokens import Doc

By = Literal["word", "piece", "all"]
START, END = "<S>", "</S>"  # of a text, as ELMo reads it
MOST = 400  # pairs of words whose spelling is compared
ALIKE = 0.6  # similarity of two words from which they are counterparts in runs of unequal length


@dataclass(frozen=True)
class PatchUnit:
    """Pieces of the corrupt text that are restored together, and their clean counterparts.

    Without `sources` the unit has no counterpart; without `positions` the corrupt text lacks it.
    Positions of ELMo count from the first word; its text's ends are at -1 and behind the last word.
    """

    stack: StackName
    positions: tuple[int, ...]  # in the corrupt text
    sources: tuple[int, ...]  # in the clean text, one for each position
    word: int = NO_WORD  # in the corrupt Doc; -1: none
    corrupt: str = ""  # as it is shown
    clean: str = ""
    is_whole: bool = False  # all pieces of the stack that have counterparts

    @property
    def is_paired(self) -> bool:
        """Whether it can be restored."""
        return bool(self.positions) and len(self.positions) == len(self.sources)


class _Piece(NamedTuple):
    position: int
    word: int
    text: str


def paired(
    clean: Prediction, corrupt: Prediction, by: By = "word", ends: bool = False
) -> tuple[list[PatchUnit], list[str]]:
    """The units of all stacks in reading order, and a note on those without a counterpart.

    Args:
        clean: The prediction of the clean text.
        corrupt: The prediction of the corrupt text.
        by: Restore words, single pieces, or all pieces of a stack together.
        ends: The model reads a start and an end of each text (ELMo).

    Raises:
        WorkbenchError: The predicted places are not counterparts, or no word has one.
    """
    if by not in get_args(By):
        raise WorkbenchError(
            f"there are no units {by!r:.60}.",
            code="setting-invalid",
            remedy=f"Choose one of {', '.join(get_args(By))}.",
        )
    texts = [_pieces(each, ends) for each in (clean, corrupt)]
    units, aligned = [], False
    for stack in texts[1]:
        both = texts[0][stack], texts[1][stack]
        place = _place(clean, stack, both[0]), _place(corrupt, stack, both[1])
        same_length = len(both[0]) == len(both[1])
        if same_length and _index(both[0], place[0]) == _index(both[1], place[1]):
            pairs = [([one], [other]) for one, other in zip(*both, strict=True)]
            units += list(_one_to_one(clean, corrupt, stack, pairs))
        else:
            aligned = True
            units += list(_by_words(clean, corrupt, stack, both))
            _require_place(units, stack, place)
    if not any(unit.is_paired and unit.word != NO_WORD for unit in units):
        raise _not_aligned("no word of the corrupt text has a counterpart in the clean text")
    notes = [_note(units)] if aligned else []
    if by == "piece":
        units = [part for unit in units for part in _split(unit, corrupt, texts)]
    return (_together(units) if by == "all" else units), notes


def word_of(clean: "Doc", corrupt: "Doc", word: int) -> int:
    """The word of the corrupt text that stands for a word of the clean text."""
    texts = [[token.text for token in doc] for doc in (clean, corrupt)]
    for one, other in matched(*texts):
        if one == word and other is not None:
            return other
    raise _not_aligned(f"the word {clean[word].text!r} has no counterpart in the corrupt text")


def matched(one: Sequence[str], other: Sequence[str]) -> Iterator[tuple[int | None, int | None]]:
    """Pairs of indices of two lists of words in their order; None: without a counterpart."""
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    for _, a, a_end, b, b_end in matcher.get_opcodes():
        yield from _run(one, other, range(a, a_end), range(b, b_end))


def _run(
    one: Sequence[str], other: Sequence[str], left: range, right: range
) -> Iterator[tuple[int | None, int | None]]:
    """Pairs of two runs of other words: one to one, else the most similar words first."""
    if len(left) == len(right):
        yield from zip(left, right, strict=True)
        return
    pairs = [(a, b) for a in left for b in right]
    alike = {
        (a, b): SequenceMatcher(None, one[a], other[b], autojunk=False).ratio()
        for a, b in (pairs if len(pairs) <= MOST else ())
    }
    best = max(alike, key=lambda pair: alike[pair], default=None)
    if best is None or alike[best] < ALIKE:
        yield from ((a, None) for a in left)
        yield from ((None, b) for b in right)
        return
    a, b = best
    yield from _run(one, other, range(left.start, a), range(right.start, b))
    yield best
    yield from _run(one, other, range(a + 1, left.stop), range(b + 1, right.stop))


# --- pieces and words -----------------------------------------------------------------------------


def _pieces(prediction: Prediction, ends: bool) -> dict[StackName, list[_Piece]]:
    """The pieces that each stack reads."""
    model = prediction.model
    inputs = prediction.inputs
    if not prediction.mixes_layers and prediction.target is None:  # a classifier may have a decoder
        inputs = dict(model.texts_of(prediction.text))
    found: dict[StackName, list[_Piece]] = {}
    for stack, read in inputs.items():
        ids = read.ids[0][read.mask[0]].tolist()
        texts = model.piece_texts(ids)
        words = read.words[0].tolist()
        positions = read.mask[0].nonzero()[:, 0].tolist()
        pieces = [
            _Piece(position, words[position], text)
            for position, text in zip(positions, texts, strict=True)
        ]
        if ends:
            pieces = [_Piece(-1, NO_WORD, START), *pieces, _Piece(len(pieces), NO_WORD, END)]
        found[stack] = pieces
    return found


def _place(prediction: Prediction, stack: StackName, pieces: Sequence[_Piece]) -> int | None:
    """The position of the predicted place, if it is in this stack."""
    kind, position = prediction.kind, prediction.position
    if kind == "tag":
        return next(piece.position for piece in pieces if piece.word == position)
    last = list(prediction.inputs)[-1]
    if kind not in ("hidden", "next", "previous", "written") or stack != last:
        return None
    return position if any(piece.position == position for piece in pieces) else None


def _index(pieces: Sequence[_Piece], place: int | None) -> int | None:
    return next((n for n, piece in enumerate(pieces) if piece.position == place), None)


def _groups(pieces: Sequence[_Piece]) -> list[list[_Piece]]:
    """The pieces of each word, and each piece without a word."""
    groups: list[list[_Piece]] = []
    for word, same in groupby(pieces, key=lambda piece: piece.word):
        own = list(same)
        groups += [[piece] for piece in own] if word == NO_WORD else [own]
    return groups


def _text(doc: "Doc", pieces: Sequence[_Piece], is_place: bool = False) -> str:
    """The words of some pieces, as they are shown; of the predicted place its pieces."""
    texts = [
        piece.text if is_place or piece.word == NO_WORD else doc[piece.word].text
        for piece in pieces
    ]
    words = [piece.word for piece in pieces]
    kept = [
        text
        for n, text in enumerate(texts)
        if is_place or not n or words[n] == NO_WORD or words[n] != words[n - 1]
    ]
    return " ".join(kept)


def _hides(prediction: Prediction, pieces: Sequence[_Piece]) -> bool:
    """Whether the model does not read these pieces as they are in the text."""
    if prediction.kind != "hidden":
        return False
    return any(piece.position == prediction.position for piece in pieces)


def _unit(
    clean: Prediction,
    corrupt: Prediction,
    stack: StackName,
    one: Sequence[_Piece],
    other: Sequence[_Piece],
) -> PatchUnit:
    """Pieces of both texts that belong together, or are alone."""
    paired = len(one) == len(other)
    return PatchUnit(
        stack,
        tuple(piece.position for piece in other),
        tuple(piece.position for piece in one) if paired else (),
        other[0].word if other else NO_WORD,
        _text(corrupt.doc, other, _hides(corrupt, other)),
        _text(clean.doc, one, _hides(clean, one)),
    )


def _one_to_one(
    clean: Prediction,
    corrupt: Prediction,
    stack: StackName,
    pairs: Sequence[tuple[Sequence[_Piece], Sequence[_Piece]]],
) -> Iterator[PatchUnit]:
    """A unit for each word of the corrupt text, and for each piece without a word."""
    at = 0
    for group in _groups([other for _, (other,) in pairs]):
        own = [one for (one,), _ in pairs[at : at + len(group)]]
        yield _unit(clean, corrupt, stack, own, group)
        at += len(group)


def _by_words(
    clean: Prediction,
    corrupt: Prediction,
    stack: StackName,
    both: tuple[Sequence[_Piece], Sequence[_Piece]],
) -> Iterator[PatchUnit]:
    """A unit for each pair of aligned words, and for each word without a counterpart."""
    groups = [_groups(pieces) for pieces in both]
    keys = [
        [_key(prediction, group) for group in own]
        for prediction, own in zip((clean, corrupt), groups, strict=True)
    ]
    for one, other in matched(*keys):
        yield _unit(
            clean,
            corrupt,
            stack,
            [] if one is None else groups[0][one],
            [] if other is None else groups[1][other],
        )


def _key(prediction: Prediction, pieces: Sequence[_Piece]) -> str:
    """What makes two groups equal: a word, or a piece without one; hidden words are equal."""
    if _hides(prediction, pieces):
        return "\0"
    word = pieces[0].word
    return f"\0{pieces[0].text}" if word == NO_WORD else prediction.doc[word].text


def _split(
    unit: PatchUnit, corrupt: Prediction, texts: Sequence[dict[StackName, list[_Piece]]]
) -> Iterator[PatchUnit]:
    """The pieces of a unit as units of their own; a unit without a counterpart stays whole."""
    if not unit.is_paired:
        yield unit
        return
    one, other = ({piece.position: piece for piece in each[unit.stack]} for each in texts)
    for position, source in zip(unit.positions, unit.sources, strict=True):
        piece = other[position]
        yield PatchUnit(
            unit.stack, (position,), (source,), piece.word, piece.text, one[source].text
        )


def _together(units: Sequence[PatchUnit]) -> list[PatchUnit]:
    """All pieces of each stack that have a counterpart, as one unit."""
    whole = []
    for stack in dict.fromkeys(unit.stack for unit in units):
        own = [unit for unit in units if unit.stack == stack and unit.is_paired]
        positions = tuple(position for unit in own for position in unit.positions)
        sources = tuple(source for unit in own for source in unit.sources)
        whole.append(PatchUnit(stack, positions, sources, is_whole=True))
    return whole


# --- what has no counterpart ----------------------------------------------------------------------


def _note(units: Sequence[PatchUnit]) -> str:
    """What has no counterpart."""
    alone = [unit for unit in units if not unit.is_paired]
    parts = {
        "only in the clean text": [unit.clean for unit in alone if not unit.positions],
        "only in the corrupt text": [unit.corrupt for unit in alone if not unit.clean],
        "of other numbers of pieces": [
            unit.corrupt if unit.corrupt == unit.clean else f"{unit.corrupt} (clean: {unit.clean})"
            for unit in alone
            if unit.positions and unit.clean
        ],
    }
    said = [f"{where}: {listed(texts)}" for where, texts in parts.items() if texts]
    never = f" Never restored, because they are {'; '.join(said)}." if said else ""
    return f"The texts have different numbers of pieces, so their words are aligned.{never}"


def _require_place(
    units: Sequence[PatchUnit], stack: StackName, place: tuple[int | None, int | None]
) -> None:
    """Raise if the predicted places are not counterparts."""
    if place == (None, None):
        return
    pairs = {
        pair
        for unit in units
        if unit.stack == stack and unit.is_paired
        for pair in zip(unit.sources, unit.positions, strict=True)
    }
    if place not in pairs:
        raise _not_aligned("the predicted places of the two texts cannot be aligned")


def _not_aligned(what: str) -> WorkbenchError:
    return WorkbenchError(
        f"{what}.",
        code="texts-not-aligned",
        remedy="Make the texts differ in single words, best of the same number of pieces, and keep "
        "the words around the predicted place.",
    )
