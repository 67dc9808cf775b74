"""The findings of `head-importance`, `head-ablation`, `head-gates` and `head-pruning`.

Pure functions from the tables of a run to `Finding`s, the most important one first. If the whole
model is no better than its trivial baseline, no finding says that its heads matter: such claims end
with this fact, and are not supported. Costs: milliseconds.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, takewhile
from statistics import median_low

import pandas as pd

from workbench.core.findings import (
    Finding,
    Row,
    Tables,
    capital,
    decimal,
    judged,
    keys_of,
    listing,
    of_all,
    p_text,
    percent,
    plural,
    rows_of,
    shown,
    signed,
    span,
    verb_of,
    whole,
)
from workbench.core.head_names import block_name, head_number
from workbench.core.stats import SIGNIFICANT
from workbench.experiment.definition import HEAD
from workbench.experiment.measured import measured, name_of_measured

LOSS = "loss"
DROPS = (0.01, 0.05)  # shares of the loss that a number of heads may cost
TESTABLE = 6  # texts: with fewer, no sign-flip test is significant
MORE_TEXTS = "more sentences"
NAMES = {
    "importance": "importance",
    "ablation": "exact ablation",
    "magnitude": "magnitude",
    "random": "random order",
}


def way(method: str, rescored: bool) -> str:
    """An order of removal, in words."""
    return NAMES[method] + (", rescored" if rescored else "")


# --- the whole model ------------------------------------------------------------------------------


def _is_better(tables: Tables) -> bool:
    """Whether the loss of the whole model is better than that of its trivial baseline."""
    return bool(_metric(tables["baseline"], "loss")[0]["better"])


def _is_few(tables: Tables) -> bool:
    """Whether the texts are too few for any test over texts."""
    return int(_metric(tables["baseline"], "loss")[0]["n"]) < TESTABLE


def _right(tables: Tables) -> str:
    """The metric beside the loss: the accuracy, of scores the explained variance (r2)."""
    return next(str(name) for name in tables["baseline"]["metric"] if name != LOSS)


def _only_if_better(claim: str, is_better: bool) -> str:
    """The claim as a sentence that says if the model is no better than its trivial baseline."""
    return f"{claim}{'' if is_better else ', in a model no better than its baseline'}."


def _baseline(tables: Tables) -> Finding:
    """The whole model next to its trivial baseline."""
    name = _right(tables)
    (loss,), (right,) = (_metric(tables["baseline"], each) for each in (LOSS, name))
    what = name_of_measured(tables)
    return Finding(
        f"The whole model {'predicts' if loss['better'] else 'does not predict'} "
        f"{what} better than its trivial baseline: loss "
        f"{decimal(loss['value'])} nats against {decimal(loss['baseline'])} "
        f"({_with_interval(loss, 'difference')}), {name} {percent(right['value'])} against "
        f"{percent(right['baseline'])}.",
        loss["difference"],
        (loss["lower"], loss["upper"]),
        0,
        judged(loss["better"], not _is_few(tables)),
        "baseline",
        {"metric": "loss"},
        measure=f"{measured(tables, LOSS)} of the whole model minus that of its trivial baseline",
        unit="nats",
        column="difference",
        decided_by=MORE_TEXTS,
        n=plural(loss["n"], "sentence"),
    )


# --- head-importance ------------------------------------------------------------------------------


def head_importance(tables: Tables) -> Iterator[Finding]:
    """The most and the least important head, how concentrated importance is, the best layer."""
    heads, is_better = rows_of(tables["importance"]), _is_better(tables)
    several = _has_several(heads)
    ranked = sorted(heads, key=lambda row: -float(row["importance"]))
    first, last = ranked[0], ranked[-1]
    near = sum(row["importance_upper"] >= first["importance_lower"] for row in ranked[1:])
    yield _of_head(
        f"The most important head for the {measured(tables, LOSS)} is head "
        f"{_name(first, several)}: {decimal(first['importance'])} nats "
        f"(95 % {decimal(first['importance_lower'])} to {decimal(first['importance_upper'])}); the "
        f"{verb_of(near, 'interval', 'intervals')} of "
        f"{of_all(near, len(ranked) - 1, 'other head')} "
        f"{verb_of(near, 'overlaps', 'overlap')} with its own",
        first,
        f"importance of the most important head for the {measured(tables, LOSS)}",
        is_better,
        near,
    )
    reached = list(accumulate(float(row["importance"]) for row in ranked))
    half = 1 + sum(each < reached[-1] / 2 for each in reached)
    yield Finding(
        _only_if_better(
            f"{capital(of_all(half, len(ranked), 'head'))} {verb_of(half, 'has', 'have')} half of "
            "the "
            f"total importance ({math.ceil(len(ranked) / 2)} if all were equal)",
            is_better,
        ),
        half,
        None,
        None,
        judged(is_better),
        "importance",
        figure="importance",
        measure="number of heads with half of the importance",
    )
    yield from _layers(heads, several, is_better)
    yield _of_head(
        f"The least important head is head {_name(last, several)}: "
        f"{decimal(last['importance'])} nats, "
        f"{percent(last['importance'] / first['importance'] if first['importance'] else 1)} of the "
        "largest importance",
        last,
        "importance of the least important head",
        is_better,
    )
    yield _baseline(tables)


def _of_head(claim: str, row: Row, measure: str, is_better: bool, near: int = 0) -> Finding:
    """The importance of the first or the last head, undecided if others may be in its place."""
    return Finding(
        _only_if_better(claim, is_better),
        row["importance"],
        (row["importance_lower"], row["importance_upper"]),
        None,
        judged(is_better, not (is_better and near)),
        "importance",
        keys_of(row, *HEAD),
        "importance",
        measure=measure,
        unit="nats",
        column="importance",
        decided_by=MORE_TEXTS,
        n=plural(row["n"], "prediction"),
    )


def _layers(heads: Sequence[Row], several: bool, is_better: bool) -> Iterator[Finding]:
    """The layers with the largest and the smallest mean importance, if there are several."""
    layers: dict[str, list[float]] = {}
    for row in heads:
        stack = f"{row['stack']} {row['kind']} " if several else ""
        name = f"{stack}{block_name(row['layer'])}"
        layers.setdefault(name, []).append(float(row["importance"]))
    means = {name: math.fsum(values) / len(values) for name, values in layers.items()}
    if len(means) < 2:
        return
    high, low = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
    yield Finding(
        _only_if_better(
            f"Mean importance is largest in {high} ({decimal(means[high])} nats per head) and "
            f"smallest in {low} ({decimal(means[low])})",
            is_better,
        ),
        means[high],
        None,
        None,
        judged(is_better),
        "importance",
        figure="importance",
        measure="mean importance in the most important layer",
        unit="nats",
    )


# --- head-ablation --------------------------------------------------------------------------------


def head_ablation(tables: Tables) -> Iterator[Finding]:
    """The heads that matter, the largest, harmful and redundant ones, agreement with importance."""
    is_better, enough = _is_better(tables), not _is_few(tables)
    mode = tables["ablation"]["mode"].iloc[0]
    loss, right = (
        [row for row in _metric(tables["ablation"], name) if row["mode"] == mode]
        for name in (LOSS, _right(tables))
    )
    several = _has_several(loss)
    by_change = sorted(loss, key=lambda row: -float(row["delta"]))
    top = by_change[0]
    matter = [_name(row, several) for row in by_change if row["matters"]]
    undecided = _undecided(by_change)
    yield Finding(
        f"{_that_matter(matter, by_change, is_better, measured(tables, LOSS))}"
        f"{_other_modes(tables, mode)}.",
        len(matter),
        None,
        0,
        judged(matter, matter or (enough and not undecided)),
        "heads",
        figure="ablation",
        measure=f"heads that matter for the {measured(tables, LOSS)}",
        decided_by=MORE_TEXTS,
        n=plural(len(by_change), "head"),
    )
    if top["delta"] > 0:
        yield _of_ablation(
            f"The {measured(tables, LOSS)} rises most without head {_name(top, several)}: from "
            f"{decimal(top['base'])} to {decimal(top['ablated'])} nats ({_with_interval(top)}; "
            f"{p_text(top['p_value'])}){_on_few(tables, top)}",
            top,
            f"change of the {measured(tables, LOSS)} without the most needed head",
            is_better,
            enough,
        )
    least = min(right, key=lambda row: float(row["delta"]))
    if least["delta"] < 0:
        number = sum(bool(row["matters"]) for row in right)
        right_name = measured(tables, _right(tables))
        digits = int(percent(least["base"]) == percent(least["ablated"]))  # no fall from 6 % to 6 %
        yield _of_ablation(
            f"{right_name[0].upper()}{right_name[1:]} falls most without head "
            f"{_name(least, several)}: from {percent(least['base'], digits)} to "
            f"{percent(least['ablated'], digits)} "
            f"({p_text(least['p_value'])}){_on_few(tables, least)}; the fall is significant for "
            f"{of_all(number, len(right), 'head')}",
            least,
            f"change of the {right_name} without the most needed head",
            is_better,
            enough,
        )
    yield _harmful(by_change[::-1], several, is_better, enough)
    yield _agreement(tables, mode, by_change[0], several)
    if len({row["sentences"] for row in loss} | {_n_texts(tables)}) > 1:
        yield _race(tables, loss, undecided, several)
    if "pairs" in tables:
        yield _redundant(tables["pairs"], is_better, enough)
    yield _baseline(tables)


def _that_matter(names: Sequence[str], by_change: Sequence[Row], is_better: bool, loss: str) -> str:
    """How many heads matter, and which."""
    number = len(by_change)
    if not is_better:
        none = capital(of_all(0, number, "head"))
        return f"{none} can be said to matter: the model is no better than its trivial baseline"
    if names:
        return (
            f"{capital(of_all(len(names), number, 'head'))} "
            f"{verb_of(len(names), 'matters', 'matter')} ({listing(names)}): the {loss} is "
            "significantly higher without "
            f"{'it' if len(names) == 1 else 'each of them'} (p < {SIGNIFICANT}, corrected over "
            "heads)"
        )
    p = min((row["p_value"] for row in by_change if row["delta"] > 0), default=1.0)
    return (
        f"{capital(of_all(0, number, 'head'))} matters: the {loss} is not significantly higher "
        f"without any one of them (smallest {p_text(p)}, corrected over heads)"
    )


def _other_modes(tables: Tables, first: str) -> str:
    """The numbers of heads that matter with the other replacements, if there are any."""
    table = tables["ablation"]
    rows = table[(table["metric"] == "loss") & (table["mode"] != first)]
    if rows.empty:
        return ""
    counts = rows.groupby("mode", sort=False)["matters"].sum()
    return f"; {listing([f'{whole(n)} in {mode} ablation' for mode, n in counts.items()])}"


def _of_ablation(claim: str, row: Row, measure: str, is_better: bool, enough: bool) -> Finding:
    return Finding(
        _only_if_better(claim, is_better),
        row["delta"],
        (row["lower"], row["upper"]),
        0,
        judged(row["matters"], row["matters"] or (enough and row["decided"])),
        "ablation",
        keys_of(row, "mode", "metric", *HEAD),
        "ablation",
        measure=measure,
        unit="nats" if row["metric"] == "loss" else "points",
        column="delta",
        decided_by=MORE_TEXTS,
        n=plural(row["n"], "prediction"),
    )


def _harmful(by_change: Sequence[Row], several: bool, is_better: bool, enough: bool) -> Finding:
    """The heads without which the loss is lower; `by_change` begins with the most harmful one."""
    harmful = [row for row in by_change if row["delta"] < 0 and row["p_value"] < SIGNIFICANT]
    first, number = (harmful or by_change)[0], len(by_change)
    none = capital(of_all(0, number, "head"))
    most = f"{_name(first, several)}: {_shift(first, bare=True)}; {p_text(first['p_value'])}"
    if harmful:
        claim = (
            f"The loss is significantly lower without {of_all(len(harmful), number, 'head')} "
            f"(most without {most})"
        )
    elif first["delta"] < 0:
        claim = (
            f"{none} is harmful: the loss is not significantly lower without any "
            f"one of them (lowest without {most})"
        )
    else:
        claim = f"{none} is harmful: the loss is not lower without any one of them"
    return Finding(
        _only_if_better(claim, is_better or not harmful),
        len(harmful),
        None,
        0,
        judged(is_better and harmful, harmful or (enough and not _undecided(by_change))),
        "ablation",
        {"mode": first["mode"], "metric": "loss"},
        "ablation",
        measure="heads without which the loss is lower",
        decided_by=MORE_TEXTS,
    )


def _undecided(rows: Sequence[Row]) -> list[Row]:
    """The heads of which more sentences would change what is said."""
    return [row for row in rows if not row["decided"]]


def _on_few(tables: Tables, row: Row) -> str:
    """On how many sentences a head was scored, if not on all."""
    scored, texts = row["sentences"], _n_texts(tables)
    return f", estimated on {whole(scored)} of {whole(texts)} sentences" if scored < texts else ""


def _n_texts(tables: Tables) -> int:
    return int(_metric(tables["baseline"], LOSS)[0]["n"])


def _race(tables: Tables, heads: Sequence[Row], undecided: Sequence[Row], several: bool) -> Finding:
    """How many head-passes the race took, and which heads it left open."""
    passes, exact = sum(row["sentences"] for row in heads), len(heads) * _n_texts(tables)
    names = listing([_name(row, several) for row in undecided], 5)
    outcome = (
        f"undecided for {plural(len(undecided), 'head')} ({names}): effort=full decides"
        if undecided
        else "decided for every head"
    )
    return Finding(
        f"Racing scored {whole(len(heads))} heads by {whole(passes)} passes of a head over a "
        f"sentence, {decimal(exact / passes, 1)} times fewer than all; the ten largest changes and "
        f"the significance of the loss are {outcome}.",
        len(undecided),
        None,
        None,
        judged(True, not undecided),
        "rounds",
        measure="heads left undecided by the race",
        decided_by="effort=full",
    )


def _agreement(tables: Tables, mode: str, exact: Row, several: bool) -> Finding:
    """How well first-order importance agrees with exact ablation."""
    row = next(row for row in rows_of(tables["agreement"]) if row["mode"] == mode)
    first = max(rows_of(tables["importance"]), key=lambda each: float(each["importance"]))
    names = _name(first, several), _name(exact, several)
    heads = (
        f"each puts head {names[0]} first"
        if names[0] == names[1]
        else f"importance puts head {names[0]} first, ablation head {names[1]}"
    )
    return Finding(
        f"First-order importance and exact ablation rank {whole(row['heads'])} heads with a "
        f"Spearman correlation of {decimal(row['spearman'], 2)}; {heads}.",
        row["spearman"],
        None,
        None,
        "supported",
        "agreement",
        {"mode": mode},
        "agreement",
        measure="Spearman correlation of importance and exact ablation",
        column="spearman",
    )


def _redundant(table: pd.DataFrame, is_better: bool, enough: bool) -> Finding:
    """The pairs of heads that cost more together than both cost alone."""
    mode = table["mode"].iloc[0]
    rows = sorted(rows_of(table[table["mode"] == mode]), key=lambda row: -float(row["interaction"]))
    redundant = [row for row in rows if row["interaction"] > 0 and row["p_value"] < SIGNIFICANT]
    first = (redundant or rows)[0]
    sides = [{name: first[f"{name}_{side}"] for name in HEAD} for side in "ab"]
    several = len({row[f"{name}_{side}"] for row in rows for name in HEAD[:2] for side in "ab"}) > 2
    one, other = (_name(side, several) for side in sides)
    return Finding(
        _only_if_better(
            f"In {of_all(len(redundant), len(rows), 'pair')}, removing both heads "
            f"costs significantly more loss than the sum of each alone (most: heads {one} and "
            f"{other}, {_shift(first, 'interaction', bare=True)}; {p_text(first['p_value'])})",
            is_better,
        ),
        len(redundant),
        None,
        0,
        judged(is_better and redundant, redundant or enough),
        "pairs",
        figure="pairs",
        measure="redundant pairs of heads",
        decided_by=MORE_TEXTS,
    )


# --- head-gates -----------------------------------------------------------------------------------

COSTS = "costs and budgets"
NEAR = 0.05  # share by which the loss of a smaller model may be higher
MORE_STEPS = "more training steps: the gates have not converged"


def head_gates(tables: Tables) -> Iterator[Finding]:
    """The smallest good choice of heads next to random ones, the costs of heads, convergence."""
    is_better = _is_better(tables)
    trials = _metric(tables["survival"], "loss")
    choices = [row for row in trials if 0 < row["heads"] < row["of"]]
    shown = min(choices or trials, key=lambda row: (not row["better"], row["heads"]))
    loss = measured(tables, LOSS)
    chosen = _choice if choices else _no_choice
    yield chosen(shown, is_better, loss, plural(_n_texts(tables), "sentence"))
    n_better = sum(bool(row["better"]) for row in choices)
    unfinished = [row for row in trials if not row["converged"]]
    converged = len(trials) - len(unfinished)
    if len(choices) > 1:
        yield Finding(
            _only_if_better(
                "The heads that stay are significantly better than random ones at "
                f"{of_all(n_better, len(choices), 'cost or budget', COSTS)} that leave "
                "a choice",
                is_better,
            ),
            n_better,
            None,
            0,
            judged(n_better, n_better or not is_better or not unfinished),
            "survival",
            {"metric": "loss"},
            "survival",
            measure="costs and budgets at which the heads that stay are better than random ones",
            decided_by=MORE_STEPS,
        )
    if choices:
        yield _stay(tables["gates"], shown, is_better)
    yield from _smallest([row for row in trials if row["heads"] < row["of"]], is_better)
    yield from _prices(trials, is_better)
    yield Finding(
        f"The gates have converged at {of_all(converged, len(trials), 'cost or budget', COSTS)}: "
        "there, training twice as long would keep the same heads.",
        converged,
        None,
        None,
        judged(not unfinished),
        "survival",
        {"metric": "loss"},
        "survival",
        measure="costs and budgets at which the gates have converged",
    )
    yield _baseline(tables)


def _trial(row: Row) -> str:
    """The budget or cost of a trial, in words."""
    if row["budget"]:
        return f"a budget of {percent(row['budget'])}"
    return f"a cost of {row['lambda']:g} nats per head"


def _choice(row: Row, is_better: bool, loss: str, n: str) -> Finding:
    """A choice of heads next to random choices of as many."""
    return Finding(
        _only_if_better(
            f"With {_trial(row)}, {of_all(row['heads'], row['of'], 'head')} "
            f"{verb_of(row['heads'], 'stays', 'stay')} and the {loss} changes by {_shift(row)}; "
            "with "
            f"as many random heads, by {_change(row['random'])} ({p_text(row['p_random'])})",
            is_better,
        ),
        row["delta"],
        (row["lower"], row["upper"]),
        row["random"],
        judged(row["better"], row["better"] or not is_better or row["converged"]),
        "survival",
        keys_of(row, "lambda", "budget", "metric"),
        "survival",
        measure=f"change of the {loss} with the heads that stay",
        unit="nats",
        column="delta",
        decided_by=MORE_STEPS,
        n=n,
    )


def _no_choice(row: Row, is_better: bool, loss: str, n: str) -> Finding:
    """Heads that all stay or all go: there are no others to compare them with."""
    heads = of_all(row["heads"], row["of"], "head")
    stay = f"{heads} {verb_of(row['heads'], 'stays', 'stay')}"
    return Finding(
        _only_if_better(
            f"With {_trial(row)}, {stay} and the {loss} changes by "
            f"{_shift(row)}: there is no choice to compare with random heads",
            is_better,
        ),
        row["delta"],
        (row["lower"], row["upper"]),
        None,
        judged(False, not is_better),
        "survival",
        keys_of(row, "lambda", "budget", "metric"),
        "survival",
        measure=f"change of the {loss} with the heads that stay",
        unit="nats",
        column="delta",
        decided_by="other costs, or a budget, that leave some of the heads",
        n=n,
    )


def _stay(gates: pd.DataFrame, row: Row, is_better: bool) -> Finding:
    """The names of the heads that stay."""
    rows = rows_of(gates[(gates["lambda"] == row["lambda"]) & (gates["budget"] == row["budget"])])
    several = _has_several(rows)
    names = [_name(each, several) for each in rows if each["kept"]]
    heads, stay = ("Head", "stays") if len(names) == 1 else ("Heads", "stay")
    return Finding(
        _only_if_better(
            f"{heads} {listing(names, 4 if several else 8)} {stay} with {_trial(row)}", is_better
        ),
        None,
        None,
        None,
        judged(row["better"] and row["converged"], row["converged"] or not is_better),
        "gates",
        {**keys_of(row, "lambda", "budget"), "kept": True},
        "gates",
        measure="heads that stay",
        decided_by=MORE_STEPS,
    )


def _smallest(smaller: Sequence[Row], is_better: bool) -> Iterator[Finding]:
    """The smallest model whose loss is nearly that of the whole model."""
    if not smaller:
        return
    near = [row for row in smaller if row["delta"] <= NEAR * row["base"]]
    if near:
        row = min(near, key=lambda each: (each["heads"], each["delta"]))
        claim = f"The smallest model with a loss at most {percent(NEAR)} higher"
    else:
        row = min(smaller, key=lambda each: float(each["delta"]))
        claim = f"No smaller model has a loss at most {percent(NEAR)} higher; the nearest"
    yield Finding(
        _only_if_better(
            f"{claim} has {of_all(row['heads'], row['of'], 'head')}, with {_trial(row)} "
            f"({_shift(row, bare=True)})",
            is_better,
        ),
        row["heads" if near else "of"],
        None,
        None,
        judged(is_better and near),
        "survival",
        keys_of(row, "lambda", "budget", "metric"),
        "survival",
        measure=f"heads of the smallest model with a loss at most {percent(NEAR)} higher",
        column="heads" if near else "of",
    )


def _prices(trials: Sequence[Row], is_better: bool) -> Iterator[Finding]:
    """The numbers of heads at the lowest and the highest cost, if there are several costs."""
    costs = sorted((row for row in trials if not row["budget"]), key=lambda row: row["lambda"])
    if len(costs) < 2:
        return
    low, high = costs[0], costs[-1]
    yield Finding(
        _only_if_better(
            f"At a cost of {low['lambda']:g} nats per head, "
            f"{of_all(low['heads'], low['of'], 'head')} {verb_of(low['heads'], 'stays', 'stay')} "
            f"({_change(low['delta'])} nats of loss); at "
            f"{high['lambda']:g}, {whole(high['heads'])} ({_change(high['delta'])})",
            is_better,
        ),
        high["heads"],
        None,
        None,
        judged(is_better),
        "survival",
        keys_of(high, "lambda", "budget", "metric"),
        "survival",
        measure="heads that stay at the highest cost",
        column="heads",
    )


# --- head-pruning ---------------------------------------------------------------------------------


def head_pruning(tables: Tables) -> Iterator[Finding]:
    """How many heads can go and in which order, the smaller model before and after fine-tuning."""
    is_better, enough = _is_better(tables), not _is_few(tables)
    yield from _orders(tables, is_better)
    stages = {row["stage"]: row for row in _metric(tables["kept"], "loss")}
    pruned, full = stages["pruned"], stages["whole"]
    if pruned["heads"] < full["heads"]:
        n = plural(_n_texts(tables), "sentence")
        yield _pruned(pruned, full, is_better, enough, n)
        if "recovered" in stages:
            yield _recovered(stages["recovered"], stages["whole, tuned"], is_better, enough, n)
        yield _smaller(tables, pruned, full)
        if "saved" in stages:
            yield _saved(tables, is_better, enough)
    yield _one_head(tables["alone"], is_better)
    yield _baseline(tables)


def _orders(tables: Tables, is_better: bool) -> Iterator[Finding]:
    """The best order of removal next to random ones, and how many orders are better."""
    loss, right = (_metric(tables["summary"], name) for name in (LOSS, _right(tables)))
    of_loss = measured(tables, LOSS)
    random = [row for row in loss if row["method"] == "random"]
    tested = [row for row in loss if row["method"] != "random"]
    n_heads = int(tables["curve"]["heads_removed"].max())
    losses = _metric(tables["curve"], LOSS)
    least = min(int(row["heads_removed"]) for row in losses if row["heads_removed"])
    by_random = (
        [median_low(removable(losses, row, drop) for row in random) for drop in DROPS]
        if random
        else []
    )
    of_heads, in_random = plural(n_heads, "head"), f"in {plural(len(random), 'random order')}"
    if not tested:
        yield Finding(
            _only_if_better(
                f"{capital(in_random)}, {_cost(by_random, n_heads, least, of_loss)} (median)",
                is_better,
            ),
            by_random[0],
            None,
            None,
            judged(is_better),
            "summary",
            {"method": "random", "metric": "loss"},
            "curve",
            measure=f"heads that random orders can remove for 1 % of {of_loss}",
            n=of_heads,
        )
        return
    best = min(tested, key=lambda row: float(row["area"]))  # as `best_order`
    areas = [row["area"] for row in random]
    is_open = is_better and (len(areas) < 2 or best["area"] < min(areas))
    counts = [removable(losses, best, drop) for drop in DROPS]
    against = (
        f"; random choice: {' and '.join(_count(n, least) for n in by_random)} "
        f"(median of {len(random)}; "
        f"{p_text(best['p_value'])} over the whole curve)"
        if random
        else ""
    )
    yield Finding(
        _only_if_better(
            f"{capital(_cost(counts, n_heads, least, of_loss))}, by "
            f"{way(best['method'], best['rescored'])}{against}",
            is_better,
        ),
        counts[0],
        None,
        by_random[0] if random else None,
        judged(best["better"], best["better"] or not is_open),
        "summary",
        keys_of(best, "method", "rescored", "seed", "metric"),
        "curve",
        measure=f"heads that the best order can remove for 1 % of {of_loss}",
        decided_by="more random orders",
        n=of_heads,
    )
    if random:
        yield _better_orders(tested, right, random, is_better, is_open)


def best_order(summary: pd.DataFrame) -> Row | None:
    """The order that the finding is about: the lowest loss over its curve; None: only random."""
    rows = [row for row in _metric(summary, LOSS) if row["method"] != "random"]
    return min(rows, key=lambda row: float(row["area"]), default=None)


def removable(curve: Sequence[Row], order: Row, drop: float, metric: str = LOSS) -> int:
    """The most heads that an order removed, of the steps measured, before it lost such a share."""
    keys = ("method", "rescored", "seed")
    steps = [row for row in curve if all(row[key] == order[key] for key in keys)]
    steps.sort(key=lambda row: int(row["heads_removed"]))
    first, sign = float(steps[0]["value"]), 1 if metric == LOSS else -1
    within = takewhile(
        lambda row: sign * (row["value"] - first) <= drop * (abs(first) or 1.0), steps
    )
    return int([row["heads_removed"] for row in within][-1])


def _cost(counts: Sequence[int], n_heads: int, least: int, loss: str) -> str:
    """How many heads can be removed for 1 % and for 5 % more loss; `least` is the first step."""
    one, five = counts
    removed = of_all(one, n_heads, "head")
    if not one and least > 1:
        removed = f"{_count(one, least)} of {plural(n_heads, 'head')}"
    return (
        f"you can remove {removed} for at most 1 % more {loss}, and {_count(five, least)} for 5 %"
    )


def _count(heads: int, least: int) -> str:
    """A number of heads; where the first step was too much, fewer may be possible."""
    return str(heads) if heads or least == 1 else f"fewer than {least}"


def _better_orders(
    tested: Sequence[Row],
    right: Sequence[Row],
    random: Sequence[Row],
    is_better: bool,
    is_open: bool,
) -> Finding:
    """How many orders are better than random ones over the whole curve."""
    n_loss, n_right = (
        sum(bool(row["better"]) for row in rows if row["method"] != "random")
        for rows in (tested, right)
    )
    accurate = max((row for row in right if row["method"] != "random"), key=lambda row: row["area"])
    by_random = [row for row in right if row["method"] == "random"]
    return Finding(
        _only_if_better(
            f"{capital(of_all(n_loss, len(tested), 'order'))} {verb_of(n_loss, 'is', 'are')} "
            f"significantly better than {plural(len(random), 'random one')} over the whole curve "
            f"by loss, and {n_right or 'none'} by {accurate['metric']} (best mean "
            f"{accurate['metric']} "
            f"{percent(accurate['area'], 1)}, "
            f"random {percent(_mean(by_random, 'area'), 1)})",
            is_better,
        ),
        n_loss,
        None,
        0,
        judged(n_loss, n_loss or not is_open),
        "summary",
        {"metric": "loss"},
        "accuracy",
        measure="orders better than random ones",
        decided_by="more random orders",
    )


def _pruned(pruned: Row, full: Row, is_better: bool, enough: bool, n: str) -> Finding:
    """The loss of the smaller model before fine-tuning, next to the whole model."""
    removed = full["heads"] - pruned["heads"]
    return _stage(
        pruned,
        f"Loss after removing {of_all(removed, full['heads'], 'head')}: "
        f"{decimal(full['value'])} to {decimal(pruned['value'])} nats ({_with_interval(pruned)}; "
        f"{p_text(pruned['p_value'])}"
        f"{', not significant' if pruned['p_value'] >= SIGNIFICANT else ''})",
        "change of the loss of the pruned model",
        is_better,
        enough,
        MORE_TEXTS,
        n,
    )


def _recovered(recovered: Row, tuned: Row, is_better: bool, enough: bool, n: str) -> Finding:
    """The loss of the smaller model after fine-tuning, next to the whole model likewise tuned."""
    is_done = recovered["converged"] and tuned["converged"]
    steps = max(recovered["steps"], tuned["steps"])
    if is_better and not recovered["best_step"] and not tuned["best_step"]:
        return Finding(
            f"Fine-tuning does not help: in {plural(steps, 'step')}, no dev loss was lower than "
            "before the first, so both models keep their weights and losses.",
            None,
            None,
            None,
            judged(False),
            "kept",
            keys_of(recovered, "stage", "metric"),
            "kept",
            measure="change of the loss of the pruned model after fine-tuning",
        )
    return _stage(
        recovered,
        f"Loss after {plural(steps, 'step')} of fine-tuning: {decimal(tuned['value'])} nats with "
        f"all heads, {decimal(recovered['value'])} without the removed ones "
        f"({_with_interval(recovered)}; {p_text(recovered['p_value'])})",
        "change of the loss of the pruned model after fine-tuning",
        is_better,
        enough and is_done,
        MORE_TEXTS if is_done else "more recovery steps: fine-tuning has not converged",
        n,
    )


def _stage(
    row: Row, claim: str, measure: str, is_better: bool, enough: bool, decided_by: str, n: str
) -> Finding:
    costs = is_better and row["delta"] > 0 and row["p_value"] < SIGNIFICANT
    return Finding(
        _only_if_better(claim, is_better),
        row["delta"],
        (row["lower"], row["upper"]),
        0,
        judged(costs, enough or not is_better),
        "kept",
        keys_of(row, "stage", "metric"),
        "kept",
        measure=measure,
        unit="nats",
        column="delta",
        decided_by=decided_by,
        n=n,
    )


def _smaller(tables: Tables, pruned: Row, full: Row) -> Finding:
    """Size and speed of the smaller model, for the largest batch."""
    row = max(rows_of(tables["speed"]), key=lambda each: int(each["texts"]))
    spread = f"{decimal(row['lowest'], 2)} to {decimal(row['highest'], 2)} in five measurements"
    return Finding(
        f"The smaller model has {percent(pruned['parameters'] / full['parameters'])} of the "
        f"parameters ({whole(pruned['parameters'])} of {whole(full['parameters'])}) and is "
        f"{decimal(row['speedup'], 2)} times as fast on {plural(row['texts'], 'text')} ({spread}).",
        row["speedup"],
        None,
        None,
        judged(row["lowest"] > 1, row["lowest"] > 1 or row["highest"] < 1),
        "speed",
        keys_of(row, "texts"),
        "speed",
        measure="speed of the smaller model, as a multiple of the whole model's",
        column="speedup",
        decided_by="the same run on a quiet machine",
    )


def _saved(tables: Tables, is_better: bool, enough: bool) -> Finding:
    """The accuracy before and after, and the size, of the model as it is opened from its folder."""
    name = _right(tables)
    rows = {row["stage"]: row for row in _metric(tables["kept"], name)}
    full, saved = rows["whole"], rows["saved"]
    of_metric = measured(tables, name)
    return Finding(
        _only_if_better(
            f"The saved model has {of_all(saved['heads'], full['heads'], 'head')} "
            f"({decimal(saved['disk'], 2)} MiB on disk) and {_article(of_metric)} {of_metric} of "
            f"{percent(saved['value'], 1)}, before {percent(full['value'], 1)} (change "
            f"{signed(shown(saved['delta'], 'points'))} points, 95 % "
            f"{span(saved['lower'], saved['upper'], 'points')})",
            is_better,
        ),
        saved["delta"],
        (saved["lower"], saved["upper"]),
        0,
        judged(is_better, enough),
        "kept",
        keys_of(saved, "stage", "metric"),
        "kept",
        measure=f"change of the {of_metric} of the saved model",
        unit="points",
        column="delta",
        decided_by=MORE_TEXTS,
        n=plural(_n_texts(tables), "sentence"),
    )


def _article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"


def _one_head(table: pd.DataFrame, is_better: bool) -> Finding:
    """What a layer loses if only its best head stays."""
    rows = _metric(table, "loss")
    several = _has_several(rows)
    high, low = (pick(rows, key=lambda row: float(row["delta"])) for pick in (max, min))
    return Finding(
        _only_if_better(
            "Leaving only the best head of a layer changes the loss by "
            f"{_change(low['delta'])} nats (head {_name(low, several)}) to "
            f"{_change(high['delta'])} (head {_name(high, several)})",
            is_better,
        ),
        high["delta"],
        None,
        None,
        judged(is_better),
        "alone",
        keys_of(high, *HEAD, "metric"),
        "alone",
        measure="largest change of the loss if one layer keeps one head",
        unit="nats",
        column="delta",
    )


# --- rows and numbers -----------------------------------------------------------------------------


def _metric(table: pd.DataFrame, name: str) -> list[Row]:
    return rows_of(table[table["metric"] == name])


def _mean(rows: Sequence[Row], column: str) -> float:
    return math.fsum(float(row[column]) for row in rows) / len(rows)


def _has_several(heads: Sequence[Row]) -> bool:
    """Whether the heads are of several stacks or kinds of attention."""
    return len({(row["stack"], row["kind"]) for row in heads}) > 1


def _name(head: Row, several: bool) -> str:
    """A head as in `head_number`; with stack and kind if there are several."""
    name = head_number(head["layer"], head["head"])
    return f"{head['stack']} {head['kind']} {name}" if several else name


def _change(value: float, *also: float) -> str:
    """A difference with its sign, and two significant digits of the largest number (or 0.0001)."""
    return signed(decimal(value, _digits(value, *also)))


def _with_interval(row: Row, column: str = "delta") -> str:
    """A difference with its 95 % interval: `+0.64, 95 % 0.35 to 0.97`."""
    value, low, high = row[column], row["lower"], row["upper"]
    digits = _digits(value, low, high)
    return f"{_change(value, low, high)}, 95 % {decimal(low, digits)} to {decimal(high, digits)}"


def _shift(row: Row, column: str = "delta", bare: bool = False) -> str:
    """A difference in nats with its 95 % interval: `+0.64 nats (95 % 0.35 to 0.97)`."""
    value, low, high = row[column], row["lower"], row["upper"]
    digits = _digits(value, low, high)
    interval = f"95 % {decimal(low, digits)} to {decimal(high, digits)}"
    return f"{_change(value, low, high)} nats{f', {interval}' if bare else f' ({interval})'}"


def _digits(*values: float) -> int:
    size = max(abs(value) for value in values)
    return min(4, max(2, 1 - math.floor(math.log10(size)))) if 0 < size < math.inf else 2
