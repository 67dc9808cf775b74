"""Causal, next sentence, replaced tokens and distillation, against definitions."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator
from torch.nn import functional

from tests.analyses.training.batches import Drawn, batch, batches
from workbench.analyses.training.objectives import known, sentence_pairs, takes
from workbench.analyses.training.objectives.distillation import distillation
from workbench.analyses.training.objectives.masked import (
    IGNORED,
    causal,
    detect,
    to_generate,
)


@given(data=batches("gpt"))
def test_causal_targets_are_all_tokens_but_padding(data: tuple[Drawn, int]) -> None:
    (tokens, special, _, vocabulary), _ = data
    out = causal(tokens, special, Generator(), vocabulary)
    there = tokens != vocabulary.pad
    assert torch.equal(out["labels"][there], tokens[there])
    assert (out["labels"][~there] == IGNORED).all()
    assert torch.equal(out["attention_mask"] == 1, there)


@given(data=batches("bert"))
def test_pairs_are_whole_and_their_labels_true(data: tuple[Drawn, int]) -> None:
    (tokens, special, sentences, vocabulary), seed = data
    generator = Generator().manual_seed(seed)
    pairs = sentence_pairs.pairs(tokens, special, generator, vocabulary, sentences=sentences)
    assert pairs.tokens.shape == tokens.shape
    for row, label in enumerate(pairs.labels.tolist()):
        out = [token for token in pairs.tokens[row].tolist() if token != vocabulary.pad]
        segments = pairs.segments[row, : len(out)].tolist()
        assert not pairs.segments[row, len(out) :].any()
        assert out[0] == vocabulary.before[0]
        assert out[-1] == vocabulary.separator
        assert segments == sorted(segments)
        first, second = out[1 : segments.index(1) - 1], out[segments.index(1) : -1]
        source = tokens[row].tolist()
        joined = _within(source, [*first, *second])
        if label == 0:
            assert joined, "said to follow, but it does not"
        assert _within(source, first)
        assert any(_within(other.tolist(), second) for other in tokens)


def _within(row: list[int], part: list[int]) -> bool:
    return any(row[i : i + len(part)] == part for i in range(len(row) - len(part) + 1))


def test_half_of_the_pairs_follow_and_no_other_is_the_true_next() -> None:
    drawn = batch(301, 40, "bert", padding=False, ends=0.0)
    tokens, special, sentences, vocabulary = drawn
    sentences[:, 10] = True
    tokens[::7] = tokens[0]  # texts that stand several times in the corpus
    sentences[::7] = sentences[0]
    count = 0
    for seed in range(20):
        generator = Generator().manual_seed(seed)
        pairs = sentence_pairs.pairs(tokens, special, generator, vocabulary, sentences=sentences)
        count += int(pairs.labels.sum())
        assert int(pairs.labels.sum()) in (150, 151)
        for row in pairs.labels.nonzero()[:, 0].tolist():
            segment = pairs.segments[row]
            begin = int(segment.argmax())
            second = pairs.tokens[row, begin : begin + int(segment.sum()) - 1].tolist()
            kept = pairs.tokens[row, 1 : begin - 1].tolist()
            assert not _within(tokens[row].tolist(), kept + second), "the true next sentence"
    assert 20 * 150 < count < 20 * 151, "an odd one falls to either side"


def test_one_text_over_and_over_has_no_other_sentence() -> None:
    tokens, special, sentences, vocabulary = batch(1, 30, "bert", ends=0.0)
    same = [tensor.repeat(8, 1) for tensor in (tokens, special, sentences)]
    same[2][:] = False
    pairs = sentence_pairs.pairs(same[0], same[1], Generator(), vocabulary, sentences=same[2])
    assert pairs.labels.tolist() == [0] * 8


@given(data=batches("bert"))
def test_bert_masks_what_it_paired(data: tuple[Drawn, int]) -> None:
    drawn, seed = data
    out = sentence_pairs.bert(
        *drawn[:2], Generator().manual_seed(seed), drawn.vocabulary, sentences=drawn.sentences
    )
    assert set(out) == {
        "input_ids",
        "attention_mask",
        "labels",
        "token_type_ids",
        "next_sentence_label",
    }
    chosen = out["labels"] != IGNORED
    assert not (chosen & (out["attention_mask"] == 0)).any()
    assert not drawn.vocabulary.special[out["labels"][chosen]].any()


@given(data=batches("bert"), sharp=st.booleans())
def test_replaced_tokens_are_told_from_originals(data: tuple[Drawn, int], sharp: bool) -> None:
    (tokens, special, _, vocabulary), seed = data
    generator = Generator().manual_seed(seed)
    ask = to_generate(tokens, special, generator, vocabulary)
    chosen = ask["labels"] != IGNORED
    assert (ask["input_ids"][chosen] == vocabulary.mask).all()
    logits = torch.zeros(int(chosen.sum()), vocabulary.size)
    if sharp:  # a generator that is always right
        logits[torch.arange(len(logits)), tokens[chosen]] = 100.0
    out = detect(tokens, chosen, logits, generator, vocabulary)
    assert torch.equal(out["labels"] == 1, out["input_ids"] != tokens)
    assert not (out["labels"].bool() & ~chosen).any()
    assert not vocabulary.special[out["input_ids"][chosen]].any()
    if sharp:
        assert not out["labels"].any(), "a right guess counts as the original"


def test_replacements_are_drawn_by_the_generators_softmax() -> None:
    tokens, _, _, vocabulary = batch(1, 20_000, "bert", padding=False, ends=0.0)
    logits = torch.full((vocabulary.size,), -50.0)
    two, three = vocabulary.ordinary[:2].tolist()
    logits[two], logits[three], logits[vocabulary.special] = 0.0, 1.0, 9.0
    chosen = torch.ones_like(tokens, dtype=torch.bool)
    out = detect(tokens, chosen, logits.expand(20_000, -1), Generator().manual_seed(0), vocabulary)
    share = float((out["input_ids"] == three).float().mean())
    assert abs(share - torch.sigmoid(torch.tensor(1.0))) < 0.015


def test_distillation_is_zero_at_equality_but_for_the_hard_part() -> None:
    logits, hidden = torch.randn(6, 9), torch.randn(11, 4)
    labels = torch.tensor([1, 2, -100, 0, 8, 3])
    out = distillation(logits, logits, labels, hidden, hidden)
    assert abs(float(out["soft"])) < 1e-6
    assert abs(float(out["cosine"])) < 1e-6
    hard = functional.cross_entropy(logits, labels)
    assert torch.allclose(out["loss"], 2.0 * hard)
    assert (
        not distillation(logits, logits, labels, hidden, hidden, weights=(1, 0, 1))["loss"] > 1e-6
    )


def test_distillation_matches_a_computation_by_hand() -> None:
    student, teacher = torch.tensor([[0.0, 1.0]]), torch.tensor([[2.0, 0.0]])
    p, q = torch.tensor([1.0, 0.0]).softmax(0), torch.tensor([0.0, 0.5]).softmax(0)
    soft = float((p * (p / q).log()).sum()) * 4
    hidden = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]])
    out = distillation(student, teacher, torch.tensor([1]), *hidden)
    assert abs(float(out["soft"]) - soft) < 1e-6
    assert abs(float(out["hard"]) + float(student[0].log_softmax(0)[1])) < 1e-6
    assert abs(float(out["cosine"]) - (1 - 0.5**0.5)) < 1e-6
    assert abs(float(out["loss"]) - (5 * out["soft"] + 2 * out["hard"] + out["cosine"])) < 1e-5


def test_every_objective_by_its_name() -> None:
    for name, objective in known().items():
        pairs = name in ("masked-next", "masked-order")
        layout = "t5" if name in T5 else "bert" if pairs else "roberta"
        tokens, special, sentences, vocabulary = batch(6, 50, layout)
        told = {"sentences": sentences} if takes(name, "sentences") else {}
        out = objective.corrupt(tokens, special, Generator().manual_seed(0), vocabulary, **told)
        shapes = {tensor.shape[0] for tensor in out.values()}
        assert shapes == {6}, name
        assert out["input_ids"].max() < vocabulary.size


T5 = "prefix bert-style deshuffle mass-style replace-spans drop-tokens random-spans".split()
