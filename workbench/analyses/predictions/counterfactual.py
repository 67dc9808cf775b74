"""A counterfactual of a text: the word that matters most for a prediction, exchanged for another.

The word is one of those without which the probability of the top choice changes most. Instead of it
stands a word that the model itself predicts there, of as many pieces if there is one for any of
these words. Of these pairs it is the one that changes the prediction most. So the text stays
plausible, and differs where the prediction depends on it. Costs: a forward pass for each word, and
for each of a few candidates; of an encoder-decoder also for each piece of a candidate.
"""

from collections.abc import Sequence

import torch

from workbench.analyses.predictions.edits import editable, pieces_of, token_effects
from workbench.analyses.predictions.predict import fill
from workbench.analyses.predictions.prediction import Prediction, of_word
from workbench.core.errors import WorkbenchError

WORDS = 3  # of the largest effects
CANDIDATES = 6
TOP = 24  # choices among which candidates are searched
BEGINS = "▁"  # how pieces are shown that begin a word


def counterfactual(prediction: Prediction) -> tuple[int, str] | None:
    """A word of the text by its index, and the word to put there; None if there is none."""
    words = [word for word in editable(prediction) if prediction.doc[word].is_alpha]
    if prediction.kind == "next":  # the last word is also where the next one is predicted
        words = words[:-1] or words
    if not words:
        return None
    what = "delete" if prediction.model.objective == "bidirectional" else "hide"
    try:
        effects = token_effects(prediction, what, words=words)  # type: ignore[arg-type]
    except WorkbenchError:  # such as a text of one word
        return None
    ordered = sorted(effects.effects, key=lambda effect: -abs(effect.change))
    changes = {
        (effect.word, text): abs(_changed(prediction, effect.word, text, effects.choice))
        for effect in ordered[:WORDS]
        for text in _candidates(prediction, effect.word)
    }
    alike = [swap for swap in changes if _n_pieces(prediction, *swap) == _size(prediction, swap[0])]
    return max(alike or changes, key=lambda swap: changes[swap], default=None)


def _changed(prediction: Prediction, word: int, text: str, choice: int) -> float:
    effects = token_effects(prediction, "swap", words=[word], choice=choice, swap=text)
    return effects.effects[0].change


def _candidates(prediction: Prediction, word: int) -> list[str]:
    """Other words that the model predicts in the place of a word, the most probable first."""
    token = prediction.doc[word]
    try:
        pieces = _predicted(prediction, word)
    except WorkbenchError:  # no head, or nothing before the word
        return []
    is_marked = any(piece.startswith(BEGINS) for piece in pieces)  # how a word begins
    words = [
        piece.strip(f" {BEGINS}") for piece in pieces if piece.startswith(BEGINS) or not is_marked
    ]
    others = dict.fromkeys(
        text.capitalize() if token.text[0].isupper() else text
        for text in words
        if text.isalpha() and text.casefold() != token.text.casefold()
    )
    n_pieces = _size(prediction, word)
    alike = [text for text in others if _n_pieces(prediction, word, text) == n_pieces]
    return (alike or list(others))[:CANDIDATES]


def _size(prediction: Prediction, word: int) -> int:
    return int((prediction.text.words[0] == word).sum())


def _n_pieces(prediction: Prediction, word: int, text: str) -> int:
    try:
        return len(pieces_of(prediction, word, text))
    except WorkbenchError:  # the tokenizer has no piece for it
        return 0


def _predicted(prediction: Prediction, word: int) -> Sequence[str]:
    """What the model predicts in the place of a word: pieces, or spans of an encoder-decoder."""
    model, doc = prediction.model, prediction.doc
    if model.objective == "seq2seq":
        (place,) = fill(model, doc, 2 * CANDIDATES, hide=word, max_pieces=4).places
        begins = [model.choice_texts(span.pieces[:1]) for span in place.spans]
        return [
            f"{BEGINS}{span.text}"
            for span, pieces in zip(place.spans, begins, strict=True)
            if span.ended and pieces and pieces[0].startswith(BEGINS)
        ]
    with torch.no_grad():
        logits = of_word(model, doc, word).logits()[0]
    return model.choice_texts(logits.topk(min(TOP, len(logits))).indices.tolist())
