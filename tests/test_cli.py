"""The command line as a user meets it: what goes where, and with which exit code."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests import warm
from tests.cli.conftest import Answer, Command
from workbench import WorkbenchError, __version__
from workbench.cli.main import main

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
[0] d1-1
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
    assert ["nsubj", "2", "+1", "100", "%"] in lines


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


def test_doctor_prints_the_command_for_whatever_is_missing(workbench: Command) -> None:
    answer = workbench("doctor", "--json")
    assert (answer.code, answer.err) == (0, "")
    found = json.loads(answer.out)
    assert found["workbench"] == __version__
    told = workbench("doctor").out
    assert all(item["command"] in told for item in found["missing"])


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

    monkeypatch.setattr("workbench.core.doctor.facts", interrupted)
    answer = workbench("doctor")
    assert (answer.code, answer.out) == (130, "")


def test_a_bug_of_ours_keeps_its_traceback(
    workbench: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("workbench.core.doctor.facts", broken)
    with pytest.raises(ZeroDivisionError):
        workbench("doctor")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = ["-m", "workbench.cli.main", "corpora", "show", "primer", "--limit", "2000"]
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as errors:
        shown = warm.start(*command, output=writing, errors=errors.fileno(), **os.environ)
        os.close(writing)
        with os.fdopen(reading) as output:
            assert output.readline() != ""
        shown.join(60)
        errors.seek(0)
        assert (shown.exitcode, errors.read()) == (1, b"")


def test_app_that_is_not_installed_whole_is_a_users_error(
    workbench: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent() -> Path:
        raise WorkbenchError(
            "the app's files are missing.", code="installation-incomplete", remedy="Install it."
        )

    monkeypatch.setattr("workbench.core.machine.app_file", absent)
    first, remedy = workbench("app").err.splitlines()
    assert first == "error: the app's files are missing. [installation-incomplete]"
    assert remedy == "  Install it."


def program(
    *arguments: str, stdout: int | None = None, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own, with real output streams."""
    command = ["-m", "workbench.cli.main", *arguments]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        output = out.fileno() if stdout is None else stdout
        begun = warm.start(
            *command, output=output, errors=errors.fileno(), **{**os.environ, **environment}
        )
        begun.join()
        out.seek(0)
        errors.seek(0)
        assert begun.exitcode is not None
        return subprocess.CompletedProcess(command, begun.exitcode, out.read(), errors.read())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    "arguments",
    [
        ("corpora",),
        ("corpora", "show", "primer:size=20", "--limit", "200", "--json"),
        *(
            pytest.param(arguments, marks=pytest.mark.slow)
            for arguments in (
                ("corpora", "show", "primer:size=20"),
                ("corpora", "describe", "primer:size=20"),
                ("doctor",),
            )
        ),
    ],
)
def test_output_that_cannot_be_written_is_one_line_and_exit_code_1(
    arguments: tuple[str, ...],
) -> None:
    with Path("/dev/full").open("w") as full:
        done = program(*arguments, stdout=full.fileno())
    said = b"error: the output cannot be written: No space left on device.\n"
    assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.slow
def test_nobody_there_to_read_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = program("corpora", stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize("encoding", ["ascii", pytest.param("latin1", marks=pytest.mark.slow)])
def test_letters_the_output_cannot_encode_are_escaped(trees: Path, encoding: str) -> None:
    done = program("corpora", "show", str(trees), PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\u250c\u2500 1 The" in done.stdout


@pytest.mark.parametrize(
    ("command", "encoding"),
    [
        ("show", "latin1"),
        *(
            pytest.param(command, encoding, marks=pytest.mark.slow)
            for command, encoding in (
                ("show", "ascii"), ("show", "utf-8:strict"), ("show", "utf-8:surrogateescape"),
                ("describe", "ascii"), ("describe", "latin1"), ("describe", "utf-8:strict"),
                ("describe", "utf-8:surrogateescape"),
            )
        ),
    ],
)  # fmt: skip
def test_json_stays_json_in_utf_8_whatever_the_names_and_the_output(
    tmp_path: Path, encoding: str, command: str
) -> None:
    name = os.fsdecode(bytes(tmp_path) + b"/bad\xff.conllu")
    Path(name).write_text(CONLLU.replace("dog", "naïf"), encoding="utf-8")
    done = program("corpora", command, name, "--json", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "naïf" in str(json.loads(done.stdout.decode("utf-8")))
    plain = program("corpora", command, name, PYTHONIOENCODING=encoding)
    assert (plain.returncode, plain.stderr) == (0, b"")


def test_a_limit_beyond_counting_is_none(workbench: Command, trees: Path) -> None:
    answer = workbench("corpora", "show", trees, "--limit", 2**63)
    assert answer == workbench("corpora", "show", trees)


def test_a_port_there_cannot_be_is_wrong_usage(workbench: Command) -> None:
    answer = workbench("app", "--port", 65536)
    assert (answer.code, answer.out) == (2, "")


def test_json_before_the_command_is_an_error_that_says_where_it_goes(workbench: Command) -> None:
    answer = workbench("corpora", "--json", "show", "primer")
    assert (answer.code, answer.out) == (2, "")
    assert "show … --json" in answer.err


@pytest.mark.parametrize("command", ["show", "describe"])
def test_a_split_without_a_name_is_no_split(workbench: Command, command: str) -> None:
    answer = workbench("corpora", command, "primer:size=20", "--split", "")
    assert (answer.code, answer.out) == (2, "")
    assert "there is no split ''" in answer.err


@pytest.mark.parametrize(
    ("name", "options", "lost"),
    [
        ("s.conllu", (), "label:sentiment"),
        ("s.jsonl", ("--layer", "pos"), "label:sentiment"),
    ],
)
def test_layers_that_a_format_cannot_store_are_noted_once(
    workbench: Command, tmp_path: Path, name: str, options: tuple[str, ...], lost: str
) -> None:
    out = tmp_path / name
    ref = "primer/sentiment:size=20"
    answer = workbench("corpora", "convert", ref, out, "--split", "dev", *options)
    assert answer.code == 0
    (note,) = answer.err.splitlines()
    assert note.startswith(f"note: {out.suffix} files cannot store these layers: ")
    assert lost in note


def test_what_a_format_keeps_needs_no_note(workbench: Command, tmp_path: Path) -> None:
    assert workbench("corpora", "convert", "primer:size=20", tmp_path / "x.spacy").err == ""


@pytest.mark.parametrize("out", ["~nouser/x.spacy", "a/b.spacy"])
def test_a_place_that_cannot_be_written_to_is_a_users_error(
    workbench: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").touch()
    answer = workbench("corpora", "convert", "primer:size=20", out)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")


def test_models_lists_the_families_and_how_to_name_one(workbench: Command) -> None:
    answer = workbench("models")
    assert answer.code == 0
    for family in ("bert", "longformer", "t5", "elmo"):
        assert family in answer.out
    listed = json.loads(workbench("models", "--json").out)
    assert {"references", "families"} == set(listed)
    assert len(listed["families"]) >= 18


def test_models_show_opens_a_model(workbench: Command, tmp_path: Path) -> None:
    from tests.tiny import tiny_bert

    for part in tiny_bert(["the", "cat"]):
        part.save_pretrained(tmp_path)  # type: ignore[attr-defined]
    answer = workbench("models", "show", str(tmp_path))
    assert answer.code == 0
    assert "encoder" in answer.out and "key-value cache" not in answer.out  # it writes no text
    told = json.loads(workbench("models", "show", str(tmp_path), "--json").out)
    assert told["stacks"] == [{"name": "encoder", "layers": 2, "heads": 2, "kinds": ["self"]}]
    assert told["precision"] == "fp32"


def test_a_model_that_is_not_there_is_one_error(workbench: Command) -> None:
    answer = workbench("models", "show", "no-such/model")
    assert (answer.code, answer.out) == (2, "")
    assert "folder" in answer.err
