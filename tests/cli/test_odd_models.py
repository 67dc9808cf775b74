"""Whatever lies in the place of a model's or a corpus' file, `show` says what is wrong, at once."""

import gzip
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CONLLU, Command
from tests.cli.harms import HARMS, in_time, put
from tests.cli.test_odd_files import is_an_error
from workbench.models import references

MINI = Path(references.__file__).parent / "mini"
FOLDERS = {
    "bert": ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"),
    "elmo": ("options.json", "model.safetensors", "vocab.txt"),
}
PARTS = [(kind, name) for kind, names in FOLDERS.items() for name in names]


def harms(*often: str, without: str = "nothing") -> list[Any]:
    """All harms; those that are not tried often are slow."""
    return [
        pytest.param(harm, marks=() if harm in often else pytest.mark.slow)
        for harm in HARMS
        if not harm.startswith(without)
    ]


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """What is imported when a model or a corpus is opened, before the clock runs."""
    from workbench import load, read

    for kind in FOLDERS:
        load(MINI / kind, "cpu")
    next(iter(read("primer").docs()))


@pytest.mark.parametrize("harm", harms("pipe", "deep enough"))
@pytest.mark.parametrize(("kind", "name"), PARTS)
def test_a_model_with_an_odd_file_is_refused(
    kind: str, name: str, harm: str, workbench: Command, tmp_path: Path
) -> None:
    folder = tmp_path / kind
    shutil.copytree(MINI / kind, folder)
    assert (folder / name).is_file()
    put(harm, folder / name)
    with in_time():
        answer = workbench("models", "show", folder, "--json")
    assert answer.code == 0 or (answer.code == 2 and is_an_error(answer))


@pytest.mark.parametrize("harm", harms("pipe", "no text"))
@pytest.mark.parametrize(
    ("ref", "name"),
    [
        ("elmo:{}/options.json,{}/weights.hdf5", "options.json"),
        ("elmo:{}/options.json,{}/weights.hdf5", "weights.hdf5"),
        ("vectors:{}/words.vec", "words.vec"),
        ("vectors:{}/words.vec.gz", "words.vec.gz"),
        ("vectors:{}", "vectors.safetensors"),
        ("vectors:{}", "words.txt"),
    ],
)
def test_a_model_named_by_its_files_is_refused(
    ref: str, name: str, harm: str, workbench: Command, tmp_path: Path
) -> None:
    shutil.copy(MINI / "elmo" / "options.json", tmp_path)
    (tmp_path / "words.txt").write_text("dog\n")
    put(harm, tmp_path / name)
    with in_time():
        answer = workbench("models", "show", ref.replace("{}", str(tmp_path)))
    assert answer.code == 2 and is_an_error(answer)


@pytest.mark.parametrize("harm", harms("pipe", without="deep"))
@pytest.mark.parametrize(
    "name", "a.conllu a.conllu.gz a.txt a.jsonl a.csv a.spacy a.mrg a.conll a.bio".split()
)
def test_a_corpus_that_is_an_odd_file_is_refused(
    name: str, harm: str, workbench: Command, tmp_path: Path
) -> None:
    put(harm, tmp_path / name)
    with in_time():
        answer = workbench("corpora", "show", tmp_path / name)
    assert answer.code == 2 and is_an_error(answer)


@pytest.mark.parametrize("harm", ["deep", "deep enough"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.mrg", "a.spacy"])
def test_a_corpus_of_too_many_brackets_is_refused(
    name: str, harm: str, workbench: Command, tmp_path: Path
) -> None:
    put(harm, tmp_path / name)
    with in_time():
        answer = workbench("corpora", "show", tmp_path / name)
    assert answer.code == 2 and is_an_error(answer)


@pytest.mark.parametrize("harm", ["pipe", "endless", "no text"])
def test_a_folder_of_splits_with_an_odd_file(harm: str, workbench: Command, tmp_path: Path) -> None:
    (tmp_path / "x-train.conllu").write_text(CONLLU)
    put(harm, tmp_path / "x-dev.conllu")
    with in_time():
        answer = workbench("corpora", "show", tmp_path)
        described = workbench("corpora", "describe", tmp_path)
    for found in (answer, described):
        assert found.code == 0 or (found.code == 2 and is_an_error(found))


def test_an_empty_corpus_is_shown_as_one_without_docs(workbench: Command, tmp_path: Path) -> None:
    (tmp_path / "empty.conllu").touch()
    assert (
        workbench("corpora", "show", tmp_path / "empty.conllu").err == "note: empty has no Docs.\n"
    )


def test_what_is_whole_is_shown(workbench: Command, tmp_path: Path) -> None:
    (tmp_path / "a.conllu.gz").write_bytes(gzip.compress(CONLLU.encode()))
    with in_time():
        for kind in FOLDERS:
            assert workbench("models", "show", MINI / kind).code == 0
        assert workbench("corpora", "show", tmp_path / "a.conllu.gz").code == 0
