"""What training has cost a model of its language: the loss on a corpus after, less that before.

Both models are scored on the same texts by the objective they share, with the same pieces hidden
where any are; intervals are over drawings of sentences, the same ones for both. Costs a pass of
each model with logits.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from workbench.bootstrap import Floats, interval, resampled
from workbench.engine.batch import Batch
from workbench.engine.model import Model
from workbench.experiment import Progress
from workbench.models.scoring import Scores, joined, measures, score

CHUNK = 512  # documents scored before it is told
COLUMNS = ["metric", "before", "after", "change", "lower", "upper", "n"]


def no_forgetting(before: Model, after: Model) -> str:
    """Why there are no losses to compare; "" where there are."""
    headless = [model.name for model in (before, after) if not model.objective]
    if headless:
        return (
            f"{' and '.join(dict.fromkeys(headless))} {'has' if len(headless) == 1 else 'have'} no "
            "language-model head with weights of its own, or none whose predictions can be "
            "measured: what was forgotten is not known."
        )
    if before.objective != after.objective:
        return (
            f"Before, the model is {before.objective}, and after, {after.objective}: their losses "
            "do not compare, and what was forgotten is not known."
        )
    return ""


def forgetting(
    before: Model, after: Model, batch: Batch, seed: int, progress: Progress
) -> pd.DataFrame:
    """Losses of both, and what has come to them."""
    old = _scored(before, batch, seed, lambda now: progress(now, 2 * len(batch), "losses"))
    new = _scored(
        after, batch, seed, lambda now: progress(len(batch) + now, 2 * len(batch), "losses")
    )
    objective = str(before.objective)
    told, told_new = measures(old, objective), measures(new, objective)
    prefix = next(iter(told)).removesuffix("loss")
    sums = np.concatenate([_sums(old, objective), _sums(new, objective)], axis=1)  # [texts, 8]
    rows = []
    for metric, of in _METRICS.items():
        name = f"{prefix}{metric}"
        first, second = told[name][0], told_new[name][0]
        lower, upper = interval(resampled(sums[None, None], _change(of), seed)[0])
        rows.append(
            (name, first, second, second - first, float(lower), float(upper), told[name][1])
        )
    return pd.DataFrame(rows, columns=COLUMNS)


def _scored(model: Model, batch: Batch, seed: int, told: Callable[[int], object]) -> Scores:
    parts = []
    for start in range(0, len(batch), CHUNK):
        documents = range(start, min(start + CHUNK, len(batch)))
        told(start)
        parts.append(score(model, batch, documents, seed=seed))
    return joined(parts)


def _sums(scores: Scores, objective: str) -> Floats:
    """Nats, pieces, right ones and guesses of each text.  # [texts, 4]"""
    guesses = scores.pieces * (2 if objective == "bidirectional" else 1)
    parts = [scores.nats, scores.pieces, scores.right, guesses]
    return np.stack([np.asarray(part, dtype=np.float64) for part in parts], axis=1)


def _share(part: Floats, whole: Floats) -> Floats:
    found: Floats = np.where(whole > 0, part, np.nan) / np.maximum(whole, 1)
    return found


def _loss(sums: Floats) -> Floats:
    return _share(sums[..., 0], sums[..., 1])


def _perplexity(sums: Floats) -> Floats:
    found: Floats = np.exp(np.minimum(_loss(sums), 700))
    return found


def _accuracy(sums: Floats) -> Floats:
    return _share(sums[..., 2], sums[..., 3])


_METRICS: dict[str, Callable[[Floats], Floats]] = {
    "loss": _loss,
    "perplexity": _perplexity,
    "accuracy": _accuracy,
}


def _change(of: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
    """Of both models' sums, side by side.  # [..., 8] -> [...]"""
    return lambda sums: of(sums[..., 4:]) - of(sums[..., :4])
