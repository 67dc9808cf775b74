"""The model before and after: a way into the attention browser with both, and to ask what changed.

Costs nothing; asking what changed is a run of its own.
"""

from typing import TYPE_CHECKING

import streamlit as st

from workbench.models.references import TRAINED
from workbench.view.parts import asking, chosen
from workbench.view.parts.plain import plain
from workbench.view.parts.transfer import known_as

if TYPE_CHECKING:
    from workbench.runs.run import Run

CHANGED = "drift"


def beside(run: "Run") -> None:
    """The way to where every head of both looks, and to what has changed."""
    models = [model.ref for model in run.spec.models]
    if run.spec.experiment != CHANGED:
        if not (run.path / TRAINED).is_dir():
            st.text("The run kept no model: ask it with keep, and by a method that can be kept.")
            return
        models = [models[0], run.name]
    corpus = run.spec.corpora[0].ref
    if None in models or corpus is None:
        st.text("The run was asked of objects, not of files: they cannot be opened again here.")
        return
    before, after = (known_as(str(model)) for model in models[:2])
    st.markdown(f"Before: **{plain(before)}** · after: **{plain(after)}**")
    st.page_link(
        "pages/attention.py",
        label="Look at the attention of both",
        icon=":material/compare:",
        query_params={
            chosen.MODEL: chosen.named(before, "models"),
            chosen.CORPUS: chosen.named(corpus, "corpora"),
            "beside": "another model",
            "model2": after,
        },
        help="The attention browser with the model before and, beside it, the one after; head by "
        "head, in step, with the difference.",
    )
    if run.spec.experiment != CHANGED and st.button(
        "Ask what has changed",
        icon=":material/science:",
        help="A run of drift on the same corpus: states, weights, attention and forgetting, layer "
        "by layer.",
    ):
        asking.start(CHANGED, (before, after), (corpus,), {}, {})
