"""A sweep: one question for every combination of some values, gathered into one table each.

    --sweep layer=0,4,8 model=a,b seed=0..4

Each combination is a run of its own, answered from disk where it was asked before; the sweep is a
run that starts them (as many at a time as there are devices, or all of them on a cluster), waits,
and lays their tables under one another with the values in front. Costs its parts.
"""

import os
import re
import time
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import pandas as pd

from workbench.errors import WorkbenchError, did_you_mean, listed
from workbench.experiment import EXPERIMENTS, Caveat, Result, Table
from workbench.runs import queue, spec, status
from workbench.runs.asking import Question, ask
from workbench.runs.journal import Cancelled, Journal
from workbench.runs.launch import cancel, start
from workbench.runs.run import Run

MOST = 10_000  # runs of one sweep
EVERY = 0.2  # seconds between looks at the runs under way
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")
INPUTS = ("model", "corpus", "seed", "split", "precision")  # swept beside settings


def values(text: str) -> list[str]:
    """`a,b` as two, `0..4` as five; a comma inside elmo:A,B does not part."""
    if found := _RANGE.fullmatch(text):
        first, last = int(found[1]), int(found[2])
        if abs(last - first) >= MOST:
            raise WorkbenchError(f"{text} is more than {MOST:,} values.", remedy="Sweep fewer.")
        step = 1 if last >= first else -1
        return [str(number) for number in range(first, last + step, step)]
    parts: list[str] = []
    for part in text.split(","):
        if parts and parts[-1].startswith("elmo:") and "," not in parts[-1]:
            parts[-1] += f",{part}"
        elif part:
            parts.append(part)
    return parts


def ask_all(
    experiment: str,
    models: Sequence[Any],
    corpora: Sequence[Any],
    settings: Mapping[str, Any],
    swept: Mapping[str, Sequence[Any]],
    **rest: Any,
) -> tuple[spec.Spec, list[Question]]:
    """The sweep's own question, and those it is made of."""
    kind = EXPERIMENTS[experiment]
    for name, options in swept.items():
        if name not in INPUTS and name not in kind.settings.model_fields:
            raise WorkbenchError(
                f"{name!r} cannot be swept: {experiment} has no such setting.",
                remedy=did_you_mean(name, [*INPUTS, *kind.settings.model_fields]),
            )
        if not options:
            raise WorkbenchError(
                f"no value is given for {name}.", remedy=f"Say {name}=a,b or 0..4."
            )
        if len(set(map(str, options))) < len(options):
            raise WorkbenchError(f"a value of {name} comes twice.", remedy="Say each once.")
    number = 1
    for options in swept.values():
        number *= len(options)
    if number > MOST:
        raise WorkbenchError(f"{number:,} runs are too many.", remedy=f"At most {MOST:,}.")
    questions = []
    for chosen in product(*swept.values()):
        varied = dict(zip(swept, chosen, strict=True))
        inputs = {name: varied.pop(name) for name in INPUTS if name in varied}
        questions.append(
            ask(
                experiment,
                [inputs.pop("model")] if "model" in inputs else models,
                [inputs.pop("corpus")] if "corpus" in inputs else corpora,
                {**settings, **varied},
                **{**rest, **({"seed": _number(inputs.pop("seed"))} if "seed" in inputs else {})},
                **inputs,
            )
        )
    own = questions[0].spec
    whole = own.model_copy(
        update={
            "sweep": {name: list(map(_written, options)) for name, options in swept.items()},
            "parts": tuple(question.spec for question in questions),
        }
    )
    return whole, questions


def gather(asked: spec.Spec, told: Journal, share: bool) -> tuple[Result, dict[str, Any]]:
    """Have every part answered, and lay their tables together."""
    scheduler = (status.read(told.folder) or status.Status("running")).parts_on
    runs = _answered(asked, told, share, scheduler)
    if failed := [run for run in runs if run.status.state != "done"]:
        first = failed[0].status
        why = first.failure.what if first.failure else first.state
        raise WorkbenchError(
            f"{len(failed)} of {len(runs)} runs did not finish: {why}",
            where=listed(run.name for run in failed),
            remedy="The others are kept. See workbench runs show RUN, mend it, and ask again.",
        )
    experiment = EXPERIMENTS[asked.experiment]
    swept = list(product(*asked.sweep.values()))
    tables, about = {}, {}
    names = dict.fromkeys(name for run in runs for name in run.tables)
    for name in names:
        parts = []
        for run, chosen in zip(runs, swept, strict=True):
            if name in run.tables:
                part = run.tables[name].copy()
                for key, value in reversed(list(zip(asked.sweep, chosen, strict=True))):
                    part.insert(0, _column(key, part), value)
                parts.append(part)
        keys = [_column(key, runs[0].tables.get(name, parts[0])) for key in asked.sweep]
        whole = pd.concat(parts, ignore_index=True)
        tables[name] = whole
        own = experiment.tables[name]
        about[name] = Table(own.about, (*keys, *own.keys))
    caveats = dict.fromkeys(Caveat(c.text, c.beside) for run in runs for c in run.caveats)
    models = {
        m["hash" if "hash" in m else "content_hash"]: m for r in runs for m in _own(r, "models")
    }
    corpora = {c["hash"]: c for run in runs for c in _own(run, "corpora")}
    facts = {
        "about": about,
        "runs": [run.name for run in runs],
        "models": list(models.values()),
        "corpora": list(corpora.values()),
    }
    return Result(tables, caveats=tuple(caveats)), facts


def _answered(asked: spec.Spec, told: Journal, share: bool, scheduler: str) -> list[Run]:
    waiting, active, runs = list(asked.parts), list[Run](), list[Run]()
    most = len(waiting) if scheduler else (os.cpu_count() or 1) if share else _slots(asked)
    told(0, len(waiting), "runs")
    try:
        while waiting or active:
            while waiting and len(active) < most:
                run = start(waiting.pop(0), share=share, scheduler=scheduler)
                runs.append(run)
                active.append(run)
            ended = [run for run in active if not run.status.under_way]
            for run in ended:
                active.remove(run)
                told.log(f"{run.name}: {run.status.state}")
            told(len(runs) - len(active), len(asked.parts), "runs")
            told.check()
            if active:
                time.sleep(EVERY)
    except Cancelled:
        for run in active:
            if run.status.under_way:
                cancel(run)
        raise
    return runs


def _slots(asked: spec.Spec) -> int:
    return max(len(queue.slots(part.device)) for part in asked.parts)


def _column(key: str, table: pd.DataFrame) -> str:
    """The name of a swept value's column beside the table's own."""
    return f"swept_{key}" if key in table.columns else key


def _own(run: Run, what: str) -> list[dict[str, Any]]:
    found = run.provenance.get(what, [])
    return found if isinstance(found, list) else []


def _number(text: Any) -> int:
    try:
        return int(text)
    except ValueError:
        raise WorkbenchError(
            f"a seed is {text!r:.40}.", remedy="Say seed=0..4, or 0,1,2."
        ) from None


def _written(value: Any) -> Any:
    """A swept value as a table and JSON have it: numbers as numbers."""
    if isinstance(value, str):
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
        return value
    return value if isinstance(value, int | float | bool | None) else str(value)
