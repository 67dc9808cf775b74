"""Running a planted model and reading its attention, for tests. Costs one pass a batch of texts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.planted import bert, gpt2
from tests.planted.model import Planted

Build = Callable[..., Planted]
BUILDERS: Mapping[str, Build] = {"bert": bert.build, "gpt2": gpt2.build}
ALL = 0.99999  # of the weight, in float32


def eager(planted: Planted) -> Planted:
    planted.model.set_attn_implementation("eager")
    return planted


def run(planted: Planted, pieces: Sequence[Sequence[str]], side: str = "right") -> Any:
    """One batch, padded."""
    planted.tokenizer.padding_side = side
    ids = [planted.tokenizer.convert_tokens_to_ids(list(text)) for text in pieces]
    batch = planted.tokenizer.pad({"input_ids": ids}, return_tensors="pt")
    if side == "left" and planted.causal:
        batch["position_ids"] = (batch["attention_mask"].cumsum(1) - 1).clamp(min=0)
    with torch.inference_mode():
        return planted.model(**batch, output_attentions=True, output_hidden_states=True)


def weights(planted: Planted, pieces: Sequence[Sequence[str]], head: str) -> list[Tensor]:
    """The attention of one head on each text, padding cut off.  # [pieces, pieces] each"""
    return [seen[head] for seen in maps(planted, pieces)]


def maps(planted: Planted, pieces: Sequence[Sequence[str]]) -> list[dict[str, Tensor]]:
    """The attention of every planted head on each text, padding cut off; one pass for all."""
    found = []
    for at in range(0, len(pieces), 50):
        batch = pieces[at : at + 50]
        attentions = run(planted, batch).attentions
        for row, text in enumerate(batch):
            own = {
                head: attentions[layer][row, place, : len(text), : len(text)].float()
                for head, (layer, place) in planted.heads.items()
            }
            found.append(own)
    return found


def least(planted: Planted, pieces: Sequence[Sequence[str]]) -> dict[str, float]:
    """Of each planted head, the smallest weight of any piece on the place it should look at."""
    seen = maps(planted, pieces)
    found = {}
    for head in planted.rules:
        each = [
            own[head][range(len(text)), planted.expected(head, text)].min()
            for text, own in zip(pieces, seen, strict=True)
        ]
        found[head] = float(min(each))
    return found


def random_pieces(planted: Planted, length: int, seed: int) -> list[str]:
    """Different words in any order between the special pieces of an empty text."""
    unseen = max(fact.rank for fact in planted.facts.values())
    known = [piece for piece, fact in planted.facts.items() if 0 < fact.rank < unseen]
    order = np.random.default_rng(seed).permutation(len(known))
    special = planted.pieces("")
    return [special[0], *(known[i] for i in order[: length - len(special)]), *special[1:]]
