"""What the saved model has lost inside: probe tasks and head roles, next to the original's.

Both are runs of other experiments, of the original and of the saved model on the same sentences: of
the corpus if it has gold layers, else of `primer`. Scores of a task are compared on the same
bootstrap samples of sentences. Costs: `edge-probing` (effort quick) and `heads` of both models.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.core.stats import difference, f1, holm, resampled
from workbench.corpora import read
from workbench.experiment.definition import (
    EXPERIMENTS,
    Inputs,
    Progress,
    SubrunRequest,
    SubrunResult,
    unmet_requirements,
)
from workbench.models.loading import load
from workbench.models.references import facts

SENTENCES = 300  # of each part, as many as decide a role
ASKED: dict[str, dict[str, Any]] = {
    "edge-probing": {
        "effort": "quick", "modes": ("layer",), "random_baseline": False, "control_tasks": False,
    },
    "heads": {"max_sentences": SENTENCES},
}  # fmt: skip
GOLD = {"pos", "dependencies"}  # layers without which a corpus has no roles and no tasks


def inside(inputs: Inputs, saved: Path, progress: Progress) -> pd.DataFrame:
    """One row per probe task and per role of heads: the original, the saved model, the fall."""
    if inputs.run_subruns is None:
        return pd.DataFrame()
    models = [inputs.model, load(saved, str(inputs.model.device), "fp32")]
    own = inputs.corpus if inputs.corpus.layers() >= GOLD else read("primer")
    corpora: Any = [own]
    suited = [
        name for name in ASKED if name in EXPERIMENTS and not any(
            unmet_requirements(each := EXPERIMENTS[name], each.settings(**ASKED[name]),
                               [facts(model)], corpora)
            for model in models
        )
    ]  # fmt: skip
    activity = "looking into the saved model"
    requests = [
        SubrunRequest(name, [model], corpora, ASKED[name], None, inputs.seed)
        for name in suited
        for model in (inputs.model, str(saved))
    ]
    found = inputs.run_experiments(requests, lambda done: progress(done, len(requests), activity))
    return _table(dict(zip(suited, zip(found[::2], found[1::2], strict=True), strict=True)))


def _table(found: Mapping[str, tuple[SubrunResult, SubrunResult]]) -> pd.DataFrame:
    """What each experiment found of the original and of the saved model, with corrected p."""
    rows = [
        row
        for name, both in found.items()
        for row in (_tasks if name == "edge-probing" else _roles)(*both)
    ]
    table = pd.DataFrame(rows)
    if rows:
        tested = table["p"].notna()
        table.loc[tested, "p"] = holm(table.loc[tested, "p"].tolist())
    return table


def _tasks(before: SubrunResult, after: SubrunResult) -> Iterator[dict[str, Any]]:
    """The F1 of each task at the model's best layer."""
    scores = [each.tables["scores"].reset_index(drop=True) for each in (before, after)]
    counts = [np.asarray(each.arrays["counts"]) for each in (before, after)]
    same = np.array_equal(before.arrays["sentences"], after.arrays["sentences"])
    for task in scores[0]["task"].unique():
        rows: list[int] = []
        for table in scores:
            of_task = table[(table["task"] == task) & (table["encoder"] == "model")]
            whole = of_task[of_task["share"] == of_task["share"].max()]
            rows += [int(np.argmax(table.index == whole["value"].idxmax()))] if len(whole) else []
        if len(rows) < 2 or not same:
            continue
        both = np.stack([count[row] for count, row in zip(counts, rows, strict=True)])
        first, second = resampled(both[:, None], f1, 0)
        lower, upper, p = difference(first, second)
        values = f1(both.sum(1).astype(np.float64))  # [2]
        yield {
            "kind": "probe task", "group": str(task), "original": float(values[0]),
            "saved": float(values[1]), "change": float(values[1] - values[0]),
            "lower": lower, "upper": upper, "p": p, "n": int(scores[0]["n"].iloc[rows[0]]),
        }  # fmt: skip


def _roles(before: SubrunResult, after: SubrunResult) -> Iterator[dict[str, Any]]:
    """The number of heads with each role that a head of the original has."""
    first, second = (each.tables["heads"]["role"].fillna("") for each in (before, after))
    for role in sorted(set(first) - {""}):
        numbers = [int((each == role).sum()) for each in (first, second)]
        yield {
            "kind": "head role", "group": str(role), "original": numbers[0], "saved": numbers[1],
            "change": numbers[1] - numbers[0], "lower": math.nan, "upper": math.nan,
            "p": math.nan, "n": len(first),
        }  # fmt: skip
