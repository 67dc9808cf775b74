"""Whole public treebanks: nothing lost, nothing added, and no slower than spaCy's own converter."""

import os
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import conllu as independent
import pytest
from spacy.training.converters import conllu_to_docs

from tests.night import mostly
from workbench.corpora.corpus import Options, Unit
from workbench.corpora.layers import chains, mentions
from workbench.corpora.readers import docbin
from workbench.corpora.readers.conllu import reader, write

DATA = os.environ.get("WORKBENCH_DATA", "")
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not DATA, reason="set WORKBENCH_DATA to the folder with ewt/ and gum/"),
]
SENTENCES = {"ewt/train": 12_544, "ewt/dev": 2_001, "ewt/test": 2_077}
DOCUMENTS = {"gum/train": 177, "gum/dev": 30, "gum/test": 30}
REPEATS = 5


DEV = pytest.mark.parametrize("name", mostly(("ewt/dev", "gum/dev"), "ewt/dev"))


def file(name: str) -> Path:
    return Path(DATA) / f"{name}.conllu"


@cache
def docs(name: str, unit: Unit = "sentence"):
    """Read once, for all tests of the file."""
    return list(read(name, unit))


def read(name: str, unit: Unit = "sentence"):
    return reader([file(name)], Options(unit=unit)).docs(file(name))


def comments(name: str, key: str) -> list[str]:
    start = f"# {key} = "
    lines = file(name).read_text(encoding="utf-8").split("\n")
    return [line.removeprefix(start) for line in lines if line.startswith(start)]


@pytest.mark.parametrize("name", mostly(SENTENCES, "ewt/dev"))
def test_every_sentence_of_ewt_is_read(name):
    assert len(docs(name)) == SENTENCES[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_document_of_gum_is_read(name):
    assert [doc._.document for doc in docs(name, "document")] == comments(name, "newdoc id")
    assert len(comments(name, "newdoc id")) == DOCUMENTS[name]


@DEV
def test_the_text_is_the_raw_text_and_the_names_are_the_files(name):
    found = docs(name)
    assert [doc._.sent_ids[0] for doc in found] == comments(name, "sent_id")
    differing = [
        (doc.text, text)
        for doc, text in zip(found, comments(name, "text"), strict=True)
        if doc.text != text
    ]
    assert differing == []


@pytest.mark.parametrize(
    ("name", "most"),
    mostly([("ewt/dev", 500), ("ewt/dev", None), ("gum/dev", None)], ("ewt/dev", 500)),
)
def test_every_column_is_what_an_independent_parser_reads(name, most):
    written = file(name).read_text(encoding="utf-8").split("\n\n")[:most]
    sentences = independent.parse("\n\n".join(written) + "\n\n")
    for doc, sentence in zip(docs(name)[:most], sentences, strict=True):
        rows = [row for row in sentence if isinstance(row["id"], int)]
        assert [t._.form or t.text for t in doc] == [row["form"] for row in rows]
        assert [0 if t.head.i == t.i else t.head.i + 1 for t in doc] == [r["head"] for r in rows]
        assert [t.dep_ for t in doc] == [row["deprel"] for row in rows]
        assert [t.pos_ for t in doc] == [row["upos"] for row in rows]
        assert [t.tag_ for t in doc] == [row["xpos"] for row in rows]
        lemmas = [row["lemma"] if row["lemma"] != "_" or row["form"] == "_" else "" for row in rows]
        assert [t.lemma_ for t in doc] == lemmas
        assert [t.morph.to_dict() for t in doc] == [
            {key: ",".join(sorted(value.split(","))) for key, value in (row["feats"] or {}).items()}
            for row in rows
        ]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ewt/dev", "gum/dev"])
def test_sentences_are_the_files_whether_read_alone_or_in_documents(name):
    alone = [(doc.text, [t.head.i for t in doc]) for doc in docs(name)]
    within = [
        (sentence.text, [t.head.i - sentence.start for t in sentence])
        for doc in docs(name, "document")
        for sentence in doc.sents
    ]
    assert within == alone


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_bracket_of_gum_becomes_a_mention(name):
    notes = re.findall(r"[\t|]Entity=([^\t\n|]*)", file(name).read_text(encoding="utf-8"))
    opened = Counter(
        (etype, chain) for note in notes for chain, etype in re.findall(r"\((\d+)-(\w+)-", note)
    )
    for unit in ("document", "sentence"):
        found = Counter(
            (m.label, m.id) for doc in docs(name, unit) for m in mentions(doc, "entities")
        )
        assert found == opened
    for doc in docs(name, "document"):
        assert mentions(doc, "coreference") == mentions(doc, "entities")
        assert sum(map(len, chains(doc).values())) == len(mentions(doc, "coreference"))


@pytest.mark.slow  # by day `test_conllu_keeps_words_trees_and_mentions`, of drawn Docs
@pytest.mark.parametrize("name", ["ewt/dev", "gum/dev"])
def test_a_treebank_survives_being_written(name, tmp_path):
    whole = docs(name, "document")
    write(whole, tmp_path / "x.conllu")
    docbin.write(whole, tmp_path / "x.spacy")
    again = reader([tmp_path], Options(unit="document")).docs(tmp_path / "x.conllu")
    binary = docbin.reader([tmp_path], Options()).docs(tmp_path / "x.spacy")
    for doc, text, packed in zip(whole, again, binary, strict=True):
        for other in (text, packed):
            assert other.to_json() == doc.to_json()
            assert other._.multiword == doc._.multiword
            assert other._.sent_ids == doc._.sent_ids


def seconds(run: Callable[[], int]) -> float:
    """Of the processor's time for 10,000 sentences, which a busy machine disturbs least."""
    start = time.process_time()
    count = run()
    return (time.process_time() - start) * 10_000 / count


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ewt/dev", "gum/dev"])
def test_reading_is_not_slower_than_spacys_converter(name, capsys):
    """Both from the file on disk to one Doc a sentence, by turns."""

    def ours() -> int:
        return sum(1 for _ in read(name))

    def spacys() -> int:
        text = file(name).read_text(encoding="utf-8")
        return sum(1 for _ in conllu_to_docs(text, n_sents=1, no_print=True))

    ours(), spacys()
    pairs = [(seconds(ours), seconds(spacys)) for _ in range(REPEATS)]
    ratios = sorted(theirs / our for our, theirs in pairs)
    with capsys.disabled():
        our, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(
            f"\n{name}: {our:.2f} s for 10,000 sentences, spaCy {theirs:.2f} s; "
            f"{statistics.median(ratios):.1f} times as fast ({ratios[0]:.1f} to {ratios[-1]:.1f})"
        )
    assert statistics.median(ratios) >= 1
