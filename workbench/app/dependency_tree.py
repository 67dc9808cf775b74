"""A sentence with all that is known of it: arcs, words, marks, chains, brackets, edges.

Arcs are drawn by displaCy as a picture in the page's own ink: inside a picture no script runs and
nothing is loaded. Every word and label is shown as text. Costs a pass over the Doc.
"""

import html
from base64 import b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from workbench.app.tables_and_figures import kind
from workbench.app.text import marked, plain, shortened
from workbench.corpora.layers import Mention, chains, edges, mentions
from workbench.corpora.show import bracketed
from workbench.figures.theme import FONTS, INK, Kind

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span

LONGEST = 200  # words of a sentence whose arcs are drawn
LAYERS = ("entities", "answers", "segments")  # layers shown as marks in the text
_BOX = (
    "overflow-x:auto;overflow-y:hidden;max-width:100%;padding:0.25rem 0;"
    "border:1px solid rgba(128,128,128,.3);border-radius:.5rem"
)


def draw(doc: "Doc") -> None:
    """Everything a Doc carries, one layer under another."""
    if not len(doc):
        st.caption("A text without words.")
        return
    _draw_arcs(doc)
    _draw_marks(doc)
    _draw_chains(doc)
    _draw_constituents(doc)
    _draw_edges(doc)
    _draw_labels(doc)
    with st.expander("Words as a table"):
        st.dataframe(words(doc), hide_index=True, width="stretch")


def words(doc: "Doc") -> pd.DataFrame:
    """A row for each word, with those columns that hold anything."""
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
        help="Who depends on whom: an arrow leads from a head to its dependent, and names the "
        "relation. Below each word stands its part of speech.",
    )
    for sentence in doc.sents:
        if len(sentence) > LONGEST:
            st.caption(f"{len(sentence):,} words are too many to draw; the table below has them.")
        else:
            st.html(arcs(sentence, kind()))


def arcs(sentence: "Span", kind: Kind = "light") -> str:
    """A sentence's tree as a picture in a box that scrolls, and in words for who cannot see it."""
    start = sentence.start
    tokens = [word(token.text, token.pos_ or token.tag_) for token in sentence]
    drawn: list[dict[str, Any]] = []
    for token in sentence:
        if token.head.i != token.i and sentence.start <= token.head.i < sentence.end:
            drawn.append(arc(token.head.i - start, token.i - start, token.dep_))
    direction = str(sentence.vocab.writing_system.get("direction", "ltr"))
    told = "; ".join(
        f"{token.text}: {token.dep_}"
        + ("" if token.head.i == token.i else f" of {token.head.text}")
        for token in sentence
    )
    return picture(tokens, drawn, kind, "Dependency arcs", told, direction)


def word(text: str, below: str = "") -> dict[str, str]:
    """A word of a picture, and what stands below it."""
    return {"text": shortened(text, 40), "tag": html.escape(shortened(below, 24))}


def arc(first: int, second: int, label: str) -> dict[str, Any]:
    """An arrow of a picture, from a word to another."""
    return {
        "start": min(first, second),
        "end": max(first, second),
        "label": html.escape(shortened(label, 24)),
        "dir": "left" if second < first else "right",
    }


def picture(
    tokens: list[dict[str, str]],
    drawn: list[dict[str, Any]],
    kind: Kind,
    label: str,
    told: str,
    direction: str = "ltr",
) -> str:
    """Words with arcs over them, in displaCy's terms, in a box that scrolls; and the same told."""
    svg = _svg(tokens, drawn, direction, kind)
    encoded = b64encode(svg.encode("utf-8", "replace")).decode()
    return (
        f'<div style="{_BOX}" tabindex="0" role="group" aria-label="{label}">'
        f'<img src="data:image/svg+xml;base64,{encoded}" alt="{html.escape(shortened(told))}"'
        ' style="max-width:none;display:block"></div>'
    )


def _svg(
    tokens: list[dict[str, str]], drawn: list[dict[str, Any]], direction: str, kind: Kind
) -> str:
    """displaCy's drawing, without the room that its square arcs leave above themselves."""
    from spacy.displacy.render import DependencyRenderer

    widest = max(len(token["text"]) for token in tokens)
    longest = max((len(one["label"]) for one in drawn), default=0)
    renderer = DependencyRenderer(
        {
            "compact": True,
            "color": INK[kind],
            "bg": "transparent",
            "font": FONTS.replace("'", ""),
            "distance": min(320, max(120, 11 * widest, 10 * longest + 24)),
            "offset_x": max(50, 6 * widest),
            "word_spacing": 28,
            "arrow_stroke": 1.5,
            "arrow_width": 7,
            "arrow_spacing": 16,
        }
    )
    renderer.direction = direction
    svg: str = renderer.render_svg("arcs", tokens, drawn).strip()
    top = renderer.offset_y - renderer.highest_level * renderer.distance / 6 - 6
    height = renderer.height - top
    box = f'viewBox="0 {top} {renderer.width} {height}" height="{height}"'
    return svg.replace(f'height="{renderer.height}"', box, 1).replace(
        f"height: {renderer.height}px", f"height: {height}px", 1
    )


# --- marks ----------------------------------------------------------------------------------------


def _draw_marks(doc: "Doc") -> None:
    known = {"coreference", "constituents"}
    layers = [*LAYERS, *sorted({str(name) for name in doc.spans} - known - set(LAYERS))]
    helps = {
        "entities": "Names of people, places and the like, each with its kind.",
        "segments": "The two texts of a pair.",
        "answers": "The words that answer the question.",
    }
    for layer in layers:
        if found := mentions(doc, layer):
            st.markdown(f"**{plain(layer.capitalize())}**", help=helps.get(layer))
            _marked(doc, found, [mention.label for mention in found])


def _draw_chains(doc: "Doc") -> None:
    found = chains(doc)
    if not found:
        return
    st.markdown(
        "**Coreference**",
        help="Mentions with the same number speak of the same thing. A number that stands once "
        "only is taken up again in another sentence, or never.",
    )
    numbered = [
        (mention, str(number))
        for number, chain in enumerate(found.values(), start=1)
        for mention in chain
    ]
    _marked(doc, [mention for mention, _ in numbered], [number for _, number in numbered])


def _marked(doc: "Doc", found: Sequence[Mention], names: Sequence[str]) -> None:
    spans = [(part.start_char, part.end_char) for m in found for part in [doc[m.start : m.end]]]
    shown = marked(doc.text, spans, kind(), names, len(doc.text))
    st.html(f'<div style="line-height:2.4;overflow-wrap:anywhere">{shown}</div>')


# --- the rest, as text ----------------------------------------------------------------------------


def _draw_constituents(doc: "Doc") -> None:
    found = mentions(doc, "constituents")
    if not found:
        return
    st.markdown("**Constituents**", help="The phrases a sentence is made of, each in brackets.")
    text = bracketed(doc, found) or "; ".join(
        f"[{doc[m.start : m.end].text}] {m.label}" for m in found
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
            help="A label of some words, or of the tie between two groups of them: roles, "
            "relations, properties.",
        )
        table = pd.DataFrame(rows, columns=["layer", "words", "and words", "label"])
        st.dataframe(table, hide_index=True, width="stretch")


def _draw_labels(doc: "Doc") -> None:
    if doc._.labels:
        said = [
            f"{plain(name)}: **{plain('unknown' if value is None else value, 200)}**"
            for name, value in doc._.labels.items()
        ]
        st.markdown("Of the whole text: " + ", ".join(said))
