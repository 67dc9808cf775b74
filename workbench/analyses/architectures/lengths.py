"""Windows of attention beside full attention, as texts grow: memory, time, operations and loss.

The nets are transformers' Longformer and RoBERTa of the same shape. Full attention is measured in
two ways: with all its weights stored, as in the papers, and in a fused kernel. Trainings read as
many pieces in a step whatever the length of a text, and the masks of a length are the same for both
kinds of attention. Costs: the trainings, on two cores about half a minute each by default, and a
minute of measurements.
"""

import time
import weakref
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import pairwise, product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Generator, Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import FlopCounterMode

from workbench.analyses.architectures.experiments import TextLength
from workbench.analyses.architectures.trained import (
    Fit,
    Texts,
    caveats_of,
    each_cell,
    plan_of,
    texts_of,
    with_interval,
)
from workbench.analyses.training.batches import micro
from workbench.analyses.training.families import Size, longformer, roberta
from workbench.analyses.training.objectives import known
from workbench.analyses.training.objectives.chunked_lm_loss import token_losses
from workbench.analyses.training.objectives.masked import IGNORED, masked
from workbench.analyses.training.packing import Sequences
from workbench.analyses.training.task import Micro, Task
from workbench.analyses.training.trainer import seed_of
from workbench.analyses.training.training_run import text_of
from workbench.experiment.definition import Caveat, Inputs, Progress, Result

WINDOWS, FULL, FUSED = "windows", "full", "fused"
KERNELS = {WINDOWS: "eager", FULL: "eager", FUSED: "sdpa"}  # transformers' names
TIMES = 3
COSTS = ("memory", "seconds", "operations")
_SCORED_STEP = -1  # the step that seeds the masks of the held-out text


def run(inputs: Inputs, settings: TextLength, progress: Progress) -> Result:
    """Measure costs by length, and train models on texts of some lengths."""
    with TemporaryDirectory() as folder:
        scratch = inputs.scratch or Path(folder)
        text = text_of(inputs)
        texts = {
            length: texts_of(
                inputs, "roberta", _size(settings, length), length, scratch, progress, text
            )
            for length in settings.trained_lengths
        }
        held_out = {
            length: _scored(each, settings.pieces_per_step // length)
            for length, each in texts.items()
        }
        keys = list(product(settings.trained_lengths, (FULL, WINDOWS), settings.seeds))
        cells = each_cell(
            keys,
            lambda key: settings.steps,
            lambda key: "-".join(map(str, key)),
            lambda key, fit: _cell(settings, texts[key[0]], held_out[key[0]], *key, fit),
            scratch,
            inputs,
            progress,
        )
        some = texts[settings.trained_lengths[0]]
        costs = _costs(settings, some, torch.device(inputs.device), progress)
        unigrams = {length: _unigram(each, held_out[length]) for length, each in texts.items()}
    tables = {
        "costs": costs,
        "growth": growth(costs),
        "table": _table(cells, unigrams),
        "cells": cells,
    }
    return Result(tables, caveats=tuple(_caveats(settings)))


def _size(settings: TextLength, length: int) -> Size:
    return Size(
        settings.n_layers,
        settings.width,
        settings.n_heads,
        settings.vocabulary_size,
        length,
        windows=(settings.window,),
    )


def new_net(attention: str, size: Size, texts: Texts, seed: int) -> Any:
    """A masked language model with random weights."""
    build: Callable[..., nn.Module] = longformer if attention == WINDOWS else roberta
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net: Any = build(size, texts.tokenizer)
    if attention != WINDOWS:
        net.set_attn_implementation(KERNELS[attention])
    return net


# --- one training ---------------------------------------------------------------------------------


def _cell(
    settings: TextLength,
    texts: Texts,
    held_out: list[dict[str, Tensor]],
    length: int,
    attention: str,
    seed: int,
    fit: Fit,
) -> dict[str, Any]:
    """The numbers of one training."""
    # the kernel is a matter of costs alone
    net = new_net(FUSED if attention == FULL else attention, _size(settings, length), texts, seed)
    size = settings.pieces_per_step // length
    rows = fit(net, _task(texts, held_out, seed, size, length), plan_of(settings, seed, size))
    return {
        "length": length, "attention": attention, "seed": seed, "loss": rows[-1].held_out,
        "training_loss": rows[-1].loss, "tokens": rows[-1].tokens, "seconds": rows[-1].seconds,
    }  # fmt: skip


def _task(
    texts: Texts, held_out: list[dict[str, Tensor]], seed: int, size: int, length: int
) -> Task:
    def draw(step: int, index: int) -> Micro:
        sequences = texts.training.batch(step * size, size)
        return micro(_masked(sequences, texts, seed_of(seed, step, 0)), known()["masked"])

    @lru_cache(maxsize=1)
    def evaluated() -> list[Micro]:
        return [micro(batch, known()["masked"]) for batch in held_out]

    return Task(draw, token_losses, held_out=evaluated, length=length)


def _masked(sequences: Sequences, texts: Texts, seed: int) -> dict[str, Tensor]:
    generator = Generator().manual_seed(seed)
    return masked(sequences.tokens, sequences.special, generator, texts.vocabulary)


def _scored(texts: Texts, size: int) -> list[dict[str, Tensor]]:
    """The held-out text with its masks, the same in all trainings of a length."""
    return [
        _masked(sequences, texts, seed_of(0, _SCORED_STEP, number))
        for number, sequences in enumerate(texts.scored(size))
    ]


def _unigram(texts: Texts, held_out: list[dict[str, Tensor]]) -> float:
    """Nats per masked piece of the frequencies of pieces in the training text, each plus one."""
    counts = torch.ones(texts.vocabulary.size, dtype=torch.double)
    content = len(texts.training) * texts.training.content
    pieces = texts.training.store.read(0, content).astype(np.int64)
    counts += torch.from_numpy(np.bincount(pieces, minlength=len(counts)))
    labels = torch.cat([batch["labels"].flatten() for batch in held_out])
    return float(-(counts / counts.sum()).log()[labels[labels != IGNORED]].mean())


# --- costs ----------------------------------------------------------------------------------------


class Alive(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of all tensors that operations return and that are alive.

    `known` tensors, such as weights, do not count.
    """

    def __init__(self, known: "list[Tensor]") -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes, self.peak = 0, 0
        self._storages = {tensor.untyped_storage()._cdata for tensor in known}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        returned = func(*args, **(kwargs or {}))
        tree_map_only(Tensor, self._count, returned)
        return returned

    def _count(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self._storages:
            return
        self._storages.add(key)
        self.bytes += size
        self.peak = max(self.peak, self.bytes)
        weakref.finalize(storage, self._free, key, size)

    def _free(self, key: int, size: int) -> None:
        self._storages.discard(key)
        self.bytes -= size


def _costs(
    settings: TextLength, texts: Texts, device: torch.device, progress: Progress
) -> pd.DataFrame:
    rows = []
    for attention, length in product(KERNELS, settings.lengths):
        progress(0, None, f"measuring: {attention} attention, {length:,} pieces")
        net = new_net(attention, _size(settings, length), texts, 0).to(device).train()
        rows.append({"attention": attention, "length": length, **_cost(net, length, device)})
    return pd.DataFrame(rows)


def _cost(net: Any, length: int, device: torch.device) -> dict[str, float]:
    """Memory, time and operations of a pass over one text."""
    ids = torch.arange(length, device=device)[None] % (net.config.vocab_size - 10) + 5

    def passed(backward: bool = True) -> None:
        logits = net(input_ids=ids).logits
        if backward:
            net.zero_grad()
            logits.float().logsumexp(-1).mean().backward()

    passed()  # the first pass also prepares kernels, and gradients
    counter = FlopCounterMode(display=False)
    kernel = net.config._attn_implementation
    if kernel == KERNELS[FUSED]:  # whose operations are not counted, and the same
        net.set_attn_implementation(KERNELS[FULL])
    with counter, torch.no_grad():
        passed(backward=False)
    if kernel == KERNELS[FUSED]:
        net.set_attn_implementation(kernel)
    net.zero_grad()
    alive = Alive([*net.parameters(), *net.buffers(), ids])
    with alive:
        passed()
    seconds = []
    for _ in range(TIMES):
        start = time.perf_counter()
        passed()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds.append(time.perf_counter() - start)
    return {
        "memory": alive.peak / 1e6,
        "seconds": median(seconds),
        "operations": counter.get_total_flops() / 1e6,
    }


def growth(costs: pd.DataFrame) -> pd.DataFrame:
    """The exponent of each cost from a length to the next."""
    rows = []
    for attention, part in costs.groupby("attention", sort=False):
        ordered = part.sort_values("length").to_dict("records")
        for one, next_ in pairwise(ordered):
            longer = np.log(next_["length"] / one["length"])
            row: dict[str, Any] = {"attention": attention, "length": next_["length"]}
            rows.append(row | {n: float(np.log(next_[n] / one[n]) / longer) for n in COSTS})
    return pd.DataFrame(rows)


# --- tables ---------------------------------------------------------------------------------------


def _table(cells: pd.DataFrame, unigrams: Mapping[int, float]) -> pd.DataFrame:
    rows = []
    for (length, attention), mine in cells.groupby(["length", "attention"], sort=False):
        values = mine["loss"].to_numpy(float)
        full = cells[(cells["length"] == length) & (cells["attention"] == FULL)]
        delta = values - full["loss"].to_numpy(float)
        delta = np.full(len(values), np.nan) if attention == FULL else delta
        row: dict[str, Any] = {"length": length, "attention": attention}
        row |= with_interval("loss", values, "") | with_interval("delta", delta, "delta_")
        rows.append({**row, "unigram": unigrams[int(mine["length"].iloc[0])]})
    return pd.DataFrame(rows)


def _caveats(settings: TextLength) -> list[Caveat]:
    said = [
        "Memory is that of tensors, as operations return them: an allocator keeps some more, and "
        "what a kernel uses inside of it is not seen. Times are those of this machine.",
        "Longformer also has projections for the pieces that see all, which RoBERTa lacks: as many "
        "weights as three of the four matrices of attention.",
        "Losses of texts of other lengths are over other masks of the same text.",
    ]
    return caveats_of(said, settings.seeds)
