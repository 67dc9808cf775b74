"""The model and the corpus that all pages look at: chosen once, kept from page to page, in the URL.

`choose` draws the two boxes and is called once, beside the pages; `model` and `corpus` tell what is
chosen, as references. What is typed is only opened where a page needs it. Costs a look at the
folder of runs.
"""

import streamlit as st

from workbench import places
from workbench.models.references import MINI, TRAINED

MODEL, CORPUS = "model", "corpus"
CORPORA = ("primer", "primer:size=200")


def choose() -> None:
    """The boxes, in the sidebar."""
    st.sidebar.selectbox(
        "Model",
        _with(MODEL, _models()),
        key=MODEL,
        bind="query-params",
        accept_new_options=True,
        help="A built-in model, a run that trained one, a folder, a hub id, elmo:… or vectors:… "
        "Type to name another.",
    )
    st.sidebar.selectbox(
        "Corpus",
        _with(CORPUS, list(CORPORA)),
        key=CORPUS,
        bind="query-params",
        accept_new_options=True,
        help="A built-in corpus, a file or a folder of split files. Type to name another.",
    )


def model() -> str:
    """The reference of the model that is looked at."""
    return str(st.session_state.get(MODEL) or MINI[0])


def corpus() -> str:
    """The reference of the corpus that is looked at."""
    return str(st.session_state.get(CORPUS) or CORPORA[0])


def _models() -> list[str]:
    """What may be named without knowing more: built-in models, and what runs have trained."""
    runs = places.runs()
    trained = sorted(run.parent.name for run in runs.glob(f"train-*/{TRAINED}") if run.is_dir())
    return [*MINI, *trained]


def _with(key: str, options: list[str]) -> list[str]:
    """The options, and what is chosen though it is none of them."""
    now = st.session_state.get(key)
    return options if not now or now in options else [*options, str(now)]
