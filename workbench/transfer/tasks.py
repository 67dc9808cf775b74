"""What a model is adapted to: a label of whole texts, tags of words, or answers within a text.

A task is told from a corpus: classes and scores by the labels of its texts, entities and tags by
its layers, answers by their spans. The built-in stories stand for the primer's own tasks too. Costs
one reading of a corpus' first texts, which is remembered.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from workbench.core.bio import bio, spans_of
from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.registry import once
from workbench.core.splits import DEV, TRAIN, Parts, SplitSizes, parts_of
from workbench.engine.batch import Batch
from workbench.transfer.metrics import (
    Metric,
    answer_metrics,
    class_metrics,
    entity_metrics,
    score_metrics,
    tag_metrics,
)

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.corpora import Corpus

Kind = Literal["class", "score", "tags", "entities", "answers"]
Gold = int | float | list[int] | list[tuple[int, int]]  # of one text, by the kind

PETERS = ("entities", "sentiment", "entailment", "relatedness", "paraphrase")
LAYERS = ("answers", "entities", "pos", "tags")  # that can be learnt
LOOKED_AT = 20_000  # texts of a split: they tell what a label is, and those used are among them
MADE = 500  # the same of a corpus that is made, whose texts come in no order
MOST = 60  # classes; a label with more names rows
METRICS: Mapping[str, tuple[str, ...]] = {  # by kind; the first by itself
    "class": ("accuracy", "f1", "matthews"),
    "score": ("pearson", "spearman", "mse"),
    "tags": ("accuracy",),
    "entities": ("f1", "precision", "recall"),
    "answers": ("f1", "exact_match"),
}
MATTHEWS = ("acceptability", "cola")  # tasks that are judged by it, as published
DENIALS = ("no", "false", "neg", "negative", "wrong", "incorrect")  # names of what is not so
PLAIN = ("label", "labels", "class", "score", "target", "gold")  # labels that name no task


@dataclass(frozen=True)
class Task:
    """What is asked, of texts or of pairs of them."""

    name: str
    kind: Kind
    label: str  # the label, or the layer
    names: tuple[str, ...]  # classes or tags; none of scores and answers
    pairs: bool
    metric: str  # the one that decides

    @property
    def outputs(self) -> int:
        """Numbers that a head gives, of a text or of a word."""
        return {"score": 1, "answers": 2}.get(self.kind, len(self.names))

    @property
    def sign(self) -> int:
        """Of what decides: -1 where less of it is better."""
        return -1 if self.metric == "mse" else 1

    @property
    def positive(self) -> int:
        """Of two classes the one that F1 is of: the second, unless that denies the first."""
        first, second = (name.lower() for name in (self.names[0], self.names[-1]))
        denies = second in DENIALS or (second != first and second.endswith(first))
        return 0 if denies else len(self.names) - 1


def looked_at(corpus: "Corpus") -> int:
    """How many texts of a split tell what its labels are."""
    return MADE if is_made(corpus) else LOOKED_AT


def is_made(corpus: "Corpus") -> bool:
    """Whether its texts were drawn when it was made, so that the first are as good as any."""
    return corpus.origin is not None and bool(corpus.origin.recipe)


def corpora_of(corpus: "Corpus", tasks: Sequence[str]) -> "list[tuple[Corpus, str]]":
    """Each task with the corpus that has it; of the built-in stories those that Peters et al. had.

    Without any named, all that the corpus has labels of.
    """
    named = tasks or (PETERS if _is_primer(corpus) else tasks_of(corpus) or [""])
    return [corpus_of(corpus, name) for name in dict.fromkeys(named)]


def corpus_of(corpus: "Corpus", task: str) -> "tuple[Corpus, str]":
    """The corpus that has a task, with its name: of the built-in stories, that made for it."""
    from workbench.corpora import read
    from workbench.corpora.primer.tasks import TASKS

    if not _is_primer(corpus) or task not in TASKS:
        return corpus, task
    assert corpus.origin is not None, "it was read"
    _, colon, options = corpus.origin.ref.partition(":")
    return read(f"primer/{task}{colon}{options}"), task


def _is_primer(corpus: "Corpus") -> bool:
    return corpus.origin is not None and corpus.origin.ref.partition(":")[0] == "primer"


def tasks_of(corpus: "Corpus") -> list[str]:
    """Names of what can be learnt; layers where no text has a label."""
    if own := _primer(corpus):
        return [own]
    if known := list(_labels(corpus)[0]):
        return known
    own_layers = [layer for layer in LAYERS if layer in corpus.layers()]
    return list(dict.fromkeys([*PETERS, *own_layers])) if _is_primer(corpus) else own_layers


def task_of(corpus: "Corpus", name: str, metric: str = "") -> Task:
    """The task of this name: a label or a layer; "" is the only label, or the first layer."""
    own = corpus.layers()
    known, many = _labels(corpus)
    layers = [layer for layer in LAYERS if layer in own]
    there = tasks_of(corpus)
    if not name and len(there) > 1 and there[0] in known:
        raise WorkbenchError(
            f"several labels can be learnt: {', '.join(there)}.",
            where=corpus.name,
            remedy="Name one with the setting task.",
        )
    label = name or (there or [""])[0]
    if label and label not in known and label not in layers and label == _primer(corpus):
        label = "answers"  # the questions of the primer
    if label not in known and label not in layers:
        if (label := label or next(iter(many), "")) in many:
            raise WorkbenchError(
                f"{label!r} has {many[label]} values: not all are numbers, and they are too many "
                "to be classes.",
                where=corpus.name,
                remedy=f"Classes are {MOST} at most, of two texts each or more. A score is a "
                "number in every row, at least one of them with a fraction.",
            )
        raise WorkbenchError(
            f"there is no task {name!r}." if name else _nothing(corpus),
            where=corpus.name,
            remedy=did_you_mean(label, list(dict.fromkeys([*there, *known, *layers])))
            if there or known or layers
            else "Read a corpus with labels, tags, entities or answers, or name the columns.",
        )
    kind: Kind
    names: tuple[str, ...] = ()
    if label in known:
        kind, names = ("score", ()) if known[label] is None else ("class", known[label] or ())
    elif label == "answers":
        kind = "answers"
    elif label == "entities":
        kind, names = "entities", _tags(corpus)
    else:
        kind, names = "tags", _word_tags(corpus, label)
    task = Task(_name(corpus, label), kind, label, names, "segments" in own, "")
    if metric and metric not in METRICS[kind]:
        raise WorkbenchError(
            f"{task.name} is not judged by {metric!r}.",
            where=corpus.name,
            remedy=f"Choose {', '.join(METRICS[kind])}.",
        )
    usual = "matthews" if kind == "class" and _by_matthews(task, corpus) else METRICS[kind][0]
    main = metric or usual
    return Task(task.name, kind, label, names, task.pairs, main)


def _nothing(corpus: "Corpus") -> str:
    empty = next(corpus.docs(limit=1), None) is None
    return "there is no text in it." if empty else "there is nothing to be learnt here."


def gold_of(doc: "Doc", task: Task) -> Gold | None:
    """What is true of a text; None where nothing is said of it."""
    if task.kind == "class":
        value = doc._.labels.get(task.label)
        return task.names.index(value) if value in task.names else None
    if task.kind == "score":
        value = doc._.labels.get(task.label)
        return float(value) if isinstance(value, int | float) else None
    if task.kind == "answers":
        return [(span.start, span.end) for span in doc.spans.get("answers", ())]
    index = {name: number for number, name in enumerate(task.names)}
    if task.kind == "entities":
        return [index.get(tag, 0) for tag in tags_of(doc)]
    return [index.get(getattr(word, _ATTRIBUTE[task.label]), -1) for word in doc]


def tags_of(doc: "Doc") -> list[str]:
    """Entities as a tag a word."""
    from workbench.corpora.layers import mentions

    return bio(len(doc), {(m.start, m.end, m.label) for m in mentions(doc, "entities")})


_ATTRIBUTE = {"pos": "pos_", "tags": "tag_"}


def _primer(corpus: "Corpus") -> str:
    """The task of the primer that a corpus is; "" of any other."""
    ref = corpus.origin.ref if corpus.origin else ""
    path = ref.partition(":")[0]
    return path.removeprefix("primer/") if path.startswith("primer/") else ""


def _name(corpus: "Corpus", label: str) -> str:
    plain = label.lower() in PLAIN or label == "answers"
    return (_primer(corpus) or corpus.name) if plain else label


def _by_matthews(task: Task, corpus: "Corpus") -> bool:
    said = {task.name.lower(), task.label.lower(), corpus.name.lower()}
    return bool(said & set(MATTHEWS)) and len(task.names) == 2


def _first(corpus: "Corpus") -> "Iterable[Doc]":
    for split in corpus.splits:
        yield from corpus.docs(split, looked_at(corpus))


@once
def _labels(corpus: "Corpus") -> tuple[dict[str, tuple[str, ...] | None], dict[str, int]]:
    """Labels of whole texts that can be learnt: their classes, or None where they are scores; and
    those with too many values, with how many."""
    found: dict[str, set[object]] = {}
    texts = 0
    for doc in corpus.first_docs(looked_at(corpus)):
        texts += 1
        for name, value in doc._.labels.items():
            found.setdefault(name, set()).add(value)
    told: dict[str, tuple[str, ...] | None] = {}
    for name, values in found.items():
        if all(isinstance(value, int | float) for value in values):
            told[name] = None
        elif len(values) <= min(MOST, max(2, texts // 2)):
            told[name] = tuple(sorted(map(str, values)))
    return told, {name: len(values) for name, values in found.items() if name not in told}


@once
def _tags(corpus: "Corpus") -> tuple[str, ...]:
    labels = sorted({tag[2:] for doc in _first(corpus) for tag in tags_of(doc) if tag != "O"})
    return ("O", *(f"{side}-{label}" for label in labels for side in "BI"))


def _word_tags(corpus: "Corpus", label: str) -> tuple[str, ...]:
    attribute = _ATTRIBUTE[label]
    return tuple(sorted({t for doc in _first(corpus) for w in doc if (t := getattr(w, attribute))}))


# --- examples of a task by split ------------------------------------------------------------------
#
# Texts of which nothing is said are left out, and counted; what cannot be learnt at all is an
# error that says why. Costs the encoded texts.


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
