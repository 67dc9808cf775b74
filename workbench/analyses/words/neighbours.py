"""Nearest neighbours of a word in context: the occurrences of a corpus with the closest states.

    wb.neighbours(model, corpus, "They put on a play.", "play", layers=[0, 4])
    wb.neighbours(model, corpus, "They put on a play.", "play", same_word="form")  # which plays?

In a static model, or at the embeddings, the neighbours of *play* are the same in every text; higher
layers may have nouns next to the noun and verbs next to the verb. Costs: an index of the corpus,
the first time (`occurrences`); then a forward pass of the text, and for each layer one product of
all states with one vector: 250,000 words of width 768 take a tenth of a second on two cores.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.analyses.words.nearest import nearest
from workbench.analyses.words.occurrences import (
    MOST,
    Occurrences,
    OnProgress,
    in_context,
    occurrences,
    require_counts,
)
from workbench.core.display import Displayed, figure_by
from workbench.core.errors import WorkbenchError, listed
from workbench.core.findings import plural
from workbench.core.head_names import state_name
from workbench.core.public import public
from workbench.corpora.corpus import Corpus
from workbench.corpora.encode import encode
from workbench.corpora.typed import readable, word_index
from workbench.engine.model import Model, not_a_number
from workbench.engine.taps import StackName
from workbench.engine.words import by_word

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure
    from spacy.tokens import Doc

SHOWN = 32  # characters on either side of a neighbour, as it is printed


@dataclass(frozen=True, repr=False, eq=False)
class Neighbours(Displayed):
    """The occurrences of a corpus that are nearest to a word of a text, by layer.

    `table` has a row for each neighbour, the nearest first: `layer`, `rank`, `similarity` (cosine),
    `form`, its labels, and where it is.

    Example:
        >>> model, corpus = wb.load("mini:bert", device="cpu"), wb.read("primer:size=40")
        >>> found = wb.neighbours(model, corpus, "Ben walks to the hill.", "hill", k=3)
        >>> found.table.groupby("layer")["rank"].max().to_dict()
        {0: 3, 2: 3, 4: 3}
    """

    model: str
    corpus: str
    stack: StackName
    text: str
    word: str
    index: int  # of the word in the text
    table: "pd.DataFrame"
    context: str = ""  # the word in its text, as it is printed
    notes: tuple[str, ...] = ()

    def figure(self) -> "Figure":
        """Draw the similarity of the neighbours of each layer, in their sentences.

        Returns:
            A Plotly figure, with a panel for each layer.

        Example:
            >>> model, corpus = wb.load("mini:bert", device="cpu"), wb.read("primer:size=40")
            >>> found = wb.neighbours(model, corpus, "Ben walks to the hill.", "hill", k=3)
            >>> [len(bars.x) for bars in found.figure().data]
            [3, 3, 3]
        """
        return figure_by(
            "workbench.analyses.words.figures.words:nearest",
            self.table.assign(model=self.model, text=1),
        )

    def as_dict(self) -> dict[str, Any]:
        """The word, and the rows of the table, as JSON has them."""
        return {
            "model": self.model,
            "corpus": self.corpus,
            "stack": self.stack,
            "text": self.text,
            "word": self.word,
            "index": self.index,
            "neighbours": self.table.to_dict("records"),
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        """The neighbours of each layer, with their contexts."""
        rows = self.table.to_dict("records")
        widest = max((len(row["form"]) for row in rows), default=0)
        tags = max((len(row["tag"]) for row in rows), default=0)
        lines = [f"{self.model} in {self.corpus}: {listed([self.context])}"]
        layer = None
        for row in rows:
            if row["layer"] != layer:
                layer = row["layer"]
                lines.append(f"  {state_name(layer)}")
            context = in_context(row["sentence"], row["start"], row["end"], SHOWN)
            cells = [f"{row['similarity']:.3f}", row["form"].ljust(widest), row["tag"].ljust(tags)]
            lines.append(f"    {listed(['  '.join([*cells, context])])}")
        return "\n".join([*lines, *(f"  Note: {note}" for note in self.notes)])


@public
def neighbours(
    model: Model,
    corpus: Corpus | Occurrences,
    text: "str | Doc",
    word: str | int,
    *,
    layers: Sequence[int] | int | None = None,
    stack: StackName | None = None,
    k: int = 10,
    split: str | None = None,
    same_word: Literal["form", "lemma"] | None = None,
    distinct: bool = False,
    max_occurrences: int | None = MOST,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> Neighbours:
    """Find the occurrences of a corpus that are nearest to a word of a text, layer by layer.

    A word's state is the mean of its pieces. Nearest is by cosine, and exact. Of occurrences that
    are equally near, the first ones of the corpus are taken. Sentences with the same text as the
    query are left out.

    Args:
        model: Any `Model`, static vectors included.
        corpus: A corpus, whose index is made or read from the cache, or an index of
            `wb.occurrences`.
        text: The text that the word is in.
        word: The word, or its index in the text.
        layers: One or more layers; 0 is the embeddings (default: 0, the middle, and the last).
        stack: `encoder` or `decoder` (default: the first stack, which reads the text).
        k: Number of neighbours (default 10).
        split: The split of the corpus to use (default: all).
        same_word: Only occurrences of the same word: of its `form`, in any case, or of its `lemma`,
            which is any lemma that the form has in the corpus (default: all words).
        distinct: One neighbour for each form, its nearest occurrence.
        max_occurrences: Maximum number of occurrences in the index, drawn at random (default
            250,000). Of a corpus only, as the next two: an index is searched as it is.
        seed: Seed of the draw (default 0).
        on_progress: Function that is called with the number of texts done, and of all texts, while
            the index is made.

    Returns:
        `Neighbours` with their `table`: print it to read them in context; `figure()` draws them.

    Raises:
        WorkbenchError: The text or the corpus lacks the word, the corpus is empty, the model has no
            such layer, or the index is of another model.

    Example:
        >>> model, corpus = wb.load("mini:bert", device="cpu"), wb.read("primer:size=40")
        >>> found = wb.neighbours(
        ...     model, corpus, "Ben walks to the hill.", "hill", layers=4, split="train"
        ... )
        >>> list(found.table.columns[:5])
        ['layer', 'rank', 'similarity', 'occurrence', 'position']
    """
    import pandas as pd

    doc = readable(text)
    index = word_index(doc, word)
    _require_options(k, same_word, distinct)
    require_counts(max_occurrences=max_occurrences)
    if isinstance(corpus, Occurrences):
        found = corpus
        found.require_split(split)
        _require_same_model(found, model)
    else:
        found = occurrences(
            model,
            corpus,
            split=split,
            max_occurrences=max_occurrences,
            seed=seed,
            on_progress=on_progress,
        )
    own = found.stack(stack)
    chosen = layers_of(layers, len(found.stacks[own]))
    rows = [found.rows(own, layer) for layer in chosen]
    states = states_of_word(model, doc, index, own, chosen)
    allowed = _allowed(found, doc, index, same_word, split)
    groups = found.lowered[0] if distinct else None
    parts = []
    for layer, own_rows, state in zip(chosen, rows, states, strict=True):
        similarities, nearest_rows = nearest(own_rows, state, k, allowed, groups)
        table = found.described(nearest_rows)
        table.insert(0, "layer", layer)
        table.insert(1, "rank", np.arange(1, len(table) + 1))
        table.insert(2, "similarity", similarities)
        parts.append(table)
    token = doc[index]
    n_found = min(len(part) for part in parts)
    notes = [*_unknown_note(model, doc, index), *found.notes(rows[0], allowed)]
    if n_found < k:
        notes.append(f"The index has only {plural(n_found, 'such occurrence')} with a state.")
    return Neighbours(
        model.name,
        found.corpus,
        own,
        doc.text,
        token.text,
        index,
        pd.concat(parts, ignore_index=True),
        in_context(doc.text, token.idx, token.idx + len(token)),
        tuple(notes),
    )


def _unknown_note(model: Model, doc: "Doc", index: int) -> list[str]:
    """A note if a word is unknown to the tokenizer: its state is that of any unknown word."""
    ranges = np.array([(token.idx, token.idx + len(token)) for token in doc], dtype=np.int64)
    pieces = model.segmented(doc.text, ranges).pieces
    # an unknown word without an id has no shared piece
    if not any(p.unknown and p.id >= 0 and p.word == index for p in pieces):
        return []
    return [
        f"“{doc[index].text}” has an unknown piece: it is read as any other unknown word, so its "
        "neighbours say little of it."
    ]


def layers_of(layers: Sequence[int] | int | None, n_layers: int) -> list[int]:
    """The layers to read, of so many with the embeddings; by default the ends and the middle."""
    last = n_layers - 1
    if layers is None:
        return sorted({0, last // 2, last})
    chosen = [layers] if isinstance(layers, int) else [*layers]
    if not chosen:
        raise WorkbenchError(
            "the list of layers is empty.", code="setting-invalid", remedy="Name a layer."
        )
    return list(dict.fromkeys(chosen))


@torch.no_grad()
def states_of_word(
    model: Model, doc: "Doc", word: int, stack: StackName, layers: Sequence[int]
) -> list[Tensor]:
    """The state of a word of a text in some layers of a stack.  # [layers] of [width]"""
    output = model.forward(model.encode(encode([doc])))
    text, hidden = output.texts[stack], output.hidden[stack]
    states = []
    for layer in layers:
        words, has_piece = by_word(hidden[layer], text.to(hidden[layer].device))
        state = words[0, word].float().cpu() if word < words.shape[1] else torch.zeros(1)
        if not bool(state.isfinite().all()):
            raise not_a_number(model.name)
        if not bool(has_piece[0, word : word + 1].any()) or not bool(state.any()):
            raise WorkbenchError(
                f"{doc[word].text!r} has no state: it is unknown to the model, has no piece, or "
                "is beyond the end of what the model reads.",
                code="word-unknown",
                where=model.name,
                remedy="Use a shorter text, or a word that the model knows.",
            )
        states.append(state)
    return states


def _require_options(k: int, same_word: str | None, distinct: bool) -> None:
    if k < 1:
        raise WorkbenchError(f"k is {k}.", code="setting-invalid", remedy="Use 1 or more.")
    if same_word not in (None, "form", "lemma"):
        raise WorkbenchError(
            f"same_word is {same_word!r}.",
            code="setting-invalid",
            remedy="Use 'form', 'lemma' or None.",
        )
    if same_word == "form" and distinct:
        raise WorkbenchError(
            "all neighbours would have one form.",
            code="setting-invalid",
            remedy="Leave out distinct, or same_word.",
        )


def _require_same_model(found: Occurrences, model: Model) -> None:
    if found.model_hash and found.model_hash != model.content_hash:
        raise WorkbenchError(
            f"the index is of {found.model}, and the model is {model.name}.",
            code="model-mismatch",
            remedy="Make an index with wb.occurrences(model, corpus).",
        )


def _allowed(
    found: Occurrences, doc: "Doc", index: int, same_word: str | None, split: str | None
) -> NDArray[np.bool_]:
    """The mask of the occurrences that may be neighbours.  # [occurrences]"""
    about = found.sentences
    usable = (about["text"].str.strip() != doc.text.strip()).to_numpy()
    if split is not None:
        usable = usable & (about["split"] == split).to_numpy()
    allowed: NDArray[np.bool_] = usable[found.table["sentence"].to_numpy()]
    if same_word is not None:
        form = doc[index].text.lower()
        codes, names = found.lowered
        same: NDArray[np.bool_] = codes == names.get(form, -1)
        if same_word == "lemma":
            lemmas = found.table["lemma"]
            own = {*lemmas[same].unique()} - {""} or {form}
            same = same | lemmas.isin(own).to_numpy()
        allowed = allowed & same
    if not allowed.any():
        what = f"no {doc[index].text!r} in other sentences" if same_word else "no other sentences"
        raise WorkbenchError(
            f"the corpus has {what}.",
            code="word-unknown" if same_word else "corpus-empty",
            where=found.corpus if split is None else f"{found.corpus}, {split}",
            remedy="Use a larger corpus, or leave out same_word."
            if same_word
            else "Use a larger corpus, or another split.",
        )
    return allowed
