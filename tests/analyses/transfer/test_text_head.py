"""A model whose decoder writes labels: its losses, its labels and what it says it predicts."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import workbench as wb
from tests.minis import shared
from workbench import Model, WorkbenchError
from workbench.corpora.encode import encode
from workbench.corpora.task_gold import gold_of
from workbench.engine.task import Task
from workbench.models.output_heads.text_head import TextHead, class_texts
from workbench.models.references import located
from workbench.models.scoring.eval_tasks import eval_task_of

TEXTS = ["the plan was awful", "Ann likes the nice old hill"]


def writer(kind: str = "sentiment", names: tuple[str, ...] = ("negative", "positive")) -> Model:
    model = shared("mini:t5")
    return model.with_task_head(TextHead(Task(kind, "text", kind, names, False, "accuracy")))


def test_the_loss_is_that_of_the_whole_text_in_plain_transformers() -> None:
    model: Any = writer()
    batch = encode([_doc(text) for text in TEXTS])
    aim = eval_task_of(model, ("negative", "positive"))
    (question,) = aim.questions(model, batch)
    with torch.no_grad():
        scores = aim.answer(model, question)
    net = AutoModelForSeq2SeqLM.from_pretrained(located("mini:t5")).eval()
    tokenizer = AutoTokenizer.from_pretrained(located("mini:t5"))
    texts = class_texts(tokenizer, ("negative", "positive"))
    for row, order in enumerate(question.order):
        read = tokenizer(TEXTS[order], return_tensors="pt")
        label = tokenizer(texts[order], return_tensors="pt").input_ids
        with torch.no_grad():
            expected = float(net(**read, labels=label).loss) * label.shape[1]
        assert float(scores.nats[row]) == pytest.approx(expected, rel=1e-4)
    assert scores.number.tolist() == [1, 1]


def _doc(text: str) -> Any:
    from spacy.tokens import Doc
    from spacy.vocab import Vocab

    return Doc(Vocab(), text.split())


def test_a_label_is_right_if_exactly_its_text_would_be_written() -> None:
    model: Any = writer(names=())
    batch = encode([_doc(text) for text in TEXTS])
    head = model.task_head
    with torch.no_grad():
        read = head.read(model, model.encode(batch).to("cpu"), torch.zeros(2, 9))
        written = head.guesses(read, read, [])
        assert head.scores(read, [text + " a" for text in written], read).right.tolist() == [0, 0]


def test_gold_labels_as_text() -> None:
    doc = _doc("It rains .")
    doc._.labels = {"score": 3.33, "kind": "calm"}
    assert gold_of(doc, Task("score", "text", "score", (), False, "accuracy")) == "3.4"
    assert gold_of(doc, Task("kind", "text", "kind", ("calm",), False, "accuracy")) == "calm"
    assert gold_of(doc, Task("kind", "text", "kind", ("wild",), False, "accuracy")) is None
    assert gold_of(doc, Task("q", "text", "answers", (), True, "accuracy")) == ""


def test_it_says_what_it_predicts_and_is_a_language_model_on_request(tmp_path: Path) -> None:
    model = writer()
    model.save(tmp_path)
    again = wb.load(tmp_path, device="cpu")
    assert str(again.predicts) == "sentiment (the label of a text, as text: negative, positive)"
    for explain in (wb.attribute, wb.lens, wb.generate, wb.fill):
        with pytest.raises(WorkbenchError, match="objective='language-model'"):
            explain(again, "the plan was ___")
    plain = wb.load(tmp_path, device="cpu", objective="language-model")
    assert plain.objective == "seq2seq"
    assert wb.generate(plain, "the plan", 2).written == wb.generate(
        shared("mini:t5"), "the plan", 2
    ).written  # fmt: skip


def test_written_labels_stand_next_to_each_other() -> None:
    table = wb.predict([writer(), writer()], TEXTS[0]).table
    assert table.columns.tolist() == ["model", "text", "written"]
    assert table["text"].tolist() == [TEXTS[0]] * 2


def test_the_predictions_are_those_of_the_run_that_tuned_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    corpus = wb.read("primer/sentiment:size=100")
    run = wb.run(
        "finetune", model="mini:t5", corpus=corpus, head="text", seeds=[0], max_train=40,
        max_dev=4, max_test=6, max_epochs=6, patience=6, batch_size=8, learning_rates=[3e-3],
        device="cpu",
    )  # fmt: skip
    model: Any = wb.load(run.name, device="cpu")
    losses = run.tables["learning"]["loss"]
    assert losses.iloc[-3:].mean() < 0.7 * losses.iloc[:3].mean()
    assert run.tables["scores"]["trainable"].gt(1e6).all(), "decoder and all"
    table = run.tables["predictions"]
    texts = table["said"].tolist()
    # which of both the few steps have learnt to write depends on the rounding of the processor
    assert set(table["guess"]) & {"negative", "positive"}
    written = [wb.predict(model, _doc(text)).guess for text in texts]  # type: ignore[union-attr]
    for label in ("negative", "positive"):  # right exactly where the decoder writes it
        aim = eval_task_of(model, [label] * len(texts))
        right = {}
        for question in aim.questions(model, encode([_doc(text) for text in texts])):
            with torch.no_grad():
                scores = aim.answer(model, question)
            right |= dict(zip(question.order, scores.right.tolist(), strict=True))
        expected = [guess == label for guess in written]
        assert [bool(right[index]) for index in range(len(texts))] == expected
    for row in table.head(3).itertuples():
        said = wb.predict(model, row.said).guess  # type: ignore[union-attr]
        assert row.guess == (said if said in ("negative", "positive") else "(none of them)")
    importance = wb.run("head-importance", model=model, corpus=corpus, max_sentences=2)
    assert importance.tables["objective"]["objective"].item() == "text"
