"""What exactly is lost with each head: the experiment `head-ablation`.

Every head is left out alone, exactly, and so are pairs of heads if `pairs` says so; importance to
first order is shown too, for the two disagree. A head is said to matter where the score is
significantly worse without it, in a model that is better than its trivial baseline: the loss of
random weights also changes with every head. See `ablation` for what it costs.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import Field

from workbench.engine.taps import Site
from workbench.errors import WorkbenchError
from workbench.experiment import HEADS, Experiment, Inputs, Progress, Result, Table
from workbench.models.aims import Question
from workbench.pruning.ablation import MODES, Ablated, Mode, ablated
from workbench.pruning.asking import PREDICTS, Aimed, Asking, asking, caveats
from workbench.pruning.baseline import BASELINE, baseline, better, not_better
from workbench.pruning.gating import HEAD, Head, heads_of, named
from workbench.pruning.gradients import gate_gradients
from workbench.pruning.head_importance import IMPORTANCE, table_of
from workbench.pruning.paired import SIGNIFICANT, intervals, p_values
from workbench.pruning.replaced import Instead, means, others
from workbench.pruning.texts import METRICS, Floats, Told

MOST_PAIRS = 20_000


class HeadAblation(Aimed):
    """What replaces a head that is left out, and which are left out together."""

    mode: Literal["zero", "mean", "resample", "all"] = Field(
        "zero",
        description="What replaces the output of a head: zero, its mean over the corpus, or its "
        "output on another text; or each of the three.",
    )
    pairs: Literal["none", "layer", "all"] = Field(
        "none",
        description="Pairs of heads that are also left out, of one layer or of all: what two do "
        "together that neither does alone.",
    )


TABLES = {
    "ablation": Table(
        "The whole model (base) and without one head (ablated). delta: ablated less base, with its "
        "95 % interval over texts; p_value: sign flips of texts' differences, corrected over all "
        "heads; matters: p < 0.05, the score is worse without the head, and the whole model is "
        "better than its trivial baseline. Loss in nats a piece (of a classifier, a text).",
        ("mode", "metric", *HEAD),
    ),
    "pairs": Table(
        "Of two heads together. delta: added to the loss; interaction: delta less what each adds "
        "alone, large where one does what the other would.",
        ("mode", *(f"{name}_{which}" for which in ("a", "b") for name in HEAD)),
    ),
    "agreement": Table(
        "Rank correlation (Spearman) of importance to first order with what is exactly added to "
        "the loss, over all heads.",
        ("mode",),
    ),
    "importance": IMPORTANCE,
    "heads": Table(
        "A row a head, of the first mode: importance to first order, what is added to the loss and "
        "to the accuracy without it, and p_value and matters of the loss.",
        HEAD,
    ),
    "baseline": BASELINE,
}


def run(inputs: Inputs, settings: HeadAblation, progress: Progress) -> Result:
    """Leave out each head, then pairs."""
    asked = asking(inputs, settings)
    heads = heads_of(asked.model)
    alone = [[head] for head in heads]
    together = _pairs(heads, settings.pairs)
    questions = asked.questions
    gradients = gate_gradients(asked.model, asked.aim, questions)
    importance = table_of(asked.model, gradients, inputs.seed)
    whole = baseline(asked, gradients.texts, inputs.seed)
    modes: Sequence[Mode] = MODES if settings.mode == "all" else (settings.mode,)
    parts: list[pd.DataFrame] = []
    pairs: list[pd.DataFrame] = []
    agreement = []
    texts = 0
    for number, mode in enumerate(modes):
        found = ablated(
            asked.model,
            asked.aim,
            questions,
            [*alone, *together],
            _instead(asked, questions, mode, inputs.seed),
            _told(progress, asked, len(alone) + len(together), number, len(modes), mode),
        )
        texts = len(found.base.number)
        for metric in METRICS:
            known = better(whole, metric)
            parts.append(_rows(asked, found, heads, metric, mode, known, inputs.seed))
        if together:
            pairs.append(_pair_rows(asked, found, heads, together, mode, inputs.seed))
        exact = found.values("loss")[: len(heads)] - found.base.value("loss")
        agreement.append((mode, _spearman(gradients.importance(), exact), len(heads)))
    tables = {
        "ablation": pd.concat(parts, ignore_index=True),
        "agreement": pd.DataFrame(agreement, columns=["mode", "spearman", "heads"]),
        "importance": importance,
        "heads": _a_head(importance, parts[0], parts[1]),
        "baseline": whole,
    }
    if pairs:
        tables["pairs"] = pd.concat(pairs, ignore_index=True)
    return Result(tables, caveats=(*caveats(asked, texts), *not_better(whole)))


def _pairs(heads: Sequence[Head], which: str) -> list[list[Head]]:
    if which == "none":
        return []
    found = [
        [one, other]
        for one, other in combinations(heads, 2)
        if which == "all" or one[0] == other[0]
    ]
    if len(found) > MOST_PAIRS:
        raise WorkbenchError(
            f"{len(found):,} pairs of heads are more than the {MOST_PAIRS:,} that are tried.",
            remedy="Set pairs=layer.",
        )
    return found


def _instead(asked: Asking, questions: Sequence[Question], mode: Mode, seed: int) -> Instead | None:
    if mode == "mean":
        return means(asked.model, asked.aim, questions)
    return others(asked.model, asked.aim, questions, seed) if mode == "resample" else None


def _told(progress: Progress, asked: Asking, sets: int, place: int, modes: int, mode: str) -> Told:
    """Progress in texts, each as often as it is asked."""
    each = len(asked.batch) * sets
    return lambda done: progress(place * each + done, modes * each, f"{mode}: texts without a head")


def _rows(
    asked: Asking,
    found: Ablated,
    heads: Sequence[Head],
    metric: str,
    mode: str,
    known: bool,
    seed: int,
) -> pd.DataFrame:
    """A row a head; `known`: the whole model is better than its baseline by this metric."""
    sites = {site.index: site for site in asked.model.sites}
    number = len(heads)
    apart = found.differences(metric)[:, :number]
    lower, upper = intervals(apart, found.base.number, seed)
    chance = p_values(apart, seed)
    base, values = found.base.value(metric), found.values(metric)
    worse = (1 if metric == "loss" else -1) * (values[:number] - base) > 0
    rows = [
        {
            "mode": mode,
            "metric": metric,
            **named(sites[site], head),
            "base": base,
            "ablated": values[row],
            "delta": values[row] - base,
            "lower": lower[row],
            "upper": upper[row],
            "p_value": chance[row],
            "matters": bool(known and worse[row] and chance[row] < SIGNIFICANT),
            "n": int(found.base.number.sum()),
        }
        for row, (site, head) in enumerate(heads)
    ]
    return pd.DataFrame(rows)


def _a_head(importance: pd.DataFrame, loss: pd.DataFrame, accuracy: pd.DataFrame) -> pd.DataFrame:
    """All that is known of each head, for the attention browser to show."""
    return importance[[*HEAD, "importance"]].assign(
        loss_added=loss["delta"].to_numpy(),
        accuracy_added=accuracy["delta"].to_numpy(),
        p_value=loss["p_value"].to_numpy(),
        matters=loss["matters"].to_numpy(),
    )


def _pair_rows(
    asked: Asking,
    found: Ablated,
    heads: Sequence[Head],
    together: Sequence[Sequence[Head]],
    mode: str,
    seed: int,
) -> pd.DataFrame:
    place = {head: number for number, head in enumerate(heads)}
    apart = found.differences("loss")
    alone, both = apart[:, : len(heads)], apart[:, len(heads) :]
    first, second = (np.array([place[pair[n]] for pair in together]) for n in (0, 1))
    extra = both - alone[:, first] - alone[:, second]
    whole = max(found.base.number.sum(), 1e-12)
    lower, upper = intervals(extra, found.base.number, seed)
    chance = p_values(extra, seed)
    sites = {site.index: site for site in asked.model.sites}
    rows = [
        {
            "mode": mode,
            **dict(_sided(sites, pair)),
            "delta": both[:, row].sum() / whole,
            "alone_a": alone[:, first[row]].sum() / whole,
            "alone_b": alone[:, second[row]].sum() / whole,
            "interaction": extra[:, row].sum() / whole,
            "lower": lower[row],
            "upper": upper[row],
            "p_value": chance[row],
        }
        for row, pair in enumerate(together)
    ]
    return pd.DataFrame(rows)


def _sided(sites: Mapping[int, Site], pair: Sequence[Head]) -> Iterator[tuple[str, object]]:
    for which, (site, head) in zip("ab", pair, strict=True):
        for name, value in named(sites[site], head).items():
            yield f"{name}_{which}", value


def _spearman(one: Floats, other: Floats) -> float:
    """0 where either is all alike."""
    from scipy.stats import spearmanr

    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(spearmanr(one, other).statistic)


EXPERIMENT = Experiment(
    name="head-ablation",
    about="What is exactly lost without each head and without pairs of them; their importance.",
    settings=HeadAblation,
    run=run,
    exact_up_to=1e9,
    tables=TABLES,
    version=2,
    needs=(HEADS, PREDICTS),
    split="held-out",
    figures="workbench.view.pruning:ABLATION",
)
