"""A text that a model writes while one watches, with a button that stops it, and its lit source.

What was written stays in the session until the source or a setting changes; the piece whose source
is lit up is in the address. Costs: those of `generate`, once; then those of `carried`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.app import choice
from workbench.app.runs import run_list
from workbench.app.tables_and_figures import segment
from workbench.app.text import as_html, captions, plain
from workbench.app.token_views.component import token_views
from workbench.app.token_views.views import (
    Choice,
    Predictions,
    Token,
    bars,
    index_in,
    strip,
    written_strip,
)
from workbench.core.errors import WorkbenchError
from workbench.core.findings import percent

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.analyses.asking.source import Carried
    from workbench.analyses.predictions.results import WrittenPiece
    from workbench.engine.model import Model

PIECE = "piece"  # in the address, without a box of its own
SMALL = 20_000_000  # parameters of a model that writes without a click
TOP = 5  # choices of each piece
BEFORE = 400  # characters of a prompt that are shown
HIDDEN, ATTENDED = "Leave words out", "Cross-attention"  # how a source is lit up


@dataclass(frozen=True)
class Prompt:
    """What a model writes for, and how."""

    ref: str
    model: "Model"
    doc: "Doc"
    count: int  # maximum number of pieces
    sampling: Mapping[str, Any] = field(default_factory=dict)
    one_line: bool = False  # what follows a line break is not shown

    @property
    def key(self) -> tuple[object, ...]:
        """The content."""
        from workbench.corpora.encode import content_key

        content = content_key(self.model, self.doc)
        return content, self.count, tuple(self.sampling.items()), self.one_line


@dataclass
class Written:
    """What a model has written so far for a prompt."""

    key: tuple[object, ...]
    steps: "list[WrittenPiece]" = field(default_factory=list)
    notes: tuple[str, ...] = ()
    ended: bool = False
    is_whole: bool = False
    is_stopped: bool = False
    carried: "dict[str, Carried]" = field(default_factory=dict)  # by how it is lit up

    @property
    def text(self) -> str:
        return "".join(step.text for step in self.steps)


def draw(tab: str, prompt: Prompt, label: str, shows_prompt: bool = False) -> None:
    """Draw what a model writes for a prompt, and the words that carry it.

    A small model writes without a click on the button, which has this label.
    """
    slot = f"written in {tab}"
    former: Written | None = st.session_state.get(slot)
    known = former if former is not None and former.key == prompt.key else None
    with st.container(horizontal=True, vertical_alignment="center"):
        is_asked = st.button(label, icon=":material/edit_note:", key=f"write in {tab}")
        stop = st.empty()
        is_small = prompt.model.parameters <= SMALL
        lit = st.toggle(
            "Light up its source",
            value=is_small,
            key="lit",
            bind="query-params",
            help="Hides each word of the source in turn, which takes a forward pass for each.",
        )
    is_new = known is None or not (known.is_whole or known.is_stopped)
    if is_asked or (is_new and is_small):
        if former is not None and known is None:
            run_list.set_query(PIECE, None)
        known = st.session_state[slot] = Written(prompt.key)
        stop.button(
            "Stop",
            icon=":material/stop_circle:",
            key=f"stop in {tab}",
            on_click=_stop,
            args=(slot,),
        )
        _write(prompt, known, shows_prompt)
        stop.empty()
    elif known is not None:
        st.html(_shown(prompt, known, shows_prompt))
    if known is None:
        return
    if known.is_stopped:
        st.caption(f"Stopped after {len(known.steps)} pieces.")
    elif known.is_whole and not known.ended and len(known.steps) == prompt.count:
        st.caption(f"The first {prompt.count} pieces; the text does not end there.")
    captions(known.notes)
    if not known.steps:
        return
    how = _light(prompt, known) if lit else ""
    _strips(tab, known, how)


def _stop(slot: str) -> None:
    if (known := st.session_state.get(slot)) is not None:
        known.is_stopped = True


def _write(prompt: Prompt, known: Written, shows_prompt: bool) -> None:
    """Draw the text while it is written; a click anywhere ends it, since the page runs again."""
    from workbench.analyses.predictions.generate import generate
    from workbench.engine.forward_pass import ALONE

    place = st.empty()

    def on_piece(piece: "WrittenPiece") -> None:
        known.steps.append(piece)
        place.html(_shown(prompt, known, shows_prompt))

    place.caption("Writing …")
    with ALONE:
        found = generate(
            prompt.model, prompt.doc, prompt.count, top=TOP, on_piece=on_piece, **prompt.sampling
        )
    known.notes, known.ended, known.is_whole = found.notes, found.ended, True
    place.html(_shown(prompt, known, shows_prompt))


def _shown(prompt: Prompt, known: Written, shows_prompt: bool) -> str:
    """HTML of what is written, after the end of the prompt if it goes on from there."""
    written, before = known.text, prompt.doc.text if shows_prompt else ""
    if prompt.one_line:
        written = written.strip().partition("\n")[0] or written
    if len(before) > BEFORE:
        before = f"… {before[-BEFORE:]}"
    name = as_html(choice.name_of(prompt.ref, "models"))
    before, written = (as_html(text.replace("\n", "↵")) for text in (before, written))
    style = "margin:0;white-space:pre-wrap;overflow-wrap:anywhere"
    return (
        f'<p style="margin:0;font-size:13px;opacity:0.72">{name}</p>'
        f'<p dir="auto" aria-live="polite" style="{style}">{before}'
        f"<b>{written or '<i>(nothing)</i>'}</b></p>"
    )


# --- the source -----------------------------------------------------------------------------------


def _light(prompt: Prompt, known: Written) -> str:
    """Compute which words carry what was written, and return how; a click anywhere ends it."""
    from workbench.analyses.asking.source import attended, carried
    from workbench.engine.forward_pass import ALONE

    how = HIDDEN
    if any(site.kind == "cross" for site in prompt.model.sites):
        how = segment(
            "How the source is lit up",
            [HIDDEN, ATTENDED],
            "by",
            help="What the written text loses without each word; or how much of the decoder's "
            "cross-attention each word has, which is where it looks, not what it needs.",
        )
    if how in known.carried:
        return how
    if how == ATTENDED:
        with ALONE:
            indices = [step.index for step in known.steps]
            known.carried[how] = attended(prompt.model, prompt.doc, indices)
        return how
    bar = st.progress(0.0, "Hiding each word …")
    try:
        with ALONE:
            known.carried[how] = carried(
                prompt.model,
                prompt.doc,
                [step.index for step in known.steps],
                prompt.count,
                lambda share: bar.progress(min(share, 1.0), "Hiding each word …"),
            )
    except WorkbenchError as error:
        st.caption(plain(f"The source is not lit up: {error.what}"))
    bar.empty()
    return how


def _strips(tab: str, known: Written, how: str) -> None:
    """Draw the written pieces, of which one can be chosen, the source, and the other choices."""
    index = st.query_params.get(PIECE, "")
    piece = int(index[:6]) if index.isascii() and index.isdecimal() else None
    piece = None if piece is not None and piece >= len(known.steps) else piece
    views = [
        written_strip(
            "pieces",
            "What was written. Choose a piece to see which words carry it",
            [(step.text.strip() or step.piece, step.probability) for step in known.steps],
            selected=piece,
            legend=("", "probability of each piece"),
            note="Choose a piece to see which words carry it; choose it again for the whole text.",
            scrolls=True,
        )
    ]
    if how in known.carried:
        views.append(_source(how, known, piece))

    def chosen(pick: Mapping[str, Any]) -> None:
        at = index_in(pick, "i", len(known.steps))
        run_list.set_query(PIECE, None if at is None or at == piece else str(at))

    token_views(views, f"pieces of {tab}", chosen)
    step = known.steps[piece or 0]
    rows = [
        Choice(n, each.text, each.probability, "target" if each.index == step.index else "")
        for n, each in enumerate(step.choices)
    ]
    name = f"Choices of piece {(piece or 0) + 1}"
    rest = max(0.0, 1 - sum(row.p for row in rows))
    token_views(
        [bars("choices", [Predictions(name, rows, rest=rest)])], f"choices of {tab}", none_chosen
    )


def _source(how: str, known: Written, piece: int | None) -> dict[str, Any]:
    """The strip of the source: words that carry a piece, or are attended to meanwhile."""
    carried, is_attention = known.carried[how], how == ATTENDED
    scores = carried.of_words(piece)
    what = "the whole text" if piece is None else f"“{known.steps[piece].text.strip()}”"
    words = len(carried.groups[0])
    together = f" Each {words} words are hidden together." if words > 1 else ""
    note = f"What the log-probability of {what} loses (nats) if a word is hidden.{together}"
    if is_attention:
        n_pieces = len(known.steps) if piece is None else 1
        scores = {word: score / n_pieces for word, score in scores.items()}
        rest = percent(max(0.0, 1 - sum(scores.values())))
        note = (
            f"Cross-attention on each word while {what} is written, mean over layers and heads; "
            f"{rest} of it is on special pieces."
        )
    shown = {
        word: percent(score, 1) if is_attention else f"{score:+.3f}"
        for word, score in scores.items()
    }
    tokens = [
        Token(
            token.text,
            token.i,
            score=scores.get(token.i),
            tip=f"{token.text}: {shown[token.i]}" if token.i in scores else "not read",
        )
        for token in carried.doc
        if not token.is_space
    ]
    return strip(
        "source",
        "The source",
        tokens,
        pickable=False,
        diverging=not is_attention,
        legend=("", "share of attention") if is_attention else ("against", "for"),
        top=sorted(map(abs, scores.values()))[-2:][0],  # one word alone does not fade all others
        note=note,
        scrolls=True,
    )


def none_chosen(pick: Mapping[str, Any]) -> None:
    """Nothing is chosen."""
