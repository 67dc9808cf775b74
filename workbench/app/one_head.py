"""One head and what speaks for it: its roles and scores, where it looks, relations, sentences.

Costs reading a run's tables, which are kept.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.app import heads_views, sidebar, tables_and_figures, text
from workbench.app.attention import NAMES
from workbench.app.heads_views import Looked
from workbench.app.text import as_html, marked, plain, shortened
from workbench.figures import head_grid as names
from workbench.figures import heads as drawn
from workbench.figures.head_grid import GROUP
from workbench.figures.heads import Case, Sentence, cases, sentences_of
from workbench.figures.theme import Kind
from workbench.heads.roles import ROLES

if TYPE_CHECKING:
    import pandas as pd


def evidence(seen: Looked) -> None:
    """Everything that is known of the head."""
    here = seen.here
    st.subheader(f"Head {plain(seen.name)}", anchor=False)
    with st.container(horizontal=True, vertical_alignment="center"):
        found = [role for role in str(here["roles"]).split(", ") if role]
        for role in found:
            st.badge(plain(role), color="blue" if role == here["role"] else "gray")
        if not found:
            st.badge("no role", color="gray")
        link(seen)
    if found:
        st.caption(
            "; ".join(f"{plain(role)}: {ROLES.get(role, 'unknown')}" for role in found) + "."
        )
    left, right = st.columns([3, 2])
    with left:
        _scores(here)
    with right:
        own = seen.own("offsets")
        if own.empty:
            st.text("No word has a word near it, so there are no offsets.")
        else:
            draw = drawn.offsets_of_head
            tables_and_figures.draw_view(seen.run, "offsets of a head", draw(own), draw)
        _kin(seen)
    _relations(seen)


def _scores(here: "pd.Series") -> None:
    """All its scores, with intervals and baselines beside."""
    import pandas as pd

    rows = []
    for name, score in names.SCORES.items():
        if score.above:
            continue
        ends = [here[c] for end in ("lower", "upper") if (c := f"{score.column}_{end}") in here]
        nothing = [here[f"{score.of}_{end}"] for end in ("lower", "upper")] if score.of else ends
        if nothing == [0, 1]:  # of nothing, as the tables have it
            rows.append((name, "not asked", "", ""))
            continue
        interval = "–".join(f"{100 * end:.1f}" for end in ends)
        beside = [here[column] for column in score.baselines]
        baseline = _written(max(beside), score.is_share) if beside else ""
        value = _written(here[score.column], score.is_share)
        if name == "one offset":
            name = f"offset {here['offset']:+d}"
        if name == "best relation" and here["best_relation"]:
            name = f"{here['best_relation']}, {here['best_direction'].replace('-', ' ')}"
        rows.append((shortened(name), value, interval, baseline))
    columns = ["score", "value", "95 %", "baseline"]
    st.dataframe(
        pd.DataFrame(rows, columns=columns),
        hide_index=True,
        height=(len(rows) + 1) * 35 + 3,
        key="scores of a head",
    )
    with st.expander("What the scores are"):
        text.facts((name, score.about) for name, score in names.SCORES.items())
        st.text(
            "Baselines: a fixed offset, the first or the longest word; shuffled trees or the "
            "longest word; the nearest mention or the same word; uniform attention. Intervals: "
            "bootstrap over documents."
        )


def _written(value: float, is_share: bool) -> str:
    return f"{100 * value:.1f} %" if is_share else f"{value:.2f}"


def _kin(seen: Looked) -> None:
    """The head that looks most like it."""
    own = seen.own("clusters") if "clusters" in seen.run.tables else None
    if own is None or own.empty:
        return
    row = own.iloc[0]
    near = f"{row['nearest_layer']}-{row['nearest_head']}"
    if seen.several:
        near = f"{row['nearest_stack']} {row['nearest_kind']} {near}"
    said = f"Nearest in what it looks at: head {near}, {row['distance']:.2f} apart (0: the same)."
    if "kin" in seen.run.tables and len(other := seen.own("kin")):
        one = other.iloc[0]
        said += (
            f" In {one['model']}: {one['kin_stack']} {one['kin_kind']} {one['kin_layer']}-"
            f"{one['kin_head']}, {one['distance']:.2f} apart."
        )
    st.text(said)


def _relations(seen: Looked) -> None:
    """Its relations in one direction, and the sentences behind one of them."""
    table = seen.own("relations")
    if table.empty:
        st.text(
            "By pieces, relations are not asked for: see level."
            if seen.run.settings.get("level") == "pieces"
            else "The corpus has no dependencies that this head could follow."
        )
        return
    st.subheader("Relations", anchor=False)
    here = seen.here
    with st.container(horizontal=True, vertical_alignment="bottom"):
        usual = next((n for n, way in names.WAYS.items() if way == here["best_direction"]), "")
        there = [n for n, way in names.WAYS.items() if (table["direction"] == way).any()]
        way = heads_views.following("A word looks at", there, heads_views.DIRECTION, usual, seen)
        table = table[table["direction"] == names.WAYS[way]]
        name = heads_views.following(
            "Relation",
            sorted(map(str, table["relation"])),
            heads_views.RELATION,
            str(here["best_relation"]),
            seen,
        )
    draw = drawn.relations_of_head
    tables_and_figures.draw_view(seen.run, "relations of a head", draw(table), draw)
    _told(table[table["relation"] == name].iloc[0], name)
    sentences(seen, name, names.WAYS[way])


def _told(row: "pd.Series", name: str) -> None:
    sure = "beats its baselines, significantly" if row["syntactic"] else "not enough for a role"

    def at(column: str) -> str:
        return f"{100 * row[column]:.1f} %"

    st.markdown(
        f"**{plain(name)}**: {at('accuracy')} of {row['n']:,} dependents "
        f"({100 * row['lower']:.1f} to {100 * row['upper']:.1f}), reliable maxima alone "
        f"{at('accuracy_confident')}; at the offset {row['baseline_offset']:+d} "
        f"{at('baseline_accuracy')}, at the first word {at('baseline_first')}, at the longest "
        f"{at('baseline_longest')}, over shuffled trees {at('null_mean')}. Above the best of these "
        f"by {100 * row['difference']:.1f} points ({100 * row['difference_lower']:.1f} to "
        f"{100 * row['difference_upper']:.1f}), p = {row['p_value_baseline']:.3g}; above shuffled "
        f"trees p = {row['p_value']:.3g}, both corrected. {sure.capitalize()}."
    )


# --- attention of one head ------------------------------------------------------------------------
#
# From a head to the same head on the page Attention: its model, its text, its cell, its scores.
#
# Costs nothing.


def link(seen: Looked, case: Case | None = None) -> None:
    """A link, where the model can be opened again; a button, where another one is chosen now."""
    query = address(seen, case)
    if not query:
        return
    label = "Look at it in Attention" if case is None else "The first of these in Attention"
    about = "The same head on a sentence of the corpus, with this run's scores as badges."
    icon = ":material/open_in_new:"
    chosen_here = {key: query[key] for key in sidebar.in_url()}
    if sidebar.in_url() == chosen_here:
        st.page_link("pages/attention.py", label=label, icon=icon, query_params=query, help=about)
    elif st.button(
        label,
        icon=icon,
        help=f"{about} Chooses {plain(query[sidebar.MODEL])} as the model.",
        type="tertiary",
        key=f"attention {case}",
    ):
        sidebar.choose_model(str(seen.run.spec.models[0].ref))
        sidebar.choose_corpus(str(seen.run.spec.corpora[0].ref))
        rest = {key: value for key, value in query.items() if key not in chosen_here}
        st.switch_page("pages/attention.py", query_params=rest)


def address(seen: Looked, case: Case | None = None) -> dict[str, str]:
    """What the page Attention has to be told; nothing where the model cannot be opened."""
    spec, here = seen.run.spec, seen.here
    model, corpus = spec.models[0].ref, spec.corpora[0].ref if spec.corpora else None
    if model is None or corpus is None:
        return {}
    stack, kind = str(here["stack"]), str(here["kind"])
    own = seen.heads[(seen.heads[GROUP] == [stack, kind]).all(axis=1)]
    row = sorted(set(own["layer"])).index(here["layer"])
    query = {
        sidebar.MODEL: sidebar.named(model, "models"),
        sidebar.CORPUS: sidebar.named(corpus, "corpora"),
        "unit": "words",
        "cell": f"{row}.{here['head']}",
        "badges": f"{seen.run.name}: heads",
    }
    if seen.several:
        query["attention"] = f"{stack} {NAMES.get(kind, kind)}"
    if spec.split:
        query |= sidebar.showing(spec.split, case.sentence if case else 0)
        if case and case.looks_at >= 0 and kind != "cross":  # items are the words
            query |= {"special": "hidden", "pin": f"{case.word}.{case.looks_at}.row"}
    return query


# --- sentences of one head ------------------------------------------------------------------------
#
# Sentences in which a head is right, and in which it is wrong, with what it looked at marked.
#
# Words come from anyone's corpus and are shown as text. Costs milliseconds.

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
    first = tables_and_figures.first_of_page(len(some), MOST, f"page of {name}")
    shown = some[first : first + MOST]
    if not shown:
        st.text("None.")
        return
    st.html(listed(shown, texts, tables_and_figures.kind(), first, arcs))
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
    from workbench.app import dependency_tree

    if len(sentence.words) > LONGEST:
        return ""
    look = f"{case.weight:.2f}"
    drawn = [
        dependency_tree.arc(case.word, gold, f"{GOLD}, {look}" if gold == case.looks_at else GOLD)
        for gold in case.gold
    ]
    told = f"{sentence.words[case.word]}: " + ", ".join(sentence.words[gold] for gold in case.gold)
    if case.looks_at not in (-1, case.word, *case.gold):  # across texts it may be the same word
        drawn.append(dependency_tree.arc(case.word, case.looks_at, f"{SEEN}, {look}"))
        told += f"; {SEEN}: {sentence.words[case.looks_at]}"
    words = [dependency_tree.word(text) for text in sentence.words]
    return dependency_tree.picture(*_around(words, drawn), kind, "What it looked at", told)


def _around(
    words: list[dict[str, str]], arcs: list[dict[str, Any]]
) -> tuple[list[dict[str, str]], list[dict[str, Any]]]:
    """The words under the arcs and a few beside them, so that no arc is out of view."""
    from workbench.app import dependency_tree

    first = max(0, min(arc["start"] for arc in arcs) - BESIDE)
    last = min(len(words), max(arc["end"] for arc in arcs) + BESIDE + 1)
    before = [dependency_tree.word("…")] if first else []
    after = [dependency_tree.word("…")] if last < len(words) else []
    moved = len(before) - first
    shown = [{**arc, "start": arc["start"] + moved, "end": arc["end"] + moved} for arc in arcs]
    return [*before, *words[first:last], *after], shown
