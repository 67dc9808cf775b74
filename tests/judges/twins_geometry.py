"""Claims of `geometry` about random weights, for the pooled gate.

Each function is `(twin, corpus, seed) -> (claims tried, false claims, level)`: no random twin is
more contextual, more anisotropic or more dependent on frequency than other random twins. Costs:
some ten seconds for each twin of the built-in models.
"""

from collections.abc import Mapping
from typing import Any

from tests.judges.odd import run_here
from workbench import Corpus
from workbench.experiment.definition import EXPERIMENTS

LEVEL = 0.05
Claims = tuple[int, int, float]


def _tables(twin: Any, corpus: Corpus, seed: int) -> Mapping[str, Any]:
    return run_here("geometry", twin, corpus, seed=seed, max_sentences=200).tables


def geometry(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """The tests of the last layer."""
    tests = _tables(twin, corpus, seed)["tests"]
    return len(tests), int(tests["holds"].sum()), LEVEL


def geometry_findings(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """The findings with a null."""
    found = EXPERIMENTS["geometry"].findings_of(_tables(twin, corpus, seed))
    tried = [each for each in found if each.null is not None]
    return len(tried), sum(each.verdict == "supported" for each in tried), LEVEL


CLAIMS = {"geometry": geometry, "geometry: findings": geometry_findings}
