"""Description length against the uniform, the frequency and a plain online code.

The online code is written here from the paper: a multilayer perceptron in bare torch is trained on
each block's past, one probe after another, and sends the next block. States come from transformers'
own forward. The two codes are trained by different schedules, so lengths are compared to 15 %.
"""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import workbench as wb
from tests.judges.odd import odd_corpus, odd_model, odd_twin, run_here
from tests.judges.test_judge_edge_probing import Targets

# by day `tests/analyses/probes/test_description_length.py` judges
pytestmark = pytest.mark.slow

PORTIONS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.25, 12.5, 25.0, 50.0, 100.0)


def online_bits(targets: Targets, layer: int, order: Tensor) -> float:
    """Length of the whole online code in bits."""
    train, dev, _ = (torch.from_numpy(part).float() for part in targets.layer(layer))
    names = sorted(set(targets.labels["train"]))
    place = {name: number for number, name in enumerate(names)}
    gold = [
        torch.tensor([place.get(label, -100) for label in targets.labels[split]])
        for split in ("train", "dev")
    ]
    train, labels = train[order], gold[0][order]
    ends = sorted({round(len(train) * share / 100) for share in PORTIONS} - {0})
    bits = ends[0] * math.log2(len(names))
    for first, last in pairwise(ends):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(train.shape[1], 64), nn.ReLU(), nn.Linear(64, len(names)))
        adam = torch.optim.Adam(net.parameters(), 1e-3)
        least, nats, waited = math.inf, 0.0, 0
        while waited < 8:
            for places in torch.split(torch.randperm(first), 32):
                adam.zero_grad()
                nn.functional.cross_entropy(net(train[places]), labels[places]).backward()
                adam.step()
            with torch.no_grad():
                loss = float(nn.functional.cross_entropy(net(dev), gold[1]))
                waited = 0 if loss < least else waited + 1
                if loss < least:
                    least, block = loss, slice(first, last)
                    nats = float(
                        nn.functional.cross_entropy(
                            net(train[block]), labels[block], reduction="sum"
                        )
                    )
        bits += nats / math.log(2)
    return bits


def frequency_bits(labels: "np.ndarray[Any, Any]") -> float:
    """Length in bits of Krichevsky and Trofimov's code, label by label."""
    kinds = sorted(set(labels))
    counts, bits = dict.fromkeys(kinds, 0.5), 0.0
    for label in labels:
        bits -= math.log2(counts[label] / sum(counts.values()))
        counts[label] += 1
    return bits


@pytest.mark.parametrize(
    ("name", "large"),
    [("odd", False), *((name, True) for name in ("mini:bert", "mini:gpt", "odd", "odd@random"))],
)
def test_codes_are_as_long_as_plain_ones(name: str, large: bool) -> None:
    most = {"train": 150, "dev": 60, "test": 40} if large else {"train": 40, "dev": 20, "test": 20}
    if name.startswith("mini"):
        model, corpus = wb.load(name, device="cpu"), wb.read("primer")
    else:
        corpus = odd_corpus(most)
        model = odd_model(corpus)
        model = odd_twin(model) if name == "odd@random" else model
    result = run_here(
        "description-length", model, corpus, tasks=("pos",), codes=("online",),
        max_targets=1_000_000,
        max_train=most["train"], max_dev=most["dev"], max_test=most["test"], control_tasks=False,
    )  # fmt: skip
    codes = result.tables["codes"]
    own = codes[codes["encoder"] == "model"].set_index("layer")["bits"]
    targets = Targets(model, corpus, "pos", most)
    labels = targets.labels["train"]
    assert codes["uniform_bits"].iloc[0] == pytest.approx(len(labels) * math.log2(len(set(labels))))
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    baseline = result.tables["summary"]["baseline_frequency"].iloc[0]
    judged_baseline = codes["uniform_bits"].iloc[0] / frequency_bits(labels[order.numpy()])
    assert baseline == pytest.approx(judged_baseline, rel=0.05), "in whichever order they come"
    layers = sorted(own.index) if large else [0, 1]
    judged = np.array([online_bits(targets, layer, order) for layer in layers])
    ours = own.loc[layers].to_numpy()
    print(name, "ours", ours.round(0), "plain", judged.round(0))
    assert (ours < 1.15 * judged).all(), "no longer than a plain code"
    assert (ours > 0.7 * judged).all()
