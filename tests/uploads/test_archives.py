"""A zip gives a model's files, or nothing: no unsafe path, no zip bomb, no link, no pickle."""

import io
import stat
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench import WorkbenchError
from workbench.app import uploaded_files as uploads
from workbench.app.uploaded_files import unpack

CONFIG = {"config.json": b"{}", "model.safetensors": b"weights"}


def _zip(files: dict[str, bytes]) -> io.BytesIO:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return made


def _refused(made: io.BytesIO, folder: Path, *words: str) -> None:
    with pytest.raises(WorkbenchError) as raised:
        unpack(made, folder)
    assert all(word in str(raised.value) for word in words), raised.value
    assert not list(folder.iterdir())


@pytest.mark.parametrize("top", ["", "bert/"])
def test_a_folder_of_files_with_or_without_its_name(tmp_path: Path, top: str) -> None:
    unpack(_zip({f"{top}{name}": content for name, content in CONFIG.items()}), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == CONFIG


def test_files_that_are_not_part_of_a_model_are_skipped(tmp_path: Path) -> None:
    more = {"bert/README.md": b"", "bert/.gitattributes": b"", "__MACOSX/bert/._config.json": b""}
    unpack(_zip({f"bert/{name}": content for name, content in CONFIG.items()} | more), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(CONFIG)


@pytest.mark.parametrize(
    "name", ["../evil.json", "/evil.json", "a/../../evil.json", "..\\evil.json", "C:\\evil.json"]
)
def test_no_path_leads_out(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    _refused(_zip(CONFIG | {name: b"{}"}), folder, "leave the folder", "evil")
    assert not (tmp_path / "evil.json").exists()


def test_no_link(tmp_path: Path) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        entry = zipfile.ZipInfo("config.json")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, "/etc/passwd")
    _refused(made, tmp_path, "link")


def test_no_folders_within_folders_and_one_folder_only(tmp_path: Path) -> None:
    _refused(_zip(CONFIG | {"a/b/config.json": b"{}"}), tmp_path, "folders within folders")
    _refused(_zip({"a/config.json": b"{}", "b/config.json": b"{}"}), tmp_path, "more than one")


@pytest.mark.parametrize("above", ["", "mine/"])
def test_the_parts_of_a_fine_tuned_model_stay_where_they_are(tmp_path: Path, above: str) -> None:
    names = (
        "body/config.json",
        "body/tokenizer.json",
        "task/task.json",
        "language-model/head.json",
    )
    unpack(_zip({f"{above}{name}": b"{}" for name in names}), tmp_path)
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == set(names)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "m.pt", "m.PTH", "m.ckpt", "m.pkl"])
def test_pickles_are_refused_with_the_remedy(tmp_path: Path, name: str) -> None:
    _refused(_zip(CONFIG | {name: b"x"}), tmp_path, name, "run any code", "save_pretrained")


def test_other_kinds_of_files_are_refused(tmp_path: Path) -> None:
    _refused(
        _zip(CONFIG | {"modeling_evil.py": b"x"}), tmp_path, "modeling_evil.py", ".safetensors"
    )


def test_a_zip_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "ALWAYS", 1 << 20)
    made = _zip({"config.json": bytes(64 << 20)})
    with pytest.raises(WorkbenchError, match="times its own"):
        unpack(made, tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= max(
        1 << 20, uploads.RATIO * len(made.getvalue())
    )


def test_sizes_in_headers_are_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "ALWAYS", 1 << 20)
    made = bytearray(_zip({"config.json": bytes(64 << 20)}).getvalue())
    honest = (64 << 20).to_bytes(4, "little")
    while (at := made.find(honest)) >= 0:
        made[at : at + 4] = (10).to_bytes(4, "little")
    with pytest.raises(WorkbenchError):
        unpack(io.BytesIO(bytes(made)), tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2 << 20


def test_too_many_entries(tmp_path: Path) -> None:
    _refused(_zip({f"{i}.json": b"" for i in range(1001)}), tmp_path, "1,001 entries")


@pytest.mark.parametrize("content", [b"", b"this is text", b"PK\x03\x04 and no more"])
def test_a_file_that_is_not_a_zip_is_refused(tmp_path: Path, content: bytes) -> None:
    _refused(io.BytesIO(content), tmp_path, "not a valid zip file")


def test_names_twice_and_no_names(tmp_path: Path) -> None:
    _refused(_zip({"config.json": b"", "CONFIG.json": b""}), tmp_path, "twice")
    _refused(_zip({"a/": b""}), tmp_path, "holds no model")


@given(st.data())
def test_a_damaged_zip_is_unpacked_or_refused_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    made = bytearray(_zip(CONFIG).getvalue())
    for _ in range(data.draw(st.integers(1, 4))):
        made[data.draw(st.integers(0, len(made) - 1))] = data.draw(st.integers(0, 255))
    root = tmp_path_factory.mktemp("damaged")
    folder = root / "inner"
    folder.mkdir()
    with suppress(WorkbenchError):
        unpack(io.BytesIO(bytes(made)), folder)
    assert [path.name for path in root.iterdir()] == ["inner"]
