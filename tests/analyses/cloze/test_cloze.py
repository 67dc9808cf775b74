"""Models whose answers are known: uniform ones guess, a fond one repeats, a lucky one is right."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

import workbench as wb
from tests.analyses.basics.test_pairs import Quiet
from tests.minis import shared
from tests.models import headed
from tests.night import mostly
from workbench.analyses.cloze.experiments import CLOZE, Cloze
from workbench.analyses.cloze.figures import accuracy
from workbench.analyses.cloze.findings import findings
from workbench.experiment import Inputs, Result

TEXTS = [
    f"{name} has a {thing}. It is the {thing}."
    for name in ("Ann", "Ben", "Mary", "Peter")
    for thing in ("dog", "boat", "letter")
]


def filled(model: Any, corpus: Any, limit: int | None = None, **settings: Any) -> Result:
    split = "test" if "test" in corpus.splits else None
    inputs = Inputs((model,), (corpus,), split, 0, limit=limit)
    run: Any = CLOZE.import_code()
    result: Result = run(inputs, Cloze(**settings), Quiet())
    return result


def rows(result: Result) -> Any:
    return result.tables["scores"].set_index(["phenomenon", "task", "context"])


def fond(words: list[str]) -> Any:
    """A GPT-2 to which all is equally probable, but for the first pieces of some words."""
    model = headed.made("gpt2", "GPT2LMHeadModel", uniform=True)
    head = torch.nn.Linear(model.net.lm_head.in_features, model.net.lm_head.out_features)
    with torch.no_grad():
        head.weight.zero_()
        head.bias.zero_()
        for word in words:
            head.bias[model.tokenizer(f" {word}")["input_ids"][0]] = 20.0
    model.net.lm_head = head
    return model


def test_a_model_fond_of_a_word_is_right_where_it_is_right() -> None:
    corpus = wb.read([text for text in TEXTS if "dog" in text])
    found = filled(fond(["dog"]), corpus, choices=3, scores=("full", "word"))
    scores = rows(found)
    assert scores.loc[("all", "choice, word", "with the passage"), "accuracy"] == 1
    # it needs no passage: nothing is gained
    gain = found.tables["passage"].set_index("task")["difference"]
    assert (gain == 0).all()


def test_pairs_show_a_preference_for_one_option() -> None:
    corpus = wb.read("primer/counterfactuals")
    found = filled(shared("mini:gpt"), corpus, 40)
    pairs = found.tables["pairs"].set_index("task").loc["choice, full"]
    assert pairs["lower"] > 0.25
    twin = filled(shared("mini:gpt@random"), corpus, 40)
    fair = twin.tables["pairs"].set_index("task").loc["choice, full"]
    assert fair["both"] < 0.25 < fair["always_same"]
    assert all(each.verdict != "supported" for each in findings(twin.tables))


def test_pairs_of_many_options_have_less_chance(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    head = "text,options,answer,pair\n"
    two = "The dog ___ old.,is|are,is,1\nThe dogs ___ old.,is|are,are,1\n"
    many = "The cat ___ on.,is|are|ran|sat,sat,2\nThe cats ___ on.,is|are|ran|sat,ran,2\n"
    for rows, chance in ((two, 1 / 4), (many, 1 / 16), (two + many, 5 / 32)):
        path.write_text(head + rows)
        found = filled(fond(["sat"]), wb.read(path)).tables["pairs"]
        assert found["chance"].tolist() == pytest.approx([chance] * len(found)) and len(found)


def test_an_interval_above_chance_without_a_significant_test_is_undecided() -> None:
    row: dict[str, Any] = {
        "phenomenon": "all", "task": "any word", "context": "with the passage", "accuracy": 0.32,
        "lower": 0.15, "upper": 0.5, "chance": 0.08, "n": 200, "groups": 40, "p": 0.68,
    }  # fmt: skip

    def first(**changed: float) -> Any:
        return next(findings({"scores": pd.DataFrame([row | changed])}))

    assert first().verdict == "undecided" and "p = 0.68" in first().claim
    assert "other options" in first().decided_by
    assert first(p=0.001).verdict == "supported"
    assert first(lower=0.05).verdict == "not supported"


def test_phenomena_of_few_groups_are_named() -> None:
    found = filled(fond(["dog"]), wb.read("primer/counterfactuals"), 30, choices=0)
    (few,) = [each.text for each in found.caveats if "groups of items" in each.text]
    groups = found.tables["scores"].groupby("phenomenon")["groups"].last().to_dict()
    for name, n_groups in groups.items():
        assert (f"{name} ({n_groups})" in few) == (n_groups < 5)


def test_all_items_of_few_groups_are_named() -> None:
    corpus = wb.read("primer/counterfactuals")
    found = filled(fond(["dog"]), corpus, 3, choices=0)  # of several phenomena
    (few,) = [each.text for each in found.caveats if "groups of items" in each.text]
    groups = found.tables["scores"].groupby("phenomenon")["groups"].last().to_dict()
    assert len(groups) > 2 and groups["all"] < 5 and f"all ({groups['all']})" in few


def test_a_passage_adds_nats_or_takes_them() -> None:
    row: dict[str, Any] = {
        "task": "any word", "difference": -0.1, "lower": -0.2, "upper": 0.1, "n": 57,
        "nats": -3.5, "nats_lower": -4.4, "nats_upper": -2.6,
    }  # fmt: skip

    def claim(**changed: float) -> str:
        passage = pd.DataFrame([row | changed])
        scores = pd.DataFrame(columns=["phenomenon", "task", "context"])
        return next(findings({"scores": scores, "passage": passage})).claim

    assert "takes 3.50 nats from" in claim() and "2.60 to 4.40" in claim()
    assert "adds 3.50 nats to" in claim(nats=3.5, nats_lower=2.6, nats_upper=4.4)


def test_what_follows_is_a_score_only_where_something_follows() -> None:
    corpus = wb.read(["Ann has a dog. She sees a dog", "Ben has a hat. He sees a hat"])
    found = filled(shared("mini:gpt"), corpus, choices=2)
    assert "choice, partial" not in set(found.tables["scores"]["task"])


def test_long_texts_lose_their_first_words() -> None:
    long = "the dog sees Mary . " * 60
    model: Any = shared("mini:gpt")
    found = filled(model, wb.read([f"{long} Ben met the cat.", "Ann runs. Ben met the cat."]))
    assert any("first words are left out" in caveat.text for caveat in found.caveats)
    assert found.tables["items"]["nats"].gt(0).all()


@pytest.mark.parametrize(
    "name", mostly(("mini:bert", "mini:elmo", "mini:t5"), "mini:bert", "mini:t5")
)
def test_every_objective_fills_gaps(name: str) -> None:
    found = filled(shared(name), wb.read("primer/counterfactuals"), 12, choices=0)
    scores = rows(found)
    assert scores.loc[("all", "choice, full", "with the passage"), "accuracy"] > 0.6
    assert len(list(findings(found.tables))) >= 2
    drawn = accuracy(found.tables)
    assert len(drawn.data) and found.caveats


def test_findings_say_that_a_passage_hurts() -> None:
    found = filled(shared("mini:gpt"), wb.read("primer"), 30)
    of_passage = [each for each in findings(found.tables) if each.table == "passage"]
    assert any("hurts" in each.claim or "not significantly" in each.claim for each in of_passage)
    for each in of_passage:
        is_seen = "hurts" in each.claim or "passage helps" in each.claim
        assert each.verdict == ("supported" if is_seen else "not supported")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_random_twins_find_nothing(seed: int) -> None:
    model = shared("mini:gpt@random", seed=seed)
    found = filled(model, wb.read("primer/counterfactuals"), 60)
    supported = [each.claim for each in findings(found.tables) if each.verdict == "supported"]
    assert not supported
