"""Where things are kept on this machine, and where the app's own files lie. Costs a few lookups."""

import os
from pathlib import Path

from workbench.core.errors import WorkbenchError

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
