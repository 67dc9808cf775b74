"""The findings of `steering` and `erasure`. Costs: milliseconds."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from workbench.core.findings import (
    Finding,
    Row,
    Tables,
    decimal,
    judged,
    keys_of,
    listing,
    of_all,
    p_text,
    percent,
    plural,
    rows_of,
    signed,
)
from workbench.core.head_names import at_state, state_name
from workbench.experiment.measured import on_measured

EXCHANGES = 6  # of words to test on; with fewer, an interval says little
DOCUMENTS = 6
RESTORED = 0.5  # of what was lost
SMALL = 0.05  # nats
MORE = "more pairs with more distinct words"
MORE_WORDS = "more words"


def steering(tables: Tables) -> Iterator[Finding]:
    """How many pairs of words are steered, where most, and what that breaks."""
    table = tables["directions"]
    best = [_best(rows_of(own)) for _, own in table.groupby("words", sort=False)]
    moved = [row for row in best if row["significant"]]
    enough = max(row["exchanges"] for row in best) >= EXCHANGES
    names = f": {listing([row['words'] for row in moved], 4)}" if moved else ""
    yield Finding(
        "The difference of two sets of texts moves "
        f"{of_all(len(moved), len(best), 'pair of words', 'pairs of words')} beyond random "
        f"directions of the same length in some layer{on_measured(tables)}{names}.",
        len(moved),
        None,
        0,
        judged(moved, enough),
        "directions",
        figure="layers",
        measure="pairs of words that the difference of their texts moves",
        decided_by=MORE,
        n=plural(len(best), "pair of words", "pairs of words"),
    )
    row = _best(best)
    share = f", {percent(row['share'])} of the distance of the sets" if row["share"] > 0 else ""
    if pd.isna(row["share"]):  # too small a distance
        share = ", but the model hardly tells the two sets apart"
    where = f"{row['words']} most in {at_state(row['layer'])}"
    moves = "moves" if row["significant"] else "is not shown to move any words; it moves"
    yield _of_excess(
        row,
        f"The difference {moves} {where}{':' if row['significant'] else ','} by "
        f"{signed(_nats(row['excess']))} nats beyond random directions "
        f"({_certainty(row)}){share}.",
        row["exchanges"] >= EXCHANGES,
        table="directions",
        keys=keys_of(row, "words", "stack", "layer"),
        figure="layers",
        measure="largest effect of a difference, beyond random directions",
        decided_by=MORE,
        n=plural(row["n"], "text"),
    )
    more = row["divergence"] > row["random_divergence"]
    yield Finding(
        f"There it changes predictions of unrelated texts by {_nats(row['divergence'])} nats "
        f"of divergence, {'more' if more else 'not more'} than random directions "
        f"({_nats(row['random_divergence'])} nats).",
        row["divergence"],
        None,
        None,
        "supported",
        "directions",
        keys_of(row, "words", "stack", "layer"),
        measure="divergence of unrelated predictions where the effect is largest",
        unit="nats",
        column="divergence",
    )


def _best(rows: Sequence[Row]) -> Row:
    """The row with the largest effect beyond random ones, a significant one first."""
    return max(rows, key=lambda each: (bool(each["significant"]), float(each["excess"])))


def _nats(value: float) -> str:
    """A number with two decimals, or three digits if two decimals would leave one or none."""
    return decimal(value) if 0 < abs(value) < SMALL else decimal(value, 2)


def _certainty(row: Row) -> str:
    """The interval of an effect beyond random ones, and its p-value."""
    low, high = (_nats(row[name]) for name in ("lower", "upper"))
    return f"95 % {low} to {high}; {p_text(row['p'])}"


def _of_excess(row: Row, claim: str, enough: bool, **facts: Any) -> Finding:
    """A finding of an effect beyond random ones, with its interval."""
    interval, verdict = (row["lower"], row["upper"]), judged(row["significant"], enough)
    return Finding(
        claim, row["excess"], interval, 0.0, verdict, unit="nats", column="excess", **facts
    )


def erasure(tables: Tables) -> Iterator[Finding]:
    """In how many layers the label is used, where most, and whether it is all that is lost.

    Where it costs most is said of the layers in which the label restores what is lost, if there are
    any: elsewhere, more than the label was erased.
    """
    rows = rows_of(tables["layers"])
    used = [row for row in rows if row["significant"]]
    restored = [row for row in used if _restored(row) >= RESTORED]
    enough = rows[0]["documents"] >= DOCUMENTS
    where = f": {listing([state_name(row['layer']) for row in used], 4)}"
    yield Finding(
        "Erasing the labels of predicted words costs more than erasing random subspaces of the "
        f"same size in {of_all(len(used), len(rows), 'layer')}{on_measured(tables)}"
        f"{where if 0 < len(used) < len(rows) else ''}.",
        len(used),
        None,
        0,
        judged(used, enough),
        "layers",
        figure="costs",
        measure="layers whose label is used",
        decided_by=MORE_WORDS,
        n=plural(rows[0]["n"], "word"),
    )
    row = _best(restored or used or rows)
    costs = f"costs most in {at_state(row['layer'])}: {_nats(row['excess'])} nats"
    if restored:
        claim = f"Of the layers in which the label alone restores what is lost, erasing it {costs}"
    elif used:
        claim = f"Erasing the labels {costs}"
    else:
        claim = f"No cost is shown to be that of the labels; erasing them {costs}"
    yield _of_excess(
        row,
        f"{claim} of log-probability beyond random subspaces ({_certainty(row)}).",
        enough,
        table="layers",
        keys=keys_of(row, "stack", "layer"),
        figure="costs",
        measure="largest cost of erasing the label, beyond random subspaces",
        decided_by=MORE_WORDS,
        n=plural(row["n"], "word"),
    )
    if used:
        back = _restored(row)
        how = "all" if back >= 1 else percent(back) if back > 0 else "nothing"
        yield Finding(
            f"There the mean of what was removed from words of the same label restores {how} of "
            f"what was lost{'' if back >= RESTORED else ', not most of it'}.",
            row["injected"],
            None,
            row["effect"],
            judged(back >= RESTORED, enough),
            "layers",
            keys_of(row, "stack", "layer"),
            "costs",
            measure="log-probability lost with the label injected again",
            unit="nats",
            column="injected",
            decided_by=MORE_WORDS,
            n=plural(row["n"], "word"),
        )
    yield Finding(
        f"In {at_state(row['layer'])} a linear probe finds {percent(row['probe'])} of labels "
        f"before, and {percent(row['probe_erased'])} after the erasure (always the label most "
        f"frequent among the words it was fitted on: {percent(row['majority'])}).",
        row["probe_erased"],
        None,
        None,
        "supported",
        "layers",
        keys_of(row, "stack", "layer"),
        "probe",
        measure="accuracy of a probe after the erasure",
        unit="%",
        column="probe_erased",
    )


def _restored(row: Row) -> float:
    """The share of what was lost that the label restores; 0 if nothing was lost."""
    return float(1 - row["injected"] / row["effect"]) if row["effect"] > 0 else 0.0
