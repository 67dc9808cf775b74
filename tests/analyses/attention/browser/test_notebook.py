"""The browser in a notebook: what an output stores, its size, and the line to the kernel."""

import base64
import json
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect
from spacy.tokens import Doc

import workbench as wb
from tests.minis import shared
from workbench import Model
from workbench.analyses.attention.browser.notebook import MAX_OUTPUT, MISSING, View, html, line_to
from workbench.analyses.attention.capture import AttentionMaps
from workbench.analyses.attention.maps_of_text import Source, Text
from workbench.analyses.predictions.results import TopChoices
from workbench.corpora.layers import vocabulary
from workbench.engine.taps import Site
from workbench.report.html import as_json

TEXT = "The old dog sees Mary in the park."
EVIL = "</script><img/src=x/onerror=alert(1)>"


@pytest.fixture(scope="module")
def bert() -> Model:
    return shared("mini:bert")


@pytest.fixture
def maps(bert: Model) -> AttentionMaps:
    return wb.attention(bert, TEXT)


def large(bert: Model, layers: int = 6, heads: int = 9, pieces: int = 200) -> AttentionMaps:
    """Maps of a larger model than there is here, with random weights that do not pack."""
    words = [f"w{n}" for n in range(pieces)]
    text = Text(tuple(words), tuple(range(pieces)), (False,) * pieces, tuple(words))
    each = np.random.default_rng(0).random((layers, heads, pieces, pieces))
    each /= each.sum(-1, keepdims=True)
    sites = [Site(layer, "encoder", "self", layer, heads, heads) for layer in range(layers)]
    doc = Doc(vocabulary("en"), words=words)
    maps = {site: each[layer].astype(np.float32) for layer, site in enumerate(sites)}
    return AttentionMaps(
        "large", "large", "fp32", {"encoder": text}, maps, {}, {}, 0, 0, Source(bert, doc)
    )


@pytest.fixture(scope="module")
def large_output(bert: Model) -> str:
    return html(large(bert))


def parts(output: str) -> tuple[list[dict[str, Any]], list[bytes]]:
    """The heads of the stored messages of an output, and the messages."""
    call = re.search(r"\nnotebookBrowser\((.*)\);\n", output)
    assert call is not None
    stored = json.loads(f"[{call[1]}]")[2]
    frames = [base64.b64decode(text) for *_, text in stored]
    heads = [json.loads(f[4 : 4 + int.from_bytes(f[:4], "little")]) for f in frames]
    return heads, frames


def test_a_short_text_has_all_its_maps_exactly(maps: AttentionMaps) -> None:
    (overview,), (frame,) = parts(html(maps))
    header = overview["arrays"]["maps0"]
    length = int.from_bytes(frame[:4], "little")
    part = frame[4 + length + header["at"] :][: header["size"]]
    stored = np.frombuffer(zlib.decompress(part) if header["packed"] else part, "<f4")
    stored = stored.reshape(header["shape"])
    grid = maps.grid()
    for row, column, shown in grid.each():
        assert np.array_equal(stored[row * len(grid.columns) + column], shown)


def test_a_large_grid_stays_within_two_megabytes_and_says_what_is_missing(
    large_output: str,
) -> None:
    output = large_output
    heads, _ = parts(output)
    cells = {(head["row"], head["column"]) for head in heads[1:]}
    assert len(output) <= MAX_OUTPUT == 2_000_000
    assert heads[0]["kind"] == "overview" and len(heads[0]["sides"][0]["tops"]) == 6
    assert tuple(heads[0]["state"]["cell"]) in cells
    assert 5 < len(cells) < 54
    assert f"{len(cells):,} of 54 heads open without a kernel" in output
    assert as_json(MISSING) in output, "which the browser says of the others"


def test_fewer_layers_are_all_there(bert: Model) -> None:
    maps = large(bert, layers=3, heads=3, pieces=120)
    output = html(maps.grid(layers=[0, 2]))
    assert len(parts(output)[0]) in (1, 1 + 6)
    assert "open without a kernel" not in output


def test_no_token_and_no_name_becomes_markup(bert: Model, maps: AttentionMaps) -> None:
    text = maps.texts["encoder"]
    evil = replace(text, pieces=(EVIL, *text.pieces[1:]), words=(EVIL, *text.words[1:]))
    doc = Doc(vocabulary("en"), words=[EVIL, "b"])
    shown = html(
        replace(maps, model=EVIL, texts={"encoder": evil}, id="evil", source=Source(bert, doc))
    )
    before_script, *rest = shown.split("<script>")
    assert len(rest) == 1 and rest[0].count("</script>") == 1 and "<img" not in shown
    assert "&lt;img" in before_script


def test_every_output_has_an_id_of_its_own(maps: AttentionMaps) -> None:
    ids = [re.findall(r'id="([^"]+)"', html(maps)) for _ in range(3)]
    assert [len(each) for each in ids] == [1, 1, 1]
    assert len({each[0] for each in ids}) == 3


def test_the_text_twin_is_one_line(maps: AttentionMaps) -> None:
    assert repr(maps).startswith("<AttentionMaps mini:bert")
    assert repr(maps.compare(maps.grid())) == "<Compared 2 grids: mini:bert, mini:bert>"


# --- the line to the kernel -----------------------------------------------------------------------


def request(view: View, what: str, **more: Any) -> dict[str, Any]:
    return {"id": 1, "view": view.scene.id, "what": what, "state": view.state, **more}


def head_of(frame: bytes) -> dict[str, Any]:
    head: dict[str, Any] = json.loads(frame[4 : 4 + int.from_bytes(frame[:4], "little")])
    return head


def test_what_is_pinned_comes_back(maps: AttentionMaps) -> None:
    view = maps.view
    pin = {"i": 2, "j": 3, "axis": "row"}
    state = {**view.state, "cell": [1, 2], "also": [[0, 1]], "pin": pin}
    assert head_of(view.respond(request(view, "state") | {"state": state}))["kind"] == "ok"
    chosen = maps.selection
    assert chosen is not None
    site = next(site for site in maps.maps if site.layer == 1)
    assert (chosen.layer, chosen.head, chosen.heads) == (1, 2, ((1, 2), (0, 1)))
    assert chosen.weight == pytest.approx(float(maps.maps[site][2, 2, 3]))
    assert (chosen.query_token, chosen.key_token) == maps.texts["encoder"].pieces[2:4]
    assert chosen.text == TEXT


@pytest.mark.parametrize(
    ("how", "text", "after"),
    [
        ("replace", "cat", "The old cat sees Mary in the park."),
        ("delete", "", "The old sees Mary in the park."),
        ("swap", "", "The old sees dog Mary in the park."),
        ("mask", "", "The old [MASK] sees Mary in the park."),
    ],
)
def test_an_edit_gives_the_maps_of_the_new_text(
    bert: Model, maps: AttentionMaps, how: str, text: str, after: str
) -> None:
    view = maps.view
    old = view.scene.id
    answer = head_of(view.respond(request(view, "edit", word=2, how=how, text=text)))
    assert answer["kind"] == "overview" and answer["view"] == view.scene.id != old
    side = answer["sides"][0]
    assert side["caption"] == after
    grid = wb.attention(bert, after).grid()
    assert np.array_equal(view.grids[0].map(1, 1), grid.map(1, 1))
    assert side["changed"], "the heads that changed most"
    assert maps.grid().sides.rows.names != view.grids[0].sides.rows.names  # the maps stay


def test_both_sides_of_one_text_are_edited(maps: AttentionMaps) -> None:
    gpt = shared("mini:gpt")
    one, other = maps.compare(wb.attention(gpt, TEXT)), maps.compare(wb.attention(gpt, "A cat."))
    for compared, second in ((one, "The old cat sees Mary in the park."), (other, "A cat.")):
        view = compared.view
        answer = head_of(view.respond(request(view, "edit", word=2, how="replace", text="cat")))
        assert [side["caption"] for side in answer["sides"]] == [
            "The old cat sees Mary in the park.",
            second,
        ]


@pytest.mark.parametrize(
    ("name", "text", "word", "hide"),
    [
        ("bert", "The girls [MASK] tall.", 2, None),
        ("bert", "The girls [MASK] tall.", 3, 3),
        ("gpt", "Ben walks to the hill.", 4, 4),
        ("gpt", "Ben walks to the", 4, None),
    ],
)
def test_a_word_is_predicted(name: str, text: str, word: int, hide: int | None) -> None:
    model = shared(f"mini:{name}")
    view = wb.attention(model, text).view
    predicts = view.scene.sides[0].predicts
    assert predicts is not None and word in predicts.places
    answer = head_of(view.respond(request(view, "predict", word=word)))
    expected = (
        wb.predict(model, text)
        if hide is None
        else wb.fill(model, view.grids[0].look.source.doc, hide=hide)
    )
    assert isinstance(expected, TopChoices)
    assert answer["kind"] == "predict", answer.get("text")
    shown = [(choice.text, choice.probability) for choice in expected.places[0].choices]
    assert [tuple(choice) for choice in answer["choices"]] == shown


def test_a_request_that_does_not_fit_is_answered(maps: AttentionMaps) -> None:
    view = maps.view
    wrong = head_of(view.respond(request(view, "edit", word=99, how="replace", text="x")))
    assert wrong["kind"] == "problem" and "no word '99'" in wrong["text"]
    assert head_of(view.respond({"view": "older", "what": "cell"}))["kind"] == "overview"
    assert head_of(view.respond({"what": None}))["kind"] == "overview"


def test_the_widget_carries_messages(maps: AttentionMaps) -> None:
    pytest.importorskip("anywidget")
    line = line_to(maps.view, "place")
    sent: list[bytes] = []
    line.send = lambda content, buffers: sent.extend(buffers)
    line._handle_custom_msg(request(maps.view, "cell", row=1, column=1), [])
    line._handle_custom_msg("nonsense", [])
    (answer,) = map(head_of, sent)
    assert (answer["kind"], answer["row"], answer["column"]) == ("cell", 1, 1)
    assert line.place == "place" and "workbenchLines" in line._esm


# --- in a page ------------------------------------------------------------------------------------

Opened = tuple[Page, list[str], list[str]]


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Callable[..., Opened]:
    """Open outputs as an exported notebook has them, offline."""

    def page_of(*outputs: str) -> Opened:
        page = browser.new_context(offline=True).new_page()
        said: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        file = tmp_path / "notebook.html"
        file.write_text(f'<!doctype html><meta charset="utf-8"><body>{"".join(outputs)}')
        page.goto(file.as_uri())
        page.wait_for_function(
            "n => [...document.querySelectorAll('[id^=workbench]')].filter((place) => "
            "place.shadowRoot?.querySelector('.attention[data-painted]')).length === n",
            arg=len(outputs),
        )
        return page, said, [url for url in asked if not url.startswith(("data:", "blob:", "file:"))]

    return page_of


@pytest.mark.browser
def test_offline_one_can_hover_and_pin_and_outputs_do_not_disturb_one_another(
    opened: Callable[..., Opened], maps: AttentionMaps
) -> None:
    outputs = html(maps), html(maps.grid(unit="words", special="hidden"))
    page, said, asked = opened(
        *(f'<div style="background:#111111">{output}</div>' for output in outputs)
    )
    first, second = (page.locator("[id^=workbench]").nth(n) for n in (0, 1))
    assert first.locator(".attention").get_attribute("data-scheme") == "dark"
    first.get_by_role("button", name="Map").click()
    panel = first.locator(".map .pane svg").first
    panel.hover(position={"x": 30, "y": 30})
    expect(first.locator(".tip")).to_be_visible()
    panel.click(position={"x": 30, "y": 30})
    expect(first.locator("aside.pinned")).to_contain_text("attends to")
    expect(second.locator("aside.pinned")).not_to_contain_text("attends to")
    assert second.locator(".tip").is_hidden()
    before = second.locator(".attention").get_attribute("data-cell")
    first.locator("canvas.heads").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(first.locator(".attention")).not_to_have_attribute("data-cell", "0,0")
    assert second.locator(".attention").get_attribute("data-cell") == before
    assert said == [] and asked == []
    page.context.close()


@pytest.mark.slow  # by day, the page that stands alone says so
@pytest.mark.browser
def test_a_head_that_is_not_stored_says_how_to_get_it(
    opened: Callable[..., Opened], large_output: str
) -> None:
    page, said, _ = opened(large_output)
    page.locator("canvas.heads").focus()
    for _ in range(40):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator(".problem")).to_contain_text(MISSING.partition(".")[0])
    assert said == []
    page.context.close()


@pytest.mark.browser
def test_with_a_kernel_a_word_is_edited_in_place(
    opened: Callable[..., Opened], maps: AttentionMaps
) -> None:
    page, said, _ = opened(html(maps))

    def kernel(text: str) -> str:
        return base64.b64encode(maps.view.respond(json.loads(text))).decode()

    page.expose_function("kernel", kernel)
    page.evaluate(
        """() => {
          const [line] = Object.values(window.workbenchLines);
          line.send = async (request) => line.take(Uint8Array.from(
            atob(await window.kernel(JSON.stringify(request))), (sign) => sign.charCodeAt(0)));
          line.opened();
        }"""
    )
    page.get_by_role("button", name="Map").click()
    page.locator(".map .pane svg").first.click(position={"x": 70, "y": 70})
    page.get_by_role("button", name=re.compile("^Edit")).click()
    page.get_by_label("Replacement").fill("hill")
    page.get_by_role("button", name="Replace").click()
    expect(page.locator(".work")).to_contain_text("change")
    assert "hill" in maps.view.scene.sides[0].caption
    assert maps.selection is not None and "hill" in maps.selection.text
    assert said == []
    page.context.close()


@pytest.mark.slow  # by day, that of two outputs has dark ones, and that of frames light ones
@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_page(
    opened: Callable[..., Opened], maps: AttentionMaps, scheme: Any
) -> None:
    background = "#111111" if scheme == "dark" else "#ffffff"
    page, _, _ = opened(f'<div style="background:{background}">{html(maps)}</div>')
    assert page.locator(".attention").get_attribute("data-scheme") == scheme
    page.context.close()


@pytest.mark.browser
def test_a_frame_grows_with_its_output_which_has_the_scheme_of_the_page(
    browser: Browser, maps: AttentionMaps
) -> None:
    page = browser.new_page(color_scheme="dark")
    held = f'<iframe width="900" height="400" srcdoc="{escape(html(maps))}"></iframe>'
    other = held.replace('srcdoc="', 'srcdoc="&lt;p&gt;A page of its own.&lt;/p&gt;&lt;main&gt;')
    page.set_content(f'<body style="background:#ffffff">{held}{other}')
    for frame in page.frames[1:]:
        frame.wait_for_selector(".attention[data-painted][data-scheme=light]")
    heights = "() => [...document.querySelectorAll('iframe')].map((frame) => frame.offsetHeight)"
    page.wait_for_function(f"() => ({heights})()[0] > 500")
    whole = page.frames[1].evaluate("document.documentElement.scrollHeight")
    first, second = page.evaluate(heights)
    assert abs(first - whole) < 30 and second < 420  # a page around the output has its own height
    page.close()
