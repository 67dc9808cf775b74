"""A GPT that copies the label of the demonstration with the same text, and a corpus for it."""

from typing import Any

import pandas as pd
import torch

import workbench as wb
from tests.planted import gpt2
from workbench.models.huggingface import HuggingFace

TEMPLATE = "{text} {label}"
CLASS_OF = {"Anna": "boat", "Mara": "boat", "Nell": "dog", "Ruth": "dog"}


def copier(bias: float = 0.0, towards: str = "dog") -> HuggingFace:
    """The planted induction GPT; with a bias, it prefers one label whatever it reads."""
    planted = gpt2.build()
    net: Any = planted.model
    head = torch.nn.Linear(net.lm_head.in_features, net.lm_head.out_features)
    with torch.no_grad():
        head.weight.copy_(net.lm_head.weight)
        head.bias.zero_()
        head.bias[planted.tokenizer(towards)["input_ids"][1]] = bias
    net.lm_head = head
    return HuggingFace(net, planted.tokenizer, "copier")


def names() -> wb.Corpus:
    """Texts of one name, whose label nothing but a demonstration can tell."""
    frame = pd.DataFrame({"text": CLASS_OF.keys(), "kind": CLASS_OF.values()})
    return wb.read({part: pd.concat([frame] * 10) for part in ("train", "dev", "test")})
