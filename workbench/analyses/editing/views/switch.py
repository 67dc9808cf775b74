"""The switch of a part of the model, and the list of all that is edited.

What is edited is the reference of the model in the top bar, so it is in the address, and every page
and experiment reads the edited model. Costs: nothing; the page that follows opens the model.
"""

from collections.abc import Mapping

import streamlit as st

from workbench.app import choice
from workbench.app.text import plain, show_error
from workbench.core.errors import WorkbenchError
from workbench.models.edit_terms import EXAMPLE, Term, terms_of, with_value
from workbench.models.references import split_ref, with_edit, with_local_names

STATES: Mapping[str, str] = {"on": "1", "off": "0", "halve": "0.5", "double": "2", "mean": "mean"}
_PROBLEM = "problem with an edit"
_ABOUT = (
    "Off: the output of the head is zero. Mean: it is its mean over the words of 64 sentences. The "
    "model that is edited this way is chosen on all pages."
)


def switch(ref: str, place: str) -> None:
    """Draw the switch of one part of the model."""
    edit = split_ref(ref).edit
    value = next((_value(term) for term in terms_of(edit) if term.place == place), "1")
    states = {**STATES} if value in STATES.values() else {**STATES, f"× {value}": value}
    now = next(name for name, each in states.items() if each == value)
    key = f"switch {place} {edit}"

    def changed() -> None:
        picked = st.session_state.get(key)
        if picked in states:
            _choose(ref, with_value(edit, place, states[picked]))

    st.segmented_control(
        "Turn it off", list(states), default=now, required=True, key=key, help=_ABOUT,
        on_change=changed,
    )  # fmt: skip


def edits(ref: str) -> None:
    """Draw what is edited, each with a button that removes it, and a box for further parts."""
    edit = split_ref(ref).edit
    terms = terms_of(edit)
    with st.container(horizontal=True, key="edits", gap="xsmall"):
        for term in terms:
            st.button(
                in_words(term),
                icon=":material/close:",
                key=f"remove {term}",
                help=f"Remove {term} from the edit.",
                on_click=_choose,
                args=(ref, with_value(edit, term.place, "1")),
            )
        if len(terms) > 1:
            st.button(
                "Remove all", key="remove all", on_click=_choose, args=(ref, ""), type="tertiary"
            )
        with st.popover("Edit other parts", icon=":material/add:", type="tertiary"):
            _other_parts(ref, edit)
        if terms:
            with st.popover("Use it elsewhere", icon=":material/content_copy:", type="tertiary"):
                _elsewhere(ref)


def in_words(term: Term) -> str:
    """A term as text: `head 3.7: off`."""
    names = {value: name for name, value in STATES.items()}
    states = {"halve": "halved", "double": "doubled"}
    name = names.get(_value(term), f"× {_value(term)}")
    return (
        f"{term.site.replace('block', 'layer').replace(' mlp', ' MLP')}: {states.get(name, name)}"
    )


def _value(term: Term) -> str:
    return str(term).partition("=")[2]


def _choose(ref: str, edit: str) -> None:
    """Choose the model with this edit in place of its own; for callbacks."""
    choice.choose_model(with_edit(split_ref(ref).unedited, edit))


def _other_parts(ref: str, edit: str) -> None:
    """Draw a box for heads, attentions, MLPs and neurons, as an edit is written."""
    key = f"other parts {edit}"

    def changed() -> None:
        whole = edit
        try:
            for term in terms_of(str(st.session_state.get(key) or "")):
                whole = with_value(whole, term.place, _value(term))
            _require(with_edit(split_ref(ref).unedited, whole))
        except WorkbenchError as error:
            st.session_state[_PROBLEM] = error
        else:
            _choose(ref, whole)

    st.text_input(
        "Parts and their values", key=key, placeholder="4.mlp=0.5, 3.n45=mean", on_change=changed
    )
    if error := st.session_state.pop(_PROBLEM, None):
        show_error(error)
    st.caption(
        plain(
            f"{EXAMPLE}; 4.attention=2 doubles the attention of layer 4; 3.n45=mean sets neuron 45 "
            "of the MLP of layer 3 to its mean."
        )
    )


def _require(ref: str) -> None:
    """Raise if the model lacks a part that is edited."""
    from workbench.runs.model_facts import stored

    stored(ref)


def _elsewhere(ref: str) -> None:
    """Draw the reference of the edited model, for experiments, the command line and Python."""
    name = with_local_names(ref)
    st.caption("The model with its edit, for every experiment, command and page")
    st.code(name, language=None, wrap_lines=True)
    st.code(f'workbench predict --model "{name}" "TEXT"', language="sh", wrap_lines=True)
    st.code(f'model = wb.load("{name}")', language="python", wrap_lines=True)
