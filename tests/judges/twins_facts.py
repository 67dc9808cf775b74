"""Claims of `minimal-pairs`, `trigram` and `word-vectors` of random weights, for the pooled gate.

Each function is `(twin, corpus, seed) -> (claims tried, false claims, level)`: for a
random twin every claim is false, of the tables and of the findings. `describe`, `profile` and
`similarity` report numbers and claim nothing. Costs: a few seconds for each twin of the built-in
models.
"""

from collections.abc import Mapping
from typing import Any

import workbench as wb
from tests.judges.odd import odd_corpus, run_here
from workbench import Corpus
from workbench.experiment.definition import EXPERIMENTS

PAIRS = 75
LEVEL = 0.05
Claims = tuple[int, int, float]


def _of_pairs(twin: Any, seed: int) -> Mapping[str, Any]:
    """The tables of minimal pairs; the corpus of the gate has none."""
    pairs = wb.read("primer/acceptability")
    return run_here("minimal-pairs", twin, pairs, seed=seed, max_sentences=2 * PAIRS).tables


def _of_trigrams(twin: Any, corpus: Corpus, seed: int) -> Mapping[str, Any]:
    own = corpus if "train" in corpus.splits else odd_corpus()
    return run_here("trigram", twin, own, seed=seed, max_sentences=30).tables


def supported(experiment: str, tables: Mapping[str, Any]) -> Claims:
    """The findings with a null, and how many of them are supported."""
    found = [each for each in EXPERIMENTS[experiment].findings_of(tables) if each.null is not None]
    return len(found), sum(each.verdict == "supported" for each in found), LEVEL


def minimal_pairs(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """Above chance, of each phenomenon and of all pairs."""
    table = _of_pairs(twin, seed)["pairs"]
    return len(table), int(table["above_chance"].sum()), LEVEL


def minimal_pairs_findings(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """Findings of minimal pairs."""
    return supported("minimal-pairs", _of_pairs(twin, seed))


def trigram(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """Better than trigrams, in accuracy and in nats."""
    table = _of_trigrams(twin, corpus, seed)["scores"]
    return len(table), int(table["better"].sum()), LEVEL


def trigram_findings(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """Findings of trigrams."""
    return supported("trigram", _of_trigrams(twin, corpus, seed))


def word_vectors(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """Findings of word vectors: forms of a lemma share pieces, which random weights know too."""
    words = wb.read("primer:size=1000")
    settings = {"n_shuffles": 20, "max_questions": 200}
    return supported(
        "word-vectors", run_here("word-vectors", twin, words, seed=seed, **settings).tables
    )


CLAIMS = {
    "minimal-pairs": minimal_pairs,
    "minimal-pairs: findings": minimal_pairs_findings,
    "word-vectors": word_vectors,
    "trigram": trigram,
    "trigram: findings": trigram_findings,
}
