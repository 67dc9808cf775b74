"""Claims of `contributions` about random weights, for the pooled gate.

Each function is `(twin, corpus, seed) -> (claims tried, false claims, level)`: no part of a random
twin raises the true word, whatever it adds to the twin's own choice. Costs: some seconds for each
twin of the built-in models.
"""

from typing import Any

from tests.judges.odd import run_here
from tests.judges.twins_facts import LEVEL, Claims, supported
from workbench import Corpus

WORDS = 120


def contributions(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """Some part raises the true word: corrected as a whole, so one claim."""
    found = run_here("contributions", twin, corpus, seed=seed, max_words=WORDS)
    return 1, int(found.tables["components"]["writes"].any()), LEVEL


def contributions_findings(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """Findings of contributions: all follow from one family of tests."""
    found = run_here("contributions", twin, corpus, seed=seed, max_words=WORDS)
    _, n_supported, _ = supported("contributions", found.tables)
    return 1, int(n_supported > 0), LEVEL


CLAIMS = {
    "contributions": contributions,
    "contributions: findings": contributions_findings,
}
