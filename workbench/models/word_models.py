"""Models that read whole words: ELMo and static vectors; each word is one piece.

They have no attention heads. The adapter gives each new word an index, so that batches are tensors
of ids as in other models; memory grows with the vocabulary. ELMo has three layers, of which layer 0
is context-free; static vectors have layer 0 only. An ELMo trained with Workbench includes its
softmax and so has an objective; the original's files have none. Costs: as in `elmo`; for vectors a
dictionary look-up per word.
"""

import codecs
import copy
import gzip
import hashlib
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from workbench.core.errors import WorkbenchError
from workbench.core.files import (
    atomic_write,
    open_regular,
    read_regular,
    require_regular,
    write_atomically,
)
from workbench.core.machine import require_allowed
from workbench.core.public import public
from workbench.engine.batch import Batch, Pieces, Row, pad
from workbench.engine.model import (
    Direction,
    Model,
    Objective,
    Output,
    Stack,
    Symbols,
    WeightPlace,
    require_sites,
)
from workbench.engine.taps import StackName, Tap, hooked, session
from workbench.engine.text_pieces import NO_ID, Algorithm, Segmentation, Segmented, Step, TextPiece
from workbench.models.bilm import MODEL, BiLM, is_trained, load_trained
from workbench.models.edit_terms import changed_hash
from workbench.models.elmo import (
    OPTIONS,
    WEIGHTS,
    Change,
    Elmo,
    read_back,
    read_options,
    spelling,
)
from workbench.models.formats import task_checkpoint
from workbench.models.references import as_random, split_ref

# --- static word vectors: a context-free model with one layer -------------------------------------
#
# Reads `vectors:FILE` in word2vec or GloVe format, or a folder that `Vectors.save` wrote. A file is
# held in memory, 4 bytes per number; the folder's table is memory-mapped, and only the rows looked
# up are read. A word is looked up as written, then in lower case; otherwise its vector is zeros.
# `found` counts the three cases. Costs: one dictionary look-up per word.

TABLE, WORDS = "vectors.safetensors", "words.txt"
_REMEDY = f"Name a complete folder with {TABLE} and {WORDS} from the same save."


class Found(NamedTuple):
    """How many words were found as written, in lower case, or not at all."""

    exact: int
    lowered: int
    unknown: int


class Vectors:
    """Words and their table of vectors, one row per word."""

    def __init__(self, words: Sequence[str], table: Tensor) -> None:
        if table.ndim != 2 or len(words) != len(table) or not table.is_floating_point():
            kind = f"{str(table.dtype).removeprefix('torch.')} {list(table.shape)}"
            raise ValueError(f"{len(words)} words do not match a table of {kind}")
        self.table = table  # [words, width]
        self.rows = {word: row for row, word in enumerate(words)}
        if len(self.rows) < len(words):
            raise ValueError("a word occurs twice in the list of words")

    @property
    def width(self) -> int:
        return self.table.shape[1]

    def lookup(self, words: Sequence[str]) -> Tensor:
        """The vector of each word; zeros for an unknown word.  # [words, width]"""
        rows = torch.tensor([self._row(word) for word in words], dtype=torch.long)
        known = rows >= 0
        out = self.table.new_zeros(len(words), self.width)
        out[known] = self.table[rows[known]]
        return out

    def found(self, words: Sequence[str]) -> Found:
        """How many of these words `lookup` finds as written, in lower case, or not."""
        exact = sum(word in self.rows for word in words)
        known = sum(self._row(word) >= 0 for word in words)
        return Found(exact, known - exact, len(words) - known)

    def random(self, seed: int) -> Self:
        """The same words with random vectors of the same width, drawn from N(0, 1)."""
        generator = torch.Generator().manual_seed(seed)
        return type(self)(list(self.rows), torch.randn(self.table.shape, generator=generator))

    def save(self, folder: Path) -> None:
        """Write `vectors.safetensors` and `words.txt`, which `read_vectors` memory-maps."""
        from safetensors.torch import save_file

        if broken := [word for word in self.rows if "\n" in word]:
            raise WorkbenchError(
                f"the word {broken[0]!r} contains a line feed.",
                code="file-format",
                where=str(folder),
                remedy="Remove line feeds from the words: words.txt has one word per line.",
            )
        with atomic_write(folder / TABLE) as draft:
            save_file({"vectors": self.table.contiguous()}, draft)
        write_atomically(folder / WORDS, "".join(f"{word}\n" for word in self.rows))

    def _row(self, word: str) -> int:
        row = self.rows.get(word, -1)
        return row if row >= 0 else self.rows.get(word.lower(), -1)


def read_vectors(path: Path) -> Vectors:
    """Read a saved folder (or its table), or a file in word2vec or GloVe format."""
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
        words = read_regular(folder / WORDS).decode("utf-8")  # only a line feed ends a line
        with safe_open(require_regular(path), framework="pt") as file:
            table: Tensor = file.get_tensor("vectors")
    except UnicodeDecodeError:
        raise WorkbenchError(
            "the list of words is not UTF-8.",
            code="file-format",
            where=str(folder / WORDS),
            remedy=_REMEDY,
        ) from None
    except (SafetensorError, OSError) as error:
        raise WorkbenchError(
            f"the word vectors cannot be read: {error}.",
            code="file-unreadable",
            where=str(path),
            remedy=_REMEDY,
        ) from None
    try:
        return Vectors(words.removesuffix("\n").split("\n"), table)
    except ValueError as error:
        raise WorkbenchError(
            f"{error}.", code="file-format", where=str(folder), remedy=_REMEDY
        ) from None


# --- whole-word models ----------------------------------------------------------------------------

ELMO, VECTORS = "elmo:", "vectors:"
MEAN_OF = 1_000  # words in the mean input vector
SOFTMAX = "softmax/"  # prefix of the softmax's weights


class States(Protocol):
    """All layers of sentences; `given` are layer 0's vectors, to be read instead of the words'."""

    def __call__(
        self, sentences: Sequence[Sequence[str]], given: Tensor | None = None
    ) -> Sequence[Tensor]: ...


class WordModel(Model):
    """A model defined by a function from sentences of words to states."""

    def __init__(
        self,
        name: str,
        family: str,
        layers: int,
        width: int,
        weights: dict[str, Tensor],
        states: "States",
        words: Iterable[str] = (),
        bilm: BiLM | None = None,
        elmo: Elmo | None = None,
        make_random: "Callable[[int], WordModel] | None" = None,
        make_copy: "Callable[[], WordModel] | None" = None,
        save: Callable[[Path], object] | None = None,
        without_heads: str = "It reads whole words and has no attention",
        most_characters: int | None = None,
    ) -> None:
        """`weights` are those of the states and of the softmax.

        `most_characters` is the maximum number of characters that are read of a word; None for
        vectors, which look words up.
        """
        self.name, self.family, self.width = name, family, width
        self.stacks: tuple[Stack, ...] = (Stack("encoder", layers, 0, ()),)
        self.weights, self._states, self.words = weights, states, tuple(words)
        self.bilm = bilm  # ELMo with its softmax
        self.elmo = elmo
        self.without_heads = without_heads
        self.most_characters = most_characters
        self._make_random = make_random  # the same architecture with weights drawn from a seed
        self._make_copy = make_copy  # the same model with its own weights
        self._save = save  # into a folder that `wb.load` opens
        self.language_model: Objective = "bidirectional" if bilm else ""
        self._id_of: dict[str, int] = {}
        self._word_of: list[str] = []
        self._given: Tensor | None = None  # what passes read instead of their words
        self._below: Sequence[Tensor] = ()  # the layers that passes do not compute
        self._change: Change | None = None  # of the layers that passes compute
        self._entered: AbstractContextManager[None] | None = None  # of an edited model
        self.changes = ""  # digest of what is changed in every pass, by `interventions.states`

    @property
    def device(self) -> torch.device:
        return next(iter(self.weights.values())).device

    @property
    def parameters(self) -> int:
        return sum(tensor.numel() for tensor in self.weights.values())

    @cached_property
    def content_hash(self) -> str:
        """Hash of all tensors and of their words."""
        digest = hashlib.blake2b(digest_size=16)
        for key, tensor in sorted(self.weights.items()):
            digest.update(f"{key} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        digest.update("\0".join(self.words).encode())
        task_checkpoint.update_hash(digest, self)
        return changed_hash(digest.hexdigest(), self.changes)

    @public
    def encode(self, batch: Batch, documents: Sequence[int] | None = None) -> Pieces:
        chosen = range(len(batch)) if documents is None else documents
        return pad([self._row(batch, document) for document in chosen])

    def _row(self, batch: Batch, document: int) -> Row:
        words = words_of(batch, document)
        for word in words:
            if word not in self._id_of:
                self._id_of[word] = len(self._word_of)
                self._word_of.append(word)
        return Row(
            ids=np.array([self._id_of[word] for word in words], dtype=np.int64),
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
        **unknown: Any,
    ) -> Output:
        taps = list(taps)
        require_sites(self, taps)
        if targets is not None or logits is not False or unknown:
            raise WorkbenchError(
                f"{self.name} ({self.family}) returns states of words only.",
                code="model-unsupported",
                remedy="Leave out targets, logits and other arguments.",
            )
        with hooked(self, taps), session(taps, self.sites, {"encoder": pieces}):
            layers = self._layers(self.sentences(pieces))
        missing = pieces.ids.shape[1] - layers[0].shape[1]  # 1 if no text has a word
        states = [functional.pad(layer, (0, 0, 0, max(0, missing))) for layer in layers]
        return Output({"encoder": states}, {"encoder": states[-1]}, None, {"encoder": pieces})

    def _layers(self, sentences: Sequence[Sequence[str]]) -> Sequence[Tensor]:
        given = self._given
        if self.elmo is not None and (self._below or self._change):
            return self.elmo(sentences, given, self._below, self._change)[0]  # type: ignore[no-any-return]
        return self._states(sentences) if given is None else self._states(sentences, given)

    def sentences(self, text: Pieces) -> list[list[str]]:
        """The words of each row of a batch; there is one piece per word."""
        return [
            [self._word_of[i] for i in row[:count]]
            for row, count in zip(text.ids.tolist(), text.word_counts.tolist(), strict=True)
        ]

    def input_vectors(self, text: Pieces, targets: Pieces | None = None) -> dict[StackName, Tensor]:
        """Layer 0; ELMo's states have it twice, for both directions."""
        return {"encoder": self._layer_0(self.sentences(text))}

    def _layer_0(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """Vectors without context.  # [batch, words, width of an embedding]"""
        return self._states(sentences)[0] if self.elmo is None else self.elmo.embedded(sentences)

    @torch.no_grad()
    def mean_input_vectors(self) -> dict[StackName, Tensor]:
        """The mean of the first words of the vocabulary, which a trained ELMo sorts by count."""
        if not self.words:
            return super().mean_input_vectors()  # type: ignore[return-value]
        vectors = self._layer_0([[word] for word in self.words[:MEAN_OF]])
        return {"encoder": vectors[:, 0].mean(0)}

    @contextmanager
    def reading(self, vectors: Mapping[StackName, Tensor]) -> Iterator[None]:
        self._given = vectors.get("encoder")
        try:
            yield
        finally:
            self._given = None

    def word_logits(self, text: Pieces, position: int, direction: Direction) -> Tensor:
        return self.logits_of_states(self.states_with_ends(text)[-1][:, position + 1], direction)

    def states_with_ends(self, text: Pieces) -> Sequence[Tensor]:
        if self.elmo is None:
            return super().states_with_ends(text)
        sentences = self.sentences(text)
        with session((), self.sites, {"encoder": text}):
            return self.elmo.with_boundaries(sentences, self._given, self._below, self._change)[0]

    @contextmanager
    def resuming(self, below: Sequence[Tensor]) -> Iterator[None]:
        if self.elmo is None:
            super().resuming(below)
        self._below = below
        try:
            yield
        finally:
            self._below = ()

    @contextmanager
    def changing(self, change: Change) -> Iterator[None]:
        if self.elmo is None:
            super().changing(change)
        outer = self._change
        self._change = change if outer is None else lambda layer, x: change(layer, outer(layer, x))
        try:
            yield
        finally:
            self._change = outer

    def changed(
        self,
        on: "Callable[[WordModel], AbstractContextManager[None]]",
        changes: str,
        name: str,
    ) -> "WordModel":
        """A model with the same weights, in whose passes a context is always open.

        `changes` is a digest of what the context changes.
        """
        twin = copy.copy(self)
        vars(twin).pop("content_hash", None)  # cached of the model without the change
        twin.name, twin.changes = name, changes
        if self._make_copy is not None:
            twin._make_copy = lambda: cast(WordModel, self.copy()).changed(on, changes, name)
        if self._make_random is not None:
            twin._make_random = lambda seed: cast(WordModel, self.reinitialised(seed)).changed(
                on, changes, as_random(name)
            )
        twin._save = None  # the change is not in the weights
        twin._entered = on(twin)
        twin._entered.__enter__()
        return twin

    def logits_of_states(self, states: Tensor, direction: Direction) -> Tensor:
        """Logits of ELMo's softmax for states of any layer.

        # [..., 2 * width] -> [..., softmax]
        """
        assert self.bilm is not None, "a model without a softmax predicts nothing"
        half = states.shape[-1] // 2
        seen = states[..., :half] if direction == "next" else states[..., half:]
        return functional.linear(seen, self.bilm.weight, self.bilm.bias)

    @property
    def symbols(self) -> Symbols:
        """Ids are rows of the softmax."""
        if self.bilm is None:
            return Symbols()
        return Symbols(end=self.bilm.words.end, unknown=self.bilm.words.unknown)

    @property
    def vocabulary(self) -> Mapping[str, int]:
        return dict(self._rows)

    def piece_texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._word_of[number] for number in ids)

    def choice_texts(self, choices: Sequence[int]) -> tuple[str, ...]:
        """The words of the softmax's rows."""
        return tuple(self.words[choice] for choice in choices)

    def segmented(self, text: str, words: NDArray[Any]) -> Segmented:
        """Words; of ELMo with the characters that it reads, of vectors as they are looked up."""
        pieces = []
        for index, (first, last) in enumerate(np.asarray(words).reshape(-1, 2).tolist()):
            word = text[first:last]
            if self.most_characters is not None:
                characters = spelling(word, self.most_characters)
                said, row, is_unknown = read_back(characters), self._rows.get(word, NO_ID), False
            else:
                characters, name = (), self._known_as(word)
                said, row = name or "", self._rows.get(name or "", NO_ID)
                is_unknown = name is None
            pieces.append(
                TextPiece(
                    word, row, first, last, index, said, unknown=is_unknown, characters=characters
                )
            )
        kind: Algorithm = "words" if self.most_characters is None else "characters"
        return Segmented(tuple(pieces), kind, marks_spaces=False)

    def segmentation_steps(self, text: str, words: NDArray[Any]) -> list[Segmentation]:
        """ELMo: the characters of a word, then the word; vectors: what is looked up."""
        segmented, found = self.segmented(text, words), []
        for piece in segmented.pieces:
            word = text[piece.first : piece.last]
            read = piece.characters or ((word, word.lower()) if word != piece.says else (word,))
            steps = (Step(read), Step((piece.piece,), piece.piece, read))
            found.append(
                Segmentation(
                    word, piece.first, piece.last, segmented.algorithm, steps, (piece.piece,),
                    (piece.id,),
                )
            )  # fmt: skip
        return found

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(self.words)}

    def _known_as(self, word: str) -> str | None:
        """The word under which static vectors know this one: as written, or in lower case."""
        return next((name for name in (word, word.lower()) if name in self._rows), None)

    def unknown_pieces(self, pieces: Pieces) -> Tensor:
        """The mask of words outside the softmax, or without a vector."""
        reads_all = self.most_characters is not None and not self.words
        known = set(self.words)
        lower = self.most_characters is None

        def is_known(word: str) -> bool:
            return reads_all or word in known or (lower and word.lower() in known)

        # [words + 1]
        unknown = torch.tensor([*(not is_known(word) for word in self._word_of), False])
        return unknown.to(pieces.ids.device)[pieces.ids] & pieces.mask

    def copy(self, in_fp32: bool = False) -> Model:
        if self._make_copy is None:
            return super().copy(in_fp32)
        twin = self._make_copy()
        twin.name, twin.task_head = self.name, copy.deepcopy(self.task_head)
        twin._id_of, twin._word_of = self._id_of, self._word_of  # ids mean the same in both
        return twin

    def reinitialised(self, seed: int) -> Model:
        if self._make_random is None:
            return super().reinitialised(seed)
        twin = self._make_random(seed)
        twin._id_of, twin._word_of = self._id_of, self._word_of  # ids mean the same in both
        return twin

    def save(self, folder: Path) -> None:
        if self._save is None:
            return super().save(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self._save(folder)
        return task_checkpoint.save_task(self, folder)

    def named_weights(self) -> Mapping[str, Tensor]:
        return self.weights

    def weight_places(self) -> Mapping[str, WeightPlace]:
        return {name: self._place(name) for name in self.weights}

    def _place(self, name: str) -> WeightPlace:
        """Layer 0 is all before the LSTMs, which count from 1; the softmax has no layer."""
        if name.startswith(SOFTMAX):
            return WeightPlace(None, None, name)
        cell = re.search(r"Cell(\d+)/", name)
        within = re.sub(r"RNN_\d/.*Cell\d+/", "", name)
        return WeightPlace(self.stacks[0].name, int(cell[1]) + 1 if cell else 0, within)

    def parameters_by_part(self) -> Mapping[str, int]:
        sizes: dict[str, int] = {}
        for name, weights in self.weights.items():
            part = name.split(".")[0]
            sizes[part] = sizes.get(part, 0) + weights.numel()
        return sizes


Opener = Callable[[str, torch.device, torch.dtype, int], WordModel]


def words_of(batch: Batch, document: int) -> list[str]:
    """The words of one document, as written."""
    text = batch.text_of(document)
    return [text[first:last] for first, last in batch.words_of(document)]


def word_folder(folder: Path) -> Opener | None:
    """The function that opens a folder of ELMo or vectors, by its files; None for other folders.

    A transformers model has a config.json, and these have none.
    """
    try:
        names = {path.name for path in folder.iterdir()}
    except OSError:
        return None
    if "config.json" in names:
        return None
    if names & {TABLE, WORDS}:
        return open_vectors
    if MODEL in names and (OPTIONS in names or is_trained(folder)):
        return open_bilm
    return open_elmo if names & {OPTIONS, WEIGHTS} else None


def open_bilm(ref: str, device: torch.device, dtype: torch.dtype, seed: int) -> WordModel:
    """Open a folder of ELMo with its softmax and vocabulary; with `@random`, random weights."""
    _only_fp32(dtype, ref)
    net = load_trained(_folder(ref))
    if split_ref(ref).is_random:
        net = BiLM.fresh(net.elmo.options, net.words, len(net.bias), seed).eval()
    net = net.to(device)
    return _elmo_model(ref, net.elmo, net)


def open_elmo(ref: str, device: torch.device, dtype: torch.dtype, seed: int) -> WordModel:
    """Open the original's files, by `elmo:OPTIONS.json,WEIGHTS.hdf5` or in one folder.

    With `@random` only the options are needed.
    """
    source, _, is_random, _ = split_ref(ref)
    if source.startswith(ELMO):
        options, _, weights = source.removeprefix(ELMO).partition(",")
    else:
        options, weights = str(_folder(ref) / OPTIONS), str(_folder(ref) / WEIGHTS)
    if not options or not (weights or is_random):
        raise WorkbenchError(
            "an ELMo needs two files, the options and the weights.",
            code="setting-invalid",
            where=ref,
            remedy="Write elmo:OPTIONS.json,WEIGHTS.hdf5",
        )
    _only_fp32(dtype, ref)
    options_path = require_allowed(Path(options).expanduser())
    elmo = (
        Elmo.random(read_options(options_path), seed)
        if is_random
        else Elmo.from_original(options_path, require_allowed(Path(weights).expanduser()))
    )
    return _elmo_model(ref, elmo.to(device))


def open_vectors(ref: str, device: torch.device, dtype: torch.dtype, seed: int) -> WordModel:
    """Open `vectors:FILE`, or a folder that `Vectors.save` wrote."""
    _only_fp32(dtype, ref)
    vectors: Vectors = read_vectors(_folder(ref.removeprefix(VECTORS)))
    if split_ref(ref).is_random:
        vectors = vectors.random(seed)
    vectors.table = vectors.table.float().to(device)
    return _vectors_model(ref, vectors, device, dtype)


def _vectors_model(
    ref: str, vectors: Vectors, device: torch.device, dtype: torch.dtype
) -> WordModel:
    def states(sentences: Sequence[Sequence[str]], given: Tensor | None = None) -> Sequence[Tensor]:
        if given is not None:
            return [given]
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
        make_random=lambda seed: open_vectors(as_random(ref), device, dtype, seed),
        make_copy=lambda: _vectors_model(
            ref, Vectors(list(vectors.rows), vectors.table.detach().clone()), device, dtype
        ),
        save=vectors.save,
        without_heads="It has one vector per word, independent of context, so no token attends to "
        "another",
    )


def _elmo_model(ref: str, elmo: Elmo, bilm: BiLM | None = None) -> WordModel:
    weights: dict[str, Tensor] = dict(elmo.weights.items())
    if bilm is not None:
        softmax = {"weight": bilm.weight.detach(), "bias": bilm.bias.detach()}
        weights |= {f"{SOFTMAX}{name}": weight for name, weight in softmax.items()}

    def states(sentences: Sequence[Sequence[str]], given: Tensor | None = None) -> Sequence[Tensor]:
        return elmo(sentences, given)[0]  # type: ignore[no-any-return]

    layers, width = elmo.options.layers, 2 * elmo.options.width
    words = bilm.predicted if bilm is not None else ()

    def make_copy() -> WordModel:
        bilm_copy = copy.deepcopy(bilm)
        elmo_copy = copy.deepcopy(elmo) if bilm_copy is None else bilm_copy.elmo
        return _elmo_model(ref, elmo_copy, bilm_copy)

    def make_random(seed: int) -> WordModel:
        device = next(iter(weights.values())).device
        if bilm is None:
            return _elmo_model(as_random(ref), Elmo.random(elmo.options, seed).to(device))
        fresh = BiLM.fresh(elmo.options, bilm.words, len(bilm.bias), seed).to(device)
        return _elmo_model(as_random(ref), fresh.elmo, fresh)

    return WordModel(
        ref,
        "elmo",
        layers,
        width,
        weights,
        states,
        words,
        bilm,
        elmo,
        make_random=make_random,
        make_copy=make_copy,
        save=elmo.save_original if bilm is None else bilm.save,
        most_characters=elmo.options.max_characters,
        without_heads="It is a bidirectional LSTM: two recurrent networks carry the context, so no "
        "token attends to another",
    )


def _folder(ref: str) -> Path:
    return require_allowed(Path(split_ref(ref).source).expanduser())


def _only_fp32(dtype: torch.dtype, ref: str) -> None:
    if dtype != torch.float32:
        raise WorkbenchError(
            "this model runs in fp32 only.",
            code="setting-invalid",
            where=ref,
            remedy="Leave the precision at auto.",
        )


# --- files of word vectors ------------------------------------------------------------------------
#
# Formats of static vectors: word2vec text, GloVe text, word2vec binary, plain or gzip.
#
# One pass, with the words in their order and the vectors in one growing buffer. If a word occurs
# twice, its first vector is kept. Costs: 4 bytes per number in memory; with 300 numbers per word
# about 90 microseconds per word of text (three minutes for two million words), 12 of binary.

HEADER = re.compile(rb"(\d{1,18}) (\d{1,6})\s*")  # number of words, width
LONGEST_WORD = 10_000  # maximum number of bytes of a word in a binary file
_FLOAT = 4  # bytes
_TEXT_REMEDY = (
    "Each line must have a word and its numbers, separated by single spaces; every line needs the "
    "same count of numbers."
)

Record = tuple[str, NDArray[np.float32], str]  # word, its vector, its position in the file


def read_table(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """Words and their vectors; a file named `.bin` or `.bin.gz` is read as binary.

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
                        f"the vector of {word!r} has a number that is not finite in float32.",
                        code="file-format",
                        where=where,
                        remedy="Remove the word, or check that the file is complete and in "
                        "word2vec's format.",
                    )
                if word not in words:
                    words[word] = None
                    numbers += vector.tobytes()
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise WorkbenchError(
            f"the word vectors cannot be read: {reason}.",
            code="file-unreadable",
            where=str(path),
            remedy="Check the path and its permissions, and that the file is complete.",
        ) from None
    if not words:
        raise WorkbenchError(
            "the file has no vectors.", code="file-format", where=str(path), remedy=_TEXT_REMEDY
        )
    return list(words), np.frombuffer(numbers, dtype=np.float32).reshape(len(words), -1)


def _open(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(require_regular(path), "rb"))
    return open_regular(path)


def _text(file: BinaryIO, path: Path) -> Iterator[Record]:
    n_promised, width, n_words, line_number = -1, 0, 0, 0
    for line_number, raw in enumerate(file, start=1):
        where = f"{path}:{line_number}"
        raw = raw.removeprefix(codecs.BOM_UTF8) if line_number == 1 else raw
        if line_number == 1 and (header := HEADER.fullmatch(raw)):
            n_promised, width = int(header[1]), int(header[2])
            continue
        line = _decoded(raw, where)
        if not line:
            continue
        width = width or line.count(" ")
        # From the right: some of GloVe's words have spaces in them.
        word, *fields = line.rsplit(" ", width)
        yield word, _numbers(word, fields, width, where), where
        n_words += 1
    if n_promised not in (-1, n_words):
        raise WorkbenchError(
            f"the first line promises {n_promised} words, but the file has {n_words}.",
            code="file-format",
            where=f"{path}:{line_number}",
            remedy="Check that the file is complete.",
        )


def _decoded(raw: bytes, where: str) -> str:
    try:
        return raw.decode("utf-8").rstrip("\r\n ")
    except UnicodeDecodeError:
        raise WorkbenchError(
            "this line is not UTF-8 text.",
            code="file-format",
            where=where,
            remedy="Name a word2vec binary file *.bin; save a text file as UTF-8.",
        ) from None


def _numbers(word: str, fields: list[str], width: int, where: str) -> NDArray[np.float32]:
    try:
        values = np.array([float(field) for field in fields])
    except ValueError as error:
        raise _bad_line(f"not a number: {str(error).rpartition(': ')[2]}", where) from None
    if not width or len(values) < width:
        raise _bad_line(f"{len(values)} numbers after {word!r}, expected {width or 'some'}", where)
    if " " in word and _is_number(word.rpartition(" ")[2]):
        raise _bad_line(f"more than {width} numbers", where)
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _bad_line(reason: str, where: str) -> WorkbenchError:
    return WorkbenchError(
        f"this line is not valid: {reason}.",
        code="file-format",
        where=where,
        remedy=_TEXT_REMEDY,
    )


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _binary(file: BinaryIO, path: Path) -> Iterator[Record]:
    """The records of a binary file; invalid UTF-8 becomes U+FFFD, as word2vec cuts long words."""
    header = HEADER.fullmatch(file.readline(LONGEST_WORD))
    if not header or not int(header[2]):
        raise WorkbenchError(
            "this is not a word2vec binary file: it does not begin with two counts.",
            code="file-format",
            where=str(path),
            remedy="A .bin file must be in word2vec's binary format; name text files differently.",
        )
    n_promised, size = int(header[1]), _FLOAT * int(header[2])
    for index in range(1, n_promised + 1):
        where = f"{path}, word {index} of {n_promised}"
        word = _binary_word(file, where)
        values = file.read(size)
        if len(values) < size:
            raise _cut_off(where)
        yield word, np.frombuffer(values, dtype="<f4").astype(np.float32), where
    if file.read().strip(b"\n"):
        raise WorkbenchError(
            f"the file continues after the {n_promised} words that its first line promises.",
            code="file-format",
            where=str(path),
            remedy="Write the file again; its first line has a wrong count or width.",
        )


def _binary_word(file: BinaryIO, where: str) -> str:
    """The next word, up to a space; some writers put a line feed before it."""
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
        code="file-format",
        where=where,
        remedy="Check that the file is complete and in word2vec's binary format.",
    )
