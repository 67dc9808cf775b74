"""Findings of `retrieve`: what is found, and whether the model reads it. Pure functions."""

from collections.abc import Iterator, Mapping

import pandas as pd

from workbench.analyses.attribution.findings import is_beyond_random
from workbench.core.findings import (
    Finding,
    Row,
    Tables,
    Unit,
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

MORE = "more questions"
NAMES = {
    "bm25": "BM25",
    "states": "mean states",
    "bi-encoder": "the bi-encoder",
    "states, random weights": "mean states of random weights",
    "bi-encoder, untrained": "the untrained bi-encoder",
    "trained with the reader": "the retriever trained with the reader",
}
PASSAGES = {
    "with the answer": "the passage with the answer",
    "random": "a random passage",
    "none": "no passage",
    "first found": "the first passage found",
    "RAG-sequence": "the passages found together (RAG-sequence)",
    "RAG-token": "RAG-token",
    "with the answer, another question": "the same passage and another question",
    "softmax per passage": "all passages found, each with its own softmax",
    "shared softmax": "all passages found under one softmax",
}
JOINT = "trained with the reader"
ATTRIBUTED = ("with the answer", "answer in the passage")
COMPARED = (("states", "states, random weights"), ("bi-encoder", "bm25"))
JOINT_COMPARED = ((JOINT, "bi-encoder"), (JOINT, "bi-encoder, untrained"))
GAINS = (
    ("with the answer", "random"), ("RAG-sequence", "none"), ("RAG-token", "RAG-sequence"),
    ("with the answer", "with the answer, another question"),
    ("softmax per passage", "first found"), ("shared softmax", "softmax per passage"),
)  # fmt: skip
HELPS = tuple(
    ("found or none", other) for other in ("random or none", "none, trained without", "none")
)


def findings(tables: Tables) -> Iterator[Finding]:
    """What is found first, whether the model follows it, what it gives, and the retrievers."""
    first = rows_of(tables["retrieval"].query("measure == 'recall@1'"))
    together = [row for row in first if row["retriever"] == JOINT]
    yield _found((together or first)[0])
    if "swaps" in tables:
        yield _follows({row["passage"]: row for row in rows_of(tables["swaps"])})
    gains = {(row["first"], row["second"]): row for row in rows_of(tables.get("gains", _NONE))}
    if all(pair in gains for pair in HELPS):
        yield _utility(gains)
        yield _helps(*(gains[pair] for pair in HELPS))
    else:
        yield from (_gain(gains[pair]) for pair in GAINS if pair in gains)
    compared = {
        (row["first"], row["second"]): row for row in rows_of(tables.get("compared", _NONE))
    }
    pairs = JOINT_COMPARED if together else COMPARED
    yield from (_better(compared[pair]) for pair in pairs if pair in compared)
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
    row = rows["answer exchanged"]
    null = rows.get("answer exchanged, another question", rows["with the answer"])
    follows = row["p"] < 0.05
    how = f"The model {'follows' if follows else 'does not follow'} its passage"
    prefers, without = "the other one is the more probable answer", "with the right passage"
    if null["passage"] != "with the answer":
        prefers, without = "it answers the other one", "reading another question"
    return Finding(
        f"{how}: with the answer in it exchanged for another one, {prefers} in "
        f"{percent(row['other'])} of the questions (95 % "
        f"{span(row['lower'], row['upper'], '%')}), and in {percent(null['other'])} {without} "
        f"({p_text(row['p'])}).",
        row["other"], (row["lower"], row["upper"]), null["other"], judged(follows), "swaps",
        keys_of(row, "passage"), "swaps", measure="exchanged answer preferred", unit="%",
        column="other", decided_by=MORE, n=plural(row["n"], "question"),
    )  # fmt: skip


def _holds(row: Row) -> bool:
    return bool(row["p"] < 0.05 and row["lower"] > 0)


def _of_gain(row: Row, claim: str, holds: bool, measure: str, unit: Unit = "nats") -> Finding:
    return Finding(
        claim, row["difference"], (row["lower"], row["upper"]), 0.0, judged(holds), "gains",
        keys_of(row, "first", "second"), "answers", measure=measure, unit=unit,
        column="difference", decided_by=MORE, n=plural(row["n"], "question"),
    )  # fmt: skip


def _gain(row: Row) -> Finding:
    is_less = row["p"] < 0.05 and row["upper"] < 0
    does = "more" if _holds(row) else "less" if is_less else "not significantly more"
    first, second = PASSAGES[row["first"]], PASSAGES[row["second"]]
    measure = f"gain: {row['first']} over {row['second']}"
    if row["unit"] == "exact":
        claim = (
            f"The model finds the right answer {does} often with {first} than with {second}: a "
            f"difference of {percent(row['difference'])} of the questions (95 % "
            f"{span(row['lower'], row['upper'], '%')}; {p_text(row['p'])})."
        )
        return _of_gain(row, claim, _holds(row), measure, "%")
    claim = (
        f"The right answer is {does} probable with {first} than with {second}: "
        f"{decimal(row['difference'])} nats (95 % {span(row['lower'], row['upper'], 'nats')}; "
        f"{p_text(row['p'])})."
    )
    return _of_gain(row, claim, _holds(row), measure)


def _utility(gains: Mapping[tuple[str, str], Row]) -> Finding:
    row = gains["with the answer", "random"]
    gold, at_random = gains["with the answer", "none"], gains["random", "none"]
    has = "has a higher" if _holds(row) else "has no higher"
    return _of_gain(
        row,
        f"The passage with the answer {has} retrieval utility than a random passage: "
        f"{decimal(gold['difference'])} and {decimal(at_random['difference'])} nats, a difference "
        f"of {decimal(row['difference'])} (95 % {span(row['lower'], row['upper'])}; "
        f"{p_text(row['p'])}).",
        _holds(row), "retrieval utility",
    )  # fmt: skip


def _helps(row: Row, without: Row, none: Row) -> Finding:
    """It helps if it does so compared with random passages and with training without any."""
    holds = _holds(row) and _holds(without)
    return _of_gain(
        row,
        f"Retrieval {'helps' if holds else 'does not help'}: with the passages found, the hidden "
        f"words are {decimal(row['difference'])} nats more probable than with random ones (95 % "
        f"{span(row['lower'], row['upper'])}; {p_text(row['p'])}), "
        f"{decimal(without['difference'])} more than for a reader trained as long without "
        f"passages ({p_text(without['p'])}), and {decimal(none['difference'])} more than with "
        f"none.",
        holds, "retrieval helps",
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
