"""From text to a folder: what is written, what can be gone on with, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, BertConfig, BertForMaskedLM

from tests.analyses.training.lessons import Told, lesson, settings
from workbench import WorkbenchError
from workbench.analyses.training.curves import read_curves
from workbench.analyses.training.tokenizers import save_tokenizer
from workbench.analyses.training.train import train

OTHER = ["Whales swim in cold seas and sing for hours.", "Seals rest upon the ice."] * 60


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory, tokens: Path) -> Path:
    out = tmp_path_factory.mktemp("trained") / "gpt"
    train("gpt", lesson(), out, settings(12), home=tokens)
    return out


def test_a_folder_says_how_it_was_made(gpt: Path) -> None:
    recipe = json.loads((gpt / "training.json").read_text())
    assert recipe["family"] == "gpt" and recipe["objective"] == "causal"
    assert recipe["settings"]["plan"]["steps"] == 12
    assert len(recipe["text"]["hash"]) == len(recipe["tokenizer"]) == 32
    assert {"torch", "transformers", "tokenizers"} <= recipe["versions"].keys()
    rows = read_curves(gpt / "curves.csv")
    assert recipe["last"]["loss"] == rows[-1].loss
    assert recipe["parameters"] == AutoModelForCausalLM.from_pretrained(gpt).num_parameters()


def test_files_and_lines_are_the_same_text(tmp_path: Path, tokens: Path, gpt: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text("\n".join(lesson()) + "\n")
    train("gpt", file, tmp_path / "m", settings(12), home=tokens)
    weights = [(folder / "model.safetensors").read_bytes() for folder in (gpt, tmp_path / "m")]
    assert weights[0] == weights[1]


def test_a_model_goes_on_with_other_text(gpt: Path, tmp_path: Path, tokens: Path) -> None:
    fresh = train("gpt", OTHER, tmp_path / "fresh", settings(1, learning_rate=1e-9), home=tokens)
    on = train("gpt", OTHER, tmp_path / "on", settings(12), continue_from=gpt, home=tokens)
    assert on.rows[-1].loss < on.rows[0].loss < fresh.rows[0].loss + 3
    own, other = (AutoTokenizer.from_pretrained(folder) for folder in (gpt, on.folder))
    assert own.get_vocab() == other.get_vocab()
    assert json.loads((on.folder / "training.json").read_text())["from"] == {"model": str(gpt)}


def test_going_on_with_no_rate_to_speak_of_changes_nothing(
    gpt: Path, tmp_path: Path, tokens: Path
) -> None:
    """What is gone on with is the model, not a new one."""
    on = train(
        "gpt",
        OTHER,
        tmp_path / "on",
        settings(1, learning_rate=1e-9),
        continue_from=gpt,
        home=tokens,
    )
    before = load_file(gpt / "model.safetensors")
    for name, tensor in load_file(on.folder / "model.safetensors").items():
        torch.testing.assert_close(tensor, before[name], atol=1e-6, rtol=0)


def test_a_bert_without_a_next_sentence_head_goes_on_by_masks_alone(
    tmp_path: Path, tokens: Path
) -> None:
    from tests.analyses.training.texts import tokenizer

    folder = tmp_path / "published"
    own = tokenizer("wordpiece", "bert")
    shape: Any = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    BertForMaskedLM(BertConfig(vocab_size=len(own), **shape)).save_pretrained(folder)
    save_tokenizer(own, folder)
    on = train("bert", lesson(), tmp_path / "on", settings(1), continue_from=folder, home=tokens)
    assert on.recipe["objective"] == "masked"
    assert "BertForMaskedLM" in (on.folder / "config.json").read_text()


@pytest.mark.parametrize("name", ["albert", "spanbert"])
def test_a_published_masked_model_goes_on(name: str, tmp_path: Path, tokens: Path) -> None:
    """ALBERT without its order by masks alone; SpanBERT with a boundary head drawn anew."""
    folder = tmp_path / "published"
    own = settings(1, objective="masked")
    train(name, lesson(), folder, own, home=tokens)
    goes_on = settings(2, learning_rate=1e-9)
    on, again = (
        train(name, lesson(), tmp_path / out, goes_on, continue_from=folder, home=tokens)
        for out in ("on", "again")
    )
    expected = {"albert": "masked", "spanbert": "masked-spans"}[name]
    assert on.recipe["objective"] == expected
    before = load_file(folder / "model.safetensors")
    after = load_file(on.folder / "model.safetensors")
    assert before.keys() == after.keys()
    for key, tensor in after.items():
        torch.testing.assert_close(tensor, before[key], atol=1e-6, rtol=0)
    assert [row.loss for row in on.rows] == [row.loss for row in again.rows], "heads by the seed"


def test_an_albert_with_its_order_goes_on_with_it_or_without(tmp_path: Path, tokens: Path) -> None:
    first = train("albert", lesson(), tmp_path / "first", settings(1), home=tokens)
    assert first.recipe["objective"] == "masked-order"
    for asked, saved in (("", "AlbertForPreTraining"), ("masked", "AlbertForMaskedLM")):
        out = tmp_path / f"on-{asked}"
        own = settings(1, objective=asked)
        on = train("albert", lesson(), out, own, continue_from=first.folder, home=tokens)
        assert on.recipe["objective"] == (asked or "masked-order")
        assert json.loads((out / "config.json").read_text())["architectures"] == [saved]


def test_another_objective_and_static_masks(tmp_path: Path, tokens: Path) -> None:
    for name, objective, static in [
        ("t5", "prefix", False),
        ("bert", "masked", True),
        ("spanbert", "masked", True),
    ]:
        own = settings(2, objective=objective, static_masking=static)
        out = tmp_path / f"{name}-{objective}"
        assert train(name, lesson(), out, own, home=tokens).recipe["objective"] == objective


def test_progress_is_told(tmp_path: Path, tokens: Path) -> None:
    told = Told()
    train("gpt", lesson(), tmp_path / "m", settings(3, vocabulary_size=5_000), told, home=tokens)
    assert told.progress[-1] == (3, 3)
    assert any("held-out loss" in line for line in told.logs)
    assert any("the text allows only" in line for line in told.warnings)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ([], "empty-text"),
        (["", "  "], "empty-text"),
        (["word"], "fewer than one sequence|too small|allows"),
    ],
)
@pytest.mark.parametrize("family", ["gpt", "bert", "t5", "vectors"])
def test_texts_that_are_none(
    family: str, text: list[str], said: str, tmp_path: Path, tokens: Path
) -> None:
    with pytest.raises(WorkbenchError, match=said):
        train(family, text, tmp_path / "m", settings(3), home=tokens)
    assert not (tmp_path / "m" / "training.json").exists()


def test_elmo_learns_even_one_word(tmp_path: Path, tokens: Path) -> None:
    assert train("elmo", ["word"], tmp_path / "m", settings(3), home=tokens).rows
    with pytest.raises(WorkbenchError, match="empty-text"):
        train("elmo", [""], tmp_path / "n", settings(3), home=tokens)


@pytest.mark.parametrize(
    ("family", "more", "arguments", "said"),
    [
        ("gpt", {"objective": "masked"}, {}, "cannot be trained with the objective 'masked'"),
        ("gpt", {"static_masking": True}, {}, "static"),
        ("gpt", {"size": "huge"}, {}, "'huge' is not a size"),
        ("gpt", {"held_out_fraction": 1.0}, {}, "held_out_fraction is 1.0"),
        ("distilbert", {}, {}, "teacher-missing"),
        ("gpt", {}, {"teacher": Path()}, "does not take a teacher"),
        ("gpt", {}, {"continue_from": Path("nowhere")}, "file-not-found"),
    ],
)
def test_what_cannot_be_is_refused(
    family: str, more: Any, arguments: Any, said: str, tmp_path: Path, tokens: Path
) -> None:
    with pytest.raises(WorkbenchError, match=said):
        train(family, lesson(), tmp_path / "m", settings(3, **more), home=tokens, **arguments)
    assert not (tmp_path / "m" / "training.json").exists()


def test_what_cannot_be_gone_on_with_is_refused(gpt: Path, tmp_path: Path, tokens: Path) -> None:
    with pytest.raises(WorkbenchError, match="at most 32"):
        train(
            "gpt",
            OTHER,
            tmp_path / "a",
            settings(3, sequence_length=64),
            continue_from=gpt,
            home=tokens,
        )
    with pytest.raises(WorkbenchError, match="holds a gpt2, which bert cannot continue from"):
        train("bert", OTHER, tmp_path / "b", settings(3), continue_from=gpt, home=tokens)
    (tmp_path / "empty").mkdir()
    with pytest.raises(WorkbenchError, match=r"model-not-found|tokenizer-not-found"):
        train(
            "gpt", OTHER, tmp_path / "c", settings(3), continue_from=tmp_path / "empty", home=tokens
        )


def test_a_folder_with_another_model_is_left_alone(gpt: Path, tmp_path: Path, tokens: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(WorkbenchError, match="folder-not-empty"):
        train("gpt", lesson(), tmp_path, settings(3), home=tokens)
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]
