"""ELMo's training loss in both directions, with a full or a sampled softmax.

The model, its softmax and its folder are in `workbench.models.bilm`. Costs: per word a forward and
a backward pass, and two products with the softmax matrix, or with a sample of a large one.
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

from workbench.analyses.training.objectives.chunked_lm_loss import linear_nats
from workbench.core.errors import WorkbenchError
from workbench.models.bilm import BEGIN, END, MARKS, UNKNOWN, BiLM, Words, targets_by_direction
from workbench.models.elmo import character_ids

SAMPLED = 8_192  # sample of softmax words in training, if there are more than twice as many


def bilm_losses(net: Any, inputs: Mapping[str, Tensor]) -> Tensor:
    """The summed loss of both directions of a `BiLM`, in nats.  # [1]"""
    lengths, gold = inputs["lengths"], inputs["gold"]
    states = net(inputs["characters"], inputs["places"], lengths)
    total: Tensor = net.bias.new_zeros(())
    for states_of, (rows, targets, _) in zip(
        states, targets_by_direction(gold, lengths), strict=True
    ):
        total = total + _softmax_nats(net, states_of[rows], targets, inputs.get("sampled"))
    return total[None]


def _softmax_nats(net: BiLM, states: Tensor, targets: Tensor, sampled: Tensor | None) -> Tensor:
    """-log p of the targets among all words, or among the target and a sample of words.

    The sample has log-uniform probabilities. Subtracting the log of each word's expected count from
    its logit makes the sum over the sample an estimate of the sum over all words but the target.
    """
    if sampled is None or not net.training:
        return linear_nats(states, net.weight, net.bias, targets)
    size, n_sampled = len(net.bias), len(sampled)
    target_logits = (states * net.weight[targets]).sum(1) + net.bias[targets]  # [rows]
    sample_logits = functional.linear(
        states, net.weight[sampled], net.bias[sampled]
    )  # [rows, sampled]
    target_logits = target_logits.float()
    sample_logits = sample_logits.float() - expected_counts(sampled, size, n_sampled).log()
    sample_logits = sample_logits.masked_fill(sampled == targets[:, None], float("-inf"))
    all_logits = torch.cat([target_logits[:, None], sample_logits], dim=1)
    return (all_logits.logsumexp(1) - target_logits).sum()


def expected_counts(ranks: Tensor, size: int, n_sampled: int) -> Tensor:
    """Expected count of words, by frequency rank, in a sample of `n_sampled`."""
    probability = torch.log1p(1 / (ranks.float() + 1)) / torch.log(torch.tensor(size + 1.0))
    return probability * n_sampled


def sample(size: int, n_sampled: int, generator: torch.Generator) -> Tensor:
    """Word ranks with log-uniform probabilities, with repeats.  # [n_sampled]"""
    uniform = torch.rand(n_sampled, generator=generator, dtype=torch.float64)
    ranks = ((size + 1.0) ** uniform).long() - 1
    return ranks.clamp(max=size - 1)


# --- whole words for ELMo and static vectors: all words, by falling count -------------------------
#
# A model reads every word by its characters and predicts the most frequent words. So all words have
# ids, in the order of the original's vocabulary file (`<S>`, `</S>`, `<UNK>`, then by falling
# count; ties by spelling), and a softmax of size n covers the first n. Their files are in
# `workbench.models.bilm`. Costs: a dictionary of the distinct words, and about 2 s for a million
# words.

PADDING = "<PAD>"  # only in tensors, after the words; in no file
_CHUNK = 10_000  # words converted to characters at a time
# English contractions as in treebanks; else runs of letters and digits, and single symbols.
_WORD = r"""\w+(?=n['’]t\b)|n['’]t\b|['’](?:s|d|m|re|ve|ll)\b|\w+|[^\w\s]"""


def count_words(lines: Iterable[str]) -> Words:
    """Every word of a text with its count."""
    pre_tokenizer = _word_pre_tokenizer()
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(word for word, _ in pre_tokenizer.pre_tokenize_str(line))
    for mark in MARKS:
        counts.pop(mark, None)
    if not counts:
        raise WorkbenchError(
            "the text has no words.",
            code="empty-text",
            remedy="Give a text with words; check the name of the file or split.",
        )
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return Words((*MARKS, *(word for word, _ in ordered)), (0, 0, 0, *(n for _, n in ordered)))


def word_tokenizer(words: Words) -> PreTrainedTokenizerFast:
    """A tokenizer of whole words, for the token store; unknown words become `<UNK>`."""
    ids = {word: number for number, word in enumerate(words.words)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = _word_pre_tokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A {END}",
        pair=f"{BEGIN} $A {END} $B {END}",
        special_tokens=[(mark, ids[mark]) for mark in (BEGIN, END)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BEGIN,
        eos_token=END,
        unk_token=UNKNOWN,
        pad_token=PADDING,
    )


def spell(words: Words, max_characters: int) -> Tensor:
    """ELMo's character ids of every word, and of padding.  # [words + 1, characters] int16"""
    parts = [
        character_ids(words.words[first : first + _CHUNK], max_characters).astype(np.int16)
        for first in range(0, len(words.words), _CHUNK)
    ]
    return torch.from_numpy(
        np.concatenate([*parts, character_ids([""], max_characters).astype(np.int16)])
    )


def _word_pre_tokenizer() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Split(Regex(_WORD), behavior="isolated"),
        ]
    )
