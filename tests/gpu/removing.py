"""Heads closed, removed and learnt away on a device: what the CPU loses, the device loses.

Costs ten seconds.
"""

import numpy as np
import torch

from tests.gpu.checks import Figures, Setting, apart
from tests.gpu.made import batch_of, opened, saved
from workbench import Gate
from workbench.analyses.pruning.ablation import ablated
from workbench.analyses.pruning.evaluation import score_texts
from workbench.analyses.pruning.gates import Gates, open_probability
from workbench.analyses.pruning.head_masks import closed, heads_of
from workbench.analyses.pruning.importance import gate_gradients
from workbench.engine.batch import Batch
from workbench.models.head_removal import units, without
from workbench.models.huggingface import HuggingFace
from workbench.models.scoring.eval_tasks import Plan, eval_task_of, learn

NAMES = ("bert", "gpt2", "t5", "bart")
LOSS = 1e-3  # nats a piece


def removal(setting: Setting, figures: Figures) -> None:
    """Leaving a head out by a prefix, by a gate and by cutting its weights is one and the same."""
    batch = batch_of(24)
    for name in NAMES[:3] if setting.small else NAMES:
        folder = saved(name, setting.folder)
        expected = _without_each(opened(folder), batch)
        model = opened(folder, setting.device)
        found = _without_each(model, batch)
        figures.at_most(f"{name}: losses apart from the CPU's", _far(found, expected), LOSS)
        figures.at_least(f"{name}: what some head matters", float(np.ptp(found)), 10 * LOSS)
        aim = eval_task_of(model)
        questions = list(aim.questions(model, batch))
        head = heads_of(model)[-1]
        gate = score_texts(model, aim, questions, [Gate(closed(model, [head]))]).value("loss")
        unit = next(unit for unit in units(model) if head in unit.heads)
        together = score_texts(model, aim, questions, [Gate(closed(model, unit.heads))]).value(
            "loss"
        )
        smaller = score_texts(without(model, unit.heads), aim, questions).value("loss")
        figures.at_most(f"{name}: a prefix and a gate apart", abs(found[-1] - gate), LOSS)
        figures.at_most(f"{name}: a gate and a smaller model apart", abs(together - smaller), LOSS)


def _without_each(model: HuggingFace, batch: Batch) -> np.ndarray:
    """The loss without each head, several heads to a batch.  # [heads]"""
    aim = eval_task_of(model)
    questions = list(aim.questions(model, batch))
    return ablated(model, aim, questions, [[head] for head in heads_of(model)]).values("loss")


def _far(one: np.ndarray, two: np.ndarray) -> float:
    return float(np.abs(one - two).max())


def gates(setting: Setting, figures: Figures) -> None:
    """Gradients of gates, and gates that learn at a price or for a budget."""
    batch = batch_of(48)
    steps = 8 if setting.small else 30
    for name in NAMES[:2] if setting.small else NAMES:
        folder = saved(name, setting.folder)
        here, there = opened(folder), opened(folder, setting.device)
        one, two = (_gradients(model, batch) for model in (here, there))
        figures.at_most(f"{name}: gradients of texts apart", apart(two, one), 1e-3)
        for way, size in (("price", None), ("budget", 2)):
            learnt = [_learnt(model, batch, size, steps) for model in (here, there)]
            (losses, chances), (own_losses, own_chances) = learnt
            far = _far(own_losses / losses, np.ones(steps))
            figures.at_most(f"{name} by {way}: losses apart, of themselves", far, 0.05)
            far = float((own_chances - chances).abs().max())
            figures.at_most(f"{name} by {way}: probabilities of being open apart", far, 0.05)
            moved = float((own_chances - own_chances.mean()).abs().max())
            figures.at_least(f"{name} by {way}: gates that differ", moved, 1e-3)


def _gradients(model: HuggingFace, batch: Batch) -> torch.Tensor:
    """Of the loss of each text by each gate.  # [texts, heads]"""
    aim = eval_task_of(model)
    return torch.from_numpy(gate_gradients(model, aim, aim.questions(model, batch)).values)


def _learnt(
    model: HuggingFace, batch: Batch, size: int | None, steps: int
) -> tuple[np.ndarray, torch.Tensor]:
    """The losses of gates that learn, and how likely each is open at the end."""
    own = Gates(model, units(model), 0, size)
    found = learn(
        model,
        eval_task_of(model),
        batch,
        range(len(batch)),
        Plan(steps, texts=16),
        taps=own.drawn,
        weights=[],
        more=[{"params": [own.scores], "lr": 0.1}],
        penalty=(lambda: 0.03 * open_probability(own.scores).sum()) if size is None else None,
    )
    return np.array(found.losses), own.probabilities().cpu()
