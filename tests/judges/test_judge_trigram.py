"""A judge of `trigram`: Kneser-Ney as it is defined, one probability at a time, in plain dicts."""

import math
from collections import Counter
from typing import Any

import pytest

import workbench as wb
from tests.judges.odd import odd_corpus, odd_model, odd_twin, run_here
from tests.judges.plain import causal_nats, pseudo_nats, text_of
from workbench import Corpus

pytestmark = pytest.mark.slow  # by day tests/analyses/basics/test_trigram.py multiplies by hand

DISCOUNT = 0.75
Row = list[Any]


class KneserNey:
    """Interpolated; the lowest order has one more context for every piece, seen or not."""

    def __init__(self, rows: list[Row], pieces: set[int]) -> None:
        self.vocabulary = [*sorted(pieces), "begin", "end"]
        padded = [["begin", "begin", *row, "end"] for row in rows]
        self.three = Counter(t for row in padded for t in zip(row, row[1:], row[2:], strict=False))
        # a shorter context counts in how many ways it came about, not how often
        self.two = Counter((b, c) for _, b, c in self.three)
        self.one = Counter(c for _, c in self.two)
        self.contexts = len(self.two) + len(self.vocabulary)
        self.after: dict[Any, list[Any]] = {}
        for a, b, c in self.three:
            self.after.setdefault((a, b), []).append(c)
        for b, c in self.two:
            self.after.setdefault(b, []).append(c)

    def single(self, c: Any) -> float:
        return (self.one[c] + 1) / self.contexts

    def double(self, b: Any, c: Any) -> float:
        kinds = self.after.get(b, [])
        if not kinds:
            return self.single(c)
        total = sum(self.two[b, each] for each in kinds)
        own = max(self.two[b, c] - DISCOUNT, 0)
        return (own + DISCOUNT * len(kinds) * self.single(c)) / total

    def triple(self, a: Any, b: Any, c: Any) -> float:
        kinds = self.after.get((a, b), [])
        if not kinds:
            return self.double(b, c)
        total = sum(self.three[a, b, each] for each in kinds)
        own = max(self.three[a, b, c] - DISCOUNT, 0)
        return (own + DISCOUNT * len(kinds) * self.double(b, c)) / total

    def filled(self, row: Row, place: int, behind: bool) -> list[float]:
        """p of every piece in a gap, by the trigrams over it: one, or all three."""
        whole = ["begin", "begin", *row, "end"]
        a, b, *rest = whole[place : place + 5]
        found = []
        for w in self.vocabulary:
            p = self.triple(a, b, w)
            if behind:
                p *= self.triple(b, w, rest[1])
                p *= self.triple(w, rest[1], rest[2]) if len(rest) > 2 else 1.0
            found.append(p)
        return [p / sum(found) for p in found]


def judge(model: Any, corpus: Corpus, limit: int) -> None:
    table = (
        run_here("trigram", model, corpus, max_sentences=limit)
        .tables["scores"]
        .set_index("measure")
    )
    causal = model.objective == "causal"
    parts = {
        split: [text_of(model.tokenizer, doc) for doc in docs]
        for split, docs in (("train", corpus.docs("train")), ("test", corpus.docs("test", limit)))
    }
    rows = {
        split: [text.ids[text.inside].tolist() for text in texts] for split, texts in parts.items()
    }
    grams = KneserNey(rows["train"], {piece for each in rows.values() for r in each for piece in r})
    nats, right = [0.0, 0.0], [0, 0]
    n = 0
    for text, row in zip(parts["test"], rows["test"], strict=True):
        losses = (
            causal_nats(model.net, text) if causal
            else pseudo_nats(model.net, model.tokenizer, text, within=False)
        )  # fmt: skip
        nats[0] += sum(loss for loss, _ in losses)
        right[0] += sum(best for _, best in losses)
        n += len(losses)
        for place in range(len(row) - len(losses), len(row)):
            chances = grams.filled(row, place, behind=not causal)
            gold = grams.vocabulary.index(row[place])
            nats[1] -= math.log(chances[gold])
            right[1] += chances[gold] >= max(chances) * (1 - 1e-9)
    for place, who in enumerate(("model", "trigram")):
        expected = math.exp(nats[place] / n)
        ours = [float(table.loc[measure, who]) for measure in ("perplexity", "accuracy")]
        print(f"{model.name} {who}: {ours}, judge {[expected, right[place] / n]}")
        assert table.loc["perplexity", who] == pytest.approx(expected, rel=1e-4)
        assert table.loc["accuracy", who] == pytest.approx(right[place] / n, abs=0.01), "ties turn"
    assert (table["n"] == n).all()


def small(train: int, test: int) -> Corpus:
    primer = wb.read("primer:size=400")
    docs = {name: list(primer.docs(name, k)) for name, k in (("train", train), ("test", test))}
    return Corpus("small", {name: (lambda own=own: iter(own)) for name, own in docs.items()})


def test_a_small_case() -> None:
    for name in ("mini:bert", "mini:gpt"):
        judge(wb.load(name, "cpu"), small(30, 2), 2)


@pytest.mark.parametrize("name", ["mini:bert", "mini:gpt"])
def test_the_minis(name: str) -> None:
    judge(wb.load(name, "cpu"), small(300, 40), 40)


def test_the_odd_model_and_its_twin() -> None:
    corpus = odd_corpus()
    model = odd_model(corpus)
    for each in (model, odd_twin(model, 1)):
        judge(each, corpus, 6)
