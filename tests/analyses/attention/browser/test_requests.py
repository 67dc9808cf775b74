"""Requests to Python: the latest wish counts, nothing is requested twice, what is lost comes."""

import csv
import io
import json
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from playwright.sync_api import expect

import workbench as wb
from tests.analyses.attention.browser.conftest import Show
from tests.analyses.attention.browser.making import Side, World, softmaxed, words
from workbench import WorkbenchError, attention
from workbench.analyses.attention.browser.frames import framed, overview_of
from workbench.analyses.attention.browser.requests import respond, state_in
from workbench.analyses.attention.browser.scene import Scene, scene_of, scores_of, side_of
from workbench.analyses.attention.capture import CACHE, AttentionMaps, passes
from workbench.analyses.attention.grids import Options

pytestmark = pytest.mark.browser

TOKENS = words(6)


def small(**more: object) -> World:
    return World([Side(softmaxed((4, 4), 6, 6), TOKENS)], **more)  # type: ignore[arg-type]


BEGAN = {
    "also": [],
    "look": "map",
    "score": "confidence",
    "order": "grid",
    "over": [],
    "word": None,
    "place": None,
}


def test_requests_are_as_agreed(show: Show) -> None:
    shown = show(small())
    shown.open(1, 2)
    shown.click(3, 4)
    expect(shown.page.locator(".exact")).not_to_contain_text("±")
    cell, exact = shown.requests_for("cell")[-1], shown.requests_for("exact")[0]
    assert cell == {
        "id": cell["id"], "view": "v1", "what": "cell", "row": 1, "column": 2,
        "state": {"cell": [1, 2], "pin": None, **BEGAN},
    }  # fmt: skip
    assert exact == {
        "id": cell["id"] + 1, "view": "v1", "what": "exact", "row": 1, "column": 2, "i": 3, "j": 4,
        "state": {"cell": [1, 2], "pin": {"i": 3, "j": 4, "axis": "row"}, **BEGAN},
    }  # fmt: skip


def test_going_back_asks_for_nothing(show: Show) -> None:
    shown = show(small())
    shown.open(0, 0)
    for key, at in [("ArrowRight", (0, 1)), ("ArrowLeft", (0, 0)), ("ArrowRight", (0, 1))]:
        shown.page.keyboard.press(key)
        shown.cell(*at)
    assert [(r["row"], r["column"]) for r in shown.requests_for("cell")] == [(0, 0), (0, 1)]


def test_under_a_slow_host_the_last_wish_is_what_is_seen(show: Show) -> None:
    shown = show(small())
    page = shown.page
    shown.open(0, 0)
    page.evaluate("() => { window.slow = 150; }")
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    shown.cell(2, 3)
    expect(page.locator(".facts")).to_have_text("layer 2, head 3: entropy 0.32")
    assert len(shown.requests_for("cell")) <= 4  # those in between were never requested
    page.wait_for_timeout(400)
    shown.cell(2, 3)


def test_a_lost_answer_is_requested_again_and_at_last_by_enter(show: Show) -> None:
    shown = show(small(deaf=2), patience=150)
    shown.cell(0, 0)
    sent = shown.requests_for("cell")
    assert len(sent) == 3 and len({request["id"] for request in sent}) == 1
    shown.world.deaf = 4
    page = shown.page
    page.locator("canvas.heads").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator(".problem")).to_have_text("No response. Press Enter to try again.")
    page.keyboard.press("Enter")
    shown.cell(0, 1)
    expect(page.locator(".problem")).to_be_hidden()


def test_a_problem_is_a_quiet_line_and_the_rest_stays(show: Show) -> None:
    shown = show(small(problems={"exact": "The model is gone."}))
    shown.open(0, 0)
    shown.click(1, 1)
    expect(shown.page.locator(".problem")).to_have_text("The model is gone.")
    expect(shown.page.locator(".exact")).to_contain_text("±")
    shown.page.keyboard.press("ArrowRight")
    shown.cell(0, 1)


def test_a_state_from_the_address_is_where_it_begins(show: Show) -> None:
    state = {"cell": [2, 1], "pin": {"i": 1, "j": 2, "axis": "column"}, "look": "map"}
    shown = show(small(state=state), first=small(state=state).overview())
    shown.cell(2, 1)
    value = shown.world.sides[0].maps[2, 1, 1, 2]
    expect(shown.page.locator(".exact")).to_contain_text(f"{value:#.3g}")
    expect(shown.page.locator("aside h4")).to_contain_text("is attended by")


def test_a_pin_goes_with_its_tokens_when_special_ones_are_hidden(show: Show) -> None:
    shown = show(small())
    shown.open(1, 1)
    shown.click(2, 3)
    maps = softmaxed((2, 2), len(TOKENS) - 1, len(TOKENS) - 1)
    shown.world.sides = [Side(maps, TOKENS[1:], shift=1)]  # [CLS] is hidden
    shown.world.view = "v2"
    shown.give(shown.world.overview())
    shown.page.wait_for_selector(".attention[data-view=v2]")
    expect(shown.page.locator("rect.pin")).to_have_count(1)
    shown.cell(1, 1)
    expect(shown.page.locator(".exact")).not_to_contain_text("±")
    exact = shown.requests_for("exact")[-1]
    assert (exact["i"], exact["j"]) == (1, 2)


def test_a_new_view_keeps_the_cell_and_a_smaller_grid_lets_it_go(show: Show) -> None:
    shown = show(small())
    shown.open(3, 3)
    shown.click(2, 2)
    shown.world.view = "v2"
    shown.give(shown.world.overview())
    shown.page.wait_for_selector(".attention[data-view=v2]")
    shown.cell(3, 3)
    assert shown.requests_for("cell")[-1]["view"] == "v2"
    expect(shown.page.locator("rect.pin")).to_have_count(1)
    shown.world.sides = [Side(softmaxed((2, 2), 6, 6), TOKENS)]
    shown.world.view = "v3"
    shown.give(shown.world.overview())
    expect(shown.page.locator("canvas.heads")).to_be_visible()
    shown.give(shown.world.overview())  # the same again changes nothing
    expect(shown.page.locator(".count")).to_have_text("4 heads")


def test_mounted_again_with_a_stray_answer_it_asks_for_the_overview(show: Show) -> None:
    world = small()
    stray = world.cell({"id": 5, "view": "v1", "kind": "cell"}, {"row": 0, "column": 0})
    shown = show(world, first=stray)
    shown.painted()
    assert world.requests[0]["what"] == "overview"


def test_cleared_away_it_ends_unless_it_comes_back(show: Show) -> None:
    shown = show(small())
    page = shown.page
    page.evaluate("() => window.clear()")
    shown.give(shown.world.overview())
    page.wait_for_timeout(500)
    expect(page.locator("canvas.heads")).to_be_visible()
    page.evaluate("() => window.clear()")
    expect(page.locator(".attention")).to_have_count(0)


def test_the_state_is_sent_after_a_moment_and_once(show: Show) -> None:
    shown = show(small())
    shown.open(0, 0)
    page = shown.page
    for name in ("Lines", "Map", "Lines"):
        page.get_by_role("button", name=name).click()
    page.wait_for_timeout(500)
    assert [request["state"]["look"] for request in shown.requests_for("state")] == ["lines"]
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Map").click()
    page.wait_for_timeout(500)
    assert [request["state"]["look"] for request in shown.requests_for("state")] == ["lines", "map"]


# --- test answers ---------------------------------------------------------------------------------
#
# What the attention browser receives: bytes within their bound, exact values, arithmetic, files.

DOC = next(iter(wb.read("primer").docs("test")))


def unframed(message: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The head and arrays of a message."""
    length = int.from_bytes(message[:4], "little")
    head = json.loads(message[4 : 4 + length])
    body = message[4 + length :]
    arrays = {}
    for name, header in head.pop("arrays").items():
        part = body[header["at"] : header["at"] + header["size"]]
        raw = zlib.decompress(part) if header["packed"] else part
        dtype = {"u1": "<u1", "f4": "<f4"}[header["type"]]
        arrays[name] = np.frombuffer(raw, dtype=dtype).reshape(header["shape"])
    return head, arrays


@pytest.fixture(scope="module")
def looks() -> Iterator[dict[str, AttentionMaps]]:
    yield {ref: attention(wb.load(ref), DOC) for ref in ("mini:bert", "mini:gpt", "mini:t5")}
    CACHE.clear()


def scene(
    found: AttentionMaps, group: tuple[str, str] = ("encoder", "self"), **options: Any
) -> Scene:
    return scene_of([side_of(found, group, Options(**options), DOC)])


def response(shown: Scene, what: str, **rest: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return unframed(respond(shown, {"id": 7, "view": shown.id, "what": what, **rest}))


def test_frames_come_back_as_they_went() -> None:
    arrays = {"a": np.arange(6, dtype=np.uint8).reshape(2, 3), "b": np.zeros(9999, np.float32)}
    message = framed({"kind": "x", "t": "naïve \ud83d\ude00"[:5]}, arrays)
    head, found = unframed(message)
    assert head == {"kind": "x", "t": "naïve"}
    assert all(np.array_equal(found[name], array) for name, array in arrays.items())
    assert len(message) < 1_000  # zeros are packed


def test_a_small_map_is_exact_and_a_large_one_within_a_255th_of_its_top(
    looks: dict[str, AttentionMaps], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = scene(looks["mini:bert"])
    head, arrays = response(shown, "cell", row=1, column=2)
    assert (head["kind"], head["id"], head["row"], head["column"]) == ("cell", 7, 1, 2)
    exact = shown.sides[0].grid.map(1, 2)
    np.testing.assert_array_equal(arrays["map0"], exact)
    with_overview, all_arrays = unframed(overview_of(shown))
    assert len(with_overview["cells"]) == 16
    np.testing.assert_array_equal(all_arrays["maps0"][1 * 4 + 2], exact)
    norms, arrays = response(shown, "cell", row=1, column=2, norms=True)
    value_norms = next(n for site, n in looks["mini:bert"].norms.items() if site.layer == 1)
    np.testing.assert_allclose(arrays["map0"], exact * value_norms[2], rtol=1e-5)
    assert norms["sides"][0]["value"] == "attention × norm"
    monkeypatch.setattr("workbench.analyses.attention.browser.frames.EXACT_CELLS", 0)
    head, arrays = response(shown, "cell", row=1, column=2)
    values = arrays["map0"].astype(np.float64) * head["sides"][0]["top"] / 255
    assert np.abs(values - exact).max() <= exact.max() / 255 / 2 + 1e-7


def test_exact_values_are_exact(looks: dict[str, AttentionMaps]) -> None:
    shown = scene(looks["mini:bert"], unit="words", special="renormalised")
    _, arrays = response(shown, "exact", row=0, column=1, i=2, j=3)
    exact = shown.sides[0].grid.map(0, 1)
    np.testing.assert_array_equal(arrays["row0"], exact[2])
    np.testing.assert_array_equal(arrays["column0"], exact[:, 3])


@pytest.mark.parametrize(
    ("ref", "group"),
    [
        ("mini:bert", ("encoder", "self")),
        ("mini:gpt", ("decoder", "causal")),
        ("mini:t5", ("decoder", "cross")),
        ("mini:t5", ("encoder", "self")),
    ],
)
def test_query_and_key_make_the_weight(
    looks: dict[str, AttentionMaps], ref: str, group: tuple[str, str]
) -> None:
    """The softmax of the scores of one row, one by one, is the row."""
    shown = scene(looks[ref], group)
    grid = shown.sides[0].grid
    i = len(grid.sides.rows) - 1
    scores, weights = [], []
    for j in range(len(grid.sides.columns)):
        head, arrays = response(shown, "neurons", row=1, column=0, i=i, j=j)
        message = head["sides"][0]
        product = float(arrays["query0"].astype(np.float64) @ arrays["key0"])
        assert message["score"] == pytest.approx(
            message["scale"] * product + message["rest"], abs=1e-5
        )
        scores.append(message["score"])
        weights.append(message["weight"])
    made = np.exp(np.array(scores) - max(scores))
    np.testing.assert_allclose(made / made.sum(), weights, atol=1e-4)
    np.testing.assert_allclose(weights, grid.map(1, 0)[i], atol=1e-6)


def test_query_and_key_are_of_pieces_and_of_one_head(looks: dict[str, AttentionMaps]) -> None:
    words, _ = unframed(overview_of(scene(looks["mini:bert"], unit="words")))
    assert "belong to tokens" in words["neurons"]
    mean, _ = unframed(overview_of(scene(looks["mini:bert"], together="mean over heads")))
    assert "belong to one head" in mean["neurons"]


def test_the_overview_tells_all_there_is_to_draw(looks: dict[str, AttentionMaps]) -> None:
    shown = scene(looks["mini:t5"], ("decoder", "cross"))
    head, arrays = unframed(overview_of(shown))
    side = head["sides"][0]
    assert not side["same"] and not side["causal"] and not side["overlays"]
    assert arrays["thumbs0"].shape == (2, 4, len(side["rows"]), len(side["columns"]))
    assert side["rows"][0]["special"]  # the decoder begins with a start symbol
    causal, _ = unframed(overview_of(scene(looks["mini:gpt"], ("decoder", "causal"))))
    assert causal["sides"][0]["causal"]
    assert "Special tokens are shown, if the tokenizer adds some" in causal["note"]


def test_asking_never_runs_the_model(looks: dict[str, AttentionMaps]) -> None:
    before = passes()
    shown = scene(looks["mini:bert"])
    for row in range(shown.rows):
        for column in range(shown.columns):
            response(shown, "cell", row=row, column=column)
            response(shown, "exact", row=row, column=column, i=0, j=1)
    response(shown, "export", form="npz", row=None, column=None)
    assert passes() == before


def test_two_sides_align_by_words_and_say_why_not_by_pieces(
    looks: dict[str, AttentionMaps],
) -> None:
    def both(**options: Any) -> dict[str, Any]:
        sides = [
            side_of(looks["mini:bert"], ("encoder", "self"), Options(**options), DOC),
            side_of(looks["mini:gpt"], ("decoder", "causal"), Options(**options), DOC),
        ]
        return unframed(overview_of(scene_of(sides)))[0]

    assert both(unit="words", special="hidden")["difference"] == {"possible": True, "why": ""}
    apart = both()["difference"]
    assert not apart["possible"] and "do not align" in apart["why"]


def test_tables_of_runs_become_scores(looks: dict[str, AttentionMaps]) -> None:
    rows = [
        ("encoder", "self", layer, head, layer + head / 10, f"role {head}")
        for layer in range(4)
        for head in range(4)
    ]
    rows.append(("decoder", "causal", 0, 0, 99.0, "no"))
    table = pd.DataFrame(rows, columns=["stack", "kind", "layer", "head", "importance", "role"])
    grid = scene(looks["mini:bert"], layers=(1, 3), heads=(2,)).sides[0].grid
    number, text = scores_of("run: heads", table, grid)
    assert number.values == ((1.2,), (3.2,))
    assert text.kind == "text" and text.values == (("role 2",), ("role 2",))
    assert scores_of("x", pd.concat([table, table]), grid) == []  # two rows a head say nothing
    assert scores_of("x", table.drop(columns="kind"), grid) == []
    gap = table[table["layer"] != 3]
    assert scores_of("x", gap, grid)[0].values == ((1.2,), (None,))


BAD: list[dict[str, Any]] = [
    {"what": "cell", "row": 99, "column": 0},
    {"what": "cell", "row": -1, "column": 0},
    {"what": "cell", "row": "0", "column": None},
    {"what": "cell", "row": True, "column": 0},
    {"what": "exact", "row": 0, "column": 0, "i": 9999, "j": 0},
    {"what": "exact", "row": 0, "column": 0},
    {"what": "export", "form": "exe"},
    {"what": "export", "form": "../../x", "row": 0, "column": 0},
    {"what": {"a": 1}},
    {},
    {"id": "x", "what": 5, "state": [1, 2]},
]


@pytest.mark.parametrize("request_", BAD)
def test_nonsense_is_reported_not_raised(
    looks: dict[str, AttentionMaps], request_: dict[str, Any]
) -> None:
    head, _ = unframed(respond(scene(looks["mini:bert"]), request_))
    assert head["kind"] == "problem" and head["text"]


@pytest.mark.parametrize(
    "state",
    [
        None,
        "x",
        {"cell": [99, 0], "pin": {"i": 0, "j": 10_000}},
        {"cell": [0], "look": "dance"},
        {"cell": [0, 0], "pin": {"i": -1, "j": 0, "axis": "row"}, "look": None},
        {"cell": ["0", "0"]},
    ],
)
def test_a_state_from_anywhere_is_one_that_exists(
    looks: dict[str, AttentionMaps], state: Any
) -> None:
    found = state_in(scene(looks["mini:bert"]), {"state": state})
    assert found["look"] == "lines" and found["pin"] is None and found["also"] == []
    assert found["cell"] in (None, [0, 0])


def test_csv_has_every_pair_with_its_value(looks: dict[str, AttentionMaps]) -> None:
    shown = scene(looks["mini:bert"])
    head, arrays = response(shown, "export", form="csv", row=2, column=1)
    assert head["name"] == "attention-mini-bert-encoder-self-head-3.2.csv"
    rows = list(csv.DictReader(io.StringIO(arrays["file"].tobytes().decode())))
    exact = shown.sides[0].grid.map(2, 1)
    assert len(rows) == exact.size
    for row in rows:
        value = exact[int(row["row"]), int(row["column"])]
        assert float(row["value"]) == pytest.approx(float(value), rel=1e-6)
    assert rows[0]["row_token"] == "[CLS]"


def test_csv_of_the_overview_has_the_scores(looks: dict[str, AttentionMaps]) -> None:
    _, arrays = response(scene(looks["mini:bert"]), "export", form="csv", row=None, column=None)
    table = pd.read_csv(io.BytesIO(arrays["file"].tobytes()))
    assert len(table) == 16
    assert {"layer", "head", "confidence", "draws dependencies"} <= set(table.columns)


def test_npz_has_the_maps(looks: dict[str, AttentionMaps]) -> None:
    shown = scene(looks["mini:gpt"], ("decoder", "causal"))
    _, arrays = response(shown, "export", form="npz", row=None, column=None)
    found = np.load(io.BytesIO(arrays["file"].tobytes()), allow_pickle=False)
    np.testing.assert_array_equal(found["maps"][3, 1], shown.sides[0].grid.map(3, 1))
    assert found["rows"].tolist() == list(shown.sides[0].grid.sides.rows.names)


def test_the_page_is_one_file_with_the_maps(
    looks: dict[str, AttentionMaps], tmp_path: Path
) -> None:
    head, arrays = response(scene(looks["mini:bert"]), "export", form="html", row=0, column=0)
    page = arrays["file"].tobytes().decode()
    assert head["type"] == "text/html"
    assert "default-src 'none'" in page
    assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page


def test_a_head_at_512_pieces_is_small_enough(looks: dict[str, AttentionMaps]) -> None:
    """<= 300 kB a head and <= 1 MB an overview of 12 x 12, of maps that do not pack at all."""
    from tests.analyses.attention.test_grids import made

    rng = np.random.default_rng(0)

    def shown(heads: int, n: int) -> Scene:
        rows = rng.random((1, 1, n, n), dtype=np.float32)
        maps = np.broadcast_to(rows / rows.sum(-1, keepdims=True), (heads, heads, n, n))
        found = made(maps, list(range(n)), [False] * n, [f"w{i}" for i in range(n)])
        found = replace(found, id=f"{heads} {n}")  # by which its overview is kept
        return scene_of([side_of(found, ("encoder", "self"), Options(), DOC)])

    one = {"id": 1, "what": "cell", "row": 1, "column": 0}
    assert len(respond(shown(2, 512), one)) <= 300_000
    assert len(overview_of(shown(12, 144))) <= 1_000_000  # its pictures are as large as of more
    whole = overview_of(shown(12, 34))  # as many tokens as an overview can carry the maps of
    assert "maps0" in unframed(whole)[1] and len(whole) <= 1_000_000


def test_what_is_too_much_for_one_file_is_said(
    looks: dict[str, AttentionMaps], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.analyses.attention.browser.requests.MAX_FILE", 10)
    head, _ = response(scene(looks["mini:bert"]), "export", form="npz", row=None, column=None)
    assert head["kind"] == "problem" and "Open a head" in head["text"]


def test_the_overview_is_plain_json(looks: dict[str, AttentionMaps]) -> None:
    """No NaN reaches the browser, whatever a table says."""
    table = pd.DataFrame(
        [("encoder", "self", 0, 0, float("nan"), None), ("encoder", "self", 0, 1, 1.0, "x")],
        columns=["stack", "kind", "layer", "head", "score", "role"],
    )
    side = side_of(looks["mini:bert"], ("encoder", "self"), Options(), DOC, [("t", table)])
    message = overview_of(scene_of([side]))
    length = int.from_bytes(message[:4], "little")
    json.loads(message[4 : 4 + length], parse_constant=lambda name: pytest.fail(name))


def test_a_group_that_is_not_there_is_said(looks: dict[str, AttentionMaps]) -> None:
    with pytest.raises(WorkbenchError, match="no-attention"):
        scene(looks["mini:bert"], ("decoder", "cross"))
