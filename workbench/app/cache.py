"""Models, corpora and sentences that pages look into, remembered while their files stay the same.

Facts of a model are asked of a process of its own; only a page that looks inside opens one in the
app, after it was opened there. What is remembered is bounded, and kept by content or by the files'
sizes and times of change, never by a name alone. Nothing is fetched from the network unless asked
for. Costs a look at the files each time, and seconds where a model is opened.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.core.errors import WorkbenchError
from workbench.models.references import HUB_ID, MINI, RANDOM, folder_of, located

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

    from workbench.corpora import Corpus
    from workbench.corpora.browse import Found, Size
    from workbench.doctor import Facts
    from workbench.engine.model import Model
    from workbench.runs.isolated import Question

MODELS = 2  # open at a time
LONGEST = 20_000  # characters of a text that is typed
MINUTES = 10  # an error is not believed for longer
_IMPORTING = Lock()


def ready() -> None:
    """Import spaCy, one visitor at a time: two at once would each find the other's half of it."""
    with _IMPORTING:
        import workbench.corpora  # noqa: F401


@st.cache_resource(show_spinner="Looking around …")
def machine() -> "Facts":
    """What this machine offers; it does not change while the app runs."""
    from workbench.doctor import facts

    return facts()


def facts(ref: str, fetch: bool = False) -> dict[str, Any]:
    """A model's facts; opening one that is new takes seconds."""
    found: dict[str, Any] = _asked(ref, "facts", fetch)["facts"]
    return found


def parts(ref: str) -> dict[str, int]:
    """A model's parameters by part."""
    found: dict[str, int] = _asked(ref, "parts", False)["parts"]
    return found


def _asked(ref: str, question: "Question", fetch: bool) -> dict[str, Any]:
    answer = _answer(ref, question, fetch, model_stamp(ref))
    if isinstance(answer, WorkbenchError):
        raise answer
    return answer


@st.cache_data(max_entries=128, ttl=60 * MINUTES, show_spinner=False)
def _answer(
    ref: str, question: "Question", fetch: bool, stamp: str
) -> dict[str, Any] | WorkbenchError:
    from workbench.runs.isolated import look

    try:
        return look(ref, question, fetch)
    except WorkbenchError as error:
        return error


def model_stamp(ref: str) -> str:
    """What changes when a model's files do."""
    files: list[Path] = []
    with suppress(WorkbenchError, OSError, ValueError, RuntimeError):
        prefix, _, named = ref.removesuffix(RANDOM).partition(":")
        if prefix in ("elmo", "vectors") and named:
            files = [Path(part).expanduser() for part in named.split(",")]
        elif folder := folder_of(ref.removesuffix(RANDOM)):
            files = sorted(folder.iterdir())
        known = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        return repr(known)
    return ""


def is_remote_model(ref: str) -> bool:
    """Whether opening it would mean asking the network."""
    source = ref.removesuffix(RANDOM)
    if source in MINI or not HUB_ID.fullmatch(source):
        return False
    with suppress(WorkbenchError, OSError, ValueError, RuntimeError):
        return located(source) == source and folder_of(source) is None
    return False


def is_remote_corpus(ref: str) -> bool:
    """Whether reading it would mean asking the network."""
    return ref.startswith("hub:")


def model(ref: str) -> "Model":
    """The model of a reference, open here; files that are new are opened apart first."""
    from workbench.runs.model_facts import is_known, known

    if is_remote_model(ref):
        raise WorkbenchError(
            f"{ref} is no folder here, and has not been fetched.",
            remedy="Choose another model beside the page, or fetch it on the page Models.",
        )
    ready()
    with st.spinner(f"Opening {ref} …"):
        if ref.removesuffix(RANDOM) not in MINI and not is_known(ref):
            facts(ref)  # in a process with limits of memory and time: strangers may have made them
        return _model(ref, known(ref).hash)


@st.cache_resource(max_entries=MODELS, show_spinner=False)
def _model(ref: str, content: str) -> "Model":
    from workbench.models.loading import load

    return load(ref)


# --- corpora --------------------------------------------------------------------------------------


def corpus(ref: str) -> "Corpus":
    """A corpus, ready to be read."""
    from workbench.corpora.browse import stamp

    return _corpus(ref, stamp(ref))


def sizes(ref: str, whole: bool) -> "Sequence[Size]":
    """How much there is of each split: all of it, or a bounded part that is counted unasked."""
    from workbench.corpora.browse import stamp

    return _sizes(ref, whole, stamp(ref))


def layers(ref: str) -> list[str]:
    """The layers of the first Docs of every split."""
    from workbench.corpora.browse import stamp

    return _layers(ref, stamp(ref))


def sentences(ref: str, split: str, start: int, number: int) -> "list[Doc]":
    """Sentences from one on; fewer at the end of the split."""
    from workbench.corpora.browse import PASSAGE, stamp

    found: list[Doc] = []
    now = stamp(ref)
    for place in range(start // PASSAGE, (start + number - 1) // PASSAGE + 1):
        docs = _passage(ref, split, place, now)
        first = place * PASSAGE
        found += docs[max(0, start - first) : max(0, start + number - first)]
        if len(docs) < PASSAGE:
            break
    return found


def found(ref: str, split: str, wanted: str, reach: int) -> "Found":
    """Sentences with a word among the first so many."""
    from workbench.corpora.browse import stamp

    return _found(ref, split, wanted, reach, stamp(ref))


@st.cache_resource(max_entries=16, show_spinner="Opening the corpus …")
def _corpus(ref: str, stamp: str) -> "Corpus":
    from workbench.corpora import read

    return read(ref)


@st.cache_data(max_entries=64, show_spinner="Counting …")
def _sizes(ref: str, whole: bool, stamp: str) -> "Sequence[Size]":
    from workbench.corpora.browse import COUNTED, sizes

    return sizes(_corpus(ref, stamp), None if whole else COUNTED)


@st.cache_data(max_entries=64, show_spinner="Looking at the layers …")
def _layers(ref: str, stamp: str) -> list[str]:
    return sorted(_corpus(ref, stamp).layers())


@st.cache_resource(max_entries=24, show_spinner="Reading on …")
def _passage(ref: str, split: str, place: int, stamp: str) -> "list[Doc]":
    from workbench.corpora.browse import passage

    return passage(_corpus(ref, stamp), split, place)


@st.cache_data(max_entries=64, show_spinner="Looking for it …")
def _found(ref: str, split: str, wanted: str, reach: int, stamp: str) -> "Found":
    from workbench.corpora.browse import find

    return find(_corpus(ref, stamp), split, wanted, reach)


# --- one text -------------------------------------------------------------------------------------


def sentence(ref: str, split: str, number: int) -> "Doc":
    """One sentence of a split, counted from 0."""
    found = sentences(ref, split, number, 1)
    if not found:
        raise WorkbenchError(
            f"there is no sentence {number}.",
            where=f"{ref}, {split}",
            remedy="Choose a smaller number; they are counted from 0.",
        )
    return found[0]


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


@st.cache_resource(max_entries=64, show_spinner=False)
def _typed(text: str) -> "Doc":
    return _pipeline()(text)


@st.cache_resource(max_entries=1, show_spinner="Starting spaCy …")
def _pipeline() -> "Language":
    from workbench.corpora.text import load_pipeline

    return load_pipeline(None, "en")[0]
