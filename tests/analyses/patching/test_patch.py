"""`wb.patch`: a planted circuit is found and nothing else, and every text is aligned or refused."""

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.analyses.predictions.known import KEY, planted
from tests.minis import shared
from tests.models.headed import made
from tests.night import mostly
from workbench.analyses.patching.alignment import matched, paired
from workbench.analyses.patching.patch import PatchEffects, patch_effects
from workbench.analyses.predictions.explained import prediction_of
from workbench.analyses.predictions.prediction import Prediction, of_word
from workbench.analyses.predictions.target import Target
from workbench.core.errors import WorkbenchError
from workbench.corpora.encode import doc_of, encode
from workbench.engine.task import Task
from workbench.models.huggingface import HuggingFace
from workbench.models.interventions import patching
from workbench.models.interventions.patching import What
from workbench.models.output_heads.task_heads import MixHead, Scale

CLOSE = {"atol": 1e-5, "rtol": 1e-5}
PAIRS = {  # a clean and a corrupt text of each kind of model
    "mini:bert": ("The girls ___ tall.", "The girl ___ tall."),
    "mini:gpt": ("The old girls", "The old girl"),
    "mini:t5": ("The girls ___ tall.", "The girl ___ tall."),
    "mini:elmo": ("The girls ___ tall.", "The girl ___ tall."),
}
WHAT: tuple[What, ...] = ("states", "heads", "mlps", "attentions")


@cache
def mini(name: str) -> Any:
    return shared(name)


def predictions(name: str, *texts: str) -> list[Prediction]:
    return [prediction_of(mini(name), text)[0] for text in texts]


def number(prediction: Prediction, target: Target) -> float:
    with torch.no_grad():
        return float(target.value(prediction.logits())[0])


# --- a planted circuit ----------------------------------------------------------------------------


def one_head() -> HuggingFace:
    """A BERT that reads one token by head 1 of layer 0; layer 1 and all MLPs write nothing."""
    model = planted()
    first, second = model.net.bert.encoder.layer
    with torch.no_grad():
        first.attention.output.dense.weight[:, :16] = 0  # head 0
        second.attention.output.dense.weight.zero_()
    return model


@pytest.mark.parametrize("what", WHAT)
def test_a_planted_circuit_is_found_and_nothing_else(what: What) -> None:
    model = one_head()
    texts = f"Ben {KEY} to [MASK]", "Ben hill to [MASK]"
    found = wb.patch(model, *texts, KEY, "Ben", what=what, by="all" if what == "heads" else "piece")
    effects = found.effects["encoder.self" if what in ("heads", "attentions") else "encoder"]
    expected = np.zeros(effects.shape)
    token, hidden = 2, 4  # pieces: [CLS] Ben … to [MASK] [SEP]
    if what == "states":  # the token, until the head has read it
        expected[0, token] = expected[1:, hidden] = 1
    elif what == "heads":
        expected[0, 1] = 1
    elif what == "attentions":
        expected[0, hidden] = 1
    np.testing.assert_allclose(effects, expected, atol=1e-4)


def test_a_planted_head_works_at_one_position() -> None:
    found = wb.patch(
        one_head(), f"Ben {KEY} to [MASK]", "Ben hill to [MASK]", KEY, "Ben",
        what="heads", by="word",
    )  # fmt: skip
    effects = found.effects["encoder.self"]  # [layers, heads, units]
    expected = np.zeros(effects.shape)
    expected[0, 1, 4] = 1
    np.testing.assert_allclose(effects, expected, atol=1e-4)
    row = found.table.loc[found.table["effect"].idxmax()]
    assert (row["layer"], row["head"], row["corrupt"], row["position"]) == (0, 1, "[MASK]", 4)


# --- everything, nothing, and the numbers ---------------------------------------------------------


def rounding(found: PatchEffects) -> float:
    """How far an effect may be off: it divides numbers that are off by `CLOSE` by a difference."""
    largest = max(abs(found.clean), abs(found.corrupt))
    return (CLOSE["atol"] + CLOSE["rtol"] * largest) / abs(found.difference)


@pytest.mark.parametrize("name", mostly(PAIRS, "mini:bert", "mini:t5"))
def test_everything_restored_is_the_clean_text(name: str) -> None:
    """All pieces of a layer together; in the decoder of T5, which writes the same, of the last."""
    clean, corrupt = predictions(name, *PAIRS[name])
    target = Target(5, 6)
    found = patch_effects(clean, corrupt, target, by="all")
    assert found.clean == pytest.approx(number(clean, target), abs=1e-6)
    assert found.corrupt == pytest.approx(number(corrupt, target), abs=1e-6)
    stacks = [stack.name for stack in clean.model.stacks]
    for cell, value in zip(found.cells, found.values, strict=True):
        point = cell.point
        if len(stacks) == 1 or point.stack == "encoder" or point.layer == 2:
            np.testing.assert_allclose(value, found.clean, **CLOSE)


@pytest.mark.parametrize("name", mostly(PAIRS, "mini:gpt", "mini:elmo"))
def test_the_default_number_is_that_of_the_two_top_choices(name: str) -> None:
    found = wb.patch(mini(name), *PAIRS[name])
    clean, corrupt = predictions(name, *PAIRS[name])
    tops = [int(each.logits()[0].argmax()) for each in (clean, corrupt)]
    assert (found.target, found.against) == clean.names(tops)
    target = Target(*tops)
    assert found.clean_value == pytest.approx(number(clean, target), abs=1e-5)
    assert found.corrupt_value == pytest.approx(number(corrupt, target), abs=1e-5)
    table = found.table
    gap = found.clean_value - found.corrupt_value
    np.testing.assert_allclose(
        table["effect"], (table["value"] - found.corrupt_value) / gap, atol=1e-12
    )
    assert list(table.columns) == [
        "stack", "layer", "position", "word", "corrupt", "clean", "value", "effect",
    ]  # fmt: skip
    for stack, grid in found.effects.items():
        assert grid.size == (table["stack"] == stack).sum()
    assert found.target.strip("▁") in repr(found) and "layer" in repr(found)


def test_of_two_texts_with_one_top_choice_its_log_probability_is_restored() -> None:
    model = mini("mini:bert")
    found = wb.patch(model, "The girls ___ tall.", "The boys ___ tall.")
    assert (found.against, found.measure) == ("", "log-probability")
    assert "log-probability" in found.notes[0]
    named = wb.patch(model, *PAIRS["mini:bert"], "were", "was", measure="probability")
    assert (named.target, named.against, named.measure) == ("were", "was", "probability")
    assert -1 <= named.corrupt_value < named.clean_value <= 1


# --- texts of different length --------------------------------------------------------------------


def test_words_of_different_texts_are_aligned_and_the_rest_is_a_gap() -> None:
    found = wb.patch(mini("mini:bert"), "The old girls ___ tall.", "The girl ___ very tall.")
    first = found.table[found.table["layer"] == 0]
    words = [tuple(row) for row in first[["clean", "corrupt", "position"]].to_numpy()]
    assert words == [
        ("[CLS]", "[CLS]", 0), ("The", "The", 1), ("old", "", -1), ("girls", "girl", 2),
        ("[MASK]", "[MASK]", 3), ("", "very", 4), ("tall", "tall", 5), (".", ".", 6),
        ("[SEP]", "[SEP]", 7),
    ]  # fmt: skip
    gaps = found.table["corrupt"].isin(["", "very"])
    assert found.table.loc[gaps, "effect"].isna().all()
    assert found.table.loc[~gaps, "effect"].notna().all()
    (note,) = found.notes
    assert "clean text: old" in note and "corrupt text: very" in note
    assert "(old)" in repr(found) and "·" in repr(found)


def test_a_word_of_other_pieces_is_a_gap() -> None:
    model = mini("mini:bert")
    one, other = "The girls ___ tall.", "The hippopotamus ___ tall."
    clean, corrupt = predictions("mini:bert", one, other)
    units, notes = paired(clean, corrupt, "word")
    (unit,) = [unit for unit in units if not unit.is_paired]
    assert (unit.clean, unit.corrupt) == ("girls", "hippopotamus")
    assert len(unit.positions) > 1 and "other numbers of pieces" in notes[0]
    pieces, _ = paired(clean, corrupt, "piece")
    assert [u.positions for u in pieces if not u.is_paired] == [unit.positions]
    assert wb.patch(model, one, other).table["effect"].isna().sum() == 5


@given(st.lists(st.sampled_from("abcd"), max_size=8), st.lists(st.sampled_from("abce"), max_size=8))
def test_every_word_is_aligned_once_and_in_order(one: list[str], other: list[str]) -> None:
    pairs = list(matched(one, other))
    for side, words in enumerate((one, other)):
        assert [pair[side] for pair in pairs if pair[side] is not None] == list(range(len(words)))
    same = [(a, b) for a, b in pairs if a is not None and b is not None]
    if one == other:
        assert len(same) == len(one) == len(pairs)


def test_the_hidden_word_is_hidden_in_both_texts() -> None:
    model = mini("mini:bert")
    one, other = "The girls were not tall.", "Now the girl was not tall."
    found = wb.patch(model, one, other, "were", "was", word="were")
    expected = Target(*(model.vocabulary[word] for word in ("were", "was")))
    assert found.clean_value == pytest.approx(number(of_word(model, doc_of(one), 2), expected))
    assert found.corrupt_value == pytest.approx(number(of_word(model, doc_of(other), 3), expected))


@pytest.mark.parametrize("name", ["mini:gpt", "mini:t5", "mini:elmo"])
def test_what_is_written_before_is_that_of_the_clean_text(name: str) -> None:
    model = mini(name)
    texts = ("The girls", "The girl") if name != "mini:t5" else ("The girls run.", "The girl runs.")
    clean, _ = prediction_of(model, texts[0], position=2)
    (first,) = clean.so_far
    own, _ = prediction_of(model, texts[1], position=2)
    found = wb.patch(model, *texts, 5, 6, position=2)
    corrupt, _ = prediction_of(model, texts[1], position=2, so_far=clean.so_far)
    assert found.corrupt_value == pytest.approx(number(corrupt, Target(5, 6)), abs=1e-5)
    if own.so_far != (first,):
        assert found.corrupt_value != pytest.approx(number(own, Target(5, 6)), abs=1e-5)


# --- heads of tasks, and classifiers --------------------------------------------------------------


def with_head(name: str, kind: str, text: str, word: int = 0) -> Prediction:
    """A task head with random weights on the layers of a model."""
    model, doc = mini(name), doc_of(text)
    task = Task("task", "tags" if kind == "tag" else "class", "label", ("a", "b", "c"), False, "f1")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        head = MixHead(task, model.stacks[0].layers, model.width, False, Scale())
        for weights in head.parameters():
            torch.nn.init.normal_(weights)
    head.train(False)
    text_pieces = model.encode(encode([doc]))
    return Prediction(model, doc, kind, text_pieces, word, head=head)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["class", "tag"])
@pytest.mark.parametrize(
    "name", mostly(("mini:bert", "mini:t5", "mini:elmo"), "mini:bert", "mini:elmo")
)
def test_a_task_head_reads_the_restored_layers(name: str, kind: str) -> None:
    """Restored in layer 0, everything is the clean text, although the head reads all layers."""
    texts = "The girls were tall.", "The girl was tall."
    clean, corrupt = (with_head(name, kind, text, 2) for text in texts)
    found = patch_effects(clean, corrupt, Target(0, 1), by="all")
    assert {cell.point.stack for cell in found.cells} == {"encoder"}
    np.testing.assert_allclose(found.effects[0], 1, atol=rounding(found))
    assert abs(found.effects[1:] - 1).max() > 1e-3 > rounding(found), "layer 0 is read, too"
    words = patch_effects(clean, corrupt, Target(0, 1))
    assert abs(words.effects).max() > 0.05


@pytest.mark.parametrize(
    ("name", "architecture"),
    [("bert", "BertForSequenceClassification"), ("bart", "BartForSequenceClassification")],
)
def test_a_classifier_of_transformers_is_patched(name: str, architecture: str) -> None:
    model = made(name, architecture)
    found = wb.patch(model, "Ben walks to the hill.", "Ben walks to the old hill.", 0, 1, by="all")
    assert set(found.effects) == {stack.name for stack in model.stacks}
    assert np.isfinite(found.effects["encoder"]).all()


# --- clear answers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "options", "code"),
    [
        (("The girls ___ tall.", "The girls ___ tall."), {}, "texts-not-different"),
        (("The girls ___ tall.", "Boys ___"), {"word": 0}, "texts-not-aligned"),
        (("The girls ___ tall.", "The girl is tall."), {}, "marker-missing"),
        (("The girls ___ tall.", "  "), {}, "text-empty"),
        (PAIRS["mini:bert"], {"what": "neurons"}, "setting-invalid"),
        (PAIRS["mini:bert"], {"what": ["states"]}, "setting-invalid"),
        (PAIRS["mini:bert"], {"by": "letter"}, "setting-invalid"),
        (PAIRS["mini:bert"], {"target": "were", "against": "were"}, "setting-invalid"),
        (PAIRS["mini:bert"], {"target": "walkingly"}, "target-unknown"),
        ((1, "The girl"), {}, "wrong-type"),
    ],
)
def test_what_cannot_be_patched_is_said(
    texts: tuple[Any, Any], options: dict[str, Any], code: str
) -> None:
    with pytest.raises(WorkbenchError) as raised:
        wb.patch(mini("mini:bert"), *texts, **options)
    assert raised.value.code == code and raised.value.remedy


def test_equal_texts_and_texts_that_differ_beyond_what_is_read_are_told_apart() -> None:
    model = mini("mini:gpt")
    with pytest.raises(WorkbenchError, match="the texts are equal") as same:
        wb.patch(model, "The girls", "The girls")
    assert "words were read" not in same.value.what
    with pytest.raises(WorkbenchError, match="same pieces") as cut:
        wb.patch(model, "the cat " * 300, "the dog " + "the cat " * 299)
    assert "only its last 63 words were read" in cut.value.what


def test_a_note_says_where_a_positive_effect_lowers_the_number() -> None:
    notes = [
        " ".join(wb.patch(mini("mini:gpt"), "The girls", "The girl", *two, what="mlps").notes)
        for two in (("were", "was"), ("was", "were"))
    ]
    assert ["lowers it" in note for note in notes] == [False, True]


def test_shares_of_a_tiny_difference_are_not_claimed() -> None:
    clear = wb.patch(mini("mini:bert"), *PAIRS["mini:bert"])
    assert clear.is_distinguished and not any("nats" in note for note in clear.notes)
    clean, corrupt = predictions("mini:bert", *PAIRS["mini:bert"])
    with torch.no_grad():
        gaps = (clean.logits() - corrupt.logits())[0]  # [choices]
    of_all = (gaps[:, None] - gaps[None, :]).flatten()  # of every two choices
    near = int((of_all.abs() - 0.05).abs().argmin())  # the two whose difference is 0.05 nats
    one, other = divmod(near, len(gaps))
    found = wb.patch(mini("mini:bert"), *PAIRS["mini:bert"], one, other)
    assert abs(found.clean_value - found.corrupt_value) == pytest.approx(0.05, abs=1e-3)
    assert not found.is_distinguished and not found.as_dict()["is_distinguished"]
    assert any("by only 0.05" in note and "shares say little" in note for note in found.notes)
    title = found.figure().layout.title.text
    assert "hardly differ" in title and "%" not in title


def test_a_predicted_place_without_a_counterpart_is_refused() -> None:
    with pytest.raises(WorkbenchError, match="place"):
        wb.patch(mini("mini:gpt"), "The unbelievable", "The girl was old")


def test_predictions_of_two_kinds_are_refused() -> None:
    model = mini("mini:gpt")
    elmo = prediction_of(mini("mini:elmo"), "The girls")[0]
    gpt = prediction_of(model, "The girls")[0]
    with pytest.raises(WorkbenchError, match="two models"):
        patch_effects(elmo, gpt, Target(0))
    word = of_word(model, doc_of("The girls"), 1)
    with pytest.raises(WorkbenchError) as raised:
        patch_effects(with_head("mini:bert", "class", "a b"), with_head("mini:bert", "tag", "a b"),
                      Target(0))  # fmt: skip
    assert raised.value.code == "texts-not-aligned"
    assert word.kind == gpt.kind


def test_small_differences_have_no_effects() -> None:
    clean, corrupt = predictions("mini:bert", *PAIRS["mini:bert"])
    found = patch_effects(clean, corrupt, Target(5))
    flat = PatchEffects(found.cells, found.values, found.clean, found.clean)
    assert not flat.is_restorable and np.isnan(flat.effects).all()


def test_what_both_texts_share_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    n_rows: list[int] = []

    def counted(*arguments: Any, **named: Any) -> Any:
        n_rows.append(len(arguments[3]))
        return patching.patched(*arguments, **named)

    monkeypatch.setattr("workbench.analyses.patching.patch.patched", counted)
    texts = [f"The old dog sees Mary. Then the {word}" for word in ("girls", "girl")]
    found = wb.patch(mini("mini:gpt"), *texts, "were", "was")
    is_last = found.table["corrupt"].str.contains("girl")
    assert n_rows == [int(is_last.sum())] == [5]  # embeddings, 4 layers
    assert (found.table["effect"][~is_last] == 0).all()
    assert np.allclose(found.table["effect"][is_last], 1, **CLOSE)


def test_progress_counts_the_patched_texts() -> None:
    done: list[int] = []
    found = wb.patch(mini("mini:gpt"), *PAIRS["mini:gpt"], on_progress=done.append)
    assert done == sorted(done) and done[-1] == len(found.table)
