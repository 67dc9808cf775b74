"""A run as one reads it: its question, how it stands, and what it left; all from its folder.

Reading costs one small file; tables, arrays and figures are read when they are asked for.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from workbench.core import places
from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.experiment import Caveat
from workbench.models.references import TRAINED
from workbench.runs import events, results, spec, status
from workbench.runs.spec import checked, is_name, no_link


@dataclass(frozen=True)
class Run:
    """One run's folder."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def status(self) -> status.Status:
        """How it stands now."""
        return status.settled(self.path)

    @cached_property
    def spec(self) -> spec.Spec:
        """What was asked."""
        return spec.read(self.path)

    @cached_property
    def tables(self) -> results.Tables:
        return results.Tables(self.path, self.provenance.get("tables", ()))

    @cached_property
    def arrays(self) -> results.Arrays:
        self._require_done()
        return results.Arrays(self.path)

    @cached_property
    def figures(self) -> results.Figures:
        return results.Figures(self.path, self.provenance.get("figures", ()))

    @cached_property
    def provenance(self) -> Mapping[str, Any]:
        """With what it was answered, when, and how long it took."""
        self._require_done()
        return results.provenance(self.path)

    @property
    def model(self) -> Path | None:
        """The folder of the model that it trained."""
        found = self.path / TRAINED
        return found if found.is_dir() and not found.is_symlink() else None

    @cached_property
    def missing(self) -> list[str]:
        """Files that it left and that are gone since, or of another size."""
        return results.missing(self.path, self.provenance)

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """What to know when reading its tables and figures."""
        found = self.provenance.get("caveats", ())
        own = tuple(Caveat(c["text"], tuple(c["beside"])) for c in found)
        return (Caveat(self._loss()), *own) if self.missing else own

    @property
    def warnings(self) -> list[str]:
        """What it warned of."""
        return [str(e["text"]) for e in events.read(self.path)[0] if e["kind"] == "warning"]

    def as_data(self) -> dict[str, Any]:
        """What `--json` prints of it."""
        now = self.status
        tables = dict(self.provenance.get("tables", {})) if now.state == "done" else {}
        data = {
            "run": self.name,
            "path": str(self.path),
            "status": now.state,
            "experiment": now.experiment,
            "models": list(now.models),
            "corpora": list(now.corpora),
            "seconds": round(now.seconds, 3),
            "tables": tables,
            "caveats": [caveat.text for caveat in self.caveats] if now.state == "done" else [],
            "missing": self.missing if now.state == "done" else [],
        }
        if now.failure:
            data["error"] = str(now.failure.error())
        return data

    def _loss(self) -> str:
        """What is missing, and what restores it."""
        several = f"{len(self.missing)} files are" if len(self.missing) > 1 else "A file is"
        return (
            f"{several} missing from this run: {', '.join(self.missing)}. "
            f"{results.computed_again(self.name)}"
        )

    def _require_done(self) -> None:
        now = self.status
        if now.state == "done":
            return
        why = f": {now.failure.what}" if now.failure else "."
        raise WorkbenchError(
            f"the run is {now.state} and has no results{why}",
            where=self.name,
            remedy="Wait for it, see workbench runs show, or go on with workbench runs resume."
            if now.under_way
            else f"Run: workbench runs resume {self.name}",
        )

    def __repr__(self) -> str:
        return f"<run {self.name}: {self.status.state}>"


def open_run(name: str) -> Run:
    """The run of this name, or of the only name that starts so."""
    checked(name, "run")
    folder = places.runs()
    path = folder / name
    if not path.is_dir():
        for link in folder.glob(f"{name}*") if folder.is_dir() else ():
            if is_name(link.name):
                no_link(link)
        names = run_names()
        begun = [known for known in names if known.startswith(name)]
        if len(begun) != 1:
            raise WorkbenchError(
                f"{len(begun)} runs start with {name!r}."
                if begun
                else f"there is no run {name!r}.",
                where=str(folder),
                remedy=did_you_mean(name, begun or names),
            )
        path = folder / begun[0]
    return Run(no_link(path))


def run_names() -> list[str]:
    """The names of all runs there are."""
    try:
        with os.scandir(places.runs()) as entries:
            return sorted(
                entry.name
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and is_name(entry.name)
            )
    except (FileNotFoundError, NotADirectoryError):
        return []


def all_runs() -> Sequence[tuple[Run, status.Status]]:
    """All runs and how they stand, the newest first; costs a small file a run."""
    folder = places.runs()
    found = [Run(folder / name) for name in run_names()]
    standing = [(run, run.status) for run in found]
    return sorted(standing, key=lambda pair: (pair[1].created, pair[0].name), reverse=True)
