"""A new run in one sentence: a question, a model and a corpus, a preset with its time, and Run.

It is a dialog once there is a result, and on the page before. All settings are under Advanced.
`new` in the address opens the dialog. Costs: reading the bytes of models and corpora, to check the
request, and the requests of earlier runs, to estimate the time.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import streamlit as st
from pydantic import create_model

from workbench.app import cache, navigation
from workbench.app.runs import context, run_form, run_list, settings_form
from workbench.app.text import errors_shown, plain, shortened, show_error
from workbench.core.errors import WorkbenchError
from workbench.experiment.definition import (
    EXPERIMENTS,
    FULL,
    PRESETS,
    QUICK,
    STANDARD,
    Experiment,
    Settings,
)
from workbench.experiment.sizes import GrowingSettings, seconds_of
from workbench.runs.estimate import Estimate, Finished, Size, estimate, slowness

if TYPE_CHECKING:
    from workbench.runs.run import Run

NEW = "new"  # in the address
EARLIER = 12  # runs that an estimate looks at
ALL = ("max_sentences",)  # settings that a caption has its own words for
COMPARED = {"Preview": "fastest", "Quick": "faster than Standard", "Full": "slower than Standard"}
GROWING = {  # captions of an experiment whose sample grows
    QUICK: "one small sample",
    STANDARD: "grows until its findings are decided",
    FULL: "all data",
}
AGAIN = "As shown"  # a preset: the settings of the opened run
SUBJECTS = ("Heads", "Layers", "Predictions", "Training", "Texts", "More")  # of questions, in order
Refs = tuple[str, ...]


@dataclass(frozen=True)
class Form:
    """What a page adds: the names of settings that `draw` draws and returns (None: an error).

    `in_view` draws them above the button instead of under Advanced. `prepare` is called with the
    opened run before the form is drawn. `costs` draws what the request of these models, corpora and
    settings takes, above the button.
    """

    names: tuple[str, ...] = ()
    draw: Callable[[Refs, Mapping[str, Any]], dict[str, Any] | None] = lambda corpora, initial: {}
    prepare: Callable[[Experiment[Any], "Run"], None] = lambda experiment, run: None
    in_view: bool = False
    costs: Callable[[Refs, Refs, Mapping[str, Any]], None] = lambda models, corpora, settings: None


FORM = Form()


def button() -> None:
    """Draw the button that opens the dialog."""
    st.button("New run", icon=":material/add:", key="new run", on_click=_open)


CLOSED = "when the dialog of a new run was closed"
SETTLING = 5.0  # seconds after that in which the browser may still send the address before


def _open() -> None:
    st.session_state.pop(CLOSED, None)
    st.query_params[NEW] = "1"


def _close() -> None:
    st.session_state[CLOSED] = time.monotonic()
    st.query_params.pop(NEW, None)


def _is_open() -> bool:
    """Whether the address says that the dialog is open, and it was not closed a moment ago."""
    if st.query_params.get(NEW) != "1":
        return False
    if time.monotonic() - st.session_state.get(CLOSED, -math.inf) < SETTLING:
        st.query_params.pop(NEW, None)
        return False
    return True


def dialog(experiment: Experiment[Any], run: "Run | None", form: Form = FORM) -> None:
    """Draw the dialog, if the address says that it is open."""
    if _is_open():
        st.dialog("New run", width="large", on_dismiss=_close)(_draw)(experiment, run, form, True)


def first(experiment: Experiment[Any], form: Form = FORM, title: str = "") -> None:
    """Draw the sentence on the page, whose title this is, where there is no result yet."""
    _draw(experiment, None, form, False, title)


def question_of(experiment: Experiment[Any]) -> str:
    """The question that an experiment answers, in a plain sentence."""
    if experiment.question:
        return experiment.question
    head, mark, _ = experiment.about.partition("?")
    return f"{head}{mark}" if mark else experiment.about


def _draw(
    experiment: Experiment[Any], run: "Run | None", form: Form, is_dialog: bool, title: str = ""
) -> None:
    page = experiment
    if is_dialog:
        experiment = question(experiment)
    if experiment is not page:
        run, form = None, navigation.result_page_of(experiment.name).form
    if run is not None:
        form.prepare(experiment, run)
    needs = ", ".join(need.what for need in experiment.needs_for(experiment.settings()))
    about = experiment.about if experiment.about != title else ""
    if needs:
        about += (
            f" Requires {needs}."
            if experiment.models[0]
            else f" With a model, it requires {needs}."
        )
    if about:
        st.caption(plain(about))
    models, corpora = run_form.inputs(experiment)
    objective = run_form.objective(experiment, models)
    presets = _presets(experiment, run)
    preset = _preset(experiment, presets, models, corpora)
    initial = {**settings_form.defaults(experiment), **presets[preset]}
    own: dict[str, Any] | None = {}
    if form.in_view:
        with errors_shown():
            own = form.draw(corpora, initial)
    place = st.container()
    with st.expander("Advanced: settings, seed, device, command", type="compact"):
        if form.names and not form.in_view:
            with errors_shown():
                own = form.draw(corpora, initial)
        key = "" if preset == STANDARD else preset
        settings = settings_form.settings(_without(experiment, form.names), initial, key)
        chosen = {name: initial[name] for name in form.names} | (own or {})
        settings |= settings_form.non_default(experiment, chosen)
        options = {**run_form.run_options(experiment), **_reading(run, corpora)}
        command = st.container()
    if own is None:  # the corpus cannot be read, which was said
        return
    with place:
        form.costs(models, corpora, settings)
        arguments = (experiment.name, models, corpora, settings, {**options, **objective})
        if run_form.offer(arguments, command):
            _begin(arguments, page)


def _reading(run: "Run | None", corpora: Refs) -> dict[str, Any]:
    """How the run shown read this corpus, such as the columns of a table; else the default."""
    if run is None or not corpora or context.inputs_of(run)[1] != corpora:
        return {}
    return {"reading": run.spec.corpora[0].options}


def _begin(arguments: run_form.RequestArguments, page: Experiment[Any]) -> None:
    """Start the run, close the dialog and show the run on its page."""
    with errors_shown(), st.spinner("Starting …"):
        name = run_form.begin(arguments)
        _close()
        shown_on = navigation.page_of(arguments[0])
        if shown_on == navigation.page_of(page.name):
            st.rerun()
        navigation.switch(shown_on, {run_list.OPENED: name})


def _without(experiment: Experiment[Any], names: tuple[str, ...]) -> Experiment[Any]:
    """The experiment without the settings that its page draws itself."""
    if not names:
        return experiment
    fields: dict[str, Any] = {
        name: (field.annotation, field)
        for name, field in experiment.settings.model_fields.items()
        if name not in names
    }
    settings = create_model("FurtherSettings", __base__=Settings, **fields)
    return replace(experiment, settings=settings, presets={})


def question(
    experiment: Experiment[Any], on_change: Callable[[str], None] | None = None
) -> Experiment[Any]:
    """Draw the questions; return the experiment that answers the chosen one."""
    last = len(SUBJECTS)
    order = {subject: place for place, subject in enumerate(SUBJECTS)}
    usable, wrong = EXPERIMENTS.usable()
    names = sorted(usable, key=lambda name: order.get(usable[name].subject, last))
    key = f"question {experiment.name}"

    def label(name: str) -> str:
        asked = usable[name]
        return shortened(f"{asked.subject}: {question_of(asked)} [{name}]")

    def changed() -> None:
        if on_change is not None and (name := st.session_state.get(key)):
            on_change(name)

    picked = st.selectbox(
        "What do you want to know?",
        names,
        names.index(experiment.name),
        format_func=label,
        key=key,
        on_change=changed,
    )
    if wrong:
        unusable = f"Not in this list: {len(wrong)} that cannot be used"
        with st.expander(unusable, icon=":material/warning:", type="compact"):
            for error in wrong:
                show_error(error)
    return usable[picked if picked in names else experiment.name]


# --- presets --------------------------------------------------------------------------------------


def _presets(experiment: Experiment[Any], run: "Run | None") -> dict[str, dict[str, Any]]:
    """The presets of an experiment, and first the settings of the opened run if it has others."""
    presets = experiment.settings_of_presets()
    if run is not None and not run.spec.sweep:
        shown = settings_form.non_default(experiment, run.settings)
        known = {name: shown[name] for name in shown if name in experiment.settings.model_fields}
        if known and known not in presets.values():
            return {AGAIN: known, **presets}
    return presets


def _preset(
    experiment: Experiment[Any],
    presets: Mapping[str, Mapping[str, Any]],
    models: Refs,
    corpora: Refs,
) -> str:
    """Draw the presets, each with what it takes; return the chosen one."""
    names = list(presets)
    captions = [plain(_caption(experiment, presets[name], models, corpora, name)) for name in names]
    picked = st.radio(
        "How thorough?",
        names,
        0 if AGAIN in names else names.index(STANDARD) if STANDARD in names else 0,
        captions=captions,
        horizontal=True,
        key=f"preset {experiment.name} {'again' if AGAIN in names else ''}",
        persist_state="session",
    )
    return picked if picked in presets else names[0]


def _caption(
    experiment: Experiment[Any],
    changes: Mapping[str, Any],
    models: Refs,
    corpora: Refs,
    name: str,
) -> str:
    """What a preset changes, and about how long it takes if that is known."""
    parts = []
    if time := estimated(experiment, changes, models, corpora):
        parts.append(time.in_words)
    elif name in COMPARED:
        parts.append(COMPARED[name])
    fields = experiment.settings.model_fields
    if experiment.growth is not None and name in PRESETS:
        return " · ".join([*parts, GROWING[name]])
    if "max_sentences" in fields and name != AGAIN:
        limit = changes.get("max_sentences", fields["max_sentences"].default)
        parts.append("all sentences" if limit is None else f"at most {limit:,} sentences")
    if name != AGAIN:
        parts += [_in_words(experiment, key, changes[key]) for key in changes if key not in ALL]
    return " · ".join(parts)


def _in_words(experiment: Experiment[Any], name: str, value: Any) -> str:
    """A setting of a preset in words: `Training budget: quick`."""
    field = experiment.settings.model_fields[name]
    sentence = settings_form.sentence_of(field.description or name)
    if value is True:
        return sentence
    return f"{sentence}: {settings_form.typed(value) or settings_form.UNSET}"


def estimated(
    experiment: Experiment[Any], changes: Mapping[str, Any], models: Refs, corpora: Refs
) -> Estimate | None:
    """About how long a request with these settings takes; None if nothing tells it.

    A sample that grows takes as long as before with the same inputs, unless a built-in result of
    one step left a question open. Other runs tell its first step, and its time limit is the bound.
    """
    try:
        known = changes.keys() & experiment.settings.model_fields.keys()
        settings = experiment.settings.model_validate({name: changes[name] for name in known})
        if given := settings.in_seconds():
            return Estimate(given)
        size, finished = _size(experiment, changes, models, corpora), _finished(experiment)
        slower = _slowness(tuple(_own()))
        step = estimate(size, finished, slower)
        if experiment.growth is None or len(experiment.growth.steps(settings)) < 2:
            return step
        inputs = (size.models, size.corpora)
        same = [
            each
            for each in finished
            if (each.size.models, each.size.corpora) == inputs
            and (each.origin == "own" or not each.is_open)
        ]
        return estimate(size, same, slower) or _bound(changes, step)
    except WorkbenchError:  # the check of the request says what is wrong
        return None


def _bound(changes: Mapping[str, Any], step: Estimate | None) -> Estimate:
    """The bound of a growing sample: its time limit, or its first step if that takes longer."""
    limit = seconds_of(str(changes.get("time", GrowingSettings.model_fields["time"].default)))
    if step is not None and step.seconds >= limit:
        return step
    return Estimate(limit, is_bound=True, first=step.seconds if step else 0.0)


def _size(
    experiment: Experiment[Any], changes: Mapping[str, Any], models: Refs, corpora: Refs
) -> Size:
    settings = {name: value for name, value in changes.items() if name != "max_sentences"}
    fields = experiment.settings.model_fields
    default = fields["max_sentences"].default if "max_sentences" in fields else None
    limit = changes.get("max_sentences", default)
    words = sum(_words(experiment, ref, limit) for ref in corpora)
    return Size(models, corpora, words, _parameters(models), settings)


def _parameters(models: Refs) -> int:
    """The number of parameters of all models; 0 if one was never opened on this machine."""
    from workbench.runs.model_facts import stored

    sizes = [int(known.facts["parameters"]) if (known := stored(ref)) else 0 for ref in models]
    return sum(sizes) if all(sizes) else 0


def _words(experiment: Experiment[Any], ref: str, limit: int | None) -> int:
    """About how many words an experiment uses of a corpus; 0 if it is not known."""
    if cache.is_remote_corpus(ref):
        return 0
    sizes = {size.split: size for size in cache.sizes(ref, whole=False)}
    split = next((name for name in experiment.default_splits if name in sizes), None)
    used = [sizes[split]] if split is not None else list(sizes.values())
    available = sum(size.docs for size in used)
    words = sum(size.words for size in used)
    if limit is not None and limit <= available:
        return limit * words // max(available, 1)
    return words if all(size.whole for size in used) else 0


def _finished(experiment: Experiment[Any]) -> list[Finished]:
    """The finished runs of an experiment: the user's own, the latest first, and others."""
    own = [_done(name) for name, _ in _own(experiment.name)]
    return [*(done for done in own if done is not None), *_elsewhere(experiment)]


def _own(experiment: str | None = None) -> list[tuple[str, str]]:
    """The user's latest runs that were done at once, of an experiment or of all, with its name."""
    done = (
        (name, now.experiment)
        for name, now in run_list.all_statuses()
        if experiment in (None, now.experiment) and now.state == "done" and now.attempt <= 1
    )
    return [*islice(done, EARLIER)]


def _elsewhere(experiment: Experiment[Any]) -> list[Finished]:
    """Runs of an experiment on another machine: built-in results, and presets that were timed."""
    from workbench.runs.builtin import builtin_runs
    from workbench.runs.preset_times import timed

    names = [run.name for run in builtin_runs() if run.spec.experiment == experiment.name]
    presets = []
    for each in timed(experiment.name):
        size = _size(experiment, each.settings, each.models, each.corpora)
        size = replace(size, parameters=each.parameters or size.parameters)
        presets.append(Finished(size, each.seconds, "preset"))
    return [*(done for name in names if (done := _done(name)) is not None), *presets]


@lru_cache(maxsize=8)
def _slowness(own: tuple[tuple[str, str], ...]) -> float:
    """How many times as long as elsewhere those runs took, on this machine."""
    return slowness(
        (done, _elsewhere(EXPERIMENTS[experiment]))
        for name, experiment in own
        if experiment in EXPERIMENTS and (done := _done(name)) is not None
    )


def _done(name: str) -> Finished | None:
    try:
        run = run_list.open_named(name)
        experiment = EXPERIMENTS[run.spec.experiment]
        models, corpora = context.inputs_of(run)
        changes = settings_form.non_default(experiment, run.settings)
        size = _size(experiment, changes, models, corpora)
        is_open = bool(run.provenance.get("growth", {}).get("still_open"))
        origin: Literal["own", "built-in"] = "built-in" if run.is_builtin else "own"
        return Finished(size, run.status.seconds, origin, is_open)
    except (WorkbenchError, KeyError):  # it says nothing: its corpus is gone, or its settings
        return None
