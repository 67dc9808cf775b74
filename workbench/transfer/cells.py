"""What a table of cells asks: a task's texts, and one `finetune` run for each model and method.

Shared by the experiments that lay many adaptations side by side. Costs reading the corpus.
"""

from typing import TYPE_CHECKING

from workbench.experiment import Asked, Inputs
from workbench.transfer.asked import Adapting, HeadKind
from workbench.transfer.examples import Split, split_of
from workbench.transfer.finetune import Finetune
from workbench.transfer.tasks import task_of
from workbench.transfer.ways import Method

if TYPE_CHECKING:
    from workbench.corpora import Corpus
    from workbench.engine.model import Model


def texts_of(inputs: Inputs, settings: Adapting, corpus: "Corpus", task: str) -> Split:
    """The texts that every cell of the task learns from and is scored on."""
    return split_of(
        corpus,
        task_of(corpus, task),
        part_of(inputs, corpus),
        inputs.seed,
        settings.split_sizes,
    )


def cell_of(
    inputs: Inputs,
    settings: Adapting,
    model: "Model | str",
    corpus: "Corpus",
    task: str,
    method: Method,
    head: HeadKind,
    keep: bool = False,
) -> Asked:
    """The question whose answer is a cell."""
    shared = {name: getattr(settings, name) for name in Adapting.model_fields}
    own = Finetune(**shared, task=task, method=method, head=head, keep=keep)
    part = part_of(inputs, corpus)
    return Asked("finetune", [model], [corpus], own.model_dump(), part, inputs.seed)


def part_of(inputs: Inputs, corpus: "Corpus") -> str | None:
    """The part that was asked for, where this corpus has it."""
    return inputs.split if inputs.split in corpus.splits else None
