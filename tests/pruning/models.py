"""Models whose heads are known to matter or not to matter, and texts for them.

`repeated` are texts of two words in turn, of which the planted GPT-2 knows every next word from the
third on: `previous` writes down what came before, and `induction` looks there. Its answers are made
so sure that a little less of a head changes nothing. Costs a tenth of a second a model.
"""

from itertools import combinations
from typing import Any

import torch
from spacy.tokens import Doc
from spacy.vocab import Vocab

from tests.planted import gpt2
from tests.planted.signs import HEAD_WIDTH, ONE, WIDTH, entries, signs
from workbench import HuggingFace

VOCAB = Vocab()
PREVIOUS, INDUCTION = (0, 0), (1, 1)  # site and head
TWIN, HELPER = (1, 2), (1, 3)
SURE = 6.0  # how much surer answers are than as planted
WORDS = ("dog", "house", "river", "child", "book", "tree")


def texts(model: HuggingFace, length: int = 12) -> list[Doc]:
    """Two words in turn, for every pair that the model knows."""
    known = [word for word in WORDS if f"Ġ{word}" in model.tokenizer.get_vocab()]
    return [
        Doc(
            VOCAB,
            words=[pair[place % 2] for place in range(length)],
            spaces=[place < length - 1 for place in range(length)],
        )
        for pair in combinations(known, 2)
    ]


def planted(twins: bool = False, helper: bool = False) -> HuggingFace:
    """The planted GPT-2; with a twin of its induction head, and a head that helps a little."""
    made = gpt2.build()
    net: Any = made.model
    with torch.no_grad():
        net.lm_head.weight.mul_(SURE)
        attention = net.transformer.h[1].attn
        if twins:
            _copy(attention, INDUCTION[1], TWIN[1])
        if helper:
            _help(net, attention, HELPER[1], made.tokenizer.get_vocab())
    return HuggingFace(net, made.tokenizer, "planted")


def _copy(attention: Any, head: int, to: int) -> None:
    """Let one head do what another does."""
    for part in range(3):
        own, other = (slice(part * WIDTH + h * HEAD_WIDTH, part * WIDTH + (h + 1) * HEAD_WIDTH)
                      for h in (head, to))  # fmt: skip
        attention.c_attn.weight[:, other] = attention.c_attn.weight[:, own]
    own, other = (slice(h * HEAD_WIDTH, (h + 1) * HEAD_WIDTH) for h in (head, to))
    attention.c_proj.weight[other] = attention.c_proj.weight[own]


def _help(net: Any, attention: Any, head: int, vocabulary: dict[str, int]) -> None:
    """Let a head say, everywhere, that the next word is one of `WORDS`: a little."""
    codes = signs("code", [vocabulary[f"Ġ{w}"] for w in WORDS if f"Ġ{w}" in vocabulary])
    first = head * HEAD_WIDTH
    attention.c_attn.weight[:, 2 * WIDTH + first] = ONE  # its value is 1
    attention.c_proj.weight[first, entries("answer")] = 0.02 * codes.mean(0)
