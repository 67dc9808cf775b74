"""Does a head draw the arcs? On maps that do, that half do, and that cannot."""

from dataclasses import replace

import numpy as np
import pytest
from spacy.tokens import Doc

from tests.analyses.attention.test_grids import made
from workbench.analyses.attention.grids import Options, apart, grid_of
from workbench.analyses.attention.overlays import Overlay, drawn, overlays, placed
from workbench.analyses.attention.thumbnails import MAX_BYTES, overview, pooled
from workbench.corpora.layers import Mention, set_spans

GROUP = ("encoder", "self")
TREE = Overlay("dependencies", "", ((0, 1, "det"), (1, 2, "nsubj"), (3, 2, "obj")))


def looking(targets: list[int], kind: str = "self"):
    """Words that each put 0.6 on one word and the rest on themselves."""
    n = len(targets)
    maps = np.zeros((1, 1, n, n), dtype=np.float32)
    for row, column in enumerate(targets):
        maps[0, 0, row, row] += 0.4
        maps[0, 0, row, column] += 0.6
    if kind == "causal":
        maps = np.tril(maps)
    found = made(maps, list(range(n)), [False] * n, list("abcd"), kind)
    return grid_of(found, ("encoder", kind), Options())


def test_a_head_that_looks_from_each_word_to_its_head_draws_all() -> None:
    grid = looking([1, 2, 2, 2])
    counts = drawn(TREE, grid.sides, grid.map(0, 0))
    assert (counts.hits, counts.of) == (3, 3)
    assert counts.share == 1


def test_back_is_counted_apart() -> None:
    grid = looking([0, 0, 1, 3])  # heads look at dependents; c at the first of two
    counts = drawn(TREE, grid.sides, grid.map(0, 0))
    assert counts.hits == 0
    assert counts.back_hits == 2  # b -> a, c -> b; c -> d is not drawn


def test_a_word_that_looks_at_itself_most_is_judged_by_the_rest() -> None:
    maps = np.array([[[[0.9, 0.1, 0], [0, 0.9, 0.1], [0.1, 0, 0.9]]]], dtype=np.float32)
    found = made(maps, [0, 1, 2], [False] * 3, list("abc"))
    grid = grid_of(found, GROUP, Options())
    counts = drawn(Overlay("x", "", ((0, 1, ""), (1, 2, ""))), grid.sides, grid.map(0, 0))
    assert (counts.hits, counts.of) == (2, 2)


def test_what_a_causal_head_cannot_see_is_not_held_against_it() -> None:
    grid = looking([0, 0, 1, 2], "causal")
    counts = drawn(TREE, grid.sides, grid.map(0, 0))
    assert (counts.hits, counts.of) == (1, 1)  # d -> c alone is visible from the dependent
    assert (counts.back_hits, counts.back_of) == (2, 2)


def test_special_tokens_take_no_part() -> None:
    maps = np.array([[[[0, 0.3, 0.7], [0.4, 0, 0.6], [0, 0, 1]]]], dtype=np.float32)
    found = made(maps, [0, 1, -1], [False, False, True], ["a", "b"])
    grid = grid_of(found, GROUP, Options())
    assert drawn(Overlay("x", "", ((0, 1, ""),)), grid.sides, grid.map(0, 0)).hits == 1


def test_overlays_of_a_doc(doc: Doc) -> None:
    copy = doc.copy()
    set_spans(copy, "coreference", [Mention(0, 3, "", "x"), Mention(5, 6, "", "x")])
    tree, names, chains = overlays(copy)
    assert (0, 2, "det") in tree.pairs and len(tree.pairs) == 10
    assert names.pairs == ((5, 6, "PERSON"),) and names.spans == ((5, 7, "PERSON"),)
    assert chains.pairs == ((5, 2, "x"),)
    assert chains.spans == ((0, 3, "x"), (5, 6, "x"))


def test_overlays_stand_at_first_pieces() -> None:
    maps = np.full((1, 1, 4, 4), 0.25, dtype=np.float32)
    found = made(maps, [-1, 0, 0, 1], [True, False, False, False], ["a", "b"])
    grid = grid_of(found, GROUP, Options())
    moved = placed(Overlay("x", "", ((1, 0, "l"),), ((0, 2, "s"),)), grid.sides.rows)
    assert moved.pairs == ((3, 1, "l"),)
    assert moved.spans == ((1, 4, "s"),)


def test_scores_of_known_maps() -> None:
    n = 4
    maps = np.stack([np.eye(n), np.full((n, n), 1 / n)])[None].astype(np.float32)
    found = made(maps, list(range(n)), [False] * n, list("abcd"))
    seen = overview(grid_of(found, GROUP, Options()))
    scores = {score.name: score.values[0] for score in seen.scores}
    assert scores["confidence"] == pytest.approx((1, 1 / n))
    assert scores["entropy"] == pytest.approx((0, 1))
    assert scores["distance"] == pytest.approx((0, 1.25))
    assert "special mass" not in scores


def test_pictures_keep_what_is_bright_and_stay_within_the_bound() -> None:
    rng = np.random.default_rng(1)
    shown = rng.random((512, 300)).astype(np.float32)
    small = pooled(shown, 72, 50)
    assert small.shape == (72, 50)
    assert small.max() == shown.max()
    assert small[0, 0] == shown[:7, :6].max()
    maps = rng.dirichlet(np.ones(128), size=(24, 16, 128)).astype(np.float32)
    found = made(maps, list(range(128)), [False] * 128, ["w"] * 128)
    seen = overview(grid_of(found, GROUP, Options()))
    assert seen.pictures.nbytes <= MAX_BYTES
    assert seen.pictures.shape[:2] == (24, 16)


def test_two_grids_align_or_say_why() -> None:
    maps = np.full((1, 1, 3, 3), 1 / 3, dtype=np.float32)

    def grid(words: list[str], count: int = 3, layers: int = 1):
        own = np.repeat(maps[:, :, :count, :count], layers, axis=0)
        found = made(own, list(range(count)), [False] * count, words)
        return grid_of(found, GROUP, Options(unit="words"))

    assert apart(grid(["a", "b", "c"]), grid(["a", "b", "c"])) == ""
    why = apart(grid(["a", "b", "c"]), grid(["a", "x", "c"]))
    assert "row 1 is 'b' in the first and 'x' in the second" in why
    why = apart(grid(["a", "b", "c"]), grid(["a", "b"], 2))
    assert "has 3 rows" in why and "'c' is only in the first" in why
    why = apart(grid(["a", "b", "c"]), grid(["a", "b", "c"], layers=2))
    assert "1 × 1 maps" in why


def test_attention_and_attention_by_norms_have_no_difference() -> None:
    maps = np.full((1, 1, 2, 2), 0.5, dtype=np.float32)
    found = made(maps, [0, 1], [False] * 2, ["a", "b"])
    site = next(iter(found.maps))
    normed = replace(found, norms={site: np.ones((1, 2), dtype=np.float32)})
    plain, weighted = (grid_of(normed, GROUP, Options(weigh=w)) for w in ("attention", "norms"))
    assert "units differ" in apart(plain, weighted)
