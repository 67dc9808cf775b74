"""A report as Markdown, for a repository or a wiki: pipe tables, and pictures in a folder.

What comes from data is escaped, so that it shows as it is. Costs the start of a browser where there
are figures.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from workbench.core.files import written_whole
from workbench.figures.sanitize import is_turning, visible
from workbench.report.content import Comparison, Content, Part
from workbench.report.format import MOST, Grid
from workbench.report.images import Beside, key, write_beside

_SIGNS = re.compile(r"([\\`*_\[\]|~${}])")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": "<br>", "\t": " "}


def write(content: Content, path: Path) -> None:
    """Write the report, and its pictures beside it."""
    beside = write_beside(content, path, "svg")
    whole = markdown(content, beside)
    with written_whole(path) as draft:
        draft.write_text(whole, encoding="utf-8", newline="\n")


def markdown(content: Content, beside: Beside) -> str:
    """The whole text."""
    paragraphs = [f"# {text(content.title)}"]
    for found in content.comparisons:
        paragraphs += _comparison(found)
    for part in content.parts:
        paragraphs += _part(part, content.heading(part), beside)
    return "\n\n".join(paragraphs) + "\n"


def text(value: str) -> str:
    """Text that shows as it is; from right to left in a frame of its own."""
    shown = _SIGNS.sub(r"\\\1", visible(value, lines=True))
    shown = "".join(_HTML.get(sign, sign) for sign in shown)
    return f"\u2068{shown}\u2069" if is_turning(shown) else shown


def prose(value: str) -> str:
    """Words of ours, with names in `backticks` left so."""
    if value.count("`") % 2:
        return text(value)
    parts = value.split("`")
    return "".join(f"`{part}`" if place % 2 else text(part) for place, part in enumerate(parts))


def _part(part: Part, heading: str, beside: Beside) -> Iterator[str]:
    yield f"## {text(heading)}"
    if part.about:
        yield prose(part.about)
    yield from _caveats(part.of_all)
    for warning in part.warnings:
        yield f"> **The run warned.** {text(warning)}"
    yield "### The question"
    for group, rows in part.facts.items():
        if rows:
            yield f"**{group}**"
            yield "\n".join(f"- {text(name)}: {text(value)}" for name, value in rows)
    if part.swept:
        yield f"**The {len(part.swept)} runs of this sweep**"
        yield "\n".join(f"- {text(name)}" for name in part.swept)
    if part.drawings:
        yield "### Figures"
        yield from _figures(part, beside)
    yield "### Tables"
    for grid in part.tables:
        yield f"#### {text(_headline(grid.name))}"
        yield from _caveats(part.beside(grid.name))
        yield from table(grid, part.export(grid.name, ".csv"))
    yield "### To make it again"
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", part.command)), default=0))
    yield f"{fence}sh\n{visible(part.command, lines=True)}\n{fence}"


def _figures(part: Part, beside: Beside) -> Iterator[str]:
    if beside.why_not:
        yield text(beside.why_not)
    for name, drawing in part.drawings.items():
        yield f"#### {text(_headline(name))}"
        yield from _caveats(part.beside(name))
        if place := beside.places.get(key(part.number, name)):
            yield f"![Figure {text(name)}]({place})"
        if drawing.about:
            yield prose(drawing.about)


def table(grid: Grid, export: str = "") -> Iterator[str]:
    """A pipe table."""
    if grid.about:
        yield prose(grid.about)
    if not grid.total:
        yield "It has no rows."
        return
    lines = [
        _row(column.name for column in grid.columns),
        "|" + "|".join("---:" if column.is_number else "---" for column in grid.columns) + "|",
        *(_row(row) for row in grid.rows),
    ]
    yield "\n".join(lines)
    if grid.total > MOST:
        how = f" All: `{export}`" if export else ""
        yield f"{grid.total - MOST:,} more rows are not in this file.{how}"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(text, cells)) + " |"


def _caveats(texts: Iterable[str]) -> Iterator[str]:
    for one in texts:
        yield f"> **Caveat.** {text(one)}"


def _comparison(found: Comparison) -> Iterator[str]:
    yield f"## {len(found.runs)} runs of {text(found.experiment)} compared"
    yield from table(found.asked)
    yield (
        "Rows are aligned by what they speak of. A difference is a run's number less that of A; "
        "– is where a run has no such row."
    )
    for note in found.notes:
        yield text(note)
    for grid in found.tables:
        yield f"#### {text(_headline(grid.name))}"
        yield from table(grid)


def _headline(name: str) -> str:
    return name[:1].upper() + name[1:].replace("_", " ")
