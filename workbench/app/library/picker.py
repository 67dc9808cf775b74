"""Ways to open another model or corpus from the top bar: an upload, a folder, or the network.

They are drawn below the list of a chip, one at a time, and only they are drawn again while they are
used. Nothing is downloaded before a visitor has seen its size and licence. Costs: nothing until one
is used; then what the upload, the folder or the download costs.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import streamlit as st

from workbench.app import cache, choice
from workbench.app.library import uploads
from workbench.app.text import errors_shown, facts, plain, size
from workbench.core.errors import WorkbenchError
from workbench.core.names import Kind

UPLOAD, FOLDER, HUB = "Upload", "Folder", "Hub"
EVERY = 0.5  # seconds between looks at a download
_FILES = "Name a folder with config.json, model.safetensors and the tokenizer files."
_FOUND = "found on the hub "  # what the hub said of the repository that was looked up


def draw(kind: Kind) -> None:
    """Draw the choice between the ways, and the chosen one."""
    st.fragment(_ways)(kind)


def _ways(kind: Kind) -> None:
    way = st.segmented_control(
        "Open another",
        [UPLOAD, FOLDER, HUB],
        key=f"way {kind}",
        help="Upload files to this machine, name a folder on it, or download.",
    )
    if way == UPLOAD:
        uploads.draw_model_upload("bar") if kind == "models" else uploads.draw_corpus_upload("bar")
    elif way == FOLDER:
        _folder(kind)
    elif way == HUB:
        _hub(kind)


def _use(kind: Kind, ref: str) -> None:
    """Choose a reference and draw the whole page with it."""
    st.session_state.pop(_FOUND + kind, None)
    choice.CHOOSE[kind](ref)
    st.rerun()


# --- a folder of this machine ---------------------------------------------------------------------


def _folder(kind: Kind) -> None:
    one = "model" if kind == "models" else "corpus"
    with st.form(f"folder {kind}", border=False):
        path = st.text_input(
            "Folder or GGUF file of the model"
            if kind == "models"
            else "File, or folder of split files",
            placeholder="/data/my-bert" if kind == "models" else "/data/en_ewt-ud-dev.conllu",
            help="A path on the machine where the app runs. It is read in place, not copied.",
        )
        pressed = st.form_submit_button(f"Use this {one}")
    if pressed and (path := str(path or "").strip()):
        with errors_shown():
            require_files(kind, path)
            if kind == "models" or not uploads.is_open_table(path, "bar"):
                _use(kind, path)
    if kind == "corpora":
        uploads.draw_typed_table("bar")


def require_files(kind: Kind, path: str) -> None:
    """Raise if no model or corpus is at a path, before it is chosen."""
    if kind == "corpora":
        from workbench.corpora.formats import resolve

        resolve(Path(path))
        return
    from workbench.models.references import gguf_of, is_local, require_model

    if not is_local(path):
        raise WorkbenchError(
            "there is no such folder or GGUF file.",
            code="file-not-found",
            where=path,
            remedy=f"{_FILES[:-1]}, or a GGUF file.",
        )
    require_model(path)
    if gguf_of(path) is None and not any(
        Path(path).expanduser().glob("*.json")
    ):  # of transformers, ELMo or vectors
        raise WorkbenchError(
            "the folder has no configuration, so it is no model.",
            code="file-not-found",
            where=path,
            remedy=_FILES,
        )


# --- the network ----------------------------------------------------------------------------------


def _hub(kind: Kind) -> None:
    """Draw what can be downloaded: entries of the catalogue, or a name on the Hugging Face hub."""
    from workbench.fetch import entries

    one = "model" if kind == "models" else "corpus"
    known = {entry.name: entry for entry in entries() if entry.kind == one}
    name = st.selectbox(
        "Name on the Hugging Face hub" if kind == "models" else "Public corpus, or hub name",
        list(known),
        index=None,
        key=f"hub {kind}",
        accept_new_options=True,
        placeholder="choose, or type owner/name",
        help="Those in the list have verified files. For another, type its name: owner/name.",
    )
    name = str(name or "").strip()
    if not name:
        return
    with errors_shown():
        if name in known:
            _entry(kind, name)
        else:
            _repository(kind, name.removeprefix("hub:"))


def _entry(kind: Kind, name: str) -> None:
    """Draw an entry of the catalogue, as `workbench fetch` lists it."""
    from workbench.fetch import fetch, find, is_there

    entry = find(name)
    is_here = is_there(entry)
    st.caption(plain(entry.about))
    facts([("size", size(entry.size)), ("licence", entry.licence), ("source", entry.page)])
    if st.button("Use it" if is_here else "Download and use", key=f"fetch {kind}", type="primary"):
        if not is_here:
            _with_progress(lambda on_progress: str(fetch(name, on_progress)))
        _use(kind, entry.ref)


def _repository(kind: Kind, name: str) -> None:
    """Draw the size and licence of a repository after a request, and the button to download it."""
    from workbench.fetch.hub import look_up, received

    if kind == "models" and not cache.is_remote_model(name):
        st.caption("It is on this machine.")
        if st.button("Use it", key="use hub model", type="primary"):
            _use(kind, name)
        return
    found = st.session_state.get(_FOUND + kind)
    if found is None or found.name != name.partition("@")[0]:
        st.caption("Requests its size and licence from the hub; nothing is downloaded yet.")
        if not st.button("Ask the hub", key=f"ask {kind}", icon=":material/travel_explore:"):
            return
        with st.spinner("Asking the hub …"):
            found = look_up(name.partition("@")[0], "model" if kind == "models" else "dataset")
        st.session_state[_FOUND + kind] = found
    facts([("size", size(found.size)), ("licence", found.licence), ("source", found.page)])
    if kind == "corpora":
        if st.button("Use it", key="use hub corpus", type="primary", help="Rows are read when "
                     "they are shown."):  # fmt: skip
            ref = f"hub:{name}"
            st.session_state.setdefault("hub-corpora", set()).add(ref)
            _use(kind, ref)
    elif st.button("Download and use", key="download hub model", type="primary"):
        before, bar = received(name), st.progress(0.0, "Downloading …")
        with ThreadPoolExecutor(1) as aside:  # no call of Streamlit in it
            from workbench.runs.isolated import look

            opened = aside.submit(look, name, "facts", True)
            while not opened.done():
                done = received(name) - before
                share = min(1.0, done / found.size) if found.size else 0.0
                words = "Opening the model …" if share == 1 else f"Downloading: {size(done)}"
                bar.progress(share, f"{words} of {size(found.size)}" if share < 1 else words)
                time.sleep(EVERY)
        opened.result()
        _use(kind, name)


def _with_progress(fetch: Callable[[Callable[[int, int, str], None]], str]) -> None:
    bar = st.progress(0.0, "Downloading …")

    def on_progress(done: int, total: int, doing: str) -> None:
        share = min(1.0, done / total) if total else 0.0
        bar.progress(share, f"{plain(doing)}: {size(done)} of {size(total)}")

    fetch(on_progress)
