"""The model and the corpus that all pages look at: chosen once, kept from page to page, in the URL.

`choose` draws the two boxes and is called once, beside the pages; `model` and `corpus` tell what is
chosen, as references. A page sets the choice with `choose_model` and `choose_corpus`, in a callback
or before `st.rerun()`. What is typed is only opened where a page needs it. Costs a look at the
folders of runs and of uploads.
"""

from collections.abc import Callable
from pathlib import Path

import streamlit as st

from workbench.core import machine
from workbench.models.references import MINI, TRAINED
from workbench.uploads import Kind, folder, uploads

MODEL, CORPUS = "model", "corpus"
SPLIT, SENTENCE = "split", "sentence"  # of the pages that show one, each in its own address
CORPORA = ("primer", "primer:size=200")
FIRST_MODEL = MINI[0]
_SHOW = "show"  # a sentence, in a link from one page to another
_SHOWN = "shown"
_NEXT = "next "  # what is to be chosen when the boxes are drawn again


def choose() -> None:
    """The boxes, in the sidebar."""
    _show_sentence()
    boxes: tuple[tuple[str, Kind, list[str], str], ...] = (
        (
            MODEL,
            "models",
            models(),
            "A built-in model, a run that trained one, an upload, a folder, a hub id, elmo:… or "
            "vectors:… Type to name another.",
        ),
        (
            CORPUS,
            "corpora",
            corpora(),
            "A built-in corpus, an upload, a file or a folder of split files. Type to name "
            "another.",
        ),
    )
    for key, kind, there, about in boxes:
        if _NEXT + key in st.session_state:
            st.session_state[key] = st.session_state.pop(_NEXT + key)
        st.sidebar.selectbox(
            key.capitalize(),
            _with(kind, key, there),
            key=key,
            bind="query-params",
            accept_new_options=True,
            format_func=_named(kind),
            help=about,
        )


def model() -> str:
    """The reference of the model that is looked at."""
    return str(st.session_state.get(MODEL) or FIRST_MODEL)


def corpus() -> str:
    """The reference of the corpus that is looked at."""
    return str(st.session_state.get(CORPUS) or CORPORA[0])


def choose_model(ref: str) -> None:
    """Look at this model from the next run of the page on."""
    st.session_state[_NEXT + MODEL] = ref


def choose_corpus(ref: str) -> None:
    """Look at this corpus from the next run of the page on."""
    st.session_state[_NEXT + CORPUS] = ref


def in_url() -> dict[str, str]:
    """What is chosen, as the address has it; for links from one page to another."""
    return {MODEL: named(model(), "models"), CORPUS: named(corpus(), "corpora")}


def showing(split: str, sentence: int) -> dict[str, str]:
    """What a link to another page carries so that this sentence is shown there.

    Streamlit drops `split` and `sentence` from a link where the page that is left has bound them
    (and frees them for the next page), so they are carried once more under another name.
    """
    return {SPLIT: split, SENTENCE: str(sentence), _SHOW: f"{split}/{sentence}"}


def named(ref: str, kind: Kind) -> str:
    """How a reference is shown: an upload by its name, anything else as it is."""
    return _named(kind)(ref)


def _show_sentence() -> None:
    """Turn what `showing` said into the page's own choices, before its boxes are drawn.

    It stays in the address and follows what is chosen: boxes that are set from here do not write
    there themselves.
    """
    asked = st.query_params.get(_SHOW, "")
    split, _, number = asked.rpartition("/")
    if not (split and number.isascii() and number.isdecimal() and len(number) < 10):
        st.session_state.pop(_SHOWN, None)
    elif st.session_state.get(_SHOWN) != asked:
        st.session_state[_SHOWN] = asked
        st.session_state[SPLIT], st.session_state[SENTENCE] = split, int(number)
    elif SPLIT not in st.session_state or SENTENCE not in st.session_state:
        del st.query_params[_SHOW]
    else:
        now = f"{st.session_state[SPLIT]}/{st.session_state[SENTENCE]}"
        if now != asked:
            st.session_state[_SHOWN] = st.query_params[_SHOW] = now


def models() -> list[str]:
    """What may be named without knowing more: built-in models, uploads, what runs have trained."""
    runs = machine.runs()
    trained = sorted(run.parent.name for run in runs.glob(f"*/{TRAINED}") if run.is_dir())
    return [*MINI, *(str(upload.path) for upload in uploads("models")), *trained]


def corpora() -> list[str]:
    """What may be named without knowing more: the built-in corpus, and uploads."""
    return [*CORPORA, *(str(upload.path) for upload in uploads("corpora"))]


def _named(kind: Kind) -> Callable[[object], str]:
    """How an option is shown: an upload by its name and the beginning of its hash."""
    root = folder(kind)

    def shown(ref: object) -> str:
        path = Path(str(ref))
        if path.parent != root:
            return str(ref)
        digest, _, name = path.name.partition("-")
        return f"{name} ({digest[:8]})"

    return shown


def _with(kind: Kind, key: str, options: list[str]) -> list[str]:
    """The options, and what is chosen, or asked for in the address, though it is none of them."""
    now = st.session_state.get(key) or st.query_params.get(key)
    known = not now or now in options or now in map(_named(kind), options)
    return options if known else [*options, str(now)]
