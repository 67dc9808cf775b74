"""A page for one kind of analysis: a form to start a run, the opened run, and views of its result.

A page is declared by its experiments and, for each, its views by name. The address holds the opened
run and view; only the open view is drawn. Costs: one look at the status file of each run, and the
drawing of the view.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.app import cache, run_form, run_view, tables_and_figures
from workbench.app.text import errors_shown
from workbench.core.experiment import EXPERIMENTS, Experiment

if TYPE_CHECKING:
    from workbench.runs.run import Run


@dataclass(frozen=True)
class View:
    """A tab: what it shows of a run, or of an object with the run and a selection in it.

    If the run lacks one of the `tables`, or one is empty, the tab shows the text `missing` instead.
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


def figure_view(name: str, table: str, draw: Any, missing: str = View.missing) -> View:
    """A view that shows one of a run's figures; its table may be missing."""
    return View(lambda run: tables_and_figures.view_of(run, name, draw), (table,), missing)


TABLES = View(lambda selection: run_view.every_table(getattr(selection, "run", selection)))


def header(run: "Run") -> "Run":
    """Draw the title, the findings and the caveats above the views of a run."""
    run_view.heading(run)
    run_view.findings(run.findings)
    run_view.caveats(run)
    return run


@dataclass(frozen=True)
class Analysis:
    """A page: its experiments by label, and the views of their runs.

    `draw_header` draws what is above the views and returns what each view receives; `draw_form`
    replaces the form of the page Experiments; `query_keys` are choices in the address that belong
    to one run and are cleared when another is opened.
    """

    title: str
    about: str
    experiments: Mapping[str, str]  # label -> name of the experiment
    views: Mapping[str, Mapping[str, View]]  # by experiment and label
    draw_header: Callable[["Run"], Any] = header
    draw_form: Callable[[Experiment[Any], "Run | None"], None] | None = None
    query_keys: tuple[str, ...] = ()
    help: str | None = None

    def page(self) -> None:
        """Draw the page."""
        st.title(self.title, anchor=False)
        with errors_shown(stop=True), st.spinner("Loading …"):
            cache.ready()
        st.markdown(self.about)
        experiment = self._experiment()
        run = run_form.opened_or_warned(experiment)
        run_form.choose_run(experiment.name, run.name if run else "", self.query_keys)
        if self.draw_form is not None:
            self.draw_form(experiment, run)
        else:
            about = experiment.about if len(self.experiments) > 1 else ""
            run_form.draw(experiment, run, about)
        run = run or run_form.built_in(experiment)
        if run is None:
            return
        st.divider()
        with errors_shown():
            if run_view.watched(run):
                run_form.note_if_cached(run)
                self.draw_views(run)

    def _experiment(self) -> Experiment[Any]:
        if len(self.experiments) == 1:
            return EXPERIMENTS[next(iter(self.experiments.values()))]
        return run_form.chosen(self.experiments, self.title.lower(), self.query_keys, self.help)

    def draw_views(self, run: "Run") -> None:
        """Draw the header and the tabs of a run that is done."""
        selection = self.draw_header(run)
        views = {
            name: view
            for name, view in self.views[run.spec.experiment].items()
            if view.is_available(selection)
        }
        tabs = st.tabs(list(views), key="view", bind="query-params")
        for tab, view in zip(tabs, views.values(), strict=True):
            if tab.open:
                with tab, errors_shown():
                    view(selection)
