"""What a run found, on a page: caveats beside what they touch, figures, tables.

Reads its folder; costs a look at its tables.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st

from workbench.view.parts import figures, tables, words
from workbench.view.parts.plain import plain
from workbench.view.parts.problems import told
from workbench.view.parts.words import lines, subject

if TYPE_CHECKING:
    from workbench.runs.run import Run

CAVEATS = 2  # in view; more stand behind a fold


def show(run: "Run") -> None:
    """Figures and tables of a run that is done."""
    with told():
        drawn = figures.of(run)
        names = list(run.tables)
        caveats = run.caveats
        there = {*drawn, *names}
        notes = [c.text for c in caveats if not there.intersection(c.beside)]
        for text in [*notes, *dict.fromkeys(run.warnings)]:
            _note(text)
        for name, drawing in drawn.items():
            st.subheader(_title(name), anchor=False)
            for caveat in caveats:
                if name in caveat.beside:
                    _note(caveat.text)
            figures.draw(drawing, f"figure {run.name} {name}")
        for name in names:
            table = tables.of(run, name)
            st.subheader(f"Table: {_title(name)}", anchor=False)
            for text in tables.about(table):
                st.text(text.replace("`", ""))
            for caveat in caveats:
                if name in caveat.beside and name not in drawn:
                    _note(caveat.text)
            tables.draw(table, f"table {run.name} {name}")
        if not there:
            st.text("This run left neither tables nor figures.")


def heading(run: "Run") -> None:
    """What was asked of what, how it stands, and when."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.header(plain(title(run)), anchor=False, width="content")
        words.state(run.status.state)
    words.facts([("run", run.name), ("asked", words.ago(run.status.created))])


def caveats(run: "Run", always: Sequence[str] = ()) -> None:
    """What to know when reading it; of many notes, those with words of `always` stay in view."""
    notes = list(dict.fromkeys([*(caveat.text for caveat in run.caveats), *run.warnings]))
    few = len(notes) <= CAVEATS
    shown = notes if few else [note for note in notes if any(each in note for each in always)]
    for text in shown:
        _note(text)
    if rest := [note for note in notes if note not in shown]:
        with st.expander(f"What to know when reading this ({len(rest)})", icon=":material/info:"):
            for text in rest:
                st.text(text)


def every_table(run: "Run") -> None:
    """Every table, one at a time, and what leaves the app as a file."""
    from workbench.errors import WorkbenchError
    from workbench.view.parts import listing, saving

    with st.expander("Save a report, a table or a figure", icon=":material/download:"):
        saving.offer([run], f"save {run.name}")
    names = list(run.tables)
    if not names:
        raise WorkbenchError(
            "this run left no tables.",
            where=run.name,
            remedy=f"To compute it again: workbench runs rm {run.name} --yes, then ask again.",
        )
    picked = st.selectbox("Table", names, key="table", bind="query-params", width=200)
    name = picked if picked in names else names[0]
    table = tables.of(run, name)
    for text in tables.about(table):
        st.text(text.replace("`", ""))
    tables.draw(table, f"table {run.name} {name}")
    st.page_link(
        "pages/runs.py",
        label="Everything about this run",
        icon=":material/open_in_new:",
        query_params={listing.OPENED: run.name},
    )


def asked(run: "Run") -> None:
    """What was asked, of what, with what and when; and the command that asks it again."""
    from workbench.report.question import command, facts
    from workbench.view.parts.words import facts as told_facts

    with told():
        if run.status.state == "done":
            groups = facts(run)
        else:
            spec = run.spec
            groups = {
                "What was asked": (
                    ("run", run.name),
                    ("experiment", spec.experiment),
                    *((key, str(value)) for key, value in spec.settings.items()),
                    ("split", spec.split or "all of them"),
                    ("seed", str(spec.seed)),
                ),
                "Of what": (
                    *(("model", model.name) for model in spec.models),
                    *(("corpus", corpus.name) for corpus in spec.corpora),
                ),
            }
        for title, rows in groups.items():
            if rows:
                st.markdown(f"**{title}**")
                told_facts(rows)
        st.markdown("**The same from the command line**")
        st.code(command(run.spec), language="bash", wrap_lines=True)


def log(run: "Run") -> None:
    """The last lines the run has said."""
    from workbench.runs.status import log_lines

    if said := log_lines(run.path, 200):
        lines(said)
    else:
        st.text("The run has said nothing.")


def title(run: "Run") -> str:
    """The experiment, and what it looked at."""
    now = run.status
    return subject(now.experiment or run.name, now.models, now.corpora)


def _note(text: str) -> None:
    """A caveat or a warning, as text."""
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        st.markdown(":material/info:", width="content")
        st.text(text)


def _title(name: str) -> str:
    from workbench.view.parts.plain import plain

    return plain(name.replace("_", " "))
