"""How the tokenizers of several models split one text, side by side, aligned by words.

    found = tokenizations("Ben walks home.", "mini:bert", "mini:gpt")
    print(found)             # a row for each word, a column for each model
    found.table              # a row for each piece
    found.steps("walks")     # how the first model splits a word, match by match

The pieces of each model are put together again: what they do not say of the text, such as upper
case or unknown characters, is listed. Costs: opening the models, then milliseconds.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from workbench.core.display import Displayed, figure_by
from workbench.core.errors import WorkbenchError, did_you_mean, listed
from workbench.core.groups import grouped
from workbench.core.public import public
from workbench.corpora.typed import index_of, readable
from workbench.engine.batch import NO_WORD
from workbench.engine.model import Model
from workbench.engine.text_pieces import Segmentation, Segmented, TextPiece

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure
    from spacy.tokens import Doc

# What happened to characters; added: a space that the text does not have.
Kind = Literal["unknown", "case", "white space", "normalised", "dropped"]
SHOWN = 100  # characters of a text in a heading
TRIED = 3  # candidates that are printed of those that were not in the vocabulary
SPECIAL = "(special)"  # name of the row of special pieces
NO_NAME = "(no word)"  # name of the row of pieces without a word


class Loss(NamedTuple):
    """Characters of a text that its pieces do not say, and what they say in their place."""

    kind: Kind
    first: int
    last: int
    characters: str
    becomes: str


# --- one model ------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, eq=False)
class Tokenization(Displayed):
    """One text in the pieces of one model; `joined` is what the pieces say, put together again.

    `losses` are the differences between the two: applied to the text they give `joined`, and
    without losses both are the same.
    """

    model: str
    text: str
    words: tuple[tuple[int, int], ...]  # character ranges
    segmented: Segmented
    joined: str
    losses: tuple[Loss, ...]
    max_pieces: int | None = None

    @property
    def pieces(self) -> tuple[TextPiece, ...]:
        """All pieces, special ones included."""
        return self.segmented.pieces

    @property
    def algorithm(self) -> str:
        """How the model splits text."""
        return self.segmented.algorithm

    @property
    def n_pieces(self) -> int:
        """Number of pieces without special ones."""
        return sum(not piece.special for piece in self.pieces)

    @property
    def n_special(self) -> int:
        """Number of pieces that the tokenizer adds."""
        return len(self.pieces) - self.n_pieces

    @property
    def n_unknown(self) -> int:
        """Number of unknown pieces."""
        return sum(piece.unknown for piece in self.pieces)

    def counts(self, *more: str) -> str:
        """The number of pieces, and of special and unknown ones; `more` stands before these."""
        others = [(self.n_special, "special"), (self.n_unknown, "unknown")]
        parts = [f"{number} {kind}" for number, kind in others if number]
        return ", ".join([f"{self.n_pieces:,}", *more, *parts])

    @property
    def is_lossless(self) -> bool:
        """Whether the pieces give the text again, to the character."""
        return not self.losses

    @cached_property
    def by_word(self) -> Mapping[int, tuple[TextPiece, ...]]:
        """The pieces of each word, by its index; NO_WORD has those without a word."""
        found = grouped((piece.word, piece) for piece in self.pieces if not piece.special)
        return {word: tuple(pieces) for word, pieces in found.items()}

    @property
    def notes(self) -> tuple[str, ...]:
        """What the pieces do not say of the text, in sentences."""
        return tuple(_notes(self))

    @property
    def table(self) -> "pd.DataFrame":
        """One row for each piece.

        `index`, `piece`, `id` (−1 without one), `first` and `last` (its characters: from, up to),
        `characters`, `word` (its index, −1 without one), `special`, `unknown`.
        """
        import pandas as pd

        rows = [
            (
                index, piece.piece, piece.id, piece.first, piece.last,
                self.text[piece.first : piece.last], piece.word, piece.special, piece.unknown,
            )
            for index, piece in enumerate(self.pieces)
        ]  # fmt: skip
        return pd.DataFrame(rows, columns=_PIECES)

    def as_dict(self) -> dict[str, Any]:
        """The pieces, counts and losses, as JSON has them."""
        return {
            "model": self.model,
            "text": self.text,
            "algorithm": self.algorithm,
            "n_pieces": self.n_pieces,
            "n_special": self.n_special,
            "n_unknown": self.n_unknown,
            "pieces": self.table.to_dict("records"),
            "joined": self.joined,
            "losses": [loss._asdict() for loss in self.losses],
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        """Each word with its pieces."""
        return repr(Tokenizations(self.text, (self,)))


_PIECES = ["index", "piece", "id", "first", "last", "characters", "word", "special", "unknown"]


def _notes(of: Tokenization) -> Iterator[str]:
    sentences: Mapping[Kind, str] = {
        "unknown": "Unknown to the tokenizer",
        "case": "Not said by the pieces: letter case of",
        "white space": "Not said by the pieces: white space",
        "normalised": "Changed by the tokenizer",
        "dropped": "Dropped by the tokenizer",
    }
    for kind, sentence in sentences.items():
        own = [loss for loss in of.losses if loss.kind == kind]
        if own:
            yield f"{sentence}: {_examples(own)}."
    if not of.segmented.marks_spaces and len(of.words) > 1:
        yield "The pieces do not say whether a space is between two words."
    if of.max_pieces is not None and len(of.pieces) > of.max_pieces:
        yield f"The model reads only the first {of.max_pieces:,} pieces."


def _examples(losses: Sequence[Loss], most: int = 8) -> str:
    texts = dict.fromkeys(
        f"{_quoted(each.characters)} → {_quoted(each.becomes)}"
        if each.becomes and each.characters and each.kind != "case"
        else f"{_quoted(each.becomes)} added"
        if not each.characters
        else _quoted(each.characters)
        for each in losses
    )
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join([*texts][:most]) + more


def _quoted(text: str) -> str:
    return f"“{text}”" if text.isprintable() and text.strip() else ascii(text)


# --- several models -------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, eq=False)
class Tokenizations(Displayed):
    """One text in the pieces of several models, aligned by words: print it to see them.

    `results` has one `Tokenization` for each model, with its pieces, counts and losses.

    Example:
        >>> found = wb.tokenizations("Ben walks home.", "mini:bert", "mini:elmo")
        >>> [(each.model, each.n_pieces, each.is_lossless) for each in found.results]
        [('mini:bert', 5, True), ('mini:elmo', 4, True)]
    """

    text: str
    results: tuple[Tokenization, ...]
    models: tuple[Model, ...] = ()  # of the results, in their order; not needed without steps

    def __getitem__(self, model: str) -> Tokenization:
        """The result of one model, by its name."""
        return self.results[self._index(model)]

    def _index(self, model: str) -> int:
        names = [each.model for each in self.results]
        if model not in names:
            raise WorkbenchError(
                f"no tokenization is of {model!r:.60}.",
                code="model-missing",
                remedy=did_you_mean(str(model), names),
            )
        return names.index(model)

    @property
    def table(self) -> "pd.DataFrame":
        """One row for each model and piece: `model`, and the columns of `Tokenization.table`."""
        import pandas as pd

        tables = [each.table for each in self.results]
        for table, each in zip(tables, self.results, strict=True):
            table.insert(0, "model", each.model)
        return pd.concat(tables, ignore_index=True)

    @property
    def words(self) -> "pd.DataFrame":
        """One row for each model and word, to compare how words are split.

        `model`, `index`, `word`, `pieces` (as text, with spaces between them), `n_pieces`, `whole`
        (one piece) and `unknown` (with an unknown piece).
        """
        import pandas as pd

        rows = [
            (
                each.model, index, self.text[first:last],
                " ".join(piece.piece for piece in own), len(own), len(own) == 1,
                any(piece.unknown for piece in own),
            )
            for each in self.results
            for index, (first, last) in enumerate(each.words)
            for own in [each.by_word.get(index, ())]
        ]  # fmt: skip
        columns = ["model", "index", "word", "pieces", "n_pieces", "whole", "unknown"]
        return pd.DataFrame(rows, columns=columns)

    @property
    def losses(self) -> "pd.DataFrame":
        """One row for each model and loss: `model`, and the fields of `Loss`."""
        import pandas as pd

        rows = [(each.model, *loss) for each in self.results for loss in each.losses]
        return pd.DataFrame(rows, columns=["model", *Loss._fields])

    @public
    def steps(
        self, word: str | int | None = None, *, model: str | None = None
    ) -> "TokenizationSteps":
        """Follow one tokenizer step by step, from the characters of the text to its pieces.

        BPE: each merge with its rank. WordPiece: each longest match, and what was tried before.
        Unigram: the best segmentation with the score of each piece, and the runners-up. ELMo: the
        characters.

        Args:
            word: A word of the text, or its index (default: all words). A word of a text has the
                space before it.
            model: The name of one of the models (default: the first).

        Returns:
            `TokenizationSteps`: print it to see the steps; `table` has a row for each.

        Raises:
            WorkbenchError: The text has no such word or has it several times, no tokenization is
                of this model, or its tokenizer cannot be followed.

        Example:
            >>> wb.tokenizations("Ben walks.", "mini:gpt").steps("walks")
            mini:gpt (byte-level BPE): Ben walks.
            ...
        """
        opened = self.models[0 if model is None else self._index(model)]
        ranges = self.results[0].words
        parts = opened.segmentation_steps(
            self.text, np.array(ranges, dtype=np.int64).reshape(-1, 2)
        )
        if word is not None:
            first, last = ranges[index_of([self.text[slice(*each)] for each in ranges], word)]
            parts = [part for part in parts if part.first < last and part.last > first]
        return TokenizationSteps(opened.name, self.text, tuple(parts))

    def figure(self) -> "Figure":
        """Draw the number of pieces of each word by each model, with the pieces on hover.

        Returns:
            A Plotly figure, of the first words of a long text.

        Example:
            >>> found = wb.tokenizations("Ben unlocks it.", "mini:bert", "mini:gpt")
            >>> found.figure().data[0].y
            ('1. Ben', '2. unlocks', '3. it', '4. .')
        """
        return figure_by("workbench.analyses.words.figures.words:pieces", self.words)

    def as_dict(self) -> dict[str, Any]:
        """The results of all models, as JSON has them."""
        return {"text": self.text, "tokenizations": [each.as_dict() for each in self.results]}

    def __repr__(self) -> str:
        """A row for each word, a column for each model, and their counts and notes."""
        shown = self.text if len(self.text) <= SHOWN else f"{self.text[:SHOWN]} …"
        notes = [
            f"  Note: {each.model}: {note}" if len(self.results) > 1 else f"  Note: {note}"
            for each in self.results
            for note in each.notes
        ]
        return "\n".join([listed([shown]), *_aligned(self._lines()), *notes])

    def _lines(self) -> Iterator[tuple[str, ...]]:
        yield ("", *(each.model for each in self.results))
        cells = [_cells(each) for each in self.results]
        words = self.results[0].words if self.results else ()
        for name, index in row_keys(len(words)):
            row = [cell.get((name, index), "") for cell in cells]
            if name == "at" or any(row):
                heading = listed([self.text[slice(*words[index])]]) if name == "at" else ""
                names = {"before": SPECIAL, "after": SPECIAL, "gap": NO_NAME}
                yield (names.get(name, heading), *row)
        yield ("pieces", *(each.counts() for each in self.results))


def row_keys(n_words: int) -> list[tuple[str, int]]:
    """The rows of a table by words, in the order of the text."""
    words = ((name, word) for word in range(n_words) for name in ("at", "gap"))
    return [("before", -1), *words, ("after", -1)]


def placed(of: Tokenization) -> dict[tuple[str, int], list[TextPiece]]:
    """The pieces of each row of a table by words.

    Rows are `("at", word)`, `("gap", word)` for pieces after a word that belong to none,
    `("before", -1)` and `("after", -1)`; the last two also have special pieces.
    """
    rows: dict[tuple[str, int], list[TextPiece]] = {}
    word = -1
    for piece in of.pieces:
        if piece.word != NO_WORD:
            key = ("at", piece.word)
            word = piece.word
        elif piece.special:
            key = ("before", -1) if word < 0 else ("after", -1)
        else:
            key = ("before", -1) if word < 0 else ("gap", word)
        rows.setdefault(key, []).append(piece)
    return rows


def _cells(of: Tokenization) -> dict[tuple[str, int], str]:
    """The pieces in each row of the table, as text."""
    return {
        key: " ".join(
            f"{listed([piece.piece])}{' (unknown)' if piece.unknown else ''}" for piece in pieces
        )
        for key, pieces in placed(of).items()
    }


def _aligned(lines: Iterable[Sequence[str]]) -> list[str]:
    rows = [*lines]
    columns = [*zip_longest(*rows, fillvalue="")]
    widths = [max(map(len, column)) for column in columns]
    return [
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


@public
def tokenizations(text: "str | Doc", *models: "Model | str") -> Tokenizations:
    """Split a text by the tokenizer of each model, and put the pieces together again.

    Args:
        text: A text, or a Doc with its words.
        *models: One or more models, or references that `wb.load` opens.

    Returns:
        `Tokenizations`: print it to see the models next to each other; `table`, `words` and
        `losses` are tables, `results` has each model's `pieces` and what they do not say,
        `steps(word)` follows a tokenizer, `figure()` draws the pieces.

    Raises:
        WorkbenchError: No model is given, one cannot be opened, or the text is empty.

    Example:
        >>> wb.tokenizations("Ben unlocks it.", "mini:bert", "mini:elmo")
        Ben unlocks it.
        ...
    """
    if not models:
        raise WorkbenchError(
            "no model is given.",
            code="model-missing",
            where="wb.tokenizations",
            remedy='Name one: wb.tokenizations(text, "mini:bert").',
        )
    doc = readable(text)
    ranges = tuple((token.idx, token.idx + len(token)) for token in doc if not token.is_space)
    opened = tuple(map(_opened, models))
    results = tuple(_tokenization(model, doc.text, ranges) for model in opened)
    return Tokenizations(doc.text, results, opened)


def _opened(given: "Model | str") -> Model:
    if not isinstance(given, str):
        return given
    from workbench.models.loading import load

    return load(given, device="cpu")


def _tokenization(model: Model, text: str, words: tuple[tuple[int, int], ...]) -> Tokenization:
    segmented = model.segmented(text, np.array(words, dtype=np.int64).reshape(-1, 2))
    joined, losses = put_together(text, segmented)
    return Tokenization(model.name, text, words, segmented, joined, losses, model.max_pieces)


# --- putting pieces together again ----------------------------------------------------------------
#
# The text is cut at the ends of pieces, and each part is compared with what its piece says. Parts
# that differ, next to each other, are compared together, since a piece may say the space that
# another covers. Pieces that do not mark spaces stand for a single space or none.


def put_together(text: str, segmented: Segmented) -> tuple[str, tuple[Loss, ...]]:
    """What the pieces of a text say, and the differences between that and the text."""
    joined: list[str] = []
    losses: list[Loss] = []
    waiting: list[tuple[int, int, str]] = []  # parts that differ: characters, and what is said

    def settle() -> None:
        if waiting:
            said = "".join(each[2] for each in waiting)
            joined.append(said)
            losses.extend(_differences(text, waiting[0][0], waiting[-1][1], said))
            waiting.clear()

    for first, last, said, is_unknown in _parts(text, segmented):
        if is_unknown and first < last:
            settle()
            losses.append(Loss("unknown", first, last, text[first:last], ""))
        elif text[first:last] == said and not waiting:
            joined.append(said)
        else:
            waiting.append((first, last, said))
            part = text[waiting[0][0] : last]
            whole = "".join(each[2] for each in waiting)
            if part.casefold() == whole.casefold():
                settle()
    settle()
    return "".join(joined), tuple(losses)


def _parts(text: str, segmented: Segmented) -> Iterator[tuple[int, int, str, bool]]:
    """The text cut at the ends of pieces, and what is said of each part; then what remains."""
    end = 0
    spaced = segmented.adds_space  # the first piece says a space that is dropped
    pieces = [piece for piece in segmented.pieces if not piece.special]
    for piece, following in zip_longest(pieces, pieces[1:]):
        says = piece.says
        if spaced and says:
            says, spaced = says.removeprefix(" "), False
        # a mark of a space may have the characters of the next piece
        cut = len(text) if following is None else max(piece.first, following.first)
        first, last = max(piece.first, end), max(min(piece.last, cut), end)
        gap = text[end:first]
        if not segmented.marks_spaces:
            between = "" if not end or not any(map(str.isspace, gap)) else " "
            if gap or between:
                yield end, first, between, False
        elif piece.unknown and gap:
            yield end, first, "", False
        yield (
            (first if not segmented.marks_spaces or piece.unknown else end),
            last,
            says,
            (piece.unknown),
        )
        end = last
    if end < len(text):
        yield end, len(text), "", False


def _differences(text: str, first: int, last: int, said: str) -> Iterator[Loss]:
    part = text[first:last]
    same = len(part) == len(said) and part.casefold() == said.casefold()
    if same:
        blocks = [(n, n + 1, n, n + 1) for n in range(len(part)) if part[n] != said[n]]
    else:
        matcher = SequenceMatcher(None, part, said, autojunk=False)
        blocks = [block[1:] for block in matcher.get_opcodes() if block[0] != "equal"]
    for a, b, c, d in blocks:
        one_by_one = b - a == d - c
        for n in range(b - a if one_by_one else 1):
            low, high = (a + n, a + n + 1) if one_by_one else (a, b)
            old = part[low:high]
            new = said[c + n : c + n + 1] if one_by_one else said[c:d]
            if old != new:
                yield Loss(_kind(old, new), first + low, first + high, old, new)


def _kind(old: str, new: str) -> Kind:
    if not (old + new).strip():
        return "white space"
    if new and old.lower() == new.lower():
        return "case"
    return "normalised" if new else "dropped"


def restored(joined: str, losses: Sequence[Loss]) -> str:
    """The text again: what the pieces say, with the losses put back."""
    text: list[str] = []
    place = shift = 0  # in what was said; how far the text is ahead of it
    for loss in losses:
        begin = loss.first - shift
        text += [joined[place:begin], loss.characters]
        place = begin + len(loss.becomes)
        shift += len(loss.characters) - len(loss.becomes)
    return "".join([*text, joined[place:]])


# --- step by step ---------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, eq=False)
class TokenizationSteps(Displayed):
    """How a tokenizer splits a text, step by step: print it to see the steps.

    `parts` has a `Segmentation` for each part of the text that is split on its own.

    Example:
        >>> steps = wb.tokenizations("The dog barks.", "mini:gpt").steps("dog")
        >>> steps.parts[0].pieces, steps.algorithm
        (('▁dog',), 'byte-level BPE')
    """

    model: str
    text: str
    parts: tuple[Segmentation, ...]

    @property
    def algorithm(self) -> str:
        """How the model splits text."""
        return self.parts[0].algorithm if self.parts else ""

    @property
    def pieces(self) -> tuple[str, ...]:
        """The pieces of the last step, which are the tokenizer's."""
        return tuple(piece for part in self.parts for piece in part.pieces)

    @property
    def table(self) -> "pd.DataFrame":
        """One row for each part and step.

        `part`, `first` and `last` (its characters), `text` (as the algorithm reads it), `step`,
        `pieces` (as text, with spaces between them), `made` (the new piece), `merged` (BPE: its two
        parts), `rank` (BPE: of the merge, 1 was learnt first; unigram: 1 is the best), `score`
        (unigram: log-probability), `tried` (WordPiece: longer candidates), `rest` (not yet split).
        """
        import pandas as pd

        rows = []
        for number, part in enumerate(self.parts):
            for index, step in enumerate(part.steps):
                is_merge = "BPE" in part.algorithm
                rows.append(
                    {
                        "part": number, "first": part.first, "last": part.last, "text": part.text,
                        "step": index, "pieces": " ".join(step.pieces), "made": step.made,
                        "merged": " ".join(step.parts) if is_merge else "",
                        "rank": step.rank, "score": step.score,
                        "tried": "" if is_merge else " ".join(step.parts), "rest": step.rest,
                    }
                )  # fmt: skip
        return pd.DataFrame(rows, columns=_STEPS).astype({"rank": "Int64", "score": "float64"})

    def as_dict(self) -> dict[str, Any]:
        """The steps of each part, as JSON has them."""
        parts = [
            {
                "text": part.text, "first": part.first, "last": part.last,
                "pieces": list(part.pieces), "ids": list(part.ids),
                "steps": [
                    {
                        "pieces": list(step.pieces), "made": step.made, "parts": list(step.parts),
                        "rank": step.rank, "score": step.score, "scores": list(step.scores),
                        "rest": step.rest,
                    }
                    for step in part.steps
                ],
            }
            for part in self.parts
        ]  # fmt: skip
        return {"model": self.model, "text": self.text, "algorithm": self.algorithm, "parts": parts}

    def __repr__(self) -> str:
        """Each part with its steps."""
        lines = [f"{self.model} ({self.algorithm}): {listed([self.text[:SHOWN]])}"]
        for part in self.parts:
            lines.append(f"  {listed([part.text])} → {_row(part.pieces)}")
            lines += [f"  {line}" for line in _aligned(_PRINT[part.algorithm](part))]
        return "\n".join(lines)


_STEPS = [
    "part", "first", "last", "text", "step", "pieces", "made", "merged", "rank", "score", "tried",
    "rest",
]  # fmt: skip


def _row(pieces: Iterable[str]) -> str:
    return " ".join(listed([piece]) for piece in pieces)


def _merges(part: Segmentation) -> Iterator[tuple[str, ...]]:
    for step in part.steps:
        merged = f"{_row(step.parts[:1])} + {_row(step.parts[1:])}" if step.parts else ""
        yield _row(step.pieces), merged, f"merge {step.rank:,}" if step.rank else ""


def _matches(part: Segmentation) -> Iterator[tuple[str, ...]]:
    for step in part.steps:
        tried = _row(step.parts[:TRIED])
        more = f" and {len(step.parts) - TRIED} more" if len(step.parts) > TRIED else ""
        absent = f"not in the vocabulary: {tried}{more}" if tried else ""
        yield _row(step.pieces), f"rest {listed([step.rest])}" if step.rest else "", absent


def _ways(part: Segmentation) -> Iterator[tuple[str, ...]]:
    for step in part.steps:
        scores = " ".join(f"{score:.2f}" for score in step.scores)
        yield f"{step.rank}.", _row(step.pieces), f"{step.score or 0.0:.2f}", f"= {scores}"


def _as_read(part: Segmentation) -> Iterator[tuple[str, ...]]:
    for step in part.steps:
        yield (_row(step.pieces),)


_PRINT: Mapping[str, Callable[[Segmentation], Iterator[tuple[str, ...]]]] = {
    "byte-level BPE": _merges,
    "BPE": _merges,
    "WordPiece": _matches,
    "unigram": _ways,
    "word list": _as_read,
    "characters": _as_read,
    "words": _as_read,
}
