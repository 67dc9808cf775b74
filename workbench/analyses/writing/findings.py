"""Findings of `text-to-text`: what is gained over each null. Pure functions of the tables."""

from collections.abc import Iterator, Mapping

import pandas as pd

from workbench.analyses.attribution.findings import is_beyond_random
from workbench.analyses.writing.experiments import DECODINGS
from workbench.core.findings import (
    Finding,
    Row,
    Tables,
    Unit,
    decimal,
    judged,
    keys_of,
    p_text,
    percent,
    plural,
    rows_of,
    span,
    with_unit,
)
from workbench.core.metrics import spelt

MORE = "more texts"
SAME = "same word in the source"
NAMES = {"rougeL": "ROUGE-L"}
BY = {  # nulls that need no model
    "copy": "copying the source",
    "lead-3": "its first three sentences",
    "most frequent": "always the most frequent text",
    "another's": "what the model writes for another text",
}
HOW = {**DECODINGS, "spans": "the best span"}
USES = {
    "another's": ("What is written", "the source", "a text for another source"),
    "other question": ("The answer", "the question", "the answer to another question"),
    "other passage": ("The answer", "the passage", "the answer from another passage"),
}


def findings(tables: Tables) -> Iterator[Finding]:
    """The gain over the best null, what the text depends on, and what it is made of."""
    own = rows_of(tables["scores"])[0]
    metric = own["metric"]
    scores = {r["system"]: r for r in rows_of(tables["scores"]) if r["metric"] == metric}
    gains = {r["system"]: r for r in rows_of(tables["gains"]) if r["metric"] == metric}
    yield _gain(own, max((scores[name] for name in BY if name in scores), key=_value), gains)
    for name in USES:
        if name in gains:
            yield _depends(own, scores[name], gains[name])
    yield from _answerable(tables.get("answerable", pd.DataFrame()))
    for row in rows_of(tables.get("novelty", pd.DataFrame()))[:1]:
        yield _novel(row)
    for row in rows_of(tables.get("coverage", pd.DataFrame()))[:1]:
        if row["lift"] == row["lift"]:
            yield _covered(row)
    rows = rows_of(tables.get("origins", pd.DataFrame()))
    origins = {(row["words"], row["part"]): row for row in rows}
    if ("all", "source") in origins:
        yield _from_source(origins)
    if ("in the source", SAME) in origins:
        yield _from_same_word(origins["in the source", SAME])


def _value(row: Row) -> float:
    return float(row["value"])


def _name(row: Row) -> str:
    return NAMES.get(row["metric"], spelt(row["metric"]))


def _unit(row: Row) -> Unit:
    return "F1" if row["metric"] == "f1" else "%"


def _gain(own: Row, best: Row, gains: Mapping[str, Row]) -> Finding:
    gain, unit = gains[best["system"]], _unit(own)
    is_better = gain["lower"] > 0
    than = BY[best["system"]]
    reached = (
        f"{_name(own)} {with_unit(own['value'], '%')} by {HOW[own['system']]} (95 % "
        f"{span(own['lower'], own['upper'], '%')}), {with_unit(best['value'], '%')} by {than}"
    )
    said = "The texts are better than" if is_better else "The texts are no better than"
    return Finding(
        f"{said} {than}: {reached}; difference {with_unit(gain['difference'], 'points')} (95 % "
        f"{span(gain['lower'], gain['upper'], 'points')}).",
        own["value"], (own["lower"], own["upper"]), best["value"], judged(is_better), "scores",
        keys_of(own, "metric", "system"), "scores", measure=f"{_name(own)}", unit=unit,
        column="value", decided_by=MORE, n=plural(own["n"], "text"),
    )  # fmt: skip


def _depends(own: Row, other: Row, gain: Row) -> Finding:
    what, on, instead = USES[gain["system"]]
    depends = gain["lower"] > 0
    verb = "depends on" if depends else "does not visibly depend on"
    return Finding(
        f"{what} {verb} {on}: {instead} gets {_name(own)} {with_unit(other['value'], '%')}, "
        f"{with_unit(gain['difference'], 'points')} less (95 % "
        f"{span(gain['lower'], gain['upper'], 'points')}).",
        gain["difference"], (gain["lower"], gain["upper"]), 0.0, judged(depends), "gains",
        keys_of(gain, "metric", "system"), "scores", measure=f"loss without {on}", unit="points",
        column="difference", decided_by=MORE, n=plural(gain["n"], "text"),
    )  # fmt: skip


def _answerable(table: pd.DataFrame) -> Iterator[Finding]:
    rows = {row["questions"]: row for row in rows_of(table)}
    if len(rows) < 2:
        return
    has, none = rows["with an answer"], rows["without an answer"]
    knows = none["upper"] < has["lower"]
    told = "The model tells" if knows else "The model does not tell"
    yield Finding(
        f"{told} which questions have no answer: it answers {percent(has['answered'])} of those "
        f"that have one and {percent(none['answered'])} of those that have none (95 % "
        f"{span(none['lower'], none['upper'], '%')}).",
        none["answered"], (none["lower"], none["upper"]), has["answered"], judged(knows),
        "answerable", keys_of(none, "questions"), "", measure="answered without an answer",
        unit="%", column="answered", decided_by="more questions", n=plural(none["n"], "question"),
    )  # fmt: skip


def _novel(row: Row) -> Finding:
    fewer = row["upper"] < row["right_lower"]
    said = "fewer than" if fewer else "compared with"
    return Finding(
        f"{percent(row['written'], 1)} of the written words are in no source (95 % "
        f"{span(row['lower'], row['upper'], '%')}), {said} {percent(row['right'], 1)} of the "
        "words of the right texts.",
        row["written"], (row["lower"], row["upper"]), row["right"], judged(fewer), "novelty",
        keys_of(row, "n"), "novelty", measure="words that are in no source", unit="%",
        column="written", decided_by=MORE, n=plural(row["ngrams"], "word"),
    )  # fmt: skip


def _covered(row: Row) -> Finding:
    looks = row["lower"] > 1
    verb = "attends more" if looks else "does not attend more"
    return Finding(
        f"While it writes a piece of the source, the decoder {verb} to that piece than while it "
        f"writes others: {decimal(row['lift'])} times as much (95 % "
        f"{span(row['lower'], row['upper'])}); its attention covers {percent(row['covered'])} of "
        "the source.",
        row["lift"], (row["lower"], row["upper"]), 1.0, judged(looks), "coverage",
        keys_of(row, "layer"), "coverage", measure="attention on the piece that is written",
        column="lift", decided_by=MORE, n=plural(row["copied"], "text"),
    )  # fmt: skip


def _from_source(rows: Mapping[tuple[str, str], Row]) -> Finding:
    row, before = rows["all", "source"], rows.get(("all", "written before"))
    own = f", {percent(before['share'])} on what was written before" if before else ""
    comes = is_beyond_random(row)
    said = "come from the source" if comes else "do not visibly come from the source"
    return Finding(
        f"The written words {said}: {percent(row['share'])} of their attribution is on it (95 % "
        f"{span(row['lower'], row['upper'], '%')}; by length {percent(row['by_length'])}; with "
        f"random weights {percent(row['random'])}; {p_text(row['p'])}){own}.",
        row["share"], (row["lower"], row["upper"]), row["random"], judged(comes), "origins",
        keys_of(row, "words", "part"), "origins", measure="attribution on the source", unit="%",
        column="share", decided_by=MORE, n=plural(row["n"], "word"),
    )  # fmt: skip


def _from_same_word(row: Row) -> Finding:
    copies = is_beyond_random(row)
    said = "are copied from" if copies else "are not visibly copied from"
    return Finding(
        f"Written words that the source has {said} their place there: it has "
        f"{percent(row['share'])} of their attribution (95 % "
        f"{span(row['lower'], row['upper'], '%')}; by length {percent(row['by_length'])}; with "
        f"random weights {percent(row['random'])}; {p_text(row['p'])}).",
        row["share"], (row["lower"], row["upper"]), row["random"], judged(copies), "origins",
        keys_of(row, "words", "part"), "origins", measure="attribution on the same word",
        unit="%", column="share", decided_by=MORE, n=plural(row["n"], "word"),
    )  # fmt: skip
