"""The command line as a user meets it: what goes where, and with which exit code."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from workbench import __version__
from workbench.cli import main
from workbench.errors import WorkbenchError

CONLLU = """\
# newdoc id = d1
# sent_id = d1-1
# text = The dog barks.
1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_
2\tdog\tdog\tNOUN\tNN\t_\t3\tnsubj\t_\t_
3\tbarks\tbark\tVERB\tVBZ\t_\t0\troot\t_\tSpaceAfter=No
4\t.\t.\tPUNCT\t.\t_\t3\tpunct\t_\t_

# sent_id = d1-2
# text = It ran.
1\tIt\tit\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2\tran\trun\tVERB\tVBD\t_\t0\troot\t_\tSpaceAfter=No
3\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_

"""


class Answer(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Answer]


@pytest.fixture
def workbench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["workbench", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        return Answer(int(end.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    path = tmp_path / "dev.conllu"
    path.write_text(CONLLU)
    return path


def test_version(workbench: Command) -> None:
    assert workbench("--version") == (0, f"workbench {__version__}\n", "")


def test_without_a_command_there_is_help(workbench: Command) -> None:
    answer = workbench()
    assert answer.code == 2
    assert "doctor" in answer.out + answer.err


def test_help_imports_nothing_heavy() -> None:
    program = """
import sys
from workbench.cli import main
sys.argv = ["workbench", "corpora", "--help"]
try:
    main()
finally:
    print({"torch", "spacy", "pandas", "streamlit"} & set(sys.modules), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "set()\n")


@pytest.mark.parametrize(
    ("typed", "meant"), [(["corpra"], "corpora"), (["corpora", "shwo", "primer"], "show")]
)
def test_misspelt_command_gets_a_suggestion(
    workbench: Command, typed: list[str], meant: str
) -> None:
    answer = workbench(*typed)
    assert (answer.code, answer.out) == (2, "")
    assert f"Did you mean '{meant}'?" in answer.err


def test_show_draws_the_tree(workbench: Command, trees: Path) -> None:
    assert workbench("corpora", "show", trees, "--limit", 1) == (
        0,
        """\
[1] d1-1
The dog barks.
     ┌─ 1 The  DET    det
  ┌─ 2 dog     NOUN   nsubj
  3 barks      VERB   root
  └─ 4 .       PUNCT  punct

""",
        "",
    )


def test_show_as_json_is_one_object(workbench: Command, trees: Path) -> None:
    answer = workbench("corpora", "show", trees, "--unit", "document", "--json")
    found = json.loads(answer.out)
    assert (answer.code, answer.err) == (0, "")
    (doc,) = found["docs"]
    assert doc["document"] == "d1"
    assert doc["sentences"] == [0, 4]
    assert doc["words"]["relation"] == ["det", "nsubj", "root", "punct", "nsubj", "root", "punct"]


def test_describe_counts(workbench: Command, trees: Path) -> None:
    answer = workbench("corpora", "describe", trees)
    lines = [line.split() for line in answer.out.splitlines()]
    assert answer.code == 0
    assert ["dev", "2", "1", "2", "7", "6"] in lines  # a full stop is there twice
    assert ["nsubj", "2", "+1", "100%"] in lines


def test_describe_as_json_has_the_same_counts(workbench: Command, trees: Path) -> None:
    answer = workbench("corpora", "describe", trees, "--split", "dev", "--json")
    found = json.loads(answer.out)
    assert (answer.code, answer.err) == (0, "")
    assert found["splits"][0]["words"] == 7
    assert found["upos"]["PUNCT"] == 2


def test_convert_writes_and_says_how_many(workbench: Command, trees: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "dev.spacy"
    answer = workbench("corpora", "convert", trees, out)
    assert answer == (0, f"2 Docs written to {out}\n", "")
    again = workbench("corpora", "show", out)
    assert again.out == workbench("corpora", "show", trees).out


def test_built_in_corpora_and_formats_are_listed(workbench: Command) -> None:
    listed = workbench("corpora")
    assert listed.code == 0
    assert "primer/sentiment" in listed.out
    assert ".conllu" in listed.out
    found = json.loads(workbench("corpora", "--json").out)
    assert found["built_in"][0]["name"] == "primer"
    assert all(about for about in found["built_in"][0]["tasks"].values())
    assert all(known["about"] for known in found["formats"])


def test_doctor_as_json_is_one_object(workbench: Command) -> None:
    answer = workbench("doctor", "--json")
    assert (answer.code, answer.err) == (0, "")
    assert json.loads(answer.out)["workbench"] == __version__


def test_doctor_prints_the_command_for_whatever_is_missing(workbench: Command) -> None:
    missing = json.loads(workbench("doctor", "--json").out)["missing"]
    told = workbench("doctor").out
    assert all(item["command"] in told for item in missing)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "nowhere.conllu"], "nowhere.conllu: there is no such file or folder."),
        (["show", "primer", "--split", "tets"], "Did you mean 'test'?"),
        (["describe", "primer", "--split", "tets", "--json"], "there is no split 'tets'"),
        (["show", "primer/sentimant", "--json"], "Did you mean 'sentiment'?"),
        (["convert", "primer:size=20", "out.xyz"], "cannot write .xyz"),
    ],
)
def test_users_mistake_is_one_error_without_traceback(
    workbench: Command, arguments: list[str], said: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    answer = workbench("corpora", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert said in answer.err
    assert "Traceback" not in answer.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("json", [(), ("--json",)])
def test_mistake_in_the_middle_of_a_file_names_its_line(
    workbench: Command, trees: Path, json: tuple[str, ...]
) -> None:
    trees.write_text(CONLLU.replace("2\tran", "two\tran"))
    answer = workbench("corpora", "describe", trees, *json)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"error: {trees}:12: ")


def test_unknown_unit_is_wrong_usage(workbench: Command, trees: Path) -> None:
    answer = workbench("corpora", "show", trees, "--unit", "word")
    assert (answer.code, answer.out) == (2, "")
    assert "sentence" in answer.err


def test_what_a_reader_has_to_say_goes_to_standard_error(
    workbench: Command, tmp_path: Path
) -> None:
    table = tmp_path / "reviews.tsv"
    table.write_text("sentence\tlabel\nWhat a film .\tgood\nWhat a bore .\tbad\n")
    answer = workbench("corpora", "show", table, "--text", "sentence", "--label", "label", "--json")
    assert [doc["labels"] for doc in json.loads(answer.out)["docs"]] == [
        {"label": "good"}, {"label": "bad"},
    ]  # fmt: skip
    assert all(line.startswith("note: ") for line in answer.err.splitlines())


def test_interrupt_ends_with_130(workbench: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("workbench.doctor.facts", interrupted)
    answer = workbench("doctor")
    assert (answer.code, answer.out) == (130, "")


def test_a_bug_of_ours_keeps_its_traceback(
    workbench: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("workbench.doctor.facts", broken)
    with pytest.raises(ZeroDivisionError):
        workbench("doctor")


def test_a_reader_that_leaves_early_is_no_error(trees: Path) -> None:
    command = ["-m", "workbench.cli", "corpora", "show", "primer", "--limit", "2000"]
    shown = subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert shown.stdout is not None
    assert shown.stderr is not None
    assert shown.stdout.readline() != ""
    shown.stdout.close()
    assert shown.stderr.read() == ""
    shown.wait(timeout=60)


def test_app_that_is_not_installed_whole_is_a_users_error(
    workbench: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent() -> Path:
        raise WorkbenchError("the app's files are not there.")

    monkeypatch.setattr("workbench.places.app_file", absent)
    assert workbench("app").err == "error: the app's files are not there.\n"


def test_demo_makes_every_stop(workbench: Command) -> None:
    from workbench.demo import STOPS

    answer = workbench("demo")
    assert answer.code == 0
    for number, title in enumerate(STOPS, start=1):
        assert f"{number}. {title}" in answer.out
    assert "BertModel" in answer.out
