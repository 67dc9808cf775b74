"""What a person reads is in plain English: see `tests/plain_english.py`."""

import pytest

from tests.plain_english import WORDS, found, strings


def test_no_text_has_a_word_that_readers_stumble_over() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ('x = "the model is asked anew"', ["asked", "anew"]),
        ('def f():\n    """What it comes to."""', ["What it comes to"]),
        ("asked = told  # anew", []),
        ('f"{asked} sentences are told"', ["told"]),
        ('{"asked": 1}', []),
        ('"asked"', []),
    ],
)
def test_strings_are_looked_at_and_names_are_not(source: str, words: list[str]) -> None:
    texts = [text for _, text in strings(source)]
    assert [match[0] for text in texts for match in WORDS.finditer(text)] == words
