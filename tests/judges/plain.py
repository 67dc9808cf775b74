"""Texts in pieces and their losses from transformers alone, one text and one forward at a time.

Which word a piece belongs to is read off the tokenizer's character offsets. Shared by the judges of
what a language-model head predicts; nothing here is imported from the code they judge.
"""

from typing import Any, NamedTuple

import torch
from spacy.tokens import Doc
from torch import Tensor


class Text(NamedTuple):
    """One text in pieces, special ones included."""

    ids: Tensor  # [pieces]
    inside: list[int]  # places of the pieces of the text itself
    word: list[int]  # of each piece, -1 where it has none
    ends: list[int]  # of each piece, where it ends in the text


def text_of(tokenizer: Any, doc: Doc) -> Text:
    """A word owns the pieces that overlap it, and one of the space before it (GPT-2's "Ġ")."""
    found = tokenizer(doc.text, return_offsets_mapping=True, return_special_tokens_mask=True)
    word = []
    for first, last in found["offset_mapping"]:
        while first < last and doc.text[first].isspace():
            first += 1
        own = [t.i for t in doc if t.idx < last and first < t.idx + len(t)] if last > first else []
        own = own or [t.i for t in doc if first == last == t.idx > 0]
        word.append(own[0] if own else -1)
    inside = [place for place, special in enumerate(found["special_tokens_mask"]) if not special]
    ends = [last for _, last in found["offset_mapping"]]
    return Text(torch.tensor(found["input_ids"]), inside, word, ends)


def hidden_with(text: Text, place: int, within_word: bool) -> list[int]:
    """A piece alone, or with the pieces behind it that are of the same word."""
    behind = [
        other for other in text.inside
        if other > place and text.word[other] == text.word[place] >= 0
    ]  # fmt: skip
    return [place, *behind] if within_word else [place]


@torch.no_grad()
def causal_nats(net: Any, text: Text) -> list[tuple[float, bool]]:
    """Of each piece but a first one without context: -log p, and whether it is the likeliest."""
    scores = net(text.ids[None]).logits[0].double().log_softmax(-1)  # [pieces, vocabulary]
    return [
        (-float(scores[place - 1, text.ids[place]]), _best(scores[place - 1], text.ids[place]))
        for place in text.inside
        if place > 0
    ]


@torch.no_grad()
def pseudo_nats(net: Any, tokenizer: Any, text: Text, within: bool) -> list[tuple[float, bool]]:
    """Of each piece, hidden in turn: of an encoder by the mask, of T5 by a sentinel."""
    found = []
    for place in text.inside:
        hidden = hidden_with(text, place, within)
        if net.config.is_encoder_decoder:
            one, two = (tokenizer.convert_tokens_to_ids(f"<extra_id_{n}>") for n in (0, 1))
            read = torch.cat([text.ids[:place], torch.tensor([one]), text.ids[hidden[-1] + 1 :]])
            more = [two] if hidden[-1] < text.inside[-1] else []
            write = [one, *text.ids[hidden].tolist(), *more, tokenizer.eos_token_id]
            scores = net(read[None], labels=torch.tensor([write])).logits[0, 1]
        else:
            read = text.ids.clone()
            read[hidden] = tokenizer.mask_token_id
            scores = net(read[None]).logits[0, place]
        scores = scores.double().log_softmax(-1)
        found.append((-float(scores[text.ids[place]]), _best(scores, text.ids[place])))
    return found


def _best(scores: Tensor, gold: Tensor) -> bool:
    return int(scores.argmax()) == int(gold)
