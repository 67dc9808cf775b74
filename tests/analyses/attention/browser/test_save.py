"""Saving: pictures are whole and made here, tables and pages are requested."""

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.analyses.attention.browser.conftest import Show, Shown
from tests.analyses.attention.browser.making import HOSTILE, Side, World, softmaxed, words

pytestmark = pytest.mark.browser

TEXT = "{http://www.w3.org/2000/svg}text"
IMAGE = "{http://www.w3.org/2000/svg}image"


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., tuple[str, bytes]]:
    def save(shown: Shown, form: str, what: str = "") -> tuple[str, bytes]:
        shown.menu("Export")
        with shown.page.expect_download() as download:
            shown.page.locator(f"button[aria-label='Save {what}as {form}']").click()
        file = tmp_path / download.value.suggested_filename
        download.value.save_as(file)
        return file.name, file.read_bytes()

    return save


Saved = Callable[..., tuple[str, bytes]]


def two() -> World:
    tokens = [*words(5), *HOSTILE, "שלום"]
    count = len(tokens)
    return World(
        [Side(softmaxed((2, 2), count, count, seed=s), tokens, name=f"side {s}") for s in (0, 1)],
        difference={"possible": True, "why": ""},
        note="What <special> tokens & markup would do.",
    )


def test_an_svg_is_whole_and_a_png_has_two_pixels_for_one(show: Show, saved: Saved) -> None:
    shown = show(two())
    shown.open(1, 0)
    for look in ("Lines", "Map"):
        shown.page.get_by_role("button", name=look).click()
        name, svg = saved(shown, "SVG")
        assert name.endswith("head-2.1.svg")
        tree = ElementTree.fromstring(svg)
        texts = [node.text for node in tree.iter(TEXT)]
        for token in (*words(5), "שלום", "side 0", "side 1"):
            assert token in texts, token
        assert any(text and text.startswith("<img") for text in texts)
        assert shown.world.note in texts and shown.world.title in texts
        assert len(list(tree.iter(IMAGE))) == (3 if look == "Map" else 0)
        assert b"http" not in svg.replace(b"http://www.w3.org/2000/svg", b"")
    name, png = saved(shown, "PNG")
    assert name.endswith(".png") and png.startswith(b"\x89PNG")
    assert int.from_bytes(png[16:20], "big") == round(2 * float(tree.get("width", 0)))


def test_the_overview_is_a_picture_with_names(show: Show, saved: Saved) -> None:
    shown = show(World([Side(softmaxed((3, 4), 6, 6), words(6))]))
    tree = ElementTree.fromstring(saved(shown, "SVG", "all heads ")[1])
    texts = [node.text for node in tree.iter(TEXT)]
    assert texts.count("3") == 2 and texts.count("4") == 1  # layers 1–3, heads 1–4
    assert len(list(tree.iter(IMAGE))) == 1
    assert saved(shown, "PNG", "all heads ")[1].startswith(b"\x89PNG")


def test_files_of_the_app_are_requested(show: Show, saved: Saved) -> None:
    shown = show(World([Side(softmaxed((2, 2), 6, 6), words(6))]))
    forms = ("csv", "npz", "html")
    for form in forms:
        found = saved(shown, form.upper(), "all heads ")
        assert found == (f"attention.{form}", f"a {form}".encode())
    shown.open(0, 1)
    for form in forms:
        saved(shown, form.upper())
    sent = shown.requests_for("export")
    expected = [*((form, None, None) for form in forms), *((form, 0, 1) for form in forms)]
    assert [(r["form"], r["row"], r["column"]) for r in sent] == expected
