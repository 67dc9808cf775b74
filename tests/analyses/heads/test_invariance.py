"""What must change nothing: padding, batches, the order of sentences; and what must only move."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from tests.analyses.heads.conftest import random_docs
from tests.analyses.heads.prescribed import HEADS, Prescribed
from tests.night import mostly
from workbench import Result, encode
from workbench.analyses.heads.collect import SUMS, HeadSums, PassSettings, look
from workbench.analyses.heads.gold import gold_of

RunHeads = Callable[..., Result]
DOCS = random_docs(1, 20)


def _sums(model: Any, pieces: int | None = None) -> HeadSums:
    gold = gold_of(DOCS, frequent=10)
    return look(model, encode(DOCS), gold, PassSettings(n_bootstrap=8, n_shuffles=9), pieces=pieces)


def _same(one: HeadSums, other: HeadSums) -> None:
    for name in SUMS:
        for key, numbers in getattr(one, name).items():
            found = getattr(other, name)[key]
            assert torch.allclose(numbers, found, atol=1e-3, rtol=1e-5), (name, key)


@pytest.mark.parametrize("kind", mostly(("self", "causal"), "causal"))
def test_batches_change_nothing_and_neither_does_padding(kind: Any) -> None:
    """Not even intervals and nulls: what is drawn for a document depends on nothing else."""
    whole = _sums(Prescribed(kind))
    for pieces in (1, 60, 300):
        _same(whole, _sums(Prescribed(kind), pieces))
    _same(whole, _sums(Prescribed(kind, left=True)))
    _same(whole, _sums(Prescribed(kind, left=True), 100))


def test_a_pass_that_broke_off_counts_for_nothing() -> None:
    class Once(Prescribed):
        """Runs out of memory on its first large batch, after it has shown a site."""

        broke = False

        def forward(self, pieces: Any, **more: Any) -> Any:
            if len(pieces) > 5 and not self.broke:
                self.broke = True
                from workbench.engine.taps import session

                with session(list(more["taps"]), self.sites, {"encoder": pieces}) as running:
                    site = running.next_site(HEADS, HEADS)
                    running.show(site, self._batched(pieces, site), None)
                    raise torch.OutOfMemoryError
            return super().forward(pieces, **more)

    model = Once()
    _same(_sums(Prescribed()), _sums(model))
    assert model.broke


def test_the_order_of_sentences_changes_no_score(run_heads: RunHeads) -> None:
    class Moved(Prescribed):
        """Knows the documents by their old places."""

        def maps(self, document: int, layer: int, size: int) -> Any:
            return super().maps(len(DOCS) - 1 - document, layer, size)

    scores = ["confidence", "offset_share", "relation_accuracy", "rare_share", "vertical", "role"]
    one = run_heads(Prescribed(), DOCS).tables["heads"][scores]
    other = run_heads(Moved(), DOCS[::-1]).tables["heads"][scores]
    pd.testing.assert_frame_equal(one, other, atol=1e-6)


def test_permuted_heads_are_permuted_rows(run_heads: RunHeads) -> None:
    order = (2, 0, 1)
    one = run_heads(Prescribed(), DOCS).tables["heads"].set_index(["layer", "head"])
    other = run_heads(Prescribed(order=order), DOCS).tables["heads"].set_index(["layer", "head"])
    numbers = one.select_dtypes(np.number).columns
    for layer in (0, 1):
        for head in range(HEADS):
            there, here = one.loc[(layer, order[head]), numbers], other.loc[(layer, head), numbers]
            assert there.to_dict() == pytest.approx(here.to_dict(), abs=1e-5)


def test_the_same_seed_gives_the_same_tables_and_another_seed_other_intervals(
    run_heads: RunHeads,
) -> None:
    one, again = (run_heads(Prescribed(), DOCS, seed=4).tables["heads"] for _ in range(2))
    pd.testing.assert_frame_equal(one, again)
    other = run_heads(Prescribed(), DOCS, seed=5).tables["heads"]
    assert np.allclose(one["confidence"], other["confidence"])
    assert not np.allclose(one["rare_share_lower"], other["rare_share_lower"])


def test_intervals_are_about_as_wide_as_those_of_bootstrap_samples(run_heads: RunHeads) -> None:
    """Poisson weights against drawing documents with replacement."""
    docs = random_docs(2, 60)
    heads = run_heads(Prescribed(max_pieces=None), docs, n_bootstrap=400).tables["heads"]
    row = heads.iloc[0]
    model = Prescribed(max_pieces=None)
    from tests.analyses.heads.reference import Text

    parts = []
    for place, doc in enumerate(docs):
        text = Text(model, doc, place)
        maps = model.maps(place, 0, len(text.owners))[0].tolist()
        given = text.by_word(maps)
        parts.append((sum(sum(special.values()) for _, special in given.values()), len(given)))
    sums = np.array(parts)
    random = np.random.default_rng(0)
    drawn = sums[random.integers(0, len(docs), (2000, len(docs)))].sum(1)
    low, high = np.percentile(drawn[:, 0] / drawn[:, 1], (2.5, 97.5))
    width = row["special_mass_upper"] - row["special_mass_lower"]
    assert width == pytest.approx(high - low, rel=0.25)
    assert row["special_mass_lower"] == pytest.approx(low, abs=0.2 * width)
