"""Search over heads in plain words: "follows subjects", "previous word", "copies".

The words name a score that the experiment `heads` has of every head; heads are ranked by it. Costs:
a pass over a table.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import streamlit as st

from workbench.analyses.heads.figures import grid
from workbench.analyses.heads.views.all_heads import OpenHead, set_head
from workbench.app import tables_and_figures
from workbench.app.tables_and_figures import Column
from workbench.app.text import plain
from workbench.core.findings import listing
from workbench.drawing import heads as names
from workbench.experiment.definition import HEAD

if TYPE_CHECKING:
    import pandas as pd

FIND = "find"  # in the address
FEW = 8  # rows in view
SCORES: Mapping[str, str] = {
    "copy": "induction",
    "induction": "induction",
    "duplicate": "duplicate",
    "rare word": "rarest word",
    "rarest word": "rarest word",
    "first token": "first",
    "beginning": "first",
    "separator": "separator",
    "special token": "special pieces",
    "coreference": "coreference",
    "pronoun": "coreference",
    "mention": "coreference",
    "own sentence": "own sentence",
    "same word for all": "vertical",
    "neighbour": "diagonal",
    "itself": "diagonal",
    "sharp": "confidence",
    "confident": "confidence",
    "broad": "entropy",
    "uniform": "entropy",
    "far": "distance",
    "distant": "distance",
}  # what is typed, and a score of `grid.SCORES`
OFFSETS: Mapping[str, int] = {"previous word": -1, "word before": -1, "next word": 1}
RELATIONS: Mapping[str, tuple[str, ...]] = {
    "subject": ("nsubj",),
    "object": ("obj", "dobj"),
    "indirect object": ("iobj",),
    "oblique": ("obl", "pobj"),
    "determiner": ("det",),
    "article": ("det",),
    "adjective": ("amod",),
    "adverb": ("advmod",),
    "auxiliary": ("aux",),
    "possessive": ("nmod:poss", "nmod", "poss"),
    "preposition": ("case", "prep"),
    "conjunction": ("cc",),
    "conjunct": ("conj",),
    "number": ("nummod",),
    "copula": ("cop",),
    "relative clause": ("acl:relcl", "acl", "relcl"),
    "clause": ("advcl", "ccomp"),
    "particle": ("compound:prt", "prt"),
}  # and relations of Universal Dependencies and of the Penn Treebank, the first that is there
OFFERED = (
    "follows subjects", "objects", "determiners", "previous word", "next word", "copies",
    "rare words", "first token", "separator", "coreference",
)  # fmt: skip


@dataclass(frozen=True)
class Ranked:
    """The heads that a search found, the best first; none if the run did not measure the score."""

    name: str  # of the score
    about: str
    table: "pd.DataFrame"  # stack, kind, layer, head, score, and more


def ranked(tables: "Mapping[str, pd.DataFrame]", query: str) -> Ranked | None:
    """The heads of a run of `heads`, ranked by the score that some words name; None: by none."""
    meant = max(_meant(tables, query), key=lambda pair: len(pair[0]), default=("", ""))[1]
    if meant in OFFSETS:
        offsets = tables["offsets"]
        rows = offsets[offsets["offset"] == OFFSETS[meant]].rename(columns={"share": "score"})
        return _sorted(meant, "share of words that attend most to this word", rows)
    if meant in grid.SCORES:
        score, heads = grid.SCORES[meant], tables["heads"]
        rows = heads[list(HEAD)].assign(score=heads[score.column], role=heads["role"])
        for end in ("lower", "upper"):
            if f"{score.column}_{end}" in heads:
                rows[end] = heads[f"{score.column}_{end}"]
        if score.baselines:
            rows["baseline"] = heads[list(score.baselines)].max(axis=1)
        if {"lower", "upper"} <= {*rows}:  # the tables' interval of a score over nothing
            rows = rows[(rows["lower"] > 0) | (rows["upper"] < 1)]
        return _sorted(meant, score.about, rows)
    if not meant:
        return None
    found = tables["relations"]
    found = found[found["relation"] == meant].assign(
        score=lambda rows: rows["accuracy"],
        baseline=lambda rows: rows[["baseline_accuracy", "baseline_first", "baseline_longest"]].max(
            axis=1
        ),
    )
    about = "accuracy of the head's largest attention on this relation, in its better direction"
    best = found.sort_values("score", ascending=False, kind="stable").drop_duplicates([*HEAD])
    return _sorted(meant, about, best)


def _sorted(name: str, about: str, rows: "pd.DataFrame") -> Ranked:
    ordered = rows.sort_values("score", ascending=False, kind="stable").reset_index(drop=True)
    return Ranked(name, about, ordered)


def _meant(tables: "Mapping[str, pd.DataFrame]", query: str) -> Iterator[tuple[str, str]]:
    """Phrases of a query, each with the score, offset or relation that it names."""
    known = {str(name) for name in tables["relations"]["relation"]}
    names_of = {**SCORES, **{name: name for name in (*grid.SCORES, *OFFSETS, *known)}}
    for phrase, labels in RELATIONS.items():
        if label := next((each for each in labels if each in known), None):
            names_of[phrase] = label
    words = " ".join(re.findall(r"[\w:]+", query.casefold()))
    singular = (re.sub(r"ies\b", "y", words), re.sub(r"s\b", "", words))
    words = f" {' '.join((words, *singular))} "
    for phrase, name in names_of.items():
        if f" {phrase.casefold()} " in words:
            yield phrase, name


# --- the view -------------------------------------------------------------------------------------

COLUMNS = {
    "name": Column("head"),
    "score": Column("score", "%.1f", True, "In %."),
    "size": Column("score", "%.2f"),
    "interval": Column("95 % CI"),
    "baseline": Column("baseline", "%.1f", True, "In %: the best simple rule, for the same words."),
    "direction": Column("attends to"),
    "n": Column("n", "%d"),
    "role": Column("role", help="The main role of the head, with its tests."),
}


def search(selection: OpenHead) -> None:
    """Draw a box for words, and the heads that they name; a ticked one is opened."""
    query = st.text_input(
        "Find heads",
        key=FIND,
        bind="query-params",
        placeholder="follows subjects, previous word, copies …",
        max_chars=80,
    )
    if not query or not query.strip():
        st.caption(
            "Name what a head should do, and all heads are ranked by its score: "
            f"{', '.join(OFFERED)}, or a relation such as nsubj."
        )
        return
    found = ranked(
        {name: selection.table(name) for name in ("heads", "relations", "offsets")}, query
    )
    if found is None:
        st.text(
            f"No score of heads is called “{query.strip()}”. There are {listing(OFFERED)}, and the "
            "relations of the corpus by their labels, such as nsubj."
        )
        return
    if found.table.empty:
        st.text(f"This run did not measure {found.name}.")
        return
    table, all_names = found.table, names.named(selection.heads)
    shown = table.assign(name=names.named(table, selection.several))
    if "direction" in table:
        ways = {way: name for name, way in grid.WAYS.items()}
        shown["direction"] = table["direction"].map(ways)
    if found.name in grid.SCORES and not grid.SCORES[found.name].is_share:
        shown = shown.rename(columns={"score": "size"})
    if {"lower", "upper"} <= {*table}:
        shown["interval"] = tables_and_figures.intervals(table)
    st.caption(plain(f"{found.name}: {found.about}. Tick a row to open its head."))
    key = f"found {selection.run.name} {query} {selection.row}"

    def ticked() -> None:
        rows = st.session_state[key]["selection"]["rows"]
        if rows and rows[0] < len(shown):
            set_head(selection.run, all_names.index(shown["name"].iloc[rows[0]]))

    tables_and_figures.draw_columns(
        shown, COLUMNS, key, FEW, on_select=ticked, selection_mode="single-row"
    )
