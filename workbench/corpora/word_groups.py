"""Groups of words that analyses compare: parts of speech, function and content words, frequency.

Costs: a pass over the words.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from spacy.tokens import Doc

# parts of speech of Universal Dependencies with few, fixed words, and with many
FUNCTION = frozenset({"ADP", "AUX", "CCONJ", "DET", "NUM", "PART", "PRON", "SCONJ"})
CONTENT = frozenset({"ADJ", "ADV", "INTJ", "NOUN", "PROPN", "VERB"})
RANKS: tuple[float, ...] = (0, 10, 100, 1000)  # ends of the frequency groups, by rank of the word
FREQUENT = 100  # maximum rank of a frequent word


class Group(NamedTuple):
    """Some words: `by` is all, tag, class or frequency."""

    by: str
    name: str
    members: NDArray[np.bool_]  # [words]


def frequency_ranks(docs: "Iterable[Doc]") -> Mapping[str, int]:
    """The rank of each word, in lower case, by its count in these texts; 1 is the most frequent."""
    counts = Counter(token.lower_ for doc in docs for token in doc if not token.is_space)
    order = sorted(counts, key=lambda word: (-counts[word], word))
    return {word: rank for rank, word in enumerate(order, 1)}


def word_groups(tags: Sequence[str], ranks: NDArray[np.int64]) -> list[Group]:
    """The groups that have words; a tag is "" if the word has none.  # [words] each"""
    of = np.array(tags)
    found = [Group("all", "all", np.ones(len(of), dtype=bool))]
    found += [Group("tag", tag, of == tag) for tag in sorted(set(tags) - {""})]
    classes = {"function words": FUNCTION, "content words": CONTENT}
    found += [Group("class", name, np.isin(of, [*each])) for name, each in classes.items()]
    for low, high in pairwise([*RANKS, np.inf]):
        name = f"{low + 1}-{high}" if np.isfinite(high) else f"{low + 1} and more"
        found.append(Group("frequency", name, (ranks > low) & (ranks <= high)))
    return [group for group in found if group.members.any()]
