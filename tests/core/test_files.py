"""A file is there whole or not at all."""

import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

from workbench.core import files
from workbench.core.errors import WorkbenchError
from workbench.core.files import atomic_write, user_path


class _Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_file_and_its_folders_are_written(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b" / "c.txt"
    with atomic_write(target) as draft:
        draft.write_text("new")
    assert target.read_text() == "new"
    assert [path.name for path in target.parent.iterdir()] == ["c.txt"]


def test_target_is_untouched_until_the_block_ends(tmp_path: Path) -> None:
    target = tmp_path / "c.txt"
    target.write_text("old")
    with atomic_write(target) as draft:
        draft.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"


def test_error_in_the_block_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "c.txt"
    target.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_write(target) as draft:
        draft.write_text("half")
        _ = 1 / 0
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_interrupt_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), atomic_write(tmp_path / "c.txt") as draft:
        draft.write_text("half")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_file_gets_the_permissions_any_new_file_gets(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    with atomic_write(tmp_path / "written"):
        pass
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("usual", "written")]
    assert modes[0] == modes[1]


def test_read_only_folder_is_a_users_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:  # what a read-only folder does to all but the administrator
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    with pytest.raises(WorkbenchError, match="Permission denied"), atomic_write(tmp_path / "c"):
        pass


def test_full_disk_is_a_users_error_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match="No space left"), atomic_write(tmp_path / "c.txt"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_full_disk_is_named_with_what_it_has_and_what_the_file_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of the test stands for a disk of its own, of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    monkeypatch.setattr(Path, "is_mount", lambda path: path == disk)
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: _Usage(10**6, 10**6 - 2_000, 2_000))
    with pytest.raises(WorkbenchError) as caught, atomic_write(disk / "new" / "c.txt") as draft:
        draft.write_bytes(b"0" * 345_678)
        raise OSError(errno.ENOSPC, "No space left on device")
    error = caught.value
    assert error.where == str(disk / "new" / "c.txt")
    assert f"The disk at {disk} has 2.0 kB free of 1.0 MB" in error.what
    assert "at least 345.7 kB" in error.what
    assert f"Free space on {disk}" in error.remedy


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        OSError("I/O error: No space left on device (os error 28)"),  # as safetensors says it
    ],
)
def test_full_disk_is_known_however_a_library_says_it(error: OSError, tmp_path: Path) -> None:
    assert "The disk at" in files.unwritable(tmp_path, error).what
    assert "The disk at" not in files.unwritable(tmp_path, PermissionError(13, "no")).what


def test_folder_that_cannot_be_made_is_a_users_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    target = tmp_path / "file" / "c.txt"
    with pytest.raises(WorkbenchError, match="written") as caught, atomic_write(target):
        pass
    assert caught.value.where == str(target)


def test_folder_in_the_targets_place_is_a_users_error_and_stays(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    target.mkdir()
    with pytest.raises(WorkbenchError, match="cannot be written"), atomic_write(target):
        pass
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "link.txt"
    link.symlink_to(Path("there") / "real.txt")
    for text in ("first", "second"):
        with atomic_write(link) as draft:
            draft.write_text(text)
        assert link.is_symlink()
        assert (tmp_path / "there" / "real.txt").read_text() == text
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["real.txt"]


def test_a_way_through_a_folder_that_is_not_there_makes_none(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "nowhere" / ".." / "c.txt") as draft:
        draft.write_text("new")
    assert [path.name for path in tmp_path.iterdir()] == ["c.txt"]


@pytest.mark.parametrize("kind", ["loop", "fifo"])
def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "c.txt"
    target.symlink_to("c.txt") if kind == "loop" else os.mkfifo(target)
    with pytest.raises(WorkbenchError, match="cannot be written"), atomic_write(target):
        pass
    assert not target.is_file()
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("path", ["~nouser/x", "a\0b", b"x", 5, None])
def test_an_invalid_path_is_a_user_error(path: object) -> None:
    with pytest.raises(WorkbenchError, match="path-invalid"):
        user_path(path)  # type: ignore[arg-type]
