"""Plain text: sentences and documents, by rules or by a spaCy pipeline."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span

from workbench import WorkbenchError
from workbench.corpora import layers, mentions, read
from workbench.corpora.readers import text
from workbench.corpora.readers.text import load_pipeline

NOVEL = """Title

It  rained.\u00a0She said:  "No!" He left.
The end

Another  book. Yes.
"""


@Language.component("planted_parser")
def planted_parser(doc: Doc) -> Doc:
    """Every word hangs on the one before it; a sentence starts with a capital letter."""
    starts = [token.i == 0 or token.text[0].isupper() for token in doc]
    heads = np.array([0 if start else -1 for start in starts], dtype=np.int64)
    names = [doc.vocab.strings.add("ROOT" if start else "next") for start in starts]
    columns = np.column_stack([heads.astype(np.uint64), np.array(names, dtype=np.uint64)])
    doc.from_array(["HEAD", "DEP"], columns)  # type: ignore[arg-type]
    doc.spans["entities"] = [Span(doc, 0, 2, label="START"), Span(doc, len(doc) - 1, len(doc))]
    return doc


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A pipeline on disk that tags, lemmatises, parses and finds entities."""
    nlp = spacy.blank("en")
    nlp.add_pipe("planted_parser")
    rules: Any = nlp.add_pipe("attribute_ruler")
    rules.add([[{}]], {"TAG": "XX", "POS": "X", "LEMMA": "lemma", "MORPH": "Number=Sing"})
    entities: Any = nlp.add_pipe("entity_ruler")
    entities.add_patterns([{"label": "PER", "pattern": "Ann Bo", "id": "a"}])
    folder = tmp_path_factory.mktemp("pipeline") / "planted"
    nlp.to_disk(folder)
    return str(folder)


def _docs(folder: Path, content: str, **options: Any) -> list[Doc]:
    path = folder / "book.txt"
    path.write_bytes(content.encode("utf-8"))
    return list(read(path, **options).docs())


def test_sentences_of_every_paragraph(tmp_path: Path) -> None:
    docs = _docs(tmp_path, NOVEL)
    assert [d.text for d in docs] == [
        "Title",
        "It rained.",
        'She said: "No!"',
        "He left.",
        "The end",
        "Another book.",
        "Yes.",
    ]
    assert [d._.sent_ids[0] for d in docs] == ["1.1", "3.1", "3.2", "3.3", "4.1", "6.1", "6.2"]
    assert [d._.document for d in docs] == ["book-1", *["book-2"] * 4, *["book-3"] * 2]
    assert all(len(list(d.sents)) == 1 for d in docs)


def test_documents_hold_the_same_sentences(tmp_path: Path) -> None:
    sentences = _docs(tmp_path, NOVEL)
    documents = _docs(tmp_path, NOVEL, unit="document")
    assert [d.text for d in documents] == [
        "Title",
        'It rained. She said: "No!" He left. The end',
        "Another book. Yes.",
    ]
    cut = [s.text for d in documents for s in d.sents]
    assert cut == [d.text for d in sentences]
    names = [(d._.document, i) for d in documents for i in d._.sent_ids]
    assert names == [(d._.document, d._.sent_ids[0]) for d in sentences]


@pytest.mark.parametrize("unit", ["sentence", "document"])
def test_no_word_is_made_of_space(tmp_path: Path, unit: str) -> None:
    (doc,) = _docs(tmp_path, "\u2003a\tb\u00a0 \u3000c\x00\x1f\x7fd\x85\r\n", unit=unit)
    assert doc.text == "a b c\x00 \x7fd"
    assert not any(token.is_space for token in doc)


def test_an_empty_file_holds_nothing(tmp_path: Path) -> None:
    assert _docs(tmp_path, "") == []
    assert _docs(tmp_path, " \n\u2003\n", unit="document") == []


def test_a_note_says_what_rules_lack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.corpora.readers.text.get_installed_models", lambda: ["de_x"])
    (doc,) = _docs(tmp_path, "Hello there.")
    assert layers(doc) == {"words", "sentences"}
    (note,) = read(tmp_path / "book.txt").notes
    assert "python -m spacy download en_core_web_sm" in note
    (note,) = read(tmp_path / "book.txt", language="it").notes
    assert "download en" not in note


def test_a_tokenizer_without_its_package_names_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(language: str) -> Language:
        raise ImportError("Pyvi not installed.")

    monkeypatch.setattr(spacy, "blank", lacking)
    (tmp_path / "book.txt").write_text("Xin chào.", encoding="utf-8")
    with pytest.raises(WorkbenchError, match="package") as caught:
        list(read(tmp_path / "book.txt", language="vi").docs())
    assert "language xx" in str(caught.value)


LONG = "Aardvarks " * 100_001  # spaCy's pipelines take a million characters


def test_rules_take_a_text_of_any_length(tmp_path: Path) -> None:
    (doc,) = _docs(tmp_path, LONG, unit="document")
    assert len(doc) == 100_001


PLANTED = "Who saw Ann Bo . Dogs bark at\nBo . Cats\n"


def test_a_pipeline_leaves_its_annotation_on_every_sentence(tmp_path: Path, planted: str) -> None:
    docs = _docs(tmp_path, PLANTED, pipeline=planted)
    assert [d.text for d in docs] == ["Who saw", "Ann", "Bo .", "Dogs bark at", "Bo .", "Cats"]
    assert layers(docs[3]) >= {"tags", "pos", "lemmas", "morphs", "dependencies", "sentences"}
    bark = docs[3][1]
    assert (bark.tag_, bark.pos_, bark.lemma_, str(bark.morph)) == (
        *("XX", "X", "lemma", "Number=Sing"),
    )
    assert (bark.head.text, bark.dep_) == ("Dogs", "next")
    assert [t.dep_ for t in docs[4]] == ["ROOT", "next"]


def test_spans_of_a_sentence_move_with_it_and_others_go(tmp_path: Path, planted: str) -> None:
    docs = _docs(tmp_path, PLANTED, pipeline=planted)
    found = [[(d[m.start : m.end].text, m.label) for m in mentions(d, "entities")] for d in docs]
    assert found == [
        [("Who saw", "START")],
        [],
        [],
        [("at", "")],
        [("Bo .", "START")],
        [("Cats", "")],
    ]
    assert [d.ents for d in docs[:3]] == [(), (), ()]  # "Ann Bo" is cut in two


def test_entities_within_a_sentence_stay(tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    entities: Any = nlp.add_pipe("entity_ruler")
    entities.add_patterns([{"label": "PER", "pattern": "Ann Bo", "id": "a"}])
    nlp.to_disk(tmp_path / "flat")
    path = tmp_path / "book.txt"
    path.write_text("They saw Ann Bo. Ann Bo left.")
    corpus = read(path, pipeline=str(tmp_path / "flat"))
    assert [[e.text for e in d.ents] for d in corpus.docs()] == [["Ann Bo"], ["Ann Bo"]]
    assert [d.ents[0].id_ for d in corpus.docs()] == ["a", "a"]
    assert "does not split sentences" in " ".join(corpus.notes)


def test_a_pipelines_documents_keep_its_annotation(tmp_path: Path, planted: str) -> None:
    (doc,) = _docs(tmp_path, PLANTED, pipeline=planted, unit="document")
    assert doc.text == "Who saw Ann Bo . Dogs bark at Bo . Cats"
    assert len(list(doc.sents)) == len(doc._.sent_ids) == 6
    assert [t.head.text for t in doc[-3:]] == ["Bo", "Bo", "Cats"]
    assert [e.text for e in doc.ents] == ["Ann Bo"]


def test_a_paragraph_too_long_for_the_pipeline_is_reported(tmp_path: Path, planted: str) -> None:
    with pytest.raises(WorkbenchError, match=r"book\.txt:2: .*1,000,009") as caught:
        _docs(tmp_path, "Short.\n" + LONG, pipeline=planted)
    assert "shorter lines" in caught.value.remedy


def test_an_installed_pipeline_of_the_language_is_taken(
    planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "workbench.corpora.readers.text.get_installed_models", lambda: ["en_b", "en_a", "da_a"]
    )
    loaded: list[str] = []

    def load(name: str) -> Language:
        loaded.append(name)
        return spacy.blank("en")

    monkeypatch.setattr("workbench.corpora.readers.text.spacy.load", load)
    _, notes = load_pipeline(None, "en")
    assert loaded == ["en_a"]
    assert "en_a" in notes[0]


@pytest.mark.parametrize("name", ["en_no_such", "numpy", "", "a\x00b"])
def test_an_unknown_pipeline_is_reported(tmp_path: Path, name: str) -> None:
    with pytest.raises(WorkbenchError, match="cannot be loaded") as caught:
        load_pipeline(name, "en")
    assert "python -m spacy download" in caught.value.remedy
    with pytest.raises(WorkbenchError, match="cannot be loaded"):
        load_pipeline(str(tmp_path), "en")


@pytest.mark.parametrize("language", ["zz", "", "../en", "en.punctuation"])
def test_an_unknown_language_is_reported(language: str) -> None:
    with pytest.raises(WorkbenchError, match="language"):
        load_pipeline(None, language)


@pytest.mark.parametrize("with_pipeline", [False, True])
def test_reading_is_a_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: str, with_pipeline: bool
) -> None:
    path = tmp_path / "book.txt"
    path.write_text("Yes.\n" * 10_000)
    lines_read = 0

    def counted(source: Path) -> Any:
        nonlocal lines_read
        for lines_read in range(1, 10_001):
            yield lines_read, "Yes."

    monkeypatch.setattr(text, "numbered_lines", counted)
    corpus = read(path, pipeline=planted if with_pipeline else None)
    assert len(list(corpus.docs(limit=5))) == 5
    assert lines_read <= 64
