"""Tags and a note that a user gives a run: a small file in the folder of the run.

They change nothing of the run, and go with its folder to the bin and back. A file that cannot be
read counts as empty. Costs: one small file.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from workbench.core.errors import WorkbenchError
from workbench.core.files import read_json, write_atomically
from workbench.runs.run import Run, require_own

FILE = "note.json"
TAGS, LONGEST = 20, 4_000  # maximum number of tags; of characters of a note
_TAG = re.compile(r"[\w.:-]{1,40}")


@dataclass(frozen=True)
class Note:
    """The tags of a run, in order of the alphabet, and the words about it."""

    tags: tuple[str, ...] = ()
    text: str = ""


def read(folder: Path) -> Note:
    """Return the note of a run; an empty one if there is none that can be read."""
    try:
        stored = read_json(folder / FILE)
        tags = stored["tags"]
        kept = tuple(tag for tag in tags if isinstance(tag, str) and _TAG.fullmatch(tag))
        return Note(kept[:TAGS], str(stored["text"])[:LONGEST])
    except (OSError, ValueError, KeyError, TypeError):
        return Note()


def write(run: Run, tags: Iterable[str], text: str) -> Note:
    """Store the tags and the note of a run in place of those that it has."""
    require_own(run, "given tags or a note")
    note = Note(tuple(sorted({*map(_checked, tags)})), text.strip())
    if len(note.tags) > TAGS or len(note.text) > LONGEST:
        raise WorkbenchError(
            f"a run has at most {TAGS} tags and a note of {LONGEST:,} characters.",
            code="note-too-long",
            where=run.name,
            remedy="Remove a tag, or shorten the note.",
        )
    write_atomically(run.path / FILE, json.dumps({"tags": note.tags, "text": note.text}))
    return note


def tagged(run: Run, add: Iterable[str] = (), remove: Iterable[str] = ()) -> Note:
    """Add tags to a run, and remove others."""
    note = read(run.path)
    return write(run, {*note.tags, *add} - {*remove}, note.text)


def _checked(tag: str) -> str:
    if _TAG.fullmatch(tag):
        return tag
    raise WorkbenchError(
        f"{tag[:60]!r} is not a tag.",
        code="tag-invalid",
        remedy="A tag is one word of up to 40 letters, digits, and . : _ -",
    )
