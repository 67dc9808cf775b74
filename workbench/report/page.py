"""One HTML page that holds all it needs: style, scripts and data inside, and nothing loaded.

What comes from data is escaped; and the page's own policy lets no script run but Plotly and ours,
and no address be asked, whatever slipped through. Costs 5 MB where there are figures, for Plotly.
"""

import base64
import hashlib
import json
from collections.abc import Iterable
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from workbench.report.drawings import Drawing
from workbench.view.harmless import is_turning, visible
from workbench.view.theme import template

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
