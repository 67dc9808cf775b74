"""The page of one layer: what it writes, what could be predicted after it, and what changes by it.

As on the page of a head, the switch changes the model in the top bar. Costs: forward passes with
and without the edit, and the model's head for every layer; the open tab only.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import streamlit as st

from workbench.analyses.editing.views import part, switch
from workbench.analyses.editing.views.switch import STATES
from workbench.analyses.heads.views import all_heads
from workbench.analyses.heads.views.all_heads import HEAD
from workbench.analyses.lenses.views import layers as lens
from workbench.analyses.lenses.views import parts as contributions
from workbench.analyses.predictions.views import page as predictions
from workbench.analyses.predictions.views.choices import AT, row
from workbench.app import cache, choice, navigation, selection, style, tables_and_figures
from workbench.app.runs import context
from workbench.app.tables_and_figures import Column
from workbench.app.text import errors_shown, plain
from workbench.app.token_views.component import token_views
from workbench.app.token_views.views import Choice, Predictions, bars
from workbench.core.findings import whole
from workbench.core.head_names import FIRST, at_state, state_name
from workbench.models.edit_terms import layer_places
from workbench.models.references import with_edit

if TYPE_CHECKING:
    import pandas as pd
    from spacy.tokens import Doc

    from workbench.analyses.predictions.views.results import Side
    from workbench.engine.model import Model
    from workbench.engine.taps import StackName
    from workbench.runs.run import Run

SHOWN = 5  # choices after a layer
PROBES = "edge-probing"


class Layer(NamedTuple):
    """A layer, by its stack and its number from 1."""

    stack: "StackName"
    number: int


def page() -> None:
    """Draw the page."""
    style.draw_text_page()
    with errors_shown(stop=True):
        _draw()


def _draw() -> None:
    ref, plain_ref, model = part.opened()
    layers = layers_of(model)
    if not layers:
        _without_layers(model)
        return
    name = part.in_address(selection.LAYER, "layer", list(layers), next(iter(layers)))
    layer = layers[name]
    st.title(f"Layer {plain(name)} of {plain(choice.name_of(plain_ref, 'models'))}", anchor=False)
    st.caption(
        "What this layer does: what it writes into a text, what could be predicted after it, what "
        "its heads do and probes find in it, and the predictions without it."
        + ("" if model.sites else f" {plain(_no_heads(model))}")
    )
    links = st.container(horizontal=True)
    with row():
        part.choose(selection.LAYER, "layer", list(layers), name)
        read = predictions.own_text(plain_ref)
    places = places_of(model, layer)
    with st.container(key="switch", horizontal=True, vertical_alignment="bottom"):
        names = [*STATES] if model.sites else [state for state in STATES if state != "mean"]
        switch.switch(ref, [*places.values()], names=names)
        for what, place in places.items() if len(places) > 1 else ():
            switch.switch(ref, [place], f"Its {what}", ("on", "off"))
        switch.edits(ref)
    doc = read()
    sides: Sequence[Side] = ()
    with errors_shown():
        sides = predictions.draw_sides(plain_ref, doc, ref if ref != plain_ref else "")
        part.compared(sides, "Turn it off, and the predictions without it stand next to these.")
    with links:
        _links(doc.text)
    _tabs(layer, sides, sides[0].doc if sides else doc, ref, plain_ref)


def layers_of(model: "Model") -> dict[str, Layer]:
    """The layers of a model by their names: `3`, or `decoder 3` of several stacks."""
    stacks = [stack for stack in model.stacks if stack.layers]
    return {
        f"{stack.name} {number}" if len(stacks) > 1 else str(number): Layer(stack.name, number)
        for stack in stacks
        for number in range(FIRST, stack.layers + FIRST)
    }


def places_of(model: "Model", layer: Layer) -> dict[str, str]:
    """The parts of a layer, as an edit names them."""
    kinds = [str(site.kind) for site in model.sites if site.stack == layer.stack]
    return layer_places(layer.stack, kinds, layer.number - FIRST, len(model.stacks) > 1)


def _without_layers(model: "Model") -> None:
    """Say that a model has no layers, with a link to what it has."""
    st.header("This model has no layers", anchor=False)
    st.text(f"{model.name} has one vector for each word, in every text: there is nothing above it.")
    navigation.link("words", "Nearest words", query_params=choice.in_url())


def _links(text: str) -> None:
    """Draw links to the same text on other pages."""
    query = {**choice.in_url(), "text": text}
    at = {AT: st.query_params[AT]} if AT in st.query_params else {}
    navigation.link(
        "predict",
        "All layers: When?",
        icon=":material/layers:",
        query_params={**query, **at, "view": "When?"},
    )
    navigation.link("words", "Nearest words", icon=":material/text_fields:", query_params=query)
    navigation.link("heads", "All heads", icon=":material/grid_view:", query_params=choice.in_url())


def _tabs(layer: Layer, sides: "Sequence[Side]", doc: "Doc", ref: str, plain_ref: str) -> None:
    """Draw the open tab; what the layer writes and its heads are of the model without the edit."""
    model = cache.model(plain_ref)
    names = ("What it writes", "After it", "Its heads", "Probes", "Loss without it")
    for name, place in zip(names, st.tabs(names, key="view", bind="query-params"), strict=True):
        if not place.open:
            continue
        with place, errors_shown():
            if name == "What it writes":
                _written(model, layer, sides, doc)
            elif name == "After it":
                _after(layer, sides)
            elif name == "Its heads":
                _heads(model, layer, plain_ref, doc.text)
            elif name == "Probes":
                _probes(layer, plain_ref)
            else:
                off = ",".join(f"{place}=0" for place in places_of(model, layer).values())
                part.loss_with(with_edit(plain_ref, off), "Loss without the layer")
                if ref not in (plain_ref, with_edit(plain_ref, off)):
                    part.loss_with(ref, "Loss with the edit")


# --- what it writes -------------------------------------------------------------------------------


def _written(model: "Model", layer: Layer, sides: "Sequence[Side]", doc: "Doc") -> None:
    """Draw how much this layer and the others write and change, and what it adds to a logit."""
    table = _states(part.content_of(model, doc), layer.stack, model, doc)
    own = table[table["layer"] == layer.number].iloc[0]
    sizes = [
        f"its {name} adds {own[name]:.2f} times the length of the state"
        for name in ("attention", "cross-attention", "MLP")
        if name in table and own[name] == own[name]
    ]
    kept = f"The states before and after the layer have a cosine of {own['kept']:.2f}"
    st.markdown(plain(f"{kept}{': ' if sizes else ''}{', '.join(sizes)}."))
    with errors_shown():
        _added(layer, sides)
    columns = {
        "layer": Column("layer"),
        "attention": Column("attention adds", "%.2f", help=_ADDS),
        "cross-attention": Column("cross-attention adds", "%.2f", help=_ADDS),
        "MLP": Column("MLP adds", "%.2f", help=_ADDS),
        "kept": Column("cosine with the layer before", "%.2f"),
        f"like {layer.number}": Column(f"cosine with layer {layer.number}", "%.2f"),
    }
    tables_and_figures.draw_columns(table.dropna(axis=1), columns, "layers of a text", 12)
    st.caption(
        "All layers, as means over the pieces of this text, in the model without the edit. With a "
        "cosine of 1, a layer keeps the direction of the states."
    )


_ADDS = "Length of what is added, divided by the length of the state before the layer."


@st.cache_data(max_entries=64, show_spinner="Reading the layers …")
def _states(key: str, stack: "StackName", _model: "Model", _doc: "Doc") -> "pd.DataFrame":
    from workbench.analyses.editing.effects import layers_of_text
    from workbench.engine.forward_pass import ALONE

    with ALONE:
        return layers_of_text(_model, _doc, stack)


def _added(layer: Layer, sides: "Sequence[Side]") -> None:
    """Say what the attention and the MLP of the layer add to the logit of the first choice."""
    if not sides or not sides[0].model.sites:
        return
    found = contributions.parts(sides[0], "", "")
    table = found.table
    own = table[(table["layer"] == layer.number - FIRST) & (table["stack"] == layer.stack)]
    if own.empty:
        st.text("Predictions are read from the other stack, to which this layer adds nothing.")
        return
    sums = [float(own.loc[own["part"] == name, "contribution"].sum()) for name in ("head", "mlp")]
    st.markdown(
        plain(
            f"To the logit of {found.target} its heads add {sums[0]:+.2f} and its MLP "
            f"{sums[1]:+.2f}, of {found.total:+.2f} in all."
        )
    )


# --- what could be predicted after it -------------------------------------------------------------


def _after(layer: Layer, sides: "Sequence[Side]") -> None:
    """Draw the most probable choices if the model ended before or after the layer."""
    if not sides:
        st.text("The model predicts nothing that could be read after a layer.")
        return
    found = lens.layers(sides[-1], False, False)
    table = found.table[found.table["stack"] == layer.stack].set_index("layer")
    if layer.number not in table.index:
        st.text("Predictions are read from the other stack, so nothing can be read after this one.")
        return
    if found.is_score:
        score = float(table["score"].to_dict()[layer.number])
        st.metric(f"Score after layer {layer.number}", f"{score:.3g}")
        return
    choices = found.choices[found.choices["stack"] == layer.stack]
    last = int(table.index.max())
    best = str(choices[choices["layer"] == last].sort_values("rank")["choice"].iloc[0])
    ranks = [whole(table.loc[number, "rank_final"]) for number in (layer.number - 1, layer.number)]
    st.markdown(
        plain(
            f"The prediction “{best}” is number {ranks[0]} of all choices after "
            f"{at_state(layer.number - 1)} and number {ranks[1]} after layer {layer.number}."
        )
    )
    lists = [
        Predictions(f"after {state_name(number)}", _best(choices, number))
        for number in dict.fromkeys((layer.number - 1, layer.number, last))
    ]
    token_views([bars("after", lists)], f"after a layer {sides[-1].ref}", lambda chosen: None)
    st.caption("The most probable choices if the model ended there (logit lens).")


def _best(choices: "pd.DataFrame", layer: int) -> list[Choice]:
    own = choices[choices["layer"] == layer].sort_values("rank")[:SHOWN]
    pairs = zip(own["choice"], own["probability"], strict=True)
    return [Choice(n, str(text), float(share)) for n, (text, share) in enumerate(pairs)]


# --- its heads and probes -------------------------------------------------------------------------


def _heads(model: "Model", layer: Layer, plain_ref: str, text: str) -> None:
    """Draw a link to each head of the layer, with its role."""
    if not model.sites:
        st.text(_no_heads(model))
        return
    run = part.result_of_heads(plain_ref)
    is_done = run is not None and run.status.state == "done"
    roles = _roles(run) if run is not None and is_done else {}
    own = {
        name: head
        for name, head in part.heads_of(model).items()
        if (head.stack, head.layer) == (layer.stack, layer.number - FIRST)
    }
    with st.container(horizontal=True):
        for name, head in own.items():
            role = roles.get(head, "") or ("no role" if is_done else "")
            navigation.link(
                "head",
                f"{name}: {role}" if role else name,
                icon=":material/toggle_off:",
                query_params={**choice.in_url(), HEAD: name, "text": text},
            )
    if not is_done:
        st.caption("The roles of the heads were not computed yet.")
        navigation.link("heads", "Compute them", query_params={**choice.in_url(), "new": "1"})


def _no_heads(model: "Model") -> str:
    return f"This model has no attention heads. {model.without_heads}."


def _roles(run: "Run") -> Mapping[part.Head, str]:
    table = all_heads.heads_of(run)
    keys = table[list(part.Head._fields)].itertuples(index=False)
    return {part.Head(*key): str(role) for key, role in zip(keys, table["roles"], strict=True)}


def _probes(layer: Layer, plain_ref: str) -> None:
    """Draw what probes find in the layer, next to the layer before and the best one."""
    run = context.best_result(PROBES, plain_ref, choice.corpus())
    query = {**choice.in_url(), choice.MODEL: part.unedited_name()}
    if run is None:
        st.text("No probe was trained yet on the layers of this model with this corpus.")
        navigation.link(
            "probing",
            "Probe its layers",
            icon=":material/stacked_line_chart:",
            query_params={**query, "new": "1"},
        )
        return
    table = tables_and_figures.table_of(run, "means")
    table = table[(table["mode"] == "layer") & (table["stack"] == layer.stack)]
    table = table[~table["control"].astype(bool) & (table["encoder"] == "model")]
    table = table[table["share"] == table["share"].max()]
    wide = table.pivot_table("mean", ["task", "probe"], "layer")
    if layer.number not in wide:
        st.text("This layer was not probed.")
        return
    best = wide.idxmax(axis=1)
    gained = wide[layer.number] - wide.get(layer.number - 1, float("nan"))
    shown = wide.assign(own=wide[layer.number], gained=gained, best=best.map(state_name))
    top = shown.index[best == layer.number].get_level_values("task").unique()
    st.markdown(
        plain(
            f"Of all layers, layer {layer.number} is the best for: {', '.join(top) or 'no task'}."
        )
    )
    columns = {
        "task": Column("task"),
        "probe": Column("probe"),
        "own": Column(f"F1 of layer {layer.number}", "%.1f", True),
        "gained": Column(f"more than {state_name(layer.number - 1)}", "%+.1f", True),
        "best": Column("best layer"),
    }
    tables_and_figures.draw_columns(shown.reset_index(), columns, "probes of a layer", 12)
    largest = gained.idxmax() if gained.notna().any() else None
    if largest is not None and gained[largest] > 0:
        st.caption(plain(f"It adds most for {largest[0]}: {100 * gained[largest]:.1f} points."))
    navigation.link(
        "probing", "The whole result", icon=":material/arrow_forward:", query_params=query
    )
