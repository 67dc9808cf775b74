"""The page Pruning without a browser: its four analyses, every view of a run, bad addresses."""

import io
import re
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

import workbench as wb
from tests.analyses.heads.conftest import Silent
from tests.app import pages
from tests.app.pages import all_tabs, home, titles  # noqa: F401
from tests.findings import OBJECTIVE
from tests.night import mostly
from tests.report.making import corpus, made, model
from workbench import Run, experiments
from workbench.analyses.pruning.views import ANALYSES, PACKED, VIEWS, removed_heads
from workbench.core.machine import app_file
from workbench.experiment import Inputs
from workbench.models.references import TRAINED
from workbench.report.prose import title_of

pytestmark = pytest.mark.usefixtures("home")
QUICK: dict[str, dict[str, Any]] = {
    "head-importance": {},
    "head-ablation": {"replacement": "all", "pairs": "layer"},
    "head-pruning": {"steps": 2, "random_orders": 1, "selection_texts": 3, "recovery_steps": 2},
    "head-gates": {"lambdas": [0.05], "budgets": [0.5], "steps": 4},
}
SEEN = {
    "Importance": "mean absolute gradient of the loss",
    "Importance and ablation": "Rank correlation over 16 heads",
    "Pairs": "largest interaction",
    "Curves": "panel per order of removal",
    "Live": "Removed heads",
    "Pruned model": "Heads of the saved model",
    "Gates": "gate of each head",
    "Roles": "There is no run of heads",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The result of each experiment, computed once for all tests."""
    found = {}
    for name, settings in QUICK.items():
        kind = experiments()[name]
        keep = tmp_path_factory.mktemp(name) / TRAINED
        inputs = Inputs((wb.load("mini:gpt"),), (wb.read("primer"),), "test", limit=6, keep=keep)
        found[name] = (
            kind.run(inputs, kind.settings(**{"max_sentences": 6, **settings}), Silent()),
            keep,
        )
    return found


def run_of(folder: Path, results: dict[str, Any], name: str) -> Run:
    """A run as the experiment leaves it."""
    import shutil

    kind, (result, keep) = experiments()[name], results[name]
    run = made(
        folder / "runs",
        experiment=name,
        tables={
            key: (table, kind.tables[key])
            for key, table in {**result.tables, "objective": OBJECTIVE}.items()
        },
        models=(model("mini:gpt", ref="mini:gpt"),),
        corpora=(corpus(),),
        settings=kind.settings(**QUICK[name]).model_dump(mode="json"),
    )
    if keep.is_dir():
        shutil.copytree(keep, run.path / TRAINED)
    return run


def opened(**query: str) -> AppTest:
    app = AppTest.from_file(str(app_file()), default_timeout=120)
    for key, value in query.items():
        app.query_params[key] = value
    app.switch_page("pages/pruning.py")
    app.run()
    assert not app.exception, app.exception
    return app


def said(app: AppTest) -> str:
    kinds = ("title", "header", "subheader", "markdown", "text", "caption", "error", "info", "code")
    found = [str(element.value) for kind in kinds for element in app.get(kind)]
    found += [str(element.label) for kind in ("slider", "metric") for element in app.get(kind)]
    return re.sub(r"\\(.)", r"\1", "\n".join(found))


def shown(app: AppTest) -> list[str]:
    """The titles of the results on the page."""
    return titles(app)


@pytest.mark.parametrize(("analysis", "name"), mostly(ANALYSES.items(), ("Gates", "head-gates")))
def test_every_analysis_has_its_form(analysis: str, name: str) -> None:
    app = opened(analysis=analysis, new="1")
    assert experiments()[name].about in said(app) and "Ready to run" in said(app)
    assert f"workbench run {name}" in said(app)


def test_choosing_another_analysis_closes_the_run(tmp_path: Path, results: dict[str, Any]) -> None:
    run = run_of(tmp_path, results, "head-gates")
    app = opened(run=run.name)
    assert shown(app) == [title_of(run.spec)]
    app.button_group(key="analysis of pruning Gates").set_value("Curves").run()
    assert not app.exception
    assert "run" not in app.query_params
    assert shown(app) == ["Pruning the attention heads of mini:bert on primer"]
    assert "is not a run of yours" in said(app)


@pytest.mark.usefixtures("all_tabs")
@pytest.mark.parametrize("name", VIEWS)
def test_every_view_is_drawn(name: str, tmp_path: Path, results: dict[str, Any]) -> None:
    app = opened(run=run_of(tmp_path, results, name).name)
    assert not app.error, said(app)
    assert not [view for view in VIEWS[name] if SEEN.get(view, "") not in said(app)]


@pytest.mark.parametrize(
    ("name", "view"),
    mostly(
        ((name, view) for name, views in VIEWS.items() for view in views), ("head-gates", "Roles")
    ),
)
def test_every_view_of_a_run_is_shown(
    name: str, view: str, tmp_path: Path, results: dict[str, Any]
) -> None:
    run = run_of(tmp_path, results, name)
    app = opened(run=run.name, view=view)
    assert shown(app) == [title_of(run.spec)]
    assert SEEN.get(view, "") in said(app)
    assert not app.error, said(app)


def test_the_slider_takes_heads_out(tmp_path: Path, results: dict[str, Any]) -> None:
    run = run_of(tmp_path, results, "head-pruning")
    app = opened(run=run.name, view="Live", gone="16")
    assert "Generated, pruned" in said(app)
    parameters = next(m for m in app.metric if m.label == "Parameters")
    assert parameters.delta.startswith("-")
    app.slider(key="gone").set_value(0).run()
    assert not app.exception
    assert next(m for m in app.metric if m.label == "Parameters").delta == ""


def test_the_slider_and_the_finding_take_the_same_heads_in_the_same_order(
    tmp_path: Path, results: dict[str, Any]
) -> None:
    run = run_of(tmp_path, results, "head-pruning")
    app = opened(run=run.name, view="Live", gone="3")
    first = app.selectbox(key="order").options[0]
    found = experiments()["head-pruning"].findings_of(run.tables)[0]
    assert f"by {first}" in found.claim, "the order of the finding comes first"
    assert app.slider(key="gone").label == "Removed heads, of 16"
    assert f"in the order “{first}”" in said(app) and "held-out texts" in said(app)
    assert found.n == "16 heads" and float(found.value or 0).is_integer()


def test_heads_that_only_go_together_go_whole() -> None:
    """Grouped queries: two heads share a place, and an odd number removes one less."""
    order = pd.DataFrame({"place": [1, 1, 0, 0], "head": [0, 1, 2, 3]})
    assert removed_heads(order, 1)["head"].tolist() == []
    assert removed_heads(order, 3)["head"].tolist() == [2, 3]
    assert len(removed_heads(order, 4)) == 4


def test_the_model_that_was_kept_is_packed_and_opens(
    tmp_path: Path, results: dict[str, Any]
) -> None:
    run = run_of(tmp_path, results, "head-pruning")
    app = opened(run=run.name, view="Pruned model")
    app.button(key=f"pack {run.name}").click().run()
    assert not app.exception
    content = app.session_state[PACKED][1]
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(tmp_path / "out")
    again = wb.load(str(tmp_path / "out"))
    assert again.parameters == wb.load(str(run.path / TRAINED)).parameters


def test_a_pruned_model_has_at_most_so_many_heads_in_a_layer(
    tmp_path: Path, results: dict[str, Any]
) -> None:
    run = run_of(tmp_path, results, "head-pruning")
    app = pages.opened("models", model=run.name)
    (stacks,) = [each.value for each in app.table if "heads per layer" in each.value]
    assert list(stacks["heads per layer"]) == ["at most 4"]
    assert "Added modules" not in app.table[0].value.index


@pytest.mark.parametrize(
    "query",
    mostly(
        (
            {"analysis": "Zero"},
            {"run": "nonsense"},
            {"run": "../../etc/passwd"},
            {"analysis": "<script>alert(1)</script>"},
        ),
        {"run": "../../etc/passwd"},
        {"analysis": "<script>alert(1)</script>"},
    ),
)
def test_a_bad_address_is_explained_and_breaks_nothing(query: dict[str, str]) -> None:
    assert shown(opened(**query)) == ["Importance of the attention heads of mini:bert on primer"]


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("head-pruning", {"view": "Live", "gone": "99", "order": "<b>"}),
        pytest.param("head-pruning", {"view": "Live", "gone": "-1"}, marks=pytest.mark.slow),
        pytest.param("head-pruning", {"view": "Live", "sentence": "9" * 6}, marks=pytest.mark.slow),
        ("head-ablation", {"mode": "nothing"}),
        ("head-gates", {"view": "Roles", "roles": "nonsense"}),
        ("head-importance", {"view": "Nothing"}),
    ],
)
def test_a_bad_choice_of_a_run_breaks_nothing(
    name: str, query: dict[str, str], tmp_path: Path, results: dict[str, Any]
) -> None:
    run = run_of(tmp_path, results, name)
    assert shown(opened(run=run.name, **query)) == [title_of(run.spec)]
