"""ELMo's training: the loss of both directions, over all words or over a sample of them.

The model, its softmax and its folder are `workbench.models.bilm`. Costs, a word, a pass forward and
back, and two products with the softmax's matrix; over a large vocabulary with a sample of it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedTokenizerFast

from workbench.core.errors import WorkbenchError
from workbench.models.bilm import BEGIN, END, MARKS, UNKNOWN, BiLM, Words, targets_by_direction
from workbench.models.elmo import character_ids
from workbench.training.chunked_lm_loss import linear_nats

SAMPLED = 8_192  # words of the softmax in training, where there are more than twice as many


def bilm_losses(net: Any, inputs: Mapping[str, Tensor]) -> Tensor:
    """The sum over both directions of a `BiLM`, in nats.  # [1]"""
    lengths, gold = inputs["lengths"], inputs["gold"]
    states = net(inputs["characters"], inputs["places"], lengths)
    total: Tensor = net.bias.new_zeros(())
    for states_of, (rows, targets, _) in zip(
        states, targets_by_direction(gold, lengths), strict=True
    ):
        total = total + _softmax_nats(net, states_of[rows], targets, inputs.get("sampled"))
    return total[None]


def _softmax_nats(net: BiLM, states: Tensor, targets: Tensor, sampled: Tensor | None) -> Tensor:
    """-log p of the targets among all words, or among themselves and a sample.

    A sample is drawn by log-uniform chances. Logits less the log of how often a word is expected in
    it add up to an estimate of what all words but the target would.
    """
    if sampled is None or not net.training:
        return linear_nats(states, net.weight, net.bias, targets)
    size, many = len(net.bias), len(sampled)
    own = (states * net.weight[targets]).sum(1) + net.bias[targets]  # [rows]
    others = functional.linear(states, net.weight[sampled], net.bias[sampled])  # [rows, sampled]
    own = own.float()
    others = others.float() - expected(sampled, size, many).log()
    others = others.masked_fill(sampled == targets[:, None], float("-inf"))
    both = torch.cat([own[:, None], others], dim=1)
    return (both.logsumexp(1) - own).sum()


def expected(numbers: Tensor, size: int, many: int) -> Tensor:
    """How often words, numbered by falling count, are expected in a sample of `many`."""
    chance = torch.log1p(1 / (numbers.float() + 1)) / torch.log(torch.tensor(size + 1.0))
    return chance * many


def sample(size: int, many: int, generator: torch.Generator) -> Tensor:
    """Numbers of words by log-uniform chances, with repeats.  # [many]"""
    uniform = torch.rand(many, generator=generator, dtype=torch.float64)
    drawn = ((size + 1.0) ** uniform).long() - 1
    return drawn.clamp(max=size - 1)


# --- whole words for ELMo and static vectors: all there are, by falling count ---------------------
#
# A model reads every word by its characters and predicts the most frequent ones, so all words
# have ids, in the order of the original's vocabulary file (`<S>`, `</S>`, `<UNK>`, then by
# falling count; equal counts by spelling), and a softmax of any size is the first so many. Files
# of them are `workbench.models.bilm`. Costs a dictionary of the distinct words, and some 2 s for
# a million words.

PADDING = "<PAD>"  # only in tensors: it stands behind the words and in no file
_AT_ONCE = 10_000  # words spelt at a time
# English contractions as treebanks cut them; else runs of letters and digits, and single signs.
_WORD = r"""\w+(?=n['’]t\b)|n['’]t\b|['’](?:s|d|m|re|ve|ll)\b|\w+|[^\w\s]"""


def count_words(lines: Iterable[str]) -> Words:
    """Every word of a text and how often it comes."""
    cut = _cutter()
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(word for word, _ in cut.pre_tokenize_str(line))
    for mark in MARKS:
        counts.pop(mark, None)
    if not counts:
        raise WorkbenchError(
            "there is no text to take words from.",
            remedy="Give lines with words in them; is the right file named, or the right split?",
        )
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return Words((*MARKS, *(word for word, _ in ordered)), (0, 0, 0, *(n for _, n in ordered)))


def word_tokenizer(words: Words) -> PreTrainedTokenizerFast:
    """A tokenizer of whole words, for the store: what is not among them becomes `<UNK>`."""
    numbers = {word: number for number, word in enumerate(words.words)}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = _cutter()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A {END}",
        pair=f"{BEGIN} $A {END} $B {END}",
        special_tokens=[(mark, numbers[mark]) for mark in (BEGIN, END)],
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        bos_token=BEGIN,
        eos_token=END,
        unk_token=UNKNOWN,
        pad_token=PADDING,
    )


def spell(words: Words, most: int) -> Tensor:
    """ELMo's character ids of every word, and of padding.  # [words + 1, characters] int16"""
    parts = [
        character_ids(words.words[first : first + _AT_ONCE], most).astype(np.int16)
        for first in range(0, len(words.words), _AT_ONCE)
    ]
    return torch.from_numpy(np.concatenate([*parts, character_ids([""], most).astype(np.int16)]))


def _cutter() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Split(Regex(_WORD), behavior="isolated"),
        ]
    )
