"""Everything that leaves a model x everything that opens one: each cell works, or refuses truly.

A cell works with what the model was made for, named in the table `objective`; or it is refused
before anything is computed, by an error that says what is missing and names a way on. All cells run
with `-m slow`; by day a few, on a model that is made without training.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.composition.producers import PRIMER, Producer, producers
from workbench import WorkbenchError
from workbench.analyses.training.families import FAMILIES
from workbench.core.objectives import PREDICTED
from workbench.experiment.definition import EXPERIMENTS
from workbench.runs import status

PRODUCERS = {producer.name: producer for producer in producers()}
FEW: dict[str, Any] = {"max_train": 10, "max_dev": 6, "max_test": 6}
QUICK: dict[str, Any] = {**FEW, "seeds": (0,), "max_epochs": 1, "learning_rates": (1e-3,)}
# Settings that keep each experiment small, and its corpus if it is not the producer's own.
FEW = {
    "max_sentences": 3, "shots": (1,), "seeds": (0,), "templates": ("{text} So {label}.",),
    "label_words": ("negative=sad; positive=new",),
}  # fmt: skip
EXPERIMENT_SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "attention-averages": (PRIMER, {"max_sentences": 10}),
    "attention-probe": (PRIMER, {"max_sentences": 10, "seeds": (0,)}),
    "attribution": ("", {"max_sentences": 10, "max_predictions": 2, "random_models": 0}),
    "compress": (
        "",
        {"max_sentences": 10, "amounts": (0.5,), "bits": ("4",), "combined": False,
         "methods": ("weights", "neurons", "layers", "packed bits", "weights while training"),
         "random_orders": 0, "rounds": 0, "max_pairs": 10, "training_steps": 1},
    ),
    "smaller-model": (
        "primer/sentiment:size=120",
        {"max_sentences": 30, "methods": ("neurons",), "amounts": (0.5,), "recovery_epochs": 0,
         "rounds": 0},
    ),
    "contributions": ("", {"max_sentences": 10, "max_words": 10, "n_permutations": 19}),
    "describe": ("", {}),
    "description-length": (
        PRIMER,
        {"tasks": ("pos",), "max_sentences": 10, "codes": ("online",), "max_targets": 60,
         "max_epochs": 2},
    ),
    "drift": (PRIMER, {"max_sentences": 10, "compare_probing": False, "compare_roles": False}),
    "edge-probing": (
        PRIMER, {"tasks": ("pos",), "effort": "quick", "max_epochs": 2, "max_sentences": 20}
    ),
    "errors": ("", {"max_sentences": 10}),
    "erasure": (PRIMER, {"max_words": 60, "max_predictions": 10, "random_directions": 20}),
    "family": (PRIMER, {"max_sentences": 10, "parts": ("text", "cost")}),
    "finetune": ("", {**QUICK, "max_train": 10}),
    "frozen-vs-finetuned": ("", {**QUICK, "ridge_strengths": (1.0,), "lstm_baseline": False}),
    "geometry": (PRIMER, {"random_models": 1, "min_contexts": 3}),
    "head-ablation": ("", {"max_sentences": 10}),
    "head-gates": ("", {"max_sentences": 10, "steps": 2, "budgets": (0.5,), "lambdas": ()}),
    "head-importance": ("", {"max_sentences": 10}),
    "head-pruning": (
        "",
        {"max_sentences": 10, "steps": 2, "methods": ("importance",), "prune_by": "importance",
         "recovery_steps": 2},
    ),
    "heads": (PRIMER, {"max_sentences": 10}),
    "lens": ("", {"max_sentences": 10, "max_predictions": 10, "random_models": 0}),
    "cloze": ("primer/counterfactuals:size=20", {"max_sentences": 6, "choices": 3}),
    "text-to-text": (
        "primer/questions:size=20", {"max_sentences": 4, "max_pieces": 3, "attributed": 1},
    ),
    "few-shot": ("primer/sentiment:size=60", FEW),
    "minimal-pairs": ("primer/acceptability:size=20", {}),
    "retrieve": (
        PRIMER,
        {"max_sentences": 10, "questions": 3, "k": 2, "steps": 1, "pairs": 100, "attributed": 1,
         "retrievers": ("bm25", "states")},
    ),
    "neighbours": (PRIMER, {"random_models": 1, "n_permutations": 19, "max_queries": 20}),
    "patching": ("primer/counterfactuals:size=60", {"max_pairs": 3, "random_pairs": 1}),
    "architectures": ("", {}),
    "recurrence": ("", {}),
    "text-length": ("", {}),
    "scaling": ("", {}),
    "pretraining": ("", {}),
    "domain": ("", {}),
    "distil": ("", {"steps": 1, "batch_size": 4, "seeds": (0,), "max_test": 6}),
    "profile": (PRIMER, {"max_sentences": 10}),
    "similarity": (PRIMER, {"max_sentences": 10}),
    "steering": (
        "primer/counterfactuals:size=60",
        {"max_words": 1, "max_texts": 16, "random_directions": 20},
    ),
    "structural-probe": (PRIMER, {"max_sentences": 10, "seeds": (0,)}),
    "tokenization": (PRIMER, {"max_sentences": 10}),
    "word-vectors": (PRIMER, {"min_count": 1, "min_pairs": 2, "n_shuffles": 20}),
    "train": (PRIMER, {"size": "tiny", "steps": 2}),
    "trigram": (PRIMER, {"max_sentences": 10}),
    "tuned-lens": (PRIMER, {"max_train": 10, "steps": 2}),
}  # fmt: skip
WITH_MODEL = [  # domain, of two corpora, begins with runs of train, which is one of them
    name
    for name in EXPERIMENT_SETTINGS
    if EXPERIMENTS[name].models != (0, 0) and EXPERIMENTS[name].corpora[0] < 2
]
TEXT, SECOND = "Ben walks to the hill .", "Ann saw a dog ."


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    return tmp_path


def test_every_experiment_is_a_consumer() -> None:
    assert set(EXPERIMENTS) == set(EXPERIMENT_SETTINGS)


def must_refuse(experiment: str, producer: Producer) -> bool:
    """Whether an experiment cannot take what a producer makes, for a reason of its method."""
    name, kind = producer.name, producer.kind
    no_attention = "elmo" in name or "vectors" in name
    added = name.endswith(("adapters", "adamix", "prefix", "prompt"))
    if experiment in ("attention-averages", "attention-probe", "heads"):
        return no_attention
    if experiment in (
        "head-ablation", "head-gates", "head-importance", "head-pruning", "compress", "errors",
    ):  # fmt: skip
        return no_attention or not kind
    if experiment in (
        "erasure", "minimal-pairs", "patching", "steering", "trigram", "tuned-lens",
    ):  # fmt: skip
        return kind not in PREDICTED
    return {
        "attribution": kind in ("", "text"),
        "contributions": no_attention or added or kind in ("", "score", "answers", "text"),
        "cloze": kind not in PREDICTED,
        "distil": added
        or name.startswith("pruned")
        or kind in ("", "bidirectional", "tags", "entities", "answers", "text")
        or name.endswith(("frozen", "plain", "lstm", "xlnet", "longformer", "t5-class")),
        "lens": kind in ("", "score", "text"),
        "smaller-model": no_attention or added or name.startswith("pruned") or kind == "text",
        "text-to-text": kind not in ("causal", "seq2seq", "answers")
        and name != "finetune-t5-answers-text",
        "retrieve": kind not in ("causal", "masked", "seq2seq", "answers", "text"),
        "train": added or name.startswith("pruned") or name == "train-distilbert",
    }.get(experiment, False)


def is_true_refusal(error: WorkbenchError) -> bool:
    """Whether an error says what is wrong and what to do, and is no bug."""
    is_bug = error.code in ("internal", "setting-invalid") or "Traceback" in str(error)
    return bool(error.remedy) and not is_bug


@cache
def corpus_of(ref: str) -> wb.Corpus:
    """A corpus, read once: a run with open models and corpora takes no process of its own."""
    return wb.read(ref)


def experiment_cell(name: str, producer: Producer, model: "wb.Model | str", runs: Path) -> str:
    """Run an experiment; "" if it works or refuses before it starts, else what is wrong."""
    own, settings = EXPERIMENT_SETTINGS[name]
    if name == "train":
        settings = {**settings, "family": family_of(producer.name)}
    before = set(runs.glob("*")) if runs.is_dir() else set()
    models = [model] * max(1, EXPERIMENTS[name].models[0])
    try:
        run = wb.run(
            name, model=models, corpus=corpus_of(own or producer.corpus), device="cpu",
            progress=lambda event: None, **settings,
        )  # fmt: skip
    except WorkbenchError as error:
        begun = [path for path in set(runs.glob("*")) - before if path.name.startswith(name)]
        late = [path.name for path in begun if status.settled(path).state == "failed"]
        few = ("erasure", "patching", "steering")
        if late and name in few and error.code == "too-few-sentences":
            return ""  # the vocabulary of a tiny model splits the words of all pairs
        if late or not is_true_refusal(error):
            return f"{name}: refused {'only after it had begun' if late else 'falsely'}: {error}"
        return "" if must_refuse(name, producer) else f"{name}: refused without need: {error}"
    if must_refuse(name, producer):
        return f"{name}: runs, though its method cannot take such a model"
    if EXPERIMENTS[name].measures and "objective" in run.tables:
        kind = run.tables["objective"]["objective"].iloc[0]
        if kind != producer.kind:
            return f"{name}: measured {kind}, and the model was made for {producer.kind}"
    return ""


def family_of(producer: str) -> str:
    """The family that goes on training what a producer makes."""
    known = [name for name in FAMILIES if name in producer.split("-")]
    return known[0] if known else "bert"


def function_cells(producer: Producer, model: wb.Model) -> Iterator[str]:
    """Functions of one text; what is wrong with each."""
    pairs = model.predicts is not None and model.predicts.pairs is True
    second = {"second": SECOND} if pairs else {}
    calls: dict[str, Any] = {
        "predict": lambda: wb.predict(model, TEXT, **second),
        "fill": lambda: wb.fill(model, TEXT.replace("hill", "[MASK]")),
        "attribute": lambda: wb.attribute(model, TEXT, word=None, **second),
        "contributions": lambda: wb.contributions(model, TEXT, **second),
        "lens": lambda: wb.lens(model, TEXT, **second),
        "patch": lambda: wb.patch(model, TEXT, TEXT.replace("Ben", "Ann"), **second),
        "generate": lambda: wb.generate(model, TEXT, 2),
    }
    for name, call in calls.items():
        try:
            call()
        except WorkbenchError as error:
            if not is_true_refusal(error):
                yield f"{name}: {error}"
        except Exception as error:
            yield f"{name}: {type(error).__name__}: {error}"


def wrong_cells(producer: Producer, home: Path, experiments: Sequence[str]) -> list[str]:
    """The cells of these experiments, and of all functions, that neither work nor refuse truly."""
    made = producer.make(home)
    model = wb.load(made, device="cpu") if isinstance(made, str) else made
    kind = model.predicts.kind if model.predicts is not None else ""
    wrong = [] if kind == producer.kind else [f"it predicts {kind!r}, not {producer.kind!r}"]
    for name in experiments:
        try:
            # a training goes on from the files of a model
            given = made if name == "train" else model
            wrong += filter(None, [experiment_cell(name, producer, given, home / "runs")])
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {error}")
    wrong += function_cells(producer, model)
    try:
        exported = wb.export_model(model, home / "exported")
        again = wb.load(str(home / "exported"), device="cpu")
        if exported.form and again.predicts != model.predicts:
            wrong.append(f"export: it predicts {again.predicts}, not {model.predicts}")
    except WorkbenchError as error:
        wrong += [] if is_true_refusal(error) else [f"export: {error}"]
    return wrong


@pytest.mark.usefixtures("undrawn")
def test_a_folder_of_others_is_measured_by_its_class_or_truly_refused(home: Path) -> None:
    """Importance takes the class; minimal pairs refuse a model that predicts no words."""
    producer = PRODUCERS["folder-BertForSequenceClassification"]
    model = wb.load(producer.make(home), device="cpu")
    assert model.predicts is not None and model.predicts.kind == "class"
    for name, refused in (("head-importance", False), ("minimal-pairs", True)):
        assert must_refuse(name, producer) is refused
        assert not experiment_cell(name, producer, model, home / "runs")


@pytest.mark.slow
@pytest.mark.parametrize("name", PRODUCERS)
def test_every_producer(name: str, home: Path) -> None:
    assert not wrong_cells(PRODUCERS[name], home, WITH_MODEL)
