"""Runs of a Python session: of live objects, in the background, swept, and of a cell's function."""

import gc
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import workbench as wb
from tests.runs.conftest import wait_until
from tests.tiny import tiny_bert
from workbench.experiment import Inputs, Progress, Table
from workbench.experiment.definition import EXPERIMENTS
from workbench.runs import status
from workbench.runs.interactive.progress import _cell
from workbench.runs.run import Run

TEXTS = ["the dog saw a cat .", "a cat ran ."]
WORDS = ["the", "dog", "saw", "a", "cat", "ran", "."]


@pytest.fixture(autouse=True)
def forget_cells() -> Any:
    yield
    EXPERIMENTS.added.clear()


def lengths(docs: list[Any], longest: int = 40, pause: float = 0.0, progress: Any = None) -> Any:
    """Counts the words of each sentence."""
    for index in range(60 if pause else 0):
        progress(index, 60, "waiting")
        time.sleep(pause)
    return pd.DataFrame({"words": [len(doc) for doc in docs if len(doc) <= longest]})


# --- live objects ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("undrawn")
def test_a_live_net_is_found_by_its_hash_while_it_is_there() -> None:
    net, tokenizer = tiny_bert(WORDS)
    run = wb.run("profile", model=(net, tokenizer), corpus=TEXTS)
    assert run.status.guest and run.spec.models[0].hash == wb.load(net).content_hash
    assert run.provenance["models"][0]["content_hash"] == run.spec.models[0].hash
    computed = run.status.started
    assert wb.run("profile", model=net, corpus=list(TEXTS)).status.started == computed
    corpus = wb.read(TEXTS)
    other = wb.run("profile", model=net, corpus=corpus, seed=1)
    (run.path / "status.json").unlink()
    again = wb.run(run)  # computed again, with the net and the corpus of the same hash
    assert again.name == run.name and again.status.state == "done"
    assert other.name != run.name
    with torch.no_grad():
        net.bert.embeddings.word_embeddings.weight.mul_(2)
    changed = wb.run("profile", model=net, corpus=corpus)
    assert changed.name != run.name


@pytest.mark.usefixtures("undrawn")
def test_a_run_whose_object_is_gone_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    from workbench.cli.main import commands
    from workbench.report.content import command

    net, tokenizer = tiny_bert(WORDS)
    run = wb.run("profile", model=(net, tokenizer), corpus="primer:size=20")
    (run.path / "status.json").unlink()
    hashed = run.spec.models[0].hash
    del net
    gc.collect()
    with pytest.raises(wb.WorkbenchError, match=f"live object .* {hashed[:16]}") as error:
        wb.run(run)
    assert "model.save(FOLDER)" in error.value.remedy
    with pytest.raises(wb.WorkbenchError, match=f"live object .* {hashed[:16]}"):
        commands()(["runs", "resume", run.name], standalone_mode=False)
    assert "live objects (BertForMaskedLM)" in command(run.spec) and hashed[:16] in command(
        run.spec
    )


def test_weights_that_change_during_a_run_give_no_result() -> None:
    net, tokenizer = tiny_bert(WORDS)

    @wb.experiment
    def trains_beside(model: Any) -> pd.DataFrame:
        with torch.no_grad():
            net.bert.embeddings.word_embeddings.weight.add_(1)
        return pd.DataFrame({"n": [1]})

    with pytest.raises(wb.WorkbenchError, match="changed while the run"):
        wb.run(trains_beside, model=(net, tokenizer))


@pytest.mark.usefixtures("undrawn")
def test_a_run_of_an_opened_model_has_the_name_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = wb.load(wb.export_model("mini:gpt@random", tmp_path / "small").folder, device="cpu")
    changed = wb.Write("block 1 mlp", 0).into(model)
    monkeypatch.chdir(tmp_path.parent)
    relative = wb.load(f"{tmp_path.name}/small@edit:1.2=0", device="cpu")
    opened = (model, changed, relative)
    names = [wb.run("profile", model=each, corpus=TEXTS).status.models for each in opened]
    assert names == [("small",), ("small (block 1 mlp changed)",), ("small@edit:1.2=0",)]


@pytest.mark.usefixtures("undrawn")
def test_random_numbers_of_the_session_go_on() -> None:
    random.seed(1), np.random.seed(2), torch.manual_seed(3)
    expected = random.random(), np.random.rand(), float(torch.rand(1))
    random.seed(1), np.random.seed(2), torch.manual_seed(3)
    wb.run("describe", corpus=TEXTS)
    assert (random.random(), np.random.rand(), float(torch.rand(1))) == expected


@pytest.mark.parametrize("pass_on", [False, True])
def test_progress_of_a_run_in_this_process_is_told_while_it_goes_on(
    pass_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = status.write

    def write(*what: Any) -> None:  # who follows the run looks before it goes on
        written(*what)
        time.sleep(0.06)

    monkeypatch.setattr(status, "write", write)
    seen: list[Any] = []
    cell = wb.experiment(lengths)
    told = threading.Event()

    def tell(event: Any) -> None:
        seen.append(event)
        told.set()
        if pass_on:
            raise RuntimeError("of the user's")

    if pass_on:
        with pytest.raises(RuntimeError, match="of the user's"):
            wb.run(cell, corpus=TEXTS, progress=tell)
        return
    wb.run(cell, corpus=TEXTS, pause=0.005, progress=tell)
    assert {"running", "done"} <= {event.get("state") for event in seen}
    assert any(event["kind"] == "progress" and event["doing"] == "waiting" for event in seen)


def test_a_notebook_has_one_bar_for_all_stages(capsys: pytest.CaptureFixture[str]) -> None:
    def stage(doing: str, done: int, total: int | None) -> dict[str, Any]:
        return {"kind": "progress", "doing": doing, "done": done, "total": total, "left": 9.0}

    _cell(
        [
            {"kind": "state", "state": "running"},
            stage("reading", 1, None),
            stage("measuring", 1, 4),
            {"kind": "warning", "text": "rare words"},
            stage("measuring", 4, 4),
            {"kind": "state", "state": "done"},
        ]
    )
    said, shown = capsys.readouterr()
    assert "warning: rare words" in said
    assert all(text in shown for text in ("reading", "measuring", "4 of 4", "s left in this stage"))


# --- in the background ----------------------------------------------------------------------------


def test_a_live_object_in_the_background() -> None:
    pending = wb.run(wb.experiment(lengths), corpus=TEXTS, pause=0.01, wait=False)
    assert not pending.done
    wait_until(lambda: pending.progress.get("doing") == "waiting")
    assert pending.progress["total"] == 60 and pending.progress["state"] == "running"
    assert "waiting" in repr(pending)
    assert pending.result().tables["results"]["words"].tolist() == [6, 4]
    assert pending.done and repr(pending).endswith(": done>")


def test_one_in_the_background_is_cancelled() -> None:
    pending = wb.run(wb.experiment(lengths), corpus=TEXTS, pause=0.1, wait=False)
    with pytest.raises(wb.WorkbenchError, match="run-under-way"):
        pending.result(timeout=0.2)
    pending.cancel()
    assert pending.done and pending.run.status.state == "cancelled"
    with pytest.raises(wb.WorkbenchError, match="cancelled"):
        pending.result()
    pending.cancel()  # has ended, and stays so


def test_a_reference_in_the_background_has_its_own_process() -> None:
    pending = wb.run("describe", corpus="primer:size=20", wait=False)
    run = pending.result()
    assert not run.status.guest and run.findings


# --- a sweep --------------------------------------------------------------------------------------


def test_a_sweep_over_a_reference_and_a_live_net() -> None:
    net, tokenizer = tiny_bert(WORDS)
    run = wb.sweep(
        "profile", model=["mini:bert", (net, tokenizer)], corpus="primer:size=20", seed=[0],
        max_sentences=2,
    )  # fmt: skip
    assert run.sweep == {"model": ["mini:bert", "BertForMaskedLM"], "seed": [0]}
    parts = [Run(run.path.parent / name) for name in run.provenance["runs"]]
    assert [part.status.guest for part in parts] == [False, True]
    table = run.tables["stacks"]
    assert table["model"].unique().tolist() == run.sweep["model"] and len(run.findings)
    assert "numbers" in run.figures
    again = wb.sweep(
        "profile", model=["mini:bert", net], corpus="primer:size=20", seed=[0], max_sentences=2
    )
    assert again.status == run.status


def test_a_sweep_of_a_cell_in_the_background() -> None:
    pending = wb.sweep(wb.experiment(lengths), corpus=TEXTS, longest=[3, 4, 10], wait=False)
    table = pending.result().tables["results"]
    assert table.columns.tolist() == ["longest", "row", "words"]
    assert table[["longest", "words"]].to_numpy().tolist() == [[4, 4], [10, 6], [10, 4]]


def test_what_a_list_means_depends_on_the_setting() -> None:
    @wb.experiment
    def widths(layers: tuple[int, ...] = (1,), name: str = "a") -> pd.DataFrame:
        return pd.DataFrame({"n": [len(layers)]})

    one = wb.sweep(widths, layers=[1, 2], name=["a", "b"])
    assert set(one.sweep) == {"name"} and one.tables["results"]["n"].tolist() == [2, 2]
    assert set(wb.sweep(widths, layers=[[1], [1, 2]]).sweep) == {"layers"}
    with pytest.raises(wb.WorkbenchError, match="nothing-swept"):
        wb.sweep(widths, layers=[1, 2])


@pytest.mark.usefixtures("undrawn")
def test_two_nets_of_one_name_need_names() -> None:
    nets = [tiny_bert(WORDS, seed) for seed in (0, 1)]
    with pytest.raises(wb.WorkbenchError, match="repeated") as error:
        wb.sweep("profile", model=nets, corpus=TEXTS)
    assert "name=" in error.value.remedy
    named = [wb.load(*net, name=f"net {index}") for index, net in enumerate(nets)]
    run = wb.sweep("profile", model=named, corpus=TEXTS)
    assert run.sweep == {"model": ["net 0", "net 1"]}


# --- a function in a cell -------------------------------------------------------------------------


def test_its_arguments_are_inputs_and_settings(tmp_path: Path) -> None:
    @wb.experiment(name="counts")
    def count(
        model: Any, corpus: Any, inputs: Inputs, progress: Progress, seed: int, at_least: int = 2
    ) -> dict[str, pd.DataFrame]:
        """Counts words.

        Of all sentences.
        """
        progress(1, 2, "counting")
        n = sum(len(doc) for doc in corpus)
        by_seed = pd.DataFrame({"seed": [seed], "n": [n + at_least]}).set_index("seed")
        return {"sums": by_seed, "pieces": pd.DataFrame({"width": [model.width, inputs.seed]})}

    assert count.about == "Counts words." and count.models == (1, 1) == count.corpora
    assert wb.experiments()["counts"] is count and "counts" in list(wb.experiments())
    net, tokenizer = tiny_bert(WORDS)
    run = wb.run("counts", model=(net, tokenizer), corpus=TEXTS, seed=3, at_least=5)
    assert run.settings == {"max_sentences": None, "at_least": 5}
    assert run.tables["sums"].to_numpy().tolist() == [[3, 15]]
    assert run.tables["sums"].attrs["keys"] == ["seed"]
    assert run.tables["pieces"].to_numpy().tolist() == [[0, 32], [1, 3]]
    assert count(*[wb.load(net), wb.read(TEXTS), Inputs(), lambda *_: None, 1]).keys() == {
        "sums", "pieces"
    }  # fmt: skip
    with pytest.raises(wb.WorkbenchError, match=r"at_least[\s\S]*write another value"):
        wb.run(count, model=net, corpus=TEXTS, at_least="many")
    assert wb.report(run, tmp_path / "counts.html").exists()


def test_an_experiment_that_no_package_announces_is_run() -> None:
    def run(inputs: Inputs, settings: wb.Settings, progress: Any) -> wb.Result:
        return wb.Result({"words": pd.DataFrame({"words": [len(doc) for doc in inputs.docs()]})})

    tables = {"words": Table("Words of each text.", ())}
    unannounced = wb.Experiment(
        name="words-of-texts", about="Counts words.", settings=wb.Settings, run=run, tables=tables,
        models=(0, 0),
    )  # fmt: skip
    found = wb.run(unannounced, corpus=["The dog barks.", "It rains."]).tables["words"]
    assert found["words"].tolist() == [4, 3]


def made(source: str) -> Any:
    """The experiment of a cell that was run."""
    names: dict[str, Any] = {"wb": wb, "pd": pd, "__name__": "__main__"}
    exec(source, names)
    return names["cell"]


CELL = """
factor = 2
def helper(n):
    return factor * n
@wb.experiment
def cell(docs, more: int = 0):
    return pd.DataFrame({"n": [helper(len(docs)) + more]})
"""


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        ("+ more", "- more - 1", 3),
        ("factor * n", "factor + n + 3", 7),
        ("factor = 2", "factor = 9", 18),
    ],
)
def test_a_changed_cell_is_another_request(old: str, new: str, value: int) -> None:
    first = wb.run(made(CELL), corpus=TEXTS)
    assert wb.run(made(CELL), corpus=TEXTS).status == first.status
    changed = wb.run(made(CELL.replace(old, new)), corpus=TEXTS)
    assert changed.name != first.name
    assert changed.tables["results"]["n"].tolist() == [value]
    assert wb.open_run(first.name).tables["results"]["n"].tolist() == [4]


def test_the_same_function_in_a_file_is_an_experiment_of_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.runs.conftest import forget_experiments

    package = tmp_path / "counted"
    package.mkdir()
    announced = "wb.Analysis(__name__, experiments={'cell': 'cells:cell'})"
    (package / "__init__.py").write_text(f"import workbench as wb\nANALYSIS = {announced}\n")
    (package / "cells.py").write_text(f"import pandas as pd\nimport workbench as wb\n{CELL}")
    info = tmp_path / "counted-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: counted\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[workbench.analyses]\ncounted = counted\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    forget_experiments()
    run = wb.run("cell", corpus="primer:size=20", split="test", max_sentences=3)
    n_docs = len(list(wb.read("primer:size=20").docs("test", 3)))
    assert not run.status.guest and run.tables["results"]["n"].tolist() == [2 * n_docs]


FAULTS: dict[str, tuple[Callable[[], Any], str]] = {
    "no default": (lambda: wb.experiment(lambda docs, n: n, name="a"), "experiment-invalid"),
    "any arguments": (lambda: wb.experiment(lambda *docs: 1, name="a"), "experiment-invalid"),
    "a taken name": (lambda: wb.experiment(lambda docs: 1, name="heads"), "name-conflict"),
    "a bad name": (lambda: wb.experiment(lambda docs: 1, name="a b"), "wrong-type"),
    "no table": (
        lambda: wb.run(wb.experiment(lambda docs: 5, name="a"), corpus=TEXTS),
        "result-invalid",
    ),
    "no function": (lambda: wb.experiment(5), "wrong-type"),  # type: ignore[call-overload]
}


@pytest.mark.parametrize(("made", "code"), FAULTS.values(), ids=FAULTS)
def test_faults_have_a_remedy(made: Callable[[], Any], code: str) -> None:
    with pytest.raises(wb.WorkbenchError) as error:
        made()
    assert error.value.code == code and error.value.remedy
