"""Cost of probing, compared with a plain loop, NeuroX's method, and scikit-learn.

    python -m tests.benchmarks.probing                    seven layers, three rounds, ten minutes

On the CPU: a random BERT of six blocks (seven layers), parts of speech and dependencies; the task
and its control task with all targets, and the task with half of them. Linear probes: 42, each with
every ridge strength, to the optimum. Edge probes: the same with three seeds, until dev has not
improved for four epochs; after two of them the learning rate is halved.
(a) One probe after another in plain PyTorch on cached activations: the same losses, grid, halves
and early stopping, with Adam in batches. (b) One forward pass per sentence, then a linear probe per
layer with cross-entropy, as in NeuroX (its release cannot be installed with numpy 2, so it is
written here). (c) Logistic regression of scikit-learn on the same activations, every strength.
Each arm runs in its own process, which gives its peak memory; arms alternate. Ratios are medians
over rounds with their spread; seconds of encoding and of probing are separate.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from tests.benchmarks.engine import Quiet
from tests.tiny import _tokenizer
from workbench import encode, read
from workbench.analyses.probes.logistic import STRENGTHS, logistic
from workbench.analyses.probes.probe_training import (
    Data,
    Probe,
    Schedule,
    Trained,
    batch_size,
    data_of,
    evaluate_probes,
    train_seeds,
)
from workbench.analyses.probes.representations import Bank, build_banks, encoded
from workbench.analyses.probes.targets import Examples, control_labels, examples_of, tasks_of
from workbench.corpora.splits import DEV, TEST, TRAIN
from workbench.engine.batch import Batch
from workbench.engine.words import by_word
from workbench.models.huggingface import HuggingFace
from workbench.models.word_models import words_of

ARMS = ("ours", "loop", "neurox", "sklearn")
RESULTS = Path(__file__).parent / "results" / "probing-cpu.json"
TASKS = ("pos", "dependencies")
EPOCHS, BATCH, RATE = 60, 32, 3e-3  # maximum; 32 targets per step, as published
PATIENCE, GAIN = 4, 2e-3  # a probe has converged after this many epochs without this gain
HALF = 0.5


@dataclass(frozen=True)
class Setting:
    """Sizes of the benchmark."""

    layers: int = 6  # blocks
    width: int = 128
    sentences: int = 400
    seeds: int = 3
    tasks: int = 2
    kind: str = "linear"


def corpus(sentences: int, tasks: Sequence[str]) -> tuple[Batch, np.ndarray]:
    """Train, dev and test of the built-in corpus, and the part of each sentence."""
    primer = read("primer")
    sizes = (sentences, sentences // 4, sentences // 2)
    docs = [
        doc
        for split, size in zip((TRAIN, DEV, TEST), sizes, strict=True)
        for doc in primer.docs(split, size)
    ]
    return encode(docs, list(tasks)), np.repeat([0, 1, 2], sizes)


def model(batch: Batch, setting: Setting, device: str = "cpu") -> HuggingFace:
    tokenizer = _tokenizer({word for d in range(len(batch)) for word in words_of(batch, d)})
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=setting.width,
        num_hidden_layers=setting.layers,
        num_attention_heads=setting.width // 64,
        intermediate_size=4 * setting.width,
    )
    net = BertModel(config).to(device).eval()  # type: ignore[arg-type]
    return HuggingFace(net, tokenizer, "bert-shaped")


def targets(batch: Batch, part_of: np.ndarray, setting: Setting) -> list[tuple[Examples, Tensor]]:
    """The targets of each task, and their control labels."""
    words = [word for d in range(len(batch)) for word in words_of(batch, d)]
    none = torch.zeros(len(batch.words), dtype=torch.bool)
    found = []
    for task in tasks_of(TASKS, TASKS[: setting.tasks]):
        examples = examples_of(task, batch, part_of, none, 1_000_000, 0)
        found.append((examples, control_labels(examples, words, 0)))
    return found


# --- arms -----------------------------------------------------------------------------------------


def ours(batch: Batch, part_of: np.ndarray, setting: Setting) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        found = encoded(model(batch, setting), batch, Path(folder), Quiet())
        bank = build_banks(found.sources, torch.device("cpu"), torch.arange(len(batch.words)))[0]
        encoding = time.perf_counter() - started
        started, scores = time.perf_counter(), []
        probes = [
            Probe((layer,), control)
            for layer in range(setting.layers + 1)
            for control in (False, True)
        ]
        true = [probe for probe in probes if not probe.control]
        updates = 0
        for examples, control in targets(batch, part_of, setting):
            data = data_of(examples, control, softmax=True)
            learnt, dev, test = (data.take(examples.of(part)) for part in (TRAIN, DEV, TEST))
            for share, own in ((HALF, true), (1.0, probes)):
                some = learnt.take(torch.arange(round(share * len(learnt))))
                for trained in trained_by(bank, own, some, dev, setting):
                    updates += trained.updates * len(own)
                    control_of = torch.tensor([int(probe.control) for probe in trained.probes])
                    found = (trained.shape, trained.parameters, trained.reads, control_of)
                    score = evaluate_probes(*found, bank, test)[0]
                    if share == 1:
                        scores.append(score[control_of == 0].tolist())
    return _told(encoding, time.perf_counter() - started, scores, updates)


def trained_by(
    bank: Bank, probes: Sequence[Probe], learnt: Data, dev: Data, setting: Setting
) -> list[Trained]:
    if setting.kind == "linear":
        return [logistic(bank, probes, learnt, dev)]
    schedule = Schedule(
        learning_rate=RATE, batch_size=BATCH, epochs=EPOCHS, patience=PATIENCE, gain=GAIN
    )
    every = dict.fromkeys(range(setting.seeds), learnt)
    return list(train_seeds("edge", 256, bank, probes, every, dev, schedule).values())


def cached(batch: Batch, setting: Setting) -> Tensor:
    """Every layer's states of every word, held in memory.  # [layers, words, width]"""
    with tempfile.TemporaryDirectory() as folder:
        found = encoded(model(batch, setting), batch, Path(folder), Quiet())
        return torch.stack([source.states.float() for source in found.sources])


def features(states: Tensor, examples: Examples, places: Tensor) -> Tensor:
    """States of the words of each target, concatenated.  # [n, sides * width]"""
    return torch.cat([states[spans[places, 0]] for spans in examples.spans], dim=1)


class Edge(nn.Module):
    """A plain edge probe for spans of one word."""

    def __init__(self, sides: int, width: int, labels: int) -> None:
        super().__init__()
        self.sides, self.width = sides, width
        self.project = nn.ModuleList(nn.Linear(width, 256) for _ in range(sides))
        self.rest = nn.Sequential(
            nn.Linear(256 * sides, 256), nn.Tanh(), nn.LayerNorm(256), nn.Dropout(0.3),
            nn.Linear(256, labels),
        )  # fmt: skip
        self.drop = nn.Dropout(0.2)

    def forward(self, inputs: Tensor) -> Tensor:
        sides = self.drop(inputs).split(self.width, 1)
        found: Tensor = self.rest(
            torch.cat([p(side) for p, side in zip(self.project, sides, strict=True)], 1)
        )
        return found


def loop(batch: Batch, part_of: np.ndarray, setting: Setting) -> dict[str, Any]:
    started = time.perf_counter()
    states = cached(batch, setting)
    encoding = time.perf_counter() - started
    started, scores, updates = time.perf_counter(), [], 0
    linear = setting.kind == "linear"
    for examples, control in targets(batch, part_of, setting):
        learnt, dev, test = (examples.of(part) for part in (TRAIN, DEV, TEST))
        half = learnt[: round(HALF * len(learnt))]
        for seed in range(1 if linear else setting.seeds):
            row = []
            for layer in range(setting.layers + 1):
                for some, labels in ((half, examples.labels), (learnt, examples.labels),
                                     (learnt, control)):  # fmt: skip
                    inputs = features(states[layer], examples, some)
                    mean, deviation = inputs.mean(0), inputs.std(0, correction=0).clamp(min=1e-9)
                    parts = [
                        (features(states[layer], examples, places) - mean) / deviation
                        for places in (some, dev, test)
                    ]
                    gold = [labels[places].int().argmax(1) for places in (some, dev, test)]
                    best = (-1.0, 0.0)  # on dev, on test
                    for strength in STRENGTHS if linear else (0.0,):
                        torch.manual_seed(seed)
                        decay = 1 / (len(some) * strength) if linear else 0.0
                        net = made(setting, len(examples.spans), labels.shape[1])
                        found, steps = learnt_alone(net, parts, gold, decay)
                        best, updates = max(best, found), updates + steps
                    if labels is examples.labels and some is learnt:
                        row.append(best[1])
            scores.append(row)
    return _told(encoding, time.perf_counter() - started, scores, updates)


def made(setting: Setting, sides: int, labels: int) -> nn.Module:
    if setting.kind == "linear":
        return nn.Linear(sides * setting.width, labels)
    return Edge(sides, setting.width, labels)


def learnt_alone(
    net: nn.Module, parts: list[Tensor], gold: list[Tensor], decay: float
) -> tuple[tuple[float, float], int]:
    """Train one probe with early stopping; returns best dev accuracy, test accuracy and updates."""
    optimiser = torch.optim.Adam(net.parameters(), RATE, weight_decay=decay)
    size = batch_size(len(parts[0]), Schedule(learning_rate=RATE, batch_size=BATCH))
    best, mark, waited, updates = (-1.0, 0.0), -1.0, 0, 0
    for _ in range(EPOCHS):
        net.train()
        for places in torch.split(torch.randperm(len(parts[0])), size):
            loss = nn.functional.cross_entropy(net(parts[0][places]), gold[0][places])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            updates += 1
        net.eval()
        with torch.no_grad():
            dev, test = (
                float((net(inputs).argmax(1) == wanted).float().mean())
                for inputs, wanted in zip(parts[1:], gold[1:], strict=True)
            )
        best = max(best, (dev, test))
        waited = 0 if dev > mark + GAIN else waited + 1
        mark = max(mark, dev)
        for group in optimiser.param_groups:
            group["lr"] *= 0.5 if waited and waited % (PATIENCE // 2) == 0 else 1.0
        if waited == PATIENCE:
            break
    return best, updates


def neurox(batch: Batch, part_of: np.ndarray, setting: Setting) -> dict[str, Any]:
    started = time.perf_counter()
    net, rows = model(batch, setting), []
    for document in range(len(batch)):
        text = net.encode(batch, [document])
        with torch.no_grad():
            output = net.forward(text)
        rows.append(torch.stack([by_word(h, text)[0][0] for h in output.hidden["encoder"]]))
    states = torch.cat(rows, dim=1)  # [layers, words, width]
    encoding = time.perf_counter() - started
    started, scores, updates = time.perf_counter(), [], 0
    for examples, control in targets(batch, part_of, setting):
        learnt, test = examples.of(TRAIN), examples.of(TEST)
        size = batch_size(len(learnt), Schedule(learning_rate=RATE, batch_size=BATCH))
        for seed in range(setting.seeds):
            row = []
            for layer in range(setting.layers + 1):
                inputs = features(states[layer], examples, learnt)
                for labels in (examples.labels, control):
                    torch.manual_seed(seed)
                    probe = nn.Linear(inputs.shape[1], labels.shape[1])
                    optimiser = torch.optim.Adam(probe.parameters(), RATE)
                    wanted = labels[learnt].int().argmax(1)
                    for _ in range(EPOCHS):
                        for places in torch.split(torch.randperm(len(learnt)), size):
                            said = probe(inputs[places])
                            loss = nn.functional.cross_entropy(said, wanted[places])
                            loss = loss + 1e-3 * probe.weight.abs().sum()  # its elastic net
                            loss = loss + 1e-3 * probe.weight.square().sum()
                            optimiser.zero_grad()
                            loss.backward()
                            optimiser.step()
                            updates += 1
                    if labels is examples.labels:
                        best = probe(features(states[layer], examples, test)).argmax(1)
                        row.append(
                            float(labels[test][torch.arange(len(test)), best].float().mean())
                        )
            scores.append(row)
    return _told(encoding, time.perf_counter() - started, scores, updates)


def sklearn(batch: Batch, part_of: np.ndarray, setting: Setting) -> dict[str, Any]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    started = time.perf_counter()
    states = cached(batch, setting)
    encoding = time.perf_counter() - started
    started, scores = time.perf_counter(), []
    for examples, control in targets(batch, part_of, setting):
        learnt = examples.of(TRAIN)
        row = []
        for layer in range(setting.layers + 1):
            scaler = StandardScaler()
            inputs = scaler.fit_transform(features(states[layer], examples, learnt).numpy())
            held, dev = (
                scaler.transform(features(states[layer], examples, examples.of(part)).numpy())
                for part in (TEST, DEV)
            )
            half = round(HALF * len(learnt))
            for labels, number in ((examples.labels, half), (examples.labels, len(learnt)),
                                   (control, len(learnt))):  # fmt: skip
                gold = [
                    labels[examples.of(part)].int().argmax(1).numpy() for part in (TRAIN, DEV, TEST)
                ]
                nets = [
                    LogisticRegression(C=c, max_iter=300).fit(inputs[:number], gold[0][:number])
                    for c in STRENGTHS
                ]
                net = max(nets, key=lambda net: net.score(dev, gold[1]))
                if labels is examples.labels and number == len(learnt):
                    row.append(float(net.score(held, gold[2])))
        scores.append(row)
    return _told(encoding, time.perf_counter() - started, scores, 0)


def _told(
    encoding: float, probing: float, scores: list[list[float]], updates: int
) -> dict[str, Any]:
    return {
        "encoding": round(encoding, 2),
        "probing": round(probing, 2),
        "updates": updates,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "score": round(100 * float(np.mean([value for row in scores for value in row])), 2),
        "by_task": [
            round(100 * float(np.mean(part)), 2)
            for part in np.array_split(np.array(scores), min(len(TASKS), len(scores)))
        ],
    }


# --- rounds ---------------------------------------------------------------------------------------


def asked(arm: str, setting: Setting) -> dict[str, Any]:
    """Run one arm in a new process."""
    command = [sys.executable, "-m", "tests.benchmarks.probing", "--arm", arm]
    for name, value in vars(setting).items():
        command += [f"--{name}", str(value)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    found: dict[str, Any] = json.loads(done.stdout)
    print(arm, setting, found, file=sys.stderr, flush=True)
    return found


def rounds(setting: Setting, arms: Sequence[str], number: int) -> dict[str, Any]:
    """Run all arms in alternation for all rounds; ratios to ours are within a round."""
    runs = [{arm: asked(arm, setting) for arm in arms} for _ in range(number)]
    table: dict[str, Any] = {"setting": vars(setting)}
    for arm in arms:
        own = [run[arm] for run in runs]
        ratio = sorted(run[arm]["probing"] / run["ours"]["probing"] for run in runs)
        table[arm] = {
            **own[0],
            "probing": statistics.median(each["probing"] for each in own),
            "encoding": statistics.median(each["encoding"] for each in own),
            "ratio": [round(statistics.median(ratio), 2), round(ratio[0], 2), round(ratio[-1], 2)],
        }
    return table


GROWING = (
    Setting(layers=1, seeds=1, tasks=1),
    Setting(layers=2, seeds=1),
    Setting(layers=6, seeds=1),
    Setting(),
    Setting(layers=12, seeds=2),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arm", choices=ARMS)
    parser.add_argument("--rounds", type=int, default=3)
    for name, value in vars(Setting()).items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    given = parser.parse_args()
    setting = Setting(**{name: getattr(given, name) for name in vars(Setting())})
    if given.arm:
        batch, part_of = corpus(setting.sentences, TASKS[: setting.tasks])
        arm = {"ours": ours, "loop": loop, "neurox": neurox, "sklearn": sklearn}[given.arm]
        print(json.dumps(arm(batch, part_of, setting)))
        return
    parts: dict[str, Callable[[], Any]] = {
        "linear": lambda: rounds(setting, ARMS, given.rounds),
        "growing": lambda: [rounds(each, ARMS[:2], 1) for each in GROWING],
        "edge": lambda: rounds(Setting(kind="edge"), ARMS[:2], 1),
    }
    found: dict[str, Any] = {"torch": torch.__version__}
    for name, measured in parts.items():  # saved one by one: the last takes longest
        found[name] = measured()
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
