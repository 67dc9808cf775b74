"""The layout of a figure: from Plotly's JSON to shapes and words in pixels, without a browser.

Only scatter, bar and heat-map traces are known, and of Plotly's attributes those that the figures
here use. Panels keep the height that Plotly gives them; margins fit the texts. Of a figure with a
menu, the visible traces are drawn. Costs: about 20 ms per figure.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import getitem
from typing import Any

from plotly.colors import hex_to_rgb

from workbench.drawing.axes import (
    Axis,
    along,
    axes_of,
    cell_edges,
    error_of,
    is_flat,
    mode_of,
    nice_step,
    slot,
    tick_text,
)
from workbench.drawing.hover import Line, ValueOf, filled, formatted, lines, tip
from workbench.drawing.shapes import (
    DASHED,
    SIZE,
    SMALL,
    SPACING,
    STEPS,
    TYPES,
    Disc,
    Element,
    Look,
    Plain,
    Point,
    Scene,
    Shape,
    Words,
    block,
    colour_of,
    each,
    number,
    shortened,
    shown_traces,
    text_width,
    values,
    wrapped,
)
from workbench.drawing.theme import DASHES, MARKS

Trace = dict[str, Any]
WIDTH = 760.0  # default width in pixels
LONGEST = 0.4  # maximum share of the width for names on an axis
BAR, BESIDE = 12.0, 15.0  # pixels of a colour bar, and from the panels to it
GAP = 6.0  # pixels between an axis and its labels
TITLE = 15.0  # pixels of the title of a figure
NARROW, PANES = 500.0, 2  # a figure below this width has at most two panels in a row
EDGE = 20.0  # pixels of the right margin
SAMPLE = 26.0  # pixels of a line in the legend
HATCH = 9.0  # pixels between lines of a hatched bar


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top

    def has(self, x: float, y: float) -> bool:
        """Whether a point is inside, or at most half a pixel outside."""
        across = self.left - 0.5 <= x <= self.right + 0.5
        return across and self.top - 0.5 <= y <= self.bottom + 0.5

    def clamped(self, x: float, y: float) -> Point:
        """Return the nearest point inside."""
        return min(max(x, self.left), self.right), min(max(y, self.top), self.bottom)


def scene(plain: Plain, width: float = WIDTH, title: str = "", subtitle: str = "") -> Scene:
    """Return a figure laid out at this width, with a title and a subtitle above it if given."""
    return _Drawing(plain, width, title, subtitle).scene()


class _Drawing:
    """The state of one layout: axes and margins."""

    def __init__(self, plain: Plain, width: float, title: str, subtitle: str) -> None:
        self.layout: Plain = plain.get("layout") or {}
        self.traces = shown_traces(plain)
        if width < NARROW:
            self.layout = _narrowed(self.traces, self.layout)
        self.axes = axes_of(self.traces, self.layout)
        self.width = width
        self.head = [
            (line, size, colour)
            for text, size, is_bold, colour in (
                (title, TITLE, True, "ink"),
                (subtitle, SIZE, False, "faint"),
            )
            for line in wrapped(text, width - 16, size, is_bold)
        ]
        self.elements: list[Element] = []
        self.scales = self._scales()
        self.legend = self._legend()
        self._place()

    def scene(self) -> Scene:
        for pair in self.pairs:
            self._grid(*pair)
        for kind in TYPES:
            for trace in self.traces:
                if trace["type"] == kind:
                    getattr(self, f"_{kind}")(trace)
        self._shapes()
        for pair in self.pairs:
            self._labels(*pair)
        self._annotations()
        self._colour_bars()
        self._draw_legend()
        self._header()
        return Scene(self.width, self.height, self.elements)

    # --- margins ---

    def _place(self) -> None:
        """Compute the margins, and place all axes."""
        used = ((trace["xaxis"], trace["yaxis"]) for trace in self.traces)
        self.pairs = [(self.axes[x], self.axes[y]) for x, y in dict.fromkeys(used)]
        margin = self.layout.get("margin") or {}
        given_top, given_bottom = float(margin.get("t", 32)), float(margin.get("b", 8))
        height = float(self.layout.get("height") or 450)
        inner = max(40.0, height - given_top - max(given_bottom, 40))
        left, right = float(margin.get("l", 8)), EDGE
        for _ in range(2):  # the number of ticks depends on the size, and the size on their labels
            self._set(left, self.width - right, 0.0, inner)
            left = max(8.0, *(self._left_of(*pair, left) for pair in self.pairs), 0.0)
            right = max(EDGE, self._right_of(), *(self._bar_room(s) for s in self.scales.values()))
        self._set(left, self.width - right, 0.0, inner)
        self.angles = {x.name: self._angle(x) for x, _ in self.pairs}
        bottom = max([given_bottom, *(self._below(*pair, inner) for pair in self.pairs)])
        inner = max(40.0, height - given_top - bottom)
        self._set(left, self.width - right, 0.0, inner)
        self._constrain()
        header = sum(size * SPACING for _, size, _ in self.head) + (10 if self.head else 0)
        self.legend_rows = self._flow(left)
        top = header + max(8.0, self._above(inner))
        self._set(left, self.width - right, top, top + inner)
        self.height = top + inner + bottom

    def _set(self, left: float, right: float, top: float, bottom: float) -> None:
        self.area = Box(left, top, right, bottom)
        for axis in self.axes.values():
            low, high = axis.domain
            if axis.letter == "x":
                axis.start, axis.end = (left + end * (right - left) for end in (low, high))
            else:
                axis.start, axis.end = (bottom - end * (bottom - top) for end in (low, high))

    def _constrain(self) -> None:
        """Widen ranges so that a unit has the same length on both axes, if the figure says so."""
        for x, y in self.pairs:
            if "scaleanchor" not in x.look and "scaleanchor" not in y.look:
                continue
            scales = [axis.length / (abs(axis.high - axis.low) or 1) for axis in (x, y)]
            for axis, scale in zip((x, y), scales, strict=True):
                grown = (axis.high - axis.low) * (scale / min(scales) - 1) / 2
                axis.low, axis.high = axis.low - grown, axis.high + grown

    def _names(self, axis: Axis) -> list[tuple[float, Sequence[Line]]]:
        """Return places and texts of the labels of an axis."""
        if axis.look.get("showticklabels") is False:
            return []
        ticks = axis.ticks()
        most = LONGEST * self.width if axis.letter == "y" else 150.0
        places = sorted(axis.pixel(place) for place, _ in ticks)
        apart = min((b - a for a, b in pairwise(places)), default=axis.length)
        return [(place, _fitted(lines(text), most, apart, axis.letter)) for place, text in ticks]

    def _left_of(self, x: Axis, y: Axis, left: float) -> float:
        """Return the left margin that the labels of a y axis need."""
        if y.look.get("side") == "right":
            return 0.0
        names = [block(text, SMALL)[0] for _, text in self._names(y)]
        need = max(names, default=0.0) + GAP + 8 + (27 if y.title else 0)
        return need - (x.start - left)

    def _right_of(self) -> float:
        """Return the right margin that annotations next to panels need."""
        need = float((self.layout.get("margin") or {}).get("r", 16)) if not self._notes() else 16.0
        for note in self._notes():
            if note.get("xanchor") == "left" and note.get("x") == 1:
                size = float((note.get("font") or {}).get("size") or SIZE)
                reach = block(lines(str(note.get("text", ""))), size)[0]
                need = max(need, float(note.get("xshift") or 0) + reach + 6)
        return need

    def _notes(self) -> list[Plain]:
        return list(self.layout.get("annotations") or [])

    def _note_lines(self, note: Plain) -> list[Line]:
        """Return the text of an annotation; titles of narrow panels are wrapped."""
        words = [*lines(str(note.get("text", "")))]
        if note.get("yref") != "paper" or note.get("yanchor") != "bottom":
            return words
        panel = min((x.length for x, _ in self.pairs), default=self.width)
        size = float((note.get("font") or {}).get("size") or SIZE)
        is_narrow = panel < 0.6 * self.width and block(words, size)[0] > panel + 16
        return wrapped(" ".join(w.text for w in words), panel + 16, size) if is_narrow else words

    def _angle(self, axis: Axis) -> float:
        """Return the angle of the labels of an x axis: level if they have room."""
        given = axis.look.get("tickangle")
        if isinstance(given, int | float):
            return float(given)
        names = self._names(axis)
        if axis.kind != "category" or not names:
            return 0.0
        places = [axis.pixel(place) for place, _ in names]
        apart = min((abs(b - a) for a, b in pairwise(places)), default=axis.length + 20)
        if max(block(text, SMALL)[0] for _, text in names) <= apart - 4:
            return 0.0
        return -45.0 if apart >= 16 else -90.0

    def _deep(self, axis: Axis) -> float:
        """Return the height of the labels and the title of an x axis."""
        tilt = math.radians(abs(self.angles[axis.name]))
        sizes = [block(text, SMALL) for _, text in self._names(axis)]
        deep = max((w * math.sin(tilt) + h * math.cos(tilt) for w, h in sizes), default=0.0)
        return (deep + GAP if sizes else 4.0) + (22 if axis.title else 0) + 4

    def _below(self, x: Axis, y: Axis, inner: float) -> float:
        if x.look.get("side") == "top":
            return 8.0
        return self._deep(x) - y.domain[0] * inner

    def _above(self, inner: float) -> float:
        """Return the room above the panels for titles, labels and the legend."""
        needs = [8.0]
        for note in self._notes():
            if note.get("yref") == "paper" and note.get("yanchor") == "bottom":
                size = float((note.get("font") or {}).get("size") or SIZE)
                tall = block(self._note_lines(note), size)[1]
                needs.append((number(note.get("y")) - 1) * inner + tall + 4)
        for x, y in self.pairs:
            if x.look.get("side") == "top":
                needs.append(self._deep(x) - (1 - y.domain[1]) * inner)
        self.titles = max(needs)
        titles = (lines(scale.title) for scale in self.scales.values() if scale.title)
        needs.extend(8 + block(title, SMALL)[1] for title in titles)
        if self.legend_rows:
            self.titles = max(needs)
            needs.append(self.titles + 19 * len(self.legend_rows) + 4)
        self.over = max(needs)
        return self.over + (18 if self._shown_choice() else 0)

    def _shown_choice(self) -> str:
        """Return the label of the choice in the menu whose traces are drawn."""
        for menu in self.layout.get("updatemenus") or []:
            buttons = menu.get("buttons") or [{}]
            active = int(menu.get("active") or 0)
            return str(buttons[min(active, len(buttons) - 1)].get("label", ""))
        return ""

    def _panel(self, trace: Trace) -> tuple[Axis, Axis, Box]:
        x, y = self.axes[trace["xaxis"]], self.axes[trace["yaxis"]]
        return x, y, _box(x, y)

    # --- axes ---

    def _grid(self, x: Axis, y: Axis) -> None:
        box = _box(x, y)
        zeros = []
        for axis in (x, y):
            others = [t for t in axis.traces if t["type"] == "bar"]
            is_place = any((axis.letter == "x") != is_flat(trace) for trace in others)
            if not axis.is_visible:
                continue
            drawn = []
            for place, _ in axis.ticks():
                line = _across(axis, box, axis.pixel(place))
                if line is not None and axis.look.get("showgrid", not is_place) is not False:
                    drawn.append(line)
            if drawn:
                self.elements.append(Shape(drawn, Look(line="grid"), closed=False))
            has_zero = axis.kind == "linear" and axis.look.get("zeroline", True) is not False
            zero = _across(axis, box, axis.pixel(0.0)) if has_zero else None
            if zero is not None:
                zeros.append(zero)
        if zeros:
            self.elements.append(Shape(zeros, Look(line="axis"), closed=False))

    def _labels(self, x: Axis, y: Axis) -> None:
        box = _box(x, y)
        is_right = y.look.get("side") == "right"
        names = self._names(y)
        edge = box.right + GAP if is_right else box.left - GAP
        for place, text in names:
            at = y.pixel(place)
            if box.top - 1 <= at <= box.bottom + 1:
                across = "start" if is_right else "end"
                self.elements.append(Words(edge, at, text, "faint", SMALL, across))
        if y.title:
            widest = max((block(text, SMALL)[0] for _, text in names), default=0.0)
            middle = (box.top + box.bottom) / 2
            title = wrapped(" ".join(t for t, _ in lines(y.title)), max(box.height + 24, 90), SIZE)
            size = 0 if len(title) == 1 else (len(title) - 1) * SIZE * SPACING / 2
            at = edge - widest - 14 - size
            self.elements.append(Words(at, middle, title, "faint", SIZE, angle=-90.0))
        is_top = x.look.get("side") == "top"
        down = -1 if is_top else 1
        edge = (box.top if is_top else box.bottom) + GAP * down
        angle = self.angles[x.name]
        for place, text in self._names(x):
            at = x.pixel(place)
            if not box.left - 1 <= at <= box.right + 1:
                continue
            if angle:
                across = "end" if (angle < 0) != is_top else "start"
                shift = 4 * down
                words = Words(at, edge + shift, text, "faint", SMALL, across, "middle", angle)
            else:
                words = Words(
                    at, edge, text, "faint", SMALL, "middle", "bottom" if is_top else "top"
                )
            self.elements.append(words)
        if x.title:
            far = edge + (self._deep(x) - GAP - 6) * down
            up = "top" if is_top else "bottom"
            middle = (box.left + box.right) / 2
            self.elements.append(Words(middle, far, lines(x.title), "faint", SIZE, "middle", up))

    # --- scatter ---

    def _scatter(self, trace: Trace) -> None:
        x, y, box = self._panel(trace)
        mode, style = mode_of(trace), trace["style"]
        points = [
            (x.at(a), y.at(b)) for a, b in zip(along(trace, "x"), along(trace, "y"), strict=False)
        ]
        line, marker = trace.get("line") or {}, trace.get("marker") or {}
        colour = colour_of(line.get("color") or each(marker.get("color"), 0), trace["index"])
        opacity = number(trace.get("opacity", 1))
        is_free = trace.get("cliponaxis") is False
        if trace.get("fill") == "toself":
            paths = [[box.clamped(*point) for point in path] for path in _runs(points)]
            self.elements.append(Shape(paths, Look(colour_of(trace.get("fillcolor")))))
        width = float(line.get("width", 2))
        if "lines" in mode and width:
            dash = DASHED.get(str(line.get("dash") or DASHES[style % len(DASHES)]), ())
            paths = _runs(points)
            clipped = paths if is_free else [part for path in paths for part in _clipped(path, box)]
            last = max((n for n, point in enumerate(points) if _is_real(point)), default=0)
            words = "" if "markers" in mode else self._tip(trace, last)
            if clipped:
                look = Look(line=colour, width=width, dash=dash, opacity=opacity)
                self.elements.append(Shape(clipped, look, closed=False, tip=words))
        self._errors(trace, x, y, box, colour)
        for index, point in enumerate(points):
            if not _is_real(point) or not (is_free or box.has(*point)):
                continue
            if "markers" in mode:
                self._symbol(trace, index, point, colour, opacity)
            if "text" in mode:
                self._text(trace, index, point)

    def _symbol(self, trace: Trace, index: int, point: Point, colour: str, opacity: float) -> None:
        marker = trace.get("marker") or {}
        own = each(marker.get("color"), index)
        fill = self._marker_colour(marker, own) if own is not None else colour
        faded = number(each(marker.get("opacity"), index, 1.0))
        size = number(each(marker.get("size"), index, 7))
        name = str(each(marker.get("symbol"), index, MARKS[trace["style"] % len(MARKS)]))
        line = marker.get("line") or {}
        words = self._tip(trace, index)
        if faded == 0:  # receives the pointer
            if words:
                side = size / 2
                self.elements.append(Shape([_square(*point, side)], Look("none"), tip=words))
            return
        width = number(each(line.get("width"), index, 1.0 if "open" in name else 0.0))
        edge = each(line.get("color"), index)
        look = Look(fill, colour_of(edge) if edge else fill, width, opacity=opacity * faded)
        self.elements.append(symbol(name, *point, size / 2, look, words))

    def _marker_colour(self, marker: Plain, value: Any) -> str:
        if isinstance(value, str):
            return colour_of(value)
        axis = marker.get("coloraxis")
        scale = self.scales.get(str(axis))
        if scale is None:
            data = [number(v) for v in values(marker.get("color"))]
            scale = _Scale.of(marker, data, ("cmin", "cmax"))
        return scale.colour(number(value))

    def _text(self, trace: Trace, index: int, point: Point) -> None:
        template = each(trace.get("texttemplate"), index) or str(each(trace.get("text"), index, ""))
        text = filled(template, self._values(trace, index))
        if not text:
            return
        where = str(each(trace.get("textposition"), index, "middle center")).split()
        font = trace.get("textfont") or {}
        size = number(each(font.get("size"), index, SIZE))
        marker = number(each((trace.get("marker") or {}).get("size"), index, 7))
        off = marker / 2 + 3 if "markers" in mode_of(trace) else 0.0
        dx = {"left": -off, "right": off}.get(where[-1], 0.0)
        dy = {"top": -off, "bottom": off}.get(where[0], 0.0)
        across = {"left": "end", "right": "start"}.get(where[-1], "middle")
        up = {"top": "bottom", "bottom": "top"}.get(where[0], "middle")
        colour = each(font.get("color"), index)
        self.elements.append(
            Words(point[0] + dx, point[1] + dy, lines(text),
                  colour_of(colour) if colour else "ink", size, across, up)
        )  # fmt: skip

    def _errors(self, trace: Trace, x: Axis, y: Axis, box: Box, colour: str) -> None:
        """Draw error bars with their caps."""
        for letter in "xy":
            error = trace.get(f"error_{letter}") or {}
            if error.get("array") is None or error.get("visible") is False:
                continue
            cap = float(error.get("width", 4))
            paths: list[list[Point]] = []
            pairs = zip(along(trace, "x"), along(trace, "y"), strict=False)
            for index, (a, b) in enumerate(pairs):
                low, high = error_of(trace, letter, index)
                if not low and not high:
                    continue
                centre = (
                    x.at(a) + self._shift(trace, index, x),
                    y.at(b) + self._shift(trace, index, y),
                )
                if not _is_real(centre):
                    continue
                if letter == "x":
                    one, two = ((x.at(number(a) + d), centre[1]) for d in (-low, high))
                    caps = [[(px, py - cap), (px, py + cap)] for px, py in (one, two)]
                else:
                    one, two = ((centre[0], y.at(number(b) + d)) for d in (-low, high))
                    caps = [[(px - cap, py), (px + cap, py)] for px, py in (one, two)]
                if not all(map(_is_real, (one, two))):
                    continue
                for path in ([one, two], *caps):
                    paths += _clipped(path, box)
            if paths:
                line = colour_of(error["color"]) if error.get("color") else colour
                look = Look(line=line, width=float(error.get("thickness", 2)))
                self.elements.append(Shape(paths, look, closed=False))

    # --- bars ---

    def _bar(self, trace: Trace) -> None:
        x, y, box = self._panel(trace)
        place, value = (y, x) if is_flat(trace) else (x, y)
        marker = trace.get("marker") or {}
        first = each(marker.get("color"), 0)
        base = colour_of(first if isinstance(first, str) else None, trace["index"])
        sizes = [number(v) for v in along(trace, value.letter)]
        for index, size in enumerate(sizes):
            if not math.isfinite(size):
                continue
            centre, half = self._bar_place(trace, index, place)
            start = self._stacked(trace, index, place, value)
            one, two = value.pixel(value.unit(start)), value.pixel(value.unit(start + size))
            if not all(map(math.isfinite, (centre, one, two))):
                continue
            ends = (
                (min(one, two), centre - half, max(one, two), centre + half)
                if is_flat(trace)
                else (centre - half, min(one, two), centre + half, max(one, two))
            )
            cut = Box(*box.clamped(ends[0], ends[1]), *box.clamped(ends[2], ends[3]))
            own = each(marker.get("color"), index)
            fill = self._marker_colour(marker, own) if own is not None else base
            line = marker.get("line") or {}
            edge, width = each(line.get("color"), index), number(each(line.get("width"), index, 0))
            faded = number(each(marker.get("opacity"), index, 1.0)) * number(
                trace.get("opacity", 1)
            )
            words = self._tip(trace, index)
            pattern = each((marker.get("pattern") or {}).get("shape"), index, "")
            look = Look(fill, colour_of(edge) if edge and width else "", width, opacity=faded)
            if pattern:
                look = look._replace(fill="page", line=fill, width=1.0)
            self.elements.append(Shape([_corners(cut)], look, tip=words))
            if pattern:
                stripes = _hatched(cut)
                self.elements.append(Shape(stripes, Look(line=fill), closed=False))
            self._bar_text(trace, index, cut, two < one if is_flat(trace) else two > one)
        rim = each((marker.get("line") or {}).get("color"), 0)
        self._errors(trace, x, y, box, colour_of(rim) if rim else base)

    def _bar_place(self, trace: Trace, index: int, place: Axis) -> tuple[float, float]:
        """Return the centre of a bar along its axis, and half its width, in pixels."""
        same = [t for t in place.traces if t["type"] == "bar" and t["yaxis"] == trace["yaxis"]
                and t["xaxis"] == trace["xaxis"]]  # fmt: skip
        units = [place.unit(v) for t in same for v in along(t, place.letter)]
        room = slot(units)
        gap = number(self.layout.get("bargap", 0.25))
        whole = room * (1 - gap)
        mode = self.layout.get("barmode", "group")
        n = len(same) if mode == "group" else 1
        nth = same.index(trace) if mode == "group" else 0
        width = each(trace.get("width"), index)
        size = number(width) if width is not None else whole / n
        offset = 0.0 if n == 1 else (nth - (n - 1) / 2) * whole / n
        unit = place.unit(along(trace, place.letter)[index]) + offset
        per_unit = place.length / (abs(place.high - place.low) or 1)
        return place.pixel(unit), size * per_unit / 2

    def _shift(self, trace: Trace, index: int, axis: Axis) -> float:
        """Return the distance in pixels from a value to the centre of its bar."""
        if trace["type"] != "bar" or (axis.letter == "y") != is_flat(trace):
            return 0.0
        return self._bar_place(trace, index, axis)[0] - axis.at(along(trace, axis.letter)[index])

    def _stacked(self, trace: Trace, index: int, place: Axis, value: Axis) -> float:
        """Return where a bar of a stack begins."""
        if self.layout.get("barmode") not in ("stack", "relative"):
            return 0.0
        here = along(trace, place.letter)[index]
        size = number(along(trace, value.letter)[index])
        total = 0.0
        for other in value.traces:
            if other is trace:
                break
            if other["type"] == "bar" and other["xaxis"] == trace["xaxis"]:
                for at, length in zip(
                    along(other, place.letter), along(other, value.letter), strict=False
                ):
                    if at == here and (number(length) < 0) == (size < 0):
                        total += number(length)
        return total

    def _bar_text(self, trace: Trace, index: int, bar: Box, is_back: bool) -> None:
        template = each(trace.get("texttemplate"), index) or each(trace.get("text"), index)
        if template is None or trace.get("textposition") == "none":
            return
        text = lines(filled(str(template), self._values(trace, index)))
        middle = ((bar.left + bar.right) / 2, (bar.top + bar.bottom) / 2)
        if trace.get("textposition") == "inside":
            if block(text, SMALL)[0] < bar.width:
                self.elements.append(Words(*middle, text, "on-bar", SMALL))
        elif is_flat(trace):
            edge, across = (bar.left - 4, "end") if is_back else (bar.right + 4, "start")
            self.elements.append(Words(edge, middle[1], text, "ink", SMALL, across))
        else:
            edge, up = (bar.bottom + 3, "top") if is_back else (bar.top - 3, "bottom")
            self.elements.append(Words(middle[0], edge, text, "ink", SMALL, "middle", up))

    # --- heat maps ---

    def _heatmap(self, trace: Trace) -> None:
        x, y, box = self._panel(trace)
        columns, rows = ([a.unit(v) for v in along(trace, a.letter)] for a in (x, y))
        across = [x.pixel(edge) for edge in cell_edges(columns)]
        down = [y.pixel(edge) for edge in cell_edges(rows)]
        scale = self.scales[str(trace.get("coloraxis") or f"trace {trace['index']}")]
        gap_x, gap_y = (number(trace.get(name, 0)) / 2 for name in ("xgap", "ygap"))
        template = str(trace.get("texttemplate") or "")
        cells: list[tuple[str, Shape]] = []
        words: list[tuple[str, Box, str]] = []
        for row, line in enumerate(trace.get("z") or []):
            for column, z in enumerate(line):
                size = number(z)
                if not math.isfinite(size) or column >= len(columns) or row >= len(rows):
                    continue
                one, two = sorted((across[column], across[column + 1]))
                high, low = sorted((down[row], down[row + 1]))
                if not box.has((one + two) / 2, (high + low) / 2):
                    continue
                cell = Box(one + gap_x, high + gap_y, two - gap_x, low - gap_y)
                fill = scale.colour(size)
                shown = self._tip(trace, row, column)
                cells.append((fill, Shape([_corners(cell)], Look(fill), tip=shown)))
                if template:
                    text = filled(template, self._values(trace, row, column))
                    words.append((fill, cell, text))
        self.elements += [shape for _, shape in sorted(cells, key=lambda pair: pair[0])]
        self._cell_texts([each for each in words if each[2].strip()], trace)

    def _cell_texts(self, words: Sequence[tuple[str, Box, str]], trace: Trace) -> None:
        """Write in all cells in one size, if it is not too small."""
        if not words:
            return
        given = (trace.get("textfont") or {}).get("size")
        size = min(
            (
                min(
                    SIZE * cell.width * 0.94 / max(block(lines(text), SIZE)[0], 1),
                    cell.height / (SPACING * len(lines(text))),
                )
                for _, cell, text in words
            ),
        )
        size = number(given) if given else math.floor(min(size, SMALL) * 2) / 2
        if size < 9:
            return
        for fill, cell, text in sorted(words, key=lambda each: each[0]):
            middle = ((cell.left + cell.right) / 2, (cell.top + cell.bottom) / 2)
            self.elements.append(Words(*middle, lines(text), text_on(fill), size))

    # --- hover texts ---

    def _values(self, trace: Trace, index: int, column: int | None = None) -> ValueOf:
        """Return the function from the name of a field to its value and default format."""
        axes = self.axes[trace["xaxis"]], self.axes[trace["yaxis"]]

        def value_of(name: str) -> tuple[Any, str | None]:
            if name in ("x", "y"):
                axis = axes[name == "y"]
                at = index if column is None or name == "y" else column
                column_of = along(trace, name)
                return (column_of[at] if at < len(column_of) else ""), axis.look.get("tickformat")
            if name in ("fullData.name", "name"):
                return trace.get("name") or "", None
            data = trace.get(name)
            value: Any = each(data, index) if isinstance(data, list) else data
            if column is not None and isinstance(value, list):
                value = each(value, column)
            return value, None

        return value_of

    def _tip(self, trace: Trace, index: int, column: int | None = None) -> str:
        if trace.get("hoverinfo") == "skip":
            return ""
        template = each(trace.get("hovertemplate"), index)
        if template is None:
            template = "%{x}, %{y}: %{z}" if column is not None else "%{x}, %{y}"
        return tip(str(template), self._values(trace, index, column))

    # --- shapes and annotations ---

    def _x(self, value: Any, ref: str) -> float:
        if ref == "paper":
            return self.area.left + number(value) * self.area.width
        axis = self.axes.get(ref.split()[0])
        if axis is None:
            return math.nan
        if ref.endswith("domain"):
            return axis.start + number(value) * (axis.end - axis.start)
        if axis.kind == "log":
            return axis.pixel(number(value))
        return axis.at(value)

    def _y(self, value: Any, ref: str) -> float:
        if ref == "paper":
            return self.area.bottom - number(value) * self.area.height
        return self._x(value, ref)

    def _shapes(self) -> None:
        for shape in self.layout.get("shapes") or []:
            x_ref, y_ref = str(shape.get("xref", "x")), str(shape.get("yref", "y"))
            one = self._x(shape.get("x0"), x_ref), self._y(shape.get("y0"), y_ref)
            two = self._x(shape.get("x1"), x_ref), self._y(shape.get("y1"), y_ref)
            if not (_is_real(one) and _is_real(two)):
                continue
            line = shape.get("line") or {}
            dash = DASHED.get(str(line.get("dash", "solid")), ())
            colour = colour_of(line["color"]) if line.get("color") else "faint"
            look = Look("", colour, number(line.get("width", 2)), dash)
            if shape.get("type") == "line":
                self.elements.append(Shape([[one, two]], look, closed=False))
            elif shape.get("type") == "rect":
                fill = shape.get("fillcolor")
                faded = number(shape.get("opacity", 1))
                look = look._replace(fill=colour_of(fill) if fill else "", opacity=faded)
                self.elements.append(Shape([_corners(Box(*one, *two))], look))

    def _annotations(self) -> None:
        for note in self._notes():
            words = self._note_lines(note)
            font = note.get("font") or {}
            size = number(font.get("size", SIZE))
            x = self._x(note.get("x"), str(note.get("xref", "x"))) + number(note.get("xshift", 0))
            y = self._y(note.get("y"), str(note.get("yref", "y"))) - number(note.get("yshift", 0))
            if not _is_real((x, y)):
                continue
            across = {"left": "start", "right": "end"}.get(str(note.get("xanchor")), "middle")
            up = {"top": "top", "bottom": "bottom"}.get(str(note.get("yanchor")), "middle")
            colour = colour_of(font["color"]) if font.get("color") else "ink"
            self.elements.append(Words(x, y, words, colour, size, across, up))

    # --- colour scales ---

    def _scales(self) -> dict[str, "_Scale"]:
        """Return the colour scale of each heat map, and of each colour axis."""
        scales = {}
        for trace in self.traces:
            marker = trace.get("marker") or {}
            axis = trace.get("coloraxis") or marker.get("coloraxis")
            if axis:
                data = [
                    value
                    for t in self.traces
                    if axis in (t.get("coloraxis"), (t.get("marker") or {}).get("coloraxis"))
                    for value in _flat(t.get("z") or values((t.get("marker") or {}).get("color")))
                ]
                look = self.layout.get(str(axis)) or {}
                scales[str(axis)] = _Scale.of(look, data, ("cmin", "cmax"))
            elif trace["type"] == "heatmap":
                data = _flat(trace.get("z"))
                scales[f"trace {trace['index']}"] = _Scale.of(trace, data, ("zmin", "zmax"))
        return scales

    def _bar_room(self, scale: "_Scale") -> float:
        if not scale.is_shown:
            return 0.0
        names = [text_width(text, SMALL) for _, text in scale.ticks(200)]
        title = block(lines(scale.title), SMALL)[0]
        return BESIDE + max(BAR + 5 + max(names, default=0.0), title) + 8

    def _colour_bars(self) -> None:
        for scale in self.scales.values():
            if not scale.is_shown:
                continue
            left, top = self.area.right + BESIDE, self.area.top
            tall = min(self.area.height, 260.0)
            step = tall / STEPS
            for n in range(STEPS):
                value = scale.low + (STEPS - 0.5 - n) / STEPS * (scale.high - scale.low)
                box = Box(left, top + n * step, left + BAR, top + (n + 1) * step + 0.3)
                self.elements.append(Shape([_corners(box)], Look(scale.colour(value))))
            for value, text in scale.ticks(tall):
                y = top + tall * (1 - (value - scale.low) / ((scale.high - scale.low) or 1))
                words = [Line(text, False)]
                self.elements.append(Words(left + BAR + 5, y, words, "faint", SMALL, "start"))
            if scale.title:
                heading = lines(scale.title)
                self.elements.append(
                    Words(left, top - 8, heading, "faint", SMALL, "start", "bottom")
                )

    # --- legend and header ---

    def _legend(self) -> list[Trace]:
        """Return the traces of the legend."""
        entries, groups = [], set()
        for trace in self.traces:
            if trace["type"] == "heatmap" or not trace.get("name"):
                continue
            if trace.get("showlegend", True) is False or not along(trace, "x"):
                continue
            group = trace.get("legendgroup")
            if group and (group, trace["name"]) in groups:
                continue
            groups.add((group, trace["name"]))
            entries.append(trace)
        wanted = self.layout.get("showlegend")
        n_shown = sum(trace["type"] != "heatmap" for trace in self.traces)
        is_explicit = any(trace.get("showlegend") is True for trace in entries)
        if wanted is False or (wanted is None and n_shown < 2 and not is_explicit):
            return []
        return entries

    def _flow(self, left: float) -> list[list[tuple[float, Trace]]]:
        """Return the rows of the legend: the left end of each entry."""
        rows: list[list[tuple[float, Trace]]] = []
        at = math.inf
        for trace in self.legend:
            wide = SAMPLE + 8 + block(self._entry(trace), SIZE)[0] + 16
            if at + wide > self.width:
                rows.append([])
                at = min(left, 60.0)
            rows[-1].append((at, trace))
            at += wide
        return rows

    def _entry(self, trace: Trace) -> list[Line]:
        """Return the text of an entry of the legend."""
        most = self.width - SAMPLE - 80
        text = " ".join(line.text for line in lines(str(trace["name"])))
        return [Line(shortened(text, most, SIZE), False)]

    def _draw_legend(self) -> None:
        base = self.area.top - self.titles
        for n, row in enumerate(reversed(self.legend_rows)):
            y = base - 12 - 19 * n
            for x, trace in row:
                self._sample(trace, x, y)
                words = self._entry(trace)
                self.elements.append(Words(x + SAMPLE + 6, y, words, "ink", SIZE, "start"))

    def _sample(self, trace: Trace, x: float, y: float) -> None:
        marker, line = trace.get("marker") or {}, trace.get("line") or {}
        own = each(marker.get("color"), 0)
        own = own if isinstance(own, str) else None
        colour = colour_of(line.get("color") or own, trace["index"])
        middle = x + SAMPLE / 2
        if trace["type"] == "bar":
            box = Box(middle - 6, y - 6, middle + 6, y + 6)
            self.elements.append(Shape([_corners(box)], Look(colour)))
            return
        mode = mode_of(trace)
        if "lines" in mode and number(line.get("width", 2)):
            dash = DASHED.get(str(line.get("dash") or DASHES[trace["style"] % len(DASHES)]), ())
            look = Look(line=colour, width=number(line.get("width", 2)), dash=dash)
            self.elements.append(Shape([[(x, y), (x + SAMPLE, y)]], look, closed=False))
        if "markers" in mode:
            name = str(each(marker.get("symbol"), 0, MARKS[trace["style"] % len(MARKS)]))
            size = min(number(each(marker.get("size"), 0, 7)), 12.0)
            edge = marker.get("line") or {}
            width = number(each(edge.get("width"), 0, 1.0 if "open" in name else 0.0))
            fill = colour_of(own) if own else colour
            rim = each(edge.get("color"), 0)
            look = Look(fill, colour_of(rim) if rim else fill, width)
            self.elements.append(symbol(name, middle, y, size / 2, look))

    def _header(self) -> None:
        y = 2.0
        for line, size, colour in self.head:
            self.elements.append(Words(8.0, y, [line], colour, size, "start", "top"))
            y += size * SPACING
        if choice := self._shown_choice():
            words = [Line(line.text, True) for line in lines(choice)]
            at = self.area.top - self.over
            self.elements.append(Words(self.area.left, at, words, "ink", SIZE, "start", "bottom"))


# --- narrow figures -------------------------------------------------------------------------------


def _fitted(words: Sequence[Line], width: float, apart: float, letter: str) -> Sequence[Line]:
    """Return the label of a tick, wrapped or cut to a width."""
    if block(words, SMALL)[0] <= width:
        return words
    folded = wrapped(" ".join(line.text for line in words), width, SMALL)
    has_room = letter == "y" and block(folded, SMALL)[1] <= apart
    return [Line(shortened(t, width, SMALL), bold) for t, bold in (folded if has_room else words)]


def _narrowed(traces: Sequence[Trace], layout: Plain) -> Plain:
    """Return a layout with at most two panels in a row, and a legend for several columns."""
    used = dict.fromkeys((t.get("xaxis", "x"), t.get("yaxis", "y")) for t in traces)
    cells = [
        (pair, *(list((layout.get(_key(axis)) or {}).get("domain") or (0.0, 1.0)) for axis in pair))
        for pair in used
    ]
    cells.sort(key=lambda cell: (-cell[2][1], cell[1][0]))
    lefts = {round(cell[1][0], 3) for cell in cells}
    if len(lefts) < 2:
        return layout
    changed = dict(layout)
    notes = [
        note for note in layout.get("annotations") or []
        if not (note.get("xanchor") == "left" and str(note.get("xref", "")).endswith("domain"))
    ]  # fmt: skip
    if len(notes) < len(layout.get("annotations") or []):
        changed["showlegend"] = True
    tops = sorted({round(cell[2][1], 3) for cell in cells}, reverse=True)
    margin = layout.get("margin") or {}
    edges = float(margin.get("t", 32)) + float(margin.get("b", 8))
    inner = max(40.0, float(layout.get("height") or 450) - edges)
    tall = max(cell[2][1] - cell[2][0] for cell in cells) * inner
    gap = 64.0 if len(tops) < 2 else max(64.0, (tops[0] - tops[1]) * inner - tall)
    rows = -(-len(cells) // PANES)
    whole = rows * tall + (rows - 1) * gap
    titles = {
        letter: {
            str(
                ((layout.get(_key(cell[0]["xy".index(letter)])) or {}).get("title") or {}).get(
                    "text"
                )
            )
            for cell in cells
        }
        - {"None"}
        for letter in "xy"
    }
    moved: dict[tuple[float, float], tuple[float, float]] = {}
    for n, ((x, y), across, up) in enumerate(cells):
        row, column = divmod(n, PANES)
        new_x = [0.0, 0.42] if column == 0 else [0.58, 1.0]
        top = 1 - row * (tall + gap) / whole
        new_y = [top - tall / whole, top]
        moved[(round(sum(across) / 2, 3), round(up[1], 3))] = (sum(new_x) / 2, top)
        for name, domain, is_edge in (
            (x, new_x, n + PANES >= len(cells)),
            (y, new_y, column == 0),
        ):
            axis = {**(layout.get(_key(name)) or {}), "domain": domain}
            if len(titles[name[0]]) == 1:  # a common title
                axis["title"] = {"text": next(iter(titles[name[0]])) if is_edge else ""}
            changed[_key(name)] = axis
    changed["annotations"] = [
        {**note, **dict(zip("xy", moved.get(at, at), strict=True))}
        for note in notes
        for at in [(round(number(note.get("x")), 3), round(number(note.get("y")), 3))]
    ]
    changed["height"] = whole + edges
    return changed


def _key(axis: str) -> str:
    """Return the name of an axis in the layout."""
    return f"{axis[0]}axis{axis[1:]}"


# --- colour scales --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Scale:
    """A colour scale with its ends."""

    low: float
    high: float
    own: tuple[tuple[float, str], ...] = ()  # a scale of the figure; else one of the page
    title: str = ""
    form: str | None = None
    is_shown: bool = True

    @classmethod
    def of(cls, look: Plain, data: Sequence[float], names: tuple[str, str]) -> "_Scale":
        """Return the scale of a trace or a colour axis."""
        finite = [value for value in data if math.isfinite(value)] or [0.0, 1.0]
        low, high = (
            number(look.get(name)) if look.get(name) is not None else end
            for name, end in zip(names, (min(finite), max(finite)), strict=True)
        )
        own: tuple[tuple[float, str], ...] = ()
        if isinstance(look.get("colorscale"), list) and not look.get("autocolorscale"):
            own = tuple((number(at), str(colour)) for at, colour in look["colorscale"])
        bar = look.get("colorbar") or {}
        title = bar.get("title") or {}
        text = title.get("text") if isinstance(title, Mapping) else title
        is_shown = look.get("showscale", True) is not False
        return cls(low, high, own, str(text or ""), bar.get("tickformat"), is_shown)

    def colour(self, value: float) -> str:
        """Return the colour of a value, or the name of a step of the page's scale."""
        share = (value - self.low) / ((self.high - self.low) or 1)
        share = min(max(share if math.isfinite(share) else 0.0, 0.0), 1.0)
        if self.own:
            return _between(self.own, share)
        if self.low < 0 and self.high <= 0:
            return "grey-cell"  # not significant: see `primitives.heat_maps`
        return f"{'div' if self.low < 0 else 'seq'}-{min(int(share * STEPS), STEPS - 1):02d}"

    def ticks(self, tall: float) -> list[tuple[float, str]]:
        """Return values and texts of the ticks of the colour bar."""
        if self.high <= self.low:
            return [(self.low, tick_text(self.low, abs(self.low) / 10 or 1, self.form))]
        step, places = nice_step(self.high - self.low, max(2.0, tall / 36)), [0.0]
        while len(places) < 2:  # one label says nothing of the colours
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            places = [n * step for n in range(first, last + 1)]
            step = step if len(places) > 1 else nice_step(step, 2.5)
        return [(place, tick_text(place, step, self.form)) for place in places]


def _between(scale: Sequence[tuple[float, str]], share: float) -> str:
    """Return a colour of a figure's own scale."""
    for (low, one), (high, two) in pairwise(scale):
        if share <= high and (share >= low):
            if one == two or high == low or not (one.startswith("#") and two.startswith("#")):
                return one
            part = (share - low) / (high - low)
            pairs = zip(hex_to_rgb(one), hex_to_rgb(two), strict=True)
            return "#" + "".join(f"{round(a + part * (b - a)):02x}" for a, b in pairs)
    return scale[-1][1]


def text_on(fill: str) -> str:
    """Return the colour of text on a colour."""
    if fill.startswith(("seq-", "div-", "grey-")):
        return f"on-{fill}"
    if not fill.startswith("#"):
        return "ink"
    red, green, blue = hex_to_rgb(fill)
    return "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "#ffffff"


def _flat(data: Any) -> list[float]:
    return [
        number(value)
        for line in data or []
        for value in (line if isinstance(line, list) else [line])
    ]


# --- geometry -------------------------------------------------------------------------------------


def _box(x: Axis, y: Axis) -> Box:
    return Box(min(x.start, x.end), min(y.start, y.end), max(x.start, x.end), max(y.start, y.end))


def _is_real(point: Point) -> bool:
    return math.isfinite(point[0]) and math.isfinite(point[1])


def _across(axis: Axis, box: Box, at: float) -> list[Point] | None:
    """Return the line through a panel at a place of an axis, if it is inside."""
    if axis.letter == "x":
        return (
            [(at, box.top), (at, box.bottom)] if box.left - 0.5 <= at <= box.right + 0.5 else None
        )
    return [(box.left, at), (box.right, at)] if box.top - 0.5 <= at <= box.bottom + 0.5 else None


def _corners(box: Box) -> list[Point]:
    return [
        (box.left, box.top),
        (box.right, box.top),
        (box.right, box.bottom),
        (box.left, box.bottom),
    ]


def _square(x: float, y: float, half: float) -> list[Point]:
    return _corners(Box(x - half, y - half, x + half, y + half))


def _runs(points: Sequence[Point]) -> list[list[Point]]:
    """Return the parts of a line between missing points."""
    runs: list[list[Point]] = [[]]
    for point in points:
        if _is_real(point):
            runs[-1].append(point)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _clipped(path: Sequence[Point], box: Box) -> list[list[Point]]:
    """Return the parts of a line inside a box."""
    if all(box.has(*point) for point in path):
        return [list(path)] if len(path) > 1 else []
    parts: list[list[Point]] = []
    for one, two in pairwise(path):
        cut = _cut(one, two, box)
        if cut is None:
            continue
        if parts and parts[-1][-1] == cut[0]:
            parts[-1].append(cut[1])
        else:
            parts.append([*cut])
    return parts


def _cut(one: Point, two: Point, box: Box) -> tuple[Point, Point] | None:
    """Return the part of a segment inside a box (Liang and Barsky 1984)."""
    dx, dy = two[0] - one[0], two[1] - one[1]
    start, end = 0.0, 1.0
    for step, room in (
        (-dx, one[0] - box.left + 0.5),
        (dx, box.right + 0.5 - one[0]),
        (-dy, one[1] - box.top + 0.5),
        (dy, box.bottom + 0.5 - one[1]),
    ):
        if step == 0:
            if room < 0:
                return None
            continue
        at = room / step
        if step < 0:
            start = max(start, at)
        else:
            end = min(end, at)
    if start > end:
        return None
    first = one if start == 0 else (one[0] + start * dx, one[1] + start * dy)
    last = two if end == 1 else (one[0] + end * dx, one[1] + end * dy)
    return first, last


def _hatched(box: Box) -> list[list[Point]]:
    """Return the lines of a hatched bar."""
    first = math.floor((box.left + box.top) / HATCH)
    last = math.ceil((box.right + box.bottom) / HATCH)
    stripes = []
    for n in range(first, last + 1):
        total = n * HATCH  # x + y along the line
        far = box.width + box.height
        cut = _cut(
            (box.left - 1, total - box.left + 1), (box.left + far, total - box.left - far), box
        )
        if cut is not None:
            stripes.append([box.clamped(*cut[0]), box.clamped(*cut[1])])
    return stripes


# --- marks ----------------------------------------------------------------------------------------


def _round(corners: int, radius: float, turn: float = -90.0) -> list[Point]:
    angles = (math.radians(turn + 360 * n / corners) for n in range(corners))
    return [(radius * math.cos(angle), radius * math.sin(angle)) for angle in angles]


def _star() -> list[Point]:
    outer, inner = _round(5, 1.4), _round(5, 0.56, -54.0)
    return [point for pair in zip(outer, inner, strict=True) for point in pair]


_X = [(0.0, -0.5), (0.5, -1.0), (1.0, -0.5), (0.5, 0.0), (1.0, 0.5), (0.5, 1.0), (0.0, 0.5),
      (-0.5, 1.0), (-1.0, 0.5), (-0.5, 0.0), (-1.0, -0.5), (-0.5, -1.0)]  # fmt: skip
_CROSS = [(-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4), (0.4, 1.2),
          (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4)]  # fmt: skip
SYMBOLS: Mapping[str, Sequence[Point]] = {
    "square": _square(0, 0, 1),
    "diamond": _round(4, 1.3),
    "cross": _CROSS,
    "x": _X,
    "triangle-up": _round(3, 1.25),
    "triangle-down": _round(3, 1.25, 90.0),
    "triangle-left": _round(3, 1.25, 180.0),
    "triangle-right": _round(3, 1.25, 0.0),
    "pentagon": _round(5, 1.1),
    "hexagon": _round(6, 1.1, 0.0),
    "hexagon2": _round(6, 1.1),
    "star": _star(),
    "hourglass": [(-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0), (1.0, 1.0)],
}  # corners, for a radius of 1
THIN: Mapping[str, Sequence[Sequence[Point]]] = {
    "x-thin": [[(-1, -1), (1, 1)], [(-1, 1), (1, -1)]],
    "cross-thin": [[(0, -1.4), (0, 1.4)], [(-1.4, 0), (1.4, 0)]],
    "line-ns": [[(0, -1.4), (0, 1.4)]],
    "line-ew": [[(-1.4, 0), (1.4, 0)]],
}


def symbol(name: str, x: float, y: float, radius: float, look: Look, words: str = "") -> Element:
    """Return a mark; a name that ends in `-open` is hollow."""
    is_open = name.endswith(("-open", "-open-dot"))
    shape = name.removesuffix("-dot").removesuffix("-open")
    if shape in THIN:
        paths = [[(x + radius * a, y + radius * b) for a, b in line] for line in THIN[shape]]
        look = look._replace(fill="", line=look.line or look.fill, width=max(look.width, 1.0))
        return Shape(paths, look, closed=False, tip=words)
    if is_open:
        look = look._replace(fill="none", width=max(look.width, 1.0))
    elif not look.width:
        look = look._replace(line="")
    if shape not in SYMBOLS:
        return Disc(x, y, radius, look, words)
    corners = [(x + radius * a, y + radius * b) for a, b in SYMBOLS[shape]]
    return Shape([corners], look, tip=words)


# --- hover texts of Plotly ----------------------------------------------------------------------

_SHARE = re.compile(r"%\{(\w+)((?:\[\d+\])*):([^}]*%)\}")


def with_filled_shares(trace: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hover texts of a trace with shares as in prose, `97.9 %`; {} if it has none.

    Plotly has no such format. All else of the texts is left to it.
    """
    templates = trace.get("hovertemplate")
    if "%}" not in str(templates):
        return {}
    data = {name: values(trace.get(name)) for name in ("x", "y", "z", "customdata")}

    def share(field: re.Match[str], *place: int) -> str:
        value = reduce(getitem, (*place, *map(int, re.findall(r"\d+", field[2]))), data[field[1]])
        return formatted(value, field[3]).replace("%", " %")

    if trace.get("type") == "heatmap":
        first = next(_SHARE.finditer(str(templates)))
        cells = [[share(first, y, x) for x in range(len(row))] for y, row in enumerate(data["z"])]
        return {"hovertemplate": _SHARE.sub("%{hovertext}", str(templates)), "hovertext": cells}
    return {
        "hovertemplate": [
            _SHARE.sub(lambda field, at=mark: share(field, at), each(templates, mark))  # type: ignore[misc]
            for mark in range(len(data["x"]))
        ]
    }
