"""Claims of `patching` about random weights, for the pooled gate.

`patching(twin, corpus, seed)` returns (claims tried, false claims, level) by kind of claim. States,
heads and MLPs are each corrected as a whole, so each is one claim. The built-in pairs are read
whatever the corpus. Costs: some ten seconds for each twin of the built-in models.
"""

from collections.abc import Mapping
from typing import Any

import workbench as wb
from tests.judges.odd import run_here
from tests.judges.twins_facts import LEVEL, Claims, supported
from workbench import Corpus

PAIRS = 100


def patching(twin: Any, corpus: Corpus, seed: int) -> Mapping[str, Claims]:
    """A twin distinguishes pairs, or one of its states, heads or MLPs restores the right word."""
    pairs = wb.read(f"primer/counterfactuals:seed={seed}")
    tables = run_here("patching", twin, pairs, seed=seed, max_pairs=PAIRS).tables
    is_known = bool(tables["pairs"].iloc[-1]["significant"])
    found: dict[str, Claims] = {"patching: pairs": (1, int(is_known), LEVEL)}
    for what in ("states", "heads", "mlps"):
        table = tables[what]
        # the test alone: of what a twin does not tell apart, nothing restores a share
        moves = (table["p"] < LEVEL) & (table["nats"] > 0)
        found[f"patching: {what}"] = 1, int(moves.any()), LEVEL
    _, n_supported, _ = supported("patching", tables)
    return found | {"patching: findings": (1, int(n_supported > 0), LEVEL)}
