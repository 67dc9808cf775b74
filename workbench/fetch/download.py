"""One file over HTTP: resumed where it was cut, verified, and under its name only when it is right.

What has come lies beside the target as `.part` and survives a failure; a part that proves wrong is
thrown away. Costs one pass over the bytes as they come, one over what an earlier try left, and a
buffer of a quarter of a megabyte.
"""

import hashlib
import io
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Literal
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from workbench.errors import WorkbenchError
from workbench.files import FULL, open_regular, unwritable

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
            raise WorkbenchError(
                f"what came is not what was wanted: its sha256 is {found.sha256}, its size "
                f"{found.size:,} bytes; wanted is {wanted.kind} {wanted.value}. It was thrown "
                "away.",
                where=url,
                remedy="Try again later, or elsewhere if a proxy answers for the host.\n"
                f"  {by_hand}",
            )
        doubted = True  # what was left of an earlier try may be at fault: once more, from the start


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
            _settle(out, part)
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


def _settle(out: io.FileIO, part: Path) -> None:
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
