"""`train` as a run: its settings, the text it reads, and its name as a model's."""

import time
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest
from safetensors.torch import load_file

import workbench as wb
from tests.analyses.training.lessons import Told, lesson
from workbench import Result, Run, WorkbenchError, experiments, open_run, read
from workbench.analyses.training.experiments import EXPERIMENT, FamilyName, recipe_of
from workbench.analyses.training.families import FAMILIES
from workbench.analyses.training.training_run import run, text_of
from workbench.core import machine
from workbench.experiment import Inputs
from workbench.experiment.definition import unmet_requirements
from workbench.models.references import facts, folder_of, located, trained_by
from workbench.runs.launch import cancel
from workbench.runs.request import checked_settings, make_request
from workbench.runs.run import is_whole

pytestmark = pytest.mark.usefixtures("warm_workers")

SMALL: dict[str, Any] = {
    "size": "tiny",
    "sequence_length": 32,
    "vocabulary_size": 360,
    "batch_size": 16,
}
ALLOWED = "the text allows only 152 pieces instead of 360: no two are left to merge."


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A home, a folder of runs, and a text."""
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_HOME", str(folder / "home"))
        patch.setenv("WORKBENCH_RUNS", str(folder / "runs"))
        (folder / "text.txt").write_text("\n".join(lesson()) + "\n")
        yield folder


@pytest.fixture(scope="module")
def bert(place: Path) -> Run:
    return wb.run(
        "train",
        corpus=place / "text.txt",
        device="cpu",
        family="bert",
        steps=20,
        objective="masked",
        **SMALL,
    )


def here(folder: Path, text: Path, model: str = "", **given: Any) -> tuple[Result, Told]:
    """A training in this process, as a run does it in its own; what it told."""
    told = Told()
    inputs = Inputs(
        models=(wb.load(model, device="cpu"),) if model else (),
        corpora=(read(text),),
        device="cpu",
        keep=folder / "model",
        scratch=folder / "checkpoint",
        folders=(folder_of(model),) if model else (),
    )
    return run(inputs, settings(**SMALL | given), told), told


def settings(**given: Any) -> Any:
    return checked_settings(EXPERIMENT, given)


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("1.5h", 5400), ("2d", 172_800)],
)
def test_a_budget_is_a_time(text: str, seconds: float) -> None:
    assert settings(time_budget=text).time_budget == seconds
    plan = recipe_of(settings(time_budget=text), 3).plan
    assert (plan.seconds, plan.steps, plan.seed) == (seconds, None, 3)


@pytest.mark.parametrize("text", ["soon", "5 minutes", "m", "-3", "0", "5x", "", "nan", "1e400"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(WorkbenchError, match="budget") as caught:
        if settings(time_budget=text).time_budget is None:  # an empty setting is the default
            raise WorkbenchError("budget is empty", remedy="Training time")
    assert "Training time" in caught.value.remedy


def test_a_training_ends_by_time_or_by_steps() -> None:
    assert recipe_of(settings(), 0).plan.seconds == 300
    assert recipe_of(settings(steps=7), 0).plan.steps == 7
    with pytest.raises(WorkbenchError, match="both set"):
        settings(steps=7, time_budget="5m")


def test_every_setting_of_the_library_can_be_set() -> None:
    from workbench.analyses.training.config import Settings
    from workbench.analyses.training.task import Plan

    fixed = {"plan", "betas", "epsilon", "evaluations", "points", "checkpoint_steps"}
    others = {"seconds", "checkpoint_seconds", "seed"}  # of time_budget, checkpoint_interval, run
    library = {*Settings.__dataclass_fields__, *Plan.__dataclass_fields__}
    assert library - fixed - others <= EXPERIMENT.settings.model_fields.keys()


def test_every_family_can_be_named() -> None:
    assert get_args(FamilyName) == tuple(FAMILIES)


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_no_setting_is_endless(value: float) -> None:
    with pytest.raises(WorkbenchError, match="finite"):
        settings(time_budget=value)


# --- text -----------------------------------------------------------------------------------------


def test_a_plain_file_is_read_as_it_is(place: Path) -> None:
    corpus = read(place / "text.txt")
    assert text_of(Inputs(corpora=(corpus,))) == place / "text.txt"
    some = text_of(Inputs(corpora=(corpus,), limit=3))
    assert isinstance(some, list)
    assert len([line for line in some if line]) == 3


def test_sentences_of_a_line_are_trained_on_one_by_one(tmp_path: Path) -> None:
    """With rows of sentences; packed rows read the file as it is."""
    (file := tmp_path / "novel.txt").write_text("Ann saw a dog. It ran.\n\nBen sings.\n")
    inputs = Inputs(corpora=(read(file),))
    assert text_of(inputs) == file
    assert text_of(inputs, by_sentence=True) == ["Ann saw a dog.", "It ran.", "", "Ben sings."]


def test_documents_end_with_a_blank_line() -> None:
    corpus = read("primer:size=40")
    lines = text_of(Inputs(corpora=(corpus,), split="train"))
    docs = list(corpus.docs("train"))
    assert [line for line in lines if line] == [doc.text for doc in docs]
    changes = sum(a._.document != b._.document for a, b in pairwise(docs))
    assert list(lines).count("") == changes > 0


def test_the_training_split_is_trained_on() -> None:
    assert make_request("train", [], ["primer:size=40"], device="cpu").spec.split == "train"


# --- a run is a model -----------------------------------------------------------------------------


def test_a_run_leaves_curves_facts_and_a_model(bert: Run) -> None:
    curves = bert.tables["curves"]
    assert curves["step"].iloc[-1] == 20
    assert curves["loss"].iloc[-1] < curves["loss"].iloc[0] - 0.1
    facts = bert.tables["facts"].set_index("fact")["value"]
    assert facts["family"] == "bert"
    assert set(bert.figures) == {"loss", "pace"}
    assert bert.warnings == [ALLOWED]
    assert (bert.path / "model" / "config.json").is_file()
    waited = time.monotonic() + 30  # it is cleared away after the run is told to be done
    while (bert.path / "checkpoint").exists():
        assert time.monotonic() < waited
        time.sleep(0.05)


def test_its_name_and_how_it_begins_are_references(bert: Run) -> None:
    model = wb.load(bert.name, device="cpu")
    assert model.name == bert.name
    for ref in (bert.name, bert.name[:12], str(bert.path / "model")):
        assert wb.load(ref, device="cpu").content_hash == model.content_hash
        (asked,) = make_request("profile", [ref], device="cpu").spec.models
        assert (asked.name, asked.hash) == (bert.name, model.content_hash)
    assert trained_by(bert.path / "model") == bert.name
    assert folder_of(bert.name) == bert.path / "model"
    fresh = make_request("profile", [f"{bert.name}@random"], device="cpu").spec.models[0]
    assert fresh.name == f"{bert.name}@random"
    assert fresh.hash != model.content_hash


def test_a_run_of_another_name_trained_nothing(place: Path) -> None:
    with pytest.raises(WorkbenchError, match="model-not-found"):
        located("train-00ff")
    (machine.runs() / "heads-00ff00ff").mkdir(parents=True)
    with pytest.raises(WorkbenchError, match="heads-00ff00ff has no model"):
        located("heads-00ff00ff")
    with pytest.raises(WorkbenchError, match="an experiment, not of a run"):
        located("head-pruning")
    assert located("bert-base-uncased") == "bert-base-uncased"


@pytest.mark.slow  # by day, the test before, and the profiles of test_families
def test_a_profile_of_it_is_answered_by_another_process(bert: Run, place: Path) -> None:
    found = wb.run(
        "profile", model=bert.name, corpus=place / "text.txt", device="cpu", max_sentences=50
    )
    losses = found.tables["losses"].set_index("metric")["value"]
    assert losses["masked_perplexity"] < 200


def test_a_run_without_its_model_is_asked_anew(bert: Run) -> None:
    model = bert.path / "model"
    aside = model.rename(bert.path / "aside")
    assert not is_whole(bert.path)
    aside.rename(model)
    assert is_whole(bert.path)
    weights = model / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-10])
    assert not is_whole(bert.path)
    weights.write_bytes(whole)
    assert is_whole(bert.path)


def test_a_model_is_gone_on_with_and_taught(bert: Run, place: Path, tmp_path: Path) -> None:
    text = place / "text.txt"
    on, _ = here(tmp_path / "on", text, bert.name, family="bert", steps=5)
    before, after = bert.tables["curves"], on.tables["curves"]
    assert after["loss"].iloc[0] < before["loss"].iloc[0] - 0.1
    here(tmp_path / "taught", text, bert.name, family="distilbert", steps=2)
    assert wb.load(tmp_path / "taught" / "model", device="cpu").family == "distilbert"


@pytest.mark.parametrize(("family", "remedy"), [("gpt", "family"), ("distilbert", "teacher")])
def test_another_familys_model_is_refused_before_a_run(bert: Run, family: str, remedy: str) -> None:
    model = {**facts(wb.load(bert.name, device="cpu")), "objectives": []}
    errors = unmet_requirements(EXPERIMENT, settings(family=family, steps=1), [model])
    assert [error.code for error in errors] == ["model-unsupported"]
    assert remedy in str(errors[0])


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("", {}, "empty-text"),
        ("\n\n \n", {}, "empty-text"),
        ("word", {}, "fewer than one sequence|too few|alphabet"),
        (None, {"n_heads": 5}, "multiple of 5 heads"),
        (None, {"sequence_length": 30_000}, "fewer than one sequence"),
        (None, {"objective": "guessing"}, "cannot be trained with"),
        (None, {"family": "distilbert"}, "teacher"),
        (
            None,
            {"learning_rate": 1e6, "max_gradient_norm": 0, "warmup_fraction": 0, "steps": 200},
            "training-diverged",
        ),
    ],
)
def test_what_cannot_be_trained_says_why(
    text: str | None, more: dict[str, Any], message: str, place: Path, tmp_path: Path
) -> None:
    path = place / "text.txt"
    if text is not None:
        path = tmp_path / "text.txt"
        path.write_text(text)
    with pytest.raises(WorkbenchError, match=message) as caught:
        here(tmp_path, path, **{"family": "gpt", "steps": 2, **more})
    assert caught.value.remedy
    assert not (tmp_path / "model" / "training.json").exists()


def test_a_vocabulary_larger_than_the_text_allows_is_a_warning(place: Path, tmp_path: Path) -> None:
    _, told = here(tmp_path, place / "text.txt", family="gpt", steps=1, vocabulary_size=5_000)
    assert any("instead of 5,000" in warning for warning in told.warnings)


@pytest.mark.slow
def test_a_cancelled_training_goes_on_and_ends_as_one_left_alone(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workbench.runs.api import answered, begun
    from workbench.runs.launch import follow

    given = {"family": "gpt", "steps": 400, **SMALL, "checkpoint_interval": 0.2}

    def question() -> Any:
        return make_request("train", [], [place / "text.txt"], given, device="cpu")

    first = begun(question())
    for event in follow(first):
        if (
            event["kind"] == "progress"
            and event["doing"].startswith("training:")
            and event["done"] > 40
        ):
            cancel(first)
    assert first.status.state == "cancelled"
    assert not (first.path / "model").exists()
    resumed = answered(question())
    assert any("Continuing from step" in str(line) for line in _logged(resumed))
    monkeypatch.setenv("WORKBENCH_RUNS", str(place / "left-alone"))
    alone = answered(question())
    one, other = (load_file(each.path / "model" / "model.safetensors") for each in (resumed, alone))
    assert all((one[name] == other[name]).all() for name in one)
    assert open_run(alone.name).path != resumed.path


def _logged(run: Run) -> list[str]:
    from workbench.runs import status

    return [event["text"] for event in status.read_events(run.path)[0] if event["kind"] == "log"]


def test_it_is_among_the_experiments() -> None:
    assert experiments()["train"] is EXPERIMENT
