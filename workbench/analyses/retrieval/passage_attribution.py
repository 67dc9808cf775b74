"""Where in its passage and its question an answer comes from: attribution, summed by part.

The log-probability of an answer after each kind of passage is attributed to what the model reads:
the words of the answer in the passage, the rest of the passage, and the question. Of a passage with
the answer exchanged, that of the other answer. Costs: those of `attribution.parts`, for each kind
of passage and some of the questions.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from workbench.analyses.attribution.parts import OTHER, RANDOM_MODELS, Reading, attributed
from workbench.analyses.retrieval.reads import FIRST, GOLD, RANDOM, SWAPPED
from workbench.core.arrays import Ints
from workbench.core.cluster_sample import ClusterSample
from workbench.corpora.passages import Passages, Question, with_answer
from workbench.engine.batch import NO_WORD, Pieces, Row, pad
from workbench.models.scoring.reading import Asked, Reader

if TYPE_CHECKING:
    from workbench.experiment.definition import Progress

PASSAGE, WORDS, QUESTION, ANSWER = "passage", "answer in the passage", "question", "answer so far"
PARTS = {PASSAGE: (PASSAGE, WORDS), WORDS: (WORDS,), QUESTION: (QUESTION,), "prompt": (OTHER,)}
PARTS |= {ANSWER: (ANSWER,)}


def attribution_tables(
    reader: Reader,
    corpus: Passages,
    questions: Sequence[Question],
    found: Ints,
    others: Sequence[str],
    number: int,
    sample: ClusterSample,
    seed: int,
    progress: "Progress",
) -> dict[str, pd.DataFrame]:
    """The table `attribution` of some questions; none if the model has no input vectors.

    `found` is the passage found first for each question, `others` its other answer ("": none).
    """
    random = np.random.default_rng([seed, number])
    rows = np.sort(random.choice(len(questions), min(number, len(questions)), replace=False))
    # by kind of passage, the questions and what is read
    kinds: dict[str, list[tuple[int, Reading]]] = {RANDOM: [], GOLD: [], FIRST: [], SWAPPED: []}
    for row in rows.tolist():
        question, texts = questions[row], corpus.texts
        gold, answer, other = texts[question.passage], question.answer, others[row]
        shift = int(random.integers(1, len(texts)))
        read = [
            (RANDOM, texts[(question.passage + shift) % len(texts)], answer), (GOLD, gold, answer),
            (FIRST, texts[found[row]], answer), (SWAPPED, with_answer(gold, answer, other), other),
        ]  # fmt: skip
        for kind, passage, right in read if other else read[:-1]:
            asked = Asked(question.before, question.after)
            if (reads := reading(reader, asked, passage, right)).wanted:
                kinds[kind].append((row, reads))
    table: list[dict[str, Any]] = []
    for kind, own in kinds.items():
        if own:
            models = RANDOM_MODELS if kind == GOLD else 0
            scores = attributed(reader.model, [r for _, r in own], seed, progress, models)
            if scores is None:
                return {}
            part = scores.rows(PARTS, sample.take([row for row, _ in own]))
            table += [{"passages": kind, **row} for row in part]
    return {"attribution": pd.DataFrame(table)} if table else {}


def reading(reader: Reader, asked: Asked, passage: str, answer: str) -> Reading:
    """What a model reads before an answer, with the part of each piece, and the answer."""
    passage = reader.fitting(asked, passage)
    prompt, pieces = reader.prompt(asked, passage), reader.answer(asked, answer)
    source, prefix = reader.texts(asked, passage)
    n_whole, n_read = len(reader.opened(prefix)), len(prompt.prefix)
    started = [OTHER] * (reader.start is not None)
    parts = [*started, *_parts(reader, (prefix,), asked, passage, answer)][:n_whole]
    parts = [*parts[n_whole - n_read :], *[ANSWER] * len(pieces)]
    text = _pieces(reader, np.concatenate([prompt.prefix, pieces]))
    wanted = range(n_read, len(parts))
    room = 0 if reader.model.added is None else reader.model.added.room  # of learnt vectors
    if reader.two_sided:
        read = _pieces(reader, prompt.source).prefixed(room, 0)
        of_source = _parts(reader, source, asked, passage, answer)
        return Reading(read, [*[OTHER] * room, *of_source], wanted, text, parts)
    wanted = range(max(n_read, 1) + room, len(parts) + room)  # no first piece is predicted
    return Reading(text.prefixed(room, 0), [*[OTHER] * room, *parts], wanted)


def _parts(
    reader: Reader, texts: Sequence[str], asked: Asked, passage: str, answer: str
) -> list[str]:
    """The part that each piece of a text, or of two texts, belongs to."""
    tokenize: Any = reader.model.tokenizer
    found = tokenize(*texts, return_offsets_mapping=True)
    ranges = [_ranges(text, asked, passage, answer) for text in texts]
    parts = []
    for (_, last), number in zip(found["offset_mapping"], found.sequence_ids(), strict=True):
        own = [] if number is None else ranges[number]
        parts.append(next((name for name, (a, b) in own if a < last <= b), OTHER))
    return parts


def _ranges(
    text: str, asked: Asked, passage: str, answer: str
) -> list[tuple[str, tuple[int, int]]]:
    """Characters of the parts; the answer's words come before the passage that they are in."""
    ranges, start = [], text.find(passage) if passage else -1
    if start >= 0:
        end = start + len(passage)
        words = re.compile(rf"(?<!\w){re.escape(answer)}(?!\w)").finditer(text, start, end)
        ranges = [*((WORDS, each.span()) for each in words), (PASSAGE, (start, end))]
    for part in filter(str.strip, (asked.before, asked.after or "")):
        ranges += [(QUESTION, each.span()) for each in re.finditer(re.escape(part), text)]
    return ranges


def _pieces(reader: Reader, ids: Ints) -> Pieces:
    """Pieces of one text.  # [1, pieces]"""
    special = np.isin(ids, reader.model.tokenizer.all_special_ids)
    return pad([Row(ids, np.full(len(ids), NO_WORD), special, None, 0)])
