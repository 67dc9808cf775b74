"""Models of the zoo with their language-model heads, and heads whose answers are known."""

from copy import deepcopy
from pathlib import Path

import torch
import transformers
from transformers import AutoConfig, AutoTokenizer, PretrainedConfig, PreTrainedModel

from tests.models import zoo
from tests.models.zoo import SPREAD
from workbench.models.huggingface import HuggingFace
from workbench.models.loading import load
from workbench.models.output_heads.lm_heads import output_map


def made(name: str, architecture: str, uniform: bool = False) -> HuggingFace:
    """What opening a saved one gives, in a quarter of the time."""
    net = drawn(deepcopy(zoo.built(name).config), architecture, uniform)
    net.train(False)
    return HuggingFace(net, zoo.words_of(name), name)


def saved(zoo_folder: Path, architecture: str, folder: Path, uniform: bool = False) -> Path:
    """A model of the zoo's shape with this head; where uniform, all its logits are 0."""
    drawn(AutoConfig.from_pretrained(zoo_folder), architecture, uniform).save_pretrained(folder)
    AutoTokenizer.from_pretrained(zoo_folder).save_pretrained(folder)
    return folder


def drawn(config: PretrainedConfig, architecture: str, uniform: bool) -> PreTrainedModel:
    kind = getattr(transformers, architecture)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net: PreTrainedModel = kind(config)
        with torch.no_grad():
            for weights in net.parameters():
                weights += SPREAD * torch.randn_like(weights)
            if uniform:
                head = output_map(net)
                assert head is not None
                for weights in head.parameters():
                    weights.zero_()
    return net


def opened(folder: Path) -> HuggingFace:
    model = load(folder, "cpu")
    assert isinstance(model, HuggingFace)
    return model
