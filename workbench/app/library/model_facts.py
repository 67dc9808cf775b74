"""The chosen model: its facts, its stacks, and its parameters by part.

A process of its own reads the facts, which are cached. Costs: seconds for a new model.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from workbench.app import cache, choice, text
from workbench.app.text import amount, plain
from workbench.core.errors import WorkbenchError
from workbench.core.findings import percent
from workbench.core.objectives import described
from workbench.models.references import has_read

KINDS = {
    "self": "self: every piece attends to all pieces",
    "causal": "causal: a piece attends to the pieces before it",
    "cross": "cross: the decoder attends to the encoder's output",
}


def draw_chosen(ref: str) -> None:
    """Draw the facts, stacks and parameters of the chosen model."""
    st.subheader(plain(choice.name_of(ref, "models"), 120))
    if choice.name_of(ref, "models") != ref:
        st.caption(plain(choice.details(ref, "models")))
    fetch = cache.is_remote_model(ref) and "fetched" in st.session_state.get("hub", {}).get(ref, "")
    if cache.is_remote_model(ref) and not fetch:
        st.warning(
            "There is no such model on this machine. If the name is a hub id, you can download it."
        )
        st.button(
            "Download from the hub",
            icon=":material/download:",
            help="Downloads the model's files from huggingface.co to the Hugging Face cache. "
            "Nothing else on this page uses the network.",
            on_click=lambda: st.session_state.setdefault("hub", {}).update({ref: "fetched"}),
        )
        return
    with text.errors_shown(stop=False):
        waiting = "Downloading the model …" if fetch else "Opening the model …"
        with st.spinner(waiting):
            try:
                facts = cache.facts(ref, fetch)
            except WorkbenchError:
                st.session_state.get("hub", {}).pop(ref, None)
                raise
        draw_facts(facts)
        draw_stacks(facts)
        st.subheader("Parameters by part")
        with st.spinner("Counting parameters …"):
            parts = cache.parts(ref)
        draw_parts(parts)


def draw_facts(facts: Mapping[str, Any]) -> None:
    """Draw the facts of a model."""
    longest = facts["longest_input"]
    with st.container(horizontal=True, gap="large", key="model-numbers"):
        _number("Family", facts["family"], "Model type, as in the model's configuration.")
        _number(
            "Parameters",
            amount(facts["parameters"]),
            f"Number of trained parameters: {facts['parameters']:,} (M: million, B: billion). "
            "Shared parameters count once.",
        )
        _number("Width", f"{facts['width']:,}", "Size of the vector of one piece in each layer.")
        _number(
            "Longest input",
            f"{longest:,} pieces" if longest else "no limit",
            "Maximum input length in pieces (subword tokens). Longer inputs are truncated.",
        )
    st.table(
        {
            **({"Has read": read} if (read := has_read(facts["name"])) else {}),
            "Predicts": plain(_predicted(facts["objectives"][:1])),
            **_also(facts),
            **({"Edit": f"`{facts['edit']}` in every pass"} if facts["edit"] else {}),
            **({"Added modules": plain(facts["added"])} if facts["added"] else {}),
            "Precision": f"{facts['precision']} on this page; a run can use another precision",
            "Device": f"{facts['device']} on this page; a run uses a GPU if there is one",
            "Limits": plain(facts["limits"]) if facts["limits"] else "none known",
            "Content hash": f"`{facts['content_hash']}` (equal for equal weights, configuration "
            "and tokenizer, whatever the name)",
        },
        border="horizontal",
    )


def _predicted(objectives: Sequence[Mapping[str, Any]]) -> str:
    """Objectives in words."""
    if not objectives:
        return "nothing: the model has no head with trained weights"
    return "; ".join(map(described, objectives))


def _also(facts: Mapping[str, Any]) -> dict[str, str]:
    """The row of what a model predicts besides what it was made for, if there is any."""
    others = facts["objectives"][1:]
    if not others:
        return {}
    return {"Also predicts": f"{plain(_predicted(others))} (Objective, in a new run)"}


def _number(label: str, value: str, about: str) -> None:
    st.metric(label, value, help=about, width="content")


def draw_stacks(facts: Mapping[str, Any]) -> None:
    """Draw the stacks of layers and their attention."""
    st.subheader(
        "Stacks",
        help="A stack is a sequence of layers. An encoder reads a text, a decoder writes one. "
        "Each attention head of a layer has its own attention pattern.",
    )
    st.table(
        [
            {
                "stack": stack["name"],
                "layers": f"{stack['layers']:,}",
                "heads per layer": _heads(stack["heads"], facts["removed_heads"]),
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
            "This model has no attention heads. Its layers can still be probed: each layer gives a "
            "vector for every word."
        )


def _heads(count: int, removed: int) -> str:
    """The heads of a layer; of a pruned model, those of the layer that has most of them."""
    return f"at most {count:,}" if count and removed else f"{count:,}" if count else "none"


def draw_parts(parts: Mapping[str, int]) -> None:
    """Draw the parameters of each part, as a figure and as a table."""
    import pandas as pd

    from workbench.app.tables_and_figures import draw_figure
    from workbench.core.head_names import weights_name
    from workbench.drawing.parameters import modules
    from workbench.drawing.sanitize import harmless
    from workbench.report.content import Drawing

    total = sum(parts.values()) or 1
    table = pd.DataFrame({"module": list(parts), "parameters": list(parts.values())})
    figure = harmless(modules({"modules": table}))
    draw_figure(Drawing("parameters", "", "", "", figure), "parameters-by-part")
    with st.expander("As a table", type="compact"):
        shown = table.assign(module=table["module"].map(weights_name))
        shown = shown.rename(columns={"module": "part"})
        shown["share"] = [percent(count / total, 1) for count in parts.values()]
        st.dataframe(shown, hide_index=True, width="stretch")
