"""What is selected, the same on all pages: the text, the predicted place, a word, a layer, a head.

It is in the address, so a link has it and Back takes it back. A page that is opened from the bar
begins with what the page before had. Costs: nothing.
"""

from collections.abc import Iterable, Mapping

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from workbench.app import choice
from workbench.app.text import plain
from workbench.core.analysis import Page
from workbench.core.findings import capital, listing

TEXT, AT, WORD, LAYER, HEAD = "text", "at", "mark", "layer", "head"  # in the address
OF_TEXT = (AT, WORD, LAYER)  # what another text has not
_CARRIED, _PAGE = "selection", "page of the selection"
_OPENED = "selection with which the page was opened"
_FIRST = "what each method names first"


def carry(page: Page | None) -> None:
    """Begin a page that is opened from the bar with the selection; else take that of its address.

    Call it before the boxes of the page are drawn.
    """
    context = get_script_run_ctx()
    if page is None or context is None:
        return
    carried: dict[str, str] = st.session_state.setdefault(_CARRIED, {})
    before = st.session_state.get(_PAGE)
    st.session_state[_PAGE] = page.name
    if before not in (None, page.name):
        st.session_state[_OPENED] = {k: carried[k] for k in page.selection if k in carried}
    opened: dict[str, str] = st.session_state.get(_OPENED, {})
    if opened and not st.query_params.keys() - {choice.MODEL, choice.CORPUS}:
        with context.session_state.query_params() as address:
            for key, value in opened.items():
                address.set_with_no_forward_msg(key, value)
            address.set_corrected_value(key, value, "string_value")  # one change of the address
            address.set_initial_query_params_from_current()
    for key in page.selection:
        carried.pop(key, None)
        if chosen := st.query_params.get(key):
            carried[key] = chosen


def forget_opened() -> None:
    """The visitor took something back: an empty address is meant, and not one that Back reached."""
    st.session_state.pop(_OPENED, None)


def word(n_words: int) -> int | None:
    """The index of the selected word, if a text of so many words has it."""
    return _index(WORD, n_words)


def layer(n_layers: int) -> int | None:
    """The selected layer, of states or blocks."""
    return _index(LAYER, n_layers)


def _index(key: str, count: int) -> int | None:
    text = st.query_params.get(key, "")
    is_number = text.isascii() and text.isdecimal() and len(text) < 10
    return int(text) if is_number and int(text) < count else None


def named(key: str, names: Iterable[str]) -> str:
    """The selected head or layer by one of these names; "" for none. A name may say its stack."""
    wanted, all_names = st.query_params.get(key, ""), list(names)
    ends = [name for name in all_names if name.endswith(f" {wanted}")]
    same = [name for name in all_names if name == wanted.rpartition(" ")[2]]
    return wanted if wanted in all_names else next(iter([*ends, *same]), "")


def select(**parts: object) -> None:
    """Select a word (`mark`), a layer or a head in the address; the same again: no longer."""
    texts = {key: str(value) for key, value in parts.items()}
    if all(st.query_params.get(key) == text for key, text in texts.items()):
        forget_opened()
        for key in texts:
            del st.query_params[key]
    else:
        st.query_params.update(texts)


# --- where methods agree --------------------------------------------------------------------------


def say_first(about: object, kind: str, method: str, first: str) -> None:
    """Draw what the methods that were looked at name first, and where they agree.

    `about` is what they explain, `kind` what they name (word, head), `first` what this one names.
    """
    stored: tuple[object, dict[str, dict[str, str]]] = st.session_state.get(_FIRST, (None, {}))
    named = stored[1] if stored[0] == about else {}
    named = {**named, kind: {**named.get(kind, {}), method: first}}
    st.session_state[_FIRST] = about, named
    if said := agreement(kind, named[kind]):
        st.caption(plain(said))


def agreement(kind: str, named: Mapping[str, str]) -> str:
    """Where methods agree on the first word or head, by what each names; "" for a single one."""
    if len(named) < 2:
        return ""
    by_name: dict[str, list[str]] = {}
    for method, name in named.items():
        by_name.setdefault(name, []).append(method)
    groups = sorted(by_name.items(), key=lambda pair: -len(pair[1]))
    if len(groups) == 1:
        methods = listing(list(named), len(named))
        return f"{capital(methods)} agree: the most important {kind} is {groups[0][0]}."
    parts = [f"{name} by {listing(methods, len(methods))}" for name, methods in groups]
    return f"Most important {kind}: {'; '.join(parts)}."
