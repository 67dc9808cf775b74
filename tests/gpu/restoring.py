"""Activations restored, read and written on a device: the numbers of the CPU, for every kind.

Costs some seconds.
"""

from functools import partial

import torch
from torch import Tensor

from tests.gpu.checks import Figures, Setting, timed
from tests.gpu.made import batch_of, opened, saved
from workbench import Read, Write
from workbench.engine.batch import Pieces
from workbench.models.huggingface import HuggingFace
from workbench.models.interventions.patching import (
    Patch,
    What,
    activations,
    patch_points,
    patched,
    recorded_base,
)

NAMES = ("bert", "albert", "xlnet", "gpt2", "t5", "bart")
WHAT: tuple[What, ...] = ("states", "heads", "mlps", "attentions")
APART = 3e-4  # of a logit
LENGTH = 8


def patching(setting: Setting, figures: Figures) -> None:
    """Each point of six families, restored at each piece."""
    for name in NAMES[:3] if setting.small else NAMES:
        folder = saved(name, setting.folder)
        here, there = opened(folder), opened(folder, setting.device)
        for what in WHAT:
            expected = _restored(here, what)
            found, seconds = timed(setting, partial(_restored, there, what))
            far = float((found - expected).abs().max())
            figures.at_most(f"{name}: {what} apart from the CPU's", far, APART)
            figures.at_least(f"{name}: {what} change the logit", float(expected.std()), 10 * APART)
            figures.note(f"{name}: {what}, seconds", seconds)


def states(setting: Setting, figures: Figures) -> None:
    """Sites of six families, read and written in a pass and by an edited model."""
    for name in NAMES[:3] if setting.small else NAMES:
        folder = saved(name, setting.folder)
        here, there = opened(folder), opened(folder, setting.device)
        for site in ("embeddings", "block 1", "block 1 mlp", "head 2.2"):
            expected, found = _written(here, site), _written(there, site)
            far = float((found - expected).abs().max())
            figures.at_most(f"{name}: {site} written, apart from the CPU's", far, APART)
            figures.at_least(f"{name}: {site} is changed", float(expected.std()), 10 * APART)


def _written(model: HuggingFace, site: str) -> Tensor:
    """Logits of two texts with a changed site, of a tap and of a model, and what was read."""
    text = model.encode(batch_of(2, LENGTH, LENGTH)).to(model.device)
    tap, seen = Write(site, times=0.5, plus=0.2, positions=slice(1, None)), Read(site)
    edited = tap.into(model)
    assert isinstance(edited, HuggingFace), "it is a model of the same kind"
    with torch.no_grad(), tap.on(model), seen.on(model):
        own = _logit(model, text)
    with torch.no_grad():
        other = _logit(edited, text)
    return torch.cat([own, other, *(states.flatten() for states in seen[site])]).float().cpu()


def _restored(model: HuggingFace, what: What) -> Tensor:
    """The logit of one choice at the last piece, by patch."""
    text = model.encode(batch_of(2, LENGTH, LENGTH)).to(model.device)
    length = min(text.mask.sum(1).tolist())
    clean, corrupt = (text.take([row]).narrowed(length) for row in (0, 1))
    points = patch_points(model, what)
    positions = range(length)
    patches = [
        Patch(point, (at,), (at,), at % points.heads[point] if what == "heads" else None)
        for point in points.points
        for at in positions
    ]
    base = recorded_base(points, lambda: _logit(model, corrupt))
    source = activations(points, lambda: _logit(model, clean))
    return patched(
        points,
        base,
        source,
        patches,
        lambda n_rows, here: _logit(model, corrupt.take([0] * n_rows)),
        length,
    )


def _logit(model: HuggingFace, text: Pieces) -> Tensor:
    mask = torch.zeros_like(text.mask)
    mask[:, -1] = True
    targets = text if model.two_sided else None
    logits = model.forward(text, targets=targets, logits=mask, hidden=False).logits
    assert logits is not None, "the model has a head"
    return logits[:, 7].float()
