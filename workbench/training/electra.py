"""ELECTRA's two models in one training: a small generator fills masks, a discriminator finds them.

They share their embeddings, as published. Saved as the discriminator in the folder and the
generator in `generator/` beside it. Costs a pass of both, the generator's logits at masks only.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import ElectraForMaskedLM, ElectraForPreTraining

from workbench.core.errors import WorkbenchError
from workbench.models.checkpoint import opened, read_config
from workbench.training.chunked_lm_loss import logits_at
from workbench.training.objectives.masked import detect
from workbench.training.vocabulary import Vocabulary

TERMS, WEIGHTS = ("generator", "detector"), (1.0, 50.0)
GENERATOR = "generator"  # its folder


class Electra(nn.Module):
    """A generator and a discriminator that share embeddings of one width."""

    def __init__(self, generator: ElectraForMaskedLM, detector: ElectraForPreTraining) -> None:
        super().__init__()
        self.generator, self.detector = generator, detector
        own: Any = detector.electra.embeddings
        for name in ("word_embeddings", "position_embeddings", "token_type_embeddings"):
            setattr(generator.electra.embeddings, name, getattr(own, name))
        generator.tie_weights()

    @property
    def config(self) -> Any:
        return self.detector.config

    def save_pretrained(self, folder: Path) -> None:
        """The discriminator, and the generator in a folder of its own."""
        self.detector.save_pretrained(folder)
        self.generator.save_pretrained(folder / GENERATOR)


def open_electra(folder: Path) -> Electra:
    """Both halves of what `save_pretrained` wrote."""
    if not (folder / GENERATOR / "config.json").is_file():
        raise WorkbenchError(
            "there is a discriminator, but no generator to train it with.",
            where=str(folder),
            remedy=f"Put the generator into {folder / GENERATOR}.",
        )
    return Electra(
        _half(ElectraForMaskedLM, folder / GENERATOR), _half(ElectraForPreTraining, folder)
    )


def _half(kind: Any, folder: Path) -> Any:
    read_config(str(folder))  # no pipe among its files, no number that is none
    return opened(lambda: kind.from_pretrained(folder, local_files_only=True), str(folder))


def electra_losses(net: nn.Module, inputs: Mapping[str, Tensor], vocabulary: Vocabulary) -> Tensor:
    """The generator's loss at masks, and the discriminator's at every token, in sums.  # [2]"""
    assert isinstance(net, Electra)
    own = {name: tensor for name, tensor in inputs.items() if name != "tokens"}
    logits, _ = logits_at(net.generator, own)  # [targets, vocabulary]
    filled = functional.cross_entropy(logits.float(), inputs["gold"], reduction="sum")
    tokens = inputs["tokens"]  # [batch, length], as they were before masks
    chosen = torch.zeros(tokens.numel(), dtype=torch.bool, device=tokens.device)
    chosen[inputs["at"]] = True
    lots = torch.Generator(tokens.device)
    lots.manual_seed(torch.initial_seed() if net.training else 0)
    read = detect(tokens, chosen.view_as(tokens), logits.detach(), lots, vocabulary)
    more = {} if "attention_mask" not in inputs else {"attention_mask": inputs["attention_mask"]}
    found = net.detector(input_ids=read["input_ids"], **more).logits  # [batch, length]
    nats = functional.binary_cross_entropy_with_logits(
        found.float(), read["labels"].float(), reduction="none"
    )
    real = inputs.get("attention_mask")
    return torch.stack([filled, (nats if real is None else nats * real).sum()])
