"""Which part of its source an encoder-decoder attends to while it writes, by layer.

A written piece that is also in the source has an attention of its own there. It is compared with
the attention that the same pieces get while others are written, so that a piece which is always
attended counts for nothing. Costs: a pass over each source and its text with the maps of
cross-attention, mean over heads.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from workbench.core.arrays import Floats
from workbench.core.cluster_sample import ClusterSample
from workbench.core.stats import ratio
from workbench.engine.batch import NO_WORD, Pieces, Row, pad
from workbench.engine.forward_pass import chunks
from workbench.engine.model import Model
from workbench.engine.taps import Capture
from workbench.experiment.definition import Progress

CHUNK = 16  # texts in a pass
ALL = "all"  # layers
NUMBERS = ("own", "others", "covered", "special", "texts")


@torch.no_grad()
def coverage(
    model: Model,
    read: Pieces,
    rows: Sequence[Sequence[int]],
    sample: ClusterSample,
    progress: Progress,
) -> pd.DataFrame:
    """The table `coverage` of what was read and the pieces that were written."""
    sites = [site for site in model.sites if site.kind == "cross"]
    numbers = np.zeros((len(rows), len(sites), len(NUMBERS)))
    written = [n for n, row in enumerate(rows) if row]
    for part in chunks(written, CHUNK):
        source = read.take(list(part)).narrowed().to(model.device)
        target = _target(model, [rows[n] for n in part])
        capture = Capture(lambda site: site.kind == "cross")
        model.forward(source, targets=target, taps=[capture], hidden=False)
        for at, site in enumerate(sites):
            maps = capture.maps[site][0].float().mean(1)  # [batch, written, read]
            for row, n in enumerate(part):
                numbers[n, at] = _of_text(maps[row], source, target, row)
        progress(int(part[-1]) + 1, len(rows), "reading cross-attention")
    return _table(numbers, sample)


def _target(model: Model, rows: Sequence[Sequence[int]]) -> Pieces:
    """Written pieces as a batch."""
    made = []
    for ids in rows:
        none = np.full(len(ids), NO_WORD, dtype=np.int64)
        made.append(Row(np.array(ids, dtype=np.int64), none, none > 0, None, 0))
    return pad(made).to(model.device)


def _of_text(maps: Tensor, source: Pieces, target: Pieces, row: int) -> list[float]:
    """The numbers of one text.  # [written, read]"""
    n_written = int(target.mask[row].sum())
    is_text = source.mask[row] & ~source.special[row]
    ids, written = source.ids[row][is_text], target.ids[row, :n_written]
    shares = maps[:n_written][:, is_text]  # [written, text]
    total = shares.sum(1, keepdim=True)
    shares = shares / total.clamp(min=1e-12)
    mean = shares.mean(0)
    covered = float((-(mean * mean.clamp(min=1e-12).log()).sum()).exp()) / max(len(ids), 1)
    same = (written[:, None] == ids).float()  # [written, text]
    attended = same @ shares.T  # [written, step]: attention of each step on the same pieces
    others = (written[:, None] != written).float()  # [written, step]
    counted = (same.sum(1) > 0) & (others.sum(1) > 0)
    elsewhere = (attended * others).sum(1) / others.sum(1).clamp(min=1)
    own = attended.diagonal()
    return [
        float(own[counted].sum()), float(elsewhere[counted].sum()), covered,
        float(1 - total.mean()), 1.0,
    ]  # fmt: skip


def _table(numbers: Floats, sample: ClusterSample) -> pd.DataFrame:
    """One row for all layers and for each.  # [texts, layers, numbers]"""
    if not numbers[..., -1].any():
        return pd.DataFrame()
    every = np.concatenate([numbers.mean(1, keepdims=True), numbers], 1)  # all layers first
    own, others, covered, special, texts = np.moveaxis(every, -1, 0)
    lift = ratio(own.sum(0), others.sum(0), np.nan)
    lower, upper = sample.ratio_interval(own, others)
    rows = [
        {
            "layer": str(place - 1) if place else ALL, "lift": lift[place],
            "lower": lower[place], "upper": upper[place],
            "covered": covered[:, place].sum() / texts[:, place].sum(),
            "special": special[:, place].sum() / texts[:, place].sum(),
            "copied": int((own[:, place] > 0).sum()), "n": int(texts[:, place].sum()),
        }
        for place in range(len(lift))
    ]  # fmt: skip
    return pd.DataFrame(rows)
