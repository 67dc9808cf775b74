"""A request: its models, corpora and options; its check, and the start of a run.

A request is checked before it is started, by the function that the command line uses. Costs:
reading the bytes of models and corpora, once a minute for the same request.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.app import cache, choice, ways_on
from workbench.app.runs import run_list
from workbench.app.text import errors_shown, plain, shortened, show_error
from workbench.core.errors import WorkbenchError
from workbench.core.findings import capital
from workbench.core.names import Kind
from workbench.core.objectives import described, name_of
from workbench.experiment.definition import EXPERIMENTS, PLURALS, Experiment, counted
from workbench.runs.processes import starter

if TYPE_CHECKING:
    from workbench.runs.request import Request
    from workbench.runs.run import Run
    from workbench.runs.status import Status

FRESH = "runs that were started in this session"
WAIT = 60  # seconds that a request is cached, while files may change
AMBIGUOUS = "task-ambiguous"  # the code of the error that a label is still to be chosen
SPLITS = ("train", "dev", "test")
DEVICES = ("cpu", "cuda", "mps")
PRECISIONS = ("auto", "fp32", "bf16", "fp16")


Refs = tuple[str, ...]
RequestArguments = tuple[str, Refs, Refs, Mapping[str, Any], Mapping[str, Any]]
# experiment, models, corpora, settings, and options (of `make_request`, such as the seed)


@dataclass(frozen=True)
class Preview:
    """A checked request: the run's name, its command, and why it cannot be started."""

    name: str = ""
    command: str = ""
    is_done: bool = False
    problems: tuple[WorkbenchError, ...] = ()


def opened_or_warned(experiment: Experiment[Any]) -> "Run | None":
    """The run in the address; a message is drawn if it is no run of this experiment."""
    run = _in_address()
    if run is None or (run.spec.experiment == experiment.name and not run.spec.sweep):
        return run
    with st.container(horizontal=True, vertical_alignment="center"):
        st.info(f"The run in the address is not a run of {experiment.name}.")
        st.page_link("pages/runs.py", label="All runs", icon=":material/list:")
    return None


def _in_address() -> "Run | None":
    """The run in the address; an error is drawn if it cannot be opened."""
    names = run_list.opened()
    if not names:
        return None
    try:
        run = run_list.open_named(names[0])
        _ = run.spec  # raises if it is damaged
        return run
    except WorkbenchError as error:
        show_error(error)
        return None


def inputs(experiment: Experiment[Any]) -> tuple[Refs, Refs]:
    """Draw the models and corpora of the request; first those of the top bar."""
    left, right = st.columns(2)
    with left:
        models = _inputs(experiment, "model", experiment.models, choice.model(), choice.models())
    with right:
        corpora = _inputs(
            experiment, "corpus", experiment.corpora, choice.corpus(), choice.corpora()
        )
    return models, corpora


def _inputs(
    experiment: Experiment[Any],
    what: str,
    bounds: tuple[int, int | None],
    first: str,
    known: Sequence[str],
) -> Refs:
    minimum, maximum = bounds
    kind: Kind = "models" if what == "model" else "corpora"
    if maximum == 0:
        return ()
    if not minimum and not st.checkbox(
        f"Use a {what}",
        key=f"use {experiment.name} {what}",
        help=f"Optional: this experiment also runs without a {what}.",
        persist_state="session",
    ):
        return ()
    options = list(dict.fromkeys([first, *known]))
    one = st.selectbox(
        what.capitalize(),
        options,
        key=f"{what} of a new run, from {first}",  # again that of the top bar when it changes
        accept_new_options=True,
        format_func=lambda ref: choice.with_name(str(ref), kind),
    )
    one = str(one or first)
    if maximum == 1:
        return (one,)
    further = st.multiselect(
        f"More {PLURALS[what]}",
        [ref for ref in known if ref != one],
        key=f"further {experiment.name} {what}",
        accept_new_options=True,
        max_selections=None if maximum is None else maximum - 1,
        help=f"This experiment takes {counted(what, minimum, maximum)}.",
        persist_state="session",
    )
    return (one, *further)


def objective(experiment: Experiment[Any], models: Refs) -> Mapping[str, str]:
    """Say what is measured of the model, and draw a choice if it has several objectives.

    Nothing is drawn for an experiment that measures none, of a model that cannot be opened, or of
    one that cannot be measured: the check of the request says why.
    """
    from workbench.runs.model_facts import known
    from workbench.runs.request import absolute

    if not experiment.measures or not models or cache.is_remote_model(models[0]):
        return {}
    with suppress(WorkbenchError):
        with st.spinner("Opening the model …"):
            facts = known(absolute(models[0])).facts
        objectives = {name_of(each): described(each) for each in facts["objectives"]}
        if len(objectives) < 2:
            needs = experiment.needs_for(experiment.settings())
            if all(need.met(facts) for need in needs):
                for text in objectives.values():
                    st.caption(plain(f"Measured on {text}."))
            return {}
        first = next(iter(objectives))
        picked = st.segmented_control(
            "Objective",
            list(objectives),
            default=first,
            required=True,
            key=f"objective {experiment.name} {models[0]}",
            help="What is measured, of what the model predicts: by default what it was made for.",
        )
        st.caption(plain(f"Measured on {objectives[picked or first]}."))
        return {} if picked in (None, first) else {"objective": str(picked)}
    return {}


def run_options(experiment: Experiment[Any]) -> Mapping[str, Any]:
    """Draw seed, split, device and precision; return the choices."""
    with st.container():
        columns = st.columns(4)
        seed = columns[0].number_input(
            "Seed",
            0,
            2**32 - 1,
            0,
            help="Random seed (default 0). The same seed gives the same result.",
            persist_state="session",
            key=f"seed {experiment.name}",
        )
        split = columns[1].selectbox(
            "Split",
            SPLITS,
            None,
            key=f"split {experiment.name}",
            placeholder="default",
            accept_new_options=True,
            help="The part of the corpus to analyse: train, dev, test, or another name.",
            persist_state="session",
        )
        device = columns[2].selectbox(
            "Device",
            DEVICES,
            None,
            key="device",
            placeholder="best available",
            accept_new_options=True,
            help="Device for the model: cpu, cuda (NVIDIA GPU) or mps (Apple GPU).",
            persist_state="session",
        )
        precision = columns[3].selectbox(
            "Precision",
            PRECISIONS,
            key="precision",
            help="Number format of the weights. auto: bf16 on a GPU, fp32 on other devices.",
            persist_state="session",
        )
    return {"seed": int(seed), "split": split, "device": device, "precision": precision}


def preview(arguments: RequestArguments) -> Preview:
    """The checked request."""
    from workbench.core import machine
    from workbench.report.content import command
    from workbench.runs.run import Run

    try:
        spec, problems = _checked(arguments)
    except WorkbenchError as error:
        return Preview(problems=(error,))
    folder = machine.runs() / spec.name
    is_done = folder.is_dir() and Run(folder).status.state == "done"
    return Preview(spec.name, command(spec), is_done, () if is_done else problems)


@st.cache_data(ttl=WAIT, max_entries=32, show_spinner="Checking the request …")
def _checked(arguments: RequestArguments) -> tuple[Any, tuple[WorkbenchError, ...]]:
    request = _request(arguments)
    return request.spec, tuple(request.unmet_requirements())


def _request(arguments: RequestArguments) -> "Request":
    from workbench.runs.request import make_request

    experiment, models, corpora, settings, options = arguments
    return make_request(experiment, models, corpora, settings, **options)


def offer(arguments: RequestArguments, command: Any) -> bool:
    """Draw problems of the request and the button that starts it; return whether it was clicked.

    The command that does the same is drawn into the place `command`.
    """
    checked = preview(arguments)
    draw_problems(checked, arguments[1])
    if checked.command:
        with command:
            st.markdown("**Command line**")
            st.code(checked.command, language="bash", wrap_lines=True)
    with st.container(horizontal=True, vertical_alignment="center"):
        clicked = st.button(
            "Show result" if checked.is_done else "Run",
            type="primary",
            icon=":material/play_arrow:",
            disabled=bool(checked.problems),
            key=f"Run {arguments[0]}",
            on_click=choice.choose_as_shown,
            args=(choice.model(), choice.corpus()),
        )
        if checked.name and not checked.problems:
            text = "Result is stored" if checked.is_done else "Ready to run"
            st.badge(text, icon=":material/check:", color="green")
    return clicked


def draw_problems(checked: Preview, models: Refs) -> None:
    """Draw why a request cannot be computed, and what its models can do instead."""
    starter.keep_ready()  # a run is likely to be started soon
    for problem in checked.problems:
        if problem.code == AMBIGUOUS:  # nothing is wrong yet
            st.info(f"{plain(capital(problem.what))} Choose the one to predict.")
        else:
            show_error(problem)
    if any(problem.code == "model-unsupported" for problem in checked.problems):
        _ways_on(models)


def _ways_on(models: Refs) -> None:
    """Draw what can be done with a model of a refused request that predicts nothing."""
    from workbench.runs.model_facts import known
    from workbench.runs.request import absolute

    for ref in models:
        with suppress(WorkbenchError):
            facts = known(absolute(ref)).facts
            if ways_on.predicts_nothing(facts):
                ways_on.draw(ref, facts)
                return


def start(arguments: RequestArguments) -> None:
    """Start the run as a button does, and draw the page again; an error is shown."""
    with errors_shown(), st.spinner("Starting …"):
        begin(arguments)
        st.rerun()


def begin(arguments: RequestArguments) -> str:
    """Start the run, or find the finished one; its name goes into the address."""
    from workbench.core import machine
    from workbench.runs.api import begun
    from workbench.runs.run import Run

    with _starting(arguments[0]):
        request = _request(arguments)
        stored = Run(machine.runs() / request.spec.name)
        is_done = stored.path.is_dir() and stored.status.state == "done"
        run = begun(request)
    st.session_state[FRESH] = {**st.session_state.get(FRESH, {}), run.name: is_done}
    st.query_params[run_list.OPENED] = run.name
    return run.name


@st.cache_resource(show_spinner=False)
def _being_started() -> list[str]:
    """The experiments of the runs that this server is starting."""
    return []


@contextmanager
def _starting(experiment: str) -> Iterator[None]:
    _being_started().append(experiment)
    try:
        yield
    finally:
        _being_started().remove(experiment)


def draw_start(experiment: str) -> None:
    """Draw that a run is being started, by a page that was reloaded since, until it is there."""
    if experiment in _being_started():
        st.fragment(_wait_for_start, run_every=1.0)(experiment)


def _wait_for_start(experiment: str) -> None:
    if experiment not in _being_started():
        st.rerun()
    st.caption("Starting …")


def note_if_cached(run: "Run") -> None:
    """Draw a note if the result was already on disk."""
    if st.session_state.get(FRESH, {}).get(run.name):
        st.info("This run was already done: its stored result is shown.", icon=":material/save:")


# --- pages of several experiments -----------------------------------------------------------------
#
# One experiment is open: that of the opened run, or the one in the address.

ANALYSIS = "analysis"  # in the address


def chosen(
    experiments: Mapping[str, str],
    page: str,
    query_keys: tuple[str, ...] = (),
    about: str | None = None,
) -> Experiment[Any]:
    """The open experiment of a page: that of the opened run, else the one chosen by its label.

    `query_keys` are choices in the address that another experiment does not have.
    """
    labels = list(experiments)
    current = _of_run(experiments) or st.query_params.get(ANALYSIS)
    first = current if current in labels else labels[0]
    key = f"{ANALYSIS} of {page} {first}"

    def changed() -> None:
        """Close the opened run: it is of another experiment."""
        if label := st.session_state.get(key):
            run_list.set_query(ANALYSIS, str(label), (run_list.OPENED, *query_keys))

    picked = st.segmented_control(
        "Analysis",
        labels,
        default=first,
        required=True,
        key=key,
        on_change=changed,
        help=about,
        label_visibility="collapsed",
    )
    return EXPERIMENTS[experiments[picked if picked in experiments else first]]


def _of_run(experiments: Mapping[str, str]) -> str:
    """The label of the opened run's experiment; "" if it is none of these."""
    names = run_list.opened()
    if not names:
        return ""
    try:
        opened_experiment = run_list.open_named(names[0]).spec.experiment
    except WorkbenchError:
        return ""
    return next((label for label, name in experiments.items() if name == opened_experiment), "")


# --- earlier runs of one experiment ---------------------------------------------------------------
#
# Costs: one look at the status file of each run.

MAX_LISTED = 200  # of the latest runs


def choose_run(experiment: str, opened: str, query_keys: Sequence[str] = ()) -> None:
    """Draw a box that opens an earlier run; `query_keys` are cleared from the address."""
    labels = titles(experiment, include_unfinished=True)
    names = [name for name in labels if name != opened]
    if not names:
        return
    key = f"open {experiment} {opened}"
    st.selectbox(
        "Open another run" if opened else "Open an earlier run",
        names,
        None,
        format_func=labels.__getitem__,
        key=key,
        placeholder="model, corpus, start time",
        on_change=lambda: run_list.set_query(
            run_list.OPENED, st.session_state.get(key), query_keys
        ),
    )


def titles(experiment: str, include_unfinished: bool = False) -> dict[str, str]:
    """The titles of an experiment's runs by name, latest first."""
    runs = [
        (name, status)
        for name, status in run_list.all_statuses()
        if status.experiment == experiment and (status.state == "done" or include_unfinished)
    ]
    return {name: _title(name, status) for name, status in runs[:MAX_LISTED]}


def _title(name: str, status: "Status") -> str:
    state = "" if status.state == "done" else f", {status.state}"
    created = status.created[:16].replace("T", " ")
    models, corpora = run_list.inputs_of(name, status)
    inputs = ", ".join((*models, *corpora))
    return shortened(f"{inputs}{state}, {created} ({name.rpartition('-')[2][:6]})")
