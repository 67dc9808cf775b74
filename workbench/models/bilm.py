"""ELMo's bidirectional language model: the encoder and the softmax that it was trained with.

A forward and a backward LSTM read words as characters. Both predict with one softmax: the forward
LSTM the next word, the backward LSTM the previous word. Its folder holds

    options.json, weights.hdf5   the original's files, without the softmax: elmo:OPTIONS,WEIGHTS
    model.safetensors            `elmo/NAME` as in the hdf5, `softmax/weight`, `softmax/bias`
    vocab.txt, counts.txt        all words by decreasing count; the softmax has the first of them

The tensors may be stored in half precision; they are float32 in memory. Costs: per word what
`workbench.models.elmo` states, plus two products with the softmax matrix.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from workbench.core.errors import WorkbenchError
from workbench.core.files import atomic_write, numbered_lines, require_regular, write_atomically
from workbench.engine.forward_pass import length_batches
from workbench.engine.halving import Limit, Places, in_halves
from workbench.models.elmo import (
    OPTIONS,
    Elmo,
    ElmoOptions,
    dataset_shapes,
    index_words,
    read_options,
    reading_order,
    write_options,
    write_original,
)
from workbench.models.output_heads.lm_losses import piece_nats

# --- vocabulary files -----------------------------------------------------------------------------
#
# The vocabulary of a whole-word model as files: `vocab.txt`, and `counts.txt` next to it.
#
# `vocab.txt` has the original ELMo's format: one word per line, `<S>`, `</S>`, `<UNK>`, then by
# decreasing count, so that a softmax of size n covers the first n words. `counts.txt` holds the
# count of each word. Costs: one string per word.

BEGIN, END, UNKNOWN = "<S>", "</S>", "<UNK>"
MARKS = (BEGIN, END, UNKNOWN)
WORDS, COUNTS = "vocab.txt", "counts.txt"


class Words(NamedTuple):
    """The words of a text by decreasing count; the three marks come first, with count 0."""

    words: tuple[str, ...]
    counts: tuple[int, ...]

    @property
    def end(self) -> int:
        """Index of `</S>`."""
        return MARKS.index(END)

    @property
    def unknown(self) -> int:
        """Index of `<UNK>`."""
        return MARKS.index(UNKNOWN)


def save_words(words: Words, folder: Path) -> None:
    """Write `vocab.txt` in the original's format (one word per line), and `counts.txt`."""
    write_atomically(folder / WORDS, "".join(f"{word}\n" for word in words.words))
    write_atomically(folder / COUNTS, "".join(f"{count}\n" for count in words.counts))


def read_words(folder: Path) -> Words:
    """Read what `save_words` wrote; the original's vocabulary has no counts: they become 0."""
    words = tuple(line for _, line in numbered_lines(folder / WORDS))
    counts = (0,) * len(words)
    if (folder / COUNTS).is_file():
        lines = [line for _, line in numbered_lines(folder / COUNTS)]
        if not all(line.isdecimal() for line in lines) or len(lines) != len(words):
            raise _unreadable(
                folder / COUNTS, f"it does not hold {len(words):,} numbers, one per line"
            )
        counts = tuple(map(int, lines))
    if words[: len(MARKS)] != MARKS or len(set(words)) != len(words):
        reason = "it does not begin with <S>, </S>, <UNK>, or it repeats a word"
        raise _unreadable(folder / WORDS, reason)
    return Words(words, counts)


def _unreadable(path: Path, reason: str) -> WorkbenchError:
    return WorkbenchError(
        f"this file is not a word vocabulary: {reason}.",
        code="file-format",
        where=str(path),
        remedy=f"Write the vocabulary again with save_words, or copy {WORDS} and {COUNTS} "
        "together.",
    )


# --- the bidirectional language model -------------------------------------------------------------

FORMAT, MODEL = "workbench-elmo-1", "model.safetensors"
LOGITS = 2**25  # maximum number computed at a time


class Scored(NamedTuple):
    """One value per word and per closing boundary, by direction; 0 after the end."""

    forward: Tensor  # [batch, words + 1], the words and `</S>`
    backward: Tensor  # [batch, words + 1], `<S>` and the words


class BiLM(nn.Module):
    """ELMo with its softmax and its vocabulary."""

    def __init__(self, elmo: Elmo, words: Words, softmax: int) -> None:
        super().__init__()
        self.elmo, self.words = elmo, words
        self.weight = nn.Parameter(torch.empty(softmax, elmo.options.width))
        self.bias = nn.Parameter(torch.zeros(softmax))

    @classmethod
    def fresh(cls, options: ElmoOptions, words: Words, softmax: int, seed: int) -> "BiLM":
        """A model with random weights; its softmax has the `softmax` most frequent words."""
        net = cls(Elmo.random(options, seed), words, min(softmax, len(words.words)))
        generator = torch.Generator().manual_seed(seed + 1)
        with torch.no_grad():
            net.weight.normal_(0, options.width**-0.5, generator=generator)
        return net

    @property
    def predicted(self) -> tuple[str, ...]:
        """The words of the softmax, in its row order."""
        return self.words.words[: len(self.bias)]

    def forward(self, characters: Tensor, positions: Tensor, lengths: Tensor) -> list[Tensor]:
        """States of the last layer in both directions, packed in `reading_order`.

        `characters` spells the distinct words; `positions` holds the row of each word of each
        sentence, boundaries included.
        # [distinct, characters], [batch, longest], [batch] -> [rows, width] each
        """
        vectors = self.elmo.token_vectors(characters)  # [distinct, width]
        order = reading_order(lengths)
        return [
            self.elmo.read(vectors[positions[order.sentence, position]], order.sizes, direction)[-1]
            for direction, position in enumerate((order.forward, order.backward))
        ]

    def nats(self, sentences: Sequence[Sequence[str]]) -> Scored:
        """Nats of each word of the sentences, predicted from its left and from its right context.

        A word outside the softmax counts as `<UNK>`.
        """
        index_of = {word: index for index, word in enumerate(self.predicted)}
        unknown = self.words.unknown
        indices = [[index_of.get(word, unknown) for word in sentence] for sentence in sentences]
        return self.scored(sentences, indices)[0]

    def scored(
        self, sentences: Sequence[Sequence[str]], indices: Sequence[Sequence[int]]
    ) -> tuple[Scored, Scored]:
        """-log p of each prediction, and whether it is the most likely word.

        `indices` are softmax rows of the sentences' words, without boundaries.
        """
        indexed = index_words(sentences, self.elmo.options.max_characters)
        gold = torch.zeros(indexed.words.shape, dtype=torch.long)  # [batch, longest]
        for row, sentence in zip(gold, indices, strict=True):
            row[: len(sentence) + 2] = torch.tensor([0, *sentence, 1])
        parts = (torch.from_numpy(part).to(self.bias.device) for part in indexed)
        characters, positions, lengths = parts
        gold = gold.to(self.bias.device)
        states = self(characters, positions, lengths)
        nats, right = [], []
        for states_of, (rows, targets, at) in zip(
            states, targets_by_direction(gold, lengths), strict=True
        ):
            losses, hits = self._predictions(states_of[rows], targets)
            zeros = torch.zeros(gold[:, 1:].shape, device=gold.device)  # [batch, words + 1]
            nats.append(zeros.index_put(at, losses))
            right.append(zeros.bool().index_put(at, hits))
        return Scored(*nats), Scored(*right)

    def _predictions(self, states: Tensor, gold: Tensor) -> tuple[Tensor, Tensor]:
        """Nats and hits of packed states.  # [rows, width], [rows] -> [rows], [rows]"""
        size = max(1, LOGITS // len(self.bias))
        nats, right = [], []
        for part, targets in zip(torch.split(states, size), torch.split(gold, size), strict=True):
            logits = functional.linear(part, self.weight, self.bias)  # [part, softmax]
            losses, hits = piece_nats(logits, targets)
            nats.append(losses)
            right.append(hits)
        return torch.cat(nats), torch.cat(right)

    def save(self, folder: Path) -> bool:
        """Write the folder; returns whether `weights.hdf5` was written, which needs h5py."""
        tensors = {f"elmo/{name}": value.detach() for name, value in self.elmo.weights.items()}
        tensors |= {"softmax/weight": self.weight.detach(), "softmax/bias": self.bias.detach()}
        on_cpu = {name: tensor.contiguous().cpu() for name, tensor in tensors.items()}
        with atomic_write(folder / MODEL) as draft:
            save_file(on_cpu, draft, metadata={"format": FORMAT})
        save_words(self.words, folder)
        write_options(folder, self.elmo.options)
        try:
            write_original(folder, self.elmo.options, dict(self.elmo.weights.items()))
        except WorkbenchError as error:
            if error.code != "package-missing":
                raise
            return False
        return True


def targets_by_direction(
    gold: Tensor, lengths: Tensor
) -> list[tuple[Tensor, Tensor, tuple[Tensor, Tensor]]]:
    """For each direction: the predicting rows, their targets, and the targets' positions.

    # gold: [batch, longest] -> [rows], [rows], ([rows], [rows]) in [batch, longest - 1]
    """
    order = reading_order(lengths)
    ahead = (order.forward < lengths[order.sentence] - 1).nonzero()[:, 0]
    behind = (order.backward > 0).nonzero()[:, 0]
    left, right = order.sentence[ahead], order.sentence[behind]
    after, before = order.forward[ahead], order.backward[behind] - 1
    return [
        (ahead, gold[left, after + 1], (left, after)),
        (behind, gold[right, before], (right, before)),
    ]


def is_trained(folder: Path) -> bool:
    """Whether `BiLM.save` wrote the folder, by the metadata of its weights."""
    try:
        with safe_open(require_regular(folder / MODEL), framework="pt") as file:
            return (file.metadata() or {}).get("format") == FORMAT
    except (SafetensorError, OSError):
        return False


def load_trained(folder: Path) -> BiLM:
    """Open what `BiLM.save` wrote: the encoder, its softmax and its vocabulary."""
    path = folder / MODEL
    options, words = read_options(folder / OPTIONS), read_words(folder)
    try:
        with safe_open(require_regular(path), framework="pt") as file:
            if (file.metadata() or {}).get("format") != FORMAT:
                raise ValueError(f"its format is not {FORMAT}")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        _require_fitting(tensors, options, words)
    except (SafetensorError, OSError, ValueError) as error:
        raise WorkbenchError(
            f"the bidirectional language model cannot be read: {error}.",
            code="file-unreadable",
            where=str(path),
            remedy=f"Name a complete folder that training wrote, with {OPTIONS}, {MODEL} and "
            f"{WORDS}.",
        ) from None
    with torch.device("meta"):
        elmo = Elmo(options)
    weights = {f"weights.{name}": tensors[f"elmo/{name}"].float() for name in elmo.weights}
    elmo.load_state_dict(weights, assign=True)
    net = BiLM(elmo, words, len(tensors["softmax/bias"]))
    with torch.no_grad():
        net.weight.copy_(tensors["softmax/weight"])
        net.bias.copy_(tensors["softmax/bias"])
    return net.eval()


def _require_fitting(tensors: Mapping[str, Tensor], options: ElmoOptions, words: Words) -> None:
    """Check that the tensors and their shapes are exactly those that the options require."""
    shapes = {f"elmo/{name}": shape for name, shape in dataset_shapes(options).items()}
    size = tensors["softmax/bias"].numel() if "softmax/bias" in tensors else 0
    shapes |= {"softmax/weight": (size, options.width), "softmax/bias": (size,)}
    if unexpected := sorted(shapes.keys() ^ tensors.keys()):
        name = unexpected[0]
        raise ValueError(
            f"it lacks the tensor {name!r}"
            if name in shapes
            else f"it has the tensor {name!r}, which the options do not include"
        )
    for name, shape in shapes.items():
        if tuple(tensors[name].shape) != shape or not tensors[name].is_floating_point():
            kind = str(tensors[name].dtype).removeprefix("torch.")
            actual = f"{kind} {list(tensors[name].shape)}"
            raise ValueError(f"{name!r} is {actual}; the options require floats {list(shape)}")
    if not len(MARKS) <= size <= len(words.words):
        raise ValueError(f"its softmax has {size:,} words, but {WORDS} has {len(words.words):,}")


# --- likelihood of whole texts under ELMo, word by word, in both directions -----------------------
#
# The forward direction predicts each word and the end of the text from the words before; the
# backward direction predicts each word and the beginning from the words after. So each direction
# alone gives a text a likelihood. Words outside the softmax are predicted as one word, `<UNK>`,
# but read in full. Costs: one pass over the words, and two rows of softmax logits per word.


class WordScores(NamedTuple):
    """Sums over each text, [texts]; 0 for a text without words."""

    nats: NDArray[np.float64]  # the mean of both directions' sums
    predictions: NDArray[np.int64]  # of one direction: the words, and the boundary
    right: NDArray[np.int64]  # of both directions: the gold word was the most likely
    unknown: NDArray[np.int64]  # words outside the softmax


def words_scored(
    net: BiLM, texts: Sequence[Sequence[str]], limit: int
) -> Iterator[tuple[Sequence[int], tuple[Scored, Scored]]]:
    """Nats and hits word by word, in batches of about `limit` words, with the indices of texts."""
    golds = golds_of(net, texts)
    lengths = np.array([len(text) for text in texts], dtype=np.int64)  # [texts]

    @torch.no_grad()
    def scored(group: Places) -> tuple[Scored, Scored]:
        return net.scored(
            [texts[index] for index in group.places], [golds[index] for index in group.places]
        )

    memory, read = Limit(), np.flatnonzero(lengths)  # texts without words are skipped
    for rows, width in length_batches(torch.from_numpy(lengths[read] + 2), Limit(limit)):
        batch = Places(read[rows.numpy()].tolist(), width)
        for group, found in in_halves(scored, batch, memory):
            yield group.places, found


def golds_of(net: BiLM, texts: Sequence[Sequence[str]]) -> list[list[int]]:
    """The softmax row of each word; of a word outside the softmax, that of `<UNK>`."""
    index_of = {word: index for index, word in enumerate(net.predicted)}
    return [[index_of.get(word, net.words.unknown) for word in text] for text in texts]


def score_words(net: BiLM, texts: Sequence[Sequence[str]], limit: int) -> WordScores:
    """The sums over each text."""
    golds, unknown = golds_of(net, texts), net.words.unknown
    lengths = np.array([len(text) for text in texts], dtype=np.int64)  # [texts]
    scores = WordScores(
        nats=np.zeros(len(texts)),
        predictions=np.where(lengths > 0, lengths + 1, 0),
        right=np.zeros(len(texts), dtype=np.int64),
        unknown=np.array([gold.count(unknown) for gold in golds], dtype=np.int64),
    )
    for places, (nats, right) in words_scored(net, texts, limit):
        for direction, hits in zip(nats, right, strict=True):
            scores.nats[list(places)] += direction.double().sum(1).cpu().numpy() / 2
            scores.right[list(places)] += hits.sum(1).cpu().numpy()
    return scores
