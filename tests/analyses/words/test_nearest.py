"""Exact nearest neighbours: equal to scikit-learn's brute force, whatever is tied or missing."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from workbench.analyses.words.nearest import Rows, nearest, nearest_pairs

N, K = 400, 7
RANDOM = np.random.default_rng(0)


def drawn(rows: int = N, width: int = 24, offset: float = 0.0, scale: float = 1.0) -> torch.Tensor:
    values = RANDOM.normal(size=(rows, width)) * scale + offset
    return torch.from_numpy(values.astype(np.float32))


def brute(states: torch.Tensor, queries: torch.Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and indices by scikit-learn, in double precision."""
    search = NearestNeighbors(n_neighbors=k, algorithm="brute", metric="cosine")
    far, indices = search.fit(states.double().numpy()).kneighbors(queries.double().numpy())
    return 1 - far, indices


@pytest.mark.parametrize(("offset", "scale"), [(0.0, 1.0), (8.0, 1.0), (0.0, 1e-4), (50.0, 100.0)])
def test_neighbours_are_those_of_brute_force(offset: float, scale: float) -> None:
    states, queries = drawn(offset=offset, scale=scale), drawn(10, offset=offset, scale=scale)
    rows = Rows.of(states)
    similarities, indices = brute(states, queries, K)
    for number, query in enumerate(queries):
        found = nearest(rows, query, K)
        assert found[1].tolist() == indices[number].tolist()
        np.testing.assert_allclose(found[0], similarities[number], atol=1e-9)


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_only_allowed_rows_are_found(share: float) -> None:
    states, query = drawn(), drawn(1)[0]
    allowed = RANDOM.random(N) < share
    _, found = nearest(Rows.of(states), query, K, allowed)
    _, indices = brute(states[torch.from_numpy(allowed)], query[None], K)
    assert found.tolist() == np.flatnonzero(allowed)[indices[0]].tolist()


def test_of_equal_rows_the_first_are_taken() -> None:
    states = drawn(50)
    query = states[3].clone()
    states[[40, 8, 20]] = 2 * query  # as near as the third row: length does not count
    similarities, found = nearest(Rows.of(states), query, 3)
    assert found.tolist() == [3, 8, 20] and similarities == pytest.approx(1)


def test_each_group_has_its_nearest_row() -> None:
    states, query = drawn(), drawn(1)[0]
    groups = RANDOM.integers(0, 30, N)
    similarities, found = nearest(Rows.of(states), query, K, groups=groups)
    values, order = brute(states, query[None], N)
    first = {group: place for place, group in reversed([*enumerate(groups[order[0]])])}
    places = sorted(first.values())[:K]
    assert found.tolist() == order[0][places].tolist()
    np.testing.assert_allclose(similarities, values[0][places], atol=1e-9)
    every = nearest(Rows.of(states), query, 1000, groups=groups)[1]
    assert len(every) == len(set(groups)) == len(set(groups[every]))


def test_rows_of_zeros_are_no_neighbours() -> None:
    states = drawn(6)
    states[[1, 4]] = 0
    similarities, found = nearest(Rows.of(states), drawn(1)[0], 10)
    assert sorted(found) == [0, 2, 3, 5] and np.isfinite(similarities).all()
    pairs = nearest_pairs(Rows.of(states), np.arange(6), 10, [])
    assert not {1, 4} & {*pairs.queries, *pairs.neighbours}
    nothing = Rows.of(torch.zeros(3, 4))
    assert len(nearest(nothing, torch.ones(4), 2)[1]) == 0
    assert len(nearest_pairs(nothing, np.arange(3), 2, []).queries) == 0


# --- many queries ---------------------------------------------------------------------------------


def test_pairs_are_those_of_brute_force_without_what_is_left_out() -> None:
    states = drawn(120)
    sentences, forms = RANDOM.integers(0, 40, 120), RANDOM.integers(0, 50, 120)
    queries = np.arange(0, 120, 3)
    pairs = nearest_pairs(Rows.of(states), queries, K, [sentences, forms])
    _, order = brute(states, states, 120)
    for query in queries:
        other = (sentences != sentences[query]) & (forms != forms[query])
        expected = [row for row in order[query] if other[row]][:K]
        assert {*pairs.neighbours[pairs.queries == query]} == {*expected}
    np.testing.assert_allclose(pairs.weights, 1 / K)


def test_rows_that_are_equally_near_share_the_rest_of_the_weight() -> None:
    query, near = torch.tensor([1.0, 0.0]), torch.tensor([1.0, 0.1])
    tied = torch.tensor([1.0, 1.0])
    states = torch.stack([query, near, tied, 3 * tied, -query, tied])
    pairs = nearest_pairs(Rows.of(states), np.array([0]), 3, [])
    weight = dict(zip(pairs.neighbours.tolist(), pairs.weights.tolist(), strict=True))
    assert weight == pytest.approx({1: 1 / 3, 2: 2 / 9, 3: 2 / 9, 5: 2 / 9})
    labels = np.array([0, 1, 0, 1, 1, 1])
    matches = labels[pairs.queries] == labels[pairs.neighbours]
    shares = pairs.shares(matches, 6)
    assert shares[0] == pytest.approx(2 / 9) and np.isnan(shares[1:]).all()


def test_a_query_with_fewer_others_has_all_of_them() -> None:
    states, sentences = drawn(5), np.array([0, 0, 0, 1, 2])
    pairs = nearest_pairs(Rows.of(states), np.arange(5), 4, [sentences])
    for query in range(5):
        own = pairs.queries == query
        assert {*pairs.neighbours[own]} == {*np.flatnonzero(sentences != sentences[query])}
        assert pairs.weights[own].sum() == pytest.approx(1)
    alone = nearest_pairs(Rows.of(states), np.arange(5), 4, [np.zeros(5, dtype=np.int64)])
    assert len(alone.queries) == 0


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, queries = Rows.of(drawn()), np.arange(50)
    whole = nearest_pairs(rows, queries, K, [])
    monkeypatch.setattr("workbench.analyses.words.nearest.AT_ONCE", 3 * N)
    parts = nearest_pairs(rows, queries, K, [])
    assert [*whole.queries] == [*parts.queries] and [*whole.neighbours] == [*parts.neighbours]
