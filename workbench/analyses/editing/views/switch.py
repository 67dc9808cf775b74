"""The switch of a part of the model, and the list of all that is edited.

What is edited is the reference of the model in the top bar, so it is in the address, and every page
and experiment reads the edited model. Costs: nothing; the page that follows opens the model.
"""

from collections.abc import Collection, Mapping, Sequence

import streamlit as st

from workbench.app import choice
from workbench.app.text import plain, show_error
from workbench.core.errors import WorkbenchError
from workbench.core.head_names import at_state
from workbench.models.edit_terms import EXAMPLE, Term, merged, terms_of
from workbench.models.references import split_ref, with_edit, with_local_names

STATES: Mapping[str, str] = {"on": "1", "off": "0", "halve": "0.5", "double": "2", "mean": "mean"}
_PROBLEM = "problem with an edit"
_ABOUT = (
    "Off: its output is zero. Mean: it is its mean over the words of 64 sentences. The model that "
    "is edited this way is chosen on all pages."
)


def switch(
    ref: str, places: Sequence[str], label: str = "Turn it off", names: Collection[str] = (*STATES,)
) -> None:
    """Draw the switch of some parts of the model together, with these states."""
    edit = split_ref(ref).edit
    values = {term.place: _value(term) for term in terms_of(edit)}
    now = {values.get(place, "1") for place in places}
    value = now.pop() if len(now) == 1 else ""  # "": each part has its own
    states = {name: each for name, each in STATES.items() if name in names}
    if value not in states.values():
        states |= {f"× {value}" if value else "in part": value}
    key = f"switch {' '.join(places)} {edit}"

    def changed() -> None:
        if picked := states.get(str(st.session_state.get(key))):
            _choose(ref, merged(edit, ",".join(f"{place}={picked}" for place in places)))

    st.segmented_control(
        label,
        list(states),
        default=next(name for name, each in states.items() if each == value),
        required=True,
        key=key,
        help=_ABOUT,
        on_change=changed,
    )


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
                args=(ref, ",".join(str(each) for each in terms if each != term)),
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
    if term.run:
        pair = f" {term.number}" if term.number > 1 else ""
        return f"direction{pair} of {term.run} at {at_state(term.layer)}: × {_value(term)}"
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
        try:
            whole = merged(edit, str(st.session_state.get(key) or ""))
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
            "of the MLP of layer 3 to its mean; 4.RUN=2 adds twice the direction of layer 4 that a "
            "run of steering stored."
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
