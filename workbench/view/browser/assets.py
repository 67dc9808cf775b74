"""The browser's JavaScript and style as text, and the page that stands alone.

The script is its files one after the other, in one scope: nothing is built, nothing is imported.
Costs the reading of some twenty small files, once.
"""

import base64
import html
import json
import re
from functools import cache
from importlib.resources import files

SHARED = (
    "dom", "frame", "words", "colour", "ask", "sheet", "order", "thumbs", "grid", "overlays", "map",
    "lines", "legend", "controls", "pin", "neurons", "cellview", "save", "browser",
)  # fmt: skip


@cache
def script() -> str:
    """The module that Streamlit is given."""
    return _joined("streamlit")


@cache
def carrier() -> str:
    """The module that brings requests to Python, and answers back."""
    return _text("carrier.js")


@cache
def style() -> str:
    """The style of the browser; it reaches no further than the browser's own element."""
    return _text("browser.css")


def standalone(frames: list[bytes], title: str) -> bytes:
    """A page that opens from disk and asks nobody: an overview frame, then cells as they are."""
    parts = {
        "title": html.escape(title),
        "style": style(),
        "frames": "\n".join(_block(frame) for frame in frames),
        "script": _joined("standalone"),
    }
    page = _text("standalone.html")
    return re.sub(r"{{(\w+)}}", lambda found: parts[found[1]], page).encode()


def _block(frame: bytes) -> str:
    length = int.from_bytes(frame[:4], "little")
    head = json.loads(frame[4 : 4 + length])
    told = {name: head[name] for name in ("kind", "row", "column") if name in head}
    traits = "".join(f' data-{name}="{html.escape(str(value))}"' for name, value in told.items())
    packed = base64.b64encode(frame).decode()
    return f'<script type="application/octet-stream"{traits}>{packed}</script>'


def _joined(last: str) -> str:
    return "\n".join(_text(f"{name}.js") for name in (*SHARED, last))


def _text(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
