"""The words that planted models know, the rule by which one governs another, and Docs that obey it.

Words come from the primer, each with the class it mostly has there and the number of times it is
said. The rule is a small dependency grammar: a word's head is, among the words that may govern its
class, the one nearest to the point 1¼ words to its right (so +1 is tried before +2, +3, −1, +4, …).
Verbs and conjunctions have no governor. The rule is right on every word of nearly half of the
primer's sentences; `planted_docs` are those, with the primer's own gold layers.

Costs one reading of 10,000 sentences, about two seconds, once a process.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice
from typing import NamedTuple

from spacy.tokens import Doc

from workbench import read

START, STOP, OTHER, REST = "START", "STOP", "OTHER", "REST"  # REST: the second piece of a word
KINDS = (
    *(START, STOP, OTHER, REST),
    *"ADJ ADP ADV AUX CCONJ DET NOUN NUM PART PRON PROPN PUNCT SCONJ VERB".split(),
)
LEAN = 1.25
_NOMINAL, _VERBAL = frozenset({"NOUN", "PROPN", "PRON"}), frozenset({"VERB"})
GOVERNORS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys("DET ADJ NUM ADP".split(), _NOMINAL),
    **dict.fromkeys("NOUN PROPN PRON REST AUX PART ADV PUNCT".split(), _VERBAL),
}
# Those whose head may have come before them, which is all that a causal model can see.
GOVERNORS_BEFORE: Mapping[str, frozenset[str]] = dict.fromkeys(
    "NOUN PROPN PRON REST ADV PUNCT".split(), _VERBAL
)


class Facts(NamedTuple):
    """What a planted model knows of a piece."""

    kind: str
    rank: int  # 0 for special pieces, then 1 for the most frequent; all unseen share the last


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Words by class and frequency, and those that come in two pieces."""

    kinds: Mapping[str, str]
    counts: Mapping[str, int]
    splits: Mapping[str, tuple[str, str]]  # "foxes": ("fox", "es")

    def pieces(self, word: str) -> list[str]:
        """A word in WordPiece spelling."""
        stem, rest = self.splits.get(word, (word, ""))
        return [stem, f"##{rest}"] if rest else [stem]

    @cached_property
    def facts(self) -> dict[str, Facts]:
        """Every piece in WordPiece spelling; equal counts go by the alphabet, so no two tie."""
        counts: Counter[str] = Counter()
        kinds: dict[str, str] = {}
        for word, count in self.counts.items():
            first, *rest = self.pieces(word)
            counts.update(dict.fromkeys([first, *rest], count))
            kinds |= {first: self.kinds[word]} | dict.fromkeys(rest, REST)
        ordered = sorted(counts, key=lambda piece: (-counts[piece], piece))
        return {piece: Facts(kinds[piece], rank) for rank, piece in enumerate(ordered, start=1)}

    @property
    def unseen(self) -> int:
        """The rank of pieces that never came: one past all others."""
        return len(self.facts) + 1


@cache
def lexicon(split: bool = False) -> Lexicon:
    """The primer's words; with `split`, plural nouns in -(e)s are their lemma and an ending."""
    seen = _seen()
    counts = {word: tags.total() for word, tags in seen.items()}
    mostly = {word: tags.most_common(1)[0][0] for word, tags in seen.items()}
    kinds = {word: kind for word, (kind, _) in mostly.items()}
    splits = {}
    for word, (_, lemma) in mostly.items():
        nouns = kinds[word] == kinds.get(lemma) == "NOUN"
        if split and nouns and (ending := word.removeprefix(lemma)) in {"s", "es"}:
            splits[word] = (lemma, ending)
    return Lexicon(kinds, counts, splits)


@cache
def _seen() -> Mapping[str, Counter[tuple[str, str]]]:
    """How often each word of the primer comes as each part of speech and lemma."""
    seen: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for doc in read("primer:size=3000").docs("train"):
        for token in doc:
            if _is_one_piece(token.text):
                seen[token.text][token.pos_, token.lemma_] += 1
    return seen


def _is_one_piece(word: str) -> bool:
    """Not "n't" and "'s", which tokenizers cut elsewhere than treebanks do."""
    return word.isalnum() or word in {".", ",", "?"}


def governor(
    kinds: Sequence[str], at: int, governors: Mapping[str, frozenset[str]], seen: int
) -> int | None:
    """Where the head of the word at `at` is among the first `seen` words, by the rule above."""
    wanted = governors.get(kinds[at], frozenset())
    found = [other for other in range(seen) if kinds[other] in wanted]
    return min(found, key=lambda other: abs(other - at - LEAN), default=None)


def planted_docs(n: int, words: Lexicon | None = None) -> list[Doc]:
    """Primer sentences that obey the rule throughout, and whose rarest word comes once."""
    words = words or lexicon()
    docs = read(f"primer:size={max(10_000, 3 * n)}").docs("train")
    fitting = (doc for doc in docs if obeys(doc, words) and not _rarest_comes_twice(doc, words))
    return list(islice(fitting, n))


def obeys(doc: Doc, words: Lexicon) -> bool:
    """Whether all its words are known, and every gold head is where the rule says.

    The causal rule must say the same of the heads that have come already, and nothing of others.
    """
    if any(token.text not in words.kinds for token in doc):
        return False
    kinds = [words.kinds[token.text] for token in doc]
    for token in doc:
        at, gold = token.i, None if token.head.i == token.i else token.head.i
        before = gold if gold is not None and gold < at else None
        if governor(kinds, at, GOVERNORS, len(doc)) != gold:
            return False
        if governor(kinds, at, GOVERNORS_BEFORE, at) != before:
            return False
    return True


def _rarest_comes_twice(doc: Doc, words: Lexicon) -> bool:
    """In the sentence, or in any beginning of it, which is what a causal model sees."""
    rarest = 0
    for token in doc:
        for piece in words.pieces(token.text):
            if (rank := words.facts[piece].rank) == rarest:
                return True
            rarest = max(rarest, rank)
    return False
