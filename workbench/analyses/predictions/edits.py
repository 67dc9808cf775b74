"""What a prediction owes to each word: the word is hidden, deleted or swapped, and predicted again.

    effects = token_effects(prediction, "hide")
    effects.table          # one row for each word: probability before and after, new first choice

All edits of a text are predicted together. Variants in which the predicted place is at the same
piece form one batch, with padding where deleted or swapped words change the length. The words of
the text are edited, not those that a decoder has written. Costs: a forward pass over one row for
each word, `BATCH` rows at a time.
"""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from workbench.analyses.predictions.explained import choice_of
from workbench.analyses.predictions.prediction import Prediction
from workbench.analyses.predictions.results import percent, printable
from workbench.core.display import Displayed
from workbench.core.errors import WorkbenchError
from workbench.core.groups import grouped
from workbench.core.public import require_choice
from workbench.corpora.encode import encode
from workbench.engine.batch import NO_WORD, Pieces, joined
from workbench.engine.model import refusal
from workbench.engine.taps import StackName

if TYPE_CHECKING:
    import pandas as pd

Edit = Literal["hide", "delete", "swap"]
BATCH = 64  # variants predicted at a time


@dataclass(frozen=True)
class Effect:
    """What the edit of one word changes."""

    word: int
    text: str
    edited: str  # what stands there instead
    before: float  # probability of the choice; of a regression, the score
    after: float
    first: str  # the most probable choice after the edit
    first_probability: float

    @property
    def change(self) -> float:
        return self.after - self.before


@dataclass(frozen=True, eq=False)
class Effects(Displayed):
    """The effect of the same edit of each word on the probability of one choice."""

    prediction: Prediction
    what: Edit
    choice: int
    choice_text: str
    effects: tuple[Effect, ...]

    @property
    def table(self) -> "pd.DataFrame":
        """One row for each edited word.

        `word`, `text`, `edited` (what stands there instead), the probability `before` and `after`,
        their difference `change`, and the most probable choice after the edit, `first`, with
        `first_probability`.
        """
        import pandas as pd

        names = (
            "word",
            "text",
            "edited",
            "before",
            "after",
            "change",
            "first",
            "first_probability",
        )
        rows = [tuple(getattr(effect, name) for name in names) for effect in self.effects]
        return pd.DataFrame(rows, columns=names)

    def __repr__(self) -> str:
        """The words by the size of their effect."""
        is_score = self.prediction.kind == "score"
        what = "Score" if is_score else f"Probability of {printable(self.choice_text)}"
        shown = "{:.3g}".format if is_score else percent
        ordered = sorted(self.effects, key=lambda effect: -abs(effect.change))
        width = max((len(printable(effect.text)) for effect in ordered), default=0)
        lines = [
            f"  {printable(effect.text).ljust(width)}  {shown(effect.before)} → "
            f"{shown(effect.after)}" + ("" if is_score else f"  (first: {printable(effect.first)})")
            for effect in ordered
        ]
        return "\n".join([f"{what} if a word is edited ({self.what}):", *lines])


def token_effects(
    prediction: Prediction,
    what: Edit = "hide",
    *,
    words: Sequence[int] | None = None,
    choice: str | int | None = None,
    swap: str | None = None,
) -> Effects:
    """The change of a prediction if each word of its text is hidden, deleted or swapped in turn.

    A hidden word becomes mask pieces; in a model without a mask piece, no other piece attends to
    it, and a next piece is predicted from the last piece that is not hidden. `swap` is the word
    that stands there instead. `words` are those to edit (default: all that the model reads, without
    the predicted one). `choice` is the choice whose probability is followed, as text or index
    (default: the most probable one).
    """
    chosen = editable(prediction) if words is None else [_index(word) for word in words]
    _require_editable(prediction, what, chosen, swap)
    with torch.no_grad():
        before = _probabilities(prediction, prediction.logits())[0]
        index = int(before.argmax()) if choice is None else choice_of(prediction, choice)
        variants = [_edited(prediction, what, word, swap) for word in chosen]
        after = _probabilities(prediction, _all_predicted(prediction, variants))
    firsts = after.argmax(-1).tolist()
    names = prediction.names([index, *firsts])
    stands_there = {"hide": "(hidden)", "delete": "(deleted)", "swap": swap or ""}[what]
    effects = [
        Effect(
            word,
            prediction.doc[word].text,
            stands_there,
            float(before[index]),
            float(row[index]),
            name,
            float(row[first]),
        )
        for word, row, first, name in zip(chosen, after, firsts, names[1:], strict=True)
    ]
    return Effects(prediction, what, index, names[0], tuple(effects))


def _index(word: object) -> int:
    try:
        return operator.index(word)  # type: ignore[arg-type]
    except TypeError:
        raise WorkbenchError(
            f"{word!r:.40} is not the index of a word.",
            code="wrong-type",
            remedy="Pass indices of words of the text, such as words=[0, 3].",
        ) from None


def without_words(prediction: Prediction, words: Sequence[int]) -> Prediction:
    """The prediction if these words of the text are hidden together."""
    _require_editable(prediction, "hide", words, None)
    hidden = torch.isin(
        prediction.text.words[0], torch.tensor(list(words)).to(prediction.text.words)
    )
    hidden &= ~prediction.text.special[0]  # [pieces]
    if prediction.kind == "hidden":
        hidden[prediction.position] = False
    text = _hidden(prediction, hidden)
    return replace(prediction, text=text, position=read_from(prediction, text))


def read_from(prediction: Prediction, text: Pieces) -> int:
    """Where the prediction is made for a text of one row with hidden pieces.

    A next piece is predicted from the last piece that is not hidden: a hidden one would still be
    read there, by its own vector.
    """
    if prediction.kind != "next":
        return prediction.position
    seen = text.mask[0, : prediction.position + 1].nonzero()[:, 0]
    return int(seen[-1]) if len(seen) else prediction.position


def logits_without(
    prediction: Prediction, removed: Mapping[StackName, torch.Tensor]
) -> torch.Tensor:
    """The logits without each set of pieces: hidden or, where no piece can be hidden, deleted.

    No piece attends to those that a decoder has written.

    # [sets, pieces] per stack, bool -> [sets, choices]
    """
    stack, *others = prediction.inputs
    n_sets = len(removed[stack])
    texts = [_without(prediction, removed[stack][row]) for row in range(n_sets)]
    if others and prediction.target is not None:
        written = prediction.target
        texts = [
            replace(variant, target=replace(written, mask=written.mask & ~gone[None]))
            for variant, gone in zip(texts, removed[others[0]], strict=True)
        ]
    with torch.no_grad():
        return _all_predicted(prediction, texts)


def editable(prediction: Prediction) -> list[int]:
    """The words of the text that the model reads, without the predicted one."""
    text = prediction.text
    read = text.mask[0] & ~text.special[0] & (text.words[0] != NO_WORD)
    found = dict.fromkeys(text.words[0][read].tolist())
    if prediction.kind == "hidden":
        found.pop(int(text.words[0, prediction.position]), None)
    if prediction.kind == "tag":
        found.pop(prediction.position, None)
    return list(found)


def _require_editable(
    prediction: Prediction, what: Edit, words: Sequence[int], swap: str | None
) -> None:
    require_choice("what", what, Edit)
    model, known = prediction.model, editable(prediction)
    if (what == "swap") != (swap is not None) or (swap is not None and not swap.strip()):
        raise WorkbenchError(
            "a swap needs a word, and other edits take none.",
            code="setting-invalid",
            remedy='Pass what="swap" together with swap="WORD".',
        )
    if what == "hide" and model.objective == "bidirectional":
        raise refusal(
            model,
            "has no piece for a hidden word: it reads every word by its letters",
            "Delete or swap words instead.",
        )
    if not words or not set(words) <= set(known):
        missing = sorted(set(words) - set(known))
        raise WorkbenchError(
            f"the model reads no word {missing[0]} that can be edited."
            if missing
            else "the text has no word that can be edited.",
            code="word-unknown",
            where=model.name,
            remedy=f"Choose from {known}." if known else "Write more words.",
        )
    alone = len(known) == 1 and not bool(prediction.text.special.any())
    if what != "swap" and alone and prediction.kind in ("next", "previous"):
        raise WorkbenchError(
            "without its only word the text is empty.",
            code="text-empty",
            where=model.name,
            remedy="Write more words.",
        )


# --- variants of a text ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Variant:
    """A text of one row with an edited word, and where the predicted place is in it."""

    text: Pieces
    position: int
    target: Pieces | None = None  # if it differs from that of the prediction


def _edited(prediction: Prediction, what: Edit, word: int, swap: str | None) -> _Variant:
    text = prediction.text
    owned = (text.words[0] == word) & ~text.special[0]  # [pieces]
    if prediction.kind == "hidden":
        owned[prediction.position] = False
    if what == "hide":
        return _without_reading(prediction, owned)
    ids = [] if swap is None or what == "delete" else pieces_of(prediction, word, swap)
    return _replaced(prediction, owned, ids)


def _without(prediction: Prediction, owned: torch.Tensor) -> _Variant:
    """The text with these pieces hidden, or deleted where none can be hidden.  # [pieces]"""
    if prediction.model.objective != "bidirectional":
        return _without_reading(prediction, owned)
    if not bool(owned.any()):
        return _Variant(prediction.text, prediction.position)
    return _replaced(prediction, owned, [])


def _without_reading(prediction: Prediction, owned: torch.Tensor) -> _Variant:
    """The text with these pieces hidden.  # [pieces]"""
    text = _hidden(prediction, owned)
    return _Variant(text, read_from(prediction, text))


def _replaced(prediction: Prediction, owned: torch.Tensor, ids: Sequence[int]) -> _Variant:
    """The text with other pieces in the place of the first of these.  # owned: [pieces]"""
    text = prediction.text
    places = owned.nonzero()[:, 0].tolist()
    first = places[0]
    kept_before = list(range(first))
    kept_after = [place for place in range(first, text.ids.shape[1]) if place not in set(places)]
    template = torch.tensor([*kept_before, *[first] * len(ids), *kept_after])
    varied = text.columns(template)
    varied.ids[0, first : first + len(ids)] = torch.tensor(ids, dtype=torch.int64)
    words = varied.words
    if prediction.model.objective == "bidirectional":  # one piece for each word
        words = torch.arange(len(template), device=words.device)[None]
        varied = replace(varied, word_counts=torch.tensor([len(template)]))
    new = _moved(prediction, prediction.position, places, len(ids))
    return _Variant(replace(varied, words=words), new)


def _moved(prediction: Prediction, position: int, places: Sequence[int], inserted: int) -> int:
    """Where the predicted place is after pieces were replaced; that of a tag is a word."""
    if prediction.target is not None or prediction.kind in (
        "tag",
        "class",
        "score",
        "start",
        "end",
    ):
        return position
    if position >= places[0]:
        removed = sum(place <= position for place in places)
        return position - removed + inserted
    return position


def _hidden(prediction: Prediction, owned: torch.Tensor) -> Pieces:
    """The text with these pieces hidden.  # owned: [pieces]"""
    model, text = prediction.model, prediction.text
    if model.symbols.mask is not None:
        return replace(text, ids=text.ids.masked_fill(owned, model.symbols.mask))
    if text.unseen is not None or model.objective == "masked":
        unseen = torch.zeros_like(text.mask) if text.unseen is None else text.unseen
        return replace(text, unseen=unseen | owned)
    return replace(text, mask=text.mask & ~owned)


def pieces_of(prediction: Prediction, word: int, swap: str) -> list[int]:
    """The pieces of another word in this place, as the tokenizer writes it there.

    If it would grow together with the word before it, it is written after a space.
    """
    from spacy.tokens import Doc

    doc, model = prediction.doc, prediction.model
    words = [swap if token.i == word else token.text for token in doc]
    spaces = [bool(token.whitespace_) for token in doc]
    for _ in range(2):
        text = model.encode(encode([Doc(doc.vocab, words=words, spaces=spaces)]))
        ids: list[int] = text.ids[0][(text.words[0] == word) & ~text.special[0]].tolist()
        if ids:
            return ids
        spaces[max(0, word - 1)] = True
    raise WorkbenchError(
        f"the tokenizer has no piece for {swap!r}.",
        code="word-unknown",
        where=model.name,
        remedy="Swap in another word.",
    )


# --- predicting the variants ----------------------------------------------------------------------


def _all_predicted(prediction: Prediction, variants: Sequence[_Variant]) -> torch.Tensor:
    """The logits of every variant.  # [variants, choices], on the host"""
    by_position = grouped((variant.position, number) for number, variant in enumerate(variants))
    found: dict[int, torch.Tensor] = {}
    for position, numbers in by_position.items():
        moved = replace(prediction, position=position)
        for start in range(0, len(numbers), BATCH):
            some = numbers[start : start + BATCH]
            text = _stacked([variants[n].text for n in some], prediction)
            targets = [variants[n].target or prediction.target for n in some]
            target = None if prediction.target is None else joined([t for t in targets if t])
            found |= zip(some, moved.logits(text, target).cpu(), strict=True)
    return torch.stack([found[number] for number in range(len(variants))])


def _probabilities(prediction: Prediction, logits: torch.Tensor) -> NDArray[np.float32]:
    """The distribution of each row; a score is a number, which has no probability."""
    shares = logits if prediction.kind == "score" else logits.softmax(-1)
    return shares.cpu().numpy()


def _stacked(texts: Sequence[Pieces], prediction: Prediction) -> Pieces:
    """Texts of one row as one batch, padded on the right."""
    if len({text.ids.shape[1] for text in texts}) == 1:
        return joined(texts)
    width = max(text.ids.shape[1] for text in texts)
    pad_id = prediction.model.symbols.pad
    return joined([_widened(text, width, pad_id) for text in texts])


def _widened(text: Pieces, width: int, pad_id: int) -> Pieces:
    missing = width - text.ids.shape[1]

    def wide(tensor: torch.Tensor, value: int) -> torch.Tensor:
        return torch.nn.functional.pad(tensor, (0, missing), value=value)

    return replace(
        text,
        ids=wide(text.ids, pad_id),
        mask=wide(text.mask, 0),
        words=wide(text.words, NO_WORD),
        special=wide(text.special, 0),
        segments=None if text.segments is None else wide(text.segments, 0),
        unseen=None if text.unseen is None else wide(text.unseen, 0),
    )
