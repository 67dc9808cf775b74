"""A temporary home, a server on this machine, and entries whose files it serves."""

import hashlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import workbench.fetch as fetching
from tests.fetch.server import Server
from workbench.fetch.catalogue import STATED, Entry, File

Making = Callable[..., Entry]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr("workbench.fetch.PAUSES", (0.0, 0.0, 0.0))
    return tmp_path / "home"


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.shutdown()
    running.server_close()


@pytest.fixture
def body() -> bytes:
    """A file of a few blocks."""
    return random.Random(0).randbytes(1_000_003)


@pytest.fixture
def making(server: Server, monkeypatch: pytest.MonkeyPatch) -> Making:
    """Make an entry of files the server has, the only one of the catalogue."""

    def made(files: dict[str, bytes], *, stated: bool = False, revision: str = "c0ffee") -> Entry:
        server.bodies |= {f"/files/{name}": body for name, body in files.items()}
        entry = Entry(
            name="things",
            kind="corpus",
            about="for tests",
            licence="CC0",
            licence_url="https://creativecommons.org",
            page="https://example.org/things",
            revision=revision,
            base=f"{server.url}files/",
            files=tuple(
                File(n, len(b), STATED if stated else hashlib.sha256(b).hexdigest())
                for n, b in files.items()
            ),
            statement=f"{server.url}statement" if stated else "",
        )
        monkeypatch.setattr(fetching, "ENTRIES", (entry,))
        return entry

    return made
