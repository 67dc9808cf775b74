"""The tab Write: a text goes on, or its summary is written, with its source lit up.

Costs: those of `writing`.
"""

import streamlit as st

from workbench.analyses.asking.views import able, writing
from workbench.app import cache
from workbench.app.tables_and_figures import segment
from workbench.app.text import errors_shown

SOURCE = "The old woman opened the door and looked at the two children, who stood in the snow."
GO_ON, SUMMARISE = "Continue", "Summarise"
TLDR = "\nTL;DR:"  # after a text, as for GPT-2 (Radford et al. 2019)
MOST, USUAL = 200, 30  # pieces


def draw() -> None:
    """Draw the tab."""
    ref, model = able.model_for("write text", able.WRITERS)
    with st.container(key="beside"):
        left, right = st.columns([5, 8], gap="medium")
    with left:
        source = st.text_area(
            "Source",
            SOURCE,
            height=180,
            key="source",
            bind="query-params",
            placeholder="Type or paste a text",
            help="Ctrl and Enter, or a click beside the box, takes a changed text.",
        )
        with st.container(horizontal=True, vertical_alignment="bottom"):
            what = segment(
                "Write",
                [GO_ON, SUMMARISE],
                "write",
                help="What follows the text, or of an encoder-decoder what it writes for it; or a "
                "summary, after “TL;DR:” or T5's prefix.",
            )
            count = st.number_input(
                "Pieces",
                1,
                MOST,
                USUAL,
                key="pieces",
                bind="query-params",
                width=110,
                help=f"Maximum number of pieces that are written (default {USUAL}).",
            )
        with st.container(horizontal=True, vertical_alignment="bottom"):
            sample = st.toggle(
                "Draw at random",
                key="sample",
                bind="query-params",
                help="Draw each piece by its probability (default: the most probable).",
            )
            seed = 0
            if sample:
                seed = st.number_input(
                    "Seed", 0, 999_999, 0, key="seed", bind="query-params", width=110
                )
        able.draw_what_it_has_read(ref, writes=True)
    with right, errors_shown():
        from workbench.analyses.predictions.generate import SUMMARISE as PREFIX
        from workbench.corpora.encode import doc_of

        text, is_writer_for = cache.checked(source or "", "source"), model.objective == "seq2seq"
        if what == SUMMARISE:
            prefix = PREFIX if model.symbols.sentinels else ""
            text = f"{prefix}{text}" if is_writer_for else f"{text}{TLDR}"
        sampling = {"sample": True, "seed": int(seed)} if sample else {}
        asked = writing.Prompt(ref, model, doc_of(text), int(count), sampling)
        shows = what == GO_ON and not is_writer_for
        writing.draw("write", asked, "Write", shows_prompt=shows)
