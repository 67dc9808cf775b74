"""The planted models: every head is found with its role, at its exact score, and no other is."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from spacy.tokens import Doc

from tests.planted import bert, gpt2
from tests.planted.words import Lexicon, lexicon, planted_docs
from workbench import Result
from workbench.models.huggingface import HuggingFace

RunHeads = Callable[..., Result]
NAMES = {
    "bert": {
        "previous": "positional",
        "next": "positional",
        "separator": "separator",
        "first": "first",
        "rarest": "rare",
        "syntactic": "syntactic",
    },
    "gpt2": {
        "previous": "positional",
        "first": "first",
        "rarest": "rare",
        "syntactic": "syntactic",
        "duplicate": "duplicate",
        "induction": "induction",
    },
}
BUILD: dict[str, Any] = {"bert": bert.build, "gpt2": gpt2.build}
DOCS = 300


@cache
def docs() -> list[Doc]:
    return planted_docs(DOCS)


def known(words: Lexicon) -> Lexicon:
    """With the frequencies of these very documents, which are what the experiment counts."""
    counts = Counter(token.text for doc in docs() for token in doc)
    return replace(words, counts={word: counts[word] for word in words.counts})


@pytest.fixture(scope="module", params=BUILD)
def named(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def tables(named: str) -> dict[str, Any]:
    from tests.analyses.heads.conftest import Made, Silent
    from workbench.analyses.heads.experiments import Heads
    from workbench.analyses.heads.head_analysis import run
    from workbench.experiment import Inputs

    planted = BUILD[named](known(lexicon()))
    model: Any = HuggingFace(planted.model, planted.tokenizer, named)
    corpus: Any = Made(docs())
    settings = Heads(n_frequent_words=0, max_examples=10)
    found = run(Inputs(models=(model,), corpora=(corpus,)), settings, Silent())
    return {**found.tables, "places": planted.heads}


def test_every_head_has_its_role_and_no_other_head_has_it(
    named: str, tables: dict[str, Any]
) -> None:
    heads = tables["heads"].set_index(["layer", "head"])["role"]
    expected = {tables["places"][name]: role for name, role in NAMES[named].items()}
    assert {key: role for key, role in heads.items() if role} == expected


EXACT = {
    ("bert", "previous"): {"offset": -1, "offset_share": 1, "previous": 1, "confidence": 1},
    ("bert", "next"): {"offset": 1, "offset_share": 1},
    ("bert", "separator"): {"separator_mass": 1, "special_mass": 1, "special_mass_normed": 0,
                            "confidence": 0, "offset_share": 0, "relation_accuracy": 0},
    ("bert", "first"): {"first_mass": 1, "separator_mass": 0, "special_mass": 1},
    ("bert", "rarest"): {"rare_share": 1, "two_rarest_share": 1},
    ("bert", "syntactic"): {"relation_accuracy": 1},
    ("gpt2", "previous"): {"offset": -1, "offset_share": 1, "previous": 1},
    ("gpt2", "first"): {"first_mass": 1, "separator_mass": 0},
    ("gpt2", "rarest"): {"rare_share": 1},
    ("gpt2", "syntactic"): {"relation_accuracy": 1},
    ("gpt2", "duplicate"): {"duplicate": 1, "induction": 0},
    ("gpt2", "induction"): {"duplicate": 0, "induction": 1},
}  # fmt: skip


def test_and_its_exact_score(named: str, tables: dict[str, Any]) -> None:
    heads = tables["heads"].set_index(["layer", "head"])
    for (model, name), scores in EXACT.items():
        if model != named:
            continue
        row = heads.loc[tables["places"][name]]
        for column, value in scores.items():
            assert row[column] == pytest.approx(value, abs=1e-3), (name, column)
            if f"{column}_lower" in row and value == 1:
                assert row[f"{column}_lower"] == pytest.approx(1, abs=1e-3)


def test_every_relation_it_can_see_is_followed_from_the_dependent(
    named: str, tables: dict[str, Any]
) -> None:
    layer, head = tables["places"]["syntactic"]
    found = tables["relations"].query(
        f"layer == {layer} and head == {head} and direction == 'dependent-to-head'"
    )
    assert len(found) > 3
    assert (found["accuracy"] > 0.999).all()
    best = found[["baseline_accuracy", "baseline_first", "baseline_longest"]].max(axis=1)
    assert np.allclose(found["difference"], 1 - best)
    common = found[found["n"] * found["difference"] >= 20]  # dependents no simple rule finds
    assert len(common) > 2 and common["syntactic"].all()
    assert (common["p_value"] < 0.01).all() and (common["null_mean"] < 0.4).all()
    few = found[found["n"] * found["difference"] < 7]  # 2^-7 > 0.01 / 1
    assert not few["syntactic"].any()


def test_even_attention_has_no_role(tables: dict[str, Any]) -> None:
    heads = tables["heads"].set_index(["layer", "head"])
    row = heads.loc[tables["places"]["uniform"]]
    assert row["roles"] == "" and row["entropy"] == pytest.approx(1, abs=1e-3)


def test_the_first_piece_is_no_separator(named: str, tables: dict[str, Any]) -> None:
    """GPT-2's sink is where its texts begin; nothing stands behind them."""
    assert named != "gpt2" or not tables["heads"]["separator_mass"].any()
    assert not tables["heads"]["roles"].str.contains("separator").any() or named == "bert"


def test_conventions_that_a_planted_head_would_fail_under_others(tables: dict[str, Any]) -> None:
    """The word at the edge has no neighbour there: counted, `previous` were not perfect."""
    layer, head = tables["places"]["previous"]
    heads = tables["heads"].set_index(["layer", "head"])
    row = heads.loc[(layer, head)]
    offsets = tables["offsets"].query(f"layer == {layer} and head == {head} and offset == -1")
    words, with_offset = int(row["n"]), int(offsets["n"].iloc[0])
    assert with_offset == words - DOCS, "one word a sentence has none before it"
    assert with_offset / words < row["offset_share"] - 0.05, "and would lower the score"
