"""Verified files are not downloaded again; files that a user put there are verified too."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import workbench.fetch as fetching
from tests.fetch.conftest import Making
from tests.fetch.server import Server
from workbench import WorkbenchError
from workbench.fetch import fetch, is_there
from workbench.fetch.catalogue import Entry

NOWHERE = "http://127.0.0.1:9/"  # the port of discard, where nobody listens


def offline(entry: Entry) -> None:
    object.__setattr__(entry, "base", NOWHERE)
    if entry.statement:
        object.__setattr__(entry, "statement", f"{NOWHERE}statement")


def git_sha1(body: bytes) -> str:
    return hashlib.sha1(f"blob {len(body)}\0".encode() + body).hexdigest()


def hub_list(files: dict[str, bytes], large: set[str], sha: str = "c0ffee") -> bytes:
    siblings = []
    for name, body in files.items():
        item = {"rfilename": name, "size": len(body), "blobId": git_sha1(body)}
        if name in large:  # the id is then that of a pointer, and says nothing of the bytes
            sha256 = hashlib.sha256(body).hexdigest()
            item |= {"blobId": "0" * 40, "lfs": {"sha256": sha256, "size": len(body)}}
        siblings.append(item)
    return json.dumps({"sha": sha, "siblings": siblings}).encode()


def git_tree(files: dict[str, bytes]) -> bytes:
    tree = [{"path": "sources", "type": "tree", "sha": "0" * 40}]
    for name, body in files.items():
        tree.append({"path": name, "type": "blob", "sha": git_sha1(body), "size": len(body)})
    return json.dumps({"sha": "0" * 40, "tree": tree}).encode()


def test_verified_files_are_returned_at_once(making: Making, server: Server, body: bytes) -> None:
    entry = making({"a.txt": body})
    assert not is_there(entry)
    fetch("things")
    server.requests.clear()
    assert is_there(entry)
    assert fetch("things") == entry.folder
    assert server.requests == []


def test_verified_files_are_used_on_a_read_only_disk(making: Making) -> None:
    folder = (entry := making({"a.txt": b"a"})).folder
    fetch("things")
    (folder / ".lock").unlink()
    folder.chmod(0o555)
    try:
        assert fetch("things") == entry.folder
        assert not (folder / ".lock").exists()
    finally:
        folder.chmod(0o755)


def test_changed_file_is_detected_by_size_or_time(making: Making, body: bytes) -> None:
    target = making({"a.txt": body}).folder / "a.txt"
    fetch("things")
    target.write_bytes(b"z" * len(body))
    with pytest.raises(WorkbenchError, match="checksum-mismatch") as caught:
        fetch("things")
    assert "Delete it" in str(caught.value)
    assert target.read_bytes() == b"z" * len(body)
    target.unlink()
    fetch("things")
    assert target.read_bytes() == body


def test_touched_file_is_read_once_more_and_kept(making: Making, server: Server) -> None:
    entry = making({"a.txt": b"a"})
    fetch("things")
    (entry.folder / "a.txt").touch()
    server.requests.clear()
    assert not is_there(entry)
    fetch("things")
    assert is_there(entry)
    assert server.requests == []


def test_verify_reads_every_byte(making: Making, body: bytes) -> None:

    target = making({"a.txt": body}).folder / "a.txt"
    fetch("things")
    before = target.stat()
    target.write_bytes(b"z" * len(body))
    os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))
    fetch("things")  # nothing tells that it changed
    with pytest.raises(WorkbenchError, match="checksum-mismatch"):
        fetch("things", verify=True)


def test_another_checksum_in_the_catalogue_is_not_verified(making: Making) -> None:
    making({"a.txt": b"old"})
    fetch("things")
    making({"a.txt": b"new"})
    with pytest.raises(WorkbenchError, match="checksum-mismatch"):
        fetch("things")


@pytest.mark.parametrize("stamp", [b"", b"[]", b"{", b'{"revision": "c0ffee", "files": [1]}'])
def test_broken_stamp_costs_a_reading_and_no_download(
    making: Making, server: Server, stamp: bytes
) -> None:
    entry = making({"a.txt": b"a"})
    fetch("things")
    (entry.folder / ".fetched.json").write_bytes(stamp)
    server.requests.clear()
    fetch("things")
    assert is_there(entry)
    assert server.requests == []


def test_offline_it_says_what_to_put_where_and_then_takes_it(making: Making, body: bytes) -> None:
    offline(entry := making({"a.txt": body, "b.txt": b"b"}))
    with pytest.raises(WorkbenchError, match="cannot be reached: Connection refused") as caught:
        fetch("things")
    for file in entry.files:
        assert f"{NOWHERE}{file.name}" in str(caught.value)
        assert str(entry.folder / file.name) in str(caught.value)
        assert file.sha256 in str(caught.value)
    (entry.folder / "a.txt").write_bytes(body)
    with pytest.raises(WorkbenchError, match="cannot be reached") as caught:
        fetch("things")
    assert f"{NOWHERE}a.txt" not in str(caught.value)
    (entry.folder / "b.txt").write_bytes(b"b")
    assert fetch("things") == entry.folder
    assert is_there(entry)


def test_wrong_file_put_there_by_hand_is_refused_and_left_to_its_owner(making: Making) -> None:
    offline(entry := making({"a.txt": b"a"}))
    entry.folder.mkdir(parents=True)
    (entry.folder / "a.txt").write_bytes(b"<html>please log in</html>")
    with pytest.raises(WorkbenchError, match="checksum-mismatch") as caught:
        fetch("things")
    assert entry.files[0].sha256 in str(caught.value)
    assert not is_there(entry)
    assert (entry.folder / "a.txt").read_bytes().startswith(b"<html>")


@pytest.mark.parametrize("host", ["hub", "git"])
def test_checksums_of_the_host_are_requested_once_and_kept(
    making: Making, server: Server, body: bytes, host: str
) -> None:
    files = {"config.json": b"{}", "model.safetensors": body}
    entry = making(files, stated=True)
    server.bodies["/statement"] = (
        hub_list(files, {"model.safetensors"}) if host == "hub" else git_tree(files)
    )
    fetch("things")
    stamp = json.loads((entry.folder / ".fetched.json").read_text())
    assert stamp["revision"] == "c0ffee"
    assert stamp["checksum"] == "stated by the host"
    for name, content in files.items():
        assert stamp["files"][name]["sha256"] == hashlib.sha256(content).hexdigest()
    server.bodies["/statement"] = hub_list(dict.fromkeys(files, b"evil"), set())
    server.requests.clear()
    fetch("things", verify=True)
    assert server.requests == []


def test_bytes_that_differ_from_the_hosts_checksum_are_deleted(
    making: Making, server: Server, body: bytes
) -> None:
    entry = making({"a.bin": body, "a.txt": b"a"}, stated=True)
    server.bodies["/statement"] = hub_list({"a.bin": body, "a.txt": b"b"}, {"a.bin"})
    with pytest.raises(WorkbenchError, match=r"expected is git sha1"):
        fetch("things")
    assert not (entry.folder / "a.txt").exists()


@pytest.mark.parametrize(
    "statement",
    [
        b"<html>",
        b"[]",
        b"{}",
        hub_list({"a.txt": b"a"}, set(), sha="another"),
        hub_list({"b.txt": b"a"}, set()),
        b'{"sha": "c0ffee", "siblings": [{"rfilename": "a.txt"}]}',
    ],
)
def test_a_list_without_the_checksum_is_refused(
    making: Making, server: Server, statement: bytes
) -> None:
    entry = making({"a.txt": b"a"}, stated=True)
    server.bodies["/statement"] = statement
    with pytest.raises(WorkbenchError, match=r"statement|file-format"):
        fetch("things")
    assert not (entry.folder / "a.txt").exists()


def test_offline_the_host_s_list_can_be_carried_too(making: Making) -> None:
    offline(entry := making({"a.txt": b"a"}, stated=True))
    with pytest.raises(WorkbenchError, match="cannot be reached") as caught:
        fetch("things")
    assert entry.statement in str(caught.value)
    assert str(entry.folder / ".stated.json") in str(caught.value)
    (entry.folder / ".stated.json").write_bytes(hub_list({"a.txt": b"a"}, set()))
    (entry.folder / "a.txt").write_bytes(b"a")
    assert fetch("things") == entry.folder


def test_second_fetch_waits_for_the_first_and_downloads_nothing(
    making: Making, server: Server, body: bytes
) -> None:
    making({"a.txt": body})
    waiting = threading.Event()
    server.before_body = lambda: None if waiting.wait(5) else pytest.fail("nobody waits")
    begun = threading.Event()
    first = threading.Thread(target=lambda: (begun.set(), fetch("things")))
    first.start()
    begun.wait(30)
    while not server.requests:
        pass

    def on_progress(done: int, total: int, doing: str) -> None:
        if doing.startswith("waiting"):
            waiting.set()

    folder = fetch("things", on_progress)
    first.join(30)
    assert (folder / "a.txt").read_bytes() == body
    assert len(server.requests) == 1


def test_two_processes_fetch_one_file_once(
    making: Making, server: Server, body: bytes, tmp_path: Path
) -> None:
    entry = making({"a.txt": body})
    program = tmp_path / "program.py"
    program.write_text(
        "import workbench.fetch as fetching\n"
        "from workbench.fetch.catalogue import Entry, File\n"
        f"fetching.ENTRIES = ({entry!r},)\n"
        "print(fetching.fetch('things'))\n"
    )
    running = [
        subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=60)[0].strip() for process in running]
    assert outputs == [str(entry.folder)] * 2
    assert (entry.folder / "a.txt").read_bytes() == body
    assert len(server.requests) == 1


@pytest.mark.data
def test_fetched_folder_is_a_corpus(making: Making, data: Path) -> None:
    from workbench import read

    splits = ("train", "dev", "test")
    making({f"en_ewt-ud-{s}.conllu": (data / "ewt" / f"{s}.conllu").read_bytes() for s in splits})
    corpus = read(str(fetch("things")))
    assert tuple(corpus.splits) == splits
    assert corpus.notes == ()


@pytest.mark.data
def test_catalogue_s_ewt_is_the_one_measured_on(data: Path) -> None:
    entry = next(e for e in fetching.entries() if e.name == "ud-ewt")
    for file in entry.files:
        split = file.name.removeprefix("en_ewt-ud-")
        content = (data / "ewt" / split).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file.size, file.sha256)
