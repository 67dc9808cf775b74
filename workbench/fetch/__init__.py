"""Downloads a public corpus or model into the cache, verifies it, and records its licence.

`fetch("ud-ewt")` downloads the missing files and returns the folder, which can be passed as
--corpus or --model. An existing file counts as verified if its size and modification time have not
changed since its verification; otherwise, or with `verify`, its bytes are hashed again. A file that
a user put there is verified in the same way, so the files can be carried to a machine without a
network. Models are downloaded by huggingface_hub, from the hub or the mirror in HF_ENDPOINT;
corpora over HTTP. Two files are written next to the data: `.fetched.json` lists the verified files,
and `.stated.json` holds the host's checksums for files without a checksum in the catalogue. Costs:
the download, or a few file system calls if everything is there.
"""

import fcntl
import hashlib
import io
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, Literal
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.files import (
    FULL,
    open_regular,
    parse_json,
    read_json,
    read_regular,
    unreadable,
    unwritable,
    write_atomically,
)
from workbench.fetch.catalogue import ENTRIES, HUB, STATED, Entry, File

# --- download -------------------------------------------------------------------------------------
#
# One file over HTTP: resumed after an interruption, verified, and renamed to its name only if its
# checksum matches.
#
# Received bytes are stored next to the target as `.part` and survive a failure; a part with a wrong
# checksum is deleted. Costs: one pass over the received bytes, one over an earlier part, and a
# buffer of a quarter of a megabyte.

TIMEOUT = 30.0  # seconds without a byte
PAUSES = (1.0, 3.0, 9.0)  # seconds before each retry
BLOCK = 1 << 18
STATEMENT_LIMIT = 1 << 24  # maximum bytes of a list of files
_TEMPORARY = {408, 425, 429}  # HTTP status codes worth a retry, as are all from 500

OnProgress = Callable[[int], None]  # receives the number of bytes of the file received so far


@dataclass(frozen=True)
class Digest:
    """The expected hash of a file: sha256, or git's sha1 (which includes the file's size)."""

    kind: Literal["sha256", "git sha1"]
    value: str
    size: int  # in bytes; it must be exact for git only


@dataclass(frozen=True)
class CheckedFile:
    """The hash and the size of a file, and whether the hash is the expected one."""

    sha256: str
    size: int
    matches: bool


class _RetryableError(Exception):
    """A failure that may not happen again in a retry."""


class _Hashes:
    """The hashes of bytes that arrive block by block."""

    def __init__(self, expected: Digest) -> None:
        self.expected, self.size = expected, 0
        self._sha256 = hashlib.sha256()
        self._git = hashlib.sha1(f"blob {expected.size}\0".encode(), usedforsecurity=False)

    def update(self, block: bytes) -> None:
        self.size += len(block)
        self._sha256.update(block)
        if self.expected.kind == "git sha1":
            self._git.update(block)

    def checked(self) -> CheckedFile:
        sha256 = self._sha256.hexdigest()
        value = sha256 if self.expected.kind == "sha256" else self._git.hexdigest()
        return CheckedFile(sha256, self.size, value == self.expected.value)


def check_file(path: Path, expected: Digest, on_progress: OnProgress) -> CheckedFile:
    """Hash an existing file."""
    return _hashed(path, expected, on_progress).checked()


def fetch_file(
    url: str, target: Path, expected: Digest, on_progress: OnProgress, manual_steps: str
) -> CheckedFile:
    """Download a file; an error's remedy includes `manual_steps`."""
    part = target.with_name(f"{target.name}.part")
    pauses, restarted = iter(PAUSES), False
    while True:
        resumed = part.exists()
        try:
            checked = _attempt(url, part, expected, on_progress, manual_steps)
        except _RetryableError as error:
            pause = next(pauses, None)
            if pause is None:
                raise WorkbenchError(
                    f"the download failed {len(PAUSES) + 1} times: {error}.",
                    code="download-failed",
                    where=url,
                    remedy="The received bytes are kept; run the same command again to continue.\n"
                    f"  {manual_steps}",
                ) from None
            time.sleep(pause)
            continue
        if checked.matches:
            part.replace(target)
            return checked
        part.unlink()
        if not resumed or restarted:
            raise _wrong_download(url, expected, checked, manual_steps)
        restarted = True  # the part of an earlier try may be wrong: once more, from the start


def _wrong_download(
    where: str, expected: Digest, checked: CheckedFile, manual_steps: str
) -> WorkbenchError:
    return WorkbenchError(
        f"the downloaded file has the wrong checksum: its sha256 is {checked.sha256}, its size "
        f"{checked.size:,} bytes; expected is {expected.kind} {expected.value}. It was deleted.",
        code="checksum-mismatch",
        where=where,
        remedy="Try again later, or from another network if a proxy answers for the host.\n"
        f"  {manual_steps}",
    )


def read_small(url: str, manual_steps: str) -> bytes:
    """Download a short text, such as a host's list of files."""
    pauses = iter(PAUSES)
    while True:
        try:
            with _opened(url, 0, manual_steps) as response:
                return b"".join(_blocks(response, STATEMENT_LIMIT))
        except _RetryableError as error:
            pause = next(pauses, None)
            if pause is None:
                raise WorkbenchError(
                    f"the download failed {len(PAUSES) + 1} times: {error}.",
                    code="download-failed",
                    where=url,
                    remedy=manual_steps,
                ) from None
            time.sleep(pause)


def _attempt(
    url: str, part: Path, expected: Digest, on_progress: OnProgress, manual_steps: str
) -> CheckedFile:
    """Continue the part to the end of the file, once."""
    hashes = _Hashes(expected)
    if part.exists():
        hashes = _hashed(part, expected, on_progress)
        if hashes.checked().matches:
            return hashes.checked()  # the part is complete; only the renaming was missing
    with _opened(url, hashes.size, manual_steps) as response:
        if hashes.size and not _continues(response, hashes.size):
            hashes = _Hashes(expected)  # the server sends the whole file
        limit = 2 * expected.size + BLOCK - hashes.size  # an endless body must not fill the disk
        with _open_part(part, append=hashes.size > 0) as out:
            for block in _blocks(response, limit):
                _write(out, block, part, expected.size)
                hashes.update(block)
                on_progress(hashes.size)
            _to_disk(out, part)
    return hashes.checked()


def _hashed(path: Path, expected: Digest, on_progress: OnProgress) -> _Hashes:
    hashes = _Hashes(expected)
    try:
        with open_regular(path) as file:
            while block := file.read(BLOCK):
                hashes.update(block)
                on_progress(hashes.size)
    except OSError as error:
        raise _on_disk(path, error) from None
    return hashes


def _opened(url: str, start: int, manual_steps: str) -> HTTPResponse:
    """The response to a request for a file from byte `start` on; redirects are followed."""
    headers = {"User-Agent": "workbench", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        response: HTTPResponse = urlopen(Request(url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == 416 and start:  # the part is longer than the file, so it is wrong
            return _opened(url, 0, manual_steps)
        if error.code in _TEMPORARY or error.code >= 500:
            raise _RetryableError(f"the server answered {error.code}") from None
        gone = error.code in {404, 410}
        what = "the file does not exist any more" if gone else "the server refuses the request"
        raise WorkbenchError(
            f"{what} ({error.code}).", code="download-failed", where=url, remedy=manual_steps
        ) from None
    except (TimeoutError, HTTPException, ConnectionError) as error:
        raise _RetryableError(_message(error)) from None
    except URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise _RetryableError(_message(error.reason)) from None
        raise WorkbenchError(
            f"the host cannot be reached: {_message(error.reason)}.",
            code="download-failed",
            where=url,
            remedy=manual_steps,
        ) from None
    except OSError as error:
        raise _RetryableError(_message(error)) from None
    if url.startswith("https:") and not response.url.startswith("https:"):
        response.close()
        raise WorkbenchError(
            f"the server redirects to an address that is not encrypted: {response.url}",
            code="download-failed",
            where=url,
            remedy=manual_steps,
        )
    return response


def _continues(response: HTTPResponse, start: int) -> bool:
    """Whether the response continues from byte `start`; otherwise it is the whole file."""
    if response.status != 206:
        return False
    if not (response.headers.get("Content-Range") or "").startswith(f"bytes {start}-"):
        raise _RetryableError("the server sent another part of the file than requested")
    return True


def _blocks(response: HTTPResponse, limit: int) -> Iterator[bytes]:
    """The body, block by block; an early end is a retryable error."""
    announced = response.headers.get("Content-Length")
    received = 0
    while True:
        try:
            block = response.read(BLOCK)
        except (OSError, HTTPException) as error:
            raise _RetryableError(_message(error)) from None
        if not block or received > limit:
            break
        received += len(block)
        yield block
    if not block and announced is not None and received < int(announced):
        raise _RetryableError(
            f"the connection ended after {received:,} of {int(announced):,} bytes"
        )


def _open_part(part: Path, *, append: bool) -> io.FileIO:
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        return io.FileIO(part, "ab" if append else "wb")
    except OSError as error:
        raise _on_disk(part, error) from None


def _write(out: io.FileIO, block: bytes, part: Path, size: int) -> None:
    remaining = memoryview(block)
    try:
        while remaining:
            remaining = remaining[out.write(remaining) :]  # an unbuffered file may write less
    except OSError as error:
        raise _on_disk(part, error, size) from None


def _to_disk(out: io.FileIO, part: Path) -> None:
    """Flush the bytes to the disk before the file is renamed."""
    try:
        os.fsync(out.fileno())
    except OSError as error:
        raise _on_disk(part, error) from None


def _on_disk(path: Path, error: OSError, needed: int = 0) -> WorkbenchError:
    if error.errno in FULL:
        return unwritable(
            path,
            error,
            "The same command continues from here. Or set WORKBENCH_HOME to a folder elsewhere.",
            needed,
        )
    return WorkbenchError(
        f"the file cannot be read or written: {_message(error)}.",
        code="file-unreadable",
        where=str(path),
        remedy="Set WORKBENCH_HOME to a folder you may write to, and download again.",
    )


def _message(error: object) -> str:
    message = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(message).rstrip(".")


# --- a file of the hub ----------------------------------------------------------------------------
#
# huggingface_hub knows the hub's addresses, mirrors and transfer methods, and uses its own cache.
# Its files stay in a separate folder until they are verified; an interrupted file is not kept.
# Costs: the download and one pass over the file.


def fetch_from_hub(
    repository: str,
    revision: str,
    target: Path,
    expected: Digest,
    on_progress: OnProgress,
    manual_steps: str,
) -> CheckedFile:
    """Download a file of a model's repository; no token is sent."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.utils import tqdm  # type: ignore[attr-defined]

    limit = 2 * expected.size + BLOCK  # an endless body must not fill the disk

    class Bar(tqdm):
        """A progress bar that calls `on_progress` and displays nothing."""

        def __init__(self, *_: object, initial: int = 0, **__: object) -> None:
            super().__init__(disable=True)  # type: ignore[no-untyped-call]
            self.done = initial

        def update(self, n: float | None = 1) -> None:
            self.done += int(n or 0)
            if self.done > limit:
                raise OSError(f"the response does not end after {self.done:,} bytes")
            on_progress(self.done)

    scratch = target.parent / ASIDE
    try:
        downloaded = hf_hub_download(
            repository, target.name, revision=revision, local_dir=scratch, token=False,
            endpoint=HUB, tqdm_class=Bar,
        )  # fmt: skip
        checked = check_file(Path(downloaded), expected, on_progress)
        if not checked.matches:
            raise _wrong_download(f"{repository}, {target.name}", expected, checked, manual_steps)
        Path(downloaded).replace(target)
    except WorkbenchError:
        raise
    except Exception as error:  # from the network, the hub, the disk or huggingface_hub
        if isinstance(error, OSError) and error.errno in FULL:
            raise _on_disk(target, error, expected.size) from None
        first = next(iter(_message(error.__cause__ or error).splitlines()), "")
        raise WorkbenchError(
            f"the file cannot be downloaded from the hub: {first}.",
            code="download-failed",
            where=f"{repository}, {target.name}",
            remedy="Complete files are kept; run the same command again to continue.\n"
            f"  {manual_steps}",
        ) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return checked


# --- fetching an entry ----------------------------------------------------------------------------

__all__ = ["Entry", "File", "Progress", "entries", "fetch", "find", "is_there"]

Progress = Callable[[int, int, str], None]  # bytes done, bytes in total, current activity
STAMP, STATEMENT, LOCK, ASIDE = ".fetched.json", ".stated.json", ".lock", ".coming"


def entries() -> list[Entry]:
    """All entries of the catalogue, corpora first."""
    return list(ENTRIES)


def find(name: str) -> Entry:
    """The entry with this name."""
    known = {entry.name: entry for entry in entries()}
    if name not in known:
        raise WorkbenchError(
            f"the catalogue has no entry {name!r}.",
            code="entry-not-found",
            remedy=f"{did_you_mean(name, known)} List all entries with: workbench fetch",
        )
    return known[name]


def is_there(entry: Entry) -> bool:
    """Whether every file exists, unchanged since its verification; no file is read."""
    stamped = _read_stamp(entry)
    return all(_is_as_stamped(entry, file, stamped) for file in entry.files)


def fetch(name: str, on_progress: Progress | None = None, *, verify: bool = False) -> Path:
    """Download the missing files of an entry and return its folder; `verify` hashes all again."""
    entry = find(name)
    if not verify and is_there(entry):
        return entry.folder
    callback = on_progress or (lambda done, total, activity: None)
    with _locked(entry, callback):
        _complete(entry, callback, verify)
    return entry.folder


def _complete(entry: Entry, progress: Progress, verify: bool) -> None:
    """Verify every file, and download the missing ones."""
    stamped = {} if verify else _read_stamp(entry)
    unverified = [file for file in entry.files if not _is_as_stamped(entry, file, stamped)]
    expected = _expected(entry, unverified)
    sizes = {file.name: file.size for file in entry.files}
    sizes |= {name: digest.size for name, digest in expected.items()}
    sizes |= {name: mark["size"] for name, mark in stamped.items() if name in sizes}
    total, done = sum(sizes.values()), 0
    on_progress = _monotonic(progress, total)
    for file in entry.files:
        if file in unverified:
            mark = _verified(entry, file, expected, _for_file(on_progress, done, file.name))
            stamped[file.name] = mark
            _write_stamp(entry, stamped)
            unverified.remove(file)
        done += sizes[file.name]
        on_progress(done, file.name)


def _verified(
    entry: Entry, file: File, expected: Mapping[str, Digest], on_progress: OnProgress
) -> dict[str, Any]:
    """Verify one file, after downloading it if it is missing; return its entry in the stamp."""
    target, digest = entry.folder / file.name, expected[file.name]
    if target.exists():
        checked = check_file(target, digest, on_progress)
        if not checked.matches:
            raise _wrong_file(entry, file, digest, checked)
    elif entry.repository:
        target.parent.mkdir(parents=True, exist_ok=True)
        steps = _manual_steps(entry, expected)
        checked = fetch_from_hub(
            entry.repository, entry.revision, target, digest, on_progress, steps
        )
    else:
        steps = _manual_steps(entry, expected)
        checked = fetch_file(entry.url(file), target, digest, on_progress, steps)
    return {
        "url": entry.url(file),
        "sha256": checked.sha256,
        "size": checked.size,
        "changed": target.stat().st_mtime_ns,
    }


def _wrong_file(entry: Entry, file: File, expected: Digest, checked: CheckedFile) -> WorkbenchError:
    return WorkbenchError(
        f"the file has the wrong checksum: its sha256 is {checked.sha256}, its size "
        f"{checked.size:,} bytes; expected is {expected.kind} {expected.value}.",
        code="checksum-mismatch",
        where=str(entry.folder / file.name),
        remedy="Delete it and run the same command again to download it, or put the right file "
        f"there:\n  {entry.url(file)}",
    )


def _expected(entry: Entry, files: list[File]) -> dict[str, Digest]:
    """The expected hash of each file, from the catalogue or from the host's list."""
    stated: Mapping[str, Digest] = {}
    if any(file.sha256 == STATED for file in files):
        stated = _stated(entry)
    pinned = {f.name: Digest("sha256", f.sha256, f.size) for f in files if f.sha256 != STATED}
    missing = [f.name for f in files if f.name not in pinned and f.name not in stated]
    if missing:
        raise WorkbenchError(
            f"the host's list has no checksum of {missing[0]}.",
            code="checksum-missing",
            where=str(entry.folder / STATEMENT),
            remedy=f"Delete this list; it is then downloaded again from {entry.statement}",
        )
    return {f.name: pinned[f.name] if f.name in pinned else stated[f.name] for f in files}


def _stated(entry: Entry) -> Mapping[str, Digest]:
    """The host's checksums for this commit: downloaded once, then read from the stored list."""
    path = entry.folder / STATEMENT
    if path.exists():
        try:
            return _parsed(entry, read_regular(path), str(path))
        except OSError as error:
            raise unreadable(path, error) from None
    raw = read_small(entry.statement, _manual_steps(entry, {}))
    stated = _parsed(entry, raw, entry.statement)
    write_atomically(path, raw)
    return stated


def _parsed(entry: Entry, raw: bytes, where: str) -> Mapping[str, Digest]:
    """The files of a commit with their checksums: the model hub's list, or a tree of git."""
    try:
        listing = parse_json(raw)
        if "tree" in listing:
            return {
                item["path"]: Digest("git sha1", item["sha"], item["size"])
                for item in listing["tree"]
                if item["type"] == "blob"
            }
        if listing["sha"] != entry.revision:
            raise ValueError("it is for another commit")
        return {item["rfilename"]: _hub_digest(item) for item in listing["siblings"]}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WorkbenchError(
            f"this is not the host's list of files with their checksums: {error}.",
            code="file-format",
            where=where,
            remedy=f"Replace {STATEMENT} by the file at {entry.statement}",
        ) from None


def _hub_digest(item: Mapping[str, Any]) -> Digest:
    if large := item.get("lfs"):
        return Digest("sha256", large["sha256"], large["size"])
    return Digest("git sha1", item["blobId"], item["size"])


def _manual_steps(entry: Entry, expected: Mapping[str, Digest]) -> str:
    """The steps to download the files on another machine, and where to put them."""
    lines = [f"The source is {entry.page}. To download the files yourself, save"]
    for file in entry.files:
        target = entry.folder / file.name
        if target.exists():
            continue
        digest = expected.get(file.name)
        checksum = f"{digest.kind} {digest.value}" if digest else f"sha256 {file.sha256}"
        lines += [f"  {entry.url(file)}", f"    to {target}", f"    {checksum}"]
    if entry.checksum == STATED and not (entry.folder / STATEMENT).exists():
        lines += [f"  {entry.statement}", f"    to {entry.folder / STATEMENT}"]
        lines += ["    (the host's list of checksums)"]
    lines.append("and run the same command again. It verifies the files.")
    return "\n  ".join(lines)


def _is_as_stamped(entry: Entry, file: File, stamped: Mapping[str, Any]) -> bool:
    """Whether a file is unchanged since it was verified against the same checksum."""
    mark = stamped.get(file.name)
    if mark is None or (file.sha256 not in (STATED, mark["sha256"])):
        return False
    try:
        current = (entry.folder / file.name).stat()
    except OSError:
        return False
    return (current.st_size, current.st_mtime_ns) == (mark["size"], mark["changed"])


def _read_stamp(entry: Entry) -> dict[str, Any]:
    """The verified files of this commit; empty if the stamp is missing or invalid."""
    try:
        stamp = read_json(entry.folder / STAMP)
        if stamp["revision"] != entry.revision:
            return {}
        marks = {name: dict(mark) for name, mark in stamp["files"].items()}
        return {n: m for n, m in marks.items() if {"sha256", "size", "changed"} <= m.keys()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _write_stamp(entry: Entry, files: Mapping[str, Any]) -> None:
    stamp = {
        "name": entry.name,
        "licence": entry.licence,
        "page": entry.page,
        "revision": entry.revision,
        "checksum": entry.checksum,
        "files": files,
    }
    write_atomically(entry.folder / STAMP, json.dumps(stamp, indent=2))


@contextmanager
def _locked(entry: Entry, progress: Progress) -> Iterator[None]:
    """Lock the entry against other processes; wait for one that is downloading it."""
    path = entry.folder / LOCK
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise unwritable(
            entry.folder, error, "Set WORKBENCH_HOME to a folder you may write to."
        ) from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(0, entry.size, "waiting for another process that downloads this entry")
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:
            pass  # a file system without locks; a file written by two fails its checksum
        yield
    finally:
        os.close(handle)


def _monotonic(progress: Progress, total: int) -> Callable[[int, str], None]:
    """The callback, with progress that never decreases, although a download may restart."""
    most = 0

    def on_progress(done: int, activity: str) -> None:
        nonlocal most
        most = min(max(most, done), total)
        progress(most, total, activity)

    return on_progress


def _for_file(on_progress: Callable[[int, str], None], before: int, name: str) -> OnProgress:
    return lambda done: on_progress(before + done, name)
