"""The glossary: each term once, in two sentences, and every term that the app explains."""

import ast
import re
from pathlib import Path

import pytest

from workbench.app import glossary

ROOT = Path(glossary.FILE).parents[2]


def test_terms_are_in_alphabetical_order_and_named_once() -> None:
    text = glossary.FILE.read_text("utf-8")
    named = re.findall(r"^(\S[^\n]*)\n:   ", text, re.MULTILINE)
    assert named == sorted(named, key=str.lower)
    assert len(named) == len(set(named)) == len(glossary.terms()) > 40


@pytest.mark.parametrize("term", glossary.terms())
def test_each_term_has_two_sentences(term: str) -> None:
    text = glossary.terms()[term]
    sentences = re.findall(r"[.](?= [A-Z0-9`]|$)", text)
    assert len(sentences) == 2, text
    assert max(len(part.split()) for part in re.split(r"[.;] ", text)) <= 32


def test_every_term_that_the_app_explains_is_there() -> None:
    explained = set()
    for path in [*(ROOT / "workbench/app").glob("*.py"), *(ROOT / "pages").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("explain"):
                explained |= {one.value for one in node.args if isinstance(one, ast.Constant)}
    assert explained <= set(glossary.terms())
