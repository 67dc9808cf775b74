"""How much each head matters to first order (Michel et al. 2019): the experiment `head-importance`.

One forward and one backward pass over the corpus; see `gradients`.
"""

import numpy as np
import pandas as pd

from workbench.experiment import HEADS, Experiment, Inputs, Progress, Result, Table
from workbench.models.huggingface import HuggingFace
from workbench.pruning.asking import PREDICTS, Aimed, asking, caveats
from workbench.pruning.baseline import BASELINE, baseline, not_better
from workbench.pruning.gating import HEAD, named
from workbench.pruning.gradients import GateGradients, gate_gradients
from workbench.pruning.paired import intervals

IMPORTANCE = Table(
    "importance: mean absolute gradient of each text's loss at the head's gate, in nats a piece "
    "(of a classifier, a text), with its 95 % interval over texts; normalised: divided by the L2 "
    "norm of its layer's. first_order: what the gradients predict is added to the loss without the "
    "head. n: pieces, or texts, that are scored.",
    HEAD,
)


def table_of(model: HuggingFace, gradients: GateGradients, seed: int) -> pd.DataFrame:
    """A row a head."""
    sites = {site.index: site for site in model.sites}
    found, number = gradients.importance(), gradients.texts.number
    lower, upper = intervals(np.abs(gradients.values), number, seed)
    first = -gradients.values.sum(0) / max(number.sum(), 1)
    of_site = np.array([site for site, _ in gradients.heads])
    norm = np.array([np.sqrt(np.square(found[of_site == site]).sum()) for site in of_site])
    rows = [
        {
            **named(sites[site], head),
            "importance": found[row],
            "importance_lower": lower[row],
            "importance_upper": upper[row],
            "importance_normalised": found[row] / norm[row] if norm[row] else 0.0,
            "first_order": first[row],
            "n": int(number.sum()),
        }
        for row, (site, head) in enumerate(gradients.heads)
    ]
    return pd.DataFrame(rows)


def run(inputs: Inputs, settings: Aimed, progress: Progress) -> Result:
    """Go forward and back once."""
    asked = asking(inputs, settings)
    total = len(asked.batch)
    gradients = gate_gradients(
        asked.model, asked.aim, asked.questions, lambda done: progress(done, total, "texts")
    )
    whole = baseline(asked, gradients.texts, inputs.seed)
    tables = {"importance": table_of(asked.model, gradients, inputs.seed), "baseline": whole}
    notes = caveats(asked, len(gradients.texts.number))
    return Result(tables, caveats=(*notes, *not_better(whole)))


EXPERIMENT = Experiment(
    name="head-importance",
    about="How much each head matters to first order: the gradient of each text's loss at its "
    "gate.",
    settings=Aimed,
    run=run,
    exact_up_to=1e9,
    tables={"importance": IMPORTANCE, "baseline": BASELINE},
    version=2,
    needs=(HEADS, PREDICTS),
    split="held-out",
    figures="workbench.view.pruning:IMPORTANCE",
)
