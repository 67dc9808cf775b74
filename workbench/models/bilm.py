"""ELMo's bidirectional language model: the model that reads, and the softmax that it learnt by.

A forward and a backward LSTM over words spelt in characters; both predict with one softmax, the
former the next word and the latter the one before. A folder of it holds

    options.json, weights.hdf5   the original's, without the softmax: elmo:OPTIONS,WEIGHTS
    model.safetensors            `elmo/NAME` as in the hdf5, `softmax/weight`, `softmax/bias`
    vocab.txt, counts.txt        all words by falling count; the softmax has the first

The tensors may be in half precision, and are float32 once read. Costs, a word, what
`workbench.models.elmo` says, and two products with the softmax's matrix.
"""

from collections.abc import Mapping, Sequence
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
from workbench.core.files import numbered_lines, require_regular, written_whole
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
from workbench.models.lm_losses import piece_nats

# --- vocabulary files -----------------------------------------------------------------------------
#
# The words of a model that reads whole ones, as files: `vocab.txt`, and `counts.txt` beside it.
#
# `vocab.txt` is the original ELMo's: a word a line, `<S>`, `</S>`, `<UNK>`, then by falling
# count, so that a softmax of any size is over the first so many. `counts.txt` says how often each
# came. Costs a string a word.

BEGIN, END, UNKNOWN = "<S>", "</S>", "<UNK>"
MARKS = (BEGIN, END, UNKNOWN)
WORDS, COUNTS = "vocab.txt", "counts.txt"


class Words(NamedTuple):
    """The words of a text by falling count, the three marks first, with a count of 0."""

    words: tuple[str, ...]
    counts: tuple[int, ...]

    @property
    def unknown(self) -> int:
        return MARKS.index(UNKNOWN)


def save_words(words: Words, folder: Path) -> None:
    """Write `vocab.txt`, a word a line as the original has it, and `counts.txt` beside it."""
    with written_whole(folder / WORDS) as draft:
        draft.write_text("".join(f"{word}\n" for word in words.words), "utf-8", newline="\n")
    with written_whole(folder / COUNTS) as draft:
        draft.write_text("".join(f"{count}\n" for count in words.counts), "utf-8", newline="\n")


def read_words(folder: Path) -> Words:
    """Read what `save_words` wrote; a vocabulary of the original has no counts, they are then 0."""
    words = tuple(line for _, line in numbered_lines(folder / WORDS))
    counts = (0,) * len(words)
    if (folder / COUNTS).is_file():
        lines = [line for _, line in numbered_lines(folder / COUNTS)]
        if not all(line.isdecimal() for line in lines) or len(lines) != len(words):
            raise _unsound(folder / COUNTS, f"it is not {len(words):,} numbers, one a line")
        counts = tuple(map(int, lines))
    if words[: len(MARKS)] != MARKS or len(set(words)) != len(words):
        raise _unsound(folder / WORDS, "it does not begin with <S>, </S>, <UNK>, or repeats a word")
    return Words(words, counts)


def _unsound(path: Path, reason: str) -> WorkbenchError:
    return WorkbenchError(
        f"not a vocabulary of words: {reason}.",
        where=str(path),
        remedy="Write it anew with save_words, or copy both files together.",
    )


# --- the bidirectional language model -------------------------------------------------------------

FORMAT, MODEL = "workbench-elmo-1", "model.safetensors"
LOGITS = 2**25  # made at a time


class Scored(NamedTuple):
    """A number of each word and of the boundary that ends it, by direction; 0 after the end."""

    forward: Tensor  # [batch, words + 1], the words and `</S>`
    backward: Tensor  # [batch, words + 1], `<S>` and the words


class BiLM(nn.Module):
    """ELMo with its softmax and its words."""

    def __init__(self, elmo: Elmo, words: Words, softmax: int) -> None:
        super().__init__()
        self.elmo, self.words = elmo, words
        self.weight = nn.Parameter(torch.empty(softmax, elmo.options.width))
        self.bias = nn.Parameter(torch.zeros(softmax))

    @classmethod
    def fresh(cls, options: ElmoOptions, words: Words, softmax: int, seed: int) -> "BiLM":
        """New weights; the softmax has the `softmax` most frequent words, at most all."""
        net = cls(Elmo.random(options, seed), words, min(softmax, len(words.words)))
        generator = torch.Generator().manual_seed(seed + 1)
        with torch.no_grad():
            net.weight.normal_(0, options.width**-0.5, generator=generator)
        return net

    @property
    def predicted(self) -> tuple[str, ...]:
        """The words of the softmax, in its order."""
        return self.words.words[: len(self.bias)]

    def forward(self, characters: Tensor, places: Tensor, lengths: Tensor) -> list[Tensor]:
        """The last layer's states of both directions, packed as `reading_order` says.

        `characters` spells distinct words, `places` is where they stand, boundaries among them.
        # [distinct, characters], [batch, longest], [batch] -> [rows, width] each
        """
        vectors = self.elmo.token_vectors(characters)  # [distinct, width]
        order = reading_order(lengths)
        return [
            self.elmo.read(vectors[places[order.sentence, place]], order.sizes, direction)[-1]
            for direction, place in enumerate((order.forward, order.backward))
        ]

    def nats(self, sentences: Sequence[Sequence[str]]) -> Scored:
        """How well each word of some sentences is predicted, from its left and from its right.

        What the softmax does not have counts as `<UNK>`.
        """
        numbers = {word: number for number, word in enumerate(self.predicted)}
        unknown = self.words.unknown
        known = [[numbers.get(word, unknown) for word in sentence] for sentence in sentences]
        return self.scored(sentences, known)[0]

    def scored(
        self, sentences: Sequence[Sequence[str]], numbers: Sequence[Sequence[int]]
    ) -> tuple[Scored, Scored]:
        """-log p of each prediction, and whether it is the likeliest; `numbers` are the softmax's.

        The numbers are of the sentences' words, boundaries left out.
        """
        indexed = index_words(sentences, self.elmo.options.max_characters)
        gold = torch.zeros(indexed.words.shape, dtype=torch.long)  # [batch, longest]
        for row, own in zip(gold, numbers, strict=True):
            row[: len(own) + 2] = torch.tensor([0, *own, 1])
        parts = (torch.from_numpy(part).to(self.bias.device) for part in indexed)
        characters, places, lengths = parts
        gold = gold.to(self.bias.device)
        states = self(characters, places, lengths)
        nats, right = [], []
        for states_of, (rows, targets, at) in zip(states, wanted(gold, lengths), strict=True):
            found, hits = self._predictions(states_of[rows], targets)
            laid = torch.zeros(gold[:, 1:].shape, device=gold.device)  # [batch, words + 1]
            nats.append(laid.index_put(at, found))
            right.append(laid.bool().index_put(at, hits))
        return Scored(*nats), Scored(*right)

    def _predictions(self, states: Tensor, gold: Tensor) -> tuple[Tensor, Tensor]:
        """# [rows, width], [rows] -> [rows], [rows]"""
        size = max(1, LOGITS // len(self.bias))
        nats, right = [], []
        for part, targets in zip(torch.split(states, size), torch.split(gold, size), strict=True):
            logits = functional.linear(part, self.weight, self.bias)  # [part, softmax]
            found, hits = piece_nats(logits, targets)
            nats.append(found)
            right.append(hits)
        return torch.cat(nats), torch.cat(right)

    def save(self, folder: Path) -> bool:
        """Write the folder; whether `weights.hdf5` is in it, for which h5py must be there."""
        tensors = {f"elmo/{name}": value.detach() for name, value in self.elmo.weights.items()}
        tensors |= {"softmax/weight": self.weight.detach(), "softmax/bias": self.bias.detach()}
        kept = {name: tensor.contiguous().cpu() for name, tensor in tensors.items()}
        with written_whole(folder / MODEL) as draft:
            save_file(kept, draft, metadata={"format": FORMAT})
        save_words(self.words, folder)
        write_options(folder, self.elmo.options)
        try:
            write_original(folder, self.elmo.options, dict(self.elmo.weights.items()))
        except WorkbenchError as error:
            if "h5py" not in str(error):
                raise
            return False
        return True


def wanted(gold: Tensor, lengths: Tensor) -> list[tuple[Tensor, Tensor, tuple[Tensor, Tensor]]]:
    """Of both directions: rows that predict, what they should, and where that stands.

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
    """Whether the weights of a folder say that `BiLM.save` wrote them."""
    try:
        with safe_open(require_regular(folder / MODEL), framework="pt") as file:
            return (file.metadata() or {}).get("format") == FORMAT
    except (SafetensorError, OSError):
        return False


def load_trained(folder: Path) -> BiLM:
    """Open what `BiLM.save` wrote: the reader, its softmax and its words."""
    path = folder / MODEL
    options, words = read_options(folder / OPTIONS), read_words(folder)
    try:
        with safe_open(require_regular(path), framework="pt") as file:
            if (file.metadata() or {}).get("format") != FORMAT:
                raise ValueError(f"its format is not {FORMAT}")
            there = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        _require_fitting(there, options, words)
    except (SafetensorError, OSError, ValueError) as error:
        raise WorkbenchError(
            f"cannot be read: {error}.",
            where=str(path),
            remedy=f"Name a folder that training wrote, with {OPTIONS}, {MODEL} and {WORDS}, "
            "copied whole.",
        ) from None
    with torch.device("meta"):
        elmo = Elmo(options)
    own = {f"weights.{name}": there[f"elmo/{name}"].float() for name in elmo.weights}
    elmo.load_state_dict(own, assign=True)
    net = BiLM(elmo, words, len(there["softmax/bias"]))
    with torch.no_grad():
        net.weight.copy_(there["softmax/weight"])
        net.bias.copy_(there["softmax/bias"])
    return net.eval()


def _require_fitting(there: Mapping[str, Tensor], options: ElmoOptions, words: Words) -> None:
    """Every tensor that the options call for, in its shape, and none besides."""
    shapes = {f"elmo/{name}": shape for name, shape in dataset_shapes(options).items()}
    size = there["softmax/bias"].numel() if "softmax/bias" in there else 0
    shapes |= {"softmax/weight": (size, options.width), "softmax/bias": (size,)}
    if odd := sorted(shapes.keys() ^ there.keys()):
        lacks = "lacks" if odd[0] in shapes else "has, besides what the options call for,"
        raise ValueError(f"it {lacks} {odd[0]!r}")
    for name, shape in shapes.items():
        if tuple(there[name].shape) != shape or not there[name].is_floating_point():
            kind = str(there[name].dtype).removeprefix("torch.")
            found = f"{kind} {list(there[name].shape)}"
            raise ValueError(f"{name!r} is {found}, and by the options floats {list(shape)}")
    if not len(MARKS) <= size <= len(words.words):
        raise ValueError(f"its softmax has {size:,} words, and {WORDS} {len(words.words):,}")


# --- how well ELMo predicts whole texts, word by word, in both directions -------------------------
#
# Forward, each word and the end of the text is predicted from what is before it; backward, each
# word and its beginning from what is after it. So each direction alone gives a text a likelihood.
# Words that the softmax does not have are one word, `<UNK>`, where they are predicted, and are
# spelt in full where they are read. Costs one pass over the words, and logits over the softmax
# for each of them, twice.


class WordScores(NamedTuple):
    """Sums over each text, [texts]; one without words has none."""

    nats: NDArray[np.float64]  # the mean of both directions' sums
    predictions: NDArray[np.int64]  # of one direction: the words, and the boundary
    right: NDArray[np.int64]  # of both directions: no other word was thought likelier
    unknown: NDArray[np.int64]  # words that the softmax does not have


def score_words(net: BiLM, texts: Sequence[Sequence[str]], limit: int) -> WordScores:
    """Score texts, of at most about `limit` words in a batch."""
    numbers = {word: number for number, word in enumerate(net.predicted)}
    unknown = net.words.unknown
    golds = [[numbers.get(word, unknown) for word in text] for text in texts]
    lengths = np.array([len(text) for text in texts], dtype=np.int64)  # [texts]
    found = WordScores(
        nats=np.zeros(len(texts)),
        predictions=np.where(lengths > 0, lengths + 1, 0),
        right=np.zeros(len(texts), dtype=np.int64),
        unknown=np.array([gold.count(unknown) for gold in golds], dtype=np.int64),
    )

    @torch.no_grad()
    def scored(some: Places) -> tuple[Scored, Scored]:
        return net.scored([texts[p] for p in some.places], [golds[p] for p in some.places])

    room, read = Limit(), np.flatnonzero(lengths)  # texts without words are left out
    for rows, width in length_batches(torch.from_numpy(lengths[read] + 2), Limit(limit)):
        batch = Places(read[rows.numpy()].tolist(), width)
        for some, (nats, right) in in_halves(scored, batch, room):
            for direction, hits in zip(nats, right, strict=True):
                found.nats[list(some.places)] += direction.double().sum(1).cpu().numpy() / 2
                found.right[list(some.places)] += hits.sum(1).cpu().numpy()
    return found
