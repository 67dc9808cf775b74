"""The experiment `lens` on texts and models whose answer is known."""

from typing import Any

import numpy as np
import pytest
import torch
from spacy.tokens import Doc

import workbench as wb
from tests.judges.odd import run_here
from tests.minis import shared
from tests.night import mostly
from workbench.core.stats import p_value_beyond
from workbench.corpora.layers import vocabulary
from workbench.experiment.definition import EXPERIMENTS


def untagged(*texts: list[str]) -> wb.Corpus:
    docs = [Doc(vocabulary("en"), words=words) for words in texts]
    return wb.Corpus("untagged", {"test": lambda: iter(docs)})


@pytest.mark.parametrize(
    "name", mostly(("mini:bert", "mini:gpt", "mini:t5", "mini:elmo"), "mini:t5")
)
def test_tables_of_every_kind_of_model(name: str) -> None:
    model = shared(name)
    settings = {"max_predictions": 12, "random_models": 2, "max_sentences": 12}
    result = run_here("lens", model, wb.read("primer"), **settings)
    again = run_here("lens", model, wb.read("primer"), **settings)
    declared = EXPERIMENTS["lens"]
    for table, found in result.tables.items():
        keys = list(declared.tables[table].keys)
        assert not found.duplicated(keys).any()
        assert found.equals(again.tables[table])
        if {"lower", "upper"} <= set(found.columns):
            value = {"layers": "value", "final": "cumulative", "groups": "mean_layer"}.get(
                table, "difference"
            )
            assert (found["lower"] <= found[value] + 1e-9).all()
            assert (found[value] <= found["upper"] + 1e-9).all()
    layers = result.tables["layers"]
    stacks = [stack.name for stack in model.stacks]
    assert list(layers["stack"].unique()) == stacks
    ends = layers[(layers["layer"] == model.stacks[-1].layers) & (layers["sublayer"] == "mlp")]
    ends = ends[ends["stack"] == stacks[-1]]
    own = ends[ends["weights"] == "model"].set_index("measure")["value"]
    assert own["agreement"] == 1 and own["kl"] == pytest.approx(0, abs=1e-4)
    assert set(layers["weights"]) == {"model", "random"}
    shares = result.tables["final"].groupby(["stack", "by", "group"])["share"].sum()
    np.testing.assert_allclose(shares, 1.0)
    assert 3 <= len(declared.findings_of(result.tables)) <= 7
    for draw in declared.drawings().values():
        assert draw(result.tables).data


def test_a_block_that_does_nothing_decides_nothing() -> None:
    """With the last two blocks passed through, every prediction is final from layer 2."""
    model: Any = wb.load("mini:gpt", device="cpu")
    with torch.no_grad():
        for block in model.net.transformer.h[2:]:
            for part in (block.attn.c_proj, block.mlp.c_proj):
                part.weight.zero_()
                part.bias.zero_()
    tables = run_here(
        "lens", model, wb.read("primer"), max_predictions=40, random_models=0, max_sentences=30
    ).tables
    final = tables["final"].query("by == 'all'").set_index("layer")["cumulative"]
    assert final[2] == 1 and final[1] < 1
    layers = tables["layers"].query("measure == 'kl'").set_index(["layer", "sublayer"])["value"]
    assert layers[3, "attention"] == pytest.approx(0, abs=1e-6)
    assert layers[2, "mlp"] == pytest.approx(0, abs=1e-6) and layers[2, "attention"] > 0.01


def test_texts_without_tags_are_read_and_said_to_have_none() -> None:
    corpus = untagged(*[["The", "dog", "walks", "to", "the", "house", "."]] * 3)
    result = run_here("lens", shared("mini:bert"), corpus, random_models=0)
    assert set(result.tables["groups"]["by"]) == {"all", "frequency"}
    assert "function words" not in set(result.tables["tests"]["comparison"])
    texts = " ".join(caveat.text for caveat in result.caveats)
    assert "parts of speech" in texts and "3 sentences" in texts
    assert EXPERIMENTS["lens"].findings_of(result.tables)
    for draw in EXPERIMENTS["lens"].drawings().values():
        assert draw(result.tables).data


def test_texts_without_a_word_to_predict_are_an_error() -> None:
    with pytest.raises(wb.WorkbenchError, match="word"):
        run_here("lens", shared("mini:gpt"), untagged(["Ben"]))


def test_p_values_against_random_weights() -> None:
    null, draws = np.array([-0.1, 0.0, 0.1, 0.05, -0.05]), np.full(1000, -1.0)
    assert p_value_beyond(-1.0, null, draws) < 0.001
    assert p_value_beyond(0.02, null, draws) > 0.5
    assert p_value_beyond(-1.0, null[:1], draws) == 1.0
    assert p_value_beyond(-1.0, np.zeros(5), draws) < 0.01  # random models that all say the same
    assert p_value_beyond(0.0, np.zeros(5), np.zeros(1000)) == 1.0
