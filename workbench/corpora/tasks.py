"""Tasks a model can be adapted to: a label of whole texts, tags of words, or answers in a text.

Tasks are read off a corpus: classes and scores from the labels of its texts, entities and tags from
its layers, answers from their spans. The built-in corpus `primer` also gives access to its task
corpora. Costs: one reading of a corpus' first texts, which is cached.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.core.bio import spans_of
from workbench.core.errors import WorkbenchError, did_you_mean, listed
from workbench.core.metrics import (
    Metric,
    answer_metrics,
    class_metrics,
    entity_metrics,
    score_metrics,
    tag_metrics,
)
from workbench.core.registry import once
from workbench.corpora.layers import LEFT_OUT
from workbench.corpora.splits import DEV, TRAIN, Parts, SplitSizes, parts_of
from workbench.corpora.task_gold import ATTRIBUTE, gold_of, tags_of
from workbench.engine.batch import Batch, text_of_span
from workbench.engine.task import METRICS, Gold, Labelling, Task

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.corpora import Corpus

PETERS = ("entities", "sentiment", "entailment", "relatedness", "paraphrase")
LAYERS = ("answers", "entities", "pos", "tags")  # layers that can be learnt
MAX_TEXTS_READ = 20_000  # first texts of a split; labels are read off them, samples drawn from them
GENERATED_TEXTS_READ = 500  # the same for a generated corpus, whose texts are in random order
MAX_CLASSES = 60  # a label with more values is not a class
MATTHEWS = ("acceptability", "cola")  # tasks with this metric by default, as published
GENERIC = (
    "label",
    "labels",
    "class",
    "score",
    "target",
    "gold",
)  # label names that do not name a task


def n_texts_read(corpus: "Corpus") -> int:
    """How many texts of a split are read to find its labels."""
    return GENERATED_TEXTS_READ if is_generated(corpus) else MAX_TEXTS_READ


def is_generated(corpus: "Corpus") -> bool:
    """Whether the corpus was generated, so that its first texts are a random sample."""
    return corpus.origin is not None and bool(corpus.origin.recipe)


def corpora_of(corpus: "Corpus", tasks: Sequence[str]) -> "list[tuple[Corpus, str]]":
    """Each task with its corpus.

    By default all tasks of the corpus; for primer the five tasks of Peters et al.
    """
    named = tasks or (PETERS if is_primer(corpus) else tasks_of(corpus) or [""])
    return [corpus_of(corpus, name) for name in dict.fromkeys(named)]


def corpus_of(corpus: "Corpus", task: str) -> "tuple[Corpus, str]":
    """The corpus of a task, with the task's name; for primer, the corpus generated for the task."""
    from workbench.corpora import read
    from workbench.corpora.primer.tasks import TASKS

    if not is_primer(corpus) or task not in TASKS:
        return corpus, task
    assert corpus.origin is not None, "a primer corpus has an origin"
    _, colon, options = corpus.origin.ref.partition(":")
    return read(f"primer/{task}{colon}{options}"), task


def is_primer(corpus: "Corpus") -> bool:
    """Whether it is the built-in corpus, from which those of its tasks are generated."""
    return corpus.origin is not None and corpus.origin.ref.partition(":")[0] == "primer"


def learnable_labels(corpus: "Corpus") -> list[str]:
    """The labels of whole texts that are scores, or classes with enough texts."""
    return list(_labels(corpus)[0])


def tasks_of(corpus: "Corpus") -> list[str]:
    """Names of the tasks of a corpus: its labels, or its layers if no text has a label."""
    if primer_task := _primer(corpus):
        return [primer_task]
    if labels := list(_labels(corpus)[0]):
        return labels
    own_layers = [layer for layer in LAYERS if layer in corpus.layers()]
    return list(dict.fromkeys([*PETERS, *own_layers])) if is_primer(corpus) else own_layers


def task_of(corpus: "Corpus", name: str, metric: str = "") -> Task:
    """The task of a name, a label or a layer; "" means the only label, or the first layer."""
    corpus_layers = corpus.layers()
    labels, n_values = _labels(corpus)
    layers = [layer for layer in LAYERS if layer in corpus_layers]
    tasks = tasks_of(corpus)
    if not name and len(tasks) > 1 and tasks[0] in labels:
        raise WorkbenchError(
            f"the corpus has several labels: {', '.join(tasks)}.",
            code="task-ambiguous",
            where=corpus.name,
            remedy=f"Choose one with the setting task, such as task={tasks[0]!r} (--task).",
        )
    label = name or (tasks or [""])[0]
    if label and label not in labels and label not in layers and label == _primer(corpus):
        label = "answers"  # the question-answering task of primer
    if label not in labels and label not in layers:
        if (label := label or next(iter(n_values), "")) in n_values:
            raise WorkbenchError(
                f"{label!r} has {n_values[label]} values: too many for classes, and none of a "
                "score.",
                code="task-not-found",
                where=corpus.name,
                remedy=f"Use at most {MAX_CLASSES} classes with two texts each, or a score: "
                "a number in every row, at least one with a fraction.",
            )
        raise WorkbenchError(
            f"the corpus has no task {name!r}." if name else _nothing(corpus),
            code="task-not-found",
            where=corpus.name,
            remedy=did_you_mean(label, list(dict.fromkeys([*tasks, *labels, *layers])))
            if tasks or labels or layers
            else "Choose a corpus with labels, tags, entities or answers, or name the columns.",
        )
    kind: Labelling
    names: tuple[str, ...] = ()
    if label in labels:
        kind, names = ("score", ()) if labels[label] is None else ("class", labels[label] or ())
        if len(names) == 1:
            raise WorkbenchError(
                f"every {label} is {names[0]!r}: there is nothing to learn.",
                code="task-constant",
                where=corpus.name,
                remedy="Choose a label with at least two classes.",
            )
    elif label == "answers":
        kind = "answers"
    elif label == "entities":
        kind, names = "entities", _tags(corpus)
    else:
        kind, names = "tags", _word_tags(corpus, label)
    task = Task(_name(corpus, label), kind, label, names, "segments" in corpus_layers, "")
    if metric and metric not in METRICS[kind]:
        raise WorkbenchError(
            f"the task {task.name} has no metric {metric!r}.",
            code="setting-invalid",
            where=corpus.name,
            remedy=f"Set metric to one of: {', '.join(METRICS[kind])}.",
        )
    usual = "matthews" if kind == "class" and _by_matthews(task, corpus) else METRICS[kind][0]
    main = metric or usual
    return Task(task.name, kind, label, names, task.pairs, main)


def _nothing(corpus: "Corpus") -> str:
    empty = next(corpus.docs(limit=1), None) is None
    return "the corpus has no texts." if empty else "the corpus has no labels to learn."


def _primer(corpus: "Corpus") -> str:
    """The primer task that a corpus belongs to; "" for any other corpus, and for one of pairs."""
    ref = corpus.origin.ref if corpus.origin else ""
    path = ref.partition(":")[0]
    name = path.removeprefix("primer/") if path.startswith("primer/") else ""
    return "" if name == "counterfactuals" else name  # which have no label to learn


def _name(corpus: "Corpus", label: str) -> str:
    generic = label.lower() in GENERIC or label == "answers"
    return (_primer(corpus) or corpus.name) if generic else label


def _by_matthews(task: Task, corpus: "Corpus") -> bool:
    names = {task.name.lower(), task.label.lower(), corpus.name.lower()}
    return bool(names & set(MATTHEWS)) and len(task.names) == 2


def _first(corpus: "Corpus") -> "Iterable[Doc]":
    for split in corpus.splits:
        yield from corpus.docs(split, n_texts_read(corpus))


@once
def _labels(corpus: "Corpus") -> tuple[dict[str, tuple[str, ...] | None], dict[str, int]]:
    """Labels that can be learnt, with their classes (None for scores); and labels with too many
    values, with their number of values."""
    values_of: dict[str, set[object]] = {}
    texts = 0
    for doc in corpus.first_docs(n_texts_read(corpus)):
        texts += 1
        for name, value in doc._.labels.items():
            values_of.setdefault(name, set()).add(value)
    labels: dict[str, tuple[str, ...] | None] = {}
    for name, values in values_of.items():
        if all(isinstance(value, int | float) for value in values):
            labels[name] = None
        elif len(values) <= min(MAX_CLASSES, max(2, texts // 2)):
            labels[name] = tuple(sorted(map(str, values)))
    return labels, {name: len(values) for name, values in values_of.items() if name not in labels}


@once
def _tags(corpus: "Corpus") -> tuple[str, ...]:
    labels = sorted({tag[2:] for doc in _first(corpus) for tag in tags_of(doc) if tag != "O"})
    return ("O", *(f"{side}-{label}" for label in labels for side in "BI"))


def _word_tags(corpus: "Corpus", label: str) -> tuple[str, ...]:
    attribute = ATTRIBUTE[label]
    return tuple(sorted({t for doc in _first(corpus) for w in doc if (t := getattr(w, attribute))}))


# --- examples of a task by split ------------------------------------------------------------------
#
# Texts without a gold label are left out and counted; a task that cannot be learnt raises an error
# with the reason. Costs: the encoded texts.


@dataclass(frozen=True)
class Examples:
    """Encoded texts with their gold labels."""

    batch: Batch
    gold: tuple[Gold, ...]

    def __len__(self) -> int:
        return len(self.gold)


@dataclass(frozen=True)
class Split:
    """Train, dev and test texts of a task, and notes on how they were chosen."""

    task: Task
    train: Examples
    dev: Examples
    test: Examples
    scored: str
    notes: tuple[str, ...]

    @property
    def chosen_by(self) -> str:
        """The name of the split used for early stopping; if dev is scored, a part of train."""
        return DEV if self.scored != DEV else f"part of {TRAIN}"


@lru_cache(1)
def split_of(
    corpus: "Corpus",
    task: Task,
    split: str | None,
    seed: int,
    sizes: SplitSizes,
) -> Split:
    """The texts of each split, at most `sizes`; equal consecutive calls share one reading.

    They are a random sample by the seed, because files are often sorted by label.
    """
    parts = labelled_parts(corpus, task, split, seed, sizes)
    train = _examples(parts.train, task, TRAIN, corpus.name)
    dev = _examples(parts.dev, task, DEV, corpus.name)
    test = _examples(parts.test, task, parts.scored, corpus.name)
    _require_variety(task, train, corpus.name)
    return Split(task, train, dev, test, parts.scored, (*_unseen(task, train), *parts.notes))


def scored_of(
    corpus: "Corpus", task: Task, split: str | None, seed: int, maximum: int | None
) -> tuple[Examples, tuple[str, ...]]:
    """The scored texts alone, never trained on with the same seed; and notes on them."""
    parts = labelled_parts(corpus, task, split, seed, SplitSizes(maximum, maximum, maximum))
    return _examples(parts.test, task, parts.scored, corpus.name), parts.notes


def labelled_parts(
    corpus: "Corpus",
    task: Task,
    split: str | None,
    seed: int,
    sizes: SplitSizes,
) -> Parts:
    """Texts with a gold label for train, dev and test, and notes on how many were left out.

    A split without any label stays whole; the caller raises an error if it needs the labels.
    """
    notes: list[str] = []

    def labelled(split_name: str, docs: "list[Doc]") -> "list[Doc]":
        notes.extend(doc.user_data[LEFT_OUT] for doc in docs if LEFT_OUT in doc.user_data)
        labelled_docs = [doc for doc in docs if gold_of(doc, task) is not None]
        if (n_without := len(docs) - len(labelled_docs)) and labelled_docs:
            verb = "has" if n_without == 1 else "have"
            notes.append(
                f"{n_without} of {len(docs)} texts of {split_name} {verb} no {task.label}: "
                "left out."
            )
        return labelled_docs or docs

    parts = parts_of(
        corpus,
        split,
        sizes,
        seed,
        drawn_from=None if is_generated(corpus) else n_texts_read(corpus),
        sift=labelled,
    )
    rows = [note for note in corpus.notes if "left out" in note]  # of a table, without a text
    repeated = repeated_texts_caveat(corpus, parts)
    return replace(parts, notes=tuple(dict.fromkeys([*rows, *notes, *parts.notes, *repeated])))


def repeated_texts_caveat(corpus: "Corpus", parts: Parts) -> tuple[str, ...]:
    """A caveat that counts test texts that are train texts too; a generator may repeat itself."""
    train = set() if is_generated(corpus) else {doc.text for doc in parts.train}
    n_repeated = sum(doc.text in train for doc in parts.test)
    if not n_repeated:
        return ()
    return (
        f"{n_repeated:,} of {len(parts.test):,} texts of {parts.scored} "
        f"{'is' if n_repeated == 1 else 'are'} in train, too, word for word: on new texts, scores "
        "may be lower. Remove duplicates from the corpus.",
    )


def _examples(docs: "Sequence[Doc]", task: Task, split_name: str, where: str) -> Examples:
    """The encoded texts with their gold labels; either all texts have one, or none."""
    from workbench.corpora.encode import encode

    gold = tuple(value for doc in docs if (value := gold_of(doc, task)) is not None)
    if not gold:
        raise WorkbenchError(
            f"no text of {split_name} has a {task.label}.",
            code="labels-missing",
            where=where,
            remedy="Test sets are often published without labels: name another split, as with "
            "--split dev.",
        )
    return Examples(encode(docs), gold)


def _require_variety(task: Task, train: Examples, where: str) -> None:
    labels: set[object] = set()
    for gold in train.gold:
        labels.update(gold if isinstance(gold, list) else [gold])
    if len(labels) > 1 or (task.kind == "answers" and labels):
        return
    if task.kind == "answers":
        why = "no text has an answer"
    elif task.kind == "score":
        why = f"every text has the same {task.label}"
    else:
        names = [task.names[value] for value in labels if isinstance(value, int) and value >= 0]
        why = f"every label is {names[0]!r}" if names else "no word has a tag"
    raise WorkbenchError(
        f"all labels in train are the same: {why}.",
        code="task-constant",
        where=where,
        remedy="Choose another task, or raise max_train.",
    )


def _unseen(task: Task, train: Examples) -> Iterator[str]:
    """A note on the classes that are not in train, if there are any."""
    seen = set(train.gold) if task.kind == "class" else {*range(len(task.names))}
    if names := [repr(name) for index, name in enumerate(task.names) if index not in seen]:
        yield f"No text of {TRAIN} has the {task.label} {listed(names)}, which cannot be learnt."


def metrics_of(task: Task, examples: Examples, guesses: Sequence[Any]) -> Mapping[str, Metric]:
    """Every metric of the task; guesses have the form of the gold labels, one per text."""
    gold: Any = examples.gold
    if task.kind == "class":
        classes = np.array(gold, dtype=np.int64), np.array(guesses, dtype=np.int64)
        return class_metrics(*classes, classes=len(task.names), positive=task.positive)
    if task.kind == "score":
        return score_metrics(np.array(gold, dtype=np.float64), np.array(guesses, dtype=np.float64))
    if task.kind == "tags":
        return tag_metrics(*zip(*map(_tagged, gold, guesses), strict=True))
    if task.kind == "entities":
        entities = [[_spans(task, tags) for tags in side] for side in (gold, guesses)]
        return entity_metrics(*entities)
    texts = range(len(gold))
    answers = [[text_of_span(examples.batch, n, span) for span in gold[n]] for n in texts]
    predicted = [_answer(examples.batch, n, guesses[n]) for n in texts]
    return answer_metrics(answers, predicted)


def majority(task: Task, train: Examples, test: Examples) -> list[Any]:
    """The same prediction for every text: the majority class or tag of train, or the mean score."""
    lengths = np.diff(test.batch.word_offsets).tolist()
    if task.kind == "answers":
        return [[] for _ in lengths]
    if task.kind == "entities":
        return [[task.outside] * length for length in lengths]
    gold: Any = train.gold
    if task.kind == "score":
        return [float(np.mean(gold))] * len(test)
    if task.kind == "class":
        return [Counter(gold).most_common(1)[0][0]] * len(test)
    most = Counter(tag for tags in gold for tag in tags if tag >= 0).most_common(1)[0][0]
    return [[most] * length for length in lengths]


def as_text(task: Task, examples: Examples, index: int, gold: Any) -> str:
    """The gold label or prediction of a text, as readable text."""
    if task.kind == "class":
        return task.names[gold] if gold >= 0 else "(none of them)"
    if task.kind == "score":
        return f"{gold:.3g}"
    if task.kind == "answers":
        if isinstance(gold, str):  # written by the model
            return gold or "(no answer)"
        texts = (text_of_span(examples.batch, index, span) for span in gold)
        return " | ".join(dict.fromkeys(texts)) or "(no answer)"
    if task.kind == "tags":
        return " ".join(task.names[tag] if tag >= 0 else "?" for tag in gold)
    ranges = examples.batch.words_of(index)
    text = examples.batch.text_of(index)
    spans = sorted(_spans(task, gold))
    return ", ".join(f"{text[ranges[a][0] : ranges[b - 1][1]]} ({c})" for a, b, c in spans) or "–"


def _answer(batch: Batch, document: int, guess: Any) -> str:
    """The text of the predicted span, or the text that the model wrote."""
    if isinstance(guess, str):
        return guess
    return text_of_span(batch, document, guess[0]) if guess else ""


def _tagged(gold: list[int], guess: list[int]) -> tuple[list[int], list[int]]:
    """Gold and predicted tags of the words with a gold tag."""
    known = [(g, predicted) for g, predicted in zip(gold, guess, strict=True) if g >= 0]
    return [g for g, _ in known], [predicted for _, predicted in known]


def _spans(task: Task, tags: Sequence[int]) -> set[tuple[int, int, str]]:
    return spans_of([task.names[tag] for tag in tags])
