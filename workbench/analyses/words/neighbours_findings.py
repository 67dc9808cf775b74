"""The findings of `neighbours`, from its tables.

Costs: milliseconds.
"""

import math
from collections.abc import Iterator

from workbench.core.comparisons import comparison_finding, difference_text
from workbench.core.findings import (
    Finding,
    Row,
    Tables,
    Unit,
    decimal,
    keys_of,
    of_all,
    percent,
    percent_span,
    plural,
    rows_of,
)
from workbench.core.head_names import at_state

COMPARED = 30  # words whose neighbours are looked at; with fewer, nothing is decided
FORMS = 3  # forms with several senses
ALL = "all words"
SAME = {
    "form": "have the same form",
    "position": "are at the same position in their sentence",
    "document": "are in the same document",
}
NAMES = {"tag": "part of speech", "relation": "dependency relation"}
MORE_WORDS = "more sentences, or more words (max_queries)"
MORE_FORMS = "more forms with several senses: more sentences, or a smaller min_count"


def neighbours(tables: Tables) -> Iterator[Finding]:
    """What neighbours share at the best layer, what forms they have, and whether senses differ."""
    shares = tables["neighbours"]
    if shares.empty:
        return
    stack = shares["stack"].iloc[0]
    last = int(shares.loc[shares["stack"] == stack, "layer"].max())
    own = tables["tests"][tables["tests"]["stack"] == stack]
    tests = {row["comparison"]: row for row in rows_of(own)}
    for name in NAMES:
        if name in tests:
            yield _best(tests[name], name, last)
        if (above := tests.get(f"{name} above layer 0")) and name == "tag":
            yield _above(above, name, last)
    for name in ("form",) if "tag" in tests else SAME:
        rows = shares[(shares["property"] == name) & (shares["candidates"] == ALL)]
        if len(rows := rows[rows["stack"] == stack]):
            yield _same(rows_of(rows), name, last)
    for comparison in ("sense accuracy", "sense v-measure"):
        if comparison in tests:
            yield _senses(tests[comparison], last)
    senses = tables["senses"]
    if len(senses) and "sense accuracy" in tests:
        at_best = senses[
            (senses["stack"] == stack) & (senses["layer"] == tests["sense accuracy"]["layer"])
        ]
        if len(at_best) > 1:
            yield _extremes(rows_of(at_best.sort_values("accuracy", kind="stable")))


def _points(row: Row) -> str:
    return difference_text(row, " points", 1, 100)


def _at(layer: float, last: int) -> str:
    return f"{at_state(layer)} of {last}" if layer else at_state(layer)


def _best(row: Row, name: str, last: int) -> Finding:
    """The layer whose neighbours of other forms share a label most, against chance."""
    numbers = f"{percent(row['first'])} against {percent(row['second'])} by chance ({_points(row)})"
    layer = _at(row["layer"], last)
    claim = (
        f"Neighbours of another form share the {NAMES[name]} most at {layer}: {numbers}."
        if row["holds"]
        else f"Neighbours of another form are not shown to share the {NAMES[name]} beyond chance "
        f"and random weights: most at {layer}, {numbers}."
    )
    return _of_words(row, claim, f"neighbours that share the {NAMES[name]}, minus chance")


def _of_words(row: Row, claim: str, measure: str) -> Finding:
    """The finding of a share of neighbours, which is over words."""
    return comparison_finding(
        row,
        claim,
        row["n"] >= COMPARED,
        "shares",
        measure=measure,
        unit="points",
        decided_by=MORE_WORDS,
        n=plural(row["n"], "word"),
    )


def _above(row: Row, name: str, last: int) -> Finding:
    """Whether the best layer's neighbours share a label more often than those of layer 0."""
    verb = "share" if row["holds"] else "are not shown to share"
    claim = (
        f"Neighbours at {_at(row['layer'], last)} {verb} the {NAMES[name]} more often than "
        f"those at the embeddings: {percent(row['first'])} against {percent(row['second'])} "
        f"({_points(row)})."
    )
    return _of_words(row, claim, f"neighbours that share the {NAMES[name]}, minus the embeddings")


def _same(rows: list[Row], name: str, last: int) -> Finding:
    """How many neighbours have the same form, position or document, at both ends: a description."""
    first, end = rows[0], rows[-1]
    interval = f"95 % {percent_span(end['lower'], end['upper'])}"
    known = "" if math.isnan(end["random"]) else f"; with random weights {percent(end['random'])}"
    if last:
        ends = (
            f"{percent(first['share'])} of the nearest neighbours {SAME[name]} at the embeddings, "
            f"and {percent(end['share'])} at the last layer"
        )
    else:
        ends = f"{percent(end['share'])} of the nearest neighbours {SAME[name]}"
    return Finding(
        f"{ends} ({interval}{known}).",
        end["share"],
        (end["lower"], end["upper"]),
        None,
        "supported",
        "neighbours",
        keys_of(end, "stack", "layer", "candidates", "property"),
        "forms",
        measure=f"neighbours of the same {name} at the last layer",
        unit="%",
        column="share",
        n=plural(end["n"], "word"),
    )


def _senses(row: Row, last: int) -> Finding:
    """Whether the senses of forms are separated, against static vectors and random weights."""
    is_accuracy = row["comparison"] == "sense accuracy"
    forms, layer = plural(row["n"], "form"), _at(row["layer"], last)
    if is_accuracy:
        verb = (
            f"are separated best at {layer}: the"
            if row["holds"]
            else "are not shown to be separated beyond static vectors and random weights: at "
            f"{layer} the"
        )
        claim = (
            f"Senses of {forms} {verb} nearest occurrence has the same sense in "
            f"{percent(row['first'])}, with static vectors in {percent(row['second'])} "
            f"({_points(row)})."
        )
    else:
        verb = (
            f"Clusters fit the senses of {forms} best at {layer}: the"
            if row["holds"]
            else f"Clusters are not shown to fit the senses of {forms} beyond chance and random "
            f"weights: at {layer} the"
        )
        claim = (
            f"{verb} V-measure is {decimal(row['first'], 2)}, with permuted senses "
            f"{decimal(row['second'], 2)} ({difference_text(row)})."
        )
    measure = f"{'accuracy' if is_accuracy else 'V-measure'} of senses, minus permuted senses"
    enough = row["n"] >= FORMS
    unit: Unit = "points" if is_accuracy else ""
    return comparison_finding(
        row,
        claim,
        enough,
        "separation",
        measure=measure,
        unit=unit,
        decided_by=MORE_FORMS,
        n=plural(row["n"], "form"),
    )


def _extremes(rows: list[Row]) -> Finding:
    """The forms whose senses are separated worst and best: a description."""
    worst, best = rows[0], rows[-1]
    layer = at_state(best["layer"])
    if worst["accuracy"] == best["accuracy"]:
        claim = (
            f"At {layer}, the senses of {of_all(len(rows), len(rows), 'form')} are separated "
            f"equally well, with {percent(best['accuracy'])} right."
        )
    else:
        claim = (
            f"At {layer}, the senses of “{best['form']}” ({best['senses']}) are separated "
            f"best, with {percent(best['accuracy'])} right (permuted senses: "
            f"{percent(best['chance'])}), and those of “{worst['form']}” ({worst['senses']}) "
            f"worst, with {percent(worst['accuracy'])} right (permuted: "
            f"{percent(worst['chance'])})."
        )
    return Finding(
        claim,
        best["accuracy"],
        None,
        None,
        "supported",
        "senses",
        keys_of(best, "form", "stack", "layer"),
        "forms_with_senses",
        measure="accuracy of the form whose senses are separated best",
        unit="%",
        column="accuracy",
    )
