"""Findings of `compress`: how small, how fast, against random orders, and what was lost.

Pure functions of the tables.
"""

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from workbench.core.findings import (
    Finding,
    Row,
    Tables,
    Unit,
    Verdict,
    capital,
    decimal,
    judged,
    keys_of,
    listing,
    of_all,
    p_text,
    percent,
    rows_of,
    shown,
    span,
    verb_of,
    with_unit,
)
from workbench.core.stats import SIGNIFICANT
from workbench.experiment.measured import measured

MORE = "more texts"
ORIGINAL = "original"
CUT = ("weights", "neurons", "layers", "vocabulary")
NAMED = 3  # orders with a finding of their own


def findings(tables: Tables) -> Iterator[Finding]:
    """What is found; of a model that has learnt nothing, only speed is supported."""
    for each in _stated(tables):
        if each.verdict == "supported" and each.table != "cost" and not _has_learnt(tables):
            yield replace(each, verdict="not supported")
        else:
            yield each


def _stated(tables: Tables) -> Iterator[Finding]:
    """Size, time, combinations, losses, orders, training, and the layer that needs bits most."""
    points = tables["points"][tables["points"]["order"] == "best"]
    saved = points[(points["method"] != ORIGINAL) & (points["disk"] > 0)]
    if len(saved):
        yield _smallest(tables, points, saved)
    if "cost" in tables:
        yield _faster(tables["cost"])
    if saved["method"].str.contains(" and ").any():
        yield _combined(tables, saved)
    if "lost" in tables:
        yield _lost(tables)
    if "inside" in tables:
        yield _inside(tables["inside"])
    if "orders" in tables:
        yield _orders(tables)
    if "training" in tables:
        yield _training(tables)
    if "layers" in tables:
        yield _layer(tables)


def _name(row: Row) -> str:
    return f"{row['method']} ({row['amount'].replace(' %', ' % removed')})"


def _smallest(tables: Tables, points: pd.DataFrame, saved: pd.DataFrame) -> Finding:
    whole = rows_of(points[points["method"] == ORIGINAL])[0]
    unit: Unit = "%" if whole["metric"] == "accuracy" else ""
    smaller = saved[saved["disk"] < whole["disk"]]
    enough = smaller[smaller["kept"] >= smaller["needed"]]
    what, needed = measured(tables, whole["metric"]), whole["needed"]
    bound = (
        f"whose {what} is within {percent(1 / needed - 1)} of the original's"
        if whole["metric"] == "loss"
        else f"that keeps {percent(needed)} of the {what}"
    )
    if enough.empty:
        nearest = rows_of((smaller if len(smaller) else saved).sort_values("kept"))[-1]
        claim = (
            f"There is no smaller model {bound}; nearest is {_name(nearest)}: "
            f"{with_unit(nearest['value'], unit)} instead of {with_unit(whole['value'], unit)}."
        )
        return Finding(
            claim, nearest["value"], (nearest["value_lower"], nearest["value_upper"]),
            whole["value"], "not supported", "points",
            keys_of(nearest, "method", "amount", "order"), "front",
            measure=f"{what} of the smallest model", unit=unit, column="value",
            n=f"{nearest['n']} texts",
        )  # fmt: skip
    best = rows_of(enough.sort_values("disk"))[0]
    claim = (
        f"The smallest model {bound} is {_name(best)}: "
        f"{decimal(best['disk'])} instead of {decimal(whole['disk'])} MiB "
        f"({percent(best['disk'] / whole['disk'])}), {best['metric']} "
        f"{with_unit(best['value'], unit)} instead of "
        f"{with_unit(whole['value'], unit)} (change {shown(best['change'], unit)}, 95 % "
        f"{span(best['lower'], best['upper'], unit)}; with random weights "
        f"{with_unit(best['random_weights'], unit)})."
    )
    return Finding(
        claim, best["value"], (best["value_lower"], best["value_upper"]), best["random_weights"],
        judged(_above_random(best)), "points",
        keys_of(best, "method", "amount", "order"), "front",
        measure=f"{what} of the smallest model", unit=unit, column="value", decided_by=MORE,
        n=f"{best['n']} texts",
    )  # fmt: skip


def _has_learnt(tables: Tables) -> bool:
    """Whether the original beats its trivial baseline: else there is nothing to keep or to lose."""
    trivial = tables["baseline"].set_index("metric")["better"]
    return bool(trivial[tables["points"]["metric"].iloc[0]])


def _above_random(row: Row) -> bool:
    """Whether the measure is better than with random weights."""
    if row["metric"] == "loss":
        return bool(row["value_upper"] < row["random_weights"])
    return bool(row["value_lower"] > row["random_weights"])


def _faster(costs: pd.DataFrame) -> Finding:
    faster = costs[costs["faster"].astype(bool)]
    count = of_all(len(faster), len(costs), "measurement")
    row = rows_of((faster if len(faster) else costs).sort_values("speedup"))[-1]
    texts = f"{row['texts']} text{'s' * (row['texts'] > 1)}"
    claim = (
        f"A saved model is faster than the original in {count} of models and batches; "
        f"{_name(row)} is {decimal(row['speedup'], 2)} times as fast with {texts} (95 % "
        f"{decimal(row['lower'], 2)} to {decimal(row['upper'], 2)}; corrected {p_text(row['p'])})."
    )
    return Finding(
        claim, row["speedup"], (row["lower"], row["upper"]), 1.0, verdict_of_speedup(row), "cost",
        keys_of(row, "method", "amount", "texts"), "speed", measure="largest speedup",
        column="speedup", decided_by="more rounds",
    )  # fmt: skip


def verdict_of_speedup(row: Row) -> Verdict:
    """The verdict on a speedup: undecided if only its corrected p needs more rounds to show it."""
    return judged(row["faster"], row["faster"] or row["lower"] <= 1)


def _combined(tables: Tables, saved: pd.DataFrame) -> Finding:
    both = saved[saved["method"].str.contains(" and ")]
    ahead = both[both["front"].astype(bool)]
    row = rows_of((ahead if len(ahead) else both).sort_values("kept"))[-1]
    verb = verb_of(len(ahead), "is", "are")
    claim = (
        f"Of {len(both)} combinations, {len(ahead)} {verb} on the front of bytes and "
        f"{measured(tables, row['metric'])}"
        + (
            f": no single method is both smaller and better than {_name(row)}, "
            f"{decimal(row['disk'])} MiB."
            if len(ahead)
            else ": a single method is smaller or better than each of them."
        )
    )
    return Finding(
        claim, len(ahead), None, 0, judged(len(ahead)), "points",
        keys_of(row, "method", "amount", "order"), "front", measure="combinations on the front",
    )  # fmt: skip


def fell_further(table: pd.DataFrame) -> tuple[pd.DataFrame, Row]:
    """The groups of `lost` that fell significantly further, and the surest; else the nearest."""
    further = table[(table["p"] < SIGNIFICANT) & (table["difference"] > 0)]
    ranked = (further if len(further) else table).sort_values(
        ["p", "difference"], ascending=[False, True]
    )
    return further, rows_of(ranked)[-1]


def _lost(tables: Tables) -> Finding:
    table = tables["lost"]
    further, row = fell_further(table)
    models = table[["method", "amount"]].drop_duplicates()
    is_words = row["kind"] in ("part of speech", "relation", "length") and (
        tables["objective"]["metric"].iloc[0] == "loss"
    )
    unit: Unit = "" if is_words else "points"
    if further.empty:
        claim = (
            f"In none of {len(models)} smaller models did a group fall significantly further than "
            f"the rest; nearest is “{row['group']}” ({row['kind']}) of {_name(row)}, "
            f"{with_unit(row['difference'], unit)} (95 % {span(row['lower'], row['upper'], unit)}; "
            f"{p_text(row['p'])})."
        )
    else:
        n = len(further[["method", "amount"]].drop_duplicates())
        names = listing(list(dict.fromkeys(further.sort_values("p")["group"])))
        claim = (
            f"In {of_all(n, len(models), 'smaller model')}, some groups fell significantly "
            f"further than the rest: {names}. The surest is “{row['group']}” ({row['kind']}) of "
            f"{_name(row)}: {shown(row['fall'], unit)} instead of {shown(row['rest'], unit)}"
            f"{' points' if unit else ' nats'} (difference 95 % "
            f"{span(row['lower'], row['upper'], unit)}; {p_text(row['p'])})."
        )
    return Finding(
        claim, row["difference"], (row["lower"], row["upper"]), 0.0, judged(len(further)), "lost",
        keys_of(row, "method", "amount", "kind", "group"), "lost", measure="fell further",
        unit=unit, column="difference", n=f"{row['n']} units",
    )  # fmt: skip


def _inside(table: pd.DataFrame) -> Finding:
    """Of the saved model: which probe tasks fell, and how many heads have a role still."""
    tasks, roles = (table[table["kind"] == kind] for kind in ("probe task", "head role"))
    heads = (
        f" {int(roles['saved'].sum())} of its heads have a role that heads of the original have, "
        f"where {int(roles['original'].sum())} had."
        if len(roles)
        else ""
    )
    if tasks.empty:
        row = rows_of(roles.sort_values("change", ascending=False))[-1]
        return Finding(
            f"The saved model was not probed.{heads}", row["change"], None, 0.0, "undecided",
            "inside", keys_of(row, "kind", "group"), measure="lost inside", column="change",
            decided_by="a corpus with gold layers",
        )  # fmt: skip
    fallen = tasks[(tasks["p"] < SIGNIFICANT) & (tasks["change"] < 0)]
    row = rows_of(tasks.sort_values("change", ascending=False))[-1]
    number = of_all(len(fallen), len(tasks), "probe task")
    claim = (
        f"The saved model's states tell significantly less in {number}; most fell {row['group']}: "
        f"F1 of {decimal(row['saved'], 3)} instead of {decimal(row['original'], 3)} (change 95 % "
        f"{span(row['lower'], row['upper'])}; {p_text(row['p'])}).{heads}"
    )
    return Finding(
        claim, row["change"], (row["lower"], row["upper"]), 0.0, judged(len(fallen)), "inside",
        keys_of(row, "kind", "group"), measure="lost inside", column="change",
        decided_by="more sentences", n=f"{row['n']} targets",
    )  # fmt: skip


def _orders(tables: Tables) -> Finding:
    table = tables["orders"]
    better = table[table["p"] < SIGNIFICANT]
    row = rows_of((better if len(better) else table).sort_values("p", ascending=False))[-1]
    unit: Unit = "%" if row["metric"] == "accuracy" else ""
    tested = bool((table["random_orders"] > 1).any())
    p_value = f" ({p_text(row['p'])})" if tested else ""
    random = (
        f" instead of {with_unit(row['random'], unit)} in random order{p_value}"
        if row["random_orders"]
        else ""
    )
    what = (
        "What a method removes first is removed better than at random in "
        f"{of_all(len(better), len(table), 'case')}"
        if tested
        else "What a method removes first was not tested against random orders"
    )
    claim = (
        f"{what}: without {row['amount']} of the {row['method']}, "
        f"{measured(tables, row['metric'])} is "
        f"{with_unit(row['value'], unit)}{random}."
    )
    return Finding(
        claim, row["value"], None, row["random"] if row["random_orders"] else None,
        judged(len(better), tested), "orders", keys_of(row, "method", "amount"), "orders",
        measure="order against random orders", unit=unit, column="value",
        decided_by="random orders (random_orders=5)",
    )  # fmt: skip


def _training(tables: Tables) -> Finding:
    table = tables["training"]
    significant = table[table["p"] < SIGNIFICANT]
    better = significant[significant["better"].astype(bool)]
    row = rows_of((better if len(better) else table).sort_values("p", ascending=False))[-1]
    value: Unit = "%" if row["metric"] == "accuracy" else ""
    unit: Unit = "points" if row["metric"] == "accuracy" else ""
    claim = (
        f"Of {len(table)} comparisons of methods that train, {len(better)} "
        f"{verb_of(len(better), 'is', 'are')} significantly better and "
        f"{len(significant) - len(better)} worse. The surest: with {row['amount']}, "
        f"{row['method']}, {measured(tables, row['metric'])} is "
        f"{with_unit(row['value'], value)} instead of {with_unit(row['other'], value)} with "
        f"{row['against']} (difference 95 % {span(row['lower'], row['upper'], unit)}; "
        f"{p_text(row['p'])})."
    )
    return Finding(
        claim, row["difference"], (row["lower"], row["upper"]), 0.0, judged(len(better)),
        "training", keys_of(row, "method", "amount"), "training", measure="methods that train",
        unit=unit, column="difference", decided_by=MORE,
    )  # fmt: skip


def _layer(tables: Tables) -> Finding:
    table = tables["layers"]
    is_loss = table["metric"].iloc[0] == "loss"
    row = rows_of(table.sort_values("change"))[-1 if is_loss else 0]
    unit: Unit = "points" if table["metric"].iloc[0] == "accuracy" else ""
    worse = row["change"] > 0 if is_loss else row["change"] < 0
    return Finding(
        capital(
            f"of single layers in 4 bits, layer {row['layer']} suffers most: "
            f"{measured(tables, row['metric'])} changes by {with_unit(row['change'], unit)} (95 % "
            f"{span(row['lower'], row['upper'], unit)}; {p_text(row['p'])})."
        ),
        row["change"], (row["lower"], row["upper"]), 0.0,
        judged(worse and row["p"] < SIGNIFICANT), "layers", keys_of(row, "stack", "layer"),
        "layers", measure="layer that suffers most", unit=unit, column="change", decided_by=MORE,
    )  # fmt: skip
