"""The glossary: each term once, in two sentences, found in the sentences of the app."""

import re

import pytest

from workbench.app import glossary


def test_terms_are_in_alphabetical_order_and_named_once() -> None:
    text = glossary.FILE.read_text("utf-8")
    named = re.findall(r"^(\S[^\n]*)\n:   ", text, re.MULTILINE)
    assert named == sorted(named, key=str.lower)
    assert len(named) == len(set(named)) > 40
    assert list(glossary.terms()) == ", ".join(named).split(", ")


def test_terms_of_a_sentence_are_explained_once_in_their_order() -> None:
    said = (
        glossary.explained("Not supported: `[CLS]` costs 2 NATS, 1 nat in attention heads.") or ""
    )
    names = re.findall(r"^\*\*(.+)\*\*: ", said, re.MULTILINE)
    assert names == ["not supported", "CLS", "nat", "attention head"]
    assert glossary.explained("The girls ran.") is None


def test_what_a_layer_is_probed_for_is_explained() -> None:
    said = glossary.explained("It knows constituents, dependencies, entities and roles.") or ""
    assert re.findall(r"^\*\*(.+)\*\*: ", said, re.MULTILINE) == [
        "constituent", "dependencies", "entities", "role",
    ]  # fmt: skip
    assert "semantic role" in said


def test_terms_of_figures_and_methods_are_explained() -> None:
    for said in ("gradients and occlusion.", "Procrustes distance", "with reliable maxima only"):
        assert glossary.explained(said), said


@pytest.mark.parametrize("term", glossary.terms())
def test_each_term_has_two_sentences(term: str) -> None:
    text = glossary.terms()[term]
    sentences = re.findall(r"[.](?= [A-Z0-9`]|$)", text)
    assert len(sentences) == 2, text
    assert max(len(part.split()) for part in re.split(r"[.;] ", text)) <= 32
