"""Which word owns each piece: plain arithmetic on character ranges.

A piece belongs to the word it shares most characters with, the first of equals. Two kinds of piece
share none and are placed by rule: one of no width belongs where the character before it does (a
tokenizer that trims a space which was not there leaves "b" so); a lone word mark, `▁` or `Ġ`,
belongs to the word that its next piece begins. All other pieces (spaces, line ends) are unowned.
Costs a binary search a piece, for the whole batch at once.
"""

import numpy as np
from numpy.typing import NDArray

from workbench.engine.pieces import NO_WORD

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def owners(starts: Ints, ends: Ints, marks: Bools, special: Bools, words: Ints) -> Ints:
    """The word of each piece, or NO_WORD.  # [pieces]

    `words` are ranges, ascending and apart.  # [words, 2]
    """
    narrow = (starts == ends) & ~marks
    owned = _most_shared(starts - narrow, ends, words)
    owned[special] = NO_WORD
    lone = np.flatnonzero(marks[:-1] & ~special[:-1] & (owned[:-1] == NO_WORD))
    following = owned[lone + 1]
    lone, following = lone[following != NO_WORD], following[following != NO_WORD]
    touching = words[following, 0] <= ends[lone]
    owned[lone[touching]] = following[touching]
    return owned


def _most_shared(starts: Ints, ends: Ints, words: Ints) -> Ints:
    """For each range the word with the largest overlap, the first of equals."""
    first = np.searchsorted(words[:, 1], starts, side="right")
    last = np.searchsorted(words[:, 0], ends, side="left") - 1
    owned = np.full(len(starts), NO_WORD, dtype=np.int64)
    most = np.zeros(len(starts), dtype=np.int64)
    open_ = np.flatnonzero(first <= last)
    candidate = first[open_]
    while len(open_):
        low = np.maximum(starts[open_], words[candidate, 0])
        shared = np.minimum(ends[open_], words[candidate, 1]) - low
        better = shared > most[open_]
        most[open_[better]] = shared[better]
        owned[open_[better]] = candidate[better]
        more = candidate < last[open_]
        open_, candidate = open_[more], candidate[more] + 1
    return owned
