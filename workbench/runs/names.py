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
    if len(name) > LONGEST or not _NAME.fullmatch(name) or ".." in name:
        raise WorkbenchError(
            f"{name[:60]!r}{'…' if len(name) > 60 else ''} can be no name of a {what}.",
            remedy=f"A name is letters, digits, '-', '_' and '.', at most {LONGEST} of them.",
        )
    return name


def is_name(name: str) -> bool:
    """Whether a name can be one."""
    return len(name) <= LONGEST and bool(_NAME.fullmatch(name)) and ".." not in name


def inside(folder: Path, name: str, ending: str, what: str) -> Path:
    """The path of a file in a run's folder; a link there would lead out of it, and is refused."""
    path = folder / f"{checked(name, what)}{ending}"
    for part in (path, folder):
        if part.is_symlink():
            raise WorkbenchError(
                "this is a link, and links are not followed in runs.",
                where=str(part),
                remedy="Put the file itself there.",
            )
    return path
