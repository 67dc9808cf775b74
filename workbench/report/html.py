"""A report as one HTML file: opens from disk, asks no network, and has its tables without scripts.

Long tables show their first rows, the rest opens. Costs 5 MB a file, and a few MB more where tables
are long.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from workbench.files import written_whole
from workbench.report.cells import FIRST, MOST, Column, Grid
from workbench.report.comparison import Comparison
from workbench.report.content import Content, Part
from workbench.report.page import NO_SCRIPT, attribute, figure, listed, page, prose, text
from workbench.report.question import Rows

WIDEST = 40  # characters of a column before its cells fold


def write(content: Content, path: Path) -> None:
    """Write the report to a file."""
    whole = html(content)
    with written_whole(path) as draft:
        draft.write_text(whole, encoding="utf-8", newline="\n")


def html(content: Content) -> str:
    """The whole page."""
    parts = [_comparison(found, content) for found in content.comparisons]
    parts += [_part(part, content) for part in content.parts]
    body = (
        '<div class="page with-contents">\n'
        f"<header>\n<h1>{text(content.title)}</h1>\n<p>{_summary(content)}</p>\n</header>\n"
        f"{_contents(content)}"
        f'<main id="content">\n{"".join(parts)}</main>\n'
        "<footer>Written by Workbench of the runs' folders alone. This file needs no network.\n"
        "</footer>\n</div>"
    )
    return page(content.title, body, draws=content.has_drawings)


def _summary(content: Content) -> str:
    if len(content.parts) == 1:
        return prose(content.parts[0].about)
    return f"{len(content.parts)} runs" + (
        ", compared first, then each by itself." if content.comparisons else ", one after another."
    )


def _contents(content: Content) -> str:
    entries = [
        f'<a href="#compared-{attribute(found.experiment)}">{text(_comparison_title(found))}</a>'
        for found in content.comparisons
    ]
    for part in content.parts:
        below = [("question", "The question")]
        below += [("figures", "Figures")] if part.drawings else []
        below += [("tables", "Tables"), ("again", "To make it again")]
        links = [f'<a href="#run-{part.number}-{place}">{name}</a>' for place, name in below]
        entries.append(
            f'<a href="#run-{part.number}">{text(content.heading(part))}</a>\n{listed(links)}'
        )
    title = '<h2 id="contents">Contents</h2>'
    return f'<nav aria-labelledby="contents">\n{title}\n{listed(entries)}</nav>\n'


def _part(part: Part, content: Content) -> str:
    place = f"run-{part.number}"
    about = f'<p class="about">{prose(part.about)}</p>\n' if len(content.parts) > 1 else ""
    return (
        f'<section id="{place}">\n<h2>{text(content.heading(part))}</h2>\n'
        f"{about}{_caveats(part.of_all)}{_warnings(part)}"
        f'<h3 id="{place}-question">The question</h3>\n{_facts(part)}{_swept(part)}'
        f"{_figures(part, place)}"
        f'<h3 id="{place}-tables">Tables</h3>\n{"".join(_tables(part, place))}'
        f'<h3 id="{place}-again">To make it again</h3>\n'
        f'<pre tabindex="0">{text(part.command, lines=True)}</pre>\n</section>\n'
    )


def _facts(part: Part) -> str:
    cards = "".join(
        f"<section>\n<h4>{group}</h4>\n{_definitions(rows)}</section>\n"
        for group, rows in part.facts.items()
        if rows
    )
    return f'<div class="facts">\n{cards}</div>\n'


def _definitions(rows: Rows) -> str:
    pairs = "".join(
        f"<dt>{text(name)}</dt><dd>{text(value, lines=True)}</dd>\n" for name, value in rows
    )
    return f"<dl>\n{pairs}</dl>\n"


def _swept(part: Part) -> str:
    if not part.swept:
        return ""
    runs = listed(f"<code>{text(name)}</code>" for name in part.swept)
    count = len(part.swept)
    return (
        f"<h4>The runs of this sweep</h4>\n<p>One for every combination: {count}. Their tables "
        "lie under one another here, with what was swept in front.</p>\n"
        f"<details><summary>Their names</summary>\n{runs}</details>\n"
    )


def _caveats(texts: Sequence[str]) -> str:
    return "".join(_note("Caveat.", one) for one in texts)


def _warnings(part: Part) -> str:
    return "".join(_note("The run warned.", one) for one in part.warnings)


def _note(what: str, told: str) -> str:
    return f'<p class="caveat" role="note"><strong>{what}</strong> {text(told, lines=True)}</p>\n'


def _figures(part: Part, place: str) -> str:
    if not part.drawings:
        return ""
    drawn = "".join(
        f"<h4>{_headline(name)}</h4>\n{_caveats(part.beside(name))}"
        f"{figure(drawing, f'{place}-figure-{name}')}"
        for name, drawing in part.drawings.items()
    )
    return f'<h3 id="{place}-figures">Figures</h3>\n{NO_SCRIPT}{drawn}'


def _tables(part: Part, place: str) -> Iterator[str]:
    for grid in part.tables:
        here = f"{place}-table-{attribute(grid.name)}"
        yield f'<h4 id="{here}">{_headline(grid.name)}</h4>\n'
        yield _caveats(part.beside(grid.name))
        yield table(grid, part.export(grid.name, ".csv"))
    if not part.tables:
        yield '<p class="note">The run left no table.</p>\n'


def table(grid: Grid, export: str = "") -> str:
    """A table: its first rows, the rest to open, and what to do for those that are not here."""
    about = f'<p class="about">{prose(grid.about)}</p>\n' if grid.about else ""
    if not grid.total:
        return f'{about}<p class="note">It has no rows.</p>\n'
    rows = iter(grid.rows)
    found = about + _rows(grid, list(islice(rows, FIRST)), grid.name)
    if rest := list(rows):
        found += (
            f"<details>\n<summary>{len(rest):,} more rows</summary>\n"
            f"{_rows(grid, rest, f'{grid.name}, the rest')}</details>\n"
        )
    if grid.total > MOST:
        how = f" All: <code>{text(export)}</code>" if export else ""
        found += f'<p class="more">{grid.total - MOST:,} more rows are not in this file.{how}</p>\n'
    return found


def _rows(grid: Grid, rows: Sequence[tuple[str, ...]], caption: str) -> str:
    widths = "".join(f'<col style="min-width:{_width(column)}ch">' for column in grid.columns)
    head = "".join(
        f'<th scope="col"{_kind(column)}>{text(column.name)}</th>' for column in grid.columns
    )
    body = "".join("<tr>" + "".join(map(_cell, grid.columns, row)) + "</tr>\n" for row in rows)
    label, told = attribute(f"Table {caption}"), f"Table {caption}. {grid.about}".replace("`", "")
    return (
        f'<div class="box" role="region" aria-label="{label}" tabindex="0">\n<table>\n'
        f"<caption>{text(told)}</caption>\n"
        f"<colgroup>{widths}</colgroup>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n</div>\n"
    )


def _cell(column: Column, cell: str) -> str:
    shown = text(cell, lines=True)
    if len(cell) > WIDEST and not column.is_number:
        shown = f'<div class="long">{shown}</div>'
    if column.is_key:
        return f'<th scope="row"{_kind(column)}>{shown}</th>'
    return f"<td{_kind(column)}>{shown}</td>"


def _kind(column: Column) -> str:
    return ' class="number"' if column.is_number else ""


def _width(column: Column) -> int:
    return min(max(map(len, (column.name, *column.cells))), WIDEST)


def _comparison(found: Comparison, content: Content) -> str:
    numbers = {part.run.path: part for part in content.parts}
    legend = listed(
        f'<strong>{letter}</strong>: <a href="#run-{numbers[run.path].number}">'
        f"{text(content.heading(numbers[run.path]))}</a>"
        for letter, run in found.runs.items()
    )
    notes = "".join(f'<p class="note">{text(note)}</p>\n' for note in found.notes)
    tables = "".join(f"<h4>{_headline(grid.name)}</h4>\n{table(grid)}" for grid in found.tables)
    return (
        f'<section id="compared-{attribute(found.experiment)}">\n'
        f"<h2>{text(_comparison_title(found))}</h2>\n{legend}"
        f"<h3>What was asked differently</h3>\n{table(found.asked)}"
        "<h3>What was found</h3>\n<p>Rows are aligned by what they speak of. A difference is a "
        "run's number less that of A; – is where a run has no such row.</p>\n"
        f"{notes}{tables}</section>\n"
    )


def _comparison_title(found: Comparison) -> str:
    return f"{len(found.runs)} runs of {found.experiment} compared"


def _headline(name: str) -> str:
    return text(name[:1].upper() + name[1:].replace("_", " "))
