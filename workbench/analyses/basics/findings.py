"""The findings of `describe`, `profile`, `minimal-pairs` and `trigram`.

Pure functions from the tables of a run to `Finding`s, the most important one first. Costs:
milliseconds.
"""

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pandas as pd

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
    plural,
    rows_of,
    signed,
    verb_of,
    whole,
)
from workbench.core.stats import SIGNIFICANT
from workbench.corpora.describe import zipf_fit
from workbench.corpora.formats import WHOLE

# --- describe -------------------------------------------------------------------------------------

FREQUENT = 10  # words whose share of the text is stated


def describe(tables: Tables) -> Iterator[Finding]:
    """The size, the sentences, the layers and labels, and how regular relations and words are."""
    return islice(_described(tables), MOST)


def _described(tables: Tables) -> Iterator[Finding]:
    sizes = rows_of(tables["sizes"])
    n_words, n_sentences = (sum(row[what] for row in sizes) for what in ("words", "sentences"))
    yield _size(sizes, n_words, n_sentences)
    if "lengths" in tables and n_sentences:
        yield _sentences(rows_of(tables["lengths"]), n_words / n_sentences)
    yield _layers(tables)
    if "classes" in tables:
        yield _classes(tables["classes"])
    if "relations" in tables:
        yield _relations(rows_of(tables["relations"]))
    if "tags" in tables:
        yield _tags(tables["tags"])
    if len(tables.get("words", ())) >= FREQUENT:
        yield _words(rows_of(tables["words"]), n_words)
    if "scores" in tables:
        yield _values(rows_of(tables["scores"]))


def _size(sizes: list[Row], n_words: int, n_sentences: int) -> Finding:
    claim = f"The text has {plural(n_words, 'word')} in {plural(n_sentences, 'sentence')}"
    if len(sizes) == 1:
        claim += f" ({plural(sizes[0]['types'], 'distinct word')})"
    else:
        splits = [
            f"{row['split']} {whole(row['words'])} ({whole(row['types'])} distinct)"
            for row in sizes
        ]
        claim += f": {listing(splits, 4)}"
    return Finding(
        f"{claim}.",
        n_words,
        None,
        None,
        "supported",
        "sizes",
        {"split": sizes[0]["split"]} if len(sizes) == 1 else {},
        "sizes",
        measure="number of words",
        column="words" if len(sizes) == 1 else "",
    )


def _sentences(bins: list[Row], mean: float) -> Finding:
    half, total = 0, sum(row["count"] for row in bins)
    for row in bins:
        half += row["count"]
        if 2 * half >= total:
            median = row["last"]
            break
    longest = next(row["last"] for row in reversed(bins) if row["count"])
    half_of_them = f"; at least half of the sentences have at most {whole(median)}, all"
    return Finding(
        f"A sentence has {decimal(mean, 1)} words on average"
        f"{half_of_them if median < longest else ','} at most {whole(longest)}.",
        mean,
        None,
        None,
        "supported",
        "lengths",
        figure="lengths",
        measure="mean length of sentences",
        unit="words",
    )


def _layers(tables: Tables) -> Finding:
    named = [
        layer
        for name in ("tags", "relations", "labels", "coreference")
        if name in tables
        for layer in (
            tables[name]["layer"].unique()
            if "layer" in tables[name]
            else [{"relations": "dependencies"}.get(name, name)]
        )
    ]
    layers = f"{plural(len(named), 'annotation layer')}: {listing(named, 12)}"
    table = next((n for n in ("labels", "tags", "relations", "coreference") if n in tables), "")
    return Finding(
        f"The text has {layers if named else 'no annotation layers'}.",
        len(named),
        None,
        None,
        "supported",
        table or "sizes",
        figure="labels" if table == "labels" else "",
        measure="number of annotation layers",
    )


def _classes(classes: pd.DataFrame) -> Finding:
    first = rows_of(classes)[0]
    same = classes[classes["label"] == first["label"]]
    share = first["count"] / same["count"].sum()
    others = classes["label"].nunique() - 1
    more = f"; {plural(others, 'more label')}" if others else ""
    return Finding(
        f"Always choosing `{first['value']}` is right for {percent(share)} of "
        f"{plural(same['count'].sum(), 'text')}: the majority baseline of the label "
        f"`{first['label']}` ({plural(len(same), 'class', 'classes')}{more}).",
        share,
        None,
        None,
        "supported",
        "classes",
        {"label": first["label"], "value": first["value"]},
        "classes",
        measure="share of the most frequent class",
        unit="%",
    )


def _values(scores: list[Row]) -> Finding:
    row = scores[0]
    return Finding(
        f"The label `{row['label']}` of {plural(row['count'], 'text')} has a mean of "
        f"{decimal(row['mean'])} (from {decimal(row['min'])} to {decimal(row['max'])}).",
        row["mean"],
        None,
        None,
        "supported",
        "scores",
        {"label": row["label"]},
        "scores",
        measure="mean of the first numeric label",
        column="mean",
    )


def _relations(relations: list[Row]) -> Finding:
    total = sum(row["count"] for row in relations)
    share = sum(row["share"] * row["count"] for row in relations) / total
    first = relations[0]
    return Finding(
        f"One fixed offset per relation finds {percent(share)} of governors, the baseline of a "
        f"syntactic head (the most frequent relation, `{first['relation']}`: "
        f"{percent(first['share'])} at {signed(whole(first['offset']))}).",
        share,
        None,
        None,
        "supported",
        "relations",
        figure="relations",
        measure="share of governors at the most frequent offset of their relation",
        unit="%",
    )


def _tags(tags: pd.DataFrame) -> Finding:
    layer = tags["layer"].iloc[0]
    same = tags[tags["layer"] == layer]
    total = same["count"].sum()
    frequent = [f"`{row['tag']}` ({percent(row['count'] / total)})" for row in rows_of(same)[:3]]
    return Finding(
        f"The most frequent of {plural(len(same), 'tag')} of `{layer}` "
        f"{'is' if len(frequent) == 1 else 'are'} {listing(frequent)}.",
        same["count"].iloc[0] / total,
        None,
        None,
        "supported",
        "tags",
        {"layer": layer, "tag": same["tag"].iloc[0]},
        "tags",
        measure="share of the most frequent tag",
        unit="%",
    )


def _words(words: list[Row], n_words: int) -> Finding:
    share = sum(row["count"] for row in words[:FREQUENT]) / n_words
    zipf = zipf_fit([row["count"] for row in words])
    law = ""
    if zipf is not None:
        law = (
            f"; over the first {whole(zipf.last)} ranks, counts fall with rank to the power "
            f"{decimal(zipf.slope, 2)} (Zipf's law: −1)"
        )
    return Finding(
        f"The {FREQUENT} most frequent words make up {percent(share)} of the text{law}.",
        share,
        None,
        None,
        "supported",
        "words",
        figure="words",
        measure=f"share of the {FREQUENT} most frequent words",
        unit="%",
    )


# --- profile --------------------------------------------------------------------------------------

PREDICTED = {
    "causal": "next pieces",
    "masked": "masked pieces",
    "pseudo": "pieces masked alone",
    "permuted": "pieces in random orders",
    "seq2seq": "output pieces",
    "bidirectional": "next and previous words",
}
LARGEST = 4  # kinds of parts that are named


def profile(tables: Tables) -> Iterator[Finding]:
    """How well the model predicts the corpus, if one was given; its size and where it is."""
    if "losses" in tables:
        for objective, losses in tables["losses"].groupby("objective", sort=False):
            yield from _losses(str(objective), losses)
    facts = dict(zip(tables["facts"]["fact"], tables["facts"]["value"], strict=True))
    stacks = [
        f"{row['stack']} of {plural(row['layers'], 'layer')} "
        + (
            f"with {plural(row['heads'], 'head')} ({row['kinds']})"
            if row["heads"]
            else "(no heads)"
        )
        for row in rows_of(tables["stacks"])
    ]
    layers = f": {listing(stacks)}" if stacks else ""
    n_parameters = int(facts["parameters"])
    yield Finding(
        f"The model ({facts['family']}, width {whole(int(facts['width']))}) has "
        f"{whole(n_parameters)} parameters{layers}.",
        n_parameters,
        None,
        None,
        "supported",
        "facts",
        {"fact": "parameters"},
        measure="number of parameters",
    )
    if len(tables["modules"]) > 1:
        yield _parts(tables["modules"])


def _losses(objective: str, losses: pd.DataFrame) -> Iterator[Finding]:
    prefix = "" if objective == "causal" else f"{objective}_"
    rows = {str(row["metric"]).removeprefix(prefix): row for row in rows_of(losses)}
    what, loss, accuracy = PREDICTED[objective], rows["loss"], rows["accuracy"]
    split = "The" if loss["split"] == WHOLE else f"On {loss['split']}, the"
    if not loss["n"]:
        yield _measured(
            loss, f"No loss was measured: the texts have no {what} to score.", f"loss on {what}"
        )
        return
    n = whole(accuracy["n"])  # of both directions, if there are two; `loss` counts the words
    perplexity = rows["perplexity"]["value"]
    shown = f"perplexity {decimal(perplexity)}; " if perplexity != math.inf else ""
    ends = None
    if "loss_lower" in rows:  # over orders of prediction
        ends = rows["loss_lower"]["value"], rows["loss_upper"]["value"]
        shown += f"95 % interval over orders {decimal(ends[0])} to {decimal(ends[1])}; "
    yield _measured(
        loss,
        f"{split} loss on {what} is {decimal(loss['value'])} nats ({shown}n = {n}).",
        f"loss on {what}",
        "nats",
        f"{n} {what}",
        ends,
    )
    yield _measured(
        accuracy,
        f"{percent(accuracy['value'])} of {n} {what} are predicted right.",
        f"accuracy on {what}",
        "%",
        f"{n} {what}",
    )
    if "bits_per_byte" in rows and rows["bits_per_byte"]["n"]:
        size, word = rows["bits_per_byte"], rows["perplexity_per_word"]
        is_finite = word["n"] and word["value"] != math.inf
        per_word = f" (perplexity per word: {decimal(word['value'])})" if is_finite else ""
        yield _measured(
            size,
            f"A byte of text costs {decimal(size['value'])} bits{per_word}, comparable between "
            "tokenizers.",
            f"bits per byte of {what}",
            "bits",
        )


def _measured(
    row: Row,
    claim: str,
    measure: str,
    unit: Any = "",
    n: str = "",
    interval: tuple[float, float] | None = None,
) -> Finding:
    """A measure of a loss; without a piece to score it is open."""
    return Finding(
        claim,
        row["value"] if row["n"] else None,
        interval,
        None,
        judged(True, row["n"]),
        "losses",
        keys_of(row, "split", "objective", "metric"),
        measure=measure,
        unit=unit,
        column="value" if row["n"] else "",
        decided_by="longer texts",
        n=n,
    )


def _parts(modules: pd.DataFrame) -> Finding:
    """Where the parameters are: by kind of part, or by the first part of the weights' names."""
    names = modules["module"].str.split("/").str[0]
    is_layer = names.str.contains(r" layer \d+$|all layers shared$")
    kinds = names.mask(is_layer, "layers")
    sizes = modules.groupby(kinds)["parameters"].sum().sort_values(ascending=False, kind="stable")
    total = sizes.sum()
    share = float(sizes.iloc[0] / total)
    largest = [
        f"{name} ({percent(size / total)})"
        for name, size in sizes.head(LARGEST).items()
        if size >= total / 100
    ]
    return Finding(
        f"The parameters are mostly in {listing(largest, LARGEST)}.",
        share,
        None,
        None,
        "supported",
        "modules",
        figure="modules",
        measure="share of the largest kind of part",
        unit="%",
    )


# --- minimal-pairs --------------------------------------------------------------------------------

TESTABLE = 5  # different exchanges: with fewer, no result of the sign-flip test is significant


def minimal_pairs(tables: Tables) -> Iterator[Finding]:
    """The accuracy over all pairs, the phenomena above chance, and the hardest phenomenon."""
    rows = rows_of(tables["pairs"])
    phenomena = [row for row in rows if row["phenomenon"] != "all"]
    for row in rows:
        if row["phenomenon"] == "all":
            is_more = (
                "is more probable"
                if row["above_chance"]
                else "is not shown to be preferred: it is more probable"
            )
            claim = f"The right sentence {is_more} in {percent(row['accuracy'])} of"
            yield _accuracy(row, claim, "accuracy over all pairs")
    if len(phenomena) > 1:
        above = [row["phenomenon"] for row in phenomena if row["above_chance"]]
        untested = [row for row in phenomena if _is_open(row)]
        names = f": {listing(above, 6)}" if 0 < len(above) < len(phenomena) else ""
        yield Finding(
            f"{capital(of_all(len(above), len(phenomena), 'phenomenon', 'phenomena'))} "
            f"{verb_of(len(above), 'is', 'are')} above chance and above choosing fewer "
            f"pieces{names}.",
            len(above),
            None,
            0,
            judged(above, above or not untested),
            "pairs",
            figure="accuracy",
            measure="phenomena above chance and choosing fewer pieces",
            decided_by="pairs with more different exchanges, such as “is” for “are”",
        )
        hardest = min(phenomena, key=lambda row: float(row["accuracy"]))
        claim = (
            f"The hardest phenomenon is {hardest['phenomenon']}: {percent(hardest['accuracy'])} of"
        )
        yield _accuracy(hardest, claim, "accuracy on the hardest phenomenon")


def _is_open(row: Row) -> bool:
    """Whether too few different exchanges were tested to see a high accuracy."""
    return bool(not row["above_chance"] and row["exchanges"] < TESTABLE)


def _accuracy(row: Row, claim: str, measure: str) -> Finding:
    return Finding(
        f"{claim} {plural(row['n'], 'pair')} (chance: 50 %; always choosing fewer pieces: "
        f"{percent(row['fewer_pieces'])}; {p_text(row['p'])}).",
        row["accuracy"],
        (row["lower"], row["upper"]),
        max(0.5, row["fewer_pieces"]),
        judged(row["above_chance"], not _is_open(row)),
        "pairs",
        {"phenomenon": row["phenomenon"]},
        "accuracy",
        measure=measure,
        unit="%",
        column="accuracy",
        decided_by="pairs with more different exchanges, such as “is” for “are”",
        n=plural(row["n"], "pair"),
    )


# --- trigram --------------------------------------------------------------------------------------

SCORED = 30  # pieces; with fewer, there are too few documents for the bootstrap


def trigram(tables: Tables) -> Iterator[Finding]:
    """Whether the model is better than trigrams in nats and in accuracy."""
    rows = {row["measure"]: row for row in rows_of(tables["scores"])}
    row = rows["perplexity"]
    yield _gain(
        row,
        f"perplexity {_perplexity(row['model'])} against {_perplexity(row['trigram'])}",
        f"{signed(decimal(row['gain'], 2))} nats per piece",
        (decimal(row["lower"], 2), decimal(row["upper"], 2)),
        "nats",
    )
    row = rows["accuracy"]
    yield _gain(
        row,
        f"{percent(row['model'])} right against {percent(row['trigram'])}",
        f"{signed(decimal(100 * row['gain'], 1))} points",
        (decimal(100 * row["lower"], 1), decimal(100 * row["upper"], 1)),
        "points",
    )


def _perplexity(value: Any) -> str:
    return decimal(value) if value != math.inf else "beyond 10^300"


def _gain(row: Row, both: str, gain: str, ends: tuple[str, str], unit: Any) -> Finding:
    is_worse = row["upper"] < 0 and row["p"] < SIGNIFICANT
    holds = "is better than trigrams" if row["better"] else "does not beat trigrams"
    holds += ", and is worse" if is_worse else ""
    return Finding(
        f"The model {holds}: {both} on {plural(row['n'], 'piece')} (gain {gain}, 95 % "
        f"{ends[0]} to {ends[1]}; {p_text(row['p'])}).",
        row["gain"],
        (row["lower"], row["upper"]),
        0.0,
        judged(row["better"], row["n"] >= SCORED and row["lower"] < row["upper"]),
        "scores",
        {"measure": row["measure"]},
        "scores",
        measure=f"gain over trigrams in {row['measure']}",
        unit=unit,
        column="gain",
        decided_by="more sentences",
        n=plural(row["n"], "piece"),
    )
