"""SpanBERT's second head, which predicts a masked span's tokens from the two around it.

    h = LayerNorm(GELU(W1 [x_before; x_after; p])), y = LayerNorm(GELU(W2 h))

and logits by the output map of the masked language model. Saved as a BERT without this head, as the
published one is: training that goes on draws it anew. Costs the head's own layers and logits at
masks, once more beside the masked language model's.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertForMaskedLM

from workbench.training.chunked_lm_loss import linear_nats, nats_at, output_map

TERMS, WEIGHTS = ("masked", "boundary"), (1.0, 1.0)
OWN = ("left", "right", "within")  # what the boundary head reads of a batch
PLACE_WIDTH = 200  # of the embedding of a place in a span, in models that are wider


class Boundary(nn.Module):
    """Two layers over a span's boundaries and a place in it."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width, spread = config.hidden_size, config.initializer_range
        narrow = min(PLACE_WIDTH, width)
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
    """A BERT for masked pieces, and the head that is no part of what is kept."""

    def __init__(self, bert: BertForMaskedLM) -> None:
        super().__init__()
        self.bert, self.boundary = bert, Boundary(bert.config)

    @property
    def config(self) -> Any:
        return self.bert.config

    def save_pretrained(self, folder: Path) -> None:
        """The BERT alone."""
        self.bert.save_pretrained(folder)


def spanbert_losses(net: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    """The loss at masks, from there and from the boundaries of their spans, in sums.  # [2]

    `left` and `right` [targets] are flat places of [batch, length], as `at` is.
    """
    assert isinstance(net, SpanBert)
    own = {name: tensor for name, tensor in inputs.items() if name not in OWN}
    nats, answer = nats_at(net.bert, own, output_hidden_states=True)
    states = answer.hidden_states[-1].flatten(0, 1)  # [batch * length, width]
    around = (states.index_select(0, inputs[name]) for name in ("left", "right"))
    found = net.boundary(*around, inputs["within"])  # [targets, width]
    weight = output_map(net.bert).weight
    return torch.stack([nats, linear_nats(found, weight, net.boundary.bias, inputs["gold"])])
