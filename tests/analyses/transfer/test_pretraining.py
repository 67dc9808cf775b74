"""BERT's Tables 5 and 6 in small: arms share text and steps, and nothing is trained twice."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import workbench as wb
from tests.analyses.training.lessons import Told
from tests.analyses.transfer.conftest import corpus_of, doc_of
from workbench import Run, WorkbenchError, experiments, open_run
from workbench.analyses.training.experiments import Training
from workbench.analyses.transfer.experiments import PRETRAINING
from workbench.analyses.transfer.pretraining import (
    Estimate,
    Model,
    _claims,
    _source,
    _train_settings,
    has_documents,
)
from workbench.analyses.transfer.studies import ARMS as ALL_ARMS
from workbench.analyses.transfer.studies import STUDIES
from workbench.drawing.sanitize import harmless
from workbench.experiment import Inputs
from workbench.runs.request import checked_settings, fits, make_request
from workbench.runs.run import all_runs

FIGURES = PRETRAINING.drawings()

pytestmark = pytest.mark.usefixtures("warm_workers")
CORPUS = "primer:size=200"
SMALL: dict[str, Any] = {
    "pretraining_steps": 4, "pretraining_batch_size": 4, "vocabulary_size": 300,
    "tasks": ["sentiment"], "max_train": 32,
    "max_dev": 20, "max_test": 20, "seeds": [0], "learning_rates": [1e-3], "max_epochs": 1,
}  # fmt: skip
KEY = ["arm", "size", "task"]
ARMS = {arm: ALL_ARMS[arm] for arm in ("mlm+nsp", "ltr", "ltr+lstm")}  # all by night


def asked(**settings: Any) -> Run:
    return wb.run("pretraining", corpus=CORPUS, device="cpu", **{**SMALL, **settings})


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_RUNS", str(tmp_path_factory.mktemp("runs")))
        yield asked(arms=[*ARMS])


def parts_of(run: Run) -> list[Run]:
    return [other for other, now in all_runs() if now.part_of == run.name]


def recipe(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((open_run(name).path / "model/training.json").read_text())
    return read


# --- what is trained ------------------------------------------------------------------------------


def test_arms_share_text_steps_and_all_that_is_set(found: Run) -> None:
    table = found.tables["pretraining"].set_index("arm")
    assert list(table.index) == list(ARMS) and set(table["steps"]) == {4}
    recipes = {arm: recipe(name) for arm, name in table["run"].items()}
    assert len({each["text"]["hash"] for each in recipes.values()}) == 1
    assert len({each["text"]["bytes"] for each in recipes.values()}) == 1
    plans = [each["settings"] for each in recipes.values()]
    for plan in plans:
        assert plan.pop("objective") in ("masked-next", "causal")
        plan.pop("mask_rate")
        assert plan == plans[0]
    assert [recipes[arm]["objective"] for arm in ARMS] == [kind.objective for kind in ARMS.values()]


def test_left_to_right_is_trained_once_for_both_heads(found: Run) -> None:
    table = found.tables["pretraining"].set_index("arm")
    assert table.loc["ltr", "run"] == table.loc["ltr+lstm", "run"]
    kinds = [part.spec.experiment for part in parts_of(found)]
    assert kinds.count("train") == 2 and kinds.count("finetune") == 3 and len(kinds) == 5
    heads = found.tables["scores"].groupby("arm")["head"].unique()
    assert {arm: list(heads[arm]) for arm in ARMS} == {a: [k.head] for a, k in ARMS.items()}


@pytest.mark.slow  # by day, test_frozen_vs_finetuned has that of such parts
def test_nothing_is_computed_twice(found: Run) -> None:
    before = {run.name: now.ended for run, now in all_runs()}
    assert asked(arms=[*ARMS]).name == found.name
    more = asked(sizes=["tiny"], arms=["ltr", "mlm+nsp"])
    after = {run.name: now.ended for run, now in all_runs()}
    assert before.items() <= after.items()
    assert set(after) - set(before) == {more.name}, "its parts were all there"
    table = found.tables["table"].set_index("arm")["value"]
    own = more.tables["table"].set_index("arm")
    assert own.loc["mlm+nsp", "delta"] == pytest.approx(table["mlm+nsp"] - table["ltr"])


# --- studies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STUDIES)
def test_arms_of_a_study_can_be_trained_and_its_claims_compare_them(name: Any) -> None:
    study = STUDIES[name]
    kinds = [ALL_ARMS[arm] for arm in study.arms]
    for arm in study.arms:
        Training(**_train_settings(_source(Model(arm, "tiny"), 0), PRETRAINING.settings()))
    ways = [(kind.family, kind.objective, kind.head, *kind.settings.items()) for kind in kinds]
    assert len(set(ways)) == len(ways), "no two arms are the same"
    assert {arm for claim in study.claims for arm in claim} <= set(study.arms)
    assert PRETRAINING.settings(study=name).compared == study.arms


def test_an_unknown_arm_is_refused_with_the_nearest() -> None:
    with pytest.raises(WorkbenchError, match="Did you mean 'ltr'"):
        PRETRAINING.settings(arms=("ltl",))


def test_a_claim_is_the_mean_over_tasks_of_paired_differences() -> None:
    models = [Model("a", "tiny"), Model("b", "tiny"), Model("c", "tiny")]
    noise = np.random.default_rng(0).normal(0, 0.1, 1000)  # the same for all: it cancels

    def task(metric: str, *values: float) -> Estimate:
        return Estimate(metric, np.array(values), np.array(values)[:, None] + noise)

    tasks = [task("accuracy", 0.9, 0.5, 0.7), task("f1", 0.7, 0.7, 0.5), task("mse", 9, 0, 1)]
    first, second = _claims((("a", "b"), ("b", "c"), ("c", "d")), tasks, models)
    assert (first["arm"], first["against"], first["tasks"]) == ("a", "b", 2)
    assert first["delta"] == pytest.approx(0.2) and first["delta_lower"] == pytest.approx(0.2)
    assert second["delta"] == pytest.approx(0.0), "better on one task, worse on the other"


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_a_study_runs_from_one_command(
    name: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path))
    run = asked(study=name)
    if name == "objectives":
        trained = run.tables["pretraining"].set_index("arm")["run"]
        assert len({recipe(trained[arm])["tokenizer"] for arm in ("mlm", "mlm+nsp")}) == 1
    assert tuple(run.tables["table"]["arm"]) == STUDIES[name].arms
    assert len(run.tables["claims"]) == len(STUDIES[name].claims)
    assert any("the paper" in finding.claim for finding in run.findings)


# --- tables ---------------------------------------------------------------------------------------


def test_delta_is_the_difference_of_values(found: Run) -> None:
    table = found.tables["table"]
    assert list(table["arm"]) == list(ARMS)
    first = table["value"].iloc[0]
    assert np.isnan(table["delta"].iloc[0]) and np.isnan(table["p_value"].iloc[0])
    for row in table.iloc[1:].to_dict("records"):
        assert row["delta"] == pytest.approx(row["value"] - first)
        assert row["delta_lower"] <= row["delta"] <= row["delta_upper"]
        assert 0 < row["p_value"] <= 1
    assert ((table["lower"] <= table["value"]) & (table["value"] <= table["upper"])).all()
    facts = found.tables["pretraining"].set_index("arm")["parameters"]
    assert list(table["parameters"]) == list(facts)


def test_values_are_those_of_the_cells(found: Run) -> None:
    cells = found.tables["cells"].set_index("arm")["run"]
    for row in found.tables["table"].to_dict("records"):
        scores = open_run(cells[row["arm"]]).tables["scores"]
        own = scores[(scores["split"] == "test") & (scores["metric"] == row["metric"])]
        assert row["value"] == pytest.approx(own["value"].mean())


@pytest.mark.slow
def test_sizes_and_pretrainings_are_means_and_differences(found: Run) -> None:
    settings = {
        "arms": ["ltr"],
        "sizes": ["tiny", "mini"],
        "pretraining_seeds": [0, 1],
        "seeds": [0, 1],
    }
    settings |= {"tasks": ["pos"], "sequence_length": 24}
    here = replace(wb.read(CORPUS), origin=None)  # of no reference: all in this process
    run = wb.run("pretraining", corpus=here, device="cpu", **{**SMALL, **settings})
    scores = run.tables["scores"]
    own = scores[(scores["split"] == "test") & (scores["metric"] == "accuracy")]
    assert set(zip(own["pretraining"], own["seed"], strict=True)) == {
        (0, 0), (0, 1), (1, 0), (1, 1),
    }  # fmt: skip
    means = own.groupby("size")["value"].mean()
    table = run.tables["table"].set_index("size")
    assert list(table.index) == ["tiny", "mini"] and table["delta"].isna().all()
    for size in table.index:
        assert table.loc[size, "value"] == pytest.approx(means[size])
    (row,) = run.tables["sizes"].to_dict("records")
    assert (row["size"], row["against"]) == ("mini", "tiny")
    assert row["delta"] == pytest.approx(means["mini"] - means["tiny"])
    sizes = run.tables["pretraining"]
    assert len(sizes) == 4 and sizes["run"].nunique() == 4
    assert sizes.groupby("size")["parameters"].first()["mini"] > 400_000
    tables: dict[str, pd.DataFrame] = {name: run.tables[name] for name in run.tables}
    for name, draw in FIGURES.items():
        assert harmless(draw(tables))["layout"]["height"] > 100, name
    assert set(run.figures) == set(FIGURES)


def test_it_says_what_so_small_a_comparison_can_show(found: Run) -> None:
    told = " ".join(caveat.text for caveat in found.caveats)
    for said in ("4 steps", "One pretraining", "Different", "three seeds", "hardly better"):
        assert said in told, said
    assert "train-" not in told, "models go by their arms"
    assert set(found.figures) == {"scores"}


# --- what cannot be asked -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings", [{"arms": ["rtl"]}, {"sizes": ["huge"]}, {"pretraining_seeds": [-1]}]
)
def test_what_there_is_not_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(WorkbenchError, match=next(iter(settings))):
        checked_settings(PRETRAINING, settings)


def test_next_sentences_need_documents() -> None:
    apart = "primer/sentiment:size=60"
    assert has_documents(wb.read(CORPUS)) and not has_documents(wb.read(apart))
    bare = corpus_of("bare", train=[doc_of(["ada", "sings"]), doc_of(["bob", "sings"])])
    settings = checked_settings(PRETRAINING, {})
    without = checked_settings(PRETRAINING, {"arms": ["mlm", "ltr"]})
    assert PRETRAINING.fits
    with pytest.raises(WorkbenchError, match="documents"):
        PRETRAINING.fits(bare, settings)
    PRETRAINING.fits(bare, without)
    assert not fits(PRETRAINING, settings, [], [CORPUS, apart]), "it has tasks, behind a text"


def test_errors_come_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path))
    labels = "primer/sentiment:size=60"
    with pytest.raises(WorkbenchError, match="no task"):
        asked(tasks=["sentimant"])
    text = tmp_path / "text.txt"
    text.write_text("Ada sings. Bob reads.\n\nCat runs. Dan sits.\n")
    told = checked_settings(PRETRAINING, {})
    with pytest.raises(WorkbenchError, match="no labels"):
        PRETRAINING.run(Inputs(corpora=(wb.read(text),)), told, Told())
    with pytest.raises(WorkbenchError, match="documents"):
        PRETRAINING.run(Inputs(corpora=(wb.read(labels),)), told, Told())
    with pytest.raises(WorkbenchError, match="no model"):
        make_request("pretraining", ["mini:bert"], [CORPUS])
    assert "train" not in {run.spec.experiment for run, _ in all_runs()}


def test_it_is_among_the_experiments() -> None:
    assert experiments()["pretraining"] is PRETRAINING
