"""What heads do, said a second time: one document, one word and one number at a time.

Slow and obvious; reads no code of `workbench.analyses.heads` but its definitions.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

from spacy.tokens import Doc

from tests.analyses.heads.prescribed import HEADS, LAYERS, Prescribed, pieces_of

RESIDUAL = 0.05
Maps = list[list[float]]
Key = tuple[int, int]  # layer, head


class Text:
    """One document as the model read it."""

    def __init__(self, model: Prescribed, doc: Doc, number: int) -> None:
        owners: list[int | None] = [None]
        for token in doc:
            owners += [token.i] * pieces_of(token.text)
        longest = model.max_pieces or len(owners) + 1
        self.owners = [*owners[: longest - 1], None]
        self.doc, self.number = doc, number
        self.words = sorted({owner for owner in self.owners if owner is not None})
        self.specials = [p for p, owner in enumerate(self.owners) if owner is None]
        self.causal = model.kind == "causal"
        self.model, self.layer = model, 0

    def places(self, word: int) -> list[int]:
        return [place for place, owner in enumerate(self.owners) if owner == word]

    def reaches(self, word: int, targets: Sequence[int]) -> bool:
        """Whether a piece of a word is near enough to one of these."""
        return any(
            self.model.near(self.layer, one, other)
            for one in self.places(word)
            for other in targets
        )

    def sees(self, word: int, other: int) -> bool:
        return (not self.causal or other <= word) and self.reaches(word, self.places(other))

    def visible(self, word: int) -> list[int]:
        return [other for other in self.words if self.sees(word, other)]

    def by_word(self, maps: Maps) -> dict[int, tuple[dict[int, float], dict[int, float]]]:
        """Of each word: what it gives to words, and to special pieces by their place."""
        found = {}
        for word in self.words:
            rows = [maps[p] for p, owner in enumerate(self.owners) if owner == word]
            mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
            given: defaultdict[int, float] = defaultdict(float)
            special = {}
            for place, (owner, weight) in enumerate(zip(self.owners, mean, strict=True)):
                if owner is None:
                    special[place] = weight
                else:
                    given[owner] += weight
            found[word] = ({other: given[other] for other in self.visible(word)}, special)
        return found


def best(given: dict[int, float]) -> int | None:
    """The one with the largest weight, where it is one and where there is weight enough."""
    ordered = sorted(given.items(), key=lambda each: -each[1])
    if not ordered or ordered[0][1] <= 0 or sum(given.values()) < RESIDUAL:
        return None
    if len(ordered) > 1 and ordered[0][1] - ordered[1][1] <= 1e-4 * ordered[0][1]:
        return None
    return ordered[0][0]


def argmax(given: dict[int, float]) -> int | None:
    """The one with the largest weight, however little there is; none for a tie."""
    ordered = sorted(given.items(), key=lambda each: -each[1])
    if not ordered:
        return None
    if len(ordered) > 1 and ordered[0][1] - ordered[1][1] <= 1e-6 * ordered[0][1]:
        return None
    return ordered[0][0]


def reference_tables(model: Prescribed, docs: Sequence[Doc], frequent: int) -> dict[str, dict]:  # type: ignore[type-arg]
    """Every share that can be said in a few lines, by head; relations by head and question."""
    counts = Counter(token.text for doc in docs for token in doc)
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    rank = {word: place for place, word in enumerate(ordered)}
    hits: defaultdict[str, Counter[object]] = defaultdict(Counter)
    number: defaultdict[str, Counter[object]] = defaultdict(Counter)

    def count(what: str, key: object, part: float, whole: float = 1) -> None:
        hits[what][key] += part  # type: ignore[assignment]
        number[what][key] += whole  # type: ignore[assignment]

    for place, doc in enumerate(docs):
        text = Text(model, doc, place)
        for layer in range(LAYERS):
            text.layer = layer
            for head in range(HEADS):
                maps = model.maps(place, layer, len(text.owners))[head].tolist()
                _one(text, text.by_word(maps), (layer, head), count, rank, frequent)
    return {
        what: {key: hits[what][key] / n for key, n in found.items() if n}
        for what, found in number.items()
    }


def _one(text: Text, rows, key: Key, count, rank, frequent: int) -> None:  # type: ignore[no-untyped-def]
    doc = text.doc
    columns: Counter[object] = Counter()
    partners: defaultdict[tuple[str, str, int], set[int]] = defaultdict(set)
    for token in doc:
        name = token.dep_.lower().split(":")[0]
        if token.head.i == token.i or name in ("root", "punct", ""):
            continue
        if token.i not in rows or token.head.i not in rows:
            continue
        for direction, word, other in (
            ("dependent-to-head", token.i, token.head.i),
            ("head-to-dependent", token.head.i, token.i),
        ):
            if text.sees(word, other):
                partners[name, direction, word].add(other)
    for (name, direction, word), right in partners.items():
        among = {other: w for other, w in rows[word][0].items() if other != word}
        question = (*key, name, direction)
        count("accuracy_any_dependent", question, argmax(among) in right)
        for partner in right:
            count("accuracy", question, argmax(among) == partner)
            count("accuracy_confident", question, best(among) == partner)
            count("reliable", question, best(among) is not None)
            count("baseline_first", question, partner == 0)
            for offset in range(-8, 9):
                count("baselines", (*question, offset), partner - word == offset)
    for word, (given, special) in rows.items():
        seen = [
            p
            for p in text.specials
            if (not text.causal or p < _last(text, word)) and text.reaches(word, [p])
        ]
        whole = list(given.values()) + [special[p] for p in seen]
        count("confidence", key, max([*given.values(), special[0]]))
        if len(whole) > 1:
            entropy = -sum(w * math.log(w) for w in whole if w > 0)
            count("entropy", key, entropy / math.log(len(whole)))
        away = sum(w * abs(other - word) for other, w in given.items())
        count("distance", key, away, sum(given.values()))
        count("special_mass", key, sum(special.values()))
        count("separator_mass", key, special[text.specials[-1]])
        count("first_mass", key, special[0])
        if word - 1 in given:
            count("previous", key, given[word - 1])
        count("diagonal", key, sum(w for o, w in given.items() if abs(o - word) <= 1))
        looks = best(given)
        count("reliable_words", key, looks is not None)
        for offset in range(-8, 9):
            if word + offset in given:
                count("offsets", (*key, offset), looks == word + offset)
        rarest = max(rank[doc[other].text] for other in given)
        if rarest >= frequent:
            own = None if looks is None else rank[doc[looks].text]
            count("rare_share", key, own == rarest)
        columns.update({("word", other): w for other, w in given.items()})
        columns.update({("special", p): w for p, w in special.items()})
    if rows:
        count("vertical", key, max(columns.values()), len(rows))


def _last(text: Text, word: int) -> int:
    return max(place for place, owner in enumerate(text.owners) if owner == word)
