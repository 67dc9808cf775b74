"""A report as one HTML file: opens from disk, asks no network, and has its tables without scripts.

Long tables show their first rows, the rest opens. Costs 5 MB a file, and a few MB more where tables
are long.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

from workbench.core.files import written_whole
from workbench.figures.sanitize import is_turning, visible
from workbench.figures.theme import template
from workbench.report.content import Comparison, Content, Drawing, Part, Rows
from workbench.report.format import FIRST, MOST, Column, Grid

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


# --- one HTML page that holds all it needs: style, scripts and data inside, and nothing loaded ----
#
# What comes from data is escaped; and the page's own policy lets no script run but Plotly and
# ours, and no address be asked, whatever slipped through. Costs 5 MB where there are figures, for
# Plotly.

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="Workbench">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
{body}
{scripts}</body>
</html>
"""
FIGURE = """<figure id="{id}">
<div class="plot" role="img" aria-label="{label}" style="height:{height}px"></div>
<script type="application/json">{data}</script>
<figcaption>{about}</figcaption>
</figure>
"""
NO_SCRIPT = """<noscript><p class="note">Figures are drawn by JavaScript, which is off. All numbers
are in the tables.</p></noscript>
"""


def page(title: str, body: str, *, draws: bool) -> str:
    """A whole page; with Plotly where it draws."""
    scripts = [_plotly(), _own("report.js")] if draws else []
    allowed = " ".join(map(_fingerprint, scripts)) or "'none'"
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    looks = {kind: template(kind).to_plotly_json() for kind in ("light", "dark", "print")}
    data = f'<script type="application/json" id="looks">{as_json(looks)}</script>\n'
    return PAGE.format(
        policy=policy,
        title=attribute(title),
        style=_own("report.css"),
        body=body,
        scripts=(data if draws else "") + "".join(f"<script>{s}</script>\n" for s in scripts),
    )


def figure(drawing: Drawing, place: str) -> str:
    """A figure's place in the page, its data, and what it shows in words."""
    label = f"Figure {drawing.name}. {drawing.about} Its numbers are in the tables."
    return FIGURE.format(
        id=attribute(place),
        label=attribute(label),
        height=drawing.height,
        data=as_json(drawing.plain),
        about=prose(drawing.about),
    )


def text(value: str, lines: bool = False) -> str:
    """Text as text, whatever it holds; from right to left in a frame of its own."""
    shown = escape(visible(value, lines=lines))
    return f"<bdi>{shown}</bdi>" if is_turning(shown) else shown


def prose(value: str) -> str:
    """Words of ours, with names in `backticks` set apart."""
    parts = (text(part) for part in value.split("`"))
    if value.count("`") % 2:
        return text(value)
    return "".join(
        f"<code>{part}</code>" if place % 2 else part for place, part in enumerate(parts)
    )


def attribute(value: str) -> str:
    """Text between quotes."""
    return escape(visible(value))


def as_json(value: Any) -> str:
    """Data that can stand inside a script: no sign in it is a sign of HTML."""
    packed = json.dumps(value, separators=(",", ":"), sort_keys=True)
    return packed.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def listed(items: Iterable[str], kind: str = "ul") -> str:
    """A list of what is HTML already."""
    return f"<{kind}>\n" + "".join(f"<li>{item}</li>\n" for item in items) + f"</{kind}>\n"


@cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs()).replace("\r\n", "\n").replace("</script", "<\\/script")


@cache
def _own(name: str) -> str:
    return files("workbench.report").joinpath(name).read_text(encoding="utf-8")


def _fingerprint(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
