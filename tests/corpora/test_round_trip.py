"""Random Docs come back from a file unchanged, as far as its format can hold them."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc

from tests.corpora.strategies import contents, docs
from workbench.corpora.corpus import Options
from workbench.corpora.readers import conllu, docbin

DRAWN = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
SEVERAL = st.lists(docs(), min_size=1, max_size=3)


def back(module, drawn: list[Doc], path, unit: str = "document") -> list[Doc]:
    assert module.write(drawn, path) == len(drawn)
    return list(module.reader([path], Options(unit=unit)).docs(path))


@DRAWN
@given(drawn=SEVERAL)
def test_a_spacy_file_keeps_everything(tmp_path, drawn):
    again = back(docbin, drawn, tmp_path / "x.spacy")
    assert [contents(doc) for doc in again] == [contents(doc) for doc in drawn]


NOT_IN_CONLLU = ("edges", "labels", "entities of spaCy")


def held_by_conllu(doc: Doc) -> dict[str, object]:
    """The content that CoNLL-U can hold: no edges, no labels; entities and coreference differ."""
    data = contents(doc)
    for layer in NOT_IN_CONLLU:
        del data[layer]
    data["lemmas"] = [t.lemma_ or ("_" if (t._.form or t.text) == "_" else "") for t in doc]
    data["document"] = data["document"] or "x"
    return data


@DRAWN
@given(doc=docs())
def test_conllu_keeps_words_trees_and_mentions(tmp_path, doc):
    """By sentence it gives the same, cut up; and writing what was read changes nothing more."""
    (again,) = back(conllu, [doc], tmp_path / "x.conllu")
    data = contents(again)
    assert {key: data[key] for key in data if key not in NOT_IN_CONLLU} == held_by_conllu(doc)
    sentences = conllu.reader([tmp_path], Options()).docs(tmp_path / "x.conllu")
    for sentence, part in zip(again.sents, sentences, strict=True):
        assert part.text == sentence.text
        assert [(t.head.i + sentence.start, t.dep_) for t in part] == [
            (t.head.i, t.dep_) for t in sentence
        ]
        inside = [
            (s.start - sentence.start, s.end - sentence.start, s.label_, s.id_)
            for s in again.spans.get("entities", [])
            if sentence.start <= s.start and s.end <= sentence.end
        ]
        found = part.spans.get("entities", [])
        assert [(s.start, s.end, s.label_, s.id_) for s in found] == inside
    first = (tmp_path / "x.conllu").read_bytes()
    again._.document = doc._.document
    conllu.write([again], tmp_path / "x.conllu")
    assert (tmp_path / "x.conllu").read_bytes() == first


@DRAWN
@given(drawn=SEVERAL)
def test_conllu_keeps_one_doc_apart_from_the_next(tmp_path, drawn):
    for number, doc in enumerate(drawn):
        doc._.document = "" if number % 2 else f"d{number}"
    again = back(conllu, drawn, tmp_path / "x.conllu")
    assert [d.text for d in again] == [d.text for d in drawn]
    assert [d._.document for d in again] == [
        d._.document or f"x-{number}" for number, d in enumerate(drawn, 1)
    ]


@pytest.mark.parametrize("module", [conllu, docbin])
def test_no_docs_make_a_file_without_docs(tmp_path, module):
    assert back(module, [], tmp_path / "x") == []
