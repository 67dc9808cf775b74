"""Names of models and corpora of this machine: one for each, and no path in what is shown."""

from pathlib import Path

import pytest

from workbench import WorkbenchError
from workbench.core import machine, names


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    return tmp_path


def folder(path: Path) -> str:
    path.mkdir(parents=True)
    return str(path)


def test_two_paths_have_two_names_and_a_path_keeps_its_own(home: Path) -> None:
    first, second = folder(home / "a" / "ewt"), folder(home / "b" / "ewt")
    assert [names.local("corpora", path) for path in (first, second, first)] == [
        "local:ewt", "local:ewt (2)", "local:ewt",
    ]  # fmt: skip
    assert names.path_of("corpora", "local:ewt (2)") == second
    assert names.local("models", second) == "local:ewt"  # models have names of their own


def test_a_former_name_still_opens_what_it_stood_for(home: Path) -> None:
    path = folder(home / "ewt")
    for name in ("First", " Second,\n name "):
        names.give("corpora", path, name)
    assert names.given("corpora", path) == "Second name"
    assert names.local("corpora", path) == "local:Second name"
    assert names.path_of("corpora", "local:First") == path
    names.give("corpora", path, "")
    assert names.given("corpora", path) == "" and not names.are_given()


def test_a_name_is_given_once_until_what_has_it_is_gone(home: Path) -> None:
    first, second = folder(home / "a"), folder(home / "b")
    names.give("corpora", first, "Mine")
    with pytest.raises(WorkbenchError, match=r"'Mine' is, or was[\s\S]*'Mine \(2\)'"):
        names.give("corpora", second, "Mine")
    with pytest.raises(WorkbenchError, match="that of another"):
        names.give("corpora", first, "/")  # a path that is there: its address would open the first
    names.give("corpora", first, "")
    Path(first).rmdir()
    names.give("corpora", second, "Mine")
    assert names.path_of("corpora", "local:Mine") == second


def test_a_path_that_says_nothing_is_named_with_its_folder(home: Path) -> None:
    assert names.local("models", folder(home / "gt" / "model")) == "local:gt/model"
    upload = folder(home / "feee4e79c0f9a6e7-dev")
    assert names.local("corpora", upload) == "local:dev"


def test_an_unknown_name_is_an_error_with_the_nearest(home: Path) -> None:
    names.local("corpora", folder(home / "treebank"))
    with pytest.raises(WorkbenchError, match=r"no corpus[\s\S]*Did you mean 'treebank'"):
        names.path_of("corpora", "local:treebnk")


def test_a_text_has_names_for_paths(home: Path) -> None:
    path = folder(home / "home" / "uploads" / "corpora" / "feee4e79c0f9a6e7-dev")
    names.give("corpora", path, "My treebank")
    text = f"{path}/dev.conllu:3: wrong; {machine.runs()}/heads-0123; /other/file"
    expected = "My treebank/dev.conllu:3: wrong; heads-0123; /other/file"
    assert names.without_paths(text) == expected


@pytest.mark.parametrize("content", ["", "[]", '{"corpora": 3}', '{"corpora": {"given": []}}'])
def test_a_damaged_file_of_names_is_as_none(home: Path, content: str) -> None:
    (home / "home").mkdir()
    (home / "home" / names.FILE).write_text(content)
    assert names.given("corpora", "/a") == ""
    names.give("corpora", "/a", "A")
    assert names.given("corpora", "/a") == "A"
