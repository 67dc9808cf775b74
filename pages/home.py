"""The first page: what Workbench is, links to four pages, a tour, and the latest runs.

The introduction is drawn before anything heavy is imported, so that it appears at once.
Costs: one look at the status file of each run.
"""

import streamlit as st

N_LATEST = 5
LINKS = (
    ("attention", "Look at attention", "visibility", "See what each head of a model attends to."),
    ("experiments", "Run an experiment", "science", "Analyse a model on a corpus."),
    ("corpora", "Browse a corpus", "menu_book", "Sentences with words, trees and entities."),
    ("models", "Open a model", "deployed_code", "Architecture, heads and parameters."),
)


st.title("Workbench", anchor=False)
st.markdown(
    "Workbench trains or loads language models and analyses them: what each layer encodes, what "
    "each attention head does, which heads can be removed, and what fine-tuning changes. "
    "Everything runs on this machine. Every result can be saved as a report for any browser."
)
columns = [*st.columns(2), *st.columns(2)]
for column, (name, label, icon, about) in zip(columns, LINKS, strict=True):
    with column.container(border=True, height="stretch"):
        st.page_link(f"pages/{name}.py", label=f"**{label}**", icon=f":material/{icon}:")
        st.caption(about)

from workbench.app import cache, run_list, tour  # noqa: E402  the introduction comes first

st.header("Tour", anchor=False)
st.markdown(
    "Runs every experiment on a built-in corpus and built-in models. It needs no network and takes "
    "several minutes."
)

tour.offer()

st.header("Latest runs", anchor=False)
run_list.draw_latest(N_LATEST, busy=tour.is_under_way())

st.header("This machine", anchor=False)
here = cache.machine()
device = " + ".join(here.device.names) or {"mps": "Apple GPU"}.get(here.device.kind, "processor")
st.markdown(
    f"Workbench {here.workbench}, Python {here.python}. Models run on the {device}; "
    f"{here.device.cores} processor cores."
)
if here.missing:
    st.page_link(
        "pages/settings.py",
        label=f"{len(here.missing)} optional packages or tools are missing"
        if len(here.missing) > 1
        else f"One optional package or tool is missing: {here.missing[0].what}",
        icon=":material/build:",
    )
