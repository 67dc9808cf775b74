"""The steps of a run: wait for the device, open, check, compute, write results, set the status.

The steps are the same in a process of its own and inside a notebook. All results are on disk before
the status becomes "done"; any error is stored in the status. Costs: the computation.
"""

import json
import os
import platform
import random
import shutil
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from workbench.core.errors import WorkbenchError, line_of
from workbench.core.files import is_full, unwritable, write_atomically
from workbench.core.machine import peak_memory
from workbench.core.version import __version__
from workbench.experiment.definition import (
    EXPERIMENTS,
    Inputs,
    Progress,
    Result,
    RunSubruns,
    unmet_requirements,
)
from workbench.models.references import TRAINED, folder_of
from workbench.runs import effort, run, spec, status, time_left
from workbench.runs.processes import device_queue, resources
from workbench.runs.request import checked_settings, object_of
from workbench.runs.run import PROVENANCE
from workbench.runs.spec import unlinked
from workbench.runs.status import Cancelled, Failure, Journal

if TYPE_CHECKING:
    from workbench.corpora import Corpus
    from workbench.engine.model import Model

_PACKAGES = ("numpy", "pandas", "pyarrow", "spacy", "torch", "transformers")
Open = Callable[[spec.Spec, Journal], "tuple[tuple[Model, ...], tuple[Corpus, ...]]"]


class SubRuns(NamedTuple):
    """How a run computes other runs; `subruns` has the only instance."""

    subrun_runner: Callable[[Journal, spec.Spec, "Sequence[Model]", "Sequence[Corpus]"], RunSubruns]
    gather: Callable[[spec.Spec, Journal, bool], tuple[Result, dict[str, Any]]]


def execute(
    journal: Journal, subruns: SubRuns, *, share: bool = False, opened: Open | None = None
) -> int:
    """Compute the run whose lock this process holds; return the exit code.

    `subruns` computes the other runs that this run needs; `opened` returns models and corpora that
    are already open.
    """
    try:
        _attempt(journal, subruns, share, opened)
    except (Cancelled, KeyboardInterrupt) as end:
        _unfinished(journal, "cancelled")
        if isinstance(end, KeyboardInterrupt):
            raise
    except WorkbenchError as error:
        lines = status.log_lines(journal.folder)
        _unfinished(journal, "failed", Failure.of(error, lines))
        return 2 if journal.status.state == "failed" else status.CODES[journal.status.state]
    except (Exception, SystemExit) as error:
        if short := _short_of_memory(error):
            lines = status.log_lines(journal.folder)
            _unfinished(journal, "failed", replace(short, kind="input", lines=lines))
            return status.CODES[journal.status.state]
        trace = () if is_full(error) else traceback.format_exc().rstrip().splitlines()
        for line in trace:
            journal.log(line)
        lines = tuple(trace) or status.log_lines(journal.folder)
        _unfinished(journal, "failed", _crash(journal.folder, error, lines[-status.LINES :]))
    return status.CODES[journal.status.state]


def _short_of_memory(error: BaseException) -> Failure | None:
    """Return the failure if memory ran out, of the CPU or a device; None for another error."""
    if isinstance(error, MemoryError):
        return Failure(
            "out of memory.",
            remedy="Close other programs, lower max_sentences, or use a smaller model.",
            code="out-of-memory",
        )
    if type(error).__name__ == "OutOfMemoryError":  # of torch, which may not be imported
        return Failure(
            "out of memory on the device.",
            remedy="Use a smaller model, --precision bf16, shorter texts (--unit sentence), or "
            "--device cpu.",
            code="out-of-memory",
        )
    return None


def _crash(folder: Path, error: BaseException, lines: tuple[str, ...]) -> Failure:
    """Return the failure for an unexpected error: a full disk, or a bug."""
    if isinstance(error, Exception) and is_full(error):
        name = getattr(error, "filename", None)
        path = Path(os.fsdecode(name)) if name else folder
        full = unwritable(path, error, "Then continue the run with workbench runs resume.")
        return Failure.of(full, lines)
    return Failure(
        f"{type(error).__name__}: {error}".rstrip(": ") + ".",
        where=line_of(error),
        remedy="This is a bug in the experiment or in Workbench; the log has the details: "
        f"workbench runs show {folder.name}",
        lines=lines,
        code="internal",
    )


def _unfinished(journal: Journal, state: status.State, failure: Failure | None = None) -> None:
    """End the run without results, and delete partial results, unless the run is done already.

    A run that fails after a request to cancel counts as cancelled: a signal that arrives during an
    import is often raised as another error.
    """
    if (journal.folder / status.CANCEL).exists():
        state, failure = "cancelled", None
    if journal.status.state != "done":
        run.clear(journal.folder)  # first: on a full disk this frees space for the status
        shutil.rmtree(journal.folder / TRAINED, ignore_errors=True)
        journal.becomes(state, ended=status.utc_now(), failure=failure)


def _attempt(journal: Journal, subruns: SubRuns, share: bool, opened: Open | None) -> None:
    run_spec = _checked_spec(journal.folder)
    journal(0, None, "starting")
    journal.earlier = time_left.earlier(journal.folder, journal.status, run_spec)
    if run_spec.sweep:
        _run(
            journal,
            run_spec,
            "cpu",
            run_spec.device,
            lambda: subruns.gather(run_spec, journal, share),
        )
        return
    EXPERIMENTS[run_spec.experiment].import_code()
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1  # processes that `torchrun` started
    device, guest = run_spec.device, opened is not None
    if several and device.startswith("cuda"):
        device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"  # each process has its own GPU
    alone = not (guest or several)
    on_cpu = alone and device == "cpu" and not journal.status.scheduler
    with (
        _turn(device, journal, share or guest) as slot,
        resources.computing(gives_way=share) if on_cpu else nullcontext(),
        _on(slot, alone) as name,
    ):
        _run(
            journal,
            run_spec,
            name,
            slot.title,
            lambda: _compute(journal, run_spec, name, subruns, opened),
        )


def _checked_spec(folder: Path) -> spec.Spec:
    """Read the spec of a run; an error if it does not match the run's name or the experiment."""
    run_spec = spec.read(folder)
    experiment = EXPERIMENTS[run_spec.experiment]
    if run_spec.name != folder.name:
        what = f"the spec of the run belongs to another run: {run_spec.name}."
    elif run_spec.version != experiment.version:
        what = (
            f"{run_spec.experiment} has changed: the run needs version {run_spec.version}, this is "
            f"version {experiment.version}."
        )
    else:
        return run_spec
    raise WorkbenchError(
        what,
        code="run-outdated",
        where=folder.name,
        remedy="Start a new run with workbench run.",
    )


def _on(slot: device_queue.Slot, alone: bool) -> AbstractContextManager[str]:
    """Compute on the device of the slot; yield torch's name of the device in this process."""
    return nullcontext(slot.name) if slot.card is None else device_queue.on(slot.card, alone)


@contextmanager
def _turn(device: str, journal: Journal, share: bool) -> Iterator[device_queue.Slot]:
    logged: list[device_queue.Ahead] = []

    def waiting(ahead: device_queue.Ahead) -> None:
        journal.check()
        place = time_left.starts_after(*ahead)
        if ahead not in logged[-1:]:
            journal.log(f"Waiting for {device}: {place}. `workbench run --share` does not wait.")
            logged.append(ahead)
        lefts = [time_left.left_of(Path(path)) for path in (*ahead.running, *ahead.queued)]
        known = [journal.status.expected or None, *lefts]
        total = sum(left or 0.0 for left in known) if all(known) else None
        journal(0, None, f"queued: {place}", left_of_run=total)

    turn = (
        nullcontext(device_queue.slots(device)[0])
        if share
        else device_queue.turn(device, waiting, str(journal.folder))
    )
    with turn as slot:
        if logged:
            journal.log(f"The wait for {device} is over.")
        yield slot


def _run(
    journal: Journal,
    run_spec: spec.Spec,
    device: str,
    title: str,
    compute: Callable[[], tuple[Result, dict[str, Any]]],
) -> None:
    """Compute and write the results, and set the status; `title` is the name shown for `device`."""
    folder = journal.folder
    journal.becomes("running", started=status.utc_now(), device=title)
    clock = time.monotonic()
    experiment = EXPERIMENTS[run_spec.experiment]
    with _warnings_to(journal):
        result, facts = compute()
        journal(0, None, "writing tables and figures")
        about = facts.pop("about", experiment.tables)
        rows = run.write(folder, result, about)
        tables = run.Tables(folder)  # as they are on disk, each read once
        drawn = run.write_figures(folder, tables, run_spec, journal)
        findings = facts.pop("findings", experiment.findings_of)
        run.write_findings(folder, tables, findings, journal)
        _write_card(journal, run_spec, result, facts.get("growth", {}).get("sizes", {}))
    seconds = time.monotonic() - clock
    provenance = {
        "experiment": run_spec.experiment,
        "version": run_spec.version,
        "about": experiment.about,
        "fingerprint": run_spec.fingerprint,
        "workbench": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: number for name in _PACKAGES if (number := _version(name))},
        "device": title,
        "threads": resources.n_threads(),
        "started": journal.status.started,
        "ended": status.utc_now(),
        "seconds": round(seconds, 3),
        "peak_memory_bytes": peak_memory(device),
        "tables": rows,
        "figures": drawn,
        "caveats": [{"text": c.text, "beside": list(c.applies_to)} for c in result.caveats],
        "files": run.recorded(folder),
        **facts,
    }
    write_atomically(unlinked(folder / PROVENANCE), json.dumps(provenance, indent=1))
    journal.becomes("done", ended=status.utc_now(), seconds=seconds, failure=None)
    shutil.rmtree(
        folder / status.SCRATCH, ignore_errors=True
    )  # if this fails, `launch` does it later


def _write_card(
    journal: Journal, run_spec: spec.Spec, result: Result, sizes: Mapping[str, int | None]
) -> None:
    """Write the card of the model that the run saved, if it saved one. A failure is a warning."""
    folder = journal.folder / TRAINED
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    from workbench.runs import model_card

    try:
        found = run.stored_findings(journal.folder) or ()
        caveats = [caveat.text for caveat in result.caveats]
        name = journal.folder.name
        origin = model_card.Origin(name, run_spec, found, caveats, __version__, sizes)
        model_card.write(folder, origin)
    except (WorkbenchError, OSError, ValueError) as error:
        journal.warn(f"The model card cannot be written: {error}")


def _compute(
    journal: Journal, run_spec: spec.Spec, device: str, subruns: SubRuns, opened: Open | None
) -> tuple[Result, dict[str, Any]]:
    journal(0, None, _loading(run_spec))
    run_spec = run_spec.model_copy(update={"device": device})
    files_before = _model_files(run_spec)
    models, corpora = (opened or open_inputs)(run_spec, journal)
    with ExitStack() as unchanging:
        for model in models:
            unchanging.enter_context(model.unchanging())
        computed = _computed(journal, run_spec, subruns, models, corpora, files_before)
    _require_same_objects(run_spec, models)
    return computed


def _computed(
    journal: Journal,
    run_spec: spec.Spec,
    subruns: SubRuns,
    models: "tuple[Model, ...]",
    corpora: "tuple[Corpus, ...]",
    files_before: list[str],
) -> tuple[Result, dict[str, Any]]:
    experiment = EXPERIMENTS[run_spec.experiment]
    settings = checked_settings(experiment, run_spec.settings)
    from workbench.models.references import facts as facts_of

    facts = [facts_of(model) for model in models]
    _require_same(run_spec, facts)
    models = tuple(
        _for_objective(model, named) for model, named in zip(models, run_spec.models, strict=True)
    )
    facts = [facts_of(model) for model in models]
    for error in unmet_requirements(experiment, settings, facts, corpora):
        raise error
    _seed(run_spec.seed, bool(models))
    inputs = inputs_of(journal.folder, run_spec, models, corpora)
    inputs = replace(inputs, run_subruns=subruns.subrun_runner(journal, run_spec, models, corpora))
    try:
        result, growth = effort.grown(
            experiment, inputs, settings, journal, lambda: _with_less_time(journal.folder, run_spec)
        )
    except Exception:
        _require_unchanged(run_spec, corpora, files_before)  # a changed file is the likely cause
        raise
    _require_unchanged(run_spec, corpora, files_before)
    if not isinstance(result, Result):
        raise WorkbenchError(
            f"the function run returned a {type(result).__name__}, not a wb.Result.",
            code="wrong-type",
            where=f"wb.Experiment {run_spec.experiment!r}",
            remedy="Return wb.Result({table name: data frame}).",
        )
    return result, {
        "models": [{**f, "name": m.name} for f, m in zip(facts, run_spec.models, strict=True)],
        "corpora": [
            {"name": c.name, "hash": s.hash, "split": run_spec.split, "notes": list(c.notes)}
            for c, s in zip(corpora, run_spec.corpora, strict=True)
        ],
        **growth,
    }


def _with_less_time(folder: Path, run_spec: spec.Spec) -> effort.Earlier | None:
    """Return the finished run of the same request that a shorter time limit cut off, if any."""
    if (folder / TRAINED).exists():  # a model that the run would have to take over
        return None
    for other in sorted(folder.parent.glob(f"{run_spec.experiment}-*")):
        try:
            theirs = spec.read(other)
            time_of = theirs.settings.get("time")
            same = {**theirs.settings, "time": run_spec.settings.get("time")} == run_spec.settings
            if other == folder or not same or time_of == run_spec.settings.get("time"):
                continue
            if theirs.model_copy(update={"settings": run_spec.settings}).name != run_spec.name:
                continue
            done = run.open_run(other.name)
            growth = done.provenance["growth"]
            if (other / TRAINED).exists() or growth["ended"] != "time":
                continue
            steps = tuple(effort.step_of(each) for each in growth["steps"])
            return effort.Earlier(steps, effort.stored_result(done))
        except (WorkbenchError, OSError, LookupError, TypeError):
            continue
    return None


def _loading(run_spec: spec.Spec) -> str:
    """Return the progress text while models and corpora are opened."""
    if not run_spec.models:
        return "reading the corpus" if run_spec.corpora else "starting"
    return "loading the model" if len(run_spec.models) == 1 else "loading the models"


def inputs_of(
    folder: Path, run_spec: spec.Spec, models: "tuple[Model, ...]", corpora: "tuple[Corpus, ...]"
) -> Inputs:
    """Return the inputs of an experiment, with its paths in the folder of the run."""
    scratch = unlinked(folder / status.SCRATCH)
    scratch.mkdir(exist_ok=True)
    return Inputs(
        models,
        corpora,
        run_spec.split,
        run_spec.seed,
        run_spec.device,
        models[0].precision if models else "",
        run_spec.settings.get("max_sentences"),
        scratch,
        folder / TRAINED,
        tuple(folder_of(model.ref) if model.ref else None for model in run_spec.models),
    )


def open_inputs(
    run_spec: spec.Spec, progress: Progress
) -> "tuple[tuple[Model, ...], tuple[Corpus, ...]]":
    """Open the models and corpora of a request; an error if one has changed since."""
    corpora = []
    for named in run_spec.corpora:
        from workbench.corpora import read
        from workbench.corpora.content_hash import content_hash

        if named.ref is None:
            corpora.append(_object("corpus", named))
            continue
        corpus = read(named.ref, **named.options)
        if content_hash(corpus) != named.hash:
            raise _changed("corpus", named.name)
        for note in () if EXPERIMENTS[run_spec.experiment].trains else corpus.notes:
            progress.log(note)
        corpora.append(replace(corpus, name=named.name))
    models = []
    for model in run_spec.models:
        from workbench.models.loading import load
        from workbench.runs.model_facts import known

        if model.ref is None:
            models.append(_object("model", model))
            continue
        if known(model.ref, run_spec.seed, model.pickled).hash != model.hash:
            raise _changed("model", model.name)
        loaded = load(
            model.ref, run_spec.device, model.precision, seed=run_spec.seed, pickled=model.pickled
        )
        loaded.name = model.name  # not the path it was read from
        if model.precision != "fp32":  # the hash is that of the files, not of rounded weights
            vars(loaded)["content_hash"] = model.hash
        models.append(loaded)
    return tuple(models), tuple(corpora)


def open_objects(models: "Sequence[Model | None]", corpora: "Sequence[Corpus]") -> Open:
    """Return a function that gives the open models and corpora, and opens the other models."""

    def opened(
        run_spec: spec.Spec, progress: Progress
    ) -> "tuple[tuple[Model, ...], tuple[Corpus, ...]]":
        pairs = zip(run_spec.models, models, strict=True)
        closed = tuple(named for named, model in pairs if model is None)
        others = iter(
            open_inputs(run_spec.model_copy(update={"models": closed, "corpora": ()}), progress)[0]
        )
        opened = (next(others) if model is None else model for model in models)
        return tuple(opened), tuple(corpora)

    return opened


def _for_objective(model: "Model", named: spec.ModelSpec) -> "Model":
    """Return the model as it is used for the objective of the request; its files are the same."""
    from workbench.models.loading import with_objective

    chosen = with_objective(model, named.objective)
    if chosen is not model:
        vars(chosen)["content_hash"] = model.content_hash
    return chosen


def _require_same(run_spec: spec.Spec, facts: "list[dict[str, Any]]") -> None:
    """Raise an error if an opened model has another hash; rounded weights are not compared."""
    for model, opened in zip(run_spec.models, facts, strict=True):
        if model.precision == "fp32" and opened["content_hash"] != model.hash:
            raise _changed("model", model.name)


def _model_files(run_spec: spec.Spec) -> list[str]:
    """Return a hash of each model's files; "" for a model without files or passed as an object."""
    from workbench.runs.model_facts import files_hash

    return [
        files_hash(model.ref, run_spec.seed, model.pickled) if model.ref else ""
        for model in run_spec.models
    ]


def _require_unchanged(
    run_spec: spec.Spec, corpora: "tuple[Corpus, ...]", files_before: list[str]
) -> None:
    """Raise an error if a file, or a net in memory, has changed while the run read it."""
    for named, corpus in zip(run_spec.corpora, corpora, strict=True):
        from workbench.corpora.content_hash import content_hash

        if corpus.origin is not None and content_hash(corpus) != named.hash:
            raise _changed_meanwhile("corpus", named.name)
    for model, before, now in zip(
        run_spec.models, files_before, _model_files(run_spec), strict=True
    ):
        if before and now != before:
            raise _changed_meanwhile("model", model.name)


def _require_same_objects(run_spec: spec.Spec, models: "tuple[Model, ...]") -> None:
    """Raise an error if the weights of a net in memory changed while the run read them."""
    for named, model in zip(run_spec.models, models, strict=True):
        if named.ref is None and model.content_hash != named.hash:
            raise WorkbenchError(
                "the weights of the model changed while the run read them, so its results are "
                "discarded.",
                code="model-changed",
                where=named.name,
                remedy="Start it again when nothing trains the net, or pass a copy of it.",
            )


def _changed_meanwhile(what: str, name: str) -> WorkbenchError:
    return WorkbenchError(
        f"the files of the {what} changed while the run read them, so its results are discarded.",
        code=f"{what}-changed",
        where=name,
        remedy="Start it again with workbench run when no program writes to the files.",
    )


def _changed(what: str, name: str) -> WorkbenchError:
    return WorkbenchError(
        f"the {what} has changed since the run was created.",
        code=f"{what}-changed",
        where=name,
        remedy="Start a new run with workbench run: changed files need a new run.",
    )


def _object(kind: Literal["model", "corpus"], named: "spec.ModelSpec | spec.CorpusSpec") -> Any:
    """Return the model or corpus of this process that a request was made with."""
    found = object_of(kind, named.hash)
    if found is None:
        raise spec.cannot_reopen(named)
    return found


def _seed(seed: int, with_torch: bool) -> None:
    import numpy as np

    random.seed(seed)
    np.random.seed(seed)
    if with_torch:
        import torch

        torch.manual_seed(seed)


@contextmanager
def _warnings_to(journal: Journal) -> Iterator[None]:
    """Report Python warnings as warnings of the run, each once."""
    seen: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        text = str(message)
        if text not in seen and not issubclass(category, DeprecationWarning | FutureWarning):
            seen.add(text)
            journal.warn(text)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
