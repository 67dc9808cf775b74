"""ELMo's bidirectional language model: the model that reads, and the softmax that it learns by.

A forward and a backward LSTM over words spelt in characters; both predict with one softmax, the
former the next word and the latter the one before. A folder of it holds

    options.json, weights.hdf5   the original's, without the softmax: elmo:OPTIONS,WEIGHTS
    model.safetensors            `elmo/NAME` as in the hdf5, `softmax/weight`, `softmax/bias`
    vocab.txt, counts.txt        all words by falling count; the softmax has the first

Costs, a word, what `workbench.models.elmo` says, and two products with the softmax's matrix; over a
large vocabulary training takes a sample of it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from workbench.errors import WorkbenchError
from workbench.files import written_whole
from workbench.models.elmo import Elmo, reading_order
from workbench.models.elmo_characters import index_words
from workbench.models.elmo_files import OPTIONS, write_original
from workbench.models.elmo_options import ElmoOptions, read_options
from workbench.training.heads import linear_nats
from workbench.training.words import Words, read_words, save_words

FORMAT, MODEL = "workbench-elmo-1", "model.safetensors"
SAMPLED = 8_192  # words of the softmax in training, where there are more than twice as many


class Scored(NamedTuple):
    """-log p of each word and the boundary that ends it in both directions, 0 after the end."""

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
        indexed = index_words(sentences, self.elmo.options.max_characters)
        numbers = {word: n for n, word in enumerate(self.words.words[: len(self.weight)])}
        longest = indexed.words.shape[1]
        gold = torch.zeros(len(sentences), longest, dtype=torch.long)
        for row, sentence in zip(gold, sentences, strict=True):
            known = [numbers.get(word, self.words.unknown) for word in sentence]
            row[: len(known) + 2] = torch.tensor([0, *known, 1])
        parts = (torch.from_numpy(part).to(self.bias.device) for part in indexed)
        characters, places, lengths = parts
        gold = gold.to(self.bias.device)
        states = self(characters, places, lengths)
        found = []
        for states_of, (rows, targets, at) in zip(states, wanted(gold, lengths), strict=True):
            logits = functional.linear(states_of[rows], self.weight, self.bias)
            nats = functional.cross_entropy(logits.float(), targets, reduction="none")
            laid = torch.zeros(len(sentences), longest - 1, device=nats.device)
            found.append(laid.index_put(at, nats))
        return Scored(*found)

    def save(self, folder: Path) -> bool:
        """Write the folder; whether `weights.hdf5` is in it, for which h5py must be there."""
        tensors = {f"elmo/{name}": value.detach() for name, value in self.elmo.weights.items()}
        tensors |= {"softmax/weight": self.weight.detach(), "softmax/bias": self.bias.detach()}
        kept = {name: tensor.contiguous().cpu() for name, tensor in tensors.items()}
        with written_whole(folder / MODEL) as draft:
            save_file(kept, draft, metadata={"format": FORMAT})
        save_words(self.words, folder)
        try:
            write_original(folder, self.elmo.options, dict(self.elmo.weights.items()))
        except WorkbenchError as error:
            if "h5py" not in str(error):
                raise
            return False
        return True


def load_trained(folder: Path) -> BiLM:
    """Open what `BiLM.save` wrote: the reader, its softmax and its words."""
    path = folder / MODEL
    options, words = read_options(folder / OPTIONS), read_words(folder)
    try:
        with safe_open(path, framework="pt") as file:
            if (file.metadata() or {}).get("format") != FORMAT:
                raise ValueError("it is not ELMo's")
            there = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        with torch.device("meta"):
            elmo = Elmo(options)
        own = {name: there[f"elmo/{name}"].float() for name in elmo.weights}
        elmo.load_state_dict({f"weights.{name}": v for name, v in own.items()}, assign=True)
        net = BiLM(elmo, words, len(there["softmax/bias"]))
        with torch.no_grad():
            net.weight.copy_(there["softmax/weight"])
            net.bias.copy_(there["softmax/bias"])
    except (SafetensorError, OSError, KeyError, ValueError, RuntimeError) as error:
        raise WorkbenchError(
            f"cannot be read: {error}.",
            where=str(path),
            remedy=f"Name a folder that training wrote, with {OPTIONS}, {MODEL} and vocab.txt.",
        ) from None
    return net.eval()


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


def bilm_losses(net: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    """The sum over both directions, in nats.  # [1]"""
    assert isinstance(net, BiLM)
    lengths, gold = inputs["lengths"], inputs["gold"]
    states = net(inputs["characters"], inputs["places"], lengths)
    total = net.bias.new_zeros(())
    for states_of, (rows, targets, _) in zip(states, wanted(gold, lengths), strict=True):
        total = total + _softmax_nats(net, states_of[rows], targets, inputs.get("sampled"))
    return total[None]


def _softmax_nats(net: BiLM, states: Tensor, targets: Tensor, sampled: Tensor | None) -> Tensor:
    """-log p of the targets among all words, or among themselves and a sample.

    A sample is drawn by log-uniform chances. Logits less the log of how often a word is expected in
    it add up to an estimate of what all words but the target would.
    """
    if sampled is None or not net.training:
        return linear_nats(states, net.weight, net.bias, targets)
    size, many = len(net.bias), len(sampled)
    own = (states * net.weight[targets]).sum(1) + net.bias[targets]  # [rows]
    others = functional.linear(states, net.weight[sampled], net.bias[sampled])  # [rows, sampled]
    own = own.float()
    others = others.float() - expected(sampled, size, many).log()
    others = others.masked_fill(sampled == targets[:, None], float("-inf"))
    both = torch.cat([own[:, None], others], dim=1)
    return (both.logsumexp(1) - own).sum()


def expected(numbers: Tensor, size: int, many: int) -> Tensor:
    """How often words, numbered by falling count, are expected in a sample of `many`."""
    chance = torch.log1p(1 / (numbers.float() + 1)) / torch.log(torch.tensor(size + 1.0))
    return chance * many


def sample(size: int, many: int, generator: torch.Generator) -> Tensor:
    """Numbers of words by log-uniform chances, with repeats.  # [many]"""
    uniform = torch.rand(many, generator=generator, dtype=torch.float64)
    drawn = ((size + 1.0) ** uniform).long() - 1
    return drawn.clamp(max=size - 1)
