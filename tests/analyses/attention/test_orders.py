"""Prediction orders of XLNet: who sees whom, by the definition and in the maps of the model."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc

from tests.analyses.attention.browser.test_requests import unframed
from workbench import Model, WorkbenchError, encode
from workbench.analyses.attention.browser.frames import overview_of
from workbench.analyses.attention.browser.scene import scene_of, side_of
from workbench.analyses.attention.capture import attention
from workbench.analyses.attention.grids import Options, groups
from workbench.analyses.attention.orders import ORDERS, seen_in

Models = Callable[[str], Model]


@st.composite
def orders(draw: st.DrawFn) -> tuple[list[int], int]:
    """Pieces in the order of their prediction, and the length of their text."""
    length = draw(st.integers(2, 9))
    order = draw(st.permutations(range(length)))
    return order[: draw(st.integers(2, length))], length


def places(order: Sequence[int], length: int) -> list[int]:
    return [order.index(n) if n in order else -1 for n in range(length)]


def by_definition(order: Sequence[int], length: int, kind: str) -> list[list[bool]]:
    """z_t sees the context and z_1 .. z_t, in the query stream z_1 .. z_(t-1)."""
    context = [n for n in range(length) if n not in order]
    seen = [[False] * length for _ in range(length)]
    for n in context:
        if kind == "self":
            for other in context:
                seen[n][other] = True
    for t, n in enumerate(order):
        for other in [*context, *order[: t + (kind == "self")]]:
            seen[n][other] = True
    return seen


@given(orders(), st.sampled_from(["self", "query"]))
def test_a_piece_sees_what_comes_before_it(drawn: tuple[list[int], int], kind: str) -> None:
    order, length = drawn
    assert seen_in(places(order, length), kind).tolist() == by_definition(order, length, kind)


@given(orders(), st.data())
def test_two_pieces_that_change_places_change_what_they_see(
    drawn: tuple[list[int], int], data: st.DataObject
) -> None:
    """Rows and columns of the two are exchanged, and no others change."""
    order, length = drawn
    a, b = data.draw(st.permutations(order))[:2]
    swapped = [{a: b, b: a}.get(n, n) for n in order]
    exchanged = [{a: b, b: a}.get(n, n) for n in range(length)]
    for kind in ("self", "query"):
        before, after = (seen_in(places(each, length), kind) for each in (order, swapped))
        np.testing.assert_array_equal(after, before[exchanged][:, exchanged])
        assert after[a, b] != before[a, b]


@pytest.mark.parametrize("order", [*ORDERS, [5, 2, 9], [3]])
def test_maps_are_those_of_transformers_and_what_is_hidden_has_no_weight(
    model: Models, doc: Doc, order: str | list[int]
) -> None:
    xlnet = model("xlnet")
    found = attention(xlnet, doc, order=order, seed=3)  # type: ignore[arg-type]
    pieces = xlnet.encode(encode([doc]))
    length = pieces.ids.shape[1]
    known = [n for n, place in sorted(enumerate(found.places), key=lambda x: x[1]) if place >= 0]
    if isinstance(order, list):
        assert known == order
    content, query = (by_definition(known, length, kind) for kind in ("self", "query"))
    hidden = ~torch.tensor(query)  # transformers lets each piece see itself in the content stream
    for n in set(range(length)) - set(known):
        hidden[n] = ~torch.tensor(content[n])
    with torch.no_grad():
        theirs = xlnet.net(  # type: ignore[attr-defined]
            pieces.ids,
            token_type_ids=pieces.segments,
            perm_mask=hidden[None].float(),
            target_mapping=torch.eye(length)[None],
            output_attentions=True,
        ).attentions
    streams = {"self": content, "query": query}
    assert [site.kind for site in found.maps] == ["self", "query"] * len(theirs)
    for site, maps in found.maps.items():
        seen = np.array(streams[site.kind])
        assert (maps[:, ~seen] == 0).all()
        expected = theirs[site.layer][site.kind == "query"][0].numpy()
        reads = seen.any(1)
        np.testing.assert_allclose(maps[:, reads], expected[:, reads], atol=1e-6)
        assert not maps[:, ~reads].any()  # context has no query


def test_without_an_order_all_see_all(model: Models, doc: Doc) -> None:
    found = attention(model("xlnet"), doc)
    assert not found.masks and found.grid().seen(0).all()
    assert {site.kind for site in found.maps} == {"self"}


def test_orders_are_drawn_by_their_seed(model: Models, doc: Doc) -> None:
    xlnet = model("xlnet")
    special = attention(xlnet, doc).texts["encoder"].special
    for name in ORDERS:
        drawn = [attention(xlnet, doc, order=name, seed=seed).places for seed in range(6)]
        assert len(set(drawn)) == 1 if name == "left to right" else len(set(drawn)) > 1
        for each in drawn:
            chosen = [place for place in each if place >= 0]
            assert all(
                place < 0 for place, is_special in zip(each, special, strict=True) if is_special
            )
            n = len(special) - sum(special)
            assert n // 6 <= len(chosen) <= n // 6 + 1 if name == "as in training" else True
            assert name == "as in training" or sorted(chosen) == list(range(n))


def test_a_word_sees_what_a_piece_of_it_sees(model: Models, doc: Doc) -> None:
    found = attention(model("xlnet"), doc, order="random", seed=1)
    for group in groups(found):
        pieces, words = (found.grid(group, unit=unit) for unit in ("pieces", "words"))
        seen, of = pieces.seen(0), words.sides.rows
        members = [
            [p for p, w in enumerate(pieces.sides.rows.words) if w == word]
            if word >= 0
            else [place]
            for word, place in zip(of.words, of.places, strict=True)
        ]
        expected = [[bool(seen[np.ix_(a, b)].any()) for b in members] for a in members]
        assert words.seen(0).tolist() == expected
        shown = words.map(0, 0)
        assert (shown[~words.seen(0)] == 0).all()


def test_the_browser_is_told_what_is_hidden_and_the_order(model: Models, doc: Doc) -> None:
    found = attention(model("xlnet"), doc, order=[4, 2])
    names = found.texts["encoder"].pieces
    for group in groups(found):
        message = overview_of(scene_of([side_of(found, group, Options(), doc)]))
        head, arrays = unframed(message)
        assert f"Prediction order: {names[4]}, {names[2]}." in head["note"]
        assert head["title"].endswith(
            ("query" if group[1] == "query" else "content") + " stream, by tokens"
        )
        np.testing.assert_array_equal(arrays["hidden0"] == 1, ~seen_in(found.places, group[1]))


def test_the_masks_are_drawn(model: Models, doc: Doc) -> None:
    found = attention(model("xlnet"), doc, order="left to right")
    drawn = found.masks_figure().data
    assert [each.z.tolist() for each in drawn] == [m.tolist() for m in found.masks.values()]
    assert list(found.masks) == ["content stream", "query stream"]
    assert "2 sites, 8 heads in two streams" in repr(found)


@pytest.mark.parametrize(
    ("name", "order", "noun"),
    [
        ("bert", "random", "order"),
        ("xlnet", "randm", "randm"),
        ("xlnet", [1, 1], "twice"),
        ("xlnet", [99], "99"),
        ("xlnet", [-1], "-1"),
    ],
)
def test_what_is_no_order_is_refused(
    model: Models, doc: Doc, name: str, order: str | list[int], noun: str
) -> None:
    with pytest.raises(WorkbenchError, match=noun):
        attention(model(name), doc, order=order)  # type: ignore[arg-type]


def test_the_query_stream_has_no_rollout(model: Models, doc: Doc) -> None:
    found = attention(model("xlnet"), doc, order="left to right")
    rolled = found.grid(together="rollout")
    assert (rolled.map(1, 0)[~rolled.seen(1)] == 0).all()
    with pytest.raises(WorkbenchError, match="stream"):
        found.grid(("encoder", "query"), together="rollout")
