"""The model and the corpus of all pages: chosen once in the top bar, and part of the address.

`choose` draws the two chips and is called once; `model` and `corpus` return the chosen references.
A page changes them with `choose_model` and `choose_corpus`, in a callback or before `st.rerun()`.
A reference is opened only by a page that needs it. Costs: listing the folders of runs and uploads.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from workbench.app.text import plain, shortened, show_error
from workbench.app.uploaded_files import uploads
from workbench.core import machine, names
from workbench.core.errors import WorkbenchError
from workbench.core.names import Kind
from workbench.models.references import (
    BUILT_IN_MODELS,
    HUB_ID,
    MINI,
    NOVELS,
    PREFIXED,
    TRAINED,
    name_of_model,
    shape_of,
    split_ref,
    with_edit,
    with_local_names,
    without_local_names,
)

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

MODEL, CORPUS = "model", "corpus"
SPLIT, SENTENCE = "split", "sentence"  # in the address of pages that show one sentence
CORPORA = ("primer", "primer:size=200")
FIRST_MODEL = MINI[0]  # with built-in results
FIRST_READER = NOVELS[0]  # of pages where a text is typed: it has read English
_ICONS = {MODEL: ":material/deployed_code:", CORPUS: ":material/menu_book:"}
_SHOW = "show"  # a sentence, in a link from one page to another
_SHOWN = "shown"
_RECENT, N_RECENT = "recent ", 4  # references chosen before, the last ones first
_SHOWING = "showing "  # the choice in the bar, and how many were before
_PAGE = "page of the address"
_PROBLEM = "problem with the "
_NEXT = "next "  # the choice to set when the boxes are drawn again
_BEGUN = "page that was begun"
_CHOSEN = "a model was chosen"


def begin_with(is_typed: bool) -> None:
    """Set the first model of a page that is opened without a link; call it before `choose`.

    Where a text is typed it is one that has read English, elsewhere the one with built-in results,
    unless a model was chosen. A link keeps its model: without one, that with built-in results.
    """
    page = open_page()
    before = st.session_state.get(_BEGUN)
    st.session_state[_BEGUN] = page
    if before == page or st.session_state.get(_CHOSEN):
        return
    current = _current(MODEL)
    if is_typed and not st.query_params and current in ("", FIRST_MODEL):
        st.session_state[_NEXT + MODEL] = FIRST_READER
        if current:
            _say_once(f"Here the model is {FIRST_READER}, which has read English.")
    is_by_bar = before is not None and not st.query_params.keys() - {MODEL, CORPUS}
    if not is_typed and is_by_bar and current == FIRST_READER:
        st.session_state[_NEXT + MODEL] = FIRST_MODEL
        _say_once(f"Here the model is {FIRST_MODEL}, which has built-in results.")


def _say_once(change: str) -> None:
    """Say in this session that a page has another model than the one before."""
    if not st.session_state.get(change):
        st.session_state[change] = True
        st.toast(plain(f"{change} One that you choose in the bar stays."), duration="long")


def open_page() -> str | None:
    """What tells the open page from others; None without a browser."""
    return context.page_script_hash if (context := get_script_run_ctx()) else None


def choose(more: Callable[[Kind], None] | None = None) -> None:
    """Draw a chip for the model and one for the corpus; each opens its picker.

    `more` draws further ways to choose, below the list and what was chosen before.
    """
    _show_sentence()
    is_new_page = _is_new_page()
    pickers: tuple[tuple[str, Kind, list[str], str], ...] = (
        (
            MODEL,
            "models",
            models(),
            "A built-in model, a run that trained a model, an upload, a folder, a hub id, "
            "a .gguf file, elmo:… or vectors:… You can type a name that is not in the list.",
        ),
        (
            CORPUS,
            "corpora",
            corpora(),
            "A built-in corpus, an upload, a file, or a folder with one file for each split. You "
            "can type a name that is not in the list.",
        ),
    )
    for key, kind, options, about in pickers:
        _correct_address(key, kind)
        by_code = _NEXT + key in st.session_state
        if by_code:
            st.session_state[key] = st.session_state.pop(_NEXT + key)
        options = _with_current(kind, key, options)
        with st.container(key=f"kept-{key}"):  # never in view: see `_pick`
            st.selectbox(
                f"Kept {key}",
                options,
                key=key,
                bind="query-params",
                accept_new_options=True,
                format_func=_in_address(kind),
            )
        current = _current(key) or options[0]
        n_choices = _count_choices(key, current)
        with (
            place_of_popover(n_choices),
            st.popover(
                plain(_in_bar(with_size(current, kind))),
                icon=_ICONS[key],
                help=plain(f"{key.capitalize()}: {with_name(current, kind)}"),
            ),
        ):
            _pick(key, kind, options, current, n_choices, about)
            _offer_recent(current, key, kind)
            if more is not None:
                more(kind)
            offer_name(current, kind)
            st.page_link(
                f"pages/{kind}.py",
                label=f"About this {key}",
                icon=":material/open_in_new:",
            )
        chosen = st.session_state.get(key)  # none without a browser
        label = named(str(chosen), kind) if chosen and chosen != options[0] else None
        _write_address(key, label, by_code or is_new_page)


def _pick(
    key: str, kind: Kind, options: list[str], current: str, n_choices: int, about: str
) -> None:
    """Draw the list of a chip.

    It is another box than the one that keeps the choice and has it in the address: a box of a
    closed popover does not hear of choices of the code, and would send its old value back. This one
    is new after each choice, and the other is always drawn.
    """
    box = f"pick {key} {n_choices}"

    def picked() -> None:
        ref = st.session_state.get(box)
        if ref and ref != current:  # a look at the jobs sends boxes that are gone once more
            CHOOSE[kind](of_address(str(ref), kind))

    st.selectbox(
        key.capitalize(),
        options,
        options.index(current) if current in options else None,
        key=box,
        accept_new_options=True,
        format_func=lambda ref: with_name(str(ref), kind),
        help=about,
        on_change=picked,
    )


def _count_choices(key: str, current: str) -> int:
    """How many choices were shown before the current one."""
    before, count = st.session_state.get(_SHOWING + key, (current, 0))
    count += before != current
    st.session_state[_SHOWING + key] = current, count
    return int(count)


def place_of_popover(n_choices: int) -> "DeltaGenerator":
    """The place of a popover, which the browser closes when another choice is shown.

    The browser keeps a popover open as long as it is at the same place, so each choice moves it.
    (To close it by its state, Streamlit sends a run in which the choice is still the former one.)
    """
    place = st.container(gap=None, width="content")
    if n_choices % 2:
        place.empty()
    return place


def _is_new_page() -> bool:
    """Whether another page was drawn before."""
    page = open_page()
    before = st.session_state.get(_PAGE)
    st.session_state[_PAGE] = page
    return before not in (None, page)


def _write_address(key: str, value: str | None, is_certain: bool) -> None:
    """Make the address say what is chosen; None: the default, which it leaves out.

    Streamlit writes neither a choice of the code (as all are) nor, on another page, one that was
    made before. `is_certain`: also if Streamlit has it, since after a choice of the code the
    browser may have another value, and after a link between pages the same one several times.
    """
    context = get_script_run_ctx()
    wanted = [] if value is None else [value]
    if context is None or (st.query_params.get_all(key) == wanted and not is_certain):
        return
    with context.session_state.query_params() as address:
        address.set_corrected_value(key, value or "", "string_value")
        if value is None:
            address.remove_param(key)


def _offer_recent(ref: str, key: str, kind: Kind) -> None:
    """Draw buttons for the references chosen before in this session."""
    before: list[str] = st.session_state.get(_RECENT + key, [])
    st.session_state[_RECENT + key] = list(dict.fromkeys([ref, *before]))[: N_RECENT + 1]
    for other in before:
        if other != ref:
            st.button(
                plain(with_size(other, kind)),
                key=f"recent {key} {other}",
                type="tertiary",
                icon=":material/history:",
                help=plain(with_name(other, kind)),
                on_click=CHOOSE[kind],
                args=(other,),
            )


def offer_name(ref: str, kind: Kind, place: str = "bar") -> None:
    """Draw a box for the name of a reference, in one of the places that have it."""
    source = split_ref(ref).source
    key = f"name of the {names.ONE[kind]} {source} in the {place}"

    def changed() -> None:
        try:
            names.give(kind, source, str(st.session_state.get(key) or ""))
            if ref == (model() if kind == "models" else corpus()):
                CHOOSE[kind](ref)  # the address has its name
        except WorkbenchError as error:
            st.session_state[_PROBLEM + key] = error

    st.text_input(
        f"Name of this {names.ONE[kind]}",
        value=names.given(kind, source),
        key=key,
        placeholder=_short(source, kind),
        max_chars=names.LONGEST,
        on_change=changed,
        help="Shown in place of the path or reference: in titles, reports and addresses.",
    )
    if error := st.session_state.pop(_PROBLEM + key, None):
        show_error(error)


def chip(ref: str, kind: Kind) -> str:
    """The name of a reference, and what is known of its size: `my-bert · 6×12`."""
    if kind == "models" and (shape := shape_of(ref)):
        return f"{name_of(ref, kind)} · {shape[0]}×{shape[1]}"
    return name_of(ref, kind)


def with_size(ref: str, kind: Kind) -> str:
    """A chip with the number of sentences of a corpus, if they were counted: `dev · 2,001 …`."""
    from workbench.app import cache

    label = chip(ref, kind)
    if kind == "corpora" and (sizes := cache.sizes_if_known(ref)):
        more = "" if all(size.whole for size in sizes) else "+"
        count = sum(size.docs for size in sizes)
        return f"{label} · {count:,}{more} {'sentence' if count == 1 else 'sentences'}"
    return label


def _in_bar(label: str) -> str:
    """A chip that can only break before its size, which a narrow screen leaves out."""
    name, dot, size = label.rpartition(" · ")
    return " ·\u00a0".join((name, size.replace(" ", "\u00a0"))) if dot else label


def name_of(ref: str, kind: Kind) -> str:
    """The name of a reference: the one that was given to it, else the reference without folders."""
    return names.given(kind, ref) or _short(ref, kind)


def _short(ref: str, kind: Kind) -> str:
    """The reference without its folders."""
    if kind == "models":
        return name_of_model(ref)
    return names.without_hash(Path(ref).name) if ref.startswith(("/", "~", ".")) else ref


def model() -> str:
    """The reference of the chosen model."""
    return str(st.session_state.get(MODEL) or FIRST_MODEL)


def corpus() -> str:
    """The reference of the chosen corpus."""
    return str(st.session_state.get(CORPUS) or CORPORA[0])


def choose_model(ref: str) -> None:
    """Choose this model when the page is next drawn."""
    st.session_state[_CHOSEN] = True
    _choose(MODEL, ref)


def choose_corpus(ref: str) -> None:
    """Choose this corpus when the page is next drawn."""
    _choose(CORPUS, ref)


def _choose(key: str, ref: str) -> None:
    """Choose a reference when the page is next drawn.

    The address forgets the former one: a box that is new on a page takes its value from there.
    """
    st.session_state[_NEXT + key] = ref
    if (context := get_script_run_ctx()) is not None:
        with context.session_state.query_params() as address:
            address.remove_param(key)


def choose_as_shown(model: str, corpus: str) -> None:
    """Choose again what a button was drawn for: the browser may send an older choice of the bar."""
    choose_model(model)
    choose_corpus(corpus)


CHOOSE: dict[Kind, Callable[[str], None]] = {"models": choose_model, "corpora": choose_corpus}


def in_url() -> dict[str, str]:
    """The chosen model and corpus as query parameters, for links between pages."""
    return {MODEL: named(model(), "models"), CORPUS: named(corpus(), "corpora")}


def in_url_of_results() -> dict[str, str]:
    """The same without a first model that was not chosen and may have no results."""
    if model() == FIRST_READER and not st.session_state.get(_CHOSEN):
        return {CORPUS: named(corpus(), "corpora")}
    return in_url()


def showing(split: str, sentence: int) -> dict[str, str]:
    """Query parameters of a link that opens another page at this sentence.

    Streamlit drops `split` and `sentence` from a link if the page that is left has bound them, so a
    third parameter carries them too.
    """
    return {SPLIT: split, SENTENCE: str(sentence), _SHOW: f"{split}/{sentence}"}


def named(ref: str, kind: Kind) -> str:
    """A reference as the address has it: its name if it was given one, and no folders."""
    source, suffix, *_ = split_ref(ref)
    if given := names.given(kind, source):
        return f"{given}{suffix}"
    paths = source.partition(":")[2] if source.startswith(PREFIXED) else source
    if not all(path.startswith("/") and Path(path).exists() for path in paths.split(",")):
        return ref
    return with_local_names(ref) if kind == "models" else names.local(kind, ref)


def of_address(label: str, kind: Kind) -> str:
    """The reference that an address names: by a name that it has, or had."""
    if kind == "models":
        with suppress(WorkbenchError):  # an edit that cannot be read stays as it is
            label = with_edit(label, "")
    source, suffix, *_ = split_ref(label)
    for ref in names.all_given(kind):
        if names.given(kind, ref) == source:
            return f"{ref}{suffix}"
    try:
        ref = without_local_names(label) if kind == "models" else names.path_of(kind, label)
    except WorkbenchError:  # whoever opens it says that it is not known
        return label
    former = names.known(kind, source)
    return f"{former}{suffix}" if former and ref == label and _is_nowhere(source, kind) else ref


def _is_nowhere(ref: str, kind: Kind) -> bool:
    """Whether a reference names nothing on this machine."""
    from workbench.app import cache

    if kind == "models":
        return cache.is_remote_model(ref) or not HUB_ID.fullmatch(ref)
    return not ref.startswith((*CORPORA, "hub:", "/", "~", "."))


def with_name(ref: str, kind: Kind) -> str:
    """The name of a reference, and the reference if it says more: `my bert (mini:bert)`."""
    name = name_of(ref, kind)
    return shortened(name if ref.startswith(("/", "~")) or name == ref else f"{name} ({ref})")


def _show_sentence() -> None:
    """Set the page's split and sentence from the parameter of `showing`, before boxes are drawn.

    The parameter stays in the address and is updated with the choice: a box that is set from here
    does not write to the address itself.
    """
    linked = st.query_params.get(_SHOW, "")
    split, _, index = linked.rpartition("/")
    if not (split and index.isascii() and index.isdecimal() and len(index) < 10):
        st.session_state.pop(_SHOWN, None)
    elif st.session_state.get(_SHOWN) != linked:
        st.session_state[_SHOWN] = linked
        st.session_state[SPLIT], st.session_state[SENTENCE] = split, int(index)
    elif SPLIT not in st.session_state or SENTENCE not in st.session_state:
        del st.query_params[_SHOW]
    else:
        current = f"{st.session_state[SPLIT]}/{st.session_state[SENTENCE]}"
        if current != linked:
            st.session_state[_SHOWN] = st.query_params[_SHOW] = current


def details(ref: str, kind: Kind) -> str:
    """Where a reference with another name leads: its path, or that it was uploaded."""
    upload = next((each for each in uploads(kind) if str(each.path) == ref), None)
    if upload is None:
        return ref
    return f"uploaded, hash of its files {upload.path.name.partition('-')[0][:8]}"


def models() -> list[str]:
    """Models offered in the list: built-in models, uploads, named ones, and those of runs."""
    runs = machine.runs()
    trained = sorted(run.parent.name for run in runs.glob(f"*/{TRAINED}") if run.is_dir())
    uploaded = [str(upload.path) for upload in uploads("models")]
    return list(dict.fromkeys([*MINI, *BUILT_IN_MODELS, *uploaded, *_named("models"), *trained]))


def corpora() -> list[str]:
    """Corpora offered in the list: the built-in corpus, uploads, and named ones."""
    uploaded = [str(upload.path) for upload in uploads("corpora")]
    return list(dict.fromkeys([*CORPORA, *uploaded, *_named("corpora")]))


def _named(kind: Kind) -> list[str]:
    """References that were given a name, of what is still there."""
    return [ref for ref in names.all_given(kind) if not ref.startswith("/") or Path(ref).exists()]


def _in_address(kind: Kind) -> Callable[[object], str]:
    return lambda ref: named(str(ref), kind)


def _with_current(kind: Kind, key: str, options: list[str]) -> list[str]:
    """The options, with the current choice (of the box or the address) added if it is missing."""
    ref = of_address(_current(key) or options[0], kind)
    return options if ref in options else [*options, ref]


def _correct_address(key: str, kind: Kind) -> None:
    """Write the name into an address that has a former name or a path, before a box reads it."""
    label, context = st.query_params.get(key), get_script_run_ctx()
    if label and context is not None and key not in st.session_state:
        name = named(of_address(label, kind), kind)
        if name != label:
            with context.session_state.query_params() as address:
                address.set_corrected_value(key, name, "string_value")
                address.set_initial_query_params_from_current()


def _current(key: str) -> str:
    return str(st.session_state.get(key) or st.query_params.get(key) or "")
