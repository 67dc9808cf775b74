"""The facts that objectives need of a tokenizer: its special tokens, and where words begin.

Costs: one pass over the vocabulary of a fast tokenizer, about 0.3 s for 100,000 tokens.
"""

import re
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from workbench.core.errors import WorkbenchError
from workbench.models.tokenization import as_bytes, is_byte_level, require_fast

SENTINEL = re.compile(r"<extra_id_(\d+)>")
_BEGINS_WORD = ("▁", "Ġ", "Ċ")


@dataclass(frozen=True)
class Vocabulary:
    """Token ids by function; None, or empty, if the tokenizer has no such token."""

    size: int
    pad: int | None
    mask: int | None
    end: int | None  # of a document: eos, else sep
    separator: int | None  # between the two texts of a pair
    before: tuple[int, ...]  # special tokens before a text, such as [CLS]
    after: tuple[int, ...]  # special tokens after a text, such as [SEP]
    sentinels: tuple[int, ...]  # <extra_id_0>, <extra_id_1>, ...
    special: Tensor  # [vocabulary] bool, all of these; the unknown token counts as text
    ordinary: Tensor  # [ordinary], ids of all other tokens, without the unknown token
    inner: Tensor  # [vocabulary] bool, may continue a word
    open: Tensor  # [vocabulary] bool, a word may continue after it

    def is_special(self, tokens: Tensor) -> Tensor:
        """Tokens of a batch that objectives must not change.  # [batch, length] bool"""
        return self.special[tokens]

    def attention_mask(self, tokens: Tensor) -> Tensor:
        """1 for tokens, 0 for padding.  # [batch, length]"""
        if self.pad is None:
            return torch.ones_like(tokens)
        return (tokens != self.pad).long()

    def word_starts(self, tokens: Tensor) -> Tensor:
        """Where a word begins; a special token is a word of its own.  # [batch, length] bool"""
        starts = torch.ones_like(tokens, dtype=torch.bool)
        starts[:, 1:] = ~(self.inner[tokens[:, 1:]] & self.open[tokens[:, :-1]])
        return starts


def vocabulary_of(tokenizer: PreTrainedTokenizerBase) -> Vocabulary:
    """The vocabulary of any fast tokenizer."""
    require_fast(tokenizer)
    tokens: dict[str, int] = tokenizer.get_vocab()
    size = max(tokens.values()) + 1
    special = torch.zeros(size, dtype=torch.bool)
    special[[token_id for token_id in tokenizer.all_special_ids if token_id < size]] = True
    sentinels = {
        int(match[1]): token_id
        for t, token_id in tokens.items()
        if (match := SENTINEL.fullmatch(t))
    }
    special[list(sentinels.values())] = True
    ordinary = ~special
    parts = {name: token_id for name, token_id in _parts(tokenizer).items() if name != "unk_token"}
    if tokenizer.unk_token_id is not None and tokenizer.unk_token_id not in parts.values():
        special[tokenizer.unk_token_id] = False
    used = torch.zeros(size, dtype=torch.bool)
    used[list(tokens.values())] = True
    before, after = _special_around(tokenizer)
    inner, opened = _inside_words(tokens, size, is_byte_level(tokenizer))
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
        ordinary=(used & ordinary).nonzero()[:, 0],
        inner=inner & ~special,
        open=opened & ~special,
    )


def require_token(token_id: int | None, name: str, objective: str) -> int:
    """The id of a token that an objective needs; an error if the tokenizer lacks it."""
    if token_id is None:
        raise WorkbenchError(
            f"{objective} needs a {name} token, and the tokenizer has none.",
            code="token-missing",
            remedy="Train a tokenizer with another layout, such as bert.",
        )
    return token_id


def _parts(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """Special tokens by transformers' names for them, such as `cls_token`."""
    return {
        name: cast(int, tokenizer.convert_tokens_to_ids(token))
        for name, token in tokenizer.special_tokens_map.items()
        if isinstance(token, str)
    }


def _special_around(tokenizer: PreTrainedTokenizerBase) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The special tokens that the tokenizer puts before and after a text."""
    encoding = tokenizer(["a"], return_special_tokens_mask=True)
    ids, special = encoding["input_ids"][0], encoding["special_tokens_mask"][0]
    inside = [position for position, is_special in enumerate(special) if not is_special]
    if not inside:
        return tuple(ids), ()
    return tuple(ids[: inside[0]]), tuple(ids[inside[-1] + 1 :])


def _inside_words(tokens: dict[str, int], size: int, in_bytes: bool) -> tuple[Tensor, Tensor]:
    """Tokens that may continue a word, and tokens after which it may.  # [vocabulary] each"""
    hashed = any(token.startswith("##") for token in tokens)
    inner, opened = torch.zeros(size, dtype=torch.bool), torch.ones(size, dtype=torch.bool)
    for token, token_id in tokens.items():
        if hashed:
            inner[token_id] = token.startswith("##")
        else:
            spelt = as_bytes(token) if in_bytes else token.removeprefix("▁")
            inner[token_id] = not token.startswith(_BEGINS_WORD) and _is_word_character(spelt[:1])
            opened[token_id] = token in _BEGINS_WORD[:2] or _is_word_character(spelt[-1:])
    return inner, opened


def _is_word_character(character: str) -> bool:
    """Whether a character is a letter, a digit, or a byte (0x80 or more) of a longer character."""
    return character.isalnum() or character >= "\x80"
