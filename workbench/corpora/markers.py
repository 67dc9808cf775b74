"""Hidden words of a typed text: `[MASK]`, `<mask>`, or three or more underscores.

    doc, words = with_markers(model, doc)       # each marker is one word of the Doc
    pieces, positions = hidden(model, doc, words)
    doc = beside_markers(model, doc)            # another word is named, and predicted

A marker becomes the mask piece of the model, a sentinel of T5, or a word that XLNet and ELMo do
not read. For a masked model the pieces are those of its own tokenizer for a text with its mask.
Costs: a search in the text, and tokenising it.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from workbench.core.errors import WorkbenchError
from workbench.corpora.counterfactuals import MARKER
from workbench.corpora.encode import encode
from workbench.engine.batch import NO_WORD, Pieces
from workbench.engine.model import Model, refusal

if TYPE_CHECKING:
    from spacy.tokens import Doc

BLANK = "___"


def has_marker(text: str) -> bool:
    """Whether a text has a hidden word."""
    return MARKER.search(text) is not None


def with_markers(model: Model, doc: "Doc") -> tuple["Doc", list[int]]:
    """The Doc with each marker as one word, in the model's own writing; and these words.

    The Doc keeps words only, no annotation.
    """
    from spacy.tokens import Doc

    found = [match.span() for match in MARKER.finditer(doc.text)]
    own = _own(model, len(found))
    ranges = [(token.idx, token.idx + len(token)) for token in doc]
    outside = [part for each in ranges for part in _without(each, found)]
    parts = sorted([*outside, *found])
    starts = [start for start, _ in parts]
    markers = [starts.index(start) for start, _ in found]
    words = [doc.text[start:end] for start, end in parts]
    for marker, text in zip(markers, own, strict=True):
        words[marker] = text
    spaces = [end < start for (_, end), start in zip(parts, [*starts[1:], 0], strict=True)]
    return Doc(doc.vocab, words=words, spaces=spaces), markers


def beside_markers(model: Model, doc: "Doc") -> "Doc":
    """The Doc of which a word is named and predicted, with its markers hidden, too.

    Each marker is one word, the mask piece. A model without one refuses a marker that was typed.
    """
    if model.task_head is not None or not model.objective or not has_marker(doc.text):
        return doc
    if model.objective == "masked" and model.symbols.mask is not None:
        return with_markers(model, doc)[0]
    words = {(token.idx, token.idx + len(token)) for token in doc}
    if all(match.span() in words for match in MARKER.finditer(doc.text)):
        return doc  # made of words, in which it is one
    raise refusal(
        model,
        "cannot hide a word that is named and a marker at once",
        "Write a word for the marker, or a marker for the word and name none.",
    )


def hidden(model: Model, doc: "Doc", words: list[int]) -> tuple[Pieces, list[int]]:
    """The text with these words of the Doc hidden, each as one piece; and where they are.

    # [1, pieces], on the model's device
    """
    text = model.encode(encode([doc]))
    owned, ids = text.words[0].tolist(), text.ids[0].tolist()
    symbols, sentinels = model.symbols, model.symbols.sentinels
    marks, in_spans = iter(sentinels), model.objective == "seq2seq"
    kept = dict.fromkeys(range(len(ids)))
    new_ids, seen = text.ids.clone(), torch.zeros_like(text.mask)
    firsts = []
    for word in words:
        pieces = [place for place, owner in enumerate(owned) if owner == word]
        if not pieces:
            raise cut_off(model, doc[word].text)
        masks = [place for place in pieces if ids[place] == symbols.mask]
        first = masks[0] if masks else pieces[0]  # pieces before the mask are spaces
        for place in pieces:
            if place != first and (in_spans or not masks):
                del kept[place]
        if sentinels:
            new_ids[0, first] = next(marks)
        elif symbols.mask is not None:
            new_ids[0, first] = symbols.mask
        seen[0, first] = True
        firsts.append(first)
    columns = list(kept)
    unseen = None
    if model.objective == "masked" and symbols.mask is None:
        unseen = seen  # no other piece attends to it
    owners = text.words
    if in_spans:  # a span of any length is hidden
        owners = text.words.masked_fill(seen, NO_WORD)
    text = replace(text, ids=new_ids, words=owners, unseen=unseen, unaligned=(), cut=())
    chosen = text.columns(torch.tensor(columns, dtype=torch.int64))
    return chosen.to(model.device), [columns.index(first) for first in firsts]


def cut_off(model: Model, word: str) -> WorkbenchError:
    """The error for a hidden word that the model does not read."""
    return WorkbenchError(
        f"the hidden word {word!r} has no piece: it is beyond the {model.max_pieces} pieces that "
        "the model reads, or the tokenizer drops it.",
        code="text-too-long",
        where=model.name,
        remedy="Shorten the text before it.",
    )


def _own(model: Model, count: int) -> list[str]:
    """How the model's tokenizer writes hidden words."""
    symbols = model.symbols
    if symbols.sentinels:
        if count > len(symbols.sentinels) - 1:
            raise refusal(
                model,
                f"can fill {len(symbols.sentinels) - 1} hidden words; the text has {count}",
                "Write fewer markers.",
            )
        return list(model.piece_texts(symbols.sentinels[:count]))
    mask = BLANK if symbols.mask is None else model.piece_texts([symbols.mask])[0]
    return [mask] * count


def _without(part: tuple[int, int], found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What is left of a range of characters outside of the markers."""
    left = [part]
    for begin, end in found:
        left = [
            piece
            for start, stop in left
            for piece in ((start, min(stop, begin)), (max(start, end), stop))
            if piece[0] < piece[1]
        ]
    return left
