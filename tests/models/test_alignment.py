"""Each word owns its pieces, or is reported; and the model sees the text as it would anywhere."""

import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from tests.models.texts import (
    SOME_OF_EACH,
    Ranges,
    anything,
    as_in_treebanks,
    at_spaces,
    bare,
    batch_of,
    cut_anywhere,
    odd,
    plain,
    whole,
)
from tests.models.vocabularies import KINDS, bert_in_python
from tests.night import mostly
from workbench import WorkbenchError
from workbench.engine.batch import NO_WORD, Row, pad
from workbench.models.formats.checkpoint import read_tokenizer
from workbench.models.tokenization import pad_id, tokenize, tokenize_batch

Tokenizers = Callable[[str], PreTrainedTokenizerBase]
ALL = pytest.mark.parametrize("kind", KINDS)
SOME = pytest.mark.parametrize("kind", mostly(KINDS, "bert-uncased", "roberta", "t5", "llama"))
UNLIMITED = 10**6
# These leave out no character, so that a word's pieces spell it to the letter
LOSSLESS = ("roberta", "roberta-untrimmed", "gpt2", "llama", "llama-prepended")
COMPOSING = ("gpt-neox", "modernbert")  # the same once the text is in NFC


def pieces_of(tokenizer: PreTrainedTokenizerBase, row: Row) -> list[list[str]]:
    """The tokens of each word."""
    tokens = tokenizer.convert_ids_to_tokens(row.ids.tolist())
    return [
        [token for token, owner in zip(tokens, row.words, strict=True) if owner == word]
        for word in range(row.word_count)
    ]


def words_and_pieces(
    tokenizer: PreTrainedTokenizerBase, text: str, ranges: Ranges
) -> list[tuple[str, str]]:
    """Words with their pieces, as one reads them."""
    row = tokenize(tokenizer, text, np.array(ranges), UNLIMITED)
    words = [text[first:last] for first, last in ranges]
    return list(zip(words, map(" ".join, pieces_of(tokenizer, row)), strict=True))


def check(tokenizer: PreTrainedTokenizerBase, row: Row, words: int) -> None:
    """Every word owns pieces or is reported, never both; pieces have one owner, in order."""
    owned = row.words[row.words != NO_WORD]
    assert row.word_count == words
    assert set(owned.tolist()) | set(row.unaligned) == set(range(words))
    assert not set(owned.tolist()) & set(row.unaligned)
    assert (np.diff(owned) >= 0).all()
    assert (row.words[row.special] == NO_WORD).all()
    assert row.cut == ()


@SOME
@SOME_OF_EACH
@given(data=st.data())
def test_any_text_with_any_words(kind: str, tokenizer: Tokenizers, data: st.DataObject) -> None:
    text = data.draw(anything)
    ranges = data.draw(cut_anywhere(text))
    row = tokenize(tokenizer(kind), text, np.array(ranges), UNLIMITED)
    check(tokenizer(kind), row, len(ranges))
    assert row.ids.tolist() == tokenizer(kind)([whole(text)])["input_ids"][0]


@SOME
@SOME_OF_EACH
@given(data=st.data())
def test_any_pair_with_any_words(kind: str, tokenizer: Tokenizers, data: st.DataObject) -> None:
    text = whole(data.draw(anything))
    ranges = data.draw(cut_anywhere(text).filter(bool))
    pair_from = data.draw(st.integers(0, len(ranges) - 1))
    row = tokenize(tokenizer(kind), text, np.array(ranges), UNLIMITED, pair_from)
    check(tokenizer(kind), row, len(ranges))
    begins = ranges[pair_from][0]
    first, second = text[:begins].rstrip(), text[begins:]
    assert row.ids.tolist() == tokenizer(kind)([first], [second])["input_ids"][0]


@SOME
@SOME_OF_EACH
@given(text=plain)
def test_pieces_of_a_plain_word_spell_it(kind: str, tokenizer: Tokenizers, text: str) -> None:
    """Once case and accents are gone; `"` and `'` may be part of a neighbour's piece."""
    unknown = str(tokenizer(kind).unk_token)
    row = tokenize(tokenizer(kind), text, np.array(at_spaces(text)), UNLIMITED)
    for word, tokens in zip(text.split(), pieces_of(tokenizer(kind), row), strict=True):
        if not any(unknown in token for token in tokens):
            assert bare(tokenizer(kind).convert_tokens_to_string(tokens)) == bare(word)
        assert tokens


@pytest.mark.parametrize("kind", mostly([*LOSSLESS, *COMPOSING], "roberta", "llama", "gpt-neox"))
@SOME_OF_EACH
@given(text=odd)
def test_pieces_of_an_odd_word_spell_it(kind: str, tokenizer: Tokenizers, text: str) -> None:
    """To the letter, mark or byte, where the tokenizer changes nothing."""
    text = whole(text)
    for known in ("<unk>", "</s>", "[SEP]", "▁", "<0x41>"):
        text = text.replace(known, "")  # they stand for something else
    row = tokenize(tokenizer(kind), text, np.array(at_spaces(text)), UNLIMITED)
    assert row.unaligned == ()
    for word, tokens in zip(text.split(), pieces_of(tokenizer(kind), row), strict=True):
        expected = unicodedata.normalize("NFC", word) if kind in COMPOSING else word
        assert tokenizer(kind).convert_tokens_to_string(tokens).lstrip(" ") == expected


@SOME
@SOME_OF_EACH
@given(text=anything)
def test_a_word_between_spaces_is_unaligned_only_if_nothing_is_made_of_it(
    kind: str, tokenizer: Tokenizers, text: str
) -> None:
    text = whole(text)
    ranges = [found.span() for found in re.finditer("[^ ]+", text)]
    row = tokenize(tokenizer(kind), text, np.array(ranges), UNLIMITED)
    for first, last in (ranges[word] for word in row.unaligned):
        assert set(tokenizer(kind).tokenize(text[first:last])) <= {"▁", "Ġ"}


CASES: list[tuple[str, str, list[tuple[str, str]]]] = [
    # a byte-level piece takes its space along; the word does not lose its first letter
    ("gpt2", "I saw Larger boats", [("I", "I"), ("saw", "Ġs aw"), ("Larger", "Ġ Larger"),
                                    ("boats", "Ġboat s")]),
    ("roberta", "I saw Larger boats", [("I", "I"), ("saw", "Ġs aw"), ("Larger", "Ġ Larger"),
                                       ("boats", "Ġboat s")]),
    ("roberta-untrimmed", "a  dog", [("a", "a"), ("dog", "Ġdog")]),
    # a space that was not there, trimmed: "b" has no width
    ("roberta-spaced", "x <unk>b c", [("x", "Ġ x"), ("<unk>b", "Ġ <unk> Ġb"), ("c", "Ġc")]),
    ("roberta-spaced", "Larger", [("Larger", "Ġ Larger")]),
    # a lone mark goes with the word it begins, and only with that one
    ("t5", "Zebra Zebra", [("Zebra", "▁ Z e b r a"), ("Zebra", "▁ Z e b r a")]),
    ("deberta-v2", "x Zebra", [("x", "▁ x"), ("Zebra", "▁ Z e b r a")]),
    ("llama", "a  dog", [("a", "▁a"), ("dog", "▁dog")]),
    ("llama", "a Larger dog", [("a", "▁a"), ("Larger", "▁ L arger"), ("dog", "▁dog")]),
    ("llama-prepended", "Larger", [("Larger", "▁ L arger")]),
    ("gpt2", "a  Larger", [("a", "a"), ("Larger", "Ġ Larger")]),
    # accents go with lower-casing, and only there
    ("bert-uncased", "ZOË café cafe\u0301", [("ZOË", "zoe"), ("café", "caf ##e"),
                                             ("cafe\u0301", "caf ##e")]),
    ("bert-cased", "café", [("café", "caf ##é")]),
    # one character becomes two or three, or is lower-cased to two
    ("albert", "ﬁne ½ x", [("ﬁne", "▁f in e"), ("½", "▁1 <unk> 2"), ("x", "▁ x")]),
    ("bert-uncased", "İi x", [("İi", "i ##i"), ("x", "x")]),
    ("unigram-bytes", "a ﬁ a", [("a", "▁a"), ("ﬁ", "▁ fi"), ("a", "▁a")]),
    # one character is several bytes; joined emoji stay one word
    ("gpt2", "👩\u200d👧 a", [("👩\u200d👧", "ð Ł ĳ © â Ģ į ð Ł ĳ §"), ("a", "Ġa")]),
    ("llama", "漢 a", [("漢", "▁ <0xE6> <0xBC> <0xA2>"), ("a", "▁a")]),
    # control characters and what has no width are dropped, or words of their own
    ("bert-uncased", "a\u200bt \u200b c\u0000o \u0007", [("a\u200bt", "a ##t"), ("\u200b", ""),
                                                         ("c\u0000o", "co"), ("\u0007", "")]),
    # unknown, all of it
    ("bert-uncased", "ξ 漢字 a", [("ξ", "[UNK]"), ("漢字", "[UNK] [UNK]"), ("a", "a")]),
    # a special token written in the text is text
    ("bert-uncased", "a [SEP] dog", [("a", "a"), ("[SEP]", "[SEP]"), ("dog", "dog")]),
    ("openai-gpt", "The boats", [("The", "the</w>"), ("boats", "boat s</w>")]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "expected"), CASES)
def test_by_hand(
    kind: str, text: str, expected: list[tuple[str, str]], tokenizer: Tokenizers
) -> None:
    assert words_and_pieces(tokenizer(kind), text, at_spaces(text)) == expected


@ALL
def test_tabs_and_line_ends_are_no_words_and_part_words(kind: str, tokenizer: Tokenizers) -> None:
    text = "\n the\tdog\r\n\n  barking \u3000 loud\u00a0er\n"
    found = words_and_pieces(tokenizer(kind), text, at_spaces(text))
    alone = words_and_pieces(tokenizer(kind), "the", [(0, 3)])
    assert [word for word, _ in found] == ["the", "dog", "barking", "loud", "er"]
    assert all(tokens for _, tokens in found)
    assert found[0][1].strip("▁Ġ ") == alone[0][1].strip("▁Ġ ")


@ALL
def test_a_piece_over_two_words_goes_to_the_one_with_more_of_it(
    kind: str, tokenizer: Tokenizers
) -> None:
    text = "the the"
    for place in (1, 2):
        halves = [(0, place), (place, 3), (4, 4 + place), (4 + place, 7)]
        row = tokenize(tokenizer(kind), text, np.array(halves), UNLIMITED)
        sizes = [len(tokens) for tokens in pieces_of(tokenizer(kind), row)]
        if sum(sizes) > 2:
            assert sizes == [place, 3 - place] * 2  # a piece a letter
        else:
            assert row.unaligned == ((0, 2) if place == 1 else (1, 3))


def test_of_equal_parts_the_first_word_owns_the_piece(tokenizer: Tokenizers) -> None:
    row = tokenize(tokenizer("bert-uncased"), "larger", np.array([(0, 3), (3, 6)]), UNLIMITED)
    assert row.words.tolist() == [-1, 0, -1]
    assert row.unaligned == (1,)


def test_each_of_a_run_of_unknown_characters_owns_its_bytes(tokenizer: Tokenizers) -> None:
    """Unigram models tell each byte the characters of the whole run."""
    row = tokenize(tokenizer("unigram-bytes"), "漢字", np.array([(0, 1), (1, 2)]), UNLIMITED)
    assert row.words.tolist() == [0] * 4 + [1] * 3


def test_a_mark_after_a_special_token_is_not_the_tokens(tokenizer: Tokenizers) -> None:
    """It has no width there, and the character before it is another word's."""
    found = words_and_pieces(tokenizer("roberta-spaced"), "a</s>Larger", [(0, 1), (1, 5), (5, 11)])
    assert found == [("a", "Ġa"), ("</s>", "</s>"), ("Larger", "Ġ Larger")]


def test_an_empty_word_is_unaligned(tokenizer: Tokenizers) -> None:
    row = tokenize(tokenizer("gpt2"), "a dog", np.array([(0, 1), (1, 1), (2, 5)]), UNLIMITED)
    assert row.unaligned == (1,)


@ALL
@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_a_text_without_words(kind: str, text: str, tokenizer: Tokenizers) -> None:
    row = tokenize(tokenizer(kind), text, np.empty((0, 2), dtype=np.int64), UNLIMITED)
    assert (row.word_count, row.kept, row.unaligned) == (0, 0, ())
    assert (row.words == NO_WORD).all()


# The two texts have different segment ids, if the model uses them
SEGMENTS = {
    "bert-uncased": [0, 0, 0, 1, 1],
    "bert-cased": [0, 0, 0, 1, 1],
    "albert": [0, 0, 0, 1, 1],
    "deberta-v2": [0, 0, 0, 1, 1],
    "xlnet": [0, 0, 1, 1, 2],
}


@ALL
def test_segments_tell_two_texts_apart_where_the_model_was_trained_so(
    kind: str, tokenizer: Tokenizers
) -> None:
    row = tokenize(tokenizer(kind), "a a", np.array([(0, 1), (2, 3)]), UNLIMITED, pair_from=1)
    if kind not in SEGMENTS:
        assert row.segments is None
        return
    assert row.segments is not None
    assert row.segments.tolist() == SEGMENTS[kind]
    single = tokenize(tokenizer(kind), "a", np.array([(0, 1)]), UNLIMITED)
    assert single.segments is not None


@ALL
def test_the_second_text_begins_at_its_first_word(kind: str, tokenizer: Tokenizers) -> None:
    text = "the old man   the dog"
    row = tokenize(tokenizer(kind), text, np.array(at_spaces(text)), UNLIMITED, pair_from=3)
    assert row.ids.tolist() == tokenizer(kind)("the old man", "the dog")["input_ids"]
    first, *_, fourth, _ = pieces_of(tokenizer(kind), row)
    assert [token.strip("▁Ġ") for token in first] == [token.strip("▁Ġ") for token in fourth]
    if kind in SEGMENTS:
        assert row.segments is not None
        assert (row.segments[row.words >= 3] == 1).all()
        assert (row.segments[(row.words >= 0) & (row.words < 3)] == 0).all()


@pytest.mark.parametrize(
    "kind", mostly(["bert-uncased", "roberta", "t5", "gpt2"], "bert-uncased", "gpt2")
)
@SOME_OF_EACH
@given(data=st.data())
def test_a_batch_is_its_documents(kind: str, tokenizer: Tokenizers, data: st.DataObject) -> None:
    """Whatever stands beside them: alone or paired, cut or not, in any order."""
    spaces = st.sampled_from(["", " ", "\n"])
    texts = data.draw(st.lists(st.builds("{}{}{}".format, spaces, plain, spaces), min_size=1))
    ranges = [as_in_treebanks(text) for text in texts]
    pairs = [
        data.draw(st.none() | st.integers(1, len(words) - 1)) if len(words) > 1 else None
        for words in ranges
    ]
    batch = batch_of(texts, ranges, pairs)
    chosen = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=6))
    room = data.draw(st.integers(8, 40))
    rows = [
        tokenize(tokenizer(kind), texts[place], np.array(ranges[place]), room, pairs[place])
        for place in chosen
    ]
    found = tokenize_batch(tokenizer(kind), batch, chosen, room)
    expected = pad(rows, pad_id(tokenizer(kind)))
    for name in ("ids", "mask", "words", "special", "word_counts", "kept"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
    assert (found.segments is None) == (kind != "bert-uncased")
    if found.segments is not None and rows:
        assert torch.equal(found.segments, expected.segments)
    assert (found.unaligned, found.cut) == (expected.unaligned, expected.cut)
    assert found.order.tolist() == [100 + place for place in chosen]


@ALL
def test_padding_is_the_tokenizers_own_or_at_least_known_to_the_model(
    kind: str, tokenizer: Tokenizers
) -> None:
    text = "a the old man"
    batch = batch_of([text[:1], text], [at_spaces(text[:1]), at_spaces(text)], [None, None])
    found = tokenize_batch(tokenizer(kind), batch, [0, 1], UNLIMITED)
    filler = set(found.ids[~found.mask].tolist())
    if (own := tokenizer(kind).pad_token_id) is not None:
        assert filler == {own}
    assert all(0 <= number < len(tokenizer(kind)) for number in filler)


def test_a_tokenizer_without_offsets_is_refused_and_can_be_converted(
    tmp_path: Path, tokenizer: Tokenizers
) -> None:
    slow = bert_in_python()
    slow.save_pretrained(tmp_path)
    with pytest.raises(WorkbenchError, match="BertTokenizerLegacy is written in Python") as caught:
        tokenize(slow, "the dog", np.array([(0, 3), (4, 7)]), UNLIMITED)
    program = [line for line in caught.value.remedy.splitlines() if line.startswith("  ")]
    exec(dedent("\n".join(program)), {"FOLDER": tmp_path})
    fast = read_tokenizer(str(tmp_path))
    text = "Reading the letters, Zoë saw ξψω."
    expected, found = (
        tokenize(own, text, np.array(as_in_treebanks(text)), UNLIMITED)
        for own in (tokenizer("bert-uncased"), fast)
    )
    assert found.ids.tolist() == expected.ids.tolist()
    assert found.words.tolist() == expected.words.tolist()


def test_every_kind_tells_offsets(tokenizer: Tokenizers) -> None:
    assert all(tokenizer(kind).is_fast for kind in KINDS)
