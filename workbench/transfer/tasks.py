"""What a model is adapted to: a label of whole texts, tags of words, or answers within a text.

A task is told from a corpus: classes and scores by the labels of its texts, entities and tags by
its layers, answers by their spans. The built-in stories stand for the primer's own tasks too. Costs
a look at the first texts of a corpus.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from workbench.errors import WorkbenchError, did_you_mean
from workbench.once import once
from workbench.transfer.metrics import bio

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.corpora import Corpus

Kind = Literal["class", "score", "tags", "entities", "answers"]
Gold = int | float | list[int] | list[tuple[int, int]]  # of one text, by the kind

PETERS = ("entities", "sentiment", "entailment", "relatedness", "paraphrase")
LOOKED_AT = 500  # texts that tell what a label is
MOST = 60  # classes; a label with more names rows
METRICS: Mapping[str, tuple[str, ...]] = {  # by kind; the first by itself
    "class": ("accuracy", "f1", "matthews"),
    "score": ("pearson", "spearman", "mse"),
    "tags": ("accuracy",),
    "entities": ("f1", "precision", "recall"),
    "answers": ("f1", "exact_match"),
}
MATTHEWS = ("acceptability", "cola")  # tasks that are judged by it, as published
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


def corpora_of(corpus: "Corpus", tasks: Sequence[str]) -> "list[tuple[Corpus, str]]":
    """Each task with the corpus that has it; of the built-in stories those that Peters et al. had.

    Without any named, all that the corpus has labels of.
    """
    from workbench.corpora.primer.tasks import TASKS

    ref = corpus.origin.ref if corpus.origin else ""
    path, _, options = ref.partition(":")
    if path != "primer":
        return [(corpus, name) for name in tasks or _all(corpus)]
    found = []
    for name in tasks or PETERS:
        own = f"primer/{name}:{options}" if options else f"primer/{name}"
        found.append((_built_in(own) if name in TASKS else corpus, name))
    return found


@lru_cache(64)
def _built_in(ref: str) -> "Corpus":
    """One object for each reference, so that what was found out about it is remembered."""
    from workbench.corpora import read

    return read(ref)


def task_of(corpus: "Corpus", name: str, metric: str = "") -> Task:
    """The task of this name: a label or a layer; "" is the only one there is."""
    own = corpus.layers()
    known = _labels(corpus)
    layers = [layer for layer in ("answers", "entities", "pos", "tags") if layer in own]
    label = name or (_all(corpus) or [""])[0]
    if label not in known and label not in layers and label == _primer(corpus):
        label = "answers"  # the questions of the primer
    if label not in known and label not in layers:
        raise WorkbenchError(
            f"there is no task {name!r}." if name else "there is nothing to be learnt here.",
            where=corpus.name,
            remedy=did_you_mean(label, [*known, *layers])
            if known or layers
            else "Read a corpus with labels, tags, entities or answers, or name the columns.",
        )
    if not name and len(known) > 1 and _primer(corpus) not in known:
        raise WorkbenchError(
            f"several labels can be learnt: {', '.join(known)}.",
            where=corpus.name,
            remedy="Name one with the setting task.",
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


def _all(corpus: "Corpus") -> list[str]:
    own = _primer(corpus)
    if own:
        return [own]
    if known := list(_labels(corpus)):
        return known
    there = corpus.layers()
    return [str(layer) for layer in ("answers", "entities", "pos", "tags") if layer in there][:1]


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
        yield from corpus.docs(split, LOOKED_AT)


@once
def _labels(corpus: "Corpus") -> dict[str, tuple[str, ...] | None]:
    """Labels of whole texts that can be learnt: their classes, or None where they are scores."""
    found: dict[str, set[object]] = {}
    texts = 0
    for doc in _first(corpus):
        texts += 1
        for name, value in doc._.labels.items():
            found.setdefault(name, set()).add(value)
    told: dict[str, tuple[str, ...] | None] = {}
    for name, values in found.items():
        if all(isinstance(value, int | float) for value in values):
            told[name] = None
        elif len(values) <= min(MOST, max(2, texts // 2)):
            told[name] = tuple(sorted(map(str, values)))
    return told


@once
def _tags(corpus: "Corpus") -> tuple[str, ...]:
    labels = sorted({tag[2:] for doc in _first(corpus) for tag in tags_of(doc) if tag != "O"})
    return ("O", *(f"{side}-{label}" for label in labels for side in "BI"))


def _word_tags(corpus: "Corpus", label: str) -> tuple[str, ...]:
    attribute = _ATTRIBUTE[label]
    return tuple(sorted({t for doc in _first(corpus) for w in doc if (t := getattr(w, attribute))}))
