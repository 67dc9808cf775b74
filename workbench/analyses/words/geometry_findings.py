"""The findings of `geometry` and `tokenization`, from their tables.

Costs: milliseconds.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pandas as pd

from workbench.core.comparisons import comparison_finding, difference_text, if_tested
from workbench.core.findings import (
    MOST,
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
    verb_of,
    whole,
)
from workbench.core.head_names import at_state

# --- geometry -------------------------------------------------------------------------------------

FORMS = 30  # word forms; with fewer, a correlation or a difference of classes is undecided
WORDS = 100  # random words, or sentences
BEYOND = " beyond random weights"
MORE = "more sentences (max_sentences) or a larger corpus"


def geometry(tables: Tables) -> Iterator[Finding]:
    """How contextual and isotropic the last layer is, and for which words."""
    yield from islice(_geometry(tables), MOST)


def _geometry(tables: Tables) -> Iterator[Finding]:
    tests = {(row["stack"], row["comparison"]): row for row in rows_of(tables["tests"])}
    stacks = list(dict.fromkeys(tables["layers"]["stack"]))
    several = len(stacks) > 1
    first = stacks[0]  # of an encoder-decoder the encoder, which reads the text
    for stack in stacks:
        if (stack, "depth") in tests:
            yield _depth(tests[stack, "depth"], tests[stack, "depth, standardised"], several)
    layers = tables["layers"]
    own = layers[(layers["weights"] == "model") & (layers["stack"] == first)]
    last = int(own["layer"].max())
    yield _anisotropy(tests[first, "anisotropy"], last, several)
    n = plural(tests[first, "anisotropy"]["n"], "word")
    yield _largest_dimensions(tables["dimensions"], first, last, several, n)
    if (first, "intra-sentence") in tests:
        yield _sentences(tests[first, "intra-sentence"], several)
    for name, finding in (
        ("frequency", _frequency), ("function words", _function_words),
        ("frequency and norm", _norm),
    ):  # fmt: skip
        if (first, name) in tests:
            yield finding(tests[first, name], several)


def _of(row: Row, several: bool) -> str:
    return f" of the {row['stack']}" if several else ""


def _test(
    row: Row,
    claim: str,
    measure: str,
    figure: str,
    least: int,
    several: bool,
    unit: str = "word form",
) -> Finding:
    measure = f"{measure}{_of(row, several)}"
    return comparison_finding(
        row,
        claim,
        row["n"] >= least,
        figure,
        measure=measure,
        decided_by=MORE,
        n=plural(row["n"], unit),
    )


def _depth(row: Row, standardised: Row, several: bool) -> Finding:
    more = "more" if row["difference"] < 0 else "less"
    disagree = row["difference"] * standardised["difference"] <= 0
    does = (
        "Two measures disagree on whether words become more or less context-specific with depth"
        if row["holds"] and disagree
        else f"Words become {more} context-specific with depth"
        if row["holds"]
        else f"Words are not shown to become {more} context-specific with depth{BEYOND}"
    )
    claim = (
        f"{does}: self-similarity, corrected for anisotropy, is {decimal(row['first'], 2)} in the "
        f"last layer{_of(row, several)} and {decimal(row['second'], 2)} in the embeddings "
        f"({difference_text(row)}); with standardised dimensions it is "
        f"{decimal(standardised['first'], 2)} and {decimal(standardised['second'], 2)}."
    )
    measure = "corrected self-similarity, last layer minus embeddings"
    finding = _test(row, claim, measure, "contextuality", FORMS, several)
    if finding.verdict != "supported" or not disagree:
        return finding
    other = (
        "a measure that few dimensions do not dominate: the two here change in opposite directions"
    )
    return replace(finding, verdict="undecided", decided_by=other)


def _anisotropy(row: Row, layer: int, several: bool) -> Finding:
    more = "more" if row["difference"] > row["random"] else "less"
    does = (
        f"The last layer{_of(row, several)} is {more} anisotropic than with random weights"
        if row["holds"]
        else f"The last layer{_of(row, several)} is not shown to be more or less anisotropic than "
        "with random weights"
    )
    claim = (
        f"{does}: the mean cosine of two random words in {at_state(layer)} is "
        f"{decimal(row['difference'], 2)} (95 % {decimal(row['lower'], 2)} to "
        f"{decimal(row['upper'], 2)}"
    )
    if row["random_models"]:
        claim += f"; with random weights {decimal(row['random'], 2)}{if_tested(row)}"
    else:
        claim = claim.replace(does, f"The last layer{_of(row, several)} has no baseline")
    measure = "anisotropy of the last layer"
    return _test(row, f"{claim}).", measure, "anisotropy", WORDS, several, "word")


def _largest_dimensions(
    table: pd.DataFrame, stack: str, layer: int, several: bool, n: str
) -> Finding:
    own = table[(table["stack"] == stack) & (table["layer"] == layer)]
    (row,) = rows_of(own[own["rank"] == "all"])
    n_dimensions = len(own) - 1
    of = f" of the {stack}" if several else ""
    keys = {"stack": stack, "layer": layer, "rank": "all"}
    measure = f"share of the mean cosine in the largest dimensions{of}"
    if math.isnan(row["share"]):
        return Finding(
            f"The mean cosine of random words in the last layer{of} is not positive in all "
            "bootstrap samples, so that no dimension has a share of it.",
            None, None, None, "supported", "dimensions", keys, "dimensions", measure=measure,
        )  # fmt: skip
    return Finding(
        f"The {plural(n_dimensions, 'dimension')} that contribute most add "
        f"{percent(row['share'])} of the mean cosine of random words in the last layer{of} "
        f"(95 % {percent_span(row['lower'], row['upper'])}).",
        row["share"],
        (row["lower"], row["upper"]),
        None,
        "supported",
        "dimensions",
        keys,
        "dimensions",
        measure=measure,
        unit="%",
        column="share",
        n=n,
    )


def _sentences(row: Row, several: bool) -> Finding:
    more = "more" if row["difference"] > row["random"] else "less"
    does = (
        f"Words share {more} of their sentence than with random weights"
        if row["holds"]
        else "Words are not shown to share more or less of their sentence than with random weights"
    )
    return _test(
        row,
        f"{does}: in the last layer{_of(row, several)} their mean cosine with the mean of their "
        f"sentence is {decimal(row['first'], 2)}, that of two random words "
        f"{decimal(row['second'], 2)} ({difference_text(row)}).",
        "intra-sentence similarity minus anisotropy, last layer",
        "contextuality",
        WORDS,
        several,
        "sentence",
    )


def _frequency(row: Row, several: bool) -> Finding:
    more = "more" if row["difference"] < 0 else "less"
    does, beyond = ("vary", "") if row["holds"] else ("are not shown to vary", BEYOND)
    return _test(
        row,
        f"Frequent words {does} {more} with context than rare ones{beyond}: Spearman's correlation "
        f"of log frequency with self-similarity is {decimal(row['difference'], 2)} in the last "
        f"layer{_of(row, several)} over {plural(row['n'], 'word form')} ({difference_text(row)}).",
        "correlation of frequency with self-similarity, last layer",
        "frequency",
        FORMS,
        several,
    )


def _function_words(row: Row, several: bool) -> Finding:
    more = "more" if row["difference"] < 0 else "less"
    does = (
        f"Function words vary {more} with context than content words"
        if row["holds"]
        else f"Function words are not shown to vary {more} with context than content words{BEYOND}"
    )
    return _test(
        row,
        f"{does}: their self-similarity in the last layer{_of(row, several)} is "
        f"{decimal(row['first'], 2)} and {decimal(row['second'], 2)} ({difference_text(row)}).",
        "self-similarity of function words minus that of content words, last layer",
        "word_classes",
        FORMS,
        several,
    )


def _norm(row: Row, several: bool) -> Finding:
    longer = "longer" if row["difference"] > 0 else "shorter"
    does = (
        f"Frequent words have {longer} states"
        if row["holds"]
        else f"Frequent words are not shown to have {longer} states{BEYOND}"
    )
    return _test(
        row,
        f"{does}: Spearman's correlation of log frequency with the norm is "
        f"{decimal(row['difference'], 2)} in the last layer{_of(row, several)} "
        f"({difference_text(row)}).",
        "correlation of frequency with the norm, last layer",
        "frequency",
        FORMS,
        several,
    )


# --- tokenization ---------------------------------------------------------------------------------

DISTINCT = 20  # distinct words of a group; with fewer, its ratio is undecided
OTHERS = {
    "rare words": "frequent ones",
    "proper nouns": "other content words of similar frequency",
    "function words": "content words",
}


GROUP = ("model", "by", "group")


def tokenization(tables: Tables) -> Iterator[Finding]:
    """How many pieces words have, and which words have more."""
    yield from islice(_tokenization(tables), MOST)


def _tokenization(tables: Tables) -> Iterator[Finding]:
    groups, tests = tables["groups"], rows_of(tables["tests"])
    models = list(dict.fromkeys(groups["model"]))
    several = len(models) > 1
    for row in rows_of(groups[groups["by"] == "all"])[: 1 if several else None]:
        yield _fertility(row, several)
    for row in tests:
        if row["comparison"] not in OTHERS:
            yield _models(row)
    for name in OTHERS:
        for row in tests:
            if row["comparison"] == name and row["model"] == models[0]:
                yield _more_pieces(row, several)
    tags = groups[(groups["by"] == "tag") & (groups["model"] == models[0])]
    tags = tags[tags["n"] >= DISTINCT]
    if tags["fertility"].nunique() > 1:
        yield _most_split(rows_of(tags.sort_values("fertility", kind="stable")), several)
    yield _unknown(rows_of(groups[groups["by"] == "all"])[0], several)


def _in(row: Row, several: bool) -> str:
    return f" in {row['model']}" if several else ""


def _fertility(row: Row, several: bool) -> Finding:
    n_unknown = round(row["unknown"] * row["n"])
    n_known = row["n"] - n_unknown
    words = plural(n_known, "known word" if n_unknown else "word")
    stay = f"{percent(row['whole'])} of {words} stay whole" if n_known else "no word is known"
    unknown = (
        f"; {of_all(n_unknown, row['n'], 'word')} {verb_of(n_unknown, 'is', 'are')} unknown"
        if n_unknown
        else ""
    )
    return Finding(
        f"A word has {decimal(row['fertility'], 2)} pieces on average{_in(row, several)} (95 % "
        f"{decimal(row['fertility_lower'], 2)} to {decimal(row['fertility_upper'], 2)}), and "
        f"{stay}{unknown}.",
        row["fertility"],
        (row["fertility_lower"], row["fertility_upper"]),
        None,
        "supported",
        "groups",
        keys_of(row, *GROUP),
        "pieces",
        measure=f"pieces per word{_in(row, several)}",
        column="fertility",
        n=words,
    )


def _more_pieces(row: Row, several: bool) -> Finding:
    name, others = row["comparison"], OTHERS[row["comparison"]]
    numbers = (
        f"{decimal(row['first'], 2)} against {decimal(row['second'], 2)}, ratio 95 % "
        f"{decimal(row['lower'], 2)} to {decimal(row['upper'], 2)}; {p_text(row['p'])}"
    )
    enough = min(row["n_first"], row["n_second"]) >= DISTINCT
    if row["holds"]:
        many = f"{decimal(row['ratio'], 2)} times as many pieces as {others}"
        does = f"{capital(name)} are split into {many}"
    else:
        does = f"{capital(name)} are not shown to be split into more or fewer pieces than {others}"
    return Finding(
        f"{does}{_in(row, several)}: {numbers}.",
        row["ratio"],
        (row["lower"], row["upper"]),
        1.0,
        judged(row["holds"], enough),
        "tests",
        {"model": row["model"], "comparison": name},
        "fertility_by_frequency" if name == "rare words" else "fertility_by_tag",
        measure=f"pieces of {name}, ratio to {others}{_in(row, several)}",
        column="ratio",
        decided_by="more distinct words: a larger corpus",
        n=f"{whole(row['n_first'])} and {plural(row['n_second'], 'word')}",
    )


def _models(row: Row) -> Finding:
    other = row["comparison"]
    does = (
        f"{row['model']} splits words into {decimal(row['ratio'], 2)} times as many pieces as "
        f"{other}"
        if row["holds"]
        else f"{row['model']} is not shown to split words into more or fewer pieces than {other}"
    )
    return Finding(
        f"{does}: {decimal(row['first'], 2)} against {decimal(row['second'], 2)} per word, of "
        f"{plural(row['n_first'], 'word')} that both know (ratio "
        f"95 % {decimal(row['lower'], 2)} to {decimal(row['upper'], 2)}; {p_text(row['p'])}).",
        row["ratio"],
        (row["lower"], row["upper"]),
        1.0,
        judged(row["holds"], row["n_first"] >= WORDS),
        "tests",
        {"model": row["model"], "comparison": other},
        "pieces",
        measure=f"pieces per word, {row['model']} over {other}",
        column="ratio",
        decided_by="more sentences",
        n=plural(row["n_first"], "word"),
    )


def _most_split(rows: list[Row], several: bool) -> Finding:
    most, fewest = rows[-1], rows[0]["fertility"]
    least = [f"`{row['group']}`" for row in rows if row["fertility"] == fewest]
    return Finding(
        f"Of {plural(len(rows), 'part')} of speech with {DISTINCT} words or more, "
        f"`{most['group']}` has most pieces per word "
        f"({decimal(most['fertility'], 2)}) and {listing(least)} fewest "
        f"({decimal(fewest, 2)}){_in(most, several)}.",
        most["fertility"],
        (most["fertility_lower"], most["fertility_upper"]),
        None,
        "supported",
        "groups",
        keys_of(most, *GROUP),
        "fertility_by_tag",
        measure=f"pieces per word of the most split part of speech{_in(most, several)}",
        column="fertility",
        n=plural(most["n"], "word"),
    )


def _unknown(row: Row, several: bool) -> Finding:
    n = round(row["unknown"] * row["n"])
    return Finding(
        f"{capital(of_all(n, row['n'], 'word'))} {verb_of(n, 'has', 'have')} an unknown piece"
        f"{_in(row, several)}.",
        row["unknown"],
        (row["unknown_lower"], row["unknown_upper"]),
        None,
        "supported",
        "groups",
        keys_of(row, *GROUP),
        "",
        measure=f"words with an unknown piece{_in(row, several)}",
        unit="%",
        column="unknown",
        n=plural(row["n"], "word"),
    )
