"""Which layers a fine-tuned model needs: each put back as it was before, and the task scored again.

Zhang et al.'s re-initialisation (2019), with the weights that fine-tuning began from. It needs the
head that was learnt, which a run of `finetune` keeps beside its model. Costs a pass over the texts
a layer.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import torch
from torch import Tensor

from workbench.engine.model import Model
from workbench.transfer.body import Body, body_of, weights_of
from workbench.transfer.examples import Examples, metrics_of
from workbench.transfer.fitting import guessed
from workbench.transfer.heads import Head
from workbench.transfer.kept import has_task, head_of
from workbench.transfer.sources import Live
from workbench.transfer.tasks import gold_of
from workbench.transfer.ways import Fitting

if TYPE_CHECKING:
    from spacy.tokens import Doc


def head_for(folder: Path | None, docs: "Sequence[Doc]", after: Model) -> Head | None:
    """The head that was learnt with a model, if these texts have what it was learnt for."""
    if folder is None or not has_task(folder):
        return None
    head, _ = head_of(folder, after.device)
    return head if any(gold_of(doc, head.task) is not None for doc in docs) else None


def rewound(
    before: Model,
    after: Model,
    head: Head,
    examples: Examples,
    told: Callable[[int, int], object],
) -> pd.DataFrame:
    """The score with every layer put back alone, and with none and all of them."""
    body = body_of(after)
    old = weights_of(before)
    source = Live(body, examples.batch)
    whole = _score(body, head, source, examples)
    rows = [("none", -1, whole)]
    layers = sorted({body.depth(name) for name in body.weights})
    for number, layer in enumerate(layers):
        told(number, len(layers) + 1)
        names = [name for name in body.weights if body.depth(name) == layer]
        rows.append((body.stack, layer, _with(body, old, names, head, source, examples)))
    rows.append(("all", -1, _with(body, old, list(body.weights), head, source, examples)))
    table = pd.DataFrame(rows, columns=["stack", "layer", "value"])
    table.insert(2, "metric", head.task.metric)
    return table.assign(change=table["value"] - whole)


def _with(
    body: Body,
    old: dict[str, Tensor],
    names: Sequence[str],
    head: Head,
    source: Live,
    examples: Examples,
) -> float:
    """The score while these weights are what they were before."""
    there = [name for name in names if name in old and old[name].shape == body.weights[name].shape]
    kept = {name: body.weights[name].detach().clone() for name in there}
    with torch.no_grad():
        for name in there:
            body.weights[name].copy_(old[name])
        try:
            return _score(body, head, source, examples)
        finally:
            for name, value in kept.items():
                body.weights[name].copy_(value)


def _score(body: Body, head: Head, source: Live, examples: Examples) -> float:
    guesses = guessed(head, Fitting(body), source, examples)
    return metrics_of(head.task, examples, guesses)[head.task.metric].value()
