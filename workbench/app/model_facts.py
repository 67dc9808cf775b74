"""What the chosen model is: facts in plain words, stacks, and where its parameters are.

Facts come from a process of their own, and are remembered; a model that is new takes seconds.
"""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from workbench.app import cache, sidebar, text
from workbench.app.text import amount, plain
from workbench.core.errors import WorkbenchError

OBJECTIVES = {
    "causal": "the next piece, from those before it (causal)",
    "masked": "hidden pieces, from both sides (masked)",
    "seq2seq": "a text, written from another (sequence to sequence)",
    "bidirectional": "the next word, and by itself the one before (bidirectional)",
    "": "nothing: it has no language-model head of its own",
}
KINDS = {
    "self": "self: every piece sees all of them",
    "causal": "causal: a piece sees those before it",
    "cross": "cross: the decoder sees what the encoder read",
}


def draw_chosen(ref: str) -> None:
    """All that is known of the chosen model."""
    st.subheader(plain(sidebar.named(ref, "models"), 120))
    fetch = cache.is_remote_model(ref) and "fetched" in st.session_state.get("hub", {}).get(ref, "")
    if cache.is_remote_model(ref) and not fetch:
        st.warning("This is no model on this machine. If it is a hub id, it can be fetched.")
        st.button(
            "Fetch it from the hub",
            icon=":material/download:",
            help="Asks huggingface.co for the model's files: the only thing here that uses the "
            "network. They are kept in the cache of Hugging Face.",
            on_click=lambda: st.session_state.setdefault("hub", {}).update({ref: "fetched"}),
        )
        return
    with text.told(stop=False):
        waiting = "Fetching it from the hub …" if fetch else "Opening the model, once …"
        with st.spinner(waiting):
            try:
                facts = cache.facts(ref, fetch)
            except WorkbenchError:
                st.session_state.get("hub", {}).pop(ref, None)
                raise
        draw_facts(facts)
        draw_stacks(facts)
        st.subheader("Where the parameters are")
        with st.spinner("Counting its parameters …"):
            parts = cache.parts(ref)
        draw_parts(parts)


def draw_facts(facts: Mapping[str, Any]) -> None:
    """The facts of a model, in plain words."""
    longest = facts["longest_input"]
    first = st.columns(4)
    first[0].metric(
        "Family", facts["family"], help="The kind of model, as its configuration names it."
    )
    first[1].metric(
        "Parameters",
        amount(facts["parameters"]),
        help=f"Numbers that were learnt, {facts['parameters']:,} in all (M: million, B: billion). "
        "Shared ones count once.",
    )
    first[2].metric(
        "Width", f"{facts['width']:,}", help="How many numbers stand for one piece in each layer."
    )
    first[3].metric(
        "Longest input",
        f"{longest:,} pieces" if longest else "no limit",
        help="A piece is a word, or a part of one as the tokenizer cuts it. What is longer is cut.",
    )
    st.table(
        {
            "Predicts": OBJECTIVES.get(facts["objective"], plain(facts["objective"])),
            "Precision": f"{facts['precision']}, as it was opened here; a run may ask for another",
            "Device": f"{facts['device']}, as it was opened here; runs take a GPU where there is "
            "one",
            "Limits": plain(facts["limits"]) if facts["limits"] else "none known",
            "Content hash": f"`{facts['content_hash']}` \u2013 the same for the same weights, "
            "settings and tokenizer, under any name",
        },
        border="horizontal",
    )


def draw_stacks(facts: Mapping[str, Any]) -> None:
    """Columns of layers, and their attention."""
    st.subheader(
        "Stacks",
        help="A stack is one column of layers. An encoder reads a text, a decoder writes one. Each "
        "head of a layer attends in its own way.",
    )
    st.table(
        [
            {
                "stack": stack["name"],
                "layers": f"{stack['layers']:,}",
                "heads a layer": f"{stack['heads']:,}" if stack["heads"] else "none",
                "attention": "; ".join(KINDS.get(kind, plain(kind)) for kind in stack["kinds"])
                or "none",
            }
            for stack in facts["stacks"]
        ],
        border="horizontal",
        hide_index=True,
    )
    if not any(stack["heads"] for stack in facts["stacks"]):
        st.info(
            "This model has no attention, so there are no heads to look at. Its layers can be "
            "probed all the same: each turns a word into a row of numbers."
        )


def draw_parts(parts: Mapping[str, int]) -> None:
    """Where the parameters are, as a figure and as a table."""
    import pandas as pd

    from workbench.app.tables_and_figures import draw_figure
    from workbench.figures.model import modules
    from workbench.figures.sanitize import harmless
    from workbench.report.content import Drawing

    total = sum(parts.values()) or 1
    table = pd.DataFrame({"module": list(parts), "parameters": list(parts.values())})
    figure = harmless(modules({"modules": table}))
    draw_figure(Drawing("parameters", "", figure), "parameters-by-part")
    with st.expander("As a table"):
        shown = table.rename(columns={"module": "part"})
        shown["share"] = [f"{number / total:.1%}" for number in parts.values()]
        st.dataframe(shown, hide_index=True, width="stretch")
