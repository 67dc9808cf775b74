"""Teachers whose answers are known, and what students learn from them that their nulls do not."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

import workbench as wb
from tests.analyses.cloze.test_cloze import fond
from tests.judges.odd import Quiet, odd_corpus, run_here
from tests.models import headed
from workbench import Corpus, Result
from workbench.analyses.distillation.distil import School, _trained
from workbench.analyses.distillation.experiments import (
    ALONE,
    DISTIL,
    FLOOR,
    RANDOM,
    SCRATCH,
    STUDENT,
    TEACHER,
    Distil,
)
from workbench.analyses.distillation.lessons import lesson_of
from workbench.core.errors import WorkbenchError
from workbench.engine.task import Task
from workbench.experiment import Inputs
from workbench.models.output_heads.standard_heads import finish, with_standard_head

SIZES = {"train": 30, "dev": 4, "test": 10}
NAMES = ("no", "yes")
QUICK: dict[str, Any] = {"seeds": (0,), "batch_size": 8, "max_test": 40, "learning_rate": 5e-3}


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path_factory.mktemp("home")))


def scores(result: Result) -> Any:
    return result.tables["scores"].set_index("arm")


def texts(size: int = 120) -> Corpus:
    """Any word may follow any other: the text itself has nothing to learn."""
    draw = Random(0)
    names = "cat dog boat letter tree house".split()
    return wb.read([" ".join(draw.choices(names, k=8)) for _ in range(size)])


@pytest.mark.slow  # by day of a classifier, below
def test_what_only_the_soft_targets_know_is_learnt_from_them_alone() -> None:
    """The teacher expects `dog` everywhere, the text does not."""
    result = run_here(
        "distil", fond(["dog"]), texts(60), **QUICK, steps=30, losses=("soft",), start="random",
        n_layers=1,
    )  # fmt: skip
    found = scores(result)
    assert found.loc[STUDENT, "agreement"] > 0.95
    assert found.loc[SCRATCH, "agreement"] < 0.5
    assert found.loc[SCRATCH, "value"] < found.loc[STUDENT, "value"]  # it knows the text better
    assert ALONE not in found.index  # from random weights the nulls are one


def with_labels(corpus: Corpus) -> Corpus:
    """The same texts; one of four is labelled `yes`, by chance."""
    draw, docs = Random(1), {split: list(corpus.docs(split)) for split in corpus.splits}
    for doc in (doc for split in docs.values() for doc in split):
        doc._.labels = {"right": draw.choice(("no", "no", "no", "yes"))}
    return Corpus("odd", {split: (lambda own=own: iter(own)) for split, own in docs.items()})


def classifier() -> Any:
    """A BERT that calls every text `yes`."""
    bert = headed.made("bert", "BertForMaskedLM")
    teacher = with_standard_head(bert, Task("right", "class", "right", NAMES, None, "accuracy"), 0)
    finish(teacher)
    with torch.no_grad():
        teacher.net.classifier.weight.zero_()
        teacher.net.classifier.bias.copy_(torch.tensor([0.0, 3.0]))
    return teacher


def test_a_classifier_that_contradicts_the_labels_is_copied_by_its_student_only() -> None:
    labelled = with_labels(odd_corpus({"train": 60, "dev": 4, "test": 40}, longest=6))
    result = run_here(
        "distil", classifier(), labelled, **QUICK, steps=25, losses=("soft",), start="random",
        n_layers=1,
    )  # fmt: skip
    found = scores(result)
    assert found.loc[STUDENT, "metric"] == "accuracy"
    assert found.loc[STUDENT, "agreement"] == 1
    assert found.loc[SCRATCH, "agreement"] < 0.3
    assert found.loc[STUDENT, "value"] < 0.5 < found.loc[SCRATCH, "value"]
    helps = DISTIL.findings_of(result.tables)[0]
    assert helps.verdict == "not supported", helps.claim  # the student is worse, and it is said


@pytest.mark.slow  # by day a classifier that contradicts the labels is no help, either
@pytest.mark.parametrize("start", ["teacher", "random"])
def test_random_teachers_give_no_help(start: str) -> None:
    random = headed.made("bert", "BertForMaskedLM").reinitialised(3)
    result = run_here(
        "distil", random, odd_corpus({"train": 80, "test": 40}, longest=9), **QUICK, steps=25,
        n_layers=1, start=start,
    )  # fmt: skip
    first = DISTIL.findings_of(result.tables)[0]
    assert "student minus" in first.measure and first.verdict != "supported", first.claim


def test_a_task_stage_goes_on_from_the_student_of_the_general_one(tmp_path: Path) -> None:
    """And both are saved so that plain transformers opens them."""
    corpus = odd_corpus(SIZES)
    labelled = with_labels(corpus)
    inputs = Inputs(
        (headed.made("bert", "BertForMaskedLM"),), (corpus,), "test", keep=tmp_path / "general"
    )
    first = DISTIL.run(inputs, Distil(**{**QUICK, "steps": 2, "width": 16, "n_layers": 1}), Quiet())
    general: Any = wb.load(tmp_path / "general", device="cpu")
    assert general.objective == "masked"
    assert general.parameters == first.tables["sizes"].set_index("arm").loc[STUDENT, "parameters"]
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "general")
    net = AutoModelForMaskedLM.from_pretrained(tmp_path / "general").eval()
    ids = tokenizer("a b cd", return_tensors="pt")
    with torch.no_grad():
        torch.testing.assert_close(net(**ids).logits, general.net(**ids).logits)
    inputs = Inputs((classifier(), general), (labelled,), "test", keep=tmp_path / "task")
    tinybert = ("soft", "states", "embeddings", "maps")
    result = DISTIL.run(inputs, Distil(**{**QUICK, "steps": 2, "losses": tinybert}), Quiet())
    assert list(scores(result).index) == [TEACHER, STUDENT, ALONE, SCRATCH, RANDOM, FLOOR]
    student = wb.load(tmp_path / "task", device="cpu")
    assert (student.width, student.classes) == (16, NAMES)
    AutoModelForSequenceClassification.from_pretrained(tmp_path / "task")


def test_a_training_that_was_killed_ends_with_the_same_weights(tmp_path: Path) -> None:
    class KilledError(Exception):
        pass

    class Killer(Quiet):
        def __call__(self, done: int, total: int | None = None, doing: str = "") -> None:
            if done == 4:
                raise KilledError

    teacher, corpus = headed.made("bert", "BertForMaskedLM"), odd_corpus({"train": 40, "test": 10})
    settings = Distil(**{**QUICK, "steps": 6, "losses": ("soft", "states", "maps")})
    lesson = lesson_of(Inputs((teacher,), (corpus,), "test"), settings, teacher)
    school = School(settings, teacher, None, checkpoint_steps=2)

    def trained(folder: Path, progress: Any) -> dict[str, torch.Tensor]:
        student, _ = _trained(school, lesson, STUDENT, 0, folder, progress)
        return student.net.state_dict()

    whole = trained(tmp_path / "whole", Quiet())
    with pytest.raises(KilledError):
        trained(tmp_path / "killed", Killer())
    again = trained(tmp_path / "killed", Quiet())
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_settings_that_train_nothing_are_refused() -> None:
    with pytest.raises(WorkbenchError, match="soft"):
        Distil(losses=("states", "maps"))
    with pytest.raises(WorkbenchError, match="loss_weights"):
        Distil(loss_weights=(1.0,))
    assert Distil(losses=("hard", "soft"), loss_weights=(1.0, 3.0)).weight_of == {
        "soft": 3,
        "hard": 1,
    }
