"""Time of one search for nearest neighbours, relative to scikit-learn's brute force.

    OMP_NUM_THREADS=2 python -m tests.benchmarks.neighbours
    OMP_NUM_THREADS=2 python -m tests.benchmarks.neighbours --rows 50000 --rounds 3

Both arms find the 10 nearest of the same random rows by cosine, and must find the same ones first.
Scikit-learn is fitted before, with `algorithm="brute"` and `metric="cosine"`, and our norms are
computed before, as they are in an index. Ratios are medians over rounds, in turn, with their range.
`stored` searches a memory-mapped file, as an index on disk is, whose pages were read before.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.neighbors import NearestNeighbors

from workbench.analyses.words.nearest import Rows, nearest
from workbench.core.files import atomic_write

RESULTS = Path(__file__).parent / "results"
WIDTHS = (128, 768)
K = 10
LIMIT = 0.2  # seconds


def on_disk(states: np.ndarray, folder: Path) -> Rows:
    """The same rows in a memory-mapped file."""
    np.save(folder / "states.npy", states)
    return Rows.of(torch.from_numpy(np.load(folder / "states.npy", mmap_mode="c")))


def compared(width: int, n_rows: int, rounds: int) -> dict[str, object]:
    """Seconds of each arm, and their ratio."""
    random = np.random.default_rng(width)
    states = random.normal(size=(n_rows, width)).astype(np.float32)
    queries = random.normal(size=(rounds, width)).astype(np.float32)
    search = NearestNeighbors(n_neighbors=K, algorithm="brute", metric="cosine").fit(states)
    rows = Rows.of(torch.from_numpy(states))
    seconds: dict[str, list[float]] = {"ours": [], "stored": [], "scikit-learn": []}
    with tempfile.TemporaryDirectory() as folder:
        stored = on_disk(states, Path(folder))
        nearest(rows, torch.from_numpy(queries[0]), K)  # starts torch's threads
        for query in queries:
            start = time.perf_counter()
            _, ours = nearest(rows, torch.from_numpy(query), K)
            seconds["ours"].append(time.perf_counter() - start)
            start = time.perf_counter()
            _, from_disk = nearest(stored, torch.from_numpy(query), K)
            seconds["stored"].append(time.perf_counter() - start)
            start = time.perf_counter()
            theirs = search.kneighbors(query[None], return_distance=False)[0]
            seconds["scikit-learn"].append(time.perf_counter() - start)
            assert ours.tolist() == from_disk.tolist() == theirs.tolist()
    ratios = [a / b for a, b in zip(seconds["ours"], seconds["scikit-learn"], strict=True)]
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    return {
        "rows": n_rows,
        "width": width,
        "ours_seconds": round(medians["ours"], 4),
        "ours_range": [round(min(seconds["ours"]), 4), round(max(seconds["ours"]), 4)],
        "stored_seconds": round(medians["stored"], 4),
        "sklearn_seconds": round(medians["scikit-learn"], 4),
        "ratio": round(statistics.median(ratios), 3),
        "ratio_range": [round(min(ratios), 3), round(max(ratios), 3)],
        "within_limit": medians["ours"] < LIMIT,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=250_000, help="rows (default 250,000)")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of all arms (default 9)")
    chosen = parser.parse_args()
    load = os.getloadavg()[0]
    rows = []
    for width in WIDTHS:
        rows.append(compared(width, chosen.rows, chosen.rounds))
        print(rows[-1], flush=True)
    facts = {
        "threads": torch.get_num_threads(),
        "load_before": round(load, 1),
        "rounds": chosen.rounds,
        "k": K,
        "rows": rows,
    }
    with atomic_write(RESULTS / "neighbours.json") as draft:
        draft.write_text(json.dumps(facts, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
