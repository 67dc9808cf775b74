"""The lens of a task head against a plain loop over layers, and against blocks that do nothing."""

from pathlib import Path
from typing import Any

import pytest
import torch

import workbench as wb
from tests.analyses.predictions.task_folders import doc_of, with_head
from tests.judges.odd import run_here
from tests.minis import shared
from tests.models import headed
from tests.night import mostly
from workbench import WorkbenchError
from workbench.analyses.lenses.task_lens import labels_of_prediction, open_task_lens
from workbench.analyses.predictions.prediction import labelled
from workbench.engine.task import Labelling as Kind
from workbench.experiment.definition import EXPERIMENTS, unmet_requirements
from workbench.models.references import facts

TEXT = "Ben walks to the old house on the hill ."
HEADS: list[tuple[Kind, bool, bool]] = [
    ("class", False, False), ("class", True, False), ("class", False, True),
    ("score", False, False), ("tags", False, False), ("answers", True, False),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "pairs", "lstm"), mostly(HEADS, HEADS[2], *HEADS[4:]))
def test_each_layer_is_read_as_by_a_plain_loop(
    kind: Kind, pairs: bool, lstm: bool, tmp_path: Path
) -> None:
    model = with_head(shared("mini:bert"), tmp_path, kind, pairs, lstm)
    doc = doc_of(TEXT, "He is old ." if pairs else "")
    with torch.no_grad():
        for prediction in labelled(model, doc):
            own = prediction.logits()
            states = model.states(prediction.text)
            final, points = open_task_lens(model).read(labels_of_prediction([prediction]))
            layers = [logits for _, logits in points]
            assert len(layers) == len(states) == 5
            if kind != "score":
                assert torch.allclose(final, own, atol=1e-5) and torch.equal(layers[-1], final)
            for layer, logits in enumerate(layers):
                seen = [states[j if j < layer else layer] for j in range(len(states))]
                expected = prediction.head_logits(lambda _, s=seen: s, prediction.text)
                assert torch.allclose(logits, expected, atol=1e-5) or kind == "score"
    reading = wb.lens(model, doc)
    ends = reading.table.query("layer == 4")
    assert ends["agrees"].all() and reading.final["layer"].max() <= 4
    places = {"class": 1, "score": 1, "tags": 10, "answers": 2}[kind]
    assert len(reading.table) == 5 * places and str(reading).count("final from") >= 1
    assert reading.figure().data


@pytest.mark.parametrize("name", ["mini:gpt", "mini:t5", "mini:elmo"])
def test_the_last_layer_is_the_output_of_every_family(name: str, tmp_path: Path) -> None:
    model = with_head(shared(name), tmp_path, "class")
    (prediction,) = labelled(model, doc_of(TEXT))
    with torch.no_grad():
        final, points = open_task_lens(model).read(labels_of_prediction([prediction]))
        assert torch.allclose(final, prediction.logits(), atol=1e-5)
        assert len(list(points)) == model.stacks[0].layers + 1


def test_a_layer_is_read_as_if_later_blocks_added_nothing(tmp_path: Path) -> None:
    """Also through the final norm, which the last state of a decoder has."""
    model: Any = with_head(wb.load("mini:gpt", device="cpu"), tmp_path, "class")
    (prediction,) = labelled(model, doc_of(TEXT))
    with torch.no_grad():
        _, points = open_task_lens(model).read(labels_of_prediction([prediction]))
        found = [logits for _, logits in points]
        for layer in (3, 2, 1, 0):
            block = model.net.transformer.h[layer]
            for part in (block.attn.c_proj, block.mlp.c_proj):
                part.weight.zero_()
                part.bias.zero_()
            assert torch.allclose(found[layer], prediction.logits(), atol=1e-5)
            assert not torch.allclose(found[layer], found[4], atol=1e-3)


def test_a_text_classifier_is_read_by_its_own_end() -> None:
    model = headed.made("bert", "BertForSequenceClassification", False)
    reading = wb.lens(model, TEXT)
    with torch.no_grad():
        (prediction,) = labelled(model, doc_of(TEXT))
        states = model.states(prediction.text)
        for n, state in enumerate(states):
            expected = model.net.classifier(model.net.bert.pooler(state)).softmax(-1)[0]
            rows = reading.choices[reading.choices["layer"] == n].set_index("choice")["probability"]
            for choice, share in zip(model.classes, expected.tolist(), strict=True):
                assert rows[choice] == pytest.approx(share, abs=1e-5)


def test_the_decoder_of_a_classifier_is_read() -> None:
    model = headed.made("bart", "BartForSequenceClassification", False)
    reading = wb.lens(model, TEXT)
    assert set(reading.table["stack"]) == {"decoder"}
    own = dict(zip(reading.choices["choice"], reading.choices["probability"], strict=True))
    expected = wb.predict(model, TEXT).table.set_index("class")["probability"]
    assert own == pytest.approx(expected.to_dict(), abs=1e-5)  # of the last layer


def test_a_score_is_shown_as_in_the_corpus(tmp_path: Path) -> None:
    model = with_head(shared("mini:bert"), tmp_path, "score")
    reading = wb.lens(model, TEXT)
    (guess,) = wb.predict(model, TEXT).table["score"]
    assert float(reading.table["score"].iloc[-1]) == pytest.approx(float(guess), abs=0.01)
    assert "nan" not in str(reading)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    model = with_head(shared("mini:bert"), tmp_path, "class", pairs=True)
    with pytest.raises(WorkbenchError, match="two texts"):
        wb.lens(model, TEXT)
    with pytest.raises(WorkbenchError, match="tag"):
        wb.lens(model, TEXT, second="Yes.", word=1)
    head = wb.load(str(tmp_path), device="cpu").task_head
    assert head.task.pairs


# --- over a corpus --------------------------------------------------------------------------------


def run(model: Any, corpus: str, **settings: Any) -> Any:
    return run_here("lens", model, wb.read(corpus), max_sentences=40, **settings)


def test_texts_are_grouped_by_their_true_class(tmp_path: Path) -> None:
    model = with_head(shared("mini:bert"), tmp_path, "class")
    found = run(model, "primer/sentiment:size=200", random_models=2)
    assert set(found.tables["groups"]["by"]) == {"all", "label"}
    assert set(found.tables["layers"]["sublayer"]) == {"embeddings", "mlp"}
    ends = found.tables["layers"].query("weights == 'model' and layer == 4").set_index("measure")
    assert ends.loc["agreement", "value"] == 1
    assert list(found.tables["tests"]["comparison"]) == ["accuracy"]
    texts = " ".join(caveat.text for caveat in found.caveats)
    assert "attention" in texts and "same task head" in texts
    assert len(EXPERIMENTS["lens"].findings_of(found.tables)) == 3
    for draw in EXPERIMENTS["lens"].drawings().values():
        assert draw(found.tables).data


def test_without_true_labels_only_agreement_is_measured(tmp_path: Path) -> None:
    model = with_head(shared("mini:bert"), tmp_path, "class")
    found = run(model, "primer:size=200", random_models=0, max_predictions=20)
    assert "accuracy" not in set(found.tables["layers"]["measure"])
    assert found.tables["groups"]["accuracy"].isna().all() and not len(found.tables["tests"])
    assert any("true labels" in caveat.text for caveat in found.caveats)
    assert len(EXPERIMENTS["lens"].findings_of(found.tables)) == 2
    for name, draw in EXPERIMENTS["lens"].drawings().items():
        assert draw(found.tables).data, name


def test_a_text_classifier_predicts_texts() -> None:
    model = headed.made("bert", "BertForSequenceClassification", False)
    found = run(model, "primer/sentiment:size=200", random_models=1)
    assert found.tables["layers"]["n"].eq(20).all()  # texts of test


def test_what_is_refused_before_a_run(tmp_path: Path) -> None:
    """A head of scores, and a language-model head that is not what the model was made for."""
    about = {
        kind: facts(with_head(shared("mini:bert"), tmp_path / kind, kind))
        for kind in ("class", "score", "answers")
    }
    refused = {
        (name, kind): bool(
            unmet_requirements(EXPERIMENTS[name], EXPERIMENTS[name].settings(), [of])
        )
        for name in ("lens", "tuned-lens", "contributions")
        for kind, of in about.items()
    }
    assert {each for each, is_refused in refused.items() if is_refused} == {
        ("lens", "score"), ("tuned-lens", "class"), ("tuned-lens", "score"),
        ("tuned-lens", "answers"), ("contributions", "score"), ("contributions", "answers"),
    }  # fmt: skip
    (error,) = unmet_requirements(
        EXPERIMENTS["tuned-lens"], EXPERIMENTS["tuned-lens"].settings(), [about["class"]]
    )
    assert "was made for" in str(error) and "--objective language-model" in str(error.remedy)
