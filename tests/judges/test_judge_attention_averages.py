"""`attention-averages` against loops over transformers' own attention, one word pair at a time."""

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.judges.maps import by_words, plain_maps
from tests.judges.odd import odd_corpus, odd_model, odd_twin, run_here
from workbench import Corpus

pytestmark = pytest.mark.slow  # by day tests/analyses/attention/test_averages.py has a slow loop

FARTHEST = 5
TAGS = "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()


def judge(model: Any, corpus: Corpus, limit: int) -> None:
    model.net.double()  # what rounding would do to large scores is no question here
    docs = list(corpus.docs("test", limit))
    sums: defaultdict[Any, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def count(key: Any, value: float, number: float = 1) -> None:
        sums[key][0] += value
        sums[key][1] += number

    for text in plain_maps(model, docs):
        for layer, heads in enumerate(text.maps):
            for head, pieces in enumerate(heads):
                words, special = by_words(pieces, text.owners)
                for word, row in words.items():
                    count(("words", layer, head), sum(row.values()))
                    count(("special", layer, head), sum(special[word].values()))
                    for other, weight in row.items():
                        if abs(other - word) <= FARTHEST:
                            count(("offset", layer, head, other - word), weight)
                    tag = text.doc[word].pos_
                    if tag in TAGS:
                        for to in TAGS:
                            given = sum(w for o, w in row.items() if text.doc[o].pos_ == to)
                            count(("tag", layer, head, tag, to), given)
    shares = {key: part / whole for key, (part, whole) in sums.items()}
    tables = run_here(
        "attention-averages", model, corpus, max_sentences=limit, max_offset=FARTHEST
    ).tables
    assert len(tables["offsets"]) > 0 and len(tables["tags"]) > 0
    for _, row in tables["offsets"].iterrows():
        key = ("offset", row["layer"], row["head"], row["offset"])
        assert row["attention"] == pytest.approx(shares[key], abs=1e-5)
        assert row["n"] == sums[key][1]
    for _, row in tables["tags"].iterrows():
        key = ("tag", row["layer"], row["head"], row["tag"], row["to_tag"])
        assert row["attention"] == pytest.approx(shares[key], abs=1e-5)
        assert row["n"] == sums[key][1]
    for _, row in tables["heads"].iterrows():
        own = row["layer"], row["head"]
        assert row["words"] == pytest.approx(shares["words", *own], abs=1e-5)
        assert row["special"] == pytest.approx(shares["special", *own], abs=1e-5)
        near = [shares.get(("offset", *own, o), 0) for o in range(-FARTHEST, FARTHEST + 1)]
        assert row["best_offset_attention"] == pytest.approx(max(near), abs=1e-5)
        assert near[int(row["best_offset"]) + FARTHEST] == pytest.approx(max(near), abs=1e-5)
        assert np.isfinite(row["n"])


def test_averages_of_an_odd_model() -> None:
    corpus = odd_corpus({"test": 4}, longest=20)
    judge(odd_model(corpus), corpus, 4)


@pytest.mark.parametrize("name", ["odd", "twin", "mini:bert", "mini:gpt"])
def test_averages(name: str) -> None:
    corpus = odd_corpus({"test": 40})
    model = odd_model(corpus)
    if name == "odd":
        judge(model, corpus, 40)
    elif name == "twin":
        judge(odd_twin(model), corpus, 40)
    else:
        judge(wb.load(name, device="cpu"), wb.read("primer"), 40)
