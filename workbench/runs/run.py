"""A run as one reads it: its question, how it stands, and what it left; all from its folder.

Reading costs one small file; tables, arrays and figures are read when they are asked for.
"""

import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError

from workbench.core import machine
from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.experiment import Caveat, Experiment, Progress, Result, Table
from workbench.core.files import open_regular, parsed_json, read_regular, written_whole
from workbench.models.references import TRAINED
from workbench.runs import spec, status
from workbench.runs.spec import checked, inside, is_name, no_link, unlinked

if TYPE_CHECKING:
    import numpy as np
    import plotly.graph_objects as go
    from numpy.typing import NDArray

# --- results --------------------------------------------------------------------------------------
#
# What a run leaves, on disk: tables as Parquet, arrays as safetensors, figures as JSON.
#
# Each file is written whole, and all of them before the run says that it is done, so what can be
# read is complete. Equal tables are equal bytes. A table carries what it is about and its keys,
# so that it can be read without the experiment that made it.

PARQUET = b"PAR1"  # how such a file begins and ends
TABLES, ARRAYS, FIGURES = "tables", "arrays", "figures"


def write(folder: Path, result: Result, about: Mapping[str, Table]) -> dict[str, int]:
    """Write tables and arrays in the place of those of an earlier attempt; rows by table."""
    clear(folder)
    rows = {}
    for name, table in result.tables.items():
        if name not in about:
            raise WorkbenchError(
                f"the experiment made a table {name!r} that it does not declare.",
                remedy="Name it in the experiment's `tables`.",
            )
        write_table(folder, name, table, about[name])
        rows[name] = len(table)
    for name, array in result.arrays.items():
        write_array(folder, name, array)
    return rows


def clear(folder: Path) -> None:
    """Remove what an earlier attempt left; its checkpoints stay."""
    for part in (TABLES, ARRAYS, FIGURES):
        shutil.rmtree(folder / part, ignore_errors=True)


def write_table(folder: Path, name: str, table: pd.DataFrame, about: Table) -> None:
    """One table, with what it is about and its keys."""
    keys = list(about.keys)
    if missing := [key for key in keys if key not in table.columns]:
        raise WorkbenchError(
            f"the table {name!r} has no column {missing[0]!r}, which is one of its keys.",
            remedy=did_you_mean(missing[0], map(str, table.columns)),
        )
    if keys and table.duplicated(keys).any():
        twice = table.loc[table.duplicated(keys), keys].iloc[0].to_dict()
        raise WorkbenchError(
            f"the table {name!r} has two rows for {twice}.",
            remedy="Its keys must tell its rows apart.",
        )
    whole = table.reset_index(drop=True)
    whole.attrs = {"about": about.about, "keys": keys}
    if about.labels:
        whole.attrs["labels"] = list(about.labels)
    path = inside(folder / TABLES, name, ".parquet", "table")
    with written_whole(path) as draft, draft.open("wb") as file:  # pyarrow opens UTF-8 paths only
        whole.to_parquet(file, index=False)


def write_array(folder: Path, name: str, array: "NDArray[np.generic]") -> None:
    """One array."""
    from safetensors.numpy import save

    with written_whole(inside(folder / ARRAYS, name, ".safetensors", "array")) as draft:
        draft.write_bytes(save({name: array}))


def write_figures(folder: Path, experiment: Experiment[Any], progress: Progress) -> list[str]:
    """Draw every figure that the tables on disk allow; one that fails is a warning. Their names."""
    written: list[str] = []
    tables = Tables(folder)
    try:
        drawings = experiment.drawings()
    except WorkbenchError as error:
        progress.warn(f"No figure was drawn: {error}")
        return written
    for name, draw in drawings.items():
        try:
            figure = draw(tables)
            figure.layout.template = None  # the process' own: who shows the figure has one
            drawn = figure.to_json()
        except KeyError as error:
            if str(error.args[0]) in tables:
                progress.warn(f"The figure {name!r} cannot be drawn: {error!r}.")
            continue  # of a table that this run does not have
        except Exception as error:
            progress.warn(f"The figure {name!r} cannot be drawn: {error!r}.")
            continue
        with written_whole(inside(folder / FIGURES, name, ".json", "figure")) as draft:
            draft.write_bytes(drawn.encode())
        written.append(name)
    return written


def is_table(folder: Path, name: str) -> bool:
    """Whether a table's file is there and ends as Parquet does."""
    with open_regular(inside(folder / TABLES, name, ".parquet", "table")) as file:
        file.seek(-len(PARQUET), 2)
        return file.read() == PARQUET


class _Files(Mapping[str, Any]):
    """Files of one kind in a run's folder, read when asked for; `order` names some first."""

    part, ending, what = "", "", ""

    def __init__(self, folder: Path, order: Iterable[str] = ()) -> None:
        self.folder = folder / self.part
        self.order = {name: place for place, name in enumerate(order)}
        self._read: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._read:
            path = inside(self.folder, name, self.ending, self.what)
            if not path.is_file():
                raise (
                    self._lost(path, name)
                    if name in self.order
                    else UnknownNameError(name, self.what, self)
                )
            self._read[name] = self._open(path, name)
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        found = self.folder.glob(f"*{self.ending}") if self.folder.is_dir() else ()
        regular = (path for path in found if path.is_file() and not path.is_symlink())
        names = (path.name.removesuffix(self.ending) for path in regular)
        return iter(sorted((n for n in names if is_name(n)), key=self._place))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def _place(self, name: str) -> tuple[int, str]:
        return self.order.get(name, len(self.order)), name

    def _lost(self, path: Path, name: str) -> WorkbenchError:
        return WorkbenchError(
            f"the {self.what} {name!r} of this run is missing.",
            where=str(path),
            remedy=computed_again(self.folder.parent.name),
        )

    def _open(self, path: Path, name: str) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{self.what}s: {', '.join(self) or 'none'}"


class UnknownNameError(WorkbenchError, KeyError):
    """There is no table, array or figure of that name."""

    def __init__(self, name: str, what: str, known: Mapping[str, Any]) -> None:
        super().__init__(
            f"there is no {what} {checked(name, what)!r}.", remedy=did_you_mean(name, known)
        )
        self.args = (name,)

    def __str__(self) -> str:
        return f"{self.what}\n  {self.remedy}"


class Tables(_Files):
    """A run's tables, as data frames."""

    part, ending, what = TABLES, ".parquet", "table"

    def _open(self, path: Path, name: str) -> pd.DataFrame:
        try:
            with open_regular(path) as file:
                return pd.read_parquet(file)
        except Exception as error:  # what pyarrow and pandas make of bytes that are not theirs
            raise damaged(path, error) from None


class Arrays(_Files):
    """A run's arrays."""

    part, ending, what = ARRAYS, ".safetensors", "array"

    def _open(self, path: Path, name: str) -> "NDArray[np.generic]":
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            array: NDArray[np.generic] = load(read_regular(path))[name]
        except (OSError, SafetensorError, KeyError) as error:
            raise damaged(path, error) from None
        return array


class Figures(_Files):
    """A run's figures, as they were drawn of its tables when it ended."""

    part, ending, what = FIGURES, ".json", "figure"

    def _open(self, path: Path, name: str) -> "go.Figure":
        import plotly.io

        try:
            content = read_regular(path).decode()
            parsed_json(content)  # raises where it is too deep to be written again
            return plotly.io.from_json(content, skip_invalid=True)
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise damaged(path, error) from None


def computed_again(run: str) -> str:
    """The remedy where something of a run is missing."""
    return f"To compute it again: workbench runs resume {run}"


def damaged(path: Path, error: Exception) -> WorkbenchError:
    """What is on disk is not what was written."""
    within = path.parent.name in (TABLES, ARRAYS, FIGURES)
    run = path.parent.parent if within else path.parent
    return WorkbenchError(
        f"cannot be read: {str(error).splitlines()[0] if str(error) else type(error).__name__}.",
        where=str(path),
        remedy=f"Run: workbench runs rm {run.name} --yes, then ask again.",
    )


# --- integrity: sizes and hashes of what a run left -----------------------------------------------
#
# Whether a run still has what it left: the size and SHA-256 of every file, kept in its
# provenance.
#
# `missing` looks at names and sizes only, so it costs a stat a file; `damage` reads every byte,
# about a second a gigabyte. Runs made before hashes were kept are judged by the names of their
# tables and figures and by the sizes of their model's files.

PROVENANCE = "provenance.json"
LEFT = (TABLES, ARRAYS, FIGURES, TRAINED)  # folders, in a run's own


class _Part(BaseModel):
    model_config = ConfigDict(strict=True)


class _File(_Part):
    bytes: int
    sha256: str


class _Caveat(_Part):
    text: str
    beside: list[str]


class _Form(_Part):
    """What a provenance must look like for those who read it; it says more than this."""

    tables: dict[str, int]
    figures: list[str] = []
    caveats: list[_Caveat] = []
    models: list[dict[str, Any]] = []
    corpora: list[dict[str, Any]] = []
    files: dict[str, _File] = {}  # of runs made before hashes were kept: none
    trained: dict[str, int] | None = None  # of those: sizes of the model's files


def provenance(folder: Path) -> Mapping[str, Any]:
    """What a run wrote down when it ended; the one place where that is read and checked."""
    path = unlinked(folder / PROVENANCE)
    try:
        found: dict[str, Any] = parsed_json(read_regular(path))
        _Form.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "all of it"
        raise damaged(path, ValueError(f"{place}: {first['msg']}")) from None
    except (OSError, ValueError) as error:
        raise damaged(path, error) from None
    return found


def recorded(folder: Path) -> dict[str, dict[str, Any]]:
    """What is to be kept in the provenance: `bytes` and `sha256` of each file by its path."""
    return {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": _hash(path)}
        for part in LEFT
        for path in sorted((folder / part).rglob("*"))
        if path.is_file()
    }


def missing(folder: Path, provenance: Mapping[str, Any]) -> list[str]:
    """Files that the run left and that are gone, or of another size."""
    lost = []
    for name, size in _sizes(provenance).items():
        try:
            facts = os.lstat(os.path.join(folder, name))  # noqa: PTH118 - for thousands of runs
            if not stat.S_ISREG(facts.st_mode) or size not in (None, facts.st_size):
                lost.append(name)
        except OSError:
            lost.append(name)
    return lost


def is_whole(folder: Path) -> bool:
    """Whether a run that says it is done has its question, its provenance and all it left.

    What a later version made is not judged, but an error: it must not be made anew over it.
    """
    try:
        spec.read(folder)
        facts = provenance(folder)
        if missing(folder, facts):
            return False
        return all(is_table(folder, name) for name in facts["tables"])
    except spec.LaterVersionError:
        raise
    except (WorkbenchError, OSError):
        return False


def damage(folder: Path) -> list[str]:
    """What is wrong with a run that says it is done, a line each; none where all is as it was."""
    try:
        spec.read(folder)
        facts = provenance(folder)
        lost = missing(folder, facts)
        hashes = {name: kept["sha256"] for name, kept in facts.get("files", {}).items()}
        wrong = [
            name
            for name, kept in hashes.items()
            if name not in lost and _hash(folder / name) != kept
        ]
        tables = Tables(folder)
        for name in facts["tables"] if not hashes else ():
            if f"{TABLES}/{name}.parquet" not in lost:
                tables[name]
    except WorkbenchError as error:
        return [str(error).splitlines()[0]]
    except OSError as error:
        return [f"{error.filename} cannot be read: {error.strerror}"]
    return [f"{name} is missing" for name in lost] + [f"{name} has changed" for name in wrong]


def _sizes(provenance: Mapping[str, Any]) -> dict[str, int | None]:
    if "files" in provenance:
        return {name: kept["bytes"] for name, kept in provenance["files"].items()}
    tables = {f"{TABLES}/{name}.parquet": None for name in provenance.get("tables", ())}
    figures = {f"{FIGURES}/{name}.json": None for name in provenance.get("figures", ())}
    trained = provenance.get("trained") or {}
    return {**tables, **figures, **{f"{TRAINED}/{name}": size for name, size in trained.items()}}


def _hash(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- an opened run --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """One run's folder: what was asked, how it stands, and what it left.

    Args:
        path: The folder; `wb.open_run` finds it by name.

    Raises:
        WorkbenchError: On reading tables, arrays or figures of a run that is not done, or that is
            damaged.

    Example:
        >>> run = wb.run("describe", corpus="primer:size=40")
        >>> run
        <Run describe-...: done; primer:size=40; 7 tables, 6 figures>
    """

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
    def settings(self) -> dict[str, Any]:
        """The settings under their current names, whichever version wrote the run."""
        return spec.current_settings(self.spec)

    @cached_property
    def sweep(self) -> dict[str, list[Any]]:
        """The swept values under the current names of settings, whichever version wrote the run."""
        return spec.current_sweep(self.spec)

    @cached_property
    def tables(self) -> Tables:
        return Tables(self.path, self.provenance.get("tables", ()))

    @cached_property
    def arrays(self) -> Arrays:
        self._require_done()
        return Arrays(self.path)

    @cached_property
    def figures(self) -> Figures:
        return Figures(self.path, self.provenance.get("figures", ()))

    @cached_property
    def provenance(self) -> Mapping[str, Any]:
        """With what it was answered, when, and how long it took."""
        self._require_done()
        return provenance(self.path)

    @property
    def model(self) -> Path | None:
        """The folder of the model that it trained."""
        found = self.path / TRAINED
        return found if found.is_dir() and not found.is_symlink() else None

    @cached_property
    def missing(self) -> list[str]:
        """Files that it left and that are gone since, or of another size."""
        return missing(self.path, self.provenance)

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """What to know when reading its tables and figures."""
        found = self.provenance.get("caveats", ())
        own = tuple(Caveat(c["text"], tuple(c["beside"])) for c in found)
        return (Caveat(self._loss()), *own) if self.missing else own

    @property
    def warnings(self) -> list[str]:
        """What it warned of."""
        return [str(e["text"]) for e in status.read_events(self.path)[0] if e["kind"] == "warning"]

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
            f"{computed_again(self.name)}"
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
        """Its name, how it stands, what was asked and what it left."""
        state = self.status.state
        try:
            inputs = [model.name for model in self.spec.models]
            inputs += [corpus.name for corpus in self.spec.corpora]
            left = [f"{len(self.tables)} tables, {len(self.figures)} figures"] * (state == "done")
        except WorkbenchError as error:
            inputs, left = [], [error.what]
        return f"<Run {self.name}: {'; '.join([state, *inputs, *left])}>"


def open_run(name: str) -> Run:
    """Open a run on disk.

    Args:
        name: The run's name, or the beginning of it that no other run shares.

    Returns:
        The `Run`, whatever its state.

    Raises:
        WorkbenchError: No run, or several, begin with that name.

    Example:
        >>> name = wb.run("describe", corpus="primer:size=40").name
        >>> wb.open_run(name).status.state
        'done'
    """
    checked(name, "run")
    folder = machine.runs()
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
        with os.scandir(machine.runs()) as entries:
            return sorted(
                entry.name
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and is_name(entry.name)
            )
    except (FileNotFoundError, NotADirectoryError):
        return []


def all_runs() -> Sequence[tuple[Run, status.Status]]:
    """All runs and how they stand, the newest first; costs a small file a run."""
    folder = machine.runs()
    found = [Run(folder / name) for name in run_names()]
    standing = [(run, run.status) for run in found]
    return sorted(standing, key=lambda pair: (pair[1].created, pair[0].name), reverse=True)
