"""The tour: every experiment there is on the built-in corpus and models, offline.

Each stop is a run like any other, so the tour can be interrupted, goes on where it stopped, and
costs nothing the second time; at its end stands one report of them all. A new analysis adds its
line to `STOPS`. Costs the sum of its runs, some minutes: a process takes longer to start than most
of them to compute, so the next are started while one computes.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from workbench.cli import output
from workbench.core import machine
from workbench.runs.run import Run
from workbench.training.mini import CORPUS


@dataclass(frozen=True)
class Stop:
    """One run of the tour."""

    title: str
    experiment: str
    models: tuple[str, ...] = ()
    corpora: tuple[str, ...] = ("primer",)
    settings: Mapping[str, Any] = field(default_factory=dict)


AHEAD = 2  # runs that get ready while one computes
SHORT: Mapping[str, Any] = {  # a fine-tuning of seconds
    "max_train": 80, "max_dev": 40, "max_test": 80, "epochs": 2, "rates": (1e-3,), "seeds": (0,),
}  # fmt: skip
STOPS = (
    Stop("What the built-in corpus holds", "describe"),
    Stop(
        "BERT, small and built in: its facts, and how well it predicts", "profile", ("mini:bert",)
    ),
    Stop(
        "Which of two sentences it finds likelier",
        "minimal-pairs",
        ("mini:bert",),
        ("primer/acceptability",),
        {"max_sentences": 200},
    ),
    Stop(
        "Where its heads look, by offset and by part of speech",
        "attention-averages",
        ("mini:bert",),
        settings={"max_sentences": 300},
    ),
    Stop(
        "What each of its heads does: offsets, relations, rare words, separators",
        "heads",
        ("mini:bert",),
        settings={"max_sentences": 300, "examples": 20},
    ),
    Stop(
        "How much each of its heads matters to first order",
        "head-importance",
        ("mini:bert",),
        settings={"max_sentences": 200},
    ),
    Stop(
        "What exactly is lost without each",
        "head-ablation",
        ("mini:bert",),
        settings={"max_sentences": 100},
    ),
    Stop(
        "How many of them can go, and which first",
        "head-pruning",
        ("mini:bert",),
        settings={"max_sentences": 100, "choosing": 40, "steps": 4, "seeds": 1, "recover": 10},
    ),
    Stop(
        "Which stay open when each must pay for it",
        "head-gates",
        ("mini:bert",),
        settings={"max_sentences": 100, "lambdas": (0.03,), "budgets": (0.25,), "steps": 60},
    ),
    Stop(
        "What each of its layers knows, from words to roles",
        "edge-probing",
        ("mini:bert",),
        settings={"max_sentences": 100, "preset": "quick"},
    ),
    Stop(
        "How few bits its layers need to tell a word's part of speech",
        "description-length",
        ("mini:bert",),
        settings={"max_sentences": 100, "targets": 300, "tasks": ("pos",), "steps": 100},
    ),
    Stop(
        "Whether its layers hold the tree",
        "structural-probe",
        ("mini:bert",),
        settings={"max_sentences": 60, "seeds": (0,)},
    ),
    Stop(
        "Whether its heads together find every word's head",
        "attention-probe",
        ("mini:bert",),
        settings={"max_sentences": 60, "seeds": (0,)},
    ),
    Stop(
        "BERT frozen and fine-tuned: what it gains",
        "frozen-vs-finetuned",
        ("mini:bert",),
        settings={**SHORT, "tasks": ("sentiment",), "strong": False},
    ),
    Stop(
        "BERT fine-tuned for one of these tasks, and kept",
        "finetune",
        ("mini:bert",),
        ("primer/sentiment",),
        SHORT,
    ),
    Stop(
        "What training has changed in it, beside fresh weights",
        "drift",
        ("mini:bert@random", "mini:bert"),
        settings={"max_sentences": 60},
    ),
    Stop(
        "Which layers of the four models are alike",
        "similarity",
        ("mini:bert", "mini:gpt", "mini:elmo", "mini:t5"),
        settings={"max_sentences": 60},
    ),
    Stop(
        "What models are worth that learnt by other means: masked, or left to right",
        "pretraining",
        settings={
            **SHORT,
            "arms": ("mlm", "ltr"),
            "steps": 60,
            "tasks": ("sentiment",),
            "seeds": (0,),
        },
    ),
    Stop(
        "GPT beside trigrams of the text it learnt from",
        "trigram",
        ("mini:gpt",),
        (CORPUS,),
        {"max_sentences": 300},
    ),
    Stop(
        "A tiny GPT of one's own, in a few seconds",
        "train",
        (),
        ("primer:size=2000",),
        {"family": "gpt", "size": "tiny", "rows": "sentences", "steps": 200},
    ),
)


def tour(json: bool = False) -> None:
    """Make every stop in turn, the next ones getting ready meanwhile, and write the report."""
    runs: list[Run] = []
    ahead: deque[tuple[Run, bool]] = deque()
    waiting = iter(STOPS)
    try:
        for number, stop in enumerate(STOPS, start=1):
            if not json:
                output.heading(f"{number} of {len(STOPS)}: {stop.title}")
            ahead.extend(map(_made, islice(waiting, AHEAD + 1 - len(ahead))))
            run, from_disk = ahead.popleft()
            output.followed(run, from_disk)
            if not json or run.status.state != "done":
                output.answer(run, json)
            runs.append(run)
    finally:
        _end(run for run, _ in ahead)
    with output.progress("writing the report"):
        from workbench.report import write_report

        path = write_report(runs, machine.runs() / "demo.html")
    if json:
        told = {"runs": [run.as_data() for run in runs], "report": str(path)}
        output.print_json(told)
        return
    output.heading("The report")
    print(f"{path}\nOpen it in a browser; it needs no network.")


def _end(runs: Iterable[Run]) -> None:
    """Where a stop failed or was ended, those after it end as well."""
    if under_way := [run for run in runs if run.status.under_way]:
        from workbench.runs.launch import end

        end(under_way)
        output.note("The tour goes on where it was with: workbench demo")


def _made(stop: Stop) -> tuple[Run, bool]:
    """The run of a stop, started or answered from disk; and which of both."""
    with output.progress("reading the question"):
        from workbench.runs.api import begun
        from workbench.runs.request import ask

        run = begun(ask(stop.experiment, stop.models, stop.corpora, dict(stop.settings)))
    return run, run.status.state == "done"
