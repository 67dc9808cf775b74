"""Word merging, masks and scores against a slow, obvious account, on random corpora."""

from collections.abc import Callable

import pandas as pd
import pytest

from tests.analyses.heads.conftest import random_docs
from tests.analyses.heads.prescribed import Prescribed
from tests.analyses.heads.reference import reference_tables
from tests.night import mostly
from workbench import Result

CONVENTIONS = (
    "accuracy", "accuracy_confident", "accuracy_any_dependent", "reliable", "baseline_first",
)  # fmt: skip
SCORES = (
    "confidence", "entropy", "distance", "special_mass", "separator_mass", "first_mass", "previous",
    "diagonal", "vertical", "rare_share",
)  # fmt: skip


@pytest.mark.parametrize("seed", mostly(range(10), 0))
@pytest.mark.parametrize(
    ("kind", "window", "n_global"),
    [("self", 0, 0), ("causal", 0, 0), ("self", 4, 0), ("self", 3, 1)],
)
def test_every_score_is_what_the_maps_say(
    run_heads: Callable[..., Result], seed: int, kind: str, window: int, n_global: int
) -> None:
    """Where attention has a window, what lies outside of it is no miss, in no measure."""
    docs = random_docs(seed)
    model = Prescribed(kind, seed, max_pieces=20, window=window, n_global=n_global)  # type: ignore[arg-type]
    tables = run_heads(model, docs, n_frequent_words=20).tables
    slow = reference_tables(model, docs, 20)
    heads = tables["heads"].set_index(["layer", "head"])
    for name in SCORES:
        for key, value in slow[name].items():
            assert heads.loc[key, name] == pytest.approx(value, abs=1e-5), (name, key)
    offsets = tables["offsets"].set_index(["layer", "head", "offset"])["share"]
    assert offsets.to_dict() == pytest.approx(slow["offsets"], abs=1e-6)
    by = ["layer", "head", "relation", "direction"]
    relations = tables["relations"].set_index(by)
    for name in CONVENTIONS:
        assert relations[name].to_dict() == pytest.approx(slow[name], abs=1e-9), name
    for key, row in relations.iterrows():
        shares = [slow["baselines"][(*key, offset)] for offset in range(-8, 9)]
        assert row["baseline_accuracy"] == pytest.approx(max(shares), abs=1e-9)
        assert shares[row["baseline_offset"] + 8] == max(shares)
    assert heads["reliable"].to_dict() == pytest.approx(slow["reliable_words"], abs=1e-6)
    assert len(relations) > 20


def test_no_table_holds_a_hole(run_heads: Callable[..., Result]) -> None:
    for name, table in run_heads(Prescribed(max_pieces=20), random_docs(3)).tables.items():
        assert isinstance(table, pd.DataFrame)
        assert not table.isna().any().any(), name
