"""Sentence and pair tasks from TSV, CSV, JSON lines and the hub."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import spacy
from spacy.tokens import Doc

from workbench import WorkbenchError
from workbench.corpora import layers, mentions, read
from workbench.corpora.readers.tables import columns

pytestmark = pytest.mark.usefixtures("one_pipeline")


@pytest.fixture
def docs(tmp_path: Path) -> Callable[..., list[Doc]]:
    """Write a file of that name and read it."""

    def docs_of(name: str, content: str, **options: Any) -> list[Doc]:
        path = tmp_path / name
        path.write_bytes(content.encode("utf-8"))
        return list(read(path, **options).docs())

    return docs_of


def _labels(found: list[Doc]) -> list[dict[str, object]]:
    return [doc._.labels for doc in found]


def test_a_sentence_task(docs: Any) -> None:
    first, second = docs("a.tsv", "sentence\tlabel\nIt isn't  so.\t1\nYes \t0\n")
    assert [t.text for t in first] == ["It", "is", "n't", "so", "."]
    assert (first.text, second.text) == ("It isn't so.", "Yes")
    assert _labels([first, second]) == [{"label": "1"}, {"label": "0"}]
    assert [s.text for s in first.sents] == ["It isn't so."]
    assert (first._.document, first._.sent_ids) == ("a", ("",))
    assert layers(first) == {"words", "sentences", "label:label"}


def test_a_pair_is_one_doc_of_two_segments(docs: Any) -> None:
    (doc,) = docs("a.tsv", "pair_ID\tsentence_A\tsentence_B\tsplit\n7\tOne. Two.\tThree\tdev\n")
    assert doc.text == "One. Two. Three"
    assert [(s.text, s.label_) for s in doc.spans["segments"]] == [
        ("One. Two.", "1"),
        ("Three", "2"),
    ]
    assert [s.text for s in doc.sents] == ["One. Two.", "Three"]
    assert doc._.sent_ids == ("7", "7")
    assert doc._.labels == {}


@pytest.mark.parametrize(
    "header",
    [
        "sentence",
        "Text",
        "premise\thypothesis",
        "Question\tContext",
        "question1\tquestion2",
        "text_a\ttext_b",
        "sentence_A\tsentence_B",
        "s1\ts2",
        "question\tsentence",
        "#1 String\t#2 String",
    ],
)
def test_text_columns_are_known_by_name(docs: Any, header: str) -> None:
    texts = ["first", "second"][: header.count("\t") + 1]
    (doc,) = docs("a.tsv", f"y\t{header}\nno\t" + "\t".join(texts) + "\n")
    assert doc.text == " ".join(texts)
    assert doc._.labels == {"y": "no"}


def test_text_and_labels_can_be_named(docs: Any) -> None:
    table = "text\tbody\ta\tb\nno\tyes\t1\t2\n"
    (doc,) = docs("a.tsv", table, text="body", labels=["b"])
    assert (doc.text, doc._.labels) == ("yes", {"b": "2"})
    (doc,) = docs("a.tsv", table, text=("body", "text"))
    assert (doc.text, doc._.labels) == ("yes no", {"a": "1", "b": "2"})


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (["1", "0"], ["1", "0"]),
        (["1", "0.5"], [1.0, 0.5]),
        (["3", "-2.5e-1"], [3.0, -0.25]),
        (["1.0", "2.0"], ["1.0", "2.0"]),
        (["0.5", "good"], ["0.5", "good"]),
        (["0.5", "nan"], [0.5, None]),
        (["0.5", "N/A", "-inf", "?"], [0.5, None, None, None]),
        (["1", "nan"], ["1", "nan"]),
        (["good", "n/a"], ["good", "n/a"]),
        (["0.5", "1e999"], ["0.5", "1e999"]),
        (["0.5", "1_0"], ["0.5", "1_0"]),
        (["0.5", ""], [0.5, None]),
        (["", "x"], [None, "x"]),
    ],
)
def test_scores_are_numbers_with_at_least_one_fraction(
    docs: Any, values: list[str], labels: list[object]
) -> None:
    rows = "".join(f"a\t{value}\n" for value in values)
    assert [d._.labels.get("y") for d in docs("a.tsv", f"text\ty\n{rows}")] == labels


def test_scores_and_classes_are_decided_over_all_files(tmp_path: Path) -> None:
    (tmp_path / "x.train.tsv").write_text("text\ty\tz\na\t1\t1\n")
    (tmp_path / "x.test.tsv").write_text("text\tz\ty\nb\tgood\t2.5\n")
    corpus = read(tmp_path)
    assert _labels(list(corpus.docs())) == [{"y": 1.0, "z": "1"}, {"y": 2.5, "z": "good"}]
    assert corpus.notes == ("Text: text. Labels: y (score), z (class).",)


def test_a_test_file_may_lack_its_labels(tmp_path: Path) -> None:
    (tmp_path / "x.train.tsv").write_text("text\ty\na\t1\n")
    (tmp_path / "x.test.tsv").write_text("index\ttext\n0\tb\n")
    assert _labels(list(read(tmp_path, labels="y").docs())) == [{"y": "1"}, {}]


def test_a_tsv_takes_quotes_as_they_are(docs: Any) -> None:
    (doc,) = docs("a.tsv", 'text\ty\n"He said ""no\t"\n')
    assert (doc.text, doc._.labels) == ('"He said ""no', {"y": '"'})


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_csv_is_separated_as_its_first_row_says(
    docs: Any, tmp_path: Path, separator: str
) -> None:
    rows = [["text", "Grund"], ['"Er kam, er sah;\n""er"" ging\t"', "Müll"], ["", "a"]]
    (doc,) = docs("a.csv", "\ufeff" + "".join(f"{separator.join(row)}\n" for row in rows))
    assert doc.text == 'Er kam, er sah; "er" ging' and doc._.labels == {"Grund": "Müll"}
    assert columns("a.csv", (tmp_path / "a.csv").read_bytes()).names == ("text", "Grund")
    assert read(tmp_path / "a.csv").notes[1].endswith("the first is a.csv:4 (row 3).")


def test_a_csv_is_quoted(docs: Any) -> None:
    found = docs("a.csv", 'text, y\r\n"He said ""no"",\r\n\r\nand left",x\r\n\r\nYes,"a,b"\r\n')
    assert [d.text for d in found] == ['He said "no", and left', "Yes"]
    assert _labels(found) == [{"y": "x"}, {"y": "a,b"}]


def test_one_kind_of_white_space_is_left(docs: Any) -> None:
    (doc,) = docs("a.csv", 'text,y\n"\u00a0a \u2003 b\u2028c\n\x1c d\x00 ",x\n')
    assert doc.text == "a b c d\x00"
    assert not any(token.is_space for token in doc)


def test_json_labels_may_be_any_plain_value(docs: Any) -> None:
    rows = [
        {"text": "a", "y": True, "score": 1, "none": None, "deep": {"x": 1}, "idx": 4},
        {"text": "b", "y": 3, "score": 2.5, "late": "x", "deep": [1]},
    ]
    found = docs("a.jsonl", "\n".join(json.dumps(row) for row in rows))
    assert _labels(found) == [{"y": "True", "score": 1.0}, {"y": "3", "score": 2.5, "late": "x"}]
    assert [d._.sent_ids for d in found] == [("4",), ("",)]


def _answer_row(context: str, *answers: str) -> str:
    starts = [context.index(answer) for answer in answers]
    return json.dumps(
        {
            "question": "Who  is it?",
            "context": context,
            "answers": {"text": list(answers), "answer_start": starts},
        }
    )


def test_answers_become_the_words_they_overlap(docs: Any) -> None:
    context = "  It  was\n\nPeter Smith's dog,  not   Bo."
    rows = [_answer_row(context, "Peter Smith", "Bo", "Peter Smith", "ith's d"), _answer_row("No")]
    first, second = docs("a.jsonl", "\n".join(rows))
    assert first.text == "Who is it? It was Peter Smith's dog, not Bo."
    assert [(s.text, s.label_) for s in first.spans["answers"]] == [
        ("Peter Smith", "answer"),
        ("Bo", "answer"),
        ("Smith's dog", "answer"),
    ]
    assert "answers" in layers(second)
    assert mentions(second, "answers") == []
    assert first._.labels == {}


def test_answers_lie_in_the_context_wherever_it_stands(docs: Any) -> None:
    row = _answer_row("It was Bo", "Bo")
    (doc,) = docs("a.jsonl", row, text=["context", "question"])
    assert [s.text for s in doc.spans["answers"]] == ["Bo"]
    (doc,) = docs("a.jsonl", row, text="context")
    assert (doc.text, [s.text for s in doc.spans["answers"]]) == ("It was Bo", ["Bo"])


@pytest.mark.parametrize(
    "answers",
    [
        {"text": ["Bo"], "answer_start": [8]},
        {"text": ["Bo"], "answer_start": [-1]},
        {"text": ["Bo"], "answer_start": [True]},
        {"text": ["Bo"], "answer_start": []},
        {"text": [""], "answer_start": [0]},
        {"text": [" "], "answer_start": [2]},
        {"text": "Bo", "answer_start": 7},
    ],
)
def test_answers_outside_the_context_are_refused(docs: Any, answers: object) -> None:
    with pytest.raises(WorkbenchError, match=r"a\.jsonl:1: .*answer"):
        docs("a.jsonl", json.dumps({"question": "q", "context": "It was Bo", "answers": answers}))


def test_rows_without_a_text_are_left_out_and_counted(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_text("review,stars\nGood .,5\n  ,1\n,2\nBad .,1\n")
    corpus = read(file, text="review", labels="stars")
    assert [doc.text for doc in corpus.docs()] == ["Good .", "Bad ."]
    assert [doc._.labels["stars"] for doc in corpus.docs()] == ["5", "1"]
    (note,) = (note for note in corpus.notes if "left out" in note)
    assert "2 rows have no text in column 'review'" in note and "own.csv:3." in note
    file.write_text('review,stars\n"Good\n\n.",5\n  ,1\n')
    assert any("own.csv:5 (row 3)" in note for note in read(file, text="review").notes)
    frame = pd.DataFrame({"review": ["Good .", None, float("nan")], "stars": ["5", "1", "2"]})
    (doc,) = read(frame, text="review", labels="stars").docs()
    assert doc.text == "Good ."


def test_an_empty_table_holds_nothing(docs: Any) -> None:
    for name in ("a.tsv", "a.csv", "a.jsonl"):
        assert docs(name, "") == []
    assert docs("a.tsv", "text\ty\n") == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "text\ty\na\tb\nc\n", r"a\.tsv:3: this row has 1 fields, the first row 2"),
        ("a.tsv", "text\ty\n\na\tb\tc\n", r"a\.tsv:3: this row has 3 fields"),
        ("a.tsv", "text\ty\n \tb\n", r"a\.tsv:2: there is no text in column 'text'"),
        ("a.tsv", "text\ty\n\t\n", r"a\.tsv:2: there is no text"),
        ("a.tsv", "s1\ts2\na\t\n", r"a\.tsv:2: there is no text in column 's2'"),
        ("a.tsv", "text\ty\ty\na\tb\tc\n", r"a\.tsv:1: the first row repeats 'y'"),
        ("a.tsv", "gj04\t1\tA sentence.\nx\t1\tB\n", r"'gj04', '1', 'A sentence\.'(.|\n)*text="),
        ("a.csv", 'text,y\n"a\nb",c\nd\n', r"a\.csv:4: this row has 1 fields"),
        ("a.csv", 'text,y\n"a\nb",c\n\n"d\n,e\n', r"a\.csv:5: this is not valid CSV"),
        ("a.csv", 'text,y\na,"b"c\n', r"a\.csv:2: this is not valid CSV"),
        ("a.csv", "text,y\n,\n", r"a\.csv:2: there is no text"),
        ("a.csv", 'text,y\n"' + "a" * (1 << 25), r"a\.csv:2: this is not valid CSV.*limit"),
        ("a.jsonl", '{"text": "a"}\n{"y": 1}\n', r"a\.jsonl:2: there is no column 'text'"),
        ("a.jsonl", '{"text": 5}\n', r"a\.jsonl:1: there is no text"),
        ("a.jsonl", '{"deep": ["a"]}\n', "none of the columns"),
        ("a.jsonl", "{}\n", "none of the columns"),
        ("a.jsonl", '{"text": "\\udc00"}\n', r"a\.jsonl:1: .*surrogate"),
    ],
)
def test_faults_are_reported_with_their_line(
    docs: Any, name: str, content: str, message: str
) -> None:
    with pytest.raises(WorkbenchError, match=message):
        docs(name, content)


def test_a_file_that_names_its_text_otherwise_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\na,x\n")
    (tmp_path / "test.csv").write_text("body,label\nb,x\n")
    message = r"test\.csv:2: there is no column 'text'\.(.|\n)*columns here are body, label"
    with pytest.raises(WorkbenchError, match=message) as caught:
        list(read(tmp_path).docs())
    assert caught.value.code == "column-not-found"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": "boddy"}, "Did you mean 'body'"),
        ({"text": "body", "labels": ["yy"]}, "no column 'yy'"),
        ({"text": ["body", "body"]}, "text columns"),
        ({"text": ["body", "y", "z"]}, "text columns"),
    ],
)
def test_missing_columns_are_refused(docs: Any, options: Any, message: str) -> None:
    with pytest.raises(WorkbenchError, match=message):
        docs("a.tsv", "body\ty\tz\na\tb\tc\n", **options)


def test_a_named_pipeline_reads_each_text_separately(docs: Any, tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "PER", "pattern": "Ann Bo"}])  # type: ignore[attr-defined]
    nlp.to_disk(tmp_path / "nlp")
    table = "s1\ts2\nI. Ann\tBo Ann Bo\n"
    (doc,) = docs("a.tsv", table, pipeline=str(tmp_path / "nlp"))
    assert [(e.text, e.label_) for e in doc.ents] == [("Ann Bo", "PER")]
    assert [s.text for s in doc.sents] == ["I. Ann", "Bo Ann Bo"]
    assert [s.text for s in doc.spans["segments"]] == ["I. Ann", "Bo Ann Bo"]


def test_a_text_too_long_for_the_pipeline_is_reported(docs: Any, tmp_path: Path) -> None:
    spacy.blank("en").to_disk(tmp_path / "nlp")
    long = "text\ty\n" + "a " * 600_000 + "\tb\n"
    with pytest.raises(WorkbenchError, match=r"a\.tsv:2"):
        docs("a.tsv", long, pipeline=str(tmp_path / "nlp"))
    assert len(docs("a.tsv", long)[0]) == 600_000


class _Stream(list[dict[str, Any]]):
    """What `datasets` streams: rows, with what is declared of them."""

    def __init__(self, rows: list[dict[str, Any]], features: dict[str, Any] | None) -> None:
        super().__init__(rows)
        self.features = features


_FEATURES = {
    "sentence": SimpleNamespace(dtype="string"),
    "label": SimpleNamespace(dtype="int64", names=["neg", "pos"]),
    "score": SimpleNamespace(dtype="float32"),
    "idx": SimpleNamespace(dtype="int32"),
    "tokens": SimpleNamespace(dtype=None),
}
_ROWS = [
    {"sentence": "Good  one.", "label": 1, "score": 2.0, "idx": 5, "tokens": ["Good"]},
    {"sentence": "What?", "label": -1, "score": None, "idx": 6, "tokens": []},
]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A hub with nothing in it yet, which notes its requests."""
    splits: dict[str, Any] = {}

    def load_dataset(*args: object, **options: object) -> dict[str, Any]:
        splits["request"] = (args, options)
        return {name: rows for name, rows in splits.items() if name != "request"}

    module = ModuleType("datasets")
    module.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)
    return splits


def test_a_dataset_of_the_hub_is_a_table(hub: dict[str, Any]) -> None:
    hub["train"] = hub["validation"] = _Stream(_ROWS, _FEATURES)
    corpus = read("hub:nyu-mll/glue@sst2")
    assert hub["request"] == (("nyu-mll/glue", "sst2"), {"streaming": True})
    assert (corpus.name, list(corpus.splits)) == ("nyu-mll/glue@sst2", ["train", "dev"])
    first, second = corpus.docs("dev")
    assert (first.text, first._.sent_ids) == ("Good one.", ("5",))
    assert _labels([first, second]) == [{"label": "pos", "score": 2.0}, {}]


def test_a_dataset_that_declares_nothing_is_surveyed(hub: dict[str, Any]) -> None:
    hub["train"] = _Stream([{"text": "a", "y": 1}, {"text": "b", "y": 0.5}], None)
    assert _labels(list(read("hub:x").docs())) == [{"y": 1.0}, {"y": 0.5}]
    assert hub["request"][0] == ("x", None)


def test_an_unreachable_hub_is_reported(
    hub: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ConnectionError("Couldn't reach the Hub\nand more")

    monkeypatch.setattr(sys.modules["datasets"], "load_dataset", fails)
    with pytest.raises(WorkbenchError, match=r"hub:x: .*reach the Hub(.|\n)*offline"):
        read("hub:x")


def test_a_lost_connection_to_the_hub_is_reported(hub: dict[str, Any]) -> None:
    class Broken(_Stream):
        def __iter__(self) -> Iterator[dict[str, Any]]:
            yield _ROWS[0]
            raise TimeoutError

    hub["train"] = Broken([], _FEATURES)
    with pytest.raises(WorkbenchError, match="TimeoutError"):
        list(read("hub:x").docs())


def test_the_hub_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(WorkbenchError, match="pip install datasets"):
        read("hub:x")
