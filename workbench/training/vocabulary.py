"""What an objective must know of a tokenizer: its special tokens, and where words begin.

Made once from any fast tokenizer; costs a look at each token, some 0.3 s for 100,000 of them.
"""

import re
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from workbench.core.errors import WorkbenchError
from workbench.models.tokenization import as_bytes, require_fast, speaks_bytes

SENTINEL = re.compile(r"<extra_id_(\d+)>")
_BEGINS_WORD = ("▁", "Ġ", "Ċ")


@dataclass(frozen=True)
class Vocabulary:
    """Ids by their part; None, or nothing, where the tokenizer has no such token."""

    size: int
    pad: int | None
    mask: int | None
    end: int | None  # of a document: eos, or else sep
    separator: int | None  # between the two texts of a pair
    before: tuple[int, ...]  # what the tokenizer puts before a text, such as [CLS]
    after: tuple[int, ...]  # and after it, such as [SEP]
    sentinels: tuple[int, ...]  # <extra_id_0>, <extra_id_1>, ...
    special: Tensor  # [vocabulary] bool, all of these; what is unknown is text
    ordinary: Tensor  # [ordinary], the ids of all others, without the unknown
    inner: Tensor  # [vocabulary] bool, may go on with a word
    open: Tensor  # [vocabulary] bool, after which a word may go on

    def is_special(self, tokens: Tensor) -> Tensor:
        """Which tokens of a batch no objective may touch.  # [batch, length] bool"""
        return self.special[tokens]

    def attention_mask(self, tokens: Tensor) -> Tensor:
        """One where there is no padding.  # [batch, length]"""
        if self.pad is None:
            return torch.ones_like(tokens)
        return (tokens != self.pad).long()

    def word_starts(self, tokens: Tensor) -> Tensor:
        """Where a word begins; special tokens are words by themselves.  # [batch, length] bool"""
        starts = torch.ones_like(tokens, dtype=torch.bool)
        starts[:, 1:] = ~(self.inner[tokens[:, 1:]] & self.open[tokens[:, :-1]])
        return starts


def vocabulary_of(tokenizer: PreTrainedTokenizerBase) -> Vocabulary:
    """Read a tokenizer, ours or anyone's."""
    require_fast(tokenizer)
    tokens: dict[str, int] = tokenizer.get_vocab()
    size = max(tokens.values()) + 1
    special = torch.zeros(size, dtype=torch.bool)
    special[[number for number in tokenizer.all_special_ids if number < size]] = True
    sentinels = {
        int(match[1]): number for t, number in tokens.items() if (match := SENTINEL.fullmatch(t))
    }
    special[list(sentinels.values())] = True
    ordinary = ~special
    parts = {name: number for name, number in _parts(tokenizer).items() if name != "unk_token"}
    if tokenizer.unk_token_id is not None and tokenizer.unk_token_id not in parts.values():
        special[tokenizer.unk_token_id] = False
    there = torch.zeros(size, dtype=torch.bool)
    there[list(tokens.values())] = True
    before, after = _frame(tokenizer)
    inner, opened = _inside_words(tokens, size, speaks_bytes(tokenizer))
    separator, eos = tokenizer.sep_token_id, tokenizer.eos_token_id
    return Vocabulary(
        size=size,
        pad=tokenizer.pad_token_id,
        mask=tokenizer.mask_token_id,
        end=separator if eos is None else eos,
        separator=eos if separator is None else separator,
        before=before,
        after=after,
        sentinels=tuple(sentinels[i] for i in range(len(sentinels)) if i in sentinels),
        special=special,
        ordinary=(there & ordinary).nonzero()[:, 0],
        inner=inner & ~special,
        open=opened & ~special,
    )


def need(number: int | None, name: str, objective: str) -> int:
    """An id that an objective cannot do without."""
    if number is None:
        raise WorkbenchError(
            f"{objective} needs a {name} token, and the tokenizer has none.",
            remedy="Train a tokenizer with another layout, such as bert.",
        )
    return number


def _parts(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """Special tokens by transformers' names for them, such as `cls_token`."""
    return {
        name: cast(int, tokenizer.convert_tokens_to_ids(token))
        for name, token in tokenizer.special_tokens_map.items()
        if isinstance(token, str)
    }


def _frame(tokenizer: PreTrainedTokenizerBase) -> tuple[tuple[int, ...], tuple[int, ...]]:
    found = tokenizer(["a"], return_special_tokens_mask=True)
    ids, added = found["input_ids"][0], found["special_tokens_mask"][0]
    inside = [place for place, mark in enumerate(added) if not mark]
    if not inside:
        return tuple(ids), ()
    return tuple(ids[: inside[0]]), tuple(ids[inside[-1] + 1 :])


def _inside_words(tokens: dict[str, int], size: int, in_bytes: bool) -> tuple[Tensor, Tensor]:
    """Which tokens may go on with a word, and after which one may go on.  # [vocabulary] each"""
    hashed = any(token.startswith("##") for token in tokens)
    inner, opened = torch.zeros(size, dtype=torch.bool), torch.ones(size, dtype=torch.bool)
    for token, number in tokens.items():
        if hashed:
            inner[number] = token.startswith("##")
        else:
            spelt = as_bytes(token) if in_bytes else token.removeprefix("▁")
            inner[number] = not token.startswith(_BEGINS_WORD) and _of_word(spelt[:1])
            opened[number] = token in _BEGINS_WORD[:2] or _of_word(spelt[-1:])
    return inner, opened


def _of_word(character: str) -> bool:
    """Letters and digits; of a character cut into bytes, its parts (from 0x80 on)."""
    return character.isalnum() or character >= "\x80"
