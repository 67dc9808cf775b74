"""Written texts are those of transformers' own generation, with the model's probabilities."""

import pytest
import torch

import workbench as wb
from tests.analyses.predictions.test_predict import CAUSAL, WRITERS, model_of, transformer
from tests.models.test_logits import HEADED
from tests.night import mostly
from workbench import WorkbenchError
from workbench.analyses.predictions.prediction import following, written
from workbench.analyses.predictions.results import Generated, WrittenPiece
from workbench.corpora.encode import doc_of

TEXT = "The dog walks to the"
BY_DAY = ("gpt2", "t5-3-2", "bart-3-2", "mini:gpt")


@pytest.mark.parametrize("name", mostly((*CAUSAL, *WRITERS, "mini:gpt", "mini:t5"), *BY_DAY))
def test_greedy_pieces_are_those_of_transformers(name: str) -> None:
    model = transformer(name)
    inputs = model.tokenizer(TEXT, return_tensors="pt")
    ids = model.net.generate(  # type: ignore[operator]
        input_ids=inputs["input_ids"],
        attention_mask=inputs["attention_mask"],
        max_new_tokens=6,
        do_sample=False,
        forced_eos_token_id=None,
        use_cache=name not in ("t5", "mt5"),  # transformers' cache has the encoder's layers only
    )
    first = inputs["input_ids"].shape[1] if name in CAUSAL or name == "mini:gpt" else 1
    result = wb.generate(model, TEXT, 6)
    assert [step.index for step in result.steps] == ids[0, first:].tolist()


@pytest.mark.parametrize(
    "name", mostly((*CAUSAL, *WRITERS, "mini:gpt", "mini:t5", "mini:elmo"), *BY_DAY, "mini:elmo")
)
def test_every_step_has_the_probability_of_a_pass_without_a_cache(name: str) -> None:
    model = model_of(name)
    doc = doc_of(TEXT)
    result = wb.generate(model, TEXT, 4, top=3)
    ids: list[int] = []
    for step in result.steps:
        if model.objective == "seq2seq":
            prediction = written(model, doc, ids)
        elif model.objective == "causal":
            start = following(model, doc)
            more = torch.tensor([[*start.text.ids[0].tolist(), *ids]])
            batch = start.text.columns(torch.tensor([0] * more.shape[1]))
            batch.ids[0] = more[0]
            from dataclasses import replace

            prediction = replace(start, text=batch, position=more.shape[1] - 1)
        else:
            words = [TEXT, *model.choice_texts(ids)]
            prediction = following(model, doc_of(" ".join(words)))
        with torch.no_grad():
            shares = prediction.logits()[0].softmax(-1)
        assert step.probability == pytest.approx(float(shares[step.index]), abs=1e-4)
        assert [choice.probability for choice in step.choices] == pytest.approx(
            shares.topk(3).values.tolist(), abs=1e-4
        )
        ids.append(step.index)


def test_every_architecture_with_a_decoder_is_tested() -> None:
    decoders = {name for name, kind in HEADED.items() if "Masked" not in kind and name != "xlnet"}
    assert decoders - {"t5-6-12", "bart-12-6"} == {*CAUSAL, *WRITERS}


@pytest.mark.parametrize("name", ["mini:gpt", "mini:t5", "mini:elmo"])
def test_pieces_arrive_one_by_one_and_make_the_text(name: str) -> None:
    seen: list[WrittenPiece] = []
    result = wb.generate(model_of(name), "Ben walks", 8, on_piece=seen.append)
    assert tuple(seen) == result.steps
    assert "".join(piece.text for piece in seen) == result.written
    assert len(result.table) == len(seen) <= 8
    assert len(result.choices) == 5 * len(seen)
    product = torch.tensor([step.probability for step in seen], dtype=torch.float64).prod()
    assert result.probability == pytest.approx(float(product))
    if name == "mini:t5":
        tokens = transformer(name).tokenizer
        whole = tokens.decode([step.index for step in seen], skip_special_tokens=True)
        assert result.written == whole


@pytest.mark.parametrize("name", mostly(("mini:gpt", "mini:t5", "mini:elmo"), "mini:gpt"))
def test_a_seed_gives_the_same_text_and_does_not_move_the_generator_outside(name: str) -> None:
    model = model_of(name)
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    texts = [
        wb.generate(model, "Ben walks", 10, sample=True, temperature=1.5, seed=seed).written
        for seed in (0, 0, 1, 2)
    ]
    assert torch.equal(torch.rand(1), expected)
    assert texts[0] == texts[1]
    assert len(set(texts)) > 1
    nearly = wb.generate(model, "Ben walks", 6, sample=True, top_p=1e-6)
    assert nearly.written == wb.generate(model, "Ben walks", 6).written


def test_a_decoder_stops_at_its_end_piece() -> None:
    result = wb.generate(model_of("mini:t5"), "Ben walks to the", 40)
    assert result.ended
    assert result.steps[-1].piece == "</s>"
    assert len(result.steps) < 40
    assert "…" not in repr(result)
    assert not wb.generate(model_of("mini:t5"), "Ben walks to the", 1).ended


def test_a_model_writes_no_more_pieces_than_it_has_positions() -> None:
    model = model_of("mini:gpt")
    result = wb.generate(model, "Ben walks to the hill. " * 40, 500)
    assert len(result.steps) <= 32 or result.ended
    assert "last" in result.notes[0]


def test_answers_and_summaries_of_an_encoder_decoder_have_the_prefixes_of_t5() -> None:
    model = model_of("mini:t5")
    answered = wb.answer(model, "Who walks?", "Ben walks.", max_pieces=3)
    assert isinstance(answered, Generated)
    assert answered.text == "question: Who walks? context: Ben walks."
    plain = wb.generate(model, answered.text, 3)
    assert answered.written == plain.written
    assert "trained for this task" in answered.notes[-1]
    summary = wb.summarise(model, "Ben walks.", 3)
    assert summary.text == "summarize: Ben walks."
    assert wb.summarise(transformer("bart"), "Ben walks.", 3).text == "Ben walks."
    with pytest.raises(WorkbenchError, match="answers"):
        wb.answer(model_of("mini:gpt"), "Who?", "Ben.")
