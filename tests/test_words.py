"""What a person reads is in plain English: see `tests/words.py`."""

import re

import pytest

from tests.words import ROOT, WORDS, found, strings


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


def test_every_error_has_a_code() -> None:
    """`WorkbenchError(..., code="corpus-not-found")`: for programs, search and tests."""
    import ast

    missing = []
    for path in (p for folder in ("workbench", "probes") for p in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "WorkbenchError":
                codes = [word.value for word in node.keywords if word.arg == "code"]
                literal = [one.value for one in codes if isinstance(one, ast.Constant)]
                if not codes or any(not re.fullmatch(r"[a-z]+(-[a-z]+)*", one) for one in literal):
                    missing.append(f"{path.relative_to(ROOT).as_posix()}:{node.lineno}")
    assert missing == []
