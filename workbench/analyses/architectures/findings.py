"""Findings of this folder's experiments: what papers claim, and whether it holds here.

Pure functions of the tables. Costs: milliseconds.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from workbench.core.findings import (
    Finding,
    Tables,
    Verdict,
    decimal,
    judged,
    percent,
    plural,
    rows_of,
    signed,
    whole,
)

# By the pair of architectures: what the difference is called, and the sign that the paper found.
CLAIMS: Mapping[tuple[str, str], tuple[str, int]] = {
    ("encoder-decoder", "prefix language model"): (
        "which costs as much",
        -1,
    ),
    ("prefix language model", "language model"): ("which reads the input from the left alone", -1),
    ("shared encoder-decoder", "encoder-decoder"): ("whose stacks share no layers", 1),
}


def architectures(tables: Tables) -> Iterator[Finding]:
    """Whether all learned, then the paper's comparisons by objective."""
    table, seeds = tables["table"], tables["cells"]["seed"].nunique()
    yield _learned(table, seeds)
    for row in rows_of(tables.get("pairs", pd.DataFrame())):
        if (claim := CLAIMS.get((row["arm"], row["against"]))) is not None:
            yield _compared(row, *claim, seeds)


def _learned(table: pd.DataFrame, seeds: int) -> Finding:
    """The architecture that is nearest to the unigram model."""
    gains = 1 - table["bits_per_character"] / table["unigram"]
    worst = rows_of(table)[int(gains.to_numpy().argmin())]
    best = " and the ".join(
        f"{arm} with {goal}"
        for goal, part in table.groupby("objective", sort=False)
        for arm in part.loc[[part["bits_per_character"].idxmin()], "arm"]
    )
    ends = _ends(worst)
    below = ends is not None and ends[1] < worst["unigram"]
    return Finding(
        f"Best are the {best}. The nearest to a model of frequencies alone "
        f"({decimal(worst['unigram'])} bits per character) is the {worst['arm']} with "
        f"{worst['objective']}: {decimal(worst['bits_per_character'])}.",
        worst["bits_per_character"],
        ends,
        worst["unigram"],
        judged(below, ends),
        "table",
        {"objective": worst["objective"], "arm": worst["arm"]},
        "losses",
        measure="bits per character of the architecture nearest to frequencies",
        unit="bits",
        column="bits_per_character",
        decided_by="more seeds",
        n=plural(seeds, "seed"),
    )


def _compared(row: Mapping[str, Any], how: str, sign: int, seeds: int) -> Finding:
    ends = _ends(row)
    more = row["delta"] > 0
    agrees = "as in the paper" if (sign > 0) == more else "the opposite of the paper"
    says = agrees if row["sure"] else "not beyond the variation between seeds"
    return Finding(
        f"With {row['objective']}, the {row['arm']} predicts {'worse' if more else 'better'} than "
        f"the {row['against']}, {how}: {signed(decimal(row['delta'], 3))} bits per "
        f"character{_interval(ends)}, {says}.",
        row["delta"],
        ends,
        0.0,
        judged(row["sure"], ends),
        "pairs",
        {name: row[name] for name in ("objective", "arm", "against")},
        "losses",
        measure=f"difference of {row['arm']} and {row['against']} with {row['objective']}",
        unit="bits",
        column="delta",
        decided_by="more seeds",
        n=plural(seeds, "seed"),
    )


def _ends(row: Mapping[str, Any], prefix: str = "") -> tuple[float, float] | None:
    lower, upper = row[f"{prefix}lower"], row[f"{prefix}upper"]
    return (lower, upper) if lower == lower else None


def _interval(ends: tuple[float, float] | None) -> str:
    if ends is None:
        return ""
    return f" (95 % interval {signed(decimal(ends[0], 3))} to {signed(decimal(ends[1], 3))})"


# --- recurrence -----------------------------------------------------------------------------------


def recurrence(tables: Tables) -> Iterator[Finding]:
    """What a memory gives, whether its text matters, where in a segment, and what it costs."""
    table, seeds = tables["table"], tables["cells"]["seed"].nunique()
    rows = [row for row in rows_of(table) if row["memory"]]
    yield _above_frequencies(table, seeds)
    for row in rows[:2]:
        if row["delta"] == row["delta"]:
            yield _of_memory(row, seeds)
        yield _of_own_text(row, seeds)
    if rows:
        yield _where(tables["positions"], rows[0], seeds)
    yield _cost(tables["costs"])


def _above_frequencies(table: pd.DataFrame, seeds: int) -> Finding:
    best = rows_of(table)[int(table["bits_per_character"].to_numpy().argmin())]
    ends = _ends(best)
    return Finding(
        f"The lowest loss has a segment of {whole(best['segment'])} with a memory of "
        f"{whole(best['memory'])}: {decimal(best['bits_per_character'], 3)} bits per character "
        f"(frequencies of pieces: {decimal(best['unigram'], 3)}).",
        best["bits_per_character"], ends, best["unigram"],
        judged(ends is not None and ends[1] < best["unigram"], ends), "table",
        {"segment": best["segment"], "memory": best["memory"]}, "losses",
        measure="lowest bits per character", unit="bits", column="bits_per_character",
        decided_by="more seeds", n=plural(seeds, "seed"),
    )  # fmt: skip


def _of_memory(row: Mapping[str, Any], seeds: int) -> Finding:
    ends = _ends(row, "delta_")
    sure = ends is not None and (ends[0] > 0 or ends[1] < 0)
    return Finding(
        f"A memory of {whole(row['memory'])} pieces changes the loss of segments of "
        f"{whole(row['segment'])} by {signed(decimal(row['delta'], 3))} bits per "
        f"character{_interval(ends)}.",
        row["delta"], ends, 0.0, judged(sure and row["delta"] < 0, ends), "table",
        {"segment": row["segment"], "memory": row["memory"]}, "losses",
        measure=f"change by a memory of {row['memory']} at segments of {row['segment']}",
        unit="bits", column="delta", decided_by="more seeds", n=plural(seeds, "seed"),
    )  # fmt: skip


def _of_own_text(row: Mapping[str, Any], seeds: int) -> Finding:
    ends = _ends(row, "own_gain_")
    return Finding(
        f"With segments of {whole(row['segment'])}, the memory of another text "
        f"changes the loss by {signed(decimal(row['own_gain'], 3))} bits per character against the "
        f"text's own{_interval(ends)}.",
        row["own_gain"], ends, 0.0, judged(ends is not None and ends[0] > 0, ends), "table",
        {"segment": row["segment"], "memory": row["memory"]}, "losses",
        measure=f"change by another text's memory at segments of {row['segment']}",
        unit="bits", column="own_gain", decided_by="more seeds", n=plural(seeds, "seed"),
    )  # fmt: skip


def _where(positions: pd.DataFrame, row: Mapping[str, Any], seeds: int) -> Finding:
    """The fall of the loss from the first to the last quarter, with a memory."""
    here = positions[
        (positions["segment"] == row["segment"]) & (positions["memory"] == row["memory"])
    ].set_index("quarter")["loss"]
    bare = positions[(positions["segment"] == row["segment"]) & (positions["memory"] == 0)]
    fall = float(here[1] - here[4])
    without = ""
    if len(bare):
        of = bare.set_index("quarter")["loss"]
        without = f" (without: {decimal(float(of[1] - of[4]), 3)})"
    return Finding(
        f"With a memory of {whole(row['memory'])}, the loss falls by {decimal(fall, 3)} nats from "
        f"the first to the last quarter of a segment of {whole(row['segment'])}{without}.",
        fall, None, None, "supported", "positions",
        {"segment": row["segment"], "memory": row["memory"], "quarter": 4}, "positions",
        measure="fall of the loss within a segment", unit="nats", n=plural(seeds, "seed"),
    )  # fmt: skip


def _cost(costs: pd.DataFrame) -> Finding:
    longest = costs[costs["length"] == costs["length"].max()]
    full = float(longest[longest["segment"] == 0]["operations"].iloc[0])
    parts = longest[longest["segment"] > 0]
    row = rows_of(parts)[int(parts["operations"].to_numpy().argmax())]
    return Finding(
        f"A piece of a text of {whole(row['length'])} costs {decimal(full, 0)} thousand operations "
        f"at once, and {decimal(row['operations'], 0)} thousand in segments of "
        f"{whole(row['segment'])} with a memory of {whole(row['memory'])}, at any length.",
        row["operations"], None, full, "supported", "costs",
        {name: row[name] for name in ("segment", "memory", "length")}, "costs",
        measure="thousand operations per piece in segments", column="operations",
    )  # fmt: skip


# --- length of texts ------------------------------------------------------------------------------


def text_length(tables: Tables) -> Iterator[Finding]:
    """How memory and time grow, then what windows lose."""
    growth, costs = tables["growth"], tables["costs"]
    for measure, unit in (("memory", "the memory"), ("seconds", "the time")):
        yield _growth(growth, costs, measure, unit)
    table, seeds = tables["table"], tables["cells"]["seed"].nunique()
    for row in rows_of(table):
        if row["attention"] == "windows":
            yield _of_windows(row, seeds)


def _growth(growth: pd.DataFrame, costs: pd.DataFrame, measure: str, what: str) -> Finding:
    """Between the two longest texts, where constant parts weigh least."""
    longest = int(growth["length"].max())
    of = growth[growth["length"] == longest].set_index("attention")[measure]
    at = costs[costs["length"] == longest].set_index("attention")[measure]
    holds = of["windows"] < 1.2
    linear = "in proportion to its length" if holds else "faster than its length"
    return Finding(
        f"With windows, {what} of a pass over a text of {whole(longest)} pieces grows {linear}: "
        f"by its power {decimal(of['windows'], 2)}, with full attention {decimal(of['full'], 2)}, "
        f"in a fused kernel {decimal(of['fused'], 2)}. Full attention takes "
        f"{decimal(at['full'] / at['windows'], 1)} times as much, the fused kernel "
        f"{decimal(at['fused'] / at['windows'], 1)} times.",
        of["windows"], None, of["full"], judged(holds and of["windows"] < of["full"]), "growth",
        {"attention": "windows", "length": longest}, measure,
        measure=f"power by which {what} grows with windows", column=measure,
    )  # fmt: skip


def _of_windows(row: Mapping[str, Any], seeds: int) -> Finding:
    ends = _ends(row, "delta_")
    sure = ends is not None and (ends[0] > 0 or ends[1] < 0)
    learnt = row["upper"] < row["unigram"] if ends else row["loss"] < row["unigram"]
    more = "loses" if row["delta"] > 0 else "gains"
    says = (
        f"a window {more} {decimal(abs(row['delta']), 3)} nats per masked piece"
        f" against full attention{_interval(ends)}"
    )
    known = "" if learnt else ", and neither is known to be better than frequencies"
    return Finding(
        f"On texts of {whole(row['length'])} pieces, {says}; the loss is "
        f"{decimal(row['loss'], 3)} (frequencies of pieces: {decimal(row['unigram'], 3)}){known}.",
        row["delta"], ends, 0.0, judged(sure and learnt, ends), "table",
        {"length": row["length"], "attention": "windows"}, "losses",
        measure=f"change of the loss by windows on texts of {row['length']}", unit="nats",
        column="delta", decided_by="more seeds", n=plural(seeds, "seed"),
    )  # fmt: skip


# --- scaling --------------------------------------------------------------------------------------

KAPLAN = {"size": 0.076, "data": 0.095}  # exponents of Kaplan et al. (2020), of losses in nats


def scaling(tables: Tables) -> Iterator[Finding]:
    """The exponents, the best size at equal operations, and whether anything was learnt."""
    seeds = tables["cells"]["seed"].nunique()
    for row in rows_of(tables.get("exponents", pd.DataFrame())):
        yield _exponent(row, seeds)
    if "budgets" in tables:
        yield _best_size(tables["budgets"])
    yield _above_frequencies_of_pieces(tables["table"], seeds)


def _exponent(row: Mapping[str, Any], seeds: int) -> Finding:
    ends = _ends(row)
    falls = ends is not None and ends[0] > 0
    what = "ten times the weights" if row["of"] == "size" else "ten times the text"
    change = 1 - 10 ** -row["exponent"]
    takes = f"take {percent(change)} off" if change > 0 else f"add {percent(-change)} to"
    by = "" if ends is None else f" (95 % interval {decimal(ends[0], 3)} to {decimal(ends[1], 3)})"
    return Finding(
        f"The exponent of {row['of']} is {decimal(row['exponent'], 3)}{by}: {what} {takes} the "
        f"loss, with means at most {percent(row['largest_miss'])} off a power law. Kaplan et al. "
        f"found {KAPLAN[row['of']]} for models a thousand times larger and more.",
        row["exponent"], ends, 0.0, judged(falls, ends), "exponents", {"of": row["of"]},
        row["of"], measure=f"exponent of {row['of']}", column="exponent",
        decided_by="more seeds", n=plural(seeds, "seed"),
    )  # fmt: skip


def _best_size(budgets: pd.DataFrame) -> Finding:
    """A best size counts between two worse ones: at an end the best may lie beyond."""
    best = rows_of(budgets[budgets["best"]])
    ends = budgets.groupby("operations")["parameters"].agg(["min", "max"])
    inside = [
        row for row in best if row["parameters"] not in set(ends.loc[row["operations"]].to_numpy())
    ]
    if len(inside) < 2:
        last = best[-1]
        is_least = last["parameters"] == ends.loc[last["operations"], "min"]
        end, beyond = ("smallest", "smaller") if is_least else ("largest", "larger")
        return _of_budgets(
            f"At equal operations the best size is not between the tried ones: for "
            f"{last['operations']:.2g} operations it is the {end} of them, "
            f"{whole(last['parameters'])} weights, so the best may be {beyond}.",
            last, None, "undecided", f"{beyond} sizes",
        )  # fmt: skip
    first, last = inside[0], inside[-1]
    grows = last["parameters"] > first["parameters"]
    how = "the best size grows" if grows else "the best size does not grow"
    return _of_budgets(
        f"At equal operations {how}: {whole(first['parameters'])} weights for "
        f"{first['operations']:.2g} operations, {whole(last['parameters'])} for "
        f"{last['operations']:.2g}.",
        last, first["parameters"], judged(grows), "",
    )  # fmt: skip


def _of_budgets(
    claim: str, row: Mapping[str, Any], null: float | None, verdict: Verdict, decided_by: str
) -> Finding:
    return Finding(
        claim, row["parameters"], None, null, verdict, "budgets",
        {name: row[name] for name in ("operations", "parameters")}, "budgets",
        measure="best number of weights for the largest budget", column="parameters",
        decided_by=decided_by,
    )  # fmt: skip


def _above_frequencies_of_pieces(table: pd.DataFrame, seeds: int) -> Finding:
    worst = rows_of(table)[int(table["bits_per_character"].to_numpy().argmax())]
    ends = _ends(worst)
    below = ends is not None and ends[1] < worst["unigram"]
    return Finding(
        f"The worst training ({whole(worst['parameters'])} weights, {whole(worst['pieces'])} "
        f"pieces) has {decimal(worst['bits_per_character'])} bits per character; the frequencies "
        f"of pieces alone have {decimal(worst['unigram'])}.",
        worst["bits_per_character"], ends, worst["unigram"], judged(below, ends), "table",
        {name: worst[name] for name in ("width", "steps")}, "data",
        measure="bits per character of the worst training", unit="bits",
        column="bits_per_character", decided_by="more seeds", n=plural(seeds, "seed"),
    )  # fmt: skip
