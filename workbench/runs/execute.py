"""What happens inside a run: wait for the device, open, check, compute, write, say how it ended.

The same in a process of its own and inside a notebook. Results are on disk, whole, before the run
says that it is done; whatever goes wrong is written down as the reason.
"""

import json
import os
import platform
import random
import shutil
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from workbench import __version__
from workbench.core.errors import WorkbenchError
from workbench.core.experiment import EXPERIMENTS, Ask, Inputs, Progress, Result, misfits
from workbench.core.files import FULL, unwritable, written_whole
from workbench.core.machine import peak_memory
from workbench.models.references import TRAINED, folder_of
from workbench.runs import device_queue, run, spec, status
from workbench.runs.request import checked_settings
from workbench.runs.run import PROVENANCE
from workbench.runs.spec import unlinked
from workbench.runs.status import Cancelled, Failure, Journal

if TYPE_CHECKING:
    from workbench.corpora import Corpus
    from workbench.engine.model import Model

_PACKAGES = ("numpy", "pandas", "pyarrow", "spacy", "torch", "transformers")
Open = Callable[[spec.Spec, Journal], "tuple[tuple[Model, ...], tuple[Corpus, ...]]"]


class SubRuns(NamedTuple):
    """How a run has others computed; `subruns` has the one there is."""

    asker: Callable[[Journal, spec.Spec, "Sequence[Model]", "Sequence[Corpus]"], Ask]
    gather: Callable[[spec.Spec, Journal, bool], tuple[Result, dict[str, Any]]]


def execute(
    told: Journal, subruns: SubRuns, *, share: bool = False, opened: Open | None = None
) -> int:
    """Do the run whose lock is held; its exit code.

    `subruns` computes the runs that this one is made of or asks for; `opened` hands over what is
    open already.
    """
    try:
        _attempt(told, subruns, share, opened)
    except (Cancelled, KeyboardInterrupt) as end:
        _unfinished(told, "cancelled")
        if isinstance(end, KeyboardInterrupt):
            raise
    except WorkbenchError as error:
        lines = status.log_lines(told.folder)
        _unfinished(told, "failed", Failure(error.what, error.where, error.remedy, "input", lines))
        return 2 if told.status.state == "failed" else status.CODES[told.status.state]
    except (Exception, SystemExit) as error:
        if short := _short_of_memory(error):
            lines = status.log_lines(told.folder)
            _unfinished(told, "failed", replace(short, kind="input", lines=lines))
            return status.CODES[told.status.state]
        lines = tuple(traceback.format_exc().rstrip().splitlines())
        for line in lines:
            told.log(line)
        _unfinished(told, "failed", _crash(told.folder, error, lines[-status.LINES :]))
    return status.CODES[told.status.state]


def _short_of_memory(error: BaseException) -> Failure | None:
    """What did not fit, the processor's memory or a device's; None for another error."""
    if isinstance(error, MemoryError):
        return Failure(
            "memory did not suffice.",
            remedy="Close other programs, set a limit, or use a smaller model.",
        )
    if type(error).__name__ == "OutOfMemoryError":  # torch's; it need not have been imported
        return Failure(
            "the device's memory did not suffice.",
            remedy="Use a smaller model, --precision bf16, shorter texts (--unit sentence), or "
            "--device cpu.",
        )
    return None


def _crash(folder: Path, error: BaseException, lines: tuple[str, ...]) -> Failure:
    """Why a run failed with an error that is not one of ours: a full disk, or a bug."""
    if isinstance(error, OSError) and error.errno in FULL:
        place = Path(os.fsdecode(error.filename)) if error.filename else folder
        full = unwritable(place, error, "Then go on with workbench runs resume.")
        return Failure(full.what, full.where, full.remedy, "input", lines)
    return Failure(
        f"{type(error).__name__}: {error}".rstrip(": ") + ".",
        remedy="This is a bug in the experiment or in Workbench; its log has the details.",
        lines=lines,
    )


def _unfinished(told: Journal, state: status.State, failure: Failure | None = None) -> None:
    """End without results, and leave none; unless they were all there before the end came.

    What fails after it was asked to end is cancelled: a signal that comes during an import is often
    raised as another error.
    """
    if (told.folder / status.CANCEL).exists():
        state, failure = "cancelled", None
    if told.status.state != "done":
        run.clear(told.folder)  # first: where a disk is full, this makes the room to say so
        shutil.rmtree(told.folder / TRAINED, ignore_errors=True)
        told.becomes(state, ended=status.utc_now(), failure=failure)


def _attempt(told: Journal, subruns: SubRuns, share: bool, opened: Open | None) -> None:
    asked = _question(told.folder)
    told.check()
    if asked.sweep:
        _run(told, asked, "cpu", asked.device, lambda: subruns.gather(asked, told, share))
        return
    EXPERIMENTS[asked.experiment].import_code()
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1  # processes that `torchrun` started
    wanted, guest = asked.device, opened is not None
    if several and wanted.startswith("cuda"):
        wanted = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"  # as the others have theirs
    alone = not (guest or several)
    with _turn(wanted, told, share or guest) as slot, _on(slot, alone) as own:
        _run(told, asked, own, slot.title, lambda: _compute(told, asked, own, subruns, opened))


def _question(folder: Path) -> spec.Spec:
    """What is asked; its answer must belong under this run's name."""
    asked = spec.read(folder)
    experiment = EXPERIMENTS[asked.experiment]
    if asked.name != folder.name:
        what = f"the run's spec asks another question: {asked.name}."
    elif asked.version != experiment.version:
        what = f"{asked.experiment} has changed: version {asked.version} was asked for, this is "
        what += f"version {experiment.version}."
    else:
        return asked
    raise WorkbenchError(what, where=folder.name, remedy="Ask anew with workbench run.")


def _on(slot: device_queue.Slot, alone: bool) -> AbstractContextManager[str]:
    """Compute where it is our turn; what torch calls that place in this process."""
    return nullcontext(slot.name) if slot.card is None else device_queue.on(slot.card, alone)


@contextmanager
def _turn(device: str, told: Journal, share: bool) -> Iterator[device_queue.Slot]:
    said: list[int] = []

    def waiting(before: int) -> None:
        told.check()
        if before not in said[-1:]:
            where = f"{before} before this one" if before else "a job is on it"
            told.log(f"Waiting for {device}: {where}.")
            said.append(before)

    place = (
        nullcontext(device_queue.slots(device)[0]) if share else device_queue.turn(device, waiting)
    )
    with place as found:
        yield found


def _run(
    told: Journal,
    asked: spec.Spec,
    device: str,
    title: str,
    compute: Callable[[], tuple[Result, dict[str, Any]]],
) -> None:
    """Compute and write, with the states before and after; `title` is a user's name of `device`."""
    folder = told.folder
    told.becomes("running", started=status.utc_now(), device=title)
    clock = time.monotonic()
    experiment = EXPERIMENTS[asked.experiment]
    with _warnings_to(told):
        result, facts = compute()
        about = facts.pop("about", experiment.tables)
        rows = run.write(folder, result, about)
        drawn = [] if asked.sweep else run.write_figures(folder, experiment, told)
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
        "device": title,
        "threads": os.environ.get("OMP_NUM_THREADS") or os.cpu_count(),
        "started": told.status.started,
        "ended": status.utc_now(),
        "seconds": round(seconds, 3),
        "peak_memory_bytes": peak_memory(device),
        "tables": rows,
        "figures": drawn,
        "caveats": [asdict(caveat) for caveat in result.caveats],
        "files": run.recorded(folder),
        **facts,
    }
    with written_whole(unlinked(folder / PROVENANCE)) as draft:
        draft.write_text(json.dumps(provenance, indent=1))
    told.becomes("done", ended=status.utc_now(), seconds=seconds, failure=None)
    shutil.rmtree(folder / status.SCRATCH, ignore_errors=True)  # else `launch` does it later


def _compute(
    told: Journal, asked: spec.Spec, device: str, subruns: SubRuns, opened: Open | None
) -> tuple[Result, dict[str, Any]]:
    experiment = EXPERIMENTS[asked.experiment]
    settings = checked_settings(experiment, asked.settings)
    told(0, None, "opening")
    asked = asked.model_copy(update={"device": device})
    read_from = _model_files(asked)
    models, corpora = (opened or open_again)(asked, told)
    from workbench.models.references import facts as facts_of

    facts = [facts_of(model) for model in models]
    _require_same(asked, facts)
    for reason in misfits(experiment, settings, facts, corpora):
        raise reason
    _seed(asked.seed, bool(models))
    inputs = inputs_of(told.folder, asked, models, corpora)
    inputs = replace(inputs, asking=subruns.asker(told, asked, models, corpora))
    try:
        result = experiment.run(inputs, settings, told)
    except Exception:
        _require_unchanged(asked, corpora, read_from)  # the likelier reason, where it is one
        raise
    _require_unchanged(asked, corpora, read_from)
    return result, {
        "models": [{**f, "name": m.name} for f, m in zip(facts, asked.models, strict=True)],
        "corpora": [
            {"name": c.name, "hash": s.hash, "split": asked.split, "notes": list(c.notes)}
            for c, s in zip(corpora, asked.corpora, strict=True)
        ],
    }


def inputs_of(
    folder: Path, asked: spec.Spec, models: "tuple[Model, ...]", corpora: "tuple[Corpus, ...]"
) -> Inputs:
    """What an experiment is handed, with its places in the run's folder."""
    scratch = unlinked(folder / status.SCRATCH)
    scratch.mkdir(exist_ok=True)
    return Inputs(
        models,
        corpora,
        asked.split,
        asked.seed,
        asked.device,
        models[0].precision if models else "",
        spec.current_settings(asked).get("max_sentences"),
        scratch,
        folder / TRAINED,
        tuple(folder_of(model.ref) if model.ref else None for model in asked.models),
    )


def open_again(asked: spec.Spec, told: Progress) -> "tuple[tuple[Model, ...], tuple[Corpus, ...]]":
    """Open what a question names; it must be what it was when the question was asked."""
    corpora = []
    for wanted in asked.corpora:
        from workbench.corpora import read
        from workbench.corpora.content_hash import content_hash

        if wanted.ref is None:
            raise _cannot_reopen(wanted.name)
        corpus = read(wanted.ref, **wanted.options)
        if content_hash(corpus) != wanted.hash:
            raise _changed("corpus", wanted.name)
        for note in () if EXPERIMENTS[asked.experiment].trains else corpus.notes:
            told.log(note)
        corpora.append(replace(corpus, name=wanted.name))
    models = []
    for model in asked.models:
        from workbench.models.loading import load
        from workbench.runs.model_facts import known

        if model.ref is None:
            raise _cannot_reopen(model.name)
        if known(model.ref, asked.seed, model.pickled).hash != model.hash:
            raise _changed("model", model.name)
        found = load(
            model.ref, asked.device, model.precision, seed=asked.seed, pickled=model.pickled
        )
        found.name = model.name  # not the path it was read from
        if (
            model.precision != "fp32"
        ):  # `model_facts` has hashed its files; rounded, they are not again
            vars(found)["content_hash"] = model.hash
        models.append(found)
    return tuple(models), tuple(corpora)


def handed_over(models: "Sequence[Model | None]", corpora: "Sequence[Corpus]") -> Open:
    """Hand over what is open, and open the rest."""

    def opened(asked: spec.Spec, told: Progress) -> "tuple[tuple[Model, ...], tuple[Corpus, ...]]":
        named = tuple(m for m, own in zip(asked.models, models, strict=True) if own is None)
        rest = asked.model_copy(update={"models": named, "corpora": ()})
        others = iter(open_again(rest, told)[0])
        return tuple(next(others) if own is None else own for own in models), tuple(corpora)

    return opened


def _require_same(asked: spec.Spec, facts: "list[dict[str, Any]]") -> None:
    """What was opened is what was asked for; where weights were rounded, their files tell."""
    for model, found in zip(asked.models, facts, strict=True):
        if model.precision == "fp32" and found["content_hash"] != model.hash:
            raise _changed("model", model.name)


def _model_files(asked: spec.Spec) -> list[str]:
    """A hash of each model's files; "" of what was handed over, or has no files."""
    from workbench.runs.model_facts import files_hash

    return [
        files_hash(model.ref, asked.seed, model.pickled) if model.ref else ""
        for model in asked.models
    ]


def _require_unchanged(
    asked: spec.Spec, corpora: "tuple[Corpus, ...]", read_from: list[str]
) -> None:
    """The files that were read are still what they were when reading began."""
    for wanted, corpus in zip(asked.corpora, corpora, strict=True):
        from workbench.corpora.content_hash import content_hash

        if corpus.origin is not None and content_hash(corpus) != wanted.hash:
            raise _changed_meanwhile("corpus", wanted.name)
    for model, before, now in zip(asked.models, read_from, _model_files(asked), strict=True):
        if before and now != before:
            raise _changed_meanwhile("model", model.name)


def _changed_meanwhile(what: str, name: str) -> WorkbenchError:
    return WorkbenchError(
        f"the files of the {what} changed while the run read them, so its results are discarded.",
        where=name,
        remedy="Ask anew with workbench run when nothing writes to them.",
    )


def _changed(what: str, name: str) -> WorkbenchError:
    return WorkbenchError(
        f"the {what} has changed since the question was asked.",
        where=name,
        remedy="Ask anew with workbench run: another content is another run.",
    )


def _cannot_reopen(name: str) -> WorkbenchError:
    return WorkbenchError(
        "this was handed over as an object, and cannot be opened again.",
        where=name,
        remedy="Call wb.run again with the same object, or name a file or folder.",
    )


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
