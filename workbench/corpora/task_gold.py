"""The gold labels of a task in a corpus: of each text, and of which label or layer.

A model knows the label that it was fine-tuned for (`Task.label`). A checkpoint of other origin
knows its classes only; the label of a corpus is then the one whose values they are. Costs: a look
at the labels of each Doc.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from workbench.core.bio import bio
from workbench.core.errors import WorkbenchError, listed, require_one_of
from workbench.core.objectives import PREDICTED
from workbench.corpora.layers import mentions
from workbench.engine.task import Gold, Task, from_data

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.corpora import Corpus

FIRST = 200  # texts of each split that are read before a run, to see their labels
FIFTHS = 5  # written scores are rounded to 1 / 5
ATTRIBUTE = {"pos": "pos_", "tags": "tag_"}  # of a token, by the layer of tags


def gold_of(doc: "Doc", task: Task) -> Gold | None:
    """The gold label of a text; None if it has none."""
    if task.kind == "class":
        value = doc._.labels.get(task.label)
        return task.names.index(value) if value in task.names else None
    if task.kind == "score":
        value = doc._.labels.get(task.label)
        return float(value) if isinstance(value, int | float) else None
    if task.kind == "text":
        return _text_of(doc, task)
    if task.kind == "answers":
        return [(span.start, span.end) for span in doc.spans.get("answers", ())]
    index = {name: number for number, name in enumerate(task.names)}
    if task.kind == "entities":
        return [index.get(tag, task.outside) for tag in tags_of(doc)]
    return [index.get(getattr(word, ATTRIBUTE[task.label]), -1) for word in doc]


def _text_of(doc: "Doc", task: Task) -> str | None:
    """The label of a text as it is written; of several answers the first."""
    if task.label == "answers":
        answers = doc.spans.get("answers", ())
        return str(answers[0].text) if len(answers) else ""
    value = doc._.labels.get(task.label)
    if task.names:
        return value if value in task.names else None
    return score_text(value) if isinstance(value, int | float) else None


def score_text(value: float) -> str:
    """A score as a model writes it: rounded to a fifth."""
    return f"{round(value * FIFTHS) / FIFTHS:.1f}"


def tags_of(doc: "Doc") -> list[str]:
    """The entities of a Doc as one BIO tag per word."""
    return bio(len(doc), {(m.start, m.end, m.label) for m in mentions(doc, "entities")})


def task_on(task: Task, docs: "Sequence[Doc]", label: str, model: str, where: str) -> Task:
    """The task with the label, or the layer, that has its gold in these texts.

    `label` names one; by default it is the one that the model was fine-tuned for, else the one
    whose values the model predicts.
    """
    candidates = {} if task.kind in ("tags", "entities", "answers") else _labels(docs)
    candidates |= {} if task.kind in ("class", "score") else _layers(docs)
    if label:
        require_one_of(
            label,
            candidates,
            f"the corpus has no label {label!r}.",
            code="label-missing",
            where=where,
        )
        if task.kind == "class" and (other := _others(candidates[label], task)):
            raise WorkbenchError(
                f"{model} does not predict the class {listed(other)}.",
                code="label-missing",
                where=label,
                remedy=f"Its classes are {listed(task.names)}.",
            )
        return replace(task, label=label)
    fitting = [name for name, values in candidates.items() if _FITS[task.kind](name, values, task)]
    if task.label in fitting:
        return task
    if fitting and task.kind != "score":  # any numbers would fit a score
        return replace(task, label=fitting[0])
    if len(fitting) == 1 and not task.label:
        return replace(task, label=fitting[0])
    what = {
        "class": f"no label of the corpus has the classes {listed(task.names)}",
        "score": f"the corpus has no score {task.label}".rstrip()
        + ("" if task.label or not fitting else f", but several: {listed(fitting)}"),
        "tags": "the corpus has no tags of words that it predicts",
        "entities": "the corpus has no entities",
        "answers": "the corpus has no answers",
        "text": f"the corpus has no such label {task.label}",
    }[task.kind]
    raise WorkbenchError(
        f"{model} predicts {task}; {what}.",
        code="label-missing",
        where=where,
        remedy=f"The corpus has {_described(candidates)}. Choose the corpus that the model was "
        "trained on, such as primer/sentiment, or name a label with --label.",
    )


def no_task_head(model: str, label: str) -> WorkbenchError:
    """The error for a label that a model without a task head is to be measured on."""
    return WorkbenchError(
        f"{model} has no task head, so it cannot be evaluated on a label.",
        code="model-unsupported",
        where=label,
        remedy="Leave the label out to use the language-model loss, or train a classifier first "
        "(workbench run finetune, or head-pruning with task=).",
    )


def require_gold(facts: Mapping[str, Any], corpus: "Corpus", settings: Any) -> None:
    """Raise an error if a corpus has no gold of the task that a model was made for.

    `label` of the settings names it; with `task`, the model is first fine-tuned for that.
    """
    predicts = facts["predicts"]
    if predicts is None or getattr(settings, "task", False):
        return
    if predicts["kind"] in PREDICTED:
        if settings.label:
            raise no_task_head(facts["name"], settings.label)
        return
    docs = [doc for split in corpus.splits for doc in corpus.docs(split, FIRST)]
    task_on(from_data(predicts), docs, settings.label, facts["name"], corpus.name)


def _labels(docs: "Iterable[Doc]") -> dict[str, set[Any]]:
    """The labels of texts, with their values."""
    found: dict[str, set[Any]] = {}
    for doc in docs:
        for name, value in doc._.labels.items():
            found.setdefault(name, set()).add(value)
    return found


def _layers(docs: "Iterable[Doc]") -> dict[str, set[Any]]:
    """The layers that label words, with their values."""
    found: dict[str, set[Any]] = {}
    for doc in docs:
        for name, attribute in ATTRIBUTE.items():
            if values := {tag for word in doc if (tag := getattr(word, attribute))}:
                found.setdefault(name, set()).update(values)
        if values := set(tags_of(doc)) - {"O"}:
            found.setdefault("entities", set()).update(values)
        if "answers" in doc.spans:
            found.setdefault("answers", set())
    return found


def _others(values: set[Any], task: Task) -> list[str]:
    return sorted({str(value) for value in values if value is not None} - set(task.names))


_FITS: dict[str, Callable[[str, set[Any], Task], bool]] = {
    "class": lambda name, values, task: values <= set(task.names),
    "score": lambda name, values, task: (
        all(isinstance(value, int | float) for value in values) and task.label in ("", name)
    ),
    "tags": lambda name, values, task: name in ATTRIBUTE and bool(values & set(task.names)),
    "entities": lambda name, values, task: name == "entities",
    "answers": lambda name, values, task: name == "answers",
    "text": lambda name, values, task: (
        name == task.label and (not task.names or values <= set(task.names))
    ),
}


def _described(candidates: dict[str, set[Any]]) -> str:
    """Labels with some of their values, for an error."""
    parts = [
        f"{name}: {listed(sorted(map(str, values)))}" if values else name
        for name, values in candidates.items()
    ]
    return "; ".join(parts) or "no labels"
