"""What may lie in the place of a file, by mistake or by malice; and a clock for who waits."""

import faulthandler
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PATIENCE = 10  # seconds
ROOM = 4 << 30  # bytes of memory that may be asked for, besides what is held already


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's whole path may have 100 characters
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


HARMS: dict[str, Callable[[Path], object]] = {
    "pipe": _pipe,
    "socket": _socket,
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "folder": lambda path: path.mkdir(),
    "deep": lambda path: path.write_text('{"a":' * 100_000 + "1" + "}" * 100_000),
    "deep enough": lambda path: path.write_text('{"a":' * 900 + "1" + "}" * 900),
    "no text": lambda path: path.write_bytes(b"\xff\xfe{\x00\x80"),
}


def put(harm: str, path: Path) -> None:
    """Put it in the place of a file."""
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    HARMS[harm](path)


@contextmanager
def in_time() -> Iterator[None]:
    """Fail where the block waits without end, or reads without end."""

    def late(*_: object) -> None:
        pytest.fail(f"it took more than {PATIENCE} seconds")  # no Exception, which may be caught

    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGALRM, late)
    resource.setrlimit(resource.RLIMIT_AS, (held + ROOM, limits[1]))
    signal.setitimer(signal.ITIMER_REAL, PATIENCE, 1)
    stderr = sys.__stderr__
    faulthandler.dump_traceback_later(2 * PATIENCE, exit=True, file=stderr)  # no signal wakes it
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, limits)
        signal.signal(signal.SIGALRM, before)
