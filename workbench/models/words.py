"""Models that read whole words: ELMo, and static vectors. A word is a piece; there are no heads.

The adapter numbers the words it meets, so that batches stay tensors of numbers like any other
model's; memory grows with the vocabulary met. ELMo has three layers, of which 0 knows no context;
vectors have that one alone. A folder of an ELMo that was trained here has its softmax too, so that
it has an objective; the original's files have none.
"""

import copy
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from workbench.engine.batch import Batch
from workbench.engine.model import Objective, Output, Stack, require_sites
from workbench.engine.pieces import Pieces, Row, pad
from workbench.engine.taps import Site, Tap
from workbench.errors import WorkbenchError
from workbench.models.bilm import MODEL, BiLM, is_trained, load_trained
from workbench.models.elmo import Elmo
from workbench.models.elmo_files import OPTIONS, WEIGHTS
from workbench.models.elmo_options import read_options
from workbench.models.vectors import TABLE, Vectors, read_vectors
from workbench.models.vectors import WORDS as VECTORS_WORDS
from workbench.places import require_allowed

RANDOM = "@random"
ELMO, VECTORS = "elmo:", "vectors:"


class WordModel:
    """States of words from a function over sentences of words."""

    sites: tuple[Site, ...] = ()
    max_pieces: int | None = None

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
        learns: "Mapping[str, Tensor] | None" = None,
        save: "Callable[[Path], object] | None" = None,
    ) -> None:
        self.name, self.family, self.width = name, family, width
        self.stacks: tuple[Stack, ...] = (Stack("encoder", layers, 0, ()),)
        self.weights, self._states, self.vocabulary = weights, states, tuple(words)
        self.bilm = bilm  # ELMo with its softmax
        self.anew = anew  # the same with weights drawn from a seed
        self.again = again  # the same with weights of its own
        self.save = save  # into a folder that opens again
        self.learns: Mapping[str, Tensor] = learns or {}  # what states are made of, as leaves
        self.objective: Objective = "bidirectional" if bilm else ""
        self._number: dict[str, int] = {}
        self._word: list[str] = []

    @property
    def device(self) -> torch.device:
        return next(iter(self.weights.values())).device

    @property
    def parameters(self) -> int:
        return sum(tensor.numel() for tensor in self.weights.values())

    @property
    def precision(self) -> str:
        return "fp32"

    @cached_property
    def content_hash(self) -> str:
        """Of every tensor, and of the words the tensors belong to."""
        digest = hashlib.blake2b(digest_size=16)
        for key, tensor in sorted(self.weights.items()):
            digest.update(f"{key} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        digest.update("\0".join(self.vocabulary).encode())
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
        width = pieces.ids.shape[1]  # of texts without a word 1, as of any batch
        states = [_at_least(layer, width) for layer in self._states(sentences)]
        return Output({"encoder": states}, {"encoder": states[-1]}, None, {"encoder": pieces})


def _at_least(states: Tensor, width: int) -> Tensor:
    """With zeros behind the last word.  # [batch, words, n]"""
    return functional.pad(states, (0, 0, 0, max(0, width - states.shape[1])))


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
    if there & {TABLE, VECTORS_WORDS}:
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
        learns={"table": vectors.table},
        save=vectors.save,
    )


def _elmo_model(ref: str, elmo: Elmo, bilm: BiLM | None = None) -> WordModel:
    weights = {name: weight.detach() for name, weight in elmo.weights.items()}
    if bilm is not None:
        weights |= {"softmax/weight": bilm.weight.detach(), "softmax/bias": bilm.bias.detach()}

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
        learns=dict(elmo.weights.items()),
        save=elmo.save_original if bilm is None else bilm.save,
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
