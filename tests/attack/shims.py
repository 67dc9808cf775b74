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
import datetime, time

began = time.monotonic()
real_time, real_ns, real = time.time, time.time_ns, datetime.datetime


def behind():
    return 86_400.0 * 400 if int(time.monotonic() * 2) % 2 else 0.0  # every half second, a year


class Jumping(real):
    @classmethod
    def now(cls, tz=None):
        return real.now(tz) - datetime.timedelta(seconds=behind())


time.time = lambda: real_time() - behind()
time.time_ns = lambda: real_ns() - int(behind() * 10**9)
datetime.datetime = Jumping
"""


def installed(folder: Path, code: str) -> str:
    """The folder to name in PYTHONPATH."""
    place = folder / "shim"
    place.mkdir(exist_ok=True)
    (place / "sitecustomize.py").write_text(code)
    return str(place)
