"""Models whose heads are known to matter or not to matter, and texts for them.

`repeated` are texts of two words in turn, of which the planted GPT-2 knows every next word from the
third on: `previous` writes down what came before, and `induction` looks there. Its answers are made
so sure that a little less of a head changes nothing. Costs a tenth of a second a model.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import torch
from spacy.tokens import Doc
from spacy.vocab import Vocab

from tests.planted import gpt2
from tests.planted.signs import HEAD_WIDTH, ONE, WIDTH, entries, signs
from workbench.models.huggingface import HuggingFace

VOCAB = Vocab()
PREVIOUS, INDUCTION = (0, 0), (1, 1)  # site and head
TWIN, HELPER = (1, 2), (1, 3)
SURE = 6.0  # how much surer answers are than as planted
LOUD = 30.0  # of the entries that no head writes
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


def unigrams(strengths: Sequence[float], layers: int = 8, heads: int = 4) -> HuggingFace:
    """A GPT-2 whose heads each know how frequent some words are, and write it everywhere.

    Head h adds `strengths[h]` of the log-frequencies of the words of frequency rank h, h + n, ...,
    with n heads of a strength; heads after these write nothing.
    """
    from transformers import GPT2Config, GPT2LMHeadModel

    import workbench as wb

    tokenizer: Any = wb.load("mini:gpt").tokenizer
    width, total = 128, layers * heads
    net: Any = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(tokenizer), n_embd=width, n_layer=layers, n_head=heads, n_inner=8,
            n_positions=256, tie_word_embeddings=False, bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0,
        )
    ).eval()  # fmt: skip
    counts = torch.ones(len(tokenizer))
    for doc in wb.read("primer").docs("train", 1000):
        for piece in tokenizer(doc.text)["input_ids"]:
            counts[piece] += 1
    logs, ranks = counts.log(), counts.argsort(descending=True, stable=True)
    order = torch.randperm(total, generator=torch.Generator().manual_seed(0)).tolist()
    with torch.no_grad():
        for name, weight in net.named_parameters():
            weight.fill_(1.0 if "ln_" in name and name.endswith("weight") else 0.0)
        net.transformer.wte.weight[:, total::2] = LOUD  # so that a head hardly changes the norm
        net.transformer.wte.weight[:, total + 1 :: 2] = -LOUD
        net.transformer.ln_f.weight.fill_(LOUD * (1 - total / width) ** 0.5)
        for index, strength in enumerate(strengths):
            layer, head = divmod(order[index], heads)
            attention, first = net.transformer.h[layer].attn, head * (width // heads)
            attention.c_attn.bias[2 * width + first] = 1.0  # its value, wherever it looks
            attention.c_proj.weight[first, index] = 1.0
            words = ranks[index :: len(strengths)]
            net.lm_head.weight[words, index] = strength * logs[words]
    return HuggingFace(net, tokenizer, "unigrams")
