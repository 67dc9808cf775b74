"""The index of a corpus: its words, their states in every layer, and what is on disk."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from spacy.tokens import Doc

import workbench as wb
from tests.minis import shared
from tests.night import mostly
from tests.planted.senses import doc_of, planted_corpus, planted_model
from workbench.analyses.words import occurrences as module
from workbench.analyses.words.occurrences import in_context
from workbench.corpora.layers import Edge, vocabulary
from workbench.engine.words import by_word


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    return tmp_path / "words"


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Static vectors of a few words."""
    folder = tmp_path_factory.mktemp("vectors")
    words = ["ben", "walks", "to", "the", "hill", "Anna"]
    generator = torch.Generator().manual_seed(0)
    save_file(
        {"vectors": torch.randn(len(words), 8, generator=generator)}, folder / "vectors.safetensors"
    )
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in words))
    return f"vectors:{folder}"


@pytest.mark.parametrize(
    "name",
    mostly(
        ("mini:bert", "mini:gpt", "mini:t5", "mini:elmo", "vectors"),
        "mini:t5",
        "mini:elmo",
        "vectors",
    ),
)
def test_states_of_every_layer_of_every_stack_are_those_of_a_forward_pass(
    name: str, vectors: str
) -> None:
    model = wb.load(vectors if name == "vectors" else name, device="cpu")
    corpus = wb.read("primer:size=40")
    index = wb.occurrences(model, corpus, split="test")
    docs = list(corpus.docs("test"))
    assert list(index.stacks) == [stack.name for stack in model.stacks]
    assert len(index) == sum(map(len, docs))
    assert len(index.sentences) == sum(len(list(doc.sents)) for doc in docs)
    with torch.no_grad():
        output = model.forward(model.encode(wb.encode(docs)))
    for stack, layers in index.stacks.items():
        assert len(layers) == len(output.hidden[stack])
        for layer, states in enumerate(layers):
            words, _ = by_word(output.hidden[stack][layer], output.texts[stack])
            expected = torch.cat([words[n, : len(doc)] for n, doc in enumerate(docs)])
            torch.testing.assert_close(states, expected, atol=1e-4, rtol=1e-3)
            rows = index.rows(stack, layer)
            torch.testing.assert_close(rows.norms, states.norm(dim=1))
            assert rows is index.rows(stack, layer)


def test_each_occurrence_has_its_labels_and_its_place() -> None:
    corpus = wb.read("primer:size=40")
    index = wb.occurrences(planted_model(), corpus, split="test")
    tokens = [token for doc in corpus.docs("test") for token in doc]
    for name, label in (
        ("form", "text"),
        ("lemma", "lemma_"),
        ("tag", "pos_"),
        ("relation", "dep_"),
    ):
        assert index.table[name].tolist() == [getattr(token, label) for token in tokens]
    for row, token in zip(
        index.described(range(len(index))).to_dict("records"), tokens, strict=True
    ):
        assert row["sentence"] == token.sent.text
        assert row["sentence"][row["start"] : row["end"]] == token.text
        assert row["position"] == token.i - token.sent.start
        assert row["document"] == token.doc._.document and row["split"] == "test"
    assert index.sentence_of(len(index) - 1) == tokens[-1].sent.text


def test_the_second_index_reads_neither_texts_nor_model(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    model, corpus = planted_model(), wb.read("primer:size=40")
    seen: list[tuple[int, int]] = []
    first = wb.occurrences(model, corpus, on_progress=lambda *done: seen.append(done))
    assert seen[-1][0] == seen[-1][1] == len(list(corpus))

    def fail(*_: Any, **__: Any) -> Iterator[Any]:
        raise AssertionError("computed again")

    with monkeypatch.context() as patched:
        patched.setattr(model, "forward", fail)
        patched.setattr(module, "tabulated", fail)
        second = wb.occurrences(model, corpus)
        assert second.table.equals(first.table) and second.sentences.equals(first.sentences)
        assert torch.equal(second.stacks["encoder"][1], first.stacks["encoder"][1])
        with pytest.raises(AssertionError):
            wb.occurrences(model, corpus, split="test")
    (folder,) = home.glob("words-*")
    (folder / "sentences.parquet").write_bytes(b"damaged")
    with pytest.raises(wb.WorkbenchError, match="cannot be read") as error:
        wb.occurrences(model, corpus)
    assert error.value.code == "file-format" and "Delete" in error.value.remedy
    shutil.rmtree(folder)
    assert len(wb.occurrences(model, corpus)) == len(first)


def test_other_weights_and_other_texts_have_other_states() -> None:
    corpus = planted_corpus(2)
    first = wb.occurrences(planted_model(0), corpus)
    other = wb.occurrences(planted_model(1), corpus)
    assert not torch.equal(first.stacks["encoder"][0], other.stacks["encoder"][0])
    assert len(wb.occurrences(planted_model(0), planted_corpus(3))) > len(first)


def test_a_sample_is_of_single_words_with_the_same_states() -> None:
    model, corpus = shared("mini:bert"), wb.read("primer:size=40")
    whole = wb.occurrences(model, corpus)
    part = wb.occurrences(model, corpus, max_occurrences=30, seed=3)
    assert len(part) == 30
    keys = ["doc", "word"]
    rows = whole.table.reset_index().merge(part.table[keys], on=keys)["index"].tolist()
    assert len(rows) == 30
    torch.testing.assert_close(part.stacks["encoder"][4], whole.stacks["encoder"][4][rows])
    again = wb.occurrences(model, corpus, max_occurrences=30, seed=3)
    assert again.table.equals(part.table)
    other = wb.occurrences(model, corpus, max_occurrences=30, seed=4)
    assert not other.table.equals(part.table)


def test_words_beyond_the_end_of_what_a_model_reads_have_no_state() -> None:
    model = shared("mini:bert")
    long = Doc(vocabulary("en"), words=["dog"] * 1000)
    index = wb.occurrences(model, wb.Corpus("long", {"test": lambda: iter([long])}))
    known = (index.rows("encoder", 4).norms > 0).numpy()
    assert model.max_pieces is not None
    assert len(index) == 1000 and known.sum() == model.max_pieces - 2
    assert known[: known.sum()].all()


def test_white_space_is_no_word_and_a_word_shown_in_part_has_its_form() -> None:
    doc = Doc(vocabulary("xx"), words=["i", "m", " ", "Haus"], spaces=[False, True, False, False])
    doc[0]._.form, doc[1]._.form = "in", "dem"
    index = wb.occurrences(planted_model(), wb.Corpus("de", {"test": lambda: iter([doc])}))
    assert index.table["form"].tolist() == ["in", "dem", "Haus"]
    assert index.table["word"].tolist() == [0, 1, 3]
    assert index.sentences["text"].tolist() == [doc.text]


def test_spans_of_one_word_label_it() -> None:
    docs = [doc_of(["the", "play", "x"], ["DET", "NOUN", "X"], "a") for _ in range(3)]
    for number, doc in enumerate(docs):
        doc._.edges = {"senses": [Edge((1, 2), None, (f"sense{number % 2}",)),
                                  Edge((0, 2), None, ("long",)),
                                  Edge((0, 1), (1, 2), ("pair",))]}  # fmt: skip
    corpus = wb.Corpus("senses", {"test": lambda: iter(docs)})
    index = wb.occurrences(planted_model(), corpus, labels=["senses"])
    given = index.table["senses"].tolist()
    assert given == ["", "sense0", "", "", "sense1", "", "", "sense0", ""]
    with pytest.raises(wb.WorkbenchError, match="no-such-layer") as error:
        wb.occurrences(planted_model(), corpus, labels=["no-such-layer"])
    assert error.value.code == "layer-missing"


def test_a_corpus_without_words_or_a_full_disk_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = wb.Corpus("empty", {"test": lambda: iter(())})
    with pytest.raises(wb.WorkbenchError, match="no words") as error:
        wb.occurrences(planted_model(), empty)
    assert error.value.code == "corpus-empty"
    with pytest.raises(wb.WorkbenchError, match="max_occurrences"):
        wb.occurrences(planted_model(), planted_corpus(1), max_occurrences=0)
    with pytest.raises(wb.WorkbenchError, match="split"):
        wb.occurrences(planted_model(), planted_corpus(1), split="nope")
    full = shutil._ntuple_diskusage(10, 10, 0)  # type: ignore[attr-defined]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    with pytest.raises(wb.WorkbenchError, match="disk") as error:
        wb.occurrences(planted_model(), planted_corpus(1))
    assert error.value.code == "disk-full" and "max_occurrences" in error.value.remedy


def test_a_layer_or_a_stack_that_is_not_there_is_an_error() -> None:
    index = wb.occurrences(planted_model(), planted_corpus(1))
    with pytest.raises(wb.WorkbenchError, match="layer 2") as error:
        index.rows("encoder", 2)
    assert error.value.code == "layer-missing"
    with pytest.raises(wb.WorkbenchError, match="decoder"):
        index.stack("decoder")
    assert index.stack(None) == "encoder"
    assert repr(index).startswith("<Occurrences planted-0 in planted: 32 words, 16 sentences")


def test_a_word_is_shown_in_its_context() -> None:
    text = "They put on\na play in the old house."
    assert in_context(text, 14, 18) == "They put on a [play] in the old house."
    assert in_context(text, 14, 18, room=8) == "… on a [play] in the …"
    assert in_context("play.", 0, 4) == "[play]."
    assert in_context("x" * 50 + "play", 50, 54, room=8) == f"… {'x' * 8}[play]"
