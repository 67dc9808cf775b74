"""The page Transfer without a browser: its analyses, every view of a run, bad addresses."""

import re
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

import workbench as wb
from tests.analyses.heads.conftest import Silent
from tests.analyses.transfer.test_figures import tables_of
from tests.app.pages import all_tabs, home, titles  # noqa: F401
from tests.night import mostly
from tests.report.making import corpus, made, model
from workbench import Run, experiments
from workbench.analyses.transfer.views import ANALYSES, VIEWS
from workbench.app.runs import run_form
from workbench.core.machine import app_file
from workbench.experiment import Inputs
from workbench.models.references import TRAINED
from workbench.report.prose import title_of
from workbench.runs.request import Request

pytestmark = pytest.mark.usefixtures("home")
QUICK = {
    "max_train": 16,
    "max_dev": 8,
    "max_test": 12,
    "seeds": [0, 1],
    "learning_rates": [1e-3],
    "max_epochs": 1,
}
METHODS = ("frozen", "fine-tuned")
SEEN = {
    ("frozen-vs-finetuned", "Gain"): "Gain over the frozen model",
    ("frozen-vs-finetuned", "Scores"): "Score on the scored texts",
    ("frozen-vs-finetuned", "Cost"): "peak memory, MiB",
    ("frozen-vs-finetuned", "Learning"): "Training loss of each step",
    ("finetune", "Scores"): "Score of each seed",
    ("finetune", "Predictions"): "gold predicted",
    ("finetune", "Try a text"): "probability",
    ("finetune", "Compare models"): "after: finetune-",
    ("drift", "By layer"): "Change of each layer by training",
    ("drift", "Probing"): "Probing was not compared",
    ("drift", "Attention"): "after: mini:gpt",
    ("similarity", "CKA"): "All matrices have one colour scale",
}


def quick(task: str) -> dict[str, Any]:
    """The settings of a fine-tuning; several seeds are looked at of one task."""
    return QUICK | ({} if task == "sentiment" else {"seeds": [0]})


BOXED = {"Learning"}  # it has the box of tasks of another tab


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The result of each experiment, computed once; that of frozen-vs-finetuned by hand."""
    found: dict[str, Any] = {}
    kind = experiments()["finetune"]
    for method in METHODS:
        for name in ("sentiment", "entailment"):
            keep = tmp_path_factory.mktemp("kept") / TRAINED
            texts = wb.read(f"primer/{name}")
            inputs = Inputs((wb.load("mini:bert"),), (texts,), "test", limit=12, keep=keep)
            settings = kind.settings(**quick(name), method=method)
            found[f"finetune {name} {method}"] = kind.run(inputs, settings, Silent()).tables, keep
    models = (wb.load("mini:bert"), wb.load(str(found["finetune sentiment fine-tuned"][1])))
    for name in ("drift", "similarity"):
        kind = experiments()[name]
        inputs = Inputs(models, (wb.read("primer"),), "test", limit=10)
        found[name] = kind.run(inputs, kind.settings(max_sentences=10), Silent()).tables, None
    found["pretraining"] = compared(), None
    return found


def compared() -> dict[str, pd.DataFrame]:
    """Two arms at two sizes on one task."""
    key = {"task": "sentiment", "metric": "accuracy"}
    won = {"delta": 0.1, "delta_lower": 0.0, "delta_upper": 0.2, "p_value": 0.04}
    rows = [
        {"arm": arm, "size": size, **key, "parameters": 10**place, "value": 0.5 + place / 10,
         "lower": 0.4, "upper": 0.9, **won}
        for place, (size, arm) in enumerate(product(("tiny", "mini"), ("mlm", "ltr")), start=1)
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    larger = table[table["size"] == "mini"].drop(columns=["lower", "upper", "parameters"])
    keys = dict.fromkeys(experiments()["pretraining"].tables["scores"].keys, "")
    baseline = pd.DataFrame([{**keys, **key, "baseline": 0.5}])
    return {"table": table, "sizes": larger.assign(against="tiny"), "scores": baseline}


def run_of(folder: Path, results: dict[str, Any], name: str, task: str = "sentiment") -> Run:
    """A run as the experiment leaves it; of finetune both."""
    if name == "finetune":
        _, last = (adapted(folder, results, task, method) for method in METHODS)
        return last
    kind = experiments()[name]
    if name == "frozen-vs-finetuned":
        tables = tables_of()
        runs = [adapted(folder, results, "sentiment", method).name for method in METHODS]
        cell = {"task": "sentiment", "model": "bert", "head": "plain"}
        cells = [{**cell, "method": m, "run": r} for m, r in zip(METHODS, runs, strict=True)]
        tables["cells"] = pd.DataFrame([*cells, {**cells[0], "task": "relatedness", "run": "gone"}])
    else:
        tables = results[name][0]
    return made(
        folder / "runs",
        experiment=name,
        tables={key: (table, kind.tables[key]) for key, table in tables.items()},
        models=(model("mini:bert", ref="mini:bert"), model("mini:gpt", ref="mini:gpt")),
        corpora=(corpus("primer:size=40"),),
        settings=kind.settings().model_dump(mode="json"),
    )


def adapted(folder: Path, results: dict[str, Any], task: str, method: str) -> Run:
    kind = experiments()["finetune"]
    tables, keep = results[f"finetune {task} {method}"]
    run = made(
        folder / "runs",
        experiment="finetune",
        tables={key: (table, kind.tables[key]) for key, table in tables.items()},
        models=(model("mini:bert", ref="mini:bert"),),
        corpora=(corpus(f"primer/{task}"),),
        settings=kind.settings(**quick(task), method=method).model_dump(mode="json"),
    )
    shutil.copytree(keep, run.path / TRAINED)
    return run


def opened(**query: str) -> AppTest:
    app = AppTest.from_file(str(app_file()), default_timeout=120)
    for key, value in query.items():
        app.query_params[key] = value
    app.switch_page("pages/transfer.py")
    return well(app.run())


def well(app: AppTest) -> AppTest:
    assert not app.exception, app.exception
    return app


def said(app: AppTest) -> str:
    kinds = ("title", "header", "subheader", "markdown", "text", "caption", "error", "info", "code")
    found = [str(element.value) for kind in kinds for element in app.get(kind)]
    found += [" ".join(map(str, frame.value.columns)) for frame in app.dataframe]
    return re.sub(r"\\(.)", r"\1", "\n".join(found)).replace("**", "")


def predictions(app: AppTest) -> list[Any]:
    """The tables of the predictions for a text."""
    return [frame for frame in app.dataframe if "probability" in frame.value]


def shown(app: AppTest) -> list[str]:
    """The titles of the results on the page."""
    return titles(app)


@pytest.mark.parametrize(
    ("analysis", "name"),
    mostly(ANALYSES.items(), ("Drift", "drift"), ("Similarity", "similarity")),
)
def test_every_analysis_has_its_form(analysis: str, name: str) -> None:
    app = opened(analysis=analysis, new="1")
    assert experiments()[name].about in said(app)
    if name == "drift":  # of two models
        assert "model-count" in said(app)
        further = app.multiselect(key=f"further {name} model")
        well(further.set_value(["mini:bert@random"]).run())
    if name == "similarity":  # of one or more
        assert "model-count" not in said(app)
        well(app.multiselect(key=f"further {name} model").set_value(["mini:gpt"]).run())
    assert f"workbench run {name}" in said(app)


@pytest.mark.slow  # by day test_pages_pruning has it
def test_choosing_another_analysis_closes_the_run(tmp_path: Path, results: dict[str, Any]) -> None:
    run = run_of(tmp_path, results, "similarity")
    app = opened(run=run.name)
    assert shown(app) == [title_of(run.spec)]
    well(app.button_group(key="analysis of transfer Similarity").set_value("Fine-tuning").run())
    assert shown(app) == ["Transfer"] and experiments()["finetune"].about in said(app)


def test_a_run_shows_its_settings(tmp_path: Path, results: dict[str, Any]) -> None:
    app = opened(run=run_of(tmp_path, results, "finetune").name)
    facts = " ".join(str(each.value) for each in app.get("html"))
    for name, value in (("max_train", "16"), ("seeds", "0,1")):
        assert f"<dt>{name}</dt><dd>{value}</dd>" in facts


def test_where_a_removed_run_can_be_restored_is_said(
    tmp_path: Path, results: dict[str, Any]
) -> None:
    app = opened(run=run_of(tmp_path, results, "similarity").name)
    app = well(next(each for each in app.button if each.label == "Remove").click().run())
    assert [each.value for each in app.toast if "Runs" in each.value]


def test_of_many_pairs_of_models_one_is_looked_at(tmp_path: Path, results: dict[str, Any]) -> None:
    run = run_of(tmp_path, results, "similarity")
    app = opened(run=run.name, view="CKA")
    every, *pairs = app.selectbox(key="pair").options
    assert every == "all pairs" and pairs[1].startswith("mini:bert × ")
    well(app.selectbox(key="pair").set_value(pairs[1]).run())
    assert opened(run=run.name, view="CKA", pair="nonsense").selectbox(key="pair").value == every


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_is_drawn(
    name: str,
    tmp_path: Path,
    results: dict[str, Any],
    all_tabs: set[str],  # noqa: F811
) -> None:
    all_tabs |= BOXED
    app = opened(run=run_of(tmp_path, results, name).name)
    assert not app.error, said(app)
    shown = {words for (of, view), words in SEEN.items() if of == name and view not in BOXED}
    assert not [words for words in shown if words not in said(app)]


@pytest.mark.parametrize(
    ("name", "view"),
    mostly(
        ((name, view) for name, views in VIEWS.items() for view in views),
        ("drift", "Attention"),
    ),
)
def test_every_view_of_a_run_is_shown(
    name: str, view: str, tmp_path: Path, results: dict[str, Any]
) -> None:
    run = run_of(tmp_path, results, name)
    app = opened(run=run.name, view=view)
    assert shown(app) == [title_of(run.spec)]
    assert SEEN.get((name, view), "") in said(app)
    assert not app.error, said(app)


def test_a_text_is_tried_on_both_at_once(tmp_path: Path, results: dict[str, Any]) -> None:
    run = run_of(tmp_path, results, "finetune")
    app = opened(run=run.name, view="Try a text")
    frozen, tuned = (results[f"finetune sentiment {method}"][0] for method in METHODS)
    assert app.selectbox(key="one").value == run.name != app.selectbox(key="other").value
    for tables, frame in zip((tuned, frozen), predictions(app), strict=True):
        thought = tables["predictions"].query("text == 0")
        assert app.text_area(key="text").value == thought["said"].iloc[0]
        assert frame.value["sentiment"][0] in set(thought["guess"]), "of the seed that was kept"
        assert frame.value["probability"].sum() == pytest.approx(1)
    before = predictions(app)[0].value["probability"].tolist()
    well(app.text_area(key="text").set_value("The hat is charming and lovely.").run())
    assert predictions(app)[0].value["probability"].tolist() != before
    well(app.text_area(key="text").set_value("  ").run())
    assert "text-empty" in said(app)


def test_two_texts_are_tried_where_the_task_has_pairs(
    tmp_path: Path, results: dict[str, Any]
) -> None:
    run = run_of(tmp_path, results, "finetune", "entailment")
    app = opened(run=run.name, view="Try a text")
    first = next(iter(wb.read("primer/entailment").docs("test", 1))).text
    assert " ".join(app.text_area(key=key).value for key in ("text", "text2")) == first
    labels = [area.label for area in app.text_area if area.label not in ("Note", "Notes")]
    assert labels == ["First text", "Second text"] and len(predictions(app)) == 2
    well(app.text_area(key="text2").set_value("").run())
    assert "text-empty" in said(app)


def test_only_what_is_wrong_is_shown(tmp_path: Path, results: dict[str, Any]) -> None:
    run = run_of(tmp_path, results, "finetune")
    app = opened(run=run.name, view="Predictions")
    everything = len(app.dataframe[0].value)
    well(app.toggle(key="wrong").set_value(True).run())
    table = app.dataframe[0].value
    assert len(table) < everything and (table["gold"] != table["predicted"]).all()


def test_curves_are_of_one_task_and_model(tmp_path: Path, results: dict[str, Any]) -> None:
    run = run_of(tmp_path, results, "frozen-vs-finetuned")
    app = opened(run=run.name, view="Learning", task="relatedness", adapted="gpt")
    assert app.selectbox(key="task").value == "relatedness"
    assert app.selectbox(key="adapted").value == "gpt"
    assert SEEN["frozen-vs-finetuned", "Learning"] in said(app) and not app.error


def test_a_run_without_models_offers_to_train_and_save_its_best(
    tmp_path: Path, results: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Request] = []

    def begin(arguments: run_form.RequestArguments) -> str:
        begun.append(run_form._request(arguments))
        return begun[-1].spec.name

    monkeypatch.setattr(run_form, "begin", begin)
    run = run_of(tmp_path, results, "frozen-vs-finetuned")
    app = opened(run=run.name, view="Try a text", task="relatedness")
    assert "saved no model to try" in said(app)
    well(app.button(key="train and save").click().run())
    settings = begun[0].spec.settings
    assert begun[0].spec.experiment == "finetune" and settings["save_model"]
    assert (settings["task"], settings["method"]) == ("relatedness", "fine-tuned")
    assert settings["learning_rates"] == run.settings["learning_rates"]


def test_a_fine_tuning_whose_model_is_gone_says_so(tmp_path: Path, results: dict[str, Any]) -> None:
    alone = adapted(tmp_path, results, "entailment", "frozen")
    shutil.rmtree(alone.path / TRAINED)
    for view in ("Try a text", "Compare models"):
        assert "was removed" in said(opened(run=alone.name, view=view))


@pytest.mark.parametrize(
    "query",
    [
        {"analysis": "Zero"},
        {"run": "nonsense"},
        {"run": "../../etc/passwd"},
        {"analysis": "<script>alert(1)</script>"},
    ],
)
def test_a_bad_address_is_explained_and_breaks_nothing(query: dict[str, str]) -> None:
    assert shown(opened(**query)) == ["Frozen and fine-tuned mini:bert on primer"]


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("finetune", {"view": "Try a text", "one": "nonsense", "other": "<b>"}),
        pytest.param("finetune", {"view": "Nothing"}, marks=pytest.mark.slow),
        ("frozen-vs-finetuned", {"view": "Learning", "task": "nothing", "adapted": "<b>"}),
        pytest.param(
            "frozen-vs-finetuned", {"view": "Try a text", "task": "nothing"}, marks=pytest.mark.slow
        ),
    ],
)
def test_a_bad_choice_of_a_run_breaks_nothing(
    name: str, query: dict[str, str], tmp_path: Path, results: dict[str, Any]
) -> None:
    run = run_of(tmp_path, results, name)
    assert shown(opened(run=run.name, **query)) == [title_of(run.spec)]
