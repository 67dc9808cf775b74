"""Exact ablation of each head, one text and one head at a time.

Zero: the head's slice of W_O is zero. Mean: a bare hook replaces the output of the head by its mean
over all pieces of the corpus. Resample: by its output on another text, at the same relative
position; the text follows from the seed as documented. Differences, pairs, intervals and p-values
are computed here by loops. Costs: a forward pass for each text, head and replacement.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import workbench as wb
from tests.judges.odd import odd_corpus, odd_model, odd_twin, run_here
from tests.judges.plain_heads import Example, Head, Key, Plain, heads_in

# by day `tests/analyses/pruning/test_ablation.py` is a plain loop, to the bit
pytestmark = pytest.mark.slow

MODES = ("zero", "mean", "resample")
Outputs = list[dict[Key, Tensor]]  # of each text, [pieces, heads, width of a head]


def outputs(plain: Plain, examples: Sequence[Example]) -> Outputs:
    """Outputs of heads on each text."""
    found: Outputs = []

    def look(key: Key, out: Tensor) -> Tensor:
        found[-1][key] = out[0].clone()
        return out

    with plain.changed(look), torch.no_grad():
        for example in examples:
            found.append({})
            plain.net(**example.inputs)
    return found


def other_text(place: int, order: Sequence[int], seed: int) -> int:
    """The text whose outputs replace those of a text: another one, in the order of the pool."""
    free = [each for each in order if each != place] or list(order)
    return free[int(np.random.default_rng([seed, place, 5]).integers(len(free)))]


def replaced(
    plain: Plain, examples: Sequence[Example], seen: Outputs, head: Head, mode: str, seed: int
) -> np.ndarray[Any, Any]:
    """Scores of every text with the head's output replaced.  # [texts, 3]"""
    if mode == "zero":
        with plain.zeroed([head]):
            return plain.scores(examples)
    own, number = head
    mean = torch.cat([each[own][:, number] for each in seen if own in each]).double().mean(0)
    # the pool is filled with the longest texts first
    longest = sorted(range(len(seen)), key=lambda place: -examples[place].source)
    rows = []
    for place, example in enumerate(examples):
        there = [each for each in longest if own in seen[each] and len(seen[each][own])]
        instead = mean[None]  # [pieces of the other text, or 1; width of a head]
        if mode == "resample" and there:
            instead = seen[other_text(place, there, seed)][own][:, number]

        def change(key: Key, out: Tensor, instead: Tensor = instead) -> Tensor:
            if key != own:
                return out
            out, pieces = out.clone(), out.shape[1]
            along = torch.arange(pieces) * len(instead) // pieces
            out[0, :, number] = instead[along].to(out.dtype)
            return out

        with plain.changed(change):
            rows.append(plain.scores([example])[0])
    return np.array(rows)


def corrected(apart: np.ndarray[Any, Any], turns: int = 500) -> np.ndarray[Any, Any]:
    """Westfall and Young's p-values by sign flips.  # [texts, heads] -> [heads]"""
    random = np.random.default_rng(99)

    def size(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        norm = np.sqrt((values**2).sum(0))
        return np.abs(values.sum(0)) / np.where(norm > 0, norm, np.inf)

    largest = [
        size(apart * random.choice([-1.0, 1.0], size=(len(apart), 1))).max() for _ in range(turns)
    ]
    return np.array([(np.array(largest) >= own - 1e-9).mean() for own in size(apart)])


def resampled(
    apart: np.ndarray[Any, Any], number: np.ndarray[Any, Any], draws: int = 500
) -> np.ndarray[Any, Any]:
    """95 % bootstrap intervals over texts.  # [texts, heads] -> [2, heads]"""
    random = np.random.default_rng(98)
    found = []
    for _ in range(draws):
        rows = random.integers(0, len(apart), len(apart))
        found.append(apart[rows].sum(0) / max(number[rows].sum(), 1))
    return np.percentile(found, (2.5, 97.5), axis=0)


def judged(
    model: Any, corpus: Any, limit: int, modes: Sequence[str] = MODES, pairs: bool = True
) -> float:
    """The largest difference of a loss or an accuracy, in nats or shares."""
    settings = {
        "replacement": "all" if len(modes) > 1 else modes[0],
        "pairs": "layer" if pairs else "none",
        "effort": "full",
    }
    tables = run_here("head-ablation", model, corpus, max_sentences=limit, **settings).tables
    plain = Plain(model)
    examples = plain.examples(list(corpus.docs("test", limit)))
    base, seen = plain.scores(examples), outputs(plain, examples)
    number = base[:, 2]
    table, far = tables["ablation"], 0.0
    for mode in modes:
        own = table[(table["mode"] == mode) & (table["metric"] == "loss")]
        heads = heads_in(own)
        without = {head: replaced(plain, examples, seen, head, mode, 0) for head in heads}
        for column, metric in ((0, "loss"), (1, "accuracy")):
            rows = table[(table["mode"] == mode) & (table["metric"] == metric)]
            apart = np.stack([without[head][:, column] - base[:, column] for head in heads], 1)
            wanted = apart.sum(0) / number.sum()
            assert abs(rows["base"].iloc[0] - base[:, column].sum() / number.sum()) < 1e-4
            gap = float(np.abs(rows["delta"] - wanted).max())
            print(model.name, mode, metric, f"{gap:.2e}", end="; ")
            far = max(far, gap)
            # p-values of two samplings of signs differ by four standard errors at most
            assert np.abs(corrected(apart) - rows["p_value"]).max() < 0.12
            if metric == "accuracy":
                continue  # a handful of pieces change: its quantiles are steps
            ends, wide = resampled(apart, number), rows["upper"] - rows["lower"]
            for end, name in zip(ends, ("lower", "upper"), strict=True):
                assert (np.abs(end - rows[name]) < 0.3 * wide + 1e-5).all()
        if pairs and mode == "zero":
            far = max(far, judged_pairs(plain, examples, base, tables["pairs"]))
    print()
    return far


def judged_pairs(
    plain: Plain, examples: Sequence[Example], base: np.ndarray[Any, Any], table: Any
) -> float:
    """The largest difference for some pairs of heads."""
    table = table[table["mode"] == "zero"].iloc[::5]
    names = ["stack", "kind", "layer", "head"]
    sides = [
        heads_in(table[[f"{n}_{side}" for n in names]].set_axis(names, axis=1)) for side in "ab"
    ]
    far, whole = 0.0, base[:, 2].sum()
    for (_, row), one, other in zip(table.iterrows(), *sides, strict=True):
        lost = []
        for gone in ([one], [other], [one, other]):
            with plain.zeroed(gone):
                lost.append((plain.scores(examples)[:, 0] - base[:, 0]).sum() / whole)
        far = max(
            far,
            abs(row["delta"] - lost[2]),
            abs(row["interaction"] - (lost[2] - lost[0] - lost[1])),
        )
    return far


def test_ablation_is_a_plain_loop_over_texts_and_heads() -> None:
    assert judged(wb.load("mini:gpt"), wb.read("primer:size=200"), 2) < 1e-5


@pytest.mark.parametrize("name", ["bert", "gpt", "t5"])
def test_ablation_of_the_built_in_models(name: str) -> None:
    assert judged(wb.load(f"mini:{name}"), wb.read("primer"), 40) < 1e-5


@pytest.mark.parametrize("twin", [False, True])
def test_ablation_of_an_odd_model_and_its_twin(twin: bool) -> None:
    corpus = odd_corpus({"test": 30})
    model = odd_model(corpus)
    assert judged(odd_twin(model) if twin else model, corpus, 30) < 1e-3
