"""Claims of `tuned-lens` about random weights, for the pooled gate.

Maps may bring the layers of random weights close to their last layer; that shows nothing about
texts, so no finding with a null may be supported, and no layer predicts better than frequencies.
Costs: some seconds for each twin of the built-in models.
"""

from collections.abc import Mapping
from typing import Any

from tests.judges.odd import odd_corpus, run_here
from workbench import Corpus
from workbench.experiment.definition import EXPERIMENTS

LEVEL = 0.05
Claims = tuple[int, int, float]


def _tables(twin: Any, corpus: Corpus, seed: int) -> Mapping[str, Any]:
    own = corpus if "train" in corpus.splits else odd_corpus()
    return run_here(
        "tuned-lens", twin, own, seed=seed, max_train=100, max_dev=40, max_test=60, steps=50
    ).tables


def above_frequencies(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """Layers that predict the true pieces better than the frequencies of pieces."""
    table = _tables(twin, corpus, seed)["layers"]
    return len(table), int((table["gain_lower"] > 0).sum()), LEVEL


def findings(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """Findings with a null."""
    found = EXPERIMENTS["tuned-lens"].findings_of(_tables(twin, corpus, seed))
    tested = [each for each in found if each.null is not None]
    return len(tested), sum(each.verdict == "supported" for each in tested), LEVEL


CLAIMS = {"tuned-lens": above_frequencies, "tuned-lens: findings": findings}
