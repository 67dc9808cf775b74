"""Search over heads: known scores are ranked by plain words, and other words name none."""

import pandas as pd
import pytest

from workbench.analyses.heads.views.search import OFFERED, ranked
from workbench.runs.builtin import builtin_run_of

HEAD = ["stack", "kind", "layer", "head"]


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    run = builtin_run_of("heads", "mini:bert", "primer")
    assert run is not None
    return {name: run.tables[name] for name in ("heads", "relations", "offsets")}


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("follows subjects", "nsubj"),
        ("heads that follow the subject", "nsubj"),
        ("indirect objects", "iobj"),
        ("objects", "obj"),
        ("nsubj", "nsubj"),
        ("previous word", "previous word"),
        ("Copies!", "induction"),
        ("the rarest word", "rarest word"),
        ("First token", "first"),
        ("pronouns", "coreference"),
    ],
)
def test_words_name_a_score(tables: dict[str, pd.DataFrame], query: str, name: str) -> None:
    found = ranked(tables, query)
    assert found is not None and found.name == name


def test_what_is_offered_is_understood(tables: dict[str, pd.DataFrame]) -> None:
    assert all(ranked(tables, words) is not None for words in OFFERED)


@pytest.mark.parametrize("query", ["", "quarks", "word", "<b>", "n" * 200])
def test_other_words_name_none(tables: dict[str, pd.DataFrame], query: str) -> None:
    assert ranked(tables, query) is None


def test_heads_are_ranked_by_the_score_of_the_tables(tables: dict[str, pd.DataFrame]) -> None:
    """By a plain loop over the rows."""
    subjects = ranked(tables, "subjects")
    assert subjects is not None and len(subjects.table) == len(tables["heads"])
    best: dict[tuple[object, ...], float] = {}
    for row in tables["relations"].to_dict("records"):
        if row["relation"] == "nsubj":
            head = tuple(row[name] for name in HEAD)
            best[head] = max(best.get(head, 0.0), row["accuracy"])
    scores = subjects.table["score"].tolist()
    assert scores == sorted(best.values(), reverse=True)
    assert best[tuple(subjects.table.iloc[0][HEAD])] == scores[0]
    previous = ranked(tables, "previous word")
    assert previous is not None
    offsets = tables["offsets"].query("offset == -1")
    assert previous.table["score"].iloc[0] == offsets["share"].max()
    assert (previous.table["n"] > 0).all()


def test_a_score_that_was_not_measured_ranks_nothing(tables: dict[str, pd.DataFrame]) -> None:
    heads = tables["heads"].assign(coref_accuracy=0.0)
    if "coref_accuracy_lower" in heads:
        heads = heads.assign(coref_accuracy_lower=0.0, coref_accuracy_upper=1.0)
    found = ranked({**tables, "heads": heads}, "coreference")
    assert found is not None and found.table.empty
