"""What a model that was adapted to a task thinks of a text that somebody typed.

The model is one that a run of `finetune` has kept, opened as any other; its head lies beside it.
For a page on which two such models are asked the same at once. Costs reading the head, a few
hundred thousand weights, and a forward pass.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from workbench.engine.model import Model
from workbench.errors import WorkbenchError
from workbench.transfer.body import Body
from workbench.transfer.examples import Examples, told
from workbench.transfer.heads import Head
from workbench.transfer.kept import has_task, head_of, task_in
from workbench.transfer.sources import Live, Read
from workbench.transfer.tasks import Task

if TYPE_CHECKING:
    from spacy.tokens import Doc


@dataclass(frozen=True)
class Thought:
    """What is thought of a text: in words, and how sure."""

    guess: str
    classes: tuple[tuple[str, float], ...] = ()  # each with its probability, the likeliest first
    words: tuple[tuple[str, str, float], ...] = ()  # each with its tag, and the tag's probability
    sure: float | None = None  # the probability of an answer's ends, one by one
    cut: bool = False  # the text is longer than what the model reads


def asked_of(folder: Path) -> Task:
    """The task of a kept model: what must be typed."""
    if not has_task(folder):
        raise WorkbenchError(
            "no head for a task lies beside this model.",
            where=str(folder),
            remedy="Fine-tune it with the head plain or lstm.",
        )
    return task_in(folder)


def thought(model: Model, folder: Path, doc: "Doc") -> Thought:
    """What a kept model, open already, thinks of a Doc; of a pair with its segments."""
    from workbench.corpora.encode import encode

    asked_of(folder)
    head, _ = head_of(folder, model.device)
    if head.task.pairs and len(doc.spans.get("segments", ())) != 2:
        raise WorkbenchError(
            f"{head.task.name} is asked of two texts.", remedy="Type the second text, too."
        )
    batch = encode([doc])
    source = Live(Body(model, {}, {}), batch)  # read as it is, so no copy is made
    with torch.no_grad():
        read = source.read([0], head.mix)
        found = head(read)
        (guess,) = head.guesses(found, read, [len(doc)])
    said = told(head.task, Examples(batch, ()), 0, guess)
    return Thought(said, **_sure(head, found.float().cpu(), guess, read, doc), cut=bool(source.cut))


def _sure(
    head: Head, found: Tensor, guess: object, read: Read, doc: "Doc"
) -> dict[str, "tuple[tuple[str, float], ...]"]:
    return {}


def pair_of(first: "Doc", second: "Doc") -> "Doc":
    """Two texts as one Doc, told apart as a corpus of pairs does."""
    from spacy.tokens import Doc

    from workbench.corpora.layers import Mention, set_spans

    doc: Doc = Doc.from_docs([first, second], exclude=["user_data"])  # type: ignore[call-arg]
    middle = len(first)
    set_spans(doc, "segments", [Mention(0, middle, "1"), Mention(middle, len(doc), "2")])
    return doc
