"""Which of two models is better on the same texts, and on which groups of them?

From the tables of two runs of `errors`: each text is scored by both models, so differences are
paired. Losses per piece are compared where both models predict the same pieces; of models that
predict a text from left to right also without that, as nats per word. Costs: some thousand sign
flips of the texts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from workbench.core.findings import (
    Finding,
    Tables,
    Unit,
    judged,
    listing,
    p_text,
    percent,
    plural,
    rows_of,
    signed,
    span,
    with_unit,
)
from workbench.core.objectives import PREDICTED
from workbench.core.stats import SIGNIFICANT, ratio_intervals, sign_flip_p_values, thirds

ALL = "all texts"
ENDS = "", " of second"  # of the columns of the first and of the second model
FEWEST = 8  # texts of a group
THIRDS = {
    "words": ("short", "medium-length", "long"),
    "depth": ("flat", "medium-depth", "deep"),
}
COMPARABLE = "a corpus of minimal pairs, on which any two language models can be compared"


@dataclass(frozen=True)
class Paired:
    """Both models on each group of texts; `reason` says why they cannot be compared."""

    groups: pd.DataFrame  # group, n, first, second, gain, lower, upper, p
    measure: Literal["accuracy", "loss per piece", "loss per word"] = "accuracy"
    both: tuple[int, int, int, int] = (0, 0, 0, 0)  # right: both, the first, the second, neither
    reason: str = ""


def paired(first: Tables, second: Tables) -> Paired:
    """Compare two models on the texts that both were scored on."""
    objectives = [each["objective"].iloc[0] for each in (first, second)]
    texts = first["texts"].merge(second["texts"], on="index", suffixes=("", " of second"))
    kinds = [str(each["objective"]) for each in objectives]
    if any(a[key] != b[key] for a, b in [objectives] for key in ("objective", "name")):
        said = " and ".join(f"{each['objective']} ({each['name']})" for each in objectives)
        return Paired(texts.iloc[:0], reason=f"they predict different things: {said}")
    same_pieces = bool((texts["n"] == texts["n of second"]).all())
    if kinds[0] not in PREDICTED:
        a, b = (texts[f"right{end}"].to_numpy() > 0.5 for end in ENDS)
        both = tuple(int(each.sum()) for each in (a & b, a & ~b, ~a & b, ~a & ~b))
        return Paired(_groups(texts, "right", "n"), "accuracy", both)  # type: ignore[arg-type]
    if not same_pieces and kinds[0] != "causal":
        return Paired(
            texts.iloc[:0], reason=f"they predict different {PREDICTED[kinds[0]]} of the same texts"
        )
    groups = _groups(texts, "loss", "n" if same_pieces else "words")
    return Paired(groups, "loss per piece" if same_pieces else "loss per word")


def _groups(texts: pd.DataFrame, metric: str, per: str) -> pd.DataFrame:
    """One row per group; `gain` is by how much the second model is better, p is corrected.

    Scores are sums by sums, as in `errors`: a long text counts more.
    """
    number = texts[per].clip(lower=1).to_numpy(float)  # [texts]
    first, second = (
        (texts[f"{metric}{end}"] * texts[f"n{end}"]).fillna(0).to_numpy() for end in ENDS
    )
    gain = (second - first) * (-1 if metric == "loss" else 1)  # [texts]
    members = {name: member for name, member in _members(texts) if member.sum() >= FEWEST}
    if not members:
        return pd.DataFrame(
            columns=["group", "n", "first", "second", "gain", "lower", "upper", "p"]
        )
    inside = np.stack(list(members.values()), 1)  # [texts, groups]
    p_values = sign_flip_p_values(np.where(inside, gain[:, None], 0.0), seed=0)
    rows = []
    for (name, member), p in zip(members.items(), p_values, strict=True):
        total = number[member].sum()
        lower, upper = ratio_intervals(gain[member][:, None], number[member], 0)
        rows.append(
            {
                "group": name, "n": int(member.sum()), "first": first[member].sum() / total,
                "second": second[member].sum() / total, "gain": gain[member].sum() / total,
                "lower": float(lower[0]), "upper": float(upper[0]), "p": float(p),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _members(texts: pd.DataFrame) -> Iterator[tuple[str, np.ndarray]]:
    """Groups by name with the texts in them: all, thirds of length and depth, and classes."""
    yield ALL, np.ones(len(texts), dtype=bool)
    for column, names in THIRDS.items():
        values = texts[column].to_numpy(dtype=float)
        if len(values) and not np.isnan(values).any():
            third = thirds(values)
            yield from ((f"{name} texts", third == index) for index, name in enumerate(names))
    if "label" in texts:
        for label in sorted(texts["label"].unique()):
            yield f"texts of class {label}", (texts["label"] == label).to_numpy()


# --- in sentences ---------------------------------------------------------------------------------


def findings(found: Paired, names: Sequence[str]) -> Iterator[Finding]:
    """Which model is better on all texts, on which groups, and how often only one is right."""
    first, second = names
    if found.reason or found.groups.empty:
        why = found.reason or f"they have fewer than {FEWEST} texts in common"
        yield _finding(
            f"{first} and {second} cannot be compared by their scores on these texts: {why}.",
            None, None, "undecided", "difference between the models",
            decided_by=COMPARABLE if found.reason else "more texts",
        )  # fmt: skip
        return
    rows = rows_of(found.groups)
    unit: Unit = "%" if found.measure == "accuracy" else "nats"
    gain_unit: Unit = "points" if unit == "%" else "nats"
    whole = rows[0]
    winner = _winner(whole, names)
    ends = [("second", second), ("first", first)]
    gain, lower, upper = whole["gain"], whole["lower"], whole["upper"]
    if winner and gain < 0:  # said of the first model, which is better
        ends, gain, lower, upper = ends[::-1], -gain, -upper, -lower
    scores = [f"{with_unit(whole[key], unit)} of {name}" for key, name in ends]
    claim = (
        f"{winner or 'It is undecided which model'} is better on {plural(whole['n'], 'text')}: "
        f"{found.measure} {' against '.join(scores)}; better by "
        f"{signed(with_unit(gain, gain_unit))}, 95 % {span(lower, upper, gain_unit)}; "
        f"{p_text(whole['p'])}, paired by text."
    )
    yield _finding(
        claim, gain, (lower, upper), judged(winner, winner),
        f"{found.measure}, by which {ends[0][1]} is better than {ends[1][1]}",
        unit=gain_unit, n=plural(whole["n"], "text"),
    )  # fmt: skip
    groups = rows[1:]
    if groups:
        yield _at_what(groups, names)
    if total := sum(found.both):
        both, one, other, neither = (percent(count / total) for count in found.both)
        yield _finding(
            f"Both are right on {both} of texts, only {first} on {one}, only {second} on {other}, "
            f"and neither on {neither}.",
            None, None, "supported", "texts on which one or both are right", null=None,
        )  # fmt: skip


def _winner(row: Mapping[str, float], names: Sequence[str]) -> str:
    """The better model of a group; "" if that is undecided."""
    is_beyond = row["lower"] > 0 or row["upper"] < 0
    return names[int(row["gain"] > 0)] if is_beyond and row["p"] < SIGNIFICANT else ""


def _at_what(groups: Sequence[Mapping[str, float]], names: Sequence[str]) -> Finding:
    by = {name: [row["group"] for row in groups if _winner(row, names) == name] for name in names}
    rest = [row["group"] for row in groups if not _winner(row, names)]
    parts = [f"{name} is better on {listing(won, 6)}" for name, won in by.items() if won]
    if rest:
        parts.append(f"{listing(rest, 6)} {'are' if len(rest) > 1 else 'is'} undecided")
    n_won = sum(map(len, by.values()))
    return _finding(
        f"By group: {'; '.join(parts)} (p corrected over {len(groups) + 1} groups).",
        n_won, None, judged(n_won, n_won), "groups on which one model is better",
        n=plural(len(groups), "group"),
    )  # fmt: skip


def _finding(
    claim: str,
    value: float | None,
    interval: tuple[float, float] | None,
    verdict: Literal["supported", "not supported", "undecided"],
    measure: str,
    unit: Unit = "",
    null: float | None = 0.0,
    decided_by: str = "more texts",
    n: str = "",
) -> Finding:
    return Finding(
        claim, value, interval, null, verdict, "texts", measure=measure, unit=unit,
        decided_by=decided_by, n=n,
    )  # fmt: skip
