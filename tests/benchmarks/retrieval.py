"""Time and memory of looking passages up, by BM25 and by vectors.

    OMP_NUM_THREADS=2 python -m tests.benchmarks.retrieval
    OMP_NUM_THREADS=2 python -m tests.benchmarks.retrieval --passages 100000

Passages have 20 words of a vocabulary of 50,000 whose frequencies follow Zipf's law; queries are
eight words of one of them. Vectors are random, of 128 dimensions. Both indices are written to files
and opened again, each in a process of its own. `memory` is the largest resident memory of a
process, what it needs to make the index included, in GB; `cpu` is processor time, which other work
on the machine does not change.
"""

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch

from workbench.core.files import atomic_write

RESULTS = Path(__file__).parent / "results"
WORDS, VOCABULARY, ASKED, K = 20, 50_000, 8, 10
ROUNDS = 25
WIDTH = 128
LIMIT, MEMORY = 0.05, 2.0  # seconds a query, GB


def bm25(n_passages: int) -> dict[str, float]:
    """BM25 over synthetic passages."""
    from workbench.analyses.retrieval.index import bm25_index

    random = np.random.default_rng(0)
    names = np.array([f"w{number}" for number in range(VOCABULARY)])
    share = 1 / np.arange(1, VOCABULARY + 1)
    total = np.cumsum(share / share.sum())
    texts = []
    for start in range(0, n_passages, 50_000):
        size = min(50_000, n_passages - start)
        drawn = np.searchsorted(total, random.random((size, WORDS))).clip(max=VOCABULARY - 1)
        texts += [" ".join(row) for row in names[drawn]]
    queries = [" ".join(texts[n].split()[:ASKED]) for n in random.integers(0, n_passages, ROUNDS)]
    begun = time.process_time()
    index = bm25_index(texts)
    built = time.process_time() - begun
    return {"build_cpu": round(built, 1), **timed(lambda n: index.top([queries[n]], K))}


def vectors(n_passages: int) -> dict[str, float]:
    """Exact search of vectors in a memory-mapped file."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    from workbench.analyses.retrieval.index import Vectors

    draw = torch.Generator().manual_seed(0)
    path = Path(os.environ["WORKBENCH_HOME"]) / "vectors.safetensors"
    rows = torch.empty(n_passages, WIDTH, dtype=torch.float16)
    for part in rows.split(50_000):
        part.copy_(torch.nn.functional.normalize(torch.randn(part.shape, generator=draw), dim=1))
    save_file({"vectors": rows}, path)
    del rows
    with safe_open(path, framework="pt") as file:
        stored = file.get_tensor("vectors")
    queries = torch.nn.functional.normalize(torch.randn(ROUNDS, WIDTH, generator=draw), dim=1)
    index = Vectors(stored, lambda texts: queries[[int(text) for text in texts]])
    return timed(lambda n: index.top([str(n)], K))


def timed(search: Callable[[int], object]) -> dict[str, float]:
    """Medians over queries, after one that is not counted."""
    search(0)
    walls, cpus = [], []
    for query in range(ROUNDS):
        wall, cpu = time.perf_counter(), time.process_time()
        search(query)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    return {
        "seconds": round(statistics.median(walls), 4),
        "cpu": round(statistics.median(cpus), 4),
        "memory": round(memory, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--passages", type=int, default=1_000_000, help="passages (default 1,000,000)"
    )
    chosen = parser.parse_args()
    load = os.getloadavg()[0]
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WORKBENCH_HOME"] = folder
        for arm in (bm25, vectors):
            with get_context("spawn").Pool(1) as pool:
                found[arm.__name__] = pool.apply(arm, (chosen.passages,))
            print(arm.__name__, found[arm.__name__], flush=True)
    facts = {
        "passages": chosen.passages,
        "threads": torch.get_num_threads(),
        "load_before": round(load, 1),
        **found,
        "within_limits": {
            name: each["seconds"] < LIMIT and each["memory"] < MEMORY
            for name, each in found.items()
        },
    }
    with atomic_write(RESULTS / "retrieval.json") as draft:
        draft.write_text(json.dumps(facts, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
