"""How long commands take to start, as ratios to what no command can avoid.

    python -m tests.benchmarks.start --before /path/to/an/earlier/checkout

Each round measures everything once, in turns: the imports that the ratios refer to, and each
command on every checkout, the first of one round last in the next. A ratio compares times of one
round; printed and stored are its median and range. The analysis itself is the time that a run
stores of itself when its process was forked from a starter, so without imports. "cold" is a first
command, without a starter; after it the new starter imports for some seconds, which would slow
what is measured next. "warm" is a command that finds one. Costs: about 55 s a round and checkout
on two quiet cores.

    python -m tests.benchmarks.start --app

measures pages of the app while two runs are under way instead (`app_pages.py`), and adds that to
the same results.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.core.files import atomic_write

RESULTS = Path(__file__).parent / "results" / "start.json"
HERE = Path(__file__).parents[2]
RUN = ["run", "heads", "--model", "mini:bert", "--corpus", "primer"]
BASES = {"numpy": "numpy", "pandas": "pandas", "libraries": "torch, transformers, spacy"}
LIGHT = {  # command: the most it may take, in imports of numpy
    "--help": 2,
    "models": 3,
    "runs list": 4,
    "experiments": 3,
}
LATER = 15.0  # seconds in which a starter imports what it can when it has nothing else to do


class Checkout:
    """The commands of one checkout, in folders of its own."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        self.runs = folder / "runs"

    def seconds(self, arguments: list[str], round_: str) -> float:
        """Seconds that a command takes; each `round_` has a starter of its own."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.root),
            "WORKBENCH_HOME": str(self.folder / "home"),
            "WORKBENCH_RUNS": str(self.runs),
            "WORKBENCH_STARTER": "300" if round_ == "warm" else "10",
            "BENCHMARK_ROUND": round_,
        }
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "workbench", *arguments],
            env=environment,
            cwd=self.folder,
            check=True,
            capture_output=True,
        )
        return time.perf_counter() - began

    def new_run(self, round_: str) -> tuple[float, float]:
        """Seconds of the command, and of its analysis; nothing is on disk."""
        shutil.rmtree(self.runs, ignore_errors=True)
        whole = self.seconds(RUN, round_)
        (provenance,) = self.runs.glob("heads-*/provenance.json")
        return whole, json.loads(provenance.read_text())["seconds"]


def base(modules: str) -> float:
    """Seconds of a process that imports these."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {modules}"], check=True)
    return time.perf_counter() - began


def measured(checkouts: Mapping[str, Checkout], number: int) -> dict[str, Any]:
    """One round: seconds of the bases and of every command."""
    found: dict[str, Any] = {name: base(modules) for name, modules in BASES.items()}
    found["load"] = os.getloadavg()[0]
    for name, checkout in list(checkouts.items())[:: -1 if number % 2 else 1]:
        own: dict[str, float] = {}
        own["cold"], _ = checkout.new_run(f"cold {number}")
        time.sleep(LATER)
        own["warm"], own["analysis"] = checkout.new_run("warm")
        own["from disk"] = checkout.seconds(RUN, "warm")
        own |= {line: checkout.seconds(line.split(), "warm") for line in LIGHT}
        found[name] = own
    return found


def ratios(found: Mapping[str, Any], name: str) -> dict[str, float]:
    """The ratios of one round; the analysis is that of this checkout, without imports."""
    own, analysis = found[name], found["after"]["analysis"]
    return {
        "cold": own["cold"] / (analysis + found["libraries"]),
        "warm": own["warm"] / analysis,
        "from disk": own["from disk"] / found["pandas"],
        **{line: own[line] / found["numpy"] for line in LIGHT},
    }


def summary(rounds: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Median and range of each ratio, with the seconds of the command."""
    most = {"cold": 1.2, "warm": 2, "from disk": 3, **LIGHT}
    table = {}
    for what, most_of in most.items():
        each = [ratios(found, name)[what] for found in rounds]
        table[what] = {
            "ratio": round(statistics.median(each), 2),
            "range": [round(min(each), 2), round(max(each), 2)],
            "seconds": round(statistics.median(found[name][what] for found in rounds), 3),
            "most": most_of,
        }
    return table


def measure_app(before: Path | None, rounds: int, out: Path) -> None:
    """Measure pages of the app, and store that with what `out` has already."""
    from tests.benchmarks.app_pages import App, measured

    facts: dict[str, Any] = json.loads(out.read_text("utf-8")) if out.exists() else {}
    found: dict[str, Any] = {"cores": os.cpu_count(), "rounds": rounds}
    for name, root in {"before": before, "after": HERE}.items():
        if root is not None:
            with tempfile.TemporaryDirectory(prefix="pages-", ignore_cleanup_errors=True) as folder:
                found[name] = measured(App(root.resolve(), Path(folder)), rounds)
            print(name, json.dumps(found[name], indent=1), flush=True)
    facts["app"] = found
    with atomic_write(out) as draft:
        draft.write_text(json.dumps(facts, indent=2) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds (default 5)")
    parser.add_argument("--before", type=Path, help="an earlier checkout (default: none)")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--app", action="store_true", help="measure the app, not commands")
    chosen = parser.parse_args()
    if chosen.app:
        measure_app(chosen.before, chosen.rounds, chosen.out)
        return
    with tempfile.TemporaryDirectory(prefix="start-", ignore_cleanup_errors=True) as folder:
        roots = {"before": chosen.before, "after": HERE}
        checkouts = {
            name: Checkout(root.resolve(), Path(folder) / name)
            for name, root in roots.items()
            if root is not None
        }
        for checkout in checkouts.values():
            checkout.folder.mkdir()
            checkout.new_run("warm")  # compiles, and stores the facts of the model
        time.sleep(LATER)
        rounds = []
        for number in range(chosen.rounds):
            rounds.append(measured(checkouts, number))
            print(json.dumps(rounds[-1]), flush=True)
    before: dict[str, Any] = (
        json.loads(chosen.out.read_text("utf-8")) if chosen.out.exists() else {}
    )
    facts: dict[str, Any] = {
        **({"app": before["app"]} if "app" in before else {}),
        "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        "rounds": chosen.rounds,
        "load": [round(found["load"], 1) for found in rounds],
        "seconds": {
            name: round(statistics.median(found[name] for found in rounds), 3) for name in BASES
        },
        "analysis_seconds": round(
            statistics.median(found["after"]["analysis"] for found in rounds), 3
        ),
        **{name: summary(rounds, name) for name in checkouts},
    }
    with atomic_write(chosen.out) as draft:
        draft.write_text(json.dumps(facts, indent=2) + "\n", "utf-8")
    for name in checkouts:
        print(name)
        for what, row in facts[name].items():
            low, high = row["range"]
            print(
                f"  {what:12} {row['ratio']:6.2f} ({low:.2f} to {high:.2f}), at most {row['most']}"
            )


if __name__ == "__main__":
    main()
