"""`.spacy` files: they keep every layer, and a damaged one is an error."""

import zlib
from pathlib import Path

import numpy as np
import pytest
import srsly
from spacy.attrs import ENT_IOB, HEAD, LEMMA, MORPH, ORTH, POS, SENT_START, SPACY, TAG
from spacy.tokens import Doc, DocBin, Span, SpanGroup

from workbench import WorkbenchError
from workbench.corpora.corpus import Options
from workbench.corpora.layers import Edge, Mention, edges, layers, mentions, set_spans, vocabulary
from workbench.corpora.readers.docbin import reader, write

NO_STRING = 1234567890123456789


def read(path: Path) -> list[Doc]:
    return list(reader([path], Options()).docs(path))


def doc_of(*forms: str, **given) -> Doc:
    return Doc(vocabulary("en"), words=list(forms), **given)


def gold() -> Doc:
    """It in "New York": three words with a layer of each kind."""
    doc = doc_of(
        *("In", "New", "York"),
        spaces=[True, True, False],
        tags=["IN", "NNP", "NNP"],
        morphs=["", "Number=Sing", "Number=Sing"],
        heads=[2, 2, 2],
        deps=["case", "compound", "root"],
        ents=["O", "B-GPE", "I-GPE"],
    )
    set_spans(doc, "coreference", [Mention(1, 3, "place", "1"), Mention(0, 1, "", "")])
    doc._.edges = {"srl": [Edge((0, 1), (1, 3), ("A", "B")), Edge((0, 3), None, ("C",))]}
    doc._.labels = {"sentiment": "positive", "relatedness": 3.6}
    doc._.sent_ids = ("s1",)
    doc[0]._.form = "In"
    doc.cats = {"travel": 1.0}
    return doc


def test_layers_come_back_in_the_types_they_had(tmp_path):
    write([gold()], tmp_path / "x.spacy")
    (doc,) = read(tmp_path / "x.spacy")
    assert doc.text == "In New York"
    assert layers(doc) == layers(gold())
    assert edges(doc, "srl") == [Edge((0, 1), (1, 3), ("A", "B")), Edge((0, 3), None, ("C",))]
    assert all(isinstance(edge, Edge) for edge in doc._.edges["srl"])
    assert doc._.labels == {"sentiment": "positive", "relatedness": 3.6}
    assert doc._.sent_ids == ("s1",)
    assert mentions(doc, "coreference") == [(1, 3, "place", "1"), (0, 1, "", "")]
    assert [(e.text, e.label_) for e in doc.ents] == [("New York", "GPE")]
    assert doc.cats == {"travel": 1.0}


def test_it_is_the_file_spacy_itself_reads(tmp_path):
    write([gold()], tmp_path / "x.spacy")
    (doc,) = DocBin().from_disk(tmp_path / "x.spacy").get_docs(vocabulary("en"))
    assert doc.to_json() == gold().to_json()


def test_sentences_survive_several_roots_and_crossing_arcs(tmp_path):
    doc = doc_of(*"abcd", heads=[2, 1, 2, 1], deps=["x", "root", "root", "x"])
    doc.from_array(["SENT_START"], np.array([1, 2**64 - 1, 2**64 - 1, 1], dtype=np.uint64))
    write([doc], tmp_path / "x.spacy")
    (again,) = read(tmp_path / "x.spacy")
    assert [(s.start, s.end) for s in again.sents] == [(0, 3), (3, 4)]
    assert [t.head.i for t in again] == [2, 1, 2, 1]


@pytest.mark.parametrize("length", range(1, 18))
def test_a_tree_may_be_as_deep_as_its_sentence_is_long(tmp_path, length):
    heads = [max(0, word - 1) for word in range(length)]
    write([doc_of(*"x" * length, heads=heads, deps=["dep"] * length)], tmp_path / "x.spacy")
    (doc,) = read(tmp_path / "x.spacy")
    assert [t.head.i for t in doc] == heads


def test_empty_docs_and_unknown_spaces_stay_what_they_are(tmp_path):
    docs = [doc_of(), doc_of("a", "b"), doc_of()]
    assert write(docs, tmp_path / "x.spacy") == 3
    again = read(tmp_path / "x.spacy")
    assert [len(doc) for doc in again] == [0, 2, 0]
    assert again[1].has_unknown_spaces


def test_unknown_user_data_is_kept(tmp_path):
    doc = gold()
    doc.user_data["note"] = {"any": [1, 2]}
    doc.user_data[("._.", "foreign", 3, None)] = "x"
    doc.spans["mine"] = SpanGroup(doc, name="other", attrs={"a": 1}, spans=[Span(doc, 0, 0)])
    write([doc], tmp_path / "x.spacy")
    (again,) = read(tmp_path / "x.spacy")
    assert again.user_data["note"] == {"any": (1, 2)}
    assert again.user_data[("._.", "foreign", 3, None)] == "x"
    assert again.spans["mine"].name == "other"
    assert again.spans["mine"].attrs == {"a": 1}
    assert [(s.start, s.end) for s in again.spans["mine"]] == [(0, 0)]


@pytest.mark.parametrize("attrs", [["TAG"], ["HEAD", "DEP"], []])
def test_a_file_with_few_attributes_is_read(tmp_path, attrs):
    DocBin(attrs=attrs, docs=[gold()]).to_disk(tmp_path / "x.spacy")
    (doc,) = read(tmp_path / "x.spacy")
    assert doc.text == "In New York"
    assert ("dependencies" in layers(doc)) == ("DEP" in attrs)
    assert ("tags" in layers(doc)) == ("TAG" in attrs)


def test_a_span_whose_id_is_a_bare_number_is_named_by_it(tmp_path):
    doc = gold()
    doc.spans["coreference"] = [Span(doc, 0, 1, label="x", span_id=77_777)]
    write([doc], tmp_path / "x.spacy")
    (again,) = read(tmp_path / "x.spacy")
    assert mentions(again, "coreference") == [(0, 1, "x", "77777")]


def test_span_groups_of_older_files_are_read(tmp_path):
    doc = gold()
    packed = DocBin(docs=[doc])
    packed.span_groups = [srsly.msgpack_dumps([doc.spans["coreference"].to_bytes()])]
    packed.to_disk(tmp_path / "x.spacy")
    (again,) = read(tmp_path / "x.spacy")
    assert mentions(again, "coreference") == mentions(doc, "coreference")


def test_a_doc_that_cannot_be_stored_is_refused_and_nothing_is_written(tmp_path):
    doc = gold()
    doc.user_data["note"] = object()
    with pytest.raises(WorkbenchError, match="Doc 2 cannot be stored"):
        write([gold(), doc], tmp_path / "x.spacy")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("edges", {"srl": [Edge((0, 9), None, ("A",))]}, "no words 0 to 9"),
        ("edges", [1], "'list'"),
        ("labels", {"x": [1]}, "neither text nor a number"),
        ("document", 5, "5 is not text"),
        ("sent_ids", 5, "not iterable"),
        ("multiword", ((0, 9),), "no words 0 to 9"),
    ],
)
def test_invalid_values_are_not_written(tmp_path, name, value, what):
    doc = gold()
    doc._.set(name, value)
    with pytest.raises(WorkbenchError, match=f"Doc 2 cannot be stored: .*{what}"):
        write([gold(), doc], tmp_path / "x.spacy")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_block_is_one_error_not_two(tmp_path):
    (tmp_path / "x.spacy").write_bytes(b"no zlib")
    with pytest.raises(WorkbenchError, match=r"valid \.spacy file: Error -3"):
        read(tmp_path / "x.spacy")


# Files that spaCy's own reader would take in, or die of.


def message(doc: Doc | None = None) -> dict:
    packed = DocBin(store_user_data=True, docs=[doc or gold()])
    return srsly.msgpack_loads(zlib.decompress(packed.to_bytes()))


def with_cell(attribute: int, word: int, value: int) -> dict:
    changed = message()
    table = np.frombuffer(changed["tokens"], dtype=np.uint64).reshape(3, -1).copy()
    table[word, changed["attrs"].index(attribute)] = value
    return {**changed, "tokens": table.tobytes()}


def with_spans(*spans: tuple[int, ...]) -> dict:
    changed = message()
    group = srsly.msgpack_loads(gold().spans["coreference"].to_bytes())
    raw = np.array(spans, dtype=">u8")
    rows = [row[:3].tobytes() + row[3:].astype(">i4").tobytes() for row in raw]
    packed = srsly.msgpack_dumps({**group, "spans": rows})
    return {**changed, "span_groups": [srsly.msgpack_dumps({packed: ["coreference"]})]}


def with_user_data(value: object, name: str = "edges", start: int | None = None) -> dict:
    doc = gold()
    doc.user_data = {("._.", name, start, None): value}
    return message(doc)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        (with_cell(ORTH, 0, 0), "a word without letters"),
        (with_cell(ORTH, 0, NO_STRING), f"{NO_STRING} is not a valid ORTH"),
        (with_cell(TAG, 1, NO_STRING), f"{NO_STRING} is not a valid TAG"),
        (with_cell(LEMMA, 1, NO_STRING), f"{NO_STRING} is not a valid LEMMA"),
        (with_cell(MORPH, 1, vocabulary("en").strings["In"]), "Name=Value"),
        (with_cell(POS, 1, 7), "7 is not a valid POS"),
        (with_cell(ENT_IOB, 1, 4), "4 is not a valid ENT_IOB"),
        (with_cell(ENT_IOB, 1, 0), "never began"),
        (with_cell(ENT_IOB, 0, 1), "never began"),
        (with_cell(SENT_START, 1, 5), "5 is not a valid SENT_START"),
        (with_cell(HEAD, 0, 3), "outside its Doc"),
        (with_cell(HEAD, 0, 2**64 - 1), "outside its Doc"),
        (with_cell(HEAD, 0, 2**63), "outside its Doc"),
        (with_cell(HEAD, 0, 2**32), "outside its Doc"),
        (with_cell(HEAD, 2, 2**64 - 2), "cycle"),
        ({**message(), "attrs": [int(TAG)] * 13}, "it has no words"),
        ({**message(), "attrs": []}, "cannot reshape|modulo"),
        ({**message(), "attrs": ["ORTH"]}, "'str'"),
        ({**message(), "lengths": np.array([2], dtype=np.int32).tobytes()}, "different lengths"),
        (
            {**message(), "lengths": np.array([4, -1], dtype=np.int32).tobytes()},
            "different lengths",
        ),
        ({**message(), "lengths": np.array([3, 0], dtype=np.int32).tobytes()}, "different lengths"),
        ({**message(), "lengths": b"abc"}, "buffer size"),
        ({**message(), "spaces": b""}, "different lengths"),
        ({**message(), "tokens": 5}, "bytes-like"),
        ({**message(), "strings": [b"\xff"]}, "is not text"),
        ({**message(), "strings": []}, "is no"),
        ({**message(), "cats": []}, "different lengths"),
        ({**message(), "cats": [7]}, "in Doc 1"),
        ({**message(), "flags": [None]}, "in Doc 1"),
        ({**message(), "user_data": [b"\xc1"]}, "cannot be unpacked"),
        ({**message(), "user_data": [srsly.msgpack_dumps([1])]}, "in Doc 1"),
        ({**message(), "span_groups": ["x"]}, "in Doc 1"),
        ({**message(), "span_groups": [srsly.msgpack_dumps({b"": ["x"]})]}, "cannot be unpacked"),
        ({key: value for key, value in message().items() if key != "cats"}, "cats"),
        ([1, 2], "list indices"),
        (with_spans((0, 0, 0, 0, 4, 0, 0)), "E035"),
        (with_spans((0, 0, 0, 2, 1, 0, 0)), "E035"),
        (with_spans((0, 0, NO_STRING, 0, 1, 0, 0)), str(NO_STRING)),
        (with_user_data([1]), "in Doc 1"),
        (with_user_data({"srl": [((0, 1), (1, 9), ("A",))]}), "there are no words 1 to 9"),
        (with_user_data({"srl": [((-1, 1), None, ("A",))]}), "there are no words -1 to 1"),
        (with_user_data({"srl": [((0, 1), None, (5,))]}), "5 is not text"),
        (with_user_data({"srl": [((0, 1), None)]}), "in Doc 1"),
        (with_user_data({7: []}), "7 is not text"),
        (with_user_data({"sentiment": [1]}, "labels"), "neither text nor a number"),
        (with_user_data(((0, 9),), "multiword"), "there are no words 0 to 9"),
        (with_user_data((5,), "sent_ids"), "5 is not text"),
        (with_user_data(5, "document"), "5 is not text"),
        (with_user_data(5, "form", 0), "5 is not text"),
    ],
)
def test_invalid_numbers_are_refused(tmp_path, changed, what):
    path = tmp_path / "x.spacy"
    path.write_bytes(zlib.compress(srsly.msgpack_dumps(changed)))
    with pytest.raises(WorkbenchError, match=what) as caught:
        read(path)
    assert caught.value.where == str(path)


def test_unchanged_numbers_are_accepted(tmp_path):
    """The helpers of the test above change only what they say."""
    path = tmp_path / "x.spacy"
    unchanged = (message(), with_cell(HEAD, 0, 2), with_spans((0, 0, 0, 0, 3, 0, 0)))
    for packed in (*unchanged, with_user_data({"srl": [((0, 1), None, ("A",))]})):
        path.write_bytes(zlib.compress(srsly.msgpack_dumps(packed)))
        (doc,) = read(path)
        assert doc.text == "In New York"


def test_an_unknown_column_is_skipped(tmp_path):
    """SPACY is no attribute of a sound file; spaCy would set it after the offsets are counted."""
    changed = message()
    changed["attrs"] = [SPACY if a == LEMMA else a for a in changed["attrs"]]
    path = tmp_path / "x.spacy"
    path.write_bytes(zlib.compress(srsly.msgpack_dumps(changed)))
    (doc,) = read(path)
    assert doc.text == "In New York"
    assert [t.idx for t in doc] == [0, 3, 7]


@pytest.mark.parametrize(
    "content", [b"", b"\x00", b"no zlib", zlib.compress(b""), zlib.compress(b"\xc1")]
)
def test_bytes_of_another_format_are_refused(tmp_path, content):
    path = tmp_path / "x.spacy"
    path.write_bytes(content)
    with pytest.raises(WorkbenchError, match="file-format"):
        read(path)


def test_a_missing_file_is_a_workbench_error(tmp_path):
    with pytest.raises(WorkbenchError, match="cannot be read: No such file"):
        read(tmp_path / "none.spacy")
