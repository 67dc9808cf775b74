"""Subruns: other runs that a run needs, each with its own folder, read from disk if they are done.

A single subrun is computed in the process of the parent run, with the models that are open there;
several on a CPU each in their own process, as many in parallel as there are cores. All of them end
with the parent run. Costs: a folder per subrun.
"""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.core.errors import WorkbenchError, listed, require_one_of
from workbench.core.findings import NUMBERS, capital, check_findings, of_all, summary
from workbench.core.groups import grouped
from workbench.experiment.definition import (
    EXPERIMENTS,
    Caveat,
    Experiment,
    Result,
    RunSubruns,
    SubrunRequest,
    Table,
)
from workbench.runs import spec
from workbench.runs.execute import Open, SubRuns, execute, open_inputs, open_objects
from workbench.runs.launch import end, follow, looked, start
from workbench.runs.processes import device_queue
from workbench.runs.processes.resources import thread_limits
from workbench.runs.request import Request, Seen, make_request, runs_here
from workbench.runs.run import Run
from workbench.runs.spec import Spec
from workbench.runs.status import CANCEL, Cancelled, Journal, Status
from workbench.runs.time_left import left_of_parts

if TYPE_CHECKING:
    import pandas as pd

    from workbench.corpora import Corpus
    from workbench.engine.model import Model

OnProgress = Callable[[int], object]


def subrun_runner(
    journal: Journal, run_spec: Spec, models: "Sequence[Model]", corpora: "Sequence[Corpus]"
) -> RunSubruns:
    """Return the function that computes subruns of this run."""
    named: dict[int, Any] = {
        **{id(model): spec for model, spec in zip(models, run_spec.models, strict=True)},
        **{id(corpus): spec for corpus, spec in zip(corpora, run_spec.corpora, strict=True)},
    }
    seen: Seen = {}
    lengths: list[float] = []  # seconds that ended subruns have taken, of those that are alike

    def run_subruns(
        subruns: Sequence[SubrunRequest], on_progress: OnProgress, later: int | None = 0
    ) -> Sequence[Run]:
        journal.check()
        requests = [_request(subrun, run_spec.device, named, seen) for subrun in subruns]
        taken = lengths if later is not None else []
        separate = run_spec.device == "cpu" and not any(each.runs_here for each in requests)
        if separate and len(requests) > 1 and (os.cpu_count() or 1) > 1:
            specs = [each.spec for each in requests]
            return _in_parallel(specs, journal, on_progress, taken, later)
        runs = []
        for request in requests:
            is_shown = len(requests) == 1 and later is None
            runs.append(_here(request, journal, is_shown))
            taken.append(runs[-1].status.seconds)
            _estimate(journal, taken, [], len(requests) - len(runs), 1, later)
            on_progress(len(runs))
        journal.left_of_stage = None
        return runs

    return run_subruns


def in_process(opened: Open) -> Callable[[Journal], int]:
    """Return the function that computes a run in this process, with open models and corpora."""
    return partial(execute, subruns=SUBRUNS, opened=opened)


def compute_here(request: Request) -> Callable[[Journal], int]:
    """Return the function that computes a run here, with the open objects of its request."""
    return in_process(open_objects(request.models, request.corpora))


def compute_again(run_spec: Spec) -> Callable[[Journal], int] | None:
    """Return the function that computes a request here, if only this process can."""
    return in_process(open_inputs) if runs_here(run_spec) else None


def _request(subrun: SubrunRequest, device: str, named: Mapping[int, Any], seen: Seen) -> Request:
    """Check a request; open models get their reference, so that the run can be resumed."""
    request = make_request(
        subrun.experiment,
        subrun.models,
        subrun.corpora,
        subrun.settings,
        split=subrun.split,
        seed=subrun.seed,
        device=device,
        seen=seen,
    )
    spec = request.spec.model_copy(
        update={
            "models": _with_reference(subrun.models, request.spec.models, named),
            "corpora": _with_reference(subrun.corpora, request.spec.corpora, named),
        }
    )
    for error in request.unmet_requirements():
        raise error
    return replace(request, spec=spec)


def _with_reference(
    sources: Sequence[Any], specs: Sequence[Any], named: Mapping[int, Any]
) -> tuple[Any, ...]:
    return tuple(named.get(id(source), spec) for source, spec in zip(sources, specs, strict=True))


def _here(request: Request, journal: Journal, is_shown: bool = False) -> Run:
    """Compute a subrun in this process, and return it when it is done.

    `is_shown`: its progress is that of this run.
    """
    whole = journal.folder.name

    def compute(own: Journal) -> int:
        own.above = journal if is_shown else None
        return compute_here(request)(own)

    while True:
        run = start(request.spec, compute=compute, part_of=whole)
        for _ in follow(run):  # another process may compute it
            journal.check()
        now = run.status
        if not cancelled_elsewhere(now, whole):
            _require_done(run, now, journal)
            return run
        journal.check()


def _in_parallel(
    specs: Sequence[Spec],
    journal: Journal,
    on_progress: OnProgress,
    lengths: list[float],
    later: int | None,
) -> Sequence[Run]:
    """Compute subruns, each in its own process, as many in parallel as there are cores."""
    n_parallel = min(len(specs), os.cpu_count() or 1)
    cores = max(1, (os.cpu_count() or 1) // n_parallel)
    threads = thread_limits() or {"OMP_NUM_THREADS": str(cores)}
    return run_parts(
        specs,
        journal,
        n_parallel,
        begin=lambda spec: start(spec, share=True, part_of=journal.folder.name, threads=threads),
        ended=lambda run, now: _require_done(run, now, journal),
        on_progress=on_progress,
        lengths=lengths,
        later=later,
    )


def _require_done(run: Run, now: Status, journal: Journal) -> None:
    """Raise an error if a subrun is not done: the run that needs it cannot continue."""
    if now.state == "done":
        return
    journal.check()
    if now.state == "cancelled" and not (run.path / CANCEL).exists():
        raise Cancelled
    if now.failure is not None:
        raise WorkbenchError(
            now.failure.what,
            code=now.failure.code,
            where=": ".join(part for part in (run.name, now.failure.where) if part),
            remedy=now.failure.remedy,
        )
    raise WorkbenchError(
        "a run that this run needs was cancelled.",
        code="run-cancelled",
        where=run.name,
        remedy="Continue with workbench runs resume: finished runs are used again.",
    )


# --- the parts of a run: started as there is room, waited for, and ended with it -----------------
#
# The parts of a sweep, and the subruns of a run. Costs: a check of each run under way five times a
# second.

EVERY = 0.2  # seconds between checks of the runs under way
ESTIMATED = 1.0  # seconds between estimates of the time that they have left


def cancelled_elsewhere(now: Status, whole: str) -> bool:
    """Return whether a part was cancelled with another run that had started it."""
    return now.state == "cancelled" and now.part_of != whole


def run_parts(
    parts: Sequence[Spec],
    journal: Journal,
    n_parallel: int,
    begin: Callable[[Spec], Run],
    ended: Callable[[Run, Status], object],
    on_progress: OnProgress,
    lengths: list[float] | None = None,
    later: int | None = 0,
) -> list[Run]:
    """Run all parts, at most `n_parallel` at a time; return their runs when all have ended.

    `ended` gets each ended run, and may raise; `on_progress` gets the number of ended runs. An
    error cancels the parts that were started here. `lengths` are the seconds that parts before
    these have taken, and `later` is the number of those that follow (None: not known, so the time
    left is that of these parts, not of the whole run).
    """
    whole = journal.folder.name
    waiting, runs = list(enumerate(parts)), dict[int, Run]()
    active: dict[int, Run] = {}
    lengths, estimated = lengths if lengths is not None else [], 0.0  # when they were last used
    try:
        while waiting or active:
            while waiting and len(active) < n_parallel:
                index, part = waiting.pop(0)
                active[index] = runs[index] = begin(part)
            for index, run in list(active.items()):
                now = looked(run)
                if now.under_way:
                    continue
                del active[index]
                if cancelled_elsewhere(now, whole):
                    waiting.append((index, parts[index]))
                else:
                    lengths.append(now.seconds)
                    ended(run, now)
            if time.monotonic() - estimated > ESTIMATED:
                estimated = time.monotonic()
                folders = [run.path for run in active.values()]
                _estimate(journal, lengths, folders, len(waiting), n_parallel, later)
            on_progress(len(parts) - len(active) - len(waiting))
            journal.check()
            if active:
                time.sleep(EVERY)
    except BaseException:
        end([run for run in active.values() if run.status.part_of == whole])
        raise
    journal.left_of_parts = journal.left_of_stage = None
    return [runs[index] for index in sorted(runs)]


def _estimate(
    journal: Journal,
    lengths: Sequence[float],
    active: Sequence[Path],
    n_waiting: int,
    n_parallel: int,
    later: int | None,
) -> None:
    """Set the time left of the run, or of its stage if it is not known what follows."""
    left = left_of_parts(lengths, active, n_waiting + (later or 0), n_parallel) or None
    if later is None:
        journal.left_of_stage = left
    else:
        journal.left_of_parts = left


# --- a sweep: one run for every combination of some values, with their tables concatenated --------
#
#     --sweep layer=0,4,8 model=a,b seed=0..4
#
# Each combination is a run of its own, read from disk if it is done. The sweep is a run that starts
# them (one more in parallel than there are devices, or all of them on a cluster), waits, and
# concatenates their tables with the swept values in front. Costs: its parts.

MOST = 10_000  # maximum number of runs of a sweep
_NUMBERS = "measure group run value lower upper null unit verdict".split()
NUMBERS_TABLE = Table(
    "The numbers of each run's findings. `group` has the swept values but the seed: runs of one "
    "group are repetitions.",
    ("measure", "run"),
)
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")
INPUTS = ("model", "corpus", "seed", "split", "precision", "objective")  # swept beside settings


def values(text: str) -> list[str]:
    """Parse `a,b` as two values and `0..4` as five; a comma inside elmo:A,B does not separate."""
    if match := _RANGE.fullmatch(text):
        first, last = int(match[1]), int(match[2])
        if abs(last - first) >= MOST:
            raise WorkbenchError(
                f"{text} is more than {MOST:,} values.",
                code="sweep-too-large",
                remedy="Sweep fewer values.",
            )
        step = 1 if last >= first else -1
        return [str(number) for number in range(first, last + step, step)]
    parts: list[str] = []
    for part in text.split(","):
        if parts and parts[-1].startswith("elmo:") and "," not in parts[-1]:
            parts[-1] += f",{part}"
        elif part:
            parts.append(part)
    return parts


def make_sweep(
    experiment: str,
    models: Sequence[Any],
    corpora: Sequence[Any],
    settings: Mapping[str, Any],
    swept: Mapping[str, Sequence[Any]],
    **options: Any,
) -> tuple[spec.Spec, list[Request]]:
    """Return the spec of a sweep, and the requests of its parts."""
    kind = EXPERIMENTS[experiment]
    _require_sensible(kind, swept)
    requests, seen = [], dict[Any, Any]()
    shown: dict[str, dict[str, Any]] = {name: {} for name in swept}
    for combination in product(*swept.values()):
        varied = dict(zip(swept, combination, strict=True))
        inputs = {name: varied.pop(name) for name in INPUTS if name in varied}
        if "seed" in inputs:
            inputs["seed"] = _number(inputs["seed"])
        request = make_request(
            experiment,
            [inputs.pop("model")] if "model" in inputs else models,
            [inputs.pop("corpus")] if "corpus" in inputs else corpora,
            {**settings, **varied},
            **{**options, **inputs, "seen": seen},
        )
        requests.append(request)
        for name, value in zip(swept, combination, strict=True):
            shown[name].setdefault(_key(value), _shown(request, name, value))
    sweep = {name: _of_one_type(list(column.values())) for name, column in shown.items()}
    for name, column in sweep.items():
        if len(set(column)) < len(column) or len(column) < len(swept[name]):
            raise _repeated(name)
    parts = tuple(request.spec for request in requests)
    return requests[0].spec.model_copy(update={"sweep": sweep, "parts": parts}), requests


def _require_sensible(kind: Experiment[Any], swept: Mapping[str, Sequence[Any]]) -> None:
    n_runs, known = 1, [*INPUTS, *kind.settings.model_fields]
    for name, options in swept.items():
        n_runs *= len(options)
        require_one_of(
            name,
            known,
            f"{name!r} cannot be swept: {kind.name} has no such setting.",
            code="setting-unknown",
        )
        if not options:
            raise WorkbenchError(
                f"no value is given for {name}.",
                code="setting-invalid",
                remedy=f"Write {name}=a,b or {name}=0..4.",
            )
        if len(set(map(_key, options))) < len(options):
            raise _repeated(name)
    if n_runs > MOST:
        raise WorkbenchError(
            f"{n_runs:,} runs are too many for a sweep.",
            code="sweep-too-large",
            remedy=f"The maximum is {MOST:,}: sweep fewer values.",
        )


def _key(value: Any) -> str:
    """Return what tells a swept value from others; two objects may look alike."""
    return str(value) if isinstance(value, str | int | float | Path) else str(id(value))


def _repeated(name: str) -> WorkbenchError:
    remedy = "Write each value once."
    if name in ("model", "corpus"):
        remedy += f" Two of one name need others, as in wb.load(net, tokenizer, name=...): {name}."
    return WorkbenchError(f"a value of {name} is repeated.", code="value-repeated", remedy=remedy)


def gather(run_spec: spec.Spec, journal: Journal, share: bool) -> tuple[Result, dict[str, Any]]:
    """Run all parts of a sweep, and concatenate their tables."""
    from workbench.runs.compare import swept_columns

    runs = _part_runs(run_spec, journal, share)
    if failed := [run for run in runs if run.status.state != "done"]:
        first = failed[0].status
        why = first.failure.what if first.failure else f"{first.state}."
        raise WorkbenchError(
            f"{capital(of_all(len(failed), len(runs), 'run'))} did not finish: {why}",
            code="sweep-incomplete",
            where=listed(run.name for run in failed),
            remedy="See workbench runs show RUN, fix the cause, and start the sweep again: it uses "
            "finished runs.",
        )
    sweep = run_spec.sweep
    tables, about = {}, {}
    for name in dict.fromkeys(name for run in runs for name in run.tables):
        parts = {
            combination: run.tables[name]
            for run, combination in zip(runs, product(*sweep.values()), strict=True)
            if name in run.tables
        }
        keys = swept_columns(sweep, {column for part in parts.values() for column in part.columns})
        tables[name] = _concatenated(keys, parts)
        stored = next(run.tables[name].attrs for run in runs if name in run.tables)
        about[name] = Table(stored["about"], (*keys, *stored["keys"]))
    by_group = grouped(
        (_group(sweep, combination), run)
        for run, combination in zip(runs, product(*sweep.values()), strict=True)
    )
    numbers = numbers_of_runs(by_group)
    if len(numbers):  # of an experiment that states findings
        tables[NUMBERS], about[NUMBERS] = numbers, NUMBERS_TABLE
    caveats = grouped(
        (Caveat(each.text, each.applies_to), " and ".join(_values(sweep, combination)))
        for run, combination in zip(runs, product(*sweep.values()), strict=True)
        for each in dict.fromkeys(run.caveats)
    )
    models = {m["content_hash"]: m for run in runs for m in _facts(run, "models")}
    corpora = {c["hash"]: c for run in runs for c in _facts(run, "corpora")}
    facts = {
        "about": about,
        "findings": lambda tables: check_findings(
            summary({name: [run.findings for run in group] for name, group in by_group.items()}),
            tables,
        ),
        "runs": [run.name for run in runs],
        "models": list(models.values()),
        "corpora": list(corpora.values()),
    }
    return Result(tables, caveats=tuple(_of_parts(caveats, len(runs)))), facts


def _of_parts(caveats: Mapping[Caveat, Sequence[str]], n_runs: int) -> Iterator[Caveat]:
    """Yield the caveats of the parts, with the values of those that have one if not all have it."""
    for caveat, parts in caveats.items():
        if len(parts) < n_runs:
            caveat = replace(caveat, text=f"{listed(parts)}: {caveat.text}")
        yield caveat


def _group(sweep: Mapping[str, Sequence[Any]], combination: Sequence[Any]) -> str:
    """Return what tells a run from others: its swept values but the seed, which repeats it."""
    pairs = zip(sweep, combination, strict=True)
    kept = {name: value for name, value in pairs if name != "seed"}
    return ", ".join(_values(kept, [*kept.values()]))


def _values(names: Iterable[str], combination: Sequence[Any]) -> list[str]:
    """Return the swept values of a run in words."""
    return [
        str(value) if name in ("model", "corpus") else f"{name} {value}"
        for name, value in zip(names, combination, strict=True)
    ]


def numbers_of_runs(groups: "Mapping[str, Sequence[Run]]") -> "pd.DataFrame":
    """Return the numbers of the findings of each run."""
    import pandas as pd

    rows = [
        (each.measure, group, run.name, each.value, *(each.interval or (None, None)), each.null,
         each.unit, each.verdict)
        for group, runs in groups.items()
        for run in runs
        for each in run.findings
        if each.value is not None
    ]  # fmt: skip
    numbers = pd.DataFrame(rows, columns=_NUMBERS)
    floats = ["value", "lower", "upper", "null"]
    return numbers.astype(dict.fromkeys(floats, float))


def _concatenated(
    keys: Sequence[str], parts: "Mapping[tuple[Any, ...], pd.DataFrame]"
) -> "pd.DataFrame":
    """Concatenate the parts of one table, with the swept values in the first columns."""
    import pandas as pd

    keyed_parts = []
    for combination, part in parts.items():
        keyed = part.copy()
        for index, (key, value) in enumerate(zip(keys, combination, strict=True)):
            keyed.insert(index, key, value)
        keyed_parts.append(keyed)
    return pd.concat(keyed_parts, ignore_index=True)


def _part_runs(run_spec: spec.Spec, journal: Journal, share: bool) -> list[Run]:
    """Run all parts, and return their runs when all have ended."""
    sweep, scheduler = journal.folder.name, journal.status.parts_on
    n_parts = len(run_spec.parts)
    return run_parts(
        run_spec.parts,
        journal,
        n_parts if scheduler else (os.cpu_count() or 1) if share else _slots(run_spec) + 1,
        begin=lambda part: start(
            part, share=share, scheduler=scheduler, part_of=sweep, compute=compute_again(part)
        ),
        ended=lambda run, now: journal.log(f"{run.name}: {now.state}"),
        on_progress=lambda n_ended: journal(n_ended, n_parts, "runs"),
    )


def _slots(run_spec: spec.Spec) -> int:
    return max(len(device_queue.slots(part.device)) for part in run_spec.parts)


def _facts(run: Run, what: str) -> list[dict[str, Any]]:
    facts = run.provenance.get(what, [])
    return facts if isinstance(facts, list) else []


def _number(text: Any) -> Any:
    try:
        return int(text) if isinstance(text, str) else text
    except ValueError:
        raise WorkbenchError(
            f"a seed is {text!r:.40}.",
            code="seed-invalid",
            remedy="Write seed=0..4, or seed=0,1,2.",
        ) from None


def _shown(request: Request, name: str, text: Any) -> Any:
    """Return a swept value for the tables: a number, a name, or else the value as typed."""
    if name == "seed":
        return request.spec.seed
    if name == "model":
        return request.spec.models[0].name
    if name == "corpus":
        return request.spec.corpora[0].name
    value = request.spec.settings[name] if name not in INPUTS else text
    return value if isinstance(value, int | float) else str(text)


def _of_one_type(column: list[Any]) -> list[Any]:
    """Return numbers as they are if all values are of one type, else all values as text."""
    one_type = len({isinstance(value, bool) for value in column}) == 1
    if one_type and all(isinstance(value, int | float) for value in column):
        return column
    return [str(value) for value in column]


SUBRUNS = SubRuns(subrun_runner, gather)
