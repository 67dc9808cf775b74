"""Random twins of the built-in models are not claimed to know anything."""

import pytest
from scipy.stats import binom

import workbench as wb
from tests.judges.odd import odd_corpus
from tests.judges.twins_facts import CLAIMS
from workbench.corpora.corpus import Corpus

MINIS = ("mini:bert", "mini:gpt", "mini:elmo", "mini:t5")


def pooled(name: str, corpus: Corpus, twins: int, refs: tuple[str, ...]) -> None:
    tried = false = 0
    level = 0.05
    for ref in refs:
        for seed in range(twins):
            twin = wb.load(f"{ref}@random", "cpu", seed=seed)
            some, wrong, level = CLAIMS[name](twin, corpus, seed)
            tried, false = tried + some, false + wrong
    most = binom.ppf(0.99, tried, level)
    print(f"{name}: {false} false claims of {tried}, at most {most:.0f} at level {level}")
    assert tried and false <= most


def test_a_small_case() -> None:
    small = odd_corpus({"train": 30, "dev": 1, "test": 10})
    pooled("minimal-pairs", small, 1, ("mini:gpt",))
    pooled("trigram", small, 1, ("mini:gpt",))


@pytest.mark.slow
@pytest.mark.parametrize("name", CLAIMS)
def test_twenty_twins(name: str) -> None:
    pooled(name, odd_corpus({"train": 60, "dev": 1, "test": 30}), 5, MINIS)
