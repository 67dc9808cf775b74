"""Models of the zoo with their language-model heads, and heads whose answers are known."""

from pathlib import Path

import torch
import transformers
from transformers import AutoConfig, AutoTokenizer, PreTrainedModel

from tests.models.zoo import SPREAD
from workbench.models.huggingface import HuggingFace
from workbench.models.lm_heads import output_map
from workbench.models.loading import load


def saved(zoo_folder: Path, architecture: str, folder: Path, uniform: bool = False) -> Path:
    """A model of the zoo's shape with this head; where uniform, all its logits are 0."""
    kind = getattr(transformers, architecture)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net: PreTrainedModel = kind(AutoConfig.from_pretrained(zoo_folder))
        with torch.no_grad():
            for weights in net.parameters():
                weights += SPREAD * torch.randn_like(weights)
            if uniform:
                head = output_map(net)
                assert head is not None
                for weights in head.parameters():
                    weights.zero_()
    net.save_pretrained(folder)
    AutoTokenizer.from_pretrained(zoo_folder).save_pretrained(folder)
    return folder


def opened(folder: Path) -> HuggingFace:
    model = load(folder, "cpu")
    assert isinstance(model, HuggingFace)
    return model
