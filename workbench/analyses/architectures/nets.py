"""The architectures of Raffel et al. (2020, section 3.2), all of T5's blocks, and what they read.

P are the weights of a stack of L layers, M the operations of a text that passes L layers:

    encoder-decoder          2P  M     L layers in each stack
    shared encoder-decoder    P  M     the decoder's layers are the encoder's, with cross-attention
    half encoder-decoder      P  M/2   L/2 layers in each stack
    language model            P  M     one stack over input and target, from left to right
    prefix language model     P  M     the same, that reads the input in both directions

Cross-attention is on top of P and M. A stack alone reads the input and the decoder's input as one
sequence, so all predict the same targets from the same text. Costs: drawing random weights.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from workbench.analyses.architectures.experiments import Arm, Goal
from workbench.analyses.training.families import Size, t5
from workbench.analyses.training.objectives.corruption import compact
from workbench.analyses.training.objectives.masked import IGNORED
from workbench.analyses.training.objectives.prefix_lm import seen
from workbench.analyses.training.objectives.unilm import without_padding

ONE_STACK = ("language model", "prefix language model")


class OneStack(nn.Module):
    """T5's encoder as a language model: what a piece sees is said by its mask."""

    def __init__(self, whole: Any) -> None:
        super().__init__()
        self.config = whole.config
        self.stack, self.lm_head = whole.encoder, whole.lm_head
        self.scale = whole.model_dim**-0.5 if whole.config.scale_decoder_outputs else 1.0

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head  # type: ignore[no-any-return]

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        states = self.stack(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return {"logits": self.lm_head(states * self.scale)}


def build(arm: Arm, size: Size, tokenizer: PreTrainedTokenizerBase, seed: int) -> nn.Module:
    """A new net; `size` is that of one stack."""
    layers = size.n_layers if arm == "half encoder-decoder" else 2 * size.n_layers
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net: Any = t5(replace(size, n_layers=layers), tokenizer)  # half of the layers each
    if arm in ONE_STACK:
        return OneStack(net)
    if arm == "shared encoder-decoder":
        _share(net)
    return net  # type: ignore[no-any-return]


def _share(net: Any) -> None:
    """Make the decoder's layers those of the encoder, all but its cross-attention.

    Position biases stay apart: the decoder's are of one side.
    """
    for ours, theirs in zip(net.decoder.block, net.encoder.block, strict=True):
        for name in ("q", "k", "v", "o"):
            part = getattr(theirs.layer[0].SelfAttention, name)
            setattr(ours.layer[0].SelfAttention, name, part)
        ours.layer[0].layer_norm = theirs.layer[0].layer_norm
        ours.layer[-1] = theirs.layer[-1]


def read_by(arm: Arm, goal: Goal, batch: Mapping[str, Tensor], pad: int, scored: bool) -> Any:
    """What an architecture reads of a batch of inputs and targets, with labels.

    The language model learns language modelling from all pieces, as in the paper; `scored` asks
    for the targets alone.
    """
    if arm not in ONE_STACK:
        return batch
    inputs, shifted, labels = (batch[n] for n in ("input_ids", "decoder_input_ids", "labels"))
    keep = torch.cat([batch["attention_mask"] > 0, labels != IGNORED], 1)
    from_input = torch.cat([torch.ones_like(inputs), torch.zeros_like(labels)], 1)
    ids = compact(torch.cat([inputs, shifted], 1), keep, pad)
    real = compact(keep.long(), keep, 0) > 0
    rest = compact(from_input, keep, 0) == 0  # decoder inputs, and padding
    targets = compact(torch.cat([torch.full_like(inputs, IGNORED), labels], 1), keep, IGNORED)
    left = torch.ones_like(rest) if arm == "language model" else rest
    if arm == "language model" and goal == "language modelling" and not scored:
        within = real[:, 1:] & ~rest[:, :-1] & ~rest[:, 1:]  # the next piece of the input
        targets[:, :-1] = torch.where(within, ids[:, 1:], targets[:, :-1])
    return {
        "input_ids": ids,
        "attention_mask": without_padding(seen(left), real)[:, None],
        "labels": targets,
    }
