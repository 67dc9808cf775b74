"""Models, corpora and sentences of the pages, cached while their files stay the same.

A process of its own reads the facts of a model. A page that needs the model itself opens it in the
app, after that process could open it. Caches are bounded, and keyed by content or by the sizes and
change times of files, never by a name alone. Nothing is downloaded without the user's consent.
Costs: a look at the files each time, and seconds to open a model.
"""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.core.errors import WorkbenchError
from workbench.models.references import BUILT_IN_MODELS, GGUF, HUB_ID, folder_of, located, split_ref

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

    from workbench.core.doctor import Facts
    from workbench.corpora import Corpus
    from workbench.corpora.browse import Found, Size
    from workbench.engine.model import Model
    from workbench.engine.text_pieces import Splitter
    from workbench.runs.isolated import Question

MODELS = 2  # open at a time
SPLITTERS = 16  # tokenizers that are open
# Characters of a typed text. Boxes for texts have no maximum of their own: a browser would drop
# what is pasted beyond it without a word.
LONGEST = 20_000
MINUTES = 10  # that an error is cached
SMALL = 32 << 20  # bytes of a corpus that is counted without a request
_COUNTED: "dict[tuple[str, str], Sequence[Size]]" = {}  # by stamp and reference


@st.cache_resource(show_spinner=False)
def machine() -> "Facts":
    """Facts of this machine; they do not change while the app runs."""
    from workbench.core.doctor import facts

    return facts()


def facts(ref: str, fetch: bool = False) -> dict[str, Any]:
    """The facts of a model; opening a new model takes seconds."""
    facts: dict[str, Any] = _looked_up(ref, "facts", fetch)["facts"]
    return facts


def parts(ref: str) -> dict[str, int]:
    """The number of parameters of each part of a model; an edit has none of its own."""
    parts: dict[str, int] = _looked_up(split_ref(ref).unedited, "parts", False)["parts"]
    return parts


def _looked_up(ref: str, what: "Question", fetch: bool) -> dict[str, Any]:
    result = _cached_look(ref, what, fetch, model_stamp(ref))
    if isinstance(result, WorkbenchError):
        raise result
    return result


@st.cache_data(max_entries=128, ttl=60 * MINUTES, show_spinner=False)
def _cached_look(
    ref: str, what: "Question", fetch: bool, stamp: str
) -> dict[str, Any] | WorkbenchError:
    from workbench.runs.isolated import look

    try:
        return look(ref, what, fetch)
    except WorkbenchError as error:
        return error


def model_stamp(ref: str) -> str:
    """Names, sizes and change times of a model's files, as a cache key."""
    from workbench.runs.model_facts import files_of

    with suppress(WorkbenchError, OSError, ValueError, RuntimeError):
        files = [path for path in files_of(split_ref(ref).source) if path.is_file()]
        return repr([(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files])
    return ""


def is_remote_model(ref: str) -> bool:
    """Whether opening the model needs the network."""
    source = split_ref(ref).source
    if source in BUILT_IN_MODELS or source.endswith(GGUF) or not HUB_ID.fullmatch(source):
        return False
    with suppress(WorkbenchError, OSError, ValueError, RuntimeError):
        return located(source) == source and folder_of(source) is None
    return False


def is_remote_corpus(ref: str) -> bool:
    """Whether reading the corpus needs the network."""
    return ref.startswith("hub:")


def model(ref: str) -> "Model":
    """The model of a reference, loaded in this process; new files are first opened in another."""
    if is_remote_model(ref):
        raise WorkbenchError(
            f"{ref} is not a folder on this machine and has not been downloaded.",
            code="model-not-found",
            remedy="Choose another model in the top bar, or download it on the page Models.",
        )
    with st.spinner(f"Loading {ref} …"):
        return model_of_machine(ref)


def model_of_machine(ref: str) -> "Model":
    """The model of a reference that is on this machine; for calls outside of a page, too."""
    from workbench.runs.model_facts import is_known, known

    if edit := split_ref(ref).edit:
        return _edited(ref, edit, known(ref).hash)
    if split_ref(ref).source not in BUILT_IN_MODELS and not is_known(ref):
        facts(ref)  # in a process with limits of memory and time: files may be hostile
    return _model(ref, known(ref).hash)


@st.cache_resource(max_entries=MODELS, show_spinner=False)
def _edited(ref: str, edit: str, content: str) -> "Model":
    """An edited model, which shares the weights of the model without the edit."""
    return model_of_machine(split_ref(ref).unedited).edited(edit)


@st.cache_resource(max_entries=MODELS, show_spinner=False)
def _model(ref: str, content: str) -> "Model":
    from workbench.models.loading import load

    return load(ref)


def splitter(ref: str) -> "Splitter":
    """What splits texts as a model does; its weights are not kept."""
    from workbench.runs.model_facts import known

    if is_remote_model(ref) or not known(ref).hash:
        return model(ref).splitter()  # raises, or is opened each time
    return _splitter(ref, known(ref).hash)


@st.cache_resource(max_entries=SPLITTERS, show_spinner=False)
def _splitter(ref: str, content: str) -> "Splitter":
    return model(ref).splitter()


# --- corpora --------------------------------------------------------------------------------------


def corpus(ref: str, reading: Mapping[str, Any] | None = None) -> "Corpus":
    """The corpus of a reference. `reading` has the options of `read`, such as those of a run."""
    from workbench.corpora.browse import stamp

    return _corpus(ref, stamp(ref), reading or {})


def sizes(ref: str, whole: bool) -> "Sequence[Size]":
    """The size of each split: complete if `whole` is set, else a count up to a bound."""
    from workbench.corpora.browse import stamp

    with st.spinner("Counting sentences …"):
        return _sizes(ref, whole, stamp(ref))


def sizes_if_known(ref: str) -> "Sequence[Size]":
    """The sizes of the splits if they were counted; else empty, and a small one is counted aside.

    Nothing is read on the way of a page: who asks again later has them.
    """
    if "workbench.corpora" not in sys.modules or is_remote_corpus(ref):
        return ()
    from workbench.corpora.browse import stamp
    from workbench.runs.processes import starter

    key = stamp(ref), ref
    if key not in _COUNTED and starter.is_ready() and _size_of(ref) <= SMALL:
        _COUNTED[key] = ()
        Thread(target=_count_aside, args=(ref, key[0]), daemon=True).start()
    return _COUNTED.get(key, ())


def _count_aside(ref: str, stamp: str) -> None:
    with suppress(Exception):  # a page that needs the corpus has the error
        _sizes(ref, False, stamp)


def _size_of(ref: str) -> int:
    """Bytes of the files of a corpus; 0 for one without files."""
    from workbench.corpora.formats import resolve

    with suppress(WorkbenchError, OSError, ValueError):
        files = [path for paths in resolve(Path(ref)).splits.values() for path in paths]
        return sum(path.stat().st_size for path in files)
    return 0


def layers(ref: str) -> list[str]:
    """The annotation layers of the first Docs of every split."""
    from workbench.corpora.browse import stamp

    return _layers(ref, stamp(ref))


def labels(ref: str) -> list[str]:
    """The labels of whole texts that can be learnt: classes with several texts each, or scores."""
    from workbench.corpora.browse import stamp

    return _learnable(ref, stamp(ref))


def sentences(
    ref: str, split: str, start: int, count: int, reading: Mapping[str, Any] | None = None
) -> "list[Doc]":
    """`count` sentences from index `start`; fewer at the end of the split."""
    from workbench.corpora.browse import PASSAGE, stamp

    sentences: list[Doc] = []
    key = stamp(ref)
    for passage in range(start // PASSAGE, (start + count - 1) // PASSAGE + 1):
        docs = _passage(ref, split, passage, key, reading or {})
        first = passage * PASSAGE
        sentences += docs[max(0, start - first) : max(0, start + count - first)]
        if len(docs) < PASSAGE:
            break
    return sentences


def search(ref: str, split: str, query: str, n_sentences: int) -> "Found":
    """Sentences that contain a word, among the first `n_sentences`."""
    from workbench.corpora.browse import stamp

    return _search(ref, split, query, n_sentences, stamp(ref))


@st.cache_resource(max_entries=16, show_spinner="Opening the corpus …")
def _corpus(ref: str, stamp: str, reading: Mapping[str, Any]) -> "Corpus":
    from workbench.corpora import read

    return read(ref, **reading)


@st.cache_data(max_entries=64, show_spinner=False)
def _sizes(ref: str, whole: bool, stamp: str) -> "Sequence[Size]":
    from workbench.corpora.browse import COUNTED, Size, counted
    from workbench.runs.processes.forked_call import forked_call

    rows = forked_call(counted, ref, None if whole else COUNTED)
    sizes = _COUNTED[stamp, ref] = tuple(Size(*row) for row in rows)
    return sizes


@st.cache_data(max_entries=64, show_spinner=False)
def _layers(ref: str, stamp: str) -> list[str]:
    from workbench.corpora.browse import layer_names
    from workbench.runs.processes.forked_call import forked_call

    return forked_call(layer_names, ref)


@st.cache_data(max_entries=64, show_spinner=False)
def _learnable(ref: str, stamp: str) -> list[str]:
    from workbench.corpora.browse import label_names
    from workbench.runs.processes.forked_call import forked_call

    return forked_call(label_names, ref)


def prepare_corpus(ref: str) -> None:
    """Count a corpus before a page shows it."""
    from workbench.corpora.browse import stamp

    key = stamp(ref)
    _layers(ref, key)
    _sizes(ref, False, key)


@st.cache_resource(max_entries=24, show_spinner="Reading sentences …")
def _passage(
    ref: str, split: str, index: int, stamp: str, reading: Mapping[str, Any]
) -> "list[Doc]":
    from workbench.corpora.browse import passage

    return passage(_corpus(ref, stamp, reading), split, index)


@st.cache_data(max_entries=64, show_spinner="Searching …")
def _search(ref: str, split: str, query: str, n_sentences: int, stamp: str) -> "Found":
    from workbench.corpora.browse import find

    return find(_corpus(ref, stamp, {}), split, query, n_sentences)


# --- one text -------------------------------------------------------------------------------------


def sentence(ref: str, split: str, index: int, reading: Mapping[str, Any] | None = None) -> "Doc":
    """One sentence of a split, counted from 0."""
    docs = sentences(ref, split, index, 1, reading)
    if not docs:
        raise WorkbenchError(
            f"There is no sentence {index}.",
            code="sentence-not-found",
            where=f"{ref}, {split}",
            remedy="Choose a smaller number. Sentences are counted from 0.",
        )
    return docs[0]


def typed(text: str) -> "Doc":
    """A typed text as a Doc, from an installed spaCy pipeline, or from rules if there is none."""
    return _typed(checked(" ".join(text.split())))


def checked(text: str, name: str = "text") -> str:
    """A typed text without space around it; an empty one, or one that is too long, is an error."""
    text = text.strip()
    if not text:
        raise WorkbenchError(f"The {name} is empty.", code="text-empty", remedy="Type a sentence.")
    if len(text) > LONGEST:
        raise WorkbenchError(
            f"The {name} has {len(text):,} characters; the maximum is {LONGEST:,}.",
            code="text-too-long",
            remedy="Shorten it, or add it as a corpus (Library, Corpora), which has no maximum.",
        )
    return text


@st.cache_resource(max_entries=64, show_spinner=False)
def _typed(text: str) -> "Doc":
    return _pipeline()(text)


@st.cache_resource(max_entries=1, show_spinner="Starting spaCy …")
def _pipeline() -> "Language":
    from workbench.corpora.readers.text import load_pipeline

    return load_pipeline(None, "en")[0]
