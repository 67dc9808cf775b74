"""Attention maps for judges: transformers' own eager forward, and words merged in plain loops."""

import copy
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from spacy.tokens import Doc

from workbench import encode
from workbench.models.huggingface import HuggingFace

Given = dict[int, float]


@dataclass(frozen=True)
class Text:
    """A document as the model read it: the word of each piece (-1: none), and all maps."""

    doc: Doc
    owners: list[int]
    maps: list[Any]  # of each layer [heads, pieces, pieces], float64 lists


def plain_maps(model: HuggingFace, docs: Sequence[Doc]) -> Iterator[Text]:
    """One document at a time through the bare network."""
    net = copy.deepcopy(model.net).eval()
    net.set_attn_implementation("eager")
    batch = encode(docs)
    for number, doc in enumerate(docs):
        text = model.encode(batch, [number])
        with torch.no_grad():
            output = net.base_model(
                input_ids=text.ids, attention_mask=text.mask.long(), output_attentions=True
            )
        maps = [each[0].float().double().tolist() for each in output.attentions]  # underflow too
        yield Text(doc, text.words[0].tolist(), maps)


def by_words(
    pieces: Sequence[Sequence[float]], owners: Sequence[int], is_causal: bool = False
) -> tuple[dict[int, Given], dict[int, Given]]:
    """Of each word what it gives to every word, and to every special piece by its place.

    Summed over the pieces attended to, averaged over those that attend.
    """
    words: dict[int, Given] = {}
    special: dict[int, Given] = {}
    for word in sorted({owner for owner in owners if owner >= 0}):
        mine = [place for place, owner in enumerate(owners) if owner == word]
        given: defaultdict[int, float] = defaultdict(float)
        rest: defaultdict[int, float] = defaultdict(float)
        for place, owner in enumerate(owners):
            mean = sum(pieces[row][place] for row in mine) / len(mine)
            if is_causal and owner > word:
                continue
            (given if owner >= 0 else rest)[owner if owner >= 0 else place] += mean
        words[word], special[word] = dict(given), dict(rest)
    return words, special
