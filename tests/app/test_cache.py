"""What a page opens was opened before in a process with limits, or comes with Workbench."""

import shutil
from pathlib import Path

import pytest

from workbench import WorkbenchError
from workbench.app import cache
from workbench.models import loading
from workbench.runs import isolated

MINI = Path(loading.__file__).parent / "mini" / "bert"


def test_what_could_not_be_opened_apart_is_not_opened_in_the_app(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    folder = shutil.copytree(MINI, tmp_path / "bert")
    opened: list[str] = []

    def refuse(ref: str, question: str, fetch: bool = False) -> None:
        raise WorkbenchError("it needs too much memory.", where=ref, remedy="Close other programs.")

    def load(ref: str, *arguments: object, **options: object) -> None:
        opened.append(ref)

    monkeypatch.setattr(isolated, "look", refuse)
    monkeypatch.setattr(loading, "load", load)
    for ref in (str(folder), f"{folder}@random"):
        with pytest.raises(WorkbenchError, match="memory"):
            cache.model(ref)
    assert opened == []
