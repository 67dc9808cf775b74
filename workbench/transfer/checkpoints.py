"""A fine-tuned model in one folder: the body, which opens like any other model, and the task head.

    model.safetensors, …    the body, with its language-model heads
    task/task.json          the task of the head and its architecture
    task/head.safetensors   the head's weights

Modules added to a body (adapters, prefixes, prompts) are not saved; LoRA is merged before. Costs:
the bytes of the weights.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from workbench.core.errors import WorkbenchError
from workbench.core.files import atomic_write, parse_json, read_regular, require_regular
from workbench.engine.model import Model
from workbench.models.references import HEAD, TASK, has_task
from workbench.transfer.backbone import Body
from workbench.transfer.features import Live
from workbench.transfer.task_heads import Head, Scale
from workbench.transfer.tasks import Examples, Kind, Task, as_text

if TYPE_CHECKING:
    from spacy.tokens import Doc

FORMAT = 3


def save(model: Model, head: Head, folder: Path, method: str) -> None:
    """Write the body and the head into a folder."""
    from safetensors.torch import save_file

    model.save(folder)
    (folder / TASK).parent.mkdir(exist_ok=True)
    state = {name: value.detach().cpu().contiguous() for name, value in head.state_dict().items()}
    with atomic_write(folder / HEAD) as draft:
        save_file(state, draft)
    description = {
        "format": FORMAT,
        "task": asdict(head.task),
        "method": method,
        "layers": head.mix.layers - 1,
        "width": head.mix.mean.shape[1],
        "lstm": head.reader is not None,
        "scale": [head.scale.mean, head.scale.spread],
    }
    with atomic_write(folder / TASK) as draft:
        draft.write_text(json.dumps(description, indent=1) + "\n", "utf-8")


def head_of(folder: Path, device: torch.device) -> tuple[Head, str]:
    """The task head of a folder, and the method it was trained with."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        description: dict[str, Any] = parse_json(read_regular(folder / TASK).decode("utf-8"))
        task_fields = description["task"]
        task = Task(**{**task_fields, "names": tuple(task_fields["names"])})
        scale = Scale(*description["scale"])
        head = Head(task, description["layers"], description["width"], description["lstm"], scale)
        head.load_state_dict(load_file(require_regular(folder / HEAD)))
        if description["format"] != FORMAT:
            raise ValueError(f"its format is {description['format']!r}")
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise WorkbenchError(
            f"the task head cannot be read: {str(error).splitlines()[0]}.",
            code="file-unreadable",
            where=str(folder),
            remedy="Copy the whole folder again, or run finetune again.",
        ) from None
    return head.to(device).eval(), str(description["method"])


# --- predictions for a typed text -----------------------------------------------------------------
#
# The model was saved by a run of `finetune` and is opened like any other; its head is in the same
# folder. Used by a page that compares two such models on one text. Costs: reading the head, a few
# hundred thousand weights, and a forward pass.


@dataclass(frozen=True)
class TextPrediction:
    """The prediction of a fine-tuned model for a text, with its probability."""

    guess: str  # as text
    classes: tuple[tuple[str, float], ...] = ()  # with their probabilities, the most probable first
    words: tuple[tuple[str, str, float], ...] = ()  # each with its tag and the tag's probability
    answer: float | None = None  # probability of the answer's start times that of its end
    cut: bool = False  # the text is longer than the model's maximum
    kind: Kind = "class"  # of the task


def asked_of(folder: Path) -> Task:
    """The task of a saved model."""
    return _head(folder, torch.device("cpu")).task


def thought(model: Model, folder: Path, doc: "Doc") -> TextPrediction:
    """The prediction of a saved, opened model for a Doc; the Doc of a pair has its segments."""
    from workbench.corpora.encode import encode

    head = _head(folder, model.device)
    if head.task.pairs and len(doc.spans.get("segments", ())) != 2:
        raise WorkbenchError(
            f"{head.task.name} needs two texts, and only one is given.",
            code="text-missing",
            remedy="Type the second text too.",
        )
    batch = encode([doc])
    source = Live(Body(model, {}, {}), batch)  # the model does not learn, so it is not copied
    with torch.no_grad():
        read = source.read([0], head.mix)
        outputs = head(read)
        (guess,) = head.guesses(outputs, read, [len(doc)])
    text = as_text(head.task, Examples(batch, ()), 0, guess)
    return replace(
        _with_probabilities(head.task, outputs[0].float().cpu(), guess, doc, text),
        cut=source.cut > 0,
        kind=head.task.kind,
    )


def _head(folder: Path, device: torch.device) -> Head:
    if not has_task(folder):
        raise WorkbenchError(
            "the model has no task head.",
            code="task-head-missing",
            where=str(folder),
            remedy="Run finetune with head plain or lstm, and with save_model.",
        )
    return head_of(folder, device)[0]


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
