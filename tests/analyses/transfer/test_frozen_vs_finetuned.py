"""The table: every cell a run that is never computed twice, and differences that are theirs."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import workbench as wb
from tests.judges.in_process import Asking
from tests.judges.in_process import run as here
from tests.models.gated import opened
from workbench import Corpus, WorkbenchError
from workbench.analyses.transfer import frozen_vs_finetuned
from workbench.runs.launch import remove
from workbench.runs.run import all_runs

pytestmark = pytest.mark.usefixtures("warm_workers")
CORPUS = "primer:size=200"
QUICK: dict[str, Any] = {
    "max_train": 40, "max_dev": 20, "max_test": 30, "max_epochs": 1, "seeds": [0, 1],
    "learning_rates": [2e-3],
    "tasks": ["sentiment", "relatedness"],
}  # fmt: skip
ONE: dict[str, Any] = {
    **QUICK, "tasks": ["sentiment"], "lstm_baseline": False, "seeds": [0],
    "max_train": 16, "max_dev": 8, "max_test": 10,
}  # fmt: skip


@cache
def corpus() -> Corpus:
    """Read once: which tasks it has is told of all its texts."""
    return wb.read(CORPUS)


@pytest.fixture(scope="module", autouse=True)
def _runs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_RUNS", str(tmp_path_factory.mktemp("runs")))
        yield


@pytest.mark.slow
def test_every_cell_is_asked_and_the_table_is_what_they_say() -> None:
    asking = Asking()
    models = [wb.load("mini:bert"), wb.load("mini:elmo")]
    table = here("frozen-vs-finetuned", models, [corpus()], asking=asking, **QUICK)
    answers = {each.name: each for each in asking.answers}
    cells = table.tables["cells"]
    assert len(cells) == 2 * 2 * 3, "models, tasks, and ways"
    delta, means = table.tables["delta"], table.tables["means"]
    assert list(zip(delta["task"], delta["model"], strict=True)) == [
        ("sentiment", "mini:bert"), ("relatedness", "mini:bert"),
        ("sentiment", "mini:elmo"), ("relatedness", "mini:elmo"),
    ]  # fmt: skip
    value = means.set_index(["task", "model", "method", "head"])["value"]
    for _, row in delta.iterrows():
        key = (row["task"], row["model"])
        assert row["frozen"] == value[(*key, "frozen", "plain")]
        assert row["tuned"] == value[(*key, "fine-tuned", "plain")]
        assert row["strong"] == value[(*key, "frozen", "lstm")]
        assert row["delta"] == pytest.approx(row["tuned"] - row["frozen"])
        assert row["lower"] <= row["upper"] and 0 < row["p_value"] <= 1
        assert np.isnan(row["majority"]) == (row["task"] == "relatedness")
    for _, cell in cells.iterrows():
        scores = answers[cell["run"]].tables["scores"]
        (metric,) = means.query("task == @cell.task")["metric"].unique()
        own = scores.query(f"split == 'test' and metric == {metric!r}")["value"]
        told = value[(cell["task"], cell["model"], cell["method"], cell["head"])]
        assert told == pytest.approx(own.mean())
    assert set(table.tables["scores"]["model"]) == {"mini:bert", "mini:elmo"}


def test_models_are_saved_by_default_if_they_take_little_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = wb.run("frozen-vs-finetuned", model="mini:bert", corpus=CORPUS, **ONE)
    for name in table.tables["cells"]["run"]:
        assert wb.load(name, device="cpu").task_head is not None
    asking = Asking()
    monkeypatch.setattr(frozen_vs_finetuned, "SAVED_MIB", 1)
    models, corpora = [wb.load("mini:bert")], [corpus()]
    larger = here("frozen-vs-finetuned", models, corpora, asking=asking, **ONE)
    assert not any(request.settings["save_model"] for request in asking.questions)
    assert any("No models were saved: 2 models take" in each.text for each in larger.caveats)


def test_what_was_computed_once_is_not_computed_again() -> None:
    table = wb.run("frozen-vs-finetuned", model="mini:bert", corpus=CORPUS, **ONE)
    before = {run.name: now.ended for run, now in all_runs()}
    first = pd.DataFrame(table.tables["delta"])
    remove(table)
    again = wb.run("frozen-vs-finetuned", model="mini:bert", corpus=CORPUS, **ONE)
    assert again.name == table.name and pd.DataFrame(again.tables["delta"]).equals(first)
    larger = wb.run(
        "frozen-vs-finetuned",
        model="mini:bert",
        corpus=CORPUS,
        **{**ONE, "methods": ["fine-tuned", "bitfit"]},
    )
    after = {run.name: now.ended for run, now in all_runs()}
    kept = {name: ended for name, ended in before.items() if name != table.name}
    assert kept.items() <= after.items()
    new = [name for name in after if name not in before]
    assert len([name for name in new if name.startswith("finetune")]) == 1, "bitfit"
    assert set(larger.tables["delta"]["method"]) == {"fine-tuned", "bitfit"}


def test_a_method_that_a_model_cannot_take_is_told_before_anything_is_learnt() -> None:
    asking = Asking()
    models = [wb.load("mini:bert"), wb.load("mini:elmo")]
    how = {**QUICK, "methods": ["lora"]}
    with pytest.raises(WorkbenchError, match="cannot be adapted with lora") as told:
        here("frozen-vs-finetuned", models, [corpus()], asking=asking, **how)
    assert "mini:elmo" in str(told.value) and not asking.questions


def test_frozen_alone_is_held_against_nothing() -> None:
    with pytest.raises(WorkbenchError, match="name a method to compare with frozen"):
        wb.run("frozen-vs-finetuned", model="mini:bert", corpus=CORPUS, methods=["frozen"])


@pytest.mark.slow
def test_tables_of_ones_own_are_read_too(tmp_path: Any) -> None:
    for split, rows in (("train", 40), ("dev", 10), ("test", 12)):
        lines = [f"the {'good' if n % 2 else 'bad'} dog number {n}\t{n % 2}\n" for n in range(rows)]
        (tmp_path / f"{split}.tsv").write_text("sentence\tlabel\n" + "".join(lines))
    how = {**QUICK, "tasks": [], "lstm_baseline": False}
    twice = {**how, "seeds": [0, 1, 0], "learning_rates": [2e-3, 2e-3], "tasks": ["label", "label"]}
    run = wb.run("frozen-vs-finetuned", model="mini:bert", corpus=str(tmp_path), **twice)
    assert run.spec.settings["seeds"] == [0, 1] and run.spec.settings["learning_rates"] == [2e-3]
    delta = run.tables["delta"]
    assert delta["task"].tolist() == [tmp_path.name] and np.isnan(delta["strong"]).all()


def test_of_several_corpora_each_is_scored_on_the_part_it_has(tmp_path: Any) -> None:
    for name, scored in (("one", "test"), ("other", "dev")):
        (tmp_path / name).mkdir()
        for split in ("train", scored):
            rows = [f"a {'good' if n % 2 else 'bad'} dog, {name} {n}\t{n % 2}\n" for n in range(40)]
            (tmp_path / name / f"{split}.tsv").write_text("sentence\tlabel\n" + "".join(rows))
    how = {**ONE, "tasks": []}
    corpora = [wb.read(str(tmp_path / name)) for name in ("one", "other")]
    run = here("frozen-vs-finetuned", [opened("bert")], corpora, split="test", **how)
    assert run.tables["delta"]["task"].tolist() == ["one", "other"]


def test_a_caveat_keeps_the_models_that_it_names_apart() -> None:
    common = {"task": "topic", "model": "bert", "converged": False, "learned": True}
    ways = [{"method": "fine-tuned", "head": "standard"}, {"method": "frozen", "head": "lstm"}]
    (caveat,) = frozen_vs_finetuned.cell_caveats(pd.DataFrame([common | way for way in ways]))
    assert "topic (bert, fine-tuned), topic (bert, frozen, LSTM)." in caveat.text
