"""Whether the whole model is better than its trivial baseline: where it is not, no head matters.

The baseline of the accuracy gives the most frequent answer (piece or class) everywhere. That of the
loss gives each answer its frequency in the other texts (Witten-Bell smoothed, so that answers not
seen there have some probability). Costs reading the answers; no forward pass.
"""

import numpy as np
import pandas as pd

from workbench.experiment import Caveat, Table
from workbench.pruning.asking import Asking
from workbench.pruning.paired import intervals
from workbench.pruning.texts import METRICS, Texts

BASELINE = Table(
    "The whole model next to its trivial baseline. value: the model's; baseline: of the accuracy, "
    "always the most frequent answer (piece or class), of the loss, each answer's frequency in the "
    "other texts; difference: value less baseline, with its 95 % interval over texts; better: the "
    "interval excludes zero on the right side.",
    ("metric",),
)


def trivial(asking: Asking) -> Texts:
    """What the baseline scores on each text, in the order of `asking.questions`."""
    answers = []  # of each text the indices of its right answers
    for question in asking.questions:
        places, gold = asking.aim.gold(question)
        answers += np.split(gold.cpu().numpy(), np.cumsum(places.sum(1).cpu().numpy())[:-1])
    known = len(asking.model.classes) if asking.aim.kind == "classes" else 0
    every = np.concatenate([np.zeros(0, int), *answers])
    size = max(known, 0 if known else len(asking.model.tokenizer), int(every.max(initial=0)) + 1)
    counts = np.bincount(every, minlength=size)
    types, most = int((counts > 0).sum()), int(counts.argmax())
    nats: list[float] = []
    right: list[int] = []
    for own in answers:
        seen, where, often = np.unique(own, return_inverse=True, return_counts=True)
        elsewhere = (counts[seen] - often)[where]
        share = (elsewhere + types / size) / max(len(every) - len(own) + types, 1)
        nats.append(float(-np.log(share).sum()))
        right.append(int((own == most).sum()))
    number = np.array([len(own) for own in answers], float)
    return Texts(np.array(nats), np.array(right, float), number)


def baseline(asking: Asking, texts: Texts, seed: int) -> pd.DataFrame:
    """A row a metric: the model's value next to the baseline's."""
    plain = trivial(asking)
    rows = []
    for metric in METRICS:
        apart = (texts.part(metric) - plain.part(metric))[:, None]  # [texts, 1]
        lower, upper = (float(end[0]) for end in intervals(apart, texts.number, seed))
        value, trivially = texts.value(metric), plain.value(metric)
        rows.append(
            {
                "metric": metric,
                "value": value,
                "baseline": trivially,
                "difference": value - trivially,
                "lower": lower,
                "upper": upper,
                "better": upper < 0 if metric == "loss" else lower > 0,
                "n": len(texts.number),
            }
        )
    return pd.DataFrame(rows)


def better(table: pd.DataFrame, metric: str) -> bool:
    """Whether the model is better than the baseline by this metric."""
    return bool(table.set_index("metric").loc[metric, "better"])


def not_better(table: pd.DataFrame) -> tuple[Caveat, ...]:
    """What to know where the model is no better than the baseline."""
    poor = table[~table["better"].astype(bool)]
    if poor.empty:
        return ()
    scores = ", ".join(
        f"{row.metric} {row.value:.3f} against {row.baseline:.3f}" for row in poor.itertuples()
    )
    return (
        Caveat(
            f"The whole model is not better than its trivial baseline ({scores}): what changes "
            "without a head says nothing about what the model has learnt."
        ),
    )
