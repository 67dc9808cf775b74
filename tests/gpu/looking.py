"""What heads look at, on a device and on the CPU: the whole pass with its drawings and its null.

Costs ten seconds.
"""

from functools import partial

import torch

from tests.benchmarks.heads import _gold_of
from tests.gpu.checks import Figures, Setting, apart, timed
from tests.gpu.made import batch_of, opened, saved
from workbench.analyses.heads.collect import SUMS, PassSettings, look

ADDED = ("heads", "shared", "even")  # sums of numbers; the others are counts
SUM, TIES = 2e-3, 1e-2  # apart: an argmax among like numbers may fall otherwise, and is counted


def heads(setting: Setting, figures: Figures) -> None:
    """All sums of all heads, of an encoder, a decoder and a model of two stacks."""
    batch = batch_of(60 if setting.small else 400)
    gold, asking = _gold_of(batch), PassSettings(n_bootstrap=50, n_shuffles=50)
    for name in ("bert", "gpt2", "t5"):
        folder = saved(name, setting.folder)
        expected = look(opened(folder), batch, gold, asking)
        model = opened(folder, setting.device)
        found, seconds = timed(setting, partial(look, model, batch, gold, asking))
        figures.note(f"{name}: seconds", seconds)
        figures.holds(f"{name}: every document came", found.report.documents == len(batch))
        for what in SUMS:
            one, two = getattr(expected, what), getattr(found, what)
            figures.holds(f"{name}: {what} of the same sites", list(one) == list(two))
            far = max((apart(two[key], one[key]) for key in one), default=0.0)
            figures.at_most(f"{name}: {what} apart", far, SUM if what in ADDED else TIES)
        again = look(model, batch, gold, asking)
        same = all(
            torch.equal(sums, getattr(again, what)[key])
            for what in ("hits", "rare_hits")
            for key, sums in getattr(found, what).items()
        )
        figures.holds(f"{name}: the same counts twice", same)
