"""The page Probing without a browser: its form, every view of a run, and bad addresses."""

import re
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.analyses.probes.test_figures import EVIL, probed
from tests.app.pages import all_tabs, home  # noqa: F401
from tests.night import mostly
from tests.report.making import corpus, made, model
from workbench import Run, experiments
from workbench.analyses.probes.views.page import VIEWS
from workbench.core.machine import app_file
from workbench.runs.run import write_array

pytestmark = pytest.mark.usefixtures("home")

SEEN = {  # words that only this view has
    "Layers": "95 % bootstrap intervals over sentences and seeds",
    "Summary": "F1 (%) of the best layer, and of the baselines",
    "Pipeline": "in the order of the published pipeline",
    "Mix": "in the learned mix of all layers",
    "Confusion": "Confusion matrix",
    "Examples": "right at layer 3 and wrong at layer 2",
    "Controls": "Selectivity by layer",
}
SLOW = pytest.mark.slow
MAIN = "Layers"  # always in view


def opened(**address: str | list[str]) -> AppTest:
    app = AppTest.from_file(str(app_file()), default_timeout=120)
    for key, value in address.items():
        app.query_params[key] = value
    app.switch_page("pages/probing.py")
    app.run()
    assert not app.exception, app.exception
    return app


def said(app: AppTest) -> str:
    kinds = ("title", "header", "subheader", "markdown", "text", "caption", "error", "info", "code")
    words = "\n".join(str(element.value) for kind in kinds for element in app.get(kind))
    return re.sub(r"\\(.)", r"\1", words)


_probed = cache(probed)


def run_of(
    folder: Path, name: str = "mini:bert", shift: int = 0, preview: bool = False, **how: Any
) -> Run:
    """A run as edge probing leaves it, without arrays of figures."""
    kind = experiments()["edge-probing"]
    tables, counts, sentences = _probed(**how)
    run = made(
        folder / "runs",
        experiment="edge-probing",
        tables={key: (table, kind.tables[key]) for key, table in tables.items()},
        models=(model(name),),
        corpora=(corpus(),),
        settings={**kind.settings(preview=preview).model_dump(mode="json")},
    )
    write_array(run.path, "counts", counts)
    write_array(run.path, "sentences", sentences + shift)
    return run


def test_the_tasks_of_the_corpus_are_offered_and_reach_the_request() -> None:
    app = opened(new="1")
    assert "Ready to run" in said(app)
    tasks = app.multiselect(key="tasks of primer")
    assert tasks.options[:3] == ["pos", "constituents", "dependencies"]
    tasks.set_value(["pos", "roles"])
    app.number_input(key="set edge-probing max_sentences").set_value(30)
    app.run()
    assert not app.exception
    assert "--set=tasks=pos,roles" in said(app) and "--set=max_sentences=30" in said(app)
    app.radio(key="preset edge-probing ").set_value("Preview").run()
    assert not app.exception and "--set=preview=true" in said(app)
    assert "--set=tasks=pos,roles" in said(app)


def test_a_corpus_without_a_task_says_so_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "plain.conllu").write_text("1\tcats" + "\t_" * 8 + "\n\n")
    app = opened()
    app.session_state["corpus"] = str(tmp_path / "plain.conllu")
    app.run()
    assert not app.exception
    assert "layer-missing" in said(app)
    assert not [button for button in app.button if button.label == "Run"]


@pytest.mark.slow  # by day test_pages_running has it
def test_a_setting_that_is_wrong_is_explained() -> None:
    app = opened(new="1")
    app.text_input(key="set edge-probing seeds").set_value("one")
    app.run()
    assert not app.exception and "seeds.0 is 'one'" in said(app)
    assert all(button.disabled for button in app.button if button.label == "Run")


BOTH = ("encoder", "decoder")
BOXED = {"Examples"}  # it has the box of tasks of another tab


def test_every_view_is_drawn(tmp_path: Path, all_tabs: set[str]) -> None:  # noqa: F811
    all_tabs |= BOXED
    app = opened(run=run_of(tmp_path, stacks=BOTH, tasks=("pos", "dependencies")).name)
    assert list(SEEN) == list(VIEWS)
    assert [view for view, words in SEEN.items() if words not in said(app)] == [*BOXED]
    assert not app.error and "Preview: closed" not in said(app)
    assert EVIL not in "".join(str(element.proto.body) for element in app.get("html"))


@pytest.mark.parametrize(
    ("view", "stacks"), mostly(product(SEEN, (("encoder",), BOTH)), ("Examples", BOTH))
)
def test_every_view_of_a_run(tmp_path: Path, view: str, stacks: tuple[str, ...]) -> None:
    run = run_of(tmp_path, stacks=stacks, tasks=("pos", "dependencies"))
    app = opened(run=run.name, view=view)
    assert not app.error, app.error
    shown = said(app)
    open_tab = "Summary" if view == MAIN else view
    assert [other for other, words in SEEN.items() if words in shown] == [MAIN, open_tab]
    assert "Preview: closed" not in shown
    assert EVIL not in "".join(str(element.proto.body) for element in app.get("html"))


def test_a_preview_is_marked_as_one_in_every_view(
    tmp_path: Path,
    all_tabs: set[str],  # noqa: F811
) -> None:
    all_tabs |= BOXED
    run = run_of(tmp_path, preview=True, probe="ridge", modes=("layer",))
    app = opened(run=run.name)
    assert not app.error, app.error
    assert said(app).count("Preview: closed-form ridge probes") == 4 - len(BOXED)
    assert said(app).count("This run has no mix of layers") == 2


@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS)
def test_a_preview_is_marked_as_one_and_lacks_what_it_did_not_train(
    tmp_path: Path, view: str
) -> None:
    run = run_of(tmp_path, preview=True, probe="ridge", modes=("layer",))
    app = opened(run=run.name, view=view)
    assert not app.error, app.error
    assert "preview" in said(app)
    if view in ("Layers", "Confusion", "Examples", "Controls"):
        assert "Preview: closed-form ridge probes" in said(app)
    if view in ("Pipeline", "Mix"):
        assert "This run has no mix of layers" in said(app)


def test_choices_change_what_is_said(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    app = opened(run=run.name)
    app.button_group(key="mode").set_value("mix up to each layer").run()
    app.selectbox(key="published").set_value("bert-base").run()
    assert not app.exception and not app.error
    assert "F1 by layer (mix up to each layer)" in said(app)
    assert "BERT-base in Tenney, Das and Pavlick 2019" in said(app)
    assert "relative depth" in said(app)
    assert "count the control task as a baseline" in said(app)
    app = opened(run=run.name, view="Examples", task="dependencies", layer="2")
    assert "dependencies: 1 targets (first seed) that are right at layer 2" in said(app)


def test_two_runs_are_laid_together_and_their_difference_is_tested(tmp_path: Path) -> None:
    first = run_of(tmp_path)
    second = run_of(tmp_path, "mini:gpt", layers=2)
    app = opened(run=first.name, compare=second.name)
    assert not app.error
    assert "Comparison of best layers" in said(app) and "relative depth" in said(app)
    (table,) = (each.value for each in app.dataframe if "B − A" in each.value)
    assert list(table["task"]) == ["pos", "dependencies"] and {"B − A", "p"} <= set(table.columns)
    assert table["B − A"].iloc[1] == pytest.approx(0)


def test_why_two_runs_cannot_be_compared_is_said(tmp_path: Path) -> None:
    first = run_of(tmp_path)
    other = run_of(tmp_path, "mini:gpt", shift=1000)
    app = opened(run=first.name, compare=other.name)
    assert "did not score the same sentences" in said(app) and "0 are in both" in said(app)


def test_a_run_of_another_version_says_what_it_lacks(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    path = run.path / "tables" / "summary.parquet"
    table = run.tables["summary"].drop(columns="expected_layer")
    table.to_parquet(path, index=False)
    assert "no column 'expected_layer'" in said(opened(run=run.name))


@pytest.mark.slow  # by day test_pages_heads has it
def test_what_is_lost_of_a_run_spoils_one_view_only(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    (run.path / "tables" / "gains.parquet").unlink()
    (run.path / "arrays" / "counts.safetensors").unlink()
    assert "the table 'gains' of this run is missing" in said(opened(run=run.name, view="Examples"))
    assert not opened(run=run.name, view="Confusion").error
    other = run_of(tmp_path, "mini:gpt")
    assert "no array 'counts'" in said(opened(run=run.name, compare=other.name))


@pytest.mark.parametrize(
    ("address", "words"),
    [  # of runs that are not there: test_pages_running
        pytest.param({"run": "../../etc"}, "cannot be the name of a run", marks=SLOW),
        pytest.param({"run": "edge-probing-zzz"}, "There is no run", marks=SLOW),
        ({"run": "RUN", "compare": "../../etc"}, "cannot be the name of a run"),
        pytest.param({"run": "RUN", "compare": "edge-probing-zzz"}, "There is no run", marks=SLOW),
        ({"run": "RUN", "view": "Confusion", "task": EVIL, "layer": "99"}, "pos, layer 3"),
        (
            {"run": "RUN", "view": "zzz", "mode": "zzz", "shown": "zzz", "published": "zzz"},
            "F1 by layer (each layer)",
        ),
    ],
)
def test_a_bad_address_is_explained(tmp_path: Path, address: dict[str, str], words: str) -> None:
    run = run_of(tmp_path)
    app = opened(**{key: value.replace("RUN", run.name) for key, value in address.items()})
    assert words in said(app)
