"""CBOW, hierarchical softmax and count vectors, each against a plain loop of its definition."""

import math
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator, Tensor

import workbench as wb
from tests.analyses.training.lessons import settings
from tests.night import mostly
from workbench.analyses.training.families import objectives_of
from workbench.analyses.training.objectives.cbow import NONE, cbow_losses, windows
from workbench.analyses.training.objectives.counts import counts_of, ppmi, truncated
from workbench.analyses.training.objectives.huffman import path_losses, tree
from workbench.analyses.training.objectives.skipgram import SkipGram, WordSampler, pairs
from workbench.analyses.training.train import train
from workbench.models.bilm import Words
from workbench.models.word_models import read_vectors

WORDS = Words(("<S>", "</S>", "<UNK>", "a", "b", "c", "d", "e"), (0, 0, 0, 9, 5, 3, 2, 1))


def sampler(kept: float = 1.0) -> WordSampler:
    found = WordSampler(WORDS)
    found.keep[3:] = kept
    return found


def text(rows: int = 3, length: int = 13, seed: int = 0) -> Tensor:
    drawn = torch.randint(0, 8, (rows, length), generator=Generator().manual_seed(seed))
    return drawn.masked_fill(drawn == 2, 1)


def vectors(outputs: int | None = None) -> SkipGram:
    net = SkipGram(WORDS, 5, 0, outputs)
    with torch.no_grad():
        for weight in net.parameters():
            weight.normal_(generator=Generator().manual_seed(weight.numel()))
    return net


# --- CBOW -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [1.0, 0.6])
def test_a_window_is_all_pairs_of_its_word(kept: float) -> None:
    """With the same draws, skip-gram's pairs are those of CBOW's windows, taken apart."""
    centers, contexts = pairs(text(), sampler(kept), 3, Generator().manual_seed(1))
    around, gold = windows(text(), sampler(kept), 3, Generator().manual_seed(1))
    apart = Counter(
        (int(word), int(other))
        for word, row in zip(gold, around, strict=True)
        for other in row
        if other != NONE
    )
    assert apart == Counter(zip(centers.tolist(), contexts.tolist(), strict=True))
    assert ((around != NONE).sum(1) > 0).all()


def test_windows_of_one_text_in_order() -> None:
    tokens = torch.tensor([[0, 3, 4, 5, 1], [0, 6, 1, 7, 1]])
    around, gold = windows(tokens, sampler(), 1, Generator().manual_seed(0))
    found = {
        int(g): sorted(set(row.tolist()) - {NONE}) for g, row in zip(gold, around, strict=True)
    }
    assert found == {3: [4], 4: [3, 5], 5: [4], 6: [7], 7: [6]}
    for empty in (torch.tensor([[0, 1]]), torch.tensor([[0, 3, 1]])):
        around, gold = windows(empty, sampler(), 4, Generator())
        assert len(around) == len(gold) == 0


def test_cbow_is_the_loop() -> None:
    around, gold = windows(text(), sampler(), 3, Generator().manual_seed(1))
    negatives = sampler().negatives((len(gold), 4), Generator().manual_seed(2))
    net, expected = vectors(), 0.0
    inputs = {"around": around, "gold": gold, "negatives": negatives}
    found = float(cbow_losses(net, inputs))
    for row, word, others in zip(around.tolist(), gold.tolist(), negatives.tolist(), strict=True):
        read = [net.center[other] for other in row if other != NONE]
        mean = sum(read) / len(read)
        expected -= math.log(1 / (1 + math.exp(-float(mean @ net.context[word]))))
        for other in others:
            expected -= math.log(1 / (1 + math.exp(float(mean @ net.context[other]))))
    assert found == pytest.approx(expected, rel=1e-5)


# --- hierarchical softmax -------------------------------------------------------------------------


def lengths_of(counts: tuple[int, ...]) -> list[int]:
    return tree(counts).turns.abs().sum(1).tolist()


@given(counts=st.lists(st.integers(1, 50), min_size=2, max_size=12))
def test_codes_are_a_prefix_code_as_short_as_can_be(counts: list[int]) -> None:
    """Kraft's sum is 1, and the mean length is within a bit of the entropy."""
    lengths = lengths_of((0, *counts))[1:]
    assert sum(2.0**-length for length in lengths) == pytest.approx(1)
    share = [n / sum(counts) for n in counts]
    entropy = -sum(p * math.log2(p) for p in share)
    mean = sum(p * length for p, length in zip(share, lengths, strict=True))
    assert entropy - 1e-9 <= mean < entropy + 1
    merged, left = 0, sorted(counts)
    while len(left) > 1:  # the textbook's cost of Huffman's tree
        pair = left[0] + left[1]
        merged += pair
        left = sorted([*left[2:], pair])
    assert sum(n * length for n, length in zip(counts, lengths, strict=True)) == merged


def test_probabilities_of_all_words_sum_to_one() -> None:
    net, paths = vectors(4), tree(WORDS.counts)
    around = torch.tensor([[3, NONE, 4]])
    total = 0.0
    for word in range(3, 8):
        inputs = {"around": around, "nodes": paths.nodes[[word]], "turns": paths.turns[[word]]}
        total += math.exp(-float(path_losses(net, inputs)))
    assert total == pytest.approx(1, abs=1e-6)
    assert not paths.turns[:3].any(), "marks are no words"


@pytest.mark.parametrize("several", [False, True])
def test_hierarchical_softmax_is_the_loop(several: bool) -> None:
    net, paths = vectors(4), tree(WORDS.counts)
    if several:
        around, gold = windows(text(), sampler(), 3, Generator().manual_seed(1))
    else:
        centers, gold = pairs(text(), sampler(), 3, Generator().manual_seed(1))
        around = centers[:, None]
    inputs = {"around": around, "nodes": paths.nodes[gold], "turns": paths.turns[gold]}
    found, expected = float(path_losses(net, inputs)), 0.0
    for row, word in zip(around.tolist(), gold.tolist(), strict=True):
        read = [net.center[other] for other in row if other != NONE]
        mean = sum(read) / len(read)
        for node, turn in zip(paths.nodes[word].tolist(), paths.turns[word].tolist(), strict=True):
            if turn:
                score = float(mean @ net.context[node])
                left = 1 / (1 + math.exp(-score))
                expected -= math.log(left if turn == 1 else 1 - left)
    assert found == pytest.approx(expected, rel=1e-5)


# --- counts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 3, 20])
def test_counts_and_ppmi_are_the_loop(window: int) -> None:
    texts, counts = [text(seed=1), text(2, 9, seed=2)], np.zeros((8, 8))
    for batch in texts:
        for row in batch.tolist():
            words = [word for word in row if word >= 3]
            for i, one in enumerate(words):
                for j, other in enumerate(words):
                    if i != j and abs(i - j) <= window:
                        counts[one, other] += (window + 1 - abs(i - j)) / window
    found = counts_of(texts, torch.tensor(WORDS.counts) > 0, window)
    np.testing.assert_allclose(found.toarray(), counts)
    contexts = counts.sum(0) ** 0.75
    expected = np.zeros((8, 8))
    for one in range(8):
        for other in range(8):
            if counts[one, other]:
                joint = counts[one, other] / counts.sum()
                alone = counts[one].sum() / counts.sum() * contexts[other] / contexts.sum()
                expected[one, other] = max(0.0, math.log(joint / alone))
    np.testing.assert_allclose(ppmi(found).toarray(), expected, atol=1e-12)


def test_truncated_vectors_are_the_best_of_their_rank() -> None:
    """Rows of U S^0.5 of a dense SVD, up to signs; beyond the rank there is nothing."""
    matrix = ppmi(counts_of([text(9, 30)], torch.tensor(WORDS.counts) > 0, 2))
    u, s, _ = np.linalg.svd(matrix.toarray())
    found = truncated(matrix, 3)
    np.testing.assert_allclose(np.abs(found), np.abs(u[:, :3] * s[:3] ** 0.5), atol=1e-5)
    np.testing.assert_array_equal(found, truncated(matrix, 3))
    wide = truncated(matrix, 12)
    assert wide.shape == (8, 12) and not wide[:, 7:].any()
    np.testing.assert_allclose(np.abs(wide[:, :3]), np.abs(found), atol=1e-5)


# --- the family -----------------------------------------------------------------------------------


def test_all_are_objectives_of_vectors() -> None:
    assert objectives_of("vectors")[0] == "skip-gram"
    known = {"skip-gram", "cbow", "skip-gram-tree", "cbow-tree", "ppmi"}
    assert set(objectives_of("vectors")) == known


KINDS = {"animal": "cat dog cow".split(), "drink": "tea milk wine".split()}
COMPANY = {"animal": "runs barks sleeps".split(), "drink": "hot cold sweet".split()}


@pytest.mark.parametrize(
    "objective", mostly(["cbow", "skip-gram-tree", "cbow-tree", "ppmi"], "cbow-tree", "ppmi")
)
def test_words_in_like_company_come_to_lie_together(objective: str, tmp_path: Path) -> None:
    rng, lines = Random(0), []
    for _ in range(900):
        kind = rng.choice([*KINDS])
        lines.append(" ".join([rng.choice(KINDS[kind]), *rng.choices(COMPANY[kind], k=2)]))
        lines.append("")
    own = settings(120, learning_rate=6e-2, width=16, n_heads=1, objective=objective)
    found = train("vectors", lines, tmp_path / "v", own, home=tmp_path / "tokens")
    assert (found.rows == ()) == (objective == "ppmi")
    read = read_vectors(tmp_path / "v")
    table = read.lookup([*KINDS["animal"], *KINDS["drink"]])
    table = torch.nn.functional.normalize(table, dim=1)
    alike = table @ table.T
    within = [alike[i, j] for i in range(6) for j in range(6) if i < j and i // 3 == j // 3]
    across = [alike[i, j] for i in range(3) for j in range(3, 6)]
    assert min(within) > max(across) + 0.2
    assert wb.load(tmp_path / "v", device="cpu").width == 16


def test_counts_continue_no_model(tmp_path: Path) -> None:
    with pytest.raises(wb.WorkbenchError, match="text alone"):
        train("vectors", ["a b c"], tmp_path / "v", settings(1, objective="ppmi"),
              continue_from=tmp_path)  # fmt: skip
