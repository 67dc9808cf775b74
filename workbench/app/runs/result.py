"""The parts of the page of one result, in the order in which they are drawn.

A title with its state; the strip, which is the first finding with its number and verdict; further
findings; the main figure; cautions; further views; settings; data tables. The same for each
analysis: `result_page.draw_result` puts them together. Costs: reading the findings and the status
of the run; a table is read when it is shown.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from workbench.app import navigation, table_slice, tables_and_figures, text
from workbench.app.runs import export, run_list, run_view, verdicts
from workbench.app.text import plain, prose
from workbench.core.errors import WorkbenchError
from workbench.core.findings import capital, headline
from workbench.runs.thoroughness import disagreements as disagreements_of
from workbench.runs.thoroughness import thoroughness

if TYPE_CHECKING:
    from workbench.core.findings import Finding
    from workbench.runs.run import Run

IN_VIEW = 3  # findings; more are behind a click
COMPARED = 5  # other runs of the same question
CAUTION = 90  # characters of the first caution in the closed line
TABLES = "tables"  # in the address: whether the data tables are open
STYLE = """<style>
.st-key-result-heading h1 { padding: 0; }
.st-key-result-facts { margin-top: -8px; }
.st-key-result-strip { border-left: 3px solid var(--shell-line, #d5dce3); padding-left: 12px; }
.st-key-result-strip p { font-size: 17px; line-height: 1.4; }
/* what is redrawn each second does not fade */
[class*="st-key-run-under-way"] [data-stale="true"] { opacity: 1 !important; }
/* words on the left, the figure on the right: all in view on a screen of 1280 × 800 */
@media (min-width: 1100px) {
  .st-key-result-top { display: grid; grid-template-columns: minmax(19rem, 30%) minmax(0, 1fr);
    column-gap: 32px; align-items: start; }
  .st-key-result-top > * { min-width: 0; width: 100%; }
}
@media (max-width: 640px) {
  /* the title; then its state and the buttons in one row */
  .st-key-result-heading { flex-wrap: wrap !important; gap: 8px !important; }
  .st-key-result-heading > [data-testid="stLayoutWrapper"]:first-child,
  .st-key-result-heading > [data-testid="stLayoutWrapper"]:first-child > div {
    display: contents; }
  .st-key-result-heading [data-testid="stElementContainer"]:has([data-testid="stHeading"]) {
    flex: 1 0 100%; }
  .st-key-result-heading .st-key-controls-result { flex-wrap: nowrap !important; gap: 8px; }
  .st-key-result-heading .st-key-controls-result button { min-height: 32px; padding: 2px 8px; }
  /* how thorough the run is comes first; the rest of the line may be cut */
  .st-key-result-facts p { white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
  .st-key-result-top > [data-testid="stLayoutWrapper"]:has(> .st-key-result-figure) { order: -1; }
}
</style>"""


def heading(run: "Run", rough: str = "", actions: Callable[[], None] | None = None) -> None:
    """Draw what the run is in words, its state, what it cost, and the actions on the right.

    `rough` names settings that are fast and less accurate; it is drawn as a badge.
    """
    st.html(STYLE)
    text.tab_named(title(run))
    with st.container(key="result-heading", horizontal=True, vertical_alignment="center"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.title(plain(title(run)), anchor=False, width="content")
            if run.status.state == "done":
                run_view.badge(run)
            if rough:
                st.badge(rough, icon=":material/bolt:", color="orange")
        if actions is not None:
            with st.container(key="controls-result", horizontal=True, width="content", gap="small"):
                actions()
    thorough = str(thoroughness(run))
    facts = [
        thorough,
        text.ago(run.status.ended or run.status.created),
        run_view.duration_of(run),
        run.name,
    ]
    if run.is_builtin:
        facts = [thorough, "shipped with Workbench; it is not a run of yours", run.name]
    with st.container(key="result-facts"):
        st.caption(plain(" · ".join(filter(None, facts))))


def title(run: "Run") -> str:
    """What a run is, in words: `Edge probing of mini:bert on primer`."""
    from workbench.report.prose import title_of

    try:
        return title_of(run.spec)
    except WorkbenchError:  # its request is damaged
        return run_view.run_title(run)


@contextmanager
def top() -> Iterator[tuple[DeltaGenerator, DeltaGenerator]]:
    """The places of the findings and of the main figure.

    A wide page has the figure next to the words; a phone has it first.
    """
    with st.container(key="result-top"):
        yield st.container(key="result-findings"), st.container(key="result-figure")


def findings(found: "Sequence[Finding]") -> None:
    """Draw the finding that stands for the run, the next ones, and the others behind a click."""
    first = headline(found)
    if first is None:
        return
    with st.container(key="result-strip", gap=None):
        verdicts.strip(first)
    verdicts.findings(found[1:IN_VIEW])
    if rest := found[IN_VIEW:]:
        with st.expander(f"{len(rest)} more", type="compact"):
            verdicts.findings(rest)


def disagreements(run: "Run", others: "Sequence[Run]") -> None:
    """Say where other runs of the same question found something else, beyond the intervals."""
    done = [other for other in others if other.status.state == "done"][:COMPARED]
    for sentence in disagreements_of(run, done)[:IN_VIEW]:
        st.markdown(f":material/compare_arrows: {prose(sentence)}")


def link(run: "Run") -> None:
    """Draw a link to another run of the same question: how thorough it is, and from when."""
    words = [str(thoroughness(run)), text.ago(run.status.ended or run.status.created)]
    if run.is_builtin:
        words[1] = "built-in"
    if run.status.state != "done":
        words.append(run.status.state)
    navigation.link(
        navigation.page_of(run.spec.experiment),
        capital(", ".join(filter(None, words))),
        query_params={run_list.OPENED: run.name},
    )


def cautions(run: "Run", first: Sequence[str] = ()) -> None:
    """Draw caveats and warnings as one line that opens; those with words of `first` come first."""
    notes = list(dict.fromkeys([*(caveat.text for caveat in run.caveats), *run.warnings]))
    notes.sort(key=lambda note: not any(words in note for words in first))
    if not notes:
        return
    counted = "1 caution" if len(notes) == 1 else f"{len(notes)} cautions"
    label = f"{counted}: {plain(notes[0], CAUTION)}"
    with st.expander(label, icon=":material/info:", type="compact"):
        for note in notes:
            st.text(note)


def settings(run: "Run", remove: Callable[[], None] | None = None) -> None:
    """Draw the drawer: what the run computed, its command, its log, and the button to remove it."""
    with st.expander("Settings, command and log", icon=":material/tune:", type="compact"):
        if run.is_builtin:
            run_view.built_in(run)
        run_view.request_of(run)
        if not run.is_builtin:
            st.markdown("**Log**")
            run_view.log(run)
        if remove is not None:
            remove()
    run_view.note(run)


def tables(run: "Run") -> None:
    """Draw the data tables, one at a time, with buttons that save them; read when opened."""
    names = list(run.tables)
    if not names:
        return
    drawer = st.expander(
        f"Data tables ({len(names)})",
        icon=":material/table:",
        type="compact",
        key=TABLES,
        on_change="rerun",
        bind="query-params",
    )
    if drawer.open:
        with drawer, text.errors_shown():
            name = tables_and_figures.select("Table", names, "table", width=280)
            table = tables_and_figures.table_of(run, name)
            for line in tables_and_figures.about(table):
                st.caption(plain(line.replace("`", "")))
            table_slice.draw(table, f"table {run.name} {name}", f"{run.path.name}-{name}")
            export.tables(run, name)
