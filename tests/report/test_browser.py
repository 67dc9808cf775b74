"""A report in a real browser, opened from disk: whole, calm, and asking nobody for anything."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from playwright.sync_api import Browser, Page

from tests.report.conftest import Look, Seen, opened
from tests.report.making import (
    CONTROLS,
    HOSTILE,
    LONG_WORD,
    bars,
    described,
    found,
    made,
    words_and_sizes,
)
from workbench.experiment import Caveat
from workbench.report import write_report
from workbench.report.export import export_figure

pytestmark = pytest.mark.browser

FACTS = """() => ({
    figures: [...document.querySelectorAll('.drawing svg')].filter(
        s => s.getBoundingClientRect().width > 100).length,
    wide: [document.documentElement.scrollWidth, innerWidth],
    low: (() => {  // text whose contrast with the page or its card is below 4.5
        const parse = colour => (colour.match(/[\\d.]+/g) || []).map(Number);
        const light = colour => { const [r, g, b] = parse(colour).slice(0, 3).map(v => {
            v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
            return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
        const behind = node => { for (; node; node = node.parentElement) {
            const colour = getComputedStyle(node).backgroundColor;
            if (parse(colour)[3] !== 0) return colour; } return 'rgb(255,255,255)'; };
        return [...document.querySelectorAll(
            'h1,h2,h3,h4,h5,p,a,th,td,dt,dd,li,strong,summary,figcaption,pre,.faint')]
            .filter(n => !n.classList.contains('skip')).map(n => {
            const [a, b] = [light(getComputedStyle(n).color), light(behind(n))];
            return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), n.tagName]; })
            .filter(([contrast]) => contrast < 4.5); })(),
    ink: +getComputedStyle(document.querySelector('.drawing svg text')).fill.match(/[0-9]+/)[0],
    first: document.querySelector('figure .drawing').getBoundingClientRect().top,
})"""
TEXTS = "() => [...document.querySelectorAll('.main-svg text')].map(t => t.textContent)"
Shown = tuple[Page, Seen]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    claims = [found("Words are frequent.", figure="words"), found("Dogs are not.", "undecided")]
    runs = [
        described(folder),
        made(folder, figures={"words": bars(["the", "dog"])}, findings=claims),
        made(folder, tables=words_and_sizes(more=4), seed=1),
    ]
    return write_report(runs, folder / "report.html")


@pytest.fixture(scope="module")
def shown(report: Path, browser: Browser) -> Iterator[Shown]:
    """The report, opened once on a narrow dark screen."""
    with opened(browser, report, width=390, scheme="dark") as one:
        yield one


def is_calm(report: Path, shown: Shown, scheme: Any, width: int) -> bool:
    """It is whole, readable and no wider than the screen, and sends no request."""
    page, seen = shown
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    facts = page.evaluate(FACTS)
    assert seen.requests == [report.as_uri()]
    assert seen.console == [] and seen.dialogs == []
    assert facts["figures"] > 8
    assert facts["wide"][0] <= facts["wide"][1] == width
    assert facts["low"] == []
    return bool((facts["ink"] > 128) == (scheme == "dark"))


@pytest.mark.parametrize(
    ("scheme", "width"), [("dark", 390), ("light", 1280), ("light", 390), ("dark", 1280)]
)
def test_it_is_whole_and_readable_on_every_screen_and_asks_for_nothing_else(
    report: Path, shown: Shown, scheme: str, width: int
) -> None:
    assert is_calm(report, shown, scheme, width)


def test_marks_say_their_values_at_the_pointer_and_by_keyboard(shown: Shown) -> None:
    page, _ = shown
    figure, tip = page.locator("#run-2-figure-words .drawing"), page.locator(".tip")
    figure.locator("[data-tip]").first.hover(force=True)
    assert "the" in tip.inner_text()
    figure.focus()
    page.keyboard.press("End")
    assert "dog" in tip.inner_text()
    page.keyboard.press("Home")
    assert "the" in tip.inner_text()
    page.keyboard.press("Escape")
    assert tip.is_hidden()


def test_it_can_be_walked_by_keyboard(report: Path, shown: Shown) -> None:
    page, _ = shown
    page.goto(report.as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash === '#content'")


def test_printed_pages_are_dark_on_white(shown: Shown) -> None:
    page, _ = shown
    page.emulate_media(media="print", color_scheme="dark")
    facts = page.evaluate(FACTS)
    page.emulate_media(media="screen")
    assert facts["ink"] < 128 and facts["low"] == []


def test_all_figures_and_tables_are_there_before_any_script_runs(report: Path) -> None:
    page = report.read_text("utf-8")
    assert page.count("<table") > 15 and page.count('class="drawing') > 8
    assert page.count("<svg") > 8 and "<noscript" not in page


@pytest.mark.slow  # by day the test above has what the file has
def test_without_scripts_all_figures_and_tables_are_there(report: Path, look: Look) -> None:
    there: list[int] = []

    def count(page: Any) -> None:
        page.locator("summary").first.click()  # tables open without scripts
        there.extend([page.locator("table").count(), page.locator(".drawing svg").count()])
        there.append(page.locator("details[open] td").first.is_visible())

    seen = look(report, scripts=False, before=count, shot="report-without-scripts")
    assert seen.requests == [report.as_uri()]
    assert there[0] > 15 and there[1] > 8 and there[2]


def test_the_first_finding_and_the_main_figure_are_on_the_first_screen(
    tmp_path: Path, look: Look
) -> None:
    claims = [found(f"Finding {n} has {'many ' * 20} words.", figure="words") for n in range(7)]
    run = made(tmp_path, figures={"words": bars(["the"])}, findings=claims)
    report = write_report([run], tmp_path / "report.html")
    seen = look(report, FACTS)
    assert seen.answer["first"] < 450


def hostile(folder: Path, figure: go.Figure) -> Any:
    names = [*HOSTILE.values(), CONTROLS, LONG_WORD]
    return made(
        folder,
        tables=words_and_sizes(names),
        figures={"words": figure},
        caveats=[Caveat(text, ("words",)) for text in names],
        findings=[found(f"{text}.", figure="words", measure=text) for text in HOSTILE.values()],
    )


def test_hostile_text_shows_as_text_loads_nothing_links_nowhere_and_runs_nothing(
    tmp_path: Path, look: Look
) -> None:
    run = hostile(tmp_path, bars(list(HOSTILE.values()), title=HOSTILE["end"]))
    report = write_report([run], tmp_path / "hostile.html", notes="\n\n".join(HOSTILE.values()))
    tips: list[str] = []

    def hover(page: Page) -> None:
        page.locator(".drawing [data-tip]").first.hover(force=True)
        tips.append(page.locator(".tip").inner_text())

    facts = """() => ({
        texts: [...document.querySelectorAll('.drawing text')].map(t => t.textContent),
        links: document.querySelectorAll('svg a, svg image, svg foreignObject, svg script').length
    })"""
    seen = look(report, facts, before=hover, shot="report-hostile")
    assert seen.dialogs == [] and seen.console == [] and len(seen.requests) == 1
    assert seen.answer["links"] == 0
    assert HOSTILE["script"] in "\n".join(seen.answer["texts"])
    assert HOSTILE["script"] in tips[0]


def every_kind(names: list[str], n: int) -> go.Figure:
    """A figure with traces of `n` kinds, hostile names, and all that would be loaded."""
    figure = bars(names, title=f"{HOSTILE['end']}<a href='http://evil.example/'>x</a>")
    figure.add_traces(
        [
            go.Heatmap(z=[[1, 2], [3, 4]], xaxis="x2", yaxis="y2"),
            go.Scatter(x=[1, 2], y=[3, 4], name="row"),
            go.Table(
                header={"values": ["a"]}, cells={"values": [["<b>1</b>"]]}, domain={"x": [0.6, 1]}
            ),
            go.Scattergl(x=[1, 2], y=[1, 2], mode="markers"),
            go.Box(y=[1, 2, 3]),
            go.Violin(y=[1, 2, 3, 4]),
            go.Treemap(labels=["a", "b"], parents=["", "a"], domain={"x": [0, 0.3]}),
            go.Sankey(
                node={"label": ["a", "b"]},
                link={"source": [0], "target": [1], "value": [1]},
                domain={"x": [0.3, 0.6]},
            ),
            go.Scattergeo(lat=[1], lon=[1]),
        ][:n]
    )
    for source in ("http://evil.example/i.png", "data:image/svg+xml,<svg onload='alert(1)'/>"):
        figure.add_layout_image(source=source, x=0, y=1, sizex=1, sizey=1)
    return figure


@pytest.mark.parametrize("n_kinds", [3, pytest.param(9, marks=pytest.mark.slow)])
def test_an_exported_figure_is_a_page_of_its_own_with_text_as_text(
    tmp_path: Path, look: Look, n_kinds: int
) -> None:
    run = hostile(tmp_path, every_kind(list(HOSTILE.values()), n_kinds))
    page = export_figure(run, "words", tmp_path / "words.html")
    facts = f"""() => ({{
        texts: ({TEXTS})(), wide: document.documentElement.scrollWidth,
        links: document.querySelectorAll('.main-svg a, .main-svg image[href]').length
    }})"""
    seen = look(page, facts, width=390, scheme="dark", shot="figure-390")
    assert seen.requests == [page.as_uri()] and seen.console == [] and seen.dialogs == []
    assert seen.answer["links"] == 0 and seen.answer["wide"] <= 390
    shown = "\n".join(seen.answer["texts"])
    for name in HOSTILE.values():
        assert name.replace("\n", "⟨U+000A⟩").replace("\t", "⟨U+0009⟩") in shown, name
    report = write_report([run], tmp_path / "report.html").read_text()
    assert f"workbench export {run.name} words --out words.html" in report  # no SVG of all that
