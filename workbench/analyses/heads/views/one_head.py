"""One head and the evidence for its roles: scores, offsets, relations and sentences.

Costs: reading a run's tables, which are cached.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.analyses.heads.figures import grid
from workbench.analyses.heads.figures import heads as drawn
from workbench.analyses.heads.figures.heads import Case, Sentence, cases, sentences_of
from workbench.analyses.heads.roles import DIRECTIONS
from workbench.analyses.heads.views import all_heads as heads_views
from workbench.analyses.heads.views.all_heads import OpenHead
from workbench.app import choice, navigation, tables_and_figures, text
from workbench.app.text import as_html, plain, shortened
from workbench.core.findings import p_text, plural, shown, signed, span, verb_of, whole
from workbench.core.head_names import KIND_NAMES, ROLES, block_name, head_number
from workbench.drawing import sentence as sentence_drawing
from workbench.drawing.sentence import marked
from workbench.drawing.theme import Kind

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


def evidence(selection: OpenHead) -> None:
    """Draw the roles of the open head, its offsets and relations, and last its scores.

    Offsets come first for a positional head, else relations with their sentences.
    """
    st.subheader(f"Head {plain(selection.name)}", anchor=False)
    with st.container(horizontal=True, vertical_alignment="center"):
        draw_roles(selection)
        link(selection)
        link_to_page(selection)
    if about := in_words(selection):
        st.caption(plain(about))
    draw_evidence(selection)


def _roles(selection: OpenHead) -> list[str]:
    return [role for role in str(selection.scores["roles"]).split(", ") if role]


def draw_roles(selection: OpenHead) -> None:
    """Draw the roles of the open head, the main one in blue."""
    roles = _roles(selection)
    for role in roles:
        st.badge(plain(role), color="blue" if role == selection.scores["role"] else "gray")
    if not roles:
        st.badge("no role", color="gray")


def in_words(selection: OpenHead) -> str:
    """What the roles of the open head mean, with the score and the count that each stands on."""
    scores, parts = selection.scores, []
    for role in _roles(selection):
        part = f"{role}: {ROLES.get(role, 'unknown')}"
        if (score := grid.score_of(role)) is not None:
            value = _formatted(scores[score.column], score.is_share)
            if score.baselines:
                best = max(scores[column] for column in score.baselines)
                value += f", baseline {_formatted(best, score.is_share)}"
            part += f" ({_which(role, scores)}{value}, n = {whole(_count(role, selection))})"
        parts.append(part)
    return f"{'; '.join(parts)}." if parts else ""


def _which(role: str, scores: "pd.Series") -> str:
    """The relation or the offset of a role."""
    if role == "syntactic":
        return f"{scores['best_relation']}, {DIRECTIONS[scores['best_direction']]}: "
    return f"offset {signed(whole(scores['offset']))}: " if role == "positional" else ""


def _count(role: str, selection: OpenHead) -> int:
    """The words, arcs, mentions or pieces that a role was tested on."""
    scores = selection.scores
    if role == "syntactic":
        rows = selection.rows_of("relations")
        for column in ("relation", "direction"):
            rows = rows[rows[column] == scores[f"best_{column}"]]
        return int(rows["n"].sum())
    if role == "positional":  # words without a neighbour at that offset do not count
        rows = selection.rows_of("offsets")
        return int(rows.loc[rows["offset"] == scores["offset"], "n"].sum())
    others = {"coreference": "coref_n", "induction": "induction_n", "duplicate": "induction_n"}
    return int(scores[others.get(role, "n")])


def draw_evidence(selection: OpenHead) -> None:
    """Draw the relations, offsets and scores of the open head."""
    scores = selection.scores
    views = [_relations, _offsets]
    if scores["role"] == "positional":
        views.reverse()
    for view in views:
        view(selection)
    _most_similar(selection)
    with st.expander("All scores of this head", icon=":material/table_rows:", type="compact"):
        _scores(scores)


def _offsets(selection: OpenHead) -> None:
    """Draw how often the head attends to each offset."""
    offsets = selection.rows_of("offsets")
    if offsets.empty:
        st.text("There are no offsets: no word has another word within the range of offsets.")
    else:
        _figure(selection, "offsets", drawn.offsets_of_head, offsets)


def _figure(
    selection: OpenHead,
    what: str,
    draw: "Callable[[pd.DataFrame], go.Figure]",
    table: "pd.DataFrame",
) -> None:
    """Draw a figure of the rows that a table has of the open head."""
    run = selection.run
    key = (what, str(run.path), run.status.ended, selection.row)
    figure = tables_and_figures.remembered(key, lambda: draw(table))
    tables_and_figures.draw_view(run, f"{what} of a head", figure, draw)


def _scores(scores: "pd.Series") -> None:
    """Draw all scores of a head, with intervals and baselines."""
    import pandas as pd

    rows = []
    for name, score in grid.SCORES.items():
        if score.above:
            continue
        bounds = [
            scores[column]
            for end in ("lower", "upper")
            if (column := f"{score.column}_{end}") in scores
        ]
        base = [scores[f"{score.of}_{end}"] for end in ("lower", "upper")] if score.of else bounds
        if base == [0, 1]:  # the tables' interval of a score over no words
            rows.append((name, "not computed", "", ""))
            continue
        interval = "–".join(f"{100 * bound:.1f}" for bound in bounds)
        baselines = [scores[column] for column in score.baselines]
        baseline = _formatted(max(baselines), score.is_share) if baselines else ""
        value = _formatted(scores[score.column], score.is_share)
        if name == "one offset":
            name = f"offset {scores['offset']:+d}"
        if name == "best relation" and scores["best_relation"]:
            name = f"{scores['best_relation']}, {DIRECTIONS[scores['best_direction']]}"
        rows.append((shortened(name), value, interval, baseline))
    columns = ["score", "value", "95 % CI", "baseline"]
    st.dataframe(
        pd.DataFrame(rows, columns=columns),
        hide_index=True,
        height=(len(rows) + 1) * 35 + 3,
        key="scores of a head",
    )
    with st.popover("Definitions of the scores"):
        text.facts((name, score.about) for name, score in grid.SCORES.items())
        st.text(
            "Baselines: a fixed offset, the first or the longest word; shuffled trees or the "
            "longest word; the nearest mention or the same word; uniform attention. Intervals: "
            "95 % bootstrap over documents."
        )


def _formatted(value: float, is_share: bool) -> str:
    return f"{100 * value:.1f} %" if is_share else f"{value:.2f}"


def _most_similar(selection: OpenHead) -> None:
    """Draw which head has the most similar attention."""
    rows = selection.rows_of("clusters") if "clusters" in selection.run.tables else None
    if rows is None or rows.empty:
        return
    row = rows.iloc[0]
    nearest = head_number(row["nearest_layer"], row["nearest_head"])
    if selection.several:
        nearest = f"{row['nearest_stack']} {row['nearest_kind']} {nearest}"
    message = f"Most similar head: {nearest} (distance {row['distance']:.2f}; 0 is identical)."
    if "kin" in selection.run.tables and len(others := selection.rows_of("kin")):
        other = others.iloc[0]
        kin = f"{other['kin_stack']} {other['kin_kind']} "
        kin += head_number(other["kin_layer"], other["kin_head"])
        message += f" In {other['model']}: {kin} (distance {other['distance']:.2f})."
    st.text(message)


def _relations(selection: OpenHead) -> None:
    """Draw the head's relations in one direction, and the sentences for one of them."""
    table = selection.rows_of("relations")
    if table.empty:
        st.text(
            "Relations are not computed for pieces. Set level to words."
            if selection.run.settings.get("level") == "pieces"
            else "The corpus has no dependencies that this head could follow."
        )
        return
    st.subheader("Relations", anchor=False)
    scores = selection.scores
    with st.container(horizontal=True, vertical_alignment="bottom"):
        default = next((n for n, way in grid.WAYS.items() if way == scores["best_direction"]), "")
        options = [n for n, way in grid.WAYS.items() if (table["direction"] == way).any()]
        way = heads_views.select_for_head(
            "A word attends to", options, heads_views.DIRECTION, default, selection
        )
        table = table[table["direction"] == grid.WAYS[way]]
        name = heads_views.select_for_head(
            "Relation",
            sorted(map(str, table["relation"])),
            heads_views.RELATION,
            str(scores["best_relation"]),
            selection,
        )
    _summary(table[table["relation"] == name].iloc[0], name)
    sentences(selection, name, grid.WAYS[way])
    _figure(selection, f"relations {way}", drawn.relations_of_head, table)


def _summary(row: "pd.Series", name: str) -> None:
    """Draw the accuracy of one relation with its baselines and tests."""
    verdict = (
        "The head beats its baselines significantly"
        if row["syntactic"]
        else "This is not enough for a syntactic role"
    )

    def percent(column: str) -> str:
        return f"{100 * row[column]:.1f} %"

    st.markdown(
        f"**{plain(name)}**: accuracy {percent('accuracy')} over {row['n']:,} dependents (95 % "
        f"interval {100 * row['lower']:.1f} to {100 * row['upper']:.1f}). Baselines: offset "
        f"{signed(whole(row['baseline_offset']))} "
        f"{percent('baseline_accuracy')}, first word {percent('baseline_first')}, longest word "
        f"{percent('baseline_longest')}, shuffled trees {percent('null_mean')}. Accuracy "
        f"with reliable maxima only: {percent('accuracy_confident')}; its difference to the best "
        f"baseline: {shown(row['difference'], 'F1')} points "
        f"({span(row['difference_lower'], row['difference_upper'], 'F1')}), "
        f"{p_text(row['p_value_baseline'])}; to shuffled trees "
        f"{p_text(row['p_value'])} (both corrected). {verdict}."
    )


# --- attention of one head ------------------------------------------------------------------------
#
# A link from a head to the same head on the page Attention: its model, text, cell and scores.


def link_to_page(selection: OpenHead) -> None:
    """Draw links to the pages of this head and of its layer, where they can be turned off."""
    if (query := address(selection)) and query[choice.MODEL] == choice.in_url()[choice.MODEL]:
        navigation.link(
            "head",
            "Turn it off",
            icon=":material/toggle_off:",
            query_params={**choice.in_url(), heads_views.HEAD: selection.name},
            help="The page of this head: what it does in a text, and what changes without it.",
        )
        number = block_name(selection.scores["layer"]).removeprefix("layer ")
        stack = f"{selection.scores['stack']} " if selection.several else ""
        navigation.link(
            "layer",
            "Its layer",
            icon=":material/layers:",
            query_params={**choice.in_url(), "layer": f"{stack}{number}"},
        )


def link(selection: OpenHead, case: Case | None = None) -> None:
    """Draw a link if the run's model is chosen, or a button that chooses it first."""
    query = address(selection, case)
    if not query:
        return
    label = "Show in Attention" if case is None else "Show the first in Attention"
    about = "The same head on a sentence of the corpus, with this run's scores as badges."
    icon = ":material/open_in_new:"
    chosen_here = {key: query[key] for key in choice.in_url()}
    if choice.in_url() == chosen_here:
        navigation.link("attention", label, icon=icon, query_params=query, help=about)
    elif st.button(
        label,
        icon=icon,
        help=f"{about} Chooses the model {plain(query[choice.MODEL])}.",
        type="tertiary",
        key=f"attention {case}",
    ):
        choice.choose_model(str(selection.run.spec.models[0].ref))
        choice.choose_corpus(str(selection.run.spec.corpora[0].ref))
        others = {key: value for key, value in query.items() if key not in chosen_here}
        navigation.switch("attention", others)


def address(selection: OpenHead, case: Case | None = None) -> dict[str, str]:
    """Query parameters for the page Attention; empty if the model cannot be opened again."""
    spec, scores = selection.run.spec, selection.scores
    model, corpus = spec.models[0].ref, spec.corpora[0].ref if spec.corpora else None
    if model is None or corpus is None:
        return {}
    stack, kind = str(scores["stack"]), str(scores["kind"])
    query = {
        choice.MODEL: choice.named(model, "models"),
        choice.CORPUS: choice.named(corpus, "corpora"),
        "unit": "words",
        "head": head_number(scores["layer"], scores["head"]),
        "badges": f"{selection.run.name}: heads",
    }
    if selection.several:
        query["attention"] = f"{stack} {KIND_NAMES.get(kind, kind)}"
    if spec.split:
        query |= choice.showing(spec.split, case.sentence if case else 0)
        if case and case.looks_at >= 0 and kind != "cross":  # items are the words
            query |= {"special": "hidden", "pin": f"{case.word}.{case.looks_at}.row"}
    return query


# --- sentences of one head ------------------------------------------------------------------------
#
# Sentences where a head is right and where it is wrong, with the attended word marked. Words come
# from any corpus and are shown as text.

PAGE = 6  # sentences at a time
LONGEST = 60  # words of a sentence whose arcs are drawn
CONTEXT = 2  # words shown on either side of the arcs
SOURCE, GOLD, ATTENDED = "word", "gold", "attended"
_STYLE = (
    "<style>ol.looks {margin: 0; padding-left: 1.4rem} ol.looks li {margin-bottom: 1rem;"
    " overflow-wrap: anywhere; line-height: 2} ol.looks p {margin: 0; line-height: 1.5;"
    " opacity: .85; font-size: .92em} ol.looks mark {color: inherit; padding: .1em .05em}</style>"
)


def sentences(selection: "OpenHead", relation: str, direction: str) -> None:
    """Draw right and wrong cases, side by side if no arcs are drawn."""
    tables = selection.run.tables
    if not {"looks", "words"} <= set(tables) or (words := selection.table("words")).empty:
        st.caption("The run stored no sentences. Run it again with max examples above 0.")
        return
    is_causal = selection.scores["kind"] == "causal"
    all_cases = cases(selection.rows_of("looks"), words, relation, direction, is_causal)
    texts = sentences_of(words)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader("Sentences", anchor=False, width="content")
        arcs = st.toggle("Draw arcs", key="arcs", bind="query-params")
    right = [case for case in all_cases if case.is_right]
    wrong = [case for case in all_cases if not case.is_right]
    st.caption(
        f"The {len(texts)} stored sentences have {plural(len(all_cases), 'word')} with "
        f"{plain(relation)}: {len(right) or 'none'} {verb_of(len(right), 'is', 'are')} right. "
        "A word without a reliable maximum counts as wrong."
    )
    columns = [st.container(), st.container()] if arcs else st.columns(2)
    for column, name, group in zip(columns, ("right", "wrong"), (right, wrong), strict=True):
        with column:
            _listed(selection, name, group, texts, arcs)


def _listed(
    selection: "OpenHead", name: str, group: list[Case], texts: Mapping[int, Sentence], arcs: bool
) -> None:
    icon, colour = ("check", "green") if name == "right" else ("close", "orange")
    st.badge(f"{name}: {len(group)}", icon=f":material/{icon}:", color=colour)  # type: ignore[arg-type]
    first = tables_and_figures.first_of_page(len(group), PAGE, f"page of {name}")
    shown = group[first : first + PAGE]
    if not shown:
        st.text("None.")
        return
    st.html(listed(shown, texts, tables_and_figures.kind(), first, arcs))
    link(selection, shown[0])


def listed(
    shown: Sequence[Case],
    texts: Mapping[int, Sentence],
    kind: Kind,
    first: int = 0,
    arcs: bool = False,
) -> str:
    """HTML of a list of cases."""
    items = [f"<li>{_one(case, texts[case.sentence], kind, arcs)}</li>" for case in shown]
    return f'{_STYLE}<ol class="looks" start="{first + 1}">{"".join(items)}</ol>'


def _one(case: Case, sentence: Sentence, kind: Kind, arcs: bool) -> str:
    marks = [(case.word, SOURCE), *((gold, GOLD) for gold in case.gold)]
    if case.looks_at >= 0:
        marks.append((case.looks_at, ATTENDED))
    spans = [sentence.spans[word] for word, _ in marks]
    shown = marked(sentence.text, spans, kind, [name for _, name in marks])
    words = [f"<b>{as_html(word, 40)}</b>" for word in sentence.words]
    attention = (
        f"attends to {words[case.looks_at]}, weight {case.weight:.2f}"
        if case.looks_at >= 0
        else "has no reliable maximum"
    )
    gold = " or ".join(words[word] for word in case.gold)
    picture = _arcs(case, sentence, kind) if arcs else ""
    return f"<div>{shown}</div><p>{words[case.word]} {attention}; gold: {gold}</p>{picture}"


def _arcs(case: Case, sentence: Sentence, kind: Kind) -> str:
    """HTML of the gold arcs and the attended word, drawn above the words."""
    if len(sentence.words) > LONGEST:
        return ""
    weight = f"{case.weight:.2f}"
    drawn = [
        sentence_drawing.arc(
            case.word, gold, f"{GOLD}, {weight}" if gold == case.looks_at else GOLD
        )
        for gold in case.gold
    ]
    alt = f"{sentence.words[case.word]}: " + ", ".join(sentence.words[gold] for gold in case.gold)
    if case.looks_at not in (-1, case.word, *case.gold):  # across texts it may be the same word
        drawn.append(sentence_drawing.arc(case.word, case.looks_at, f"{ATTENDED}, {weight}"))
        alt += f"; {ATTENDED}: {sentence.words[case.looks_at]}"
    words = [sentence_drawing.word(text) for text in sentence.words]
    return sentence_drawing.picture(*_clipped(words, drawn), kind, "Attended word", alt)


def _clipped(
    words: list[dict[str, str]], arcs: list[dict[str, Any]]
) -> tuple[list[dict[str, str]], list[dict[str, Any]]]:
    """The words under the arcs with a few around them, so that every arc is in view."""
    first = max(0, min(arc["start"] for arc in arcs) - CONTEXT)
    last = min(len(words), max(arc["end"] for arc in arcs) + CONTEXT + 1)
    before = [sentence_drawing.word("…")] if first else []
    after = [sentence_drawing.word("…")] if last < len(words) else []
    shift = len(before) - first
    shown = [{**arc, "start": arc["start"] + shift, "end": arc["end"] + shift} for arc in arcs]
    return [*before, *words[first:last], *after], shown
