"""What probing costs: ours beside a plain loop, NeuroX's way, and scikit-learn.

    python -m tests.benchmarks.probing                    seven layers, three rounds, ten minutes

On the CPU: a random BERT of six blocks (seven layers), parts of speech and dependencies, three
seeds, probe and control: 84 linear probes on the same sentences, targets and number of updates.
(a) one probe after another in plain PyTorch on cached activations; (b) one sentence a forward, then
a linear probe a layer with cross-entropy, as NeuroX does it (its release does not install beside
numpy 2, so it is written here); (c) logistic regression of scikit-learn on the same activations.
Each arm is a process of its own, in turn, so that its peak memory is its own; ratios are medians
over rounds with their spread, and every arm's seconds are of encoding and of probing apart.
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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from probes.bank import banked
from probes.control import control_labels
from probes.examples import Examples, examples_of
from probes.sources import encoded
from probes.stack import Probe, Schedule, assessed, batch_size, data_of, train_seeds
from probes.tasks import tasks_of
from tests.benchmarks.engine import Quiet
from workbench.corpora import encode, read
from workbench.engine.batch import Batch
from workbench.engine.store import by_word
from workbench.models.huggingface import HuggingFace
from workbench.models.tiny import _tokenizer
from workbench.models.words import words_of
from workbench.splits import DEV, TEST, TRAIN

ARMS = ("ours", "loop", "neurox", "sklearn")
RESULTS = Path(__file__).parent / "results" / "probing-cpu.json"
TASKS = ("pos", "dependencies")
EPOCHS, BATCH, RATE = 16, 32, 3e-3  # 32 targets a step, as published


@dataclass(frozen=True)
class Setting:
    """How many of what."""

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
        bank = banked(found.sources, torch.device("cpu"), torch.arange(len(batch.words)))[0]
        encoding = time.perf_counter() - started
        started, scores = time.perf_counter(), []
        probes = [
            Probe((layer,), control)
            for layer in range(setting.layers + 1)
            for control in (False, True)
        ]
        schedule = Schedule(RATE, BATCH, EPOCHS, EPOCHS + 1)
        updates = 0
        for examples, control in targets(batch, part_of, setting):
            data = data_of(examples, control)
            learnt, dev, test = (data.take(examples.of(part)) for part in (TRAIN, DEV, TEST))
            every = dict.fromkeys(range(setting.seeds), learnt)
            kind: Any = setting.kind
            for trained in train_seeds(kind, 256, bank, probes, every, dev, schedule).values():
                updates += trained.updates * len(probes)
                told = torch.tensor([int(probe.control) for probe in trained.probes])
                score = assessed(trained.shape, trained.own, trained.reads, told, bank, test)[0]
                scores.append(score[told == 0].tolist())
    return _told(encoding, time.perf_counter() - started, scores, updates)


def cached(batch: Batch, setting: Setting) -> Tensor:
    """Every layer's states of every word, held in memory.  # [layers, words, width]"""
    with tempfile.TemporaryDirectory() as folder:
        found = encoded(model(batch, setting), batch, Path(folder), Quiet())
        return torch.stack([source.states.float() for source in found.sources])


def features(states: Tensor, examples: Examples, places: Tensor) -> Tensor:
    """The words of each target side by side.  # [n, sides * width]"""
    return torch.cat([states[spans[places, 0]] for spans in examples.spans], dim=1)


class Edge(nn.Module):
    """The edge probe for spans of one word, as anyone would write it."""

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
    for examples, control in targets(batch, part_of, setting):
        learnt, dev, test = (examples.of(part) for part in (TRAIN, DEV, TEST))
        size = batch_size(len(learnt), Schedule(RATE, BATCH))
        for seed in range(setting.seeds):
            row = []
            for layer in range(setting.layers + 1):
                parts = [
                    features(states[layer], examples, places) for places in (learnt, dev, test)
                ]
                for labels in (examples.labels, control):
                    torch.manual_seed(seed)
                    sides, width = len(examples.spans), setting.width
                    net = (
                        nn.Linear(sides * width, labels.shape[1])
                        if setting.kind == "linear"
                        else Edge(sides, width, labels.shape[1])
                    )
                    best, kept = -1.0, net.state_dict()
                    optimiser = torch.optim.Adam(net.parameters(), RATE)
                    wanted = labels[learnt].float()
                    for _ in range(EPOCHS):
                        net.train()
                        for places in torch.split(torch.randperm(len(learnt)), size):
                            said = net(parts[0][places])
                            loss = nn.functional.binary_cross_entropy_with_logits(
                                said, wanted[places]
                            )
                            optimiser.zero_grad()
                            loss.backward()
                            optimiser.step()
                            updates += 1
                        net.eval()
                        score = _f1(net, parts[1], labels[dev])
                        if score > best:
                            best = score
                            kept = {name: v.clone() for name, v in net.state_dict().items()}
                    net.load_state_dict(kept)
                    if labels is examples.labels:
                        row.append(_f1(net, parts[2], labels[test]))
            scores.append(row)
    return _told(encoding, time.perf_counter() - started, scores, updates)


def _f1(net: nn.Module, inputs: Tensor, labels: Tensor) -> float:
    with torch.no_grad():
        said = net(inputs) >= 0
    return float(2 * (said & labels).sum() / (said.sum() + labels.sum()).clamp(min=1))


def neurox(batch: Batch, part_of: np.ndarray, setting: Setting) -> dict[str, Any]:
    started = time.perf_counter()
    net, rows = model(batch, setting), []
    for document in range(len(batch)):
        text = net.encode(batch, [document])
        with torch.no_grad():
            output = net.forward(text)
        rows.append(torch.stack([by_word(h, text, "mean")[0][0] for h in output.hidden["encoder"]]))
    states = torch.cat(rows, dim=1)  # [layers, words, width]
    encoding = time.perf_counter() - started
    started, scores, updates = time.perf_counter(), [], 0
    for examples, control in targets(batch, part_of, setting):
        learnt, test = examples.of(TRAIN), examples.of(TEST)
        size = batch_size(len(learnt), Schedule(RATE, BATCH))
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
        learnt, test = examples.of(TRAIN), examples.of(TEST)
        row = []
        for layer in range(setting.layers + 1):
            scaler = StandardScaler()
            inputs = scaler.fit_transform(features(states[layer], examples, learnt).numpy())
            for labels in (examples.labels, control):  # its answer does not depend on a seed
                net = LogisticRegression(max_iter=100)
                net.fit(inputs, labels[learnt].int().argmax(1).numpy())
                if labels is examples.labels:
                    held = scaler.transform(features(states[layer], examples, test).numpy())
                    row.append(float(net.score(held, labels[test].int().argmax(1).numpy())))
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
    """One arm in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.probing", "--arm", arm]
    for name, value in vars(setting).items():
        command += [f"--{name}", str(value)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    found: dict[str, Any] = json.loads(done.stdout)
    print(arm, setting, found, file=sys.stderr, flush=True)
    return found


def rounds(setting: Setting, arms: Sequence[str], number: int) -> dict[str, Any]:
    """Every arm in turn, so often; ratios to ours within a round."""
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
    found = {
        "linear": rounds(setting, ARMS, given.rounds),
        "edge": rounds(Setting(kind="edge"), ARMS[:2], 1),
        "growing": [rounds(each, ARMS[:2], 1) for each in GROWING],
        "torch": torch.__version__,
    }
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
