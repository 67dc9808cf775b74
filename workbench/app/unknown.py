"""What an address names and is not there: a sentence with the nearest names, never another page.

Costs: a look at the folder of the model and of the corpus.
"""

from difflib import get_close_matches
from pathlib import Path
from urllib.parse import unquote, urlsplit

import streamlit as st

from workbench.app import cache, choice, navigation
from workbench.app.text import plain, show_error
from workbench.core import names
from workbench.core.errors import WorkbenchError, listed
from workbench.core.names import Kind
from workbench.models.edit_terms import terms_of
from workbench.models.references import BUILT_IN_MODELS, PREFIXED, is_local, located, split_ref
from workbench.runs.model_facts import stored

NEAREST = 3  # names, at most
LONGEST = 80  # characters of a name that are shown
_NEAR = 0.5  # similarity of a name to be offered


def page() -> str:
    """The page that the address names, if there is none of that name; else ""."""
    path = unquote(urlsplit(str(st.context.url or "")).path).strip("/")
    base = str(st.get_option("server.baseUrlPath")).strip("/")
    name = path.removeprefix(base).strip("/")
    is_there = navigation.named(name) is not None and name != navigation.HOME.name
    return "" if is_there or "/" in name else name[:LONGEST]


def draw_page() -> None:
    """Draw that there is no such page, and links to the nearest ones; `/home` leads to Home."""
    if page() == navigation.HOME.name:
        navigation.switch(navigation.HOME.name, st.query_params.to_dict())
    known = {each.title.lower(): each for each in navigation.members()}
    known |= {each.name: each for each in navigation.members()}
    near = get_close_matches(page().lower(), known, n=NEAREST, cutoff=_NEAR)
    pages = list(dict.fromkeys(known[name] for name in near)) or [navigation.HOME]
    st.title("Page not found", anchor=False)
    st.markdown(f"There is no page {plain(repr(page()))}. Did you mean one of these?")
    for each in pages:
        navigation.link(each.name, each.title, icon=navigation.icon_of(each))


def is_drawn(page: str) -> bool:
    """Draw what is unknown of the chosen model and corpus; return whether anything is.

    The pages of the library are for choosing others, and those with an opened run choose its own.
    """
    if page in {each.name for each in navigation.LIBRARY} or "run" in st.query_params:
        return False
    errors = [problem("models", choice.model()), problem("corpora", choice.corpus())]
    for error in filter(None, errors):
        show_error(error)
    return any(errors)


def problem(kind: Kind, ref: str) -> WorkbenchError | None:
    """Why nothing is there by this name; None if something is, or only a download can tell."""
    if (_is_model if kind == "models" else _is_corpus)(ref):
        return _wrong_edit(ref) if kind == "models" else None
    one = names.ONE[kind]
    offered = choice.models() if kind == "models" else choice.corpora()
    known = list(dict.fromkeys(choice.name_of(each, kind) for each in offered))
    name = Path(ref.removeprefix(names.LOCAL)).name[:LONGEST]  # a folder says nothing here
    near = get_close_matches(name, known, n=NEAREST, cutoff=_NEAR)
    nearest = f"Did you mean {' or '.join(near)}?" if near else f"There are {listed(known)}."
    may_be_on_hub = kind == "models" and cache.is_remote_model(ref)
    way = ", or download it on the page Models" if may_be_on_hub else ""
    return WorkbenchError(
        f"There is no {one} {name!r} on this machine.",
        code=f"{one}-not-found",
        remedy=f"{nearest} Choose another {one} in the top bar{way}.",
    )


def _wrong_edit(ref: str) -> WorkbenchError | None:
    """Why a model cannot have the edit that its reference names."""
    if edit := split_ref(ref).edit:
        try:
            terms_of(edit)
            stored(ref)  # raises if it lacks what is edited
        except WorkbenchError as error:
            return error
    return None


def _is_model(ref: str) -> bool:
    source = split_ref(ref).source
    if source in BUILT_IN_MODELS or source.startswith(PREFIXED):
        return True
    try:
        source = located(source)
    except WorkbenchError as error:
        return error.code != "model-not-found"
    return is_local(source) or not (cache.is_remote_model(source) or _is_no_name(source))


def _is_no_name(source: str) -> bool:
    from workbench.models.references import HUB_ID

    return HUB_ID.fullmatch(source) is None


def _is_corpus(ref: str) -> bool:
    from workbench.corpora import BUILT_IN
    from workbench.corpora.formats import resolve

    if ref.replace(":", "/").split("/")[0] in BUILT_IN or cache.is_remote_corpus(ref):
        return True
    try:
        path = Path(names.path_of("corpora", ref))
        resolve(path)
    except WorkbenchError as error:
        return error.code != "corpus-not-found" or (ref.startswith("/") and Path(ref).exists())
    return True
