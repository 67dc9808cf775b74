"""Bytes, memory and latency of a saved model, in a new process, paired with the original.

Run as a module, this file is that process. First it opens the smaller model alone, for its memory.
Then both models read the same texts in turn, so that a busy machine slows both. Costs: the imports
(where the starter runs: a fork), and `rounds` passes of each batch by both models.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.core.errors import WorkbenchError
from workbench.core.machine import stretch
from workbench.core.stats import SIGNIFICANT, binomial_p_values, holm, interval_around
from workbench.engine import batch as batches
from workbench.engine.batch import Batch
from workbench.runs.processes import starter

if TYPE_CHECKING:
    from spacy.tokens import Doc

SIZES = (1, 32)  # texts in a batch
WARM_UP = 2  # pairs that are not counted
LEAST = 0.01  # seconds of a measurement; short passes are repeated
DRAWS = 1000


def costs(original: Path, smaller: Path, texts: Batch, rounds: int, device: str) -> dict[str, Any]:
    """What `main` prints: `memory`, and for each batch size the seconds of each pair."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as out:
        file = Path(folder, "texts.safetensors")
        batches.save(texts, file)
        arguments = [str(original), str(smaller), str(file), str(rounds), device]
        with Path(os.devnull).open("rb") as nothing, tempfile.TemporaryFile() as log:
            process: Any = starter.fork(
                __name__, arguments,
                stdin=nothing.fileno(), stdout=out.fileno(), stderr=log.fileno(),
            ) or subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, *arguments],
                stdin=nothing, stdout=out, stderr=log,
            )  # fmt: skip
            code = process.wait()
            log.seek(0)
            said = log.read().decode(errors="replace").splitlines()
        out.seek(0)
        lines = out.read().splitlines()
    if code or not lines:
        raise WorkbenchError(
            "the process that measures a saved model ended early"
            f"{': ' + said[-1] if said else ''}.",
            code="internal",
            where=str(smaller),
            remedy="Free some memory, or leave latency out (rounds=0).",
        )
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def measured(
    docs: "Sequence[Doc]", models: tuple[Path, Path], rounds: int, device: str, seed: int
) -> dict[str, Any]:
    """By number of texts: latency of the original and the smaller model, its ratio, and memory."""
    from workbench.corpora.encode import encode

    random = np.random.default_rng(seed)
    texts = encode([docs[index] for index in random.permutation(len(docs))[: SIZES[-1]]])
    found = costs(*models, texts, rounds, device)
    return {
        size: {**speedup(seconds, seed), "memory": found["memory"]}
        for size, seconds in found["seconds"].items()
    }


def main() -> int:
    """Measure the models of the command line, and print one line of JSON."""
    import torch

    from workbench.models.loading import load

    original, smaller, file, rounds, device = sys.argv[1:]
    texts = batches.load(Path(file))
    where = torch.device(device)
    with stretch(torch.device("cpu")) as idle:
        pass
    with stretch(where) as used, torch.no_grad():
        small = load(smaller, device, "fp32")
        _pass(small, texts, SIZES[-1])
    memory = used.memory - (idle.memory if where.type == "cpu" else 0.0)
    whole = load(original, device, "fp32")
    seconds = {
        size: [list(pair) for pair in _pairs((whole, small), texts, size, int(rounds))]
        for size in SIZES
    }
    print(json.dumps({"memory": memory, "seconds": seconds}))
    return 0


def _pass(model: Any, texts: Batch, size: int) -> Any:
    documents = [index % len(texts) for index in range(size)]
    pieces = model.encode(texts, documents).to(model.device)
    model.forward(pieces, hidden=False, logits=True)
    return pieces


def _pairs(
    models: tuple[Any, Any], texts: Batch, size: int, rounds: int
) -> "list[tuple[float, float]]":
    """Seconds of a pass by both models, in turn; each other time the second one begins."""
    import torch

    with torch.no_grad():
        inputs = [_pass(model, texts, size) for model in models]
        with stretch(models[0].device) as took:
            models[0].forward(inputs[0], hidden=False, logits=True)
        times = max(1, ceil(LEAST / max(took.seconds, 1e-6)))
        found = []
        for number in range(rounds + WARM_UP):
            pair = [0.0, 0.0]
            for index in (0, 1) if number % 2 else (1, 0):
                with stretch(models[index].device) as took:
                    for _ in range(times):
                        models[index].forward(inputs[index], hidden=False, logits=True)
                pair[index] = took.seconds / times
            found.append((pair[0], pair[1]))
    return found[WARM_UP:]


def speedup(seconds: "list[list[float]]", seed: int) -> dict[str, Any]:
    """Median milliseconds of both models, their ratio with its interval, and the p-value of > 1."""
    pairs = np.array(seconds)  # [rounds, 2]
    ratios = pairs[:, 0] / pairs[:, 1]
    random = np.random.default_rng([seed, len(ratios)])
    draws = np.median(ratios[random.integers(0, len(ratios), (DRAWS, len(ratios)))], 1)
    value = float(np.median(ratios))
    lower, upper = (float(end) for end in interval_around(value, draws))
    before, after = 1000 * np.median(pairs, 0)
    p = binomial_p_values(np.array((ratios > 1).sum()), np.array(len(ratios)), 0.5)
    return {
        "original": before, "compressed": after, "speedup": value, "lower": lower, "upper": upper,
        "p": float(p),
    }  # fmt: skip


def judged_together(rows: "list[dict[str, Any]]") -> "list[dict[str, Any]]":
    """The rows with corrected p-values: faster if the interval is above 1, too."""
    p_values = holm([row["p"] for row in rows])
    return [
        {**row, "p": float(p), "faster": bool(row["lower"] > 1 and p < SIGNIFICANT)}
        for row, p in zip(rows, p_values, strict=True)
    ]


if __name__ == "__main__":
    sys.exit(main())
