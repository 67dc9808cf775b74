"""What the pages of a head, a layer and a word share: the model, its heads, and what changes.

Costs: opening a model (cached); a loss reads some sentences with and without the edit.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import streamlit as st

from workbench.analyses.editing.views import switch
from workbench.analyses.predictions.views import results as predict_results
from workbench.app import cache, choice, selection
from workbench.app.runs import context, run_list
from workbench.app.text import plain, shortened
from workbench.core.errors import WorkbenchError
from workbench.core.findings import percent
from workbench.core.head_names import head_number
from workbench.models.references import split_ref

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.analyses.editing.effects import Change
    from workbench.analyses.predictions.views.results import Side
    from workbench.engine.model import Model
    from workbench.runs.run import Run

SENTENCES = 200  # of the corpus, for a loss
_MEASURED = "edited model whose loss was requested"


class Head(NamedTuple):
    """A head, by the indices of a table of heads."""

    stack: str
    kind: str
    layer: int
    head: int

    @property
    def number(self) -> str:
        return head_number(self.layer, self.head)


def opened() -> "tuple[str, str, Model]":
    """The references of the chosen model, with and without its edit, and the model.

    If it cannot be opened, what is edited is drawn, as a way out.
    """
    ref = choice.model()
    plain_ref = split_ref(ref).unedited
    try:
        return ref, plain_ref, cache.model(ref)
    except WorkbenchError:
        if plain_ref != ref:
            switch.edits(ref)
        raise


def unedited_name() -> str:
    """The name of the chosen model without its edit, for addresses."""
    return choice.named(split_ref(choice.model()).unedited, "models")


def content_of(model: "Model", doc: "Doc") -> str:
    """The content of a model and a text, as a key of caches."""
    from workbench.corpora.encode import content_key

    return content_key(model, doc)


def heads_of(model: "Model") -> dict[str, Head]:
    """The heads of a model by their names, as on the page Heads."""
    heads = [
        Head(str(site.stack), str(site.kind), site.layer, head)
        for site in model.sites
        for head in range(site.heads)
    ]
    is_several = len({each[:2] for each in heads}) > 1
    return {f"{h.stack} {h.kind} {h.number}" if is_several else h.number: h for h in heads}


def result_of_heads(ref: str) -> "Run | None":
    """The best result of `heads` for a model, or the one under way."""
    found = context.results_of("heads", (ref,), (choice.corpus(),))
    done = (run for run in found if run.status.state == "done")
    return next(done, next(iter(found), None))


def compared(sides: "Sequence[Side]", otherwise: str) -> None:
    """Say how probable the first choice was, and is with the edit; `otherwise` without an edit."""
    if len(sides) < 2:
        if sides:
            st.caption(otherwise)
        return
    first = predict_results.top(sides[0], predict_results.COUNT)
    if first.is_score:
        return
    best = first.choices[0]
    after = predict_results.top(sides[1], predict_results.COUNT, also=(best,))
    st.caption(
        plain(
            f"With the edit, the probability of “{first.texts[0]}” goes from "
            f"{percent(first.probabilities[0], 1)} to {percent(after.known.get(best, 0.0), 1)}"
            + (
                "."
                if after.choices[0] == best
                else f", and “{after.texts[0]}” is first ({percent(after.probabilities[0], 1)})."
            )
        )
    )


def in_address(key: str, what: str, names: Sequence[str], default: str) -> str:
    """The name of the head or layer in the address, or of what ends like it; else the default."""
    if name := selection.named(key, names):
        return name
    if wanted := st.query_params.get(key, ""):
        st.warning(
            f"{plain(choice.name_of(choice.model(), 'models'))} has no {what} "
            f"{plain(shortened(wanted))}. Its {what}s are {names[0]} to {names[-1]}. Showing "
            "another one."
        )
    return default


def choose(key: str, what: str, names: Sequence[str], name: str) -> None:
    """Draw the box for another head or layer, which is in the address."""
    box = f"{what} {name} {len(names)}"
    st.selectbox(
        what.capitalize(),
        names,
        names.index(name),
        format_func=lambda each: f"{what} {each}",
        key=box,
        width=180 if " " not in name else 260,
        label_visibility="collapsed",
        on_change=lambda: run_list.set_query_from(box, key, name),
    )


def loss_with(ref: str, label: str) -> None:
    """Draw a button for the loss of an edited model on some sentences, and the loss."""
    if st.button(f"{label}, on {SENTENCES} sentences", icon=":material/functions:"):
        st.session_state[_MEASURED] = ref
    if st.session_state.get(_MEASURED) == ref:
        split = next(iter(cache.corpus(choice.corpus()).splits))
        _changes_drawn(_changes(ref, choice.corpus(), split, cache.model_stamp(ref)))


@st.cache_data(max_entries=32, show_spinner="Computing losses …")
def _changes(ref: str, corpus: str, split: str, stamp: str) -> "list[Change]":
    from workbench.analyses.editing.effects import changes
    from workbench.engine.forward_pass import ALONE

    docs = cache.sentences(corpus, split, 0, SENTENCES)
    with ALONE:
        return changes(
            cache.model_of_machine(split_ref(ref).unedited), cache.model_of_machine(ref), docs
        )


def _changes_drawn(changes: "Sequence[Change]") -> None:
    with st.container(horizontal=True):
        for each in changes:
            st.metric(
                each.metric.capitalize(),
                f"{each.after:.3f}",
                f"{each.after - each.before:+.3f} ({each.lower:+.3f} to {each.upper:+.3f})",
                "inverse" if each.metric == "loss" else "normal",
                width="content",
            )
    st.caption(
        f"{changes[0].n:,} sentences, the loss in nats per {changes[0].unit}; change by the edit, "
        "with the 95 % bootstrap interval over sentences."
    )
