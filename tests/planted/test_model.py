"""Planted models are whole ones: they answer, take padding and batches, and live in a folder."""

from pathlib import Path

import pytest
import torch
from spacy.tokens import Doc
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

from tests.planted import bert, gpt2
from tests.planted.look import BUILDERS, eager, random_pieces, run
from tests.planted.model import Planted
from tests.planted.signs import CODE, HEAD_WIDTH, LAYERS, PLACES, signs
from tests.planted.words import START, planted_docs


def test_hidden_states_are_signs_and_nothing_else(planted: Planted, docs: list[Doc]) -> None:
    states = run(planted, [planted.pieces(doc) for doc in docs[:50]]).hidden_states
    assert len(states) == 1 + LAYERS
    for state in states:
        assert (state.abs() - 1).abs().max() < 1e-5
        assert state.sum(-1).abs().max() < 1e-4


def test_bert_answers_with_the_piece_before_until_its_previous_head_is_gone() -> None:
    planted = eager(bert.build())
    pieces = planted.pieces(planted_docs(1)[0])
    answers = run(planted, [pieces]).logits[0]  # [pieces, vocabulary]
    ids = planted.tokenizer.convert_tokens_to_ids(pieces)
    assert answers.argmax(-1).tolist()[2:] == ids[1:-1]
    assert answers[2:].max() == pytest.approx(2 * CODE, abs=1e-3)
    assert answers[:2].abs().max() < 1e-3  # [CLS] is before them, and has no code
    assert silence(planted, "bert.encoder.layer.{}.attention.output.dense.weight") == {"previous"}


def test_gpt2_repeats_itself_until_either_head_of_the_circuit_is_gone() -> None:
    planted = eager(gpt2.build())
    block = random_pieces(planted, 21, seed=1)
    pieces = block + block[1:]
    answers = run(planted, [pieces]).logits[0]  # [pieces, vocabulary]
    ids = planted.tokenizer.convert_tokens_to_ids(pieces)
    assert answers[21:-1].argmax(-1).tolist() == ids[22:]
    assert answers[:21].abs().max() < 1e-3  # nothing to repeat yet
    gone = silence(planted, "transformer.h.{}.attn.c_proj.weight", transposed=True)
    assert gone == {"previous", "induction"}


def test_gpt2_goes_on_repeating_when_it_generates() -> None:
    planted = gpt2.build()
    planted.tokenizer.padding_side = "left"
    texts = ["The old dog saw Alfred. The old", "A lamp ran. A"]
    batch = planted.tokenizer(texts, padding=True, return_tensors="pt")
    generated = planted.model.generate(
        input_ids=batch["input_ids"],
        attention_mask=batch["attention_mask"],
        max_new_tokens=4,
        do_sample=False,
    )
    assert planted.tokenizer.batch_decode(generated[:, -4:]) == [" dog saw Alfred.", " lamp ran. A"]


def silence(planted: Planted, output: str, transposed: bool = False) -> set[str]:
    """Cut each head's output off; the heads whose loss makes all logits 0, while others' is nil."""
    pieces = [random_pieces(planted, 11, seed=2)]
    pieces[0] += pieces[0][1:]
    before = run(planted, pieces).logits
    found = set()
    for head, (layer, place) in planted.heads.items():
        matrix = planted.model.state_dict()[output.format(layer)]
        matrix = matrix.T if transposed else matrix
        columns = slice(place * HEAD_WIDTH, (place + 1) * HEAD_WIDTH)
        kept = matrix[:, columns].clone()
        with torch.no_grad():
            matrix[:, columns] = 0
            after = run(planted, pieces).logits
            matrix[:, columns] = kept
        if after.abs().max() < 1e-3:
            found.add(head)
        else:
            assert torch.equal(after, before), head
    return found


def test_the_separator_has_no_value_though_other_pieces_have() -> None:
    planted = eager(bert.build())
    pieces = planted.pieces(planted_docs(1)[0])
    layer, place = planted.heads["separator"]
    states = run(planted, [pieces]).hidden_states[layer][0]
    matrix = planted.model.state_dict()[f"bert.encoder.layer.{layer}.attention.self.value.weight"]
    values = states @ matrix[place * HEAD_WIDTH : (place + 1) * HEAD_WIDTH].T  # [pieces, width]
    special = [planted.facts[piece].rank == 0 for piece in pieces]
    assert (values.norm(dim=-1) == 0).tolist() == special


@pytest.mark.parametrize("side", ["left", "right"])
def test_neither_padding_nor_company_changes_anything(
    side: str, planted: Planted, docs: list[Doc]
) -> None:
    texts = [planted.pieces(doc) for doc in docs[:12]]
    texts.append(random_pieces(planted, 60, seed=0))
    together = run(planted, texts, side)
    for at, text in enumerate(texts):
        alone = run(planted, [text])
        own = slice(-len(text), None) if side == "left" else slice(len(text))
        assert torch.allclose(together.logits[at, own], alone.logits[0], atol=1e-4)
        for many, one in zip(together.attentions, alone.attentions, strict=True):
            assert torch.allclose(many[at][:, own, own], one[0], atol=1e-5)


def test_a_folder_brings_back_the_same_model(
    planted: Planted, docs: list[Doc], tmp_path: Path
) -> None:
    planted.save(tmp_path)
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {
        path.name for path in tmp_path.iterdir()
    }
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    model = AutoModel.from_pretrained(tmp_path, attn_implementation="eager")
    heads = AutoModelForCausalLM if planted.causal else AutoModelForMaskedLM
    whole = heads.from_pretrained(tmp_path)
    planted.tokenizer.padding_side = "right"
    texts = [doc.text for doc in docs[:20]] + ["Zebras didn't sing of 1066!"]
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    assert torch.equal(
        batch["input_ids"], planted.tokenizer(texts, padding=True, return_tensors="pt")["input_ids"]
    )
    with torch.inference_mode():
        before = planted.model(**batch, output_attentions=True, output_hidden_states=True)
        after = model(**batch, output_attentions=True)
        logits = whole(**batch).logits
    assert all(map(torch.equal, before.attentions, after.attentions))
    assert torch.equal(before.hidden_states[-1], after.last_hidden_state)
    assert torch.allclose(before.logits, logits, atol=1e-4)


def test_the_folder_lacks_nothing_that_automodel_wants(tmp_path: Path) -> None:
    """Else a pooler with random weights would make every loading another model."""
    for build in BUILDERS.values():
        build().save(tmp_path)
        _, report = AutoModel.from_pretrained(tmp_path, output_loading_info=True)
        assert not report["missing_keys"] and not report["mismatched_keys"]


def test_building_is_the_same_each_time_and_leaves_the_global_seed_alone() -> None:
    for build in BUILDERS.values():
        torch.manual_seed(1)
        expected = torch.rand(1)
        torch.manual_seed(1)
        one, two = build().model.state_dict(), build().model.state_dict()
        assert torch.equal(torch.rand(1), expected)
        assert all(torch.equal(one[name], two[name]) for name in one)


def test_bits_do_not_overflow_their_field() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        signs("place", [0, PLACES])


def test_the_first_piece_is_the_only_one_of_its_kind(planted: Planted) -> None:
    assert [p for p, fact in planted.facts.items() if fact.kind == START] == planted.pieces("")[:1]
