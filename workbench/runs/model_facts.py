"""The content hash and facts of a model, from a cache, without opening the model.

The first time that its files are seen, the model is opened once, in the precision of its files; the
hash is that of the model in fp32, computed tensor by tensor. Later the bytes of the files are
enough, so the same request is found without importing torch. The cache key is the content (bytes,
seed of random weights, version of transformers), never a name; a run uses the cache only to find
its own name. Costs: one reading of the files; a file is read again only when its inode, size or
times have changed, or a small one in another process.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from workbench.core import machine
from workbench.core.errors import WorkbenchError
from workbench.core.files import atomic_write, open_regular, read_json, read_regular
from workbench.models.edit_terms import changed_hash, digest_of, require_parts, terms_of, written
from workbench.models.references import (
    PARTS,
    folder_of,
    gguf_of,
    has_adapter,
    located,
    split_ref,
    with_edit,
)
from workbench.runs.processes.forked_call import forked_call

FORMAT = 6
LARGE = 64 << 20  # bytes from which the hash of a file is cached on disk
SETTLED = 2.0  # seconds after a change, from which a new change is visible in a file's times
_hashes: dict[tuple[int, ...], str] = {}  # of smaller files, in this process
_version = cache(version)
_PARTS = {".safetensors", ".json", ".txt", ".model", ".hdf5", ".bin", ".npy", ".jinja", ".tiktoken"}


@dataclass(frozen=True)
class Known:
    """The content hash of a model, and the facts that `workbench models show` prints."""

    hash: str
    facts: Mapping[str, Any]


def known(ref: str, seed: int = 0, pickled: bool = False) -> Known:
    """Return the content hash and facts of a model; open it only if its files are new."""
    whole = split_ref(ref)
    if whole.edit:
        return _edited(known(whole.unedited, seed, pickled), whole.edit)
    key = files_hash(ref, seed, pickled)
    path = machine.home() / "known" / f"{key}.json"
    if key and (cached := _cached(path)):
        return cached
    facts = forked_call(opened_facts, ref, seed, pickled)
    if key and key == files_hash(ref, seed, pickled):  # else its files changed while it was opened
        with suppress(WorkbenchError), atomic_write(path) as draft:  # it is only a cache
            draft.write_text(json.dumps({"facts": facts, "check": _check(facts)}))
    return Known(facts["content_hash"], facts)


def opened_facts(ref: str, seed: int, pickled: bool) -> dict[str, Any]:
    """Return the facts of a model, which is opened."""
    from workbench.models.loading import facts_of_files

    return facts_of_files(ref, seed, pickled)


def stored(ref: str) -> Known | None:
    """Return what is known of a model that was opened before, with the same files; else None."""
    whole = split_ref(ref)
    key = files_hash(ref)
    model = _cached(machine.home() / "known" / f"{key}.json") if key else None
    return _edited(model, whole.edit) if model and whole.edit else model


def _edited(model: Known, edit: str) -> Known:
    """What is known of a model with an edit; raises if it has not what is edited."""
    name, family, stacks, width = (
        model.facts[fact] for fact in ("name", "family", "stacks", "width")
    )
    require_parts(terms_of(edit), name, family, stacks, width)
    own = {"name": with_edit(model.facts["name"], edit), "edit": written(edit)}
    content_hash = changed_hash(model.hash, digest_of(own["edit"]))
    return Known(content_hash, {**model.facts, **own, "content_hash": content_hash})


def is_known(ref: str) -> bool:
    """Return whether a model with these files was opened before without an error."""
    return stored(ref) is not None


def _cached(path: Path) -> Known | None:
    """Read facts from the cache; None if they are missing or damaged."""
    with suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
        data = read_json(path)
        if data["check"] == _check(data["facts"]):
            return Known(data["facts"]["content_hash"], data["facts"])
    return None


def _check(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def files_hash(ref: str, seed: int = 0, pickled: bool = False) -> str:
    """Return a hash of the files and of all that the model depends on; "" without files."""
    weights_seed = seed if split_ref(ref).is_random else None
    facts: list[object] = [FORMAT, weights_seed, pickled, _version("transformers")]
    try:
        files = [path for path in files_of(split_ref(ref).source) if path.is_file()]
        facts.extend([path.name, _hash_of(path)] for path in files)
    except (OSError, ValueError, RuntimeError):
        return ""  # opening it reports the error
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest() if files else ""


def _hash_of(path: Path) -> str:
    """Return the SHA-256 of a file, cached until it changes: of a large file on disk, too."""
    with open_regular(path) as file:
        before = _identity(file)
        if before in _hashes:
            return _hashes[before]
        stored = None
        if before[2] >= LARGE:
            name = hashlib.sha256(json.dumps([str(path.resolve()), before]).encode()).hexdigest()
            stored = machine.home() / "known" / "hashes" / name
            with suppress(OSError, ValueError):
                return bytes.fromhex(read_regular(stored).decode()).hex()
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        if _identity(file) == before and time.time_ns() - before[4] > SETTLED * 1e9:
            if stored is None:
                _hashes[before] = sha256
            else:
                with suppress(WorkbenchError), atomic_write(stored) as draft:
                    draft.write_text(sha256)
        return sha256


def _identity(file: IO[bytes]) -> tuple[int, ...]:
    """Return device, inode, size and times of a file: a change of the file changes one of them."""
    stat = os.fstat(file.fileno())
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def files_of(source: str) -> Iterator[Path]:
    """Yield the files that a model is read from; none if it has to be downloaded first."""
    prefix, _, names = source.partition(":")
    if prefix in ("elmo", "vectors") and names:
        paths = [Path(name).expanduser() for name in names.split(",")]
        for path in paths:
            yield from sorted(path.iterdir()) if path.is_dir() else [path]
        return
    if file := gguf_of(located(source)):
        yield file
        return
    if folder := folder_of(source):
        for part in (folder, *(folder / name for name in PARTS)):
            if part.is_dir():
                yield from sorted(path for path in part.iterdir() if path.suffix in _PARTS)
        if has_adapter(folder):
            from workbench.models.formats.peft_adapter import base_of

            yield from files_of(base_of(folder))
