"""A model is known by its files; a large one is read again only when it was touched."""

import os
import shutil
from pathlib import Path

import pytest

import workbench as wb
from workbench.analyses.training.task import Quiet
from workbench.models.huggingface import HuggingFace
from workbench.runs import model_facts
from workbench.runs.execute import open_inputs
from workbench.runs.model_facts import files_hash
from workbench.runs.request import make_request

MINI = Path(wb.__file__).parent / "models" / "mini" / "bert"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model whose weights count as large, and were written long ago."""
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(model_facts, "LARGE", 1 << 10)
    monkeypatch.setattr(model_facts, "SETTLED", -1.0)
    shutil.copytree(MINI, tmp_path / "model")
    return tmp_path / "model"


def _read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of files as they are hashed."""
    sizes, digest = [], model_facts.hashlib.file_digest

    def watched(file: object, name: str) -> object:
        sizes.append(os.fstat(file.fileno()).st_size)  # type: ignore[attr-defined]
        return digest(file, name)  # type: ignore[arg-type]

    monkeypatch.setattr(model_facts.hashlib, "file_digest", watched)
    return sizes


def test_a_large_file_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = _read(monkeypatch)
    first = files_hash(str(folder))
    assert max(sizes) > 1 << 10
    sizes.clear()
    assert files_hash(str(folder)) == first
    assert max(sizes, default=0) < 1 << 10


@pytest.mark.parametrize("times_stay", [False, True])
def test_one_changed_byte_is_noticed_whatever_its_time_says(folder: Path, times_stay: bool) -> None:
    first, weights = files_hash(str(folder)), folder / "model.safetensors"
    about = weights.stat()
    with weights.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))
    if times_stay:
        os.utime(weights, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert files_hash(str(folder)) != first


def test_what_was_just_written_is_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two writes within one tick of a clock leave the same time."""
    monkeypatch.setattr(model_facts, "SETTLED", 3_600.0)
    files_hash(str(folder))
    sizes = _read(monkeypatch)
    files_hash(str(folder))
    assert max(sizes) > 1 << 10


def test_a_kept_hash_that_is_damaged_is_not_used(folder: Path) -> None:
    first = files_hash(str(folder))
    kept = list((Path(os.environ["WORKBENCH_HOME"]) / "known" / "hashes").iterdir())
    assert kept
    for path in kept:
        path.write_text("nonsense")
    assert files_hash(str(folder)) == first


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_weights_are_hashed_again_only_where_they_are_those_of_the_files(
    precision: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is rounded as it is opened has another hash, which nobody would compare."""
    asked = make_request("heads", [str(folder)], ["primer"], device="cpu", precision=precision).spec
    asked = asked.model_copy(update={"corpora": ()})
    hashed: list[str] = []
    reading = HuggingFace._hashed

    def watched(self: HuggingFace, *how: object) -> str:
        hashed.append(self.precision)
        return reading(self, *how)  # type: ignore[arg-type]

    monkeypatch.setattr(HuggingFace, "_hashed", watched)
    ((model,), _) = open_inputs(asked, Quiet())
    assert model.precision == precision and model.content_hash == asked.models[0].hash
    assert hashed == (["fp32"] if precision == "fp32" else [])


@pytest.mark.parametrize(
    ("ref", "noun"),
    [("m\t" * 5_000 + "@edit:2.3=0", "hub id"), (f"mini:bert@edit:1.a-{'a' * 5_000}=1.5", "run")],
)
def test_a_reference_longer_than_a_path_is_an_error_of_ours(ref: str, noun: str) -> None:
    with pytest.raises(wb.WorkbenchError, match=noun):
        model_facts.known(ref)
