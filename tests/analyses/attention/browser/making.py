"""Attention out of thin air, in the form in which the app tells it to the browser."""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.analyses.attention.browser.frames import framed
from workbench.drawing.theme import palettes

Floats = NDArray[np.float32]
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "</svg>&amp;",
    '"><b>',
]
ODD = [
    *HOSTILE,
    "\n",
    " ",
    "",
    "\t",
    "שלום",
    "مرحبا",
    "👩‍👩‍👧",
    "é",
    "\u202eevil",
    "long" * 60,
    "=1+1",
]
THUMB = 72


def words(count: int, start: str = "w") -> list[str]:
    return [f"{start}{k}" for k in range(count)]


def softmaxed(
    grid: tuple[int, int], rows: int, columns: int, seed: int = 0, causal: bool = False
) -> Floats:
    """Attention with a few strong partners: [layers, heads, rows, columns]."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(*grid, rows, columns)) * 2
    if causal:
        scores[..., np.triu(np.ones((rows, columns), dtype=bool), 1)] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def pooled(maps: Floats, most: int = THUMB) -> NDArray[np.uint8]:
    """Thumbnails: the largest of each block, 255 for a map's own largest."""
    rows, columns = maps.shape[-2:]
    tall, wide = min(most, rows), min(most, columns)
    ys = (np.arange(tall) * rows) // tall
    xs = (np.arange(wide) * columns) // wide
    small = np.maximum.reduceat(np.maximum.reduceat(maps, ys, axis=-2), xs, axis=-1)
    tops = maps.max((-1, -2), keepdims=True)
    return np.round(255 * small / np.where(tops > 0, tops, 1)).astype(np.uint8)


@dataclass
class Side:
    """One model's maps on one text."""

    maps: Floats  # [layers, heads, rows, columns]
    rows: list[str]
    columns: list[str] | None = None
    name: str = "mini:bert"
    causal: bool = False
    missing: list[list[int]] = field(default_factory=list)
    scores: list[dict[str, Any]] | None = None
    overlays: list[dict[str, Any]] = field(default_factory=list)
    shift: int = 0  # of the positions, where special tokens are hidden
    hidden: NDArray[np.uint8] | None = None  # [rows, columns], by a prediction order

    def message(self) -> dict[str, Any]:
        layers, heads = self.maps.shape[:2]
        columns = self.rows if self.columns is None else self.columns
        scores = self.scores
        if scores is None:
            high = self.maps.max(-1).mean(-1)
            kinds = [
                ["positional" if v > np.median(high) else "broad" for v in row] for row in high
            ]
            scores = [
                {"name": "confidence", "about": "mean of each row's largest", "kind": "number",
                 "values": [[float(v) for v in row] for row in high]},
                {"name": "kind", "about": "", "kind": "text", "values": kinds},
            ]  # fmt: skip
        return {
            "name": self.name,
            "value": "attention",
            "caption": " ".join(self.rows)[:200],
            "rows": self._items(self.rows),
            "columns": self._items(columns),
            "same": self.columns is None,
            "causal": self.causal,
            "grid": {
                "rows": [str(layer + 1) for layer in range(layers)],
                "columns": [str(head + 1) for head in range(heads)],
                "layers": list(range(layers)),
                "heads": list(range(heads)),
                "row_word": "layer",
                "column_word": "head",
                "layers_across": layers > max(12, heads),
            },
            "missing": self.missing,
            "tops": [[float(v) for v in row] for row in self.maps.max((-1, -2))],
            "scores": scores,
            "overlays": self.overlays,
        }

    def _items(self, tokens: list[str]) -> list[dict[str, Any]]:
        return [
            {"t": t, "special": t.startswith("["), "word": k + self.shift, "i": k + self.shift}
            for k, t in enumerate(tokens)
        ]

    def quantized(self, row: int, column: int) -> tuple[float, NDArray[np.uint8]]:
        one = self.maps[row, column]
        top = float(one.max())
        return top, np.round(255 * one / (top or 1)).astype(np.uint8)


@dataclass
class World:
    """What Python would answer, and the requests it received."""

    sides: list[Side]
    view: str = "v1"
    difference: dict[str, Any] | None = None
    neurons: Any = True
    state: dict[str, Any] = field(
        default_factory=lambda: {"cell": None, "pin": None, "look": "map"}
    )
    note: str = "Special tokens are hidden; rows are renormalised."
    title: str = "mini:bert: encoder self-attention, by pieces"
    drawn: dict[str, Any] = field(default_factory=dict)
    width: int = 32  # of a head, in neurons
    requests: list[dict[str, Any]] = field(default_factory=list)
    deaf: int = 0  # how many requests yet to lose
    problems: dict[str, str] = field(default_factory=dict)  # what to text

    def overview(self) -> bytes:
        head = {
            "kind": "overview", "view": self.view, "title": self.title, "note": self.note,
            "value": "attention", "passes": 1, "palette": palettes(),
            "sides": [side.message() for side in self.sides],
            "difference": self.difference, "state": self.state,
            "neurons": self.neurons, "offline": False,
        }  # fmt: skip
        arrays = {f"thumbs{s}": pooled(side.maps) for s, side in enumerate(self.sides)}
        for s, side in enumerate(self.sides):
            if side.hidden is not None:
                arrays[f"hidden{s}"] = side.hidden
        return framed(head, arrays)

    def answer(self, sent: str) -> bytes | None:
        """The frame that answers a request message as JSON, or None where it is lost."""
        request = json.loads(sent)
        self.requests.append(request)
        if self.deaf > 0:
            self.deaf -= 1
            return None
        what = request["what"]
        head = {"id": request["id"], "view": self.view}
        if what in self.problems:
            return framed({**head, "kind": "problem", "text": self.problems[what]})
        if what == "overview":
            return self.overview()
        if what == "state":
            return framed({**head, "kind": "ok"})
        head |= {"row": request["row"], "column": request["column"], "kind": what}
        made = {
            "cell": self.cell, "exact": self.exact, "neurons": self.neurons_frame,
            "export": self.export,
        }[what]  # fmt: skip
        return made(head, request)

    def cell(self, head: dict[str, Any], request: dict[str, Any]) -> bytes:
        at = (request["row"], request["column"])
        maps = [side.quantized(*at) for side in self.sides]
        facts = f"layer {at[0]}, head {at[1]}: entropy 0.32"
        sides = [{"top": top, "drawn": self.drawn, "facts": facts} for top, _ in maps]
        arrays = {f"map{s}": array for s, (_, array) in enumerate(maps)}
        return framed({**head, "sides": sides}, arrays)

    def exact(self, head: dict[str, Any], request: dict[str, Any]) -> bytes:
        arrays = {}
        for s, side in enumerate(self.sides):
            one = side.maps[request["row"], request["column"]]
            if request["i"] < one.shape[0]:
                arrays[f"row{s}"] = one[request["i"]]
            if request["j"] < one.shape[1]:
                arrays[f"column{s}"] = one[:, request["j"]]
        return framed(head, arrays)

    def vectors(self, s: int) -> tuple[Floats, Floats]:
        rng = np.random.default_rng(s)
        query, key = rng.normal(size=(2, self.width)).astype(np.float32)
        return query, key

    def neurons_frame(self, head: dict[str, Any], request: dict[str, Any]) -> bytes:
        sides, arrays = [], {}
        for s, side in enumerate(self.sides):
            query, key = self.vectors(s)
            score = float(0.125 * (query @ key) + 0.25)
            weight = side.maps[request["row"], request["column"], request["i"], request["j"]]
            sides.append(
                {"score": score, "scale": 0.125, "rest": 0.25, "weight": float(weight), "why": ""}
            )
            arrays |= {f"query{s}": query, f"key{s}": key}
        return framed({**head, "sides": sides}, arrays)

    def export(self, head: dict[str, Any], request: dict[str, Any]) -> bytes:
        form = request["form"]
        file = np.frombuffer(f"a {form}".encode(), dtype=np.uint8)
        message = {"kind": "file", "name": f"attention.{form}", "type": f"text/{form}"}
        return framed({**head, **message}, {"file": file})
