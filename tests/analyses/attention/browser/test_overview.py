"""All heads at once: what is painted, in what order, and how the keyboard walks through them."""

import base64

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.analyses.attention.browser.conftest import Show, Shown
from tests.analyses.attention.browser.making import Side, World, softmaxed, words
from workbench.drawing.sanitize import visible

pytestmark = pytest.mark.browser

TOKENS = words(8)
PIXELS = """(canvas) => [canvas.height, canvas.width,
    btoa(Array.from(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data,
        (byte) => String.fromCharCode(byte)).join(''))]"""


def small(**more: object) -> World:
    return World([Side(softmaxed((3, 4), 8, 8), TOKENS, **more)])  # type: ignore[arg-type]


def pixels(shown: Shown) -> np.ndarray:
    """The canvas, from its lower right corner: there the last head lies."""
    height, width, flat = shown.page.locator("canvas.heads").first.evaluate(PIXELS)
    values = np.frombuffer(base64.b64decode(flat), dtype=np.uint8)  # as numbers they take seconds
    return values.reshape(height, width, 4)[::-1, ::-1]


def focus(shown: Shown) -> str:
    return str(shown.page.locator("canvas.heads").first.get_attribute("data-focus"))


def test_an_identity_shows_a_dark_diagonal_after_one_pass(show: Show) -> None:
    one = np.eye(8, dtype=np.float32)[None, None]
    shown = show(World([Side(one, TOKENS, scores=[])]))
    root = shown.page.locator(".attention")
    assert float(root.get_attribute("data-painted") or 0) > 0
    assert root.get_attribute("data-passes") == "1"
    seen = pixels(shown)
    for k in range(8):
        at, off = (round(6 + 104 * (7.5 - j) / 8) for j in (k, (k + 3) % 8))
        assert seen[at, at, :3].tolist() == [0x0B, 0x3C, 0x66]
        assert seen[at, off, :3].tolist() == [0xE8, 0xF1, 0xF8]


def test_masked_and_missing_stay_clear(show: Show) -> None:
    maps = softmaxed((1, 2), 8, 8, causal=True)
    shown = show(World([Side(maps, TOKENS, scores=[], causal=True, missing=[[0, 1]])]))
    seen = pixels(shown)[..., 3]
    low, high, beyond = 6 + 6, 6 + 98, 6 + 104  # from a head's end; of one head to the next
    assert seen[low, low] == 0  # of the head that is not there
    assert seen[low, beyond + high] == 255  # last row, first column
    assert seen[high, beyond + low] == 0  # first row, last column
    expect(shown.page.locator(".count")).to_have_text("1 head")


@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.slow), 390])
def test_a_wide_grid_stays_within_the_page(show: Show, width: int) -> None:
    shown = show(World([Side(softmaxed((24, 16), 8, 8), TOKENS)]), width=width)
    shown.shot(f"overview-24-16-{width}")
    page = shown.page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    pixels = page.locator("canvas.heads").evaluate("c => c.width * c.height")
    assert pixels < 8.1e6
    page.locator("canvas.heads").focus()
    for _ in range(23):
        page.keyboard.press("ArrowRight")
    assert focus(shown) == "23,0"  # layers are across
    box = page.locator(".scroll").first
    assert box.evaluate("b => b.scrollLeft + b.clientWidth >= b.scrollWidth - 12")


HEADS = """(canvas) => {
    // the runs of pixels that open a head, along the middle of each line and of each column
    const { left, top, width, height } = canvas.getBoundingClientRect();
    const isHead = (x, y) => {
        const at = { clientX: left + x, clientY: top + y };
        canvas.dispatchEvent(new PointerEvent("pointermove", at));
        return canvas.style.cursor === "pointer";
    };
    const runs = (length, hit) => {
        const found = [0];
        for (let k = 0.5; k < length; k += 1) {
            if (hit(k)) found[found.length - 1] += 1;
            else if (found[found.length - 1]) found.push(0);
        }
        return found.filter(Boolean);
    };
    let y = 0;
    while (!isHead(width - 10, y)) y += 1;
    return [runs(width, (x) => isHead(x, y + 12)), runs(height, (at) => isHead(width - 10, at))];
}"""


@pytest.mark.parametrize(
    ("grid", "width", "across", "down"),
    [
        ((30, 9), 1280, 15, 18),  # layers across, in two bands
        pytest.param((12, 32), 1280, 16, 24, marks=pytest.mark.slow),
        pytest.param((30, 9), 390, 30, 9, marks=pytest.mark.slow),
        ((12, 32), 390, 32, 12),  # in a box that scrolls
    ],
)
def test_heads_of_large_models_have_at_least_24_pixels(
    show: Show, grid: tuple[int, int], width: int, across: int, down: int
) -> None:
    shown = show(World([Side(softmaxed(grid, 8, 8), TOKENS)]), width=width)
    shown.shot(f"overview-{grid[0]}-{grid[1]}-{width}")
    page = shown.page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    canvas = page.locator("canvas.heads")
    wide, tall = canvas.evaluate(HEADS)
    assert (len(wide), len(tall)) == (across, down)
    assert min(*wide, *tall) >= 24
    names = page.locator("canvas.names")
    assert names.is_visible() == (width == 390)
    canvas.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    assert focus(shown) == ("2,1" if grid == (30, 9) else "1,2")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    shown.cell(*((3, 1) if grid == (30, 9) else (1, 3)))
    box = page.locator(".scroll").first
    box.evaluate("b => { b.scrollLeft = 200 }")
    left = box.evaluate("b => b.getBoundingClientRect().left")
    assert not names.is_visible() or names.evaluate("n => n.getBoundingClientRect().left") == left


def test_pieces_are_drawn_without_marks_of_word_starts(show: Show) -> None:
    pieces = ["The", "▁cat", "▁", "##ing", "of▁the", "▁▁x", "▁”"]
    state = {"cell": [0, 0], "pin": None, "look": "lines"}
    shown = show(World([Side(softmaxed((1, 1), 7, 7), pieces)], state=state))
    shown.cell(0, 0)
    labels = shown.page.locator(".lineview svg text").all_text_contents()
    assert labels == [visible(piece) for piece in pieces] * 2
    assert labels[:5] == ["The", "\u00a0cat", "␣", "##ing", "of\u00a0the"]


def test_the_keyboard_walks_past_what_is_missing(show: Show) -> None:
    shown = show(small(missing=[[0, 1], [1, 0]]))
    page = shown.page
    page.locator("canvas.heads").focus()
    walk = [("ArrowRight", "0,2"), ("ArrowLeft", "0,0"), ("ArrowDown", "2,0"), ("ArrowDown", "2,0")]
    for key, where in walk:
        page.keyboard.press(key)
        assert focus(shown) == where
    expect(page.locator(".live")).to_contain_text("layer 3, head 1, confidence")
    page.keyboard.press("Enter")
    shown.cell(2, 0)
    page.keyboard.press("ArrowUp")
    shown.cell(0, 0)
    page.keyboard.press("ArrowRight")
    shown.cell(0, 2)
    page.keyboard.press("Escape")
    expect(page.locator("canvas.heads")).to_be_focused()
    assert focus(shown) == "0,2"
    for key in ("r", "c", "Escape"):
        page.keyboard.press(key)
    assert page.evaluate("window.escaped") == []


def test_hovering_tells_a_head_and_its_scores(show: Show) -> None:
    shown = show(small())
    box = shown.page.locator("canvas.heads").bounding_box()
    assert box
    shown.page.mouse.move(box["x"] + box["width"] - 30, box["y"] + box["height"] - 30)
    tip = shown.page.locator(".tip").inner_text().split("\n")
    message = shown.world.sides[0].message()
    assert tip[0] == "layer 3, head 4"
    assert float(tip[1].split(": ")[1]) == pytest.approx(message["tops"][2][3], abs=1e-3)
    assert float(tip[2].split(": ")[1]) == pytest.approx(
        message["scores"][0]["values"][2][3], abs=1e-3
    )
    assert tip[3] == f"kind: {message['scores'][1]['values'][2][3]}"


def test_sorting_goes_by_the_score_and_the_keyboard_follows(show: Show) -> None:
    shown = show(small())
    page = shown.page
    values = np.array(shown.world.sides[0].message()["scores"][0]["values"])
    order = [tuple(divmod(int(k), 4)) for k in np.argsort(-values, axis=None, kind="stable")]
    shown.menu("Display")
    page.get_by_label("Order").first.select_option("down")
    page.locator("canvas.heads").focus()
    page.keyboard.press("ArrowUp")  # from wherever it was towards the start
    while focus(shown) != f"{order[0][0]},{order[0][1]}":
        before = focus(shown)
        page.keyboard.press("ArrowLeft")
        assert focus(shown) != before
    for row, column in order[1:]:
        page.keyboard.press("ArrowRight")
        assert focus(shown) == f"{row},{column}"


def test_a_filter_leaves_out_and_says_how_many(show: Show) -> None:
    shown = show(small())
    page = shown.page
    message = shown.world.sides[0].message()
    values = np.array(message["scores"][0]["values"])
    least = float(np.sort(values.ravel())[8]) - 1e-9
    shown.menu("Display")
    page.get_by_label("Minimum", exact=True).fill(f"{least:.9f}")
    count = page.locator(".count")
    expect(count).to_have_text("4 of 12 heads shown")
    page.get_by_label("Maximum", exact=True).fill("0")
    expect(count).to_have_text("0 of 12 heads shown")
    page.get_by_label("Score").select_option("kind")
    expect(count).to_have_text("12 heads")
    page.get_by_label("broad").uncheck()
    kinds = [kind for row in message["scores"][1]["values"] for kind in row]
    expect(count).to_have_text(f"{kinds.count('positional')} of 12 heads shown")
    page.get_by_label("Order").nth(1).select_option("up")
    shown.shot("overview-filtered")


def test_heads_without_a_score_come_last_and_pass_no_filter(show: Show) -> None:
    scores = [{"name": "s", "about": "", "kind": "number", "values": [[None, 2.0, 1.0]]}]
    shown = show(World([Side(softmaxed((1, 3), 8, 8), TOKENS, scores=scores)]))
    page = shown.page
    shown.menu("Display")
    page.get_by_label("Order").first.select_option("up")
    page.locator("canvas.heads").focus()
    walked = []
    for key in ("ArrowLeft", "ArrowLeft", "ArrowLeft", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
        walked.append(focus(shown))
    assert walked[2:] == ["0,2", "0,1", "0,0"]
    page.get_by_label("Minimum", exact=True).fill("-5")
    expect(page.locator(".count")).to_have_text("2 of 3 heads shown")
