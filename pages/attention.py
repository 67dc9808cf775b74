"""Attention of every head of a model on one text.

Costs: loading a model (cached), one forward pass per text, and one pass over the attention maps
for each change of the display options.
"""

import streamlit as st

from workbench.app import attention, cache, choice
from workbench.app.text import errors_shown

st.title("Attention")
st.markdown("Attention of every head on one sentence. Click a head to enlarge it.")
with errors_shown(stop=True):
    ref = choice.model()
    model = cache.model(ref)
    if not model.sites:
        attention.without_heads(model)
        st.stop()

    from workbench.attention_browser.component import attention_browser
    from workbench.attention_browser.scene import scene_of, side_of
    from workbench.attention_maps.capture import attention as capture_attention

    with attention.row():
        doc, comparison = attention.text(), attention.comparison()
    target = attention.target(doc) if len(model.stacks) > 1 else None
    with st.spinner("Computing attention …"):
        maps = capture_attention(model, doc, target)
    group, options, tables = attention.display_options(maps)
    queries = doc if group[0] == "encoder" else target or doc
    first = side_of(maps, group, options, queries, tables)
    second = attention.second(comparison, ref, doc, target, group, options, tables)
    attention_browser(scene_of([first, *second]))
    attention.link_to_averages()
