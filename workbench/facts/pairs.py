"""Minimal pairs: how often a model finds the right sentence likelier than the wrong one.

Causal models score a sentence by its likelihood, ELMo by the mean log-likelihood of its two
directions, models that see both sides at once by its pseudo-likelihood, each piece hidden in turn.
Costs a forward pass over both sentences, or one for each of their pieces.
"""

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from workbench.corpora.encode import encode
from workbench.corpora.pairs import minimal_pairs
from workbench.engine.model import Objective
from workbench.experiment import Caveat, Experiment, Inputs, Need, Progress, Result, Settings, Table
from workbench.models.scoring import PSEUDO, score

CHUNK = 200  # pairs between two looks at the clock

HEAD = Need(
    "a language-model head",
    lambda facts: bool(facts["objective"]),
    "Choose a model saved with one, such as bert-base-uncased or gpt2.",
)


def run(inputs: Inputs, settings: Settings, progress: Progress) -> Result:
    """Score both sentences of every pair."""
    model = inputs.model
    pairs = list(minimal_pairs(inputs.docs()))
    pseudo = model.objective in PSEUDO
    nats: list[list[float]] = [[], []]  # of good ones and bad ones
    for start in range(0, len(pairs), CHUNK):
        part = pairs[start : start + CHUNK]
        for place, docs in enumerate(([p.good for p in part], [p.bad for p in part])):
            nats[place] += score(model, encode(docs), pseudo=pseudo, seed=inputs.seed).nats.tolist()
        progress(start + len(part), len(pairs), "pairs")
    gap = np.array(nats[1]) - np.array(nats[0])  # [pairs], above 0 where the right one is likelier
    phenomena = np.array([pair.phenomenon for pair in pairs])
    names = sorted(set(phenomena.tolist()))
    rows = [_row(name, gap[phenomena == name]) for name in names]
    if len(names) > 1:
        rows.append(_row("all", gap))
    columns = ["phenomenon", "accuracy", "lower", "upper", "n", "gap"]
    return Result({"pairs": pd.DataFrame(rows, columns=columns)}, caveats=_caveats(model.objective))


def _row(name: str, gap: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> tuple[object, ...]:
    right = int((gap > 0).sum())
    interval = binomtest(right, len(gap)).proportion_ci(method="wilson")
    return name, right / len(gap), interval.low, interval.high, len(gap), float(gap.mean())


def _caveats(objective: Objective) -> tuple[Caveat, ...]:
    if objective in PSEUDO:
        text = "Sentences are scored by pseudo-likelihood: each piece is hidden in turn."
    elif objective == "bidirectional":
        text = (
            "Sentences are scored by the mean of both directions' log-likelihoods; words that the "
            "model's softmax does not have count as one word, <UNK>, where they are predicted."
        )
    else:
        return ()
    return (Caveat(text, ("pairs",)),)


EXPERIMENT = Experiment(
    name="minimal-pairs",
    about="How often a model finds the right sentence of a minimal pair likelier.",
    settings=Settings,
    run=run,
    tables={
        "pairs": Table(
            "Share of pairs whose right sentence is likelier, with a 95 % interval (Wilson), and "
            "the mean gap in nats.",
            ("phenomenon",),
        )
    },
    needs=(HEAD,),
    split="held-out",
    figures="workbench.view.pairs:FIGURES",
)
