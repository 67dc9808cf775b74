"""Cost of probing on a device, compared with the lower bound from the device's speed.

    python -m tests.benchmarks.probing_device --write FOLDER          encode the inputs
    python -m tests.benchmarks.probing_device --read FOLDER --device cuda --precision bf16

A random model of BERT-base's shape, 13 layers, five tasks, three seeds, probe and control: 390 edge
probes over 12,000 sentences, each for a fixed number of epochs, so that the work is known. The
lower bound is the larger of two times: the FLOPs of the products at the measured speed of a large
matrix product in the same precision, and the bytes of parameters, gradients and Adam's two means at
the measured speed of a copy. `--read` needs only torch and transformers.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.benchmarks import engine
from tests.benchmarks.engine import Quiet
from workbench.analyses.probes.probe_training import (
    Data,
    Probe,
    Schedule,
    Shape,
    batch_size,
    initial,
    train_seeds,
)
from workbench.analyses.probes.representations import Bank, build_banks, encoded
from workbench.corpora.splits import DEV, TRAIN
from workbench.engine import batch as batches
from workbench.engine.batch import Batch

TASKS = ("pos", "dependencies", "constituents", "entities", "roles")
SEEDS, HIDDEN = 3, 256
MOVED = 10  # reads and writes of a parameter, its gradient, step and two means


def write(folder: Path, sentences: int, most: int) -> None:
    """The encoded sentences, and each task's targets with their control labels."""
    import numpy as np

    from workbench import encode, read
    from workbench.analyses.probes.probe_inputs import tasks_in
    from workbench.analyses.probes.targets import control_labels, examples_of
    from workbench.models.word_models import words_of

    primer = read(f"primer:size={sentences}")
    docs = [*primer.docs(TRAIN, sentences), *primer.docs(DEV, sentences // 10)]
    tasks = tasks_in(primer, TASKS)
    batch = encode(docs, [task.layer for task in tasks])
    part_of = np.array([0] * min(sentences, len(docs)) + [1] * (len(docs) - sentences))
    words = [word for document in range(len(batch)) for word in words_of(batch, document)]
    none = torch.zeros(len(batch.words), dtype=torch.bool)
    folder.mkdir(parents=True, exist_ok=True)
    batches.save(batch, folder / "batch.safetensors")
    for task in tasks:
        found = examples_of(task, batch, part_of, none, most, 0)
        control = control_labels(found, words, 0)
        kept = {
            "spans": torch.stack(found.spans),
            "labels": torch.stack([found.labels, control]),
            "unseen": found.unseen,
            "part": found.part,
        }
        torch.save(kept, folder / f"{task.name}.pt")
        print(f"{task.name}: {len(found):,} targets, {found.labels.shape[1]} labels")


def targets(path: Path) -> tuple[Data, Data]:
    """Training data and dev data."""
    kept = torch.load(path, weights_only=True)
    scored = torch.ones(kept["labels"].shape[2], dtype=torch.bool)
    data = Data(tuple(kept["spans"]), kept["labels"], kept["unseen"], scored)
    learnt, dev = (data.take(torch.nonzero(kept["part"] == part).flatten()) for part in (0, 1))
    return learnt, dev


def timed(device: str, work: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    found = work()
    if device == "cuda":
        torch.cuda.synchronize()
    return found, time.perf_counter() - started


def rates(device: str) -> dict[str, float]:
    """FLOPs per second of products in single precision, and bytes per second of a copy."""
    size = 8192 if device == "cuda" else 1024
    one, two = (torch.randn(size, size, device=device) for _ in range(2))
    products = [timed(device, lambda: one @ two)[1] for _ in range(12)][2:]
    many = torch.zeros((1 << 28) if device == "cuda" else (1 << 24), device=device)
    other = torch.ones_like(many)
    copies = [timed(device, lambda: other.copy_(many))[1] for _ in range(12)][2:]
    return {
        "flops": 2 * size**3 / statistics.median(products),
        "bytes": 2 * 4 * many.numel() / statistics.median(copies),
    }


def floor(shape: Shape, learnt: Data, steps: int, probes: int, rate: dict[str, float]) -> float:
    """Lower bound of the seconds for this number of steps and probes.

    The first product is asked for its weights' slope alone, the last for its inputs' too.
    """
    own = {name: value.numel() for name, value in initial(shape, 0).items()}
    targets = len(learnt) * steps / -(-len(learnt) // batch_size(len(learnt), Schedule()))
    flops = probes * targets * (4 * own["first"] + 6 * own["out"])
    moved = probes * steps * sum(own.values()) * 4 * MOVED
    return max(flops / rate["flops"], moved / rate["bytes"])


def trained(
    bank: Bank, learnt: Data, dev: Data, given: argparse.Namespace, rate: dict[str, float]
) -> dict[str, float]:
    """Train all probes of one task: all seeds and layers, task and control task."""
    schedule = Schedule(epochs=given.epochs, patience=given.epochs + 1)
    probes = [Probe((layer,), control) for layer in range(given.layers + 1) for control in (0, 1)]
    seeds = dict.fromkeys(range(SEEDS), learnt)
    found, seconds = timed(
        given.device, lambda: train_seeds("edge", HIDDEN, bank, probes, seeds, dev, schedule)
    )
    number = len(probes) * SEEDS
    least = floor(found[0].shape, learnt, found[0].updates, number, rate)
    return {
        "targets": len(learnt),
        "labels": learnt.labels.shape[2],
        "probes": number,
        "updates": found[0].updates * number,
        "seconds": seconds,
        "floor": least,
        "to_floor": seconds / least,
    }


def measured(given: argparse.Namespace, batch: Batch, home: Path) -> dict[str, Any]:
    dtype = torch.bfloat16 if given.precision == "bf16" else torch.float32
    ours = engine.model(batch, given.device, dtype, given.layers)
    own, encoding = timed(given.device, lambda: encoded(ours, batch, home, Quiet()))
    train = torch.arange(len(batch.words))
    bank, filling = timed(
        given.device, lambda: build_banks(own.sources, torch.device(given.device), train)[0]
    )
    rate = rates(given.device)
    tasks = {
        path.stem: trained(bank, *targets(path), given, rate)
        for path in sorted(given.read.glob("*.pt"))
    }
    probing = sum(task["seconds"] for task in tasks.values())
    least = sum(task["floor"] for task in tasks.values())
    result = {
        "sentences": len(batch),
        "encoding": encoding,
        "filling": filling,
        "probing": probing,
        "floor": least,
        "to_floor": probing / least,
        "tasks": tasks,
        "rates": rate,
        "epochs": given.epochs,
        "torch": torch.__version__,
    }
    if given.device == "cuda":
        result["device"] = torch.cuda.get_device_name()
        result["peak_mib"] = torch.cuda.max_memory_allocated() / 2**20
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--read", type=Path)
    parser.add_argument("--sentences", type=int, default=12_000)
    parser.add_argument(
        "--targets",
        type=int,
        default=20_000,
        help="maximum number of targets per task (default 20000)",
    )
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.write:
        write(given.write, given.sentences, given.targets)
        return
    with tempfile.TemporaryDirectory() as home:
        found = measured(given, batches.load(given.read / "batch.safetensors"), Path(home))
    text = json.dumps(found, indent=1)
    print(text)
    if given.json:
        given.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
