"""Claims of `minimal-pairs` and `trigram` about random weights, for the pooled gate.

Each function is `(twin, corpus, seed) -> (claims tried, false claims, level)`: for a
random twin every claim is false. `describe`, `profile` and `similarity` report numbers and claim
nothing. Costs: a few seconds for each twin of the built-in models.
"""

from typing import Any

import workbench as wb
from tests.judges.odd import odd_corpus, run_here
from workbench import Corpus

PAIRS = 75
Claims = tuple[int, int, float]


def minimal_pairs(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """Above chance, of each phenomenon and of all pairs; the corpus given has no pairs."""
    pairs = wb.read("primer/acceptability")
    table = run_here("minimal-pairs", twin, pairs, seed=seed, max_sentences=2 * PAIRS).tables[
        "pairs"
    ]
    return len(table), int(table["above_chance"].sum()), 0.05


def trigram(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """Better than trigrams, in accuracy and in nats."""
    own = corpus if "train" in corpus.splits else odd_corpus()
    table = run_here("trigram", twin, own, seed=seed, max_sentences=30).tables["scores"]
    return len(table), int(table["better"].sum()), 0.05


CLAIMS = {"minimal-pairs": minimal_pairs, "trigram": trigram}
