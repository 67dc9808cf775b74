"""What a run leaves, on disk: tables as Parquet, arrays as safetensors, figures as JSON.

Each file is written whole, and all of them before the run says that it is done, so what can be read
is complete. Equal tables are equal bytes. A table carries what it is about and its keys, so that it
can be read without the experiment that made it.
"""

import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError

from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.experiment import Experiment, Progress, Result, Table
from workbench.core.files import open_regular, parsed_json, read_regular, written_whole
from workbench.models.references import TRAINED
from workbench.runs import spec
from workbench.runs.spec import checked, inside, is_name, unlinked

if TYPE_CHECKING:
    import numpy as np
    import plotly.graph_objects as go
    from numpy.typing import NDArray

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
