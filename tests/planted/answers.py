"""Where every planted head looks, said a second time in plain Python and without any weights.

A rule takes the pieces of one text, special ones included and padding left out, what is known of
each, and the place of a query; it answers with the place of the key that has all the weight.
Costs a pass over the text for each query.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from tests.planted.words import GOVERNORS, GOVERNORS_BEFORE, STOP, Facts, governor

Rule = Callable[[Sequence[str], Sequence[Facts], int], int]


def previous(pieces: Sequence[str], facts: Sequence[Facts], at: int) -> int:
    """The piece before; the first piece looks at itself."""
    return max(at - 1, 0)


def following(pieces: Sequence[str], facts: Sequence[Facts], at: int) -> int:
    """The piece after; the last piece looks at itself."""
    return min(at + 1, len(pieces) - 1)


def separator(pieces: Sequence[str], facts: Sequence[Facts], at: int) -> int:
    """The last [SEP]."""
    return max(i for i, fact in enumerate(facts) if fact.kind == STOP)


def first(pieces: Sequence[str], facts: Sequence[Facts], at: int) -> int:
    """[CLS], or <|endoftext|>."""
    return 0


def rarest(pieces: Sequence[str], facts: Sequence[Facts], at: int) -> int:
    """The piece of highest rank. If it comes twice, both share the weight: the first is named."""
    return max(range(len(pieces)), key=lambda i: (facts[i].rank, -i))


def rarest_so_far(pieces: Sequence[str], facts: Sequence[Facts], at: int) -> int:
    """The same, among what a causal model has seen."""
    return rarest(pieces[: at + 1], facts, at)


def syntactic(pieces: Sequence[str], facts: Sequence[Facts], at: int) -> int:
    """The governor; what has none looks at [CLS]: roots, special pieces, words without a rule."""
    kinds = [fact.kind for fact in facts]
    return governor(kinds, at, GOVERNORS, len(pieces)) or 0


def syntactic_so_far(pieces: Sequence[str], facts: Sequence[Facts], at: int) -> int:
    """The governor if it has come already, else the first piece."""
    kinds = [fact.kind for fact in facts]
    return governor(kinds, at, GOVERNORS_BEFORE, at) or 0


def duplicate(pieces: Sequence[str], facts: Sequence[Facts], at: int) -> int:
    """The first earlier piece that is the same, else the first piece of the text."""
    return next((i for i in range(at) if pieces[i] == pieces[at]), 0)


def induction(pieces: Sequence[str], facts: Sequence[Facts], at: int) -> int:
    """The piece after the first earlier one that is the same, else the first piece of the text.

    If the same piece comes twice in a row, the second looks at itself.
    """
    return next((i + 1 for i in range(at) if pieces[i] == pieces[at]), 0)


BERT: Mapping[str, Rule] = {
    "previous": previous,
    "next": following,
    "separator": separator,
    "first": first,
    "rarest": rarest,
    "syntactic": syntactic,
}
GPT2: Mapping[str, Rule] = {
    "previous": previous,
    "first": first,
    "rarest": rarest_so_far,
    "syntactic": syntactic_so_far,
    "duplicate": duplicate,
    "induction": induction,
}


def between_words(
    targets: Sequence[int], words: Sequence[int | None]
) -> list[dict[int | None, float]]:
    """The exact answer for whole words: for each, the share of its weight on each other word.

    Weight from a word is the mean over its pieces, weight to a word the sum; `words` gives the word
    of each piece, None for special ones, as a tokenizer's `word_ids()` does.
    """
    found: list[dict[int | None, float]] = []
    for word in sorted({word for word in words if word is not None}):
        hits = Counter(words[t] for w, t in zip(words, targets, strict=True) if w == word)
        found.append({other: hits[other] / hits.total() for other in hits})
    return found
