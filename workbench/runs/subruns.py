"""Questions that a run asks on its way: each a run of its own, answered from disk where it can be.

One alone is computed in the process of the run that asks, with what is open there already; several
on a CPU each in a process of its own, as many at a time as there are cores. All of them end with
the run that asked. Costs a folder a question.
"""

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import pandas as pd

from workbench.core.errors import WorkbenchError, did_you_mean, listed
from workbench.core.experiment import EXPERIMENTS, Ask, Asked, Caveat, Experiment, Result, Table
from workbench.runs import device_queue, spec
from workbench.runs.compare import swept_columns
from workbench.runs.execute import Open, SubRuns, execute, handed_over
from workbench.runs.launch import end, follow, looked, start
from workbench.runs.process import own_threads
from workbench.runs.request import Question, Seen, ask
from workbench.runs.run import Run
from workbench.runs.spec import Spec
from workbench.runs.status import CANCEL, Cancelled, Journal, Status

if TYPE_CHECKING:
    from workbench.corpora import Corpus
    from workbench.engine.model import Model

Told = Callable[[int], object]


def asker(
    told: Journal, asked: Spec, models: "Sequence[Model]", corpora: "Sequence[Corpus]"
) -> Ask:
    """How the run of this question has others answered."""
    named: dict[int, Any] = {
        **{id(one): told for one, told in zip(models, asked.models, strict=True)},
        **{id(one): told for one, told in zip(corpora, asked.corpora, strict=True)},
    }
    seen: Seen = {}

    def answered(questions: Sequence[Asked], done: Told) -> Sequence[Run]:
        told.check()
        made = [_question(each, asked.device, named, seen) for each in questions]
        apart = asked.device == "cpu" and all(each.spec.answerable for each in made)
        if apart and len(made) > 1 and (os.cpu_count() or 1) > 1:
            return _side_by_side([each.spec for each in made], told, done)
        runs = []
        for each in made:
            runs.append(_here(each, told))
            done(len(runs))
        return runs

    return answered


def in_process(opened: Open) -> Callable[[Journal], int]:
    """What computes a run in this process, with models and corpora that are open already."""
    return partial(execute, subruns=SUBRUNS, opened=opened)


def computed_here(question: Question) -> Callable[[Journal], int]:
    """What computes a run in this process, with the open models and corpora of its request."""
    return in_process(handed_over(question.models, question.corpora))


def _question(asked: Asked, device: str, named: Mapping[int, Any], seen: Seen) -> Question:
    """Checked; open things by the reference they were opened by, so that it can be asked again."""
    question = ask(
        asked.experiment,
        asked.models,
        asked.corpora,
        asked.settings,
        split=asked.split,
        seed=asked.seed,
        device=device,
        seen=seen,
    )
    spec = question.spec.model_copy(
        update={
            "models": _as_named(asked.models, question.spec.models, named),
            "corpora": _as_named(asked.corpora, question.spec.corpora, named),
        }
    )
    for reason in question.misfits():
        raise reason
    return replace(question, spec=spec)


def _as_named(
    given: Sequence[Any], told: Sequence[Any], named: Mapping[int, Any]
) -> tuple[Any, ...]:
    return tuple(named.get(id(one), spec) for one, spec in zip(given, told, strict=True))


def _here(question: Question, told: Journal) -> Run:
    """The run that answers, when it is done, in this process."""
    compute = computed_here(question)
    whole = told.folder.name
    while True:
        run = start(question.spec, compute=compute, part_of=whole)
        for _ in follow(run):  # another process may be at it
            told.check()
        now = run.status
        if not ended_with_others(now, whole):
            _require_done(run, now, told)
            return run
        told.check()


def _side_by_side(specs: Sequence[Spec], told: Journal, done: Told) -> Sequence[Run]:
    """The runs that answer, each in a process of its own, as many at a time as there are cores."""
    most = min(len(specs), os.cpu_count() or 1)
    threads = own_threads() or {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // most))}
    return all_ended(
        specs,
        told,
        most,
        begin=lambda spec: start(spec, share=True, part_of=told.folder.name, threads=threads),
        ended=lambda run, now: _require_done(run, now, told),
        done=done,
    )


def _require_done(run: Run, now: Status, told: Journal) -> None:
    """Where a part is not done, neither is the run that needs it."""
    if now.state == "done":
        return
    told.check()
    if now.state == "cancelled" and not (run.path / CANCEL).exists():
        raise Cancelled
    if now.failure is not None:
        raise WorkbenchError(
            now.failure.what,
            where=": ".join(part for part in (run.name, now.failure.where) if part),
            remedy=now.failure.remedy,
        )
    raise WorkbenchError(
        "a run that this one needs was cancelled.",
        where=run.name,
        remedy="Go on with workbench runs resume: what is done is kept.",
    )


# --- the runs that a run is made of: begun as there is room, waited for, and ended with it --------
#
# A sweep's combinations and the questions a run asks on its way. Costs a look at each run under
# way every fifth of a second.

EVERY = 0.2  # seconds between looks at the runs under way


def ended_with_others(now: Status, whole: str) -> bool:
    """Whether a part was cancelled with somebody else who had begun it, not with its whole."""
    return now.state == "cancelled" and now.part_of != whole


def all_ended(
    parts: Sequence[Spec],
    told: Journal,
    most: int,
    begin: Callable[[Spec], Run],
    ended: Callable[[Run, Status], object],
    done: Callable[[int], object],
) -> list[Run]:
    """Every part's run, when all have ended; `most` are under way at a time.

    `ended` hears of each, and may raise; `done` how many have. Those begun here end with an error.
    """
    whole = told.folder.name
    waiting, runs = list(enumerate(parts)), dict[int, Run]()
    active: dict[int, Run] = {}
    try:
        while waiting or active:
            while waiting and len(active) < most:
                place, part = waiting.pop(0)
                active[place] = runs[place] = begin(part)
            for place, run in list(active.items()):
                now = looked(run)
                if now.under_way:
                    continue
                del active[place]
                if ended_with_others(now, whole):
                    waiting.append((place, parts[place]))
                else:
                    ended(run, now)
            done(len(parts) - len(active) - len(waiting))
            told.check()
            if active:
                time.sleep(EVERY)
    except BaseException:
        end([run for run in active.values() if run.status.part_of == whole])
        raise
    return [runs[place] for place in sorted(runs)]


# --- a sweep: one question for every combination of some values, gathered into one table each -----
#
#     --sweep layer=0,4,8 model=a,b seed=0..4
#
# Each combination is a run of its own, answered from disk where it was asked before; the sweep is
# a run that starts them (one more at a time than there are devices, or all of them on a cluster),
# waits, and lays their tables under one another with the values in front. Costs its parts.

MOST = 10_000  # runs of one sweep
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
    swept = kind.settings.with_current_names(swept)
    settings = kind.settings.with_current_names(settings)
    _require_sensible(kind, swept)
    questions, seen = [], dict[Any, Any]()
    shown: dict[str, dict[str, Any]] = {name: {} for name in swept}
    for chosen in product(*swept.values()):
        varied = dict(zip(swept, chosen, strict=True))
        inputs = {name: varied.pop(name) for name in INPUTS if name in varied}
        if "seed" in inputs:
            inputs["seed"] = _number(inputs["seed"])
        question = ask(
            experiment,
            [inputs.pop("model")] if "model" in inputs else models,
            [inputs.pop("corpus")] if "corpus" in inputs else corpora,
            {**settings, **varied},
            **{**rest, **inputs, "seen": seen},
        )
        questions.append(question)
        for name, value in zip(swept, chosen, strict=True):
            shown[name].setdefault(str(value), _shown(question, name, value))
    sweep = {name: _alike(list(found.values())) for name, found in shown.items()}
    for name, column in sweep.items():
        if len(set(column)) < len(column):
            raise WorkbenchError(f"a value of {name} comes twice.", remedy="Say each once.")
    parts = tuple(question.spec for question in questions)
    return questions[0].spec.model_copy(update={"sweep": sweep, "parts": parts}), questions


def _require_sensible(kind: Experiment[Any], swept: Mapping[str, Sequence[Any]]) -> None:
    number, known = 1, [*INPUTS, *kind.settings.model_fields]
    for name, options in swept.items():
        number *= len(options)
        if name not in known:
            raise WorkbenchError(
                f"{name!r} cannot be swept: {kind.name} has no such setting.",
                remedy=did_you_mean(name, known),
            )
        if not options:
            raise WorkbenchError(
                f"no value is given for {name}.", remedy=f"Say {name}=a,b or 0..4."
            )
        if len(set(map(str, options))) < len(options):
            raise WorkbenchError(f"a value of {name} comes twice.", remedy="Say each once.")
    if number > MOST:
        raise WorkbenchError(f"{number:,} runs are too many.", remedy=f"At most {MOST:,}.")


def gather(asked: spec.Spec, told: Journal, share: bool) -> tuple[Result, dict[str, Any]]:
    """Have every part answered, and lay their tables together."""
    runs = _answered(asked, told, share)
    if failed := [run for run in runs if run.status.state != "done"]:
        first = failed[0].status
        why = first.failure.what if first.failure else f"{first.state}."
        raise WorkbenchError(
            f"{len(failed)} of {len(runs)} runs did not finish: {why}",
            where=listed(run.name for run in failed),
            remedy="The others are kept. See workbench runs show RUN, mend it, and ask again.",
        )
    experiment, sweep = EXPERIMENTS[asked.experiment], spec.current_sweep(asked)
    tables, about = {}, {}
    for name in dict.fromkeys(name for run in runs for name in run.tables):
        parts = {
            chosen: run.tables[name]
            for run, chosen in zip(runs, product(*sweep.values()), strict=True)
            if name in run.tables
        }
        keys = swept_columns(sweep, {column for part in parts.values() for column in part.columns})
        tables[name] = _stacked(keys, parts)
        own = experiment.tables[name]
        about[name] = Table(own.about, (*keys, *own.keys))
    caveats = dict.fromkeys(Caveat(c.text, c.beside) for run in runs for c in run.caveats)
    models = {m["content_hash"]: m for run in runs for m in _own(run, "models")}
    corpora = {c["hash"]: c for run in runs for c in _own(run, "corpora")}
    facts = {
        "about": about,
        "runs": [run.name for run in runs],
        "models": list(models.values()),
        "corpora": list(corpora.values()),
    }
    return Result(tables, caveats=tuple(caveats)), facts


def _stacked(keys: Sequence[str], parts: Mapping[tuple[Any, ...], pd.DataFrame]) -> pd.DataFrame:
    """The parts of one table under one another, the swept values in front."""
    rows = []
    for chosen, part in parts.items():
        keyed = part.copy()
        for place, (key, value) in enumerate(zip(keys, chosen, strict=True)):
            keyed.insert(place, key, value)
        rows.append(keyed)
    return pd.concat(rows, ignore_index=True)


def _answered(asked: spec.Spec, told: Journal, share: bool) -> list[Run]:
    """Every part's run, when all have ended."""
    sweep, scheduler = told.folder.name, told.status.parts_on
    number = len(asked.parts)
    return all_ended(
        asked.parts,
        told,
        number if scheduler else (os.cpu_count() or 1) if share else _slots(asked) + 1,
        begin=lambda part: start(part, share=share, scheduler=scheduler, part_of=sweep),
        ended=lambda run, now: told.log(f"{run.name}: {now.state}"),
        done=lambda ended: told(ended, number, "runs"),
    )


def _slots(asked: spec.Spec) -> int:
    return max(len(device_queue.slots(part.device)) for part in asked.parts)


def _own(run: Run, what: str) -> list[dict[str, Any]]:
    found = run.provenance.get(what, [])
    return found if isinstance(found, list) else []


def _number(text: Any) -> Any:
    try:
        return int(text) if isinstance(text, str) else text
    except ValueError:
        raise WorkbenchError(
            f"a seed is {text!r:.40}.", remedy="Say seed=0..4, or 0,1,2."
        ) from None


def _shown(question: Question, name: str, given: Any) -> Any:
    """A swept value as tables have it: settings as they were understood, the rest as named."""
    if name == "seed":
        return question.spec.seed
    found = question.spec.settings[name] if name not in INPUTS else given
    return found if isinstance(found, int | float) else str(given)


def _alike(column: list[Any]) -> list[Any]:
    """Values of one kind; where they are not, as text."""
    one_kind = len({isinstance(value, bool) for value in column}) == 1
    if one_kind and all(isinstance(value, int | float) for value in column):
        return column
    return [str(value) for value in column]


SUBRUNS = SubRuns(asker, gather)
