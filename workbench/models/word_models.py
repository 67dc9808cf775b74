"""Models that read whole words: ELMo, and static vectors. A word is a piece; there are no heads.

The adapter numbers the words it meets, so that batches stay tensors of numbers like any other
model's; memory grows with the vocabulary met. ELMo has three layers, of which 0 knows no context;
vectors have that one alone. A folder of an ELMo that was trained here has its softmax too, so that
it has an objective; the original's files have none.
"""

import codecs
import copy
import gzip
import hashlib
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from workbench.core.errors import WorkbenchError
from workbench.core.files import open_regular, read_regular, require_regular, written_whole
from workbench.core.machine import require_allowed
from workbench.engine.batch import Batch, Pieces, Row, pad
from workbench.engine.model import (
    Model,
    Objective,
    Output,
    Stack,
    Symbols,
    WeightPlace,
    require_sites,
)
from workbench.engine.taps import Tap
from workbench.models.bilm import MODEL, BiLM, is_trained, load_trained
from workbench.models.elmo import OPTIONS, WEIGHTS, Elmo, read_options

# --- static word vectors as a model of one layer: what a word is worth without its sentence -------
#
# Reads `vectors:FILE` in word2vec's and GloVe's forms, or a folder that `Vectors.save` wrote. A
# file of theirs is held in memory, 4 bytes a number; the folder's table is mapped, and only the
# rows that are looked up are read. A word is found as it is written, or else in lower case, or
# else its vector is zeros: `found` counts how often each happened. Costs one dictionary look-up a
# word.

TABLE, WORDS = "vectors.safetensors", "words.txt"
_REMEDY = f"Name a folder with {TABLE} and {WORDS} as saved together, copied whole."


class Found(NamedTuple):
    """How many of some words were found, and how."""

    exact: int
    lowered: int
    unknown: int


class Vectors:
    """Words and their table of vectors, a row each."""

    def __init__(self, words: Sequence[str], table: Tensor) -> None:
        if table.ndim != 2 or len(words) != len(table) or not table.is_floating_point():
            kind = f"{str(table.dtype).removeprefix('torch.')} {list(table.shape)}"
            raise ValueError(f"{len(words)} words do not fit a table of {kind}")
        self.table = table  # [words, width]
        self.rows = {word: row for row, word in enumerate(words)}
        if len(self.rows) < len(words):
            raise ValueError("a word stands twice among the words of vectors")

    @property
    def width(self) -> int:
        return self.table.shape[1]

    def lookup(self, words: Sequence[str]) -> Tensor:
        """The vector of each word, zeros where it is unknown.  # [words, width]"""
        rows = torch.tensor([self._row(word) for word in words], dtype=torch.long)
        known = rows >= 0
        out = self.table.new_zeros(len(words), self.width)
        out[known] = self.table[rows[known]]
        return out

    def found(self, words: Sequence[str]) -> Found:
        """How `lookup` fares with these words."""
        exact = sum(word in self.rows for word in words)
        known = sum(self._row(word) >= 0 for word in words)
        return Found(exact, known - exact, len(words) - known)

    def random(self, seed: int) -> Self:
        """The same words and width with fresh vectors, each number drawn from N(0, 1)."""
        generator = torch.Generator().manual_seed(seed)
        return type(self)(list(self.rows), torch.randn(self.table.shape, generator=generator))

    def save(self, folder: Path) -> None:
        """Write `vectors.safetensors` and `words.txt`, which `read_vectors` maps."""
        from safetensors.torch import save_file

        if broken := [word for word in self.rows if "\n" in word]:
            raise WorkbenchError(
                f"the word {broken[0]!r} goes over two lines.",
                where=str(folder),
                remedy="Take the line feeds out of the words: words.txt has one word on each line.",
            )
        with written_whole(folder / TABLE) as draft:
            save_file({"vectors": self.table.contiguous()}, draft)
        with written_whole(folder / WORDS) as draft:
            draft.write_text("".join(f"{word}\n" for word in self.rows), "utf-8", newline="\n")

    def _row(self, word: str) -> int:
        row = self.rows.get(word, -1)
        return row if row >= 0 else self.rows.get(word.lower(), -1)


def read_vectors(path: Path) -> Vectors:
    """Read a saved folder (or the table in it), or a file in word2vec's or GloVe's form."""
    if path.is_dir():
        return _read_saved(path)
    if path.suffix == ".safetensors":
        return _read_saved(path.parent, path.name)
    words, table = read_table(path)
    return Vectors(words, torch.from_numpy(table))


def _read_saved(folder: Path, name: str = TABLE) -> Vectors:
    from safetensors import SafetensorError, safe_open

    path = folder / name
    try:
        words = read_regular(folder / WORDS).decode("utf-8")  # nothing but a line feed ends a line
        with safe_open(require_regular(path), framework="pt") as file:
            table: Tensor = file.get_tensor("vectors")
    except UnicodeDecodeError:
        raise WorkbenchError("not UTF-8.", where=str(folder / WORDS), remedy=_REMEDY) from None
    except (SafetensorError, OSError) as error:
        raise WorkbenchError(f"cannot be read: {error}.", where=str(path), remedy=_REMEDY) from None
    try:
        return Vectors(words.removesuffix("\n").split("\n"), table)
    except ValueError as error:
        raise WorkbenchError(f"{error}.", where=str(folder), remedy=_REMEDY) from None


# --- models of whole words ------------------------------------------------------------------------

RANDOM = "@random"
ELMO, VECTORS = "elmo:", "vectors:"
SOFTMAX = "softmax/"  # how its weights are called


class WordModel(Model):
    """States of words from a function over sentences of words."""

    def __init__(
        self,
        name: str,
        family: str,
        layers: int,
        width: int,
        weights: dict[str, Tensor],
        states: Callable[[Sequence[Sequence[str]]], Sequence[Tensor]],
        words: Iterable[str] = (),
        bilm: BiLM | None = None,
        anew: "Callable[[int], WordModel] | None" = None,
        again: "Callable[[], WordModel] | None" = None,
        save: Callable[[Path], object] | None = None,
        without_heads: str = "It reads whole words, and has no attention",
    ) -> None:
        """`weights` are those that states are made of, and those of the softmax."""
        self.name, self.family, self.width = name, family, width
        self.stacks: tuple[Stack, ...] = (Stack("encoder", layers, 0, ()),)
        self.weights, self._states, self.words = weights, states, tuple(words)
        self.bilm = bilm  # ELMo with its softmax
        self.without_heads = without_heads
        self._anew = anew  # the same with weights drawn from a seed
        self._again = again  # the same with weights of its own
        self._save = save  # into a folder that opens again
        self.objective: Objective = "bidirectional" if bilm else ""
        self._number: dict[str, int] = {}
        self._word: list[str] = []

    @property
    def device(self) -> torch.device:
        return next(iter(self.weights.values())).device

    @property
    def parameters(self) -> int:
        return sum(tensor.numel() for tensor in self.weights.values())

    @cached_property
    def content_hash(self) -> str:
        """Of every tensor, and of the words the tensors belong to."""
        digest = hashlib.blake2b(digest_size=16)
        for key, tensor in sorted(self.weights.items()):
            digest.update(f"{key} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        digest.update("\0".join(self.words).encode())
        return digest.hexdigest()

    def encode(self, batch: Batch, documents: Sequence[int] | None = None) -> Pieces:
        chosen = range(len(batch)) if documents is None else documents
        return pad([self._row(batch, document) for document in chosen])

    def _row(self, batch: Batch, document: int) -> Row:
        words = words_of(batch, document)
        for word in words:
            if word not in self._number:
                self._number[word] = len(self._word)
                self._word.append(word)
        return Row(
            ids=np.array([self._number[word] for word in words], dtype=np.int64),
            words=np.arange(len(words)),
            special=np.zeros(len(words), dtype=np.bool_),
            segments=None,
            word_count=len(words),
            order=document,
        )

    def forward(
        self,
        pieces: Pieces,
        *,
        targets: Pieces | None = None,
        taps: Iterable[Tap] = (),
        hidden: bool = True,
        logits: bool | Tensor = False,
        **refused: Any,
    ) -> Output:
        require_sites(self, taps)
        if targets is not None or logits is not False or refused:
            raise WorkbenchError(
                f"{self.name} ({self.family}) gives states of words, and nothing else.",
                remedy="Leave out targets, logits and whatever else was asked for.",
            )
        counts = pieces.word_counts.tolist()  # a piece each
        rows = pieces.ids.tolist()
        sentences = [
            [self._word[i] for i in row[:count]] for row, count in zip(rows, counts, strict=True)
        ]
        found = self._states(sentences)
        lacking = pieces.ids.shape[1] - found[0].shape[1]  # 1 where no text has a word
        states = [functional.pad(layer, (0, 0, 0, max(0, lacking))) for layer in found]
        return Output({"encoder": states}, {"encoder": states[-1]}, None, {"encoder": pieces})

    @property
    def symbols(self) -> Symbols:
        """By the rows of the softmax."""
        return Symbols() if self.bilm is None else Symbols(unknown=self.bilm.words.unknown)

    @property
    def vocabulary(self) -> Mapping[str, int]:
        return {word: row for row, word in enumerate(self.words)}

    def piece_texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._word[number] for number in ids)

    def unknown_pieces(self, pieces: Pieces) -> Tensor:
        """Words that the softmax does not have."""
        known = set(self.words)
        unknown = torch.tensor([*(word not in known for word in self._word), False])  # [words + 1]
        return unknown.to(pieces.ids.device)[pieces.ids] & pieces.mask

    def copy(self, in_fp32: bool = False) -> Model:
        if self._again is None:
            return super().copy(in_fp32)
        again = self._again()
        again.name = self.name
        again._number, again._word = self._number, self._word  # what is encoded serves both
        return again

    def reinitialised(self, seed: int) -> Model:
        return super().reinitialised(seed) if self._anew is None else self._anew(seed)

    def save(self, folder: Path) -> None:
        if self._save is None:
            return super().save(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self._save(folder)
        return None

    def named_weights(self) -> Mapping[str, Tensor]:
        return self.weights

    def weight_places(self) -> Mapping[str, WeightPlace]:
        return {name: self._place(name) for name in self.weights}

    def _place(self, name: str) -> WeightPlace:
        """ELMo's LSTMs count from 1, all before them is layer 0; the softmax is of no layer."""
        if name.startswith(SOFTMAX):
            return WeightPlace(None, None, name)
        cell = re.search(r"Cell(\d+)/", name)
        within = re.sub(r"RNN_\d/.*Cell\d+/", "", name)
        return WeightPlace(self.stacks[0].name, int(cell[1]) + 1 if cell else 0, within)

    def parameters_by_part(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for name, weights in self.weights.items():
            part = name.split(".")[0]
            found[part] = found.get(part, 0) + weights.numel()
        return found


Opener = Callable[[str, torch.device, torch.dtype, int], WordModel]


def words_of(batch: Batch, document: int) -> list[str]:
    """The words of one document, as they are written."""
    text = batch.text_of(document)
    return [text[first:last] for first, last in batch.words_of(document)]


def word_folder(folder: Path) -> Opener | None:
    """What opens a folder of ELMo or of vectors, told from its files; None for any other.

    A model of transformers has a config.json, and these have none.
    """
    try:
        there = {path.name for path in folder.iterdir()}
    except OSError:
        return None
    if "config.json" in there:
        return None
    if there & {TABLE, WORDS}:
        return open_vectors
    if MODEL in there and (OPTIONS in there or is_trained(folder)):
        return open_bilm
    return open_elmo if there & {OPTIONS, WEIGHTS} else None


def open_bilm(ref: str, device: torch.device, dtype: torch.dtype, seed: int) -> WordModel:
    """A folder of ELMo with its softmax and its words; with `@random` both have fresh weights."""
    _only_fp32(dtype, ref)
    net = load_trained(_folder(ref))
    if ref.endswith(RANDOM):
        net = BiLM.fresh(net.elmo.options, net.words, len(net.bias), seed).eval()
    net = net.to(device)
    return _elmo_model(ref, net.elmo, net)


def open_elmo(ref: str, device: torch.device, dtype: torch.dtype, seed: int) -> WordModel:
    """The original's files, by `elmo:OPTIONS.json,WEIGHTS.hdf5` or in one folder.

    With `@random` the options alone are needed.
    """
    fresh = ref.endswith(RANDOM)
    if ref.startswith(ELMO):
        options, _, weights = ref.removeprefix(ELMO).removesuffix(RANDOM).partition(",")
    else:
        options, weights = str(_folder(ref) / OPTIONS), str(_folder(ref) / WEIGHTS)
    if not options or not (weights or fresh):
        raise WorkbenchError(
            "two files make an ELMo.", where=ref, remedy="Say elmo:OPTIONS.json,WEIGHTS.hdf5"
        )
    _only_fp32(dtype, ref)
    place = require_allowed(Path(options).expanduser())
    elmo = (
        Elmo.random(read_options(place), seed)
        if fresh
        else Elmo.from_original(place, require_allowed(Path(weights).expanduser()))
    )
    return _elmo_model(ref, elmo.to(device))


def open_vectors(ref: str, device: torch.device, dtype: torch.dtype, seed: int) -> WordModel:
    """`vectors:FILE`, or a folder that `Vectors.save` wrote."""
    _only_fp32(dtype, ref)
    vectors: Vectors = read_vectors(_folder(ref.removeprefix(VECTORS)))
    if ref.endswith(RANDOM):
        vectors = vectors.random(seed)
    vectors.table = vectors.table.float().to(device)
    return _vectors_model(ref, vectors, device, dtype)


def _vectors_model(
    ref: str, vectors: Vectors, device: torch.device, dtype: torch.dtype
) -> WordModel:
    def states(sentences: Sequence[Sequence[str]]) -> Sequence[Tensor]:
        longest = max((len(sentence) for sentence in sentences), default=0)
        out = torch.zeros(len(sentences), max(longest, 1), vectors.width, device=device)
        for row, sentence in enumerate(sentences):
            out[row, : len(sentence)] = vectors.lookup(sentence)
        return [out]  # [batch, words, width]

    return WordModel(
        ref,
        "vectors",
        0,
        vectors.width,
        {"table": vectors.table},
        states,
        vectors.rows,
        anew=lambda drawn: open_vectors(_random(ref), device, dtype, drawn),
        again=lambda: _vectors_model(
            ref, Vectors(list(vectors.rows), vectors.table.detach().clone()), device, dtype
        ),
        save=vectors.save,
        without_heads="It has one vector for each word whatever stands around it, so no token "
        "looks at another",
    )


def _elmo_model(ref: str, elmo: Elmo, bilm: BiLM | None = None) -> WordModel:
    weights: dict[str, Tensor] = dict(elmo.weights.items())
    if bilm is not None:
        softmax = {"weight": bilm.weight.detach(), "bias": bilm.bias.detach()}
        weights |= {f"{SOFTMAX}{name}": weight for name, weight in softmax.items()}

    def states(sentences: Sequence[Sequence[str]]) -> Sequence[Tensor]:
        return elmo(sentences)[0]  # type: ignore[no-any-return]

    layers, width = elmo.options.layers, 2 * elmo.options.width
    words = bilm.predicted if bilm is not None else ()

    def again() -> WordModel:
        both = copy.deepcopy(bilm)
        return _elmo_model(ref, copy.deepcopy(elmo) if both is None else both.elmo, both)

    return WordModel(
        ref,
        "elmo",
        layers,
        width,
        weights,
        states,
        words,
        bilm,
        anew=lambda seed: _elmo_model(
            _random(ref), Elmo.random(elmo.options, seed).to(next(iter(weights.values())).device)
        ),
        again=again,
        save=elmo.save_original if bilm is None else bilm.save,
        without_heads="It is a bi-LSTM: two recurrent networks carry the context, so no token "
        "looks at another",
    )


def _random(ref: str) -> str:
    return ref.removesuffix(RANDOM) + RANDOM


def _folder(ref: str) -> Path:
    return require_allowed(Path(ref.removesuffix(RANDOM)).expanduser())


def _only_fp32(dtype: torch.dtype, ref: str) -> None:
    if dtype != torch.float32:
        raise WorkbenchError(
            "this model runs in fp32 only.", where=ref, remedy="Leave the precision at auto."
        )


# --- files of word vectors ------------------------------------------------------------------------
#
# Static vectors as others write them: word2vec text, GloVe text, word2vec binary, plain or gzip.
#
# One pass, the words in their order and the vectors in one growing buffer. Costs 4 bytes a number
# in memory; at 300 numbers a word some 90 microseconds a word of text (three minutes for two
# million), 12 of binary. Of a word that comes twice the first vector is kept.

HEADER = re.compile(rb"(\d{1,18}) (\d{1,6})\s*")  # how many words, how wide
LONGEST_WORD = 10_000  # bytes, in a binary file: more, and it is no such file
_FLOAT = 4  # bytes
_TEXT_REMEDY = "A line is a word and its numbers, between single spaces, as many in every line."

Record = tuple[str, NDArray[np.float32], str]  # word, its vector, where it stands


def read_table(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """Words and their vectors; a name that ends in `.bin` or `.bin.gz` is read as binary.

    # [words], [words, width]
    """
    binary = path.name.removesuffix(".gz").endswith(".bin")
    numbers = bytearray()
    words: dict[str, None] = {}
    try:
        with _open(path) as file:
            for word, vector, where in (_binary if binary else _text)(file, path):
                if not np.isfinite(vector).all():
                    raise WorkbenchError(
                        f"the vector of {word!r} is not finite in 32 bits.",
                        where=where,
                        remedy="Take the word out, or write the file anew; is it damaged, or not "
                        "word2vec's form?",
                    )
                if word not in words:
                    words[word] = None
                    numbers += vector.tobytes()
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise WorkbenchError(
            f"cannot be read: {reason}.",
            where=str(path),
            remedy="Check the path, its permissions, and that the file was copied whole.",
        ) from None
    if not words:
        raise WorkbenchError("holds no vectors.", where=str(path), remedy=_TEXT_REMEDY)
    return list(words), np.frombuffer(numbers, dtype=np.float32).reshape(len(words), -1)


def _open(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(require_regular(path), "rb"))
    return open_regular(path)


def _text(file: BinaryIO, path: Path) -> Iterator[Record]:
    promised, width, found, number = -1, 0, 0, 0
    for number, raw in enumerate(file, start=1):
        where = f"{path}:{number}"
        raw = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
        if number == 1 and (header := HEADER.fullmatch(raw)):
            promised, width = int(header[1]), int(header[2])
            continue
        line = _decoded(raw, where)
        if not line:
            continue
        width = width or line.count(" ")
        # From the right: some of GloVe's words have spaces in them.
        word, *fields = line.rsplit(" ", width)
        yield word, _numbers(word, fields, width, where), where
        found += 1
    if promised not in (-1, found):
        raise WorkbenchError(
            f"its first line promises {promised} words, and there are {found}.",
            where=f"{path}:{number}",
            remedy="Check that the file was copied whole.",
        )


def _decoded(raw: bytes, where: str) -> str:
    try:
        return raw.decode("utf-8").rstrip("\r\n ")
    except UnicodeDecodeError:
        raise WorkbenchError(
            "not UTF-8 text.",
            where=where,
            remedy="Let the name of a word2vec binary file end in .bin; save text as UTF-8.",
        ) from None


def _numbers(word: str, fields: list[str], width: int, where: str) -> NDArray[np.float32]:
    try:
        values = np.array([float(field) for field in fields])
    except ValueError as error:
        reason = f"not a number: {str(error).rpartition(': ')[2]}."
        raise WorkbenchError(reason, where=where, remedy=_TEXT_REMEDY) from None
    if not width or len(values) < width:
        reason = f"{len(values)} numbers after {word!r}, expected {width or 'some'}."
        raise WorkbenchError(reason, where=where, remedy=_TEXT_REMEDY)
    if " " in word and _is_number(word.rpartition(" ")[2]):
        reason = f"more than {width} numbers."
        raise WorkbenchError(reason, where=where, remedy=_TEXT_REMEDY)
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _binary(file: BinaryIO, path: Path) -> Iterator[Record]:
    """Bytes that are no UTF-8 become U+FFFD: word2vec cuts long words wherever they are long."""
    header = HEADER.fullmatch(file.readline(LONGEST_WORD))
    if not header or not int(header[2]):
        raise WorkbenchError(
            "not a word2vec binary file: it does not begin with two counts.",
            where=str(path),
            remedy="Only word2vec's own .bin is read; text needs a name that ends otherwise.",
        )
    promised, size = int(header[1]), _FLOAT * int(header[2])
    for number in range(1, promised + 1):
        where = f"{path}, word {number} of {promised}"
        word = _binary_word(file, where)
        values = file.read(size)
        if len(values) < size:
            raise _cut_off(where)
        yield word, np.frombuffer(values, dtype="<f4").astype(np.float32), where
    if file.read().strip(b"\n"):
        raise WorkbenchError(
            f"goes on after the {promised} words that its first line promises.",
            where=str(path),
            remedy="Write it anew; its first line or its width is wrong.",
        )


def _binary_word(file: BinaryIO, where: str) -> str:
    """Up to a space; some writers end the vector before with a line feed."""
    letters = bytearray()
    while (letter := file.read(1)) != b" ":
        letters += letter
        if not letter or len(letters) > LONGEST_WORD:
            raise _cut_off(where)
    word = letters.removeprefix(b"\n").decode("utf-8", "replace")
    if "\n" in word:
        raise _cut_off(where)
    return word


def _cut_off(where: str) -> WorkbenchError:
    return WorkbenchError(
        "the file is cut off or damaged here.",
        where=where,
        remedy="Check that it was copied whole, and that it is word2vec's binary form.",
    )
