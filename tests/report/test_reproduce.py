"""The command in every format of a report makes the request of its run again, on this machine."""

import html
import re
import shlex
import shutil
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.night import mostly
from workbench import Run
from workbench.cli.main import main
from workbench.core import machine, names
from workbench.report import drawn, pdf, text_formats, write_report
from workbench.report.content import content
from workbench.report.paper import Chapter, write_paper
from workbench.runs import spec, status
from workbench.runs.builtin import builtin_run
from workbench.runs.launch import start
from workbench.runs.request import Request, make_request
from workbench.runs.run import PROVENANCE
from workbench.runs.spec import Spec
from workbench.runs.subruns import compute_here, make_sweep

BERT = Path(spec.__file__).parents[1] / "models" / "mini" / "bert"
CONLLU = "1\tIt\tit\tPRON\t_\t_\t2\tnsubj\t_\t_\n2\truns\trun\tVERB\t_\t_\t0\troot\t_\t_\n\n"
LETTERS = {shown: sign for sign, shown in text_formats._LATEX.items() if sign not in "\n\t"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(drawn, "picture", lambda plain, kind, **words: kind.encode())
    return tmp_path


def finished(question: Spec) -> Run:
    """The folder of a run that has ended, without results."""
    path = machine.runs() / question.name
    path.mkdir(parents=True)
    spec.write(path, question)
    (path / PROVENANCE).write_text(
        '{"tables": {}, "figures": [], "files": {}, "caveats": [], "models": [], "corpora": []}'
    )
    status.write(path, status.Status("done", experiment=question.experiment))
    return Run(path)


def corpus_in(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "dev.conllu").write_text(CONLLU)
    return folder / "dev.conllu"


def of_a_built_in_result(home: Path) -> Run:
    return builtin_run("describe-primer")


def of_a_file(home: Path) -> Run:
    return finished(
        make_request("describe", corpora=[corpus_in(home / "secret" / "mine; rm $HOME")]).spec
    )


def of_a_model_that_a_run_trained(home: Path) -> Run:
    shutil.copytree(BERT, home / "runs" / "train-0123456789abcdef" / "model")
    return finished(make_request("tokenization", ["train-0123"], ["primer:size=40"]).spec)


def of_a_folder_whose_name_says_nothing(home: Path) -> Run:
    shutil.copytree(BERT, home / "secret" / "model")
    question = make_request("tokenization", [home / "secret" / "model"], ["primer:size=40"])
    return finished(question.spec)


def of_an_upload(home: Path) -> Run:
    upload = corpus_in(home / "home" / "uploads" / "corpora" / "feee4e79c0f9a6e7-dev").parent
    names.give("corpora", str(upload), "My treebank, 2nd edition")
    return finished(make_request("describe", corpora=[upload]).spec)


def of_a_sweep(home: Path) -> Run:
    first, second = corpus_in(home / "secret" / "a"), home / "secret" / "b" / "dev.conllu"
    corpus_in(second.parent).write_text(CONLLU * 2)
    swept = {"corpus": [str(first), str(second)], "seed": [0, 1]}
    return finished(make_sweep("describe", [], [], {}, swept)[0])


KINDS: Sequence[Callable[[Path], Run]] = (
    of_a_built_in_result,
    of_a_file,
    of_a_model_that_a_run_trained,
    of_a_folder_whose_name_says_nothing,
    of_an_upload,
    of_a_sweep,
)


# --- the command as a reader copies it out of each format -----------------------------------------


def from_html(page: str) -> str:
    (found,) = re.findall(r'<pre tabindex="0">(workbench run .*?)</pre>', page, re.DOTALL)
    return html.unescape(found)


def from_markdown(text: str) -> str:
    (found,) = re.findall(r"```sh\n(.*?)\n```", text, re.DOTALL)
    return str(found)


def from_latex(text: str) -> str:
    """What LaTeX prints of the paragraph, with the signs that its commands stand for."""
    (found,) = re.findall(r"\\raggedright (.*?)\\par}", text, re.DOTALL)
    lines = re.findall(r"\\texttt\{(.*)\}(?:\\\\)?$", found, re.MULTILINE)
    signs = re.compile("|".join(map(re.escape, sorted(LETTERS, key=len, reverse=True))))
    plain = [re.sub(r"\\allowbreak\{\}|(?<=-)\{\}|(?<=,)\{\}", "", line) for line in lines]
    return "\n".join(signs.sub(lambda sign: LETTERS[sign[0]], line) for line in plain)


def from_typst(markup: str) -> str:
    (found,) = re.findall(r'#raw\(block: true, "((?:[^"\\]|\\.)*)"', markup)
    return re.sub(r"\\(.)", lambda sign: {"n": "\n"}.get(sign[1], sign[1]), found)


def commands_of(run: Run, folder: Path) -> dict[str, str]:
    def text(ending: str) -> str:
        return write_report([run], folder / f"report{ending}").read_text()

    with zipfile.ZipFile(write_report([run], folder / "report.zip")) as files:
        zipped = files.read("report.html").decode()
    commands = {}
    if run.findings:
        chapters = [Chapter("What?", "So.", [run], "workbench demo")]
        paper = write_paper(chapters, folder / "paper.html", "A paper", "").read_text()
        commands = {"paper": from_html(paper)}
    return {
        "html": from_html(text(".html")),
        "md": from_markdown(text(".md")),
        "tex": from_latex(text(".tex")),
        "zip": from_html(zipped),
        "pdf": from_typst(pdf.source_of(content([run]))[0]),
        **commands,
    }


def words_of(command: str) -> list[str]:
    """The command as a shell takes it apart."""
    return shlex.split(command.replace("\\\n", ""), comments=True)


def request_of(command: str, monkeypatch: pytest.MonkeyPatch) -> Spec:
    """The request that the command line makes of it; nothing is run."""
    from workbench.runs import api

    class AskedError(Exception):
        pass

    def asked(question: Spec | Request, **_: object) -> Run:
        raise AskedError(question.spec if isinstance(question, Request) else question)

    with monkeypatch.context() as patch:
        patch.setattr(api, "begun", asked)
        patch.setattr(api, "start", asked)
        patch.setattr(Request, "unmet_requirements", lambda _: [])
        patch.setattr(sys, "argv", words_of(command))
        with pytest.raises(AskedError) as end:
            main()
    question = end.value.args[0]
    assert isinstance(question, Spec)
    return question


@pytest.mark.parametrize("kind", mostly(KINDS, of_a_built_in_result, of_a_file, of_a_sweep))
def test_every_format_has_the_command_that_makes_the_run_again(
    kind: Callable[[Path], Run], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = kind(home)
    monkeypatch.chdir(home)  # it runs from any folder
    commands = commands_of(run, home)
    assert len(set(commands.values())) == 1, commands
    command = commands["html"]
    assert request_of(command, monkeypatch).name == run.spec.name
    assert "secret" not in command.replace("secret/model", "") and str(home) not in command
    for part in run.spec.parts or (run.spec,):
        for item in (*part.models, *part.corpora):
            assert f": {item.hash[:16]}\n" in command


def test_the_command_is_answered_from_disk(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    request = make_request("describe", corpora=[corpus_in(home / "secret")], split="dev")
    run = start(request.spec, compute=compute_here(request))
    assert run.status.state == "done"
    before = run.status
    (command,) = {*commands_of(run, home).values()}
    monkeypatch.chdir("/")
    monkeypatch.setattr(sys, "argv", [*words_of(command), "--json"])
    with pytest.raises(SystemExit) as end:
        main()
    printed = capsys.readouterr()
    assert end.value.code in (0, None), printed.err
    assert f'"run": "{run.name}"' in printed.out and run.status == before


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (of_a_file, ["no corpus", "dev.conllu", "--corpus=PATH"]),
        (of_a_folder_whose_name_says_nothing, ["no model", "secret/model", "--model=PATH"]),
        (of_a_model_that_a_run_trained, ["train-0123456789abcdef", "copy the folder of the run"]),
    ],
)
def test_another_machine_says_what_it_lacks(
    kind: Callable[[Path], Run],
    said: list[str],
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    command = from_markdown(write_report([kind(home)], home / "report.md").read_text())
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.setenv("WORKBENCH_HOME", str(elsewhere / "home"))
    monkeypatch.setenv("WORKBENCH_RUNS", str(elsewhere / "runs"))
    monkeypatch.setattr(sys, "argv", words_of(command))
    with pytest.raises(SystemExit) as end:
        main()
    printed = " ".join(capsys.readouterr().err.split())
    assert end.value.code == 2 and all(words in printed for words in said), printed


def test_two_reports_of_one_run_differ_in_nothing_but_paths(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = []
    for name in ("alice", "bob"):
        monkeypatch.setenv("WORKBENCH_HOME", str(home / name / "home"))
        monkeypatch.setenv("WORKBENCH_RUNS", str(home / name / "runs"))
        upload = corpus_in(home / name / "home/uploads/corpora" / f"{'0' * 16}-dev")
        names.give("corpora", str(upload.parent), "My treebank")
        model = shutil.copytree(BERT, home / name / "mine" / "model")
        question = make_request("tokenization", [model], [upload.parent]).spec
        run = finished(question)
        folder = home / name / "reports"
        texts = [write_report([run], folder / f"r{end}").read_text() for end in (".html", ".md")]
        reports.append((run.name, *texts, pdf.source_of(content([run]))[0]))
        assert not any(name in text for text in texts)
    assert reports[0] == reports[1]
