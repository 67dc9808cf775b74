"""Answers that a decoder or an encoder-decoder writes from passages, by RAG and with controls.

Each passage is read alone. Costs: for each question 2 k + 8 short texts to score, and some steps of
writing for k + 4 of them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from workbench.analyses.retrieval.index import Index, probabilities
from workbench.analyses.retrieval.reads import (
    FIRST,
    GOLD,
    OFF,
    RANDOM,
    SEQUENCE,
    SWAPPED,
    TOKEN,
    Reads,
    another,
    exchanged,
    in_chunks,
)
from workbench.core.arrays import Floats, Ints
from workbench.corpora.passages import Passages, Question, with_answer
from workbench.experiment.definition import Caveat, Progress
from workbench.models.scoring.reading import (
    LONGEST,
    Asked,
    Prompt,
    Reader,
    log_probabilities,
    rag_sequence,
    rag_token,
    written,
)

GAINS = (
    (GOLD, RANDOM), (GOLD, OFF), (FIRST, RANDOM), (SEQUENCE, OFF), (SEQUENCE, FIRST),
    (TOKEN, SEQUENCE),
)  # fmt: skip


def read(
    reader: Reader,
    corpus: Passages,
    questions: Sequence[Question],
    index: Index,
    k: int,
    seed: int,
    progress: Progress,
) -> Reads:
    """Every question with every kind of passage."""
    found, scores = index.top([question.text for question in questions], min(k, len(corpus.texts)))
    random = np.random.default_rng([seed, len(questions), len(corpus.texts)])
    others = exchanged(corpus, questions, random)
    reads = Reads("nats", found, probabilities(scores), others, GAINS, GOLD, reader=reader)
    for rows in in_chunks(len(questions), progress):
        _read_some(reader, corpus, questions, rows, reads, random)
    return reads


def _read_some(
    reader: Reader,
    corpus: Passages,
    questions: Sequence[Question],
    rows: Sequence[int],
    reads: Reads,
    random: np.random.Generator,
) -> None:
    """Score and write the answers of some questions."""
    model, texts, k = reader.model, corpus.texts, reads.found.shape[1]
    groups: list[list[Prompt]] = []  # by question: none, random, gold, exchanged, those found
    answers, others = [], []
    for row in rows:
        question = questions[row]
        asked = Asked(question.before, question.after)
        gold, other = texts[question.passage], reads.other[row]
        read = ["", texts[another(question, len(texts), random)], gold]
        read += [with_answer(gold, question.answer, other) if other else gold]
        read += [texts[passage] for passage in reads.found[row]]
        groups.append([reader.prompt(asked, passage) for passage in read])
        answers.append(reader.answer(asked, question.answer))
        others.append(reader.answer(asked, other) if other else answers[-1])
    flat = [prompt for group in groups for prompt in group]
    width = 4 + k
    logs = log_probabilities(model, flat, [answer for answer in answers for _ in range(width)])
    for_other = log_probabilities(
        model,
        [group[n] for group in groups for n in (0, 2, 3)],
        [other for other in others for _ in range(3)],
    )
    # each prompt alone but the exchanged one, then those found together
    singles = [0, 1, 2, *range(4, width)]
    alone = written(
        model,
        [[group[n]] for group in groups for n in singles],
        [np.zeros(1)] * (len(groups) * len(singles)),
        [most for most in _longest(reader, questions, rows, answers) for _ in singles],
    )
    log_priors = [np.log(np.maximum(reads.priors[row], 1e-300)) for row in rows]
    by_token = written(
        model, [group[4:] for group in groups], log_priors,
        _longest(reader, questions, rows, answers),
    )  # fmt: skip
    for n, row in enumerate(rows):
        own = logs[n * width : (n + 1) * width]
        sums = np.array([each.sum() for each in own])
        reads.by_passage.append(sums[4:])
        prior = log_priors[n]
        pieces = alone[n * len(singles) : (n + 1) * len(singles)]
        said = [_said(model, each) for each in pieces]
        reads.alone.append(said[3:])
        best = _best_of(reader, questions[row], groups[n][4:], prior, pieces[3:])
        sequence, token = rag_sequence(prior, own[4:]), rag_token(prior, own[4:])
        for name, value, text in (
            (OFF, sums[0], said[0]), (RANDOM, sums[1], said[1]), (GOLD, sums[2], said[2]),
            (FIRST, sums[4], said[3]), (SEQUENCE, sequence, _said(model, best)),
            (TOKEN, token, _said(model, by_token[n])),
        ):  # fmt: skip
            reads.add(name, -float(value), text)
        swap = [each.sum() for each in for_other[3 * n : 3 * n + 3]]
        for name, value, right in zip((OFF, GOLD, SWAPPED), swap, sums[[0, 2, 3]], strict=True):
            reads.add_odds(name, float(value - right) if reads.other[row] else np.nan)


def _longest(
    reader: Reader, questions: Sequence[Question], rows: Sequence[int], answers: Sequence[Ints]
) -> list[int]:
    """Pieces to write: as many as the right answer has, unless the model ends the answer itself."""
    ends = [reader.has_end(Asked(questions[row].before, questions[row].after)) for row in rows]
    return [LONGEST if end else len(own) for end, own in zip(ends, answers, strict=True)]


def _said(model: Any, pieces: Ints) -> str:
    return str(model.tokenizer.decode(pieces.tolist(), skip_special_tokens=True)).strip()


def _best_of(
    reader: Reader,
    question: Question,
    prompts: Sequence[Prompt],
    log_prior: Floats,
    candidates: Sequence[Ints],
) -> Ints:
    """RAG-sequence's answer: of those written from each passage, the most probable over all."""
    distinct = list({tuple(each.tolist()): each for each in candidates}.values())
    if len(distinct) == 1:
        return distinct[0]
    end = (
        [reader.model.symbols.end] if reader.has_end(Asked(question.before, question.after)) else []
    )
    ended = [np.array([*each, *end], dtype=np.int64) for each in distinct]
    logs = log_probabilities(
        reader.model,
        [prompt for _ in ended for prompt in prompts],
        [each for each in ended for _ in prompts],
    )
    size = len(prompts)
    totals = [rag_sequence(log_prior, logs[n * size : (n + 1) * size]) for n in range(len(ended))]
    return distinct[int(np.argmax(totals))]


def caveats(reader: Reader, questions: Sequence[Question]) -> Iterator[Caveat]:
    if reader.is_tuned:
        return
    if any(question.after is None for question in questions):
        yield Caveat(
            "The model was not fine-tuned on questions: its answers show what it makes of them "
            "without training.", ("answers", "items"),
        )  # fmt: skip
    if not all(reader.has_end(Asked(each.before, each.after)) for each in questions):
        yield Caveat(
            "The model does not end these answers itself: it writes as many pieces as the right "
            "answer has.", ("answers", "items"),
        )  # fmt: skip
