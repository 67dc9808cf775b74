"""Attention: what every head of a model looks at in one text. One forward pass; then only looking.

Costs the opening of a model, which is kept, a forward pass a text, and a pass over the maps for
each way of showing them.
"""

import streamlit as st

from workbench.app import attention, cache, sidebar
from workbench.app.text import told

st.title("Attention")
with told(stop=True):
    ref = sidebar.model()
    model = cache.model(ref)
    if not model.sites:
        attention.without_heads(model)
        st.stop()

    from workbench.attention_browser.component import attention_browser
    from workbench.attention_browser.scene import scene_of, side_of
    from workbench.attention_maps.capture import attention as capture_attention

    with attention.row():
        doc, other = attention.text(), attention.beside()
    written = attention.target(doc) if len(model.stacks) > 1 else None
    with st.spinner("Looking …"):
        seen = capture_attention(model, doc, written)
    kind, options, tables = attention.shown(seen)
    first = side_of(seen, kind, options, doc if kind[0] == "encoder" else written or doc, tables)
    second = attention.second(other, ref, doc, written, kind, options, tables)
    attention_browser(scene_of([first, *second]))
    attention.onwards()
