"""What goes on from a saved model, and the choice of an objective, without a browser."""

import io
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

import workbench as wb
from tests.analyses.heads.conftest import Silent
from tests.app.pages import home, opened, said, well  # noqa: F401
from tests.night import mostly
from tests.report.making import corpus, made, model
from workbench import Run, experiments
from workbench.app.runs.next_steps import PACKED
from workbench.experiment import Inputs
from workbench.models.references import TRAINED
from workbench.runs import api, spec, status
from workbench.runs.request import Request

pytestmark = pytest.mark.usefixtures("home")
TEXTS = "primer/sentiment:size=60"
QUICK = {"max_train": 10, "max_dev": 6, "max_test": 6, "seeds": [0], "max_epochs": 1,
         "learning_rates": [1e-3]}  # fmt: skip
STEPS = ("Which heads does it need?", "Prune its heads", "Export model")


@pytest.fixture(scope="module")
def fine_tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """The tables of a fine-tuning and the model that it left."""
    kind, keep = experiments()["finetune"], tmp_path_factory.mktemp("kept") / TRAINED
    inputs = Inputs((wb.load("mini:bert"),), (wb.read(TEXTS),), "test", keep=keep)
    return kind.run(inputs, kind.settings(**QUICK), Silent()).tables, keep


@pytest.fixture
def run(fine_tuned: tuple[Any, Path], tmp_path: Path) -> Run:
    """The run of the fine-tuning, as it is left."""
    kind, (tables, keep) = experiments()["finetune"], fine_tuned
    found = made(
        tmp_path / "runs",
        experiment="finetune",
        tables={name: (table, kind.tables[name]) for name, table in tables.items()},
        models=(model("mini:bert", ref="mini:bert"),),
        corpora=(corpus(TEXTS),),
        settings=kind.settings(**QUICK).model_dump(mode="json"),
    )
    shutil.copytree(keep, found.path / TRAINED)
    return found


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Request]:
    """The requests that were started; none is computed."""
    requests: list[Request] = []

    def begin(request: Request) -> Run:
        folder = tmp_path / "runs" / request.spec.name
        folder.mkdir()
        spec.write(folder, request.spec)
        status.write(folder, status.Status("cancelled", experiment=request.spec.experiment))
        requests.append(request)
        return Run(folder)

    monkeypatch.setattr(api, "begun", begin)
    return requests


def press(app: AppTest, label: str) -> AppTest:
    return well(next(button for button in app.button if button.label == label).click().run())


def labels(app: AppTest) -> list[str]:
    return [button.label for button in app.button]


def test_a_saved_model_has_ways_on(run: Run) -> None:
    assert [label for label in labels(opened("transfer", run=run.name)) if label in STEPS] == [
        *STEPS
    ]
    shutil.rmtree(run.path / TRAINED)
    assert not set(STEPS) & set(labels(opened("transfer", run=run.name)))


@pytest.mark.parametrize(
    ("label", "experiment"),
    mostly(
        [(STEPS[0], "head-importance"), (STEPS[1], "head-pruning")], (STEPS[0], "head-importance")
    ),
)
def test_a_further_run_has_its_model_and_its_corpus(
    run: Run, begun: list[Request], label: str, experiment: str
) -> None:
    app = press(opened("transfer", run=run.name), label)
    (request,) = begun
    assert request.spec.experiment == experiment
    assert [each.name for each in request.spec.models] == [run.name]
    assert [each.ref for each in request.spec.corpora] == [TEXTS]
    assert [each.objective for each in request.spec.models] == [""]  # what it was made for
    assert f"{request.spec.name}" in said(app), "it is shown on its page"
    (chosen,) = [box.value for box in app.selectbox if box.label == "Model"]
    assert chosen == run.name, "the top bar does not contradict it"


def test_a_table_is_read_by_the_columns_that_the_run_named(
    run: Run, begun: list[Request], tmp_path: Path
) -> None:
    path, reading = tmp_path / "reviews.csv", {"text": ["comment"], "labels": ["sentiment"]}
    rows = (f"{n},The hat {n} is nice.,{('negative', 'positive')[n % 2]}" for n in range(30))
    path.write_text("\n".join(("number,comment,sentiment", *rows)))
    read = corpus("reviews", ref=str(path), options=reading)
    spec.write(run.path, run.spec.model_copy(update={"corpora": (read,)}))
    app = opened("transfer", run=run.name, view="Try a text")
    assert app.text_area(key="text").value == "The hat 0 is nice."
    press(app, "Prune its heads")
    assert begun[0].spec.corpora[0].options["text"] == ("comment",)


def test_the_exported_model_opens(run: Run, tmp_path: Path) -> None:
    app = press(opened("transfer", run=run.name), "Export model")
    name, sentence, content = app.session_state[PACKED]
    assert name == run.name and re.sub(r"\s+", " ", sentence)[:20] in said(app)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(tmp_path / "out")
    again = wb.load(str(tmp_path / "out" / run.name), device="cpu")
    task = wb.load(run.name, device="cpu").predicts
    assert task is not None and again.predicts == task


def test_the_task_is_measured_unless_another_objective_is_chosen(
    run: Run, begun: list[Request]
) -> None:
    query = {"analysis": "Importance", "model": run.name, "corpus": TEXTS, "new": "1"}
    app = opened("pruning", **query)
    box = app.button_group(key=f"objective head-importance {run.name}")
    assert box.options == ["sentiment", "language-model"] and box.value == "sentiment"
    assert "Measured on sentiment (the class of a text: " in said(app)
    app = well(box.set_value("language-model").run())
    assert "Measured on masked pieces (language model)" in said(app)
    assert "--objective" in said(app), "the command says it too"
    press(app, "Run")
    (request,) = begun
    assert [each.objective for each in request.spec.models] == ["language-model"]


def test_one_objective_is_said_and_not_asked() -> None:
    app = opened("pruning", model="mini:gpt", new="1")
    assert not [box for box in app.button_group if box.label == "Objective"]
    assert "Measured on next pieces (language model)" in said(app)
