"""Which words stay when a text is too long for the model: whole ones, and from its beginning.

A word is kept with all its pieces or not at all, and the tokenizer's own pieces stay. Of a pair, as
long as there are too many pieces, the last word of the text that then has more of them goes; of
equals, the second text's. Pieces after the last kept word go with the rest. Costs a pass over the
pieces of those texts only.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.errors import WorkbenchError

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Span = tuple[int, int]


class Cut(NamedTuple):
    """What stays of one document, and what is lost."""

    stays: Bools  # [pieces]
    lost: list[Span]  # ranges of words, one for each text that was cut
    too_long: list[int]  # words that alone have more pieces than the model


def cut(owned: Ints, special: Bools, second: int, words: tuple[int, int, int], room: int) -> Cut:
    """Cut one document to as many pieces as there is room for.

    The second text begins at piece `second`; `words` are where the first text's begin, where the
    second's do, and where they end.
    """
    own = int(np.count_nonzero(special))
    if own > room:
        raise WorkbenchError(
            f"a model of {room} pieces has no room for the {own} that its tokenizer adds.",
            remedy="Allow more pieces.",
        )
    content, room = np.flatnonzero(~special), room - own
    parts = content[content < second], content[content >= second]
    bounds = words[:2], words[1:]
    needs = [_reach(owned[part], *bound) for part, bound in zip(parts, bounds, strict=True)]
    stays, lost = special.copy(), []
    for part, need, kept, (first, last) in zip(
        parts, needs, _fitting(needs[0], needs[1], room), bounds, strict=True
    ):
        stays[part[: need[kept]]] = True
        if first + kept < last:
            lost.append((first + kept, last))
    too_long = [first for first, _ in lost if np.count_nonzero(owned == first) > room]
    return Cut(stays, lost, too_long)


def _reach(owned: Ints, first: int, last: int) -> Ints:
    """How many of a text's pieces its words need, by how many of them are kept.  # [words + 1]"""
    ends = np.zeros(last - first + 1, dtype=np.int64)
    mine = np.flatnonzero((owned >= first) & (owned < last))
    np.maximum.at(ends, owned[mine] - first + 1, mine + 1)
    return np.maximum.accumulate(ends)


def _fitting(one: Ints, two: Ints, room: int) -> tuple[int, int]:
    """How many words of each text fit in so many pieces, from what either needs."""
    first, second = len(one) - 1, len(two) - 1
    while one[first] + two[second] > room:
        if one[first] > two[second]:
            first -= 1
        else:
            second -= 1
    return first, second
