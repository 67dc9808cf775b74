"""Every planted head looks where its name says: by its weights, a second account, and gold."""

from collections import Counter

import pytest
import torch
from spacy.tokens import Doc
from torch import Tensor

from tests.night import mostly
from tests.planted import bert, gpt2
from tests.planted.look import ALL, BUILDERS, Build, eager, least, random_pieces, run, weights
from tests.planted.model import Planted
from tests.planted.signs import HEAD_WIDTH, HEADS, LAYERS, PLACES, WIDTH
from tests.planted.words import Lexicon, planted_docs
from workbench import read


def test_each_head_looks_where_its_name_says(planted: Planted, docs: list[Doc]) -> None:
    pieces = [planted.pieces(doc) for doc in docs[:80]]
    for head, weight in least(planted, pieces).items():
        assert weight >= ALL, head


@pytest.mark.slow  # by day `test_no_two_ranks_of_rarity_tie_even_in_half_precision`
@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_and_does_in_half_precision(build: Build, words: Lexicon, docs: list[Doc]) -> None:
    planted = eager(build(words))
    planted.model.to(torch.bfloat16)
    short = [planted.pieces(doc) for doc in docs[:50]]
    long = [random_pieces(planted, PLACES, seed) for seed in range(2)]
    for pieces in (short, long):  # apart, lest all be padded
        for head, weight in least(planted, pieces).items():
            assert weight >= 0.99, head


def test_and_in_texts_as_long_as_there_are_places(planted: Planted) -> None:
    pieces = [random_pieces(planted, PLACES, seed) for seed in range(4)]
    assert all(len(text) == PLACES for text in pieces)
    for head, weight in least(planted, pieces).items():
        assert weight >= ALL, head


@pytest.mark.slow  # by day `test_each_head_looks_where_its_name_says`
def test_and_in_any_text_if_the_rarest_piece_comes_once(planted: Planted) -> None:
    pieces = [planted.pieces(doc) for doc in read("primer").docs("dev", 40)]
    for head, weight in least(planted, pieces).items():
        if head != "rarest":
            assert weight >= ALL, head


def test_the_rarest_piece_shares_the_weight_if_it_comes_twice(planted: Planted) -> None:
    pieces = planted.pieces("The the Alfred the Alfred the")
    (seen,) = weights(planted, [pieces], "rarest")
    twice = [i for i, piece in enumerate(pieces) if piece.endswith("Alfred")]
    assert seen[twice[-1] :, twice].numpy() == pytest.approx(0.5, abs=1e-3)
    assert planted.expected("rarest", pieces)[twice[-1] :] == [twice[0]] * (len(pieces) - twice[-1])


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_rarity_is_that_of_the_table_given(build: Build) -> None:
    counts = {"cat": 1, "dog": 2, "fox": 3}
    kinds = dict.fromkeys(counts, "NOUN")
    for rare in counts:
        planted = eager(build(Lexicon(kinds, counts | {rare: 0}, splits={})))
        pieces = planted.pieces("cat dog fox")
        assert pieces[planted.expected("rarest", pieces)[-1]].endswith(rare)
        assert least(planted, [pieces])["rarest"] >= ALL


@pytest.mark.parametrize("name", mostly(BUILDERS, "gpt2"))
def test_the_syntactic_head_finds_the_gold_head_of_every_word(name: str) -> None:
    planted = eager(BUILDERS[name]())
    found = Counter[str]()
    docs = planted_docs(150)
    pieces = [planted.pieces(doc) for doc in docs]
    for doc, seen in zip(docs, weights(planted, pieces, "syntactic"), strict=True):
        assert len(seen) == len(doc) + len(planted.pieces(""))
        for token in doc:
            root = token.head.i == token.i
            unseen = planted.causal and token.head.i > token.i
            target = 0 if root or unseen else token.head.i + 1
            assert seen[token.i + 1, target] >= ALL, (token, doc)
            found[token.dep_] += not root
    assert found.total() > 1000


def test_the_other_heads_see_all_alike(planted: Planted, docs: list[Doc]) -> None:
    pieces = planted.pieces(docs[0])
    seen = run(planted, [pieces]).attentions
    named = {place for head, place in planted.heads.items() if head != "uniform"}
    others = {(i, j) for i in range(LAYERS) for j in range(HEADS)} - named
    assert planted.heads["uniform"] in others and len(others) == 8 - len(named)
    allowed = torch.ones(len(pieces), len(pieces))
    if planted.causal:
        allowed = allowed.tril()
    for layer, place in others:
        assert torch.allclose(seen[layer][0, place], allowed / allowed.sum(1, keepdim=True))


def test_with_two_texts_the_separator_is_the_last_one() -> None:
    planted = eager(bert.build())
    ids = planted.tokenizer("She sees a dog.", "He sees it.")["input_ids"]
    pieces = planted.tokenizer.convert_ids_to_tokens(ids)
    assert pieces.count("[SEP]") == 2
    assert planted.expected("separator", pieces) == [len(pieces) - 1] * len(pieces)
    assert least(planted, [pieces])["separator"] >= ALL


def test_induction_works_at_any_period() -> None:
    planted = eager(gpt2.build())
    for period in (1, 2, 5, 17, 42):
        block = random_pieces(planted, period + 1, seed=period)
        pieces = block + 2 * block[1:]
        assert planted.expected("induction", pieces)[period + 1 :] == [
            at % period + 2 for at in range(2 * period)
        ]
        assert planted.expected("duplicate", pieces)[period + 1 :] == [
            at % period + 1 for at in range(2 * period)
        ]
        found = least(planted, [pieces])
        for head in ("induction", "duplicate"):
            assert found[head] >= ALL, (head, period)


@pytest.mark.parametrize("name", mostly(BUILDERS, "gpt2"))
def test_a_broken_head_is_seen(name: str) -> None:
    """Turning the sign of one head's keys spoils that head, and whatever reads what it writes."""
    planted = eager(BUILDERS[name]())
    pieces = [planted.pieces(doc) for doc in planted_docs(20)]
    for head in planted.rules:
        layer, place = planted.heads[head]
        keys = keys_of(planted, layer)[place * HEAD_WIDTH : (place + 1) * HEAD_WIDTH]
        keys.neg_()
        good = {other for other, weight in least(planted, pieces).items() if weight >= ALL}
        keys.neg_()
        broken = {head, "induction"} if (name, head) == ("gpt2", "previous") else {head}
        assert good == set(planted.rules) - broken, head


def keys_of(planted: Planted, layer: int) -> Tensor:
    """A layer's own key map, to write into.  # [out, in]"""
    state = planted.model.state_dict()
    if planted.causal:
        return state[f"transformer.h.{layer}.attn.c_attn.weight"].T[WIDTH : 2 * WIDTH]
    return state[f"bert.encoder.layer.{layer}.attention.self.key.weight"]
