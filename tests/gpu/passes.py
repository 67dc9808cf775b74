"""A pass over a corpus on a device: what it waits for, what it writes, and where memory is short.

Costs ten seconds on a GPU, most of them for a model of BERT-base's shape.
"""

import time
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from tests.benchmarks import engine
from tests.gpu.checks import MIB, Figures, Setting, apart, peak_of, timed
from tests.gpu.made import batch_of, opened, saved
from tests.models.stores import stored
from workbench import Reduce, forward
from workbench.engine.batch import Batch
from workbench.engine.forward_pass import Report
from workbench.engine.map_statistics import together
from workbench.models.huggingface import HuggingFace

WAITS = 4  # for the device, in a batch, at most
READS = 12  # of any tensor, also on the host, where nothing waits
SUMMED = (
    5  # statistics that are sums; the others count where a maximum is, and ties fall either way
)
BUSY = 0.5  # of a pass over long texts, at least
READ = "aten::_local_scalar_dense"  # what a number read from a tensor calls, on any device


def shaped(setting: Setting, batch: Batch) -> HuggingFace:
    """A random model of BERT-base's shape, or of a far smaller one."""
    dtype = torch.bfloat16 if setting.half == "bf16" else torch.float32
    layers, width = (2, 128) if setting.small else (12, 768)
    return engine.model(batch, str(setting.device), dtype, layers, width)


def waits(setting: Setting, figures: Figures) -> None:
    """How often a pass waits for the device, and how long the device waits for the pass."""
    few = 40 if setting.small else 2_000
    for name, batch in {"short": batch_of(2 * few), "long": batch_of(few, 120, 80)}.items():
        model = shaped(setting, batch)
        batches = _pass(model, batch)[1]  # to warm up
        (report, _), seconds = timed(setting, partial(_pass, model, batch))
        kinds = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * setting.on_gpu
        with profile(activities=kinds) as seen:
            _pass(model, batch)
        read = sum(event.name == READ for event in seen.events())
        figures.note(f"{name}: documents", len(batch))
        figures.note(f"{name}: batches", batches)
        figures.note(f"{name}: pieces a second", round(report.pieces / seconds))
        figures.note(f"{name}: share of padding", report.padding / (report.pieces + report.padding))
        figures.at_most(f"{name}: numbers read a batch", read / batches, READS)
        if not setting.on_gpu:
            continue
        found, places = _synchronisations(partial(_pass, model, batch))
        figures.at_most(f"{name}: waits a batch", found / batches, WAITS)
        figures.note(f"{name}: waits by place", places)
        busy = _covered(
            [
                (event.time_range.start, event.time_range.end)
                for event in seen.events()
                if event.device_type == DeviceType.CUDA
            ]
        )
        share = busy / 1e6 / seconds
        if name == "long" and not setting.small:
            figures.at_least(f"{name}: share of time that the device is busy", share, BUSY)
        else:
            figures.note(f"{name}: share of time that the device is busy", share)


def _pass(model: HuggingFace, batch: Batch) -> tuple[Report, int]:
    """A pass with statistics of all heads, and how many batches it had."""
    seen: list[int] = []
    report = forward(
        model,
        batch,
        lambda text, output: seen.append(len(text)),
        taps=[Reduce(together())],
        hidden=False,
    )
    return report, len(seen)


def _synchronisations(work: Callable[[], Any]) -> tuple[int, dict[str, int]]:
    """How often some work waits for the device, and the ten places that wait most."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            work()
        finally:
            torch.cuda.set_sync_debug_mode(before)
    own = [each for each in warned if "synchronizing" in str(each.message)]
    places = Counter("/".join(Path(e.filename).parts[-2:]) + f":{e.lineno}" for e in own)
    return len(own), dict(places.most_common(10))


def _covered(ranges: list[tuple[float, float]]) -> float:
    """What ranges cover together, each moment once."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(ranges):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def store(setting: Setting, figures: Figures) -> None:
    """A store written twice is the same bytes, and close to the one that the CPU writes."""
    batch = batch_of(60 if setting.small else 600)
    for name in ("bert", "gpt2"):
        folder = saved(name, setting.folder)
        written = {
            place: stored(opened(folder, device), batch, setting.folder / f"{name}-{place}-store")[
                0
            ]
            for place, device in (("one", setting.device), ("two", setting.device), ("cpu", "cpu"))
        }
        bytes_of = {place: _bytes(found.folder) for place, found in written.items()}
        figures.holds(f"{name}: the same bytes twice", bytes_of["one"] == bytes_of["two"])
        far = max(
            apart(written["one"].layer(layer).float(), written["cpu"].layer(layer).float())
            for layer in range(written["cpu"].description.layers + 1)
        )
        figures.at_most(f"{name}: apart from the CPU's, in fp16", far, 1e-3)
        same = np.array_equal(written["one"].missing, written["cpu"].missing)
        figures.holds(f"{name}: the same words are missing", same)


def _bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def halving(setting: Setting, figures: Figures) -> None:
    """Where memory does not suffice batches are halved, and the sums stay the same."""
    setting.require_gpu()
    batch = batch_of(500, 120, 100)
    model = shaped(setting, batch)
    expected, found = Reduce(together()), Reduce(together())

    def whole() -> None:
        forward(model, batch, taps=[expected], hidden=False, pieces=32_768)

    figures.note("MiB at the whole batch", peak_of(setting, figures, whole))
    needed = torch.cuda.max_memory_reserved()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    cap = before + 0.6 * (needed - before)
    figures.note("MiB allowed", round(cap / MIB))
    torch.cuda.set_per_process_memory_fraction(cap / torch.cuda.mem_get_info()[1])
    started = time.perf_counter()
    try:
        report = forward(model, batch, taps=[found], hidden=False, pieces=32_768)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    figures.note("seconds with too little memory", time.perf_counter() - started)
    figures.at_least("halvings", report.halvings, 1)
    figures.holds("every document came", report.documents == len(batch))
    both = [(found.total[site], expected.total[site]) for site in model.sites]
    far = max(apart(one[:, :SUMMED], two[:, :SUMMED]) for one, two in both)
    figures.at_most(
        "apart from the whole batch's sums", far, 1e-2 if setting.half == "bf16" else 1e-4
    )
