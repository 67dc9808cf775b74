"""The first page: what Workbench is, four ways on, a tour with one click, the newest runs.

The greeting stands before anything heavy is imported, so that it is there at once.
"""

import streamlit as st

NEWEST = 5
WAYS = (
    ("attention", "Look at attention", "visibility", "What each head of a model attends to."),
    ("experiments", "Run an experiment", "science", "Ask one question of a model and a corpus."),
    ("corpora", "Browse a corpus", "menu_book", "Sentences with their words, trees and entities."),
    ("models", "Open a model", "deployed_code", "Its stacks, heads and parameters."),
)


st.title("Workbench", anchor=False)
st.markdown(
    "Workbench trains or loads language models and shows what is inside them: what each layer "
    "knows, what each attention head does, what can be removed, and what fine-tuning changes. "
    "Everything runs on this machine, and every result becomes a report that opens anywhere."
)
columns = [*st.columns(2), *st.columns(2)]
for place, (name, label, icon, about) in zip(columns, WAYS, strict=True):
    with place.container(border=True, height="stretch"):
        st.page_link(f"pages/{name}.py", label=f"**{label}**", icon=f":material/{icon}:")
        st.caption(about)

from workbench.app import cache, run_list, tour  # noqa: E402  the greeting comes first

st.header("A tour", anchor=False)
st.markdown(
    "Every experiment there is, on a corpus and models that are built in. No network is needed; "
    "it takes a minute or two."
)

tour.offer()

st.header("The newest runs", anchor=False)
run_list.newest(NEWEST, busy=tour.is_under_way())

st.header("This machine", anchor=False)
here = cache.machine()
runs_on = " + ".join(here.device.names) or {"mps": "Apple GPU"}.get(here.device.kind, "processor")
st.markdown(
    f"Workbench {here.workbench} on Python {here.python}; models run on the {runs_on}, with "
    f"{here.device.cores} processor cores."
)
if here.missing:
    st.page_link(
        "pages/doctor.py",
        label=f"{len(here.missing)} things are missing that you may want"
        if len(here.missing) > 1
        else f"One thing is missing that you may want: {here.missing[0].what}",
        icon=":material/build:",
    )
