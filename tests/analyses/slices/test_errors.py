"""Slices on which a planted classifier is wrong are found, others are not, and rows are right."""

from collections import Counter
from random import Random

import numpy as np
import pandas as pd
import pytest

import workbench as wb
from tests.analyses.distillation.test_distil import classifier
from tests.judges.odd import odd_corpus, run_here
from tests.minis import shared
from tests.models import headed
from tests.night import mostly
from workbench import Corpus, Result, WorkbenchError
from workbench.analyses.slices.experiments import ERRORS


def labelled(planted: str = "", seed: int = 0) -> Corpus:
    """Odd texts: `no` if they have the planted word; without one, of a third at random."""
    docs = list(odd_corpus({"test": 120}, seed, longest=14).docs("test"))
    draw = Random(seed)
    for doc in docs:
        is_no = planted in [word.text for word in doc] if planted else draw.random() < 1 / 3
        doc._.labels = {"right": "no" if is_no else "yes"}
    return Corpus("odd", {"test": lambda: iter(docs)})


def frequent() -> str:
    """A word of about a quarter of the texts."""
    docs = list(labelled().docs("test"))
    counts = Counter(word for doc in docs for word in {word.text for word in doc})
    return min(counts, key=lambda word: abs(counts[word] - 30))


def found(result: Result) -> pd.DataFrame:
    table = result.tables["slices"]
    return table[(table["p"] < 0.05) & (table["lower"] > 0)]


def test_the_word_with_which_a_classifier_is_wrong_is_found() -> None:
    word = frequent()
    result = run_here("errors", classifier(), labelled(word), words=(word,))
    table = result.tables["slices"]
    named = set(table.loc[table["kind"] == "words", "slice"])
    assert named == {"with one of the words", "with none of the words"}
    slices = found(result).set_index(["kind", "slice"])
    row = slices.loc[("words", "with one of the words")]
    assert row["value"] == 0 and row["rest"] == 1 and row["worse"] == 1
    assert set(slices.index) <= {
        ("words", "with one of the words"), ("class", "no"), ("length", "long texts"),
        ("depth", "deep texts"),
    }  # fmt: skip
    texts = result.tables["texts"]
    assert (texts["predicted"] == "yes").all() and np.allclose(texts["confidence"], 0.952574)
    assert ((texts["label"] == "yes") == (texts["right"] == 1)).all()
    assert np.allclose(texts.loc[texts["right"] == 1, "loss"], -np.log(0.952574), atol=1e-5)
    wrong = result.tables["confusion"].set_index(["label", "predicted"]).loc[("no", "yes"), "n"]
    assert wrong == row["n"]
    findings = ERRORS.findings_of(result.tables)
    share, whole = texts["right"].mean(), findings[1].interval
    half = 1.96 * np.sqrt(share * (1 - share) / len(texts))
    assert whole and np.allclose(whole, (share - half, share + half), atol=0.02)
    claims = [each.claim for each in findings]
    assert "worst on" in claims[0] and f"no taken for yes: {wrong} texts" in claims[-1]


@pytest.mark.parametrize(("seeds", "most"), mostly([(2, 1), (8, 2)], (2, 1)))
def test_labels_at_random_have_no_slice_but_their_own_class(seeds: int, most: int) -> None:
    """The class is known to be wrong: `no` is never said. Nothing else is claimed by more than
    chance allows."""
    false = 0
    for seed in range(seeds):
        result = run_here("errors", classifier(), labelled(seed=seed), words=(frequent(),))
        slices = found(result)
        assert ("class", "no") in set(zip(slices["kind"], slices["slice"], strict=True))
        false += bool((slices["kind"] != "class").any())
    assert false <= most  # 99 % of so many with 5 %


@pytest.mark.parametrize("experiment", ["errors", "head-importance", "head-ablation"])
def test_without_splits_texts_of_the_training_may_be_scored(experiment: str) -> None:
    split = labelled(frequent())
    whole = Corpus("odd", {"all": split.splits["test"]})
    results = [run_here(experiment, classifier(), each) for each in (split, whole)]
    said = [any("trained on" in each.text for each in result.caveats) for result in results]
    assert said == [False, True]


def test_a_task_is_not_taken_for_the_corpus_that_is_scored() -> None:
    tables = run_here("errors", classifier(), labelled(frequent())).tables
    claims = [finding.claim for finding in ERRORS.findings_of(tables)]
    name = tables["objective"]["name"].item()
    assert claims[1].startswith(f"The accuracy on the task {name} is ")


@pytest.mark.parametrize("name", ["mini:gpt", "mini:bert", "mini:t5"])
def test_texts_of_a_language_model_make_up_its_loss(name: str) -> None:
    result = run_here("errors", shared(name), wb.read("primer:size=60"))
    texts = result.tables["texts"]
    baseline = result.tables["baseline"].set_index("metric")["value"]
    for metric, column in (("loss", "loss"), ("accuracy", "right")):
        mean = np.average(texts[column], weights=texts["n"])
        assert mean == pytest.approx(baseline[metric], abs=1e-6)
    docs = list(wb.read("primer:size=60").docs("test"))
    assert texts["text"].tolist() == [docs[place].text for place in texts["index"]]
    longest = max(sum(1 for _ in word.ancestors) for word in docs[0])
    assert texts["depth"].iloc[0] == longest and "confusion" not in result.tables


def test_a_model_without_a_head_is_refused() -> None:
    with pytest.raises(WorkbenchError, match="head"):
        run_here("errors", headed.made("bert", "BertModel"), wb.read("primer:size=20"))
