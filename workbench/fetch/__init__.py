"""Get a public corpus or model into the cache, verified, with the licence it comes under.

`fetch("ud-ewt")` downloads what is missing and returns the folder, which is what one then names as
--corpus or --model. What is there already is held against the checksum it had when it was verified:
its size and time of change are looked at, and its bytes only if those changed, or if asked to. A
file put there by hand is verified like any other, so a machine without a network needs nothing but
somebody to carry the files. Models come through huggingface_hub, from the hub or the mirror that
HF_ENDPOINT names; corpora over plain HTTP. Beside the files lie `.fetched.json`, what was verified,
and `.stated.json`, what the host states where a checksum is not in the catalogue. Costs the
download, and a moment where there is nothing to do.
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
    parsed_json,
    read_regular,
    unreadable,
    unwritable,
    written_whole,
)
from workbench.fetch.catalogue import ENTRIES, HUB, STATED, Entry, File

# --- download -------------------------------------------------------------------------------------
#
# One file over HTTP: resumed where it was cut, verified, and under its name only when it is
# right.
#
# What has come lies beside the target as `.part` and survives a failure; a part that proves wrong
# is thrown away. Costs one pass over the bytes as they come, one over what an earlier try left,
# and a buffer of a quarter of a megabyte.

TIMEOUT = 30.0  # seconds without a byte
PAUSES = (1.0, 3.0, 9.0)  # seconds before each further try
BLOCK = 1 << 18
STATEMENT_LIMIT = 1 << 24  # bytes; more is no list of files
_PASSING = {408, 425, 429}  # answers that may be another in a moment, as are all from 500

Told = Callable[[int], None]  # with the bytes of the file that are there


@dataclass(frozen=True)
class Digest:
    """What a file must hash to: sha256, or git's sha1 of a file (its size is hashed with it)."""

    kind: Literal["sha256", "git sha1"]
    value: str
    size: int  # in bytes; it must be exact for git only


@dataclass(frozen=True)
class Found:
    """What a file on disk turned out to be."""

    sha256: str
    size: int
    right: bool


class _CutError(Exception):
    """A failure that another try may get over."""


class _Hashes:
    """The sums of bytes that come one block after the other."""

    def __init__(self, wanted: Digest) -> None:
        self.wanted, self.size = wanted, 0
        self._sha256 = hashlib.sha256()
        self._git = hashlib.sha1(f"blob {wanted.size}\0".encode(), usedforsecurity=False)

    def update(self, block: bytes) -> None:
        self.size += len(block)
        self._sha256.update(block)
        if self.wanted.kind == "git sha1":
            self._git.update(block)

    def found(self) -> Found:
        sha256 = self._sha256.hexdigest()
        own = sha256 if self.wanted.kind == "sha256" else self._git.hexdigest()
        return Found(sha256, self.size, own == self.wanted.value)


def examine(path: Path, wanted: Digest, told: Told) -> Found:
    """Hash a file that is there."""
    return _hashed(path, wanted, told).found()


def fetch_file(url: str, target: Path, wanted: Digest, told: Told, by_hand: str) -> Found:
    """Get a file; `by_hand` tells what one can do where it cannot be got."""
    part = target.with_name(f"{target.name}.part")
    pauses, doubted = iter(PAUSES), False
    while True:
        resumed = part.exists()
        try:
            found = _attempt(url, part, wanted, told, by_hand)
        except _CutError as cut:
            pause = next(pauses, None)
            if pause is None:
                raise WorkbenchError(
                    f"the download failed again and again: {cut}.",
                    where=url,
                    remedy="What has come is kept; run the same command again to go on.\n"
                    f"  {by_hand}",
                ) from None
            time.sleep(pause)
            continue
        if found.right:
            part.replace(target)
            return found
        part.unlink()
        if not resumed or doubted:
            raise _not_wanted(url, wanted, found, by_hand)
        doubted = True  # what was left of an earlier try may be at fault: once more, from the start


def _not_wanted(where: str, wanted: Digest, found: Found, by_hand: str) -> WorkbenchError:
    return WorkbenchError(
        f"what came is not what was wanted: its sha256 is {found.sha256}, its size "
        f"{found.size:,} bytes; wanted is {wanted.kind} {wanted.value}. It was thrown away.",
        where=where,
        remedy=f"Try again later, or elsewhere if a proxy answers for the host.\n  {by_hand}",
    )


def read_small(url: str, by_hand: str) -> bytes:
    """A short text, such as a host's list of files."""
    pauses = iter(PAUSES)
    while True:
        try:
            with _opened(url, 0, by_hand) as response:
                return b"".join(_blocks(response, STATEMENT_LIMIT))
        except _CutError as cut:
            pause = next(pauses, None)
            if pause is None:
                raise WorkbenchError(
                    f"the download failed again and again: {cut}.", where=url, remedy=by_hand
                ) from None
            time.sleep(pause)


def _attempt(url: str, part: Path, wanted: Digest, told: Told, by_hand: str) -> Found:
    """Go on from what is there to the end of the file, once."""
    sums = _Hashes(wanted)
    if part.exists():
        sums = _hashed(part, wanted, told)
        if sums.found().right:
            return sums.found()  # all had come; only its name was missing
    with _opened(url, sums.size, by_hand) as response:
        if sums.size and not _continues(response, sums.size):
            sums = _Hashes(wanted)  # the server sends the whole file
        limit = 2 * wanted.size + BLOCK - sums.size  # a runaway answer must not fill the disk
        with _written(part, going_on=sums.size > 0) as out:
            for block in _blocks(response, limit):
                _write(out, block, part, wanted.size)
                sums.update(block)
                told(sums.size)
            _to_disk(out, part)
    return sums.found()


def _hashed(path: Path, wanted: Digest, told: Told) -> _Hashes:
    sums = _Hashes(wanted)
    try:
        with open_regular(path) as file:
            while block := file.read(BLOCK):
                sums.update(block)
                told(sums.size)
    except OSError as error:
        raise _on_disk(path, error) from None
    return sums


def _opened(url: str, start: int, by_hand: str) -> HTTPResponse:
    """The answer to a request for a file from byte `start` on; redirects are followed."""
    headers = {"User-Agent": "workbench", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        response: HTTPResponse = urlopen(Request(url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == 416 and start:  # there is no more: what is there is wrong
            return _opened(url, 0, by_hand)
        if error.code in _PASSING or error.code >= 500:
            raise _CutError(f"the server answered {error.code}") from None
        gone = error.code in {404, 410}
        what = "there is no such file any more" if gone else "the server refuses"
        raise WorkbenchError(f"{what} ({error.code}).", where=url, remedy=by_hand) from None
    except (TimeoutError, HTTPException, ConnectionError) as error:
        raise _CutError(_said(error)) from None
    except URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise _CutError(_said(error.reason)) from None
        raise WorkbenchError(
            f"cannot be reached: {_said(error.reason)}.", where=url, remedy=by_hand
        ) from None
    except OSError as error:
        raise _CutError(_said(error)) from None
    if url.startswith("https:") and not response.url.startswith("https:"):
        response.close()
        raise WorkbenchError(
            f"leads to an address that is not encrypted: {response.url}", where=url, remedy=by_hand
        )
    return response


def _continues(response: HTTPResponse, start: int) -> bool:
    """Whether the answer goes on from byte `start`; otherwise it is the whole file."""
    if response.status != 206:
        return False
    if not (response.headers.get("Content-Range") or "").startswith(f"bytes {start}-"):
        raise _CutError("the server sent another part of the file than was asked for")
    return True


def _blocks(response: HTTPResponse, limit: int) -> Iterator[bytes]:
    """The body, piece by piece; an end before the announced one is a cut."""
    announced = response.headers.get("Content-Length")
    came = 0
    while True:
        try:
            block = response.read(BLOCK)
        except (OSError, HTTPException) as error:
            raise _CutError(_said(error)) from None
        if not block or came > limit:
            break
        came += len(block)
        yield block
    if not block and announced is not None and came < int(announced):
        raise _CutError(f"the connection ended after {came:,} of {int(announced):,} bytes")


def _written(part: Path, *, going_on: bool) -> io.FileIO:
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        return io.FileIO(part, "ab" if going_on else "wb")
    except OSError as error:
        raise _on_disk(part, error) from None


def _write(out: io.FileIO, block: bytes, part: Path, size: int) -> None:
    rest = memoryview(block)
    try:
        while rest:
            rest = rest[out.write(rest) :]  # a file without a buffer may take less at once
    except OSError as error:
        raise _on_disk(part, error, size) from None


def _to_disk(out: io.FileIO, part: Path) -> None:
    """Have the bytes on the disk before the file may get its name."""
    try:
        os.fsync(out.fileno())
    except OSError as error:
        raise _on_disk(part, error) from None


def _on_disk(path: Path, error: OSError, needed: int = 0) -> WorkbenchError:
    if error.errno in FULL:
        return unwritable(
            path,
            error,
            "The same command goes on from here; or set WORKBENCH_HOME to a folder elsewhere.",
            needed,
        )
    return WorkbenchError(
        f"cannot be read or written: {_said(error)}.",
        where=str(path),
        remedy="Set WORKBENCH_HOME to a folder you may write to.",
    )


def _said(error: object) -> str:
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(said).rstrip(".")


# --- a file of the hub ----------------------------------------------------------------------------
#
# huggingface_hub knows the hub's addresses, mirrors and ways of transfer, and takes a file from its
# own cache where it is there. Whatever it brings lies in a folder aside until it is verified; of a
# file that was cut nothing is kept. Costs a pass over the file beside the download.


def fetch_from_hub(
    repository: str,
    revision: str,
    target: Path,
    wanted: Digest,
    told: Told,
    by_hand: str,
) -> Found:
    """Get a file of a model's repository; no token is sent."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.utils import tqdm  # type: ignore[attr-defined]

    limit = 2 * wanted.size + BLOCK  # a runaway answer must not fill the disk

    class Bar(tqdm):
        """A progress bar that tells, and shows nothing."""

        def __init__(self, *_: object, initial: int = 0, **__: object) -> None:
            super().__init__(disable=True)  # type: ignore[no-untyped-call]
            self.done = initial

        def update(self, n: float | None = 1) -> None:
            self.done += int(n or 0)
            if self.done > limit:
                raise OSError(f"the answer does not end after {self.done:,} bytes")
            told(self.done)

    aside = target.parent / ASIDE
    try:
        came = hf_hub_download(
            repository, target.name, revision=revision, local_dir=aside, token=False,
            endpoint=HUB, tqdm_class=Bar,
        )  # fmt: skip
        found = examine(Path(came), wanted, told)
        if not found.right:
            raise _not_wanted(f"{repository}, {target.name}", wanted, found, by_hand)
        Path(came).replace(target)
    except WorkbenchError:
        raise
    except Exception as error:  # of the network, the hub, the disk, or whatever it is made with
        if isinstance(error, OSError) and error.errno in FULL:
            raise _on_disk(target, error, wanted.size) from None
        first = next(iter(_said(error.__cause__ or error).splitlines()), "")
        raise WorkbenchError(
            f"cannot be fetched from the hub: {first}.",
            where=f"{repository}, {target.name}",
            remedy=f"Files that came whole are kept; the same command goes on.\n  {by_hand}",
        ) from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return found


# --- fetching an entry ----------------------------------------------------------------------------

__all__ = ["Entry", "File", "Progress", "entries", "fetch", "find", "is_there"]

Progress = Callable[[int, int, str], None]  # bytes done, bytes in all, what is being done
STAMP, STATEMENT, LOCK, ASIDE = ".fetched.json", ".stated.json", ".lock", ".coming"


def entries() -> list[Entry]:
    """All there is to fetch, corpora first."""
    return list(ENTRIES)


def find(name: str) -> Entry:
    """The entry of a name."""
    known = {entry.name: entry for entry in entries()}
    if name not in known:
        raise WorkbenchError(
            f"the catalogue has no {name!r}.",
            remedy=f"{did_you_mean(name, known)} See them all with: workbench fetch",
        )
    return known[name]


def is_there(entry: Entry) -> bool:
    """Whether every file lies there as it was when it was verified; reads none of them."""
    stamped = _read_stamp(entry)
    return all(_is_as_stamped(entry, file, stamped) for file in entry.files)


def fetch(name: str, progress: Progress | None = None, *, verify: bool = False) -> Path:
    """Download what is missing of an entry and return its folder; `verify` hashes all anew."""
    entry = find(name)
    if not verify and is_there(entry):
        return entry.folder
    told = progress or (lambda done, total, doing: None)
    with _alone(entry, told):
        _complete(entry, told, verify)
    return entry.folder


def _complete(entry: Entry, progress: Progress, verify: bool) -> None:
    """Verify every file, downloading those that are missing."""
    stamped = {} if verify else _read_stamp(entry)
    left = [file for file in entry.files if not _is_as_stamped(entry, file, stamped)]
    wanted = _wanted(entry, left)
    sizes = {file.name: file.size for file in entry.files}
    sizes |= {name: digest.size for name, digest in wanted.items()}
    sizes |= {name: mark["size"] for name, mark in stamped.items() if name in sizes}
    total, done = sum(sizes.values()), 0
    told = _never_back(progress, total)
    for file in entry.files:
        if file in left:
            mark = _settle(entry, file, wanted, _for_file(told, done, file.name))
            stamped[file.name] = mark
            _write_stamp(entry, stamped)
            left.remove(file)
        done += sizes[file.name]
        told(done, file.name)


def _settle(
    entry: Entry, file: File, wanted: Mapping[str, Digest], told: Callable[[int], None]
) -> dict[str, Any]:
    """Have one file in its place and verified; what to remember of it."""
    target, digest = entry.folder / file.name, wanted[file.name]
    if target.exists():
        found = examine(target, digest, told)
        if not found.right:
            raise _wrong(entry, file, digest, found)
    elif entry.repository:
        target.parent.mkdir(parents=True, exist_ok=True)
        found = fetch_from_hub(
            entry.repository, entry.revision, target, digest, told, _by_hand(entry, wanted)
        )
    else:
        found = fetch_file(entry.url(file), target, digest, told, _by_hand(entry, wanted))
    return {
        "url": entry.url(file),
        "sha256": found.sha256,
        "size": found.size,
        "changed": target.stat().st_mtime_ns,
    }


def _wrong(entry: Entry, file: File, wanted: Digest, found: Found) -> WorkbenchError:
    return WorkbenchError(
        f"this is not the file that is wanted: its sha256 is {found.sha256}, its size "
        f"{found.size:,} bytes; wanted is {wanted.kind} {wanted.value}.",
        where=str(entry.folder / file.name),
        remedy="Delete it and run the same command again to download it, or put the right one "
        f"there:\n  {entry.url(file)}",
    )


def _wanted(entry: Entry, files: list[File]) -> dict[str, Digest]:
    """What each file must hash to, by the catalogue or by the host's statement."""
    stated: Mapping[str, Digest] = {}
    if any(file.sha256 == STATED for file in files):
        stated = _stated(entry)
    pinned = {f.name: Digest("sha256", f.sha256, f.size) for f in files if f.sha256 != STATED}
    missing = [f.name for f in files if f.name not in pinned and f.name not in stated]
    if missing:
        raise WorkbenchError(
            f"the host states no checksum of {missing[0]}.",
            where=str(entry.folder / STATEMENT),
            remedy=f"Delete it, so that the host is asked again: {entry.statement}",
        )
    return {f.name: pinned[f.name] if f.name in pinned else stated[f.name] for f in files}


def _stated(entry: Entry) -> Mapping[str, Digest]:
    """What the host states of this commit: asked once, then held to."""
    path = entry.folder / STATEMENT
    if path.exists():
        try:
            return _parsed(entry, read_regular(path), str(path))
        except OSError as error:
            raise unreadable(path, error) from None
    raw = read_small(entry.statement, _by_hand(entry, {}))
    stated = _parsed(entry, raw, entry.statement)
    with written_whole(path) as draft:
        draft.write_bytes(raw)
    return stated


def _parsed(entry: Entry, raw: bytes, where: str) -> Mapping[str, Digest]:
    """The files of a commit with their checksums: the model hub's list, or a tree of git."""
    try:
        told = parsed_json(raw)
        if "tree" in told:
            return {
                item["path"]: Digest("git sha1", item["sha"], item["size"])
                for item in told["tree"]
                if item["type"] == "blob"
            }
        if told["sha"] != entry.revision:
            raise ValueError("it speaks of another commit")
        return {item["rfilename"]: _hub_digest(item) for item in told["siblings"]}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WorkbenchError(
            f"this is not the host's list of files with their checksums: {error}.",
            where=where,
            remedy=f"Have {STATEMENT} be what is found at: {entry.statement}",
        ) from None


def _hub_digest(item: Mapping[str, Any]) -> Digest:
    if large := item.get("lfs"):
        return Digest("sha256", large["sha256"], large["size"])
    return Digest("git sha1", item["blobId"], item["size"])


def _by_hand(entry: Entry, wanted: Mapping[str, Digest]) -> str:
    """What to download where this machine cannot, and where to put it."""
    lines = [f"Its source is {entry.page}. To get it by hand, download"]
    for file in entry.files:
        target = entry.folder / file.name
        if target.exists():
            continue
        digest = wanted.get(file.name)
        sums = f"{digest.kind} {digest.value}" if digest else f"sha256 {file.sha256}"
        lines += [f"  {entry.url(file)}", f"    to {target}", f"    {sums}"]
    if entry.checksum == STATED and not (entry.folder / STATEMENT).exists():
        lines += [f"  {entry.statement}", f"    to {entry.folder / STATEMENT}"]
        lines += ["    which is the host's list of checksums"]
    lines.append("and run the same command again, which verifies what was put there.")
    return "\n  ".join(lines)


def _is_as_stamped(entry: Entry, file: File, stamped: Mapping[str, Any]) -> bool:
    """Whether a file lies there untouched since it was verified against the same checksum."""
    mark = stamped.get(file.name)
    if mark is None or (file.sha256 not in (STATED, mark["sha256"])):
        return False
    try:
        there = (entry.folder / file.name).stat()
    except OSError:
        return False
    return (there.st_size, there.st_mtime_ns) == (mark["size"], mark["changed"])


def _read_stamp(entry: Entry) -> dict[str, Any]:
    """What was verified of this commit before; nothing where that cannot be told."""
    try:
        stamp = parsed_json(read_regular(entry.folder / STAMP))
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
    with written_whole(entry.folder / STAMP) as draft:
        draft.write_text(json.dumps(stamp, indent=2))


@contextmanager
def _alone(entry: Entry, progress: Progress) -> Iterator[None]:
    """Let no other process fetch the same meanwhile; wait for one that does."""
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
            progress(0, entry.size, "waiting for another process that fetches the same")
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:
            pass  # a file system without locks; what two write at once fails its checksum
        yield
    finally:
        os.close(handle)


def _never_back(progress: Progress, total: int) -> Callable[[int, str], None]:
    """Tell progress, but no less than was told before: a download may start over."""
    most = 0

    def told(done: int, doing: str) -> None:
        nonlocal most
        most = min(max(most, done), total)
        progress(most, total, doing)

    return told


def _for_file(told: Callable[[int, str], None], before: int, name: str) -> Callable[[int], None]:
    return lambda done: told(before + done, name)
