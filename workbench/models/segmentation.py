"""How a tokenizer splits a text: the characters of each piece, and the steps of its algorithm.

A tokenizer is taken apart as it works: text between added tokens is normalised and cut into chunks
by its own code; then BPE merges, WordPiece takes the longest match, and a unigram model finds the
best segmentation, from the vocabulary, the merges and the scores of the tokenizer's own file. The
result is compared with what the tokenizer itself returns. Costs: reading the tokenizer's file once,
which takes a second for 250,000 pieces; then milliseconds per text.
"""

import codecs
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import NormalizedString, PreTokenizedString
from transformers import PreTrainedTokenizerBase

from workbench.core.errors import WorkbenchError
from workbench.core.files import parse_json
from workbench.engine.text_pieces import Algorithm, Segmentation, Segmented, Step, TextPiece
from workbench.models.tokenization import (
    as_bytes,
    encode,
    is_byte_level,
    require_fast,
    source,
    without_surrogates,
    word_of_pieces,
    written,
)

SPACE = "▁"  # SentencePiece's mark of a space
RUNNERS_UP = 4  # segmentations of a unigram model that are listed after the best
UNKNOWN_PENALTY = 10.0  # of an unknown character, below the lowest score of a unigram model
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class Chunk(NamedTuple):
    """A part of a text that the algorithm splits on its own, mostly a word."""

    text: str  # normalised
    first: int  # characters of the original text
    last: int
    added: int | None = None  # the id, if it is a token that is never split


class Segmenter:
    """A tokenizer taken apart; the definition in its file is read once."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        require_fast(tokenizer)
        self.tokenizer = tokenizer
        self.backend: Any = tokenizer.backend_tokenizer
        definition = parse_json(self.backend.to_str())
        self.model: Mapping[str, Any] = definition["model"]
        self.kind: str = self.model.get("type") or type(self.backend.model).__name__
        self.in_bytes = is_byte_level(tokenizer)
        self.marks_spaces = self.in_bytes or SPACE in str(definition.get("decoder"))
        self.prefix: str = self.model.get("continuing_subword_prefix") or ""
        self.suffix: str = self.model.get("end_of_word_suffix") or ""
        self.added: Mapping[int, str] = {
            id_: token.content for id_, token in tokenizer.added_tokens_decoder.items()
        }

    @property
    def algorithm(self) -> Algorithm:
        if self.kind == "BPE":
            return "byte-level BPE" if self.in_bytes else "BPE"
        known: Mapping[str, Algorithm] = {
            "WordPiece": "WordPiece", "Unigram": "unigram", "WordLevel": "word list",
        }  # fmt: skip
        return known[self.kind]

    @cached_property
    def adds_space(self) -> bool:
        """Whether the first piece of a text says a space that the text does not begin with."""
        pieces = self.segmented("a", np.zeros((0, 2), dtype=np.int64), adds_space=False).pieces
        return next((piece.says for piece in pieces if piece.says), "").startswith(" ")

    # --- pieces ---------------------------------------------------------------------------------

    def segmented(
        self, text: str, words: NDArray[Any], adds_space: bool | None = None
    ) -> Segmented:
        """The pieces of a text, special ones included, not cut to the model's maximum length.

        `words` are character ranges, ascending and disjoint.  # [words, 2]
        """
        text = without_surrogates(text)
        ranges = np.asarray(words, dtype=np.int64).reshape(-1, 2)
        encoded = encode(self.tokenizer, [source(text, ranges, None)])[0]
        owned = word_of_pieces(self.tokenizer, encoded, ranges)
        unknown = self.tokenizer.unk_token_id
        tokens = [*self.tokenizer.convert_ids_to_tokens(list(encoded.ids))]
        pieces = []
        says = self._says(text, encoded.ids, tokens, encoded.offsets, encoded.special)
        for index, (id_, name) in enumerate(
            zip(encoded.ids, written(self.tokenizer, encoded.ids), strict=True)
        ):
            first, last = encoded.offsets[index]
            is_special = bool(encoded.special[index])
            is_typed = self._is_typed(text, id_, first, last)
            pieces.append(
                TextPiece(
                    name, id_, first, last, int(owned[index]), says[index], is_special,
                    id_ == unknown and not is_special and not is_typed,
                )
            )  # fmt: skip
        adds = self.adds_space if adds_space is None else adds_space
        return Segmented(tuple(pieces), self.algorithm, self.marks_spaces, adds)

    def _is_typed(self, text: str, id_: int, first: int, last: int) -> bool:
        """Whether a piece is an added token that stands in the text, such as a typed `[MASK]`."""
        content = self.added.get(id_)
        if content is None or first == last:
            return False
        return text[first:last].strip().casefold() == content.strip().casefold()

    def _says(
        self,
        text: str,
        ids: Sequence[int],
        tokens: Sequence[str],
        offsets: Sequence[tuple[int, int]],
        special: Sequence[int],
    ) -> list[str]:
        """The characters that each piece stands for; a character of several, at its last piece."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        unknown = self.tokenizer.unk_token_id
        said: list[str] = []
        for id_, token, (first, last), is_special in zip(
            ids, tokens, offsets, special, strict=True
        ):
            if is_special:
                said.append("")
            elif self._is_typed(text, id_, first, last):
                said.append(text[first:last])
            elif id_ == unknown:
                said.append("")
            elif self.in_bytes:
                said.append(decoder.decode(as_bytes(token).encode("latin-1", "replace")))
            elif (byte := _BYTE.fullmatch(token)) and self.model.get("byte_fallback"):
                said.append(decoder.decode(bytes.fromhex(byte[1])))
            else:
                said.append(self._plain(token))
        return said

    def _plain(self, token: str) -> str:
        """What a token says without the marks of its place in a word."""
        if self.marks_spaces:
            return token.replace(SPACE, " ")
        return token.removeprefix(self.prefix).removesuffix(self.suffix)

    # --- steps ----------------------------------------------------------------------------------

    def steps(self, text: str) -> list[Segmentation]:
        """How each chunk of a text becomes pieces; raises if the result is not the tokenizer's."""
        text = without_surrogates(text)
        found = [self._segmentation(chunk) for chunk in self._chunks(text)]
        own = self.backend.encode(text, add_special_tokens=False).ids
        if [id_ for each in found for id_ in each.ids] != list(own):
            raise WorkbenchError(
                f"the steps of this tokenizer ({type(self.tokenizer).__name__}, {self.kind}) "
                "cannot be followed: they end in other pieces than its own.",
                code="model-unsupported",
                where=str(self.tokenizer.name_or_path),
                remedy="Look at its pieces only.",
            )
        return found

    def _chunks(self, text: str) -> Iterator[Chunk]:
        """The parts that are split on their own: added tokens, and what is between them."""
        encoding = self.backend.encode(text, add_special_tokens=False)
        begin = 0
        for id_, (first, last) in zip(encoding.ids, encoding.offsets, strict=True):
            if self._is_typed(text, id_, first, last):
                yield from self._between(text, begin, first)
                yield Chunk(text[first:last], first, last, id_)
                begin = last
        yield from self._between(text, begin, len(text))

    def _between(self, text: str, begin: int, end: int) -> Iterator[Chunk]:
        if begin >= end:
            return
        parts = PreTokenizedString(text)
        if (begin, end) != (0, len(text)):

            def inside(_: int, whole: NormalizedString) -> list[NormalizedString]:
                part = whole[begin:end]
                return [] if part is None else [part]

            parts.split(inside)
        if (normalizer := self.backend.normalizer) is not None:
            parts.normalize(normalizer.normalize)
        if (pre_tokenizer := self.backend.pre_tokenizer) is not None:
            pre_tokenizer.pre_tokenize(parts)
        for chunk, (first, last), _ in parts.get_splits("original", "char"):
            if chunk:
                yield Chunk(chunk, first, last)

    def _segmentation(self, chunk: Chunk) -> Segmentation:
        steps: list[tuple[Sequence[int], Step]]
        if chunk.added is not None:
            steps, ids = [([chunk.added], Step(()))], [chunk.added]
        elif self.kind == "BPE":
            steps, ids = self._bpe(chunk.text)
        elif self.kind == "WordPiece":
            steps, ids = self._longest_matches(chunk.text)
        elif self.kind == "Unigram":
            steps, ids = self._best_segmentations(chunk.text)
        else:
            vocabulary: Mapping[str, int] = self.model["vocab"]
            unknown = vocabulary.get(str(self.model.get("unk_token")), -1)
            ids = [vocabulary.get(chunk.text, unknown)]
            steps = [(ids, Step(()))]
        return Segmentation(
            chunk.text, chunk.first, chunk.last, self.algorithm,
            tuple(self._readable(pieces, step) for pieces, step in steps),
            self._names(ids), tuple(ids),
        )  # fmt: skip

    def _names(self, ids: Iterable[int]) -> tuple[str, ...]:
        return written(self.tokenizer, [*ids])

    def _readable(self, ids: Sequence[int], step: Step) -> Step:
        return Step(self._names(ids), step.made, step.parts, step.rank, step.scores, step.rest)

    # BPE: the pair that was learnt first is merged, the leftmost of several

    @cached_property
    def _merges(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Of two pieces, the rank of their merge and the piece that it makes."""
        vocabulary: Mapping[str, int] = self.model["vocab"]
        found: dict[tuple[int, int], tuple[int, int]] = {}
        for rank, merge in enumerate(self.model["merges"], 1):
            left, right = merge.split(" ") if isinstance(merge, str) else merge
            made = vocabulary[left + right[len(self.prefix) :]]
            found[vocabulary[left], vocabulary[right]] = rank, made
        return found

    def _bpe(self, text: str) -> tuple[list[tuple[Sequence[int], Step]], list[int]]:
        vocabulary: Mapping[str, int] = self.model["vocab"]
        if self.model.get("ignore_merges") and text in vocabulary:
            ids = [vocabulary[text]]
            return [(ids, Step(()))], ids
        ids = self._symbols(text)
        steps: list[tuple[Sequence[int], Step]] = [(tuple(ids), Step(()))]
        while True:
            pairs = [
                (*self._merges[pair], index)
                for index, pair in enumerate(pairwise(ids))
                if pair in self._merges
            ]
            if not pairs:
                return steps, ids
            rank, made, index = min(pairs, key=lambda each: (each[0], each[2]))
            parts = self._names(ids[index : index + 2])
            ids[index : index + 2] = [made]
            steps.append((tuple(ids), Step((), self._names([made])[0], parts, rank)))

    def _symbols(self, text: str) -> list[int]:
        """The pieces that merging begins with: characters, or bytes."""
        vocabulary: Mapping[str, int] = self.model["vocab"]
        unknown = vocabulary.get(str(self.model.get("unk_token")))
        ids: list[int] = []
        pending: list[int] = []  # an unknown piece, which others may join
        for index, character in enumerate(text):
            symbol = (self.prefix if index else "") + character
            symbol += self.suffix if index == len(text) - 1 else ""
            if symbol in vocabulary:
                ids += [*pending, vocabulary[symbol]]
                pending = []
            elif self.model.get("byte_fallback") and (as_ids := self._bytes(symbol)):
                ids += as_ids
            elif unknown is not None:
                if pending and not self.model.get("fuse_unk"):
                    ids += pending
                pending = [unknown]
        return ids + pending

    def _bytes(self, text: str) -> list[int]:
        """The pieces of the bytes of a text; empty if one is missing."""
        vocabulary = self._scores[0] if self.kind == "Unigram" else self.model["vocab"]
        ids = [vocabulary.get(f"<0x{byte:02X}>") for byte in text.encode()]
        return [] if None in ids else [id_ for id_ in ids if id_ is not None]

    # WordPiece: the longest piece that the rest begins with

    def _longest_matches(self, text: str) -> tuple[list[tuple[Sequence[int], Step]], list[int]]:
        vocabulary: Mapping[str, int] = self.model["vocab"]
        unknown = [vocabulary[str(self.model["unk_token"])]]
        steps: list[tuple[Sequence[int], Step]] = []
        if len(text) > int(self.model.get("max_input_chars_per_word", math.inf)):
            return [(unknown, Step((), rest=text))], unknown
        ids: list[int] = []
        begin = 0
        while begin < len(text):
            before = self.prefix if begin else ""
            tried = [before + text[begin:end] for end in range(len(text), begin, -1)]
            found = next((n for n, each in enumerate(tried) if each in vocabulary), None)
            if found is None:
                steps.append((unknown, Step((), "", tuple(tried), rest=text[begin:])))
                return steps, unknown
            ids.append(vocabulary[tried[found]])
            begin = len(text) - found
            made, longer = self._names(ids[-1:])[0], tuple(tried[:found])
            steps.append((tuple(ids), Step((), made, longer, rest=text[begin:])))
        return steps, ids

    # unigram: the segmentation with the largest sum of log-probabilities

    @cached_property
    def _scores(self) -> tuple[dict[str, int], list[float], int]:
        """The id of each piece, its score by id, and the length of the longest piece."""
        pieces: Sequence[Sequence[Any]] = self.model["vocab"]
        ids = {piece: id_ for id_, (piece, _) in enumerate(pieces)}
        return ids, [float(score) for _, score in pieces], max(map(len, ids), default=0)

    def _best_segmentations(self, text: str) -> tuple[list[tuple[Sequence[int], Step]], list[int]]:
        steps: list[tuple[Sequence[int], Step]] = []
        best: list[int] = []
        for rank, spans in enumerate(self._ways(text, 1 + RUNNERS_UP), 1):
            ids, scores = self._of_spans(text, spans)
            best = best or ids
            steps.append((ids, Step((), rank=rank, scores=tuple(scores))))
        return steps, best

    def _ways(self, text: str, most: int) -> list[list[tuple[int, int]]]:
        """The best ways to split a text into pieces, the best first: a Viterbi search with several
        ways to each character.  # (first, last) of each piece
        """
        ids, scores, longest = self._scores
        unknown = min(scores, default=0.0) - UNKNOWN_PENALTY
        # of each place: score, and the place and the rank there from which it is reached
        ways: list[list[tuple[float, int, int]]] = [[(0.0, -1, -1)]]
        for end in range(1, len(text) + 1):
            here: list[tuple[float, int, int]] = []
            for begin in range(max(0, end - max(longest, 1)), end):
                id_ = ids.get(text[begin:end])
                if id_ is None and end - begin > 1:
                    continue
                score = unknown if id_ is None else scores[id_]
                here += [(way[0] + score, begin, rank) for rank, way in enumerate(ways[begin])]
            here.sort(key=lambda way: -way[0])  # of equal ones, the longer last piece is first
            ways.append(here[:most])
        return [[*_backwards(ways, rank)][::-1] for rank in range(len(ways[-1]))]

    def _of_spans(
        self, text: str, spans: Sequence[tuple[int, int]]
    ) -> tuple[list[int], list[float]]:
        """The pieces of one way to split, and their scores; bytes share the score of their text."""
        known, scores, _ = self._scores
        unknown = int(self.model.get("unk_id") or 0)
        low = min(scores, default=0.0) - UNKNOWN_PENALTY
        ids: list[int] = []
        found: list[float] = []
        strange, penalty = "", 0.0  # a run of unknown characters, which become one piece
        for first, last in [*spans, (len(text), len(text))]:
            id_ = known.get(text[first:last])
            if last > first and (id_ is None or id_ == unknown):
                strange, penalty = strange + text[first:last], penalty + low
                continue
            if strange:
                as_bytes_ = self._bytes(strange) if self.model.get("byte_fallback") else []
                pieces = as_bytes_ or [unknown]
                ids += pieces
                found += [penalty / len(pieces)] * len(pieces)
                strange, penalty = "", 0.0
            if id_ is not None and last > first:
                ids.append(id_)
                found.append(scores[id_])
        return ids, found


def _backwards(
    ways: Sequence[Sequence[tuple[float, int, int]]], rank: int
) -> Iterator[tuple[int, int]]:
    """The pieces of one way to the end of the text, the last first."""
    end = len(ways) - 1
    while end > 0:
        _, begin, before = ways[end][rank]
        yield begin, end
        end, rank = begin, before
