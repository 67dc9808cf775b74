"""Tokens of Python tokenizers are found in the text where those in Rust say they are."""

import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from tests.models.texts import SOME_OF_EACH, as_in_treebanks, at_spaces, odd, plain, whole
from tests.models.vocabularies import FAST
from workbench.models.tokenization import locate, tokenize

Tokenizers = Callable[[str], PreTrainedTokenizerBase]
IN_RUST = pytest.mark.parametrize("kind", FAST)
# Of these every token, of any text, is spelled; others write <unk>, or compose before they spell
SPELLED = ("roberta", "roberta-untrimmed", "roberta-spaced", "gpt2", "llama", "llama-prepended")


class Spoken:
    """What `locate` asks of a tokenizer, for tokens written by hand."""

    unk_token = "[UNK]"

    def tokenize(self, text: str) -> list[str]:
        return [text]


def found(text: str, tokens: str) -> list[str]:
    """The text of each token."""
    return [text[first:last] for first, last in locate(Spoken(), text, tokens.split())]  # type: ignore[arg-type]


def words_of(spans: list[tuple[int, int]], text: str) -> list[set[str]]:
    """For each range, the words it is in."""
    return [
        {text[a:b] for a, b in as_in_treebanks(text) if a < last and first < b}
        for first, last in spans
    ]


def both(
    tokenizer: PreTrainedTokenizerBase, text: str
) -> tuple[list[set[str]], list[set[str]], list[str]]:
    told = tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)
    tokens = tokenizer.convert_ids_to_tokens(told["input_ids"])
    ours = locate(tokenizer, text, tokens)
    assert len(ours) == len(tokens)
    return words_of(ours, text), words_of(told["offset_mapping"], text), tokens


@IN_RUST
@SOME_OF_EACH
@given(text=plain)
def test_plain_tokens_lie_in_the_words_that_rust_says(
    kind: str, tokenizer: Tokenizers, text: str
) -> None:
    ours, told, tokens = both(tokenizer(kind), text)
    # Only WordPiece in Python writes [UNK]; sentencepiece's leaves the letters
    assume(kind.startswith("bert") or tokenizer(kind).unk_token not in tokens)
    for mine, true, token in zip(ours, told, tokens, strict=True):
        if token not in {"▁", "Ġ"}:  # these are given to words by another rule
            assert mine == true, token


@pytest.mark.parametrize("kind", SPELLED)
@SOME_OF_EACH
@given(text=odd)
@example(text="ﬁne ½ İi e\u0301 \u200b\u0000 ｶﾞ ﷺ 👩\u200d👧")
def test_odd_tokens_lie_in_the_words_that_rust_says(
    kind: str, tokenizer: Tokenizers, text: str
) -> None:
    text = re.sub("▁|Ġ|<unk>|</s>|<0x41>", "", whole(text))  # these stand for something else
    ours, told, tokens = both(tokenizer(kind), text)
    for mine, true, token in zip(ours, told, tokens, strict=True):
        if token not in {"▁", "Ġ"}:
            assert mine == true, token


@given(texts=st.lists(st.one_of(plain, st.sampled_from(["ξψω", "漢字", "naïve", "½", "ŝ!"]))))
def test_bert_in_python_is_bert(tokenizer: Tokenizers, texts: list[str]) -> None:
    """Unknown words and all."""
    text = " ".join(texts)
    fast, slow = (
        tokenize(tokenizer(kind), text, np.array(at_spaces(text)), 10**6)
        for kind in ("bert-uncased", "bert-in-python")
    )
    assert fast.ids.tolist() == slow.ids.tolist()
    assert fast.words.tolist() == slow.words.tolist()


def test_marks_of_every_family_are_no_part_of_the_word() -> None:
    assert found("Reading letters", "read ##ing letter ##s") == ["Read", "ing", "letter", "s"]
    assert found("Reading letters", "read ing</w> letters</w>") == ["Read", "ing", "letters"]
    assert found("Reading letters", "Read@@ ing letters") == ["Read", "ing", "letters"]
    assert found("Reading letters", "▁Read ing ▁letters") == ["Read", "ing", "letters"]


def test_marks_that_are_written_in_the_text_are_text() -> None:
    assert found("a ## @@ ▁b", "a ## @@ ▁b") == ["a", "##", "@@", "▁b"]
    assert found("▁▁ a", "▁@@ ▁ a") == ["▁", "▁", "a"]


def test_bytes_of_one_character_lie_together() -> None:
    assert found("a漢b", "▁a <0xE6> <0xBC> <0xA2> b") == ["a", "漢", "漢", "漢", "b"]
    assert found("a�b", "a <0xE6> <0xBC> b")[-1] == "b"  # half a character is no stumbling block


def test_what_normalising_changed_is_found_again() -> None:
    assert found("Café ﬁne ½", "cafe fi ne 1 ⁄ 2") == ["Café", "ﬁ", "ne", "½", "½", "½"]
    assert found("cafe\u0301 İi", "café i i") == ["cafe", "İ", "i"]
    assert found("𝐀𝐁𝐂", "ab ##c") == ["𝐀𝐁", "𝐂"]
    assert found("ΣΣΣΣ", "ςςς ##ς") == ["ΣΣΣ", "Σ"]
    assert found("x aab", "x ▁ \u0323 a ab") == ["x", " ", "a", "a", "ab"]
    assert found("``a'' b", '" a " b') == ["``", "a", "''", "b"]
    text = 'He said “ no ” … then " yes " – he ’ s gone'  # as XLM's tokenizer has it
    assert found(text, 'he said " no " ... then " yes " - he \' s gone') == text.split()


def test_an_unknown_token_takes_the_text_up_to_the_next_known_one() -> None:
    assert found("see ξψω now", "see [UNK] now") == ["see", "ξψω", "now"]
    assert found("ξψ", "[UNK]") == ["ξψ"]
    assert found("ξ\u0007 \u200b ψ", "[UNK] [UNK]") == ["ξ", "ψ"]


def test_several_unknown_tokens_take_a_unit_each() -> None:
    assert found("ξψω 漢字, χ a", "[UNK] [UNK] [UNK] , [UNK] a") == [
        "ξψω",
        "漢",
        "字",
        ",",
        "χ",
        "a",
    ]


def test_where_there_are_not_as_many_units_as_tokens_the_shares_are_equal() -> None:
    assert found("ξψωχ", "[UNK] [UNK]") == ["ξψ", "ωχ"]
    assert found("ξ", "[UNK] [UNK]") == ["ξ", "ξ"]
    assert found("ξ ψωχ", "[UNK] [UNK] [UNK]") == ["ξ", " ψ", "ωχ"]


def test_a_known_token_inside_an_unknown_word_is_not_mistaken_for_the_next_one() -> None:
    assert found("reading1994 reading", "[UNK] reading") == ["reading1994", "reading"]
    assert found("ξaψ a dog", "[UNK] a dog") == ["ξaψ", "a", "dog"]
    assert found("ξ1994 1994 ψ", "[UNK] 1994 [UNK]") == ["ξ1994", "1994", "ψ"]
    assert found("ξ91994漢1994", "[UNK] [UNK] 1994") == ["ξ91994", "漢", "1994"]


def test_text_that_no_token_stands_for_is_passed_over() -> None:
    assert found("The (long) story", "the story") == ["The", "story"]


def test_tokens_that_stand_for_nothing_in_the_text_do_not_move_the_others() -> None:
    assert found("a dog barks", "a &quot; dog barks")[2:] == ["dog", "barks"]


@given(st.text(max_size=12), st.lists(st.text(max_size=4), max_size=12))
def test_any_tokens_for_any_text(text: str, tokens: list[str]) -> None:
    """However little they have to do with one another."""
    spans = locate(Spoken(), whole(text), tokens)  # type: ignore[arg-type]
    assert len(spans) == len(tokens)
    assert all(0 <= first <= last <= len(text) for first, last in spans)
