"""`workbench compress` at a shell: mistakes end before anything is computed; a small run, and its
folder, which plain transformers opens in another process by the printed code."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.conftest import Command

CORPUS = "primer/sentiment:size=600"
SMALL = (
    "--set", "max_sentences=80", "methods=neurons", "amounts=0.5", "recovery_epochs=0", "rounds=0",
)  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--keep", "all"), "setting-invalid"),
        (("--keep", "0"), "setting-invalid"),
        (("--keep", "0.99%"), "setting-invalid"),
        (("--keep", "99%", "--set", "keep=90%"), "setting-repeated"),
        (("--set", "methods=corners"), "setting-invalid"),
        (("--set", "task=colour"), "task-not-found"),
        (("--set", "metric=beauty"), "setting-invalid"),
        (("--set", "amount=1"), "setting-unknown"),
        (("--model", "mini:elmo"), "no-attention"),
        (("--model", "nowhere/"), "model-not-found"),
        (("--corpus", "primer/acceptance"), "not-found"),
        (("--corpus", "empty.csv"), "task-not-found"),
        (("--corpus", "same.csv"), "task-"),
        (("--corpus", "dog.conllu", "--split", "noon"), "split"),
        (("--out", "missing/smaller"), "folder-not-found"),
        (("--out", "."), "folder-exists"),
        (("--out", "new", "--detach"), "option-conflict"),
    ],
)
def test_mistakes_end_with_a_code_and_a_remedy(
    workbench: Command, at_home: Path, arguments: tuple[str, ...], code: str
) -> None:
    (at_home / "empty.csv").write_text("")
    (at_home / "same.csv").write_text("text,label\n" + "".join(f"Text {n}.,\n" for n in range(9)))
    given = {"--model": "mini:bert", "--corpus": CORPUS}
    left = [
        pair for name, value in given.items() if name not in arguments for pair in (name, value)
    ]
    answer = workbench("compress", *left, *arguments)
    assert answer.code == 2, answer
    assert code in answer.err and "Traceback" not in answer.err
    assert answer.out == "" and not (at_home / "new").exists()


def test_an_interrupt_names_what_goes_on_and_writes_the_folder(
    workbench: Command, at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    queued = SimpleNamespace(state="queued", under_way=False)
    run = SimpleNamespace(name="smaller-model-0", status=queued)
    monkeypatch.setattr("workbench.runs.api.begun", lambda *_, **__: run)
    monkeypatch.setattr("workbench.runs.interactive.progress.watched", interrupted)
    answer = workbench("compress", "--model", "mini:bert", "--corpus", CORPUS, "--out", "smaller")
    assert answer.code == 130
    assert "same command" in answer.err and "runs resume" not in answer.err


@pytest.mark.slow
def test_the_folder_opens_by_the_printed_code(workbench: Command, at_home: Path) -> None:
    answer = workbench(
        "compress", "--model", "mini:bert", "--corpus", CORPUS, "--keep", "80", "--out", "smaller",
        "--json", *SMALL,
    )  # fmt: skip
    assert answer.code == 0, answer.err
    data = json.loads(answer.out)
    folder = at_home / "smaller"
    assert data["folder"] == "smaller" and (folder / "README.md").is_file()
    report = (folder / "report.html").read_text()
    assert "What was lost" in report and "instead of" in report and "http" not in report
    process = subprocess.run(
        [sys.executable, "-c", f"{data['open']}\nprint(model.num_parameters())"],
        capture_output=True, text=True, check=True, cwd=at_home,
    )  # fmt: skip
    assert int(process.stdout) < 1_080_706
    again = workbench("compress", "--model", "mini:bert", "--corpus", CORPUS, "--keep", "0.8",
                      "--json", *SMALL)  # fmt: skip
    assert json.loads(again.out)["run"] == data["run"]  # the same request, read from disk
