"""What objects show in a notebook: HTML with a text twin, that harms and disturbs nothing."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from playwright.sync_api import Browser
from spacy.tokens import Doc

import workbench as wb
from tests.night import mostly
from tests.report.making import HOSTILE, bars, found, made
from workbench.core.findings import Findings
from workbench.corpora.layers import vocabulary
from workbench.report import notebook
from workbench.runs.status import Failure

EVIL = "".join(HOSTILE.values())
LARGEST = 2_000_000  # characters of any display


@cache
def model(name: str) -> wb.Model:
    return wb.load(f"mini:{name}", device="cpu")


@cache
def heads() -> wb.Run:
    return wb.open_run("built-in/heads-mini-bert")


SHOWN: dict[str, Callable[[], Any]] = {
    "model": lambda: model("t5"),
    "corpus": lambda: wb.read("primer"),
    "run": heads,
    "findings": lambda: heads().findings,
    "finding": lambda: heads().findings[0],
    "tables": lambda: heads().tables,
    "attribution": lambda: wb.attribute(model("bert"), "Ben [MASK] to the hill."),
    "lens": lambda: wb.lens(model("gpt"), "Ben walks to the hill."),
    "contributions": lambda: wb.contributions(model("gpt"), "Ben walks to the hill.", word=4),
    "patching": lambda: wb.patch(model("gpt"), "The girls", "The girl", "were", "was"),
    "choices": lambda: wb.predict(model("gpt"), "Ben walks to the"),
    "written": lambda: wb.generate(model("gpt"), "Ben walks", max_pieces=3),
    "tokenizations": lambda: wb.tokenizations("Ben unlocks it.", "mini:bert", "mini:gpt"),
    "steps": lambda: wb.tokenizations("Ben unlocks it.", "mini:gpt").steps("unlocks"),
}


@cache
def shown(name: str) -> Any:
    return SHOWN[name]()


@cache
def html_of_shown(name: str) -> str:
    """Its display, made once; `html_of` makes another."""
    return html_of(shown(name))


BY_DAY = [  # others are results, as the lens is
    name
    for name in SHOWN
    if name not in ("attribution", "contributions", "patching", "choices", "written")
]
TWINS = {  # what the text says, and the HTML too
    "model": "1,142,656",
    "corpus": "primer",
    "findings": "of 16 heads",
    "attribution": "leave-one-out",
    "choices": "Ben walks to the",
    "tokenizations": "unlocks",
}
OPTIONAL = {"th", "td", "tr", "thead", "tbody", "li", "p", "dt", "dd"}  # end tags may be left out
VOID = {"img", "br", "meta", "link", "input"}


class Parsed(HTMLParser):
    """The elements of a display, its text, and end tags that close nothing."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.style, self.open, self.wrong = "", "", list[str](), list[str]()
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID | OPTIONAL:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag in OPTIONAL:
            return
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            self.style += data
        elif not self.open or self.open[-1] != "script":
            self.text += data

    @property
    def ids(self) -> list[str]:
        return [str(attributes["id"]) for _, attributes in self.tags if "id" in attributes]


def html_of(item: Any) -> str:
    html: str | None = item._repr_html_()
    assert html is not None
    return html


@pytest.mark.parametrize("name", mostly(SHOWN, *BY_DAY))
def test_a_display_is_whole_html_of_bounded_size_that_loads_nothing(name: str) -> None:
    html = html_of_shown(name)
    parsed = Parsed(html)
    assert parsed.wrong == [] and parsed.open == []
    assert len(html) < LARGEST / 10
    assert {tag for tag, _ in parsed.tags} & {"iframe", "link", "object", "embed"} == set()
    loaded = [
        value
        for _, attributes in parsed.tags
        for key, value in attributes.items()
        if key in ("src", "href", "xlink:href", "srcset")
    ]
    assert all(str(value).startswith(("#", "data:")) for value in loaded)
    assert "url(" not in parsed.style and "@import" not in parsed.style


@pytest.mark.parametrize("name", mostly(TWINS, *(name for name in TWINS if name in BY_DAY)))
def test_the_text_twin_says_what_the_display_says(name: str) -> None:
    assert TWINS[name] in repr(shown(name))
    assert TWINS[name] in Parsed(html_of_shown(name)).text


@pytest.mark.parametrize("name", mostly(SHOWN, "model", "corpus", "lens", "tokenizations"))
def test_ids_are_of_one_display(name: str) -> None:
    first, second = Parsed(html_of_shown(name)).ids, Parsed(html_of(shown(name))).ids
    assert len({*first, *second}) == len(first) + len(second) >= 2


def selectors(css: str) -> Iterator[str]:
    """The selectors of a style's outermost rules."""
    depth, start = 0, 0
    for at, sign in enumerate(re.sub(r"/\*.*?\*/", lambda c: " " * len(c[0]), css, flags=re.S)):
        if sign == "{":
            if not depth:
                yield re.sub(r"/\*.*?\*/", "", css[start:at], flags=re.S).strip()
            depth += 1
        elif sign == "}":
            depth -= 1
            start = at + 1
    assert depth == 0


def test_the_style_applies_to_displays_only() -> None:
    outermost = list(selectors(Parsed(html_of_shown("run")).style))
    assert len(outermost) > 2
    assert all(each.endswith(".workbench.workbench") for each in outermost)


def test_a_model_says_what_it_suits() -> None:
    suits = {name: Parsed(html_of(model(name))).text for name in ("bert", "elmo")}
    assert "lens" in suits["bert"] and "head-ablation" in suits["bert"]
    assert "edge-probing" in suits["elmo"] and "head-ablation" not in suits["elmo"]
    assert "masked pieces" in suits["bert"]


def test_a_run_shows_its_verdict_its_figure_and_its_tables() -> None:
    html = html_of_shown("run")
    parsed = Parsed(html)
    assert heads().findings[0].claim.split(",")[0] in parsed.text.replace("\xa0", " ")
    assert "svg" in [tag for tag, _ in parsed.tags]
    assert "data-tip=" in html and "figureTips" in html
    assert sum(tag == "details" for tag, _ in parsed.tags) >= len(heads().tables)


def test_a_comparison_says_which_runs_its_letters_are(tmp_path: Path) -> None:
    runs = [made(tmp_path, settings={"words": words}) for words in (5, 6)]
    compared = wb.compare(*runs)
    text = Parsed(html_of(compared)).text
    for letter, run in zip("AB", runs, strict=True):
        assert f"{letter}: {run.name}" in repr(compared)
        assert re.search(rf"\b{letter}\s*{run.name}", text)


def test_a_piece_in_brackets_stands_as_it_is() -> None:
    choices = shown("lens").choices["choice"]
    piece = next(choice for choice in choices if choice.startswith("<"))
    text = Parsed(html_of_shown("lens")).text
    assert piece in text and "&lt;" not in text


def test_a_run_that_is_not_done_says_so(tmp_path: Path) -> None:
    failure = Failure("no corpus.", remedy="Name one.", kind="input")
    text = Parsed(html_of(made(tmp_path, state="failed", failure=failure))).text
    assert "failed" in text and "no corpus. Name one." in text


def hostile_doc() -> Doc:
    words = [word for text in HOSTILE.values() for word in text.split()][:12]
    return Doc(
        vocabulary("en"), words=words, heads=[0] * 12, deps=[EVIL] * 12, pos=["X"] * 12,
        ents=["B-</mark><script>alert(1)</script>"] + ["O"] * 11,
    )  # fmt: skip


def test_no_text_becomes_markup(tmp_path: Path) -> None:
    doc = hostile_doc()
    table = pd.DataFrame({EVIL: [EVIL], "n": [1.0]})
    run = made(
        tmp_path, findings=[found(f"It is {EVIL}."[:300] + ".")], figures={"words": bars([EVIL])}
    )

    class Named:
        notes = (EVIL,)

        def __init__(self) -> None:
            self.table = table

        def figure(self) -> go.Figure:
            return bars([EVIL])

        def __repr__(self) -> str:
            return EVIL

    corpus = wb.Corpus(EVIL, {"test": lambda: iter([doc])}, notes=(EVIL,))
    displays = {
        "run": html_of(run),
        "findings": html_of(Findings(run.findings)),
        "corpus": html_of(corpus),
        "result": notebook.result(Named()),
    }
    for name, html in displays.items():
        parsed = Parsed(html)
        assert parsed.wrong == [] and parsed.open == [], name
        assert sum(tag == "script" for tag, _ in parsed.tags) <= 1, name
        assert not [a for _, found in parsed.tags for a in found if a.startswith("on")], name
        assert not {tag for tag, _ in parsed.tags} & {"img", "a", "b", "iframe"}, name
        assert "alert" in parsed.text, name


@pytest.mark.parametrize(
    ("side", "large", "more"),
    [
        (40, 40_000, "1,580"),
        pytest.param(100, notebook.LARGE, "9,980", marks=pytest.mark.slow),
    ],
)
def test_a_large_figure_is_a_picture_and_a_long_table_is_cut(
    side: int, large: int, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook, "LARGE", large)
    values = np.random.default_rng(0).random((side, side))
    table = pd.DataFrame({"value": values.ravel()})
    figure = go.Figure(go.Heatmap(z=values, hovertemplate="%{x} %{y} %{z}"))
    item = SimpleNamespace(table=table, notes=(), figure=lambda: figure)
    html = notebook.result(item)
    tags = [tag for tag, _ in Parsed(html).tags]
    assert len(html) < LARGEST
    assert "img" in tags and "svg" not in tags
    assert "shown as a picture" in html and f"{more} more rows" in html


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_the_page_decides_for_light_or_dark_and_marks_say_their_values(
    browser: Browser, tmp_path: Path, scheme: str
) -> None:
    cards = [html_of_shown("run"), html_of_shown("lens")]
    page = browser.new_page(color_scheme="dark" if scheme == "light" else "light")
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    is_light = "true" if scheme == "light" else "false"
    file = tmp_path / "page.html"
    file.write_text(
        f'<!doctype html><meta charset="utf-8"><body data-jp-theme-light="{is_light}">'
        f"<h1>Title</h1>{''.join(cards)}"
    )
    page.goto(file.as_uri())
    ink, outside = (
        page.eval_on_selector(place, "node => getComputedStyle(node).color")
        for place in (".workbench .name", "h1")
    )
    assert ink == ("rgb(29, 39, 51)" if scheme == "light" else "rgb(227, 232, 238)")
    assert outside == "rgb(0, 0, 0)"
    shown_cards = page.locator(".workbench")
    mark = shown_cards.nth(1).locator("[data-tip]").nth(20)
    mark.scroll_into_view_if_needed()
    mark.hover()
    tips = page.locator(".workbench .tip.shown")
    assert tips.count() == 1
    assert tips.inner_text() == mark.get_attribute("data-tip")
    assert shown_cards.nth(0).locator(".tip.shown").count() == 0
    assert errors == []
    page.close()
