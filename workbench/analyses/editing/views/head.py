"""The page of one head: its role, what it does in a text, and what changes without it.

The switch changes the model in the top bar, so everything drawn here is of the edited model next to
the model without the edit. Costs: a forward pass with and without the edit; the open tab only.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st

from workbench.analyses.attention.views import answers as attention_answers
from workbench.analyses.attention.views import choices as attention
from workbench.analyses.editing.views import part, switch
from workbench.analyses.editing.views.part import Head
from workbench.analyses.heads.views import all_heads
from workbench.analyses.heads.views.all_heads import HEAD, OpenHead
from workbench.analyses.heads.views.one_head import draw_evidence, draw_roles, in_words
from workbench.analyses.heads.views.search import search
from workbench.analyses.predictions.views import page as predictions
from workbench.analyses.predictions.views import results as predict_results
from workbench.analyses.predictions.views.choices import AT, row
from workbench.app import choice, navigation, style, tables_and_figures
from workbench.app.runs import context, new_run, run_view
from workbench.app.tables_and_figures import Column
from workbench.app.text import errors_shown, plain
from workbench.app.token_views.component import token_views
from workbench.app.token_views.views import grid
from workbench.core.findings import p_text, percent
from workbench.core.head_names import KIND_NAMES, block_name
from workbench.experiment.definition import EXPERIMENTS
from workbench.models.edit_terms import head_place
from workbench.models.references import split_ref

if TYPE_CHECKING:
    import pandas as pd
    from spacy.tokens import Doc

    from workbench.analyses.predictions.views.results import Side
    from workbench.engine.model import Model
    from workbench.runs.run import Run

Weights = Sequence[Sequence[float]]
TEXT = "text"  # in the address
ARCS = 6  # in view, the strongest
LONGEST = 40  # words of a map that is drawn here
CHOICES = 8  # most probable ones, to which a head adds


def page() -> None:
    """Draw the page."""
    style.draw_text_page()
    with errors_shown(stop=True):
        _draw()


def _draw() -> None:
    ref, plain_ref, model = part.opened()
    if not model.sites:
        attention.without_heads(model)
        return
    heads = part.heads_of(model)
    run = part.result_of_heads(ref) or part.result_of_heads(plain_ref)
    is_done = run is not None and run.status.state == "done"
    first = all_heads.first_of(all_heads.heads_of(run)) if run is not None and is_done else 0
    name = part.in_address(HEAD, "head", list(heads), list(heads)[min(first, len(heads) - 1)])
    head = heads[name]
    selection = _selection(run, head) if run is not None and is_done else None
    st.title(f"Head {plain(name)} of {plain(choice.name_of(plain_ref, 'models'))}", anchor=False)
    with st.container(horizontal=True, vertical_alignment="center"):
        if selection is not None:
            draw_roles(selection)
        links = st.container(horizontal=True)
    if selection is not None and (about := in_words(selection)):
        st.caption(plain(about))
    with row():
        part.choose(HEAD, "head", list(heads), name)
        read = predictions.own_text(plain_ref)
    is_several = len(model.stacks) > 1
    with st.container(key="switch", horizontal=True, vertical_alignment="bottom"):
        switch.switch(ref, [head_place(*head, is_several)])
        switch.edits(ref)
    doc = read()
    sides: Sequence[Side] = ()
    with errors_shown():
        sides = predictions.draw_sides(plain_ref, doc, ref if ref != plain_ref else "")
        part.compared(
            sides, "Turn the head off, and the predictions without it stand next to these."
        )
    with errors_shown():
        _here(model, head, sides[-1].doc if sides else doc, plain_ref)
    with links:
        _links(name, head, len({each[:2] for each in heads.values()}) > 1, doc.text)
    _tabs(head, sides, run, selection)


def _selection(run: "Run", head: Head) -> OpenHead | None:
    """The head in a run; None if the run does not have it."""
    table = all_heads.heads_of(run)
    rows = table.index[(table[list(Head._fields)].apply(tuple, axis=1) == tuple(head))]
    return OpenHead(run, int(rows[0])) if len(rows) else None


def _links(name: str, head: Head, is_several: bool, text: str) -> None:
    """Draw links to the same head, text and place on other pages."""
    query = {**choice.in_url(), TEXT: text}
    with_head = {**query, HEAD: head.number, "from": "Your own text"}
    if is_several:
        with_head["attention"] = f"{head.stack} {KIND_NAMES.get(head.kind, head.kind)}"
    at = {AT: st.query_params[AT]} if AT in st.query_params else {}
    navigation.link(
        "attention", "In Attention", icon=":material/visibility:", query_params=with_head
    )
    navigation.link(
        "heads",
        "Among all heads",
        icon=":material/grid_view:",
        query_params={**choice.in_url(), choice.MODEL: part.unedited_name(), HEAD: name},
    )
    layer = block_name(head.layer).removeprefix("layer ")
    of_stack = f"{head.stack} {layer}" if is_several else layer
    navigation.link(
        "layer",
        f"Layer {layer}",
        icon=":material/layers:",
        query_params={**query, "layer": of_stack},
    )
    navigation.link(
        "predict", "Why? Explain", icon=":material/psychology:", query_params={**query, **at}
    )


# --- what it does in the text ---------------------------------------------------------------------


def _here(model: "Model", head: Head, doc: "Doc", plain_ref: str) -> None:
    """Draw where the head attends in the text: in a sentence, its largest weights, and a map."""
    from workbench.analyses.attention.capture import attention as capture_attention
    from workbench.analyses.attention.capture import blocks
    from workbench.analyses.attention.grids import Options, grid_of
    from workbench.analyses.attention.patterns import caption

    target = doc if len(model.stacks) > 1 else None
    is_long = len(blocks(model, doc, target)) > 1
    maps = capture_attention(model, doc, target, layers=[head.layer] if is_long else None)
    found = grid_of(maps, (head.stack, head.kind), Options(unit="words"))  # type: ignore[arg-type]
    at = found.layers.index(head.layer), found.heads.index(head.head)
    weights = found.map(*at)  # [rows, columns]
    corpus = attention_answers.on_corpus(plain_ref)
    left, right = st.columns([3, 7], gap="medium")
    left.subheader("What it does here", anchor=False)
    left.markdown(plain(caption(found, weights, *at, corpus)))
    rows, columns = found.sides.rows.names, found.sides.columns.names
    if max(len(rows), len(columns)) > LONGEST:
        right.caption("The text is too long for a map here; the page Attention shows it.")
        return
    strongest = _strongest(rows, columns, weights.tolist())
    left.caption(plain(f"Strongest: {strongest}."))
    view = grid(
        "map",
        "Attention of the head",
        rows,
        columns,
        weights.tolist(),
        tips=[
            [
                f"{one} attends to {other}: {weight:.3f}"
                for other, weight in zip(columns, line, strict=True)
            ]
            for one, line in zip(rows, weights.tolist(), strict=True)
        ],
        texts=[[f"{100 * weight:.0f}" for weight in line] for line in weights.tolist()],
        top=1.0,
        note="In %. A row is a word that attends, a column a word that it attends to.",
    )
    with right:
        token_views([view], "map of a head", lambda chosen: None)


def _strongest(rows: Sequence[str], columns: Sequence[str], weights: Weights) -> str:
    """The largest weight of each word, for the words with the largest ones: `they → because`."""
    best = [max(range(len(line)), key=line.__getitem__) for line in weights]
    found = [(line[to], one, to) for one, (line, to) in enumerate(zip(weights, best, strict=True))]
    return ", ".join(
        f"{rows[one]} → {columns[to]} {percent(weight)}"
        for weight, one, to in sorted(found, key=lambda arc: -arc[0])[:ARCS]
    )


# --- tabs -----------------------------------------------------------------------------------------


def _tabs(
    head: Head, sides: "Sequence[Side]", run: "Run | None", selection: OpenHead | None
) -> None:
    """Draw the open tab."""
    names = ("On the corpus", "What it writes", "Loss without it", "Find heads")
    for name, place in zip(names, st.tabs(names, key="view", bind="query-params"), strict=True):
        if not place.open:
            continue
        with place, errors_shown():
            if name == "What it writes":
                _written(head, sides)
            elif name == "Loss without it":
                _loss(head)
            elif selection is None:
                _no_result(run)
            elif name == "Find heads":
                search(selection)
            else:
                draw_evidence(selection)


def _no_result(run: "Run | None") -> None:
    """Draw the progress of the run that computes the roles, or the form that starts it."""
    if run is None:
        new_run.first(EXPERIMENTS["heads"])
    elif not run_view.watched(run):
        st.text("The run of heads has ended without a result. Its page has the reason.")
    else:
        st.text("This run does not have the head: the heads of the model have other numbers.")


def _written(head: Head, sides: "Sequence[Side]") -> None:
    """Draw what the head adds to the logits of the most probable choices, without the edit."""
    if not sides:
        st.text("The model predicts nothing to which a head could add.")
        return
    table = _written_of(sides[0].key, head, sides[0])
    if table.empty:
        st.text("This head writes to the encoder, and the predictions are read from the decoder.")
        return
    best = table.iloc[0]
    st.markdown(
        plain(
            f"To the logit of “{best['choice']}” the head adds "
            f"{best['contribution']:+.3f}, number {best['rank']} by size of "
            f"{best['heads']} heads."
        )
    )
    columns = {
        "choice": Column("choice"),
        "contribution": Column("contribution", "%+.3f"),
        "rank": Column("rank", "%d", help="Of all heads, by the size of the contribution."),
    }
    tables_and_figures.draw_columns(table, columns, "written by a head", CHOICES)
    st.caption(
        "Direct contributions of the head to the most probable choices in the model without the "
        "edit, with the scale of every norm held. Where the model's head is not linear (BERT), "
        "they are to its input, along the gradient of the logit. All parts are under “Who?” on "
        "the page Predict & explain."
    )


@st.cache_data(max_entries=64, show_spinner="Computing contributions …")
def _written_of(key: tuple[str, str, tuple[int, ...]], head: Head, _side: "Side") -> "pd.DataFrame":
    from workbench.analyses.editing.effects import written
    from workbench.engine.forward_pass import ALONE

    choices = predict_results.top(_side, CHOICES).choices
    with ALONE:
        return written(_side.model, predict_results.prediction_at(_side), choices, head)


# --- the loss -------------------------------------------------------------------------------------


def _loss(head: Head) -> None:
    """Draw the loss without the head by `head-ablation`, and that of the edit on some sentences."""
    ref = choice.model()
    plain_ref = split_ref(ref).unedited
    run = context.best_result("head-ablation", plain_ref, choice.corpus())
    query = {**choice.in_url(), choice.MODEL: part.unedited_name()}
    if run is None:
        st.text("No head was ablated yet in this model on this corpus.")
        navigation.link(
            "pruning",
            "Ablate every head",
            icon=":material/content_cut:",
            query_params={**query, "analysis": "Ablation", "new": "1"},
        )
    else:
        _ablated(run, head)
    if ref == plain_ref:
        st.caption("Turn parts off, and the loss with this edit can be measured here.")
        return
    part.loss_with(ref, "Loss with the edit")


def _ablated(run: "Run", head: Head) -> None:
    """Draw what ablating the head alone does to the loss and the accuracy."""
    table = tables_and_figures.table_of(run, "ablation")
    rows = table[(table[list(Head._fields)].apply(tuple, axis=1) == tuple(head))]
    for each in rows.to_dict("records"):
        change = f"{each['delta']:+.4f}; 95 % interval {each['lower']:+.4f} to {each['upper']:+.4f}"
        st.markdown(
            plain(
                f"Without this head (replaced by {each['mode']}), the {each['metric']} on "
                f"{choice.name_of(choice.corpus(), 'corpora')} goes from {each['base']:.4f} to "
                f"{each['ablated']:.4f} ({change}, {p_text(each['p_value'])}, "
                f"n = {each['sentences']:,} sentences)."
            )
        )
