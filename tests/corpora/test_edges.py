"""Edge files in jiant's format: what is read, what is refused, what is written."""

import json
from pathlib import Path

import pytest
import spacy
from spacy.tokens import Doc

from workbench import WorkbenchError
from workbench.corpora import Edge, Mention, edges, layers, mentions, read, write
from workbench.corpora.layers import set_spans

VOCAB = spacy.blank("en").vocab


def _file(folder: Path, *lines: object, name: str = "srl-x.dev.jsonl") -> Path:
    path = folder / name
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def _line(*targets: object, text: str = "Ann sees Bo .", **more: object) -> dict[str, object]:
    return {"text": text, "targets": list(targets), **more}


def _one(path: Path, **options: str) -> Doc:
    (doc,) = read(path, **options).docs()
    return doc


def test_words_are_what_stands_between_single_spaces(tmp_path: Path) -> None:
    odd = "a\u00a0b\tc \u2028 x\u3000"
    doc = _one(_file(tmp_path, _line(text=odd)))
    assert [token.text for token in doc] == ["a\u00a0b\tc", "\u2028", "x\u3000"]
    assert doc.text == odd


def test_spans_are_half_open_and_pairs_keep_their_order(tmp_path: Path) -> None:
    doc = _one(
        _file(
            tmp_path,
            _line(
                {"span1": [1, 2], "span2": [0, 1], "label": "ARG0"},
                {"span1": [1, 2], "span2": [2, 4], "label": ["ARG1", "other"]},
                {"span1": [0, 4], "label": []},
            ),
        )
    )
    assert edges(doc, "roles") == [
        Edge((1, 2), (0, 1), ("ARG0",)),
        Edge((1, 2), (2, 4), ("ARG1", "other")),
        Edge((0, 4), None, ()),
    ]


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("srl-ewt.train.jsonl", "roles"),
        ("spr1.dev.jsonl", "proto-roles"),
        ("spr-ewt.dev.jsonl", "proto-roles"),
        ("dep_ewt.jsonl", "dependencies"),
        ("POS.train.jsonl", "pos"),
        ("coref-x.jsonl", "coreference"),
        ("semeval.test.json", "relations"),
        ("const.jsonl", "constituents"),
        ("ner-onto.dev.jsonl", "entities"),
        ("my_own-layer.dev.jsonl", "my_own-layer"),
        ("proto-roles.jsonl", "proto-roles"),
    ],
)
def test_the_layer_is_named_by_the_file(tmp_path: Path, name: str, layer: str) -> None:
    doc = _one(_file(tmp_path, _line({"span1": [0, 1], "label": "X"}), name=name))
    assert edges(doc, layer) == [Edge((0, 1), None, ("X",))]


def test_a_bare_split_takes_its_layer_from_the_folder(tmp_path: Path) -> None:
    (tmp_path / "srl").mkdir()
    assert "roles" in layers(_one(_file(tmp_path / "srl", _line(), name="train.jsonl")))


def test_a_layer_named_by_the_user_wins(tmp_path: Path) -> None:
    doc = _one(_file(tmp_path, _line({"span1": [0, 1], "label": "X"})), layer="mine")
    assert layers(doc) == {"words", "mine"}


def test_single_spans_of_entities_become_doc_spans(tmp_path: Path) -> None:
    path = _file(tmp_path, _line({"span1": [0, 1], "label": "person"}), name="ner.jsonl")
    doc = _one(path)
    assert mentions(doc, "entities") == [Mention(0, 1, "person")]
    assert doc._.edges == {}


def test_entities_with_several_labels_stay_edges(tmp_path: Path) -> None:
    edge = {"span1": [0, 1], "label": ["person", "artist"]}
    doc = _one(_file(tmp_path, _line(edge), name="ner.jsonl"))
    assert edges(doc, "entities") == [Edge((0, 1), None, ("person", "artist"))]


@pytest.mark.parametrize("name", ["srl.jsonl", "const.jsonl"])
def test_a_text_without_edges_still_has_the_layer(tmp_path: Path, name: str) -> None:
    doc = _one(_file(tmp_path, _line(), name=name))
    assert edges(doc, {"srl.jsonl": "roles", "const.jsonl": "constituents"}[name]) == []


def test_names_come_from_info_or_the_file(tmp_path: Path) -> None:
    named = _line(info={"id": 7, "document": "letters"})
    docs = list(read(_file(tmp_path, named, _line(info={}))).docs())
    assert [(d._.document, d._.sent_ids) for d in docs] == [
        ("letters", ("7",)),
        ("srl-x.dev", ("",)),
    ]


def test_blank_lines_are_skipped_and_an_empty_file_holds_nothing(tmp_path: Path) -> None:
    assert len(list(read(_file(tmp_path, "", _line(), "  ", _line())).docs())) == 2
    assert list(read(_file(tmp_path, "", name="empty.jsonl")).docs()) == []


EDGE = {"span1": [0, 1], "label": "X"}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (_line({"span1": [0, 5], "label": "X"}), "edge 1: .* there are 4 words"),
        (_line(EDGE, {"span1": [2, 1], "label": "X"}), "edge 2"),
        (_line({"span1": [1, 1], "label": "X"}), "span1"),
        (_line({"span1": [-1, 1], "label": "X"}), "span1"),
        (_line({"span1": [False, True], "label": "X"}), "whole numbers"),
        (_line({"span1": [0.0, 1.0], "label": "X"}), "whole numbers"),
        (_line({"span1": [0, 10**400], "label": "X"}), "there are 4 words"),
        (_line({"span1": [0, 1, 2], "label": "X"}), "pair"),
        (_line({"label": "X"}), "span1"),
        (_line({"span1": [0, 1]}), "label"),
        (_line({"span1": [0, 1], "label": 3}), "label"),
        (_line({"span1": [0, 1], "label": ["X", None]}), "label"),
        (_line({"span1": [0, 1], "span2": "no", "label": "X"}), "span2"),
        (_line("X"), "edge 1: not an object"),
        ({"targets": [], "text": 5}, "text"),
        ({"targets": []}, "text"),
        ({"text": "a b"}, "targets"),
        ({"text": "a b", "targets": {}}, "targets"),
        (_line(text="two  spaces"), "word 1 is empty"),
        (_line(text=" first"), "word 0 is empty"),
        (_line(text=""), "word 0 is empty"),
        (_line(info={"words": ["Ann", "sees"]}), "words"),
        (_line(info={"spaces": "11"}), "spaces"),
        (_line(info={"spaces": "11x0"}), "spaces"),
        ('{"text": "\\ud800 b", "targets": []}', "surrogate"),
        ('{"text": "a", "targets": [{"span1": [0, 1], "label": "\\udfff"}]}', "surrogate"),
        ('{"text": "a", "targets": [], "score": NaN}', "NaN"),
        ('{"text": "a", "targets": ' + "[" * 100_000, "deep"),
        ('{"text": "a", "targets": [' + "9" * 5000 + "]}", "JSON"),
        ('{"text": "a",', "JSON"),
        ("[]", "array"),
        ("17", "not an object"),
    ],
)
def test_faults_are_reported_with_their_line(tmp_path: Path, bad: object, message: str) -> None:
    path = _file(tmp_path, _line(EDGE), "", bad)
    with pytest.raises(WorkbenchError, match=message) as caught:
        list(read(path).docs())
    assert caught.value.where == f"{path}:3"


def test_a_json_array_is_explained(tmp_path: Path) -> None:
    path = _file(tmp_path, "[", json.dumps(_line()), "]", name="srl.json")
    with pytest.raises(WorkbenchError, match="JSON array") as caught:
        read(path)
    assert "jq" in caught.value.remedy
    assert caught.value.where == f"{path}:1"


def _doc(words: list[str], spaces: list[bool]) -> Doc:
    doc = Doc(VOCAB, words=words, spaces=spaces)
    doc._.edges = {"roles": (Edge((0, 1), None, ("V",)), Edge((0, 1), (1, 2), ("A", "B")))}
    return doc


def test_an_ordinary_doc_is_written_as_jiant_would(tmp_path: Path) -> None:
    path = tmp_path / "srl.jsonl"
    assert write([_doc(["sees", "Bo"], [True, False])] * 2, path, layer="roles") == 2
    first, second = path.read_text().splitlines()
    assert first == second
    assert json.loads(first) == {
        "text": "sees Bo",
        "info": {},
        "targets": [
            {"span1": [0, 1], "label": "V"},
            {"span1": [0, 1], "span2": [1, 2], "label": ["A", "B"]},
        ],
    }


def test_info_stores_what_joined_words_cannot(tmp_path: Path) -> None:
    path = tmp_path / "srl.jsonl"
    doc = _doc(["New York", "'s", "\n"], [False, True, True])
    write([doc], path, layer="roles")
    record = json.loads(path.read_text())
    assert record["text"] == "New York 's \n"
    assert record["info"] == {"words": ["New York", "'s", "\n"], "spaces": "011"}
    back = _one(path)
    assert [t.text_with_ws for t in back] == [t.text_with_ws for t in doc]


def test_every_layer_can_be_written_as_edges(tmp_path: Path) -> None:
    doc = Doc(VOCAB, words=["a", "b"], spaces=[True, False], pos=["DET", "NOUN"])
    set_spans(doc, "coreference", [Mention(0, 1, "", "1"), Mention(1, 2, "", "2")])
    for layer in ("pos", "coreference"):
        path = tmp_path / f"{layer}.jsonl"
        write([doc], path, layer=layer)
        assert edges(_one(path), layer) == edges(doc, layer)


def test_the_layer_to_write_must_be_named(tmp_path: Path) -> None:
    path = tmp_path / "srl.jsonl"
    with pytest.raises(WorkbenchError, match="layer-missing") as caught:
        write([_doc(["a", "b"], [True, False])], path)
    assert "roles" in caught.value.remedy
    assert list(tmp_path.iterdir()) == []


def test_a_failed_writing_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "srl.jsonl"
    path.write_text("old")
    docs = [_doc(["a", "b"], [True, False]), Doc(VOCAB, words=["c"])]
    with pytest.raises(WorkbenchError, match="no layer 'roles'"):
        write(docs, path, layer="roles")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "edge", [Edge((0, 9), None, ("X",)), Edge((0, 1), (-1, 1), ("X",)), Edge((1, 1), None, ("X",))]
)
def test_an_invalid_edge_is_not_written(tmp_path: Path, edge: Edge) -> None:
    doc = _doc(["a", "b"], [True, False])
    doc._.edges = {"roles": [edge]}
    with pytest.raises(WorkbenchError, match="words"):
        write([doc], tmp_path / "srl.jsonl", layer="roles")
    assert list(tmp_path.iterdir()) == []
