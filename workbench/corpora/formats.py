"""The files of a corpus from the path a user names: a file, a folder, or a prefix of split files.

`ewt/dev.conllu` is one file; `ewt` is the folder with its train, dev and test; `edges/srl-ewt` is
the three files `srl-ewt.{train,dev,test}.jsonl` in a folder with other corpora. The split comes
from the file name; a folder without split names is one corpus with the single split `all`.

The formats are those that modules of `readers` announce. Costs: one folder listing, and once two
milliseconds for the announcements.
"""

import ast
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Literal

from workbench.core.errors import WorkbenchError, did_you_mean, listed
from workbench.core.files import COMPRESSED, unreadable
from workbench.core.groups import grouped
from workbench.core.machine import require_allowed
from workbench.core.names import without_hash

READERS = "workbench.corpora.readers"  # the package whose modules read formats
WHOLE = "all"  # the single split of a corpus without split names
SPLIT_NAMES = {"training": "train", "valid": "dev", "validation": "dev", "val": "dev"}

_LAYERS = {
    "srl": "roles",
    "roles": "roles",
    "spr": "proto-roles",
    "spr1": "proto-roles",
    "spr2": "proto-roles",
    "proto": "proto-roles",
    "dep": "dependencies",
    "deps": "dependencies",
    "dependencies": "dependencies",
    "pos": "pos",
    "ner": "entities",
    "entities": "entities",
    "coref": "coreference",
    "coreference": "coreference",
    "const": "constituents",
    "consts": "constituents",
    "constituents": "constituents",
    "nonterminal": "constituents",
    "rel": "relations",
    "relations": "relations",
    "semeval": "relations",
    "tacred": "relations",
}  # the first word of a file name, as common in the field, and Workbench's name of the layer
_SPLIT = re.compile(
    r"(?:(?P<name>.+?)[-_.])?(?P<split>(?:train|training|dev|valid|validation|val|test)(?:[-_.].*)?)",
    re.IGNORECASE,
)
_ORDER = ("train", "dev", "test")
_ANNOUNCED = re.compile(r"^(READS|WRITES|PLACE) = (.+)$", re.MULTILINE)


@cache
def formats(announced: Literal["READS", "WRITES"] = "READS") -> Mapping[str, str]:
    """The modules that read, or write, the formats that are known, by file extension.

    A module of `readers` announces its formats in lines such as `READS = (".tsv", ".csv")` and
    `WRITES = (".tsv",)`; `PLACE = 6` is its place in lists. The lines are read without importing
    the module, since most need spaCy.
    """
    found: list[tuple[int, str, str]] = []
    folders = import_module(READERS).__path__
    for file in (file for folder in folders for file in Path(folder).glob("*.py")):
        source = file.read_text("utf-8")
        try:
            said = {name: ast.literal_eval(value) for name, value in _ANNOUNCED.findall(source)}
        except (ValueError, SyntaxError) as error:
            raise _invalid(file, "READS, WRITES or PLACE is not a literal.") from error
        if "\ndef reader(" in source and "READS" not in said:
            raise _invalid(file, "the reader names no file extension: there is no line READS = ….")
        for name in said.keys() & {"READS", "WRITES"}:
            endings = said[name]
            if not isinstance(endings, tuple) or not all(str(each)[:1] == "." for each in endings):
                raise _invalid(file, f"{name} is {endings!r:.80}, not file extensions with a dot.")
        found.extend(
            (said.get("PLACE", 100), ending, f"{READERS}.{file.stem}")
            for ending in said.get(announced, ())
        )
    found.sort(key=lambda each: each[0])  # endings of one module keep their order
    known: dict[str, str] = {}
    for _, ending, module in found:
        if known.setdefault(ending, module) != module:
            raise WorkbenchError(
                f"two modules announce the format {ending!r}: {known[ending]} and {module}.",
                code="name-conflict",
                remedy="Give one of them another extension.",
            )
    return known


def _invalid(file: Path, what: str) -> WorkbenchError:
    return WorkbenchError(
        what,
        code="plugin-invalid",
        where=file.name,
        remedy='Write it as a literal on one line, such as READS = (".words",).',
    )


@dataclass(frozen=True)
class Source:
    """The files of one corpus, by split, all of one format."""

    name: str
    suffix: str
    splits: Mapping[str, list[Path]]
    notes: tuple[str, ...] = ()

    @property
    def format(self) -> str:
        """The module that reads this format."""
        return formats()[self.suffix]


@dataclass(frozen=True)
class _File:
    path: Path
    name: str  # the common prefix of the split files; "" for a bare train.conllu
    split: str  # "" if the name contains no split
    suffix: str


def resolve(path: Path) -> Source:
    """Find the files of a corpus path."""
    try:
        path = require_allowed(path.expanduser())
        if path.is_dir():
            return _folder(path)
        if path.is_file():
            return _single(path)
        if os.path.lexists(path):
            return _not_regular(path)
        return _with_prefix(path)
    except (OSError, ValueError, RuntimeError) as error:
        raise unreadable(path, error) from None


def layer_of(path: Path) -> str:
    """The layer of an edge file, from its name: `srl-ewt.train.jsonl` holds roles."""
    name = resolve(path).name
    return _LAYERS.get(re.split(r"[-_.]", name)[0].lower(), name)


def _describe(path: Path) -> _File | None:
    """Split a file name into its parts; None for an unknown format."""
    plain = path.with_suffix("") if path.suffix in COMPRESSED else path
    suffix = plain.suffix.lower()
    if suffix not in formats() or plain.name.startswith("."):
        return None
    if suffix == ".spacy" and plain is not path:
        return None  # .spacy is compressed already; its reader takes no second compression
    match = _SPLIT.fullmatch(plain.stem)
    if match is None:
        return _File(path, plain.stem, "", suffix)
    split = match["split"].lower()
    return _File(path, match["name"] or "", SPLIT_NAMES.get(split, split), suffix)


def _single(path: Path) -> Source:
    file = _describe(path)
    if file is None:
        raise WorkbenchError(
            "the file extension is unknown.",
            code="file-format",
            where=str(path),
            remedy=f"Known extensions: {', '.join(formats())}; text formats also with "
            f"{', '.join(COMPRESSED)} after them. Save a spreadsheet as CSV, in UTF-8.",
        )
    name = file.name or without_hash(path.resolve().parent.name)
    return Source(name, file.suffix, {file.split or WHOLE: [path]})


def _not_regular(path: Path) -> Source:
    """A path that is neither file nor folder: an error, or a prefix if it is a broken link."""
    try:
        path.stat()
    except FileNotFoundError:
        return _with_prefix(path)
    raise WorkbenchError(
        "this is not a regular file.",
        code="file-unreadable",
        where=str(path),
        remedy="Write its content to a file, and name that file.",
    )


def _folder(path: Path) -> Source:
    files = _listing(path)
    if not files:
        raise WorkbenchError(
            "this folder holds no corpus file.",
            code="corpus-not-found",
            where=str(path),
            remedy=f"Known extensions: {', '.join(formats())}.",
        )
    return _gather(files, path)


def _with_prefix(path: Path) -> Source:
    """The split files of a prefix: `edges/srl-ewt` for `edges/srl-ewt.train.jsonl` and others."""
    files = _listing(path.parent) if path.parent.is_dir() else []
    matches = [file for file in files if file.name == path.name]
    if not matches:
        known = {f.name for f in files if f.name} | {f.path.name for f in files}
        remedy = (
            did_you_mean(path.name, known)
            if known
            else "Name a file, a folder, or a built-in corpus such as primer."
        )
        if len(path.name.split()) > 2:
            remedy = "A text that does not end as a sentence does is wb.read([TEXT]) in Python."
        raise WorkbenchError(
            "there is no such file or folder.",
            code="corpus-not-found",
            where=str(path),
            remedy=remedy,
        )
    return _gather(matches, path)


def _listing(folder: Path) -> list[_File]:
    entries = sorted(entry for entry in folder.iterdir() if entry.is_file())
    return [file for entry in entries if (file := _describe(entry)) is not None]


def _gather(files: Iterable[_File], path: Path) -> Source:
    """One corpus from the files of a folder, or an error that lists the several corpora in it."""
    files = list(files)
    with_split = [file for file in files if file.split]
    groups = grouped(
        ((file.name if with_split else "", file.suffix), file) for file in with_split or files
    )
    if len(groups) > 1:
        choices = sorted(
            {str(f.path.parent / f.name) if f.name else str(f.path) for f in with_split or files}
        )
        raise WorkbenchError(
            f"this folder holds {len(groups)} corpora.",
            code="corpus-ambiguous",
            where=str(path),
            remedy=f"Name one of: {listed(choices)}.",
        )
    ((name, suffix), members) = next(iter(groups.items()))
    splits = grouped((file.split or WHOLE, file.path) for file in members)
    for split, paths in splits.items():
        if split != WHOLE and len(paths) > 1:
            raise WorkbenchError(
                f"split {split!r} has more than one file: {listed(p.name for p in paths)}.",
                code="corpus-ambiguous",
                where=str(path),
                remedy="Name the file to read.",
            )
    ranked = sorted(splits, key=lambda split: (_rank(split), split))
    ordered = {split: splits[split] for split in ranked}
    without = [file.path.name for file in files if file not in members]
    return Source(name or without_hash(path.resolve().name), suffix, ordered, _notes(without))


def _notes(skipped: list[str]) -> tuple[str, ...]:
    if not skipped:
        return ()
    return (f"Skipped files (no split in the file name): {listed(skipped)}.",)


def _rank(split: str) -> int:
    return _ORDER.index(split) if split in _ORDER else len(_ORDER)
