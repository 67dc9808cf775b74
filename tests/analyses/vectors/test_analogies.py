"""`word-vectors`: analogies and likeness against plain loops, planted vectors, and findings."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import workbench as wb
from tests.judges.odd import Quiet
from tests.minis import shared
from workbench import experiments
from workbench.analyses.vectors.analogies import (
    answers,
    auc_by_word,
    cosines,
    lexicon_of,
    questions,
    ranks_of,
)
from workbench.analyses.vectors.experiments import WordVectors
from workbench.analyses.vectors.figures import FIGURES
from workbench.analyses.vectors.findings import findings
from workbench.experiment import Inputs


def drawn(words: int = 11, width: int = 3, seed: int = 0) -> torch.Tensor:
    vectors = torch.randn(words, width, generator=torch.Generator().manual_seed(seed))
    vectors[4] = 0  # unknown
    return vectors


@pytest.mark.parametrize("method", ["add", "mul", "nearest", "none left out"])
def test_answers_are_the_loop(method: str) -> None:
    vectors = drawn()
    unit = [v / v.norm() if v.norm() else v for v in vectors]
    asked = [(a, a2, b) for a in range(4) for a2 in range(5, 9) for b in range(9, 11)]
    expected = []
    for a, a2, b in asked:
        best, top = -1, -math.inf
        for word in range(len(vectors)):
            if word == 4 or (method != "none left out" and word in (a, a2, b)):
                continue
            one, two, three = (float(unit[word] @ unit[other]) for other in (a, a2, b))
            if method == "mul":
                score = (two + 1) / 2 * (three + 1) / 2 / ((one + 1) / 2 + 1e-3)
            elif method == "nearest":
                score = three
            else:  # the cosine with the offset, but for the norm of the offset
                score = float(unit[word] @ (unit[a2] - unit[a] + unit[b]))
            if score > top:
                best, top = word, score
        expected.append(best)
    known = vectors.norm(dim=1) > 0
    found = answers(cosines(vectors), known, torch.tensor(asked), method)
    assert found.tolist() == expected


def test_a_planted_offset_is_found_and_the_words_asked_are_left_out() -> None:
    """Forms are their lemma plus one vector: the offset is right each time, a neighbour never."""
    torch.manual_seed(0)
    lemmas = 3 * torch.randn(20, 8)
    plural = torch.full((8,), 0.3)
    near = cosines(torch.cat([lemmas, lemmas + plural, torch.randn(30, 8)]))
    pairs = [(n, 20 + n) for n in range(20)]
    chosen = torch.from_numpy(questions(pairs, 100, 0))
    table = torch.tensor(pairs)
    asked = torch.cat([table[chosen[:, 0]], table[chosen[:, 1], :1]], 1)
    right = table[chosen[:, 1], 1]
    known = torch.ones(70, dtype=torch.bool)
    assert (answers(near, known, asked, "add") == right).double().mean() > 0.9
    assert (answers(near, known, asked, "none left out") == asked[:, 2]).any()


def test_questions_are_of_two_pairs() -> None:
    found = questions([(0, 1), (2, 3), (4, 5)], 100, 0)
    assert sorted(map(tuple, found.tolist())) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    assert len(questions([(0, 1), (2, 3), (4, 5)], 4, 0)) == 4


def test_likeness_is_the_loop() -> None:
    near = cosines(drawn(9, 4, 1) + 0.1).double().numpy()
    tags = np.array([0, 1, 0, 1, 2, 1, 0, 1, 1])  # one word is the only one of its tag
    expected = []
    for word in range(9):
        same = [o for o in range(9) if o != word and tags[o] == tags[word]]
        others = [o for o in range(9) if tags[o] != tags[word]]
        if same and others:
            wins = [
                (near[word, s] > near[word, o]) + 0.5 * (near[word, s] == near[word, o])
                for s in same
                for o in others
            ]
            expected.append(sum(wins) / len(wins))
    np.testing.assert_allclose(auc_by_word(ranks_of(near), tags), expected)


def docs() -> list[Any]:
    from spacy.tokens import Doc

    from workbench.corpora.layers import vocabulary

    rows = [("dog", "NN", "dog"), ("dogs", "NNS", "dog"), ("Cat", "NN", "cat"),
            ("cats", "NNS", "cat"), ("sheep", "NN", "sheep"), ("sheep", "NNS", "sheep"),
            ("ox", "NN", "ox"), ("oxen", "NNS", "ox"), ("rare", "JJ", "rare")]  # fmt: skip
    words, tags, lemmas = zip(*rows, strict=True)
    pos = ["NOUN"] * 8 + ["ADJ"]
    doc = Doc(vocabulary("en"), words=list(words), tags=list(tags), lemmas=list(lemmas), pos=pos)
    return [doc, doc, doc[:6].as_doc()]


def test_pairs_are_two_forms_of_one_lemma() -> None:
    found = lexicon_of(docs(), WordVectors(min_count=3, min_pairs=2))
    names = {(found.words[one], found.words[other]) for one, other in found.pairs["NN to NNS"]}
    assert names == {("dog", "dogs"), ("cat", "cats")}, "ox is rare, and a sheep is a sheep"
    assert found.targets == {"NN to NNS": "NNS"}
    assert found.words[0] == "sheep" and found.counts[0] == 6
    assert not lexicon_of(docs(), WordVectors(min_pairs=3)).pairs


# --- the experiment -------------------------------------------------------------------------------


def test_tables_findings_and_figures_of_a_model_and_its_twin() -> None:
    kind = experiments()["word-vectors"]
    model = shared("mini:bert")
    twin = model.reinitialised(0)
    twin.name = "twin"
    inputs = Inputs((model, twin), (wb.read("primer:size=1000"),), "train")
    settings = kind.settings(max_questions=200, n_shuffles=20)
    found = kind.run(inputs, settings, Quiet()).tables
    likeness = found["likeness"].set_index("model")
    assert likeness["auc"]["mini:bert"] > 0.6 > likeness["upper"]["twin"]
    assert likeness["null"]["mini:bert"] == pytest.approx(0.5, abs=0.03)
    claims = list(kind.findings(found))
    assert len(claims) == 4
    assert claims[1].verdict == claims[3].verdict == "not supported", "of random weights"
    for draw in FIGURES.values():
        assert draw(found).data


def tables(
    add: float, nearest: float, auc: float, frequency: float, random: float = 0.0
) -> dict[str, pd.DataFrame]:
    scores = {
        "add": add,
        "mul": add - 0.01,
        "nearest": nearest,
        "frequency": 0.1,
        "random weights": random,
    }
    scores["none left out"] = 0.05
    rows = [
        {"model": "m", "relation": "all", "method": method, "accuracy": value,
         "lower": value - 0.05, "upper": value + 0.05, "n": 40, "questions": 400}
        for method, value in scores.items()
    ]  # fmt: skip
    near = {
        "model": "m", "auc": auc, "lower": auc - 0.02, "upper": auc + 0.02, "null": 0.5,
        "frequency": frequency, "random": 0.5 + random / 2, "random_upper": 0.52 + random / 2,
        "p_value": 0.005, "n": 300,
    }  # fmt: skip
    return {"analogies": pd.DataFrame(rows), "likeness": pd.DataFrame([near])}


@pytest.mark.parametrize(
    ("numbers", "verdicts", "said"),
    [
        ((0.6, 0.2, 0.8, 0.6), ["supported", "supported"], "3CosAdd answers 60.0 %"),
        ((0.3, 0.28, 0.8, 0.6), ["not supported", "supported"], "nearest neighbour of b"),
        ((0.08, 0.02, 0.61, 0.6), ["not supported", "not supported"], "most frequent word"),
        ((0.6, 0.2, 0.8, 0.6, 0.59), ["not supported", "not supported"], "random weights"),
    ],
)
def test_an_offset_counts_beyond_its_baselines(
    numbers: tuple[float, ...], verdicts: list[str], said: str
) -> None:
    found = list(findings(tables(*numbers)))
    assert [each.verdict for each in found] == verdicts
    assert said in found[0].claim
