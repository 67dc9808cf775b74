"""Whether a run still has what it left: the size and SHA-256 of every file, kept in its provenance.

`missing` looks at names and sizes only, so it costs a stat a file; `damage` reads every byte, about
a second a gigabyte. Runs made before hashes were kept are judged by the names of their tables and
figures and by the sizes of their model's files.
"""

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from workbench.errors import WorkbenchError
from workbench.files import open_regular, parsed_json, read_regular
from workbench.models.references import TRAINED
from workbench.runs import results, spec
from workbench.runs.names import unlinked

PROVENANCE = "provenance.json"
LEFT = (results.TABLES, results.ARRAYS, results.FIGURES, TRAINED)  # folders, in a run's own


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
        raise results.damaged(path, ValueError(f"{place}: {first['msg']}")) from None
    except (OSError, ValueError) as error:
        raise results.damaged(path, error) from None
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
        return all(results.is_table(folder, name) for name in facts["tables"])
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
        tables = results.Tables(folder)
        for name in facts["tables"] if not hashes else ():
            if f"{results.TABLES}/{name}.parquet" not in lost:
                tables[name]
    except WorkbenchError as error:
        return [str(error).splitlines()[0]]
    except OSError as error:
        return [f"{error.filename} cannot be read: {error.strerror}"]
    return [f"{name} is missing" for name in lost] + [f"{name} has changed" for name in wrong]


def _sizes(provenance: Mapping[str, Any]) -> dict[str, int | None]:
    if "files" in provenance:
        return {name: kept["bytes"] for name, kept in provenance["files"].items()}
    tables = {f"{results.TABLES}/{name}.parquet": None for name in provenance.get("tables", ())}
    figures = {f"{results.FIGURES}/{name}.json": None for name in provenance.get("figures", ())}
    trained = provenance.get("trained") or {}
    return {**tables, **figures, **{f"{TRAINED}/{name}": size for name, size in trained.items()}}


def _hash(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
