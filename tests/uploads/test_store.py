"""Uploads are complete or absent, each content is stored once, and their names are safe."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench import WorkbenchError
from workbench.app.uploaded_files import LONGEST, OLD, folder, receive, remove, safe_name, uploads
from workbench.core import names


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    return tmp_path


def _writes(content: str, name: str = "config.json") -> Callable[[Path], object]:
    return lambda draft: (draft / name).write_text(content)


def test_the_same_content_is_kept_once() -> None:
    first = receive("models", "bert", _writes("{}"))
    again = receive("models", "other name", _writes("{}"))
    other = receive("models", "third name", _writes("{ }"))
    assert first.path == again.path != other.path and again.name == "other name"
    proposed = names.free("models", "other name")
    assert receive("models", proposed, _writes("{}")).name == "other name" != proposed
    with pytest.raises(WorkbenchError, match="third name"):
        receive("models", "third name", _writes("{  }"))
    assert first.path.name == f"{first.hash}-bert"
    assert [upload.size for upload in uploads("models")] in ([2, 3], [3, 2])
    assert uploads("corpora") == []


def test_a_draft_that_fails_leaves_nothing_and_the_error_names_the_upload() -> None:
    def fill(draft: Path) -> None:
        (draft / "config.json").write_text("{")
        raise WorkbenchError("broken.", where=str(draft), remedy=f"Mend {draft}/config.json.")

    with pytest.raises(WorkbenchError) as raised:
        receive("models", "my model", fill)
    assert raised.value.where == "my-model" and raised.value.remedy == "Mend config.json."
    with pytest.raises(RuntimeError):
        receive("models", "bert", lambda draft: (_ for _ in ()).throw(RuntimeError).__next__())
    assert list(folder("models").iterdir()) == []


def test_removed_is_gone_and_only_what_is_an_upload_can_be_removed(home: Path) -> None:
    kept = receive("corpora", "dev.conllu", _writes("1"))
    (home / "uploads" / "precious").mkdir()
    for name in ("../precious", "..", "", ".", "no-such"):
        remove("corpora", name)
    assert (home / "uploads" / "precious").is_dir() and kept.path.is_dir()
    remove("corpora", kept.path.name)
    remove("corpora", kept.path.name)
    assert list(folder("corpora").iterdir()) == []


def test_links_and_drafts_are_no_uploads(home: Path) -> None:
    root = folder("models")
    root.mkdir(parents=True)
    (root / f"{'0' * 16}-link").symlink_to(home)
    (root / ".draft-x").mkdir()
    assert uploads("models") == []


def test_old_drafts_are_deleted() -> None:
    root = folder("models")
    for name, age in (("old", OLD + 60), ("new", 60)):
        (root / f".draft-{name}").mkdir(parents=True)
        os.utime(root / f".draft-{name}", (time.time() - age,) * 2)
    receive("models", "bert", _writes("{}"))
    assert [path.name for path in root.glob(".draft-*")] == [".draft-new"]


def test_an_unwritable_folder_is_reported(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "file").write_text("")
    monkeypatch.setenv("WORKBENCH_HOME", str(home / "file"))
    with pytest.raises(WorkbenchError, match="cannot be written"):
        receive("models", "bert", _writes("{}"))
    assert uploads("models") == []


@given(st.text(max_size=300))
def test_any_name_is_one_safe_file_name(name: str) -> None:
    safe = safe_name(name)
    assert safe and Path(safe).name == safe and not safe.startswith((".", "-"))
    assert len(safe.encode()) <= LONGEST and "\0" not in safe


def test_names_keep_the_split_and_the_extension() -> None:
    assert safe_name("C:\\data\\en ewt-ud-train.conllu") == "en-ewt-ud-train.conllu"
    assert safe_name("../../etc/passwd") == "passwd"
    assert safe_name("x" * 200 + ".jsonl").endswith("x.jsonl")
    assert safe_name("..") == "unnamed"
