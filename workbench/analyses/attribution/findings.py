"""The findings of `attribution`. Costs: milliseconds."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from workbench.core.findings import (
    Finding,
    Row,
    Tables,
    Verdict,
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
    signed,
    verb_of,
)
from workbench.core.stats import SIGNIFICANT
from workbench.experiment.measured import on_measured

if TYPE_CHECKING:
    from workbench.runs.run import Run


CONTROLS = ("attention", "random")  # rows of the table `methods` that are no chosen method
NEAR = 2  # words on each side of the predicted word
FEWEST_DOCUMENTS = 10  # with fewer, the intervals of differences of methods say little
FEWEST_WORDS = 10  # of a tag; with fewer, its interval over documents says little
FEWEST_TYPES = 5  # distinct words; fewer sign flips cannot be significant


def attribution(tables: Tables) -> Iterator[Finding]:
    """Which method is faithful, and which tags, relations and positions carry the predictions."""
    rows = rows_of(tables["methods"])
    chosen = [row for row in rows if row["method"] not in CONTROLS]
    best = max(chosen, key=lambda row: float(row["gain"]))
    yield _best(best, chosen, on_measured(tables))
    if len(chosen) > 1:
        yield _faithful(chosen)
    if best["p_attention"] == best["p_attention"]:  # else there is no attention
        yield _over_attention(best)
    checked = [row for row in rows if row["check"]]
    if checked:
        yield _randomised(checked)
    method = best["method"]
    tags = [row for row in rows_of(tables["tags"]) if row["method"] == method]
    if tags:
        yield _tag_gains(tags)
    relations = [row for row in rows_of(tables["relations"]) if row["method"] == method]
    if any(row["relation"] == "all" for row in relations):
        yield _relations(relations)
    positions = [row for row in rows_of(tables["positions"]) if row["method"] == method]
    if any(row["origin"] == "predicted word" for row in positions):
        yield _positions(positions)


def which_words(runs: "Sequence[Run]", asked: Mapping[str, str]) -> Iterator[Finding]:
    """The same in the order of the question "Which words decide?": words first, methods last."""
    tables = runs[0].tables
    found = list(attribution(tables))
    method = found[0].keys["method"]
    tags = tables["tags"][tables["tags"]["method"] == method]
    if len(tags):
        yield _tags(tags, str(method))
    yield from (each for each in found if each.table in ("tags", "relations", "positions"))
    yield from (each for each in found if each.table == "methods")


def _tags(tags: pd.DataFrame, method: str) -> Finding:
    """The tags with more or less attribution per word than a mean word."""
    tags = tags[tags["n"] >= FEWEST_WORDS]
    more, less = tags[tags["lower"] > 1], tags[tags["upper"] < 1]

    def named(rows: pd.DataFrame, than: str) -> str:
        parts = [
            f"`{row['tag']}` ({decimal(row['lift'], 2)} times, 95 % {decimal(row['lower'], 2)} to "
            f"{decimal(row['upper'], 2)})"
            for row in rows_of(rows)
        ]
        return f"{listing(parts, 4)} {verb_of(len(rows), 'carries', 'carry')} {than}"

    of = (
        f"(by {method}; {plural(len(tags), 'tag')} of {FEWEST_WORDS} words or more, their "
        "intervals uncorrected)"
    )
    parts = [
        named(rows, f"{words} attribution than a mean word")
        for words, rows in (("more", more), ("less", less))
        if len(rows)
    ]
    claim = f"By part of speech, {'; '.join(parts)} {of}."
    if not parts:
        claim = f"No part of speech carries more or less attribution than a mean word {of}."
    return Finding(
        claim,
        len(more) + len(less),
        None,
        0.0,
        judged(parts, parts or len(tags) > 1),
        "tags",
        {"method": method},
        "tags",
        measure="tags with more or less attribution than a mean word",
        decided_by="more texts",
        n=plural(tags["n"].sum(), "word"),
    )


def _verdict(faithful: str) -> Verdict:
    return judged(faithful == "yes", faithful != "undecided")


def _best(row: Row, chosen: Sequence[Row], on: str) -> Finding:
    """The best method, with those whose gain does not differ from its own.

    Paired over documents: the interval of the difference includes 0.
    """
    others = [each for each in chosen if each["method"] != row["method"]]
    others.sort(key=lambda each: -float(each["gain"]))
    level = [each for each in others if not each["behind_lower"] > 0]
    names = [each["method"] for each in (row, *level)]
    next_to = (level or others or [row])[0]
    by = (
        f" (gain {signed(decimal(next_to['behind'], 3))} over {next_to['method']}, 95 % "
        f"{decimal(next_to['behind_lower'], 3)} to {decimal(next_to['behind_upper'], 3)})"
    )
    if not others:
        subject = f"The scores of {row['method']} are checked"
    elif row["documents"] < FEWEST_DOCUMENTS:
        level = others
        subject = (
            f"The scores of {row['method']} have the largest gain of {len(chosen)} methods (too "
            "few documents to tell whether they differ)"
        )
    elif level:
        together = "do not differ significantly"
        subject = (
            f"The scores of {listing(names, 6)} are the most faithful of {len(chosen)} methods, "
            f"and {together}{by}"
        )
        if len(level) == len(others):
            subject = (
                f"The {len(chosen)} methods {together}{by}; {row['method']} has the largest gain"
            )
    else:
        subject = (
            f"The scores of {row['method']} are the most faithful of {len(chosen)} methods{by}"
        )
    whose = "its" if not level else f"the {row['method']}"
    return Finding(
        f"{subject}: without {whose} top words, the prediction{on} loses "
        f"{decimal(row['comprehensiveness'], 2)} of its probability, with only them "
        f"{decimal(row['sufficiency'], 2)} (random orders: "
        f"{decimal(row['random_comprehensiveness'], 2)} and "
        f"{decimal(row['random_sufficiency'], 2)}; {p_text(row['p'])}).",
        row["gain"],
        (row["lower"], row["upper"]),
        0.0,
        _verdict(row["faithful"]),
        "methods",
        {"method": row["method"]},
        "faithfulness",
        measure="gain of the most faithful method over random orders",
        column="gain",
        decided_by="more texts",
        n=plural(row["n"], "prediction"),
    )


def _faithful(rows: list[Row]) -> Finding:
    faithful = [row["method"] for row in rows if row["faithful"] == "yes"]
    is_open = any(row["faithful"] == "undecided" for row in rows)
    others = [row["method"] for row in rows if row["faithful"] != "yes"]
    named = f": {listing(faithful, 6)}" if faithful and others else ""
    missing = f"; not {listing(others, 6)}" if faithful and others else ""
    return Finding(
        f"{capital(of_all(len(faithful), len(rows), 'method'))} "
        f"{verb_of(len(faithful), 'is', 'are')} faithful beyond random orders{named}{missing}.",
        len(faithful),
        None,
        0.0,
        judged(faithful, faithful or not is_open),
        "methods",
        figure="faithfulness",
        measure="methods faithful beyond random orders",
        decided_by="more texts",
    )


def _over_attention(row: Row) -> Finding:
    return Finding(
        f"Compared with the attention of the last layer, {row['method']} gains "
        f"{decimal(row['over_attention'], 2)} of probability (comprehensiveness minus "
        f"sufficiency; {p_text(row['p_attention'])}).",
        row["over_attention"],
        (row["over_attention_lower"], row["over_attention_upper"]),
        0.0,
        judged(row["p_attention"] < SIGNIFICANT, row["documents"] >= 10),
        "methods",
        {"method": row["method"]},
        "faithfulness",
        measure="gain of the most faithful method over attention",
        column="over_attention",
        decided_by="more texts",
        n=plural(row["n"], "prediction"),
    )


def _randomised(rows: list[Row]) -> Finding:
    """Methods by what random weights do to their maps; the number is of the one kept most."""
    most = max(rows, key=lambda row: float(row["randomised"]))
    groups = [
        (words, [row["method"] for row in rows if row["check"] == check])
        for check, words in (
            ("kept", "keep the maps of"),
            ("partly kept", "partly keep the maps of"),
            ("destroyed", "destroy the maps of"),
            ("undecided", "are not comparable, by too few words, for"),
        )
    ]
    parts = [f"{words} {listing(names, 6)}" for words, names in groups if names]
    return Finding(
        f"Random weights {listing(parts, 4)}: the highest rank correlation of a map with that of "
        f"random weights is {decimal(most['randomised'], 2)}, by {most['method']} (chance: below "
        f"{decimal(most['chance'], 2)}).",
        most["randomised"],
        (most["randomised_lower"], most["randomised_upper"]),
        None,
        judged(True, most["check"] != "undecided"),
        "methods",
        {"method": most["method"]},
        "randomised",
        measure="highest rank correlation with maps of random weights",
        column="randomised",
        decided_by="longer texts",
        n=plural(most["n_randomised"], "prediction"),
    )


def _tag_gains(rows: list[Row]) -> Finding:
    tried = [row for row in rows if row["types"] >= FEWEST_TYPES]
    differ = [row for row in rows if row["p"] < SIGNIFICANT]
    if differ:
        named = [
            f"`{row['tag']}` ({decimal(row['lift'], 1)} times a mean word, "
            f"{decimal(row['expected'], 1)} expected, {p_text(row['p'])})"
            for row in differ
        ]
        claim = (
            f"{capital(of_all(len(differ), len(rows), 'tag'))} "
            f"{verb_of(len(differ), 'gets', 'get')} more or less attribution than other words as "
            f"near and of as many pieces: {listing(named)}."
        )
    else:
        claim = (
            f"{capital(of_all(0, len(rows), 'tag'))} gets more or less attribution than other "
            "words as near and of as many pieces (smallest "
            f"{p_text(min(row['p'] for row in rows))})."
        )
    return Finding(
        claim,
        len(differ),
        None,
        0.0,
        judged(differ, differ or len(tried) > 1),
        "tags",
        {"method": rows[0]["method"]},
        "tags",
        measure="tags with more or less attribution than words as near and of as many pieces",
        decided_by="more texts with more distinct words",
    )


def _relations(rows: list[Row]) -> Finding:
    """Of all heads or dependents of the predicted word; the single relations that are significant.

    Of the two directions, the one with more words.
    """
    whole = [row for row in rows if row["relation"] == "all"]
    row = max(whole, key=lambda each: int(each["n"]))
    differ = [
        f"`{each['relation']}` ({each['direction']})"
        for each in rows
        if each["relation"] != "all" and each["p"] < SIGNIFICANT
    ]
    who = {"dependent-to-head": "governor", "head-to-dependent": "dependents"}
    is_one = row["direction"] == "dependent-to-head"
    verdict = judged(row["p"] < SIGNIFICANT, row["types"] >= FEWEST_TYPES)
    verb = "gets" if is_one else "get"
    if verdict == "not supported":
        verb = (
            f"{'is' if is_one else 'are'} not shown to differ from comparable words: "
            f"{'it gets' if is_one else 'they get'}"
        )
    single = f" Single relations above it: {listing(differ, 4)}." if differ else ""
    return Finding(
        f"The {who[row['direction']]} of the predicted word {verb} "
        f"{decimal(row['attribution'], 2)} times the attribution of a mean word, other words as "
        f"near and of as many pieces {decimal(row['expected'], 2)} ({p_text(row['p'])}).{single}",
        row["difference"],
        (row["lower"], row["upper"]),
        0.0,
        verdict,
        "relations",
        keys_of(row, "method", "direction", "relation"),
        "relations",
        measure="attribution to words related to the predicted word, over words as near",
        column="difference",
        decided_by="more texts with more distinct words",
        n=plural(row["n"], "word"),
    )


def _positions(rows: list[Row]) -> Finding:
    near = [row for row in rows if abs(row["offset"]) <= NEAR]
    attribution = sum(row["attribution"] for row in near)
    words = sum(row["words"] for row in near)
    return Finding(
        f"{capital(percent(attribution))} of the attribution is on words within {NEAR} words of "
        f"the predicted one, which are {percent(words)} of the words read.",
        attribution,
        None,
        None,
        "supported",
        "positions",
        {"method": rows[0]["method"]},
        "positions",
        measure=f"share of attribution within {NEAR} words",
        unit="%",
    )


def is_beyond_random(row: Row) -> bool:
    """Whether a part has more attribution than its length and random weights give (`parts`)."""
    return bool(row["p"] < 0.05 and row["lower"] > row["by_length"])
