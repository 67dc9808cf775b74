"""The lens of the last layer is the model's own prediction, and tables are what their names say."""

import numpy as np
import pandas as pd
import pytest
import torch

import workbench as wb
from tests.minis import shared
from tests.models.headed import made
from tests.models.test_logits import HEADED
from tests.night import mostly
from workbench.analyses.lenses.lens import (
    Final,
    final_layers,
    lens,
    measured,
    open_lens,
    places_of,
    predictable,
)
from workbench.analyses.predictions.prediction import following, of_word, words_to_predict
from workbench.drawing.sanitize import harmless
from workbench.engine.model import Model

MINIS = ["mini:bert", "mini:gpt", "mini:t5", "mini:elmo"]
# families whose layers are read, with a head that can be scored
FAMILIES = [name for name in HEADED if name not in ("t5-6-12", "bart-12-6")]


def opened(name: str) -> Model:
    return shared(name) if name in MINIS else made(name, HEADED[name], False)


@pytest.mark.parametrize(
    "name", mostly((*MINIS, *FAMILIES), "mini:gpt", "mini:elmo", "bert", "xlnet", "t5-3-2")
)
def test_the_model_s_own_prediction_is_the_last_state_s(name: str) -> None:
    """And words read in batches are predicted as `of_word` predicts each."""
    model = opened(name)
    docs = list(wb.read("primer").docs("test", 3))
    batch = wb.encode(docs)
    words = predictable(model, batch)[:12]
    view = open_lens(model)
    assert not view.note
    n = 0
    with torch.no_grad():
        for places in places_of(model, batch, words):
            final, points = view.read(places)
            last = {point.stack: logits for point, logits in points}
            for logits in last.values():
                torch.testing.assert_close(logits, final, atol=1e-4, rtol=1e-4)
            for row in range(len(places)):
                document, word = words[n]
                alone = of_word(model, docs[document], word)
                torch.testing.assert_close(final[row], alone.logits()[0], atol=2e-4, rtol=1e-3)
                assert alone.gold == int(places.gold[row]) and alone.kind == places.kind
                n += 1
    assert n == len(words)


@pytest.mark.parametrize("name", MINIS)
def test_the_words_are_those_that_can_be_predicted(name: str) -> None:
    model = opened(name)
    docs = list(wb.read("primer").docs("test", 4))
    found = predictable(model, wb.encode(docs))
    for number, doc in enumerate(docs):
        known = [word for document, word in found if document == number]
        text = model.encode(wb.encode([doc]))
        unknown = set(text.words[0][model.unknown_pieces(text)[0]].tolist())
        assert known == [word for word in words_to_predict(model, doc) if word not in unknown]


@pytest.mark.parametrize("name", mostly(MINIS, "mini:gpt", "mini:t5"))
def test_one_word_is_read_as_in_the_grid(name: str) -> None:
    model = opened(name)
    grid = lens(model, "Ben walks to the hill.", sublayers=False)
    alone = lens(model, "Ben walks to the hill.", word="hill", sublayers=False)
    row = grid.table[grid.table["word"] == "hill"].reset_index(drop=True)
    numbers = ["agrees", "p_final", "rank_final", "kl", "entropy", "p_gold", "rank_gold", "nats"]
    np.testing.assert_allclose(
        row[numbers].astype(float), alone.table[numbers].astype(float), atol=1e-4, rtol=1e-3
    )
    assert "hill" in repr(grid) and "final from layer" in repr(alone)
    last = alone.table.groupby("stack").tail(1)
    assert (last["agrees"]).all() and last["kl"].max() < 1e-4
    assert (alone.choices.groupby(["stack", "layer"])["probability"].sum() <= 1 + 1e-6).all()


def test_measures_by_hand() -> None:
    p = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]], dtype=torch.float64)
    q = torch.tensor([[0.2, 0.7, 0.1], [0.2, 0.5, 0.3]], dtype=torch.float64)  # in the end
    found = measured(p.log(), Final.of(q.log()), torch.tensor([2, 0]))
    assert found["agrees"].tolist() == [False, True]
    assert found["p_final"].tolist() == pytest.approx([0.3, 0.6])
    assert found["rank_final"].tolist() == [2, 1]
    assert found["correct"].tolist() == [False, False]
    assert found["p_gold"].tolist() == pytest.approx([0.2, 0.1])
    assert found["rank_gold"].tolist() == [3, 3]
    assert found["nats"].tolist() == pytest.approx([-np.log(0.2), -np.log(0.1)])
    kl = [
        sum(b * np.log(b / a) for a, b in zip(*row, strict=True))
        for row in zip(p.numpy(), q.numpy(), strict=True)
    ]
    assert found["kl"].tolist() == pytest.approx([float(each) for each in kl])
    entropy = [-sum(float(a * torch.log(a)) for a in row) for row in p]
    assert found["entropy"].tolist() == pytest.approx(entropy)


def test_the_layer_from_which_a_prediction_is_final() -> None:
    agrees = np.array([[1, 0, 0, 1], [0, 1, 0, 1], [1, 1, 1, 1]], dtype=bool)  # [layers, places]
    assert final_layers(agrees).tolist() == [2, 1, 2, 0]


def test_a_prediction_after_the_text_has_no_gold() -> None:
    model = opened("mini:gpt")
    doc = next(iter(wb.read("primer").docs("test", 1)))
    reading = lens(model, following(model, doc), top=3)
    assert "nats" not in reading.table and len(reading.choices) == 3 * len(reading.table)
    best = reading.choices[reading.choices["rank"] == 1]["choice"].iloc[-1]
    choice = int(following(model, doc).logits().argmax())
    assert best == model.choice_texts([choice])[0]


def test_what_cannot_be_read_is_refused_with_a_remedy() -> None:
    model = opened("mini:gpt")
    with pytest.raises(wb.WorkbenchError, match="word 0"):
        lens(model, "Ben walks.", word=0)
    with pytest.raises(wb.WorkbenchError, match="top"):
        lens(model, "Ben walks.", word=1, top=0)
    with pytest.raises(wb.WorkbenchError, match="empty"):
        lens(opened("mini:bert"), "")
    with pytest.raises(wb.WorkbenchError, match="'dog'"):
        lens(model, "Ben walks.", word="dog")
    bare = shared("mini:bert").copy()
    bare.language_model = ""
    with pytest.raises(wb.WorkbenchError, match="head"):
        lens(bare, "Ben walks.")


def test_tables_have_a_row_for_every_state() -> None:
    reading = lens(opened("mini:t5"), "Ben walks to the hill.", word=4)
    keys = reading.table[["stack", "layer", "sublayer"]].agg(lambda row: tuple(row), axis=1)
    assert list(keys) == [
        ("encoder", 0, "embeddings"), ("encoder", 1, "attention"), ("encoder", 1, "mlp"),
        ("encoder", 2, "attention"), ("encoder", 2, "mlp"),
        ("decoder", 0, "embeddings"), ("decoder", 1, "attention"),
        ("decoder", 1, "cross-attention"), ("decoder", 1, "mlp"),
        ("decoder", 2, "attention"), ("decoder", 2, "cross-attention"), ("decoder", 2, "mlp"),
    ]  # fmt: skip
    assert isinstance(reading.tables["final"], pd.DataFrame)


def test_a_text_whose_end_is_not_read_is_said_to_be_cut() -> None:
    reading = lens(opened("mini:bert"), "Ben walks to the hill . " * 20, word=3, sublayers=False)
    assert "its end was not read" in reading.notes[0] and "Note:" in repr(reading)
    with pytest.raises(wb.WorkbenchError, match="word 110"):
        lens(opened("mini:bert"), "Ben walks to the hill . " * 20, word=110)


@pytest.mark.parametrize(
    ("ref", "text"),
    [
        ("mini:bert", "Ben [MASK] to the [MASK]."),
        pytest.param("mini:t5", "Ben ___ to the hill.", marks=pytest.mark.slow),
        pytest.param("mini:gpt", "Ben walks to the ___.", marks=pytest.mark.slow),
        ("mini:elmo", "Ben walks ___ the hill."),
    ],
)
def test_the_hidden_words_of_a_text_are_read(ref: str, text: str) -> None:
    model = shared(ref)
    filled = wb.fill(model, text, top=1)
    last = wb.lens(model, text, top=1).choices.groupby("place").last()
    assert last["choice"].tolist() == [place.choices[0].text for place in filled.places]


@pytest.mark.parametrize("word", [None, 3])
def test_the_figure_has_words_and_choices_as_they_are(word: int | None) -> None:
    found = lens(opened("mini:gpt"), "Ben & Anna < Otto <", word=word, sublayers=False)
    found.choices["choice"] = "<0A>"
    (drawn,) = harmless(found.figure())["data"]
    assert {text for row in drawn["text"] for text in row} == {"&lt;0A&gt;"}
    if word is None:
        assert [name.strip() for name in drawn["x"]][:4] == ["&amp;", "Anna", "&lt;", "Otto"]
