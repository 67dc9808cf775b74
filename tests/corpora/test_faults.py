"""Every fault of a file is reported with its line, and a good file has none."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench import WorkbenchError
from workbench.corpora import read, write
from workbench.corpora.readers.tables import columns
from workbench.corpora.validate import CHUNK, faults

pytestmark = pytest.mark.usefixtures("one_pipeline")


def _lines(path: Path, content: str | bytes, **options: object) -> list[int]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return [fault.line for fault in faults(path, **options)]


def _word(number: int, head: int = 0, upos: str = "NOUN", relation: str = "root") -> str:
    return f"{number}\tword\tword\t{upos}\t_\t_\t{head}\t{relation}\t_\t_\n"


@pytest.mark.parametrize("ending", [".conllu", ".spacy"])
def test_a_good_file_has_none(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"good{ending}"
    write(read("primer:size=150").docs("train"), path)
    assert faults(path) == []


def test_conllu_reports_the_faults_of_each_sentence(tmp_path: Path) -> None:
    good = "# sent_id = a\n" + _word(1) + _word(2, 1, relation="dep") + "\n"
    bad = [
        _word(1, upos="NOON") + "\n",  # line 5 of what follows `good`
        "1\tword\n\n",
        _word(1) + _word(2, 9, relation="dep") + "\n",
    ]
    lines = _lines(tmp_path / "bad.conllu", good + bad[0] + good + bad[1] + good + bad[2] + good)
    assert lines == [5, 11, 18]


def test_conllu_reports_several_faults_of_one_sentence(tmp_path: Path) -> None:
    rows = [_word(1), _word(2, 1, "NOON", "dep"), _word(3, 99, relation="dep"), "4\tword\n"]
    assert _lines(tmp_path / "bad.conllu", "".join(rows) + "\n") == [2, 3, 4]


def test_conllu_goes_on_after_wrong_numbers_and_wrong_bytes(tmp_path: Path) -> None:
    numbers = _word(1) + _word(7, 1, relation="dep") + _word(8, 1, relation="dep") + "\n"
    text = numbers.encode() + b"1\tcaf\xe9" + b"\t_" * 8 + b"\n\n" + _word(1, upos="?").encode()
    assert _lines(tmp_path / "bad.conllu", text) == [2, 5, 7]


def test_conllu_brackets_over_sentences_are_no_fault_when_another_is(tmp_path: Path) -> None:
    opened = "1\ta\ta\tNOUN\t_\t_\t0\troot\t_\tEntity=(e1-person\n\n"
    closed = "1\tb\tb\tNOUN\t_\t_\t0\troot\t_\tEntity=e1)\n\n"
    header = "# global.Entity = eid-etype\n"
    path = tmp_path / "open.conllu"
    assert _lines(path, header + opened + closed) == []
    assert _lines(path, header + opened + _word(1, upos="?") + "\n" + closed) == [4]
    assert _lines(path, header + opened) == [2]


def test_conllu_lines_are_right_far_into_the_file(tmp_path: Path) -> None:
    good = _word(1) + "\n"
    bad = "1\tword\n\n"
    text = good * (2 * CHUNK + 3) + bad + good * CHUNK + bad
    first = 2 * (2 * CHUNK + 3) + 1
    assert _lines(tmp_path / "far.conllu", text) == [first, first + 2 + 2 * CHUNK]


def test_tables_report_each_faulty_row(tmp_path: Path) -> None:
    tsv = "sentence\tlabel\na good one\t1\nshort\n\nanother\t0\n\t1\nthree\tof\tthem\n"
    assert _lines(tmp_path / "bad.tsv", tsv) == [3, 7]  # a row without a text is left out
    quoted = 'label\tsentence\n1\t"two\n\nlines"\n0\t"and\ntwo"\n'
    assert _lines(tmp_path / "quoted.tsv", quoted) == [4], "all have one cause"
    csv = 'text,label\nfine,1\n"two\nlines",0\nonly one\n"",1\n"a"b,1\nfine,0\nx,y,z\n'
    assert _lines(tmp_path / "bad.csv", csv) == [5, 7, 9]


def test_an_unclosed_quotation_mark_hides_no_fault_behind_it(tmp_path: Path) -> None:
    csv = 'text,label\n"never closed,1\nfine,1\nonly one\n"fine, too",0\n'
    assert _lines(tmp_path / "bad.csv", csv) == [2, 4]


def test_json_lines_report_each_faulty_line(tmp_path: Path) -> None:
    table = '{"text": "a", "label": "x"}\n{"text": \n{"label": "y"}\n[1]\n{"text": "b"}\n'
    assert _lines(tmp_path / "bad.jsonl", table) == [2, 3, 4]
    edge = {"text": "Ann sees Bo", "targets": [{"span1": [0, 1], "label": "A"}]}
    far = {"text": "Ann", "targets": [{"span1": [0, 7], "label": "A"}]}
    edges = "\n".join(json.dumps(entry) for entry in (edge, far, edge, {"text": "no targets"}))
    assert _lines(tmp_path / "srl.jsonl", edges) == [2, 4]


def test_a_table_whose_text_is_not_known_has_one_fault_without_a_line(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    assert _lines(path, "words,mark\na b,1\nc,2\n") == [0]
    assert _lines(path, "words,mark\na b,1\nc\n", text=["words"]) == [3]


def test_formats_without_lines_report_the_first_fault(tmp_path: Path) -> None:
    assert _lines(tmp_path / "a.spacy", b"nothing") == [0]
    assert _lines(tmp_path / "a.mrg", "(S (NN a))\n(S (NN b)\n") == [2]
    assert _lines(tmp_path / "a.txt", b"fine\n\xff\xfe\n") == [2]


def test_no_more_faults_than_the_maximum(tmp_path: Path) -> None:
    assert _lines(tmp_path / "bad.tsv", "text\tlabel\n" + "x\n" * 200, most=7) == [*range(2, 9)]


@given(st.binary(max_size=200), st.sampled_from([".conllu", ".csv", ".tsv", ".jsonl", ".txt"]))
def test_any_bytes_have_faults_exactly_where_the_reader_fails(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, ending: str
) -> None:
    path = tmp_path_factory.mktemp("soup") / f"soup{ending}"
    path.write_bytes(content)
    found = faults(path)
    try:
        list(read(path))
    except WorkbenchError:
        assert found
    else:
        assert not found


def test_columns_are_read_from_the_beginning_of_a_file() -> None:
    names = columns("a.csv", b"\xef\xbb\xbfid,sentence1,sentence2,label\n1,a,b,x\n")
    assert names.text == ("sentence1", "sentence2") and names.labels == ("label",)
    assert columns("a.tsv", b"words\tmark\n").names == ("words", "mark")
    assert columns("a.tsv", b"words\tmark\n").text == ()
    assert columns("a.jsonl", b'{"text": "a", "n": 1, "list": []}\n').labels == ("n",)
    assert columns("a.jsonl", b'{"text": "a", "targets": []}\n').names == ()
    assert columns("a.conllu", b"1\ta\n").names == ()
    assert columns("a.csv", b"").names == ()
