"""A memory of the text before a segment, as in Transformer-XL, with and without it.

A text is read in segments from the left. A segment reads the states of the pieces before it in each
layer, as they were when their own segment was read, without a gradient. The net is XLNet from one
side, whose first stream is Transformer-XL. All models predict the same pieces: the last of a text,
as many as the longest segment has; the pieces before them only fill memories. A memory is read
again in every step, so that a training can go on from any step. Costs: the trainings, on two cores
about half a minute each by default.
"""

from collections.abc import Callable, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from workbench.analyses.architectures.experiments import Recurrence
from workbench.analyses.architectures.trained import (
    Fit,
    Texts,
    caveats_of,
    each_cell,
    plan_of,
    texts_of,
    with_interval,
)
from workbench.analyses.training.families import Size, xlnet
from workbench.analyses.training.objectives.chunked_lm_loss import linear_nats
from workbench.analyses.training.task import Micro, Task
from workbench.experiment.definition import Caveat, Inputs, Progress, Result

QUARTERS = 4
LENGTHS = (64, 128, 256, 512)  # of the texts whose costs are counted
Memory = list[Tensor] | None  # of each layer, [pieces, batch, width]
Change = Callable[[Memory], Memory]


def states_of(
    net: Any, ids: Tensor, segment: int, memory: int, scored: int, change: Change | None = None
) -> Tensor:
    """States of the last `scored` pieces, read in segments.  # [batch, scored, width]

    `change` may exchange the memory before each segment.
    """
    found, kept = [], None
    first = ids.shape[1] - scored
    for start in range(0 if memory else first, ids.shape[1], segment):
        part = ids[:, start : start + segment]
        with torch.set_grad_enabled(torch.is_grad_enabled() and start >= first):
            given = kept if change is None else change(kept)
            out = net.transformer(part, mems=given, use_mems=memory > 0)
        if memory:  # the states that the layers read, without a gradient
            kept = [each[-memory:] for each in out.mems]
        if start >= first:
            found.append(out.last_hidden_state)
    return torch.cat(found, 1)


def other_text(kept: Memory) -> Memory:
    """The memory of the next text of a batch."""
    return None if kept is None else [each.roll(1, dims=1) for each in kept]


def run(inputs: Inputs, settings: Recurrence, progress: Progress) -> Result:
    """Train a model for each segment, memory and seed, and compare them."""
    scored = max(settings.segments)
    warm = -(-max(settings.memories) // scored) * scored  # pieces that only fill memories
    size = Size(
        settings.n_layers, settings.width, settings.n_heads, settings.vocabulary_size, scored
    )
    with TemporaryDirectory() as folder:
        scratch = inputs.scratch or Path(folder)
        texts = texts_of(inputs, "gpt", size, warm + scored + 1, scratch, progress)
        targets = torch.cat([each.tokens[:, -scored:].flatten() for each in texts.scored(64)])
        keys = list(product(settings.segments, settings.memories, settings.seeds))
        table = each_cell(
            keys,
            lambda key: settings.steps,
            lambda key: f"segment-{key[0]}-memory-{key[1]}-{key[2]}",
            lambda key, fit: _cell(settings, texts, targets, size, *key, fit),
            scratch,
            inputs,
            progress,
        )
    tables = {
        "table": _table(table, _unigram(texts, targets)),
        "positions": _positions(table),
        "costs": _costs(size, texts, settings),
        "cells": table,
    }
    return Result(tables, caveats=tuple(_caveats(settings, texts)))


# --- one training ---------------------------------------------------------------------------------


def _cell(
    settings: Recurrence,
    texts: Texts,
    targets: Tensor,
    size: Size,
    segment: int,
    memory: int,
    seed: int,
    fit: Fit,
) -> dict[str, Any]:
    """The numbers of one training."""
    net = new_net(size, texts, seed)
    task = _task(texts, settings, segment, memory, seed)
    rows = fit(net, task, plan_of(settings, seed, evaluations=10))
    scored, batch = size.sequence_length, settings.batch_size
    nats = held_out_nats(net, texts, segment, memory, scored, batch)  # [texts, scored]
    places = torch.arange(scored) % segment * QUARTERS // segment
    scale = texts.bits_per_nat(targets)
    cell = {
        "segment": segment, "memory": memory, "seed": seed, "loss": float(nats.mean()),
        "bits_per_character": float(nats.sum()) * scale, "training_loss": rows[-1].loss,
        "seconds": rows[-1].seconds,
    }  # fmt: skip
    other = nats
    if memory:
        other = held_out_nats(net, texts, segment, memory, scored, batch, other_text)
    cell["other_text"] = float(other.sum()) * scale
    for quarter in range(QUARTERS):
        cell[f"quarter_{quarter + 1}"] = float(nats[:, places == quarter].mean())
    return cell


def new_net(size: Size, texts: Texts, seed: int) -> Any:
    """A Transformer-XL with random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return xlnet(size, texts.tokenizer, "uni")


def _task(texts: Texts, settings: Recurrence, segment: int, memory: int, seed: int) -> Task:
    scored, size = max(settings.segments), settings.batch_size

    def draw(step: int, index: int) -> Micro:
        # the order of texts is of the run, so that it starts elsewhere for each seed
        tokens = texts.training.batch((seed * settings.steps + step) * size, size).tokens
        inputs = {"ids": tokens[:, :-1], "gold": tokens[:, -scored:].flatten()}
        return Micro(inputs, torch.tensor([len(inputs["gold"])]), len(inputs["gold"]))

    def losses(net: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
        model: Any = net
        states = states_of(model, inputs["ids"], segment, memory, scored)
        output = model.get_output_embeddings()
        return linear_nats(states.flatten(0, 1), output.weight, output.bias, inputs["gold"])[None]

    return Task(draw, losses, length=scored)


@torch.no_grad()
def held_out_nats(
    net: Any, texts: Texts, segment: int, memory: int, scored: int, batch: int,
    change: Change | None = None,
) -> Tensor:  # fmt: skip
    """Nats of the last pieces of the held-out texts.  # [texts, scored]"""
    net.eval()
    device, found = next(net.parameters()).device, []
    for sequences in texts.scored(batch):
        tokens = sequences.tokens.to(device)
        states = states_of(net, tokens[:, :-1], segment, memory, scored, change)
        logits = net.lm_loss(states).transpose(1, 2)
        found.append(functional.cross_entropy(logits, tokens[:, -scored:], reduction="none").cpu())
    net.train()
    return torch.cat(found)


def _unigram(texts: Texts, targets: Tensor) -> float:
    """Bits per character of the frequencies of pieces in the training text, each plus one."""
    counts = torch.ones(texts.vocabulary.size, dtype=torch.double)
    store_, content = texts.training.store, len(texts.training) * texts.training.content
    counts += torch.from_numpy(
        np.bincount(store_.read(0, content).astype(np.int64), minlength=len(counts))
    )
    nats = -(counts / counts.sum()).log()[targets].sum()
    return float(nats) * texts.bits_per_nat(targets)


# --- tables ---------------------------------------------------------------------------------------


def _table(cells: pd.DataFrame, unigram: float) -> pd.DataFrame:
    rows = []
    for (segment, memory), mine in cells.groupby(["segment", "memory"], sort=False):
        values = mine["bits_per_character"].to_numpy()
        row: dict[str, Any] = {"segment": segment, "memory": memory, "loss": mine["loss"].mean()}
        row |= with_interval("bits_per_character", values, "")
        bare = cells[(cells["segment"] == segment) & (cells["memory"] == 0)]
        nothing = np.full(len(values), np.nan)
        same = nothing if not memory or bare.empty else bare["bits_per_character"].to_numpy()
        row |= with_interval("delta", values - same, "delta_")
        other = mine["other_text"].to_numpy() if memory else nothing
        row["other_text"] = other.mean()
        row |= with_interval("own_gain", other - values, "own_gain_")
        rows.append({**row, "unigram": unigram})
    return pd.DataFrame(rows)


def _positions(cells: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for (segment, memory), mine in cells.groupby(["segment", "memory"], sort=False):
        for quarter in range(1, QUARTERS + 1):
            values = mine[f"quarter_{quarter}"].to_numpy()
            key = {"segment": segment, "memory": memory, "quarter": quarter}
            rows.append({**key, **with_interval("loss", values, "")})
    return pd.DataFrame(rows)


def _costs(size: Size, texts: Texts, settings: Recurrence) -> pd.DataFrame:
    """Operations of whole texts, and of segments with a full memory, which no length changes."""
    net, rows = new_net(size, texts, 0).eval(), []

    @cache
    def per_piece(length: int, memory: int) -> float:
        ids = torch.zeros(1, length, dtype=torch.long)
        kept = [torch.zeros(memory, 1, size.width)] * size.n_layers if memory else None
        counter = FlopCounterMode(display=False)
        with counter, torch.no_grad():
            net.lm_loss(net.transformer(ids, mems=kept).last_hidden_state)
        return counter.get_total_flops() / length / 1e3

    ways = [(0, 0), *product(settings.segments, settings.memories)]
    for (segment, memory), length in product(ways, LENGTHS):
        cost = per_piece(segment or length, memory)
        rows.append({"segment": segment, "memory": memory, "length": length, "operations": cost})
    return pd.DataFrame(rows)


def _caveats(settings: Recurrence, texts: Texts) -> list[Caveat]:
    passes = settings.steps * settings.batch_size / len(texts.training)
    said = [
        f"A training is {settings.steps:,} steps of {settings.batch_size} texts, {passes:.2g} "
        "passes over the text: it shows what learns fastest, not what is best in the end.",
        "A memory is read again in every step by the present weights, from the pieces just before "
        "the predicted ones; Transformer-XL keeps the states of the step before.",
    ]
    return caveats_of(said, settings.seeds)
