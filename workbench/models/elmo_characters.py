"""ELMo's view of words: the bytes of their UTF-8 form between two marks, 50 to a word.

The ids are those of the weights file, whose `char_embed` has one row each: 0 to 255 the bytes, then
begin of sentence, end of sentence, begin of word, end of word, padding. The original adds one to
every id at run time and lets 0 stand for "no word here"; we know each sentence's length instead, so
no id is shifted and no row is added. Costs 400 bytes a distinct word of a batch.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = range(256, 261)
CHARACTERS = 261
# Words of the text that read so are boundaries too: the original looks them up by this name.
BOUNDARIES = {"<S>": BEGIN_SENTENCE, "</S>": END_SENTENCE}


class IndexedWords(NamedTuple):
    """A batch of sentences between boundaries, each distinct word spelt once."""

    characters: NDArray[np.int64]  # [distinct, characters], see `character_ids`
    words: NDArray[np.int64]  # [batch, longest], rows of `characters`; 0 after the end
    lengths: NDArray[np.int64]  # [batch], boundaries included


def character_ids(words: Iterable[str], most: int) -> NDArray[np.int64]:
    """Spell words with `most` ids each; of longer ones the first `most - 2` bytes are kept.

    # [words, characters]
    """
    words = list(words)
    ids = np.full((len(words), most), PADDING, dtype=np.int64)
    ids[:, 0] = BEGIN_WORD
    for row, word in zip(ids, words, strict=True):
        spelling = _spelling(word)[: most - 2]
        row[1 : len(spelling) + 1] = spelling
        row[len(spelling) + 1] = END_WORD
    return ids


def index_words(sentences: Sequence[Sequence[str]], most: int) -> IndexedWords:
    """Put each sentence between boundaries and number its words by first occurrence."""
    bounded = [["<S>", *sentence, "</S>"] for sentence in sentences]
    numbers: dict[str, int] = {}
    lengths = np.array([len(sentence) for sentence in bounded], dtype=np.int64)
    words = np.zeros((len(bounded), lengths.max(initial=0)), dtype=np.int64)
    for row, sentence in zip(words, bounded, strict=True):
        row[: len(sentence)] = [numbers.setdefault(word, len(numbers)) for word in sentence]
    return IndexedWords(character_ids(numbers, most), words, lengths)


def _spelling(word: str) -> list[int]:
    """Half a surrogate pair has no bytes, and is left out as in the original."""
    if word in BOUNDARIES:
        return [BOUNDARIES[word]]
    return list(word.encode("utf-8", "ignore"))
