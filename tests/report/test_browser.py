"""A report in a real browser, opened from disk: whole, calm, and asking nobody for anything."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest
from playwright.sync_api import Browser, Page

from tests.report.conftest import Look, Seen, opened
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
from workbench import Caveat
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


Shown = tuple[Page, Seen]


@pytest.fixture(scope="module")
def shown(report: Path, browser: Browser) -> Iterator[Shown]:
    """The report, opened once on a narrow dark screen."""
    with opened(browser, report, width=390, scheme="dark") as one:
        yield one


def turned(page: Page, scheme: Any, width: int) -> dict[str, Any]:
    """The facts of the page on another screen, once its figures have followed."""
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    ink = "> 128" if scheme == "dark" else "< 128"
    followed = f"f.broad === 0 && +f.ink.match(/[0-9]+/)[0] {ink}"
    page.wait_for_function(f"() => {{ const f = ({FACTS})(); return {followed} }}")
    facts: dict[str, Any] = page.evaluate(FACTS)
    return facts


def is_calm(report: Path, seen: Seen, facts: dict[str, Any], scheme: str, width: int) -> bool:
    """It is whole, readable and no wider than the screen, and sends no request."""
    assert seen.requests == [report.as_uri()]
    assert seen.console == [] and seen.dialogs == []
    assert facts["drawn"] == facts["plots"] > 8
    assert facts["wide"][0] <= facts["wide"][1] == width
    assert facts["broad"] == 0
    assert facts["low"] == []
    return (int(re.findall(r"\d+", facts["ink"])[0]) > 128) == (scheme == "dark")


def test_it_opens_from_disk_and_asks_for_nothing_else(report: Path, shown: Shown) -> None:
    page, seen = shown
    assert is_calm(report, seen, turned(page, "dark", 390), "dark", 390)


def test_figures_follow_when_the_page_turns_light_and_wide(report: Path, shown: Shown) -> None:
    page, seen = shown
    assert is_calm(report, seen, turned(page, "light", 1280), "light", 1280)


@pytest.mark.slow  # by day it is opened once, and then turned
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_is_so_on_every_screen(report: Path, look: Look, scheme: str, width: int) -> None:
    seen = look(report, FACTS, width=width, scheme=scheme, shot=f"report-{scheme}-{width}")
    assert is_calm(report, seen, seen.answer, scheme, width)


def test_without_scripts_all_tables_are_there(report: Path, look: Look) -> None:
    shown: list[tuple[int, bool]] = []

    def count(page: Any) -> None:
        tables = page.locator("table")
        shown.append((tables.count(), page.locator("noscript p").first.is_visible()))
        assert page.locator(".plot").first.is_hidden()

    seen = look(report, scripts=False, before=count, shot="report-without-scripts")
    assert seen.requests == [report.as_uri()]
    assert shown[0][0] > 15 and shown[0][1]


def test_printed_pages_show_every_figure_on_paper(shown: Shown) -> None:
    page, _ = shown
    turned(page, "dark", 1280)
    page.evaluate("""() => {
        window.widths = [];
        addEventListener('beforeprint', () => window.widths.push(
            ...[...document.querySelectorAll('.plot .main-svg')].map(s => s.clientWidth)));
    }""")
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
    assert set(page.evaluate("() => window.widths")) == {680}
    facts = turned(page, "dark", 1280)  # the screen is as before
    assert facts["wide"][0] <= 1280


def test_it_can_be_walked_by_keyboard(shown: Shown) -> None:
    page, _ = shown
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash === '#content'")


def hostile_report(folder: Path, **figures: go.Figure) -> Path:
    hostile = [*HOSTILE.values(), CONTROLS, LONG_WORD]
    run = made(
        folder,
        tables=words_and_sizes(hostile),
        figures=figures,
        caveats=[Caveat(text, ("words",)) for text in hostile],
    )
    return write_report([run], folder / "hostile.html")


def with_title(text: str) -> go.Figure:
    return bars(["a"], title=text)


def with_picture(address: str) -> go.Figure:
    return bars(["a"]).add_layout_image(source=address, x=0, y=1, sizex=1, sizey=1)


def with_map() -> go.Figure:
    return bars(["a"]).add_trace(go.Scattergeo(lat=[1], lon=[1]))


def test_hostile_figures_show_text_load_nothing_link_nowhere_and_run_nothing(
    tmp_path: Path, look: Look
) -> None:
    linking = "<a href='http://evil.example/'>x</a><img src='http://evil.example/i'>"
    report = hostile_report(
        tmp_path,
        words=bars(list(HOSTILE.values())),
        end=with_title(HOSTILE["end"]),
        markup=with_title(HOSTILE["markup"]),
        linking=with_title(linking),
        outside=with_picture("http://evil.example/i.png"),
        inside=with_picture("data:image/svg+xml,<svg onload='alert(1)'/>"),
        map=with_map(),
    )
    hovered: list[str] = []

    def hover(page: Page) -> None:
        names = page.locator(".plot", has_text=HOSTILE["script"])
        names.locator(".point path").first.hover(force=True)
        page.wait_for_selector(".hoverlayer text")
        hovered.extend(page.locator(".hoverlayer text").all_text_contents())

    facts = f"""() => ({{texts: ({TEXTS})(), links: document.querySelectorAll(
        '.main-svg a, .main-svg image[href]').length}})"""
    seen = look(report, facts, before=hover, shot="report-hostile")
    assert seen.dialogs == [] and seen.console == [] and len(seen.requests) == 1
    assert seen.answer["links"] == 0
    shown = "\n".join(seen.answer["texts"])
    for name in HOSTILE.values():
        text = name.replace("\n", "⟨U+000A⟩").replace("\t", "⟨U+0009⟩")
        assert text in shown, text
    assert any(HOSTILE["script"] in text for text in hovered)


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
