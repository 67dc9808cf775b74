"""Faults of a machine, put into every Python process below a folder by its `sitecustomize`.

What a file system without locks or a clock set back does to `workbench`, without either. Costs
nothing.
"""

from pathlib import Path

NO_LOCKS = """\
import errno, fcntl, os


def flock(handle, kind):
    raise OSError(errno.{error}, os.strerror(errno.{error}))


fcntl.flock = flock
"""
CLOCK = """\
import importlib.machinery, sys, time

real_time, real_ns = time.time, time.time_ns


def behind():
    return 86_400.0 * 400 if int(time.monotonic() * 2) % 2 else 0.0  # every half second, a year


time.time = lambda: real_time() - behind()
time.time_ns = lambda: real_ns() - int(behind() * 10**9)


class Loader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module):
        super().exec_module(module)
        from datetime import UTC, datetime

        module.now = lambda: datetime.fromtimestamp(time.time(), UTC).isoformat(
            timespec="milliseconds"
        )


class Finder:  # the time of day that runs write down comes from C, and cannot be replaced there
    def find_spec(self, name, path=None, target=None):
        if name != "workbench.runs.status":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        spec.loader = Loader(name, spec.origin)
        return spec


sys.meta_path.insert(0, Finder())
"""


def installed(folder: Path, code: str) -> str:
    """The folder to name in PYTHONPATH."""
    place = folder / "shim"
    place.mkdir(exist_ok=True)
    (place / "sitecustomize.py").write_text(code)
    return str(place)
