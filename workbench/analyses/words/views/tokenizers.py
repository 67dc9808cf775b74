"""The tab Tokenizers of the page Words: how models split a text, and a word step by step.

Costs: opening each model once; its tokenizer is kept. Then milliseconds.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.analyses.words.views import choices as words
from workbench.analyses.words.views import results as words_results
from workbench.app import choice
from workbench.app.downloads import downloads
from workbench.app.text import errors_shown, plain
from workbench.app.token_views.component import token_views
from workbench.app.token_views.views import Box, Step, Steps, View, index_in, pieces, steps
from workbench.core.errors import WorkbenchError, listed
from workbench.models.references import MINI

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.analyses.words.tokenizations import Tokenization
    from workbench.engine.text_pieces import Segmentation, TextPiece

MOST = 8  # models next to each other
TRIED = 4  # longer candidates that are named
NAMES = {"before": "(special)", "after": "(special)", "gap": "(no word)"}


def draw(ref: str, doc: "Doc", word: int) -> None:
    """Draw the tab: the pieces of all models, and the steps of the chosen word."""
    found: dict[str, Tokenization] = {}
    for model in _models(ref):
        with errors_shown(), st.spinner(f"Splitting with {plain(model)} …"):
            found[model] = words_results.tokenization(model, doc)
    if not found:
        return
    view = table_of(list(found.values()), word)

    def chosen(pick: Mapping[str, Any]) -> None:
        if (index := index_in(pick, "i", len(doc))) is not None:
            words.choose_word(0, index)

    token_views([view], "pieces", chosen)
    _losses(list(found.values()))
    _steps(list(found), doc, word)
    _downloads(list(found.values()), view)


def _models(ref: str) -> list[str]:
    """Draw a box for the models."""
    default = list(dict.fromkeys([*MINI, ref]))
    picked = st.multiselect(
        "Models",
        list(dict.fromkeys([*default, *choice.models(), *st.query_params.get_all("models")])),
        default=default,
        key="models",
        bind="query-params",
        accept_new_options=True,
        max_selections=MOST,
        help="Built-in models, runs, folders or hub ids: type the reference of a model of your "
        "own (default: the built-in ones, and the model of the top bar).",
    )
    if not picked:
        raise WorkbenchError(
            "No model is chosen.", code="model-missing", remedy="Choose one under Models."
        )
    return [str(each) for each in picked][:MOST]


# --- pieces ---------------------------------------------------------------------------------------


def table_of(found: "Sequence[Tokenization]", chosen: int) -> View:
    """A table with a row for each word and a column for each model."""
    from workbench.analyses.words.tokenizations import placed, row_keys

    first = found[0]
    rows_of = [placed(each) for each in found]
    names, indices, cells = [], [], []
    for key in row_keys(len(first.words)):
        kind, index = key
        line = [[*_boxes(own.get(key, ()))] for own in rows_of]
        if kind != "at" and not any(line):
            continue
        names.append(first.text[slice(*first.words[index])] if kind == "at" else NAMES[kind])
        indices.append(index if kind == "at" else None)
        cells.append(line)
    return pieces(
        "pieces",
        "Pieces of each word by each model",
        names,
        [each.model for each in found],
        cells,
        words=indices,
        row=indices.index(chosen) if chosen in indices else None,
        heads=[each.algorithm for each in found],
        foot=[counts(each) for each in found],
        pickable=True,
        about="Shows the steps for this word.",
        note="The colour of a piece is its place in the word. Dashed: added by the tokenizer. "
        "Framed, with a question mark: unknown to the model. Point at a piece to see its id.",
    )


def _boxes(found: "Sequence[TextPiece]") -> Iterator[Box]:
    for part, piece in enumerate(found):
        mark = "special" if piece.special else "unknown" if piece.unknown else ""
        tip = {"special": "added by the tokenizer", "unknown": "unknown to the model"}.get(mark, "")
        if piece.characters:
            tip = f"read as {listed(piece.characters)}"
        yield Box(piece.piece, part, piece.id if piece.id >= 0 else None, mark, tip)


def counts(of: "Tokenization") -> str:
    """The number of pieces, per word, and of special and unknown ones."""
    n_words = len(of.words)
    return of.counts(*([f"{of.n_pieces / n_words:.2f} per word"] if n_words else []))


def _losses(found: "Sequence[Tokenization]") -> None:
    """Say what the pieces do not say of the text."""
    st.markdown("**What is lost**")
    lossless = [each.model for each in found if not each.notes]
    lines = [
        f"- {plain(each.model)}: {plain(' '.join(each.notes))}" for each in found if each.notes
    ]
    if lossless:
        lines.append(f"- {plain(', '.join(lossless))}: nothing; the pieces give the text again.")
    st.markdown("\n".join(lines))


# --- steps ----------------------------------------------------------------------------------------


def _steps(models: Sequence[str], doc: "Doc", word: int) -> None:
    """Draw the steps of each tokenizer for the chosen word."""
    st.markdown(f"**Step by step:** {plain(doc[word].text)}")
    lists: list[Steps] = []
    for model in models:
        with errors_shown():
            found = words_results.steps(model, doc, word)
            lists.extend(steps_of(found.model, part) for part in found.parts)
    if lists:
        token_views([steps("steps", lists)], "steps", lambda chosen: None)
        st.caption("Arrow keys go back and forward in the list that has the focus.")


def steps_of(model: str, part: "Segmentation") -> Steps:
    """The steps of one part of a text, with why each was taken."""
    rows = [
        Step([*_step_boxes(part, n)], why(part, n), step.rest) for n, step in enumerate(part.steps)
    ]
    name = f"{model} ({part.algorithm})"
    is_in_bytes = part.algorithm == "byte-level BPE"  # its text is written in symbols of bytes
    text = "".join(part.pieces) if is_in_bytes else part.text
    return Steps(name, rows, f"reads {text}", part.algorithm != "unigram")


def _step_boxes(part: "Segmentation", number: int) -> Iterator[Box]:
    step = part.steps[number]
    new = -1
    if step.made and step.made in step.pieces:
        before = part.steps[number - 1].pieces if number else ()
        same = zip(step.pieces, before, strict=False)
        differing = (n for n, (now, then) in enumerate(same) if now != then)
        new = next(differing, len(step.pieces) - 1)
    for n, piece in enumerate(step.pieces):
        tip = f"log-probability {_signed(step.scores[n])}" if n < len(step.scores) else ""
        yield Box(piece, n, None, "new" if n == new else "", tip)


def _signed(score: float) -> str:
    return f"{score:.2f}".replace("-", "−")


def why(part: "Segmentation", number: int) -> str:
    """What was done in a step, and by which rule."""
    step = part.steps[number]
    if part.algorithm == "unigram":
        return f"{step.rank}. log-probability {_signed(step.score or 0.0)}"
    if "BPE" in part.algorithm:
        if not step.parts:
            unit = "bytes" if part.algorithm == "byte-level BPE" else "characters"
            return f"begins with its {unit}" if len(part.steps) > 1 else "in the vocabulary"
        rule = f", merge {step.rank:,}" if step.rank else ""
        return f"{' + '.join(step.parts)} → {step.made}{rule}"
    if part.algorithm == "WordPiece":
        tried = ", ".join(step.parts[:TRIED])
        more = f" and {len(step.parts) - TRIED} more" if len(step.parts) > TRIED else ""
        absent = f"not in the vocabulary: {tried}{more}" if tried else ""
        if not step.made:
            return f"no piece fits. {absent}"
        return f"longest match{f'; {absent}' if absent else ''}"
    if step.made:
        return "the word"
    return "its characters" if part.algorithm == "characters" else "looked up"


def _downloads(found: "Sequence[Tokenization]", view: View) -> None:
    from workbench.analyses.words.tokenizations import Tokenizations

    both = Tokenizations(found[0].text, tuple(found))
    title = f"Pieces of “{words.clipped(both.text)}”"
    downloads("pieces", both.table, lambda: [(title, [view])], both.figure, title)
