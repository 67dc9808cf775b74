"""The time of tokenizing is linear, and only very long pieces are tokenized differently."""

import time
from functools import cache

import pytest
import spacy
from spacy.language import Language

from tests.night import mostly
from workbench.corpora.readers.text import LONGEST, blank

SIGNS = ["(", "'", "'''", "-", "....", "_", "😀", "$", "'s", "\u2019s", "a(", "\u0301", "http://a."]


@pytest.fixture(scope="module")
def english() -> Language:
    return blank("en")


@cache
def plain() -> Language:
    return spacy.blank("en")


@pytest.mark.parametrize("sign", mostly(SIGNS, "(", "'''", "😀", "a("))
def test_a_long_run_of_signs_is_tokenized_in_linear_time(english: Language, sign: str) -> None:
    text = sign * (20_000 // len(sign))
    started = time.process_time()
    doc = english(text)
    assert time.process_time() - started < 3, "60 s where time grows by n²"
    assert doc.text == text


@pytest.mark.slow  # by day `test_rules_take_a_text_of_any_length`
def test_a_word_of_a_million_letters_is_one_word(english: Language) -> None:
    doc = english("a" * 10**6 + "!!")
    assert [len(token) for token in doc] == [10**6, 1, 1]


def test_marks_stay_with_their_letters(english: Language) -> None:
    text = "e\u0301." * 400
    starts = [token.idx for token in english(text)]
    assert all(text[start] != "\u0301" for start in starts)
    family = "👨\u200d👩\u200d👧" * 100
    assert english(family).text == family


@pytest.mark.parametrize(
    "text",
    [
        "(" * LONGEST + " and (so)",
        "They can't (or won't) pay $3.50 at http://a.b/c?d=e, e.g. in the U.K...!",
        "word " * 500,
    ],
)
def test_shorter_texts_are_tokenized_as_by_spacy(english: Language, text: str) -> None:
    own, spacys = english(text), plain()(text)
    assert [(t.text, t.norm_, t.whitespace_) for t in own] == [
        (t.text, t.norm_, t.whitespace_) for t in spacys
    ]


def test_words_around_a_long_run_keep_their_norms_and_spaces(english: Language) -> None:
    doc = english("I can't  " + "(" * 1_000 + " won't")
    words = [(t.text, t.norm_, t.whitespace_) for t in doc if t.text != "("]
    spacys = plain()("I can't  ( won't")
    assert words == [(t.text, t.norm_, t.whitespace_) for t in spacys if t.text != "("]
    assert doc.text == "I can't  " + "(" * 1_000 + " won't"
