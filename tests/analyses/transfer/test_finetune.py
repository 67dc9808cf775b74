"""The experiments from end to end: known answers, the same seed, what is kept, and odd corpora."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import workbench as wb
from tests.analyses.heads.conftest import Silent
from tests.analyses.transfer.conftest import corpus_of, doc_of, of_order, of_words, parted
from tests.minis import shared
from tests.models import zoo
from tests.night import mostly
from workbench import Corpus, Model, Result, WorkbenchError, experiments
from workbench.corpora.splits import SplitSizes
from workbench.experiment import Inputs
from workbench.models.huggingface import HuggingFace
from workbench.models.word_models import WordModel

SENTIMENT = "primer/sentiment:size=200"
QUICK: dict[str, Any] = {
    "max_train": 60,
    "max_dev": 30,
    "max_test": 40,
    "max_epochs": 2,
    "seeds": [0, 1],
}
FEW: dict[str, Any] = {"max_train": 32, "max_dev": 16, "max_test": 20}
SCORES = {
    "task", "model", "method", "head", "seed", "learning_rate", "ridge", "split", "metric",
    "value", "baseline", "learned", "converged", "trainable", "peak_memory", "seconds", "size",
}  # fmt: skip


@cache
def sentiment() -> Corpus:
    """Read once: which tasks it has is told of all its texts."""
    return wb.read(SENTIMENT)


@cache
def model_of(name: str) -> Model:
    """A mini model, which no fine-tuning changes."""
    return shared(f"mini:{name}")


def finetuned(
    model: Model, corpus: Corpus, keep: Path | None = None, split: str | None = None, **how: Any
) -> Result:
    kind = experiments()["finetune"]
    inputs = Inputs((model,), (corpus,), split, keep=keep)
    return kind.run(inputs, kind.settings(**{**QUICK, **how}), Silent())


def scored(found: Result) -> list[float]:
    """The accuracy of every seed on what was held out."""
    rows = found.tables["scores"].query("split == 'test' and metric == 'accuracy'")
    return rows["value"].tolist()  # type: ignore[no-any-return]


def test_static_vectors_solve_a_task_of_words_and_not_one_of_order(vectors: WordModel) -> None:
    how: dict[str, Any] = {
        "method": "frozen", "max_train": 300, "max_dev": 100, "max_test": 100, "seeds": [0],
    }  # fmt: skip
    assert min(scored(finetuned(vectors, parted(of_words), **how))) > 0.97
    assert max(scored(finetuned(vectors, parted(of_order), **how))) < 0.7
    strong = finetuned(vectors, parted(of_order), **how, head="lstm", learning_rates=[5e-3])
    assert min(scored(strong)) > 0.9, "an LSTM above them reads their order"


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "name", ["bert", *(pytest.param(name, marks=SLOW) for name in ("elmo", "gpt", "t5"))]
)
def test_every_kind_of_model_is_adapted_and_the_tables_are_whole(name: str, tmp_path: Path) -> None:
    model = model_of(name)
    corpus = sentiment()
    found = finetuned(model, corpus, tmp_path / "kept", **FEW)
    assert set(found.tables) == set(experiments()["finetune"].tables)
    scores = found.tables["scores"]
    assert (
        set(scores.columns) == SCORES and not scores.drop(columns="peak_memory").isna().any().any()
    )
    assert set(scores["split"]) == {"dev", "test"} and set(scores["seed"]) == {0, 1}
    tried = found.tables["rates"]
    assert len(tried) == 2, "a grid of two rates, on the first seed alone"
    best = tried.sort_values("value")["learning_rate"].iloc[-1]
    chosen = scores.query("split == 'test'")["learning_rate"].unique().tolist()
    assert (
        len(chosen) == 1
        and tried.set_index("learning_rate")["value"][chosen[0]]
        == (tried.set_index("learning_rate")["value"][best])
    )
    assert (scores["trainable"] > 0.3 * model.parameters).all()
    said = found.tables["predictions"].query("seed == 0")
    assert len(said) == 20 and (said["gold"] == said["guess"]).mean() == pytest.approx(
        scored(found)[0]
    )
    assert found.arrays["counts"].shape[:2] == (2, 20)


@pytest.mark.parametrize("method", mostly(["frozen", "fine-tuned", "lora"], "lora"))
def test_the_model_that_is_kept_opens_and_answers_as_it_did(method: str, tmp_path: Path) -> None:
    model, corpus = model_of("bert"), sentiment()
    before = {name: value.clone() for name, value in model.named_weights().items()}
    how: dict[str, Any] = {**FEW, "seeds": [0], "learning_rates": [2e-3]}
    found = finetuned(model, corpus, tmp_path, method=method, **how)
    opened = wb.load(str(tmp_path))
    assert isinstance(opened, HuggingFace) and opened.predicts.kind == "class"
    assert opened.objectives[1].kind == "masked", "its old head too"
    head = opened.task_head
    assert head.method == method and head.task.names == ("negative", "positive")
    now = opened.named_weights()
    same = {n: torch.equal(value, now[n]) for n, value in before.items() if n in now}
    assert all(same.values()) == (method == "frozen")
    from workbench.analyses.transfer.adaptation import Fitting
    from workbench.analyses.transfer.backbone import body_of
    from workbench.analyses.transfer.features import Live
    from workbench.analyses.transfer.trainer import guessed
    from workbench.corpora.tasks import split_of

    parts = split_of(corpus, head.task, None, 0, SplitSizes(*FEW.values()))
    body = body_of(opened)
    guesses = guessed(head, Fitting(body), Live(body, parts.test.batch, head), parts.test)
    said = found.tables["predictions"]["guess"].tolist()
    assert [head.task.names[guess] for guess in guesses] == said


def test_elmo_and_vectors_are_kept_too(vectors: WordModel, tmp_path: Path) -> None:
    for number, model in enumerate((model_of("elmo"), vectors)):
        folder = tmp_path / str(number)
        finetuned(model, parted(of_words), folder, seeds=[0], learning_rates=[1e-3], max_epochs=1)
        opened = wb.load(str(folder))
        assert opened.family == model.family
        assert opened.content_hash != model.content_hash
        assert opened.predicts.kind == "class"


def test_less_of_an_error_is_better(vectors: WordModel) -> None:
    """Dev's score of a ridge strength is its error itself, and the one with the least is taken."""
    docs = [
        doc_of(doc.text.split(), mark=1.5 if doc._.labels["kind"] == "good" else 2.5)
        for doc in of_words(120, 0)
    ]
    corpus = corpus_of("marks", train=docs[:60], dev=docs[60:90], test=docs[90:])
    how: dict[str, Any] = {"method": "frozen", "ridge_strengths": [1e8, 1.0], "seeds": [0]}
    found = finetuned(vectors, corpus, metric="mse", **how)
    rates = found.tables["rates"].set_index("ridge")["value"]
    assert rates[1.0] < rates[1e8] and (rates > 0).all()
    scores = found.tables["scores"]
    assert set(scores["ridge"]) == {1.0} and set(scores["learning_rate"]) == {0.0}
    assert scores.query("split == 'dev'")["value"].item() == rates[1.0]
    assert (found.tables["epochs"]["value"] > 0).all()
    (error,) = scores.query("split == 'test' and metric == 'mse'").to_dict("records")
    assert error["learned"] and error["value"] < error["baseline"]


@pytest.mark.parametrize(
    ("task", "metrics"),
    [
        ("entities", {"precision", "recall", "f1"}),
        pytest.param("pos", {"accuracy"}, marks=SLOW),
        ("relatedness", {"pearson", "spearman", "mse"}),
        pytest.param("questions", {"exact_match", "f1"}, marks=SLOW),
        pytest.param("entailment", {"accuracy", "f1", "matthews"}, marks=SLOW),
        pytest.param("acceptability", {"accuracy", "f1", "matthews"}, marks=SLOW),
    ],
)
@pytest.mark.parametrize("head", ["plain", pytest.param("lstm", marks=pytest.mark.slow)])
def test_every_kind_of_task_is_learnt_and_scored(task: str, metrics: set[str], head: str) -> None:
    from workbench.corpora.tasks import corpora_of

    ((corpus, name),) = corpora_of(wb.read("primer:size=200"), (task,))
    how: dict[str, Any] = {"method": "frozen", "task": name, "head": head, "seeds": [0]}
    found = finetuned(
        model_of("bert"),
        corpus,
        **how,
        max_train=60,
        ridge_strengths=[100.0, 10.0],
        max_epochs=4,
    )
    scores = found.tables["scores"].query("split == 'test'")
    assert set(scores["metric"]) == metrics
    learning = found.tables["learning"]
    assert np.isfinite(learning["loss"]).all()
    for (rate, _), losses in learning.groupby(["learning_rate", "ridge"])["loss"]:
        steps = len(losses) // 4 if rate else 1  # of an epoch: only those learn from the same texts
        first, last = losses.iloc[:steps].mean(), losses.iloc[-steps:].mean()
        assert last < first or len(losses) < 9, "a weak ridge begins near it"
    if head == "plain":
        assert scores["converged"].all() and (scores["learning_rate"] == 0).all()


def test_what_cannot_be_learned_is_said(vectors: WordModel) -> None:
    """Labels that no word tells: what scores no better than the majority did not learn."""
    docs = [doc_of(["ada", "bob"], kind="good" if place % 3 else "bad") for place in range(90)]
    corpus = corpus_of("blind", train=docs[:50], dev=docs[50:70], test=docs[70:])
    found = finetuned(vectors, corpus, method="frozen")
    scores = found.tables["scores"]
    assert not scores["learned"].any() and scores["converged"].all()
    assert any("Did not learn" in each.text for each in found.caveats)


def test_a_training_that_is_cut_off_is_marked() -> None:
    """One epoch of fine-tuning, after which dev is best: it is hollow, and said once."""
    from workbench.analyses.transfer.figures.transfer import by_seed

    how: dict[str, Any] = {"seeds": [0], "max_epochs": 1, "learning_rates": [1e-5]}
    found = finetuned(model_of("bert"), parted(of_words, 40, 20), **how)
    assert not found.tables["scores"]["converged"].any()
    assert not found.tables["epochs"]["converged"].any()
    assert sum("Not converged" in each.text for each in found.caveats) == 1
    assert all(mark.endswith("-open") for mark in by_seed(found.tables).data[0].marker.symbol)


@SLOW
@pytest.mark.parametrize(
    "task",
    ["sentiment", "relatedness", "questions", "entailment"],
)
def test_an_encoder_decoder_writes_its_answer(task: str) -> None:
    """By day, `test_text_head` has the predictions of such a run."""
    how: dict[str, Any] = {"head": "text", "seeds": [0], "learning_rates": [3e-3], "max_epochs": 3}
    found = finetuned(model_of("t5"), wb.read(f"primer/{task}:size=200"), **how)
    learning = found.tables["learning"]["loss"]
    assert learning.iloc[-3:].mean() < 0.7 * learning.iloc[:3].mean()
    guesses = set(found.tables["predictions"]["guess"])
    assert guesses and found.tables["scores"]["trainable"].gt(1e6).all(), "decoder and all"


def test_what_writes_no_text_says_so() -> None:
    for model, corpus, how, said in (
        ("bert", "primer/sentiment:size=40", {}, "cannot write text"),
        ("t5", "primer:size=40", {"task": "pos"}, "tags of words"),
        ("t5", "primer/sentiment:size=40", {"method": "frozen"}, "no weights that learn"),
    ):
        with pytest.raises(WorkbenchError, match=said):
            finetuned(model_of(model), wb.read(corpus), head="text", **how)


@pytest.mark.parametrize("step", [pytest.param(1, marks=SLOW), 2])
def test_a_rate_at_which_the_loss_is_no_number_loses_nothing(step: int, monkeypatch: Any) -> None:
    """The other rate is taken, and the table says what happened; an epoch has two steps."""
    from workbench.models.output_heads.task_heads import TaskHead

    real = TaskHead.loss
    number = iter(range(10_000))

    def loss(self: TaskHead, found: Any, gold: Any, read: Any) -> Any:
        value = real(self, found, gold, read)
        return value * float("nan") if next(number) == step else value

    monkeypatch.setattr(TaskHead, "loss", loss)
    how: dict[str, Any] = {**FEW, "seeds": [0], "learning_rates": [9e-4, 1e-3]}
    found = finetuned(model_of("bert"), sentiment(), **how)
    scores = found.tables["scores"]
    assert scores.query("split == 'test'")["learning_rate"].unique().tolist() == [1e-3]
    (note,) = (each.text for each in found.caveats if "NaN or infinite" in each.text)
    assert "0.0009" in note
    tried = found.tables["rates"].query("learning_rate == 9e-4")["value"]
    assert tried.isna().all() == (step == 1), "of the first epoch, if it ended, there is a score"


def test_where_every_attempt_fails_the_untouched_head_is_scored(monkeypatch: Any) -> None:
    from workbench.models.output_heads.task_heads import TaskHead

    monkeypatch.setattr(TaskHead, "loss", lambda self, found, *_: found.sum() * float("nan"))
    found = finetuned(model_of("bert"), sentiment(), **FEW)
    assert len(scored(found)) == 2 and any("NaN or infinite" in each.text for each in found.caveats)


# --- odd corpora ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("corpus", "how", "said"),
    [
        (corpus_of("bare", train=[doc_of(["a"])] * 9), {}, "no labels"),
        (
            corpus_of("one", train=[doc_of(["a"], k="x")] * 9, test=[doc_of(["a"], k="x")]),
            {},
            "'x'",
        ),
        (
            corpus_of("same", train=[doc_of(["a"], k=1.5)] * 9, test=[doc_of(["a"], k=1.5)]),
            {},
            "same k",
        ),
        (
            corpus_of(
                "kept-back", train=of_words(9, 0), dev=of_words(9, 1), test=[doc_of(["a"])] * 3
            ),
            {},
            "--split dev",
        ),
        (parted(of_words, 9, 3), {"task": "knid"}, "Did you mean 'kind'"),
        (
            corpus_of("two", train=[doc_of(["a"], k="x", l="y"), doc_of(["a"], k="z", l="w")] * 9),
            {},
            "several labels: k, l",
        ),
        (parted(of_words, 9, 3), {"metric": "bleu"}, "accuracy"),
    ],
)
def test_a_corpus_that_teaches_nothing_says_why(
    corpus: Corpus, how: dict[str, Any], said: str
) -> None:
    with pytest.raises(WorkbenchError, match=said):
        finetuned(model_of("bert"), corpus, **how)


def test_texts_without_a_label_and_texts_too_long_are_told() -> None:
    docs = [*of_words(20, 0), doc_of(["ada"])]
    long = doc_of(["ada", *["bob"] * 200], kind="good")
    corpus = corpus_of("odd", train=docs, dev=of_words(9, 1), test=[*of_words(9, 2), long])
    found = finetuned(model_of("bert"), corpus, seeds=[0], learning_rates=[1e-3], max_epochs=1)
    notes = " ".join(each.text for each in found.caveats)
    assert "1 of 21 texts of train has no kind" in notes
    assert "1 text" in notes and "64 pieces" in notes and "Fewer than three seeds" in notes


def test_a_pruned_model_is_tuned_and_kept_as_one(tmp_path: Path) -> None:
    from workbench.models.head_removal import without

    model = model_of("bert")
    assert isinstance(model, HuggingFace)
    small = without(model, [(0, 0), (1, 2)])
    how: dict[str, Any] = {**FEW, "seeds": [0], "learning_rates": [1e-3], "max_epochs": 1}
    finetuned(small, sentiment(), tmp_path, **how)
    opened = wb.load(str(tmp_path))
    assert isinstance(opened, HuggingFace) and opened.n_removed_heads == 2


def test_a_model_without_a_head_of_its_own_is_adapted_and_kept(tmp_path: Path) -> None:
    model = wb.load(str(zoo.make("distilbert", tmp_path / "zoo")))
    finetuned(
        model, parted(of_words), tmp_path / "kept", seeds=[0], learning_rates=[1e-3], max_epochs=1
    )
    assert wb.load(str(tmp_path / "kept")).family == "distilbert"


def test_where_dev_is_scored_the_part_that_chooses_is_another() -> None:
    """As of CoLA, whose test set is kept back."""
    corpus = corpus_of("no-test", train=of_words(40, 0), dev=of_words(20, 1))
    found = finetuned(model_of("bert"), corpus, seeds=[0], max_epochs=1)
    scores = found.tables["scores"]
    assert set(scores["split"]) == {"dev", "part of train"}
    keys = list(experiments()["finetune"].tables["scores"].keys)
    assert not scores.duplicated(keys).any()
