"""Attention: what every head of a model looks at in one text. One forward pass; then only looking.

Costs the opening of a model, which is kept, a forward pass a text, and a pass over the maps for
each way of showing them.
"""

import streamlit as st

from workbench.view.parts import attention, chosen, sources
from workbench.view.parts.problems import told

st.title("Attention")
with told(stop=True):
    ref = chosen.model()
    model = sources.model(ref)
    if not model.sites:
        attention.without_heads(model)
        st.stop()

    from workbench.maps.look import look
    from workbench.view.browser.mount import attention_browser
    from workbench.view.browser.scene import scene_of, side_of

    with attention.row():
        doc, other = attention.text(), attention.beside()
    written = attention.target(doc) if len(model.stacks) > 1 else None
    with st.spinner("Looking …"):
        seen = look(model, doc, written)
    kind, options, tables = attention.shown(seen)
    first = side_of(seen, kind, options, doc if kind[0] == "encoder" else written or doc, tables)
    second = attention.second(other, ref, doc, written, kind, options, tables)
    attention_browser(scene_of([first, *second]))
    attention.onwards()
