"""What the saved model has lost inside: probe tasks and head roles, next to the original's.

Both are runs of other experiments, of the original and of the saved model on the same sentences: of
the corpus if it has gold layers, else of `primer`. Scores of a task are compared on the same
bootstrap samples of sentences. Costs: `edge-probing` (effort quick) and `heads` of both models.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.analyses.probes.compare_runs import between
from workbench.core.stats import holm
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
    """The F1 of each task at the best layer of each model."""
    parts: list[Any] = []
    for each in (before, after):
        parts += [each.tables["scores"], each.arrays["counts"], each.arrays["sentences"]]
    n_targets = before.tables["scores"].groupby("task")["n"].max().to_dict()
    for row in between(*parts).to_dict("records"):
        yield {
            "kind": "probe task", "group": str(row["task"]), "original": row["first"],
            "saved": row["second"], "change": row["difference"], "lower": row["lower"],
            "upper": row["upper"], "p": row["p_value"], "n": int(n_targets[row["task"]]),
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
