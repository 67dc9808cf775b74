"""A page for one kind of analysis: the result that fits the chips, or the form of a first run.

A page is declared by its experiments and, for each, its views by name: the first is the main figure
and always in view, the others are tabs. Experiments without views get their figures as tabs. The
address holds the opened run and tab. Costs: one look at the status file of each run, and the
drawing of the main figure and one tab.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.app import tables_and_figures
from workbench.app.runs import context, export, new_run, next_steps, result, run_form, run_view
from workbench.app.text import errors_shown, guarded
from workbench.core.errors import WorkbenchError
from workbench.experiment.definition import EXPERIMENTS, Experiment

if TYPE_CHECKING:
    from workbench.runs.run import Run


@dataclass(frozen=True)
class View:
    """What a page shows of a run, or of an object with the run and a selection in it.

    If the run lacks one of the `tables`, or one is empty, the text `missing` is shown instead.
    """

    draw: Callable[[Any], None]
    tables: tuple[str, ...] = ()
    missing: str = "This run has no such table."
    is_available: Callable[[Any], bool] = lambda selection: True

    def __call__(self, selection: Any) -> None:
        run: Run = getattr(selection, "run", selection)
        try:
            has_rows = all(len(tables_and_figures.table_of(run, name)) for name in self.tables)
        except KeyError:  # the run never made it; a table that was lost is another error
            has_rows = False
        if has_rows:
            self.draw(selection)
        else:
            st.text(self.missing)


TITLES = {"mlps": "MLPs"}  # of tabs of figures, where a capital letter is not enough


def figure_view(name: str, table: str, draw: Any, missing: str = View.missing) -> View:
    """A view that shows one of a run's figures; its table may be missing."""
    return View(lambda run: tables_and_figures.view_of(run, name, draw), (table,), missing)


def figure_views(run: "Run") -> dict[str, View]:
    """A view for each figure of a run, first that of the first finding that names one."""
    drawn = tables_and_figures.figures_of(run)
    first = main_figure(run)
    names = sorted(drawn, key=lambda name: name != first)
    titles = {name: TITLES.get(name, name.replace("_", " ").capitalize()) for name in names}
    return {titles[name]: View(partial(figure_of, name=name)) for name in names}


def figure_of(run: "Run", name: str) -> None:
    """Draw one of a run's own figures."""
    drawing = tables_and_figures.figures_of(run)[name]
    tables_and_figures.draw_figure(drawing, f"figure {run.name} {name}")


def main_figure(run: "Run") -> str:
    """The name of the figure of the first finding that names one, else of the first; "": none."""
    names = list(run.figures)
    named = (finding.figure for finding in run.findings if finding.figure in names)
    return next(named, names[0] if names else "")


def itself(run: "Run") -> "Run":
    """The run, for views that need no more."""
    return run


@dataclass(frozen=True)
class ResultPage:
    """A page: its experiments by label, and the views of their runs.

    `select` draws choices above the main figure and returns what each view receives; `form` has
    the settings that a page draws itself; `query_keys` are choices in the address that belong to
    one run and are cleared when another is opened; `first_cautions` has words of the cautions that
    come first; `rough` returns a badge for fast settings; `draw_below` draws what follows; `ahead`
    draws what is seen first of a run before a visitor asks for it;
    `on_question` chooses another experiment by its name, where the page shows any.
    """

    title: str
    about: str
    experiments: Mapping[str, str]  # label -> name of the experiment
    views: Mapping[str, Mapping[str, View]] = field(default_factory=dict)  # by experiment, label
    select: Callable[["Run"], Any] = itself
    form: new_run.Form = new_run.FORM
    query_keys: tuple[str, ...] = ()
    help: str | None = None
    first_cautions: tuple[str, ...] = ()
    rough: Callable[["Run"], str] = lambda run: ""
    draw_below: Callable[[], None] = lambda: None
    ahead: Callable[["Run"], None] = tables_and_figures.draw_ahead
    on_question: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        for experiment, views in self.views.items():
            for label, view in views.items():
                if not isinstance(view, View):
                    raise WorkbenchError(
                        f"the view {label!r:.40} of {experiment!r:.40} is a "
                        f"{type(view).__name__}, not a View.",
                        code="wrong-type",
                        where=f"ResultPage {self.title!r:.40}",
                        remedy="Write View(function), or figure_view(…) for a figure of the run.",
                    )

    def page(self) -> None:
        """Draw the page."""
        experiment = self._experiment()
        run = run_form.opened_or_warned(experiment)
        run = context.followed(run) if run else None
        shown = run or context.result_of(experiment)
        if shown is None:
            st.title(self.title, anchor=False)
            if self.about:
                st.markdown(self.about)
            with st.container(key="controls-first-run"):
                if self.on_question is not None:
                    new_run.question(experiment, self.on_question)
                new_run.first(experiment, self.form, self.title)
                run_form.choose_run(experiment.name, "", self.query_keys)
        else:
            new_run.dialog(experiment, run, self.form)
            with errors_shown():
                draw_result(shown, self)
        self.draw_below()

    def _experiment(self) -> Experiment[Any]:
        if len(self.experiments) == 1:
            return EXPERIMENTS[next(iter(self.experiments.values()))]
        with st.container(key="controls-analysis"):
            return run_form.chosen(self.experiments, self.title.lower(), self.query_keys, self.help)

    def views_of(self, run: "Run", selection: Any) -> dict[str, View]:
        """The views of a run; its figures if none are declared, or of a sweep."""
        declared = {} if run.spec.sweep else self.views.get(run.spec.experiment, {})
        if not declared:
            return figure_views(run)
        return {name: view for name, view in declared.items() if view.is_available(selection)}


PLAIN = ResultPage("Experiment", "", {})


def draw_result(run: "Run", page: ResultPage = PLAIN) -> None:
    """Draw the page of one result: title, findings, main figure, cautions, tabs, data."""
    is_done = run.status.state == "done"
    rough = page.rough(run) if is_done else ""
    others = context.others_of(run)
    result.heading(run, rough, partial(_actions, run, others, page, is_done))
    if not run_view.watched(run):
        result.settings(run, partial(run_view.remove_button, run))
        return
    run_form.note_if_cached(run)
    selection: Any = run
    views: Mapping[str, View] = {}
    main: View | None = None
    with result.top() as (words, figure):
        with words, errors_shown():
            result.findings(run.findings)
            result.disagreements(run, others)
        with words:
            next_steps.draw(run)
        claims = (finding.claim for finding in run.findings[: result.IN_VIEW])
        with figure, guarded(), tables_and_figures.claims_in_view(claims):
            selection = run if run.spec.sweep else page.select(run)
            views = page.views_of(run, selection)
            main = next(iter(views.values()), None)
            if main is not None:
                main(selection)
    with errors_shown():
        result.cautions(run, page.first_cautions)
    if main is None and not list(run.tables):
        st.text("This run has no tables and no figures.")
    _tabs(dict(list(views.items())[1:]), selection)
    result.settings(run, partial(run_view.remove_button, run))
    with errors_shown():
        result.tables(run)


def _tabs(views: Mapping[str, View], selection: Any) -> None:
    """Draw the further views as tabs; only the open one is drawn."""
    if not views:
        return
    tabs = st.tabs(list(views), key="view", bind="query-params")
    for tab, view in zip(tabs, views.values(), strict=True):
        if tab.open:
            with tab, guarded():  # code of a package may be wrong; what follows stays
                view(selection)


def _actions(run: "Run", others: "Sequence[Run]", page: ResultPage, is_done: bool) -> None:
    """Draw the menus of a result: other runs, Export, New run."""
    titles = run_form.titles(run.spec.experiment, include_unfinished=True)
    if others or any(name != run.name for name in titles):
        with st.popover("Other runs", icon=":material/history:", type="tertiary"):
            for other in others:
                result.link(other)
            run_form.choose_run(run.spec.experiment, run.name, page.query_keys)
    if is_done:
        export.menu([run], main_figure(run))
    new_run.button()
