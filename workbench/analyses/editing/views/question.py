"""The question "What does this head do?": a box for the head, and its role on a corpus.

Costs: opening the model for the names of its heads; reading the table of heads of a run.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import streamlit as st

from workbench.analyses.editing.views.part import heads_of
from workbench.analyses.heads.views import all_heads
from workbench.analyses.heads.views.all_heads import HEAD, OpenHead
from workbench.analyses.heads.views.one_head import draw_evidence, in_words
from workbench.app import cache
from workbench.core.findings import Finding, capital, judged, plural
from workbench.drawing.heads import named
from workbench.experiment.definition import HEAD as COLUMNS

if TYPE_CHECKING:
    from workbench.runs.run import Run


def choose(models: Sequence[str], asked: Mapping[str, str]) -> dict[str, str]:
    """Draw the heads of the model; return the chosen one (default: the first)."""
    names = list(heads_of(cache.model(models[0])))
    if not names:
        return {}  # the check of the request says so
    first = names.index(asked[HEAD]) if asked.get(HEAD) in names else 0
    picked = st.selectbox(
        "Head", names, first, key=f"head of a question, {len(names)} {first}", width=200
    )
    return {HEAD: picked or names[first]}


def answer(runs: "Sequence[Run]", asked: Mapping[str, str]) -> Iterator[Finding]:
    """The roles of the head with the score and count that each stands on; or that it has none."""
    selection = _open(runs[0], asked)
    about, n_words = in_words(selection), int(selection.scores["n"])
    yield Finding(
        f"Head {selection.name} has a role. {capital(about)}"
        if about
        else f"Head {selection.name} has no role (measured on {plural(n_words, 'word')}).",
        None,
        None,
        None if about else 0.0,
        judged(about),
        "heads",
        {name: selection.scores[name] for name in COLUMNS},
        measure="role of the head",
        n=plural(n_words, "word"),
    )
    yield from runs[0].findings[:1]


def figure(runs: "Sequence[Run]", asked: Mapping[str, str]) -> None:
    """Draw the evidence: the relations, offsets and scores of the head."""
    draw_evidence(_open(runs[0], asked))


def _open(run: "Run", asked: Mapping[str, str]) -> OpenHead:
    names = named(all_heads.heads_of(run))
    return OpenHead(run, names.index(asked[HEAD]) if asked.get(HEAD) in names else 0)
