"""The command in a report asks the same question again."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from tests.report.making import corpus, made, model
from workbench.cli.main import main
from workbench.report.content import command, duration
from workbench.runs import api, spec, status
from workbench.runs.request import make_request
from workbench.runs.spec import Spec

CONLLU = "1\tIt\tit\tPRON\t_\t_\t2\tnsubj\t_\t_\n2\truns\trun\tVERB\t_\t_\t0\troot\t_\t_\n\n"


def request(**given: object) -> Spec:
    facts: dict[str, object] = {"experiment": "counts", "version": 1, **given}
    return Spec.model_validate(facts)


def words(question: Spec) -> list[str]:
    """The command as a shell takes it apart."""
    return shlex.split(command(question).replace("\\\n", ""), comments=True)


@pytest.mark.parametrize(
    ("options", "settings"),
    [({}, {}), ({"seed": 3, "split": "dev"}, {"max_sentences": 2, "max_words": 7})],
)
def test_the_command_finds_the_run_on_disk(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: dict[str, object],
    settings: dict[str, object],
) -> None:
    folder = tmp_path / "my corpus; rm $HOME"
    folder.mkdir()
    for split in ("train", "dev"):
        (folder / f"{split}.conllu").write_text(CONLLU)
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    question = make_request("describe", corpora=[folder], settings=settings, **options).spec  # type: ignore[arg-type]
    path = tmp_path / "runs" / question.name
    path.mkdir(parents=True)
    spec.write(path, question)
    parts = {"tables": {}, "figures": [], "caveats": [], "models": [], "corpora": [], "files": {}}
    (path / "provenance.json").write_text(json.dumps(parts))
    status.write(path, status.Status("done", experiment="describe"))
    monkeypatch.setattr(api, "start", lambda spec, **_: api.Run(tmp_path / "runs" / spec.name))
    monkeypatch.setattr(sys, "argv", [*words(question), "--json"])
    with pytest.raises(SystemExit) as end:
        main()
    printed = capsys.readouterr()
    assert end.value.code in (0, None), printed.err
    assert f'"run": "{question.name}"' in printed.out


def test_every_setting_is_in_it_with_what_cannot_be_implied() -> None:
    text = words(
        request(
            models=(model(precision="bf16", pickled=True),),
            corpora=(corpus(options={"unit": "document", "labels": ["a", "b"], "language": "en"}),),
            split="test",
            settings={"max_sentences": None, "layers": [0, 4], "kind": "a b", "deep": {"x": [1]}},
            seed=7,
            device="cuda",
        )
    )
    assert text == [
        "workbench", "run", "counts", "--model=local:tiny-bert", "--corpus=primer",
        "--unit=document", "--label=a", "--label=b", "--split=test", "--set=layers=0,4",
        "--set=kind=a b", '--set=deep={"x": [1]}', "--seed=7", "--device=cuda",
        "--precision=bf16", "--pickled",
    ]  # fmt: skip


def test_a_sweep_is_reproduced_as_a_sweep(tmp_path: Path) -> None:
    part = made(tmp_path).spec
    text = command(
        request(
            corpora=part.corpora,
            settings={"max_sentences": 1, "words": 5},
            sweep={"max_sentences": [1, 2], "seed": [0, 1]},
            parts=(part,),
        )
    )
    assert "--sweep=max_sentences=1,2 --sweep=seed=0,1" in text.replace(" \\\n ", "")
    assert "--set=max" not in text and "--seed" not in text and "--set=words=5" in text


def test_a_run_of_an_object_is_reproduced_in_python() -> None:
    asked = request(models=(model(ref=None),), corpora=(corpus(),), settings={"words": 5})
    assert command(asked).splitlines() == [
        "# in capitals: live objects (tiny-bert); pass them again,",
        "# or save them (model.save, wb.write), and name the folder or file",
        "wb.run('counts', model=MODEL, corpus='primer', seed=0, words=5)",
        "# content hash of tiny-bert: hash-of-tiny-ber",
        "# content hash of primer: hash-of-primer",
        f"# run: {asked.name}",
    ]
    table = corpus(options={"unit": "sentence", "text": ["body"], "labels": ["topic"]})
    asked = request(models=(model(ref=None),), corpora=(table,))
    read = "corpus=wb.read('primer', text=['body'], labels=['topic'])"
    assert read in command(asked), "its columns are not in the reference"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (59.9, "59.9 s"), (61, "1 min 1 s"), (7380, "2 h 3 min")],
)
def test_durations_in_words(seconds: float, text: str) -> None:
    assert duration(seconds) == text
