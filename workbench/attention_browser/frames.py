"""What the browser draws, as frames: the overview of a scene, and one map of each of its sides.

The form of the messages is told in `MESSAGES.md` beside this file. A map costs a pass over it.
"""

import base64
import html
import json
import re
import zlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.attention_browser.scene import Scene, Side
from workbench.attention_maps.capture import passes
from workbench.attention_maps.grids import Grid, Items
from workbench.attention_maps.overlays import drawn, placed
from workbench.attention_maps.thumbnails import bytes_of, measured
from workbench.figures import theme

TOLD = 8  # scores of a run's table beside an open head
KIND = {"self": "self-attention", "causal": "causal self-attention", "cross": "cross-attention"}
State = Mapping[str, Any]


def overview_of(
    scene: Scene, state: State | None = None, *, offline: bool = False, carried: bool = False
) -> bytes:
    """The grid at a glance, and all that is needed to draw it.

    `offline` in a file of its own; `carried` where answers come through the carrier.
    """
    first = scene.sides[0].grid
    head = {
        "kind": "overview",
        "view": scene.id,
        "title": _title(scene),
        "note": _note(scene),
        "value": " and ".join(dict.fromkeys(_value(side) for side in scene.sides)),
        "passes": passes(),
        "palette": {kind: _palette(kind) for kind in ("light", "dark")},
        "sides": [_side(side) for side in scene.sides],
        "difference": None
        if len(scene.sides) < 2
        else {"possible": not scene.apart, "why": scene.apart},
        "state": dict(state or {"cell": None, "pin": None, "look": "map"}),
        "neurons": True if (why := no_neurons(first)) == "" else why,
        "offline": offline,
        "carried": carried,
    }
    pictures = {f"thumbs{place}": side.overview.pictures for place, side in enumerate(scene.sides)}
    return framed(head, pictures)


def cell_of(scene: Scene, row: int, column: int, number: int = 0) -> bytes:
    """One map of each side, in bytes."""
    told, arrays = [], {}
    for place, side in enumerate(scene.sides):
        shown = side.grid.map(row, column)  # [rows, columns]
        arrays[f"map{place}"], top = bytes_of(shown)
        facts = [
            f"{name} {value:.2f}"
            for name, value in measured(side.grid, shown).items()
            if value is not None
        ]
        found = {overlay.name: drawn(overlay, side.grid.sides, shown) for overlay in side.overlays}
        told.append(
            {
                "top": top,
                "facts": " · ".join([", ".join(facts), *_from_runs(side, row, column)]),
                "drawn": {name: vars(counts) for name, counts in found.items()},
            }
        )
    head = {"kind": "cell", "id": number, "view": scene.id, "row": row, "column": column}
    return framed({**head, "passes": passes(), "sides": told}, arrays)


def _from_runs(side: Side, row: int, column: int) -> list[str]:
    """What runs say of the head that is open: of each table its first columns."""
    told: dict[str, list[str]] = {}
    for score in side.scores:
        value = score.values[row][column]
        own = told.setdefault(score.source, [])
        if score.source and value not in (None, "") and len(own) < TOLD:
            written = f"{value:.2f}".removesuffix(".00") if isinstance(value, float) else value
            own.append(f"{score.name.removesuffix(f' ({score.source})')} {written}")
    return [f"{source}: {', '.join(own)}" for source, own in told.items() if own]


def no_neurons(grid: Grid) -> str:
    """Why query and key cannot be shown; "" where they can."""
    if grid.options.together != "each head":
        return "Query and key belong to one head: show each head to see them."
    if grid.options.unit == "words":
        return "Query and key belong to pieces: show pieces to see them."
    if grid.group not in {(site.stack, site.kind) for site in grid.look.scores}:
        return f"{grid.look.model} does not show its queries and keys."
    return ""


# --- the parts of an overview ---------------------------------------------------------------------


def _side(side: Side) -> dict[str, Any]:
    grid = side.grid
    together = grid.options.together
    return {
        "name": side.name,
        "value": _value(side),
        "caption": side.caption,
        "rows": _items(grid.sides.rows),
        "columns": _items(grid.sides.columns),
        "same": grid.group[1] != "cross",
        "causal": grid.group[1] == "causal",
        "grid": {
            "rows": list(grid.rows),
            "columns": list(grid.columns),
            "row_word": "layers" if not grid.rows[0].isdigit() else "layer",
            "column_word": "head" if together == "each head" or "layers" in together else "",
        },
        "missing": [
            [row, column]
            for row, tops in enumerate(side.overview.tops)
            for column, top in enumerate(tops)
            if top is None
        ],
        "tops": [list(tops) for tops in side.overview.tops],
        "scores": [
            {
                "name": s.name,
                "about": s.about,
                "kind": s.kind,
                "values": [list(v) for v in s.values],
            }
            for s in side.scores
        ],
        "overlays": [
            {
                "name": overlay.name,
                "about": overlay.about,
                "pairs": [list(pair) for pair in overlay.pairs],
                "spans": [list(span) for span in overlay.spans],
            }
            for overlay in (placed(each, grid.sides.rows) for each in side.overlays)
        ],
    }


def _items(side: Items) -> list[dict[str, Any]]:
    return [
        {"t": name, "special": special, "word": word, "i": place}
        for name, special, word, place in zip(
            side.names, side.special, side.words, side.places, strict=True
        )
    ]


def _title(scene: Scene) -> str:
    options = scene.sides[0].grid.options
    named = [
        (side.grid.look.model, f"{side.grid.group[0]} {KIND[side.grid.group[1]]}")
        for side in scene.sides
    ]
    how = "" if options.together == "each head" else f", {options.together}"
    kinds = {kind for _, kind in named}
    if len(kinds) > 1:
        said = " and ".join(f"{name}, {kind}" for name, kind in named)
    else:
        said = f"{' and '.join(dict.fromkeys(name for name, _ in named))}: {kinds.pop()}"
    return f"{said}, by {options.unit}{how}"


def _note(scene: Scene) -> str:
    """What was done to the numbers, in full."""
    options = scene.sides[0].grid.options
    texts = []
    if options.unit == "words":
        texts.append("Summed over the pieces of a word looked at, averaged over those that look.")
    begins = scene.sides[0].grid.look.texts.get("decoder")
    if options.special == "hidden":
        texts.append(
            "Special tokens are hidden; rows are not renormalised, and sum to less than 1."
        )
    elif options.special == "renormalised":
        texts.append(
            "Special tokens are hidden; rows are renormalised to sum to 1 "
            "(query and key tell of the weights before that)."
        )
    else:
        texts.append("Special tokens are shown.")
        if begins and begins.special[0] and len(scene.sides[0].grid.look.texts) > 1:
            texts.append(f"The decoder begins with {begins.pieces[0]}, its start symbol.")
    if any(side.grid.options.weigh == "norms" for side in scene.sides):
        texts.append("Weights times the norm of what each head writes for the token looked at.")
    if options.together == "rollout":
        texts.append("Rollout: layers multiplied from the lowest up, half of each passed on.")
    elif options.together != "each head":
        texts.append(f"Each map is the {options.together.replace('both', 'layers and heads')}.")
    for side in scene.sides:
        look = side.grid.look
        if look.cut:
            texts.append(f"{look.cut} words beyond the length of {look.model} are not there.")
        if look.unaligned:
            texts.append(f"{look.unaligned} words have no piece of their own in {look.model}.")
    return " ".join(texts)


def _value(side: Side) -> str:
    """What a number is."""
    options = side.grid.options
    if options.together == "rollout":
        return "rollout"
    return "attention" if options.weigh == "attention" else "attention × norm"


def _palette(kind: theme.Kind) -> dict[str, Any]:
    return {
        "scale": list(theme.SCALE[kind]),
        "around": list(theme.AROUND_ZERO[kind]),
        "paper": theme.PAPER[kind],
        "ink": theme.INK[kind],
        "faint": theme.FAINT[kind],
        "lines": theme.LINES[kind],
        "accent": theme.COLOURS[kind][1],
    }


# --- one message to the browser as bytes: a head of JSON, then arrays, packed where that pays -----
#
#     u32 length of the head, little-endian | head, UTF-8 JSON | arrays, end to end
#
# `head["arrays"][name]` says where an array lies behind the head (`at`, `size`), its `shape`, its
# `type` (u1 or f4, little-endian) and whether it is `packed` by zlib. Costs a copy of the arrays.

TYPES = {np.dtype(np.uint8): "u1", np.dtype(np.float32): "f4"}
WORTH = 512  # bytes from which packing is tried


def framed(head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None) -> bytes:
    """The message; `head` is plain data without NaN."""
    told, parts, at = {}, [], 0
    for name, array in (arrays or {}).items():
        raw = np.ascontiguousarray(array).tobytes()
        packed = zlib.compress(raw, 1) if len(raw) >= WORTH else raw
        is_packed = len(packed) < len(raw)
        part = packed if is_packed else raw
        told[name] = {
            "at": at,
            "size": len(part),
            "shape": list(array.shape),
            "type": TYPES[array.dtype],
            "packed": is_packed,
        }
        parts.append(part)
        at += len(part)
    text = json.dumps({**head, "arrays": told}, ensure_ascii=False, allow_nan=False).encode()
    return b"".join([len(text).to_bytes(4, "little"), text, *parts])


def unframed(message: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What `framed` was given; for tests, and for whoever reads an export."""
    length = int.from_bytes(message[:4], "little")
    head = json.loads(message[4 : 4 + length])
    rest = message[4 + length :]
    arrays = {}
    for name, told in head.pop("arrays").items():
        part = rest[told["at"] : told["at"] + told["size"]]
        raw = zlib.decompress(part) if told["packed"] else part
        kind = {"u1": "<u1", "f4": "<f4"}[told["type"]]
        arrays[name] = np.frombuffer(raw, dtype=kind).reshape(told["shape"])
    return head, arrays


# --- the browser's JavaScript and style as text, and the page that stands alone -------------------
#
# The script is its files one after the other, in one scope: nothing is built, nothing is
# imported. Costs the reading of some twenty small files, once.

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
    return (files(__package__) / "js" / name).read_text(encoding="utf-8")
