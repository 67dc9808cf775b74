"""The four experiments from end to end: tables, errors, and the saved model."""

import subprocess
import sys
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from spacy.tokens import Doc

import workbench as wb
from tests.analyses.distillation.test_distil import classifier as odd_classifier
from tests.analyses.heads.conftest import Silent
from tests.judges.odd import odd_corpus, odd_model, run_here
from tests.minis import shared
from workbench import Result, Run, WorkbenchError, experiments
from workbench.analyses.pruning.experiments import HeadPruning
from workbench.analyses.transfer.experiments import Finetune
from workbench.cli.run import measured_lines
from workbench.corpora.encode import encode
from workbench.corpora.layers import vocabulary
from workbench.corpora.tasks import corpora_of, labelled_parts, task_of
from workbench.experiment import Inputs
from workbench.models.huggingface import HuggingFace
from workbench.runs.request import make_request

pytestmark = pytest.mark.usefixtures("warm_workers")

HEAD = {"stack", "kind", "layer", "head"}
COLUMNS = {
    ("head-importance", "importance"): {*HEAD, "importance", "importance_normalised", "n"},
    ("head-ablation", "ablation"): {
        *HEAD, "metric", "base", "ablated", "delta", "lower", "upper", "p_value", "mode", "matters",
    },
    ("head-pruning", "curve"): {
        "method", "seed", "rescored", "heads_removed", "fraction", "metric", "value", "parameters",
        "seconds", "memory",
    },
    ("head-pruning", "summary"): {"area", "p_value", "better"},
    ("head-pruning", "kept"): {"against", "delta", "lower", "upper", "p_value", "converged"},
    ("head-gates", "survival"): {"random", "p_random", "better", "lower", "upper", "converged"},
    ("head-gates", "gates"): {"lambda", "stack", "layer", "head", "p_open", "kept"},
}  # fmt: skip
QUICK: dict[str, dict[str, Any]] = {
    "head-importance": {},
    "head-ablation": {"replacement": "all", "pairs": "layer"},
    "head-pruning": {"steps": 2, "random_orders": 2, "selection_texts": 10, "recovery_steps": 3},
    "head-gates": {"lambdas": [0.05], "budgets": [0.5], "steps": 10, "train_weights": True},
}


@pytest.mark.parametrize("sizes", [{}, {"max_test": 20}, {"max_sentences": 30, "max_train": 60}])
def test_no_text_is_scored_that_the_model_was_fine_tuned_on(sizes: dict[str, int]) -> None:
    """A table without splits, some rows of it without a label, is cut as for `finetune`."""
    rows = {
        "text": [f"Ben walks {number} times." for number in range(400)],
        "label": [["yes", "no", ""][number % 3] for number in range(400)],
    }
    corpus = wb.read(pd.DataFrame(rows))
    task = task_of(*corpora_of(corpus, ())[0])
    model = SimpleNamespace(name="tuned", predicts=task)
    inputs: Any = SimpleNamespace(corpus=corpus, split=None, seed=3, model=model)
    learnt = labelled_parts(corpus, task, None, 3, Finetune().split_sizes)
    scored = HeadPruning(**sizes).parts(inputs, 10)
    assert len(learnt.train) > 150 and len(scored.test) > 15
    assert not {doc.text for doc in learnt.train} & {doc.text for doc in scored.test}
    assert any("with another seed" in note for note in scored.notes)


SLOW = partial(pytest.param, marks=pytest.mark.slow)


@pytest.fixture(scope="module", autouse=True)
def _runs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_RUNS", str(tmp_path_factory.mktemp("runs")))
        yield


def test_texts_of_train_that_are_scored_are_named_once() -> None:
    """The parts of a labelled corpus name them, and so did `head-pruning`."""
    docs = list(odd_corpus({"test": 40}, 0, longest=14).docs("test"))
    for number, doc in enumerate(docs):
        doc._.labels = {"right": ("yes", "no")[number % 2]}
    parts = {name: lambda: iter(docs) for name in ("train", "dev", "test")}
    settings = {**QUICK["head-pruning"], "recovery_steps": 0, "methods": ["magnitude", "random"]}
    found = run_here("head-pruning", odd_classifier(), wb.Corpus("odd", parts), **settings)
    texts = [each.text for each in found.caveats]
    assert sum("word for word" in text for text in texts) == 1


@cache
def _run(experiment: str, model: str) -> Result:
    """In this process, which is what a run does in one of its own; once."""
    few = {"max_sentences": 22 if model == "bert" else 30}  # so many beat the trivial baseline
    return _result(experiment, model, "primer:size=400", few | QUICK[experiment])


def _result(experiment: str, model: str, corpus: str, settings: dict[str, Any]) -> Result:
    kind = experiments()[experiment]
    chosen = kind.settings(**settings)
    inputs = Inputs(
        (shared(f"mini:{model}"),), (wb.read(corpus),), "test", limit=chosen.max_sentences
    )
    return kind.run(inputs, chosen, Silent())


@pytest.mark.parametrize(
    ("model", "experiment"),
    [
        *(("bert", experiment) for experiment in QUICK),
        *(SLOW(name, "head-importance") for name in ("gpt", "t5")),
        *(
            SLOW("gpt", experiment)
            for experiment in ("head-ablation", "head-pruning", "head-gates")
        ),
        *(SLOW("t5", experiment) for experiment in ("head-ablation", "head-pruning", "head-gates")),
    ],
)
def test_every_experiment_answers_of_every_kind_of_model(experiment: str, model: str) -> None:
    found = _run(experiment, model)
    kind = experiments()[experiment]
    assert set(found.tables) <= set(kind.tables)
    for name, table in found.tables.items():
        assert len(table) and not table.isna().any().any(), name
        numbers = table.select_dtypes(np.number)
        assert np.isfinite(numbers.to_numpy(dtype=float)).all(), name
    for (which, name), columns in COLUMNS.items():
        if which == experiment:
            assert columns <= set(found.tables[name].columns)
    for draw in kind.drawings().values():
        assert draw(found.tables).data
    assert found.tables["baseline"]["better"].all()  # trained models are
    assert not any("trivial baseline" in each.text for each in found.caveats)
    if "converged" in found.tables.get("survival", ()):
        assert not found.tables["survival"]["converged"].any()  # after 10 steps
        assert any("--steps" in each.text for each in found.caveats)


@pytest.mark.slow  # by day `test_no_head_of_a_random_model_matters_even_if_the_loss_changes`
def test_random_weights_are_not_better_than_their_baseline_and_no_head_matters() -> None:
    corpus = odd_corpus({"train": 20, "test": 40}, longest=20)
    model = odd_model(corpus)
    found = run_here("head-ablation", model, corpus)
    assert not found.tables["baseline"]["better"].any()
    assert (found.tables["ablation"]["p_value"] < 0.05).any()  # the loss does change
    assert not found.tables["ablation"]["matters"].any()
    (said,) = (each.text for each in found.caveats if "trivial baseline" in each.text)
    assert "loss" in said and "accuracy" in said


def test_a_head_matters_where_the_score_is_surely_worse_without_it() -> None:
    table = _run("head-ablation", "bert").tables["ablation"]
    worse = np.where(table["metric"] == "loss", table["delta"] > 0, table["delta"] < 0)
    assert (table["matters"] == (worse & (table["p_value"] < 0.05))).all()
    assert table["matters"].any() and not table["matters"].all()


def test_splits_have_sizes_of_their_own() -> None:
    """`max_sentences` is for each split, `max_train` for one."""
    settings = {"steps": 1, "batch_size": 100, "lambdas": [0.1], "budgets": []}
    model: Any = SimpleNamespace(predicts=None)
    inputs = Inputs((model,), (odd_corpus({"train": 150, "dev": 210, "test": 60}),), "test")
    kind = experiments()["head-gates"].settings
    for more, sizes in (
        ({}, (100, 200, 60)),
        ({"max_sentences": 30}, (30, 30, 30)),
        ({"max_sentences": 30, "max_train": 50, "max_test": 7}, (50, 30, 7)),
    ):
        parts = kind(**settings, **more).parts(inputs, 100)
        assert (len(parts.train), len(parts.dev), len(parts.test)) == sizes
    assert len(experiments()["head-pruning"].settings(max_dev=5).parts(inputs, 100, 5).dev) == 5


def test_heads_and_pairs_agree_with_one_another() -> None:
    tables = _run("head-ablation", "bert").tables
    zero = tables["ablation"].query("mode == 'zero' and metric == 'loss'")
    alone = zero.set_index(["layer", "head"])["delta"]
    pairs = tables["pairs"].query("mode == 'zero'")
    assert len(pairs) == 4 * 6
    for _, row in pairs.iterrows():
        one, other = alone[row["layer_a"], row["head_a"]], alone[row["layer_b"], row["head_b"]]
        assert row["alone_a"] == pytest.approx(one) and row["alone_b"] == pytest.approx(other)
        assert row["interaction"] == pytest.approx(row["delta"] - one - other)
    assert np.allclose(zero["ablated"] - zero["base"], zero["delta"])
    assert ((zero["lower"] <= zero["delta"]) & (zero["delta"] <= zero["upper"])).all()
    assert set(tables["agreement"]["mode"]) == {"zero", "mean", "resample"}
    assert tables["agreement"]["spearman"].abs().max() <= 1


@pytest.mark.slow
def test_a_classifier_that_is_not_better_than_its_majority_says_so() -> None:
    """Two steps are too few, and a caveat says that training did not converge."""
    settings = {"task": "sentiment", "max_fit_steps": 2, "max_sentences": 40, "recovery_steps": 0,
                "steps": 1, "prune_fraction": 0.1, "methods": ["importance", "random"],
                "prune_by": "magnitude"}  # fmt: skip
    found = _result("head-pruning", "bert", "primer/sentiment", settings)
    table = found.tables["classifier"].set_index(["share", "metric"])
    assert not table["converged"].any() and not table["better"].any()
    notes = " ".join(each.text for each in found.caveats)
    assert "trivial baseline" in notes and "fitting (2)" in notes
    assert not found.tables["summary"]["better"].any()


SENTIMENT = {"task": "sentiment", "max_fit_steps": 150, "learning_rate": 5e-4, "recovery_steps": 60,
             "steps": 2, "random_orders": 1, "selection_texts": 100, "prune_fraction": 0.3,
             "max_sentences": 300, "methods": ["importance"]}  # fmt: skip


@pytest.fixture(scope="module")
def classifier(_runs: None) -> Run:
    return wb.run("head-pruning", model="mini:bert", corpus="primer/sentiment", **SENTIMENT)


@pytest.mark.slow
def test_a_classifier_is_trained_pruned_recovered_saved_and_loaded_again(classifier: Run) -> None:
    """In another process it gives the very score that the table has, and it is smaller."""
    kept = classifier.tables["kept"].set_index(["stage", "metric"])
    whole, last = kept.loc[("whole", "accuracy")], kept.loc[("recovered", "accuracy")]
    assert whole["value"] > 0.9 and last["value"] > 0.9
    fitted = classifier.tables["classifier"].set_index(["share", "metric"])
    assert fitted["better"].all() and (fitted["best_step"] <= fitted["steps"]).all()
    assert fitted.loc[(1.0, "accuracy"), "value"] == pytest.approx(whole["value"])
    as_long = kept.loc[("whole, tuned", "accuracy")]  # what fine-tuning alone brings
    assert as_long["heads"] == 16 and as_long["value"] >= whole["value"]
    assert last["heads"] == 11 and last["size"] < 0.95 * whole["size"]
    script = f"""
import workbench as wb
from workbench.analyses.pruning.evaluation import build_head_evaluation, score_texts
model = wb.load({classifier.name!r})
docs = list(wb.read("primer/sentiment").docs("test", 300))
found = build_head_evaluation(model, docs, "sentiment", 0)
texts = score_texts(found.model, found.aim, found.questions)
print(texts.value("accuracy"), texts.value("loss"), model.parameters)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    accuracy, loss, parameters = map(float, done.stdout.split())
    assert accuracy == last["value"]
    assert loss == pytest.approx(kept.loc[("recovered", "loss"), "value"], abs=1e-6)
    assert parameters == last["parameters"] < whole["parameters"]


@pytest.mark.slow
def test_a_pruned_model_runs_in_other_experiments(classifier: Run) -> None:
    """The experiments heads and head-importance run on it."""
    model = wb.load(classifier.name)
    assert isinstance(model, HuggingFace) and model.classes == ("negative", "positive")
    left = sum(site.heads for site in model.sites)
    heads = wb.run(
        "heads", model=classifier.name, corpus="primer", max_sentences=30, n_shuffles=100
    )
    assert len(heads.tables["heads"]) == left
    found = wb.run(
        "head-importance", model=classifier.name, corpus="primer/sentiment", max_sentences=50
    )
    assert len(found.tables["importance"]) == left
    (numbered,) = (each.text for each in found.caveats if "new indices" in each.text)
    assert f"{16 - left} heads" in numbered


def test_a_model_without_any_head_recovers_as_far_as_it_can() -> None:
    kind = experiments()["head-pruning"]
    inputs = Inputs((shared("mini:bert"),), (wb.read("primer:size=200"),), "test", limit=8)
    settings = {"max_sentences": 8, "steps": 1, "random_orders": 1, "selection_texts": 8,
                "recovery_steps": 5, "prune_fraction": 1.0, "methods": ["random"]}  # fmt: skip
    found = kind.run(inputs, kind.settings(**settings), Silent()).tables["kept"]
    stages = found.query("metric == 'loss'").set_index("stage")
    assert stages.loc["recovered", "heads"] == 0
    assert stages.loc["recovered", "value"] < stages.loc["pruned", "value"]


@pytest.mark.parametrize(
    ("experiment", "model", "corpus", "settings", "message"),
    [
        ("head-importance", "mini:elmo", "primer", {}, "attention heads"),
        (
            "head-pruning",
            "mini:bert",
            "primer",
            {"max_sentences": 40, "prune_fraction": 2},
            "prune_fraction",
        ),
        ("head-pruning", "mini:bert", "primer", {"methods": ["luck"]}, "luck"),
        ("head-gates", "mini:bert", "primer", {"lambdas": [], "budgets": []}, "lambdas"),
        ("head-gates", "mini:bert", "primer", {"lambdas": [-1]}, "lambdas"),
        ("head-gates", "mini:bert", "primer", {"budgets": [0]}, "budgets"),
        ("head-ablation", "mini:bert", "primer", {"replacement": "nothing"}, "replacement"),
    ],
)
def test_a_request_that_cannot_run_is_an_error(
    experiment: str, model: str, corpus: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(WorkbenchError, match=message):
        wb.run(experiment, model=model, corpus=corpus, **settings)


@pytest.mark.parametrize(
    ("experiment", "model", "corpus", "settings", "message"),
    [
        ("head-pruning", "bert", "primer:size=200", {"task": "sentiment"}, "label-missing"),
        (
            "head-pruning",
            "t5",
            "primer/sentiment:size=200",
            {"task": "sentiment"},
            "model-unsupported",
        ),
        (
            "head-importance",
            "bert",
            "primer/sentiment:size=200",
            {"label": "sentiment"},
            "language-model loss",
        ),
    ],
)
def test_a_misfit_of_model_and_corpus_is_an_error(
    experiment: str, model: str, corpus: str, settings: dict[str, Any], message: str
) -> None:
    """Before any training; in this process, since starting a run takes seconds."""
    with pytest.raises(WorkbenchError, match=message):
        _result(experiment, model, corpus, {"max_sentences": 40, **settings})


@pytest.mark.slow
def test_a_corpus_with_classes_unknown_to_the_model_is_an_error(classifier: Run) -> None:
    with pytest.raises(WorkbenchError, match="tells negative, positive apart"):
        wb.run(
            "head-importance",
            model=classifier.name,
            corpus="primer/entailment",
            max_sentences=20,
        )
    with pytest.raises(WorkbenchError, match="too-few-sentences"):
        wb.run("head-gates", model="mini:bert", corpus=str(_one_text(classifier.path.parent)))


def _one_text(folder: Path) -> Path:
    path = folder / "one.txt"
    path.write_text("The dog sees the cat.\n", "utf-8")
    return path


def test_what_is_measured_is_known_before_a_run_starts() -> None:
    corpus, label = "primer/sentiment:size=80", "sentiment"
    request = make_request("head-importance", ["mini:bert"], [corpus], {"label": label})
    assert [error.code for error in request.unmet_requirements()] == ["model-unsupported"]
    request = make_request("head-pruning", ["mini:bert"], [corpus], {"task": label})
    (line,) = measured_lines(request)
    assert "Fits a classifier for sentiment" in line and not request.unmet_requirements()
    request = make_request("head-pruning", ["mini:bert"], [corpus], {"task": "sentimant"})
    (error,) = request.unmet_requirements()
    assert error.code == "label-missing" and "Did you mean 'sentiment'?" in error.remedy


@pytest.mark.parametrize("name", ["bert", "gpt", "t5"])
def test_words_beyond_the_maximum_length_are_counted(name: str) -> None:
    model = shared(f"mini:{name}")
    docs = [Doc(vocabulary("en"), words=["tall"] * n) for n in (5, 200)]
    corpus = wb.Corpus("long", {"test": lambda: iter(docs)})
    found = run_here("head-importance", model, corpus)
    (said,) = [each.text for each in found.caveats if "maximum length" in each.text]
    cut = model.encode(encode(docs)).cut
    assert said.startswith(f"{sum(last - first for _, first, last in cut)} words beyond")
