"""Models and sentences that pages look into: opened once for all browsers, few at a time.

Models are kept by content, not by name: one trained anew under an old name is opened anew. Nothing
is fetched from the network here; what has yet to be fetched is said, with the page that does it.
Opening a model takes seconds, a sentence the reading of those before it.
"""

from typing import TYPE_CHECKING

import streamlit as st

from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

    from workbench.corpora import Corpus
    from workbench.engine.model import Model

MODELS, SENTENCES = 2, 64  # kept at a time
LONGEST = 20_000  # characters of a text that is typed


def model(ref: str) -> "Model":
    """The model of a reference, open."""
    from workbench.runs.known import known

    require_here(ref)
    with st.spinner(f"Opening {ref} …"):
        return _model(ref, known(ref).hash)


def require_here(ref: str) -> None:
    """Raise where opening a model would ask the network for it."""
    from workbench.models.references import RANDOM, folder_of, located

    source = located(ref).removesuffix(RANDOM)
    if source.startswith(("elmo:", "vectors:")) or folder_of(source) is not None:
        return
    raise WorkbenchError(
        f"{source} is no folder here, and has not been fetched.",
        remedy="Choose another model in the sidebar, or fetch it on the page Models.",
    )


@st.cache_resource(max_entries=MODELS, show_spinner=False)
def _model(ref: str, content: str) -> "Model":
    from workbench.models.loading import load

    return load(ref)


def corpus(ref: str) -> "Corpus":
    """The corpus of a reference; reading starts when it is iterated."""
    from workbench.corpora import read

    return read(ref)


def sentence(ref: str, split: str | None, number: int) -> "Doc":
    """One sentence of a split, counted from 0."""
    return _sentence(ref, split, number, _marks(ref))


def typed(text: str) -> "Doc":
    """What somebody typed, through a spaCy pipeline where one is installed, else by rules."""
    text = " ".join(text.split())
    if not text:
        raise WorkbenchError("there is no text.", remedy="Type a sentence.")
    if len(text) > LONGEST:
        raise WorkbenchError(
            f"the text has {len(text):,} characters.", remedy=f"Type {LONGEST:,} at most."
        )
    return _typed(text)


@st.cache_resource(max_entries=SENTENCES, show_spinner=False)
def _sentence(ref: str, split: str | None, number: int, marks: str) -> "Doc":
    count = 0
    for count, doc in enumerate(corpus(ref).docs(split, number + 1), start=1):
        if count > number:
            return doc
    raise WorkbenchError(
        f"there is no sentence {number}: there are {count}, counted from 0.",
        where=f"{ref}, {split}" if split else ref,
        remedy="Choose a smaller number.",
    )


@st.cache_resource(max_entries=SENTENCES, show_spinner=False)
def _typed(text: str) -> "Doc":
    return _pipeline()(text)


@st.cache_resource(max_entries=1, show_spinner="Starting spaCy …")
def _pipeline() -> "Language":
    from workbench.corpora.pipelines import load_pipeline

    return load_pipeline(None, "en")[0]


def _marks(ref: str) -> str:
    """What a corpus is made of: other bytes under the same name are another corpus."""
    origin = corpus(ref).origin
    if origin is None:
        return ""
    stats = [path.stat() for _, path in origin.files]
    return repr([origin.recipe, *((s.st_size, s.st_mtime_ns) for s in stats)])
