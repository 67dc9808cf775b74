"""The experiment `scaling`: how the loss of a language model falls with its size and its data.

Every size is trained from scratch on every amount of data, with the learning rate decayed to the
end of each, since a training that is stopped early is not a shorter one. An exponent is how steeply
the logarithm of the loss falls with that of size or data, by a straight line through the trainings
of one seed; its interval is over seeds. At equal operations (6 per weight and piece, Kaplan et al.
2020) the loss of a size is interpolated between its trainings. Costs: the trainings, with the
defaults about ten minutes on two cores.
"""

import math
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from torch import Generator, Tensor

from workbench.analyses.architectures.experiments import HEAD_WIDTH, Scaling
from workbench.analyses.architectures.trained import Fit, Texts, each_cell, plan_of, texts_of
from workbench.analyses.training.batches import piece_task
from workbench.analyses.training.families import Size, build
from workbench.analyses.training.objectives import known
from workbench.analyses.training.objectives.masked import IGNORED
from workbench.core.arrays import Floats
from workbench.core.stats import t_interval
from workbench.experiment.definition import Caveat, Inputs, Progress, Result

OBJECTIVE = "causal"
PER_WEIGHT = 6  # operations of a training per weight and piece
BUDGETS = 9  # operations at which sizes are compared, where there are enough
FEW = 3  # sizes or amounts below which no line is drawn


def run(inputs: Inputs, settings: Scaling, progress: Progress) -> Result:
    """Train every size on every amount of data, and fit the exponents."""
    with TemporaryDirectory() as folder:
        scratch = inputs.scratch or Path(folder)
        texts = texts_of(
            inputs, "gpt", _size(settings, settings.widths[0]), settings.sequence_length, scratch,
            progress,
        )  # fmt: skip
        targets = _targets(texts)
        table = each_cell(
            list(product(settings.widths, settings.data, settings.seeds)),
            lambda key: key[1],
            lambda key: f"width-{key[0]}-steps-{key[1]}-{key[2]}",
            lambda key, fit: _cell(settings, texts, targets, *key, fit),
            scratch,
            inputs,
            progress,
        )
        unigram = _unigram(texts, targets)
    tables = {
        "table": _table(table, unigram),
        "exponents": pd.DataFrame([*exponents(table)]),
        "budgets": pd.DataFrame([*budgets(table)]),
        "cells": table,
    }
    return Result(
        {name: each for name, each in tables.items() if len(each)},
        caveats=tuple(_caveats(settings, texts)),
    )


def _size(settings: Scaling, width: int) -> Size:
    """A size by its width, with heads in proportion."""
    heads, length = max(1, width // HEAD_WIDTH), settings.sequence_length
    return Size(settings.n_layers, width, heads, settings.vocabulary_size, length)


# --- one training ---------------------------------------------------------------------------------


def _cell(
    settings: Scaling,
    texts: Texts,
    targets: Tensor,
    width: int,
    steps: int,
    seed: int,
    fit: Fit,
) -> dict[str, Any]:
    """The numbers of one training."""
    size = _size(settings, width)
    net = build("gpt", size, texts.tokenizer, seed)
    parameters = sum(
        each.numel()
        for name, each in net.named_parameters()
        if ".wte." not in name and ".wpe." not in name
    )
    plan = plan_of(settings, seed, steps=steps)
    task = piece_task(OBJECTIVE, net, texts.training, texts.held_out, plan, world=1)
    loss = fit(net, task, plan)[-1].held_out
    assert loss is not None, "the end of a training is evaluated"
    pieces = steps * settings.batch_size * settings.sequence_length
    return {
        "width": width, "parameters": parameters, "steps": steps,
        "pieces": pieces, "seed": seed, "operations": float(PER_WEIGHT * parameters * pieces),
        "loss": loss, "bits_per_character": loss * len(targets) * texts.bits_per_nat(targets),
    }  # fmt: skip


def _targets(texts: Texts) -> Tensor:
    """The pieces that are predicted of the held-out text.  # [targets]"""
    row = known()[OBJECTIVE]
    (every,) = texts.scored(len(texts.held_out))
    labels = row.corrupt(every.tokens, every.special, Generator(), texts.vocabulary)["labels"]
    following = labels[:, 1:].flatten()
    return following[following != IGNORED]


def _unigram(texts: Texts, targets: Tensor) -> float:
    """Bits per character of the frequencies of pieces on the held-out text itself."""
    counts = targets.bincount(minlength=texts.vocabulary.size).double()
    shares = counts / counts.sum()
    return float(-shares.log()[targets].sum()) * texts.bits_per_nat(targets)


# --- what is fitted -------------------------------------------------------------------------------


def steepness(x: Floats, y: Floats) -> float:
    """How steeply the straight line through the logarithms rises, by least squares."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def exponents(cells: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The exponent of size with the most data, and that of data with the largest size."""
    for of, by, most in (("size", "parameters", "pieces"), ("data", "pieces", "parameters")):
        part = cells[cells[most] == cells[most].max()]
        if part[by].nunique() < FEW:
            continue
        by_seed = [
            -steepness(own[by].to_numpy(float), own["bits_per_character"].to_numpy(float))
            for _, own in part.groupby("seed")
        ]
        means = part.groupby(by)["bits_per_character"].mean()
        fitted = np.polyfit(np.log(means.index.to_numpy(float)), np.log(means.to_numpy()), 1)
        misses = np.log(means.to_numpy()) - np.polyval(fitted, np.log(means.index.to_numpy(float)))
        lower, upper = map(float, t_interval(np.array(by_seed)))
        yield {
            "of": of, "exponent": float(np.mean(by_seed)), "lower": lower, "upper": upper,
            "largest_miss": float(np.abs(np.expm1(misses)).max()), "points": len(means),
            "constant": float(np.exp(fitted[1])),
        }  # fmt: skip


def budgets(cells: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The loss of sizes at equal operations, and which size has the lowest.

    Of some budgets, those count for which a few sizes have trainings with fewer and with more
    operations.
    """
    means = cells.groupby(["parameters", "operations"])["bits_per_character"].mean()
    curves = {size: means[size].sort_index() for size in means.index.unique(0)}
    ends = means.index.get_level_values(1)
    for budget in np.geomspace(ends.min(), ends.max(), BUDGETS):
        loss = {
            size: float(np.interp(math.log(budget), np.log(curve.index.to_numpy()), curve))
            for size, curve in curves.items()
            if curve.index[0] <= budget <= curve.index[-1]
        }
        if len(loss) < FEW:
            continue
        best = min(loss, key=lambda size: loss[size])
        for size, bits in loss.items():
            yield {
                "operations": float(budget), "parameters": size, "bits_per_character": bits,
                "best": size == best,
            }  # fmt: skip


def _table(cells: pd.DataFrame, unigram: float) -> pd.DataFrame:
    keys = ["width", "parameters", "steps", "pieces"]
    rows = []
    for key, own in cells.groupby(keys, sort=False):
        lower, upper = map(float, t_interval(own["bits_per_character"].to_numpy()))
        rows.append(
            {
                **dict(zip(keys, key, strict=True)), "operations": own["operations"].iloc[0],
                "loss": own["loss"].mean(), "bits_per_character": own["bits_per_character"].mean(),
                "lower": lower, "upper": upper, "unigram": unigram,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _caveats(settings: Scaling, texts: Texts) -> Iterator[Caveat]:
    passes = max(settings.data) * settings.batch_size / len(texts.training)
    yield Caveat(
        "Exponents are of these sizes and amounts only. Kaplan et al. (2020) found 0.076 of size "
        "and 0.095 of data for losses in nats, with up to a billion weights and 22 billion pieces; "
        "a loss that no model can go below is not subtracted here, as it was not there.",
        ("exponents",),
    )
    if passes > 1:
        yield Caveat(
            f"The longest trainings read their text {passes:.2g} times: what they gain from "
            "repeated text is less than from new text."
        )
    yield Caveat(
        "All sizes have the same learning rate, batch size and length. Weights count without the "
        "embeddings, which the largest part of the smallest model is."
    )
    if len(settings.seeds) < 2:
        yield Caveat("One seed: the variation between trainings is not known.")
