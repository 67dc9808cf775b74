"""What a run tells while it goes on: `events.jsonl`, to which lines are only ever added.

A line is one write to a file opened for appending, so lines of several processes never mix, and a
line cut short by a crash is passed over. Telling is not doing: a line that cannot be written is let
go. Readers go on where they stopped. Costs a system call an event; progress is written twice a
second at most.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from workbench.core.files import open_regular, open_to_add, parsed_json

FILE = "events.jsonl"
LONGEST = 4_000  # characters of a log line that are kept
TAIL = 64 * 1024  # bytes from the end in which the last lines are looked for
_FACTS = {
    "progress": {"done", "total", "doing", "left"},
    "log": {"text"},
    "warning": {"text"},
    "state": {"state"},
}


def now() -> str:
    """The time of day, in UTC; for people to read, never to reckon with."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def add(folder: Path, kind: str, **facts: Any) -> None:
    """Add one event."""
    if "text" in facts:
        facts["text"] = str(facts["text"])[:LONGEST]
    line = json.dumps({"time": now(), "kind": kind, **facts}, ensure_ascii=True) + "\n"
    with suppress(OSError):
        handle = open_to_add(folder / FILE)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)


def read(folder: Path, start: int = 0) -> tuple[list[Mapping[str, Any]], int]:
    """The events from a place on, and the place to go on from."""
    try:
        with open_regular(folder / FILE) as file:
            file.seek(start)
            content = file.read()
    except OSError:
        return [], start
    whole = content.rfind(b"\n") + 1
    return list(_parsed(content[:whole])), start + whole


def last(folder: Path) -> list[Mapping[str, Any]]:
    """The events near the end, the last one last."""
    try:
        size = (folder / FILE).stat().st_size
    except OSError:
        return []
    return read(folder, max(0, size - TAIL))[0]


def last_start(folder: Path) -> int:
    """Where the present attempt begins."""
    start = place = 0
    with suppress(OSError), open_regular(folder / FILE) as file:
        for line in file:
            if b'"state": "queued"' in line:  # text has its quotes escaped
                start = place
            place += len(line)
    return start


def _parsed(content: bytes) -> Iterator[Mapping[str, Any]]:
    for line in content.split(b"\n"):
        try:
            event = parsed_json(line)
        except ValueError:
            continue  # cut short
        if isinstance(event, dict) and _FACTS.get(str(event.get("kind")), {""}) <= event.keys():
            yield event
