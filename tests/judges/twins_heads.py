"""The claims of `heads` on random twins: roles, and findings that are compared with a null."""

from collections.abc import Mapping
from typing import Any

from tests.judges.odd import run_here
from workbench import Corpus
from workbench.core.head_names import ROLES
from workbench.experiment.definition import EXPERIMENTS

SENTENCES = 300
LEVEL = 0.01
Tried = tuple[int, int, float]  # claims tried, claims made, level


def heads(twin: Any, corpus: Corpus, seed: int) -> Mapping[str, Tried]:
    """Every role is a family, corrected over heads (and relations, and offsets)."""
    tables = run_here("heads", twin, corpus, seed, max_sentences=SENTENCES, max_examples=0).tables
    called = {role for roles in tables["heads"]["roles"] for role in str(roles).split(", ")}
    return {f"heads: {role}": (1, int(role in called), LEVEL) for role in ROLES} | claimed(
        "heads", tables, LEVEL
    )


def claimed(experiment: str, tables: Mapping[str, Any], level: float) -> Mapping[str, Tried]:
    """The findings with a null, and how many of them are supported."""
    tested = [each for each in EXPERIMENTS[experiment].findings_of(tables) if each.null is not None]
    n_made = sum(each.verdict == "supported" for each in tested)
    return {f"{experiment}: findings": (len(tested), n_made, level)}
