"""What one text is for a model: its pieces, the characters that each covers, and how they came.

`Segmented` is a text in pieces; `Segmentation` is how one part of it became pieces, step by step:
merges of BPE, longest matches of WordPiece, the best segmentations of a unigram model. They are
computed in `workbench.models`, by the model's own tokenizer. Costs: nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

# How a model splits text; words: it reads whole words, as static vectors do.
Algorithm = Literal[
    "byte-level BPE", "BPE", "WordPiece", "unigram", "word list", "characters", "words"
]
NO_ID = -1  # of a piece without a row in the vocabulary


@dataclass(frozen=True)
class TextPiece:
    """A piece of a text, and the characters of the text that it covers."""

    piece: str  # readable, as in all results: `▁walk`, `##ing`
    id: int  # its row in the vocabulary, or NO_ID
    first: int  # first character
    last: int  # last character + 1
    word: int  # index of its word, or NO_WORD
    says: str  # the characters that the piece stands for; "" if special or unknown
    special: bool = False  # added by the tokenizer: [CLS], </s>
    unknown: bool = False  # it stands for characters that the model does not know
    characters: tuple[str, ...] = ()  # of a model that reads characters: what it reads


@dataclass(frozen=True)
class Segmented:
    """One text in pieces."""

    pieces: tuple[TextPiece, ...]
    algorithm: Algorithm
    marks_spaces: bool  # whether pieces say where spaces are
    adds_space: bool = False  # whether the text's first piece says a space that is not there


@dataclass(frozen=True)
class Step:
    """One step of a segmentation.

    BPE: two neighbouring pieces become one. WordPiece: the longest piece that the rest begins with.
    Unigram: one way to split, the best first.
    """

    pieces: tuple[str, ...]  # after this step
    made: str = ""  # the new piece
    parts: tuple[str, ...] = ()  # BPE: what was merged; WordPiece: longer candidates, all unknown
    rank: int | None = None  # BPE: of the merge, 1 was learnt first; unigram: 1 is the best
    scores: tuple[float, ...] = ()  # unigram: log-probability of each piece
    rest: str = ""  # WordPiece: what is not yet split

    @property
    def score(self) -> float | None:
        """The log-probability of this segmentation, of a unigram model."""
        return sum(self.scores) if self.scores else None


@dataclass(frozen=True)
class Segmentation:
    """How a part of a text, mostly a word, became pieces."""

    text: str  # as the algorithm reads it: normalised, with spaces marked
    first: int  # characters of the text that it covers
    last: int
    algorithm: Algorithm
    steps: tuple[Step, ...]
    pieces: tuple[str, ...]  # the result
    ids: tuple[int, ...]


@dataclass(frozen=True)
class Splitter:
    """What splits texts as a model does, without its weights."""

    name: str
    content_hash: str
    max_pieces: int | None
    segmented: Callable[[str, NDArray[Any]], Segmented]
    segmentation_steps: Callable[[str, NDArray[Any]], Sequence[Segmentation]]
