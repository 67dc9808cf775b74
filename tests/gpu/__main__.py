"""Checks the engine on a GPU: the same results as on the CPU, memory, and time.

    python -m tests.gpu                               all checks on the GPU, at most 10 minutes
    python -m tests.gpu --only machine store          some checks
    python -m tests.gpu --device cpu --small          the checks that run without a GPU

Needs torch, transformers and safetensors, but no spaCy, Streamlit, network or corpus. Prints one
line per check and a table at the end. Writes a JSON file, updated after every check: outcome,
seconds, peak memory on the device, figures with their bounds, and the last lines of a traceback. A
failed check does not stop the next; if it breaks the device, the others run in a new process. The
exit code is 1 if a check failed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from tests.gpu import checks

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


ROOT = Path(__file__).parents[2]
MINUTES = 9.5  # time limit of all checks together
CHECKS = {  # in this order: cheap checks first
    "machine": "tests.gpu.machine:machine",
    "answers": "tests.gpu.answers:answers",
    "families": "tests.gpu.answers:families",
    "passes": "tests.gpu.passes:waits",
    "writing": "tests.gpu.writing:writing",
    "store": "tests.gpu.passes:store",
    "halving": "tests.gpu.passes:halving",
    "probes": "tests.gpu.probing:probes",
    "trees": "tests.gpu.probing:trees",
    "attachment": "tests.gpu.probing:heads_of_words",
    "description-length": "tests.gpu.probing:description_length",
    "heads": "tests.gpu.looking:heads",
    "patching": "tests.gpu.restoring:patching",
    "states": "tests.gpu.restoring:states",
    "removal": "tests.gpu.removing:removal",
    "gates": "tests.gpu.removing:gates",
    "fine-tuning": "tests.gpu.learning:fine_tuning",
    "elmo": "tests.gpu.learning:elmo",
    "training": "tests.gpu.learning:training",
    "one-rank": "tests.gpu.learning:one_rank",
    "large": "tests.gpu.large:large",
    "engine-speed": "tests.gpu.speed:engine_speed",
    "heads-speed": "tests.gpu.speed:heads_speed",
    "pruning-speed": "tests.gpu.speed:pruning_speed",
    "probing-speed": "tests.gpu.speed:probing_speed",
    "training-speed": "tests.gpu.speed:training_speed",
}
MARKS = {checks.PASSED: "ok", checks.FAILED: "FAILED", checks.SKIPPED: "skipped"}


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--small", action="store_true", help="smaller models and texts")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        help=f"checks to run: {', '.join(CHECKS)} (default: all)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="file for the results")
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help="time limit in minutes (default %(default)s)"
    )
    found = parser.parse_args(given)
    if unknown := [name for name in found.only or () if name not in CHECKS]:
        parser.error(f"unknown check {', '.join(unknown)}; the checks are {', '.join(CHECKS)}")
    if found.device == "cuda" and not torch.cuda.is_available():
        parser.error("no CUDA device was found; use --device cpu --small")
    return found


def main(given: Sequence[str] | None = None) -> int:
    options = arguments(given)
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    device, started = torch.device(options.device), time.perf_counter()
    names = [name for name in CHECKS if not options.only or name in options.only]
    outcomes: list[dict[str, Any]] = []
    for place, name in enumerate(names):
        left = 60 * options.minutes - (time.perf_counter() - started)
        if left < 1:
            outcomes.append(_not_begun(name))
        else:
            outcomes.append(checks.run_one(name, CHECKS[name], device, options.small, left))
        _print_outcome(outcomes[-1])
        lost = outcomes[-1]["outcome"] == checks.FAILED and not checks.is_usable(device)
        if lost and (rest := names[place + 1 :]):
            left = 60 * options.minutes - (time.perf_counter() - started)
            outcomes += _in_a_new_process(rest, options, left / 60)
        _written(options, outcomes, time.perf_counter() - started)
        if lost:
            break
    _table(outcomes)
    return int(any(each["outcome"] == checks.FAILED for each in outcomes))


def _in_a_new_process(
    names: Sequence[str], options: argparse.Namespace, minutes: float
) -> list[dict[str, Any]]:
    """The outcomes of these checks, if this process can no longer use the device."""
    print("the device does not answer: the others run in a new process", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rest.json"
        command = [sys.executable, "-m", "tests.gpu", "--device", options.device]
        command += ["--minutes", f"{minutes:.2f}", "--out", str(out), "--only", *names]
        command += ["--small"] if options.small else []
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL, cwd=ROOT)
        written = out.read_text("utf-8") if out.is_file() else '{"checks": []}'
    found: list[dict[str, Any]] = json.loads(written)["checks"]
    done = {each["name"] for each in found}
    found += [_not_begun(name) for name in names if name not in done]
    for each in found:
        _print_outcome(each)
    return found


def _not_begun(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "outcome": checks.SKIPPED,
        "reason": "no time was left",
        "seconds": 0.0,
        "peak_mib": None,
        "figures": {},
        "traceback": [],
    }


def _print_outcome(outcome: dict[str, Any]) -> None:
    print(
        f"{outcome['name']:20} {MARKS[outcome['outcome']]:8} {outcome['seconds']:7.1f} s  "
        f"{outcome['reason']}",
        flush=True,
    )


def _written(options: argparse.Namespace, outcomes: list[dict[str, Any]], seconds: float) -> None:
    if options.out is None:
        return
    found = {
        "device": options.device,
        "small": options.small,
        "seconds": round(seconds, 1),
        "torch": torch.__version__,
        "checks": outcomes,
    }
    options.out.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _table(outcomes: list[dict[str, Any]]) -> None:
    print(f"\n{'check':20} {'outcome':8} {'seconds':>8} {'peak MiB':>9}  figures")
    for each in outcomes:
        peak = "" if each["peak_mib"] is None else f"{each['peak_mib']:,.0f}"
        print(
            f"{each['name']:20} {MARKS[each['outcome']]:8} {each['seconds']:8.1f} {peak:>9}  "
            f"{_in_short(each)}"
        )
    number = {mark: sum(e["outcome"] == o for e in outcomes) for o, mark in MARKS.items()}
    print(", ".join(f"{count} {mark}" for mark, count in number.items()))
    for each in outcomes:
        for line in each["traceback"]:
            print(f"{each['name']}: {line}")


def _in_short(outcome: dict[str, Any]) -> str:
    """The reason of the outcome; for a passed check, how many figures keep a bound."""
    if outcome["reason"]:
        return str(outcome["reason"])
    bounded = sum("kept" in figure for figure in outcome["figures"].values())
    return f"{len(outcome['figures'])}, of which {bounded} keep their bounds"


if __name__ == "__main__":
    sys.exit(main())
