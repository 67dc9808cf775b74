"""A model with what it has learnt of a task, in one folder: the body, which opens as any other
model does, and beside it the head.

    model.safetensors, …    the body, with the heads that it was trained with before
    task/task.json          what the head answers, and how it reads
    task/head.safetensors   its weights

What was put into a body (adapters, prefixes, prompts) is no part of such a folder; LoRA is merged
before. Costs the bytes of the weights.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from workbench.core.errors import WorkbenchError
from workbench.core.files import parsed_json, read_regular, require_regular, written_whole
from workbench.engine.model import Model
from workbench.transfer.backbone import Body
from workbench.transfer.features import Live
from workbench.transfer.task_heads import Head, Scale
from workbench.transfer.tasks import Examples, Task, told

if TYPE_CHECKING:
    from spacy.tokens import Doc

TASK, HEAD = "task/task.json", "task/head.safetensors"
FORMAT = 3


def save(model: Model, head: Head, folder: Path, method: str) -> None:
    """Write body and head."""
    from safetensors.torch import save_file

    model.save(folder)
    (folder / TASK).parent.mkdir(exist_ok=True)
    state = {name: value.detach().cpu().contiguous() for name, value in head.state_dict().items()}
    with written_whole(folder / HEAD) as draft:
        save_file(state, draft)
    told = {
        "format": FORMAT,
        "task": asdict(head.task),
        "method": method,
        "layers": head.mix.layers - 1,
        "width": head.mix.mean.shape[1],
        "lstm": head.reader is not None,
        "scale": [head.scale.mean, head.scale.spread],
    }
    with written_whole(folder / TASK) as draft:
        draft.write_text(json.dumps(told, indent=1) + "\n", "utf-8")


def has_task(folder: Path) -> bool:
    """Whether a head for a task lies beside the model."""
    return (folder / TASK).is_file() and (folder / HEAD).is_file()


def head_of(folder: Path, device: torch.device) -> tuple[Head, str]:
    """The head of a folder, and the method it was learnt by."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        told: dict[str, Any] = parsed_json(read_regular(folder / TASK).decode("utf-8"))
        own = told["task"]
        task = Task(**{**own, "names": tuple(own["names"])})
        scale = Scale(*told["scale"])
        head = Head(task, told["layers"], told["width"], told["lstm"], scale)
        head.load_state_dict(load_file(require_regular(folder / HEAD)))
        if told["format"] != FORMAT:
            raise ValueError(f"its format is {told['format']!r}")
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise WorkbenchError(
            f"the head of a task cannot be read: {str(error).splitlines()[0]}.",
            where=str(folder),
            remedy="Fine-tune anew, or copy the folder whole.",
        ) from None
    return head.to(device).eval(), str(told["method"])


# --- predictions for a typed text -----------------------------------------------------------------
#
# The model is one that a run of `finetune` has kept, opened as any other; its head lies beside
# it. For a page on which two such models are asked the same at once. Costs reading the head, a
# few hundred thousand weights, and a forward pass.


@dataclass(frozen=True)
class Thought:
    """What is thought of a text, and how likely it is held to be."""

    guess: str  # in words
    classes: tuple[tuple[str, float], ...] = ()  # each with its probability, the likeliest first
    words: tuple[tuple[str, str, float], ...] = ()  # each with its tag, and the tag's probability
    answer: float | None = None  # probability of the answer's start times that of its end
    cut: bool = False  # the text is longer than what the model reads


def asked_of(folder: Path) -> Task:
    """The task of a kept model."""
    return _head(folder, torch.device("cpu")).task


def thought(model: Model, folder: Path, doc: "Doc") -> Thought:
    """What a kept model, open already, thinks of a Doc; a Doc of a pair has its segments."""
    from workbench.corpora.encode import encode

    head = _head(folder, model.device)
    if head.task.pairs and len(doc.spans.get("segments", ())) != 2:
        raise WorkbenchError(
            f"{head.task.name} is asked of two texts.", remedy="Type the second text, too."
        )
    batch = encode([doc])
    source = Live(Body(model, {}, {}), batch)  # it stays as it is, so no copy is made
    with torch.no_grad():
        read = source.read([0], head.mix)
        found = head(read)
        (guess,) = head.guesses(found, read, [len(doc)])
    said = told(head.task, Examples(batch, ()), 0, guess)
    return replace(_likely(head.task, found[0].float().cpu(), guess, doc, said), cut=source.cut > 0)


def _head(folder: Path, device: torch.device) -> Head:
    if not has_task(folder):
        raise WorkbenchError(
            "no head for a task lies beside this model.",
            where=str(folder),
            remedy="Fine-tune it with the head plain or lstm, and with keep.",
        )
    return head_of(folder, device)[0]


def _likely(task: Task, found: Tensor, guess: Any, doc: "Doc", said: str) -> Thought:
    """How likely the head holds what it says; of scores nothing is known."""
    shares = found.softmax(-1)
    if task.kind == "class":
        order = shares.argsort(descending=True).tolist()
        return Thought(said, classes=tuple((task.names[n], float(shares[n])) for n in order))
    if task.kind == "answers":
        nowhere = found.shape[-1] - 1
        start, end = (guess[0][0], guess[0][1] - 1) if guess else (nowhere, nowhere)
        return Thought(said, answer=float(shares[0, start] * shares[1, end]))
    if task.kind in ("tags", "entities"):
        seen = [tag if tag < 0 else float(shares[n, tag]) for n, tag in enumerate(guess)]
        return Thought(
            said,
            words=tuple(
                (word.text, task.names[tag], share)
                for word, tag, share in zip(doc, guess, seen, strict=True)
                if tag >= 0
            ),
        )
    return Thought(said)


def pair_of(first: "Doc", second: "Doc") -> "Doc":
    """Two texts as one Doc, told apart as a corpus of pairs does."""
    from spacy.tokens import Doc

    from workbench.corpora.layers import Mention, set_spans

    doc = Doc.from_docs([first, second], exclude=["user_data"])  # type: ignore[call-arg]
    middle = len(first)
    set_spans(doc, "segments", [Mention(0, middle, "1"), Mention(middle, len(doc), "2")])
    return doc
