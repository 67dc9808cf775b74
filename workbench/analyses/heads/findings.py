"""The findings of `heads`: relations that heads follow, roles, positions, sinks, rare words.

A pure function from the tables of a run to `Finding`s, the most important one first. A head has a
role if `roles` says so: the tables have the tests, their corrections and their margins. Costs:
milliseconds.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from workbench.analyses.heads.roles import DIRECTIONS, Rules
from workbench.core.findings import (
    Finding,
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
    signed,
    verb_of,
    whole,
)
from workbench.core.head_names import ROLES, has_several_kinds, head_name
from workbench.experiment.definition import HEAD

ALPHA = 0.01  # the default level: tables do not tell the one of the run
MIN_WORDS = 10  # the default minimum number of words for a role


def heads(tables: Tables) -> Iterator[Finding]:
    """The roles, the best relation and how many are followed, and the best head of each kind."""
    table, unit = tables["heads"], "words" if _are_words(tables) else "pieces"
    yield _roles(table, unit)
    yield from _relations(tables)
    yield _positional(tables, unit)
    yield _sink(table)
    yield from _rare(table)
    if len(tables.get("cross", ())):
        yield _cross(tables["cross"])
    elif (table["kind"] == "causal").all():
        yield from _induction(table)
    else:
        yield from _coreference(table)
    if len(tables.get("kin", ())):
        yield _kin(tables)
    elif len(tables.get("clusters", ())):
        yield _clusters(tables["clusters"])


# --- relations ------------------------------------------------------------------------------------

RULES = {
    "baseline_accuracy": "offset {}",
    "baseline_first": "the first word",
    "baseline_longest": "the longest word",
}  # columns of the simple rules, and their names
PAIR = ("relation", "direction")


def _relations(tables: Tables) -> Iterator[Finding]:
    """The relation that a head follows furthest above the baselines, or the closest to it."""
    if "best" not in tables or "relations" not in tables or tables["relations"].empty:
        return
    best, table = tables["best"], tables["relations"]
    if best.empty:
        largest: Any = table.iloc[table["n"].argmax()]
        yield Finding(
            f"No relation has enough arcs to be tested (at most {whole(largest['n'])}, of "
            f"`{largest['relation']}`).",
            largest["n"],
            None,
            None,
            "undecided",
            "relations",
            keys_of(largest, *HEAD, *PAIR),
            measure="arcs of the most frequent relation",
            column="n",
            decided_by="more sentences, or a smaller min_count",
        )
        return
    followed = table[table["syntactic"].astype(bool)]
    n_tested = best["relation"].nunique()
    several = has_several_kinds(tables["heads"])
    if len(followed):
        found: Any = followed.iloc[followed["difference"].argmax()]
        n_followed = followed["relation"].nunique()
        claim = (
            f"{capital(head_name(found, several))} follows {_arc(found)} in "
            f"{percent(found['accuracy'])} of {whole(found['n'])} arcs ({_baseline(found)}; "
            f"{p_text(_p_value(found))}); {of_all(n_followed, n_tested, 'relation')} "
            f"{verb_of(n_followed, 'is', 'are')} followed by a head."
        )
    else:
        nearest: Any = best.iloc[best["gain"].argmax()]
        same = (table[[*HEAD, *PAIR]] == nearest[[*HEAD, *PAIR]]).all(axis=1)
        found = table[same].iloc[0]
        claim = (
            f"No head is syntactic on any of {plural(n_tested, 'relation')}; the closest, "
            f"{head_name(found, several)} on {_arc(found)}, is right for "
            f"{percent(found['accuracy'])} of {whole(found['n'])} arcs ({_baseline(found)}; "
            f"{p_text(_p_value(found))})."
        )
    is_best = (best[[*HEAD, *PAIR]] == found[[*HEAD, *PAIR]]).all(axis=1).any()
    yield Finding(
        claim,
        found["accuracy"],
        (found["lower"], found["upper"]),
        max(found[rule] for rule in RULES),
        judged(len(followed), len(followed) or _is_testable(table)),
        "best" if is_best else "relations",
        keys_of(found, *(PAIR if is_best else (*HEAD, *PAIR))),
        "relations",
        measure="accuracy of the best head on its relation",
        unit="%",
        column="accuracy",
        decided_by="more sentences: no head could be significant with so few arcs",
        n=plural(found["n"], "arc"),
    )


def _arc(row: Any) -> str:
    return f"`{row['relation']}` ({DIRECTIONS[row['direction']]})"


def _baseline(row: Any) -> str:
    """The best simple rule, and its accuracy."""
    rule = max(RULES, key=lambda rule: float(row[rule]))
    name = RULES[rule].format(signed(whole(row["baseline_offset"])))
    return f"best baseline, {name}: {percent(row[rule])}"


def _p_value(row: Any) -> float:
    """The larger p-value: against every baseline, and against shuffled trees."""
    return float(np.maximum(row["p_value_baseline"], row["p_value"]))


def _is_testable(table: pd.DataFrame) -> bool:
    """Whether a head that is always right would be significant on some relation."""
    missed = table["n"] * (1 - table[[*RULES]].max(axis=1))
    return any(_could_show(count, int((missed >= count).sum())) for count in missed.unique())


def _could_show(wins: float, tests: int) -> bool:
    """Whether a sign test with so many wins and no losses is significant among so many tests."""
    return tests * 0.5 ** math.floor(wins + 1e-9) < ALPHA


# --- roles ----------------------------------------------------------------------------------------

LONG = {"rare": "rare-word", "first": "first-position"}  # roles that are no adjective


def _roles(table: pd.DataFrame, unit: str) -> Finding:
    """How many heads have each role, what is true of most heads first."""
    counts = table["role"].replace("", "no role").value_counts()
    order = [*ROLES, "no role"]
    ordered = sorted(counts.index, key=lambda role: (-counts[role], order.index(role)))
    n_heads, n_roles = len(table), int(table["role"].astype(bool).sum())
    parts = [
        f"{counts[role]} {verb_of(counts[role], 'has', 'have')} no role"
        if role == "no role"
        else f"{counts[role]} {verb_of(counts[role], 'is', 'are')} {LONG.get(role, role)}"
        for role in ordered
    ]
    claim = f"Of {plural(n_heads, 'head')}, {listing(parts, len(order))}"
    if not n_roles:
        claim = f"{capital(of_all(0, n_heads, 'head'))} has a role"
    return Finding(
        f"{claim} (measured on {plural(table['n'].max(), unit.removesuffix('s'))}).",
        n_roles,
        None,
        0,
        judged(n_roles, n_roles or _is_enough(table)),
        "heads",
        figure="roles",
        measure="heads with a role",
        decided_by="more sentences",
        n=plural(n_heads, "head"),
    )


def _is_enough(table: pd.DataFrame) -> bool:
    return bool(table["n"].max() >= MIN_WORDS)


def _having(table: pd.DataFrame, role: str) -> pd.DataFrame:
    return table[table["roles"].map(lambda roles: role in str(roles).split(", "))]


def _best(table: pd.DataFrame, role: str, strength: pd.Series) -> Any:
    """The strongest head with this role; without one, the strongest of all."""
    rows = _having(table, role) if len(_having(table, role)) else table
    return rows.iloc[strength[rows.index].argmax()]


def _of_head(
    table: pd.DataFrame,
    row: Any,
    column: str,
    roles: tuple[str, ...],
    claim: str,
    null: float | None,
    measure: str,
    figure: str = "scores",
    enough: bool = True,
    decided_by: str = "more sentences",
    n: str = "",
) -> Finding:
    """The finding of a share of one head; supported where a head has one of the roles."""
    has_role = any(len(_having(table, role)) for role in roles)
    return Finding(
        claim,
        row[column],
        (row[f"{column}_lower"], row[f"{column}_upper"]),
        null,
        judged(has_role, has_role or enough),
        "heads",
        keys_of(row, *HEAD),
        figure,
        measure=measure,
        unit="%",
        column=column,
        decided_by=decided_by,
        n=n,
    )


def _mean(values: "pd.Series[Any]") -> float:
    """The mean; nan if a value is missing."""
    return float(values.mean(skipna=False))


def _is_measured(table: pd.DataFrame, column: str) -> bool:
    """Whether a share has cases; without any, its interval is from 0 to 1."""
    return bool((table[f"{column}_upper"] - table[f"{column}_lower"] < 1).any())


def _are_words(tables: Tables) -> bool:
    """Whether the unit of attention is a word: what is annotated is, and where nothing is, no head
    looks from beyond the last word of a sentence."""
    if len(tables.get("relations", ())) > 0 or _is_measured(tables["heads"], "rare_share"):
        return True
    looks, words = tables.get("looks"), tables.get("words")
    if looks is None or words is None or not (len(looks) and len(words)):
        return False
    last, last_read = (each.groupby("sentence")["word"].max() for each in (words, looks))
    return bool((last_read <= last).all())


def _positional(tables: Tables, unit: str) -> Finding:
    table, offsets = tables["heads"], tables.get("offsets")
    row = _best(table, "positional", table["offset_share"])
    n = row["n"]
    if offsets is not None:
        at = (offsets[[*HEAD, "offset"]] == row[[*HEAD, "offset"]]).all(axis=1)
        n = offsets.loc[at, "n"].sum()
    name, share = head_name(row, has_several_kinds(table)), percent(row["offset_share"])
    one = unit.removesuffix("s")
    where = f"the {one} itself for {share} of {unit}"
    if row["offset"] != 0:  # words without a neighbour at that offset do not count
        offset = signed(whole(row["offset"]))
        where = f"the {one} at offset {offset} for {share} of the {unit} that have one"
    n_positional = len(_having(table, "positional"))
    if n_positional:
        claim = (
            f"{capital(of_all(n_positional, len(table), 'head'))} "
            f"{verb_of(n_positional, 'is', 'are')} positional: {name} attends most to {where} "
            f"({p_text(row['offset_p_value'])} against a random "
            f"{one})."
        )
    else:
        claim = f"No head is positional: the closest, {name}, attends most to {where}."
    return _of_head(
        table,
        row,
        "offset_share",
        ("positional",),
        claim,
        None,
        "largest share of words that attend to one offset",
        "offsets",
        enough=_is_enough(table),
        n=plural(n, one),
    )


SINKS = {
    "first": ("first_mass", "first_even", "the first position"),
    "separator": ("separator_mass", "separator_even", "the separator"),
}  # role: column, column of uniform attention, name


def _sink(table: pd.DataFrame) -> Finding:
    """The head that rests most on the first position or the separator, above uniform attention."""
    rows = {}
    for role, (column, even, _) in SINKS.items():
        above = table[column] - table[even]
        row = _best(table, role, above)
        rows[role] = (len(_having(table, role)) > 0, float(above[row.name])), row
    role = max(rows, key=lambda role: rows[role][0])
    (has_role, _), row = rows[role]
    column, even, target = SINKS[role]
    name = head_name(row, has_several_kinds(table))
    share, uniform = percent(row[column]), percent(row[even])
    if has_role:
        claim = (
            f"{capital(target)} gets {percent(_mean(table[column]))} of attention on average over "
            f"{plural(len(table), 'head')}, and {share} of the attention of {name} (uniform "
            f"attention: {uniform}; {plural(row['n'], 'word')})."
        )
    else:
        targets = SINKS["first"][2]
        if table["separator_mass"].any():
            targets += " or the separator"
        claim = (
            f"No head rests on {targets}: at most {share} of attention "
            f"goes to {target} ({name}; uniform attention: {uniform})."
        )
    measure = f"largest attention to {target}"
    enough = _is_enough(table)
    n = plural(row["n"], "word")
    return _of_head(table, row, column, (role,), claim, row[even], measure, enough=enough, n=n)


def _rare(table: pd.DataFrame) -> Iterator[Finding]:
    if not _is_measured(table, "rare_share"):
        return
    null = table[["rare_null", "rare_longest"]].max(axis=1)
    row = _best(table, "rare", table["rare_share"] - null)
    name, share = head_name(row, has_several_kinds(table)), percent(row["rare_share"])
    baselines = (
        f"the longest word: {percent(row['rare_longest'])}; shuffled sentences: "
        f"{percent(row['rare_null'])}"
    )
    if len(_having(table, "rare")):
        claim = (
            f"{capital(name)} attends to the rarest word for {share} of words ({baselines}; "
            f"{p_text(row['rare_p_value'])})."
        )
    else:
        claim = (
            f"No head has the rare-word role: the closest, {name}, attends to the rarest word for "
            f"{share} of words (default threshold: {percent(Rules().rare)}; {baselines})."
        )
    yield _of_head(
        table,
        row,
        "rare_share",
        ("rare",),
        claim,
        null[row.name],
        "share of words that attend to the rarest word",
        enough=_is_enough(table),
        n=plural(row["n"], "word"),
    )


def _coreference(table: pd.DataFrame) -> Iterator[Finding]:
    if not table["coref_n"].any():
        return
    row = _best(table, "coreference", table["coref_accuracy"])
    name, share = head_name(row, has_several_kinds(table)), percent(row["coref_accuracy"])
    simple, rule = max(
        (row["coref_head_match"], "the same head word"), (row["coref_nearest"], "the nearest one")
    )
    mentions, missed = row["coref_n"], row["coref_n"] * (1 - simple)
    baseline = f"best baseline, {rule}: {percent(simple)}"
    if len(_having(table, "coreference")):
        claim = (
            f"{capital(name)} finds an earlier mention of the same chain for {share} of "
            f"{plural(mentions, 'mention')} ({baseline}; {p_text(row['coref_p_value'])})."
        )
    else:
        claim = (
            f"No head has the coreference role: the best, {name}, finds an earlier mention of the "
            f"same chain for {share} of {plural(mentions, 'mention')} ({baseline})."
        )
    yield _of_head(
        table,
        row,
        "coref_accuracy",
        ("coreference",),
        claim,
        simple,
        "accuracy of the best head on coreference",
        enough=mentions >= MIN_WORDS and _could_show(missed, len(table)),
        decided_by=f"more mentions: the best baseline misses only {whole(missed)} of them",
        n=plural(mentions, "mention"),
    )


def _induction(table: pd.DataFrame) -> Iterator[Finding]:
    if not _is_measured(table, "induction"):
        return
    row = _best(table, "induction", table["induction"])
    name, share = head_name(row, has_several_kinds(table)), percent(row["induction"])
    minimum = percent(Rules.repeats)
    if n_heads := len(_having(table, "induction")):
        claim = (
            f"{capital(name)} is an induction head: {share} of its attention goes to the piece "
            f"after the earlier copy; {of_all(n_heads, len(table), 'head')} "
            f"{verb_of(n_heads, 'reaches', 'reach')} {minimum}."
        )
    else:
        claim = (
            f"No head is an induction head: at most {share} of attention goes to the piece after "
            f"the earlier copy ({name}; the role begins at {minimum})."
        )
    yield _of_head(
        table,
        row,
        "induction",
        ("induction",),
        claim,
        None,
        "largest attention to the piece after the earlier copy",
        n=plural(row["induction_n"], "text"),
    )


# --- cross-attention, and heads compared ----------------------------------------------------------


def _cross(table: pd.DataFrame) -> Finding:
    row: Any = table.iloc[table["order"].argmax()]
    n_special = int((table["special"] > 0.5).sum())
    give = f"{n_special or 'none'} {'gives' if n_special == 1 else 'give'}"
    return Finding(
        f"Of {plural(len(table), 'cross-attention head')}, "
        f"{head_name({**row, 'kind': 'cross'}, False)} follows the order of the input most closely "
        f"(correlation {decimal(row['order'], 2)}); {give} special tokens more attention "
        "than words for most words.",
        row["order"],
        None,
        None,
        "supported",
        "cross",
        keys_of(row, "stack", "layer", "head"),
        "cross",
        measure="correlation of the cross-attention head that follows the order best",
        column="order",
    )


def _clusters(table: pd.DataFrame) -> Finding:
    pair: Any = table.iloc[table["distance"].argmin()]
    several = has_several_kinds(table)
    one, other = head_name(pair, several), head_name(pair, several, "nearest_")
    both = f"{one} and {other}" if several else f"heads {one[5:]} and {other[5:]}"
    mean = _mean(table["distance"])
    return Finding(
        f"A head and its most similar head are {decimal(mean, 2)} apart on average (0: equal, 1: "
        f"disjoint); the closest are {both} ({decimal(pair['distance'], 2)}), and "
        f"{plural(len(table), 'head')} form {plural(table['cluster'].nunique(), 'cluster')}.",
        mean,
        None,
        None,
        "supported",
        "clusters",
        figure="map",
        measure="mean distance of a head to the most similar head",
    )


def _kin(tables: Tables) -> Finding:
    table = tables["kin"]
    pair: Any = table.iloc[table["distance"].argmin()]
    mean = _mean(table["distance"])
    kinds = [table[[f"{end}stack", f"{end}kind"]].drop_duplicates() for end in ("", "kin_")]
    one, other = (
        head_name(pair, len(kind) > 1, end) for kind, end in zip(kinds, ("", "kin_"), strict=True)
    )
    own = ""
    if len(tables.get("clusters", ())):
        own = f" (in the same model: {decimal(_mean(tables['clusters']['distance']), 2)})"
    return Finding(
        f"A head and its most similar head in {pair['model']} are {decimal(mean, 2)} apart on "
        f"average{own}; the closest are {one} and its {other} ({decimal(pair['distance'], 2)}; 0: "
        "equal, 1: disjoint).",
        mean,
        None,
        None,
        "supported",
        "kin",
        figure="map",
        measure="mean distance of a head to the most similar head of the other model",
    )
