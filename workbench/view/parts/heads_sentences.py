"""Sentences in which a head is right, and in which it is wrong, with what it looked at marked.

Words come from anyone's corpus and are shown as text. Costs milliseconds.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.view.heads_sentences import Case, Sentence, cases, sentences_of
from workbench.view.parts import figures
from workbench.view.parts.heads_attention import link
from workbench.view.parts.plain import as_html, plain
from workbench.view.parts.probing_examples import marked
from workbench.view.theme import Kind

if TYPE_CHECKING:
    from workbench.view.parts.heads_run import Looked

MOST = 6  # sentences at a time
LONGEST = 60  # words of a sentence whose arcs are drawn
BESIDE = 2  # words beside the arcs
ASKED, GOLD, SEEN = "asked", "gold", "seen"
_STYLE = (
    "<style>ol.looks {margin: 0; padding-left: 1.4rem} ol.looks li {margin-bottom: 1rem;"
    " overflow-wrap: anywhere; line-height: 2} ol.looks p {margin: 0; line-height: 1.5;"
    " opacity: .85; font-size: .92em} ol.looks mark {color: inherit; padding: .1em .05em}</style>"
)


def sentences(seen: "Looked", relation: str, direction: str) -> None:
    """Right and wrong, side by side where there is room."""
    there = seen.run.tables
    if not {"looks", "words"} <= set(there) or (words := seen.table("words")).empty:
        st.caption("No sentences were kept: ask with examples.")
        return
    found = cases(seen.own("looks"), words, relation, direction, seen.here["kind"] == "causal")
    texts = sentences_of(words)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader("Sentences", anchor=False, width="content")
        arcs = st.toggle("Draw arcs", key="arcs", bind="query-params")
    right = [case for case in found if case.is_right]
    wrong = [case for case in found if not case.is_right]
    st.caption(
        f"Of {len(found)} words with {plain(relation)} in the {len(texts)} sentences that were "
        f"kept, {len(right)} are right. A word without a reliable maximum is wrong."
    )
    places = [st.container(), st.container()] if arcs else st.columns(2)
    for column, name, some in zip(places, ("right", "wrong"), (right, wrong), strict=True):
        with column:
            _listed(seen, name, some, texts, arcs)


def _listed(
    seen: "Looked", name: str, some: list[Case], texts: Mapping[int, Sentence], arcs: bool
) -> None:
    icon, colour = ("check", "green") if name == "right" else ("close", "orange")
    st.badge(f"{name}: {len(some)}", icon=f":material/{icon}:", color=colour)  # type: ignore[arg-type]
    first = 0
    if len(some) > MOST:
        first = (st.pagination(-(-len(some) // MOST), key=f"page of {name}") - 1) * MOST
    shown = some[first : first + MOST]
    if not shown:
        st.text("None.")
        return
    st.html(listed(shown, texts, figures.kind(), first, arcs))
    link(seen, shown[0])


def listed(
    shown: Sequence[Case],
    texts: Mapping[int, Sentence],
    kind: Kind,
    first: int = 0,
    arcs: bool = False,
) -> str:
    """Cases as HTML."""
    items = [f"<li>{_one(case, texts[case.sentence], kind, arcs)}</li>" for case in shown]
    return f'{_STYLE}<ol class="looks" start="{first + 1}">{"".join(items)}</ol>'


def _one(case: Case, sentence: Sentence, kind: Kind, arcs: bool) -> str:
    marks = [(case.word, ASKED), *((gold, GOLD) for gold in case.gold)]
    if case.looks_at >= 0:
        marks.append((case.looks_at, SEEN))
    spans = [sentence.spans[word] for word, _ in marks]
    shown = marked(sentence.text, spans, kind, [name for _, name in marks])
    said = [f"<b>{as_html(word, 40)}</b>" for word in sentence.words]
    looked = (
        f"looks at {said[case.looks_at]}, weight {case.weight:.2f}"
        if case.looks_at >= 0
        else "has no reliable maximum"
    )
    gold = " or ".join(said[word] for word in case.gold)
    picture = _arcs(case, sentence, kind) if arcs else ""
    return f"<div>{shown}</div><p>{said[case.word]} {looked}; gold: {gold}</p>{picture}"


def _arcs(case: Case, sentence: Sentence, kind: Kind) -> str:
    """The gold arcs and the look, drawn over the words."""
    from workbench.view.parts import trees

    if len(sentence.words) > LONGEST:
        return ""
    look = f"{case.weight:.2f}"
    drawn = [
        trees.arc(case.word, gold, f"{GOLD}, {look}" if gold == case.looks_at else GOLD)
        for gold in case.gold
    ]
    told = f"{sentence.words[case.word]}: " + ", ".join(sentence.words[gold] for gold in case.gold)
    if case.looks_at not in (-1, case.word, *case.gold):  # across texts it may be the same word
        drawn.append(trees.arc(case.word, case.looks_at, f"{SEEN}, {look}"))
        told += f"; {SEEN}: {sentence.words[case.looks_at]}"
    words = [trees.word(text) for text in sentence.words]
    return trees.picture(*_around(words, drawn), kind, "What it looked at", told)


def _around(
    words: list[dict[str, str]], arcs: list[dict[str, Any]]
) -> tuple[list[dict[str, str]], list[dict[str, Any]]]:
    """The words under the arcs and a few beside them, so that no arc is out of view."""
    from workbench.view.parts import trees

    first = max(0, min(arc["start"] for arc in arcs) - BESIDE)
    last = min(len(words), max(arc["end"] for arc in arcs) + BESIDE + 1)
    before = [trees.word("…")] if first else []
    after = [trees.word("…")] if last < len(words) else []
    moved = len(before) - first
    shown = [{**arc, "start": arc["start"] + moved, "end": arc["end"] + moved} for arc in arcs]
    return [*before, *words[first:last], *after], shown
