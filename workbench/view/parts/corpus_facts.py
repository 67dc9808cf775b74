"""What the chosen corpus is: its splits, their sizes, what is known of its sentences.

Costs the counting of a bounded part of it, once; all of it where that is asked for.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st

from workbench.view.parts import sources
from workbench.view.parts.plain import plain

if TYPE_CHECKING:
    from workbench.corpora.browse import Size

LAYERS = {
    "words": "words",
    "sentences": "sentence boundaries",
    "pos": "parts of speech",
    "tags": "the treebank's own tags",
    "lemmas": "lemmas (dictionary forms)",
    "morphs": "grammatical features",
    "dependencies": "dependency trees",
    "entities": "names (entities)",
    "constituents": "phrases (constituents)",
    "coreference": "coreference chains",
    "segments": "the two texts of a pair",
    "answers": "answers to questions",
}


def draw_chosen(ref: str) -> "Sequence[Size]":
    """What the chosen corpus is; a corpus that cannot be read ends here."""
    with st.spinner("Opening the corpus …"):
        corpus = sources.corpus(ref)
        found = sources.sizes(ref, bool(st.session_state.get(f"count {ref}")))
        known = sources.layers(ref)
    st.table(
        [
            {
                "split": plain(size.split),
                "sentences": _at_least(size.docs, size.whole),
                "words": _at_least(size.words, size.whole),
            }
            for size in found
        ],
        border="horizontal",
        hide_index=True,
    )
    if not all(size.whole for size in found):
        st.button(
            "Count all of it",
            help="Reads the corpus to its end: about 10 seconds for 100,000 sentences.",
            on_click=lambda: st.session_state.update({f"count {ref}": True}),
        )
    said = [LAYERS.get(layer, layer.replace("label:", "the label ")) for layer in known]
    st.markdown(
        f"**What is known of it:** {plain(', '.join(said))}.",
        help="The layers found in the first sentences of every split. An analysis that needs "
        "another says so.",
    )
    for note in corpus.notes:
        st.caption(plain(note))
    return found


def _at_least(number: int, whole: bool) -> str:
    return f"{number:,}" if whole else f"more than {number:,}"


def draw_fetch(ref: str) -> None:
    """Ask before the network is used."""
    st.warning("This corpus is on the hub, and not on this machine.")
    st.button(
        "Fetch it from the hub",
        icon=":material/download:",
        help="Asks huggingface.co for the rows that are shown: the only thing here that uses the "
        "network.",
        on_click=lambda: st.session_state.setdefault("hub-corpora", set()).add(ref),
    )
