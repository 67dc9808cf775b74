"""A download is complete and correct, or there is no file; interrupted downloads are resumed."""

import errno
import socket
from pathlib import Path

import pytest

from tests.fetch.conftest import Making
from tests.fetch.server import Server
from workbench import WorkbenchError
from workbench import fetch as module
from workbench.fetch import fetch, find


def ranges(server: Server) -> list[str | None]:
    return [byte_range for path, byte_range in server.requests if path.startswith("/files/")]


def test_files_come_whole_and_are_returned_as_a_folder(making: Making, body: bytes) -> None:
    entry = making({"a.txt": body, "b.txt": b"b"})
    folder = fetch("things")
    assert folder == Path(entry.ref)
    assert (folder / "a.txt").read_bytes() == body
    assert (folder / "b.txt").read_bytes() == b"b"
    assert not list(folder.glob("*.part"))


def test_empty_file_comes(making: Making) -> None:
    making({"a.txt": b""})
    assert (fetch("things") / "a.txt").read_bytes() == b""


def test_interrupted_download_is_resumed(making: Making, server: Server, body: bytes) -> None:
    making({"a.txt": body})
    server.cut_after = [600_000, 100_000]
    assert (fetch("things") / "a.txt").read_bytes() == body
    assert ranges(server) == [None, "bytes=600000-", "bytes=700000-"]


def test_part_of_an_earlier_command_is_resumed(making: Making, server: Server, body: bytes) -> None:
    entry = making({"a.txt": body})
    server.cut_after = [300_000, 0, 0, 0]
    with pytest.raises(WorkbenchError, match="bytes are kept"):
        fetch("things")
    assert not (entry.folder / "a.txt").exists()
    assert (entry.folder / "a.txt.part").stat().st_size == 300_000
    server.requests.clear()
    assert (fetch("things") / "a.txt").read_bytes() == body
    assert ranges(server) == ["bytes=300000-"]


def test_complete_part_is_only_renamed(making: Making, server: Server, body: bytes) -> None:
    entry = making({"a.txt": body})
    entry.folder.mkdir(parents=True)
    (entry.folder / "a.txt.part").write_bytes(body)
    assert (fetch("things") / "a.txt").read_bytes() == body
    assert server.requests == []


def test_server_without_ranges_sends_the_whole_file_again(
    making: Making, server: Server, body: bytes
) -> None:
    making({"a.txt": body})
    server.ranges, server.cut_after = False, [600_000]
    assert (fetch("things") / "a.txt").read_bytes() == body
    assert ranges(server) == [None, "bytes=600000-"]


@pytest.mark.parametrize("left", [b"other bytes", b"x" * 2_000_000])
def test_part_of_another_file_costs_a_second_download_but_never_a_wrong_file(
    making: Making, server: Server, body: bytes, left: bytes
) -> None:
    entry = making({"a.txt": body})
    entry.folder.mkdir(parents=True)
    (entry.folder / "a.txt.part").write_bytes(left)
    assert (fetch("things") / "a.txt").read_bytes() == body


@pytest.mark.parametrize("wrong", [b"short", b"y" * 1_000_003, b"y" * 5_000_000])
def test_wrong_bytes_are_deleted(making: Making, server: Server, body: bytes, wrong: bytes) -> None:
    entry = making({"a.txt": body})
    server.bodies["/files/a.txt"] = wrong
    with pytest.raises(WorkbenchError, match="checksum-mismatch") as caught:
        fetch("things")
    assert entry.files[0].sha256 in str(caught.value)
    assert sorted(path.name for path in entry.folder.iterdir()) == [".lock"]
    server.bodies["/files/a.txt"] = body
    assert (fetch("things") / "a.txt").read_bytes() == body


def test_endless_response_does_not_fill_the_disk(
    making: Making, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = 0

    def counted(out: object, block: bytes, part: Path, size: int) -> None:
        nonlocal written
        written += len(block)

    making({"a.txt": b"small"})
    server.bodies["/files/a.txt"] = bytes(30_000_000)
    monkeypatch.setattr(module, "_write", counted)
    with pytest.raises(WorkbenchError, match="checksum-mismatch"):
        fetch("things")
    assert written < 1_000_000


def test_temporary_errors_are_retried_and_redirects_followed(
    making: Making, server: Server, body: bytes
) -> None:
    making({"a.txt": body})
    server.answers = [503, 429, 500]
    server.bodies["/elsewhere"] = server.bodies.pop("/files/a.txt")
    server.redirects["/files/a.txt"] = "/elsewhere"
    assert (fetch("things") / "a.txt").read_bytes() == body


def test_silent_server_times_out(
    making: Making, server: Server, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.05)
    listener = socket.create_server(("127.0.0.1", 0))
    entry = making({"a.txt": body})
    object.__setattr__(entry, "base", f"http://127.0.0.1:{listener.getsockname()[1]}/")
    with listener, pytest.raises(WorkbenchError, match=r"times: .*timed out"):
        fetch("things")


def test_missing_file_is_reported(making: Making, server: Server) -> None:
    entry = making({"a.txt": b"a"})
    server.bodies.clear()
    with pytest.raises(WorkbenchError, match=r"not exist any more \(404\)") as caught:
        fetch("things")
    assert entry.page in str(caught.value)
    assert len(server.requests) == 1


def test_refusal_is_reported(making: Making, server: Server) -> None:
    making({"a.txt": b"a"})
    server.answers = [403]
    with pytest.raises(WorkbenchError, match=r"refuses the request \(403\)"):
        fetch("things")


def test_redirect_to_an_unencrypted_address_is_refused(
    making: Making, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = making({"a.txt": b"a"})
    plain = module.urlopen
    monkeypatch.setattr(
        module, "urlopen", lambda request, timeout: plain(server.url + "files/a.txt")
    )
    object.__setattr__(entry, "base", "https://example.org/")
    with pytest.raises(WorkbenchError, match="not encrypted"):
        fetch("things")


def test_full_disk_is_reported_and_received_bytes_are_kept(
    making: Making, server: Server, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = making({"a.txt": body})
    room = 500_000

    class Disk(module.io.FileIO):
        def write(self, data: bytes) -> int:  # type: ignore[override]
            nonlocal room
            if room == 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            done = super().write(data[:room])
            room -= done
            return done

    monkeypatch.setattr(module.io, "FileIO", Disk)
    with pytest.raises(
        WorkbenchError, match=r"No space left on device. The disk at .* at least"
    ) as caught:
        fetch("things")
    assert "WORKBENCH_HOME" in str(caught.value)
    assert not (entry.folder / "a.txt").exists()
    assert (entry.folder / "a.txt.part").stat().st_size == 500_000
    room = 10_000_000
    assert (fetch("things") / "a.txt").read_bytes() == body
    assert ranges(server)[-1] == "bytes=500000-"


def test_unwritable_home_is_reported(
    making: Making, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    making({"a.txt": b"a"})
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "file"))
    with pytest.raises(WorkbenchError, match="WORKBENCH_HOME"):
        fetch("things")


def test_progress_never_decreases_and_ends_at_the_total(
    making: Making, server: Server, body: bytes
) -> None:
    making({"a.txt": body, "b.txt": body[:10]})
    server.ranges, server.cut_after = False, [900_000, 100_000]
    events: list[tuple[int, int, str]] = []
    fetch("things", lambda *now: events.append(now))
    done = [now[0] for now in events]
    assert done == sorted(done)
    assert events[-1] == (len(body) + 10, len(body) + 10, "b.txt")
    assert {now[2] for now in events} == {"a.txt", "b.txt"}


def test_unknown_name_gets_the_nearest_known_one() -> None:
    with pytest.raises(WorkbenchError, match="Did you mean 'ud-ewt'"):
        find("ud_ewt")
