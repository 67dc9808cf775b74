"""A judge of `attribution`: occlusion and erasure with bare transformers, one set at a time."""

import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from spacy.tokens import Doc

import workbench as wb
from tests.judges.odd import odd_corpus, odd_model, odd_twin, run_here
from tests.judges.plain import Text, text_of
from tests.models import headed
from workbench import Corpus

SHARES = (0.1, 0.2, 0.3, 0.5)


class Judged:
    """One text: the hidden word, the words that are read, and the probability of any set."""

    def __init__(self, model: Any, doc: Doc, seed: int, index: int) -> None:
        text: Text = text_of(model.tokenizer, doc)
        self.doc = doc
        words = sorted({text.word[place] for place in text.inside} - {-1})
        words = [w for w in words if not (doc[w].is_punct or doc[w].is_space)] or words
        words = [w for w in words if text.word.count(w) == 1] or words
        self.word = int(np.random.default_rng([seed, index]).choice(words))
        mask = model.tokenizer.mask_token_id
        own = [place for place in text.inside if text.word[place] == self.word]
        table = model.net.get_input_embeddings().weight
        ids = text.ids.clone()
        ids[own] = mask
        self.net, self.place = model.net, own[0]
        self.vectors, self.absent = table[ids].detach(), table[mask].detach()
        self.pieces: dict[int, list[int]] = {}
        for place in text.inside:
            if place not in own and text.word[place] >= 0:
                self.pieces.setdefault(text.word[place], []).append(place)
        self.words = list(self.pieces)
        self.known: dict[frozenset[int], Any] = {}
        logits = self.logits([])
        self.choice = int(logits.argmax())
        self.whole = self.probability([])
        # of the logit: a word's score is what is lost without it
        self.score = {
            word: float(logits[self.choice] - self.logits([word])[self.choice])
            for word in self.words
        }

    def logits(self, gone: list[int]) -> Any:
        if (words := frozenset(gone)) not in self.known:
            self.known[words] = self._logits(gone)
        return self.known[words]

    @torch.no_grad()
    def _logits(self, gone: list[int]) -> Any:
        vectors = self.vectors.clone()
        for word in gone:
            for place in self.pieces[word]:
                vectors[place] = self.absent
        return self.net(inputs_embeds=vectors[None]).logits[0, self.place].double()

    def probability(self, gone: list[int]) -> float:
        return float(self.logits(gone).softmax(-1)[self.choice])

    def erased(self, order: list[int]) -> tuple[float, float]:
        sizes = [max(1, math.ceil(share * len(order) - 1e-9)) for share in SHARES]
        without = [self.whole - self.probability(order[:size]) for size in sizes]
        only = [self.whole - self.probability(order[size:]) for size in sizes]
        return sum(without) / len(sizes), sum(only) / len(sizes)

    def by_score(self) -> list[int]:
        return sorted(self.words, key=lambda word: -self.score[word])

    def lifts(self) -> dict[int, float]:
        mean = sum(map(abs, self.score.values())) / len(self.words)
        return {word: abs(score) / mean for word, score in self.score.items()}


def judge(model: Any, corpus: Corpus, near: float) -> None:
    """All texts of the corpus are explained, so that the sample is known but for its order."""
    docs = list(corpus.docs("test"))
    found = run_here(
        "attribution", model, corpus, methods=("occlusion",), random_models=0,
        max_predictions=len(docs), random_orders=20,
    ).tables  # fmt: skip
    texts = []
    for index, doc in enumerate(docs):
        try:
            text = Judged(model, doc, 0, index)
        except ValueError:  # no word at all
            continue
        if len(text.words) >= 3:
            texts.append(text)
    row = found["methods"].set_index("method").loc["occlusion"]
    assert row["n"] == len(texts) > 5
    erased = np.array([text.erased(text.by_score()) for text in texts])
    assert row["comprehensiveness"] == pytest.approx(erased[:, 0].mean(), abs=near)
    assert row["sufficiency"] == pytest.approx(erased[:, 1].mean(), abs=near)
    draw = random.Random(3)
    null = np.array(
        [
            np.mean([text.erased(draw.sample(text.words, len(text.words))) for _ in range(8)], 0)
            for text in texts
        ]
    )
    spread = max(4 * null.std(0).max() / np.sqrt(len(texts)), 1e-4)
    assert row["random_comprehensiveness"] == pytest.approx(null[:, 0].mean(), abs=spread)
    assert row["random_sufficiency"] == pytest.approx(null[:, 1].mean(), abs=spread)
    own = row["comprehensiveness"] - row["sufficiency"]
    own -= row["random_comprehensiveness"] - row["random_sufficiency"]
    assert row["gain"] == pytest.approx(own)
    judge_words(found, texts)


def judge_words(found: Any, texts: list[Judged]) -> None:
    """The means by tag, of heads and dependents, and by offset."""
    by_tag: dict[str, list[float]] = {}
    by_offset: dict[int, float] = {}
    related: dict[tuple[str, str], list[float]] = {}
    for text in texts:
        doc, own = text.doc, text.word
        for word, lift in text.lifts().items():
            by_tag.setdefault(doc[word].pos_, []).append(lift)
            offset = max(-10, min(10, word - own))
            by_offset[offset] = by_offset.get(offset, 0.0) + lift
            links = (
                ("dependent-to-head", doc[own].head.i == word, doc[own].dep_),
                ("head-to-dependent", doc[word].head.i == own, doc[word].dep_),
            )
            for direction, is_linked, name in links:
                name = name.lower().split(":")[0]
                if is_linked and name not in ("root", "punct", ""):
                    for row in (name, "all"):
                        related.setdefault((direction, row), []).append(lift)
    n_words = sum(map(len, by_tag.values()))
    tags = found["tags"].set_index("tag")
    assert set(tags.index) == set(by_tag)
    for name, lifts in by_tag.items():
        assert tags.loc[name, "n"] == len(lifts)
        assert tags.loc[name, "lift"] == pytest.approx(np.mean(lifts), rel=0.02, abs=0.02)
        assert tags.loc[name, "words"] == pytest.approx(len(lifts) / n_words)
    assert (tags["lower"] <= tags["lift"]).all() and (tags["lift"] <= tags["upper"]).all()
    positions = found["positions"].set_index("offset")
    assert set(positions.index) == set(by_offset)
    for offset, lift in by_offset.items():
        assert positions.loc[offset, "attribution"] == pytest.approx(lift / n_words, abs=0.005)
    rows = found["relations"].set_index(["direction", "relation"])
    assert set(rows.index) == {key for key, lifts in related.items() if len(lifts) >= 3}
    for key in rows.index:
        assert rows.loc[key, "n"] == len(related[key])
        assert rows.loc[key, "attribution"] == pytest.approx(
            np.mean(related[key]), rel=0.02, abs=0.02
        )
    assert (rows["p"] == rows[["p_shuffled", "p_types"]].max(axis=1)).all()


def first(corpus: Corpus, number: int) -> Corpus:
    docs = list(corpus.docs("test", number))
    return Corpus("first", {"test": lambda: iter(docs)})


def test_a_small_case() -> None:
    judge(headed.made("bert", "BertForMaskedLM"), first(wb.read("primer"), 7), 1e-4)


@pytest.mark.slow
def test_the_minis() -> None:
    judge(wb.load("mini:bert", "cpu"), first(wb.read("primer"), 30), 1e-4)


@pytest.mark.slow
def test_the_odd_model_and_its_twin() -> None:
    corpus = odd_corpus({"test": 16}, longest=14)
    model = odd_model(odd_corpus())
    for each in (model, odd_twin(model, 1)):
        judge(each, corpus, 1e-3)
