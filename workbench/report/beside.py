"""Pictures in a folder beside a report, for the forms that cannot hold them.

Where no picture can be made the report says so, and what to do, and stands without. Costs the start
of a browser.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workbench.errors import WorkbenchError
from workbench.files import written_whole
from workbench.report.content import Content
from workbench.report.images import pictures


@dataclass(frozen=True)
class Beside:
    """Where each picture is, relative to the report; or why there is none."""

    places: Mapping[str, str] = field(default_factory=dict)
    why_not: str = ""


def key(number: int, figure: str) -> str:
    """The name of a figure's picture among those of a whole report."""
    return f"run-{number}-{figure}"


def drawn(content: Content, kind: str) -> tuple[dict[str, bytes], str]:
    """A picture of every figure of a report; or why there is none."""
    wanted = {
        key(part.number, name): drawing
        for part in content.parts
        for name, drawing in part.drawings.items()
    }
    if not wanted:
        return {}, ""
    try:
        return pictures(wanted, kind), ""
    except WorkbenchError as error:
        return {}, f"Figures are left out: {error.what} {error.remedy}"


def write_beside(content: Content, path: Path, kind: str) -> Beside:
    """Draw every figure into the folder NAME_files."""
    found, why_not = drawn(content, kind)
    folder = f"{re.sub(r'[^A-Za-z0-9-]+', '-', path.stem).strip('-') or 'report'}_files"
    places = {name: f"{folder}/{name}.{kind}" for name in found}
    for name, picture in found.items():
        with written_whole(path.parent / places[name]) as draft:
            draft.write_bytes(picture)
    return Beside(places, why_not)
