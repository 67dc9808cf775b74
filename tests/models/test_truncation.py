"""A text too long for the model loses whole words from its end, and says which."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from tests.models.texts import SOME_OF_EACH, as_in_treebanks, at_spaces, odd, plain
from tests.models.vocabularies import KINDS
from tests.night import mostly
from workbench import WorkbenchError
from workbench.engine.batch import NO_WORD, Row
from workbench.models.tokenization import tokenize

Tokenizers = Callable[[str], PreTrainedTokenizerBase]
ALL = pytest.mark.parametrize("kind", KINDS)
SOME = pytest.mark.parametrize("kind", mostly(KINDS, "bert-uncased", "roberta", "t5", "llama"))
UNLIMITED = 10**6
TEXT = "The whispering doctors didn't see Larger boats , Nevertheless ."


def special_ids(row: Row) -> list[int]:
    return row.ids[row.special].tolist()


def needed(row: Row, words: int) -> int:
    """How many pieces the first so many words take, with the special ones."""
    mine = np.flatnonzero(row.words[~row.special] < words) if words else np.array([-1])
    mine = mine[row.words[~row.special][mine] != NO_WORD] if words else mine
    return int(mine.max(initial=-1)) + 1 + int(row.special.sum())


@SOME
def test_as_many_whole_words_are_kept_as_fit(kind: str, tokenizer: Tokenizers) -> None:
    ranges = np.array(at_spaces(TEXT))
    full = tokenize(tokenizer(kind), TEXT, ranges, UNLIMITED)
    for room in range(int(full.special.sum()), len(full.ids) + 2):
        row = tokenize(tokenizer(kind), TEXT, ranges, room)
        assert len(row.ids) <= room
        assert special_ids(row) == special_ids(full), "the end token stays"
        for word in range(row.kept):
            kept, whole = row.ids[row.words == word], full.ids[full.words == word]
            assert kept.tolist() == whole.tolist()
        assert row.words.max(initial=-1) == row.kept - 1
        if row.kept < len(ranges):
            assert needed(full, row.kept + 1) > room, "one more would have fitted"
            assert row.cut == ((row.kept, len(ranges)),)
            alone = int((full.words == row.kept).sum() + full.special.sum())
            assert row.unaligned == ((row.kept,) if alone > room else ())
        else:
            assert row.cut == ()


@ALL
def test_a_text_that_just_fits_is_left_alone(kind: str, tokenizer: Tokenizers) -> None:
    text = TEXT + "\n \n"  # to its last space
    ranges = np.array(at_spaces(text))
    full = tokenize(tokenizer(kind), text, ranges, UNLIMITED)
    same = tokenize(tokenizer(kind), text, ranges, len(full.ids))
    assert same.ids.tolist() == full.ids.tolist()
    assert same.cut == ()


@ALL
def test_a_word_longer_than_the_model_is_cut_and_unaligned(
    kind: str, tokenizer: Tokenizers
) -> None:
    text, ranges = "the unwhisperingly old", np.array([(0, 3), (4, 18), (19, 22)])
    full = tokenize(tokenizer(kind), text, ranges, UNLIMITED)
    own = int(full.special.sum())
    first, long = (int((full.words == word).sum()) for word in (0, 1))
    if long == 1:  # unknown, as one piece
        return
    row = tokenize(tokenizer(kind), text, ranges, own + max(first, long - 1))
    assert (row.kept, row.cut) == (1, ((1, 3),))
    assert row.unaligned == ((1,) if first < long else ())
    assert (row.words == 0).sum() == first
    alone = tokenize(tokenizer(kind), text[4:], ranges[1:] - 4, own + long - 2)
    assert (alone.kept, alone.cut, alone.unaligned) == (0, ((0, 2),), (0,))
    assert alone.special.all()


@ALL
def test_one_piece_beside_the_special_ones(kind: str, tokenizer: Tokenizers) -> None:
    own = tokenizer(kind).num_special_tokens_to_add()
    text, ranges = "a a a", np.array([(0, 1), (2, 3), (4, 5)])
    row = tokenize(tokenizer(kind), text, ranges, own + 1)
    assert len(row.ids) == own + 1
    assert (row.kept, row.cut) == (1, ((1, 3),))
    assert row.words[~row.special].tolist() == [0]


@ALL
def test_less_room_than_the_special_pieces_take_is_the_users_mistake(
    kind: str, tokenizer: Tokenizers
) -> None:
    own = tokenizer(kind).num_special_tokens_to_add()
    text, ranges = "a dog", np.array([(0, 1), (2, 5)])
    nothing = tokenize(tokenizer(kind), text, ranges, own)
    assert (len(nothing.ids), nothing.kept) == (own, 0)
    if own:
        with pytest.raises(WorkbenchError, match="special"):
            tokenize(tokenizer(kind), text, ranges, own - 1)


def test_spaces_at_the_end_go_first(tokenizer: Tokenizers) -> None:
    text = "a dog" + "\n" * 9
    row = tokenize(tokenizer("gpt2"), text, np.array([(0, 1), (2, 5)]), 6)
    assert (row.kept, row.cut) == (2, ())
    assert row.words.tolist() == [0, 1]


def test_unaligned_words_are_reported_only_as_far_as_the_text_is_kept(
    tokenizer: Tokenizers,
) -> None:
    text = "a \u200b dog \u200b a"
    row = tokenize(tokenizer("bert-uncased"), text, np.array(at_spaces(text)), 4)
    assert (row.kept, row.cut, row.unaligned) == (4, ((4, 5),), (1, 3))


def shortened(first: list[int], second: list[int], room: int) -> tuple[list[int], list[int]]:
    """The rule, word by word: owners of the pieces that stay."""

    def trimmed(owners: list[int]) -> list[int]:
        while owners and owners[-1] == NO_WORD:
            owners = owners[:-1]
        return owners

    first, second = trimmed(first), trimmed(second)
    while len(first) + len(second) > room:
        longer = first if len(first) > len(second) else second
        last = longer[-1]
        while longer and longer[-1] in {last, NO_WORD}:
            longer.pop()
    return first, second


@SOME
@SOME_OF_EACH
@given(data=st.data())
def test_of_a_pair_the_longer_text_loses_its_last_word_first(
    kind: str, tokenizer: Tokenizers, data: st.DataObject
) -> None:
    text = data.draw(plain.filter(lambda text: " " in text))
    ranges = as_in_treebanks(text)
    pair_from = data.draw(st.integers(0, len(ranges) - 1))
    full = tokenize(tokenizer(kind), text, np.array(ranges), UNLIMITED, pair_from)
    own = int(full.special.sum())
    room = data.draw(st.integers(own, len(full.ids)))
    row = tokenize(tokenizer(kind), text, np.array(ranges), room, pair_from)
    if room == len(full.ids):
        assert row.cut == ()
        return
    content = full.words[~full.special].tolist()
    alone = text[: ranges[pair_from][0]].rstrip()
    begins = len(tokenizer(kind)(alone, add_special_tokens=False)["input_ids"])
    first, second = shortened(content[:begins], content[begins:], room - own)
    assert row.words[~row.special].tolist() == first + second
    assert special_ids(row) == special_ids(full)
    lost = {word for begin, end in row.cut for word in range(begin, end)}
    assert row.kept == len(ranges) - len(lost)
    silent = set(range(len(ranges))) - lost - set(first) - set(second)
    assert silent <= set(row.unaligned)
    assert set(row.unaligned) - silent <= lost


def test_a_pair_by_hand(tokenizer: Tokenizers) -> None:
    text = "the old man the boat the dog"
    row = tokenize(tokenizer("bert-uncased"), text, np.array(at_spaces(text)), 3 + 5, pair_from=3)
    tokens = tokenizer("bert-uncased").convert_ids_to_tokens(row.ids.tolist())
    assert " ".join(tokens) == "[CLS] the old man [SEP] the boat [SEP]"
    assert (row.kept, row.cut) == (5, ((5, 7),))
    assert row.segments is not None
    assert row.segments.tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    both = tokenize(tokenizer("bert-uncased"), text, np.array(at_spaces(text)), 3 + 3, pair_from=3)
    assert (both.kept, both.cut) == (3, ((2, 3), (4, 7)))
    assert both.words.tolist() == [-1, 0, 1, -1, 3, -1]


@SOME
@SOME_OF_EACH
@given(data=st.data())
def test_any_text_cut_anywhere(kind: str, tokenizer: Tokenizers, data: st.DataObject) -> None:
    """Words kept own pieces or are reported; words cut own none."""
    text = data.draw(odd)
    ranges = as_in_treebanks(text)
    own = tokenizer(kind).num_special_tokens_to_add()
    room = data.draw(st.integers(own, own + 12))
    row = tokenize(tokenizer(kind), text, np.array(ranges), room)
    owned = set(row.words.tolist()) - {NO_WORD}
    assert len(row.ids) <= room
    assert owned <= set(range(row.kept))
    assert set(range(row.kept)) - owned == {word for word in row.unaligned if word < row.kept}
    assert {word for word in row.unaligned if word >= row.kept} <= {row.kept}
