"""`heads` against loops from the definitions: one document, one word and one arc at a time.

Accuracies in all three conventions, simple rules, confidence, entropy, offsets, rare words. Maps
are those of the eager forward pass of transformers. If rounding could swap two maxima, the word is
`close`, and a count may differ by the number of close words; otherwise counts must be equal.
"""

import math
from collections import Counter, defaultdict
from typing import Any

import pytest

import workbench as wb
from tests.judges.maps import Given, by_words, plain_maps
from tests.judges.odd import odd_corpus, odd_model, odd_twin, run_here
from workbench import Corpus

pytestmark = pytest.mark.slow  # by day tests/analyses/heads/test_reference.py counts as well

RESIDUAL = 0.2  # higher than the default, so that the convention matters
FREQUENT = 30
OFFSETS = range(-8, 9)
FORWARD, BACK = "dependent-to-head", "head-to-dependent"
NEAR = 2e-6  # relative; maxima that far apart are the same in any order of addition


class Counts:
    """Shares by key, and how many cases rounding could change."""

    def __init__(self) -> None:
        self.part: Counter[Any] = Counter()
        self.whole: Counter[Any] = Counter()
        self.close: Counter[Any] = Counter()

    def add(self, key: Any, part: float, whole: float = 1.0, close: bool = False) -> None:
        self.part[key] += part
        self.whole[key] += whole
        self.close[key] += close

    def share(self, key: Any) -> Any:
        """The expected value, with a tolerance for close words."""
        wide = 1e-9 + self.close[key] / self.whole[key]
        return pytest.approx(self.part[key] / self.whole[key], abs=wide)


def largest(given: Given) -> tuple[int, float, float]:
    """The word with the largest weight, that weight, and how far (relative) the next one is."""
    ordered = sorted(given, key=lambda word: -given[word])
    if not ordered:
        return -1, 0.0, 0.0
    top = given[ordered[0]]
    if len(ordered) == 1:
        return ordered[0], top, 1.0
    return ordered[0], top, (top - given[ordered[1]]) / top if top > 0 else 0.0


def plain(given: Given) -> tuple[int, bool]:
    """The argmax at any attention on words (-1: a tie), and whether rounding could change it."""
    word, _, apart = largest(given)
    return (word if apart > 1e-6 else -1), 0 < apart < NEAR or apart == 0 < len(given) - 1


def reliable(given: Given) -> tuple[int, bool]:
    """The argmax where words get enough attention and no two weights are almost equal."""
    word, top, apart = largest(given)
    total = sum(given.values())
    close = abs(apart - 1e-4) < NEAR or abs(total - RESIDUAL) < 1e-6 or apart < NEAR
    return (word if top > 0 and apart > 1e-4 and total >= RESIDUAL else -1), close


def counted(model: Any, corpus: Corpus, limit: int, is_causal: bool) -> Counts:
    docs = list(corpus.docs("test", limit))
    words = Counter(token.text for doc in docs for token in doc)
    order = sorted(words, key=lambda word: (-words[word], word))
    rank = {word: place for place, word in enumerate(order)}
    counts = Counts()
    for text in plain_maps(model, docs):
        arcs: defaultdict[Any, list[int]] = defaultdict(list)  # relation, direction, word
        for token in text.doc:
            name = token.dep_.lower().split(":")[0]
            if token.head.i == token.i or name in ("root", "punct", ""):
                continue
            if not is_causal or token.head.i <= token.i:
                arcs[name, FORWARD, token.i].append(token.head.i)
            if not is_causal or token.i <= token.head.i:
                arcs[name, BACK, token.head.i].append(token.i)
        last = {owner: place for place, owner in enumerate(text.owners)}
        for layer, heads in enumerate(text.maps):
            for head, pieces in enumerate(heads):
                rows, special = by_words(pieces, text.owners, is_causal)
                key = (layer, head)
                for (name, direction, word), partners in arcs.items():
                    among = {other: w for other, w in rows[word].items() if other != word}
                    question = (*key, name, direction)
                    first, first_close = plain(among)
                    sure, sure_close = reliable(among)
                    counts.add(("any", *question), first in partners, close=first_close)
                    for partner in partners:
                        counts.add(("plain", *question), first == partner, close=first_close)
                        counts.add(("confident", *question), sure == partner, close=sure_close)
                        counts.add(("reliable", *question), sure >= 0, close=sure_close)
                        counts.add(("first", *question), partner == 0)
                        for offset in OFFSETS:
                            counts.add(("rule", *question, offset), partner - word == offset)
                for word, given in rows.items():
                    ends = max(special[word], default=0)  # a causal model's may come later
                    seen = {p: w for p, w in special[word].items()
                            if not is_causal or p <= last[word]}  # fmt: skip
                    before = [w for p, w in special[word].items() if p < last[word]]
                    counts.add(("confidence", *key), max([*given.values(), *before]))
                    weights = [*given.values(), *seen.values()]
                    if len(weights) > 1:
                        bits = -sum(w * math.log(w) for w in weights if w > 0)
                        counts.add(("entropy", *key), bits / math.log(len(weights)))
                    counts.add(("separator", *key), special[word][ends] if ends > 0 else 0.0)
                    looks, close = reliable(given)
                    for offset in OFFSETS:
                        if word + offset in given:
                            hit = looks == word + offset
                            counts.add(("offset", *key, offset), hit, close=close)
                    rarest = max(rank[text.doc[other].text] for other in given)
                    if rarest >= FREQUENT:
                        own = -1 if looks < 0 else rank[text.doc[looks].text]
                        counts.add(("rare", *key), own == rarest, close=close)
    return counts


def judge(model: Any, corpus: Corpus, limit: int, is_causal: bool = False) -> None:
    model.net.double()  # what rounding would do to large scores is no question here
    counts = counted(model, corpus, limit, is_causal)
    tables = run_here(
        "heads", model, corpus, max_sentences=limit, min_word_attention=RESIDUAL,
        n_frequent_words=FREQUENT, min_count=1,
        max_examples=0, n_shuffles=101, n_bootstrap=20,
    ).tables  # fmt: skip
    relations, heads = tables["relations"], tables["heads"]
    assert len(relations) > 10
    columns = {
        "accuracy": "plain", "accuracy_confident": "confident", "accuracy_any_dependent": "any",
        "reliable": "reliable", "baseline_first": "first",
    }  # fmt: skip
    for _, row in relations.iterrows():
        key = (row["layer"], row["head"], row["relation"], row["direction"])
        assert row["n"] == counts.whole["plain", *key]
        for column, name in columns.items():
            assert row[column] == counts.share((name, *key)), (column, key)
        rules = [counts.part["rule", *key, offset] / row["n"] for offset in OFFSETS]
        assert row["baseline_accuracy"] == pytest.approx(max(rules), abs=1e-9)
        assert rules[int(row["baseline_offset"]) + 8] == max(rules)
    for _, row in tables["offsets"].iterrows():
        key = ("offset", row["layer"], row["head"], row["offset"])
        assert row["share"] == counts.share(key), key
        assert row["n"] == counts.whole[key]
    for _, row in heads.iterrows():
        key = row["layer"], row["head"]
        for column, name in (("confidence", "confidence"), ("entropy", "entropy")):
            expected = counts.part[name, *key] / counts.whole[name, *key]
            assert row[column] == pytest.approx(expected, abs=1e-5), (column, key)
        assert row["rare_share"] == counts.share(("rare", *key)), key
    arcs = sum(n for key, n in counts.whole.items() if key[0] == "plain")
    close = sum(n for key, n in counts.close.items() if key[0] == "plain")
    assert close < 0.02 * arcs, "nearly every maximum is beyond rounding"


def test_scores_of_an_odd_model() -> None:
    corpus = odd_corpus({"test": 6}, longest=25)
    judge(odd_model(corpus), corpus, 6)


@pytest.mark.parametrize("name", ["odd", "twin", "mini:bert", "mini:gpt"])
def test_scores(name: str) -> None:
    corpus = odd_corpus({"test": 60})
    model = odd_model(corpus)
    if name == "odd":
        judge(model, corpus, 60)
    elif name == "twin":
        judge(odd_twin(model), corpus, 60)
    else:
        judge(wb.load(name, device="cpu"), wb.read("primer"), 60, name == "mini:gpt")
