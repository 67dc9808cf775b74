"""Colours that everyone can tell apart, on light, on dark and on paper."""

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from workbench.drawing.theme import (
    BASELINE,
    COLOURS,
    CONTROL,
    EITHER,
    FAINT,
    INK,
    MANY,
    MODEL,
    PAPER,
    SCALE,
    SERIES,
    TUNED,
    Kind,
    template,
)

KINDS: tuple[Kind, ...] = ("light", "dark", "print")
EYES = {  # after Machado, Oliveira and Fernandes 2009, on linear RGB
    "all colours": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
               [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                 [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour: str) -> NDArray[np.float64]:
    rgb = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(light: NDArray[np.float64]) -> NDArray[np.float64]:
    x, y, z = TO_XYZ @ np.clip(light, 0, 1) / np.array([0.95047, 1, 1.08883])
    fx, fy, fz = (np.cbrt(v) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return np.array([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])


def contrast(one: str, other: str) -> float:
    dark, light = sorted(float((TO_XYZ @ linear(colour))[1]) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("kind", KINDS)
def test_series_are_distinguishable(kind: Kind, eyes: str) -> None:
    seen = [lab(np.array(EYES[eyes]) @ linear(colour)) for colour in COLOURS[kind]]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 20


@pytest.mark.parametrize("kind", KINDS)
def test_marks_and_words_stand_out_from_the_page(kind: Kind) -> None:
    assert all(contrast(colour, PAPER[kind]) >= 3 for colour in (*COLOURS[kind], EITHER))
    assert all(contrast(words[kind], PAPER[kind]) >= 4.5 for words in (INK, FAINT))


@pytest.mark.parametrize("kind", KINDS)
def test_scales_go_one_way_from_the_page_to_its_opposite(kind: Kind) -> None:
    steps = [contrast(colour, PAPER[kind]) for colour in SCALE[kind]]
    assert steps == sorted(steps) and steps[-1] > 7


@pytest.mark.parametrize("kind", KINDS)
def test_only_system_fonts_are_used(kind: Kind) -> None:
    assert "http" not in str(template(kind).to_plotly_json())


def test_series_differ_by_more_than_colour() -> None:
    looks = template("print").to_plotly_json()["data"]
    assert len({trace["line"]["dash"] for trace in looks["scatter"]}) == 6
    assert len({trace["marker"]["symbol"] for trace in looks["scatter"]}) == 6
    assert len({str(trace["marker"].get("pattern")) for trace in looks["bar"]}) == 6


@pytest.mark.parametrize("eyes", EYES)
def test_many_kinds_are_distinguishable_on_any_page(eyes: str) -> None:
    seen = [lab(np.array(EYES[eyes]) @ linear(colour)) for colour in MANY]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 20
    assert all(contrast(colour, PAPER[kind]) >= 2.2 for colour in MANY for kind in KINDS)


@pytest.mark.parametrize("eyes", EYES)
def test_colours_with_a_meaning_are_distinguishable_on_any_page(eyes: str) -> None:
    def nearest(colours: tuple[str, ...]) -> float:
        seen = [lab(np.array(EYES[eyes]) @ linear(colour)) for colour in colours]
        return float(min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)))

    assert nearest((MODEL, TUNED, BASELINE)) > 20 and nearest((MODEL, TUNED, CONTROL)) > 20
    assert nearest(SERIES) > 20 and nearest((BASELINE, CONTROL)) > 12
    colours = (*SERIES, BASELINE, CONTROL)
    assert all(contrast(colour, PAPER[kind]) >= 3 for colour in colours for kind in KINDS)
