"""From tokens and an objective to a task: what micro-batch m of step s holds, and its loss.

Sequences come in the packing's order, chance from (seed, step, micro-batch). A share at the
end of the text, no more than 64,000 tokens, is held out, and corrupted the same way whenever it is
scored; what learns by causal and masked rows is scored by masks alone. Costs what the objective
costs on the CPU: some milliseconds a micro-batch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn
from torch.nn import functional

from workbench.training import distil, electra, hybrid, spanbert
from workbench.training.curves import Work
from workbench.training.feed import seed_of
from workbench.training.heads import nats_at, output_map
from workbench.training.micros import OF_PAIRS, micro
from workbench.training.objectives import BY_SENTENCE, OBJECTIVES, takes
from workbench.training.objectives.masked import masked_statically
from workbench.training.packing import Packing, Sequences
from workbench.training.task import Losses, Micro, Plan, Task
from workbench.training.vocabulary import Vocabulary

HELD_OUT_TOKENS = 64_000
COPIES = 10  # of the text with other masks, where masks are static
_HELD_OUT_STEP = -1  # whose chance the held-out text's corruption is

Corrupt = Callable[[Sequences, Generator, int], Mapping[str, Tensor]]  # the last is the epoch


@dataclass(frozen=True)
class Shortened(Packing):
    """A packing without its last sequences, which are held out."""

    without: int = 0

    def __len__(self) -> int:
        return super().__len__() - self.without


def parted(packing: Packing, share: float = 0.02) -> tuple[Packing, NDArray[np.int64]]:
    """What is trained on, and the numbers of the sequences that are held out."""
    whole = len(packing)
    held = min(int(np.ceil(whole * share)), max(HELD_OUT_TOKENS // packing.length, 1))
    held = held if whole > 1 else 0
    part = Shortened(packing.store, packing.vocabulary, packing.length, packing.seed, held)
    return part, np.arange(whole - held, whole)


def task_of(
    objective: str,
    net: nn.Module,
    packing: Packing,
    held: NDArray[np.int64],
    plan: Plan,
    world: int,
    *,
    unit: str = "",
    static: bool = False,
    hidden: float | None = None,
) -> Task:
    """The task of a model that reads pieces.

    A share `hidden` of them is hidden in training; of what is held out it is the objective's own.
    """
    vocabulary = packing.vocabulary
    size = plan.batch // plan.micros(world)
    corrupt = _corruption(objective, vocabulary, plan.seed, unit, static, hidden)
    scored = _corruption(objective, vocabulary, plan.seed, unit, static, scored=True)
    losses, terms, weights = _losses(objective, vocabulary)

    def draw(step: int, number: int) -> Micro:
        position = step * plan.batch + number * size
        generator = Generator().manual_seed(seed_of(plan.seed, step, number))
        found = corrupt(packing.batch(position, size), generator, position // len(packing))
        return micro(found, objective)

    @lru_cache(maxsize=1)
    def held_out() -> Sequence[Micro]:
        micros = []
        for first in range(0, len(held), size):
            generator = Generator().manual_seed(seed_of(plan.seed, _HELD_OUT_STEP, first))
            sequences = packing.sequences(held[first : first + size])
            micros.append(micro(scored(sequences, generator, 0), objective))
        return micros

    return Task(
        draw,
        losses,
        terms,
        weights,
        held_out if len(held) else None,
        work_of(net),
        packing.length,
        len(terms) if objective in ("hybrid", "masked-spans") else 1,
    )


def _corruption(
    objective: str,
    vocabulary: Vocabulary,
    seed: int,
    unit: str,
    static: bool,
    hidden: float | None = None,
    scored: bool = False,
) -> Corrupt:
    alike = {"distilled": "masked"} | ({"denoisers": "random-spans"} if scored else {})
    name = alike.get(objective, objective)
    more: dict[str, Any] = {"unit": unit} if unit and takes(name, "unit") else {}
    if hidden is not None:
        more["rate"] = hidden
    if scored and objective == "hybrid":
        more["share"] = 0.0

    def corrupt(found: Sequences, generator: Generator, epoch: int) -> Mapping[str, Tensor]:
        if static:
            copy = epoch % COPIES
            return masked_statically(
                found.tokens, found.special, found.number, vocabulary, seed=seed, copy=copy, **more
            )
        told = {"sentences": found.sentences} if name in BY_SENTENCE else {}
        batch = OBJECTIVES[name](found.tokens, found.special, generator, vocabulary, **told, **more)
        return {**batch, "tokens": found.tokens} if objective == "replaced" else batch

    return corrupt


def _losses(
    objective: str, vocabulary: Vocabulary
) -> tuple[Losses, tuple[str, ...], tuple[float, ...]]:
    if objective in OF_PAIRS:
        of_pairs = partial(_of_pairs, asked=OF_PAIRS[objective])
        return of_pairs, tuple(objective.split("-")), (1.0, 1.0)
    if objective == "masked-spans":
        return spanbert.spanbert_losses, spanbert.TERMS, spanbert.WEIGHTS
    if objective == "hybrid":
        return hybrid.hybrid_losses, hybrid.TERMS, hybrid.WEIGHTS
    if objective == "replaced":
        losses = partial(electra.electra_losses, vocabulary=vocabulary)
        return losses, electra.TERMS, electra.WEIGHTS
    if objective == "distilled":
        return distil.distilled_losses, distil.TERMS, distil.WEIGHTS
    return _predicted, ("loss",), (1.0,)


def _predicted(net: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    return nats_at(net, inputs)[0][None]


def _of_pairs(net: nn.Module, inputs: Mapping[str, Tensor], asked: tuple[str, str]) -> Tensor:
    label, logits = asked
    nats, answer = nats_at(net, {name: tensor for name, tensor in inputs.items() if name != label})
    found = answer[logits].float()  # [batch, 2]
    return torch.stack([nats, functional.cross_entropy(found, inputs[label], reduction="sum")])


def work_of(net: nn.Module) -> Work | None:
    """What a token of a transformer costs; None where its parts are of another kind.

    Of an encoder-decoder a token passes one stack: half of the weights, as stacks go. The layers of
    ALBERT share their weights, and each token passes them as often.
    """
    if isinstance(net, (electra.Electra, distil.Distilled)) or not hasattr(net, "config"):
        return None
    if isinstance(net, spanbert.SpanBert):  # its second head is small
        net = net.bert
    config: Any = net.config
    output = output_map(net)
    tables = {id(m.weight) for m in net.modules() if isinstance(m, nn.Embedding)}
    skipped = tables | {id(output.weight)}
    matrices = sum(p.numel() for p in net.parameters() if p.ndim > 1 and id(p) not in skipped)
    layers = int(config.num_hidden_layers)
    if config.model_type == "albert":
        matrices *= layers
    if config.is_encoder_decoder:
        matrices //= 2
    return Work(matrices, output.weight.numel(), layers, int(config.hidden_size))
