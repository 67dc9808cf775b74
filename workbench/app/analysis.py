"""A page of one analysis: its question, the run that is opened, and views of what it found.

A page is declared: its experiments, and for each its views by name. Which run and which view are
open is in the address; only the view that is open is drawn. Costs a look at the runs' statuses, and
what the view costs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.app import cache, run_form, run_view, tables_and_figures
from workbench.app.text import told
from workbench.core.experiment import EXPERIMENTS, Experiment

if TYPE_CHECKING:
    from workbench.runs.run import Run


@dataclass(frozen=True)
class View:
    """What a tab shows of a run, or of what is looked at in it.

    Where the run has none of the `tables` it needs, or no rows in it, it says `missing` instead.
    """

    draw: Callable[[Any], None]
    tables: tuple[str, ...] = ()
    missing: str = "There is no such table in this run."
    is_there: Callable[[Any], bool] = lambda seen: True

    def __call__(self, seen: Any) -> None:
        run: Run = getattr(seen, "run", seen)
        try:
            is_full = all(len(tables_and_figures.table_of(run, name)) for name in self.tables)
        except KeyError:  # it was never made; one that was lost is another error
            is_full = False
        if is_full:
            self.draw(seen)
        else:
            st.text(self.missing)


def figure_view(name: str, table: str, draw: Any, missing: str = View.missing) -> View:
    """A view that is one of a run's figures, of a table that may be missing."""
    return View(lambda run: tables_and_figures.view_of(run, name, draw), (table,), missing)


TABLES = View(lambda seen: run_view.every_table(getattr(seen, "run", seen)))


def heading(run: "Run") -> "Run":
    """What stands above the views of a run."""
    run_view.heading(run)
    run_view.caveats(run)
    return run


@dataclass(frozen=True)
class Analysis:
    """A page: what it is about, its questions, and the views of the runs that answer them.

    `look` draws what stands above the views and returns what they are given; `ask` draws the
    question where that of the page Experiments does not do; `forgotten` are choices in the
    address that another run does not have.
    """

    title: str
    about: str
    questions: Mapping[str, str]  # an experiment each
    views: Mapping[str, Mapping[str, View]]  # by experiment and name
    look: Callable[["Run"], Any] = heading
    ask: Callable[[Experiment[Any], "Run | None"], None] | None = None
    forgotten: tuple[str, ...] = ()
    help: str | None = None

    def page(self) -> None:
        """Draw the page."""
        st.title(self.title, anchor=False)
        with told(stop=True), st.spinner("Getting ready …"):
            cache.ready()
        st.markdown(self.about)
        kind = self._experiment()
        run = run_form.opened_or_told(kind, f"the experiment {kind.name}")
        run_form.choose(kind.name, run.name if run else "", self.forgotten)
        if self.ask is not None:
            self.ask(kind, run)
        else:
            run_form.ask(kind, run, kind.about if len(self.questions) > 1 else "")
        if run is None:
            return
        st.divider()
        with told():
            if run_view.watched(run):
                run_form.answered(run)
                self.show(run)

    def _experiment(self) -> Experiment[Any]:
        if len(self.questions) == 1:
            return EXPERIMENTS[next(iter(self.questions.values()))]
        return run_form.chosen(self.questions, self.title.lower(), self.forgotten, self.help)

    def show(self, run: "Run") -> None:
        """A run that is done."""
        seen = self.look(run)
        views = self.views[run.spec.experiment]
        there = {name: view for name, view in views.items() if view.is_there(seen)}
        tabs = st.tabs(list(there), key="view", bind="query-params")
        for tab, view in zip(tabs, there.values(), strict=True):
            if tab.open:
                with tab, told():
                    view(seen)
