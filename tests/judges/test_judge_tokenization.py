"""A judge of `tokenization`: pieces counted from the tokenizers' own offsets, word by word."""

import math
import random
from collections import Counter, defaultdict
from typing import Any, NamedTuple

import numpy as np
import pytest

import workbench as wb
from tests.judges.odd import odd_corpus, odd_model, run_here
from tests.judges.plain import text_of
from tests.judges.resampled import resampled
from workbench import Corpus

pytestmark = pytest.mark.slow  # by day tests/analyses/words counts by hand

CLOSED = {"ADP", "AUX", "CCONJ", "DET", "NUM", "PART", "PRON", "SCONJ"}
OPEN = {"ADJ", "ADV", "INTJ", "NOUN", "PROPN", "VERB"}
MEASURES = ("fertility", "whole", "unknown", "pieces_per_character")


class Word(NamedTuple):
    form: str
    tag: str
    document: Any
    rank: int
    pieces: list[str]
    unknown: bool


def words_of(model: Any, docs: list[Any]) -> list[Word]:
    counts = Counter(token.text.lower() for doc in docs for token in doc)
    order = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    rank = {word: place for place, (word, _) in enumerate(order, 1)}
    found, units = [], resampled(docs)
    for number, doc in enumerate(docs):
        if model.family == "elmo":
            pieces: list[list[str]] = [[token.text] for token in doc]
            strange = [token.text not in model.words for token in doc]
        else:
            text = text_of(model.tokenizer, doc)
            unknown = model.tokenizer.unk_token_id
            names = model.tokenizer.convert_ids_to_tokens(text.ids.tolist())
            own = [[n for n, word in enumerate(text.word) if word == place]
                   for place in range(len(doc))]  # fmt: skip
            pieces = [[names[n] for n in each] for each in own]
            strange = [any(int(text.ids[n]) == unknown for n in each) for each in own]
        for token, split, is_unknown in zip(doc, pieces, strange, strict=True):
            name = units[number]
            where = rank[token.text.lower()]
            found.append(Word(token.text, token.pos_, name, where, split, is_unknown))
    return found


def measured(words: list[Word]) -> tuple[float, ...]:
    n = len(words)
    pieces = sum(len(word.pieces) for word in words)
    known = [word for word in words if not word.unknown]
    return (
        pieces / n,
        sum(len(word.pieces) == 1 for word in known) / len(known) if known else math.nan,
        sum(word.unknown for word in words) / n,
        pieces / sum(len(word.form) for word in words),
    )


def groups(words: list[Word]) -> dict[tuple[str, str], list[Word]]:
    found: dict[tuple[str, str], list[Word]] = defaultdict(list)
    for word in words:
        found["all", "all"].append(word)
        if word.tag:
            found["tag", word.tag].append(word)
        for name, tags in (("function words", CLOSED), ("content words", OPEN)):
            if word.tag in tags:
                found["class", name].append(word)
        decade = min(3, max(0, math.ceil(math.log10(word.rank)) - 1))
        band = ("1-10", "11-100", "101-1000", "1001 and more")[decade]
        found["frequency", band].append(word)
    return found


def near(low: float, high: float, draws: list[float], value: float) -> None:
    mine = np.percentile(draws, [2.5, 97.5])
    room = 0.35 * (mine[1] - mine[0]) + 1e-9
    assert abs(low - min(mine[0], value)) < room and abs(high - max(mine[1], value)) < room


def distinct(words: list[Word], first: Any, second: Any) -> tuple[list[Any], list[Any]]:
    """Distinct known words of two groups: mean number of pieces, and the decade of their rank."""
    sides = []
    for inside in (first, second):
        of: dict[str, list[Word]] = defaultdict(list)
        for word in words:
            if inside(word) and not word.unknown:
                of[word.form].append(word)
        sides.append(
            [
                (float(np.mean([len(w.pieces) for w in each])),
                 math.floor(math.log10(np.mean([w.rank for w in each]))))
                for each in of.values()
            ]
        )  # fmt: skip
    return sides[0], sides[1]


def permutation_p(one: list[Any], other: list[Any], within: bool, draws: int = 400) -> float:
    draw = random.Random(3)
    pieces = [pieces for pieces, _ in one + other]
    bands = [band if within else 0 for _, band in one + other]

    def difference(values: list[float]) -> float:
        return float(np.mean(values[: len(one)]) - np.mean(values[len(one) :]))

    null = []
    for _ in range(draws):
        shuffled = list(pieces)
        for band in set(bands):
            places = [n for n, each in enumerate(bands) if each == band]
            moved = draw.sample(places, len(places))
            for n, place in zip(places, moved, strict=True):
                shuffled[n] = pieces[place]
        null.append(difference(shuffled))
    centre = float(np.mean(null)) if within else 0.0
    away = abs(difference(pieces) - centre) - 1e-9
    return (1 + sum(abs(each - centre) >= away for each in null)) / (1 + draws)


def judge(models: list[Any], corpus: Corpus, limit: int) -> None:
    result = run_here("tokenization", models, corpus, max_sentences=limit, max_words=20)
    docs = list(corpus.docs("test", limit))
    split = {model.name: words_of(model, docs) for model in models}
    table = result.tables["groups"].set_index(["model", "by", "group"])
    for name, words in split.items():
        expected = groups(words)
        assert {key[1:] for key in table.index if key[0] == name} == set(expected)
        for (by, group), own in expected.items():
            row = table.loc[(name, by, group)]
            assert row["n"] == len(own)
            for measure, value in zip(MEASURES, measured(own), strict=True):
                assert row[measure] == pytest.approx(value, nan_ok=True), (name, by, group, measure)
        draw = random.Random(1)
        by_document: dict[str, list[Word]] = defaultdict(list)
        for word in words:
            by_document[str(word.document)].append(word)
        names = sorted(by_document)
        samples = [
            measured([w for _ in names for w in by_document[draw.choice(names)]])
            for _ in range(200)
        ]
        row = table.loc[(name, "all", "all")]
        for place, measure in enumerate(MEASURES):
            ends = row[f"{measure}_lower"], row[f"{measure}_upper"]
            near(*ends, [sample[place] for sample in samples], row[measure])
        numbers = Counter(len(word.pieces) for word in words if not word.unknown)
        own_pieces = result.tables["pieces"].query(f"model == {name!r}").set_index("pieces")
        assert own_pieces["n"].to_dict() == dict(numbers)
        assert own_pieces["share"].sum() == pytest.approx(1)
        longest(result.tables["words"].query(f"model == {name!r}"), words)
    compare(result.tables["tests"], split)


def longest(table: Any, words: list[Word]) -> None:
    most = {word.form: max(len(w.pieces) for w in words if w.form == word.form) for word in words}
    count = Counter(word.form for word in words)
    order = sorted(most, key=lambda form: (-most[form], -count[form], form))
    assert table["word"].tolist() == order[:20]
    for row in table.to_dict("records"):
        assert row["pieces"] == most[row["word"]] == len(row["split"].split(" "))
        assert row["count"] == count[row["word"]]


def compare(table: Any, split: dict[str, list[Word]]) -> None:
    rows = table.set_index(["model", "comparison"])
    first_name = next(iter(split))
    expected = {}
    for name, words in split.items():
        rare = 1000 if any(word.rank > 1000 for word in words) else 100
        sides: dict[str, tuple[Any, Any]] = {
            "rare words": (lambda w, rare=rare: w.rank > rare, lambda w: w.rank <= 100),
            "proper nouns": (
                lambda w: w.tag == "PROPN", lambda w: w.tag in OPEN and w.tag != "PROPN"
            ),
            "function words": (lambda w: w.tag in CLOSED, lambda w: w.tag in OPEN),
        }  # fmt: skip
        for comparison, (first, second) in sides.items():
            one, other = distinct(words, first, second)
            if one and other:
                means = [float(np.mean([pieces for pieces, _ in side])) for side in (one, other)]
                p = permutation_p(one, other, comparison == "proper nouns")
                expected[name, comparison] = (*means, len(one), len(other), p)
        if name != first_name:
            both = [
                (len(one.pieces), len(other.pieces))
                for one, other in zip(words, split[first_name], strict=True)
                if not (one.unknown or other.unknown)
            ]
            means = np.mean(both, axis=0).tolist()
            expected[name, first_name] = (*means, len(both), len(both), None)
    assert set(rows.index) == set(expected)
    n = len(expected)
    for key, (first, second, n_first, n_second, p) in expected.items():
        row = rows.loc[key]
        assert (row["n_first"], row["n_second"]) == (n_first, n_second)
        assert row["first"] == pytest.approx(first) and row["second"] == pytest.approx(second)
        assert row["ratio"] == pytest.approx(first / second)
        assert row["lower"] <= row["ratio"] <= row["upper"]
        excludes = row["lower"] > 1 or row["upper"] < 1
        assert row["holds"] == (excludes and row["p"] < 0.05)
        if p is not None:  # Holm's correction multiplies by at most the number of tests
            assert p * 0.6 - 0.02 <= row["p"] <= min(1.0, n * (p + 0.03)) + 1e-9


def test_a_small_case() -> None:
    models = [wb.load(name, "cpu") for name in ("mini:bert", "mini:elmo")]
    judge(models, wb.read("primer"), 25)


def test_the_minis_and_the_odd_model() -> None:
    models = [wb.load(name, "cpu") for name in ("mini:gpt", "mini:bert", "mini:elmo")]
    judge(models, wb.read("primer"), 400)
    corpus = odd_corpus()
    judge([odd_model(corpus)], corpus, 60)
