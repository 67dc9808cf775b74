"""Heads that do the same are at no distance, whatever else; others as far as their rows."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon

from tests.analyses.heads.conftest import random_docs
from tests.analyses.heads.prescribed import HEADS, LAYERS, Prescribed
from workbench import Result
from workbench.analyses.heads.clustering import divergence, on_a_map

RunHeads = Callable[..., Result]


def test_divergence_is_that_of_every_row() -> None:
    torch.manual_seed(0)
    ours = [torch.rand(3, 4, 5).softmax(-1), torch.rand(3, 2, 3).softmax(-1)]
    theirs = [torch.rand(2, 4, 5).softmax(-1), torch.rand(2, 2, 3).softmax(-1)]
    found = divergence(ours, theirs)
    for one in range(3):
        for other in range(2):
            rows = [
                jensenshannon(a[one, row], b[other, row], base=2) ** 2
                for a, b in zip(ours, theirs, strict=True)
                for row in range(a.shape[1])
            ]
            assert float(found[one, other]) == pytest.approx(np.mean(rows), abs=1e-6)


def test_places_keep_distances_that_a_plane_can_keep() -> None:
    places = np.random.default_rng(0).normal(size=(7, 2))
    apart = np.linalg.norm(places[:, None] - places[None], axis=-1)
    found = on_a_map(apart)
    assert np.allclose(np.linalg.norm(found[:, None] - found[None], axis=-1), apart)


def test_every_head_is_its_own_nearest_kin(run_heads: RunHeads) -> None:
    docs = random_docs(0, 8)
    order = (1, 2, 0)
    found = run_heads(Prescribed(), docs, Prescribed(order=order), max_examples=8).tables["kin"]
    assert len(found) == LAYERS * HEADS
    for _, row in found.iterrows():
        assert (row["kin_layer"], order[row["kin_head"]]) == (row["layer"], row["head"])
        assert row["distance"] == pytest.approx(0, abs=1e-3)


def test_twins_are_joined_first(run_heads: RunHeads) -> None:
    tables = run_heads(Prescribed(order=(0, 1, 1)), random_docs(0, 8)).tables
    clusters = tables["clusters"].set_index(["layer", "head"])
    for layer in range(LAYERS):
        assert clusters.loc[(layer, 1), "cluster"] == clusters.loc[(layer, 2), "cluster"]
        assert clusters.loc[(layer, 1), "nearest_head"] == 2
    assert (tables["dendrogram"]["distance"].iloc[:LAYERS] < 1e-3).all()
    assert len(tables["dendrogram"]) == LAYERS * HEADS - 1
    assert (tables["dendrogram"]["size"].iloc[-1]) == LAYERS * HEADS
