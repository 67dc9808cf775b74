"""How much memory this machine has, and how much of it a process may use.

A process that opens files of strangers limits itself before it reads them. Where the system has no
such limit (Windows; macOS has it and does not keep it) nothing happens. Costs a system call.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

from workbench.core.errors import WorkbenchError

UNKNOWN = 8 << 30  # bytes taken for granted where the system does not tell
_CONTAINER = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def machine_memory() -> int:
    """Bytes of memory of this machine, or of the container that this process lives in."""
    try:
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        found = UNKNOWN
    for file in _CONTAINER:
        with suppress(OSError, ValueError):  # ValueError: it says "max"
            found = min(found, int(Path(file).read_text()))
    return found


def limit_memory(most: int) -> None:
    """From now on, allocations of this process beyond so many bytes fail as a `MemoryError`.

    Only what can be written counts: weights that are mapped from files take no memory of their own.
    """
    if sys.platform == "win32":
        return
    import resource

    with suppress(OSError, ValueError):  # a lower limit holds already, or there is none to set
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def ran_out(error: BaseException) -> bool:
    """Whether an error, or one that it was raised in place of, says that memory ran out."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, MemoryError) or "allocate memory" in str(seen):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


# --- places: where things are kept ----------------------------------------------------------------
#
# Where things are kept on this machine, and where the app's own files lie. Costs a few lookups.

ALLOWED = "WORKBENCH_ALLOWED"  # folders, where only some may be read; set by an app that is shared


def home() -> Path:
    """Where what is fetched lies, and may be deleted: `WORKBENCH_HOME`, else the user's cache."""
    if named := os.environ.get("WORKBENCH_HOME"):
        return Path(named).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "workbench"


def runs() -> Path:
    """The folder of runs: `WORKBENCH_RUNS`, else `runs` where one works: a study keeps its own."""
    if named := os.environ.get("WORKBENCH_RUNS"):
        return Path(named).expanduser().absolute()
    return Path.cwd() / "runs"


def require_allowed(path: Path) -> Path:
    """The path, unless only some folders may be read here and it lies in none of them.

    An app that listens beyond its own machine limits what is typed to the folders it was started
    with, and to its own: runs, what it has fetched or been sent, and what comes with Workbench.
    """
    named = os.environ.get(ALLOWED)
    if named is None:
        return path
    folders = [Path(folder) for folder in named.split(os.pathsep) if folder]
    folders += [home(), runs(), Path(__file__).resolve().parents[1]]
    real = path.expanduser().resolve()
    if not any(real.is_relative_to(folder.resolve()) for folder in folders):
        raise WorkbenchError(
            "this app may not read here.",
            where=str(path),
            remedy="Upload the file, or start the app with --allow FOLDER.",
        )
    return path


def app_file() -> Path:
    """The app's script, with its `pages` beside it: inside an installed wheel, or in a checkout."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "app", package.parent):
        if (folder / "streamlit_app.py").is_file() and (folder / "pages").is_dir():
            return folder / "streamlit_app.py"
    raise WorkbenchError(
        "the app's files are not there.",
        where=str(package),
        remedy="Install Workbench anew; in its checkout run: pip install --no-deps -e .",
    )
