"""Trains every architecture by every objective from several seeds, and compares their losses.

All architectures read the same texts in the same order with the same corruption, so that
differences are paired by seed. Costs: the trainings, on two cores about half a minute each by
default.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from torch import Generator, Tensor
from torch.utils.flop_counter import FlopCounterMode

from workbench.analyses.architectures.experiments import Architectures, Arm, Goal
from workbench.analyses.architectures.nets import build, read_by
from workbench.analyses.architectures.trained import (
    Fit,
    Texts,
    caveats_of,
    each_cell,
    plan_of,
    texts_of,
)
from workbench.analyses.training.batches import micro
from workbench.analyses.training.families import Size
from workbench.analyses.training.objectives import known
from workbench.analyses.training.objectives.chunked_lm_loss import nats_at, token_losses
from workbench.analyses.training.objectives.masked import IGNORED
from workbench.analyses.training.packing import Sequences
from workbench.analyses.training.task import Micro, Task
from workbench.analyses.training.trainer import seed_of
from workbench.analyses.training.vocabulary import Vocabulary
from workbench.core.stats import t_interval
from workbench.experiment.definition import Caveat, Inputs, Progress, Result

OBJECTIVE: Mapping[Goal, str] = {"denoising": "random-spans", "language modelling": "prefix"}
COUNTED = 100  # batches whose target pieces are counted for the unigram model
PAIRS: Sequence[tuple[Arm, Arm]] = (
    ("encoder-decoder", "prefix language model"),
    ("prefix language model", "language model"),
    ("shared encoder-decoder", "encoder-decoder"),
    ("half encoder-decoder", "encoder-decoder"),
)
COSTED = 8  # texts whose operations are counted
_SCORED_STEP = -1  # the step that seeds the corruption of the held-out text


def corrupted(texts: Texts, goal: Goal, seed: int, step: int, size: int) -> dict[str, Tensor]:
    """Inputs and targets of a training step, the same in all architectures."""
    sequences = texts.training.batch(step * size, size)
    return _corrupted(sequences, goal, texts.vocabulary, seed_of(seed, step, 0))


def scored(texts: Texts, goal: Goal, size: int) -> Iterator[dict[str, Tensor]]:
    """Inputs and targets of the held-out text, the same in all trainings."""
    for number, sequences in enumerate(texts.scored(size)):
        yield _corrupted(sequences, goal, texts.vocabulary, seed_of(0, _SCORED_STEP, number))


@dataclass(frozen=True)
class Scored:
    """The held-out text as it is corrupted for one objective, for all trainings."""

    batches: list[dict[str, Tensor]]
    alone: list[dict[str, Tensor]]  # some texts, each by itself
    targets: Tensor  # [targets], the pieces that are predicted

    @classmethod
    def of(cls, texts: Texts, goal: Goal, settings: Architectures) -> Self:
        """Corrupt the held-out text once."""
        batches = [*scored(texts, goal, settings.batch_size)]
        labels = torch.cat([each["labels"].flatten() for each in batches])
        return cls(batches, [*islice(scored(texts, goal, 1), COSTED)], labels[labels != IGNORED])


def _corrupted(
    sequences: Sequences, goal: Goal, vocabulary: Vocabulary, seed: int
) -> dict[str, Tensor]:
    generator = Generator().manual_seed(seed)
    return known()[OBJECTIVE[goal]].corrupt(
        sequences.tokens, sequences.special, generator, vocabulary
    )


def run(inputs: Inputs, settings: Architectures, progress: Progress) -> Result:
    """Train all architectures, and compare them."""
    with TemporaryDirectory() as folder:
        scratch = inputs.scratch or Path(folder)
        size = Size(
            settings.n_layers,
            settings.width,
            settings.n_heads,
            settings.vocabulary_size,
            settings.sequence_length,
        )
        texts = texts_of(inputs, "t5", size, size.sequence_length, scratch, progress)
        held_out = {goal: Scored.of(texts, goal, settings) for goal in settings.objectives}
        keys = list(product(settings.objectives, settings.arms, settings.seeds))
        table = each_cell(
            keys,
            lambda key: settings.steps,
            lambda key: "-".join(map(str, key)).replace(" ", "-"),
            lambda key, fit: _cell(settings, texts, held_out[key[0]], size, *key, fit),
            scratch,
            inputs,
            progress,
        )
        costs: dict[tuple[str, str], tuple[int, float]] = {
            (goal, arm): _cost(texts, held_out[goal], size, goal, arm)
            for goal, arm in product(settings.objectives, settings.arms)
        }
        unigrams: dict[str, float] = {
            goal: _unigram(texts, held_out[goal], goal, settings) for goal in settings.objectives
        }
    tables = {
        "table": _table(table, costs, unigrams),
        "pairs": _pairs(table),
        "cells": table,
    }
    return Result(
        {name: each for name, each in tables.items() if len(each)},
        caveats=tuple(_caveats(settings, texts)),
    )


# --- one training ---------------------------------------------------------------------------------


def _cell(
    settings: Architectures,
    texts: Texts,
    held_out: Scored,
    size: Size,
    goal: Goal,
    arm: Arm,
    seed: int,
    fit: Fit,
) -> dict[str, Any]:
    """The numbers of one training."""
    net = build(arm, size, texts.tokenizer, seed)
    task = _task(texts, held_out, goal, arm, settings, seed)
    rows = fit(net, task, plan_of(settings, seed))
    loss = rows[-1].held_out
    assert loss is not None, "the end of a training is evaluated"
    return {
        "objective": goal,
        "arm": arm,
        "seed": seed,
        "loss": loss,
        "bits_per_character": _bits(loss, texts, held_out),
        "training_loss": rows[-1].loss,
        "tokens": rows[-1].tokens,
        "seconds": rows[-1].seconds,
    }


def _task(
    texts: Texts, held_out: Scored, goal: Goal, arm: Arm, settings: Architectures, seed: int
) -> Task:
    pad = int(texts.vocabulary.pad or 0)

    def draw(step: int, index: int) -> Micro:
        batch = corrupted(texts, goal, seed, step, settings.batch_size)
        return micro(read_by(arm, goal, batch, pad, scored=False), known()[OBJECTIVE[goal]])

    @lru_cache(maxsize=1)
    def evaluated() -> list[Micro]:
        return [
            micro(read_by(arm, goal, each, pad, scored=True), known()[OBJECTIVE[goal]])
            for each in held_out.batches
        ]

    return Task(draw, token_losses, held_out=evaluated, length=settings.sequence_length)


def _bits(loss: float, texts: Texts, held_out: Scored) -> float:
    """Bits per character of a loss in nats per target."""
    return loss * len(held_out.targets) * texts.bits_per_nat(held_out.targets)


def _cost(texts: Texts, held_out: Scored, size: Size, goal: Goal, arm: Arm) -> tuple[int, float]:
    """Parameters, and millions of operations of a forward pass, a mean over some held-out texts.

    Each text is read alone, so that padding does not count; logits are those of the targets.
    """
    net = build(arm, size, texts.tokenizer, 0).eval()
    batch, pad = held_out.alone, int(texts.vocabulary.pad or 0)
    total, of_shapes = 0, dict[tuple[torch.Size, ...], int]()  # texts of equal shapes cost the same
    for each in batch:
        read = read_by(arm, goal, each, pad, scored=True)
        inputs = micro(read, known()[OBJECTIVE[goal]]).inputs
        shapes = tuple(tensor.shape for tensor in inputs.values())
        if shapes not in of_shapes:
            with FlopCounterMode(display=False) as counter, torch.no_grad():
                nats_at(net, inputs)
            of_shapes[shapes] = counter.get_total_flops()
        total += of_shapes[shapes]
    return sum(weight.numel() for weight in net.parameters()), total / len(batch) / 1e6


def _unigram(texts: Texts, held_out: Scored, goal: Goal, settings: Architectures) -> float:
    """Bits per character of the frequencies of target pieces, each counted once more."""
    counts = torch.ones(texts.vocabulary.size, dtype=torch.double)
    for step in range(min(COUNTED, settings.steps)):
        labels = corrupted(texts, goal, 0, step, settings.batch_size)["labels"].flatten()
        counts += torch.bincount(labels[labels != IGNORED], minlength=len(counts))
    nats = -(counts / counts.sum()).log()[held_out.targets].mean()
    return _bits(float(nats), texts, held_out)


# --- tables ---------------------------------------------------------------------------------------


def _table(
    cells: pd.DataFrame,
    costs: Mapping[tuple[str, str], tuple[int, float]],
    unigrams: Mapping[str, float],
) -> pd.DataFrame:
    rows = []
    for goal, part in cells.groupby("objective", sort=False):
        first = part[part["arm"] == part["arm"].iloc[0]]["bits_per_character"].to_numpy()
        for arm, mine in part.groupby("arm", sort=False):
            values = mine["bits_per_character"].to_numpy()
            lower, upper = map(float, t_interval(values))
            change = values - first
            is_first = arm == part["arm"].iloc[0]
            ends = [*map(float, t_interval(change))]
            parameters, operations = costs[str(goal), str(arm)]
            rows.append(
                {
                    "objective": goal, "arm": arm, "parameters": parameters,
                    "operations": operations, "loss": mine["loss"].mean(),
                    "bits_per_character": values.mean(), "lower": lower, "upper": upper,
                    "unigram": unigrams[str(goal)],
                    "delta": np.nan if is_first else change.mean(),
                    "delta_lower": np.nan if is_first else ends[0],
                    "delta_upper": np.nan if is_first else ends[1],
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def _pairs(cells: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for goal, part in cells.groupby("objective", sort=False):
        by_arm = {arm: mine["bits_per_character"].to_numpy() for arm, mine in part.groupby("arm")}
        for arm, against in PAIRS:
            if arm in by_arm and against in by_arm:
                change = by_arm[arm] - by_arm[against]
                lower, upper = map(float, t_interval(change))
                rows.append(
                    {
                        "objective": goal, "arm": arm, "against": against,
                        "delta": change.mean(), "lower": lower, "upper": upper,
                        "sure": bool(lower > 0 or upper < 0),
                    }
                )  # fmt: skip
    return pd.DataFrame(rows)


def _caveats(settings: Architectures, texts: Texts) -> list[Caveat]:
    passes = settings.steps * settings.batch_size / len(texts.training)
    said = [
        f"A training is {settings.steps:,} steps of {settings.batch_size} sequences of "
        f"{settings.sequence_length} pieces, {passes:.2g} passes over its text; T5 read 34 billion "
        "pieces. Such a short training shows what learns fastest, not what is best in the end, and "
        "its losses are not the scores on tasks that the paper compares.",
        "The objectives have different targets: with denoising the hidden spans with their "
        "sentinels, with language modelling the rest of a text. Do not compare losses between "
        "objectives.",
        "Cross-attention is on top of the weights and operations that are equal. The stack of a "
        "language model has T5's position biases of an encoder, in half as many steps on a side as "
        "a decoder has.",
    ]
    if "language model" in settings.arms and "language modelling" in settings.objectives:
        said.append(
            "By language modelling the language model learns from all pieces of a text, as in the "
            "paper, and the others from those after the cut, half of them on average."
        )
    return caveats_of(said, settings.seeds)
