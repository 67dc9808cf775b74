"""A report as one HTML file: opens from disk, needs no network, and shows tables without scripts.

All data is escaped; in addition, the Content-Security-Policy of the page allows only two scripts,
Plotly and `report.js`, and no network requests. Long tables show their first rows, and the other
rows on a click. Costs: 5 MB per file with figures, for Plotly, and a few MB more for long tables.
"""

import base64
import hashlib
import json
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment

from workbench.core.files import atomic_write
from workbench.figures.sanitize import is_right_to_left, visible
from workbench.figures.theme import template
from workbench.report.content import Content, Drawing
from workbench.report.templating import environment

WIDEST = 40  # characters, above which the cells of a column fold


def write(content: Content, path: Path) -> None:
    """Write the report to a file."""
    page = html(content)
    with atomic_write(path) as draft:
        draft.write_text(page, encoding="utf-8", newline="\n")


def html(content: Content) -> str:
    """Return the page of a report."""
    return _page("report", content.title, content.has_drawings, content=content)


def figure_page(run: str, drawing: Drawing) -> str:
    """Return a page with one figure of a run."""
    return _page("figure", f"{drawing.name} of {run}", True, run=run, drawing=drawing)


def _page(name: str, title: str, draws: bool, **shown: Any) -> str:
    """Return a page; with Plotly if it has figures."""
    scripts = [_plotly(), _own("report.js")] if draws else []
    allowed = " ".join(map(_fingerprint, scripts)) or "'none'"
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return (
        _templates()
        .get_template(f"{name}.html.j2")
        .render(
            title=title,
            policy=policy,
            style=_own("report.css"),
            templates={
                kind: template(kind).to_plotly_json() for kind in ("light", "dark", "print")
            },
            scripts=scripts,
            **shown,
        )
    )


@cache
def _templates() -> Environment:
    templates = environment(
        text,
        lambda name: f"<code>{text(name)}</code>",
        {"lines": lambda value: text(value, lines=True), "attribute": attribute, "json": as_json},
    )
    templates.globals["WIDEST"] = WIDEST
    return templates


def text(value: str, lines: bool = False) -> str:
    """Return escaped text; right-to-left text is isolated."""
    shown = escape(visible(value, lines=lines))
    return f"<bdi>{shown}</bdi>" if is_right_to_left(shown) else shown


def attribute(value: str) -> str:
    """Return text escaped for an attribute."""
    return escape(visible(value))


def as_json(value: Any) -> str:
    """Return data as JSON that is safe inside a script element."""
    packed = json.dumps(value, separators=(",", ":"), sort_keys=True)
    return packed.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs()).replace("\r\n", "\n").replace("</script", "<\\/script")


@cache
def _own(name: str) -> str:
    return files("workbench.report").joinpath(name).read_text(encoding="utf-8")


def _fingerprint(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
