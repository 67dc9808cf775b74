"""How tokenizers spell: the marks they set on tokens, the bytes they print, the signs they drop.

A text becomes a `Line`: its signs as tokens are compared with them, each knowing its character.
Signs are folded characters (case, accents, width and ligatures undone; white space, control and
combining characters gone), or bytes, for tokenizers that spell in those. Costs about 0.5 µs a
character.
"""

import codecs
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate

from transformers import PreTrainedTokenizerBase

Span = tuple[int, int]

_BEFORE = re.compile(r"^(##|▁+|Ġ+)")
_AFTER = re.compile(r"(</w>|@@)$")
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_IDEOGRAPH = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f]")


@dataclass(frozen=True)
class Line:
    """A text as tokens are matched against it, and where each of its signs came from."""

    text: str
    signs: str
    where: list[int]  # of each sign, its character in the text; and the text's length
    begin: list[int]  # of each character, the first sign not before it; and the signs' length
    folds: bool  # signs are folded characters, not bytes

    def spell(self, token: str) -> str:
        """A token in the line's signs."""
        return "".join(map(_fold, unmarked(token))) if self.folds else token

    def before(self, sign: int) -> int:
        """The first character that none of the signs before this one is of."""
        return self.where[sign - 1] + 1 if sign else 0

    def parted(self, sign: int) -> bool:
        """Whether a word may begin here: after a space, at an ideograph or punctuation."""
        if not sign or self.where[sign] > self.where[sign - 1] + 1:
            return True
        characters = self.text[self.where[sign - 1]], self.text[self.where[sign]]
        return self.where[sign - 1] < self.where[sign] and any(map(stands_alone, characters))


def folded(text: str) -> Line:
    """The text without what tokenizers commonly take away."""
    parts = [_fold(character) for character in text]
    return _line(text, "".join(parts), [len(part) for part in parts], folds=True)


def in_bytes(text: str) -> Line:
    """The text as its UTF-8 bytes, each written as the character of that number."""
    lengths = [len(character.encode()) for character in text]
    return _line(text, text.encode().decode("latin-1"), lengths, folds=False)


def _line(text: str, signs: str, lengths: list[int], folds: bool) -> Line:
    where = [place for place, length in enumerate(lengths) for _ in range(length)]
    return Line(text, signs, [*where, len(text)], [0, *accumulate(lengths)], folds)


def unmarked(token: str) -> str:
    """A token without the marks of a word's beginning, middle or end."""
    return _BEFORE.sub("", _AFTER.sub("", token))


def forms(token: str) -> list[str]:
    """A token as it may stand in the text: a mark may have been there before."""
    return [form for form in (token, _AFTER.sub("", token), unmarked(token)) if form]


def stands_alone(character: str) -> bool:
    """Ideographs and punctuation are words by themselves, as BERT cuts."""
    if character.isascii():
        return not character.isalnum()
    return bool(_IDEOGRAPH.match(character)) or unicodedata.category(character)[0] == "P"


def unseen(character: str) -> bool:
    """Control, format, unassigned and replaced characters: they take no room and part no word."""
    if character in "\t\n\r":
        return False
    return character == "\ufffd" or unicodedata.category(character)[0] == "C"


@lru_cache(maxsize=1 << 16)
def _fold(character: str) -> str:
    plain = unicodedata.normalize("NFKD", character).casefold()
    return "".join(
        sign
        for sign in unicodedata.normalize("NFKD", plain)
        if not (sign.isspace() or unseen(sign) or unicodedata.category(sign) == "Mn")
    )


def characters(tokens: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Tokens, each alone, but `<0xE2>` and its like together as the character they make up."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pending = 0
    for token in (*tokens, None):
        byte = _BYTE.fullmatch(token or "")
        pending += byte is not None
        made = decoder.decode(bytes.fromhex(byte[1]) if byte else b"", final=not byte)
        if made:
            yield made, pending
            pending = 0
        if not byte and token is not None:
            yield token, 1


def speaks_bytes(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether tokens are spelled in bytes: tried on a letter of two."""
    return "".join(map(as_bytes, tokenizer.tokenize("é"))).strip() == "é".encode().decode("latin-1")


def as_bytes(token: str) -> str:
    """GPT-2's printable stand-ins for bytes, undone; ByT5's bytes are their own numbers."""
    return "".join(_stand_ins().get(sign, sign) for sign in token)


@cache
def _stand_ins() -> dict[str, str]:
    """GPT-2 writes the bytes that do not print as the characters from 256 on."""
    prints = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in prints]
    return {chr(256 + place): chr(byte) for place, byte in enumerate(hidden)}
