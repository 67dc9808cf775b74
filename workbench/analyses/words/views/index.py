"""The index of a corpus for the page Words: made in the background, with progress, and cancelled.

A thread of its own makes it, which calls nothing of Streamlit: typing does not stop it, and
visitors who search the same corpus share it. Between batches it lets forward passes of other
visitors run, and waits while a page is drawn. That of an edited model ends when the page is left:
each state of a switch is another model. Costs: reading the texts, and a forward pass over
them, the first time; then opening the files. The latest indexes are kept open.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

import streamlit as st

from workbench.analyses.words.views.choices import Searched
from workbench.app import cache, choice, foreground
from workbench.app.text import internal_error, plain
from workbench.core.errors import WorkbenchError

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.analyses.words.occurrences import Occurrences
    from workbench.corpora import Corpus
    from workbench.engine.model import Model

KEPT = 6  # indexes that are open
FIRST = 2_000  # words whose index is made first, so that there is something to see
ONCE = "The index is made once and kept on disk. With fewer words it is faster."
SOON = 2.0  # seconds between it and the whole index, in which a visitor may go on to another page
ANOTHER = "another computation with a model to end"
PATIENCE = 0.3  # seconds that a page waits before it shows progress
EVERY = 0.5  # seconds between looks at the progress
LEFT = 5.0  # seconds without such a look after which the page was left
READING = 0.4  # share of the bar for reading texts
Key = tuple[object, ...]


@dataclass(frozen=True, eq=False)
class Indexed:
    """An index, and a key of its content for caches."""

    key: Key
    index: "Occurrences"
    is_part: bool = False  # of the first words only


class _CancelledError(Exception):
    """Raised in the thread of an index that is no longer wanted."""


class Build:
    """An index that is being made, or is there; it is begun when the one `after` has ended."""

    def __init__(
        self,
        model: "Model",
        corpus: "Corpus",
        searched: Searched,
        after: "Build | None" = None,
    ) -> None:
        self.name, self.searched = choice.name_of(model.name, "models"), searched
        self.n_words = self.done = self.total = 0
        self.computing_since = 0.0
        self.cancelled, self.ended = Event(), Event()
        self.waits_for = ""
        self.index: Occurrences | None = None
        self.error: WorkbenchError | None = None
        self.is_of_edit, self.looked_at = bool(model.edit), time.monotonic()
        self.is_left = False  # and so no longer made: no page looks at it
        self._paused, self._after = 0.0, after
        make = Thread(target=self._make, args=(model, corpus), daemon=True, name="index of words")
        make.start()

    def _make(self, model: "Model", corpus: "Corpus") -> None:
        from workbench.engine.forward_pass import ALONE

        try:
            if self._after is not None:
                self.waits_for = f"the index of the first {FIRST:,} words"
                self._after.ended.wait()
                self.waits_for = ""
                self.cancelled.wait(SOON)
            self.waits_for = ANOTHER
            with suppress(_CancelledError), ALONE:  # some models are hooked in place
                self.waits_for = ""
                self.index = self._indexed(model, corpus)
        except WorkbenchError as error:
            self.error = error
        except Exception as error:
            self.error = internal_error(error, "an index failed")
        finally:
            self.ended.set()

    def _indexed(self, model: "Model", corpus: "Corpus") -> "Occurrences":
        from workbench.analyses.words.neighbours import layers_of
        from workbench.analyses.words.occurrences import occurrences

        searched = self.searched
        part = part_of(corpus, searched.split, searched.most, self._read)
        found = occurrences(model, part, max_occurrences=None, on_progress=self._computed)
        for stack, layers in found.stacks.items():
            for layer in layers_of(None, len(layers)):  # read, so that the first search is fast
                self._check()
                found.rows(stack, layer)
        return found

    def _read(self, n_words: int) -> None:
        self.n_words = n_words
        self._check()

    def _computed(self, done: int, total: int) -> None:
        self.computing_since = self.computing_since or time.monotonic()
        self.done, self.total = done, total
        self._check()

    def _check(self) -> None:
        """End if the index is no longer wanted; now and then let others compute."""
        from workbench.engine.forward_pass import ALONE

        self.is_left = self.is_of_edit and time.monotonic() - self.looked_at > LEFT
        if self.cancelled.is_set() or self.is_left:
            raise _CancelledError
        if time.monotonic() - self._paused > EVERY / 10:
            ALONE.release()
            time.sleep(0.001)
            foreground.let_pages_be_drawn()
            self.waits_for = ANOTHER
            ALONE.acquire()
            self.waits_for = ""
            self._paused = time.monotonic()

    @property
    def share(self) -> float:
        """How much is done."""
        if self.total:
            return READING + (1 - READING) * self.done / self.total
        return READING * min(1.0, self.n_words / self.searched.most)

    def in_words(self) -> str:
        """What is done or waited for, and how long the rest will take."""
        if self.waits_for:
            return f"waiting for {self.waits_for}"
        if not self.total:
            return f"reading texts, {self.n_words:,} of up to {self.searched.most:,} words"
        text = f"computing states with {self.name}, {self.done:,} of {self.total:,} texts"
        if self.done == self.total:
            return f"{text}; writing them to disk"
        elapsed = time.monotonic() - self.computing_since
        if self.done < 2 or elapsed < 1:
            return text
        return f"{text}, about {elapsed / self.done * (self.total - self.done):.0f} s left"


def part_of(corpus: "Corpus", split: str, most: int, on_words: Callable[[int], object]) -> "Corpus":
    """The first texts of a split, or of all splits in turn, up to a maximum number of words."""
    from workbench.corpora import Corpus

    names = [split] if split else [*corpus.splits]
    n_words = 0

    def docs_of(name: str) -> "Iterator[Doc]":
        nonlocal n_words
        n_words = 0 if name == names[0] else n_words  # the splits are read in this order
        for doc in corpus.docs(name):
            if n_words >= most:
                return
            n_words += len(doc)
            on_words(min(n_words, most))
            yield doc

    corpus.docs(split or None, 0)  # raises if there is no such split
    readers = {name: (lambda name=name: docs_of(name)) for name in names}
    origin = corpus.origin and replace(
        corpus.origin, recipe=f"{corpus.origin.recipe}; the first {most} words"
    )
    return Corpus(corpus.name, readers, corpus.notes, origin)


# --- on the page ----------------------------------------------------------------------------------


@st.cache_resource(show_spinner=False)
def _builds() -> "tuple[OrderedDict[Key, Build], Lock]":
    return OrderedDict(), Lock()


def _key(model: "Model", searched: Searched) -> Key:
    from workbench.corpora.browse import stamp

    weights = (model.name, model.content_hash, model.precision, str(model.device))
    return (*weights, searched, stamp(searched.corpus))


def _build(key: Key, model: "Model", searched: Searched, after: Build | None = None) -> Build:
    builds, lock = _builds()
    corpus = cache.corpus(searched.corpus)
    with lock:
        if key not in builds or builds[key].is_left:
            builds[key] = Build(model, corpus, searched, after)
        builds[key].looked_at = time.monotonic()
        builds.move_to_end(key)
        ended = [each for each, build in builds.items() if build.ended.is_set()]
        for each in ended[: max(0, len(builds) - KEPT)]:
            if each != key:
                del builds[each]
        return builds[key]


def _forget(key: Key) -> None:
    builds, lock = _builds()
    with lock:
        builds.pop(key, None)


def _builds_of(model: "Model", searched: Searched) -> tuple[Build, Build | None]:
    """The index of all words, and the one of the first words, which is made before it."""
    if searched.most <= FIRST:
        return _build(_key(model, searched), model, searched), None
    builds, lock = _builds()
    key, part = _key(model, searched), replace(searched, most=FIRST)
    with lock:
        known = builds.get(key)
    if known is not None and known.index is not None:
        return known, None
    first = _build(_key(model, part), model, part)
    return _build(key, model, searched, first), first


def ready(model: "Model", searched: Searched) -> Indexed | None:
    """The index; while it is made, that of the first words; None if that is not there either."""
    build, first = _builds_of(model, searched)
    if build.index is not None:
        return Indexed(_key(model, searched), build.index)
    if build.error is not None:
        _forget(_key(model, searched))
        raise build.error
    if first is None or first.index is None:
        return None
    return Indexed(_key(model, first.searched), first.index, is_part=True)


def progress(model: "Model", searched: Searched) -> None:
    """Wait a little for an index; if it takes longer, draw its progress, or that it was ended."""
    build, first = _builds_of(model, searched)
    with foreground.waiting():
        (first or build).ended.wait(PATIENCE)
    if build.index is not None or build.error is not None:
        return
    name = f"{model.name} {searched.most}"
    if build.cancelled.is_set():
        with st.container(horizontal=True, vertical_alignment="center"):
            text = f"The index of {choice.chip(searched.corpus, 'corpora')} for {build.name} was "
            text += "not made." if first is None else f"not made. Shown: its first {FIRST:,} words."
            st.caption(plain(text))
            st.button(
                "Make the index", key=f"make {name}", on_click=_forget,
                args=(_key(model, searched),), type="tertiary",
            )  # fmt: skip
    else:
        st.fragment(_watch, run_every=EVERY, key=f"watch {name}")(build, first, name)


def _watch(build: Build, first: Build | None, name: str) -> None:
    """Draw the progress and a button that cancels; draw the page again at each index."""
    for each in filter(None, (build, first)):
        each.looked_at = time.monotonic()
    shown = f"first words of {name}"
    is_first = first is not None and first.index is not None
    if build.ended.is_set() or (is_first and not st.session_state.get(shown)):
        st.session_state[shown] = is_first
        st.rerun()
    text = f"Shown so far: the first {FIRST:,} words. " if is_first else ""
    # of all words only when the first are there
    build_now = build if first is None or first.ended.is_set() else first
    corpus = choice.chip(build.searched.corpus, "corpora")
    text += f"Indexing {corpus} for {build.name}, once: {build_now.in_words()}"
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.progress(build_now.share, text=plain(text))
        if st.button("Cancel", key=f"cancel {name}", type="tertiary", help=ONCE):
            build.cancelled.set()
            build.ended.wait(PATIENCE)
            st.rerun()
