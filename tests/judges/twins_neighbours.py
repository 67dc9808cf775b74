"""Claims of `neighbours` about random weights, for the pooled gate.

Each function is `(twin, corpus, seed) -> (claims tried, false claims, level)`: neighbours of no
random twin share labels, and in none are senses separated, beyond what other random twins do, whose
layers also mix a word with its context. Costs: some ten seconds for each twin of the built-in
models.
"""

from collections.abc import Mapping
from typing import Any

from tests.judges.odd import run_here
from workbench import Corpus
from workbench.experiment.definition import EXPERIMENTS

QUERIES = 200
LEVEL = 0.05
Claims = tuple[int, int, float]


def _tables(twin: Any, corpus: Corpus, seed: int) -> Mapping[str, Any]:
    return run_here(
        "neighbours", twin, corpus, seed=seed, max_queries=QUERIES, max_sentences=400,
        n_permutations=19, max_examples=0,
    ).tables  # fmt: skip


def neighbours(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """Labels that neighbours share, and senses that are separated."""
    tests = _tables(twin, corpus, seed)["tests"]
    return len(tests), int(tests["holds"].sum()), LEVEL


def neighbours_findings(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """The findings with a null."""
    found = EXPERIMENTS["neighbours"].findings_of(_tables(twin, corpus, seed))
    tried = [each for each in found if each.null is not None]
    return len(tried), sum(each.verdict == "supported" for each in tried), LEVEL


CLAIMS = {"neighbours": neighbours, "neighbours: findings": neighbours_findings}
