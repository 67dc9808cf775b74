"""The page Questions: each asks for what it needs, says how long it takes, and ends in its answer.

Analyses announce the questions (`Recipe`); they are drawn here alike. The choices are in the
address, so a link has the answer where it was computed, and can start it elsewhere. Costs: looking
at the status of each run; before an answer, checking the request.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import streamlit as st
from streamlit.errors import StreamlitAPIException

from workbench.app import cache, choice, navigation, tables_and_figures
from workbench.app.runs import (
    context,
    export,
    new_run,
    next_steps,
    result,
    result_page,
    run_form,
    run_list,
    run_view,
)
from workbench.app.text import errors_shown, plain, shortened, show_error, tab_named
from workbench.core.analysis import Analysis, Recipe, recipes
from workbench.core.errors import WorkbenchError
from workbench.core.names import Kind
from workbench.experiment.definition import EXPERIMENTS, QUICK, STANDARD, Experiment
from workbench.models.references import as_random
from workbench.runs.estimate import together
from workbench.runs.thoroughness import thoroughness

if TYPE_CHECKING:
    from workbench.core.findings import Finding
    from workbench.runs.run import Run

QUESTION, OTHER = "question", "other"  # in the address: the question, and the second model
TITLE = "Ask a question of a model"
ABOUT = (
    "Choose a question. It asks for a model or two and a corpus, says how long it takes, and "
    "answers in sentences, with a figure and a report."
)
LETTERS = "AB"  # of the models of two runs
ACROSS = 3  # questions in a row
_STYLE = """<style>
[class*="st-key-question-"] {
  position: relative; padding: 8px 16px 16px; border: 1px solid var(--shell-line);
  border-radius: 6px;
}
[class*="st-key-question-"]:hover { border-color: var(--shell-accent); }
/* the whole card is the button */
[class*="st-key-question-"] [data-testid="stButton"] * { position: static; text-align: left; }
[class*="st-key-question-"] button::after { content: ""; position: absolute; inset: 0; }
</style>"""
Refs = tuple[str, ...]
Asked = Mapping[str, str]


def offer() -> None:
    """Draw a link to each question."""
    with st.container(horizontal=True, key="questions"):
        for name, (_, recipe) in recipes().items():
            navigation.link(
                navigation.QUESTIONS.name,
                recipe.question,
                icon=":material/contact_support:",
                query_params={**choice.in_url_of_results(), QUESTION: name},
            )


def page() -> None:
    """Draw the question in the address, or all of them."""
    name = st.query_params.get(QUESTION) or _of_opened()
    known = recipes()
    if name and name not in known:
        st.warning(f"There is no question {plain(shortened(name))}. Choose one.")
    if name in known:
        _one(*known[name])
    else:
        _all(known)


def _of_opened() -> str:
    """The question that an opened run answers; "" if there is none."""
    with suppress(WorkbenchError):
        for opened in run_list.opened()[:1]:
            experiment = run_list.open_named(opened).spec.experiment
            names = (name for name, (_, each) in recipes().items() if each.experiment == experiment)
            return next(names, "")
    return ""


def _all(known: Mapping[str, tuple[Analysis, Recipe]]) -> None:
    st.html(_STYLE)
    st.title(TITLE, anchor=False)
    st.markdown(ABOUT)
    names = list(known)
    for start in range(0, len(names), ACROSS):
        for column, name in zip(st.columns(ACROSS), names[start : start + ACROSS], strict=False):
            recipe = known[name][1]
            with column.container(key=f"question {name}", height="stretch", gap="xsmall"):
                # a link to the page that is open leaves its address as it is
                st.button(
                    f"**{recipe.question}**",
                    key=f"ask {name}",
                    type="tertiary",
                    icon=":material/contact_support:",
                    on_click=run_list.set_query,
                    args=(QUESTION, name),
                )
                st.caption(recipe.about)


def _forget() -> None:
    """Remove a question and its choices from the address; for callbacks."""
    for key in [key for key in st.query_params if key not in (choice.MODEL, choice.CORPUS)]:
        with suppress(StreamlitAPIException):  # what a box has bound goes with the box
            st.query_params.pop(key)


def _one(owner: Analysis, recipe: Recipe) -> None:
    """Draw a question: what it asks for, and its answer, its progress or its start."""
    st.button(
        "All questions",
        key="all questions",
        type="tertiary",
        icon=":material/arrow_back:",
        on_click=_forget,
    )
    tab_named(recipe.question)
    st.title(recipe.question, anchor=False)
    st.markdown(recipe.about)
    with errors_shown():
        experiment = EXPERIMENTS[recipe.experiment]
        opened = _opened(experiment)
        with st.container(key="controls-question", horizontal=True, vertical_alignment="bottom"):
            models, corpus = _inputs(recipe, opened)
            refused = None
            try:
                asked = _asked(owner, recipe, models)
            except WorkbenchError as error:
                asked, refused = None, error
            settings = _settings(experiment, (corpus,), recipe)
        if refused is not None:  # before anything is run
            show_error(refused)
            _offer_example(recipe)
        if asked is None or settings is None:
            return
        groups = [(ref,) for ref in models] if recipe.is_apart else [models]
        arguments: list[run_form.RequestArguments] = [
            (experiment.name, group, (corpus,), settings, {}) for group in groups
        ]
        runs = [_run_of(each, opened) for each in arguments]
        done = [run for run in runs if run is not None and run.status.state == "done"]
        if len(done) == len(runs):
            _answer(owner, recipe, done, asked)
        for run in runs:
            if run is not None and run not in done:
                st.subheader(plain(run_view.run_title(run)), anchor=False)
                run_view.watched(run)
        if any(run is not None and run.status.state == "failed" for run in runs):
            _offer_example(recipe)
        if None in runs:
            run_form.draw_start(experiment.name)
            _start(experiment, arguments, recipe, runs)
        elif not any(run.status.under_way for run in runs if run is not None):
            with st.expander(
                "Ask again: thoroughly, quickly, or with other settings", type="compact"
            ):
                _start(experiment, arguments, recipe)


# --- what a question needs ------------------------------------------------------------------------


def _inputs(recipe: Recipe, opened: "Sequence[Run]") -> tuple[Refs, str]:
    """Draw boxes for the models and the corpus; one model and the corpus are the chips'."""
    label = "Model after training" if recipe.is_trained else "First model"
    models = [_box("models", label if recipe.models > 1 else "Model")]
    if recipe.models > 1:
        models.append(_second(models[0], recipe, opened))
    return _in_order(recipe, models), _box("corpora", "Corpus")


def _in_order(recipe: Recipe, models: Sequence[str]) -> Refs:
    """The models in the order of the run, of the chip's and the other; and the other way round."""
    return tuple(reversed(models) if recipe.is_trained else models)


def _box(kind: Kind, label: str) -> str:
    """Draw a box that chooses the model or the corpus of all pages."""
    known = choice.models() if kind == "models" else choice.corpora()
    ref = choice.model() if kind == "models" else choice.corpus()
    key = f"{kind} of a question, from {ref}"

    def changed() -> None:
        picked = st.session_state.get(key)
        if picked and picked != ref:  # a look at the jobs sends boxes that are gone once more
            choice.CHOOSE[kind](choice.of_address(str(picked), kind))

    return str(
        st.selectbox(
            label,
            list(dict.fromkeys([ref, *known])),
            key=key,
            accept_new_options=True,
            format_func=lambda each: choice.with_name(str(each), kind),
            on_change=changed,
            width=280,
        )
        or ref
    )


def _second(first: str, recipe: Recipe, opened: "Sequence[Run]") -> str:
    """Draw a box for the model to compare with; it is in the address."""
    of_runs = [ref for run in opened for ref in context.inputs_of(run)[0]]
    # a model of the example may predict something else than one that is not in it
    partners = recipe.example[:-1] if first in recipe.example else (as_random(first),)
    offered = [*of_runs, *partners, *recipe.example[:-1], *choice.models()]
    known = [ref for ref in offered if ref != first]
    named = st.query_params.get(OTHER)
    ref = choice.of_address(named, "models") if named else known[0]
    key = f"second model of a question, from {ref} next to {first}"

    def changed() -> None:
        picked = choice.of_address(str(st.session_state.get(key) or ref), "models")
        if picked != ref:
            run_list.set_query(OTHER, choice.named(picked, "models"))

    st.selectbox(
        "Model before training" if recipe.is_trained else "Second model",
        list(dict.fromkeys([ref, *known])),
        key=key,
        accept_new_options=True,
        format_func=lambda each: choice.with_name(str(each), "models"),
        on_change=changed,
        width=280,
    )
    if not named:
        st.query_params[OTHER] = choice.named(ref, "models")
    return ref


def _asked(owner: Analysis, recipe: Recipe, models: Refs) -> Asked | None:
    """Draw the further choices of a question; they are in the address."""
    if not recipe.asks or cache.is_remote_model(models[0]):
        return {}
    asked: Asked | None = owner.imported(recipe.asks)(models, st.query_params.to_dict())
    for name, value in (asked or {}).items():
        if st.query_params.get(name) != value:
            st.query_params[name] = value
    return asked


def _settings(
    experiment: Experiment[Any], corpora: Refs, recipe: Recipe
) -> Mapping[str, Any] | None:
    """Draw the settings that the page of the experiment has in view; they are in the address."""
    form = navigation.result_page_of(experiment.name).form
    if not form.in_view:
        return recipe.settings
    given = {name: st.query_params[name] for name in form.names if name in st.query_params}
    try:
        initial = experiment.settings.model_validate(given).model_dump()
    except WorkbenchError:  # an address that somebody wrote
        initial = experiment.settings().model_dump()
    own = form.draw(corpora, initial)
    if own is None:
        return None
    for name, value in own.items():
        if value != experiment.settings.model_fields[name].default:
            st.query_params[name] = str(value)
        else:
            st.query_params.pop(name, None)
    return {**recipe.settings, **own}


# --- its runs -------------------------------------------------------------------------------------


def _opened(experiment: Experiment[Any]) -> "list[Run]":
    """The runs in the address that are of the experiment, after the chips follow the first."""
    found = []
    for name in run_list.opened():
        with suppress(WorkbenchError):  # a link of another machine
            if (run := run_list.open_named(name)).spec.experiment == experiment.name:
                found.append(run)
    return found if found and context.followed(found[0]) else []


def _run_of(arguments: run_form.RequestArguments, opened: "Sequence[Run]") -> "Run | None":
    """The run that answers a request: the opened one, or the most thorough; None: not started."""
    name, models, corpora, settings, _ = arguments
    found = [*opened, *context.results_of(name, models, corpora)]
    wanted = tuple(map(context.known_as, models)), tuple(map(context.known_as, corpora))
    fits = [
        run
        for run in found
        if context.inputs_of(run) == wanted
        and all(run.settings.get(key) == value for key, value in settings.items())
    ]
    done = (run for run in fits if run.status.state == "done")
    return next((run for run in fits if run in opened), next(done, next(iter(fits), None)))


def _start(
    experiment: Experiment[Any],
    arguments: Sequence[run_form.RequestArguments],
    recipe: Recipe,
    runs: "Sequence[Run | None]" = (),
) -> None:
    """Draw what is missing, the buttons that start, each with its time, and Advanced.

    `runs` are those of the requests that are there, if some are not; none to ask again.
    """
    name, *_, corpora, settings, _ = arguments[0]
    models = tuple(ref for each in arguments for ref in each[1])
    checked = [run_form.preview(each) for each in arguments] if runs else []
    problems = [problem for each in checked for problem in each.problems]
    said = {
        str(each.problems): (each, request[1])
        for each, request in zip(checked, arguments, strict=bool(checked))
    }
    for each, models_of in said.values():  # once, if the models have the same problem
        run_form.draw_problems(each, models_of)
    if any(problem.code != run_form.AMBIGUOUS for problem in problems):
        _offer_example(recipe)
    form = navigation.result_page_of(name).form
    if runs:
        form.costs(models, corpora, settings)
    times: list[str] = []
    presets = experiment.settings_of_presets()
    with st.container(horizontal=True, vertical_alignment="center"):
        for preset, label in ((STANDARD, "Start"), (QUICK, "Quick look")):
            if preset not in presets:
                continue
            changes = {**presets[preset], **settings}
            times.append(_time(experiment, changes, arguments))
            if st.button(
                ", ".join(filter(None, (label, times[-1]))),
                type="primary" if preset == STANDARD else "secondary",
                icon=":material/play_arrow:" if preset == STANDARD else ":material/bolt:",
                disabled=bool(problems),
                key=f"{label} {recipe.name}",
                on_click=choice.choose_as_shown,
                args=(choice.model(), choice.corpus()),
            ):
                _begin([(name, each[1], corpora, changes, {}) for each in arguments], runs)
        if not any(times) and not form.in_view:
            st.caption("The time is not known: no similar run was made on this machine.")
    with st.expander("Advanced: all settings, and the command", type="compact"):
        navigation.link(
            navigation.page_of(name),
            "The form with all settings",
            icon=":material/tune:",
            query_params={**choice.in_url(), "experiment": name, new_run.NEW: "1"},
        )
        if commands := "\n".join(filter(None, (each.command for each in checked))):
            st.code(commands, language="bash", wrap_lines=True)


def _time(
    experiment: Experiment[Any],
    changes: Mapping[str, Any],
    arguments: Sequence[run_form.RequestArguments],
) -> str:
    """About how long the runs of a start take, one after another; "" if nothing tells it."""
    times = [new_run.estimated(experiment, changes, *each[1:3]) for each in arguments]
    known = [each for each in times if each is not None]
    return plain(together(known).in_words) if known else ""


def _begin(arguments: Sequence[run_form.RequestArguments], runs: "Sequence[Run | None]") -> None:
    """Start what is not there yet; the runs of the question go into the address."""
    there = runs or [None] * len(arguments)
    with errors_shown(), st.spinner("Starting …"):
        names = [
            run_form.begin(each) if run is None else run.name
            for each, run in zip(arguments, there, strict=True)
        ]
        run_list.set_opened(names)
        st.rerun()


def _offer_example(recipe: Recipe) -> None:
    """Draw a button that chooses models and a corpus that have what the question needs."""
    *models, corpus = recipe.example

    def chosen() -> None:
        first, *others = _in_order(recipe, models)
        choice.choose_model(first)
        choice.choose_corpus(corpus)
        run_list.set_query(OTHER, next(iter(others), None), (run_list.OPENED,))

    st.button(
        f"Try it with {plain(' and '.join(models))} on {plain(corpus)}",
        icon=":material/lightbulb:",
        key=f"example {recipe.name}",
        on_click=chosen,
    )


# --- its answer -----------------------------------------------------------------------------------


def _answer(owner: Analysis, recipe: Recipe, runs: "Sequence[Run]", asked: Asked) -> None:
    """Draw the answer: sentences, what goes on, the figure, cautions, and the ways on."""
    for run in runs:
        run_form.note_if_cached(run)
    st.html(result.STYLE)
    with result.top() as (words, figure):
        with words, errors_shown():
            found = _findings(owner, recipe, runs, asked)
            if len(runs) > 1 and not recipe.answer:
                names = zip(LETTERS, runs, strict=False)
                st.caption(
                    "  \n".join(f"{a}: {plain(run.spec.models[0].name)}" for a, run in names)
                )
            result.findings(found)
            for run in runs:
                next_steps.draw(run)
            _ways_on(recipe, runs, asked)
        with (
            figure,
            errors_shown(),
            tables_and_figures.claims_in_view(each.claim for each in found[: result.IN_VIEW]),
        ):
            if recipe.figure:
                owner.imported(recipe.figure)(runs, asked)
            else:
                for letter, run in zip(LETTERS, runs, strict=False):
                    _main_figure(
                        run, found[0].figure if found else "", letter if len(runs) > 1 else ""
                    )
    for run in runs:
        result.cautions(run, navigation.result_page_of(recipe.experiment).first_cautions)


def _findings(
    owner: Analysis, recipe: Recipe, runs: "Sequence[Run]", asked: Asked
) -> "Sequence[Finding]":
    if recipe.answer:
        return list(owner.imported(recipe.answer)(runs, asked))
    if len(runs) == 1:
        return runs[0].findings
    from workbench.runs.compare import what_changed

    return what_changed(runs)


def _main_figure(run: "Run", named: str, letter: str) -> None:
    """Draw the main figure of a run, as on its page; else the one that the first finding names.

    Of several runs, each is under its letter and its model.
    """
    shown = navigation.result_page_of(run.spec.experiment)
    if letter:
        st.markdown(f":blue-badge[{letter}] {plain(run.spec.models[0].name)}")
    if not shown.views and named in tables_and_figures.figures_of(run):
        result_page.figure_of(run, named)
        return
    selection = shown.select(run)
    if main := next(iter(shown.views_of(run, selection).values()), None):
        main(selection)


def _in_address(recipe: Recipe, asked: Asked) -> dict[str, str]:
    """The question and its further choices, which decide what is answered from its runs."""
    chosen = {QUESTION: recipe.name, **asked}
    if recipe.models > 1 and (other := st.query_params.get(OTHER)):
        chosen[OTHER] = other
    return chosen


def _ways_on(recipe: Recipe, runs: "Sequence[Run]", asked: Asked) -> None:
    """Draw the report, the page of the choices, and the whole results."""
    with st.container(horizontal=True, vertical_alignment="center", key="ways on"):
        figure = result_page.main_figure(runs[0]) if len(runs) == 1 else ""
        export.menu(runs, figure, _in_address(recipe, asked))
        if recipe.page and (shown := navigation.named(recipe.page)) is not None:
            label = ": ".join([shown.title, *map(plain, asked.values())])
            navigation.link(
                recipe.page,
                label,
                icon=navigation.icon_of(shown),
                query_params={**choice.in_url(), **asked},
            )
        for run in runs:
            of = "the result" if len(runs) == 1 else plain(run.spec.models[0].name)
            navigation.link(
                navigation.page_of(recipe.experiment),
                f"All of {of}",
                icon=":material/open_in_new:",
                query_params={run_list.OPENED: run.name},
            )
    if len(runs) > 1:
        with st.container(horizontal=True):
            st.page_link(
                "pages/runs.py",
                label="Both side by side",
                icon=":material/compare:",
                query_params=[(run_list.OPENED, run.name) for run in runs],
            )
    else:
        st.caption(plain(f"{result.title(runs[0])}: {thoroughness(runs[0])}"))
