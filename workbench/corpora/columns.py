"""What the columns of a table are called, before it is read, and which of them are known as texts.

Looks at the beginning of the file only; costs nothing to speak of.
"""

import csv
import json
from typing import NamedTuple

from workbench.corpora.tasks import columns_of
from workbench.errors import WorkbenchError

ENOUGH = 1 << 18  # bytes of a table's beginning that tell its columns
_LINES = 50  # objects looked at


class Named(NamedTuple):
    """A table's columns; `text` and `labels` are empty where the names do not tell."""

    names: tuple[str, ...]
    text: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


def columns(name: str, beginning: bytes) -> Named:
    """The columns of a file of this name that begins so; none where it is no table."""
    ending = name.lower().rpartition(".")[2]
    lines = beginning[:ENOUGH].decode("utf-8-sig", "replace").split("\n")
    if ending == "tsv":
        header = next((line.removesuffix("\r") for line in lines if line.strip()), "")
        names = [cell.strip() for cell in header.split("\t")] if header else []
    elif ending == "csv":
        names = _of_csv(lines)
    elif ending in ("jsonl", "json"):
        names = _of_objects(lines)
    else:
        names = []
    unique = tuple(dict.fromkeys(names))
    if not unique:
        return Named(())
    try:
        found = columns_of(dict.fromkeys(unique, False), (), (), "")
    except WorkbenchError:
        return Named(unique)
    return Named(unique, found.text, tuple(found.scores))


def _of_csv(lines: list[str]) -> list[str]:
    try:
        rows = csv.reader(line + "\n" for line in lines)
        first = next((row for row in rows if any(cell.strip() for cell in row)), [])
    except csv.Error:
        return []
    return [cell.strip() for cell in first]


def _of_objects(lines: list[str]) -> list[str]:
    names: list[str] = []
    for line in lines[:_LINES]:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(entry, dict) or "targets" in entry:
            return []
        names += [key for key, value in entry.items() if isinstance(value, str | int | float)]
    return names
