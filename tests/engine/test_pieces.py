"""A batch of pieces is its rows side by side, and stays so when it is taken apart or moved."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.engine.card import CUDA, card
from workbench import WorkbenchError
from workbench.engine.batch import NO_WORD, Pieces, Row, of_ids, pad


def row(length: int, *, order: int = 0, segments: bool = True, **facts: object) -> Row:
    """Pieces 10, 11, … each a word, between two special ones."""
    ids = np.arange(10, 10 + length)
    words = np.arange(-1, length - 1)
    special = np.zeros(length, dtype=np.bool_)
    if length:
        words[[0, -1]], special[[0, -1]] = NO_WORD, True
    kinds = np.arange(length) % 2 if segments else None
    words_ = max(0, length - 2)
    return Row(ids, words, special, kinds, **({"word_count": words_, "order": order} | facts))


def same(one: Pieces, other: Pieces) -> bool:
    tensors = "ids mask words special segments word_counts kept order".split()
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in tensors) and (
        one.unaligned,
        one.cut,
    ) == (other.unaligned, other.cut)


def test_rows_lie_side_by_side_and_padding_belongs_to_no_one() -> None:
    batch = pad([row(4, order=7), row(2, order=3)], pad_id=99)
    assert batch.ids.tolist() == [[10, 11, 12, 13], [10, 11, 99, 99]]
    assert batch.mask.tolist() == [[True] * 4, [True, True, False, False]]
    assert batch.words.tolist() == [[-1, 0, 1, -1], [-1, -1, -1, -1]]
    assert batch.special.tolist() == [[True, False, False, True], [True, True, False, False]]
    assert batch.segments is not None
    assert batch.segments.tolist() == [[0, 1, 0, 1], [0, 1, 0, 0]]
    assert batch.word_counts.tolist() == [2, 0]
    assert batch.order.tolist() == [7, 3]
    assert len(batch) == 2


def test_ids_of_any_lengths_are_texts_of_a_word_for_each_piece() -> None:
    batch = of_ids([[5, 6, 7], [8]], pad_id=99, n_pieces=10, longest=3)
    assert batch.ids.tolist() == [[5, 6, 7], [8, 99, 99]]
    assert batch.words.tolist() == [[0, 1, 2], [0, -1, -1]]
    assert batch.mask.tolist() == [[True] * 3, [True, False, False]]
    assert batch.order.tolist() == [0, 1] and not batch.special.any()


@pytest.mark.parametrize("row_", [[], [10], [-1], [1, 2, 3, 4], [0.5], [[1]]])
def test_ids_that_a_model_lacks_are_named(row_: list[Any]) -> None:
    with pytest.raises(WorkbenchError, match="text 1"):
        of_ids([[1], row_], pad_id=0, n_pieces=10, longest=3)


@pytest.mark.parametrize("row_", [[5, 6, 0, 0], [0, 0, 5], [5, 9, 9, 9]])
def test_ids_with_padding_are_refused_because_each_counts_as_a_piece(row_: list[int]) -> None:
    with pytest.raises(WorkbenchError, match="text 1 is padded"):
        of_ids([[0, 5, 9], row_], pad_id=0, n_pieces=10, longest=9, padding=(0, 9))


def test_types_are_those_a_model_takes() -> None:
    for batch in (pad([row(3)]), pad([])):
        for name in ("ids", "words", "word_counts", "kept", "order"):
            assert getattr(batch, name).dtype == torch.int64, name
        for name in ("mask", "special"):
            assert getattr(batch, name).dtype == torch.bool, name


def test_kept_counts_what_no_end_was_cut_of() -> None:
    pair = row(6, word_count=9, cut=((2, 5), (7, 9)))
    assert pair.kept == 4
    batch = pad([row(3), pair])
    assert (batch.kept.tolist(), batch.word_counts.tolist()) == ([1, 4], [1, 9])
    assert batch.cut == ((1, 2, 5), (1, 7, 9))


def test_unaligned_words_keep_their_row() -> None:
    batch = pad([row(3), row(5, unaligned=(1, 2)), row(4, unaligned=(0,))])
    assert batch.unaligned == ((1, 1), (1, 2), (2, 0))


def test_segments_are_there_only_if_every_row_has_them() -> None:
    assert pad([row(3), row(2, segments=False)]).segments is None


@pytest.mark.parametrize("rows", [[], [row(0)], [row(0), row(0)]])
def test_a_batch_without_pieces_is_one_wide_and_all_padding(rows: list[Row]) -> None:
    batch = pad(rows, pad_id=5)
    assert batch.ids.tolist() == [[5]] * len(rows)
    assert not batch.mask.any()


def test_taking_rows_is_padding_those_rows() -> None:
    rows = [
        row(6, order=0, unaligned=(1,)),
        row(3, order=1, cut=((1, 4),), word_count=4),
        row(4, order=2),
    ]
    batch = pad(rows)
    for chosen in ([0, 2], [2, 1, 0], [1, 0, 1], [-3, 1], torch.tensor([2, 0])):
        places = chosen if isinstance(chosen, list) else chosen.tolist()
        assert same(batch.take(chosen), pad([rows[place] for place in places]))


def test_taking_some_rows_leaves_the_width() -> None:
    batch = pad([row(6), row(2)])
    assert batch.take([1]).ids.shape == (1, 6)
    assert batch.take([]).ids.shape == (0, 6)


def test_a_row_that_is_not_there_cannot_be_taken() -> None:
    with pytest.raises(IndexError):
        pad([row(2)]).take([1])


def test_moving_moves_what_a_model_reads_and_leaves_what_is_known_of_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)  # needs a GPU's driver
    batch = pad([row(4, unaligned=(0,))])
    moved = batch.to("meta")
    for name in "ids mask words special segments".split():
        assert getattr(moved, name).device.type == "meta", name
    for name in "word_counts kept order".split():
        assert torch.equal(getattr(moved, name), getattr(batch, name)), name
    assert moved.unaligned == batch.unaligned
    assert same(batch.to("cpu"), batch)


def test_going_to_a_card_waits_for_nothing_and_changes_no_value() -> None:
    batch = pad([row(4), row(2)])
    with card() as here:
        there = batch.to(CUDA)
        assert there.ids.device == CUDA and not here.waits
        assert same(there.to("cpu"), batch)
