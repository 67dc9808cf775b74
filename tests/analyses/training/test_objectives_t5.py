"""T5's seven: what is recoverable is recovered, sentinels are in order, special tokens stay."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from torch import Generator

from tests.analyses.training.batches import Drawn, batch, batches, real
from tests.analyses.training.texts import tokenizer
from workbench import WorkbenchError
from workbench.analyses.training.families import build, size_of
from workbench.analyses.training.objectives import t5
from workbench.analyses.training.task import Corruption

BY_SENTINELS = pytest.mark.parametrize("objective", [t5.replace_spans, t5.random_spans])
WHOLE = pytest.mark.parametrize("objective", [t5.bert_style, t5.mass_style, t5.deshuffle])


def recovered(inputs: list[int], targets: list[int], sentinels: tuple[int, ...]) -> list[int]:
    """The original: each sentinel of the input replaced by what stands behind it in the target."""
    behind: dict[int, list[int]] = {}
    for token in targets:
        if token in sentinels:
            behind[token] = found = []
        else:
            found.append(token)
    return [t for token in inputs for t in (behind[token] if token in sentinels else [token])]


@BY_SENTINELS
@given(data=batches("t5", "unigram"))
def test_the_original_is_recovered(objective: Corruption, data: tuple[Drawn, int]) -> None:
    drawn, seed = data
    vocabulary = drawn.vocabulary
    out = objective(*drawn[:2], Generator().manual_seed(seed), vocabulary)
    for row in range(len(drawn.tokens)):
        inputs, targets = real(out["input_ids"][row], drawn), real(out["labels"][row], drawn)
        in_input = [token for token in inputs if token in vocabulary.sentinels]
        in_target = [token for token in targets if token in vocabulary.sentinels]
        assert in_input == list(vocabulary.sentinels[: len(in_input)]), "in order, from the first"
        assert in_target == list(vocabulary.sentinels[: len(in_input) + 1]), "and one more"
        assert targets[-1] == vocabulary.end
        assert targets[-2] == in_target[-1], "the last stands before the end"
        assert recovered(inputs, targets[:-1], vocabulary.sentinels) == real(
            drawn.tokens[row], drawn
        )


@BY_SENTINELS
@given(data=batches("t5", "unigram"))
def test_runs_are_apart_and_hold_no_special_token(
    objective: Corruption, data: tuple[Drawn, int]
) -> None:
    drawn, seed = data
    out = objective(*drawn[:2], Generator().manual_seed(seed), drawn.vocabulary)
    sentinels = torch.tensor(drawn.vocabulary.sentinels)
    signs = torch.isin(out["input_ids"], sentinels)
    assert not (signs[:, 1:] & signs[:, :-1]).any()
    for row in out["labels"]:
        kept = [t for t in real(row, drawn)[:-1] if t not in drawn.vocabulary.sentinels]
        assert not drawn.vocabulary.special[torch.tensor(kept, dtype=torch.long)].any()


@WHOLE
@given(data=batches("t5", "unigram"))
def test_the_whole_text_is_asked_back(objective: Corruption, data: tuple[Drawn, int]) -> None:
    drawn, seed = data
    out = objective(*drawn[:2], Generator().manual_seed(seed), drawn.vocabulary)
    special = drawn.special & (drawn.tokens != drawn.vocabulary.pad)
    for row in range(len(drawn.tokens)):
        original = real(drawn.tokens[row], drawn)
        assert real(out["labels"][row], drawn) == original
        inputs = real(out["input_ids"][row], drawn)
        assert len(inputs) == len(original)
        assert all(inputs[i] == original[i] for i in special[row].nonzero()[:, 0])
        if objective is t5.deshuffle:
            assert Counter(inputs) == Counter(original)


@given(data=batches("t5", "unigram"))
def test_prefix_and_rest_make_up_the_text(data: tuple[Drawn, int]) -> None:
    drawn, seed = data
    out = t5.prefix_lm(*drawn[:2], Generator().manual_seed(seed), drawn.vocabulary)
    for row in range(len(drawn.tokens)):
        inputs, targets = real(out["input_ids"][row], drawn), real(out["labels"][row], drawn)
        assert inputs[-1] == drawn.vocabulary.end
        assert inputs[:-1] + targets == real(drawn.tokens[row], drawn)
        if (~drawn.special[row]).sum() > 1:
            assert len(inputs) > 1 and len(targets) > 1, "both have some of the text"


@given(data=batches("t5", "unigram"))
def test_dropped_tokens_are_missing_and_asked_for(data: tuple[Drawn, int]) -> None:
    drawn, seed = data
    out = t5.drop_tokens(*drawn[:2], Generator().manual_seed(seed), drawn.vocabulary)
    for row in range(len(drawn.tokens)):
        inputs, targets = real(out["input_ids"][row], drawn), real(out["labels"][row], drawn)
        assert Counter(inputs + targets[:-1]) == Counter(real(drawn.tokens[row], drawn))


@given(data=batches("t5", "unigram"))
def test_the_decoder_reads_what_it_wrote(data: tuple[Drawn, int]) -> None:
    drawn, seed = data
    out = t5.random_spans(*drawn[:2], Generator().manual_seed(seed), drawn.vocabulary)
    pad = drawn.vocabulary.pad
    read, labels = out["decoder_input_ids"], out["labels"]
    assert (read[:, 0] == pad).all()
    assert torch.equal(read[:, 1:], labels[:, :-1].masked_fill(labels[:, :-1] == -100, pad))
    assert torch.equal(out["attention_mask"] == 1, out["input_ids"] != pad)


def test_rates_and_lengths_are_as_said() -> None:
    drawn = batch(400, 201, "t5", algorithm="unigram", ends=0.0, padding=False)
    for objective in (t5.replace_spans, t5.random_spans):
        out = objective(*drawn[:2], Generator().manual_seed(0), drawn.vocabulary)
        signs = torch.isin(out["labels"], torch.tensor(drawn.vocabulary.sentinels)).sum() - 400
        noise = (out["labels"] != -100).sum() - signs - 2 * 400
        assert abs(float(noise) / (400 * 200) - 0.15) < 0.001, "exact but for rounding"
        mean = float(noise / signs)
        # Of tokens drawn one by one a run goes on with probability 0.15.
        expected = 3.0 if objective is t5.random_spans else 1 / 0.85
        assert abs(mean - expected) < 0.03


def test_spans_lie_anywhere_with_the_same_chance() -> None:
    drawn = batch(4000, 21, "t5", algorithm="unigram", ends=0.0, padding=False)
    out = t5.random_spans(*drawn[:2], Generator().manual_seed(0), drawn.vocabulary)
    first = (out["input_ids"] == drawn.vocabulary.sentinels[0]).byte().argmax(1)
    counts = torch.bincount(first, minlength=18)[:18].float()  # 3 of 20, so 18 places
    assert ((counts - 4000 / 18).abs() < 4.5 * (4000 / 18) ** 0.5).all()


def test_too_few_sentinels_are_said_at_once() -> None:
    drawn = batch(2, 900, "t5", algorithm="unigram", ends=0.0, padding=False)
    with pytest.raises(WorkbenchError, match="137 sentinels"):
        t5.replace_spans(*drawn[:2], Generator(), drawn.vocabulary)
    without = batch(2, 20, "bert")
    with pytest.raises(WorkbenchError, match="the tokenizer has 0"):
        t5.bert_style(*without[:2], Generator(), without.vocabulary)


def test_denoisers_are_short_spans_long_spans_and_prefixes_in_equal_parts() -> None:
    drawn = batch(8, 40, "t5", algorithm="unigram", ends=0.0, padding=False)
    text = int((~drawn.special[0]).sum())
    kinds = Counter[str]()
    for seed in range(300):
        out = t5.denoisers(*drawn[:2], Generator().manual_seed(seed), drawn.vocabulary)
        first = real(out["labels"][0], drawn)
        if first[0] not in drawn.vocabulary.sentinels:
            kinds["prefix"] += 1
            continue
        signs = set(drawn.vocabulary.sentinels) | {drawn.vocabulary.end}
        hidden = sum(token not in signs for token in first)
        assert min(abs(hidden - rate * text) for rate in (0.15, 0.5)) <= 1
        kinds["long" if hidden > 0.3 * text else "short"] += 1
    assert all(70 < kinds[kind] < 130 for kind in ("prefix", "short", "long"))


def test_distances_begin_sharp_in_each_stack() -> None:
    net = build("t5", size_of("mini", n_heads=4), tokenizer("unigram", "t5"), seed=0)
    tables = [weight for name, weight in net.named_parameters() if "relative_attention" in name]
    assert len(tables) == 2  # the encoder's and the decoder's
    assert all(4 < float(table.detach().std()) < 6 for table in tables)
