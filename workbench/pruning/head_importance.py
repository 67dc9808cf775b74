"""How much each head matters to first order (Michel et al. 2019): the experiment `head-importance`.

One forward and one backward pass over the corpus; see `gradients`.
"""

import numpy as np
import pandas as pd

from workbench.experiment import HEADS, Experiment, Inputs, Progress, Result, Table
from workbench.models.huggingface import HuggingFace
from workbench.pruning.asking import PREDICTS, Aimed, asking, caveats
from workbench.pruning.gating import HEAD, named
from workbench.pruning.gradients import Slopes, slopes_of
from workbench.pruning.paired import intervals

IMPORTANCE = Table(
    "importance: mean size of the slope of each text's loss at the head's gate, in nats a piece "
    "(of a classifier, a text), with the middle 95 % of drawings of texts; normalised: over the "
    "length of its layer's importances. first_order: what the slopes say would be added to the "
    "loss, were the head left out. n: pieces, or texts, that were asked for.",
    HEAD,
)


def table_of(model: HuggingFace, slopes: Slopes, seed: int) -> pd.DataFrame:
    """A row a head."""
    sites = {site.index: site for site in model.sites}
    found = slopes.importance()
    lower, upper = intervals(np.abs(slopes.slopes), slopes.number, seed)
    first = -slopes.slopes.sum(0) / max(slopes.number.sum(), 1)
    of_site = np.array([site for site, _ in slopes.heads])
    length = np.array([np.sqrt(np.square(found[of_site == site]).sum()) for site in of_site])
    rows = [
        {
            **named(sites[site], head),
            "importance": found[row],
            "importance_lower": lower[row],
            "importance_upper": upper[row],
            "importance_normalised": found[row] / length[row] if length[row] else 0.0,
            "first_order": first[row],
            "n": int(slopes.number.sum()),
        }
        for row, (site, head) in enumerate(slopes.heads)
    ]
    return pd.DataFrame(rows)


def run(inputs: Inputs, settings: Aimed, progress: Progress) -> Result:
    """Go forward and back once."""
    asked = asking(inputs, settings)
    total = len(asked.batch)
    slopes = slopes_of(
        asked.model, asked.aim, asked.questions, lambda done: progress(done, total, "texts")
    )
    table = table_of(asked.model, slopes, inputs.seed)
    return Result({"importance": table}, caveats=caveats(asked, len(slopes.number)))


EXPERIMENT = Experiment(
    name="head-importance",
    about="How much each head matters to first order: the slope of each text's loss at its gate.",
    settings=Aimed,
    run=run,
    tables={"importance": IMPORTANCE},
    needs=(HEADS, PREDICTS),
    split="held-out",
    figures="workbench.view.pruning:IMPORTANCE",
)
