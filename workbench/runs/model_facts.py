"""What is known of a model before it is opened: its content hash and its facts.

The first time a model's files are met, the model is opened once, in the precision of its files; the
hash is that of the model in fp32, made tensor by tensor. After that the files' own bytes tell, so
the same question is answered without importing torch. What is kept is keyed by content (bytes, seed
of random weights, version of transformers), never by name; a run trusts it no further than to find
its name. Costs one reading of the files; a large file is read again only when its inode, size or
times have changed.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from workbench.core import machine
from workbench.core.errors import WorkbenchError
from workbench.core.files import open_regular, parsed_json, read_regular, written_whole
from workbench.models.references import RANDOM, folder_of

FORMAT = 1
LARGE = 64 << 20  # bytes of a file whose hash is kept
SETTLED = 2.0  # seconds since its last change, after which a file's times tell of another
_PARTS = {".safetensors", ".json", ".txt", ".model", ".hdf5", ".bin", ".npy", ".jinja", ".tiktoken"}


@dataclass(frozen=True)
class Known:
    """A model's content hash, and what `workbench models show` tells of it."""

    hash: str
    facts: Mapping[str, Any]


def known(ref: str, seed: int = 0, pickled: bool = False) -> Known:
    """The content hash and the facts of a model, opened only if these files are new."""
    key = files_hash(ref, seed, pickled)
    path = machine.home() / "known" / f"{key}.json"
    if key and (kept := _kept(path)):
        return kept
    from workbench.models.loading import facts_of_files

    told = facts_of_files(ref, seed, pickled)
    if key and key == files_hash(ref, seed, pickled):  # else it was written to while it was opened
        with suppress(WorkbenchError), written_whole(path) as draft:  # a cache; it can do without
            draft.write_text(json.dumps({"facts": told, "check": _check(told)}))
    return Known(told["content_hash"], told)


def is_known(ref: str) -> bool:
    """Whether a model with these files was opened before, without a fault."""
    key = files_hash(ref)
    return bool(key) and _kept(machine.home() / "known" / f"{key}.json") is not None


def _kept(path: Path) -> Known | None:
    """What was found out before, if it is as it was written."""
    with suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
        found = parsed_json(read_regular(path))
        if found["check"] == _check(found["facts"]):
            return Known(found["facts"]["content_hash"], found["facts"])
    return None


def _check(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def files_hash(ref: str, seed: int = 0, pickled: bool = False) -> str:
    """A hash of the files' bytes, and of what else the opened model depends on; "" without any."""
    own_seed = seed if ref.endswith(RANDOM) else None
    facts: list[object] = [FORMAT, own_seed, pickled, version("transformers")]
    try:
        files = [path for path in files_of(ref.removesuffix(RANDOM)) if path.is_file()]
        for path in files:
            facts.append([path.name, _hash_of(path)])
    except (OSError, ValueError, RuntimeError):
        return ""  # opening it will say what is wrong
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest() if files else ""


def _hash_of(path: Path) -> str:
    """A file's SHA-256; that of a large file is kept as long as nobody touches the file."""
    with open_regular(path) as file:
        before = _touched(file)
        if before[2] < LARGE:
            return hashlib.file_digest(file, "sha256").hexdigest()
        name = hashlib.sha256(json.dumps([str(path.resolve()), before]).encode()).hexdigest()
        place = machine.home() / "known" / "hashes" / name
        with suppress(OSError, ValueError):
            return bytes.fromhex(read_regular(place).decode()).hex()
        found = hashlib.file_digest(file, "sha256").hexdigest()
        if _touched(file) == before and time.time_ns() - before[4] > SETTLED * 1e9:
            with suppress(WorkbenchError), written_whole(place) as draft:
                draft.write_text(found)
        return found


def _touched(file: IO[bytes]) -> tuple[int, ...]:
    about = os.fstat(file.fileno())
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def files_of(source: str) -> Iterator[Path]:
    """The files a model is read from; none where it has yet to be fetched."""
    prefix, _, named = source.partition(":")
    if prefix in ("elmo", "vectors") and named:
        paths = [Path(part).expanduser() for part in named.split(",")]
        for path in paths:
            yield from sorted(path.iterdir()) if path.is_dir() else [path]
        return
    if folder := folder_of(source):
        yield from sorted(path for path in folder.iterdir() if path.suffix in _PARTS)
