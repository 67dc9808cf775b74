"""A report as one HTML file: opens from disk, needs no network, and shows all without scripts.

All data is escaped; in addition, the Content-Security-Policy of the page allows only one script,
`report.js`, which shows the values of marks, and no network requests. Figures are SVG in the page;
tables are folded. The page of a single figure has Plotly instead. Costs: some ten kB per figure and
table; for the page of a single figure 5 MB, for Plotly.
"""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment

from workbench.core.files import write_atomically
from workbench.drawing.sanitize import is_right_to_left, visible
from workbench.drawing.theme import template
from workbench.drawing.vector import page_style
from workbench.report.content import Content, Drawing
from workbench.report.drawn import inline
from workbench.report.format import Grid
from workbench.report.templating import environment

_ROOT = re.compile(r"^ *:root \{.*?\}\n", re.MULTILINE | re.DOTALL)
_VARIABLE = re.compile(r"(--[\w-]+): (#\w+);")
WIDTH, NARROW = 760, 600  # of the main figure, and of figures next to each other, in pixels
WIDEST = 40  # characters, above which the cells of a column fold
MOST_ALIGNED = 60  # columns, above which numbers are not aligned


def write(content: Content, path: Path) -> None:
    """Write the report to a file."""
    page = html(content)
    write_atomically(path, page)


def html(content: Content) -> str:
    """Return the page of a report."""
    scripts = [_tips("document.body")] if content.has_drawings else []
    return _page("report", content.title, scripts, content=content)


def paper_page(content: Content, abstract: str, answers: Sequence[Any]) -> str:
    """Return the page of a paper: the answers to its questions, see `workbench.report.paper`."""
    scripts = [_tips("document.body")]
    return _page(
        "paper", content.title, scripts, content=content, abstract=abstract, answers=answers
    )


def figure_page(run: str, drawing: Drawing) -> str:
    """Return a page with one figure, of a run unless this is "", drawn by Plotly."""
    kinds = {kind: template(kind).to_plotly_json() for kind in ("light", "dark", "print")}
    title = f"{drawing.name} of {run}" if run else drawing.title or drawing.name
    scripts = [_plotly(), _own("figure.js")]
    return _page("figure", title, scripts, run=run, drawing=drawing, templates=kinds)


def _page(name: str, title: str, scripts: Sequence[str], **shown: Any) -> str:
    allowed = " ".join(map(_fingerprint, scripts)) or "'none'"
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return (
        _templates()
        .get_template(f"{name}.html.j2")
        .render(title=title, policy=policy, style=_style(), scripts=scripts, **shown)
    )


def fragment(name: str, place: str, **shown: Any) -> str:
    """Return a template as a part of a page of others: the element with the id `place`.

    Its style applies to this element only, and its script has no name that others could see.
    """
    script = _tips(f"document.getElementById({place!r})")
    return (
        _templates()
        .get_template(f"{name}.html.j2")
        .render(place=place, style=_scoped_style(), script=f"(() => {{\n{script}}})();", **shown)
    )


@cache
def _templates() -> Environment:
    templates = environment(
        text,
        lambda name: f"<code>{text(name)}</code>",
        {
            "lines": lambda value: text(value, lines=True),
            "command": lambda value: text(value, lines=True, marks=True),
            "attribute": attribute,
            "json": as_json,
            "svg": lambda drawing, width: inline(drawing, width) or "",
            "numeric": _numeric,
        },
    )
    templates.globals |= {"WIDEST": WIDEST, "WIDTH": WIDTH, "NARROW": NARROW}
    return templates


def text(value: str, lines: bool = False, marks: bool = False) -> str:
    """Return escaped text; right-to-left text is isolated."""
    shown = escape(visible(value, lines=lines, marks=marks))
    return f"<bdi>{shown}</bdi>" if is_right_to_left(shown) else shown


def attribute(value: str) -> str:
    """Return text escaped for an attribute."""
    return escape(visible(value))


def as_json(value: Any) -> str:
    """Return data as JSON that is safe inside a script element."""
    packed = json.dumps(value, separators=(",", ":"), sort_keys=True)
    return packed.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _numeric(grid: Grid) -> str:
    """Return the classes of a table that align its columns of numbers."""
    return " ".join(f"n{index}" for index, column in enumerate(grid.columns, 1) if column.is_number)


@cache
def _style() -> str:
    return "\n".join([_own("report.css"), _numbers(), page_style()])


def _numbers() -> str:
    aligned = [f".n{index} tr>:nth-child({index})" for index in range(1, MOST_ALIGNED + 1)]
    return f"{','.join(aligned)} {{\n  text-align: right;\n  white-space: nowrap;\n}}\n"


@cache
def _scoped_style() -> str:
    """The style of reports for elements of the class `workbench`, in the colours of the page."""
    light, dark = (dict(_VARIABLE.findall(found)) for found in _ROOT.findall(_own("report.css")))
    colours = "".join(f"{name}:light-dark({light[name]},{dark[name]});" for name in light)
    rules = _ROOT.sub("", _own("report.css"))
    return "\n".join(
        [
            f".workbench.workbench {{{colours}{rules}{_numbers()}{page_style(by_scheme=True)}}}",
            _own("notebook.css"),
        ]
    )


def _tips(place: str) -> str:
    return f"{_own('report.js')}figureTips({place});\n"


@cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs()).replace("\r\n", "\n").replace("</script", "<\\/script")


@cache
def _own(name: str) -> str:
    return files("workbench.report").joinpath(name).read_text(encoding="utf-8")


def _fingerprint(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
