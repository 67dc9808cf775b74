"""A report in a real browser, opened from disk: whole, calm, and asking nobody for anything."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest

from tests.report.conftest import Look
from tests.report.making import (
    CONTROLS,
    COUNTS,
    HOSTILE,
    LONG_WORD,
    bars,
    described,
    made,
    words_and_sizes,
)
from workbench.core.experiment import Caveat
from workbench.report import write_report
from workbench.report.export import export_figure

pytestmark = pytest.mark.browser

FACTS = """() => ({
    plots: document.querySelectorAll('.plot').length,
    drawn: [...document.querySelectorAll('.plot')].filter(p => p.querySelector('.main-svg')).length,
    wide: [document.documentElement.scrollWidth, innerWidth],
    broad: [...document.querySelectorAll('.plot')].filter(
        p => p.getBoundingClientRect().right > innerWidth + 1).length,
    low: (() => {  // text whose contrast with the page or its card is below 4.5
        const parse = colour => (colour.match(/[\\d.]+/g) || []).map(Number);
        const light = colour => { const [r, g, b] = parse(colour).slice(0, 3).map(v => {
            v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
            return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
        const behind = node => { for (; node; node = node.parentElement) {
            const colour = getComputedStyle(node).backgroundColor;
            if (parse(colour)[3] !== 0) return colour; } return 'rgb(255,255,255)'; };
        return [...document.querySelectorAll('h1,h2,h3,h4,p,a,th,td,dt,dd,summary,figcaption,pre')]
            .filter(n => !n.classList.contains('skip')).map(n => {
            const [a, b] = [light(getComputedStyle(n).color), light(behind(n))];
            return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), n.tagName]; })
            .filter(([contrast]) => contrast < 4.5); })(),
    ink: getComputedStyle(document.querySelector('.plot .xtick text')).fill,
})"""
TEXTS = "() => [...document.querySelectorAll('.main-svg text')].map(t => t.textContent)"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    runs = [
        described(folder),
        made(folder, figures={"words": bars(["the", "dog"])}),
        made(folder, tables=words_and_sizes(more=4), seed=1),
    ]
    return write_report(runs, folder / "report.html")


@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("light", 1280),
        ("dark", 390),
        pytest.param("dark", 1280, marks=pytest.mark.slow),
        pytest.param("light", 390, marks=pytest.mark.slow),
    ],
)
def test_it_opens_from_disk_and_asks_for_nothing_else(
    report: Path, look: Look, scheme: str, width: int
) -> None:
    seen = look(report, FACTS, width=width, scheme=scheme, shot=f"report-{scheme}-{width}")
    assert seen.requests == [report.as_uri()]
    assert seen.console == [] and seen.dialogs == []
    assert seen.answer["drawn"] == seen.answer["plots"] > 8
    assert seen.answer["wide"][0] <= seen.answer["wide"][1] == width
    assert seen.answer["broad"] == 0
    assert seen.answer["low"] == []
    red = int(re.findall(r"\d+", seen.answer["ink"])[0])
    assert red > 128 if scheme == "dark" else red < 128


def test_figures_follow_when_the_page_turns_dark(report: Path, look: Look) -> None:
    def turn(page: Any) -> None:
        page.emulate_media(color_scheme="dark")
        page.wait_for_function(f"() => ({FACTS})().ink !== 'rgb(85, 97, 111)'")

    seen = look(report, FACTS, before=turn)
    assert int(re.findall(r"\d+", seen.answer["ink"])[0]) > 128


def test_without_scripts_all_tables_are_there(report: Path, look: Look) -> None:
    shown: list[tuple[int, bool]] = []

    def count(page: Any) -> None:
        tables = page.locator("table")
        shown.append((tables.count(), page.locator("noscript p").first.is_visible()))
        assert page.locator(".plot").first.is_hidden()

    seen = look(report, scripts=False, before=count, shot="report-without-scripts")
    assert seen.requests == [report.as_uri()]
    assert shown[0][0] > 15 and shown[0][1]


def test_printed_pages_show_every_figure_on_paper(report: Path, look: Look) -> None:
    prints = """() => {
        window.widths = [];
        addEventListener('beforeprint', () => window.widths.push(
            ...[...document.querySelectorAll('.plot .main-svg')].map(s => s.clientWidth)));
    }"""
    inks: list[Any] = []

    def watch(page: Any) -> None:
        page.evaluate(prints)
        page.pdf(prefer_css_page_size=True)
        inks.append(page.evaluate("() => window.widths"))

    seen = look(report, FACTS, scheme="dark", before=watch, pdf=True)
    assert inks[0] and set(inks[0]) == {680}
    assert seen.pdf.startswith(b"%PDF")
    assert seen.answer["wide"][0] <= 1280 and int(re.findall(r"\d+", seen.answer["ink"])[0]) > 128


def hostile_report(folder: Path, figure: go.Figure) -> Path:
    hostile = [*HOSTILE.values(), CONTROLS, LONG_WORD]
    run = made(
        folder,
        tables=words_and_sizes(hostile),
        figures={"words": figure},
        caveats=[Caveat(text, ("words",)) for text in hostile],
    )
    return write_report([run], folder / "hostile.html")


def test_hostile_text_shows_as_text_in_figures_too(tmp_path: Path, look: Look) -> None:
    names = list(HOSTILE.values())
    seen = look(hostile_report(tmp_path, bars(names)), TEXTS, shot="report-hostile", width=390)
    assert seen.dialogs == [] and seen.console == [] and len(seen.requests) == 1
    shown = "\n".join(seen.answer)
    for name in names:
        text = name.replace("\n", "⟨U+000A⟩").replace("\t", "⟨U+0009⟩")
        assert text in shown, text


def test_hovering_shows_hostile_text_as_text(tmp_path: Path, look: Look) -> None:
    names = [HOSTILE["script"], HOSTILE["markup"]]

    def hover(page: Any) -> None:
        page.locator(".plot .point").first.hover(force=True)
        page.wait_for_selector(".hoverlayer text")

    texts = "() => [...document.querySelectorAll('.hoverlayer text')].map(t => t.textContent)"
    seen = look(hostile_report(tmp_path, bars(names)), texts, before=hover)
    assert any(HOSTILE["script"] in text for text in seen.answer)


def with_title(text: str) -> go.Figure:
    return bars(["a"], title=text)


def with_picture(address: str) -> go.Figure:
    return bars(["a"]).add_layout_image(source=address, x=0, y=1, sizex=1, sizey=1)


def with_map(_: str) -> go.Figure:
    return bars(["a"]).add_trace(go.Scattergeo(lat=[1], lon=[1]))


@pytest.mark.parametrize(
    ("draw", "given"),
    [
        (with_title, HOSTILE["end"]),
        pytest.param(with_title, HOSTILE["markup"], marks=pytest.mark.slow),
        pytest.param(
            with_title,
            "<a href='http://evil.example/'>x</a><img src='http://evil.example/i'>",
            marks=pytest.mark.slow,
        ),
        pytest.param(with_picture, "http://evil.example/i.png", marks=pytest.mark.slow),
        (with_picture, "data:image/svg+xml,<svg onload='alert(1)'/>"),
        (with_map, ""),
    ],
)
def test_a_hostile_figure_loads_nothing_links_nowhere_and_runs_nothing(
    tmp_path: Path, look: Look, draw: Callable[[str], go.Figure], given: str
) -> None:
    links = "() => document.querySelectorAll('.main-svg a, .main-svg image[href]').length"
    seen = look(hostile_report(tmp_path, draw(given)), links)
    assert seen.answer == 0
    assert seen.dialogs == [] and seen.console == [] and len(seen.requests) == 1


def test_many_kinds_of_figures_are_drawn_under_the_pages_policy(tmp_path: Path, look: Look) -> None:
    numbers = [[1, 2], [3, 4]]
    figures = {
        "heat": go.Figure(go.Heatmap(z=numbers)),
        "line": go.Figure([go.Scatter(x=[1, 2], y=row, name="row") for row in numbers]),
        "box": go.Figure(go.Box(y=[1, 2, 3])),
        "tree": go.Figure(go.Treemap(labels=["a", "b"], parents=["", "a"])),
        "flow": go.Figure(
            go.Sankey(node={"label": ["a", "b"]}, link={"source": [0], "target": [1], "value": [1]})
        ),
        "table": go.Figure(go.Table(header={"values": ["a"]}, cells={"values": [["<b>1</b>"]]})),
        "points": go.Figure(go.Scattergl(x=[1, 2], y=[1, 2], mode="markers")),
        "violin": go.Figure(go.Violin(y=[1, 2, 3, 4])),
    }
    tables = {"words": (pd.DataFrame({"word": ["a"]}), COUNTS)}
    run = made(tmp_path, figures=figures, tables=tables)
    report = write_report([run], tmp_path / "report.html")
    seen = look(report, FACTS, shot="report-kinds")
    assert seen.answer["drawn"] == len(figures) and seen.console == []


@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.slow), 390])
def test_an_exported_figure_is_a_page_of_its_own(tmp_path: Path, look: Look, width: int) -> None:
    page = export_figure(described(tmp_path), "relations", tmp_path / "relations.html")
    seen = look(page, FACTS, width=width, scheme="dark", shot=f"figure-{width}")
    assert seen.requests == [page.as_uri()] and seen.console == []
    assert seen.answer["drawn"] == 1 and seen.answer["wide"][0] <= width


def test_it_can_be_walked_by_keyboard(report: Path, look: Look) -> None:
    def walk(page: Any) -> None:
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        page.wait_for_function("() => location.hash === '#content'")

    look(report, before=walk)
