"""ELMo: characters, a convolution with highways, and an LSTM stack in each direction.

Reads and writes the original's files, and keeps its weights under their names and in their shapes,
so the model is what the file holds. Gates stand in the order input, candidate, forget, output, and
the forget gate gets the 1 that the file leaves out. Stateless: the original carries its LSTM's
state from one batch to the next, so that its output depends on what it read before; here each
sentence starts from zeros, as the original's first batch does.

Costs, at the published size (93.6 million parameters): 54 MFLOP a distinct word of the batch and
151 MFLOP a word, some 64 kB a word of the batch while a layer runs, and one step after another
along the longest sentence. One CPU core reads 280 words a second in batches of 64 sentences, 110 in
batches of 8. No padding is computed, so sentences of a batch need not be alike.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.backends import cudnn
from torch.nn import functional

from workbench.engine.moving import sent
from workbench.models.elmo_characters import index_words
from workbench.models.elmo_files import read_weights, write_original
from workbench.models.elmo_options import ElmoOptions, cell_name, dataset_shapes, read_options

WORDS_AT_ONCE = {"cpu": 512, "cuda": 8_192}  # spelt at a time: the widest convolution takes
# 180 kB a word


class Elmo(nn.Module):
    """A bidirectional language model over characters; its weights are those of the file.

    A new one holds no values yet: see `random` and `from_original`.
    """

    def __init__(self, options: ElmoOptions) -> None:
        super().__init__()
        self.options = options
        shapes = dataset_shapes(options)
        self.weights = nn.ParameterDict(
            {name: torch.empty(shape) for name, shape in shapes.items()}
        )

    @classmethod
    def from_original(cls, options: Path, weights: Path) -> Self:
        """Read `options.json` and `weights.hdf5`."""
        read = read_options(options)
        with torch.device("meta"):
            elmo = cls(read)
        values = {f"weights.{name}": value for name, value in read_weights(weights, read).items()}
        elmo.load_state_dict(values, assign=True)
        return elmo.eval()

    @classmethod
    def random(cls, options: ElmoOptions, seed: int) -> Self:
        """Fresh weights, drawn as the original's training draws them."""
        elmo, generator = cls(options), torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, weight in elmo.weights.items():
                _draw(name, weight, options, generator)
        return elmo.eval()

    def save_original(self, folder: Path) -> None:
        """Write `options.json` and `weights.hdf5`, which the original reads."""
        write_original(folder, self.options, dict(self.weights.items()))

    def forward(self, sentences: Sequence[Sequence[str]]) -> tuple[list[Tensor], Tensor]:
        """All layers of each word, the token's own vector (twice) first; and where words are.

        # [batch, words, 2 * width] a layer, zero after the end; [batch, words]
        """
        layers, lengths = self.with_boundaries(sentences)
        words = layers[0].shape[1] - 2
        mask = torch.arange(words, device=lengths.device) < lengths[:, None] - 2
        return [layer[:, 1:-1].masked_fill(~mask[..., None], 0) for layer in layers], mask

    def with_boundaries(self, sentences: Sequence[Sequence[str]]) -> tuple[list[Tensor], Tensor]:
        """The same with `<S>` and `</S>` in place, as a language model needs; and the lengths.

        # [batch, words + 2, 2 * width] a layer, anything after the end; [batch]
        """
        device = self.weights["char_embed"].device
        indexed = index_words(sentences, self.options.max_characters)
        characters, words, lengths = (torch.from_numpy(part) for part in indexed)
        if not len(words):
            words = words.new_zeros(0, 2)
        order = reading_order(lengths).to(device)
        words, lengths = sent(words, device), sent(lengths, device)
        vectors = self.token_vectors(sent(characters, device))  # [distinct, width]
        tokens = vectors[words]  # [batch, longest, width]
        halves = []
        for direction, place in enumerate((order.forward, order.backward)):
            rows = self.read(vectors[words[order.sentence, place]], order.sizes, direction)
            at = (order.sentence, place)
            halves.append([torch.zeros_like(tokens).index_put(at, layer) for layer in rows])
        both = [(tokens, tokens), *zip(*halves, strict=True)]
        return [torch.cat(pair, dim=2) for pair in both], lengths

    def token_vectors(self, characters: Tensor) -> Tensor:
        """Words from their characters alone.  # [words, characters] -> [words, width]"""
        parts = torch.split(characters, WORDS_AT_ONCE[characters.device.type])
        return torch.cat([_spelt(part, self.weights, self.options) for part in parts])

    def read(self, rows: Tensor, sizes: list[int], direction: int) -> list[Tensor]:
        """The LSTM layers of one direction over packed words.  # [rows, width] a layer"""
        outputs: list[Tensor] = []
        for layer in range(self.options.layers):
            out = _lstm(rows, sizes, self.weights, cell_name(direction, layer), self.options)
            rows = rows + out if self.options.skip and layer else out
            outputs.append(rows)
        return outputs


class ReadingOrder(NamedTuple):
    """Words packed step by step: the first of every sentence, the second of those that have one.

    Step s reads `sizes[s]` words, longest sentence first, so that who has ended drops off the end.
    """

    sizes: list[int]  # [steps]
    sentence: Tensor  # [rows], row of the batch
    forward: Tensor  # [rows], place in the sentence
    backward: Tensor  # [rows], place in the sentence when read from its own end

    def to(self, device: torch.device) -> "ReadingOrder":
        """The same on a device."""
        return ReadingOrder(self.sizes, *(sent(each, device) for each in self[1:]))


def reading_order(lengths: Tensor) -> ReadingOrder:
    """The order in which LSTMs read sentences of these lengths, made on the host."""
    device, lengths = lengths.device, lengths.cpu()
    longest_first = lengths.argsort(descending=True, stable=True)
    steps = torch.arange(int(lengths.max()) if len(lengths) else 0, device=lengths.device)
    running = steps[:, None] < lengths[longest_first]  # [steps, batch]
    step, rank = running.nonzero(as_tuple=True)
    sentence = longest_first[rank]
    sizes: list[int] = running.sum(dim=1).tolist()
    order = ReadingOrder(sizes, sentence, step, lengths[sentence] - 1 - step)
    return order.to(device)


def _spelt(characters: Tensor, weights: nn.ParameterDict, options: ElmoOptions) -> Tensor:
    activate = functional.relu if options.activation == "relu" else torch.tanh
    letters = weights["char_embed"][characters].transpose(1, 2)  # [words, letter, characters]
    found = []
    for i in range(len(options.filters)):
        kernel = weights[f"CNN/W_cnn_{i}"][0].permute(2, 1, 0)  # [filters, letter, seen]
        # The bias and the activation change nothing about which place is the best.
        best = _convolved(letters, kernel).amax(dim=2)  # [words, filters]
        found.append(activate(best + weights[f"CNN/b_cnn_{i}"]))
    x = torch.cat(found, dim=1)  # [words, all filters]
    for i in range(options.highways):
        high = f"CNN_high_{i}"
        carry = torch.sigmoid(x @ weights[f"{high}/W_carry"] + weights[f"{high}/b_carry"])
        new = functional.relu(x @ weights[f"{high}/W_transform"] + weights[f"{high}/b_transform"])
        x = carry * new + (1 - carry) * x  # the original's "carry" gate carries what is new
    if "CNN_proj/W_proj" in weights:
        x = x @ weights["CNN_proj/W_proj"] + weights["CNN_proj/b_proj"]
    return x  # [words, width]


def _convolved(letters: Tensor, kernel: Tensor) -> Tensor:
    """In full float32: cuDNN's TF32, on by default, is off by one in a thousand."""
    as_set = {name: getattr(cudnn, name) for name in ("enabled", "benchmark", "deterministic")}
    with cudnn.flags(**as_set, allow_tf32=False):
        return functional.conv1d(letters, kernel)


def _lstm(
    rows: Tensor, sizes: list[int], weights: nn.ParameterDict, name: str, options: ElmoOptions
) -> Tensor:
    """One layer over words packed as in `ReadingOrder`.  # [rows, width] -> [rows, width]"""
    from_input, from_hidden = weights[f"{name}/W_0"].split(options.width)
    inputs = Steps(torch.addmm(weights[f"{name}/B"], rows, from_input), from_hidden, sizes)
    shown = None
    if options.width != options.cells:
        nothing = rows.new_zeros(len(rows), options.width)
        shown = Steps(nothing, weights[f"{name}/W_P_0"], sizes)
    running = max(sizes, default=0)
    hidden, cell = rows.new_zeros(running, options.width), rows.new_zeros(running, options.cells)
    outputs = [hidden[:0]]
    for step, running in enumerate(sizes):
        gates = inputs.plus(step, hidden[:running])  # [running, 4 * cells]
        let_in, new, keep, show = gates.chunk(4, dim=1)
        cell = keep.add(1).sigmoid() * cell[:running] + let_in.sigmoid() * new.tanh()
        cell = _clip(cell, options.cell_clip)
        hidden = show.sigmoid() * cell.tanh()
        if shown is not None:
            hidden = _clip(shown.plus(step, hidden), options.projection_clip)
        outputs.append(hidden)
    return torch.cat(outputs)


class Steps:
    """A product with one matrix at every step, added to rows that are known before the first.

    The matrix' slope is one product at the end, of all steps together, where autograd alone would
    make one a step and add them up: most of what a backward pass through an LSTM takes.
    """

    def __init__(self, rows: Tensor, matrix: Tensor, sizes: list[int]) -> None:
        """# [rows, out], [in, out]; rows of each step"""
        self.matrix = matrix.detach()
        self.seen: list[Tensor] = []
        self.learns = torch.is_grad_enabled() and matrix.requires_grad
        if self.learns:
            rows = _AllAtOnce.apply(rows, matrix, self.seen)  # type: ignore[no-untyped-call]
        self.rows = torch.split(rows, sizes)

    def plus(self, step: int, values: Tensor) -> Tensor:
        """The rows of a step with its product.  # [rows of the step, in] -> [.., out]"""
        if self.learns:
            self.seen.append(values.detach())
        return torch.addmm(self.rows[step], values, self.matrix)


class _AllAtOnce(torch.autograd.Function):
    """Rows as they are; going back, what they pass on is the slope of each step's product too."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, matrix: Tensor, seen: list[Tensor]) -> Tensor:
        ctx.seen, ctx.kind = seen, matrix.dtype
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, Tensor, None]:
        (slope,) = slopes  # [rows, out]
        # under autocast rows come in bf16 while the weights stay in float32
        seen = torch.cat([values.to(ctx.kind) for values in ctx.seen])
        return slope, seen.T @ slope.to(ctx.kind), None


def _clip(values: Tensor, most: float | None) -> Tensor:
    return values if most is None else values.clamp(-most, most)


def _draw(name: str, weight: Tensor, options: ElmoOptions, generator: torch.Generator) -> None:
    if name == "char_embed":
        weight.uniform_(-1, 1, generator=generator)
    elif name.startswith("RNN_") and weight.ndim == 2:
        nn.init.xavier_uniform_(weight, generator=generator)
    elif name.startswith("CNN/W_") and options.activation == "relu":
        weight.uniform_(-0.05, 0.05, generator=generator)
    elif weight.ndim > 1:
        weight.normal_(0, weight[..., 0].numel() ** -0.5, generator=generator)
    else:
        weight.fill_(-2.0 if name.endswith("b_carry") else 0.0)
