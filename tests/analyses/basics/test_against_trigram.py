"""A model and a trigram model on the same pieces, each score computed another way."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.analyses.basics.test_pairs import Quiet
from tests.minis import shared
from tests.models import bilms, headed, zoo
from workbench import Corpus, Model, Settings, WorkbenchError, encode, load, read
from workbench.analyses.basics.experiments import TRIGRAM
from workbench.analyses.basics.trigram import count_trigrams, nats, run
from workbench.experiment import Inputs
from workbench.models.output_heads.lm_losses import candidates
from workbench.models.scoring.lm_scoring import score

CORPUS = read("primer:size=150")
LIMIT = 8


def compared(model: Model, corpus: Corpus = CORPUS) -> dict[str, dict[str, float]]:
    inputs = Inputs((model,), (corpus,), "test", 0, limit=LIMIT)
    table = run(inputs, Settings(), Quiet()).tables["scores"]
    return {row["measure"]: row for row in table.to_dict("records")}


def with_head(kind: str, architecture: str, tmp: Path, uniform: bool = False) -> Any:
    body = zoo.make(kind, tmp / "body")
    return headed.opened(headed.saved(body, architecture, tmp / "head", uniform=uniform))


def pieces(model: Model, corpus: Corpus = CORPUS) -> tuple[list[list[int]], list[list[int]], int]:
    """Training and test split in pieces numbered as they first come, and how many kinds."""
    numbers: dict[int, int] = {}
    found = []
    for docs in (corpus.docs("train"), corpus.docs("test", LIMIT)):
        text = model.encode(encode(docs))
        rows = [ids[mask].tolist() for ids, mask in zip(text.ids, candidates(text), strict=True)]
        found.append([[numbers.setdefault(p, len(numbers)) for p in row] for row in rows])
    return found[0], found[1], len(numbers)


def test_a_causal_model_and_trigrams_predict_the_same_pieces(tmp_path: Path) -> None:
    model = with_head("gpt2", "GPT2LMHeadModel", tmp_path)
    found = compared(model)["perplexity"]
    own = score(model, encode(CORPUS.docs("test", LIMIT)))
    assert found["n"] == own.pieces.sum()
    assert found["model"] == pytest.approx(math.exp(own.nats.sum() / own.pieces.sum()), rel=1e-5)
    rows, held, kinds = pieces(model)
    trigram = count_trigrams(rows, kinds)
    first = int(sum(map(len, held)) != found["n"])  # GPT-2 puts nothing before a text
    assert first == 1
    expected = np.concatenate([nats(trigram, row)[first:-1] for row in held])
    assert found["trigram"] == pytest.approx(math.exp(expected.mean()), rel=1e-6)


def test_one_that_knows_nothing_is_as_perplexed_as_its_vocabulary_is_large(tmp_path: Path) -> None:
    """It is worse beyond doubt, by documents; a model that has learnt is better."""
    model = with_head("gpt2", "GPT2LMHeadModel", tmp_path, uniform=True)
    found = compared(model)
    assert found["perplexity"]["model"] == pytest.approx(model.net.config.vocab_size, rel=1e-4)
    assert found["perplexity"]["trigram"] < 0.2 * found["perplexity"]["model"]
    assert found["accuracy"]["trigram"] > 0.1
    for measure, row in found.items():
        assert row["lower"] < row["gain"] < row["upper"] < 0 and not row["better"], measure
    apart = math.log(found["perplexity"]["trigram"] / found["perplexity"]["model"])
    assert found["perplexity"]["gain"] == pytest.approx(apart)
    mini = compared(shared("mini:gpt"))
    assert mini["perplexity"]["better"] and mini["perplexity"]["lower"] > 0


def test_each_piece_of_a_masked_model_is_hidden_in_turn(tmp_path: Path) -> None:
    model = with_head("bert", "BertForMaskedLM", tmp_path)
    found = compared(model)
    own = score(model, encode(CORPUS.docs("test", LIMIT)), pseudo="original")
    assert found["accuracy"]["n"] == own.pieces.sum()
    assert found["accuracy"]["model"] == pytest.approx(own.right.sum() / own.pieces.sum())
    rows, held, kinds = pieces(model)
    trigram = count_trigrams(rows, kinds)
    right = total = 0
    for row in held:
        whole = [trigram.begin, trigram.begin, *row, trigram.end]
        for at in range(2, len(whole) - 1):
            best = trigram.filling(whole[at - 2 : at], whole[at + 1 : at + 3]).argmax()
            right, total = right + int(best == whole[at]), total + 1
    assert found["accuracy"]["trigram"] == pytest.approx(right / total)


def test_what_t5_must_write_counts_without_its_sentinels(tmp_path: Path) -> None:
    model = with_head("t5", "T5ForConditionalGeneration", tmp_path, uniform=True)
    found = compared(model)
    lengths = [len(row) for row in pieces(model)[1]]
    hidden = [max(round(0.15 * length), 1) for length in lengths if length > 1]
    assert found["accuracy"]["n"] == sum(hidden)
    assert found["perplexity"]["model"] == pytest.approx(model.net.config.vocab_size, rel=1e-4)
    assert 1 < found["perplexity"]["trigram"] < 0.5 * found["perplexity"]["model"]


def test_elmo_is_scored_in_both_directions(tmp_path: Path) -> None:
    words = (token.text for doc in CORPUS.docs("train") for token in doc)
    net = bilms.saved(tmp_path, words, softmax=200)
    found = compared(load(tmp_path, "cpu"))["perplexity"]
    numbers = {word: n for n, word in enumerate(net.words.words[: len(net.bias)])}

    def rows(split: str, limit: int | None, way: int) -> list[list[int]]:
        return [
            [numbers.get(token.text, net.words.unknown) for token in doc][::way]
            for doc in CORPUS.docs(split, limit)
        ]

    expected = []
    for way in (1, -1):
        trigram = count_trigrams(rows("train", None, way), len(numbers))
        expected += [nats(trigram, row) for row in rows("test", LIMIT, way)]
    assert found["n"] == sum(map(len, expected))
    assert found["trigram"] == pytest.approx(math.exp(np.concatenate(expected).mean()), rel=1e-6)
    own = score(load(tmp_path, "cpu"), encode(CORPUS.docs("test", LIMIT)))
    assert found["model"] == pytest.approx(math.exp(own.nats.sum() / own.pieces.sum()), rel=1e-5)


def test_a_corpus_without_a_training_split_says_so(tmp_path: Path) -> None:
    model = with_head("gpt2", "GPT2LMHeadModel", tmp_path)
    bare = Corpus("bare", {"test": CORPUS.splits["test"]})
    with pytest.raises(WorkbenchError, match="split-not-found"):
        run(Inputs((model,), (bare,), "test"), TRIGRAM.settings(), Quiet())


def test_an_unseen_piece_is_scored_too(tmp_path: Path) -> None:
    model = with_head("gpt2", "GPT2LMHeadModel", tmp_path, uniform=True)
    few = Corpus("few", {"train": lambda: CORPUS.docs("train", 3), "test": CORPUS.splits["test"]})
    rows, held, kinds = pieces(model, few)
    assert kinds > len({piece for row in rows for piece in row})
    found = compared(model, few)["perplexity"]
    expected = np.concatenate([nats(count_trigrams(rows, kinds), row)[1:-1] for row in held])
    assert found["trigram"] == pytest.approx(math.exp(expected.mean()), rel=1e-6)
