"""Docs as one encoded batch: encoding loses nothing, and neither does saving to a file."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file
from spacy.tokens import Doc

from tests.corpora.strategies import docs
from workbench import WorkbenchError
from workbench.corpora import Edge, Mention, edges, encode
from workbench.corpora.layers import set_spans
from workbench.engine.batch import Batch, load, save

VOCAB = spacy.blank("en").vocab


def _doc(text: str, **labels: str | float) -> Doc:
    words = text.split(" ")
    doc = Doc(VOCAB, words=words, spaces=[True] * (len(words) - 1) + [False])
    doc._.labels = labels
    return doc


def _same(one: object, two: object) -> None:
    """Two batches, or parts of them, are equal to the last bit and type."""
    assert type(one) is type(two)
    if isinstance(one, np.ndarray):
        assert one.dtype == two.dtype
        np.testing.assert_array_equal(one, two)
    elif isinstance(one, dict):
        assert one.keys() == two.keys()
        for key in one:
            _same(one[key], two[key])
    elif dataclasses.is_dataclass(one):
        for field in dataclasses.fields(one):
            _same(getattr(one, field.name), getattr(two, field.name))
    else:
        assert one == two


def _pair() -> Doc:
    doc = _doc("One two . Three", relatedness=3.5)
    set_spans(doc, "segments", [Mention(0, 3, "1"), Mention(3, 4, "2")])
    return doc


def test_words_are_ranges_of_characters_not_of_bytes() -> None:
    batch = encode([_doc("naïve 𝒳 b"), _doc("c")])
    assert len(batch) == 2
    assert batch.text_of(0) == "naïve 𝒳 b"
    assert [batch.text_of(0)[a:b] for a, b in batch.words_of(0)] == ["naïve", "𝒳", "b"]
    assert batch.words_of(1).tolist() == [[0, 1]]
    assert batch.order.tolist() == [0, 1]


def test_edges_of_a_document_lie_between_its_offsets() -> None:
    first, second, third = _doc("a b c"), _doc("d"), _doc("e f")
    first._.edges = {"roles": (Edge((0, 1), (1, 3), ("V", "A")), Edge((2, 3), None, ()))}
    second._.edges = {"roles": ()}
    third._.edges = {"roles": (Edge((1, 2), (0, 1), ("B",)),)}
    roles = encode([first, second, third], ["roles"]).edges["roles"]
    assert roles.names == ("A", "B", "V")
    assert roles.offsets.tolist() == [0, 2, 2, 3]
    assert roles.span1.tolist() == [[0, 1], [2, 3], [1, 2]]
    assert roles.span2.tolist() == [[1, 3], [-1, -1], [0, 1]]
    assert roles.label_offsets.tolist() == [0, 2, 2, 3]
    assert roles.labels.tolist() == [2, 0, 1]


def test_the_second_text_of_a_pair_is_marked() -> None:
    assert encode([_pair(), _doc("a b")]).segments.tolist() == [0, 0, 0, 1, 0, 0]


def test_classes_are_numbered_and_scores_kept() -> None:
    found = [_doc("a", y="pos", s=1.5), _doc("b", y="neg"), _doc("c", s=-2.0)]
    targets = encode(found, targets=["y", "s"]).targets
    assert targets["y"].names == ("neg", "pos")
    np.testing.assert_array_equal(targets["y"].values, [1, 0, np.nan])
    assert targets["s"].names == ()
    np.testing.assert_array_equal(targets["s"].values, [1.5, np.nan, -2])


def test_a_label_that_is_word_and_number_is_refused() -> None:
    with pytest.raises(WorkbenchError, match="'y' is a word in some texts and a number in others"):
        encode([_doc("a", y="pos"), _doc("b", y=1.5)], targets=["y"])


def test_a_layer_that_is_missing_is_refused() -> None:
    with pytest.raises(WorkbenchError, match="no layer 'roles'"):
        encode([_doc("a")], ["roles"])


@pytest.mark.parametrize("found", [[], [_pair(), _doc("a b", relatedness=1.0)]])
def test_a_file_gives_the_batch_back(tmp_path: Path, found: list[Doc]) -> None:
    for doc in found:
        doc._.edges = {"roles": (Edge((0, 1), (1, 2), ("V", "é")),)}
    batch = encode(found, ["roles"], ["relatedness"])
    save(batch, tmp_path / "batch.safetensors")
    back = load(tmp_path / "batch.safetensors")
    _same(back, batch)
    assert [p.name for p in tmp_path.iterdir()] == ["batch.safetensors"]


@given(drawn=st.lists(docs(), max_size=3))
def test_any_docs_come_back_from_the_batch(drawn: list[Doc]) -> None:
    for doc in drawn:
        doc._.edges = {"mine": next(iter(doc._.edges.values()), ())}
    batch = encode(drawn, ["mine"])
    for number, doc in enumerate(drawn):
        text = batch.text_of(number)
        assert text == doc.text
        assert [text[a:b] for a, b in batch.words_of(number)] == [t.text for t in doc]
        assert _edges_of(batch, number) == edges(doc, "mine")


def _edges_of(batch: Batch, document: int) -> list[Edge]:
    mine = batch.edges["mine"]
    found = []
    for edge in range(*mine.offsets[document : document + 2]):
        start, end = mine.label_offsets[edge : edge + 2]
        second = tuple(mine.span2[edge].tolist())
        labels = tuple(mine.names[label] for label in mine.labels[start:end])
        found.append(
            Edge(tuple(mine.span1[edge].tolist()), None if second == (-1, -1) else second, labels)
        )
    return found


def test_a_foreign_safetensors_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"weight": np.zeros(3)}, path, metadata={"format": "pt"})
    with pytest.raises(WorkbenchError, match="not an encoded batch: its format is 'pt'"):
        load(path)
    save_file({"weight": np.zeros(3)}, path)
    with pytest.raises(WorkbenchError, match="not an encoded batch: its format is None"):
        load(path)


@pytest.mark.parametrize("content", [b"", b"just some text", b"\xff" * 100])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.safetensors"
    path.write_bytes(content)
    with pytest.raises(WorkbenchError, match="not an encoded batch"):
        load(path)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match="not an encoded batch"):
        load(tmp_path / "no.safetensors")


def test_an_edge_past_the_last_word_is_refused() -> None:
    doc = _doc("a b")
    doc._.edges = {"roles": [Edge((0, 3), None, ("X",))]}
    with pytest.raises(WorkbenchError, match="no words 0 to 3"):
        encode([doc], ["roles"])


def test_one_layer_and_one_target_need_no_list() -> None:
    doc = _doc("a b", mood="good")
    doc._.edges = {"roles": [Edge((0, 1), None, ("X",))]}
    _same(encode([doc], "roles", "mood"), encode([doc], ["roles"], ["mood"]))
