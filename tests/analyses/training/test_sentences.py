"""Sentences one by one: every one once an epoch, like lengths together, any step by itself."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.analyses.training.lessons import lesson, settings
from tests.analyses.training.texts import tokenizer
from tests.night import mostly
from workbench import WorkbenchError
from workbench.analyses.training.packing import SIMILAR, Sentences, sentences_of
from workbench.analyses.training.token_store import Store, tokenize_text
from workbench.analyses.training.train import train
from workbench.analyses.training.vocabulary import vocabulary_of


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    lines = [line + " And so on." * (n % 7) for n, line in enumerate(lesson(200)) if line]
    own = tokenizer("wordpiece", "bert")
    return tokenize_text(lines, own, tmp_path_factory.mktemp("tokens"), processes=1)


def rows(store: Store, seed: int = 0, length: int = 64, alike: int = SIMILAR) -> Sentences:
    vocabulary = vocabulary_of(tokenizer("wordpiece", "bert"))
    return sentences_of(store, vocabulary, length, seed, 0.1, alike)[0]


def test_lengths_are_those_of_the_sentences(store: Store) -> None:
    found = store.lengths()
    assert found.tolist() == [len(store.sentence(n)) for n in range(store.manifest.sentences)]


@pytest.mark.parametrize("alike", [1, SIMILAR])
def test_each_epoch_has_every_sentence_once_in_another_order(store: Store, alike: int) -> None:
    found = rows(store, alike=alike)
    size = len(found)
    assert size == store.manifest.sentences - int(np.ceil(0.1 * store.manifest.sentences))
    first, second = found.order(0, size), found.order(size, size)
    assert sorted(first) == sorted(second) == list(range(size))
    assert first.tolist() != second.tolist()
    assert first.tolist() != rows(store, seed=1, alike=alike).order(0, size).tolist()


@given(seed=st.integers(0, 9), position=st.integers(0, 2000), count=st.integers(1, 70))
def test_any_step_is_reached_without_the_ones_before(
    store: Store, seed: int, position: int, count: int
) -> None:
    found = rows(store, seed)
    assert (
        found.order(position, count).tolist()
        == found.order(0, position + count)[position:].tolist()
    )


def test_neighbours_are_of_like_length(store: Store) -> None:
    lengths, found = store.lengths(), rows(store)
    order = found.order(0, len(found) // SIMILAR * SIMILAR).reshape(-1, SIMILAR)
    spread = [int(np.ptp(lengths[run])) for run in order]
    random = found.order(0, SIMILAR) * 0 + np.arange(SIMILAR)
    assert np.median(spread) <= 2 < np.ptp(lengths[random])


def test_a_long_sentence_loses_its_end_and_keeps_its_frame(store: Store) -> None:
    found = rows(store, length=8).sequences(np.arange(20))
    assert found.tokens.shape == (20, 8)
    vocabulary = vocabulary_of(tokenizer("wordpiece", "bert"))
    assert (found.tokens[:, 0] == vocabulary.before[0]).all()
    for row in found.tokens:
        assert row[row != vocabulary.pad][-1] == vocabulary.after[-1]
    assert torch.equal(found.special, vocabulary.special[found.tokens])


def test_what_needs_the_order_of_sentences_refuses_them(tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match="rows is sentences") as caught:
        train("bert", lesson(), tmp_path / "out", settings(rows="sentences"))
    assert "masked" in caught.value.remedy
    with pytest.raises(WorkbenchError, match="not a value of rows"):
        train("gpt", lesson(), tmp_path / "out", settings(rows="lines"))


@pytest.mark.parametrize("family", mostly(["gpt", "t5", "roberta"], "t5"))
def test_families_learn_from_sentences(family: str, tmp_path: Path, tokens: Path) -> None:
    hidden = {} if family == "gpt" else {"mask_rate": 0.4}
    packed, by_row = settings(3, **hidden), settings(15, rows="sentences", **hidden)
    told = train(family, lesson(), tmp_path / "out", packed, home=tokens, device="cpu")
    found = train(family, lesson(), tmp_path / "rows", by_row, home=tokens, device="cpu")
    assert found.rows[-1].loss < found.rows[0].loss - 0.3
    assert found.rows[-1].tokens / 15 < told.rows[-1].tokens / 3  # sentences are shorter
    assert found.recipe["key"] != told.recipe["key"]
