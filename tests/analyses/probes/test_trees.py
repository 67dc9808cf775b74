"""Trees against slow, obvious references, and baselines worked out by hand."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import spearmanr
from spacy.tokens import Doc

from workbench.analyses.probes import dependency_trees
from workbench.analyses.probes.dependency_trees import NONE, Tree, trees_of
from workbench.corpora.layers import vocabulary


def doc_of(heads: list[int], pos: list[str] | None = None) -> Doc:
    words = [f"w{place}" for place in range(len(heads))]
    deps = ["root" if head == place else "dep" for place, head in enumerate(heads)]
    return Doc(vocabulary("en"), words=words, heads=heads, deps=deps, pos=pos)


def nothing_missing(words: int) -> np.ndarray:
    return np.zeros(words, dtype=np.bool_)


def random_heads(random: np.random.Generator, words: int) -> list[int]:
    """Any tree: each word hangs on one drawn before it."""
    order = random.permutation(words)
    heads = [0] * words
    heads[order[0]] = int(order[0])
    for place in range(1, words):
        heads[order[place]] = int(order[random.integers(place)])
    return heads


def kruskal(distances: np.ndarray, kept: list[int]) -> set[frozenset[int]]:
    group = {word: {word} for word in kept}
    found = set()
    for first, second in sorted(combinations(kept, 2), key=lambda pair: distances[pair]):
        if group[first] is not group[second]:
            found.add(frozenset((first, second)))
            joined = group[first] | group[second]
            for word in joined:
                group[word] = joined
    return found


def edges(neighbours: np.ndarray) -> set[frozenset[int]]:
    return {frozenset((word, int(n))) for word, n in enumerate(neighbours) if n != NONE}


def test_distances_and_depths_equal_a_walk() -> None:
    random = np.random.default_rng(0)
    for words in (2, 3, 9, 17):
        heads = random_heads(random, words)
        (tree,) = trees_of(doc_of(heads), 3, 5, nothing_missing(words + 5))
        links = {frozenset(pair) for pair in enumerate(heads) if pair[0] != pair[1]}
        for start in range(words):
            reached, ring, away = {start}, {start}, 0
            while ring:
                for word in ring:
                    assert tree.distances[start, word] == away
                ring = {w for link in links if link & ring for w in link} - reached
                reached |= ring
                away += 1
        root = int(np.argmin(tree.depths))
        assert heads[root] == root and (tree.depths == tree.distances[root]).all()
        assert list(tree.rows) == list(range(5, 5 + words)) and tree.document == 3


def test_a_text_of_two_sentences_is_two_trees_and_a_lone_word_is_none() -> None:
    found = trees_of(doc_of([1, 1, 1, 4, 4, 5]), 0, 0, nothing_missing(6))
    assert [list(tree.words) for tree in found] == [[0, 1, 2], [3, 4]]
    assert trees_of(doc_of([0]), 0, 0, nothing_missing(1)) == []
    assert trees_of(doc_of([]), 0, 0, nothing_missing(0)) == []


def test_words_not_read_leave_the_others_where_they_were() -> None:
    missing = np.array([False, True, False, False])
    (tree,) = trees_of(doc_of([0, 0, 1, 0]), 0, 0, missing)
    assert list(tree.words) == [0, 2, 3]
    assert tree.distances.tolist() == [[0, 2, 1], [2, 0, 3], [1, 3, 0]]
    assert list(tree.heads) == [NONE, NONE, 0]  # the head of the second was not read


def test_spanning_trees_equal_kruskals() -> None:
    random = np.random.default_rng(1)
    for words in (2, 5, 12):
        distances = random.random((20, words, words))
        distances = distances + distances.transpose(0, 2, 1)
        kept = random.random((20, words)) < 0.7
        found = dependency_trees.spanning(distances, kept)
        for row in range(20):
            assert edges(found[row]) == kruskal(distances[row], list(np.flatnonzero(kept[row])))


def test_rank_correlation_equals_scipys_with_ties() -> None:
    random = np.random.default_rng(2)
    first, second = random.random((30, 8)).round(1), random.integers(0, 4, (30, 8)).astype(float)
    expected = [spearmanr(a, b).statistic for a, b in zip(first, second, strict=True)]
    assert dependency_trees.correlated(first, second) == pytest.approx(expected)
    assert dependency_trees.correlated(np.ones((1, 4)), np.arange(4.0)[None]) == 0


def test_the_mean_over_lengths_leaves_out_the_short_and_counts_each_length_once() -> None:
    lengths = np.array([3, 5, 5, 8, 60])
    values = np.array([[9.0, 0.2, 0.4, 0.7, 9.0]])
    laid = dependency_trees.by_length(values, lengths)
    assert dependency_trees.mean_of_lengths(laid.sum(1)) == pytest.approx([(0.3 + 0.7) / 2])


def chained(doc: Doc) -> tuple[list[int], float]:
    (tree,) = trees_of(doc, 0, 0, nothing_missing(len(doc)))
    right, ranks = dependency_trees.count_distances(
        dependency_trees.chain_distances(len(doc))[None, None], [tree]
    )
    return right[0, 0].tolist(), float(ranks[0, 0])


def test_the_chain_by_hand() -> None:
    # the old dog , sees cats: the chain has old-dog, dog-sees (over the comma), sees-cats of 4
    doc = doc_of([2, 2, 4, 4, 4, 4], ["DET", "ADJ", "NOUN", "PUNCT", "VERB", "NOUN"])
    right, _ = chained(doc)
    assert right == [3, 4]
    assert chained(doc_of([0, 0, 1, 2])) == ([3, 3], pytest.approx(1))


def test_the_root_is_the_shallowest_word_that_is_no_punctuation() -> None:
    doc = doc_of([1, 1, 1], ["PUNCT", "VERB", "NOUN"])
    (tree,) = trees_of(doc, 0, 0, nothing_missing(3))
    shallow_comma = np.array([[[0.0, 1.0, 2.0]], [[0.0, 2.0, 1.0]]])  # [probes, trees, words]
    right, _ = dependency_trees.count_depths(shallow_comma, [tree])
    assert right[:, 0].tolist() == [[1, 1], [0, 1]]


def test_punctuation_alone_asks_nothing() -> None:
    (tree,) = trees_of(doc_of([0, 0], ["PUNCT", "PUNCT"]), 0, 0, nothing_missing(2))
    assert dependency_trees.count_distances(np.ones((1, 1, 2, 2)), [tree])[0].sum() == 0
    assert dependency_trees.count_depths(np.ones((1, 1, 2)), [tree])[0].sum() == 0


def test_groups_hold_every_tree_once_by_length() -> None:
    lengths = [3, 2, 3, 3]
    many: list[Tree] = [
        trees_of(doc_of([0] * n), place, 0, nothing_missing(n))[0]
        for place, n in enumerate(lengths)
    ]
    found = [places.tolist() for places, _ in dependency_trees.grouped(many, 18)]
    assert found == [[1], [0, 2], [3]]
