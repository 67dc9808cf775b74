"""The findings of `patching`. Costs: milliseconds."""

import math
from collections.abc import Iterator, Sequence

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
    percent_span,
    plural,
    rows_of,
    signed,
    verb_of,
)
from workbench.core.head_names import at_state, block_name, has_several_kinds, head_name
from workbench.core.stats import SIGNIFICANT
from workbench.experiment.definition import HEAD
from workbench.experiment.measured import on_measured

EXCHANGES = 6  # of words; with fewer, sign flips cannot be significant
DISTINGUISHED = 10  # pairs; with fewer, shares of their differences say little
HALF = 0.5  # of the difference: a place carries what decides if it restores as much
MORE_PAIRS = "more pairs with more distinct words"
MOVED = {"heads": "head", "mlps": "MLP"}


def patching(tables: Tables) -> Iterator[Finding]:
    """Whether the model distinguishes pairs, where that is, and which heads and MLPs carry it."""
    pairs = rows_of(tables["pairs"])
    whole = pairs[-1]
    yield _prefers(whole, pairs, on_measured(tables))
    enough = whole["exchanges"] >= EXCHANGES and whole["distinguished"] >= DISTINGUISHED
    if "states" in tables:
        table = tables["states"]
        stacks = list(dict.fromkeys(table["stack"]))
        yield _carried(table, "changed", stacks[0], len(stacks) > 1, enough)
        yield _carried(table, "predicted", stacks[-1], len(stacks) > 1, enough)
        others = table[~table["place"].isin(["changed", "predicted"]) & (table["n"] > 0)]
        if len(others):
            yield _elsewhere(rows_of(others), len(stacks) > 1, enough)
    for what, noun in MOVED.items():
        if what in tables:
            table = tables[what]
            several = what == "heads" and has_several_kinds(table)
            yield from _restoring(rows_of(table), what, noun, several, enough)


def _prefers(row: Row, pairs: Sequence[Row], on: str) -> Finding:
    single = [each for each in pairs if each["phenomenon"] != "all"]
    others = [each for each in single if not each["significant"]]
    known = [each["phenomenon"] for each in single if each["significant"]]
    unknown = [each["phenomenon"] for each in others if _can_be_significant(each, len(others))]
    few = [each["phenomenon"] for each in others if each["phenomenon"] not in unknown]
    by_name = (
        f" By phenomenon: {listing(known, 4) if known else 'none'}"
        f"{f'; not {listing(unknown, 4)}' if unknown else ''}"
        f"{f'; too few exchanges to tell: {listing(few, 4)}' if few else ''}."
        if len(single) > 1
        else ""
    )
    does = "prefers" if row["significant"] else "is not shown to prefer"
    return Finding(
        f"The model {does} the word that is right after each context{on}: between the two texts of "
        f"a pair the difference of logits is {signed(decimal(row['difference'], 2))} nats (95 % "
        f"{decimal(row['lower'], 2)} to {decimal(row['upper'], 2)}; {p_text(row['p'])}; "
        f"{plural(row['n'], 'pair')}).{by_name}",
        row["difference"],
        (row["lower"], row["upper"]),
        0.0,
        judged(row["significant"], row["exchanges"] >= EXCHANGES),
        "pairs",
        {"phenomenon": row["phenomenon"]},
        "pairs",
        measure="difference of logits between clean and corrupt texts",
        unit="nats",
        column="difference",
        decided_by=MORE_PAIRS,
        n=plural(row["n"], "pair"),
    )


def _can_be_significant(row: Row, n_tests: int) -> bool:
    """Whether the smallest p-value of sign flips is below 0.05 after Holm's correction."""
    smallest = 2.0 ** (1 - row["exchanges"])
    return bool(n_tests * smallest < SIGNIFICANT)


_PLACE_NAMES = {
    "changed": "the exchanged words",
    "between": "the words between",
    "previous": "the word before the predicted one",
    "predicted": "the place that predicts",
    "other": "other words",
    "special": "special pieces",
}


def _carried(table: pd.DataFrame, place: str, stack: str, several: bool, enough: bool) -> Finding:
    """Up to which layer the exchanged words, or from which the predicting place, restores half."""
    rows = rows_of(table[(table["stack"] == stack) & (table["place"] == place)])
    begins = place == "changed"  # at the first layer, else at the last
    ordered = rows if begins else rows[::-1]
    carrying = 0
    for row in ordered:
        if not (row["restores"] and row["effect"] >= HALF):
            break
        carrying += 1
    row = ordered[max(carrying, 1) - 1]
    top = rows[-1]["layer"]
    of_stack = f" of the {stack}" if several else ""
    measure = f"effect of {_PLACE_NAMES[place]}{of_stack}, in the last layer that carries it"
    if not begins:
        measure = f"effect of {_PLACE_NAMES[place]}{of_stack}, in the first layer that carries it"
    if math.isnan(row["effect"]) or math.isnan(row["random"]):
        verb = "decide" if begins else "decides"
        question = f"In which layers {_PLACE_NAMES[place]}{of_stack} {verb}"
        return _unknown(question, measure, rows)
    verb = "carry" if begins else "carries"
    layer = f"layer {row['layer']} of {top}" if row["layer"] else at_state(0)
    where = f"up to {layer}" if begins else f"from {layer} on"
    if begins and not row["layer"]:
        where = f"in {layer}, and no further"
    if carrying == len(rows):
        where = f"in the embeddings and all {plural(top, 'layer')}" if top else f"in {layer}"
    is_given = carrying == 1  # the first of the layers in question gives all, by construction
    given = ", as in every model that distinguishes the pairs" if is_given else ""
    if not carrying:
        verb = f"{'are' if begins else 'is'} not shown to carry"
        where = f"in {layer}"
    return Finding(
        f"{capital(_PLACE_NAMES[place])}{of_stack} {verb} what decides {where}: restored "
        f"there, {'their' if begins else 'its'} state gives {percent(row['effect'])} of the "
        f"difference (95 % {percent_span(row['lower'], row['upper'])}; unrelated texts: "
        f"{percent(row['random'])}; {p_text(row['p'])}){given}.",
        row["effect"],
        (row["lower"], row["upper"]),
        row["random"],
        judged(carrying > 0, enough),
        "states",
        {"stack": stack, "layer": row["layer"], "place": place},
        "states",
        measure=measure,
        unit="%",
        column="effect",
        decided_by=MORE_PAIRS,
        n=plural(row["n"], "pair"),
    )


def _elsewhere(rows: list[Row], several: bool, enough: bool) -> Finding:
    """The largest effect of a place that is neither exchanged nor predicts."""
    measure = "largest effect of a place between or besides the two"
    known = [row for row in rows if not math.isnan(row["random"])]
    if not known:
        return _unknown("Whether other places carry what decides", measure, rows)
    row = max(known, key=lambda each: (bool(each["restores"]), float(each["effect"])))
    of_stack = f" of the {row['stack']}" if several else ""
    does = "carry" if row["restores"] else "are not shown to carry"
    place = _PLACE_NAMES[row["place"]]
    if row["place"] == "previous":
        does = "carries" if row["restores"] else "is not shown to carry"
    return Finding(
        f"On the way, {place}{of_stack} {does} part of what decides: "
        f"{percent(row['effect'])} of the difference in {at_state(row['layer'])} (95 % "
        f"{percent_span(row['lower'], row['upper'])}; unrelated texts: "
        f"{percent(row['random'])}; {p_text(row['p'])}), the most of all other places.",
        row["effect"],
        (row["lower"], row["upper"]),
        row["random"],
        judged(row["restores"], enough),
        "states",
        keys_of(row, "stack", "layer", "place"),
        "states",
        measure=measure,
        unit="%",
        column="effect",
        decided_by=MORE_PAIRS,
        n=plural(row["n"], "pair"),
    )


def _restoring(
    rows: list[Row], what: str, noun: str, several: bool, enough: bool
) -> Iterator[Finding]:
    """How many heads, or MLPs, restore part of the difference, and the one that restores most."""
    found = [row for row in rows if row["restores"]]
    claim = (
        f"{capital(of_all(len(found), len(rows), noun))} "
        f"{verb_of(len(found), 'restores', 'restore')} part of the difference, beyond "
        "unrelated texts"
    )
    known = [row for row in rows if not (math.isnan(row["effect"]) or math.isnan(row["random"]))]
    count = Finding(
        f"{claim}.",
        len(found),
        None,
        0,
        judged(found, enough),
        what,
        figure=what,
        measure=f"{noun}s that restore part of the difference",
        decided_by=MORE_PAIRS,
    )
    if what == "heads" or not known:
        yield count
    if not known:
        return
    row = max(known, key=lambda each: (bool(each["restores"]), float(each["effect"])))
    if what == "heads":
        name, keys = head_name(row, several), keys_of(row, *HEAD)
    else:
        of_stack = f"{row['stack']} " if len({each["stack"] for each in rows}) > 1 else ""
        name = f"{claim}; the MLP of {of_stack}{block_name(row['layer'])}"
        keys = keys_of(row, "stack", "layer")
    yield Finding(
        f"{capital(name)} restores most: {percent(row['effect'])} of the difference (95 % "
        f"{percent_span(row['lower'], row['upper'])}; unrelated texts: "
        f"{percent(row['random'])}; {p_text(row['p'])}).",
        row["effect"],
        (row["lower"], row["upper"]),
        row["random"],
        judged(row["restores"], enough),
        what,
        keys,
        what,
        measure=f"largest effect of {noun}s",
        unit="%",
        column="effect",
        decided_by=MORE_PAIRS,
        n=plural(row["n"], "pair"),
    )


def _unknown(question: str, measure: str, rows: list[Row]) -> Finding:
    """A claim about shares of a difference that there is in no pair, or that have no null."""
    if all(math.isnan(row["effect"]) for row in rows):
        reason, decided_by = "the model distinguishes no pair", "a model that distinguishes pairs"
    else:
        reason, decided_by = "no two pairs are aligned", "pairs of one alignment"
    return Finding(
        f"{question} is not known: {reason}.",
        None,
        None,
        None,
        "undecided",
        "states",
        measure=measure,
        decided_by=decided_by,
    )
