"""Averages over a corpus, against sentence by sentence loops and a head whose answer is known."""

from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import workbench as wb
from tests.analyses.heads.conftest import doc_of
from tests.analyses.heads.prescribed import Prescribed
from tests.night import mostly
from tests.planted.look import BUILDERS, eager
from tests.planted.words import lexicon, planted_docs
from workbench import Corpus, Model
from workbench.analyses.attention.averages import run
from workbench.analyses.attention.capture import attention
from workbench.analyses.attention.experiments import Averages
from workbench.analyses.attention.grids import Options, grid_of, groups
from workbench.experiment import Inputs
from workbench.models.huggingface import HuggingFace

Models = Callable[[str], Model]


class Quiet:
    def __call__(self, done: int, total: int | None = None, doing: str = "") -> None: ...
    def log(self, text: str) -> None: ...
    def warn(self, text: str) -> None: ...


def averaged(model: Model, docs: list, **settings: int) -> dict[str, pd.DataFrame]:
    corpus = Corpus("docs", {"all": lambda: iter(docs)})
    result = run(Inputs(models=(model,), corpora=(corpus,)), Averages(**settings), Quiet())
    return dict(result.tables)


@pytest.mark.parametrize("name", mostly(["bert", "gpt2", "t5"], "t5"))
def test_offsets_and_tags_equal_a_slow_loop_over_looks(model: Models, name: str) -> None:
    docs = list(wb.read("primer").docs("test", limit=5))
    tables = averaged(model(name), docs, max_offset=3)
    mass: defaultdict[tuple, list[float]] = defaultdict(list)
    tagged: defaultdict[tuple, float] = defaultdict(float)
    looks: defaultdict[tuple, int] = defaultdict(int)
    for doc in docs:
        found = attention(model(name), doc)
        for group in groups(found):
            grid = grid_of(found, group, Options(unit="words"))
            rows, columns = grid.sides.rows, grid.sides.columns
            for layer, head, shown in grid.each():
                for i, one in enumerate(rows.words):
                    if one < 0 or rows.special[i]:
                        continue
                    looks[(*group, layer, head, doc[one].pos_)] += 1
                    for j, other in enumerate(columns.words):
                        if other < 0 or columns.special[j]:
                            continue
                        if abs(other - one) <= 3:
                            mass[(*group, layer, head, other - one)].append(shown[i, j])
                        key = (*group, layer, head, doc[one].pos_, doc[other].pos_)
                        tagged[key] += shown[i, j]
    offsets = tables["offsets"]
    assert len(offsets) == len(mass)
    for row in offsets.itertuples(index=False):
        values = mass[tuple(row[:5])]
        assert row.n == len(values)
        assert row.attention == pytest.approx(np.mean(values), abs=1e-5)
    for row in tables["tags"].itertuples(index=False):
        assert row.attention * row.n == pytest.approx(tagged[tuple(row[:6])], abs=1e-3)
        assert row.n == looks[tuple(row[:5])]


class Previous(Prescribed):
    """Head 1 of layer 1 gives every word to the word before it; words are one piece each."""

    def maps(self, document: int, layer: int, size: int) -> Tensor:
        found = super().maps(document, layer, size)
        if layer == 1:
            found[1] = torch.eye(size).roll(-1, 1)
        return found


def test_a_head_of_the_previous_word_is_at_offset_minus_one() -> None:
    docs = [doc_of("the big dog saw six red hen".split()) for _ in range(3)]
    heads = averaged(Previous(), docs)["heads"].set_index(["layer", "head"])
    assert heads.loc[(1, 1), "best_offset"] == -1
    assert heads.loc[(1, 1), "best_offset_attention"] == pytest.approx(1, abs=1e-5)
    assert (heads.drop((1, 1))["best_offset_attention"] < 0.9).all()


@pytest.mark.slow  # reads 10,000 sentences for its words; by day, the test above
def test_the_planted_previous_head_is_at_offset_minus_one() -> None:
    words = lexicon(split=False)
    planted = eager(BUILDERS["bert"](words))
    model = HuggingFace(planted.model, planted.tokenizer, "planted")
    layer, head = planted.heads["previous"]
    heads = averaged(model, planted_docs(40, words))["heads"]
    row = heads[(heads["layer"] == layer) & (heads["head"] == head)].iloc[0]
    assert row["best_offset"] == -1
    assert row["best_offset_attention"] == pytest.approx(1, abs=1e-5)


def test_without_tags_the_run_says_so(model: Models) -> None:
    from spacy.tokens import Doc

    from workbench.corpora.layers import vocabulary

    docs = [Doc(vocabulary("en"), words=["a", "b"])]
    corpus = Corpus("docs", {"all": lambda: iter(docs)})
    result = run(Inputs(models=(model("bert"),), corpora=(corpus,)), Averages(), Quiet())
    assert result.tables["tags"].empty
    assert "no parts of speech" in result.caveats[0].text
