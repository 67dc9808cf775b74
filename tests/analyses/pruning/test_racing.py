"""Racing finds the heads that the exact ablation finds, with a fraction of the head-passes."""

from collections.abc import Callable
from functools import cache, partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from spacy.tokens import Doc

import workbench as wb
from tests.analyses.pruning.models import VOCAB, planted, unigrams
from tests.composition import two_heads
from tests.findings import findings_of
from tests.judges.odd import run_here
from tests.minis import shared
from workbench import Corpus, Result
from workbench.analyses.pruning import ablation
from workbench.analyses.pruning.experiments import HeadAblation
from workbench.core.racing import FIRST
from workbench.models.huggingface import HuggingFace


def repeats(model: HuggingFace, words: int = 40, length: int = 12) -> Corpus:
    """Two words in turn, for every pair of some words that the planted GPT-2 knows."""
    known = [piece[1:] for piece in model.tokenizer.get_vocab() if piece[1:].isalpha()]
    known = sorted(word for word in known if f"Ġ{word}" in model.tokenizer.get_vocab())[:words]
    docs = [
        Doc(
            VOCAB,
            words=[pair[place % 2] for place in range(length)],
            spaces=[place < length - 1 for place in range(length)],
        )
        for pair in combinations(known, 2)
    ]
    return Corpus("repeats", {"test": lambda: iter(docs)})


def primer(_: HuggingFace, sentences: int = 1000) -> Corpus:
    """Sentences of the primer: those held out, or more of those that it trains on."""
    split = "test" if sentences <= 1000 else "train"
    return Corpus("primer", {"test": partial(wb.read("primer").docs, split, sentences)})


class Case(NamedTuple):
    """A model, its corpus, the size of the top, and what the race must save at least.

    `least` is how many times fewer head-passes it takes than the exact ablation.
    """

    model: Callable[[], Any]
    corpus: Callable[[Any], Corpus]
    top: int
    least: float
    is_slow: bool = True


def mini(name: str) -> Callable[[], wb.Model]:
    return partial(wb.load, f"mini:{name}")


MORE = partial(primer, sentences=4000)
FEW = "mini:bert, 200 sentences"
PLANTED = "planted: a head for the class"
CASES = {
    "planted: a circuit and a helper": Case(partial(planted, helper=True), repeats, 3, 3),
    PLANTED: Case(two_heads.standard, lambda _: two_heads.texts(300), 1, 3, False),
    "planted: ten of 32 heads": Case(lambda: unigrams(np.geomspace(1, 0.4, 10)), primer, 10, 9),
    "planted: 32 heads": Case(lambda: unigrams(np.geomspace(1, 0.05, 32)), primer, 10, 6),
    FEW: Case(mini("bert"), partial(primer, sentences=200), 10, 1.2),
    "mini:bert, 400 sentences": Case(mini("bert"), partial(primer, sentences=400), 10, 1.3),
    "mini:bert": Case(mini("bert"), primer, 10, 4),
    "mini:bert, top 3": Case(mini("bert"), primer, 3, 2.5),
    "mini:bert, 4,000 sentences": Case(mini("bert"), MORE, 10, 3),
    "mini:gpt": Case(mini("gpt"), primer, 10, 3),
    "mini:gpt, top 3": Case(mini("gpt"), primer, 3, 5),
    "mini:gpt, 4,000 sentences": Case(mini("gpt"), MORE, 10, 4),
    "mini:t5": Case(mini("t5"), primer, 10, 3),
}
each = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if case.is_slow else [])
        for name, case in CASES.items()
    ],
)


@cache
def result(name: str, effort: str) -> Result:
    case = CASES[name]
    model = case.model()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ablation, "TOP", case.top)
        return run_here("head-ablation", model, case.corpus(model), effort=effort)


def of_loss(name: str, effort: str) -> pd.DataFrame:
    table = result(name, effort).tables["ablation"]
    return table[table["metric"] == "loss"].reset_index(drop=True)


@each
def test_the_race_finds_the_same_top_heads_with_fewer_passes(name: str) -> None:
    exact, raced = (of_loss(name, effort) for effort in ("full", "standard"))
    assert exact["decided"].all() and exact["sentences"].nunique() == 1
    ratio = exact["sentences"].sum() / raced["sentences"].sum()
    significant = [int((table["p_value"] < 0.05).sum()) for table in (exact, raced)]
    print(
        f"{name}: top {raced['top_ten'].sum()} of {len(raced)} heads, {ratio:.1f} times fewer "
        f"head-passes; {significant[0]} significant, {significant[1]} by racing, "
        f"{(~raced['decided']).sum()} open"
    )
    assert {*exact[exact["top_ten"]].index} == {*raced[raced["top_ten"]].index}
    assert ratio >= CASES[name].least


@each
def test_what_the_race_decides_is_what_the_exact_ablation_says(name: str) -> None:
    exact, raced = (of_loss(name, effort) for effort in ("full", "standard"))
    decided = raced["decided"].to_numpy()
    agrees = (exact["p_value"] < 0.05) == (raced["p_value"] < 0.05)
    assert agrees[decided].mean() > 0.9  # a p-value near 0.05 may fall on either side
    inside = (raced["lower"] <= exact["delta"] + 1e-5) & (exact["delta"] <= raced["upper"] + 1e-5)
    assert inside.mean() > 0.9  # they are 95 % intervals
    complete = raced["sentences"] == exact["sentences"]
    assert np.allclose(raced["delta"][complete], exact["delta"][complete], atol=1e-5)


@pytest.mark.slow
def test_the_accuracy_is_estimated_where_the_race_ended() -> None:
    exact, raced = (result(FEW, effort).tables["ablation"] for effort in ("full", "standard"))
    exact, raced = (table[table["metric"] == "accuracy"] for table in (exact, raced))
    assert ((raced["lower"] <= exact["delta"]) & (exact["delta"] <= raced["upper"])).all()
    false = (raced["p_value"] < 0.05) & (exact["p_value"] > 0.2)
    assert not false.any()
    assert (raced["sentences"].to_numpy() == of_loss(FEW, "standard")["sentences"]).all()


def test_the_same_request_gives_the_same_bytes() -> None:
    one, again = (of(PLANTED, "standard") for of in (result, result.__wrapped__))
    for name, table in one.tables.items():
        assert table.to_csv() == again.tables[name].to_csv()


def test_quick_scores_every_head_once_and_says_what_is_open() -> None:
    found = result(FEW, "quick")
    table = of_loss(FEW, "quick")
    assert (table["sentences"] == FIRST).all() and table["top_ten"].sum() == 10
    n_open = (~table["decided"]).sum()
    assert n_open and any(f"{n_open} heads" in each.text for each in found.caveats)
    claim = findings_of("head-ablation", found.tables)["heads left undecided by the race"]
    assert claim.verdict == "undecided" and "effort=full" in claim.claim
    assert "2.0 times fewer" in claim.claim


def test_rounds_say_how_many_heads_were_scored() -> None:
    rounds, table = (
        result(PLANTED, "standard").tables["rounds"],
        of_loss(PLANTED, "standard"),
    )
    more = rounds["sentences"].diff().fillna(rounds["sentences"])
    assert (more * rounds["heads"]).sum() == table["sentences"].sum()
    assert rounds["heads"].is_monotonic_decreasing and rounds["heads"].iloc[0] == len(table)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"effort": "full"}, marks=pytest.mark.slow),  # by day, that which races find
        {"max_sentences": FIRST},
        pytest.param({"pairs": "layer"}, marks=pytest.mark.slow),
    ],
)
def test_full_pairs_and_few_sentences_score_all(settings: dict[str, Any]) -> None:
    sizes = {"max_sentences": 130, **settings}
    model = two_heads.standard()
    found = run_here("head-ablation", model, two_heads.texts(300), **sizes)
    table = found.tables["ablation"]
    assert (table["sentences"] == sizes["max_sentences"]).all() and table["decided"].all()
    assert "heads left undecided by the race" not in findings_of("head-ablation", found.tables)


@pytest.mark.slow
@pytest.mark.parametrize("replacement", ["mean", "resample"])
def test_other_replacements_race_too(replacement: str) -> None:
    exact, raced = (
        run_here(
            "head-ablation", shared("mini:bert"), wb.read("primer"), max_sentences=200,
            replacement=replacement, effort=effort,
        ).tables["ablation"].query("metric == 'loss'")
        for effort in ("full", "standard")
    )  # fmt: skip
    assert (exact["top_ten"] == raced["top_ten"]).all()
    assert raced["sentences"].sum() < exact["sentences"].sum()


def test_the_method_says_how_heads_were_scored() -> None:
    assert f"on {FIRST} sentences" in HeadAblation().in_prose()
    assert "sign flips" in HeadAblation(effort="full").in_prose()
