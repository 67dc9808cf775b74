"""Whole words for ELMo and static vectors: all there are, by falling count.

A model reads every word by its characters and predicts the most frequent ones, so all words have
ids, in the order of the original's vocabulary file (`<S>`, `</S>`, `<UNK>`, then by falling count;
equal counts by spelling), and a softmax of any size is the first so many. Files of them are
`workbench.models.vocabulary_files`. Costs a dictionary of the distinct words, and some 2 s for a
million words.
"""

from collections import Counter
from collections.abc import Iterable

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from workbench.errors import WorkbenchError
from workbench.models.elmo_characters import character_ids
from workbench.models.vocabulary_files import BEGIN, END, MARKS, UNKNOWN, Words

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
