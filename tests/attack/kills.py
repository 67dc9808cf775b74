"""Runs started by the command line and killed with SIGKILL at random moments; nothing may be lost.

Before anything is killed every question is answered once, undisturbed, in a folder of its own.
Then, case by case, one is asked, and its process, who asked, or both with all their children are
killed. Afterwards no finished run has changed, no lock is held, and what is asked again or resumed
has the same tables, byte for byte, with nothing of the dead left beside them. Costs 5 to 20 s a
case.
"""

import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.attack.commands import LIMIT, Commands
from tests.attack.fuzz import draw_of

CORPUS = ["--corpus", "primer:size=2000"]
JOBS = {  # each takes seconds, most of them with torch
    "counts": ["run", "describe", *CORPUS],
    "sweep": ["run", "describe", *CORPUS, "--sweep", "max_sentences=10,20,30"],
    "profile": ["run", "profile", "--model", "mini:gpt", *CORPUS, "--set", "max_sentences=40"],
    "averages": [
        "run",
        "attention-averages",
        "--model",
        "mini:bert",
        *CORPUS,
        "--set",
        "max_sentences=60",
    ],
    "probing": [
        *("run", "edge-probing", "--model", "mini:bert", *CORPUS, "--set"),
        *("tasks=pos", "max_sentences=40", "max_targets=60", "seeds=0", "control_tasks=false"),
    ],
    "train": [
        *(
            "train",
            "gpt",
            *CORPUS,
            "--size",
            "tiny",
            "--steps",
            "60",
            "--checkpoint-interval",
            "1s",
        ),
        *("--vocabulary-size", "300"),
    ],
}
VICTIMS = ("worker", "asker", "group")
WAIT = 120.0  # seconds in which a lock must be free once its holder is dead, on a busy machine
ENDS = 5.0  # seconds that a process may take to end


@dataclass
class Kills:
    """What was done, and what was found."""

    kills: int = 0
    begun: Counter[str] = field(default_factory=Counter)
    victims: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)  # how the run stood after the kill
    resumed: int = 0  # finished from what a killed run had left
    findings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        def told(counts: Counter[str]) -> str:
            return ", ".join(f"{name} {number}" for name, number in sorted(counts.items()))

        return (
            f"kills                   {self.kills:9,}\n  killed: {told(self.victims)}\n"
            f"  asked: {told(self.begun)}\n  stood after it: {told(self.after)}\n"
            f"  finished from what was left: {self.resumed}"
        )


@dataclass
class _Place(Commands):
    """Folders of a whole attack, and what undisturbed runs left."""

    right: dict[str, dict[str, bytes]] = field(default_factory=dict)  # by the run's name
    names: dict[str, str] = field(default_factory=dict)  # job -> the run's name
    seconds: dict[str, float] = field(default_factory=dict)

    def run(self, job: str) -> Path:
        return self.folder / "runs" / self.names[job]


def attack(
    seed: int,
    numbers: Iterator[int],
    until: Callable[[], bool],
    told: Kills | None = None,
    jobs: tuple[str, ...] = tuple(JOBS),
) -> Kills:
    """Numbered cases until told to stop."""
    told = told or Kills()
    with tempfile.TemporaryDirectory(prefix="attack-kills-", ignore_cleanup_errors=True) as folder:
        place = _Place(Path(folder))
        try:
            for number in numbers:
                if until():
                    break
                draw = draw_of(seed, "kills", number)
                job = draw.choice(jobs)
                if job not in place.names:
                    _undisturbed(place, job)
                line = f"python -m tests.attack --seed {seed} --only kills --case {number}"
                for what in _case(place, job, draw, told):
                    told.findings.append(f"{line}   # {job}: {what}")
                if told.findings and until():
                    break
        finally:
            _end_all(place)
    return told


def _undisturbed(place: _Place, job: str) -> None:
    """The question answered in peace: its run's name, what it leaves, and how long it takes."""
    runs = place.folder / "undisturbed"
    before = set(runs.glob("*-*")) if runs.is_dir() else set()
    began = time.monotonic()
    code, said = place.completed(JOBS[job], "undisturbed")
    place.seconds[job] = time.monotonic() - began
    if code != 0:
        raise RuntimeError(f"{job} ended with {code} undisturbed: {said[-2_000:]}")
    new = [path for path in runs.glob("*-*") if path not in before]
    sweeps = [path for path in new if "-sweep-" in path.name]
    place.names[job] = (sweeps or new)[0].name
    for path in new:
        place.right[path.name] = contents(path)


def _case(place: _Place, job: str, draw: random.Random, told: Kills) -> Iterator[str]:
    """Ask, kill at some moment, look, and have it finished; what is wrong, line by line."""
    run = place.run(job)
    victim = draw.choice(VICTIMS)
    moment = draw.uniform(0.1, 1.1) * place.seconds[job]
    again = draw.choice(["ask", "resume", "resume", "kill"])
    process = place.begun(JOBS[job])
    told.begun[job] += 1
    time.sleep(moment)
    while victim == "worker" and process.poll() is None and not _workers(run.parent):
        time.sleep(0.02)
    killed = _killed(run, process, victim)
    told.kills += killed
    told.victims[victim] += killed
    if victim == "worker" and process.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(LIMIT)
        if process.poll() is None:
            yield f"who asked still waits {LIMIT:.0f} s after the run's process was killed"
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    yield from _looked(place, run, told, ended=victim != "asker")
    if again == "kill":
        return  # the next case of this question finds it as it is
    partial = (run / "checkpoint").is_dir() or (run / "status.json").exists()
    arguments = ["runs", "resume", run.name] if again == "resume" and run.is_dir() else JOBS[job]
    code, said = place.completed(arguments)
    if code != 0:
        state = _state(run)
        if arguments != JOBS[job] and state in ("done", "running", "queued"):
            code, said = place.completed(JOBS[job])  # nothing to resume
        if code != 0:
            last = " / ".join(said.strip().splitlines()[-3:])
            yield f"{arguments[:2]} ended with {code}: {last[:300]}"
            return
    told.resumed += partial
    yield from _finished(place, run)
    if draw.random() < 0.7:
        shutil.rmtree(run)


def _killed(run: Path, process: subprocess.Popen[bytes], victim: str) -> int:
    """Kill who is to be killed, as far as there is one; how many groups were hit."""
    hit = 0
    if victim in ("worker", "group"):
        for pid in _workers(run.parent):
            with suppress(ProcessLookupError):
                (os.killpg if victim == "group" else os.kill)(pid, signal.SIGKILL)
                hit += 1
    if victim in ("asker", "group") and process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        hit += 1
    return hit


def _workers(runs: Path) -> list[int]:
    """The processes of runs in this folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                line = (entry / "cmdline").read_bytes()
                if b"workbench.runs.worker" in line and str(runs).encode() in line:
                    found.append(int(entry.name))
    return found


def _state(run: Path) -> str:
    from workbench.runs import status

    return status.settled(run).state if run.is_dir() else "none"


def _looked(place: _Place, run: Path, told: Kills, ended: bool) -> Iterator[str]:
    """After the kill: finished runs are as they were, the dead hold nothing, states are true."""
    from workbench.runs import status
    from workbench.runs.processes import locks

    deadline = time.monotonic() + WAIT
    while _workers(run.parent) and ended and time.monotonic() < deadline:
        time.sleep(0.1)  # a sweep's parts, which were not killed, end by themselves
    for path in place.folder.glob("runs/*-*"):
        state = _state(path)
        if path == run:
            told.after[state] += 1
        held = locks.is_held(path / status.LOCK)
        if held and _orphaned(path):
            yield f"{path.name}: its lock is held and no process does the run"
        if state in ("running", "queued") and not held:
            yield f"{path.name} is {state} and nobody does it"
        if state == "done":
            yield from _same(place, path)


def _orphaned(run: Path) -> bool:
    """Whether nobody does the run whose lock is held, and goes on so.

    A process that ends gives its command line back to the system a moment before its locks.
    """
    from workbench.runs import status
    from workbench.runs.processes import locks

    deadline = time.monotonic() + ENDS
    while locks.is_held(run / status.LOCK) and not _workers(run.parent):
        if time.monotonic() > deadline:
            return True
        time.sleep(0.05)
    return False


def _finished(place: _Place, run: Path) -> Iterator[str]:
    """The run is done, is right, and nothing of the dead is left."""
    from workbench.runs import status
    from workbench.runs.processes import locks

    if (state := _state(run)) != "done":
        yield f"finished, it is {state}"
        return
    yield from _same(place, run)
    deadline = time.monotonic() + WAIT
    while locks.is_held(run / status.LOCK) and time.monotonic() < deadline:
        time.sleep(0.05)
    if locks.is_held(run / status.LOCK):
        yield "its lock is held after it is done"
    left = [path.name for path in run.iterdir() if path.name in ("checkpoint", "cancel")]
    left += [str(path.relative_to(run)) for path in run.rglob(".*")]
    if left:
        yield f"left in the run: {', '.join(left)}"
    if left := [path.name for path in run.parent.glob(".*") if path.name != ".bin"]:
        yield f"left in the folder of runs: {', '.join(left)}"


def _same(place: _Place, run: Path) -> Iterator[str]:
    from workbench.runs.run import damage

    if wrong := damage(run):
        yield f"{run.name} is damaged: {wrong[0]}"
    right = place.right.get(run.name)
    if right is not None and (found := contents(run)) != right:
        names = [name for name in right.keys() | found.keys() if right.get(name) != found.get(name)]
        yield f"{run.name} has other contents: {', '.join(sorted(names))}"


def contents(run: Path) -> dict[str, bytes]:
    """The bytes of what a run left that must be the same each time; seconds are not."""
    import pandas as pd

    from tests.runs.conftest import contents as left
    from workbench import Run

    found = left(Run(run))
    if not run.name.startswith("train-"):
        return found
    curves = pd.read_parquet(run / "tables" / "curves.parquet")[["step", "loss"]]
    weights = {path.name: path.read_bytes() for path in (run / "model").glob("*.safetensors")}
    return {**weights, "tables/curves.parquet": curves.to_csv().encode()}


def _end_all(place: _Place) -> None:
    for runs in ("runs", "undisturbed"):
        for pid in _workers(place.folder / runs):
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
