"""A judge of `minimal-pairs`: bare transformers forwards, Wilson's formula, flips one by one."""

import itertools
import math
import random
from typing import Any

import numpy as np
import pytest
from spacy.tokens import Doc

import workbench as wb
from tests.judges.odd import odd_corpus, odd_model, odd_twin, run_here
from tests.judges.plain import causal_nats, pseudo_nats, text_of
from workbench import Corpus

pytestmark = pytest.mark.slow  # by day tests/analyses/basics/test_pairs.py

Twins = list[tuple[Doc, Doc, str]]


def primer(number: int) -> tuple[Corpus, Twins]:
    corpus = wb.read("primer/acceptability")
    docs = list(corpus.docs("test", 2 * number))
    pairs = [
        (docs[n], docs[n + 1], docs[n]._.labels["phenomenon"]) for n in range(0, 2 * number, 2)
    ]
    return corpus, pairs


def odd(number: int) -> tuple[Corpus, Twins]:
    """Sentences of the odd corpus, of which two words are exchanged, or one is another."""
    draw = random.Random(1)
    source = odd_corpus({"test": 6 * number}, longest=25)
    long = [doc for doc in source.docs("test") if len(doc) > 3][:number]
    pairs: Twins = []
    for place, doc in enumerate(long):
        words = [token.text for token in doc]
        wrong, first = words[:], draw.randrange(len(words) - 1)
        if place % 2:
            wrong[first] = draw.choice(words)
        else:
            wrong[first], wrong[first + 1] = wrong[first + 1], wrong[first]
        both = Doc(doc.vocab, words=words), Doc(doc.vocab, words=wrong)
        kind = ("order", "word")[place % 2]
        for one, judged in zip(both, ("acceptable", "unacceptable"), strict=True):
            one._.labels = {"acceptability": judged, "phenomenon": kind, "pair": str(place)}
        pairs.append((*both, kind))
    docs = [doc for good, bad, _ in pairs for doc in (good, bad)]
    return Corpus("pairs", {"test": lambda: iter(docs)}), pairs


def exchanged(good: Doc, bad: Doc) -> tuple[list[str], list[str]]:
    one, other = ([token.text.lower() for token in doc] for doc in (good, bad))
    while one and other and one[0] == other[0]:
        one, other = one[1:], other[1:]
    while one and other and one[-1] == other[-1]:
        one, other = one[:-1], other[:-1]
    return one, other


def clusters(pairs: Twins) -> list[Any]:
    parts = [exchanged(good, bad) for good, bad, _ in pairs]
    count: dict[str, int] = {}
    for one, other in parts:
        for word in set(one + other):
            count[word] = count.get(word, 0) + 1
    return [
        max(one, key=lambda word: (count[word], word)) if sorted(one) == sorted(other)
        else frozenset((" ".join(one), " ".join(other)))
        for one, other in parts
    ]  # fmt: skip


def wilson(right: int, n: int, z: float = 1.959963984540054) -> tuple[float, float]:
    p, scale = right / n, 1 + z * z / n
    middle = (p + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return middle - half, middle + half


def p_value(gain: np.ndarray[Any, Any], of: list[Any]) -> float:
    sums = [sum(gain[i] for i in range(len(of)) if of[i] == name) for name in dict.fromkeys(of)]
    if len(sums) <= 13:
        flips = list(itertools.product((1, -1), repeat=len(sums)))
    else:
        draw = random.Random(7)
        flips = [tuple(draw.choice((1, -1)) for _ in sums) for _ in range(20_000)]
    seen = sum(sums)
    at_least = [
        sum(s * t for s, t in zip(flip, sums, strict=True)) >= seen - 1e-9 for flip in flips
    ]
    return sum(at_least) / len(at_least)


def judge(model: Any, corpus: Corpus, pairs: Twins, scheme: str, near: float = 1e-3) -> float:
    """The largest difference of a mean gap, in nats; all else is compared here."""
    found = run_here(
        "minimal-pairs", model, corpus, max_sentences=2 * len(pairs),
        pseudo_likelihood=scheme, start_token="no",
    ).tables["pairs"]  # fmt: skip
    pairs = [pair for pair in pairs if pair[0].text != pair[1].text]
    nats, sizes = np.zeros((len(pairs), 2)), np.zeros((len(pairs), 2))
    for row, pair in enumerate(pairs):
        for side in (0, 1):
            text = text_of(model.tokenizer, pair[side])
            if model.objective == "causal":
                losses = causal_nats(model.net, text)
            else:
                losses = pseudo_nats(model.net, model.tokenizer, text, scheme == "within-word")
            nats[row, side], sizes[row, side] = sum(n for n, _ in losses), len(losses)
    gap, of = nats[:, 1] - nats[:, 0], clusters(pairs)
    fewer = (np.sign(sizes[:, 1] - sizes[:, 0]) + 1) / 2
    rows, raw, apart = found.set_index("phenomenon"), {}, 0.0
    names = sorted({name for *_, name in pairs})
    for name in [*names, "all"]:
        own = [i for i, pair in enumerate(pairs) if name in ("all", pair[2])]
        right = gap[own] > 0
        row = rows.loc[name]
        apart = max(apart, abs(row["gap"] - gap[own].mean()))
        assert row["n"] == len(own) and row["exchanges"] == len({of[i] for i in own})
        assert abs(row["accuracy"] - right.mean()) <= (np.abs(gap[own]) < near).mean() + 1e-12
        np.testing.assert_allclose(
            [row["lower"], row["upper"]], wilson(round(row["accuracy"] * len(own)), len(own))
        )
        assert row["fewer_pieces"] == pytest.approx(fewer[own].mean())
        base = fewer[own] if fewer[own].mean() > 0.5 else 0.5
        raw[name] = p_value(right - base, [of[i] for i in own])
    steps, floor = sorted(names, key=lambda name: raw[name]), 0.0
    for rank, name in enumerate(steps):  # Holm
        floor = max(floor, min(1.0, raw[name] * (len(steps) - rank)))
        assert rows.loc[name, "p"] == pytest.approx(floor, abs=0.02 * len(steps))
    assert rows.loc["all", "p"] == pytest.approx(raw["all"], abs=0.02)
    assert (rows["above_chance"] == (rows["p"] < 0.05)).all()
    return apart


def test_a_small_case() -> None:
    assert judge(wb.load("mini:bert", "cpu"), *primer(5), "within-word") < 1e-3
    assert judge(wb.load("mini:gpt", "cpu"), *primer(10), "within-word") < 1e-3


@pytest.mark.parametrize("scheme", ["within-word", "original"])
@pytest.mark.parametrize("name", ["mini:bert", "mini:gpt", "mini:t5"])
def test_the_minis(name: str, scheme: str) -> None:
    apart = judge(wb.load(name, "cpu"), *primer(60), scheme)
    print(f"{name} {scheme}: mean gaps within {apart:.1e} nats")
    assert apart < 1e-3


@pytest.mark.parametrize("scheme", ["within-word", "original"])
def test_the_odd_model_and_its_twin(scheme: str) -> None:
    corpus, pairs = odd(30)
    model = odd_model(odd_corpus())
    for each in (model, odd_twin(model, 1)):
        apart = judge(each, corpus, pairs, scheme)
        print(f"{each.name} {scheme}: mean gaps within {apart:.1e} nats")
        assert apart < 5e-3
