"""Windows of models that transformers masks: each layer's site says how far its pieces see."""

from pathlib import Path

import pytest
import torch
from transformers import MistralConfig, MistralForCausalLM

import workbench as wb
from tests.models import zoo
from tests.models.test_attention import pieces


def modernbert(folder: Path) -> Path:
    return zoo.make("modernbert", folder)


def mistral(folder: Path) -> Path:
    """A causal model of windows, with the tokenizer of a Llama."""
    zoo.make("llama", folder)
    old = wb.load(str(folder), device="cpu").net.config  # type: ignore[attr-defined]
    MistralForCausalLM(
        MistralConfig(
            vocab_size=old.vocab_size,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            sliding_window=3,
            max_position_embeddings=64,
        )
    ).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("make", "windows"), [(modernbert, [0, 4, 0]), (mistral, [2, 2])], ids=["modernbert", "mistral"]
)
def test_maps_reach_to_the_window_of_their_site_and_no_further(
    make: object, windows: list[int], tmp_path: Path
) -> None:
    model = wb.load(str(make(tmp_path / "model")), device="cpu")  # type: ignore[operator]
    assert [site.window for site in model.sites] == windows
    text, seen = pieces(model, 2, 13, True), wb.Capture()
    with torch.no_grad():
        model.forward(text, taps=[seen])
    place = torch.arange(13)
    for site, (maps,) in seen.maps.items():
        near = (place[:, None] - place).abs() <= (site.window or 13)
        if site.kind == "causal":
            near &= place <= place[:, None]
        real = (near & text.mask[:, None])[text.mask]  # [real pieces, pieces]
        assert ((maps.transpose(1, 2)[text.mask] > 0) == real[:, None]).all()
