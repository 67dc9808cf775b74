"""Names of runs, tables, figures and arrays, and the paths they stand for: never out of the folder.

A name is short and plain, so that it can be no path; what it stands for must be no link. Costs one
look at the disk.
"""

import re
from pathlib import Path

from workbench.errors import WorkbenchError

LONGEST = 120
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def checked(name: str, what: str) -> str:
    """The name, if it can be one."""
    if not is_name(name):
        said = f"{name!r:.60}"
        raise WorkbenchError(
            f"{said}{'…' if len(repr(name)) > len(said) else ''} can be no name of a {what}.",
            remedy=f"A name is letters, digits, '-', '_' and '.', at most {LONGEST} of them.",
        )
    return name


def is_name(name: object) -> bool:
    """Whether this can be a name."""
    if not isinstance(name, str) or len(name) > LONGEST:
        return False
    return bool(_NAME.fullmatch(name)) and ".." not in name


def inside(folder: Path, name: str, ending: str, what: str) -> Path:
    """The path of a file in a run's folder."""
    return unlinked(folder / f"{checked(name, what)}{ending}")


def unlinked(path: Path) -> Path:
    """A path in a run's folder; a link there would lead out of it, and is refused."""
    return no_link(path.parent) / no_link(path).name


def no_link(path: Path) -> Path:
    """A path, if it is no link itself."""
    if path.is_symlink():
        raise WorkbenchError(
            "this is a link, and links are not followed in runs.",
            where=str(path),
            remedy="Put what it leads to in its place.",
        )
    return path
