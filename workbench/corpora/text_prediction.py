"""What the task head of a model predicts for a typed text, with its probabilities.

Used where a fine-tuned model, or a classifier of other origin, is tried on one text. Costs: a
forward pass.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from workbench.core.errors import WorkbenchError
from workbench.corpora.tasks import Examples, as_text
from workbench.engine.model import Model
from workbench.engine.task import Labelling, Task
from workbench.models.output_heads.task_heads import TaskHead, segments_of

if TYPE_CHECKING:
    from spacy.tokens import Doc


@dataclass(frozen=True)
class TextPrediction:
    """The prediction of a fine-tuned model for a text, with its probability."""

    guess: str  # as text
    classes: tuple[tuple[str, float], ...] = ()  # with their probabilities, the most probable first
    words: tuple[tuple[str, str, float], ...] = ()  # each with its tag and the tag's probability
    answer: float | None = None  # probability of the answer's start times that of its end
    cut: bool = False  # the text is longer than the model's maximum
    kind: Labelling = "class"  # of the task


def require_texts(task: Task, doc: "Doc", where: str) -> None:
    """Raise if a task of two texts gets one."""
    if task.pairs and len(doc.spans.get("segments", ())) != 2:
        raise WorkbenchError(
            f"{task.name} needs two texts, and only one is given.",
            code="text-missing",
            where=where,
            remedy="Give the second text too: --second TEXT on the command line, second=TEXT in "
            "Python; or choose a corpus of pairs of texts.",
        )


def predict_text(model: Model, doc: "Doc") -> TextPrediction:
    """The prediction of the model's task head for a Doc; the Doc of a pair has its segments."""
    from workbench.corpora.encode import encode

    head: TaskHead | None = model.task_head
    if head is None:
        raise WorkbenchError(
            "the model has no task head.",
            code="task-head-missing",
            where=model.name,
            remedy="Name a run of finetune, or a folder with a text classifier.",
        )
    require_texts(head.task, doc, model.name)
    batch = encode([doc])
    text = model.encode(batch)
    with torch.no_grad():
        read = head.read(model, replace(text, cut=()).to(model.device), segments_of(batch))
        outputs = head(read)
        (guess,) = head.guesses(outputs, read, [len(doc)])
    if head.task.kind == "text":
        return TextPrediction(guess, cut=bool(text.cut), kind="text")
    shown = as_text(head.task, Examples(batch, ()), 0, guess)
    return replace(
        _with_probabilities(head.task, outputs[0].float().cpu(), guess, doc, shown),
        cut=bool(text.cut),
        kind=cast(Labelling, head.task.kind),
    )


def _with_probabilities(
    task: Task, outputs: Tensor, guess: Any, doc: "Doc", text: str
) -> TextPrediction:
    """The prediction with the head's probabilities; a score has none."""
    probabilities = outputs.softmax(-1)
    if task.kind == "class":
        order = probabilities.argsort(descending=True).tolist()
        return TextPrediction(
            text, classes=tuple((task.names[n], float(probabilities[n])) for n in order)
        )
    if task.kind == "answers":
        no_answer = outputs.shape[-1] - 1
        start, end = (guess[0][0], guess[0][1] - 1) if guess else (no_answer, no_answer)
        return TextPrediction(text, answer=float(probabilities[0, start] * probabilities[1, end]))
    if task.kind in ("tags", "entities"):
        tag_probabilities = [
            tag if tag < 0 else float(probabilities[n, tag]) for n, tag in enumerate(guess)
        ]
        return TextPrediction(
            text,
            words=tuple(
                (word.text, task.names[tag], probability)
                for word, tag, probability in zip(doc, guess, tag_probabilities, strict=True)
                if tag >= 0
            ),
        )
    return TextPrediction(text)


def pair_of(first: "Doc", second: "Doc") -> "Doc":
    """Two texts as one Doc, with segments as in a corpus of pairs."""
    from spacy.tokens import Doc

    from workbench.corpora.layers import Mention, set_spans

    doc = Doc.from_docs([first, second], exclude=["user_data"])  # type: ignore[call-arg]
    middle = len(first)
    set_spans(doc, "segments", [Mention(0, middle, "1"), Mention(middle, len(doc), "2")])
    return doc
