"""Texts of a task with what is true of them, in the parts that are learnt from and scored.

Texts of which nothing is said are left out, and counted; what cannot be learnt at all is an error
that says why. Costs the encoded texts.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.bio import spans_of
from workbench.engine.batch import Batch
from workbench.errors import WorkbenchError
from workbench.splits import DEV, TRAIN, Parts, SplitSizes, parts_of
from workbench.transfer.metrics import (
    Metric,
    answer_metrics,
    class_metrics,
    entity_metrics,
    score_metrics,
    tag_metrics,
)
from workbench.transfer.tasks import Gold, Task, gold_of, is_made, looked_at

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.corpora import Corpus


@dataclass(frozen=True)
class Examples:
    """Encoded texts, and what is true of each."""

    batch: Batch
    gold: tuple[Gold, ...]

    def __len__(self) -> int:
        return len(self.gold)


@dataclass(frozen=True)
class Split:
    """The parts of a task, and what to know of how they came about."""

    task: Task
    train: Examples
    dev: Examples
    test: Examples
    scored: str
    notes: tuple[str, ...]

    @property
    def chosen_by(self) -> str:
        """The name of what tells when to stop; where dev is scored, that was cut from train."""
        return DEV if self.scored != DEV else f"part of {TRAIN}"


@lru_cache(1)
def split_of(
    corpus: "Corpus",
    task: Task,
    split: str | None,
    seed: int,
    sizes: SplitSizes,
) -> Split:
    """The texts of each part, at most `sizes`; read once for consecutive calls that are the same.

    They are sampled by the seed, because files are often sorted by label.
    """
    parts = _parts(corpus, task, split, seed, sizes)
    learnt = _examples(parts.train, task, TRAIN, corpus.name)
    stops = _examples(parts.dev, task, DEV, corpus.name)
    scored = _examples(parts.test, task, parts.scored, corpus.name)
    _require_variety(task, learnt, corpus.name)
    return Split(task, learnt, stops, scored, parts.scored, parts.notes)


def scored_of(
    corpus: "Corpus", task: Task, split: str | None, seed: int, most: int | None
) -> tuple[Examples, tuple[str, ...]]:
    """What is scored alone, which with the same seed nobody learns from; and what to know of it."""
    parts = _parts(corpus, task, split, seed, SplitSizes(most, most, most))
    return _examples(parts.test, task, parts.scored, corpus.name), parts.notes


def _parts(
    corpus: "Corpus",
    task: Task,
    split: str | None,
    seed: int,
    sizes: SplitSizes,
) -> Parts:
    """Texts of which something is said, so many of train, dev and test; how many are left out is
    noted. A split that says nothing stays whole: who needs it tells so.
    """
    notes: list[str] = []

    def told_of(part: str, docs: "list[Doc]") -> "list[Doc]":
        kept = [doc for doc in docs if gold_of(doc, task) is not None]
        if (without := len(docs) - len(kept)) and kept:
            notes.append(
                f"{without} of {len(docs)} texts of {part} have no {task.label}: left out."
            )
        return kept or docs

    parts = parts_of(
        corpus,
        split,
        sizes,
        seed,
        drawn_from=None if is_made(corpus) else looked_at(corpus),
        sift=told_of,
    )
    return replace(parts, notes=(*notes, *parts.notes))


def _examples(docs: "Sequence[Doc]", task: Task, part: str, where: str) -> Examples:
    """Texts encoded, with what is true of each; they all say something, or none does."""
    from workbench.corpora.encode import encode

    gold = tuple(value for doc in docs if (value := gold_of(doc, task)) is not None)
    if not gold:
        raise WorkbenchError(
            f"no text of {part} has a {task.label}.",
            where=where,
            remedy="Labels of test sets are often kept back: name a part that has them, as with "
            "--split dev.",
        )
    return Examples(encode(docs), gold)


def _require_variety(task: Task, train: Examples, where: str) -> None:
    said: set[object] = set()
    for gold in train.gold:
        said.update(gold if isinstance(gold, list) else [gold])
    if len(said) > 1 or (task.kind == "answers" and said):
        return
    if task.kind == "answers":
        why = "no text has an answer"
    elif task.kind == "score":
        why = f"every text has the same {task.label}"
    else:
        one = [task.names[value] for value in said if isinstance(value, int) and value >= 0]
        why = f"all of it is {one[0]!r}" if one else "nothing is said of any word"
    raise WorkbenchError(
        f"there is nothing to tell apart in train: {why}.",
        where=where,
        remedy="Name another task, or learn from more texts.",
    )


def metrics_of(task: Task, examples: Examples, guesses: Sequence[Any]) -> Mapping[str, Metric]:
    """Every metric of the task; guesses are in the form of the gold, one a text."""
    gold: Any = examples.gold
    if task.kind == "class":
        two = np.array(gold, dtype=np.int64), np.array(guesses, dtype=np.int64)
        return class_metrics(*two, classes=len(task.names), positive=task.positive)
    if task.kind == "score":
        return score_metrics(np.array(gold, dtype=np.float64), np.array(guesses, dtype=np.float64))
    if task.kind == "tags":
        return tag_metrics(*zip(*map(_tagged, gold, guesses), strict=True))
    if task.kind == "entities":
        named = [[_spans(task, tags) for tags in side] for side in (gold, guesses)]
        return entity_metrics(*named)
    texts = range(len(gold))
    said = [[answer_text(examples.batch, n, span) for span in gold[n]] for n in texts]
    thought = [_answer(examples.batch, n, guesses[n]) for n in texts]
    return answer_metrics(said, thought)


def majority(task: Task, train: Examples, test: Examples) -> list[Any]:
    """What one thinks of every text who has looked at none: what train says most often."""
    lengths = np.diff(test.batch.word_offsets).tolist()
    if task.kind == "answers":
        return [[] for _ in lengths]
    if task.kind == "entities":
        return [[0] * length for length in lengths]
    gold: Any = train.gold
    if task.kind == "score":
        return [float(np.mean(gold))] * len(test)
    if task.kind == "class":
        return [Counter(gold).most_common(1)[0][0]] * len(test)
    most = Counter(tag for tags in gold for tag in tags if tag >= 0).most_common(1)[0][0]
    return [[most] * length for length in lengths]


def told(task: Task, examples: Examples, place: int, gold: Any) -> str:
    """What is true of a text, or thought to be, as one reads it."""
    if task.kind == "class":
        return task.names[gold] if gold >= 0 else "(none of them)"
    if task.kind == "score":
        return f"{gold:.3g}"
    if task.kind == "answers":
        if isinstance(gold, str):  # it was written
            return gold or "(no answer)"
        texts = (answer_text(examples.batch, place, span) for span in gold)
        return " | ".join(dict.fromkeys(texts)) or "(no answer)"
    if task.kind == "tags":
        return " ".join(task.names[tag] if tag >= 0 else "?" for tag in gold)
    ranges = examples.batch.words_of(place)
    text = examples.batch.text_of(place)
    found = sorted(_spans(task, gold))
    return ", ".join(f"{text[ranges[a][0] : ranges[b - 1][1]]} ({c})" for a, b, c in found) or "–"


def answer_text(batch: Batch, document: int, span: tuple[int, int]) -> str:
    """The text of some words, as it is written."""
    ranges = batch.words_of(document)
    return batch.text_of(document)[ranges[span[0]][0] : ranges[span[1] - 1][1]]


def _answer(batch: Batch, document: int, guess: Any) -> str:
    """The first span, or what was written."""
    if isinstance(guess, str):
        return guess
    return answer_text(batch, document, guess[0]) if guess else ""


def _tagged(gold: list[int], guess: list[int]) -> tuple[list[int], list[int]]:
    """Words that have a tag."""
    known = [(g, own) for g, own in zip(gold, guess, strict=True) if g >= 0]
    return [g for g, _ in known], [own for _, own in known]


def _spans(task: Task, tags: Sequence[int]) -> set[tuple[int, int, str]]:
    return spans_of([task.names[tag] for tag in tags])
