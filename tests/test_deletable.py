"""An analysis can be removed, and everything else works: each in turn, by night.

`tests/test_floors.py` looks each day whether any analysis is imported by what does not need it.
"""

import tomllib

import pytest

from tests import deletable

NAMES = deletable.named()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_each_analysis_can_be_removed(name: str) -> None:
    assert not deletable.faults_without(name)


def test_an_analysis_that_is_not_there_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An experiment's name, such as `lens`, is not that of its analysis."""
    monkeypatch.setattr("sys.argv", ["deletable", "lens"])
    monkeypatch.setattr(deletable, "faults_without", lambda name: [])
    with pytest.raises(SystemExit):
        deletable.main()
    assert "no analysis lens" in capsys.readouterr().err


def test_the_copy_has_what_the_types_are_checked_of() -> None:
    project = tomllib.loads((deletable.ROOT / "pyproject.toml").read_text("utf-8"))
    assert set(project["tool"]["mypy"]["files"]) <= set(deletable.COPIED)


def test_what_needs_an_analysis_goes_with_it() -> None:
    gone = {
        name: {each.package.rpartition(".")[2] for each in deletable.gone_with(name)}
        for name in NAMES
    }
    assert gone["lenses"] == {"lenses", "editing", "few_shot"}
    assert gone["predictions"] == {
        "predictions", "asking", "attention", "attribution", "editing", "few_shot", "lenses",
        "patching", "retrieval", "steering", "writing",
    }  # fmt: skip
