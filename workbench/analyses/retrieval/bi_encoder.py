"""A bi-encoder: the model's own encoder, trained to give a question and its passage one direction.

One copy of the model reads both texts; a text's vector is the mean of its last states. Each
question must find its passage among those of a batch (in-batch negatives: Karpukhin et al. 2020);
equal passages are no negatives. `descend` is the loop that trains it, and the reader and retriever
of `realm` together. Costs: `steps` forward and backward passes over 64 texts.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from workbench.analyses.retrieval.index import SHARPNESS, Vectors, mean_of, mean_states
from workbench.corpora.encode import doc_of, encode
from workbench.engine.batch import Pieces
from workbench.engine.model import Model

BATCH = 32  # pairs of a step
RATE = 0.04  # learning rate times the width of the model
HELD_OUT = 0.1  # share of the pairs that is not trained on
MOST_HELD_OUT = 10 * BATCH


@dataclass(frozen=True)
class Trained:
    """A trained bi-encoder, and its loss on held-out pairs before and after."""

    model: Model
    before: float
    after: float
    pairs: int

    chance = math.log(BATCH)

    def index(self, texts: Sequence[str]) -> Vectors:
        """The index of some passages, in memory."""
        return index_of(self.model, texts)


def index_of(model: Model, texts: Sequence[str]) -> Vectors:
    """The index of some passages by a bi-encoder, in memory."""
    last = model.stacks[0].layers

    def embed(some: Sequence[str]) -> Tensor:
        return normalize(mean_states(model, some, (last,))[0], dim=1)  # [texts, width]

    return Vectors(embed(texts).half(), embed)


def trained(
    model: Model,
    pairs: Sequence[tuple[str, str]],
    steps: int,
    seed: int,
    on_step: Callable[[int], object],
) -> Trained:
    """Train a copy of a model on pairs of a question and its passage."""
    net = model.copy(in_fp32=True)
    draw = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(pairs), generator=draw).tolist()
    sides = [[pairs[row][side] for row in order] for side in (0, 1)]
    read = [net.encode(encode(map(doc_of, texts))) for texts in sides]
    names = {text: code for code, text in enumerate(dict.fromkeys(sides[1]))}
    codes = torch.tensor([names[text] for text in sides[1]])  # [pairs], equal for equal passages

    def loss(rows: Tensor) -> Tensor:
        """Nats of finding the passage of each question among those of the batch."""
        left, right = (vectors(net, text.take(rows).narrowed()) for text in read)
        scores = SHARPNESS * left @ right.T  # [batch, batch]
        same = codes[rows][:, None] == codes[rows]
        same.fill_diagonal_(False)
        target = torch.arange(len(rows), device=scores.device)
        return cross_entropy(scores.masked_fill(same.to(scores.device), -torch.inf), target)

    # whole batches are held out, so that chance is the same; one batch is shared by few pairs
    n_held_out = max(BATCH, int(min(MOST_HELD_OUT, HELD_OUT * len(pairs))) // BATCH * BATCH)
    held_out = torch.arange(len(pairs))[:n_held_out]
    learning = torch.arange(n_held_out, len(pairs))

    @torch.no_grad()
    def held_out_loss() -> float:
        parts = torch.split(held_out, BATCH)
        return float(sum(float(loss(part)) for part in parts)) / len(parts)

    before = held_out_loss()
    descend(
        {net: 1.0}, steps,
        lambda _: loss(learning[torch.randint(len(learning), (BATCH,), generator=draw)]),
        on_step,
    )  # fmt: skip
    return Trained(net, before, held_out_loss(), len(learning))


def descend(
    nets: Mapping[Model, float],
    steps: int,
    loss: Callable[[int], Tensor],
    on_step: Callable[[int], object],
) -> None:
    """Train all weights of some models by AdamW, in place, at these multiples of the rate.

    `loss` gets the step, from 0 on.
    """
    groups = [
        (list(dict.fromkeys(net.named_weights().values())), multiple * RATE / net.width)
        for net, multiple in nets.items()
    ]
    weights = [weight for group, _ in groups for weight in group]
    for weight in weights:
        weight.requires_grad_()
    optimiser = torch.optim.AdamW(
        [{"params": group, "lr": rate} for group, rate in groups], weight_decay=0.0
    )
    for step in range(steps):
        optimiser.zero_grad()
        with torch.enable_grad():
            loss(step).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimiser.step()
        on_step(step + 1)


def vectors(net: Model, text: Pieces) -> Tensor:
    """Vectors of a batch.  # [batch, width], with norm 1"""
    text = text.to(net.device)
    return normalize(mean_of(net.states(text)[-1], text), dim=1)
