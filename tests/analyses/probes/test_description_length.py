"""Codes are as long as they must be: known answers, slow references, and whole runs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.analyses.probes.test_structural_probe import Quiet, corpus_of, primer
from tests.analyses.probes.test_trees import doc_of
from tests.models import zoo
from workbench import Corpus, Model, Result, WorkbenchError, load
from workbench.analyses.probes import codes as variational
from workbench.analyses.probes import description_length
from workbench.analyses.probes.codes import ends_of, prequential_code, uniform_bits
from workbench.analyses.probes.description_length import SentLabels, run
from workbench.analyses.probes.experiments import DESCRIPTION_LENGTH, PORTIONS, DescriptionLength
from workbench.analyses.probes.probe_training import Data, Probe, Schedule, Shape, initial
from workbench.analyses.probes.representations import Bank, Source, build_banks
from workbench.experiment import Inputs

FIGURES = DESCRIPTION_LENGTH.drawings()

CPU = torch.device("cpu")
SLACK = 20.0  # bits; see `test_random_labels_cannot_be_sent_in_fewer_bits_than_they_have`
FEW = Schedule(epochs=4)


def bank_of(*layers: Tensor) -> Bank:
    sources = [Source("model", "encoder", layer, states) for layer, states in enumerate(layers)]
    return build_banks(sources, CPU, torch.arange(len(layers[0])))[0]


def data_of(
    words: Sequence[int], labels: Tensor, control: Tensor | None = None, softmax: bool = True
) -> Data:
    """One word a target; `labels` are [n, labels]."""
    rows = torch.tensor(words)
    both = torch.stack([labels, labels if control is None else control])
    unseen = torch.zeros(len(rows), dtype=torch.long)
    spans = (torch.stack([rows, rows + 1], dim=1),)
    return Data(spans, both, unseen, torch.ones(labels.shape[1], dtype=torch.bool), softmax)


def drawn_labels(number: int, labels: int, seed: int = 0) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return functional.one_hot(torch.randint(labels, (number,), generator=random), labels).bool()


def drawn_states(number: int, width: int, seed: int) -> Tensor:
    return torch.randn(number, width, generator=torch.Generator().manual_seed(seed))


def bits_online(bank: Bank, probes: list[Probe], learnt: Data, dev: Data, **more: object) -> Tensor:
    """The whole online code of each probe."""
    ends = ends_of(len(learnt), PORTIONS)
    schedule = Schedule(**{"epochs": 10, **more})
    nats, _ = prequential_code("mlp", 16, bank, probes, learnt, dev, ends, schedule, 0)
    return nats.sum(1) / math.log(2) + ends[0] * uniform_bits(learnt)


def bits_variational(bank: Bank, probes: list[Probe], learnt: Data, steps: int = 400) -> Tensor:
    found = variational.train_bayesian(16, bank, probes, learnt, steps, 0)
    nats = variational.divergence(found.layers) + variational.variational_code(
        found, bank, learnt, 0
    ).sum(1)
    return nats / math.log(2)


# --- what a code must be --------------------------------------------------------------------------


def test_blocks_double_and_empty_or_equal_ones_are_merged() -> None:
    assert ends_of(2000, PORTIONS) == (
        2, 4, 8, 16, 32, 64, 125, 250, 500, 1000, 2000,
    )  # fmt: skip
    assert ends_of(10, PORTIONS) == (1, 2, 5, 10)
    assert ends_of(1, PORTIONS) == (1,)
    assert ends_of(8, (50.0,)) == (4, 8)  # all are sent in any case


def test_random_labels_cannot_be_sent_in_fewer_bits_than_they_have() -> None:
    """A code that saves k bits does so for one labelling in 2^k at most, by Kraft's inequality,
    whatever the probes are. With 20 bits of slack, that is one in a million."""
    number, labels = 160, 4
    bank = bank_of(*(drawn_states(2 * number, 12, seed) for seed in (1, 2)))
    both = drawn_labels(2 * number, labels)
    learnt = data_of(range(number), both[:number], drawn_labels(number, labels, 7))
    dev = data_of(range(number, 2 * number), both[number:], drawn_labels(number, labels, 8))
    probes = [Probe((0,)), Probe((1,)), Probe((0,), True)]
    uniform = number * uniform_bits(learnt)
    assert uniform == 2 * number
    found = bits_online(bank, probes, learnt, dev)
    assert (found >= uniform - SLACK).all()
    assert (found <= 1.3 * uniform).all()  # and a probe that dev has chosen does little harm
    assert (bits_variational(bank, probes, learnt, 200) >= uniform - SLACK).all()
    coins = torch.rand(2, 2, number, labels, generator=torch.Generator().manual_seed(3)) < 0.5
    several = replace(learnt, labels=coins[0], softmax=False)
    dev = replace(dev, labels=coins[1], softmax=False)
    uniform = number * uniform_bits(several)
    assert uniform == number * labels
    assert (bits_online(bank, probes, several, dev) >= uniform - SLACK).all()


@pytest.mark.parametrize(
    ("number", "steps", "shorter"),  # online, and variational
    [(250, 300, (5, 2)), pytest.param(600, 600, (12, 4), marks=pytest.mark.slow)],
)
def test_labels_written_into_a_layer_are_sent_in_few_bits(
    number: int, steps: int, shorter: tuple[float, float]
) -> None:
    labels = 8
    wanted = drawn_labels(2 * number, labels)
    noise = drawn_states(2 * number, labels, 1)
    bank = bank_of(noise, 4 * wanted.float() + 0.1 * noise)
    learnt = data_of(range(number), wanted[:number])
    dev = data_of(range(number, 2 * number), wanted[number:])
    probes = [Probe((0,)), Probe((1,))]
    uniform = number * uniform_bits(learnt)
    for bits, factor in (
        (bits_online(bank, probes, learnt, dev, learning_rate=0.02), shorter[0]),
        (bits_variational(bank, probes, learnt, steps), shorter[1]),
    ):
        assert uniform / bits[1] > factor
        assert uniform / bits[0] < 1.02


def by_hand(bank: Bank, layer: int, learnt: Data, dev: Data, ends: Sequence[int]) -> Tensor:
    """The online code of one layer, one probe after another, as one would write it down."""
    states = bank.rows(torch.arange(2 * len(learnt)))[layer]
    shape = Shape("mlp", bank.width, 1, learnt.labels.shape[2], 16, len(bank.sources))

    def logits(own: dict[str, Tensor], data: Data) -> Tensor:
        inputs = states[data.spans[0][:, 0]]
        inner = torch.relu(inputs @ own["first"][0] + own["first_bias"])
        return inner @ own["out"][:, : len(own["out_bias"])] + own["out_bias"]

    def nats(own: dict[str, Tensor], data: Data) -> Tensor:
        gold = data.labels[0].int().argmax(1)
        return functional.cross_entropy(logits(own, data), gold, reduction="none")

    found = torch.zeros(len(learnt))
    for first, last in pairwise(ends):
        own = {name: value.requires_grad_() for name, value in initial(shape, 5).items()}
        used = [own[name] for name in ("first", "first_bias", "out", "out_bias")]
        adam = torch.optim.Adam(used, lr=FEW.learning_rate)
        order = torch.Generator().manual_seed(5)
        least, best, mark, waited = math.inf, own, math.inf, 0
        for _ in range(FEW.epochs):
            for places in torch.split(torch.randperm(first, generator=order), 16):
                adam.zero_grad()
                nats(own, learnt.take(places)).mean().backward()
                adam.step()
            loss = float(nats(own, dev).detach().mean())
            if loss < least:
                least = loss
                best = {name: value.detach().clone() for name, value in own.items()}
            if loss < mark * (1 - FEW.gain):
                mark, waited = loss, 0
            else:
                waited += 1
                if waited % (FEW.patience // 2) == 0:
                    adam.param_groups[0]["lr"] /= 2
        block = learnt.take(torch.arange(first, last))
        found[first:last] = nats(best, block).detach()
    return found


def test_the_online_code_equals_one_probe_after_another() -> None:
    number, labels = 200, 5
    wanted = drawn_labels(2 * number, labels)
    mixed = drawn_states(2 * number, 9, 1)
    mixed[:, :labels] += wanted
    bank = bank_of(drawn_states(2 * number, 9, 2), mixed)
    learnt = data_of(range(number), wanted[:number])
    dev = data_of(range(number, 2 * number), wanted[number:])
    ends = ends_of(number, PORTIONS)
    probes = [Probe((0,)), Probe((1,))]
    nats, last = prequential_code("mlp", 16, bank, probes, learnt, dev, ends, FEW, 5)
    for layer in (0, 1):
        expected = by_hand(bank, layer, learnt, dev, ends)
        torch.testing.assert_close(nats[layer], expected, rtol=1e-3, atol=1e-4)
    assert last is not None and last.parameters["out"].shape[:2] == (2, 16)


def test_a_label_not_met_yet_has_its_column() -> None:
    wanted = functional.one_hot(torch.tensor([0] * 8 + [1] * 8 + [2] * 8), 3).bool()
    bank = bank_of(drawn_states(24, 4, 0))
    data = data_of(range(24), wanted)
    same, ends = data.take(torch.arange(8)), (8, 16, 24)
    schedule = Schedule(learning_rate=0.1, epochs=20)
    nats, last = prequential_code("linear", 1, bank, [Probe((0,))], data, same, ends, schedule, 0)
    assert last is not None and last.shape.labels == 3
    assert nats.isfinite().all()
    assert nats[0, 8:16].mean() > math.log(3)  # after nothing but the first, it is a surprise


def test_one_target_is_sent_by_the_uniform_code() -> None:
    data = data_of([0], torch.tensor([[True, True, False]]), softmax=False)
    bank = bank_of(drawn_states(1, 4, 0))
    nats, last = prequential_code("mlp", 4, bank, [Probe((0,))], data, data.take(torch.arange(0)),
                              ends_of(1, PORTIONS), FEW, 0)  # fmt: skip
    assert last is None and nats.tolist() == [[0.0]]
    assert uniform_bits(data) == 3
    assert bits_variational(bank, [Probe((0,))], data, 5).isfinite().all()


# --- the variational code -------------------------------------------------------------------------


def test_the_divergence_equals_a_formula_number_by_number() -> None:
    (layer,) = variational.initial_layers((3, 2), 0)
    random = torch.Generator().manual_seed(1)
    layer = {name: value + torch.randn(value.shape, generator=random) / 2
             for name, value in layer.items()}  # fmt: skip
    total = 0.0
    for m, v in zip(layer["scale"].tolist(), layer["scale_spread"].tolist(), strict=True):
        alpha = math.exp(v) / m**2
        s = 1 / (1 + math.exp(-(1.87320 + 1.48695 * math.log(alpha))))
        total += -(0.63576 * s - 0.5 * math.log(1 + 1 / alpha) - 0.63576)
    for name in ("weight", "bias"):
        means, spreads = layer[name].flatten(), layer[f"{name}_spread"].flatten()
        for m, v in zip(means.tolist(), spreads.tolist(), strict=True):
            sigma = math.exp(v / 2)
            total += -math.log(sigma) + (sigma**2 + m**2) / 2 - 0.5
    stacked = [{name: value[None] for name, value in layer.items()}]
    assert variational.divergence(stacked).item() == pytest.approx(total, rel=1e-5)


def test_a_posterior_that_is_the_prior_costs_nothing() -> None:
    ones, zeros = torch.ones(1, 4), torch.zeros
    layer = {"scale": ones, "scale_spread": ones * 30, "weight": zeros(1, 4, 2),
             "weight_spread": zeros(1, 4, 2), "bias": zeros(1, 2),
             "bias_spread": zeros(1, 2)}  # fmt: skip
    assert variational.divergence([layer]).item() == pytest.approx(0, abs=1e-5)


def test_noise_on_sums_has_the_spread_of_noise_on_weights() -> None:
    """Local reparametrisation, against weights that are drawn one by one."""
    (layer,) = variational.initial_layers((3, 2), 0)
    layer = {name: value[None] for name, value in layer.items()}
    layer["weight_spread"] = torch.linspace(-2, 0, 6).reshape(1, 3, 2)
    layer["bias_spread"], layer["scale_spread"] = torch.full((1, 2), -1.0), torch.full((1, 3), -1.0)
    many = 40_000
    inputs = torch.tensor([1.0, -2.0, 0.5]).expand(1, many, 3)
    random = torch.Generator().manual_seed(0)

    def noise(like: Tensor) -> Tensor:
        return torch.randn(like.shape[-2:], generator=random)

    found = variational.bayesian_logits([layer], inputs, noise)[0]
    z = layer["scale"] + (layer["scale_spread"] / 2).exp() * noise(inputs)
    drawn = torch.randn(many, 3, 2, generator=random)
    weights = layer["weight"] + (layer["weight_spread"] / 2).exp() * drawn
    bias = (layer["bias_spread"] / 2).exp() * torch.randn(many, 2, generator=random)
    slow = torch.einsum("nd,ndk->nk", inputs[0] * z, weights) + bias
    torch.testing.assert_close(found.mean(0), slow.mean(0), atol=0.05, rtol=0)
    torch.testing.assert_close(found.std(0), slow.std(0), atol=0, rtol=0.03)


# --- many probes at once --------------------------------------------------------------------------


def test_each_probe_is_as_if_it_were_alone() -> None:
    number = 30
    wanted = drawn_labels(number, 3)
    bank = bank_of(*(drawn_states(number, 6, seed) + wanted.float() @ torch.ones(3, 6)
                     for seed in (1, 2, 3)))  # fmt: skip
    data = data_of(range(number), wanted, drawn_labels(number, 3, 9))
    probes = [Probe((2,)), Probe((0,)), Probe((1,), True)]
    together = bits_online(bank, probes, data, data, epochs=3)
    bayesian = bits_variational(bank, probes, data, 30)
    for place, probe in enumerate(probes):
        torch.testing.assert_close(
            together[place], bits_online(bank, [probe], data, data, epochs=3)[0], rtol=1e-4, atol=0
        )
        torch.testing.assert_close(
            bayesian[place], bits_variational(bank, [probe], data, 30)[0], rtol=1e-3, atol=0
        )


# --- units ----------------------------------------------------------------------------------------


def test_bits_are_nats_over_ln_2_and_the_papers_unit_leaves_them() -> None:
    sent = SentLabels("task", "online", 0, 0, (Probe((0,)),), np.arange(4), (1, 4),
                np.array([[0.0, 1.0, 2.0, 3.0]]), np.zeros(1), np.ones(1), None)  # fmt: skip
    ln = math.log(2)
    assert sent.bits(5.0, 1 / ln)[0].tolist() == pytest.approx([5, 1 / ln, 2 / ln, 3 / ln])
    assert sent.bits(5.0, 1.0)[0].tolist() == [5, 1, 2, 3]
    bayesian = replace(sent, code="variational", ends=(4,), divergence=np.array([8.0]))
    assert bayesian.bits(5.0, 1.0)[0].tolist() == [2, 3, 4, 5]
    assert bayesian.bits(5.0, 1 / ln).sum() == pytest.approx(14 / ln)


# --- whole runs -----------------------------------------------------------------------------------

Opened = Callable[[str], Model]
SMALL = {"max_sentences": 20, "tasks": ("pos", "proto-roles"), "hidden_size": 8, "max_epochs": 3,
         "variational_steps": 12,
         "seeds": (0, 1)}  # fmt: skip


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return cache(lambda name: load(zoo.make(name, tmp_path_factory.mktemp(name)), "cpu"))


def told(
    model: Model, corpus: Corpus | None = None, scratch: Path | None = None, **settings: object
) -> Result:
    inputs = Inputs((model,), (corpus or primer(),), scratch=scratch)
    return run(inputs, DescriptionLength(**{**SMALL, **settings}), Quiet())


@pytest.mark.parametrize("name", [pytest.param("bert", marks=pytest.mark.slow), "t5"])
def test_every_layer_has_its_baselines(opened: Opened, name: str) -> None:
    model = opened(name)
    tables = told(model, max_sentences=5, seeds=(0,)).tables
    assert set(tables) == set(DESCRIPTION_LENGTH.tables)
    for table, about in DESCRIPTION_LENGTH.tables.items():
        assert len(tables[table]) and not tables[table].duplicated(list(about.keys)).any()
    codes = tables["codes"]
    for code in ("online", "variational"):
        own = codes[(codes["task"] == "pos") & (codes["code"] == code) & (codes["seed"] == 0)]
        rows = set(zip(own["encoder"], own["stack"], own["layer"], own["control"], strict=True))
        for stack in model.stacks:
            assert ("random", stack.name, stack.layers, False) in rows
            for layer in range(stack.layers + 1):
                assert {("model", stack.name, layer, control) for control in (0, 1)} <= rows
        assert ("static", "static", -1, False) in rows
    assert (codes["compression"] == codes["uniform_bits"] / codes["bits"]).all()
    assert codes["final_accuracy"].between(0, 1).all()
    assert (codes["divergence_bits"] > 0).equals(codes["code"] == "variational")
    blocks = tables["portions"]
    sums = blocks.groupby(["task", "encoder", "stack", "layer", "control", "seed"])
    whole = codes[codes["code"] == "online"].set_index(sums.keys)
    assert np.allclose(sums["bits"].sum(), whole["bits"].sort_index())
    assert (sums["targets"].sum() == whole["n"].sort_index()).all()
    summary = tables["summary"].drop(columns="baseline_no_positions")
    assert summary.notna().all(axis=None)
    assert list(summary["stack"].unique()) == [stack.name for stack in model.stacks]
    assert ((summary["lower"] <= summary["upper"]) & (summary["lower"] > 0)).all()
    for draw in FIGURES.values():
        assert draw(tables).data


def test_many_labels_a_target_take_a_bit_each_of_the_uniform_code(opened: Opened) -> None:
    tables = told(opened("bert"), codes=("online",), seeds=(0,), max_sentences=8).tables
    several = tables["codes"].query("task == 'proto-roles'")
    labels = several["uniform_bits"] / several["n"]
    assert (labels == labels.round()).all() and (labels > 2).all()
    first = tables["portions"].query("task == 'proto-roles'").groupby("layer").first()
    assert (first["bits"] == first["targets"] * labels.iloc[0]).all()


def test_the_papers_unit_differs_in_what_probes_cost_and_no_more(opened: Opened) -> None:
    ours, theirs = (
        told(opened("bert"), unit=unit, seeds=(0,), tasks=("pos",), max_sentences=5)
        for unit in ("bits", "paper")
    )
    assert any("nats to bits" in caveat.text for caveat in theirs.caveats)
    ln = math.log(2)
    first = ours.tables["portions"]["portion"] == ours.tables["portions"].groupby("task")[
        "portion"
    ].transform("min")
    expected = ours.tables["portions"]["bits"].where(first, ours.tables["portions"]["bits"] * ln)
    assert np.allclose(theirs.tables["portions"]["bits"], expected)
    own = ours.tables["codes"]["code"] == "variational"
    both = [result.tables["codes"] for result in (theirs, ours)]
    assert np.allclose(both[0]["bits"][own], both[1]["bits"][own] * ln)
    assert (both[0]["uniform_bits"] == both[1]["uniform_bits"]).all()


def test_a_run_goes_on_where_it_was_stopped(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {"max_sentences": 5, "max_epochs": 2, "variational_steps": 4, "tasks": ("pos",)}
    expected = told(opened("bert"), **few).tables
    real, calls = variational.train_bayesian, []

    def stopped(*args: object, **more: object) -> object:
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*args, **more)

    monkeypatch.setattr(description_length.codes, "train_bayesian", stopped)
    with pytest.raises(KeyboardInterrupt):
        told(opened("bert"), scratch=tmp_path, **few)
    found = told(opened("bert"), scratch=tmp_path, **few).tables
    assert len(calls) == 2 + 1  # of two seeds, the one that was cut off twice
    for name, table in expected.items():
        pd.testing.assert_frame_equal(found[name], table)


def test_labels_that_are_all_the_same_are_left_out_by_name(opened: Opened) -> None:
    nouns = [doc_of([0, 0, 1, 1], ["NOUN"] * 4) for _ in range(3)]
    with pytest.raises(WorkbenchError, match="too-few-labels"):
        told(opened("bert"), corpus_of(nouns, nouns, nouns), tasks=("pos",))
    mixed = [doc_of([0, 0, 1, 1], ["NOUN"] * 4), doc_of([0, 0], ["NOUN", "VERB"])]
    corpus = corpus_of(mixed, mixed, mixed)
    found = told(opened("bert"), corpus, tasks=("pos", "dependencies"))
    assert set(found.tables["summary"]["task"]) == {"pos"}
    assert any(
        "dependencies is left out: every target is 'dep'" in caveat.text for caveat in found.caveats
    )
    with pytest.raises(WorkbenchError, match="too-few-labels"):
        told(opened("bert"), corpus, tasks=("pos",), max_targets=1)  # one target, one label


def test_codes_that_are_not_requested_are_not_computed(opened: Opened) -> None:
    tables = told(
        opened("bert"), tasks=("pos",), codes=("variational",), control_tasks=False, probe="linear",
        max_sentences=8,
    ).tables  # fmt: skip
    assert tables["portions"].empty and not tables["codes"]["control"].any()
    assert tables["summary"]["control_compression"].isna().all()
    with pytest.raises(KeyError):
        FIGURES["blocks"](tables)
    assert FIGURES["compression"](tables).data and FIGURES["beside"](tables).data
