"""The first page: what Workbench is, what it runs on here, and how the built-in corpus looks.

The greeting stands before anything heavy is imported, so that it is there at once.
"""

from typing import TYPE_CHECKING

import streamlit as st

if TYPE_CHECKING:
    from workbench.doctor import Facts

EXAMPLES = 3


@st.cache_resource(show_spinner="Looking around …")
def machine() -> "Facts":
    """What this machine offers; it does not change while the app runs."""
    from workbench.doctor import facts

    return facts()


@st.cache_data(show_spinner="Reading the built-in corpus …")
def examples() -> list[str]:
    """A few sentences of the built-in corpus, drawn as text."""
    from workbench.corpora import read
    from workbench.corpora.show import shown

    return [shown(doc) for doc in read("primer").docs("dev", limit=EXAMPLES)]


st.title("Workbench")
st.markdown(
    "Workbench trains or loads language models and shows what is inside them: what each layer "
    "knows, what each attention head does, what can be removed, and what fine-tuning changes."
)

corpus, computer = st.columns([3, 2], gap="large")
with corpus:
    st.header("The built-in corpus")
    st.markdown("`primer` is made up, small, and comes with exact gold for every layer.")
    for example in examples():
        st.code(example, language=None, wrap_lines=True)
with computer:
    st.header("This machine")
    here = machine()
    runs_on = " + ".join(here.device.names) or here.device.kind.upper()
    st.markdown(f"**{runs_on}**, {here.device.cores} processor cores")
    st.markdown(f"Workbench {here.workbench}, Python {here.python}")
    with st.expander("Packages"):
        st.table({package.name: package.installed or "none" for package in here.packages})
    for missing in here.missing:
        st.markdown(f"Missing: {missing.what}, for {missing.why}")
        st.code(missing.command, language="bash")
