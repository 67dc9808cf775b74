"""Inputs by kind, each tried in a process with bounded time and memory, and reproducible by number.

A kind is a module with `prepare(folder)`, called once in the process, and `case(draw, folder)`,
which makes one input and returns what it is and a function that tries it. That may raise
`WorkbenchError`; all else that it raises, a process that dies, more than `SECONDS` or more than
`MEMORY` is a finding. The draw of a case depends on the seed, the kind and the case's number alone.
Costs a process a kind.
"""

import faulthandler
import multiprocessing
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

KINDS = ("corpora", "configs", "settings", "specs", "uploads", "references")
SECONDS = 60.0  # a case may take
MEMORY = 1 << 30  # bytes a case may add to the process
STARTING = 300.0  # seconds that the process may take to begin on a busy machine


@dataclass
class Tally:
    """What became of the inputs of one kind."""

    tried: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    peak: int = 0  # bytes, above what the process held when it was ready
    grown: int = 0  # bytes that the process held more at its end than when it was ready
    findings: list[str] = field(default_factory=list)


def cases(kind: str, seed: int, numbers: Iterator[int], seconds: float, told: Tally) -> None:
    """Try numbered cases for so long, from when the first can; a process that dies is replaced."""
    left = seconds
    while left > 0:
        with tempfile.TemporaryDirectory(prefix=f"attack-{kind}-") as temporary:
            left = _in_one_process(kind, seed, numbers, left, told, Path(temporary))


def _in_one_process(
    kind: str,
    seed: int,
    numbers: Iterator[int],
    seconds: float,
    told: Tally,
    folder: Path,
) -> float:
    """Try cases in one process; the seconds that are left where it was lost."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_child, args=(kind, seed, theirs, str(folder)), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(STARTING):
            raise TimeoutError(f"{kind}: the process did not begin")
        ours.recv()
        end = time.monotonic() + seconds
        for number in numbers:
            ours.send(number)
            what = _answer(ours, process)
            if isinstance(what, str):
                told.tried["?"] += 1
                told.findings.append(finding(kind, seed, number, what))
                return end - time.monotonic()
            label, outcome, seconds, peak, now = what
            told.tried[label] += 1
            told.slowest = max(told.slowest, seconds)
            told.peak, told.grown = max(told.peak, peak), now
            if outcome in ("accepted", "refused"):
                getattr(told, outcome)[label] += 1
            else:
                told.findings.append(finding(kind, seed, number, f"{label}: {outcome}"))
            if peak > MEMORY:
                grew = f"{label}: {peak >> 20} MiB of memory"
                told.findings.append(finding(kind, seed, number, grew))
                return end - time.monotonic()  # a process anew: the next peak is its own
            if time.monotonic() > end:
                break
        return 0.0
    finally:
        ours.close()  # it ends by itself, unless it hangs
        process.join(5)
        process.kill()
        process.join()


def _answer(ours: Connection, process: Any) -> tuple[str, str, float, int, int] | str:
    """What became of a case; or, as a text, why there is no answer."""
    try:
        if ours.poll(SECONDS):
            found: tuple[str, str, float, int, int] = ours.recv()
            return found
    except EOFError:
        process.join()
        return f"the process died (exit code {process.exitcode})"
    return f"no answer within {SECONDS:.0f} s"


def finding(kind: str, seed: int, number: int, what: str) -> str:
    """A line that reproduces what was found."""
    return f"python -m tests.attack --seed {seed} --only {kind} --case {number}   # {what}"


def draw_of(seed: int, kind: str, number: int) -> random.Random:
    """What one case draws from."""
    return random.Random(f"{seed} {kind} {number}")


def tried_here(kind: str, seed: int, number: int, folder: Path) -> tuple[str, str]:
    """One case in this process: its label, and accepted, refused or what was raised."""
    from workbench import WorkbenchError

    module = import_module(f"tests.attack.{kind}")
    place = folder / "case"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    label, trial = module.case(draw_of(seed, kind, number), place)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here: what made it is ours
    try:
        trial()
    except WorkbenchError as error:
        if os.environ.get("ATTACK_TRACEBACK"):
            traceback.print_exc()
        if not error.what or "\nTraceback" in str(error):
            return label, f"an error that says nothing: {error!r}"
        return label, "refused"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if "/workbench/" in frame.filename] or frames
        at = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
        said = (str(error).splitlines() or [""])[0]
        if os.environ.get("ATTACK_TRACEBACK"):
            traceback.print_exc()
        return label, f"{type(error).__name__} at {at}: {said:.160}"
    return label, "accepted"


def prepared(kind: str, folder: Path) -> None:
    """Places of its own for what a kind tries, and what all its cases begin with."""
    os.environ["WORKBENCH_HOME"] = str(folder / "home")
    os.environ["WORKBENCH_RUNS"] = str(folder / "runs")
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TMPDIR"] = str(folder / "tmp")
    (folder / "tmp").mkdir()
    tempfile.tempdir = None
    import_module(f"tests.attack.{kind}").prepare(folder)


def _child(kind: str, seed: int, theirs: Connection, folder: str) -> None:
    faulthandler.enable()
    warnings.simplefilter("ignore")
    if not os.environ.get("ATTACK_TRACEBACK"):  # what libraries print of broken files
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
    prepared(kind, Path(folder))
    tried_here(kind, seed, -1, Path(folder))  # imports what only a case imports
    before = _held()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = _held("VmData") + 4 * MEMORY  # beyond this the process gets no more; others need theirs
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    theirs.send("ready")
    while True:
        try:
            number = theirs.recv()
        except EOFError:
            return
        began = time.monotonic()
        label, outcome = tried_here(kind, seed, number, Path(folder))
        seconds = time.monotonic() - began
        theirs.send((label, outcome, seconds, _held("VmHWM") - before, _held() - before))


def _held(which: str = "VmRSS") -> int:
    """Bytes of memory that this process holds, or has held at most."""
    text = Path("/proc/self/status").read_text()
    return 1024 * int(text.split(f"{which}:")[1].split()[0])


def reproduced(kind: str, seed: int, number: int) -> str:
    """One case by its number, in this process, with the traceback of what it raises."""
    os.environ["ATTACK_TRACEBACK"] = "1"
    faulthandler.dump_traceback_later(SECONDS, file=sys.__stderr__)
    with tempfile.TemporaryDirectory(prefix=f"attack-{kind}-") as temporary:
        prepared(kind, Path(temporary))
        label, outcome = tried_here(kind, seed, number, Path(temporary))
    faulthandler.cancel_dump_traceback_later()
    return f"{label}: {outcome}"
