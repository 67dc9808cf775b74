"""Where a label is decided: layers read by the lens, and induction heads removed.

The lens reads the first piece of each label's words at every layer (without a start token), less
the mean over all texts, so that a preference for one label is no decision. Heads that attend most
to what followed an earlier copy (Olsson et al. 2022) are removed, next to as many random heads.
Costs: a pass over the texts for the lens; for heads one scoring of the texts, and one for each set
of random heads.
"""

from collections.abc import Sequence
from random import Random

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax

from workbench.analyses.heads.induction import repeats
from workbench.analyses.lenses.lens import open_lens, places_of
from workbench.core.arrays import Ints
from workbench.core.stats import wilson_interval
from workbench.engine.model import Model
from workbench.models.head_removal import units, without
from workbench.models.huggingface import HuggingFace
from workbench.models.scoring.prompts import (
    Calibration,
    Demonstration,
    PromptDesign,
    Text,
    filled,
    label_probabilities,
)

RANDOM_SETS = 5
Shown = Sequence[Demonstration]


@torch.no_grad()
def layer_table(
    model: Model, design: PromptDesign, shown: Shown, texts: Sequence[Text], gold: Ints
) -> pd.DataFrame:
    """What each layer would choose; empty if two labels begin with the same piece."""
    prompts = [design.prompt(shown, text) for text in texts]
    words, lens = list(design.words.values()), open_lens(model, sublayers=False)
    pieces = []
    for word in words:
        batch, gaps = filled(model, prompts[:1], [word])
        (places,) = places_of(model, batch, [(0, gaps[0][0])])
        assert places.gold is not None, "the words of a label are known"
        pieces.append(int(places.gold[0]))
    if len(set(pieces)) < len(pieces):
        return pd.DataFrame()
    batch, gaps = filled(model, prompts, words[:1] * len(prompts))
    read: dict[tuple[str, int], list[NDArray[np.float64]]] = {}
    for places in places_of(model, batch, [(n, gap[0]) for n, gap in enumerate(gaps)]):
        for point, logits in lens.read(places)[1]:
            own = logits[:, pieces].double().cpu().numpy()  # [places, labels]
            read.setdefault((point.stack, point.layer), []).append(own)
    chosen = {}
    for place, parts in read.items():
        scores = log_softmax(np.concatenate(parts), axis=-1)  # [texts, labels]
        chosen[place] = (scores - scores.mean(0)).argmax(-1)
    last = [*chosen.values()][-1]
    rows = []
    for (stack, layer), own in chosen.items():
        agrees = int((own == last).sum())
        lower, upper = wilson_interval(agrees, len(own))
        shares = [np.bincount(each, minlength=len(words)) / len(own) for each in (own, last)]
        rows.append(
            {
                "stack": stack, "layer": layer, "agrees": agrees / len(own), "lower": lower,
                "upper": upper, "chance": float(shares[0] @ shares[1]),
                "accuracy": float((own == gold).mean()), "n": len(own),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def head_table(
    model: HuggingFace,
    design: PromptDesign,
    shown: Shown,
    texts: Sequence[Text],
    gold: Ints,
    number: int,
    calibration: Calibration,
    start: int | None,
    seed: int,
) -> pd.DataFrame:
    """Accuracy without the heads of most induction, and without random ones; empty: too few."""
    batch, _ = filled(model, [design.prompt(shown, texts[0])], [""])
    scores = {
        (site.index, head): float(value)
        for site, each in repeats(model, model.encode(batch), seed).items()
        for head, value in enumerate(each.induction.mean(0))
    }
    ranked = sorted(
        units(model), key=lambda unit: -max(scores.get(head, 0.0) for head in unit.heads)
    )
    if len(ranked) < 2 * number or not scores:
        return pd.DataFrame()
    random = Random(f"heads {seed}")
    sets = [("none", ranked[:0]), ("induction", ranked[:number])]
    sets += [("random", random.sample(ranked[number:], number)) for _ in range(RANDOM_SETS)]
    rows = []
    for place, (kind, removed) in enumerate(sets):
        heads = [head for unit in removed for head in unit.heads]
        reduced = without(model, heads) if heads else model
        found = label_probabilities(reduced, design, shown, texts, start)
        right = found.probabilities(calibration).argmax(-1) == gold
        lower, upper = wilson_interval(int(right.sum()), len(right))
        sites = {site.index: site for site in model.sites}
        rows.append(
            {
                "set": place, "removed": kind,
                "heads": ", ".join(f"{sites[s].layer + 1}.{head + 1}" for s, head in heads),
                "induction": float(np.mean([scores.get(h, 0.0) for h in heads] or [np.nan])),
                "accuracy": float(right.mean()), "lower": lower, "upper": upper, "n": len(right),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)
