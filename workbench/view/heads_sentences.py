"""Where a head is right and where it is wrong: words of a relation, their partners, its looks.

Pure functions of the tables `looks` and `words`. Costs a pass over the rows of one head.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

TO_HEAD = "dependent-to-head"


@dataclass(frozen=True)
class Case:
    """A word, its gold partners, and the word it looked at (-1: no reliable maximum)."""

    sentence: int
    word: int
    gold: tuple[int, ...]
    looks_at: int
    weight: float

    @property
    def is_right(self) -> bool:
        return self.looks_at in self.gold


def cases(
    looks: pd.DataFrame, words: pd.DataFrame, relation: str, direction: str, is_causal: bool
) -> list[Case]:
    """Every word of the relation that the head could answer for, in the order of the text.

    `looks` are the rows of one head. Where it cannot look ahead, later partners are not asked for.
    """
    arcs = words[(words["relation"] == relation) & (words["governor"] >= 0)]
    ends = ("word", "governor") if direction == TO_HEAD else ("governor", "word")
    gold: dict[tuple[int, int], list[int]] = {}
    for sentence, word, partner in arcs[["sentence", *ends]].itertuples(index=False):
        if not is_causal or partner < word:
            gold.setdefault((int(sentence), int(word)), []).append(int(partner))
    columns = ["sentence", "word", "looks_at", "weight"]
    found = [
        Case(int(sentence), int(word), tuple(gold[sentence, word]), int(at), float(weight))
        for sentence, word, at, weight in looks[columns].itertuples(index=False)
        if (sentence, word) in gold
    ]
    return sorted(found, key=lambda case: (case.sentence, case.word))


@dataclass(frozen=True)
class Sentence:
    """A text, and where its words stand in it."""

    words: tuple[str, ...]
    text: str
    spans: tuple[tuple[int, int], ...]


def sentences_of(words: pd.DataFrame) -> Mapping[int, Sentence]:
    """The texts as the words tell them, each word where it stood."""
    found = {}
    for number, own in words.sort_values(["sentence", "word"]).groupby("sentence"):
        text, spans = "", []
        for said, start in zip(own["text"].astype(str), own["start"], strict=True):
            text += " " * (int(start) - len(text))
            spans.append((len(text), len(text) + len(said)))
            text += said
        found[int(str(number))] = Sentence(tuple(own["text"].astype(str)), text, tuple(spans))
    return found
