"""A sentence with all its annotation: arcs, words, spans, coreference chains, constituents, edges.

Every word and label is shown as text. Costs: a pass over the Doc.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from workbench.app.tables_and_figures import kind
from workbench.app.text import plain, shortened
from workbench.corpora.layers import Mention, chains, edges, mentions
from workbench.corpora.show import bracketed
from workbench.drawing.sentence import arcs, marked

if TYPE_CHECKING:
    from spacy.tokens import Doc

LONGEST = 200  # words of a sentence whose arcs are drawn
LAYERS = ("entities", "answers", "segments")  # shown as marked spans in the text


def draw(doc: "Doc") -> None:
    """Draw every layer of a Doc, one below the other."""
    if not len(doc):
        st.caption("This text has no words.")
        return
    _draw_arcs(doc)
    _draw_marks(doc)
    _draw_chains(doc)
    _draw_constituents(doc)
    _draw_edges(doc)
    _draw_labels(doc)
    with st.expander("Words as a table", type="compact"):
        st.dataframe(words(doc), hide_index=True, width="stretch")


def words(doc: "Doc") -> pd.DataFrame:
    """A table with a row for each word; empty columns are left out."""
    columns: dict[str, list[object]] = {
        "word": [shortened(token.text) for token in doc],
        "part of speech": [token.pos_ for token in doc],
        "tag": [shortened(token.tag_) for token in doc],
        "lemma": [shortened(token.lemma_) for token in doc],
        "features": [shortened(token.morph) for token in doc],
    }
    if doc.has_annotation("DEP"):
        columns["head"] = [
            "" if token.head.i == token.i else shortened(token.head.text) for token in doc
        ]
        columns["relation"] = [shortened(token.dep_) for token in doc]
    return pd.DataFrame({name: cells for name, cells in columns.items() if any(cells)})


# --- arcs -----------------------------------------------------------------------------------------


def _draw_arcs(doc: "Doc") -> None:
    if not doc.has_annotation("DEP"):
        return
    st.markdown(
        "**Dependencies**",
        help="An arrow leads from a head to its dependent and is labelled with the relation. The "
        "part of speech is below each word.",
    )
    for sentence in doc.sents:
        if len(sentence) > LONGEST:
            st.caption(
                f"The sentence has {len(sentence):,} words, too many to draw. See the table below."
            )
        else:
            st.html(arcs(sentence, kind()))


# --- marks ----------------------------------------------------------------------------------------


def _draw_marks(doc: "Doc") -> None:
    known = {"coreference", "constituents"}
    layers = [*LAYERS, *sorted({str(name) for name in doc.spans} - known - set(LAYERS))]
    helps = {
        "entities": "Named entities with their types.",
        "segments": "The two texts of a pair.",
        "answers": "The words that answer the question.",
    }
    for layer in layers:
        if spans := mentions(doc, layer):
            st.markdown(f"**{plain(layer.capitalize())}**", help=helps.get(layer))
            _marked(doc, spans, [mention.label for mention in spans])


def _draw_chains(doc: "Doc") -> None:
    by_name = chains(doc)
    if not by_name:
        return
    st.markdown(
        "**Coreference**",
        help="Mentions with the same number refer to the same entity. A number that occurs only "
        "once may occur again in another sentence.",
    )
    numbered = [
        (mention, str(number))
        for number, chain in enumerate(by_name.values(), start=1)
        for mention in chain
    ]
    _marked(doc, [mention for mention, _ in numbered], [number for _, number in numbered])


def _marked(doc: "Doc", parts: Sequence[Mention], names: Sequence[str]) -> None:
    spans = [(span.start_char, span.end_char) for m in parts for span in [doc[m.start : m.end]]]
    shown = marked(doc.text, spans, kind(), names, len(doc.text))
    st.html(f'<div style="line-height:2.4;overflow-wrap:anywhere">{shown}</div>')


# --- layers shown as text -------------------------------------------------------------------------


def _draw_constituents(doc: "Doc") -> None:
    phrases = mentions(doc, "constituents")
    if not phrases:
        return
    st.markdown("**Constituents**", help="The phrases of the sentence, each in brackets.")
    text = bracketed(doc, phrases) or "; ".join(
        f"[{doc[m.start : m.end].text}] {m.label}" for m in phrases
    )
    st.code(shortened(text), language=None, wrap_lines=True)


def _draw_edges(doc: "Doc") -> None:
    rows = [
        (
            shortened(layer),
            shortened(doc[edge.span1[0] : edge.span1[1]].text),
            shortened(doc[edge.span2[0] : edge.span2[1]].text) if edge.span2 else "",
            shortened(", ".join(edge.labels)),
        )
        for layer in doc._.edges
        for edge in edges(doc, layer)
    ]
    if rows:
        st.markdown(
            "**Labelled edges**",
            help="Labels of a span, or of the relation between two spans: roles, relations, "
            "properties.",
        )
        table = pd.DataFrame(rows, columns=["layer", "span 1", "span 2", "label"])
        st.dataframe(table, hide_index=True, width="stretch")


def _draw_labels(doc: "Doc") -> None:
    if doc._.labels:
        labels = [
            f"{plain(name)}: **{plain('unknown' if value is None else value, 200)}**"
            for name, value in doc._.labels.items()
        ]
        st.markdown("Labels of the whole text: " + ", ".join(labels))
