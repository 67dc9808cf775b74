"""The words that carry a written text: those of leave-one-out, piece by piece."""

import copy
from typing import Any

import numpy as np
import pytest
import torch

import workbench as wb
from tests.minis import shared
from tests.models import headed
from tests.night import mostly
from workbench.analyses.asking.source import GROUPS, attended, carried
from workbench.analyses.attribution.methods import attribute_prediction
from workbench.analyses.predictions.explained import prediction_of
from workbench.analyses.predictions.target import Target

TEXT = "Ben walks to the hill. The girls were tall."


@pytest.mark.parametrize("ref", mostly(("mini:gpt", "mini:t5"), "mini:t5"))
def test_each_piece_has_the_scores_of_leave_one_out(ref: str) -> None:
    model = shared(ref)
    pieces = [step.index for step in wb.generate(model, TEXT, 4).steps]
    found = carried(model, TEXT, pieces, 4)
    for n, piece in enumerate(pieces):
        prediction, _ = prediction_of(model, TEXT, position=n + 1, so_far=pieces[:n])
        expected = attribute_prediction(
            prediction, Target(piece, measure="log-probability"), "leave-one-out"
        )
        known = {
            unit.word: score
            for unit, score in zip(expected.units, expected.scores.tolist(), strict=True)
            if unit.word >= 0 and not unit.fixed and unit.stack == expected.units[0].stack
        }
        assert found.of_words(n) == pytest.approx(known, abs=1e-4)
    whole = sum(np.array(list(found.of_words(n).values())) for n in range(len(pieces)))
    assert list(found.of_words().values()) == pytest.approx(whole)


def test_words_of_a_long_source_are_hidden_in_groups() -> None:
    model = shared("mini:t5")
    text = "Ben walks to the hill. " * 60
    shares: list[float] = []
    found = carried(model, text, [5, 7], on_progress=shares.append)
    assert len(found.groups) <= GROUPS and shares[-1] == 1
    words = [word for group in found.groups for word in group]
    assert words == sorted(set(words)) and len(words) < len(found.doc), "the end is not read"


@pytest.mark.parametrize("ref", ["mini:t5", "bart"])
def test_attention_is_that_of_bare_transformers(ref: str) -> None:
    model: Any = (
        shared(ref) if ":" in ref
        else headed.made("bart", "BartForConditionalGeneration")
    )  # fmt: skip
    pieces = [step.index for step in wb.generate(model, TEXT, 5).steps]
    found = attended(model, TEXT, pieces)
    net = copy.deepcopy(model.net)
    net.set_attn_implementation("eager")
    start = [net.config.decoder_start_token_id, *pieces[:-1]]
    read = model.tokenizer(TEXT, return_tensors="pt")
    with torch.no_grad():
        out = net(
            input_ids=read["input_ids"], decoder_input_ids=torch.tensor([start]),
            output_attentions=True,
        )  # fmt: skip
    mean = torch.stack(out.cross_attentions).mean((0, 2))[0]  # [written, read]
    offsets = model.tokenizer(TEXT, return_offsets_mapping=True)["offset_mapping"]
    special = {*model.tokenizer.all_special_ids}
    for n in range(len(pieces)):
        for word, score in found.of_words(n).items():
            token = found.doc[word]
            inside = [
                place for place, (a, b) in enumerate(offsets)
                if int(read["input_ids"][0, place]) not in special
                and a < token.idx + len(token) and (b > token.idx or a == b == token.idx)
            ]  # fmt: skip
            assert score == pytest.approx(float(mean[n, inside].sum()), abs=1e-5)
    assert set(found.of_words()) == set(range(len(found.doc)))


def test_a_decoder_is_scored_on_the_part_that_it_read() -> None:
    model = shared("mini:gpt")
    text = "Ben walks to the hill. " * 40
    pieces = [step.index for step in wb.generate(model, text, 8).steps]
    found = carried(model, text, pieces, 8)
    assert text.strip().endswith(found.doc.text.strip()) and len(found.doc) < 64
    assert found.scores.shape == (len(found.groups), len(pieces))


def test_a_word_that_a_text_copies_carries_it() -> None:
    """The end of a text is decided by its last words, not by a group of words far away."""
    model = shared("mini:gpt")
    text = "The girls were old. Ben walks to the"
    scores = carried(model, text, [step.index for step in wb.generate(model, text, 1).steps])
    by_word = {scores.doc[word].text: score for word, score in scores.of_words().items()}
    assert by_word["to"] + by_word["the"] > abs(by_word["girls"]) + abs(by_word["old"])


def test_what_reads_words_by_their_letters_hides_none() -> None:
    with pytest.raises(wb.WorkbenchError, match="letters"):
        carried(shared("mini:elmo"), TEXT, [3])
    with pytest.raises(wb.WorkbenchError, match="nothing"):
        carried(shared("mini:gpt"), TEXT, [])
