"""ELECTRA: a small generator fills masks, and a discriminator finds the replaced pieces.

Both share their embeddings, as published. The folder holds the discriminator, and `generator/` in
it the generator. Costs: a pass of both models, with the generator's logits at masks only.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import ElectraForMaskedLM, ElectraForPreTraining

from workbench.analyses.training.objectives.chunked_lm_loss import logits_at
from workbench.analyses.training.objectives.masked import detect, to_generate
from workbench.analyses.training.task import Objective
from workbench.analyses.training.vocabulary import Vocabulary
from workbench.core.errors import WorkbenchError
from workbench.models.formats.checkpoint import opened, read_config

GENERATOR = "generator"  # folder of the generator


class Electra(nn.Module):
    """A generator and a discriminator that share embeddings of one width."""

    def __init__(self, generator: ElectraForMaskedLM, detector: ElectraForPreTraining) -> None:
        super().__init__()
        self.generator, self.detector = generator, detector
        shared: Any = detector.electra.embeddings
        for name in ("word_embeddings", "position_embeddings", "token_type_embeddings"):
            setattr(generator.electra.embeddings, name, getattr(shared, name))
        generator.tie_weights()

    @property
    def config(self) -> Any:
        return self.detector.config

    def save_pretrained(self, folder: Path) -> None:
        """Save the discriminator, and the generator in its subfolder."""
        self.detector.save_pretrained(folder)
        self.generator.save_pretrained(folder / GENERATOR)


def open_electra(folder: Path) -> Electra:
    """Open the discriminator and generator that `save_pretrained` wrote."""
    if not (folder / GENERATOR / "config.json").is_file():
        raise WorkbenchError(
            "the folder has a discriminator but no generator to train it with.",
            code="model-incomplete",
            where=str(folder),
            remedy=f"Put the generator into {folder / GENERATOR}.",
        )
    return Electra(
        _half(ElectraForMaskedLM, folder / GENERATOR), _half(ElectraForPreTraining, folder)
    )


def _half(kind: Any, folder: Path) -> Any:
    read_config(str(folder))  # rejects named pipes and non-finite numbers
    return opened(lambda: kind.from_pretrained(folder, local_files_only=True), str(folder))


def electra_losses(net: nn.Module, inputs: Mapping[str, Tensor], vocabulary: Vocabulary) -> Tensor:
    """Summed losses: the generator's at masks, the discriminator's at every token.  # [2]"""
    assert isinstance(net, Electra)
    generator_inputs = {name: tensor for name, tensor in inputs.items() if name != "tokens"}
    logits, _ = logits_at(net.generator, generator_inputs)  # [targets, vocabulary]
    filled = functional.cross_entropy(logits.float(), inputs["gold"], reduction="sum")
    tokens = inputs["tokens"]  # [batch, length], before masking
    chosen = torch.zeros(tokens.numel(), dtype=torch.bool, device=tokens.device)
    chosen[inputs["at"]] = True
    generator = torch.Generator(tokens.device)
    generator.manual_seed(torch.initial_seed() if net.training else 0)
    detection = detect(tokens, chosen.view_as(tokens), logits.detach(), generator, vocabulary)
    mask = {} if "attention_mask" not in inputs else {"attention_mask": inputs["attention_mask"]}
    logits_replaced = net.detector(
        input_ids=detection["input_ids"], **mask
    ).logits  # [batch, length]
    nats = functional.binary_cross_entropy_with_logits(
        logits_replaced.float(), detection["labels"].float(), reduction="none"
    )
    real = inputs.get("attention_mask")
    return torch.stack([filled, (nats if real is None else nats * real).sum()])


OBJECTIVES = {
    "replaced": Objective(
        to_generate,
        "encoder",
        losses=lambda vocabulary: partial(electra_losses, vocabulary=vocabulary),
        terms=("generator", "detector"),
        weights=(1.0, 50.0),
        complete=lambda inputs, labels: (int(inputs["attention_mask"].sum()),),
    )
}
