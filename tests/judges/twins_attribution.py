"""Claims of `attribution` about random weights: tags, relations, and a map without information.

That a method is faithful beyond random orders is no claim about what a model knows: random weights
compute something, and occlusion finds the words it depends on. So it may be supported for a twin.
What must not be is that the control, a random order of the words, is faithful. Costs: about ten
seconds for each twin of the built-in models.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tests.judges.odd import run_here
from workbench import Corpus
from workbench.experiment.definition import EXPERIMENTS

LEVEL = 0.05
METHODS = ("gradient-x-input", "occlusion")
CLAIMED = ("tags", "relations")  # tables whose findings say what a model has learnt
Tried = tuple[int, int, float]


@lru_cache(maxsize=1)
def _tables(twin: Any, corpus: Corpus, seed: int) -> Mapping[str, Any]:
    return run_here(
        "attribution", twin, corpus, seed, methods=METHODS, random_models=0, max_predictions=40
    ).tables


def attribution(twin: Any, corpus: Corpus, seed: int) -> Mapping[str, Tried]:
    """The rows of a table by one method are a family; the control is a test of its own."""
    tables = _tables(twin, corpus, seed)
    claims: dict[str, Tried] = {}
    for name in CLAIMED:
        by_method = tables[name].groupby("method")["p"].min()
        claims[f"attribution: {name}"] = (len(by_method), int((by_method < LEVEL).sum()), LEVEL)
    control = tables["methods"].set_index("method").loc["random"]
    claims["attribution: control"] = (1, int(control["p"] < LEVEL), LEVEL)
    found = EXPERIMENTS["attribution"].findings_of(tables)
    tested = [each for each in found if each.null is not None and each.table in CLAIMED]
    supported = sum(each.verdict == "supported" for each in tested)
    claims["attribution: findings"] = (len(tested), supported, LEVEL)
    return claims
