"""Layers of any two models are compared word by word, and a model with itself is 1 on its diagonal.

The reference runs each text alone, means a word's pieces in a loop, and makes whole maps of words.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import workbench as wb
from tests.analyses.heads.conftest import Made, Silent, doc_of
from tests.minis import shared
from tests.models import zoo
from workbench import Model, Result, WorkbenchError, encode, experiments, load
from workbench.analyses.transfer import similarity
from workbench.analyses.transfer.experiments import SIMILARITY, Similarity
from workbench.analyses.transfer.similarity import run
from workbench.drawing.sanitize import harmless
from workbench.experiment import Inputs

MINI = ("mini:bert", "mini:gpt", "mini:elmo", "mini:t5")
KEYS = list(SIMILARITY.tables["similarity"].keys)


def compared(
    models: Sequence[Model], max_sentences: int | None = 30, corpus: Any = None, **asked: Any
) -> Result:
    corpus = corpus or wb.read("primer:size=200")
    split = "train" if corpus.splits else None
    inputs = Inputs(tuple(models), (corpus,), split, limit=max_sentences)
    return run(inputs, Similarity(max_sentences=max_sentences, **asked), Silent())


@pytest.fixture(scope="module")
def minis() -> list[Model]:
    return [wb.load(name) for name in MINI]


@pytest.fixture(scope="module")
def four(minis: list[Model]) -> Result:
    return compared(minis, max_sentences=12)


def states(model: Model, documents: int) -> dict[tuple[str, int], Tensor]:
    """Text by text, word by word.  # [words, width] each"""
    batch = encode(wb.read("primer:size=200").docs("train", documents))
    rows: dict[tuple[str, int], list[Tensor]] = {}
    for document in range(len(batch)):
        with torch.no_grad():
            output = model.forward(model.encode(batch, [document]))
        for stack, hidden in output.hidden.items():
            owner = output.texts[stack].words[0]
            for layer, found in enumerate(hidden):
                rows.setdefault((stack, layer), []).extend(
                    found[0][owner == word].mean(0).double()
                    for word in range(len(batch.words_of(document)))
                )
    return {layer: torch.stack(own) for layer, own in rows.items()}


def whole_cka(x: Tensor, y: Tensor) -> float:
    """Of maps of words by words, as Song et al. write it."""

    def hsic(a: Tensor, b: Tensor) -> Tensor:
        n, one = len(a), torch.ones(len(a), dtype=torch.float64)
        k, m = (own @ own.T for own in (a - a.mean(0), b - b.mean(0)))
        k, m = k - k.diag().diag(), m - m.diag().diag()
        sums = (one @ k @ one) * (one @ m @ one) / ((n - 1) * (n - 2))
        return (k * m).sum() + sums - 2 / (n - 2) * (one @ k @ m @ one)

    return float(hsic(x, y) / (hsic(x, x) * hsic(y, y)).sqrt())


def test_any_models_are_compared_with_one_another_and_with_themselves(four: Result) -> None:
    table = four.tables["similarity"]
    assert list(table.columns) == [*KEYS, "cka"]
    layers = {"mini:bert": 5, "mini:gpt": 5, "mini:elmo": 3, "mini:t5": 6}
    names = list(layers)
    pairs = {(a, b): layers[a] * layers[b] for i, a in enumerate(names) for b in names[i:]}
    assert table.groupby(["model_a", "model_b"]).size().to_dict() == pairs
    assert table["cka"].between(-0.1, 1 + 1e-9).all() and not table[KEYS].duplicated().any()


def test_a_model_is_like_itself(four: Result) -> None:
    table = four.tables["similarity"]
    own = table[table["model_a"] == table["model_b"]]
    same = (own["stack_a"] == own["stack_b"]) & (own["layer_a"] == own["layer_b"])
    assert same.sum() == 19
    np.testing.assert_allclose(own.loc[same, "cka"], 1, atol=1e-9)
    turned = own.rename(columns=lambda name: {"a": f"{name[:-1]}b", "b": f"{name[:-1]}a"}.get(
        name[-1] if name != "cka" else "", name))  # fmt: skip
    both = own.merge(turned, on=KEYS)
    assert len(both) == len(own)
    np.testing.assert_allclose(both["cka_x"], both["cka_y"], atol=1e-9)


def test_it_is_the_cka_of_whole_maps_of_words(minis: list[Model]) -> None:
    some = [minis[0], minis[3]]
    found = compared(some, max_sentences=6).tables["similarity"]
    theirs = {model.name: states(model, 6) for model in some}
    for row in found.to_dict("records"):
        x = theirs[row["model_a"]][row["stack_a"], row["layer_a"]]
        y = theirs[row["model_b"]][row["stack_b"], row["layer_b"]]
        assert row["cka"] == pytest.approx(whole_cka(x, y), abs=1e-4), row


def test_neither_how_many_words_at_a_time_nor_memory_changes_it(
    minis: list[Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    some = [minis[0], minis[3]]
    table = compared(some, max_sentences=8).tables["similarity"]
    monkeypatch.setattr(similarity, "AT_ONCE", 17)
    monkeypatch.setattr(similarity, "MEMORY", 1)
    again = compared(some, max_sentences=8).tables["similarity"]
    assert again[KEYS].equals(table[KEYS])
    np.testing.assert_allclose(again["cka"], table["cka"], atol=1e-9)


def test_models_of_one_name_are_told_apart(minis: list[Model]) -> None:
    found = compared([minis[0], minis[0], minis[0]], max_sentences=5).tables
    assert list(found["words"]["model"]) == ["mini:bert", "mini:bert (2)", "mini:bert (3)"]
    assert not found["similarity"][KEYS].duplicated().any()
    between = found["similarity"].query("model_a != model_b and layer_a == layer_b")
    np.testing.assert_allclose(between["cka"], 1, atol=1e-9)


def test_words_that_a_model_has_no_piece_for_are_left_out(minis: list[Model]) -> None:
    """A BERT of 64 pieces reads the beginning of a long text, an ELMo all of it."""
    words = [f"word{place % 7}" for place in range(200)]
    corpus = Made([doc_of(["A", "cat", "sat"]), doc_of(words)])
    result = compared([minis[0], minis[2]], corpus=corpus)
    found = result.tables["words"].set_index("model")
    missing = found.loc["mini:bert", "without_piece"]
    assert 100 < missing < 200 and found.loc["mini:elmo", "without_piece"] == 0
    assert (found["words"] == 203).all() and (found["compared"] == 203 - missing).all()
    assert any("are left out" in caveat.text for caveat in result.caveats)


def test_words_are_drawn_by_the_seed(minis: list[Model]) -> None:
    two = [minis[0], minis[2]]
    some = [compared(two, max_sentences=10, max_words=50).tables for _ in range(2)]
    assert (some[0]["words"]["compared"] == 50).all()
    assert some[0]["similarity"].equals(some[1]["similarity"])


def test_what_has_no_shape_has_no_similarity_and_is_not_0(
    minis: list[Model], tmp_path: Path
) -> None:
    from workbench.models.word_models import Vectors

    Vectors(["cat", "dog"], torch.zeros(2, 6)).save(tmp_path / "flat")
    table = compared([minis[2], load(tmp_path / "flat", "cpu")]).tables["similarity"]
    flat = table["model_b"].str.endswith("flat")
    assert table.loc[flat, "cka"].isna().all() and table.loc[~flat, "cka"].notna().all()


def test_too_little_text_is_an_error(minis: list[Model]) -> None:
    with pytest.raises(WorkbenchError, match=r"share 3 words.*needs 4"):
        compared(minis[:2], corpus=Made([doc_of(["A", "cat", "sat"])]))
    with pytest.raises(WorkbenchError, match="no sentences"):
        compared(minis[:2], corpus=Made([]))


def test_every_architecture_is_compared(tmp_path: Path) -> None:
    names = ("gpt2", "bart", "albert")
    models = [load(zoo.make(name, tmp_path / name), "cpu") for name in names]
    table = compared(models, max_sentences=8).tables["similarity"]
    assert table["cka"].notna().all()
    assert table["model_a"].nunique() == 3


def test_a_run_draws_its_matrices(minis: list[Model]) -> None:
    found = compared([minis[0], minis[3]], max_sentences=5)
    assert experiments()["similarity"] is SIMILARITY
    assert set(found.tables) == {"similarity", "words"}
    draw: Callable[..., Any] = SIMILARITY.drawings()["similarity"]
    figure = draw(found.tables)
    assert [len(trace.y) for trace in figure.data] == [5, 5, 6]
    stacks = ("encoder", "decoder")
    names = ("embeddings", "layer 1", "layer 2")
    assert list(figure.data[2].x) == [f"{stack} {name}" for stack in stacks for name in names]
    assert harmless(figure)["layout"]["height"] > 100


def test_the_layers_of_one_model_stand_next_to_those_of_its_random_twin(
    minis: list[Model],
) -> None:
    for model in (minis[0], minis[3]):
        found = compared([model], max_sentences=5)
        table = found.tables["similarity"]
        names = [model.name, f"{model.name}@random"]
        assert (table["model_a"] == table["model_b"]).all()
        assert (
            list(dict.fromkeys(table["model_a"])) == names == list(found.tables["words"]["model"])
        )
        layers = sum(stack.layers + 1 for stack in model.stacks)
        assert table.groupby("model_a").size().to_dict() == dict.fromkeys(names, layers**2)
        assert any(f"{model.name}@random is the same" in caveat.text for caveat in found.caveats)
        figure = SIMILARITY.drawings()["similarity"](found.tables)
        assert [len(trace.y) for trace in figure.data] == [layers, layers]
        alone = compared([model], max_sentences=5, random_twin=False).tables["similarity"]
        own = table[table["model_a"] == model.name].reset_index(drop=True)
        np.testing.assert_allclose(alone["cka"], own["cka"], atol=1e-9)
    again = compared([minis[3]], max_sentences=5).tables["similarity"]
    assert again.equals(table), "a seed, a twin"


def test_the_twin_of_a_twin_is_another(minis: list[Model]) -> None:
    fresh = shared("mini:bert@random")
    names = compared([fresh], max_sentences=5).tables["words"]["model"]
    assert list(names) == ["mini:bert@random", "mini:bert@random (2)"]


def test_progress_names_a_model_once(minis: list[Model]) -> None:
    said: list[str] = []

    class Heard(Silent):
        def __call__(self, done: int, total: int | None = None, doing: str = "") -> None:
            said.append(doing)

    inputs = Inputs((minis[0],), (wb.read("primer:size=200"),), "train", limit=5)
    run(inputs, Similarity(max_sentences=5), Heard())
    name = minis[0].name
    assert f"comparing layers: {name}" in said and f"comparing layers: {name}@random" in said
    assert not [doing for doing in said if " and " in doing]
