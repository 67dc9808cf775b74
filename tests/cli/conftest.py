"""The command line in a folder of its own, with caches and runs of its own."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from workbench.cli.main import main

CONLLU = """\
# text = The dog barks.
1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_
2\tdog\tdog\tNOUN\tNN\t_\t3\tnsubj\t_\t_
3\tbarks\tbark\tVERB\tVBZ\t_\t0\troot\t_\tSpaceAfter=No
4\t.\t.\tPUNCT\t.\t_\t3\tpunct\t_\t_

# text = It ran.
1\tIt\tit\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2\tran\trun\tVERB\tVBD\t_\t0\troot\t_\tSpaceAfter=No
3\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_

"""


class Answer(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Answer]


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder one works in, with a corpus and its runs, kept through the session."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "dog.conllu").write_text(CONLLU)
    return folder


@pytest.fixture
def at_home(study: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in that folder."""
    monkeypatch.chdir(study)
    monkeypatch.setenv("WORKBENCH_HOME", str(study / "home"))
    monkeypatch.delenv("WORKBENCH_RUNS", raising=False)
    return study


@pytest.fixture
def workbench(
    at_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Call the command as a user does."""

    def run(*arguments: Any) -> Answer:
        monkeypatch.setattr(sys, "argv", ["workbench", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        return Answer(int(end.value.code or 0), *capsys.readouterr())

    return run
