"""No command sends a request to another machine.

Each Python process records the foreign addresses it would reach (`sitecustomize`). The hub is not
in offline mode: nothing is downloaded because no command requests it.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm
from tests.network.conftest import NOTES, environment, noted
from tests.network.sitecustomize import is_here

COMMANDS = (
    "doctor", "models", "corpora", "fetch", "runs", "models show mini:bert", "models show {model}",
    "models show {model}@random", "corpora describe primer:size=20",
)  # fmt: skip
RUNS = (
    "experiments", "run profile --model {model} --corpus primer:size=20 --json",
    "run edge-probing --model {model} --corpus primer:size=200 --preset quick --json",
    "runs verify", "report {run} --out {out}",
)  # fmt: skip
DRIVER = """
import contextlib, glob, io, json, sys
from workbench.cli.main import main
for command in json.load(sys.stdin):
    run = next(iter(glob.glob("runs/profile-*")), "").rpartition("/")[2]
    sys.argv = ["workbench", *command.replace("{run}", run).split()]
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            main()
    except SystemExit as end:
        assert not end.code, (command, end.code, out.getvalue())
"""


FORKED = f"""
{NOTES}
import io
sys.stdin = io.StringIO(sys.argv[1])
exec({DRIVER!r})
"""


def python(program: str, folder: Path, given: str = "") -> None:
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, input=given, cwd=folder, text=True, capture_output=True, env=environment(folder)
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "program",
    [
        "socket.socket(type=socket.SOCK_DGRAM).connect(('192.0.2.1', 9))",
        "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 9))",
        "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).connect(('2001:db8::1', 9))",
        "socket.getaddrinfo('evil.invalid', 80)",
        "urllib.request.urlopen('http://evil.invalid/')",
    ],
)
def test_what_would_leave_is_noted(program: str, folder: Path) -> None:
    body = f"import socket, urllib.request\ntry:\n    {program}\nexcept OSError:\n    pass"
    python(body, folder)
    assert "192.0.2.1" in (text := noted(folder)) or "2001:db8" in text or "evil" in text


@pytest.mark.parametrize(
    ("address", "here"),
    [
        ((b"127.0.0.1", 80), True), (("::1", 80, 0, 0), True), ("/tmp/socket", True), ("", True),
        (None, True), ("localhost", True), (("10.0.0.1", 80), False), ("localhost.example", False),
    ],
)  # fmt: skip
def test_the_own_machine_is_distinguished_from_others(address: object, here: bool) -> None:
    assert is_here(address) == here


def told(commands: tuple[str, ...], folder: Path) -> str:
    out = folder / "report.html"
    expanded = [each.replace("{model}", str(folder / "model")) for each in commands]
    return json.dumps([each.replace("{out}", str(out)) for each in expanded])


def ask(commands: tuple[str, ...], folder: Path) -> None:
    """One process for all of them: importing is what takes time."""
    python(DRIVER, folder, told(commands, folder))
    assert noted(folder) == ""


def test_no_command_asks_another_machine(folder: Path) -> None:
    warm.python("-c", FORKED, told(COMMANDS, folder), **environment(folder))
    assert noted(folder) == ""


def test_a_forked_process_notes_what_would_leave(folder: Path) -> None:
    leaves = "import socket; socket.socket(type=socket.SOCK_DGRAM).connect(('192.0.2.1', 9))"
    program = FORKED.replace(f"exec({DRIVER!r})", leaves)
    warm.python("-c", program, "[]", **environment(folder))
    assert "192.0.2.1" in noted(folder)


@pytest.mark.slow
def test_no_command_of_a_process_of_its_own_does(folder: Path) -> None:
    ask(COMMANDS, folder)


@pytest.mark.slow
def test_no_run_and_no_report_does(folder: Path) -> None:
    ask(RUNS, folder)
    assert (folder / "report.html").is_file()
