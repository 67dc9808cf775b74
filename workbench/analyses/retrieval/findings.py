"""Findings of `retrieve`: what is found, and whether the model reads it. Pure functions."""

from collections.abc import Iterator, Mapping

import pandas as pd

from workbench.analyses.attribution.findings import is_beyond_random
from workbench.core.findings import (
    Finding,
    Row,
    capital,
    decimal,
    judged,
    keys_of,
    p_text,
    percent,
    plural,
    rows_of,
    span,
    whole,
)

Tables = Mapping[str, pd.DataFrame]
MORE = "more questions"
NAMES = {
    "bm25": "BM25",
    "states": "mean states",
    "bi-encoder": "the bi-encoder",
    "states, random weights": "mean states of random weights",
}
PASSAGES = {
    "with the answer": "the passage with the answer",
    "random": "a random passage",
    "none": "no passage",
    "first found": "the first passage found",
    "RAG-sequence": "the passages found together (RAG-sequence)",
    "RAG-token": "RAG-token",
}
ATTRIBUTED = ("with the answer", "answer in the passage")
COMPARED = (("states", "states, random weights"), ("bi-encoder", "bm25"))
GAINS = (("with the answer", "random"), ("RAG-sequence", "none"), ("RAG-token", "RAG-sequence"))


def findings(tables: Tables) -> Iterator[Finding]:
    """What is found first, whether the model follows it, what it gives, and the retrievers."""
    first = rows_of(tables["retrieval"].query("measure == 'recall@1'"))
    yield _found(first[0])
    if "swaps" in tables:
        yield _follows({row["passage"]: row for row in rows_of(tables["swaps"])})
    gains = {(row["first"], row["second"]): row for row in rows_of(tables.get("gains", _NONE))}
    for pair in GAINS:
        if pair in gains:
            yield _gain(gains[pair])
    compared = {
        (row["first"], row["second"]): row for row in rows_of(tables.get("compared", _NONE))
    }
    for pair in COMPARED:
        if pair in compared:
            yield _better(compared[pair])
    for row in rows_of(tables.get("attribution", _NONE)):
        if (row["passages"], row["part"]) == ATTRIBUTED:
            yield _attributed(row)


_NONE = pd.DataFrame()


def _found(row: Row) -> Finding:
    return Finding(
        f"{capital(NAMES[row['retriever']])} finds the passage with the answer first for "
        f"{percent(row['value'])} of the questions, among {whole(row['passages'])} (95 % "
        f"{span(row['lower'], row['upper'], '%')}; random order {percent(row['chance'])}; "
        f"{p_text(row['p'])}).",
        row["value"], (row["lower"], row["upper"]), row["chance"],
        judged(row["p"] < 0.05 and row["value"] > row["chance"]), "retrieval",
        keys_of(row, "retriever", "measure"), "retrieval", measure="passage found first",
        unit="%", column="value", decided_by=MORE, n=plural(row["n"], "question"),
    )  # fmt: skip


def _follows(rows: Mapping[str, Row]) -> Finding:
    row, with_right = rows["answer exchanged"], rows["with the answer"]
    follows = row["p"] < 0.05
    how = f"The model {'follows' if follows else 'does not follow'} its passage"
    return Finding(
        f"{how}: with the answer in it exchanged for another one, the other one is the more "
        f"probable answer in {percent(row['other'])} of the questions (95 % "
        f"{span(row['lower'], row['upper'], '%')}), and in {percent(with_right['other'])} with "
        f"the right passage ({p_text(row['p'])}).",
        row["other"], (row["lower"], row["upper"]), with_right["other"], judged(follows), "swaps",
        keys_of(row, "passage"), "swaps", measure="exchanged answer preferred", unit="%",
        column="other", decided_by=MORE, n=plural(row["n"], "question"),
    )  # fmt: skip


def _gain(row: Row) -> Finding:
    significant = row["p"] < 0.05
    holds = significant and row["lower"] > 0
    does = (
        "more"
        if holds
        else "less"
        if significant and row["upper"] < 0
        else "not significantly more"
    )
    return Finding(
        f"The right answer is {does} probable with {PASSAGES[row['first']]} than with "
        f"{PASSAGES[row['second']]}: {decimal(row['difference'])} nats (95 % "
        f"{span(row['lower'], row['upper'], 'nats')}; {p_text(row['p'])}).",
        row["difference"], (row["lower"], row["upper"]), 0.0, judged(holds), "gains",
        keys_of(row, "first", "second"), "answers",
        measure=f"gain: {row['first']} over {row['second']}", unit="nats", column="difference",
        decided_by=MORE, n=plural(row["n"], "question"),
    )  # fmt: skip


def _better(row: Row) -> Finding:
    significant = row["p"] < 0.05
    holds = significant and row["lower"] > 0
    find = "rank" if "states" in row["first"] else "ranks"
    better = "higher" if holds else "lower" if significant and row["upper"] < 0 else "not higher"
    return Finding(
        f"{capital(NAMES[row['first']])} {find} the passage with the answer {better} than "
        f"{NAMES[row['second']]}: difference of mean reciprocal ranks "
        f"{decimal(row['difference'])} (95 % {span(row['lower'], row['upper'])}; "
        f"{p_text(row['p'])}).",
        row["difference"], (row["lower"], row["upper"]), 0.0, judged(holds), "compared",
        keys_of(row, "first", "second"), "retrieval",
        measure=f"MRR: {row['first']} over {row['second']}", column="difference", decided_by=MORE,
        n=plural(row["n"], "question"),
    )  # fmt: skip


def _attributed(row: Row) -> Finding:
    reads = is_beyond_random(row)
    said = "is read off" if reads else "is not visibly read off"
    return Finding(
        f"The answer {said} its place in the passage: its words there have "
        f"{percent(row['share'])} of its attribution (95 % "
        f"{span(row['lower'], row['upper'], '%')}; by length {percent(row['by_length'])}; with "
        f"random weights {percent(row['random'])}; {p_text(row['p'])}).",
        row["share"], (row["lower"], row["upper"]), row["random"], judged(reads), "attribution",
        keys_of(row, "passages", "part"), "attribution",
        measure="attribution on the answer in the passage", unit="%", column="share",
        decided_by=MORE, n=plural(row["n"], "question"),
    )  # fmt: skip
