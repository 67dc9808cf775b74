"""Claims of `lens` about random weights, for the pooled gate.

Each function is `(twin, corpus, seed) -> (claims tried, false claims, level)`: no random twin
predicts better than the most frequent piece, and none decides some words earlier than others beyond
what other random twins do. Costs: some ten seconds for each twin of the built-in models.
"""

from collections.abc import Mapping
from typing import Any

from tests.judges.odd import run_here
from workbench import Corpus
from workbench.experiment.definition import EXPERIMENTS

WORDS = 150
LEVEL = 0.05
Claims = tuple[int, int, float]


def _tables(twin: Any, corpus: Corpus, seed: int) -> Mapping[str, Any]:
    return run_here("lens", twin, corpus, seed=seed, max_predictions=WORDS, sublayers=False).tables


def lens(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """Words predicted right, and groups of words whose predictions become final earlier."""
    tests = _tables(twin, corpus, seed)["tests"]
    return len(tests), int(tests["holds"].sum()), LEVEL


def lens_findings(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """The findings with a null."""
    found = EXPERIMENTS["lens"].findings_of(_tables(twin, corpus, seed))
    tried = [each for each in found if each.null is not None]
    return len(tried), sum(each.verdict == "supported" for each in tried), LEVEL


CLAIMS = {"lens": lens, "lens: findings": lens_findings}
