"""Models that learn on a device: fine-tuned, trained, ended and gone on with, and as one of many.

Costs a minute, for trainings tokenise, save and read again what they made.
"""

import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tests.analyses.training.lessons import Told, lesson, settings
from tests.gpu.checks import Figures, Setting, Skipped, apart
from tests.gpu.made import WORDS, batch_of, opened, saved
from workbench.analyses.training.train import Trained, train
from workbench.models.elmo import Elmo, ElmoOptions
from workbench.models.huggingface import HuggingFace
from workbench.models.output_heads.lm_heads import autocast
from workbench.models.scoring.eval_tasks import Plan, eval_task_of, learn

ONE_RANK_SECONDS = 120
STEPS, ENDED = 12, 8


def fine_tuning(setting: Setting, figures: Figures) -> None:
    """Losses step by step are the CPU's; in bf16 as much is learnt as in float32."""
    batch, steps = batch_of(64), 12 if setting.small else 40
    for name in ("bert", "gpt2") if setting.small else ("bert", "gpt2", "t5", "llama"):
        folder = saved(name, setting.folder)

        def losses(model: HuggingFace, steps: int = steps) -> np.ndarray:
            aim, plan = eval_task_of(model), Plan(steps, rate=3e-3, texts=64)
            return np.array(learn(model, aim, batch, range(len(batch)), plan).losses)

        expected, found = losses(opened(folder)), losses(opened(folder, setting.device))
        half = losses(opened(folder, setting.device, "bf16"))
        far = float(np.abs(found / expected - 1).max())
        figures.at_most(f"{name}: losses apart, of themselves", far, 0.05)
        figures.at_most(f"{name}: last loss, of the first", found[-1] / found[0], 0.9)
        learnt = (half[0] - half[-1]) / (found[0] - found[-1])
        figures.at_least(f"{name}: learnt in bf16, of what float32 learns", learnt, 0.8)


def elmo(setting: Setting, figures: Figures) -> None:
    """ELMo reads as on the CPU, and learns with its products in bf16 where there is a GPU."""
    small = ElmoOptions(
        character_width=4, filters=((1, 8), (2, 8), (3, 16)), cells=32, width=16, highways=1
    )
    options = small if setting.small else ElmoOptions(cells=1024, width=256)
    options = replace(options, cell_clip=None, projection_clip=None)
    sentences = [WORDS[: 3 + place % 9] for place in range(6 if setting.small else 64)]
    here, there = (Elmo.random(options, seed=0).to(device) for device in ("cpu", setting.device))
    expected, _ = here(sentences)
    found, _ = there(sentences)
    for layer, (one, two) in enumerate(zip(expected, found, strict=True)):
        figures.at_most(f"layer {layer} apart", apart(two, one), 1e-4)
    exact, half = _gradients(here, sentences, False), _gradients(there, sentences, setting.on_gpu)
    for name, gradient in half.items():
        # where two letters are as good, rounding chooses which of them a filter learns from
        bound = 0.3 if "W_cnn" in name or name == "char_embed" else 0.1
        figures.at_most(f"gradient of {name} apart", apart(gradient, exact[name]), bound)
    optimiser = torch.optim.SGD(there.parameters(), lr=1e-3)
    losses = []
    for _ in range(4):
        optimiser.zero_grad()
        loss = _loss(there, sentences, setting.on_gpu)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(there.parameters(), 1.0)
        optimiser.step()
        losses.append(float(loss.detach()))
    figures.at_most("loss after three steps, of the first", losses[-1] / losses[0], 1 - 1e-6)


def _loss(net: Elmo, sentences: list[list[str]], half: bool) -> Tensor:
    """What growing states cost, as good as any loss to learn from."""
    device = next(net.parameters()).device
    with autocast(device) if half else torch.enable_grad():
        layers, _ = net(sentences)
    return torch.stack([layer.float().square().mean() for layer in layers]).sum()


def _gradients(net: Elmo, sentences: list[list[str]], half: bool) -> dict[str, Tensor]:
    net.zero_grad()
    _loss(net, sentences, half).backward()  # type: ignore[no-untyped-call]
    return {name: weight.grad.clone() for name, weight in net.weights.items()}


class _Ended(Told):
    """Progress that ends a run after its eighth step."""

    def __call__(self, done: int, total: int | None = None, doing: str = "") -> None:
        super().__call__(done, total, doing)
        if total == STEPS and done > ENDED:
            raise _OverError


class _OverError(Exception):
    """A run was ended."""


def training(setting: Setting, figures: Figures) -> None:
    """A run that was ended and gone on with loses what a run left alone does, step by step."""
    again = 1e-6 if not setting.on_gpu else 0.02  # embeddings add up in any order on a GPU
    for family in ("bert", "gpt", "elmo"):
        folder = setting.folder / family
        folder.mkdir()
        run = partial(_trained, family, folder, str(setting.device))
        alone, progress = run("alone", Told()), Told()
        with suppress(_OverError):
            run("ended", _Ended())
        resumed = run("ended", progress)
        going = progress.logs[:1] == [f"Continuing from step {ENDED}."]
        figures.holds(f"{family}: gone on with", going)
        one, two = (np.array([row.loss for row in each.rows]) for each in (alone, resumed))
        far = float(np.abs(two / one - 1).max()) if len(one) == len(two) else float("inf")
        figures.at_most(f"{family}: losses apart, of themselves", far, again)
        figures.at_most(f"{family}: last loss, of the first", one[-1] / one[0], 0.98)
        if setting.on_gpu:
            first = _trained(family, folder, "cpu", "cpu", Told()).rows[0].loss
            figures.at_most(
                f"{family}: first loss apart from the CPU's", abs(one[0] / first - 1), 0.05
            )


def _trained(family: str, folder: Path, device: str, name: str, progress: Told) -> Trained:
    """A short training with dropout, a checkpoint every four steps and a row for each."""
    own = settings(STEPS, checkpoint_steps=4, points=STEPS, dropout=0.1, micro_batch_size=4)
    home = folder / "tokens"
    return train(family, lesson(), folder / name, own, progress, device=device, home=home)


def one_rank(setting: Setting, figures: Figures) -> None:
    """The trainer with its gradients through NCCL (on a CPU gloo), in a process of its own."""
    if not torch.distributed.is_available():
        raise Skipped("torch was built without torch.distributed")
    out = setting.folder / "found.json"
    command = [sys.executable, "-m", "tests.gpu.one_rank", str(setting.device), str(out)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=ONE_RANK_SECONDS, check=False,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr[-2_000:])
    found = json.loads(out.read_text("utf-8"))
    figures.note("backend", found["backend"])
    figures.at_most("losses apart, of themselves", found["apart"], found["bound"])
    figures.at_most("sums over one process apart", found["sums"], 0.0)
