"""What a model that predicts nothing can be used for: links instead of a dead end.

An encoder that was saved without a head has no loss and no prediction, but states and attention.
Costs: nothing.
"""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from workbench.app import choice, navigation
from workbench.app.text import plain


def predicts_nothing(facts: Mapping[str, Any]) -> bool:
    """Whether a model has neither a language-model head nor a task head, by its facts."""
    return facts["predicts"] is None


def draw(ref: str, facts: Mapping[str, Any]) -> None:
    """Say why a model predicts nothing, and draw links to what it can do, and to a head for it."""
    has_heads = facts["sites"] > 0
    then = "its predictions can be explained"
    then += " and its heads be measured and pruned" if has_heads else ""
    st.markdown(
        f"**{plain(choice.name_of(ref, 'models'))} predicts nothing:** it was saved without a head "
        "for words or labels. Its layers give a vector for each word, which you can look at as "
        f"they are. Fine-tune it on labelled texts, and it gets a head: then {then}."
    )
    query = {**choice.in_url(), choice.MODEL: choice.named(ref, "models")}
    with st.container(horizontal=True, key="ways on"):
        navigation.link(
            "transfer",
            "Fine-tune it with a head",
            icon=":material/school:",
            query_params={**query, "analysis": "Fine-tuning", "new": "1"},
        )
        navigation.link(
            "words", "Nearest words", icon=":material/scatter_plot:", query_params=query
        )
        if has_heads:
            navigation.link(
                "attention", "Attention", icon=":material/grid_view:", query_params=query
            )
            navigation.link("heads", "Heads", icon=":material/hub:", query_params=query)
        navigation.link("probing", "Probe its layers", icon=":material/layers:", query_params=query)
