"""Names of models and corpora that lie on this machine, in one small file among the caches.

A name that a user gives is what titles, reports, tabs and addresses say in place of a path. The
reference `local:NAME` opens what has the name, or had it, so the commands in reports run on this
machine and tell nobody where its folders are. Costs: reading a small file.
"""

import json
import re
from contextlib import suppress
from typing import Literal

from workbench.core import machine
from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.files import read_json, user_path, write_atomically

Kind = Literal["models", "corpora"]
FILE = "names.json"
LOCAL = "local:"  # before a name, in a reference
LONGEST = 60  # characters of a name
MOST = 1_000  # names that users gave
SAYS_NOTHING = re.compile(r"model|checkpoint(-\d+)?|best|final|last|output|out", re.IGNORECASE)
_HASH = re.compile(r"^[0-9a-f]{16,64}-(?=.)")
ONE: dict[Kind, str] = {"models": "model", "corpora": "corpus"}
_GIVEN, _PATHS = "given", "paths"  # names by reference; and what each name stands for


def given(kind: Kind, ref: str) -> str:
    """Return the name that a user gave to a reference; "" if none."""
    return _part(kind, _GIVEN).get(ref, "")


def are_given() -> bool:
    """Return whether users gave any names."""
    return bool(all_given("models") or all_given("corpora"))


def all_given(kind: Kind) -> list[str]:
    """Return the references that users named."""
    return list(_part(kind, _GIVEN))


def give(kind: Kind, ref: str, name: str) -> None:
    """Name a reference; an empty name takes the name back."""
    names, paths = _part(kind, _GIVEN), _part(kind, _PATHS)
    names.pop(ref, None)
    if name := as_name(name):
        if name in names.values() or not _is_free(name, ref, paths):
            raise WorkbenchError(
                f"the name {name!r} is, or was, that of another {ONE[kind]}.",
                code="name-taken",
                remedy=f"Use another name, such as {free(kind, name, ref)!r}.",
            )
        names[ref] = name
        paths[name] = ref
    if len(names) > MOST:
        raise WorkbenchError(
            f"there are {MOST:,} names already.",
            code="too-many-names",
            remedy=f"Remove names from {machine.home() / FILE}.",
        )
    _write(kind, names, paths)


def free(kind: Kind, name: str, ref: str = "") -> str:
    """Return the name, with a number if it stands for something other than `ref`."""
    names, paths = _part(kind, _GIVEN), _part(kind, _PATHS)
    taken = {other for named, other in names.items() if named != ref}
    tried, number = as_name(name) or "unnamed", 1
    while tried in taken or not _is_free(tried, ref, paths):
        number += 1
        tried = f"{as_name(name)[: LONGEST - 6]} ({number})"
    return tried


def as_name(text: str) -> str:
    """Return a text as a name: one line without commas, which separate references in a sweep."""
    text = text.encode("utf-8", "replace").decode()  # a file name may be no UTF-8
    return " ".join(text.replace(",", " ").split())[:LONGEST].strip()


def local(kind: Kind, path: str) -> str:
    """Return `local:NAME` for a path; a path without a name is named after its last part."""
    if name := given(kind, path):
        return f"{LOCAL}{name}"
    paths = _part(kind, _PATHS)
    name = next((name for name, other in paths.items() if other == path), "")
    if not name:
        name = free(kind, _last_parts(path), path)
        with suppress(WorkbenchError):  # of a home that cannot be written
            _write(kind, _part(kind, _GIVEN), paths | {name: path})
    return f"{LOCAL}{name}"


def _last_parts(path: str) -> str:
    """The last part of a path, without the hash of an upload; two parts if it says nothing."""
    folder, _, last = path.rstrip("/").rpartition("/")
    name = without_hash(last)
    return f"{folder.rpartition('/')[2]}/{name}" if SAYS_NOTHING.fullmatch(name) else name


def without_hash(name: str) -> str:
    """Return the name of a folder without the hash before that of an upload."""
    return _HASH.sub("", name)


def path_of(kind: Kind, ref: str) -> str:
    """Return the path that `local:NAME` stands for; other references unchanged."""
    if not ref.startswith(LOCAL):
        return ref
    name, paths = ref.removeprefix(LOCAL), _part(kind, _PATHS)
    if name in paths:
        return paths[name]
    raise WorkbenchError(
        f"this machine knows no {ONE[kind]} by the name {name!r}.",
        code=f"{ONE[kind]}-not-found",
        remedy=f"If this is the command of a report, fetch or copy what it names, and write its "
        f"path: --{ONE[kind]}=PATH. The content hash next to the command must be the same. "
        + (did_you_mean(name, paths) if paths else ""),
    )


def known(kind: Kind, name: str) -> str:
    """Return the reference that has a name, or had it; "" if there is none."""
    return _part(kind, _PATHS).get(name, "")


def without_paths(text: str) -> str:
    """Return a text with names in place of paths, and without the folders of Workbench."""
    known = {
        path: given(kind, path) or name
        for kind in ONE
        for name, path in _part(kind, _PATHS).items()
        if path.startswith("/")
    }
    for path in sorted(known, key=len, reverse=True):
        text = text.replace(path, known[path])
    for folder in (machine.runs(), machine.home().absolute()):
        text = text.replace(f"{folder}/", "")
    return text


def _is_free(name: str, ref: str, paths: dict[str, str]) -> bool:
    """Whether a name stands for nothing else that is still there, and is no path of such."""
    path = paths.get(name, name if name.startswith("/") else ref)
    return path == ref or not user_path(path.partition(":")[2] or path).exists()


def _part(kind: Kind, part: str) -> dict[str, str]:
    try:
        names = read_json(machine.home() / FILE)[kind][part]
        return {str(key): str(value) for key, value in names.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, WorkbenchError):
        return {}


def _write(kind: Kind, names: dict[str, str], paths: dict[str, str]) -> None:
    kinds: tuple[Kind, ...] = ("models", "corpora")
    every = {each: {part: _part(each, part) for part in (_GIVEN, _PATHS)} for each in kinds}
    every[kind] = {_GIVEN: names, _PATHS: paths}
    write_atomically(machine.home() / FILE, json.dumps(every, ensure_ascii=False, indent=1))
