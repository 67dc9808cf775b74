"""Texts to align: plain ones, odd ones, any at all; and words in them, cut this way or that."""

import re
import unicodedata
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from workbench.engine.batch import Batch

Ranges = list[tuple[int, int]]

# of each of twenty tokenizers
SOME_OF_EACH = settings(max_examples=max(1, settings.default.max_examples // 3))

PLAIN = (
    "The Larger man café doctors didn't reading , . ; louder 12 100 1994 Zoë boat x q Why "
    "Nevertheless whispering ZOË DOCTORS \" ' crossing Qualified I a"
).split()
ODD = [
    *"ﬁ½İßςΣǆẞ⁇㎏ﷺ漢字한국กำकृ्'#@_<>▁Ġ",  # expanded, lower-cased to two, of other scripts
    *"\u0301\u0323\u200b\u200d\u00ad\ufeff\u0000\u0007\u2028\u0085\u3000\u00a0\t\n",
    *["👩‍👩‍👧", "🇫🇷", "e\u0301", "ｶﾞ", "𝐀", "ᄒ\u1161ᆫ", "##", "``", "''", "</w>", "@@", "  "],
    *["[SEP]", "</s>", "<unk>", "<0x41>", "\ud83d"],
]


def spaced(texts: Iterable[str]) -> str:
    return " ".join(texts)


plain = st.lists(st.sampled_from(PLAIN), max_size=12).map(spaced)
odd = st.lists(st.sampled_from([*PLAIN, *ODD, " "]), max_size=14).map("".join)
anything = st.one_of(odd, st.text(st.characters(codec=None), max_size=24))


@st.composite
def cut_anywhere(draw: st.DrawFn, text: str) -> Ranges:
    """Words that begin and end at any character, and need not cover the text."""
    edges = sorted(draw(st.sets(st.integers(0, len(text)), max_size=10)))
    return [each for each in pairwise(edges) if draw(st.integers(0, 4))]


def at_spaces(text: str) -> Ranges:
    return [found.span() for found in re.finditer(r"\S+", text)]


def as_in_treebanks(text: str) -> Ranges:
    """Letters in a row, and every other sign by itself."""
    return [found.span() for found in re.finditer(r"[^\W_]+|[^\w\s]|_", text)]


def whole(text: str) -> str:
    """Without halves of characters, which no tokenizer takes."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def bare(text: str) -> str:
    """Without case, accents, width, or white space."""
    plain_ = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(
        sign
        for sign in plain_
        if not (sign.isspace() or unicodedata.category(sign) in {"Mn", "Cc", "Cf"})
    )


def batch_of(texts: list[str], ranges: list[Ranges], pairs: list[int | None]) -> Batch:
    """An encoded batch of texts, their words, and the word where a second text begins."""
    raw = [text.encode() for text in texts]
    segments = [
        int(pair is not None and word >= pair)
        for words, pair in zip(ranges, pairs, strict=True)
        for word in range(len(words))
    ]
    return Batch(
        text=np.frombuffer(b"".join(raw), dtype=np.uint8),
        text_offsets=np.cumsum([0, *map(len, raw)], dtype=np.int64),
        words=np.array([word for words in ranges for word in words], dtype=np.int32).reshape(-1, 2),
        word_offsets=np.cumsum([0, *map(len, ranges)], dtype=np.int64),
        segments=np.array(segments, dtype=np.int8),
        order=np.arange(len(texts), dtype=np.int64) + 100,
    )
