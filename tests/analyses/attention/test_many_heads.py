"""Deep and wide models and long texts: what is captured, what is sent, and groups of heads."""

import numpy as np
import pytest

import workbench as wb
from tests.analyses.attention.test_grids import GROUP, made
from tests.models import real_shapes
from workbench.analyses.attention import capture
from workbench.analyses.attention.browser.frames import overview_of
from workbench.analyses.attention.browser.scene import scene_of, side_of
from workbench.analyses.attention.capture import blocks
from workbench.analyses.attention.grids import Options, grid_of
from workbench.analyses.attention.thumbnails import GROUP as GROUP_OF_HEADS
from workbench.analyses.attention.thumbnails import overview
from workbench.corpora.encode import doc_of

WORDS = "The girls did not visit it because they were tall"


def shapes(n: int) -> np.ndarray:
    """Four patterns of attention: previous item, same item, first item, all items.  # [4, n, n]"""
    first = np.zeros((n, n))
    first[:, 0] = 1
    return np.stack([np.roll(np.eye(n), -1, 1), np.eye(n), first, np.full((n, n), 1 / n)])


def test_planted_equal_heads_are_in_one_group_and_others_are_not() -> None:
    n, rng = 24, np.random.default_rng(0)
    kinds = rng.integers(4, size=(13, 14))
    maps = shapes(n)[kinds].astype(np.float32)
    grid = grid_of(made(maps, list(range(n)), [False] * n, ["w"] * n), GROUP, Options())
    (found,) = (s for s in overview(grid).scores if s.name == GROUP_OF_HEADS)
    of_kind = [
        {str(found.values[r][c]) for r, c in zip(*np.nonzero(kinds == kind), strict=True)}
        for kind in range(4)
    ]
    assert [len(own) for own in of_kind] == [1] * 4, "equal maps are together"
    assert len(set.union(*of_kind)) == 4, "and others are apart"
    assert sum(row.count("A") for row in found.values) == np.bincount(kinds.ravel()).max()


def test_few_heads_have_no_groups() -> None:
    maps = shapes(5)[None].astype(np.float32)
    grid = grid_of(made(maps, list(range(5)), [False] * 5, ["w"] * 5), GROUP, Options())
    assert GROUP_OF_HEADS not in {score.name for score in overview(grid).scores}


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> wb.Model:
    """A decoder of 48 layers of 25 narrow heads."""
    folder = tmp_path_factory.mktemp("deep")
    return wb.load(real_shapes.decoder(folder, 48, 25, 25, 2, 2_000), device="cpu")


def size_of(model: wb.Model, words: int) -> int:
    """Bytes of the overview of a text with so many words."""
    doc = doc_of(" ".join((WORDS.split() * words)[:words]))
    maps = wb.attention(model, doc, layers=blocks(model, doc)[0])
    side = side_of(maps, ("decoder", "causal"), Options(), doc)
    return len(overview_of(scene_of([side])))


def test_an_overview_of_1200_heads_is_below_two_megabytes(deep: wb.Model) -> None:
    assert size_of(deep, 30) < 2e6


def test_a_long_text_is_read_in_blocks_of_layers(
    deep: wb.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    doc = doc_of(WORDS)
    whole = wb.attention(deep, doc)
    n = whole.maps[deep.sites[0]].shape[-1]
    assert blocks(deep, doc) == [range(48)], "short"
    monkeypatch.setattr(capture, "WHOLE_BYTES", 0)
    monkeypatch.setattr(capture, "BLOCK_BYTES", 4 * 7 * 25 * n * n)
    found = blocks(deep, doc)
    assert [len(each) for each in found] == [7] * 6 + [6]
    third = wb.attention(deep, doc, layers=found[2])
    assert {site.layer for site in third.maps} == {*range(14, 21)}
    assert third.texts == whole.texts
    grid = third.grid()
    assert grid.rows == tuple(str(number) for number in range(15, 22))
    assert np.allclose(grid.map(0, 3), whole.grid().map(14, 3), atol=1e-6)


def test_the_pass_ends_after_the_last_layer_of_a_block(deep: wb.Model) -> None:
    run: set[int] = set()
    hooks = [
        layer.register_forward_pre_hook(lambda *_, number=number: run.add(number))
        for number, layer in enumerate(deep.net.model.layers)
    ]
    wb.attention(deep, f"{WORDS} again", layers=[3, 5])
    for hook in hooks:
        hook.remove()
    assert run == {*range(6)}
