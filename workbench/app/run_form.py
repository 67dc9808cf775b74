"""The parts of asking a question on a page: which experiment, of what, how; and what it comes to.

What a question comes to is worked out before it is started, by the function that the command line
uses. Costs reading the bytes of models and corpora, once a minute for the same question.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.app import run_list, settings_form, sidebar
from workbench.app.text import plain, shortened, tell, told
from workbench.core.errors import WorkbenchError
from workbench.core.experiment import EXPERIMENTS, Experiment
from workbench.models.references import MINI

if TYPE_CHECKING:
    from workbench.runs.request import Question
    from workbench.runs.run import Run
    from workbench.runs.status import Status

EXPERIMENT = "experiment"  # in the address
FRESH = "runs that were started in this session"
WAIT = 60  # seconds that a question is remembered
SPLITS = ("train", "dev", "test")
DEVICES = ("cpu", "cuda", "mps")
PRECISIONS = ("auto", "fp32", "bf16", "fp16")


Refs = tuple[str, ...]
Asked = tuple[str, Refs, Refs, Mapping[str, Any], Mapping[str, Any]]
# what is asked: an experiment, of which models and corpora, with which settings and options


@dataclass(frozen=True)
class Preview:
    """What a question comes to: the run's name, the command, and why it cannot be asked."""

    name: str = ""
    command: str = ""
    answered: bool = False
    problems: tuple[WorkbenchError, ...] = ()


def experiment() -> Experiment[Any]:
    """The experiment that is chosen, by the address or the box."""
    names = list(EXPERIMENTS)
    asked = st.query_params.get(EXPERIMENT)
    if asked is not None and asked not in names:
        st.warning("There is no experiment of the name in the address; choose one here.")
    name = st.selectbox(
        "Experiment",
        names,
        key=EXPERIMENT,
        bind="query-params",
        on_change=lambda: run_list.put(run_list.OPENED, None),  # the run before is not its
    )
    return EXPERIMENTS[name if name in names else names[0]]


def needs(kind: Experiment[Any]) -> None:
    """What models and corpora must have."""
    wanted = [need.what for need in kind.needs]
    if wanted:
        st.text(f"It needs a model with {', '.join(wanted)}.")


def opened(kind: Experiment[Any]) -> "Run | None":
    """The run in the address, where it is one of this experiment."""
    names = run_list.opened()
    if not names:
        return None
    try:
        run = run_list.open_named(names[0])
        same: bool = run.spec.experiment == kind.name and not run.spec.sweep
    except WorkbenchError as error:
        tell(error)
        return None
    return run if same else None


def opened_or_told(kind: Experiment[Any], what: str) -> "Run | None":
    """The run in the address; what is no run of this experiment is said."""
    run = opened(kind)
    if run is None and run_list.opened():
        with st.container(horizontal=True, vertical_alignment="center"):
            st.info(f"What the address names is no run of {what} that can be shown here.")
            st.page_link("pages/runs.py", label="All runs", icon=":material/list:")
    return run


def inputs(
    kind: Experiment[Any], model: str, corpus: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The models and corpora that are looked at: those beside the page, and further ones."""
    both = kind.models[1] != 0 and kind.corpora[1] != 0
    left, right = (
        st.columns(2, vertical_alignment="center") if both else (st.container(), st.container())
    )
    with left:
        models = _inputs(kind, "model", kind.models, model, MINI)
    with right:
        corpora = _inputs(kind, "corpus", kind.corpora, corpus, sidebar.CORPORA)
    return models, corpora


def _inputs(
    kind: Experiment[Any],
    what: str,
    number: tuple[int, int | None],
    first: str,
    known: Sequence[str],
) -> tuple[str, ...]:
    least, most = number
    many = {"model": "models", "corpus": "corpora"}[what]
    if most == 0:
        return ()
    if least:
        st.markdown(f"{what.capitalize()}: **{plain(first)}**, as chosen beside the page")
    elif not st.checkbox(
        f"With the {what} chosen beside the page: {plain(first)}",
        key=f"use {kind.name} {what}",
        help=f"It works without a {what}, too.",
        wrap=True,
        persist_state="session",
    ):
        return ()
    if most == 1:
        return (first,)
    further = st.multiselect(
        f"Further {many}",
        [one for one in known if one != first],
        key=f"further {kind.name} {what}",
        accept_new_options=True,
        max_selections=None if most is None else most - 1,
        help=f"{least} to {most} {many}." if most else f"{least} or more {many}.",
        persist_state="session",
    )
    return (first, *further)


def run_options(kind: Experiment[Any]) -> Mapping[str, Any]:
    """Seed, split, device and precision."""
    with st.expander("Seed, split, device, precision"):
        places = st.columns(4)
        seed = places[0].number_input(
            "Seed",
            0,
            2**32 - 1,
            0,
            help="What is drawn by chance is drawn the same way under the same number.",
            persist_state="session",
            key=f"seed {kind.name}",
        )
        split = places[1].selectbox(
            "Split",
            SPLITS,
            None,
            key=f"split {kind.name}",
            placeholder="the usual one",
            accept_new_options=True,
            help="The part of the corpus that is looked at, such as train, dev or test.",
            persist_state="session",
        )
        device = places[2].selectbox(
            "Device",
            DEVICES,
            None,
            key="device",
            placeholder="the best there is",
            accept_new_options=True,
            help="What the model runs on; cuda is an NVIDIA GPU, mps one of Apple.",
            persist_state="session",
        )
        precision = places[3].selectbox(
            "Precision",
            PRECISIONS,
            key="precision",
            help="How exactly numbers are kept; auto is bf16 on a GPU, fp32 elsewhere.",
            persist_state="session",
        )
    return {"seed": int(seed), "split": split, "device": device, "precision": precision}


def preview(asked: Asked) -> Preview:
    """What this question comes to."""
    from workbench.core import machine
    from workbench.report.content import command
    from workbench.runs.run import Run

    try:
        spec, problems = _looked(asked)
    except WorkbenchError as error:
        return Preview(problems=(error,))
    folder = machine.runs() / spec.name
    answered = folder.is_dir() and Run(folder).status.state == "done"
    return Preview(spec.name, command(spec), answered, () if answered else problems)


@st.cache_data(ttl=WAIT, max_entries=32, show_spinner="Looking whether it fits …")
def _looked(asked: Asked) -> tuple[Any, tuple[WorkbenchError, ...]]:
    question = _request(asked)
    return question.spec, tuple(question.misfits())


def _request(asked: Asked) -> "Question":
    from workbench.runs.request import ask

    experiment, models, corpora, settings, options = asked
    return ask(experiment, models, corpora, settings, **options)


RUN = "Run"


def offer(ways: Mapping[str, Asked], abouts: Mapping[str, str] | None = None) -> None:
    """Whether the question fits, a button for each way to ask it, and the command that does it."""
    found = {way: preview(asked) for way, asked in ways.items()}
    first = found[RUN]
    problems = next((own.problems for own in found.values() if own.problems), ())
    for problem in problems:
        tell(problem)
    if first.name and not problems:
        st.badge("It fits", icon=":material/check:", color="green")
    with st.container(horizontal=True):
        for way, asked in ways.items():
            answer = "answer" if way == RUN else way.lower()
            if st.button(
                f"Show the {answer}" if found[way].answered else way,
                type="primary" if way == RUN else "secondary",
                icon=":material/play_arrow:" if way == RUN else ":material/bolt:",
                disabled=bool(problems),
                help=(abouts or {}).get(way),
                key=f"{way} {asked[0]}",
            ):
                start(asked)
    if first.command:
        with st.expander("The same from the command line"):
            st.code(first.command, language="bash", wrap_lines=True)


def start(asked: Asked) -> None:
    """Begin as a button does: the page is drawn anew with the run, or told why there is none."""
    with told(), st.spinner("Starting …"):
        begin(asked)
        st.rerun()


def begin(asked: Asked) -> None:
    """Start the run, or find its answer; its name goes into the address."""
    from workbench.core import machine
    from workbench.runs.api import begun
    from workbench.runs.run import Run

    question = _request(asked)
    there = Run(machine.runs() / question.spec.name)
    is_there = there.path.is_dir() and there.status.state == "done"
    run = begun(question)
    st.session_state[FRESH] = {**st.session_state.get(FRESH, {}), run.name: is_there}
    st.query_params[run_list.OPENED] = run.name


def answered(run: "Run") -> None:
    """Say so where nothing was computed."""
    if st.session_state.get(FRESH, {}).get(run.name):
        st.info("This was asked before: the answer comes from disk.", icon=":material/save:")


# --- a question as a page of one kind of analysis asks it: that of the page Experiments -----------
#
# Costs what asking costs.


def ask(kind: Experiment[Any], run: "Run | None", about: str = "") -> None:
    """The question: in view where no run is opened, else behind a fold."""
    if run is None:
        question(kind, None, about)
    else:
        with st.expander("Ask a question", icon=":material/science:"):
            question(kind, run, about)


def question(kind: Experiment[Any], run: "Run | None", about: str = "") -> None:
    """What is looked at, how, and the button that begins."""
    if about:
        st.text(about)
    models, corpora = inputs(kind, sidebar.model(), sidebar.corpus())
    settings = settings_form.settings(kind, run.settings if run else {})
    offer({RUN: (kind.name, models, corpora, settings, run_options(kind))})


# --- the form of a request ------------------------------------------------------------------------
#
# A page of several experiments: questions, of which one is open, by the run or by the address.
#
# Costs a look at the opened run's spec.

QUESTION = "question"  # in the address


def chosen(
    questions: Mapping[str, str], of: str, own: tuple[str, ...] = (), about: str | None = None
) -> Experiment[Any]:
    """The experiment of the question that is open: that of the run in the address, else the picked.

    `own` are choices of a run, in the address, that another question does not have.
    """
    names = list(questions)
    asked = _of_run(questions) or st.query_params.get(QUESTION)
    first = asked if asked in names else names[0]
    key = f"{QUESTION} of {of} {first}"

    def changed() -> None:
        """Another question is asked: the run before is not its."""
        if name := st.session_state.get(key):
            run_list.put(QUESTION, str(name), (run_list.OPENED, *own))

    picked = st.segmented_control(
        "Question",
        names,
        default=first,
        required=True,
        key=key,
        on_change=changed,
        help=about,
    )
    return EXPERIMENTS[questions[picked if picked in questions else first]]


def _of_run(questions: Mapping[str, str]) -> str:
    """The question that the run in the address answers; "" where there is none of these."""
    names = run_list.opened()
    if not names:
        return ""
    try:
        asked = run_list.open_named(names[0]).spec.experiment
    except WorkbenchError:
        return ""
    return next((name for name, kind in questions.items() if kind == asked), "")


# --- runs of one experiment, to open one again: what each looked at, the newest first -------------
#
# Costs a look at every run's status.

MOST = 200  # of the newest runs, among which one chooses


def choose(experiment: str, opened: str, forgotten: Sequence[str] = ()) -> None:
    """Open a run of before; its name goes into the address, what is `forgotten` leaves it."""
    there = titles(experiment, everything=True)
    names = [name for name in there if name != opened]
    if not names:
        return
    key = f"open {experiment} {opened}"
    st.selectbox(
        "Open another run" if opened else "Open a run of before",
        names,
        None,
        format_func=there.__getitem__,
        key=key,
        placeholder="model, corpus, when it was asked",
        on_change=lambda: run_list.put(run_list.OPENED, st.session_state.get(key), forgotten),
    )


def titles(experiment: str, everything: bool = False) -> dict[str, str]:
    """What each run looked at, the newest first; those that are done, or all."""
    found = [
        (name, now)
        for name, now in run_list.standing()
        if now.experiment == experiment and (now.state == "done" or everything)
    ]
    return {name: _title(name, now) for name, now in found[:MOST]}


def _title(name: str, now: "Status") -> str:
    state = "" if now.state == "done" else f", {now.state}"
    when = now.created[:16].replace("T", " ")
    seen = ", ".join((*now.models, *now.corpora))
    return shortened(f"{seen}{state}, {when} ({name.rpartition('-')[2][:6]})")
