"""A corpus or a model whose files change while a run reads them: noticed, and nothing is kept."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.tiny import tiny_bert
from workbench import experiments, read, write
from workbench.runs import execute
from workbench.runs.launch import start
from workbench.runs.request import make_request
from workbench.runs.run import Run
from workbench.runs.subruns import in_process


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "some.conllu"
    write(read("primer").docs("test", limit=20), path)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "bert"
    for part in tiny_bert(["the", "dog"]):
        part.save_pretrained(path)
    return path


def disturbed(
    experiment: str,
    corpus: Path,
    models: list[str],
    disturb: Callable[[], object],
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    """A run in this process that is disturbed when everything is open."""
    asked = make_request(experiment, models, [str(corpus)]).spec
    kind = experiments()[experiment]

    def run(*arguments: Any) -> Any:
        disturb()
        return kind.run(*arguments)

    monkeypatch.setattr(execute, "EXPERIMENTS", {experiment: replace(kind, run=run)})
    return start(asked, compute=in_process(execute.open_inputs))


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(path.read_bytes())


def flip(path: Path) -> None:
    """One byte in the middle of the weights, in place, under the same date."""
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(before.st_size - 100)
        byte = file.read(1)
        file.seek(before.st_size - 100)
        file.write(bytes([byte[0] ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_corpus_that_grows(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = disturbed("describe", corpus, [], lambda: append(corpus), monkeypatch)
    failure = run.status.failure
    assert failure and "changed while" in failure.what and failure.kind == "input"
    assert not (run.path / "tables").exists()


def test_a_corpus_that_cannot_be_read_any_more(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the line that half-written content has wrong, but why."""
    run = disturbed("describe", corpus, [], lambda: corpus.write_text("1\t"), monkeypatch)
    assert run.status.failure and "changed while" in run.status.failure.what


def test_weights_that_change_in_place(
    corpus: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = model / "model.safetensors"
    run = disturbed("profile", corpus, [str(model)], lambda: flip(weights), monkeypatch)
    assert run.status.failure and "model changed while" in run.status.failure.what


def test_what_is_only_touched_is_the_same(
    corpus: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched = [corpus, model / "model.safetensors"]
    run = disturbed(
        "profile", corpus, [str(model)], lambda: [os.utime(path) for path in touched], monkeypatch
    )
    assert run.status.state == "done", run.status.failure
