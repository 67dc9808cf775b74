"""What happens inside a run: wait for the device, open, check, compute, write, say how it ended.

The same in a process of its own and inside a notebook. Results are on disk, whole, before the run
says that it is done; whatever goes wrong is written down as the reason.
"""

import json
import os
import platform
import random
import shutil
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench import __version__
from workbench.errors import WorkbenchError
from workbench.experiment import EXPERIMENTS, Inputs, Result, misfits
from workbench.files import written_whole
from workbench.runs import events, queue, results, spec, status
from workbench.runs.asking import checked_settings
from workbench.runs.journal import Cancelled, Journal
from workbench.runs.run import PROVENANCE
from workbench.runs.status import Failure, Status

if TYPE_CHECKING:
    from workbench.corpora import Corpus
    from workbench.engine.model import Model

SCRATCH = "checkpoint"
_PACKAGES = ("numpy", "pandas", "pyarrow", "spacy", "torch", "transformers")
Open = Callable[[spec.Spec, Journal], "tuple[tuple[Model, ...], tuple[Corpus, ...]]"]


def execute(folder: Path, *, share: bool = False, opened: Open | None = None) -> int:
    """Do the run whose lock is held; its exit code. `opened` hands over what is open already."""
    told = Journal(folder)
    try:
        ended = _attempt(folder, told, share, opened)
    except (Cancelled, KeyboardInterrupt) as end:
        ended = _ended(folder, "cancelled")
        if isinstance(end, KeyboardInterrupt):
            raise
    except WorkbenchError as error:
        failure = Failure(error.what, error.where, error.remedy, "input", status.log_lines(folder))
        ended = _ended(folder, "failed", failure)
        return 2
    except MemoryError:
        failure = Failure(
            "memory did not suffice.",
            remedy="Close other programs, set a limit, or use a smaller model.",
            kind="input",
            lines=status.log_lines(folder),
        )
        ended = _ended(folder, "failed", failure)
    except Exception as error:
        lines = tuple(traceback.format_exc().rstrip().splitlines())
        for line in lines:
            told.log(line)
        failure = Failure(
            f"{type(error).__name__}: {error}".rstrip(": ") + ".",
            remedy="This is a bug in the experiment or in Workbench; its log has the details.",
            lines=lines[-status.LINES :],
        )
        ended = _ended(folder, "failed", failure)
    return status.CODES[ended.state]


def _attempt(folder: Path, told: Journal, share: bool, opened: Open | None) -> Status:
    asked = spec.read(folder)
    status.write(folder, replace(_now(folder), pid=os.getpid(), host=socket.gethostname()))
    told.check()
    if asked.sweep:
        from workbench.runs.sweep import gather

        return _run(folder, told, asked, asked.device, lambda: gather(asked, told, share))
    guest = opened is not None
    with _turn(asked.device, told, share or guest) as device:
        return _run(
            folder, told, asked, device, lambda: _compute(folder, told, asked, device, opened)
        )


@contextmanager
def _turn(device: str, told: Journal, share: bool) -> Iterator[str]:
    def waiting(before: int) -> None:
        told.check()
        where = f"{before} before this one" if before else "a job is on it"
        told.log(f"Waiting for {device}: {where}.")

    place = nullcontext(queue.slots(device)[0]) if share else queue.turn(device, waiting)
    with place as found:
        yield found


def _run(
    folder: Path,
    told: Journal,
    asked: spec.Spec,
    device: str,
    compute: Callable[[], tuple[Result, dict[str, Any]]],
) -> Status:
    """Compute and write, with the states before and after."""
    started = replace(_now(folder), state="running", started=events.now(), device=device)
    status.write(folder, started)
    events.add(folder, "state", state="running", attempt=started.attempt)
    clock = time.monotonic()
    experiment = EXPERIMENTS[asked.experiment]
    with _warnings_to(told):
        result, facts = compute()
        about = facts.pop("about", experiment.tables)
        rows = results.write(folder, result, about)
        drawn = [] if asked.sweep else results.write_figures(folder, experiment, told)
    seconds = time.monotonic() - clock
    provenance = {
        "experiment": asked.experiment,
        "version": asked.version,
        "about": experiment.about,
        "fingerprint": asked.fingerprint,
        "workbench": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
        "device": device,
        "threads": os.environ.get("OMP_NUM_THREADS") or os.cpu_count(),
        "started": started.started,
        "ended": events.now(),
        "seconds": round(seconds, 3),
        "peak_memory_bytes": _peak_memory(),
        "tables": rows,
        "figures": drawn,
        "caveats": [asdict(caveat) for caveat in result.caveats],
        **facts,
    }
    with written_whole(folder / PROVENANCE) as draft:
        draft.write_text(json.dumps(provenance, indent=1))
    ended = _ended(folder, "done", seconds=seconds)
    shutil.rmtree(folder / SCRATCH, ignore_errors=True)
    return ended


def _compute(
    folder: Path, told: Journal, asked: spec.Spec, device: str, opened: Open | None
) -> tuple[Result, dict[str, Any]]:
    experiment = EXPERIMENTS[asked.experiment]
    settings = checked_settings(experiment, asked.settings)
    told(0, None, "opening")
    asked = asked.model_copy(update={"device": device})
    models, corpora = (opened or open_again)(asked, told)
    from workbench.models.catalogue import facts as facts_of

    facts = [facts_of(model) for model in models]
    for reason in misfits(experiment, settings, facts, corpora):
        raise reason
    _seed(asked.seed, bool(models))
    scratch = folder / SCRATCH
    scratch.mkdir(exist_ok=True)
    inputs = Inputs(
        models,
        corpora,
        asked.split,
        asked.seed,
        device,
        models[0].precision if models else "",
        settings.limit,
        scratch,
    )
    result = experiment.run(inputs, settings, told)
    return result, {
        "models": [{**f, "name": m.name} for f, m in zip(facts, asked.models, strict=True)],
        "corpora": [
            {"name": c.name, "hash": s.hash, "split": asked.split, "notes": list(c.notes)}
            for c, s in zip(corpora, asked.corpora, strict=True)
        ],
    }


def open_again(asked: spec.Spec, told: Journal) -> "tuple[tuple[Model, ...], tuple[Corpus, ...]]":
    """Open what a question names; it must be what it was when the question was asked."""
    from workbench.corpora import read
    from workbench.corpora.identity import content_hash

    corpora = []
    for wanted in asked.corpora:
        if wanted.ref is None:
            raise _handed_over(wanted.name)
        corpus = read(wanted.ref, **wanted.options)
        if content_hash(corpus) != wanted.hash:
            raise _changed("corpus", wanted.name)
        for note in corpus.notes:
            told.log(note)
        corpora.append(replace(corpus, name=wanted.name))
    models = []
    for model in asked.models:
        if model.ref is None:
            raise _handed_over(model.name)
        from workbench.models.loading import load
        from workbench.runs.known import known

        if known(model.ref, asked.seed, model.pickled).hash != model.hash:
            raise _changed("model", model.name)
        found = load(
            model.ref, asked.device, model.precision, seed=asked.seed, pickled=model.pickled
        )
        found.name = model.name  # not the path it was read from
        models.append(found)
    return tuple(models), tuple(corpora)


def _changed(what: str, name: str) -> WorkbenchError:
    return WorkbenchError(
        f"the {what} has changed since the question was asked.",
        where=name,
        remedy="Ask anew with workbench run: another content is another run.",
    )


def _handed_over(name: str) -> WorkbenchError:
    return WorkbenchError(
        "this was handed over as an object, and cannot be opened again.",
        where=name,
        remedy="Call wb.run again with the same object, or name a file or folder.",
    )


def _now(folder: Path) -> Status:
    return status.read(folder) or Status("queued")


def _ended(
    folder: Path, state: status.State, failure: Failure | None = None, seconds: float = 0.0
) -> Status:
    ended = replace(_now(folder), state=state, ended=events.now(), seconds=seconds, failure=failure)
    status.write(folder, ended)
    events.add(folder, "state", state=state, text=failure.what if failure else "")
    return ended


def _seed(seed: int, with_torch: bool) -> None:
    random.seed(seed)
    np.random.seed(seed)
    if with_torch:
        import torch

        torch.manual_seed(seed)


@contextmanager
def _warnings_to(told: Journal) -> Iterator[None]:
    """Python's warnings as the run's own, each once."""
    seen: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        text = str(message)
        if text not in seen and not issubclass(category, DeprecationWarning | FutureWarning):
            seen.add(text)
            told.warn(text)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _peak_memory() -> dict[str, int]:
    """The most memory this process has held, by device."""
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    peak = {"cpu": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit}
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        peak["cuda"] = int(torch.cuda.max_memory_allocated())
    return peak
