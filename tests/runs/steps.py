"""An experiment as another package offers it: light, in many steps, each kept as a checkpoint.

It imports neither torch nor spaCy, and can be asked to go wrong in every way there is.
"""

import ctypes
import json
import os
import random
import signal
import sys
import time
import warnings
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import Field

from workbench import Experiment, Result, Settings
from workbench.core.analysis import Analysis
from workbench.core.files import atomic_write
from workbench.experiment import Caveat, Inputs, Progress, Table
from workbench.experiment.definition import SubrunRequest

Mood = Literal[
    "well",
    "raises",
    "segfaults",
    "exits",
    "leaves",
    "prints",
    "no memory",
    "warns",
    "deaf",
    "numb",
    "broken off",
]


class Steps(Settings):
    """How many steps, and how they go."""

    steps: int = Field(5, ge=1, le=10_000, description="How many steps there are.")
    pause: float = Field(0.0, ge=0, description="Seconds that a step takes.")
    rows: int = Field(50, ge=1, description="Rows of a step.")
    halt: int = Field(-1, description="The step at which it waits to be cancelled and resumed.")
    mood: Mood = Field("well", description="How it goes.")
    layers: tuple[int, ...] = Field((), description="Some numbers.")
    pattern: str = Field("", description="Any text.")
    kind: Literal["all", "listed"] = Field("all", description="A word with list in it.")
    loud: bool = Field(False, description="Yes or no.")
    depth: int | Literal["all"] = Field(0, description="A number, or all.")
    words: frozenset[str] = Field(frozenset(), description="A set.")
    most: float = Field(1.0, description="Any number.")


def run(inputs: Inputs, settings: Steps, progress: Progress) -> Result:
    """Numbers of each step, from its checkpoint where there is one."""
    assert inputs.scratch is not None
    (MOODS[settings.mood])(progress)
    rows = []
    for step in range(settings.steps):
        progress(step, np.int64(settings.steps), "steps")  # type: ignore[arg-type]
        kept = inputs.scratch / f"{step}.json"
        if not kept.exists():
            time.sleep(settings.pause)
            if step == settings.halt and not (halted := inputs.scratch / "halted").exists():
                halted.touch()
                time.sleep(600)
            draw = random.Random(f"{inputs.seed} {step}")
            with atomic_write(kept) as draft:
                draft.write_text(json.dumps([draw.random() for _ in range(settings.rows)]))
            progress.log(f"computed {step}")
        rows += [(step, n, value) for n, value in enumerate(json.loads(kept.read_text()))]
    progress(settings.steps, settings.steps, "steps")
    table = pd.DataFrame(rows, columns=["step", "n", "value"])
    sums = table.groupby("step", as_index=False)["value"].sum()
    sums["kind"] = settings.kind
    values = table["value"].to_numpy().reshape(settings.steps, -1)
    caveats = [Caveat("Numbers are drawn.", ("values",))]
    caveats += [Caveat("Numbers are loud.")] if settings.loud else []
    return Result({"values": table, "sums": sums}, {"values": values}, tuple(caveats))


def _raises(progress: Progress) -> None:
    progress.log("about to go wrong")
    raise LookupError("the third drawer is empty")


def _segfaults(progress: Progress) -> None:
    print("last words", flush=True)
    ctypes.string_at(0)


def _leaves(progress: Progress) -> None:
    print("gone", flush=True)
    os._exit(7)


def _prints(progress: Progress) -> None:
    for number in range(40_000):
        print(f"line {number} of very many", file=sys.stderr if number % 2 else sys.stdout)


def _no_memory(progress: Progress) -> None:
    raise MemoryError


def _warns(progress: Progress) -> None:
    for _ in range(3):
        warnings.warn("this is odd", stacklevel=1)


def _deaf(progress: Progress) -> None:
    """Asleep in C, with the terminating signal shut out."""
    progress.log("asleep")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    ctypes.CDLL(None).sleep(600)


def _numb(progress: Progress) -> None:
    """Ends only by a signal, and has begun."""
    progress.log("asleep")
    time.sleep(600)


def _broken_off(progress: Progress) -> None:
    """An import that the signal ends halfway says that it failed, not why."""
    try:
        _numb(progress)
    except BaseException:
        raise ImportError("halfway") from None


MOODS = {
    "well": lambda progress: None,
    "raises": _raises,
    "segfaults": _segfaults,
    "exits": lambda progress: sys.exit("no more"),
    "leaves": _leaves,
    "prints": _prints,
    "no memory": _no_memory,
    "warns": _warns,
    "deaf": _deaf,
    "numb": _numb,
    "broken off": _broken_off,
}
EXPERIMENT = Experiment(
    name="steps",
    about="Draws numbers, step by step.",
    settings=Steps,
    run=run,
    tables={
        "values": Table("Numbers of each step.", ("step", "n")),
        "sums": Table("Their sums.", ("step",)),
    },
    models=(0, 0),
    corpora=(0, 0),
)


class Asks(Settings):
    """What is asked on the way."""

    steps: int = Field(2, ge=1, description="Steps of each question.")
    times: int = Field(2, ge=1, description="How many questions.")
    pause: float = Field(0.0, ge=0, description="Seconds that a step takes.")
    mood: Mood = Field("well", description="How the last one goes.")
    beside: bool = Field(False, description="All at once, not one after another.")
    halt: int = Field(-1, description="The step at which the first waits to be cancelled.")


def asks(inputs: Inputs, settings: Asks, progress: Progress) -> Result:
    """Have several others answered, and lay their sums together."""
    last = settings.times - 1
    questions = [
        SubrunRequest(
            "steps",
            settings={
                "steps": settings.steps,
                "pause": settings.pause,
                "halt": settings.halt if number == 0 else -1,
                "mood": settings.mood if number == last else "well",
            },
            seed=number,
        )
        for number in range(settings.times)
    ]

    def told(done: int) -> None:
        progress(done, settings.times, "asking")

    if settings.beside:
        answers = inputs.run_experiments(questions, told)
    else:
        answers = []
        for number, question in enumerate(questions):
            told(number)
            answers += inputs.run_experiments([question])
    parts = []
    for number, answer in enumerate(answers):
        found = answer.tables["sums"].copy()
        found.insert(0, "asked", number)
        parts.append(found)
    return Result({"sums": pd.concat(parts, ignore_index=True)})


ASKS = Experiment(
    name="asks",
    about="Asks for steps.",
    settings=Asks,
    run=asks,
    tables={"sums": Table("Sums of each.", ("asked", "step"))},
    models=(0, 0),
    corpora=(0, 0),
)

ANALYSIS = Analysis(__name__, experiments={"steps": ":EXPERIMENT", "asks": ":ASKS"})
