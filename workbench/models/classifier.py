"""A classifier of whole texts, made of a language model: its body, and a new head.

transformers' own `...ForSequenceClassification`, so that it saves and opens as any other. Costs a
copy of the weights.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification

from workbench.errors import WorkbenchError
from workbench.models.huggingface import HuggingFace
from workbench.models.precision import placed


def classifier(model: HuggingFace, classes: Sequence[str], seed: int) -> HuggingFace:
    """The same body under a head that tells these classes apart, drawn from the seed."""
    if len(classes) < 2:
        raise WorkbenchError(
            f"there is {'one class' if classes else 'no class'} to tell apart.",
            where=", ".join(classes),
            remedy="Name a label with two classes or more.",
        )
    if model.two_sided:
        raise WorkbenchError(
            f"{model.name} ({model.family}) writes text, and is not made a classifier here.",
            remedy="Choose an encoder such as mini:bert, or a decoder such as mini:gpt.",
        )
    config: Any = copy.deepcopy(model.net.config)
    config.id2label = dict(enumerate(classes))
    config.label2id = {name: number for number, name in enumerate(classes)}
    if config.pad_token_id is None:  # a decoder looks for a text's last piece by it
        config.pad_token_id = model.tokenizer.pad_token_id
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            kind: Any = AutoModelForSequenceClassification
            net: Any = kind.from_config(config, trust_remote_code=False)
        except ValueError:
            raise WorkbenchError(
                f"transformers has no classifier of the family {model.family}.",
                where=model.name,
                remedy="Choose a model such as mini:bert.",
            ) from None
    body: Any = model.net.base_model
    net.base_model.load_state_dict(body.state_dict(), strict=False)
    return HuggingFace(placed(net, model.device, model.net.dtype), model.tokenizer, model.name)
