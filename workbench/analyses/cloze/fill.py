"""Gaps of texts, filled by a model: any word, and one of some options.

Each item is scored once with each of its options, and again without its passage or its subject: a
model that finds the word then has not read it there. Items with the same options are not
independent (a preference for one word decides all of them), so intervals draw, and tests flip, all
items with the same options together. A text that is longer than the model reads loses its first
words. Costs: a forward pass over each text with each option, twice; with pseudo-likelihood one for
each piece that is scored.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from workbench.analyses.cloze.experiments import Cloze as ClozeSettings
from workbench.core.arrays import Bools, Floats
from workbench.core.cluster_sample import ClusterSample
from workbench.core.findings import listing
from workbench.core.stats import holm, wilson_interval
from workbench.corpora.cloze import SEPARATOR, Cloze, cloze_items, with_options
from workbench.corpora.encode import encode
from workbench.engine.forward_pass import chunks
from workbench.engine.model import Model
from workbench.experiment.definition import Caveat, Inputs, Progress, Result
from workbench.models.scoring.gap_scores import GapScores, Part, gap_scores
from workbench.models.scoring.lm_scoring import PSEUDO, START_TOKEN_TEXTS, start_of

TESTABLE = 5  # groups of items: with fewer, no sign-flip test is significant
CHUNK = 100  # items between two progress callbacks
ANY, CHOICE = "any word", "choice, "
WITH, WITHOUT = "with the passage", "without it"
SHOWN = 200  # characters of a text in a table
PARTS: Mapping[str, tuple[Part, ...]] = {
    "full": ("gap", "after", "before"),
    "partial": ("after",),
    "word": ("gap",),
}


@dataclass(frozen=True)
class Filled:
    """What a model makes of some items in one context; fields are [items], choices by score."""

    nats: Floats  # of the right words
    right: Bools
    choices: Mapping[str, NDArray[np.int64]]  # index of the option; -1 without options


def run(inputs: Inputs, settings: ClozeSettings, progress: Progress) -> Result:
    """Compute the tables of `cloze`."""
    model = inputs.model
    items = cloze_items(inputs.corpus.docs(inputs.split, inputs.limit))
    items = with_options(items, settings.choices, inputs.seed)
    items, n_shortened = _shortened(model, items)
    start = start_of(model, encode([item.doc for item in items[:START_TOKEN_TEXTS]]))
    fill = partial(_filled, model, settings=settings, seed=inputs.seed, start=start)
    filled = fill(items, progress, "filling gaps")
    bare = {n: short for n, item in enumerate(items) if (short := item.without_passage())}
    without = fill(list(bare.values()), progress, "filling gaps without passages")
    rows = [*_rows(items, filled, WITH, inputs.seed)]
    kept = [items[n] for n in bare]
    rows += _rows(kept, without, WITHOUT, inputs.seed)
    for row, p in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p"] = p
    tables = {"scores": pd.DataFrame(rows), "items": _items(items, filled, settings)}
    if bare:
        tables["passage"] = _passage(kept, _taken(filled, list(bare)), without, inputs.seed)
    if len(pairs := _pairs(items, filled)):
        tables["pairs"] = pairs
    return Result(tables, caveats=tuple(_caveats(model, settings, items, n_shortened)))


def _shortened(model: Model, items: Sequence[Cloze]) -> tuple[list[Cloze], int]:
    """Items without the first words that the model cannot read together with the gap."""
    fitting, changed = list(items), 0
    longest = [max(item.options, key=len, default=item.answer) for item in items]
    for part in chunks(range(len(items)), CHUNK):
        docs = [items[n].filled(longest[n]).doc for n in part]
        for row, first, last in model.encode(encode(docs)).cut:
            item, cut = items[part[row]], last - first
            fitting[part[row]] = item.shortened(cut + len(item.doc) // 10)
            changed += 1
    return fitting, changed


def _filled(
    model: Model,
    items: Sequence[Cloze],
    progress: Progress,
    activity: str,
    *,
    settings: ClozeSettings,
    seed: int,
    start: int | None,
) -> Filled:
    """The right words scored, and an option chosen by each score."""
    nats, right = np.zeros(len(items)), np.zeros(len(items), dtype=np.bool_)
    choices: dict[str, NDArray[np.int64]] = {
        name: np.full(len(items), -1, dtype=np.int64) for name in settings.scores
    }
    parts = tuple(dict.fromkeys(part for name in settings.scores for part in PARTS[name]))
    every: tuple[Part, ...] = tuple(dict.fromkeys(("gap", *parts)))
    for part in chunks(range(len(items)), CHUNK):
        texts, of = [], []  # each option of each item, the right words alone where there are none
        for n in part:
            options = items[n].options or (items[n].answer,)
            texts += [items[n].filled(option) for option in options]
            of += [n] * len(options)
        found = gap_scores(
            model, encode([each.doc for each in texts]), [each.gap for each in texts],
            every if any(items[n].options for n in part) else ("gap",),
            settings.pseudo_likelihood, seed, start,
        )  # fmt: skip
        owners = np.array(of)
        for n in part:
            own = np.flatnonzero(owners == n)
            options = items[n].options or (items[n].answer,)
            answer = own[options.index(items[n].answer)]
            nats[n], right[n] = found.gap[answer], found.right[answer]
            if items[n].options:
                for name, chosen in choices.items():
                    chosen[n] = _chosen(found, own, name, items[n])
        progress(int(part[-1]) + 1, len(items), activity)
    return Filled(nats, right, choices)


def _chosen(found: GapScores, own: NDArray[np.int64], name: str, item: Cloze) -> int:
    """The most probable option; -1 if the score has nothing to go by."""
    if name == "partial" and item.gap[1] >= len(item.doc):
        return -1
    nats = {"full": found.whole, "partial": found.after, "word": found.gap}[name]
    return int(nats[own].argmin())


def _taken(filled: Filled, chosen: Sequence[int]) -> Filled:
    own = np.array(chosen, dtype=np.int64)
    choices = {name: each[own] for name, each in filled.choices.items()}
    return Filled(filled.nats[own], filled.right[own], choices)


# --- tables ---------------------------------------------------------------------------------------


def _groups(items: Sequence[Cloze]) -> list[str]:
    """Items of a group have the same options, or the same right word."""
    few = [item.options and len(item.options) <= 3 for item in items]
    return [
        SEPARATOR.join(sorted(item.options)) if is_few else item.answer
        for item, is_few in zip(items, few, strict=True)
    ]


def _tasks(items: Sequence[Cloze], filled: Filled) -> Iterator[tuple[str, Bools, Floats, Bools]]:
    """Each task with the items that it has, their chance, and whether they are right."""
    answers = Counter(item.answer for item in items)
    most = answers.most_common(1)[0][0] if answers else ""
    frequent = np.array([item.answer == most for item in items], dtype=np.float64)
    yield ANY, np.ones(len(items), dtype=np.bool_), frequent, filled.right
    sizes = np.array([max(len(item.options), 1) for item in items])
    for name, chosen in filled.choices.items():
        is_right = np.array(
            [
                n >= 0 and item.options[n] == item.answer
                for n, item in zip(chosen, items, strict=True)
            ],
            dtype=np.bool_,
        )
        if (chosen >= 0).any():
            yield CHOICE + name, chosen >= 0, 1 / sizes, is_right


def _rows(
    items: Sequence[Cloze], filled: Filled, context: str, seed: int
) -> Iterator[dict[str, Any]]:
    """Rows of the table `scores`: all items, and each phenomenon if there are several."""
    kinds = np.array([item.phenomenon for item in items], dtype=object)
    names = ["all", *(sorted(set(kinds)) if len(set(kinds)) > 1 else ())]
    groups = np.array(_groups(items), dtype=object)
    for task, has, chance, right in _tasks(items, filled):
        for name in names:
            chosen = has if name == "all" else has & (kinds == name)
            if not chosen.any():
                continue
            sample = ClusterSample.of(groups[chosen], seed)
            values = right[chosen].astype(np.float64)
            lower, upper = sample.mean_interval(values)
            yield {
                "phenomenon": name, "task": task, "context": context, "accuracy": values.mean(),
                "lower": float(lower), "upper": float(upper), "chance": chance[chosen].mean(),
                "n": int(chosen.sum()), "groups": sample.n_clusters,
                "p": sample.p_above_zero(values - chance[chosen]),
            }  # fmt: skip


def _passage(items: Sequence[Cloze], filled: Filled, without: Filled, seed: int) -> pd.DataFrame:
    """What the passage gives each task, and the right words."""
    sample = ClusterSample.of(_groups(items), seed)
    gained = without.nats - filled.nats
    low, high = sample.mean_interval(gained)
    rows = []
    for (task, has, _, right), (_, has_too, _, other) in zip(
        _tasks(items, filled), _tasks(items, without), strict=False
    ):
        both = has & has_too
        gain = right[both].astype(np.float64) - other[both]
        own = sample.take(both)
        lower, upper = own.mean_interval(gain)
        rows.append(
            {
                "task": task, "difference": gain.mean(), "lower": float(lower),
                "upper": float(upper), "n": int(both.sum()), "nats": gained.mean(),
                "nats_lower": float(low), "nats_upper": float(high),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _pairs(items: Sequence[Cloze], filled: Filled) -> pd.DataFrame:
    """How often both items of a pair are right, by score."""
    order = sorted((n for n in range(len(items)) if items[n].pair), key=lambda n: items[n].pair)
    twins = [
        (a, b) for a, b in pairwise(order)
        if items[a].pair == items[b].pair and items[a].answer != items[b].answer
    ]  # fmt: skip
    rows = []
    for task, has, chance, right in _tasks(items, filled):
        if task == ANY:
            continue
        chosen = filled.choices[task.removeprefix(CHOICE)]
        own = [(a, b) for a, b in twins if has[a] and has[b]]
        if own:
            both = sum(bool(right[a] and right[b]) for a, b in own)
            same = sum(items[a].options[chosen[a]] == items[b].options[chosen[b]] for a, b in own)
            lower, upper = wilson_interval(both, len(own))
            rows.append(
                {
                    "task": task, "both": both / len(own), "lower": lower, "upper": upper,
                    "chance": fmean(chance[a] * chance[b] for a, b in own),
                    "always_same": same / len(own), "n": len(own),
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def _items(items: Sequence[Cloze], filled: Filled, settings: ClozeSettings) -> pd.DataFrame:
    first = filled.choices[settings.scores[0]]
    rows = []
    for n, item in enumerate(items):
        before = item.doc[: item.gap[0]].text_with_ws
        text = f"{before}___{item.doc[item.gap[1] - 1].whitespace_}{item.doc[item.gap[1] :].text}"
        rows.append(
            {
                "item": n + 1, "text": text if len(text) <= SHOWN else f"… {text[-SHOWN:]}",
                "answer": item.answer, "nats": filled.nats[n], "right": bool(filled.right[n]),
                "options": SEPARATOR.join(item.options),
                "choice": item.options[first[n]] if first[n] >= 0 else "",
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _few_groups(items: Sequence[Cloze]) -> list[str]:
    """Rows of `scores` whose items have too few different options, each with their number."""
    is_one = len({item.phenomenon for item in items}) == 1
    groups: dict[str, set[str]] = {}
    for item, group in zip(items, _groups(items), strict=True):
        for name in {"all", "all" if is_one else item.phenomenon}:
            groups.setdefault(name, set()).add(group)
    return [
        f"{name} ({len(each)})" for name, each in sorted(groups.items()) if len(each) < TESTABLE
    ]


def _caveats(
    model: Model, settings: ClozeSettings, items: Sequence[Cloze], shortened: int
) -> Iterator[Caveat]:
    if model.objective in PSEUDO:
        yield Caveat(
            "The model sees both sides of a gap and how many pieces it has: any word is predicted "
            f"piece by piece ({settings.pseudo_likelihood} pseudo-likelihood). Such scores are not "
            "comparable with those of models that read left to right.", ("scores", "passage"),
        )  # fmt: skip
    if model.objective == "bidirectional":
        yield Caveat(
            "Any word is predicted by the forward direction alone, and options by both. Words that "
            "are not in the model's softmax are predicted as one word, <UNK>.", ("scores",),
        )  # fmt: skip
    if shortened:
        yield Caveat(
            f"{shortened:,} of {len(items):,} texts are longer than what the model reads: their "
            "first words are left out.", ("scores",),
        )  # fmt: skip
    if few := _few_groups(items):
        yield Caveat(
            f"Fewer than {TESTABLE} groups of items with the same options, or the "
            f"same right word: {listing(few, 6)}. No test of them is significant, and their "
            "intervals are too narrow.", ("scores",),
        )  # fmt: skip
    n_own = sum(not item.options for item in items)
    if n_own == len(items):
        yield Caveat("There are no options: only the prediction of any word is scored.")
