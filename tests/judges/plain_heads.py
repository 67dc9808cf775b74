"""The loss of one text at a time with heads scaled or replaced, by bare hooks on the output maps.

Used by the judges of `head-importance`, `head-ablation`, `head-pruning` and `head-gates`:
transformers' own forward with eager attention, its own tokenizer, and a pre-hook on each layer's
output projection W_O, whose input is the outputs of all heads. Which pieces are masked follows from
the seed as documented; T5's spans are taken from `workbench.models.output_heads.lm_losses`. Costs:
a forward pass for each text; minutes for whole judges.
"""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from spacy.tokens import Doc
from torch import Tensor, nn

from workbench.models.huggingface import HuggingFace

Key = tuple[str, str, int]  # stack, kind, layer
Head = tuple[Key, int]
HEAD = ["stack", "kind", "layer", "head"]
Change = Callable[[Key, Tensor], Tensor]  # of W_O's input, [1, pieces, heads, width of a head]


@dataclass
class Example:
    """One text as the net reads it, and what it must predict."""

    inputs: dict[str, Tensor]
    places: list[int]  # of the logits that predict
    gold: Tensor
    source: int  # pieces of the text, before any is masked
    target: int  # pieces that the decoder reads


class Plain:
    """A transformers net, its output projections by stack, kind and layer, and its texts."""

    def __init__(self, model: HuggingFace) -> None:
        self.model = model
        self.net: Any = copy.deepcopy(model.net)
        self.net.set_attn_implementation("eager")
        self.net.eval()
        self.outputs = _outputs(self.net)
        config = self.net.config
        self.heads = int(getattr(config, "num_attention_heads", 0) or config.num_heads)
        self.all: list[Head] = [(key, head) for key in self.outputs for head in range(self.heads)]

    def slice_of(self, key: Key, head: int) -> tuple[Tensor, Any]:
        """W_O, and the index of the slice that reads a head."""
        weight = self.outputs[key].weight
        rows = not isinstance(self.outputs[key], nn.Linear)  # GPT-2 keeps W_O transposed
        width = weight.shape[0 if rows else 1] // self.heads
        part = slice(head * width, (head + 1) * width)
        return weight, (part if rows else (slice(None), part))

    @contextmanager
    def zeroed(self, gone: Sequence[Head]) -> Iterator[None]:
        """These heads' slices of W_O are zero."""
        kept = [self.slice_of(*head)[0].detach().clone() for head in gone]
        with torch.no_grad():
            for key, head in gone:
                weight, part = self.slice_of(key, head)
                weight[part] = 0
        yield
        with torch.no_grad():
            for (key, head), before in zip(reversed(gone), reversed(kept), strict=True):
                self.slice_of(key, head)[0].copy_(before)

    @contextmanager
    def changed(self, change: Change) -> Iterator[None]:
        """The outputs of heads pass through `change` first."""

        def hook(key: Key) -> Any:
            def pre(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
                side_by_side = args[0]
                apart = side_by_side.view(*side_by_side.shape[:2], self.heads, -1)
                return (change(key, apart).reshape(side_by_side.shape), *args[1:])

            return pre

        hung = [module.register_forward_pre_hook(hook(key)) for key, module in self.outputs.items()]
        try:
            yield
        finally:
            for each in hung:
                each.remove()

    def loss(self, example: Example) -> tuple[Tensor, int]:
        """Sum of nats, and number of correct predictions."""
        if not example.places:
            return torch.zeros(()), 0
        logits = self.net(**example.inputs).logits[0, example.places].float()
        nats = nn.functional.cross_entropy(logits, example.gold, reduction="sum")
        return nats, int((logits.argmax(-1) == example.gold).sum())

    def scores(self, examples: Sequence[Example]) -> np.ndarray[Any, Any]:
        """Nats, correct predictions and predictions of each text.  # [texts, 3]"""
        with torch.no_grad():
            found = [(*self.loss(each), len(each.places)) for each in examples]
        return np.array([[float(nats), right, number] for nats, right, number in found])

    def examples(self, docs: Sequence[Doc], seed: int = 0) -> list[Example]:
        """Each text as it is scored: masked, from left to right, or with hidden spans."""
        kind = type(self.net).__name__
        if "T5" in kind:
            return [self._denoised(docs, place, seed) for place in range(len(docs))]
        causal = "GPT2" in kind
        return [self._read(doc, place, seed, causal) for place, doc in enumerate(docs)]

    def _read(self, doc: Doc, place: int, seed: int, causal: bool) -> Example:
        ids = self.model.tokenizer(doc.text)["input_ids"]
        special = set(self.model.tokenizer.all_special_ids)
        free = [at for at, piece in enumerate(ids) if piece not in special]
        read = torch.tensor([ids])
        if causal:
            wanted = [at for at in free if at > 0]
            places = [at - 1 for at in wanted]
        else:
            random = np.random.default_rng((seed, place))
            number = int(0.15 * len(free) + random.random())
            wanted = places = sorted(random.permutation(free)[:number].tolist())
            read = read.clone()
            read[0, wanted] = self.model.tokenizer.mask_token_id
        gold = torch.tensor([ids[at] for at in wanted], dtype=torch.long)
        return Example({"input_ids": read}, places, gold, len(ids), 0)

    def _denoised(self, docs: Sequence[Doc], place: int, seed: int) -> Example:
        from dataclasses import replace

        from workbench import encode
        from workbench.models.output_heads.lm_heads import symbols
        from workbench.models.output_heads.lm_losses import denoising

        text = replace(self.model.encode(encode([docs[place]])), order=torch.tensor([place]))
        read, write = denoising(text, symbols(self.model.tokenizer), seed)
        gold = write.ids[0]
        start = torch.tensor([self.net.config.decoder_start_token_id])
        before = torch.cat([start, gold[:-1]])[None] if len(gold) else gold[None]
        inputs = {"input_ids": read.ids, "decoder_input_ids": before}
        return Example(inputs, list(range(len(gold))), gold, text.ids.shape[1], len(gold))


def _outputs(net: Any) -> dict[Key, Any]:
    """W_O of every attention, in the order in which they are called."""
    if hasattr(net, "bert"):
        layers = net.bert.encoder.layer
        return {
            ("encoder", "self", n): each.attention.output.dense for n, each in enumerate(layers)
        }
    if hasattr(net, "transformer"):
        return {("decoder", "causal", n): h.attn.c_proj for n, h in enumerate(net.transformer.h)}
    found: dict[Key, Any] = {}
    for n, block in enumerate(net.encoder.block):
        found["encoder", "self", n] = block.layer[0].SelfAttention.o
    for n, block in enumerate(net.decoder.block):
        found["decoder", "causal", n] = block.layer[0].SelfAttention.o
        found["decoder", "cross", n] = block.layer[1].EncDecAttention.o
    return found


def heads_in(table: pd.DataFrame) -> list[Head]:
    """The head of each row of a table."""
    return [
        ((str(row["stack"]), str(row["kind"]), int(row["layer"])), int(row["head"]))
        for _, row in table.iterrows()
    ]


def normalised(values: dict[Head, float]) -> dict[Head, float]:
    """Each value over the L2 norm of its layer's."""
    norm: dict[Key, float] = {}
    for (key, _), value in values.items():
        norm[key] = norm.get(key, 0.0) + value**2
    return {head: value / math.sqrt(norm[head[0]]) for head, value in values.items()}


def importance(plain: Plain, examples: Sequence[Example]) -> tuple[np.ndarray[Any, Any], int]:
    """dL/dxi of every text by autograd, one text at a time, and how many pieces are predicted.

    # [texts, heads]
    """
    found = np.zeros((len(examples), len(plain.all)))
    for row, example in enumerate(examples):
        gates = {key: torch.ones(plain.heads, requires_grad=True) for key in plain.outputs}
        if not example.places:
            continue
        with plain.changed(lambda key, out, gates=gates: out * gates[key][None, None, :, None]):  # type: ignore[misc]
            nats, _ = plain.loss(example)
        slopes = torch.autograd.grad(nats, list(gates.values()))
        found[row] = torch.cat(slopes).numpy()
    return found, sum(len(each.places) for each in examples)
