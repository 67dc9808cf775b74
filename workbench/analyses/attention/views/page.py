"""The page Attention: every head of a model on one text, in the browser of attention.

Costs: loading a model (cached), one forward pass per text, and one pass over the attention maps
for each change of the display options.
"""

from functools import partial

import streamlit as st

from workbench.analyses.attention.edits import mask_of, with_mask
from workbench.analyses.attention.views import answers as attention_answers
from workbench.analyses.attention.views import choices as attention
from workbench.app import cache, choice, style
from workbench.app.text import errors_shown, plain


def page() -> None:
    """Draw the page."""
    style.draw_text_page()
    attention.draw_style()
    with errors_shown(stop=True):
        ref = choice.model()
        model = cache.model(ref)
        if not model.sites:
            attention.without_heads(model)
            st.stop()

        from workbench.analyses.attention.browser.component import attention_browser
        from workbench.analyses.attention.browser.scene import scene_of, side_of
        from workbench.analyses.attention.capture import attention as capture_attention
        from workbench.analyses.predictions.views.results import unknown_note
        from workbench.models.scoring.lm_scoring import predicts_in_order

        bar = attention.toolbar()
        with bar:
            doc = with_mask(model, attention.sentence())
            comparison = attention.comparison()
        several = len(model.stacks) > 1
        in_order = predicts_in_order(model)
        second_bar = attention.second_toolbar(
            several or in_order or comparison.startswith("another")
        )
        with second_bar:
            target = attention.target(doc) if several else None
        by_order = attention.prediction_order(second_bar) if in_order else {}
        with bar:
            layers = attention.block(model, doc, target)
        reading = by_order if layers is None else {**by_order, "layers": layers}
        with st.spinner("Computing attention …"):
            maps = capture_attention(model, doc, target, **reading)
            before = attention.maps_before(model, target, reading)
        group, options, tables = attention.display_options(maps, bar, second_bar)
        queries = doc if group[0] == "encoder" else target or doc
        first = side_of(
            maps,
            group,
            options,
            queries,
            tables,
            before=before,
            corpus=None if by_order else attention_answers.on_corpus(ref),
            mask=mask_of(model),
            predicts=attention_answers.predicts(ref, model, doc),
            model=choice.name_of(ref, "models"),
        )
        attention.masks(maps, second_bar)
        second = attention.second(
            comparison, ref, doc, target, group, options, tables, second_bar, reading
        )
        for note in (maps.cut_note, unknown_note(ref, model, doc)):
            if note:
                st.caption(plain(note))
        attention_browser(
            scene_of([first, *second]),
            attention_answers.answers(ref, model, doc, group, options, has_order=bool(by_order)),
            partial(attention.link_to_head, model, group, doc.text),
        )
