"""The model that is kept: without its least heads, fine-tuned, saved, and timed next to the whole.

Costs the ordering, the fine-tuning, and three forward passes of some batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import pandas as pd
import torch

from workbench.engine.pieces import Pieces
from workbench.models import pruned
from workbench.models.huggingface import HuggingFace
from workbench.models.learning import Learnt
from workbench.pruning.asking import Asking
from workbench.pruning.curves import MEBI, memory, weights
from workbench.pruning.gating import Head, heads_of, named
from workbench.pruning.paired import intervals, p_values
from workbench.pruning.texts import METRICS, Texts

SIZES = (1, 16, 64)  # texts at a time
TIMES = 5


@dataclass(frozen=True)
class Stage:
    """A model on its way, and how it did then."""

    name: str
    heads: int
    parameters: int
    weights: float  # MiB
    texts: Texts
    against: str = ""  # the stage that it is compared with
    learnt: Learnt | None = None  # None: nothing was fine-tuned


def stage(
    name: str, model: HuggingFace, texts: Texts, against: str = "", learnt: Learnt | None = None
) -> Stage:
    heads = sum(site.heads for site in model.sites)
    return Stage(name, heads, model.parameters, weights(model), texts, against, learnt)


def saved(model: HuggingFace, keep: Path | None) -> float:
    """Write the model down, if there is a place for it; MiB of its weights on disk."""
    if keep is None:
        return 0.0
    pruned.save(model, keep)
    return sum(file.stat().st_size for file in keep.glob("*.safetensors")) / MEBI


def kept(stages: Sequence[Stage], seed: int) -> pd.DataFrame:
    """A row a stage and metric; each stage is compared with another on the same texts."""
    texts = {each.name: each.texts for each in stages}
    rows = []
    for metric in METRICS:
        apart = np.stack(
            [s.texts.part(metric) - texts[s.against or s.name].part(metric) for s in stages], 1
        )  # [texts, stages]
        number = stages[0].texts.number
        lower, upper = intervals(apart, number, seed)
        chance = p_values(apart, seed)
        for place, each in enumerate(stages):
            value = each.texts.value(metric)
            rows.append(
                {
                    "stage": each.name,
                    "metric": metric,
                    "value": value,
                    "against": each.against,
                    "delta": value - texts[each.against or each.name].value(metric),
                    "lower": lower[place],
                    "upper": upper[place],
                    "p_value": chance[place],
                    "steps": len(each.learnt.losses) if each.learnt else 0,
                    "best_step": each.learnt.best if each.learnt else 0,
                    "converged": each.learnt.converged if each.learnt else True,
                    "heads": each.heads,
                    "parameters": each.parameters,
                    "size": each.weights,
                }
            )
    return pd.DataFrame(rows)


def heads(whole: HuggingFace, gone: Sequence[Head]) -> pd.DataFrame:
    """Every head of the whole model, and whether it stayed."""
    sites = {site.index: site for site in whole.sites}
    rows = [
        {**named(sites[site], head), "kept": (site, head) not in set(gone)}
        for site, head in heads_of(whole)
    ]
    return pd.DataFrame(rows)


def speed(measuring: Asking, whole: HuggingFace, smaller: HuggingFace) -> pd.DataFrame:
    """Both models on the same texts, in turn; the longest there are."""
    batch = measuring.batch
    longest = sorted(range(len(batch)), key=lambda document: -len(batch.text_of(document)))
    rows = []
    for number in SIZES:
        some = [longest[place % len(longest)] for place in range(number)]
        text = whole.encode(batch, some).to(whole.device)
        turns = [(_passed(whole, text), _passed(smaller, text)) for _ in range(TIMES + 1)][1:]
        before, after = (median(turn[n][0] for turn in turns) for n in (0, 1))
        rows.append(
            {
                "texts": number,
                "pieces": int(text.mask.sum()),
                "whole": before,
                "smaller": after,
                "speedup": before / max(after, 1e-12),
                "whole_memory": turns[-1][0][1],
                "smaller_memory": turns[-1][1][1],
            }
        )
    return pd.DataFrame(rows)


def _passed(model: HuggingFace, text: Pieces) -> tuple[float, float]:
    """Seconds of one forward pass, and the memory it took."""
    cuda = model.device.type == "cuda"
    with torch.no_grad():
        if cuda:
            torch.cuda.reset_peak_memory_stats(model.device)
            torch.cuda.synchronize(model.device)
        started = perf_counter()
        model.forward(text, hidden=False)
        if cuda:
            torch.cuda.synchronize(model.device)
    return perf_counter() - started, memory(model)
