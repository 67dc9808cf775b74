"""What a model that was adapted to a task thinks of a text that somebody typed.

The model is one that a run of `finetune` has kept, opened as any other; its head lies beside it.
For a page on which two such models are asked the same at once. Costs reading the head, a few
hundred thousand weights, and a forward pass.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from workbench.engine.model import Model
from workbench.errors import WorkbenchError
from workbench.transfer.body import Body
from workbench.transfer.examples import Examples, told
from workbench.transfer.heads import Head
from workbench.transfer.kept import has_task, head_of
from workbench.transfer.sources import Live
from workbench.transfer.tasks import Task

if TYPE_CHECKING:
    from spacy.tokens import Doc


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
