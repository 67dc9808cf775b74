"""The benchmarks on a device, and which share of its own rates each reaches.

The floor is what the same matrix products would take at the rate of a large one in the same
precision, measured first: two FLOPs a weight and piece forward, four more backward. The arms and
their models are those of `tests.benchmarks`; texts are made, not read. Costs two minutes on a GPU.
"""

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.functional import one_hot

from tests.analyses.training.lessons import lesson
from tests.benchmarks import engine, heads, probing_device, pruning
from tests.benchmarks.engine import Quiet
from tests.gpu.checks import Figures, Setting, timed
from tests.gpu.machine import matrix_rate
from tests.gpu.made import batch_of
from tests.gpu.passes import shaped
from workbench.analyses.probes.probe_training import Data
from workbench.analyses.probes.representations import build_banks, encoded
from workbench.analyses.pruning.head_masks import heads_of
from workbench.analyses.pruning.importance import gate_gradients
from workbench.analyses.training.families import Size, build, family_of
from workbench.analyses.training.packing import pack
from workbench.analyses.training.token_store import tokenize_text
from workbench.analyses.training.tokenizers import train_tokenizer
from workbench.analyses.training.vocabulary import vocabulary_of
from workbench.engine.forward_pass import PIECES, Limit, batches_of
from workbench.models.huggingface import HuggingFace
from workbench.models.scoring.eval_tasks import eval_task_of

SLOWER = 1.5  # than a plain fused pass, at most, where heads are gated
HEADS_ARMS = ("eager", "sdpa", "ours", "captured")


def in_blocks(net: nn.Module) -> int:
    """Weights that every piece passes through: all but embeddings and heads."""
    return sum(
        weight.numel()
        for name, weight in net.named_parameters()
        if ".layer" in name or ".h." in name
    )


def engine_speed(setting: Setting, figures: Figures) -> None:
    """Plain eager and fused passes, and ours with nothing, with gates and with all reducers."""
    batch = batch_of(60 if setting.small else 2_000, 60, 5)
    model = shaped(setting, batch)
    kind = setting.device.type
    parts = batches_of(model, batch, Limit(PIECES[kind]), fills=kind == "cuda")
    texts = [text.to(setting.device) for text in parts]
    seconds = engine.measure(model, texts, 1 if setting.small else 3)
    pieces = sum(text.mask.numel() for text in texts)
    rate = matrix_rate(setting, model.net.dtype)
    figures.note("TFLOP/s of a large product", rate / 1e12)
    for arm, took in seconds.items():
        figures.note(f"{arm}: pieces a second", round(pieces / min(took)))
        figures.note(f"{arm}: share of the floor", _share(model, pieces, min(took), rate))
    for arm in ("engine", "gates", "reducers"):
        ratio = statistics.median(a / b for a, b in zip(seconds[arm], seconds["sdpa"], strict=True))
        if arm != "reducers" and setting.on_gpu and not setting.small:
            figures.at_most(f"{arm}: to a plain fused pass", ratio, SLOWER)
        else:
            figures.note(f"{arm}: to a plain fused pass", ratio)
    if setting.on_gpu:
        figures.note("MiB above the model", engine.cuda_peaks(model, texts))


def _share(model: HuggingFace, pieces: int, seconds: float, rate: float) -> float:
    """Of the floor that a forward pass over so many pieces has."""
    return 2 * in_blocks(model.net) * pieces / seconds / rate


def heads_speed(setting: Setting, figures: Figures) -> None:
    """The whole pass of head statistics beside plain passes, and beside maps kept in full."""
    batch = batch_of(40 if setting.small else 1_000, 30, 5)
    model = shaped(setting, batch)
    pieces = int(model.encode(batch).mask.sum())
    rate = matrix_rate(setting, model.net.dtype)
    for arm in HEADS_ARMS:
        rounds = [heads.timed(model, batch, [], arm) for _ in range(2 if setting.small else 4)]
        seconds = min(rounds[1:])
        figures.note(f"{arm}: words a second", round(len(batch.words) / seconds))
        figures.note(f"{arm}: share of the floor", _share(model, pieces, seconds, rate))


def pruning_speed(setting: Setting, figures: Figures) -> None:
    """Every head left out, one by one and many to a batch; importance in one pass."""
    batch = batch_of(4 if setting.small else 48, 28, 20)
    half = torch.bfloat16 if setting.half == "bf16" else torch.float32
    net = pruning.model(batch, str(setting.device), half, 1 if setting.small else 12)
    aim = eval_task_of(net)
    questions = list(aim.questions(net, batch, pieces=None if setting.on_gpu else 512))
    chosen = heads_of(net)[:: 4 if setting.small else 1]
    most = max(question.pieces for question in questions)
    arms: dict[str, Callable[[], Any]] = {
        "plain": lambda: pruning.plain(net, aim, questions, chosen),
        "prefix": lambda: pruning.ours(net, aim, questions, chosen, most),
        "batched": lambda: pruning.ours(net, aim, questions, chosen, None),
        "one by one": lambda: pruning.one_by_one(net, aim, questions),
        "importance": lambda: gate_gradients(net, aim, questions).importance(),
    }
    found = {arm: run() for arm, run in arms.items()}  # which warms up, too
    seconds = {arm: timed(setting, run)[1] for arm, run in arms.items()}
    rate = matrix_rate(setting, half)
    forward = 2 * in_blocks(net.net) * sum(int(question.text.mask.sum()) for question in questions)
    floors = {"importance": 2 * forward / rate, "one by one": 3 * forward / rate}
    for arm, took in seconds.items():
        figures.note(f"{arm}: seconds", took)
        floor = floors.get(arm, len(chosen) * forward / rate)
        figures.note(f"{arm}: share of the floor", floor / took)
    for arm in ("prefix", "batched"):
        far = max(abs(a - b) for a, b in zip(found["plain"], found[arm], strict=True))
        figures.at_most(f"{arm}: losses apart from the plain loop's", far, _loss_apart(setting))
    figures.note("plain to batched", seconds["plain"] / seconds["batched"])
    figures.note("one by one to importance", seconds["one by one"] / seconds["importance"])


def _loss_apart(setting: Setting) -> float:
    """Nats a piece: products of other shapes round otherwise in bf16."""
    return 0.02 if setting.half == "bf16" else 1e-4


def probing_speed(setting: Setting, figures: Figures) -> None:
    """All seeds, layers, probe and control of one task over the states of one model."""
    batch = batch_of(60 if setting.small else 3_000, 12, 5)
    model = shaped(setting, batch)
    home = setting.folder
    own, encoding = timed(setting, lambda: encoded(model, batch, home, Quiet()))
    rows = torch.arange(len(batch.words))
    bank, filling = timed(setting, lambda: build_banks(own.sources, setting.device, rows)[0])
    rate = probing_device.rates(setting.device.type)
    layers, epochs = model.stacks[0].layers, 1 if setting.small else 5
    given = argparse.Namespace(device=setting.device.type, layers=layers, epochs=epochs)
    whole = _targets(len(rows), 12)
    cut = 9 * len(rows) // 10
    learnt, dev = whole.take(rows[:cut]), whole.take(rows[cut:])
    found = probing_device.trained(bank, learnt, dev, given, rate)
    figures.note("encoding: seconds", encoding)
    figures.note("filling: seconds", filling)
    for name in ("probes", "updates", "seconds"):
        figures.note(name, found[name])
    figures.note("share of the floor", 1 / found["to_floor"])


def _targets(words: int, labels: int) -> Data:
    """Each word with a random label, and another for the control."""
    rows = torch.arange(words)
    drawn = torch.randint(0, labels, (2, words), generator=torch.Generator().manual_seed(0))
    return Data(
        (torch.stack([rows, rows + 1], 1),),
        one_hot(drawn, labels).bool(),
        torch.zeros(words, dtype=torch.long),
        torch.ones(labels, dtype=torch.bool),
    )


def training_speed(setting: Setting, figures: Figures) -> None:
    """Tokens a second of the trainer, for a masked and for a causal model."""
    from tests.benchmarks import training

    lines = lesson(400 if setting.small else 6_000)
    size = Size(2, 64, 2, 360, 32) if setting.small else Size(12, 768, 12, 360, 128)
    batch, steps = (4, 4) if setting.small else (128, 20)
    half = torch.bfloat16 if setting.half == "bf16" else torch.float32
    rate = matrix_rate(setting, half)
    for family, objective in training.FAMILIES.items():
        row = family_of(family)
        words = train_tokenizer(
            lines, row.algorithm, row.layout, size.vocabulary_size, max_length=size.sequence_length
        )
        store = tokenize_text(lines, words, setting.folder / family, processes=1)
        packing = pack(store, vocabulary_of(words), size.sequence_length)
        net = build(family, size, words, 0, objective)
        weights = in_blocks(net)
        tokens = training.ours(net, objective, packing, batch, steps, setting.device)
        figures.note(f"{family}: tokens a second", round(tokens))
        figures.note(f"{family}: share of the floor", 6 * weights * tokens / rate)
        figures.holds(f"{family}: weights that every token passes", weights > 0)
