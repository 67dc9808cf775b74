"""The findings of `attention-averages`: offsets, special tokens and parts of speech.

A pure function from the tables of a run to `Finding`s, the most important one first. They describe:
the experiment tests nothing. Costs: milliseconds.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from workbench.core.findings import (
    Finding,
    Tables,
    capital,
    keys_of,
    percent,
    plural,
    signed,
    whole,
)
from workbench.core.head_names import block_name, has_several_kinds, head_name
from workbench.experiment.definition import HEAD

MIN_WORDS = 30  # words of a part of speech; means over fewer are left out


def attention_averages(tables: Tables) -> Iterator[Finding]:
    """The strongest offset, the mean over heads, special tokens, and parts of speech."""
    if not tables["heads"]["n"].any():
        return
    offsets = _visible(tables["offsets"])
    if len(offsets):
        yield _strongest(tables["heads"], offsets)
        yield _profile(offsets)
    yield _special(tables["heads"])
    if "tags" in tables and len(_frequent(tables["tags"])):
        yield from _pair(tables["tags"])
        yield from _favourite(tables["tags"])


# --- offsets --------------------------------------------------------------------------------------


def _visible(offsets: pd.DataFrame) -> pd.DataFrame:
    """The offsets that heads can attend to: causal heads see no later word."""
    return offsets[(offsets["kind"] != "causal") | (offsets["offset"] <= 0)]


def _place(offset: int) -> str:
    return "the word itself" if offset == 0 else f"the word at offset {signed(whole(offset))}"


def _strongest(heads: pd.DataFrame, offsets: pd.DataFrame) -> Finding:
    row: Any = heads.iloc[heads["best_offset_attention"].argmax()]
    offset = int(row["best_offset"])
    mean = offsets.loc[offsets["offset"] == offset, "attention"].mean()
    return Finding(
        f"{capital(head_name(row, has_several_kinds(heads)))} gives {_place(offset)} "
        f"{percent(row['best_offset_attention'])} of its attention on average, the most of "
        f"{plural(len(heads), 'head')} (mean over heads at this offset: {percent(mean)}).",
        row["best_offset_attention"],
        None,
        None,
        "supported",
        "heads",
        keys_of(row, *HEAD),
        "offsets",
        measure="largest mean attention of a head to one offset",
        unit="%",
        column="best_offset_attention",
    )


def _profile(offsets: pd.DataFrame) -> Finding:
    """The mean over heads: its largest offset, and the most distant ones."""
    means = offsets.groupby("offset")["attention"].mean()
    best, farthest = int(means.index.to_numpy()[means.argmax()]), int(offsets["offset"].abs().max())
    far = offsets.loc[offsets["offset"].abs() == farthest, "attention"].mean()
    return Finding(
        f"Averaged over heads, {_place(best)} gets most attention, {percent(means[best])}; a word "
        f"{plural(farthest, 'word')} away gets {percent(far)}.",
        means[best],
        None,
        None,
        "supported",
        "offsets",
        {"offset": best},
        "offsets",
        measure="largest mean attention to one offset, averaged over heads",
        unit="%",
    )


# --- special tokens -------------------------------------------------------------------------------


def _special(heads: pd.DataFrame) -> Finding:
    mean = heads["special"].mean(skipna=False)
    if not heads["special"].any():
        claim = "All attention of words goes to words, none to special tokens."
    else:
        row: Any = heads.iloc[heads["special"].argmax()]
        low: Any = heads.iloc[heads["special"].argmin()]
        several = has_several_kinds(heads)
        claim = (
            f"Words give special tokens {percent(mean)} of their attention, averaged over heads: "
            f"from {percent(low['special'])} ({head_name(low, several)}) to "
            f"{percent(row['special'])} ({head_name(row, several)})."
        )
    return Finding(
        claim,
        mean,
        None,
        None,
        "supported",
        "heads",
        measure="mean attention to special tokens, averaged over heads",
        unit="%",
    )


# --- parts of speech ------------------------------------------------------------------------------


def _frequent(tags: pd.DataFrame) -> pd.DataFrame:
    """Pairs of parts of speech that both have enough words."""
    usual = tags.loc[tags["n"] >= MIN_WORDS, "tag"].unique()
    return tags[tags["tag"].isin(usual) & tags["to_tag"].isin(usual)]


def above_average(tags: pd.DataFrame) -> pd.DataFrame:
    """Return the mean attention between parts of speech over the heads of each layer.

    usual: the attention of all words to `to_tag`; above: the difference to it.
    """
    layer = [*HEAD[:3]]
    means = tags.groupby([*layer, "tag", "to_tag"], sort=False)[["attention", "n"]].mean()
    means = means.reset_index()
    by_target = [means[name] for name in (*layer, "to_tag")]
    total = (means["attention"] * means["n"]).groupby(by_target).transform("sum")
    means["usual"] = total / means["n"].groupby(by_target).transform("sum")
    means["above"] = means["attention"] - means["usual"]
    return means


def _pair(tags: pd.DataFrame) -> Iterator[Finding]:
    """The pair of two parts of speech furthest above the mean of all that attend to the second."""
    layer = [*HEAD[:3]]
    means = _frequent(above_average(tags))
    pairs = means[means["tag"] != means["to_tag"]]
    if pairs.empty:
        return
    row: Any = pairs.iloc[pairs["above"].argmax()]
    kind = "" if not has_several_kinds(tags) else f" of the {row['stack']}"
    kind += " (cross-attention)" if kind and row["kind"] == "cross" else ""
    yield Finding(
        f"{row['tag']} attends to {row['to_tag']} most above average in "
        f"{block_name(row['layer'])}{kind}: {percent(row['attention'])} of its attention (all "
        f"words: {percent(row['usual'])}).",
        row["attention"],
        None,
        None,
        "supported",
        "tags",
        keys_of(row, *layer, "tag", "to_tag"),
        "tags",
        measure="attention between the two parts of speech furthest above average",
        unit="%",
    )


def _favourite(tags: pd.DataFrame) -> Iterator[Finding]:
    """The part of speech that gets most attention beyond its share of the words."""
    counts = tags.groupby("tag")["n"].max()
    by_tag = (tags["attention"] * tags["n"]).groupby(tags["to_tag"]).sum()
    shares, words = by_tag / by_tag.sum(), counts / counts.sum()
    above = (shares - words)[counts >= MIN_WORDS].dropna()
    if above.empty:
        return
    tag: Any = above.idxmax()
    yield Finding(
        f"{tag} gets most attention for its frequency: {percent(shares[tag])} of the attention on "
        f"words, with {percent(words[tag])} of words.",
        shares[tag],
        None,
        None,
        "supported",
        "tags",
        {"to_tag": tag},
        "tags",
        measure="attention on the part of speech that gets most for its frequency",
        unit="%",
    )
