"""Messages to the browser: the overview of a scene, and one map of each of its sides.

`MESSAGES.md` in this folder describes the messages. Costs: a pass over each map.
"""

import base64
import html
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.analyses.attention.browser.scene import Scene, Side
from workbench.analyses.attention.capture import passes
from workbench.analyses.attention.grids import Grid, Items, grid_of
from workbench.analyses.attention.maps_of_text import MapsOfText
from workbench.analyses.attention.orders import STREAMS
from workbench.analyses.attention.overlays import drawn, placed
from workbench.analyses.attention.patterns import caption
from workbench.analyses.attention.thumbnails import bytes_of, measured
from workbench.drawing import SHARED, js_file, theme
from workbench.models.output_heads.lm_losses import CONTEXT

EXACT_CELLS = 65_536  # of a map up to which its values are sent exactly, else as bytes
MAX_WITH_OVERVIEW = 700_000  # bytes of all maps, up to which an overview carries them
MAX_SCORES = 8  # of each table, shown with an open head
UNITS = {"pieces": "tokens", "words": "words"}
KIND = {"self": "self-attention", "causal": "causal self-attention", "cross": "cross-attention"}
MAX_ORDER = 40  # pieces of a prediction order that a note names
State = Mapping[str, Any]


def overview_of(
    scene: Scene,
    state: State | None = None,
    *,
    offline: bool = False,
    carried: bool = False,
    can_search: bool = False,
    present: bool = False,
    step: str = "",
) -> bytes:
    """The message with the grid of thumbnails and all data to draw it.

    `offline` is set in a stand-alone file, `carried` if responses use the second component, and
    `can_search` if there is a corpus in which similar sentences can be found. `present` enlarges
    the text. In another `step` of a lesson, the state is that of the message, not the former one.
    """
    first = scene.sides[0].grid
    head = {
        "kind": "overview",
        "view": scene.id,
        "title": _title(scene),
        "note": _note(scene),
        "value": " and ".join(dict.fromkeys(_value(side) for side in scene.sides)),
        "passes": passes(),
        "palette": theme.palettes(),
        "sides": [_side(side) for side in scene.sides],
        "difference": None
        if len(scene.sides) < 2
        else {"possible": not scene.apart, "why": scene.apart},
        "state": dict(state or {"cell": None, "pin": None, "look": "lines"}),
        "neurons": True if (why := no_neurons(first)) == "" else why,
        "offline": offline,
        "carried": carried,
        "similar": can_search,
        "present": present,
        "step": step,
    }
    arrays: dict[str, NDArray[Any]] = {}
    if is_small(scene):
        head["cells"], arrays = _all_cells(scene)
    for s, side in enumerate(scene.sides):
        if side.grid.look.places:
            arrays[f"hidden{s}"] = (~side.grid.seen(0)).astype(np.uint8)  # the same in all layers
    pictures = {f"thumbs{s}": side.overview.pictures for s, side in enumerate(scene.sides)}
    return framed(head, pictures | arrays)


def is_small(scene: Scene) -> bool:
    """Whether the overview can carry all maps, so that a head opens without a request."""
    sizes = [
        4 * len(g.rows) * len(g.columns) * len(g.sides.rows) * len(g.sides.columns)
        for g in (side.grid for side in scene.sides)
    ]
    return sum(sizes) <= MAX_WITH_OVERVIEW


def _all_cells(scene: Scene) -> tuple[list[dict[str, Any]], dict[str, NDArray[Any]]]:
    """What is said of each head that all sides have, and all maps of each side."""
    cells: list[dict[str, Any]] = []
    arrays: dict[str, NDArray[Any]] = {}
    for s, side in enumerate(scene.sides):
        size = len(side.grid.sides.rows), len(side.grid.sides.columns)
        arrays[f"maps{s}"] = np.zeros((scene.rows * scene.columns, *size), dtype=np.float32)
    for row in range(scene.rows):
        for column in range(scene.columns):
            if any(side.overview.tops[row][column] is None for side in scene.sides):
                continue
            sides = []
            for s, side in enumerate(scene.sides):
                shown = side.grid.map(row, column)  # [rows, columns]
                arrays[f"maps{s}"][row * scene.columns + column] = shown
                sides.append(_numbers(side, side.grid, shown, row, column))
            cells.append({"row": row, "column": column, "sides": sides})
    return cells, arrays


def cell_of(
    scene: Scene,
    row: int,
    column: int,
    request_id: int = 0,
    *,
    norms: bool = False,
    as_bytes: bool = False,
) -> bytes:
    """The message with one map of each side: its values, or bytes if it is large.

    With `norms`, each weight is multiplied by the norm of its value vector. `as_bytes` makes the
    message small: a byte for each value, compressed well.
    """
    sides = []
    arrays: dict[str, NDArray[Any]] = {}
    for s, side in enumerate(scene.sides):
        grid = side.grid
        if norms and grid.options.weigh != "norms":
            grid = grid_of(grid.look, grid.group, replace(grid.options, weigh="norms"))
        shown = grid.map(row, column)  # [rows, columns]
        if shown.size <= EXACT_CELLS and not as_bytes:
            arrays[f"map{s}"] = np.ascontiguousarray(shown, dtype=np.float32)
        else:
            arrays[f"map{s}"], _ = bytes_of(shown)
        sides.append(_numbers(side, grid, shown, row, column))
    head = {"kind": "cell", "id": request_id, "view": scene.id, "row": row, "column": column}
    level = 9 if as_bytes else 1
    return framed({**head, "norms": norms, "passes": passes(), "sides": sides}, arrays, level)


def _numbers(
    side: Side, grid: Grid, shown: NDArray[np.float32], row: int, column: int
) -> dict[str, Any]:
    """What is said of one map: its largest value, scores, overlays and caption."""
    facts = [
        f"{name} {value:.2f}"
        for name, (value,) in measured(grid, row, shown[None]).items()
        if value is not None
    ]
    counts = {overlay.name: drawn(overlay, grid.sides, shown) for overlay in side.overlays}
    return {
        "top": max(0.0, float(shown.max(initial=0))),
        "value": _value_of(grid),
        "facts": " · ".join([", ".join(facts), *_from_runs(side, row, column)]),
        "drawn": {name: vars(drawn_pairs) for name, drawn_pairs in counts.items()},
        "caption": caption(grid, shown, row, column, side.corpus),
    }


def _from_runs(side: Side, row: int, column: int) -> list[str]:
    """The scores of the open head in tables of runs: the first columns of each table."""
    by_source: dict[str, list[str]] = {}
    for score in side.scores:
        value = score.values[row][column]
        texts = by_source.setdefault(score.source, [])
        if score.source and value not in (None, "") and len(texts) < MAX_SCORES:
            text = f"{value:.2f}".removesuffix(".00") if isinstance(value, float) else value
            texts.append(f"{score.name.removesuffix(f' ({score.source})')} {text}")
    return [f"{source}: {', '.join(texts)}" for source, texts in by_source.items() if texts]


def no_neurons(grid: Grid) -> str:
    """Why query and key cannot be shown; "" if they can."""
    if grid.options.together != "each head":
        return "Query and key belong to one head. To see them, set Heads to each head."
    if grid.options.unit == "words":
        return "Query and key belong to tokens. To see them, choose tokens."
    if grid.group not in {(site.stack, site.kind) for site in grid.look.scores}:
        return f"Queries and keys of {grid.look.model} are not available."
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
        "editable": bool(side.words),
        "words": list(side.words),
        "mask": side.mask,
        "predicts": side.predicts
        and {
            "place": side.predicts.place,
            "places": list(side.predicts.places),
            "next": side.predicts.next,
        },
        "changed": [list(cell) for cell in side.changed],
        "causal": grid.group[1] == "causal",
        "windows": list(grid.windows),
        "n_global": grid.n_global,
        "grid": {
            "rows": list(grid.rows),
            "columns": list(grid.columns),
            "layers": list(grid.layers),
            "heads": list(grid.heads),
            "row_word": "layer" if grid.layers else "layers",
            "column_word": "head" if together == "each head" or "layers" in together else "",
            "layers_across": grid.layers_across,
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
        {"t": name, "special": special, "word": word, "i": index, "to": end}
        for name, special, word, index, end in zip(
            side.names, side.special, side.words, side.places, side.ends, strict=True
        )
    ]


def _title(scene: Scene) -> str:
    options = scene.sides[0].grid.options
    named = [(side.model, f"{side.grid.group[0]} {_kind(side.grid)}") for side in scene.sides]
    combined = "" if options.together == "each head" else f", {options.together}"
    kinds = {kind for _, kind in named}
    if len(kinds) > 1:
        models = " and ".join(f"{name}, {kind}" for name, kind in named)
    else:
        models = f"{' and '.join(dict.fromkeys(name for name, _ in named))}: {kinds.pop()}"
    return f"{models}, by {UNITS[options.unit]}{combined}"


def _kind(grid: Grid) -> str:
    return (STREAMS if grid.look.places else KIND)[grid.group[1]]


def _note(scene: Scene) -> str:
    """How the values were computed, as sentences."""
    options = scene.sides[0].grid.options
    texts = []
    if options.unit == "words":
        texts.append(
            "Attention is summed over the tokens of the attended word and averaged over those of "
            "the attending word."
        )
    decoder = scene.sides[0].grid.look.texts.get("decoder")
    if options.special == "hidden":
        texts.append("Special tokens are hidden; rows are not renormalised and sum to less than 1.")
    elif options.special == "renormalised":
        texts.append(
            "Special tokens are hidden; rows are renormalised to sum to 1 (query and key show the "
            "weights before that)."
        )
    else:
        texts.append("Special tokens are shown, if the tokenizer adds some.")
        if decoder and decoder.special[0] and len(scene.sides[0].grid.look.texts) > 1:
            texts.append(f"The decoder starts with {decoder.pieces[0]}, its start symbol.")
    if any(side.grid.options.weigh == "norms" for side in scene.sides):
        texts.append(
            "Norms: each weight is multiplied by the norm of the value vector after the head's "
            "output projection."
        )
    if options.together == "rollout":
        texts.append(
            "Rollout: the product of the layers from the lowest up, each averaged with the "
            "identity."
        )
    elif options.together != "each head":
        texts.append(f"Each map is the {options.together.replace('both', 'layers and heads')}.")
    for side in scene.sides:
        look = side.grid.look
        if look.places and (by_order := _of_order(look)) not in texts:
            texts.append(by_order)
        if look.cut:
            texts.append(look.cut_note)
        if look.unaligned:
            texts.append(f"{look.unaligned} words have no piece of their own in {look.model}.")
    return " ".join(texts)


def _of_order(look: MapsOfText) -> str:
    """The order in which pieces are predicted, and what it hides."""
    text = next(iter(look.texts.values()))
    chosen = sorted((place, n) for n, place in enumerate(look.places) if place != CONTEXT)
    names = [text.pieces[n] for _, n in chosen]
    more = ", …" if len(names) > MAX_ORDER else ""
    return (
        f"Prediction order: {', '.join(names[:MAX_ORDER])}{more}. Hatched: what the order hides; "
        "all other tokens are context, which all see. The query stream predicts a token without "
        "seeing it; context has no query."
    )


def _value(side: Side) -> str:
    """The name of the displayed value."""
    return _value_of(side.grid)


def _value_of(grid: Grid) -> str:
    options = grid.options
    if options.together == "rollout":
        return "rollout"
    return "attention" if options.weigh == "attention" else "attention × norm"


# --- a message as bytes ---------------------------------------------------------------------------
#
#     u32 length of the head, little-endian | head, UTF-8 JSON | arrays, end to end
#
# `head["arrays"][name]` gives the position of an array after the head (`at`, `size`), its `shape`,
# its `type` (u1 or f4, little-endian) and whether it is compressed by zlib (`packed`).
# Costs: a copy of the arrays.

TYPES = {np.dtype(np.uint8): "u1", np.dtype(np.float32): "f4"}
MIN_COMPRESSED = 512  # bytes; smaller arrays are not compressed


def framed(
    head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None, level: int = 1
) -> bytes:
    """A message as bytes; `head` is plain data without NaN, `level` that of the compression."""
    headers, parts, at = {}, [], 0
    for name, array in (arrays or {}).items():
        raw = np.ascontiguousarray(array).tobytes()
        packed = zlib.compress(raw, level) if len(raw) >= MIN_COMPRESSED else raw
        is_packed = len(packed) < len(raw)
        part = packed if is_packed else raw
        headers[name] = {
            "at": at,
            "size": len(part),
            "shape": list(array.shape),
            "type": TYPES[array.dtype],
            "packed": is_packed,
        }
        parts.append(part)
        at += len(part)
    text = json.dumps({**head, "arrays": headers}, ensure_ascii=False, allow_nan=False).encode()
    return b"".join([len(text).to_bytes(4, "little"), text, *parts])


# --- JavaScript, CSS and the stand-alone page -----------------------------------------------------
#
# The script is the concatenation of its files, in one scope, without a build step or imports.
# Costs: reading some twenty small files once.

SCRIPTS = (
    *SHARED, "frame", "ask", "sheet", "order", "thumbs", "grid", "overlays", "map",
    "lines", "legend", "controls", "pin", "neurons", "tables", "editbar", "similar",
    "predictions", "cellview", "save", "browser",
)  # fmt: skip


@cache
def script() -> str:
    """The browser's JavaScript module for Streamlit."""
    return _joined("streamlit")


@cache
def notebook_script() -> str:
    """The browser's JavaScript for the output of a notebook: `notebookBrowser` shows it."""
    return _joined("stored", "notebook")


@cache
def line_script() -> str:
    """The JavaScript module of the widget between such an output and the kernel."""
    return _text("line.js")


@cache
def carrier() -> str:
    """The JavaScript module that carries requests to Python, and responses back."""
    return _text("carrier.js")


@cache
def style() -> str:
    """The CSS of the browser; it applies only inside the browser's element."""
    return _text("browser.css")


def standalone(frames: list[bytes], title: str) -> bytes:
    """A stand-alone HTML page without network access: an overview message, then cell messages."""
    parts = {
        "title": html.escape(title),
        "style": style(),
        "frames": "\n".join(_block(frame) for frame in frames),
        "script": _joined("stored", "standalone"),
    }
    page = _text("standalone.html")
    return re.sub(r"{{(\w+)}}", lambda match: parts[match[1]], page).encode()


def _block(frame: bytes) -> str:
    length = int.from_bytes(frame[:4], "little")
    head = json.loads(frame[4 : 4 + length])
    data = {name: head[name] for name in ("kind", "row", "column") if name in head}
    attributes = "".join(
        f' data-{name}="{html.escape(str(value))}"' for name, value in data.items()
    )
    encoded = base64.b64encode(frame).decode()
    return f'<script type="application/octet-stream"{attributes}>{encoded}</script>'


def _joined(*last: str) -> str:
    return "\n".join(_text(f"{name}.js") for name in (*SCRIPTS, *last))


def _text(name: str) -> str:
    return js_file(name, __package__)
