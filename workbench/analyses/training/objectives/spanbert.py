"""SpanBERT's span-boundary head, which predicts a span's tokens from the two tokens around it.

    h = LayerNorm(GELU(W1 [x_before; x_after; p])), y = LayerNorm(GELU(W2 h))

and logits from the output map of the masked language model. It is saved as a BERT without this
head, as the published model is; continued training initialises the head randomly. Costs: the head's
layers, and logits at masks in addition to those of the masked language model.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertForMaskedLM

from workbench.analyses.training.objectives.chunked_lm_loss import linear_nats, nats_at, output_map
from workbench.analyses.training.objectives.masked import spans
from workbench.analyses.training.task import Objective

BOUNDARY_INPUTS = ("left", "right", "within")  # inputs of the boundary head in a batch
POSITION_WIDTH = 200  # maximum width of the embedding of a position in a span


class Boundary(nn.Module):
    """Two layers over a span's two boundaries and a position in the span."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width, spread = config.hidden_size, config.initializer_range
        narrow = min(POSITION_WIDTH, width)
        self.places = nn.Embedding(config.max_position_embeddings, narrow)
        self.first, self.second = nn.Linear(2 * width + narrow, width), nn.Linear(width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width, config.layer_norm_eps) for _ in range(2))
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        for module in (self.places, self.first, self.second):
            nn.init.normal_(module.weight, std=spread)  # as BERT draws its own
        for layer in (self.first, self.second):
            nn.init.zeros_(layer.bias)

    def forward(self, before: Tensor, after: Tensor, within: Tensor) -> Tensor:
        """# [targets, width], [targets, width], [targets] -> [targets, width]"""
        states = torch.cat([before, after, self.places(within)], dim=1)
        for layer, norm in zip((self.first, self.second), self.norms, strict=True):
            states = norm(functional.gelu(layer(states)))
        return states


class SpanBert(nn.Module):
    """A masked BERT with the span-boundary head, which is not saved."""

    def __init__(self, bert: BertForMaskedLM) -> None:
        super().__init__()
        self.bert, self.boundary = bert, Boundary(bert.config)

    @property
    def config(self) -> Any:
        return self.bert.config

    def save_pretrained(self, folder: Path) -> None:
        """Save the BERT alone."""
        self.bert.save_pretrained(folder)


def spanbert_losses(net: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    """Summed losses at masks: from the masked position, and from the span's boundaries.  # [2]

    `left` and `right` [targets] are flat positions in [batch, length], like `at`.
    """
    assert isinstance(net, SpanBert)
    model_inputs = {name: tensor for name, tensor in inputs.items() if name not in BOUNDARY_INPUTS}
    nats, model_output = nats_at(net.bert, model_inputs, output_hidden_states=True)
    states = model_output.hidden_states[-1].flatten(0, 1)  # [batch * length, width]
    boundaries = (states.index_select(0, inputs[name]) for name in ("left", "right"))
    boundary_states = net.boundary(*boundaries, inputs["within"])  # [targets, width]
    weight = output_map(net.bert).weight
    return torch.stack(
        [nats, linear_nats(boundary_states, weight, net.boundary.bias, inputs["gold"])]
    )


def _at_targets(inputs: dict[str, Tensor], labels: Tensor) -> tuple[int]:
    """Take the boundaries of the targets, as flat positions; each has a target of both terms."""
    at = inputs["at"]
    row_start = at - at % labels.shape[1]  # the flat position where each target's row begins
    for name in BOUNDARY_INPUTS:
        inputs[name] = inputs[name].flatten()[at]  # [targets]
    for name in ("left", "right"):
        inputs[name] = inputs[name] + row_start
    return (len(at),)


OBJECTIVES = {
    "masked-spans": Objective(
        spans,
        "encoder",
        losses=lambda vocabulary: spanbert_losses,
        terms=("masked", "boundary"),
        weights=(1.0, 1.0),
        complete=_at_targets,
        mapped=2,
    )
}
