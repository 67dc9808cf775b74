"""The table `objective`: what a run measured, by its name, for findings, figures and reports.

An experiment that needs a loss or a score takes what the model was made for (`Model.predicts`), and
says so in this table. Costs: nothing.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from workbench.experiment.definition import Table

if TYPE_CHECKING:
    import pandas as pd

OBJECTIVE = Table(
    "What was measured. objective: pieces of the text itself (masked, causal, seq2seq, "
    "bidirectional), or labels (class, score, tags, entities, answers). name: the task, or the "
    "pieces. labels: the classes or tags. inputs: what the model reads. unit: of what the loss is "
    "a mean. metric: the deciding metric of the task.",
    ("objective",),
)


def measured(tables: "Mapping[str, pd.DataFrame]", metric: str) -> str:
    """A metric with what it is of: `accuracy on sst2`, `loss on masked pieces`."""
    return f"{metric}{on_measured(tables)}"


def on_measured(tables: "Mapping[str, pd.DataFrame]") -> str:
    """What was predicted, after a claim: ` on masked pieces`."""
    return f" on {name_of_measured(tables)}"


def name_of_measured(tables: "Mapping[str, pd.DataFrame]") -> str:
    """What was predicted, such as `masked pieces` or `sst2`."""
    return str(tables["objective"]["name"].iloc[0])
