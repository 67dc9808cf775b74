"""Edge probing against scikit-learn and plain torch, on states from transformers' own forward.

Nothing here comes from `probes`: words are the means of their pieces by character offsets, targets
come from the Docs, the linear probe is scikit-learn's logistic regression, and the edge probe is
a plain version of Tenney's, trained one at a time.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

import workbench as wb
from tests.judges.odd import odd_corpus, odd_model, odd_twin, run_here
from workbench import Corpus

# by day `tests/analyses/probes/test_logistic.py` judges by scikit-learn
pytestmark = pytest.mark.slow

Floats = NDArray[np.float64]
STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0)
POINT = 0.01
SPLITS = ("train", "dev", "test")


def word_states(model: Any, doc: Any) -> Floats:
    """Every layer's mean over the pieces of each word.  # [layers, words, width]"""
    net, tokenizer = model.net, model.tokenizer
    found = tokenizer(doc.text, return_tensors="pt", return_offsets_mapping=True)
    offsets = found.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        hidden = net(**found, output_hidden_states=True).hidden_states
    states = torch.stack(hidden)[:, 0].double().numpy()  # [layers, pieces, width]
    rows = []
    for word in doc:
        start, end = word.idx, word.idx + len(word)
        own = [
            place
            for place, (first, last) in enumerate(offsets)
            if last > first and first < end and last > start
        ]
        rows.append(states[:, own].mean(1))
    return np.stack(rows, axis=1)


class Targets:
    """Spans and labels of a task, by split, with every layer's states of the words."""

    def __init__(self, model: Any, corpus: Corpus, task: str, most: dict[str, int]) -> None:
        self.inputs: dict[str, Floats] = {}  # [layers, n, sides * width]
        self.labels: dict[str, NDArray[np.str_]] = {}
        for split in SPLITS:
            rows, labels = [], []
            for doc in corpus.docs(split, most[split]):
                states = word_states(model, doc)
                for word in doc:
                    if task == "pos":
                        rows.append(states[:, word.i])
                        labels.append(word.pos_)
                    elif word.head.i != word.i:
                        rows.append(np.concatenate([states[:, word.i], states[:, word.head.i]], 1))
                        labels.append(word.dep_)
            self.inputs[split] = np.stack(rows, axis=1)
            self.labels[split] = np.array(labels)

    def layer(self, layer: int) -> list[Floats]:
        scaler = StandardScaler().fit(self.inputs["train"][layer])
        return [scaler.transform(self.inputs[split][layer]) for split in SPLITS]


def logistic(targets: Targets, layer: int) -> float:
    """Test accuracy of the best strength on dev (one label each: micro-F1)."""
    train, dev, test = targets.layer(layer)
    nets = [
        LogisticRegression(C=c, max_iter=3000).fit(train, targets.labels["train"])
        for c in STRENGTHS
    ]

    def on_dev(net: LogisticRegression) -> tuple[float, float]:
        """Accuracy; with ties, the log-likelihood."""
        labels = targets.labels["dev"]
        known = np.isin(labels, net.classes_)
        columns = np.searchsorted(net.classes_, labels[known])
        told = net.predict_log_proba(dev[known])[np.arange(known.sum()), columns]
        return net.score(dev, labels), float(told.sum())

    return float(max(nets, key=on_dev).score(test, targets.labels["test"]))


class Edge(nn.Module):
    """Tenney's probe for spans of one word."""

    def __init__(self, sides: int, width: int, labels: int) -> None:
        super().__init__()
        self.sides = sides
        self.project = nn.ModuleList(nn.Linear(width, 256) for _ in range(sides))
        self.rest = nn.Sequential(
            nn.Linear(256 * sides, 256), nn.Tanh(), nn.LayerNorm(256), nn.Dropout(0.3),
            nn.Linear(256, labels),
        )  # fmt: skip
        self.drop = nn.Dropout(0.2)

    def forward(self, inputs: Tensor) -> Tensor:
        sides = self.drop(inputs).chunk(self.sides, 1)
        read = [project(side) for project, side in zip(self.project, sides, strict=True)]
        found: Tensor = self.rest(torch.cat(read, 1))
        return found


def edge(targets: Targets, layer: int, sides: int, seed: int = 0) -> float:
    """One probe, trained alone with Adam until dev has not improved for ten epochs."""
    torch.manual_seed(seed)
    train, dev, test = (torch.from_numpy(part).float() for part in targets.layer(layer))
    names = sorted(set(targets.labels["train"]))
    gold = [
        torch.tensor([names.index(label) if label in names else -1 for label in targets.labels[s]])
        for s in SPLITS
    ]
    net = Edge(sides, train.shape[1] // sides, len(names))
    optimiser = torch.optim.Adam(net.parameters(), 1e-3)
    best, kept, waited = -1.0, 0.0, 0
    while waited < 10:
        net.train()
        for places in torch.split(torch.randperm(len(train)), 32):
            loss = nn.functional.cross_entropy(net(train[places]), gold[0][places])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        net.eval()
        with torch.no_grad():
            score = float((net(dev).argmax(1) == gold[1]).float().mean())
            if score > best:
                best, waited = score, 0
                kept = float((net(test).argmax(1) == gold[2]).float().mean())
            else:
                waited += 1
    return kept


def ours(
    model: Any, corpus: Corpus, tasks: Sequence[str], most: dict[str, int], **more: Any
) -> Any:
    """The mean F1 of each task, probe and layer."""
    result = run_here(
        "edge-probing", model, corpus, tasks=tuple(tasks), modes=("layer",), max_targets=1_000_000,
        max_train=most["train"], max_dev=most["dev"], max_test=most["test"], control_tasks=False,
        half_data_check=False, random_baseline=False, **more,
    )  # fmt: skip
    means = result.tables["means"]
    own = means[(means["encoder"] == "model") & (means["mode"] == "layer")]
    assert own["converged"].all()
    return own.set_index(["task", "probe", "layer"])["mean"]


SMALL = {"train": 60, "dev": 40, "test": 60}
LARGE = {"train": 300, "dev": 150, "test": 200}


def cases(name: str, large: bool) -> tuple[Any, Corpus]:
    if name.startswith("mini"):
        return wb.load(name, device="cpu"), wb.read("primer")
    corpus = odd_corpus({"train": 300, "dev": 150, "test": 200} if large else None)
    model = odd_model(corpus)
    return (odd_twin(model) if name == "odd@random" else model), corpus


@pytest.mark.parametrize(
    ("name", "large"),
    [("odd", False), *((name, True) for name in ("mini:bert", "mini:gpt", "odd", "odd@random"))],
)
def test_linear_probes_are_at_most_a_point_under_scikit_learn(name: str, large: bool) -> None:
    model, corpus = cases(name, large)
    most = LARGE if large else SMALL
    tasks = ("pos", "dependencies") if large else ("pos",)
    found = ours(model, corpus, tasks, most, probes=("linear",), seeds=(0,))
    for task in tasks:
        targets = Targets(model, corpus, task, most)
        deepest = len(targets.inputs["train"]) - 1
        layers = range(deepest + 1) if large else (0, 1, deepest)
        judged = np.array([logistic(targets, layer) for layer in layers])
        own = np.array([found[task, "linear", layer] for layer in layers])
        print(name, task, "ours", own.round(4), "scikit-learn", judged.round(4))
        assert (own >= judged - POINT).all()
        assert np.abs(own - judged).max() < 2 * POINT, "and it is the same probe"


@pytest.mark.parametrize("name", ["mini:bert", "mini:gpt", "odd", "odd@random"])
def test_edge_probes_are_as_good_as_plain_ones(name: str) -> None:
    model, corpus = cases(name, True)
    found = ours(model, corpus, ("pos", "dependencies"), LARGE, probes=("edge",), effort="full")
    for task, sides in (("pos", 1), ("dependencies", 2)):
        targets = Targets(model, corpus, task, LARGE)
        layers, seeds = range(len(targets.inputs["train"])), range(1)
        if name.startswith("odd"):  # its seeds differ by a point, so as many as ours
            layers, seeds = [0, 1, layers[-1]], range(3)
        judged = np.array(
            [np.mean([edge(targets, layer, sides, seed) for seed in seeds]) for layer in layers]
        )
        own = np.array([found[task, "edge", layer] for layer in layers])
        print(name, task, "ours", own.round(4), "plain", judged.round(4))
        assert (own >= judged - 2 * POINT).all()
        assert (own - judged).mean() > -POINT
