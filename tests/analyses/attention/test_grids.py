"""Words, hidden tokens, aggregates and rollout, against slow loops and known answers."""

from collections.abc import Callable

import numpy as np
import pytest
from spacy.tokens import Doc

from tests.night import mostly
from workbench import Model, WorkbenchError
from workbench.analyses.attention.capture import AttentionMaps, Text, attention
from workbench.analyses.attention.grids import TOGETHER, Options, grid_of, groups, items, numbers
from workbench.engine.taps import Site

Models = Callable[[str], Model]


def made(
    maps: np.ndarray,  # [layers, heads, n, n]
    owners: list[int],
    special: list[bool],
    words: list[str],
    kind: str = "self",
    windows: tuple[int, ...] = (),
    n_global: int = 0,
) -> AttentionMaps:
    """A look with prescribed maps."""
    text = Text(
        tuple(f"p{i}" for i in range(len(owners))), tuple(owners), tuple(special), tuple(words)
    )
    heads = maps.shape[1]
    sites = [
        Site(i, "encoder", kind, i, heads, heads, windows[i] if windows else 0, n_global)
        for i in range(len(maps))
    ]
    return AttentionMaps(
        "made", "made", "fp32", {"encoder": text}, dict(zip(sites, maps, strict=True)), {}, {}, 0, 0
    )


@pytest.fixture
def prescribed() -> AttentionMaps:
    """Two layers of three heads over [CLS] a b1 b2 c [SEP]; word b has two pieces."""
    maps = np.random.default_rng(0).dirichlet(np.ones(6), size=(2, 3, 6)).astype(np.float32)
    owners = [-1, 0, 1, 1, 2, -1]
    return made(maps, owners, [True, False, False, False, False, True], ["a", "b", "c"])


GROUP = ("encoder", "self")


def slowly(pieces: np.ndarray, owners: list[int]) -> np.ndarray:
    """Sum over the pieces looked at, mean over those that look; one number at a time."""
    groups: list[list[int]] = []
    for piece, owner in enumerate(owners):
        if owner >= 0 and piece and owners[piece - 1] == owner:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    found = np.zeros((len(groups), len(groups)))
    for i, rows in enumerate(groups):
        for j, columns in enumerate(groups):
            found[i, j] = np.mean([sum(pieces[r, c] for c in columns) for r in rows])
    return found


@pytest.mark.parametrize(
    ("layers", "heads", "across"),
    [
        (4, 4, False),
        (12, 2, False),
        (12, 32, False),
        (32, 32, False),
        (13, 12, True),
        (30, 9, True),
    ],
)
def test_many_layers_are_across(layers: int, heads: int, across: bool) -> None:
    look = made(np.zeros((layers, heads, 1, 1), dtype=np.float32), [0], [False], ["a"])
    assert grid_of(look, GROUP, Options()).layers_across is across


def test_by_words_is_the_sum_over_targets_and_the_mean_over_sources(
    prescribed: AttentionMaps,
) -> None:
    grid = grid_of(prescribed, GROUP, Options(unit="words"))
    assert grid.sides.rows.names == ("p0", "a", "b", "c", "p5")
    for row, (site, maps) in enumerate(prescribed.maps.items()):
        for head in range(site.heads):
            expected = slowly(maps[head], [-1, 0, 1, 1, 2, -1])
            np.testing.assert_allclose(grid.map(row, head), expected, rtol=1e-5)
            np.testing.assert_allclose(grid.map(row, head).sum(-1), 1, rtol=1e-5)


def test_hidden_special_tokens_take_their_share_with_them(prescribed: AttentionMaps) -> None:
    shown = grid_of(prescribed, GROUP, Options()).map(1, 2)
    hidden = grid_of(prescribed, GROUP, Options(special="hidden")).map(1, 2)
    np.testing.assert_array_equal(hidden, shown[1:-1, 1:-1])
    renormalised = grid_of(prescribed, GROUP, Options(special="renormalised")).map(1, 2)
    np.testing.assert_allclose(renormalised, hidden / hidden.sum(-1, keepdims=True), rtol=1e-5)


def test_a_row_of_which_nothing_is_left_stays_empty() -> None:
    maps = np.zeros((1, 1, 3, 3), dtype=np.float32)
    maps[..., 2] = 1  # all on [SEP]
    found = made(maps, [0, 1, -1], [False, False, True], ["a", "b"])
    grid = grid_of(found, GROUP, Options(special="renormalised"))
    assert (grid.map(0, 0) == 0).all()


def test_aggregates_of_chosen_heads_keep_the_numbers(prescribed: AttentionMaps) -> None:
    first, second = (maps for maps in prescribed.maps.values())
    options = Options(together="mean over heads", heads=(2, 0), layers=(1,))
    grid = grid_of(prescribed, GROUP, options)
    assert (grid.rows, grid.columns, grid.layers) == (("2",), ("mean",), (1,))
    np.testing.assert_allclose(grid.map(0, 0), second[[0, 2]].mean(0), rtol=1e-5)
    grid = grid_of(prescribed, GROUP, Options(together="max over layers", heads=(1,)))
    assert (grid.rows, grid.columns) == (("max",), ("2",))
    np.testing.assert_array_equal(grid.map(0, 0), np.maximum(first[1], second[1]))
    grid = grid_of(prescribed, GROUP, Options(together="mean over both"))
    np.testing.assert_allclose(grid.map(0, 0), np.mean([first, second], axis=(0, 1)), rtol=1e-5)
    grid = grid_of(prescribed, GROUP, Options(heads=(1,)))
    assert grid.columns == ("2",)
    np.testing.assert_array_equal(grid.map(1, 0), second[1])


def test_rollout_is_the_product_with_half_passed_on(prescribed: AttentionMaps) -> None:
    first, second = (0.5 * maps.mean(0) + 0.5 * np.eye(6) for maps in prescribed.maps.values())
    grid = grid_of(prescribed, GROUP, Options(together="rollout"))
    np.testing.assert_allclose(grid.map(0, 0), first, rtol=1e-5)
    np.testing.assert_allclose(grid.map(1, 0), second @ first, rtol=1e-4)


def test_rollout_of_heads_that_look_at_themselves_is_the_identity() -> None:
    maps = np.broadcast_to(np.eye(4, dtype=np.float32), (3, 2, 4, 4))
    found = made(maps, [0, 1, 2, 3], [False] * 4, list("abcd"))
    grid = grid_of(found, GROUP, Options(together="rollout"))
    np.testing.assert_allclose(grid.map(2, 0), np.eye(4), atol=1e-6)


def test_layers_with_fewer_heads_have_gaps(prescribed: AttentionMaps) -> None:
    first, second = prescribed.maps.items()
    fewer = Site(1, "encoder", "self", 1, 2, 2)
    found = AttentionMaps(
        "cut",
        "cut",
        "fp32",
        prescribed.texts,
        {first[0]: first[1], fewer: second[1][:2]},
        {},
        {},
        0,
        0,
    )
    grid = grid_of(found, GROUP, Options())
    assert {(row, column) for row, column, _ in grid.each()} == {
        (row, column) for row in range(2) for column in range(3)
    } - {(1, 2)}
    with pytest.raises(WorkbenchError, match="head-missing"):
        grid.map(1, 2)
    top = grid_of(found, GROUP, Options(together="max over heads", layers=(1,), heads=(2,)))
    assert not list(top.each())


@pytest.mark.parametrize(
    "name", mostly(["bert", "gpt2", "t5", "bart", "llama"], "bert", "gpt2", "t5")
)
def test_every_way_of_showing_every_group(model: Models, doc: Doc, name: str) -> None:
    """Rows sum to 1 wherever they should, and layers of stacks of different depth are all there."""
    found = attention(model(name), doc)
    for group in groups(found):
        layers, _ = numbers(found, group)
        assert layers == [s.layer for s in model(name).sites if (s.stack, s.kind) == group]
        for unit in ("pieces", "words"):
            for special in ("shown", "renormalised"):
                for together in TOGETHER:
                    if together == "rollout" and group[1] == "cross":
                        continue
                    grid = grid_of(found, group, Options(unit, special, "attention", together))
                    for _, _, shown in grid.each():
                        mass = shown.sum(-1)
                        full = mass > 0
                        if not together.startswith("max") or special == "renormalised":
                            np.testing.assert_allclose(mass[full], 1, atol=1e-4)


def test_weighted_by_norms(model: Models, doc: Doc) -> None:
    found = attention(model("gpt2"), doc)
    site = model("gpt2").sites[1]
    group = ("decoder", "causal")
    grid = grid_of(found, group, Options(weigh="norms"))
    expected = found.maps[site][2] * found.norms[site][2][None]
    np.testing.assert_allclose(grid.map(1, 2), expected, rtol=1e-6)


def test_what_is_not_there_is_said(model: Models, doc: Doc) -> None:
    found = attention(model("xlnet"), doc)
    with pytest.raises(WorkbenchError, match="model-unsupported"):
        grid_of(found, GROUP, Options(weigh="norms"))
    with pytest.raises(WorkbenchError, match="no-attention"):
        grid_of(found, ("decoder", "cross"), Options())
    with pytest.raises(WorkbenchError, match="layer-missing"):
        grid_of(found, GROUP, Options(layers=(7,)))


def test_items_tell_where_they_are(prescribed: AttentionMaps) -> None:
    side = items(prescribed.texts["encoder"], "words", "hidden")
    assert side.names == ("a", "b", "c")
    assert side.places == (1, 2, 4)
    assert side.words == (0, 1, 2)


def test_the_figure_has_the_numbers_of_each_map(prescribed: AttentionMaps) -> None:
    grid = prescribed.grid(unit="words", heads=[0, 2])
    figure = grid.figure()
    titles = [title.text for title in figure.layout.annotations]
    assert titles == [f"layer {layer}, head {head}" for layer in (1, 2) for head in (1, 3)]
    for trace, (_, _, values) in zip(figure.data, grid.each(), strict=True):
        assert list(trace.x) == list(trace.y) == ["p0", "a", "b", "c", "p5"]
        assert (np.array(trace.z) == values.astype(float)).all()
    many = made(np.ones((7, 7, 1, 1), dtype=np.float32), [0], [False], ["a"])
    with pytest.raises(WorkbenchError, match="49 maps") as error:
        many.grid().figure()
    assert "layers=" in error.value.remedy
    assert len(many.grid(together="mean over heads").figure().data) == 7


# --- windows --------------------------------------------------------------------------------------

OWNERS = [-1, 0, 1, 1, 2, 3, 3, -1]


def windowed(kind: str, n_global: int) -> AttentionMaps:
    special = [True, *[False] * 6, True]
    maps = np.zeros((2, 1, 8, 8), dtype=np.float32)
    return made(maps, OWNERS, special, ["a", "b", "c", "d"], kind, (1, 2), n_global)


@pytest.mark.parametrize("unit", ["pieces", "words"])
@pytest.mark.parametrize("kind", ["self", "causal"])
@pytest.mark.parametrize("n_global", [0, 1])
def test_items_see_what_a_piece_of_theirs_sees(unit: str, kind: str, n_global: int) -> None:
    grid = grid_of(windowed(kind, n_global), ("encoder", kind), Options(unit=unit))  # type: ignore[arg-type]
    groups_: list[list[int]] = [[p] for p in range(8)]
    if unit == "words":
        groups_ = [[0], [1], [2, 3], [4], [5, 6], [7]]
    assert grid.windows == (1, 2) and grid.n_global == n_global
    for row, window in enumerate(grid.windows):
        expected = [
            [
                any(abs(a - b) <= window or min(a, b) < n_global for a in one for b in other)
                and (kind == "self" or other[0] <= one[0])
                for other in groups_
            ]
            for one in groups_
        ]
        assert grid.seen(row).tolist() == expected


def test_combined_layers_see_as_far_as_the_farthest() -> None:
    look = windowed("self", 0)
    assert grid_of(look, GROUP, Options(together="mean over layers")).windows == (2,)
    assert grid_of(look, GROUP, Options(together="max over both", layers=(0,))).windows == (1,)
    assert grid_of(look, GROUP, Options(together="rollout")).windows == (0, 0)
    no_limit = made(np.zeros((2, 1, 2, 2)), [0, 1], [False] * 2, ["a", "b"], windows=(0, 2))
    assert grid_of(no_limit, GROUP, Options(together="mean over layers")).windows == (0,)
