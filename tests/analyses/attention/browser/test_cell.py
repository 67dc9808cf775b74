"""One head opened: values, masks, pins, lines, overlays, query and key."""

import json
import re

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.analyses.attention.browser.conftest import Show, Shown
from tests.analyses.attention.browser.making import HOSTILE, ODD, Side, World, softmaxed, words
from workbench.analyses.attention.browser.frames import framed

pytestmark = pytest.mark.browser

TOKENS = words(8)
PIXELS = """async (image) => {
    const picture = new Image(); picture.src = image.getAttribute('href'); await picture.decode();
    const canvas = document.createElement('canvas');
    canvas.width = picture.width; canvas.height = picture.height;
    const pen = canvas.getContext('2d'); pen.drawImage(picture, 0, 0);
    return [picture.height, picture.width,
        [...pen.getImageData(0, 0, picture.width, picture.height).data]];
}"""
DEPENDENCIES = {
    "name": "dependencies", "about": "", "pairs": [[1, 0, "nsubj"], [5, 2, "obj"]],
    "spans": [[2, 4, "PERSON"]],
}  # fmt: skip


def small(state: dict[str, object] | None = None, **more: object) -> World:
    world = World([Side(softmaxed((3, 4), 8, 8), TOKENS, **more)])  # type: ignore[arg-type]
    world.state = state or world.state
    return world


def pixels(shown: Shown) -> np.ndarray:
    height, width, flat = shown.page.locator(".map image.cells").first.evaluate(PIXELS)
    return np.array(flat, dtype=np.uint8).reshape(height, width, 4)


def number(text: str) -> float:
    found = re.search(r"(−?\+?\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?: ±.*)?$", text.strip())
    assert found, text
    return float(found[1].replace("−", "-").replace("+", ""))


def test_colours_follow_the_values_and_the_scheme(show: Show) -> None:
    shown = show(World([Side(np.eye(8, dtype=np.float32)[None, None], TOKENS)]))
    shown.open(0, 0)
    seen = pixels(shown)
    on = np.eye(8, dtype=bool)
    assert (seen[on][:, :3] == [0x0B, 0x3C, 0x66]).all()
    assert (seen[~on][:, :3] == [0xE8, 0xF1, 0xF8]).all()
    expect(shown.page.locator(".legend")).to_contain_text("1.000")
    shown.page.evaluate("() => document.documentElement.classList.add('dark')")
    shown.page.wait_for_selector(".attention[data-scheme=dark]")
    seen = pixels(shown)
    assert seen[0, 0, :3].tolist() == [0xE1, 0xF0, 0xFB]
    assert seen[0, 1, :3].tolist() == [0x1D, 0x2A, 0x36]


def test_masked_cells_are_not_there_which_is_not_zero(show: Show) -> None:
    maps = softmaxed((1, 1), 8, 8, causal=True)
    maps[0, 0, 5, 2] = 0
    shown = show(World([Side(maps, TOKENS, causal=True, shift=1)]))
    shown.open(0, 0)
    seen = pixels(shown)
    masked = np.triu(np.ones((8, 8), dtype=bool), 1)
    assert (seen[masked][:, 3] == 0).all() and (seen[~masked][:, 3] == 255).all()
    assert "masked" in shown.hover(2, 6)
    assert shown.hover(5, 2).endswith("0.000")
    expect(shown.page.locator(".legend")).to_contain_text("masked")
    shown.click(2, 6)
    assert shown.requests_for("exact") == []


def test_what_a_prediction_order_hides_is_not_there(show: Show) -> None:
    hidden = np.random.default_rng(0).random((8, 8)) < 0.5
    maps = softmaxed((1, 1), 8, 8)
    shown = show(World([Side(maps, TOKENS, hidden=hidden.astype(np.uint8))]))
    shown.open(0, 0)
    seen = pixels(shown)
    assert (seen[hidden][:, 3] == 0).all() and (seen[~hidden][:, 3] == 255).all()
    i, j = np.argwhere(hidden)[0]
    assert "hidden by the order" in shown.hover(int(i), int(j))
    expect(shown.page.locator(".legend")).to_contain_text("masked")


def test_hover_is_within_a_255th_and_a_click_is_exact(show: Show) -> None:
    shown = show(small())
    shown.open(1, 2)
    one = shown.world.sides[0].maps[1, 2]
    for i, j in [(0, 0), (3, 5), (7, 7)]:
        tip = shown.hover(i, j)
        assert f"w{i}" in tip and f"({i})" in tip and f"w{j}" in tip
        assert abs(number(tip) - one[i, j]) <= one.max() / 255 + 5e-4
    shown.click(3, 5)
    exact = shown.page.locator(".exact")
    expect(exact).to_contain_text(f"{one[3, 5]:#.3g}")
    assert float(exact.get_attribute("data-value") or 0) == pytest.approx(one[3, 5], rel=1e-6)
    value = f"{one[3, 5]:#.3g}"
    expect(shown.page.locator(".bars .own .number")).to_have_text(value)
    assert [(r["i"], r["j"]) for r in shown.requests_for("exact")] == [(3, 5)]
    assert shown.exact_values() == pytest.approx(sorted(one[3], reverse=True), rel=1e-5)
    shown.click(3, 5)  # again: the column
    expect(shown.page.locator("aside h4")).to_contain_text("is attended by")
    assert shown.exact_values() == pytest.approx(sorted(one[:, 5], reverse=True), rel=1e-5)


def test_a_pin_stays_through_layers_heads_and_looks(show: Show) -> None:
    shown = show(small())
    page = shown.page
    shown.open(0, 0)
    shown.click(2, 4)
    for key, (row, column) in {"ArrowRight": (0, 1), "ArrowDown": (1, 1)}.items():
        page.keyboard.press(key)
        shown.cell(row, column)
        value = shown.world.sides[0].maps[row, column, 2, 4]
        expect(page.locator(".exact")).to_contain_text(f"{value:#.3g}")
        expect(page.locator("rect.pin")).to_have_count(1)
    page.keyboard.press("Shift+ArrowRight")
    expect(page.locator(".exact")).to_contain_text("w5")
    page.get_by_role("button", name="Lines").click()
    expect(page.locator("aside h4")).to_contain_text("w2")
    page.keyboard.press("Escape")
    expect(page.locator("aside h4")).to_be_hidden()
    shown.cell(1, 1)
    page.keyboard.press("Escape")
    expect(page.locator("canvas.heads")).to_be_focused()
    page.wait_for_timeout(450)
    assert shown.world.requests[-1]["state"] == {
        "cell": [1, 1],
        "also": [],
        "word": None,
        "place": None,
        "pin": None,
        "look": "lines",
        "score": "confidence",
        "order": "grid",
        "over": [],
    }


def test_the_lines_say_how_much_they_carry(show: Show) -> None:
    shown = show(small())
    shown.open(1, 1)
    page = shown.page
    page.get_by_role("button", name="Lines").click()
    shown.menu("Display")
    one = shown.world.sides[0].maps[1, 1]
    for count in (1, 3, 5):
        page.get_by_label("Lines per token").select_option(str(count))
        share = np.sort(one, axis=1)[:, -count:].sum() / one.sum()
        words_ = page.locator(".share").inner_text()
        assert words_.startswith("The lines carry ") and words_.endswith(" % of the attention.")
        assert float(words_.split()[3]) == pytest.approx(100 * share, abs=0.5)
        assert page.locator(".lineview line").count() == 8 * count


def test_a_threshold_and_a_hovered_token(show: Show) -> None:
    shown = show(small())
    shown.open(2, 0)
    page = shown.page
    page.get_by_role("button", name="Lines").click()
    shown.menu("Display")
    page.get_by_label("Lines", exact=True).select_option("least")
    page.get_by_label("Threshold").fill("0.2")
    shown.menu("Display", False)
    one = shown.world.sides[0].maps[2, 0]
    expect(page.locator(".lineview line")).to_have_count(int((one >= 0.2).sum()))
    picture = page.locator(".lineview .pane svg")
    box = picture.bounding_box()
    assert box
    for index in (0, 3):
        page.mouse.move(box["x"] + 20, box["y"] + 4 + (box["height"] - 8) * (index + 0.5) / 8)
        seen = page.locator(".lineview line[visibility=visible]").count()
        assert seen == int((one[index] >= 0.2).sum())
        assert f"w{index}" in page.locator(".tip").inner_text()


def test_many_lines_are_cut_and_it_says_so(show: Show) -> None:
    shown = show(World([Side(softmaxed((1, 1), 64, 64), words(64))]))
    shown.open(0, 0)
    page = shown.page
    page.get_by_role("button", name="Lines").click()
    shown.menu("Display")
    page.get_by_label("Lines", exact=True).select_option("least")
    page.get_by_label("Threshold").fill("0.0001")
    expect(page.locator(".share")).to_contain_text("1,500 strongest of ")
    assert page.locator(".lineview line").count() == 1500
    one = np.sort(shown.world.sides[0].maps[0, 0].ravel())
    said = float(page.locator(".share").inner_text().split()[3])
    assert said == pytest.approx(100 * one[-1500:].sum() / one.sum(), abs=1)


def test_a_scrollbar_cuts_no_token_on_the_right(show: Show) -> None:
    shown = show(World([Side(softmaxed((1, 2), 64, 64), words(64))]), width=600)
    shown.open(0, 0)
    shown.page.get_by_role("button", name="Lines").click()
    pane = shown.page.locator(".lineview .pane")
    pane.evaluate("p => { p.style.borderRight = '15px solid'; }")  # a hidden scrollbar has no width
    shown.page.keyboard.press("ArrowRight")
    shown.cell(0, 1)
    assert pane.evaluate("p => p.scrollWidth - p.clientWidth") == 0


@pytest.mark.parametrize(
    ("count", "down", "right", "texts"),
    [
        (300, 2100, 1400, ("w160", "w110")),
        pytest.param(1024, 9000, 7000, ("w650", "w510"), marks=pytest.mark.slow),
    ],
)
def test_the_page_stays_light_with_many_tokens(
    show: Show, count: int, down: int, right: int, texts: tuple[str, str]
) -> None:
    maps = np.broadcast_to(softmaxed((1, 1), count, count, causal=True), (1, 2, count, count))
    shown = show(World([Side(maps.copy(), words(count), causal=True, scores=[])]))
    shown.open(0, 0)
    page = shown.page
    counts = {}
    shown.menu("Display")
    for size in ("fit", "1", "0.25"):
        page.get_by_label("Size").select_option(size)
        counts["map", size] = shown.nodes()
    page.get_by_label("Size").select_option("1")
    shown.menu("Display", False)
    pane = page.locator(".map .pane")
    pane.evaluate("(p, [y, x]) => { p.scrollTop = y; p.scrollLeft = x; }", [down, right])
    expect(page.locator("svg.left-axis")).to_contain_text(texts[0])
    expect(page.locator("svg.above")).to_contain_text(texts[1])
    page.get_by_role("button", name="Lines").click()
    counts["lines", "1"] = shown.nodes()
    for key in ["ArrowRight", "ArrowLeft"] * 3:
        page.keyboard.press(key)
    page.wait_for_timeout(300)
    counts["after", "1"] = shown.nodes()
    print(counts)
    assert max(counts.values()) <= 5000
    assert abs(counts["after", "1"] - counts["lines", "1"]) < 20
    assert page.locator("svg text").count() <= 1150


def test_overlays_are_drawn_and_described(show: Show) -> None:
    world = small(overlays=[DEPENDENCIES])
    world.drawn = {"dependencies": {"hits": 5, "of": 7, "back_hits": 1, "back_of": 7}}
    shown = show(world)
    shown.open(0, 1)
    page = shown.page
    expect(page.locator("path.pairs")).to_have_count(0)
    shown.menu("Overlays")
    page.get_by_label("dependencies").check()
    shown.menu("Overlays", False)
    way = page.locator("path.pairs").get_attribute("d") or ""
    assert way.count("M") == 2
    assert "dependencies: nsubj" in shown.hover(1, 0)
    assert "nsubj" not in shown.hover(0, 1)
    words_ = "draws 5 of 7 dependencies (dependent to governor); 1 of 7 (governor to dependent)"
    expect(page.locator(".facts")).to_contain_text(words_)
    expect(page.locator("path.spans")).to_have_count(2)
    page.get_by_role("button", name="Lines").click()
    assert (page.locator(".lineview path.pairs").get_attribute("d") or "").count("C") == 2
    shown.shot("cell-overlays")


def test_rectangles_keep_their_sides(show: Show) -> None:
    shown = show(World([Side(softmaxed((2, 2), 5, 9), words(5, "t"), words(9, "s"))]))
    shown.open(1, 0)
    tip = shown.hover(4, 8)
    assert "t4" in tip and "s8" in tip
    assert pixels(shown).shape[:2] == (5, 9)
    box = shown.map_box()
    assert box["width"] / box["height"] == pytest.approx(9 / 5, rel=0.01)


def test_query_and_key_come_to_the_weight(show: Show) -> None:
    shown = show(small())
    shown.open(1, 1)
    shown.click(2, 3)
    page = shown.page
    page.get_by_role("button", name="Query and key").click()
    query, key = shown.world.vectors(0)
    text = page.locator(".sum").inner_text().replace("−", "-")
    scale, total, rest, score, weight = map(float, re.findall(r"-?\d+(?:\.\d+)?", text))
    assert (scale, rest) == (0.125, 0.25)
    assert total == pytest.approx(float(query @ key), rel=1e-3)
    assert score == pytest.approx(scale * total + rest, rel=1e-2)
    assert weight == pytest.approx(shown.world.sides[0].maps[1, 1, 2, 3], rel=1e-3)
    box = page.locator(".neurons svg").bounding_box()
    assert box
    page.mouse.move(box["x"] + 62 + (box["width"] - 62) * 10.5 / 32, box["y"] + 10)
    message = page.locator(".neurons .quiet").inner_text().replace("−", "-")
    values = [float(v) for v in re.findall(r"-?\d+\.\d+(?:e-\d+)?", message)]
    expected = [query[10], key[10], query[10] * key[10]]
    assert message.startswith("dimension 10:") and values == pytest.approx(expected, rel=1e-3)
    page.keyboard.press("ArrowRight")
    shown.cell(1, 2)
    expect(page.locator(".sum")).to_contain_text(
        f"{shown.world.sides[0].maps[1, 2, 2, 3]:.4g}".rstrip("0")
    )


def test_where_there_is_no_query_and_key_it_says_why(show: Show) -> None:
    world = small()
    world.neurons = "The mean of heads has no query of its own."
    shown = show(world)
    shown.open(0, 0)
    shown.click(1, 1)
    expect(shown.page.locator("aside .quiet").last).to_have_text(str(world.neurons))
    expect(shown.page.get_by_role("button", name="Query and key")).to_be_hidden()


@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.slow), 390])
def test_hostile_and_odd_tokens_are_text(show: Show, width: int) -> None:
    count = len(ODD)
    shown = show(World([Side(softmaxed((1, 1), count, count), ODD)], title=HOSTILE[0]), width=width)
    shown.open(0, 0)
    shown.click(ODD.index("\u202eevil"), 0)
    shown.hover(ODD.index("long" * 60), 1)
    page = shown.page
    assert "long" * 60 in page.locator(".tip").inner_text()
    page.get_by_role("button", name="Lines").click()
    assert page.locator(".attention img, .attention script, .attention b").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    texts = page.locator(".lineview svg text").all_text_contents()
    for sign in ("↵", "␣", "∅", "⇥"):
        assert sign in texts
    assert any(text.startswith("⟨U+202") for text in texts)
    shown.shot(f"cell-odd-{width}")


def test_several_heads_have_a_colour_each_and_a_token_is_lit_in_all_maps(show: Show) -> None:
    shown = show(small(state={"cell": [0, 0], "pin": None, "look": "lines"}))
    shown.cell(0, 0)
    page = shown.page
    grid = page.locator("canvas.heads").bounding_box()
    assert grid
    step = (grid["width"] - 18) / 4
    where = (grid["x"] + 18 + 2.5 * step, grid["y"] + 70)  # head 1.3
    page.keyboard.down("Control")
    page.mouse.click(*where)
    page.keyboard.up("Control")
    expect(page.locator(".chip")).to_have_count(2)
    expect(page.locator(".lineview line")).to_have_count(2 * 8 * 3)
    colours = page.locator(".lineview line").evaluate_all(
        "all => [...new Set(all.map(line => line.getAttribute('stroke')))]"
    )
    assert len(colours) == 2
    box = page.locator(".lineview .pane svg").bounding_box()
    assert box
    lit = page.locator("canvas.lit")
    expect(lit).to_be_hidden()
    page.mouse.move(box["x"] + 20, box["y"] + 4 + 22 * 3.5)
    expect(lit).to_be_visible()
    assert "w3" in page.locator(".tip").inner_text()
    page.mouse.move(2, 2)
    expect(lit).to_be_hidden()
    page.wait_for_timeout(450)
    assert shown.world.requests[-1]["state"]["also"] == [[0, 2]]
    page.get_by_role("button", name="Remove Head 1.1").click()
    expect(page.locator(".chip")).to_have_count(0)
    shown.cell(0, 2)


def test_both_sides_have_one_colour_scale_and_tables_say_what_is_drawn(show: Show) -> None:
    weak, strong = (np.full((1, 1, 4, 4), value, dtype=np.float32) for value in (0.2, 0.8))
    names = words(4)
    world = World([Side(weak, names, name="weak"), Side(strong, names, name="strong")])
    world.difference = {"possible": True, "why": ""}
    shown = show(world)
    shown.cell(0, 0)
    page = shown.page
    expect(page.locator(".why")).to_contain_text("same values on both sides")
    ends = page.locator(".legend").evaluate_all("all => all.map(one => one.textContent)")
    assert "0.800" in ends[0] and "0.800" in ends[1]
    faint, dark = (page.locator(".map image.cells").nth(k).evaluate(PIXELS)[2][:3] for k in (0, 1))
    assert faint != dark
    page.locator("summary", has_text="Weights as a table").click()
    expect(page.locator("details.twin table td").first).to_contain_text("0.2")


def test_the_predictions_follow_the_pinned_token_and_say_what_an_edit_changed(show: Show) -> None:
    class Predicting(Side):
        def message(self) -> dict[str, object]:
            places = {"place": 2, "places": [*range(8)], "next": None}
            texts = [*TOKENS[:7], f"{TOKENS[7]}x"]  # the last one is not what the model reads
            own = {"editable": True, "words": texts, "mask": "", "predicts": places}
            return {**super().message(), **own}

    world = World([Predicting(softmaxed((2, 2), 8, 8), TOKENS)])
    answer = world.answer

    def answered(sent: str) -> bytes | None:
        request = json.loads(sent)
        if request["what"] not in ("predict", "edit"):
            return answer(sent)
        world.requests.append(request)
        head = {"kind": request["what"], "id": request["id"], "view": world.view}
        choices = [[f"<b>{request['word']}", 0.75], ["rare", 0.0001]]
        return framed({**head, "title": "", "choices": choices, "was": [0.5, None], "note": ""})

    world.answer = answered  # type: ignore[method-assign]
    world.state = {"cell": [0, 0], "pin": None, "look": "lines"}
    shown = show(world)
    shown.cell(0, 0)
    page = shown.page
    rows = page.locator(".predictions li")
    expect(rows).to_have_text(["<b>275 %was 50 %", "rare< 0.1 %"])
    expect(page.locator(".predictions option:checked")).to_have_text(re.compile("^3 "))  # from 1
    lines, beside = page.locator(".lineview").bounding_box(), rows.first.bounding_box()
    assert lines and beside and beside["x"] >= lines["x"] + lines["width"]
    box = page.locator(".lineview .pane svg").bounding_box()
    assert box
    page.mouse.click(box["x"] + 20, box["y"] + 4 + 22 * 5.5)
    expect(rows.first).to_contain_text("<b>5")
    page.get_by_label("Predicted place").select_option("2")  # known: no request
    expect(rows.first).to_contain_text("<b>2")
    assert [request["word"] for request in shown.requests_for("predict")] == [2, 5]
    rows.first.get_by_role("button").click()
    page.wait_for_timeout(100)
    assert shown.requests_for("edit")[0]["text"] == "<b>2"
    page.get_by_label("Predicted place").select_option("7")
    expect(rows.first).to_contain_text("<b>7")
    expect(rows.first.get_by_role("button")).to_have_count(0)
