"""Static vectors: pairs and negatives as in word2vec, and like words come to lie together."""

from pathlib import Path
from random import Random

import pytest
import torch

from tests.analyses.training.lessons import settings
from workbench.analyses.training.objectives.skipgram import WordSampler, pairs
from workbench.analyses.training.train import train
from workbench.models.bilm import Words
from workbench.models.word_models import read_vectors

WORDS = Words(("<S>", "</S>", "<UNK>", "a", "b", "c", "d"), (0, 0, 0, 8, 4, 2, 1))


def chances(kept: float = 1.0) -> WordSampler:
    found = WordSampler(WORDS)
    found.keep[3:] = kept
    return found


def test_pairs_are_neighbours_of_the_same_row() -> None:
    tokens = torch.tensor([[0, 3, 4, 5, 1], [0, 6, 1, 3, 1]])
    centers, contexts = pairs(tokens, chances(), 1, torch.Generator().manual_seed(0))
    found = sorted(zip(centers.tolist(), contexts.tolist(), strict=True))
    assert found == [(3, 4), (3, 6), (4, 3), (4, 5), (5, 4), (6, 3)]


def test_a_window_is_of_random_size_up_to_its_limit() -> None:
    tokens = torch.tensor([[3, 4, 5, 6] * 50])
    generator = torch.Generator().manual_seed(0)
    centers, _ = pairs(tokens, chances(), 4, generator)
    assert len(centers) == pytest.approx(200 * 2 * 2.5, rel=0.1)  # a window of 2.5 on average


def test_no_pairs_where_nothing_is_left() -> None:
    for tokens in (torch.tensor([[0, 1]]), torch.tensor([[0, 3, 1]])):
        centers, contexts = pairs(tokens, chances(), 5, torch.Generator())
        assert len(centers) == len(contexts) == 0


def test_frequent_words_are_thinned_and_marks_left_out() -> None:
    share = torch.tensor([8, 4, 2, 1]) / 15
    torch.testing.assert_close(
        WordSampler(WORDS).keep[3:].float(), (0.25 / share).sqrt().clamp(max=1)
    )
    assert not WordSampler(WORDS).keep[:3].any()


def test_negatives_are_drawn_by_the_power_of_their_counts() -> None:
    drawn = WordSampler(WORDS).negatives((40_000,), torch.Generator().manual_seed(0))
    share = drawn.bincount(minlength=7) / len(drawn)
    wanted = torch.tensor([0, 0, 0, 8, 4, 2, 1]) ** 0.75
    torch.testing.assert_close(share, (wanted / wanted.sum()).float(), atol=0.01, rtol=0)


def test_words_in_like_company_come_to_lie_together(tmp_path: Path) -> None:
    rng, lines = Random(0), []
    kinds = {"animal": "cat dog cow".split(), "drink": "tea milk wine".split()}
    company = {"animal": "runs barks sleeps".split(), "drink": "hot cold sweet".split()}
    for _ in range(900):
        kind = rng.choice([*kinds])
        lines.append(" ".join([rng.choice(kinds[kind]), *rng.choices(company[kind], k=2)]))
        lines.append("")
    out = tmp_path / "v"
    own = settings(120, learning_rate=6e-2, width=16, n_heads=1)
    train("vectors", lines, out, own, home=tmp_path / "tokens")
    vectors = read_vectors(out)
    assert "<S>" not in vectors.rows
    table = torch.nn.functional.normalize(
        vectors.lookup([*kinds["animal"], *kinds["drink"]]), dim=1
    )
    alike = table @ table.T  # [6, 6]
    within = [alike[i, j] for i in range(6) for j in range(6) if i < j and i // 3 == j // 3]
    across = [alike[i, j] for i in range(3) for j in range(3, 6)]
    assert min(within) > max(across) + 0.2

    more = train(
        "vectors", [*lines[:300], "zebra runs"], tmp_path / "on", settings(3, learning_rate=1e-4),
        continue_from=out, home=tmp_path / "tokens",
    )  # fmt: skip
    after = read_vectors(more.folder)
    torch.testing.assert_close(after.lookup(["tea"]), vectors.lookup(["tea"]), atol=1e-2, rtol=0)
    assert "zebra" in after.rows
