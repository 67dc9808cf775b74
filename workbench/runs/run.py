"""A run, read from its folder: its request, status and results.

Costs: one small file; tables, arrays and figures are read when they are used.
"""

import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from workbench.core import machine
from workbench.core.display import Displayed
from workbench.core.errors import LISTED, WorkbenchError, did_you_mean, line_of, listed
from workbench.core.files import (
    atomic_write,
    open_regular,
    parse_json,
    read_json,
    read_regular,
    write_atomically,
)
from workbench.core.findings import Finding, Findings, headline, plural
from workbench.core.public import public
from workbench.core.registry import imported
from workbench.experiment.definition import EXPERIMENTS, Caveat, Progress, Result, Table
from workbench.models.references import TRAINED
from workbench.runs import spec, status
from workbench.runs.spec import checked, inside, is_name, no_link, unlinked

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import plotly.graph_objects as go
    from numpy.typing import NDArray

    Draw = Callable[[Mapping[str, pd.DataFrame]], go.Figure]

BUILT_IN = "built-in/"  # the beginning of the names of built-in results
SHIPPED = Path(__file__).parent / "built_in"  # their folder; `workbench.runs.builtin` lists them

# --- results --------------------------------------------------------------------------------------
#
# The results of a run on disk: tables as Parquet, arrays as safetensors, figures as JSON.
#
# Each file is written atomically, and all of them before the status becomes "done", so results are
# always complete. Equal tables have equal bytes. A table stores its description and its keys, so it
# can be read without the experiment that made it.

PARQUET = b"PAR1"  # the first and last bytes of such a file
TABLES, ARRAYS, FIGURES = "tables", "arrays", "figures"
FINDINGS = "findings.json"
UNSTATED = "The findings cannot be stated"


def write(folder: Path, result: Result, about: Mapping[str, Table]) -> dict[str, int]:
    """Replace the tables and arrays of an earlier attempt; return the number of rows by table."""
    clear(folder)
    rows = {}
    for name, table in result.tables.items():
        if name not in about:
            raise WorkbenchError(
                f"the experiment made a table {name!r} that it does not declare.",
                code="table-undeclared",
                remedy="Name it in the experiment's `tables`.",
            )
        write_table(folder, name, table, about[name])
        rows[name] = len(table)
    for name, array in result.arrays.items():
        write_array(folder, name, array)
    return rows


def clear(folder: Path) -> None:
    """Remove the results of an earlier attempt; its checkpoints stay."""
    for part in (TABLES, ARRAYS, FIGURES):
        shutil.rmtree(folder / part, ignore_errors=True)
    (folder / FINDINGS).unlink(missing_ok=True)


def write_table(folder: Path, name: str, table: "pd.DataFrame", about: Table) -> None:
    """Write one table, with its description and its keys."""
    import pandas as pd
    from pyarrow import ArrowException

    if not isinstance(table, pd.DataFrame):
        raise WorkbenchError(
            f"the table {name!r} is a {type(table).__name__}, not a data frame.",
            code="wrong-type",
            remedy="Return wb.Result({table name: data frame}).",
        )
    if table.columns.nlevels > 1 or not table.columns.is_unique:
        names = listed(map(str, table.columns))
        raise WorkbenchError(
            f"a column of the table {name!r} has no name of its own: {names}.",
            code="wrong-type",
            remedy="Give each column one name that no other has.",
        )
    keys = list(about.keys)
    if missing := [key for key in keys if key not in table.columns]:
        raise WorkbenchError(
            f"the table {name!r} has no column {missing[0]!r}, which is one of its keys.",
            code="table-keys",
            remedy=did_you_mean(missing[0], map(str, table.columns)),
        )
    if keys and table.duplicated(keys).any():
        twice = table.loc[table.duplicated(keys), keys].iloc[0].to_dict()
        raise WorkbenchError(
            f"the table {name!r} has two rows for {twice}.",
            code="table-keys",
            remedy="Its keys must identify each row.",
        )
    whole = table.reset_index(drop=True)
    whole.attrs = {"about": about.about, "keys": keys}
    if about.labels:
        whole.attrs["labels"] = list(about.labels)
    path = inside(folder / TABLES, name, ".parquet", "table")
    with atomic_write(path) as draft, draft.open("wb") as file:  # pyarrow opens UTF-8 paths only
        try:
            whole.to_parquet(file, index=False)
        except (ArrowException, OverflowError, TypeError) as error:  # Arrow's ends with the column
            raise WorkbenchError(
                f"the table {name!r} cannot be written: {error.args[-1]}.",
                code="wrong-type",
                remedy="Give each of its columns values of one type.",
            ) from error


def write_array(folder: Path, name: str, array: "NDArray[np.generic]") -> None:
    """Write one array."""
    import numpy as np
    from safetensors.numpy import save

    if not isinstance(array, np.ndarray):
        raise WorkbenchError(
            f"the array {name!r} is a {type(array).__name__}, not a NumPy array.",
            code="wrong-type",
            remedy="Return wb.Result({table name: data frame}, {array name: NumPy array}).",
        )
    write_atomically(inside(folder / ARRAYS, name, ".safetensors", "array"), save({name: array}))


def drawings_of(request: spec.Spec) -> "Mapping[str, Draw]":
    """Return what draws the figures of a run: those of its experiment, or that of a sweep."""
    if request.sweep:
        of_sweep: Mapping[str, Draw] = imported("workbench.drawing.sweep:FIGURES", "its figure")
        return of_sweep
    return EXPERIMENTS[request.experiment].drawings()


def write_figures(
    folder: Path, tables: "Tables", request: spec.Spec, progress: Progress
) -> list[str]:
    """Draw the figures of the tables on disk; return their names. A failure is a warning."""
    written: list[str] = []
    try:
        drawn_by = drawings_of(request)
    except WorkbenchError as error:
        progress.warn(f"No figure was drawn: {error}")
        return written
    for name, draw in drawn_by.items():
        try:
            figure = draw(tables)
            if not hasattr(figure, "to_json"):
                what = type(figure).__name__
                progress.warn(f"The figure {name!r} is a {what}, not a figure of plotly.")
                continue
            figure.layout.template = None  # the viewer sets its own template
            drawn = figure.to_json()
        except KeyError as error:
            if error.__cause__ is not None or str(error.args[0]) in tables:  # pandas has a cause
                progress.warn(
                    f"The figure {name!r} cannot be drawn{_at(error)}: there is no {error}."
                )
            continue  # the figure of a table that this run does not have
        except Exception as error:
            progress.warn(f"The figure {name!r} cannot be drawn{_at(error)}: {error!r}.")
            continue
        write_atomically(inside(folder / FIGURES, name, ".json", "figure"), drawn.encode())
        written.append(name)
    return written


def _at(error: BaseException) -> str:
    line = line_of(error)
    return f" ({line})" if line else ""


def _undrawn(warning: str) -> str:
    """Return the figure that a warning says was not drawn ("": none)."""
    found = re.match(r"The figure '(.+?)' (cannot be drawn|is a )", warning)
    return found[1] if found else ""


def _unstated(error: BaseException) -> str:
    what = error.what if isinstance(error, WorkbenchError) else repr(error)
    return f"{UNSTATED}{_at(error)}: {what}"


def write_findings(
    folder: Path,
    tables: "Tables",
    findings: Callable[["Tables"], Sequence[Finding]],
    progress: Progress,
) -> None:
    """Write the findings of the tables on disk. A failure is a warning."""
    try:
        data = _as_json(findings(tables))
    except (Exception, SystemExit) as error:  # any experiment
        progress.warn(_unstated(error))
        return
    write_atomically(unlinked(folder / FINDINGS), data)


def store_findings(folder: Path, findings: Sequence[Finding]) -> None:
    """Write findings to the folder of a run."""
    write_atomically(unlinked(folder / FINDINGS), _as_json(findings))


def _as_json(findings: Sequence[Finding]) -> str:
    return json.dumps([each.as_data() for each in findings], indent=1, ensure_ascii=False)


def stored_findings(folder: Path) -> tuple[Finding, ...] | None:
    """Return the findings that a run stored; None if it has stored none."""
    path = unlinked(folder / FINDINGS)
    if not path.is_file():
        return None
    try:
        data = read_json(path)
        return tuple(_FINDINGS.validate_python(data))
    except (OSError, ValueError, WorkbenchError) as error:
        raise damaged(path, error) from None


def stored_headline(folder: Path, now: status.Status) -> Finding | None:
    """Return the finding that stands for a run, as it stored it; None if it has none."""
    try:
        findings = stored_findings(folder) if now.state == "done" else None
    except WorkbenchError:  # a damaged file
        return None
    return headline(findings or ())


def is_table(folder: Path, name: str) -> bool:
    """Return whether the file of a table exists and ends as a Parquet file does."""
    with open_regular(inside(folder / TABLES, name, ".parquet", "table")) as file:
        file.seek(-len(PARQUET), 2)
        return file.read() == PARQUET


_FINDINGS = TypeAdapter(list[Finding])


class _Files(Mapping[str, Any]):
    """The files of one kind in the folder of a run, read when used; `order` names the first."""

    part, ending, what = "", "", ""

    def __init__(self, folder: Path, order: Iterable[str] = ()) -> None:
        self.folder = folder / self.part
        self.order = {name: index for index, name in enumerate(order)}
        self._read: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._read:
            path = inside(self.folder, name, self.ending, self.what)
            if not path.is_file():
                raise (
                    self._missing(path, name)
                    if name in self.order
                    else UnknownNameError(name, self.what, self)
                )
            self._read[name] = self._open(path, name)
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        paths = self.folder.glob(f"*{self.ending}") if self.folder.is_dir() else ()
        regular = (path for path in paths if path.is_file() and not path.is_symlink())
        names = (path.name.removesuffix(self.ending) for path in regular)
        return iter(sorted((n for n in names if is_name(n)), key=self._index))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def _index(self, name: str) -> tuple[int, str]:
        return self.order.get(name, len(self.order)), name

    def _missing(self, path: Path, name: str) -> WorkbenchError:
        return WorkbenchError(
            f"the {self.what} {name!r} of this run is missing.",
            code="result-missing",
            where=str(path),
            remedy=recompute_remedy(name_of(self.folder.parent)),
        )

    def _open(self, path: Path, name: str) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{self.what}s: {', '.join(self) or 'none'}"


class UnknownNameError(WorkbenchError, KeyError):
    """The run has no table, array or figure of that name."""

    def __init__(self, name: str, what: str, known: Mapping[str, Any]) -> None:
        super().__init__(
            f"there is no {what} {checked(name, what)!r}.",
            code=f"{what}-not-found",
            remedy=did_you_mean(name, known),
        )
        self.args = (name,)

    def __str__(self) -> str:
        return f"{self.what} [{self.code}]\n  {self.remedy}"


class Tables(_Files, Displayed):
    """The tables of a run, as data frames."""

    part, ending, what = TABLES, ".parquet", "table"
    drawn_by = "workbench.report.notebook:tables"

    def _open(self, path: Path, name: str) -> "pd.DataFrame":
        import pandas as pd

        try:
            with open_regular(path) as file:
                return pd.read_parquet(file)
        except Exception as error:  # pyarrow and pandas raise many kinds for a damaged file
            raise damaged(path, error) from None


class Arrays(_Files):
    """The arrays of a run."""

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
    """The figures of a run, as they were drawn when it ended."""

    part, ending, what = FIGURES, ".json", "figure"

    def _open(self, path: Path, name: str) -> "go.Figure":
        import plotly.io

        try:
            content = read_regular(path).decode()
            parse_json(content)  # raises if it is nested too deeply to be written again
            return plotly.io.from_json(content, skip_invalid=True)
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise damaged(path, error) from None


class _DrawnFigures(Figures):
    """Figures that today's code draws from the tables of a run when they are used."""

    def __init__(self, run: "Run", more: Iterable[str] = ()) -> None:
        super().__init__(run.path, [*run.provenance["figures"], *more])
        self._run = run

    def __getitem__(self, name: str) -> "go.Figure":
        if name not in self.order:
            raise UnknownNameError(name, self.what, self)
        if name not in self._read:
            draw = drawings_of(self._run.spec)[name]
            self._read[name] = draw(self._run.tables)
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.order)


def recompute_remedy(run: str) -> str:
    """Return the remedy for a missing file of a run."""
    if run.startswith(BUILT_IN):
        return "It is a part of Workbench. Install Workbench again."
    return f"To compute it again: workbench runs resume {run}"


def damaged(path: Path, error: Exception) -> WorkbenchError:
    """Return the error for a file of a run that cannot be read."""
    within = path.parent.name in (TABLES, ARRAYS, FIGURES)
    run = name_of(path.parent.parent if within else path.parent)
    return WorkbenchError(
        f"cannot be read: {str(error).splitlines()[0] if str(error) else type(error).__name__}.",
        code="run-damaged",
        where=str(path),
        remedy=recompute_remedy(run)
        if run.startswith(BUILT_IN)
        else f"Remove the run with workbench runs rm {run} --yes, and start it again.",
    )


# --- integrity: sizes and hashes of result files --------------------------------------------------
#
# The provenance stores the size and SHA-256 of every file, to check that a run is complete.
#
# `missing` checks names and sizes only, one system call per file; `damage` reads every byte, about
# one second per gigabyte.

PROVENANCE = "provenance.json"
LEFT = (TABLES, ARRAYS, FIGURES, FINDINGS, TRAINED)  # results in the folder of a run


class _Part(BaseModel):
    model_config = ConfigDict(strict=True)


class _File(_Part):
    bytes: int
    sha256: str


class _Caveat(_Part):
    text: str
    beside: list[str]  # the tables and figures that the caveat applies to


class _Form(_Part):
    """The fields of a provenance that are read; it has more."""

    tables: dict[str, int]
    figures: list[str]
    caveats: list[_Caveat]
    models: list[dict[str, Any]]
    corpora: list[dict[str, Any]]
    files: dict[str, _File]


def provenance(folder: Path) -> Mapping[str, Any]:
    """Read and check the provenance that a run wrote when it ended."""
    path = unlinked(folder / PROVENANCE)
    try:
        data: dict[str, Any] = read_json(path)
        _Form.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the whole file"
        raise damaged(path, ValueError(f"{field}: {first['msg']}")) from None
    except (OSError, ValueError) as error:
        raise damaged(path, error) from None
    return data


def recorded(folder: Path) -> dict[str, dict[str, Any]]:
    """Return `bytes` and `sha256` of each result file by its path, for the provenance."""
    return {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": _hash(path)}
        for part in LEFT
        for path in sorted([folder / part, *(folder / part).rglob("*")])
        if path.is_file()
    }


def missing(folder: Path, provenance: Mapping[str, Any]) -> list[str]:
    """Return the result files that are missing, or have another size."""
    names = []
    for name, file in provenance["files"].items():
        try:
            facts = os.lstat(os.path.join(folder, name))  # noqa: PTH118 - for thousands of runs
            if not stat.S_ISREG(facts.st_mode) or facts.st_size != file["bytes"]:
                names.append(name)
        except OSError:
            names.append(name)
    return names


def is_whole(folder: Path) -> bool:
    """Return whether a run with status "done" has its spec, its provenance and all results.

    A spec of another format is an error: this version must not overwrite it.
    """
    try:
        spec.read(folder)
        facts = provenance(folder)
        if missing(folder, facts):
            return False
        return all(is_table(folder, name) for name in facts["tables"])
    except spec.OtherFormatError:
        raise
    except (WorkbenchError, OSError):
        return False


def damage(folder: Path) -> list[str]:
    """Return what is wrong with a run that is done, one line each; empty if it is complete."""
    try:
        spec.read(folder)
        facts = provenance(folder)
        absent = missing(folder, facts)
        changed = [
            name
            for name, file in facts["files"].items()
            if name not in absent and _hash(folder / name) != file["sha256"]
        ]
    except WorkbenchError as error:
        return [str(error).splitlines()[0]]
    except OSError as error:
        return [f"{error.filename} cannot be read: {error.strerror}"]
    return [f"{name} is missing" for name in absent] + [f"{name} has changed" for name in changed]


def _hash(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- an opened run --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run(Displayed):
    """A run: its request, status and results, read from its folder.

    Args:
        path: The folder; `wb.open_run` finds it by name.

    Raises:
        WorkbenchError: On reading tables, arrays or figures of a run that is not done, or whose
            files are damaged.

    Example:
        >>> run = wb.run("describe", corpus="primer:size=40")
        >>> run
        <Run describe-...: done; primer:size=40; 7 tables, 6 figures>
    """

    path: Path
    drawn_by = "workbench.report.notebook:run"

    def __post_init__(self) -> None:
        if not isinstance(self.path, Path):
            raise WorkbenchError(
                f"path must be a path, not a {type(self.path).__name__}.",
                code="wrong-type",
                where="wb.Run",
                remedy="wb.open_run(NAME) opens a run by its name.",
            )

    @property
    def name(self) -> str:
        return name_of(self.path)

    @property
    def is_builtin(self) -> bool:
        """Whether it is a built-in result, which is part of the package and never changes."""
        return self.path.parent == SHIPPED

    @property
    def status(self) -> status.Status:
        """Return the current status."""
        return status.settled(self.path)

    @cached_property
    def spec(self) -> spec.Spec:
        """The request, with the names that its models and corpora have now."""
        return spec.with_given_names(spec.read(self.path))

    @property
    def settings(self) -> dict[str, Any]:
        """The settings, complete."""
        return self.spec.settings

    @property
    def sweep(self) -> dict[str, list[Any]]:
        """The swept values by setting or input; empty if the run is no sweep."""
        return self.spec.sweep

    @cached_property
    def findings(self) -> Findings:
        """What the run found, the first one first.

        As stored; if they are missing or damaged, computed from its tables.
        """
        self._require_done()
        try:
            stored = stored_findings(self.path)
        except WorkbenchError:  # the tables have all numbers
            stored = None
        if stored is not None or self.spec.sweep:
            return Findings(stored or ())
        return self._stated[0]

    @cached_property
    def _stated(self) -> tuple[Findings, str]:
        """The findings that today's code states of its tables, and why it cannot ("": it can)."""
        try:
            experiment = EXPERIMENTS[self.spec.experiment]
            same = experiment.version == self.spec.version
            return Findings(experiment.findings_of(self.tables) if same else ()), ""
        except Exception as error:  # any experiment: it is not installed, or its tables were others
            return Findings(), _unstated(error)

    @cached_property
    def tables(self) -> Tables:
        return Tables(self.path, self.provenance["tables"])

    @cached_property
    def arrays(self) -> Arrays:
        self._require_done()
        return Arrays(self.path)

    @cached_property
    def figures(self) -> Figures:
        if self.is_builtin or self._mended:
            return _DrawnFigures(self, self._mended)
        return Figures(self.path, self.provenance["figures"])

    @cached_property
    def _mended(self) -> list[str]:
        """The figures that could not be drawn when the run ended, and that today's code draws."""
        missed = filter(None, map(_undrawn, self._warned()))
        return [name for name in missed if self._is_drawn(name)]

    def _is_drawn(self, name: str) -> bool:
        try:
            return hasattr(drawings_of(self.spec)[name](self.tables), "to_json")
        except Exception:  # any experiment
            return False

    @cached_property
    def provenance(self) -> Mapping[str, Any]:
        """When the run was computed, how long it took, and with which versions and device."""
        self._require_done()
        return provenance(self.path)

    @property
    def model(self) -> Path | None:
        """The folder of the model that it trained; None if it trained none."""
        folder = self.path / TRAINED
        return folder if folder.is_dir() and not folder.is_symlink() else None

    @cached_property
    def missing(self) -> list[str]:
        """The result files that are missing, or have another size."""
        return missing(self.path, self.provenance)

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """The caveats of its tables and figures."""
        stored = self.provenance["caveats"]
        caveats = tuple(Caveat(c["text"], tuple(c["beside"])) for c in stored)
        return (Caveat(self._missing_files()), *caveats) if self.missing else caveats

    @property
    def warnings(self) -> list[str]:
        """The warnings of the run; those of its findings and figures as today's code gives them."""
        found = self._warned()
        if self.status.state != "done":
            return found
        found = [text for text in found if _undrawn(text) not in self._mended]
        unstated = [text for text in found if text.startswith(UNSTATED)]
        if unstated and (self.findings or self._stated[1]):
            others = [text for text in found if text not in unstated]
            return others if self.findings else [*others, self._stated[1]]
        return found

    def _warned(self) -> list[str]:
        """The warnings of the run, as it wrote them."""
        events, _ = status.read_events(self.path)
        return [str(event["text"]) for event in events if event["kind"] == "warning"]

    def as_data(self) -> dict[str, Any]:
        """Return what `--json` prints."""
        now = self.status
        tables = dict(self.provenance["tables"]) if now.state == "done" else {}
        data = {
            "run": self.name,
            "path": str(self.path),
            "status": now.state,
            "experiment": now.experiment,
            "models": list(now.models),
            "corpora": list(now.corpora),
            "seconds": round(now.seconds, 3),
            "findings": [f.as_data() for f in self.findings] if now.state == "done" else [],
            "tables": tables,
            "caveats": [caveat.text for caveat in self.caveats] if now.state == "done" else [],
            "missing": self.missing if now.state == "done" else [],
        }
        if now.failure:
            data["error"] = str(now.failure.error())
        return data

    def _missing_files(self) -> str:
        """Return which files are missing, and the command that restores them."""
        several = f"{len(self.missing)} files are" if len(self.missing) > 1 else "A file is"
        return (
            f"{several} missing from this run: {', '.join(self.missing)}. "
            f"{recompute_remedy(self.name)}"
        )

    def _require_done(self) -> None:
        now = self.status
        if now.state == "done":
            return
        why = f": {now.failure.what}" if now.failure else "."
        raise WorkbenchError(
            f"the run is {now.state} and has no results{why}",
            code="run-not-finished",
            where=self.name,
            remedy=f"Wait for it. To see its progress: workbench runs show {self.name}"
            if now.under_way
            else f"Run: workbench runs resume {self.name}",
        )

    def __repr__(self) -> str:
        """Return its name, status, inputs and number of results."""
        state = self.status.state
        try:
            models, corpora = spec.names_in([self.spec])
            inputs = [*models, *corpora]
            tables, figures = len(self.tables), len(self.figures)
            results = [f"{plural(tables, 'table')}, {plural(figures, 'figure')}"]
            results = results if state == "done" else []
        except WorkbenchError as error:
            inputs, results = [], [error.what]
        return f"<Run {self.name}: {'; '.join([state, *inputs, *results])}>"


@public
def open_run(name: str) -> Run:
    """Open a run on disk.

    Args:
        name: The name of the run, or its beginning if no other run has the same beginning; that of
            a built-in result begins with `built-in/`.

    Returns:
        The `Run`, in any state.

    Raises:
        WorkbenchError: No run, or more than one, begins with that name.

    Example:
        >>> name = wb.run("describe", corpus="primer:size=40").name
        >>> wb.open_run(name).status.state
        'done'
    """
    if isinstance(name, str) and name.startswith(BUILT_IN):
        return _opened_builtin(name)
    checked(name, "run")
    folder = machine.runs()
    path = folder / name
    if not path.is_dir():
        for link in folder.glob(f"{name}*") if folder.is_dir() else ():
            if is_name(link.name):
                no_link(link)
        names = run_names()
        matches = [other for other in names if other.startswith(name)]
        if len(matches) != 1:
            raise WorkbenchError(
                f"{len(matches)} runs begin with {name!r}."
                if matches
                else f"there is no run {name!r}.",
                code="run-ambiguous" if matches else "run-not-found",
                where=str(folder),
                remedy=_longer_names(folder, matches) if matches else did_you_mean(name, names),
            )
        path = folder / matches[0]
    return Run(no_link(path))


def _opened_builtin(name: str) -> Run:
    """Open a built-in result by its name, or its beginning."""
    short = checked(name.removeprefix(BUILT_IN), "run")
    if (SHIPPED / short / spec.FILE).exists() and _is_of_experiment(short):
        return Run(SHIPPED / short)
    names = builtin_names()
    matches = [other for other in names if other.startswith(short)]
    if len(matches) != 1:
        full = [f"{BUILT_IN}{other}" for other in matches or names]
        raise WorkbenchError(
            f"{len(matches)} built-in results begin with {name!r}."
            if matches
            else f"there is no built-in result {name!r}.",
            code="run-ambiguous" if matches else "run-not-found",
            remedy=f"Write more of the name: {', '.join(full)}."
            if matches
            else did_you_mean(name, full),
        )
    return Run(SHIPPED / matches[0])


def require_finished(run: Run) -> Run:
    """Return the run if it is done; else raise its error."""
    now = run.status
    if now.state == "done":
        return run
    if now.failure is not None:
        raise now.failure.error()
    raise WorkbenchError(
        f"the run was {now.state}.",
        code=f"run-{now.state}",
        where=run.name,
        remedy=f"Continue it with: workbench runs resume {run.name}",
    )


def builtin_names() -> list[str]:
    """Return the names of the folders of built-in results whose experiments are installed."""
    names = sorted(path.parent.name for path in SHIPPED.glob(f"*/{spec.FILE}"))
    return list(filter(_is_of_experiment, names))


def _is_of_experiment(name: str) -> bool:
    return name.startswith(tuple(f"{experiment}-" for experiment in EXPERIMENTS))


def name_of(folder: Path) -> str:
    """Return the name of the run in a folder."""
    return f"{BUILT_IN}{folder.name}" if folder.parent == SHIPPED else folder.name


def require_own(run: Run, action: str) -> None:
    """Raise an error if a run is a built-in result, which cannot be changed."""
    if run.is_builtin:
        raise WorkbenchError(
            f"this is a built-in result, and cannot be {action}.",
            code="run-built-in",
            where=run.name,
            remedy=f"To compute it as a run of your own: {run.provenance['command']}",
        )


def _longer_names(folder: Path, names: Sequence[str]) -> str:
    """A remedy that tells runs with the same beginning apart, the newest first."""
    runs = [(Run(folder / name), status.settled(folder / name)) for name in names]
    runs.sort(key=lambda each: each[1].created, reverse=True)
    shown = [
        f"{run.name} ({now.state}, {now.created[:16].replace('T', ' ')}, "
        f"{', '.join([*now.models, *now.corpora]) or 'no input'})"
        for run, now in runs[:LISTED]
    ]
    more = f" and {len(runs) - LISTED} more" if len(runs) > LISTED else ""
    return f"Write more of the name. Newest first: {'; '.join(shown)}{more}."


def opened_run(run: Run | str, where: str) -> Run:
    """A run, given as itself or by its name."""
    if isinstance(run, Run):
        return run
    if isinstance(run, str):
        return open_run(run)
    raise WorkbenchError(
        f"a run must be a Run or its name, not a {type(run).__name__}.",
        code="wrong-type",
        where=where,
        remedy="Pass runs from wb.run(...), or their names.",
    )


def run_names() -> list[str]:
    """Return the names of all runs."""
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
    """Return all runs with their status, the newest first; reads a small file per run."""
    folder = machine.runs()
    runs = [Run(folder / name) for name in run_names()]
    statuses = [(run, run.status) for run in runs]
    return sorted(statuses, key=lambda pair: (pair[1].created, pair[0].name), reverse=True)
