"""Every model of the zoo is what it says, loads from its folder, and runs."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedTokenizerBase

from tests.models import zoo
from tests.night import of_zoo

Tokenizers = Callable[[str], PreTrainedTokenizerBase]
TEXT = "The old man, larger than the dog, didn't see the café."
MODELS = pytest.mark.parametrize("name", zoo.NAMES)


@pytest.mark.parametrize("name", of_zoo(zoo.NAMES))
def test_a_model_loads_from_its_folder_and_runs(
    name: str, zoo_folder: Callable[[str], Path]
) -> None:
    """And no weight keeps its initial constant, so that one left out would be seen."""
    folder = zoo_folder(name)
    model, report = AutoModel.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    inputs = AutoTokenizer.from_pretrained(folder)(TEXT, return_tensors="pt")
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = inputs["input_ids"]
    with torch.inference_mode():
        states = model(**inputs)[0]  # [batch, pieces, width]
    assert states.shape[:2] == inputs["input_ids"].shape
    assert states.isfinite().all()
    assert states.std() > 0.1, "the model says the same everywhere"
    for place, weights in model.named_parameters():
        assert weights.numel() == 1 or weights.std() > 0.01, place


@MODELS
def test_sizes_are_small_and_heads_are_four(name: str, zoo_folder: Callable[[str], Path]) -> None:
    config = AutoConfig.from_pretrained(zoo_folder(name))
    depths = [int(part) for part in name.split("-")[1:] if part.isdigit()]
    assert config.hidden_size == (16 if depths else 32)
    assert config.num_attention_heads == 4
    if depths:
        encoder, decoder = depths
        assert config.num_hidden_layers == encoder
        assert (
            getattr(config, "num_decoder_layers", getattr(config, "decoder_layers", 0)) == decoder
        )
    else:
        assert 2 <= config.num_hidden_layers <= 3


@pytest.mark.parametrize("kind", zoo.KINDS)
def test_a_tokenizer_comes_back_from_disk_the_same(
    kind: str, tokenizer: Tokenizers, tmp_path: Path
) -> None:
    tokenizer(kind).save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again.is_fast == tokenizer(kind).is_fast
    assert again(TEXT, "A dog.")["input_ids"] == tokenizer(kind)(TEXT, "A dog.")["input_ids"]


@pytest.mark.parametrize("kind", zoo.KINDS)
def test_a_tokenizer_knows_the_text_it_was_trained_on(kind: str, tokenizer: Tokenizers) -> None:
    text = "The old man had walked along the river"
    assert tokenizer(kind).unk_token_id not in tokenizer(kind)(text)["input_ids"]


def test_the_same_seed_gives_the_same_weights_and_leaves_the_global_seed_alone(
    tmp_path: Path,
) -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    folders = [
        zoo.make("gpt2", tmp_path / str(place), seed=seed) for place, seed in enumerate((3, 3, 4))
    ]
    assert torch.equal(torch.rand(1), expected)
    first, again, other = (AutoModel.from_pretrained(folder).wte.weight for folder in folders)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_overrides_are_fields_of_the_config(tmp_path: Path) -> None:
    zoo.make("llama", tmp_path, num_hidden_layers=1, num_key_value_heads=4)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert (config["num_hidden_layers"], config["num_key_value_heads"]) == (1, 4)
