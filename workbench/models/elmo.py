"""ELMo: a character convolution with highway layers, and an LSTM stack in each direction.

Reads and writes the original's files, and keeps its weights under their original names and shapes.
The gates are in the order input, candidate, forget, output; the forget gate gets the bias of 1 that
the file omits. Stateless: the original carries its LSTM state from one batch to the next, so its
output depends on earlier batches. Here each sentence starts from zero states, as in the original's
first batch.

Costs: at the published size (93.6 million parameters) 54 MFLOP per distinct word of the batch and
151 MFLOP per word, about 64 kB per word of the batch while a layer runs, and one step per word of
the longest sentence. One CPU core reads 280 words per second in batches of 64 sentences, 110 in
batches of 8. No padding is computed, so the sentences of a batch may differ in length.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.backends import cudnn
from torch.nn import functional

from workbench.core.errors import WorkbenchError, missing_package
from workbench.core.files import (
    atomic_write,
    parse_json,
    read_regular,
    require_regular,
    write_atomically,
)
from workbench.engine.batch import sent

if TYPE_CHECKING:
    import h5py

# --- words as characters --------------------------------------------------------------------------
#
# The ids are rows of `char_embed` in the weights file: 0 to 255 the bytes, then begin of sentence,
# end of sentence, begin of word, end of word, padding. The original adds one to every id at run
# time and uses 0 for "no word here". We know each sentence's length instead, so no id is shifted
# and no row is added. Costs: 400 bytes per distinct word of a batch.

BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = range(256, 261)
CHARACTERS = 261
# A text word spelt like a boundary is read as one, because the original looks it up by this name.
BOUNDARIES = {"<S>": BEGIN_SENTENCE, "</S>": END_SENTENCE}


class IndexedWords(NamedTuple):
    """A batch of sentences with boundaries; each distinct word is spelt once."""

    characters: NDArray[np.int64]  # [distinct, characters], see `character_ids`
    words: NDArray[np.int64]  # [batch, longest], rows of `characters`; 0 after the end
    lengths: NDArray[np.int64]  # [batch], boundaries included


def character_ids(words: Iterable[str], max_characters: int) -> NDArray[np.int64]:
    """Character ids of words; a long word keeps its first `max_characters - 2` bytes.

    # [words, characters]
    """
    words = list(words)
    ids = np.full((len(words), max_characters), PADDING, dtype=np.int64)
    ids[:, 0] = BEGIN_WORD
    for row, word in zip(ids, words, strict=True):
        spelling = _spelling(word)[: max_characters - 2]
        row[1 : len(spelling) + 1] = spelling
        row[len(spelling) + 1] = END_WORD
    return ids


def index_words(sentences: Sequence[Sequence[str]], max_characters: int) -> IndexedWords:
    """Add boundaries to each sentence and index its words by first occurrence."""
    bounded = [["<S>", *sentence, "</S>"] for sentence in sentences]
    index_of: dict[str, int] = {}
    lengths = np.array([len(sentence) for sentence in bounded], dtype=np.int64)
    words = np.zeros((len(bounded), lengths.max(initial=0)), dtype=np.int64)
    for row, sentence in zip(words, bounded, strict=True):
        row[: len(sentence)] = [index_of.setdefault(word, len(index_of)) for word in sentence]
    return IndexedWords(character_ids(index_of, max_characters), words, lengths)


def spelling(word: str, max_characters: int) -> tuple[str, ...]:
    """What is read of a word between its two marks, readable: characters, or bytes as <C3>."""
    ids = _spelling(word)[: max_characters - 2]
    return tuple(
        "<boundary>" if id_ > 255 else chr(id_) if 0x20 < id_ < 0x7F else f"<{id_:02X}>"
        for id_ in ids
    )


def read_back(characters: Sequence[str]) -> str:
    """The word that these characters spell; an incomplete character at its end is dropped."""
    raw = b"".join(
        each.encode() if len(each) == 1 else bytes.fromhex(each[1:-1])
        for each in characters
        if each != "<boundary>"
    )
    return raw.decode("utf-8", "ignore")


def _spelling(word: str) -> list[int]:
    """The byte ids of a word; an unpaired surrogate has no bytes and is dropped, as originally."""
    if word in BOUNDARIES:
        return [BOUNDARIES[word]]
    return list(word.encode("utf-8", "ignore"))


# --- `options.json` -------------------------------------------------------------------------------
#
# Keys and meanings are the original's; keys used only for its training are ignored. Costs: nothing.

# The key of each field in options.json.
KEYS = {
    "activation": "char_cnn.activation",
    "character_width": "char_cnn.embedding.dim",
    "filters": "char_cnn.filters",
    "max_characters": "char_cnn.max_characters_per_token",
    "highways": "char_cnn.n_highway",
    "cells": "lstm.dim",
    "width": "lstm.projection_dim",
    "layers": "lstm.n_layers",
    "cell_clip": "lstm.cell_clip",
    "projection_clip": "lstm.proj_clip",
    "skip": "lstm.use_skip_connections",
}
# The original's defaults of missing keys; all other keys are required.
MISSING = {"highways": 0, "layers": 1, "cell_clip": None, "projection_clip": None}
# Width of each filter in characters, and number of filters of that width; as published.
FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
ACTIVATIONS = ("relu", "tanh")


@dataclass(frozen=True)
class ElmoOptions:
    """Sizes of a bidirectional language model over characters (defaults: as published)."""

    activation: str = "relu"
    character_width: int = 16
    filters: tuple[tuple[int, int], ...] = FILTERS
    max_characters: int = 50  # per word, including its two marks
    highways: int = 2
    cells: int = 4096  # of the LSTM in one direction
    width: int = 512  # of one direction's output, and of the word vectors
    layers: int = 2
    cell_clip: float | None = 3.0
    projection_clip: float | None = 3.0
    skip: bool = True  # each layer after the first adds its input to its output

    def __post_init__(self) -> None:
        if message := _invalid_value(self):
            raise WorkbenchError(
                message,
                code="file-format",
                remedy="Correct the value, or use the original options.json.",
            )


def parse_options(raw: object, where: str) -> ElmoOptions:
    """The options in the parsed JSON; errors name `where`."""
    fields = {name: _find(raw, key, name, where) for name, key in KEYS.items()}
    filters = fields["filters"]
    if isinstance(filters, list):
        fields["filters"] = tuple(tuple(f) if isinstance(f, list) else f for f in filters)
    # 262 includes the row that the original adds for "no word here"; training files have 261.
    characters = raw["char_cnn"].get("n_characters") if isinstance(raw, dict) else None
    if characters not in (None, CHARACTERS, CHARACTERS + 1):
        raise WorkbenchError(
            f"char_cnn.n_characters is {characters!r}, not {CHARACTERS} or {CHARACTERS + 1}.",
            code="file-format",
            where=where,
            remedy="Only the original's character set is supported: bytes and five marks.",
        )
    try:
        return ElmoOptions(**fields)
    except WorkbenchError as error:
        raise WorkbenchError(
            error.what, code=error.code, where=where, remedy=error.remedy
        ) from None


def options_as_json(options: ElmoOptions) -> dict[str, Any]:
    """The options in the JSON form that the original reads at run time."""
    raw: dict[str, Any] = {"char_cnn": {"n_characters": CHARACTERS + 1}}
    for name, value in asdict(options).items():
        *sections, last = KEYS[name].split(".")
        section = raw
        for part in sections:
            section = section.setdefault(part, {})
        section[last] = value
    return raw


def read_options(path: Path) -> ElmoOptions:
    """Read an `options.json`."""
    remedy = "Name the options.json of these weights, as a file on this machine."
    try:
        return parse_options(parse_json(read_regular(path).decode("utf-8-sig")), str(path))
    except OSError as error:
        raise WorkbenchError(
            f"ELMo's options cannot be read: {error.strerror or error}.",
            code="file-unreadable",
            where=str(path),
            remedy=remedy,
        ) from None
    except json.JSONDecodeError as error:
        raise WorkbenchError(
            f"this file is not JSON: {error.msg}.",
            code="file-format",
            where=f"{path}:{error.lineno}",
            remedy=remedy,
        ) from None
    except ValueError:
        raise WorkbenchError(
            "this file is not JSON in UTF-8.",
            code="file-format",
            where=str(path),
            remedy=remedy,
        ) from None


def dataset_shapes(options: ElmoOptions) -> dict[str, tuple[int, ...]]:
    """The shape of every dataset of the weights file, by name."""
    width, cells = options.width, options.cells
    shapes: dict[str, tuple[int, ...]] = {"char_embed": (CHARACTERS, options.character_width)}
    for i, (seen, count) in enumerate(options.filters):
        shapes[f"CNN/W_cnn_{i}"] = (1, seen, options.character_width, count)
        shapes[f"CNN/b_cnn_{i}"] = (count,)
    filters = sum(count for _, count in options.filters)
    for i in range(options.highways):
        for gate in ("carry", "transform"):
            shapes[f"CNN_high_{i}/W_{gate}"] = (filters, filters)
            shapes[f"CNN_high_{i}/b_{gate}"] = (filters,)
    if filters != width:
        shapes |= {"CNN_proj/W_proj": (filters, width), "CNN_proj/b_proj": (width,)}
    for direction in range(2):
        for layer in range(options.layers):
            cell = cell_name(direction, layer)
            shapes |= {f"{cell}/W_0": (2 * width, 4 * cells), f"{cell}/B": (4 * cells,)}
            if width != cells:
                shapes[f"{cell}/W_P_0"] = (cells, width)
    return shapes


def cell_name(direction: int, layer: int) -> str:
    """The group of one LSTM layer; direction 0 reads forward, 1 backward."""
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def _find(raw: object, key: str, name: str, where: str) -> Any:
    """The value of a dotted key, or its default."""
    for part in key.split("."):
        if isinstance(raw, Mapping) and part in raw:
            raw = raw[part]
        elif name in MISSING:
            return MISSING[name]
        else:
            raise WorkbenchError(
                f"the key {key!r} is missing.",
                code="file-format",
                where=where,
                remedy=f"ELMo's options.json needs the keys {', '.join(KEYS.values())}.",
            )
    return raw


def _invalid_value(options: ElmoOptions) -> str:
    """A message about the first invalid value; "" if all are valid."""
    values = asdict(options)
    for name in ("character_width", "max_characters", "cells", "width", "layers"):
        if not _is_count(values[name]):
            return f"{KEYS[name]} is {values[name]!r}, not a positive integer."
    if type(options.highways) is not int or options.highways < 0:
        return f"{KEYS['highways']} is {options.highways!r}, not an integer of 0 or more."
    for name in ("cell_clip", "projection_clip"):
        clip = values[name]
        if clip is not None and (isinstance(clip, bool) or not _is_positive(clip)):
            return f"{KEYS[name]} is {clip!r}, neither a positive number nor null."
    if not isinstance(options.skip, bool):
        return f"{KEYS['skip']} is {options.skip!r}, not true or false."
    if options.activation not in ACTIVATIONS:
        return f"{KEYS['activation']} is {options.activation!r}, not relu or tanh."
    if not _are_filters(options.filters):
        return f"{KEYS['filters']} is not a list of [width in characters, number of filters]."
    least = max(3, *(seen for seen, _ in options.filters))
    if options.max_characters < least:
        return f"{KEYS['max_characters']} is {options.max_characters}, below {least}."
    if options.width > options.cells:
        return f"{KEYS['width']} is {options.width}, above {KEYS['cells']} ({options.cells})."
    return ""


def _is_count(value: object) -> bool:
    return type(value) is int and value > 0


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and value > 0


def _are_filters(filters: object) -> bool:
    return (
        isinstance(filters, tuple)
        and bool(filters)
        and all(isinstance(f, tuple) and len(f) == 2 and all(map(_is_count, f)) for f in filters)
    )


# --- the network ----------------------------------------------------------------------------------

# From a layer and its states to those that the next layer reads.  # [batch, words + 2, 2 * width]
Change = Callable[[int, Tensor], Tensor]
WORDS_AT_ONCE = {"cpu": 512, "cuda": 8_192}  # words convolved at a time: the widest
# convolution takes 180 kB per word


class Elmo(nn.Module):
    """A bidirectional language model over characters, with the weights of the original's file.

    A new instance has uninitialised weights: use `random` or `from_original`.
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
        parsed = read_options(options)
        with torch.device("meta"):
            elmo = cls(parsed)
        values = {f"weights.{name}": value for name, value in read_weights(weights, parsed).items()}
        elmo.load_state_dict(values, assign=True)
        return elmo.eval()

    @classmethod
    def random(cls, options: ElmoOptions, seed: int) -> Self:
        """Random weights, initialised as in the original's training."""
        elmo, generator = cls(options), torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, weight in elmo.weights.items():
                _draw(name, weight, options, generator)
        return elmo.eval()

    def save_original(self, folder: Path) -> None:
        """Write `options.json` and `weights.hdf5` in the original's format."""
        write_original(folder, self.options, dict(self.weights.items()))

    def forward(
        self,
        sentences: Sequence[Sequence[str]],
        given: Tensor | None = None,
        below: Sequence[Tensor] = (),
        change: Change | None = None,
    ) -> tuple[list[Tensor], Tensor]:
        """All layers of each word, first the token vector (twice); and the mask of words.

        `given` are token vectors to read instead of the words' own, [batch, words, width]; `below`
        and `change` as in `with_boundaries`.

        # [batch, words, 2 * width] per layer, zero after the end; [batch, words]
        """
        layers, lengths = self.with_boundaries(sentences, given, below, change)
        words = layers[0].shape[1] - 2
        mask = torch.arange(words, device=lengths.device) < lengths[:, None] - 2
        return [layer[:, 1:-1].masked_fill(~mask[..., None], 0) for layer in layers], mask

    def with_boundaries(
        self,
        sentences: Sequence[Sequence[str]],
        given: Tensor | None = None,
        below: Sequence[Tensor] = (),
        change: Change | None = None,
    ) -> tuple[list[Tensor], Tensor]:
        """All layers with `<S>` and `</S>` included, as a language model needs; and the lengths.

        `below` are the states of the first layers, which are not computed: the next layer reads the
        last of them. `change` gives the states of each other layer that the next one reads.

        # [batch, words + 2, 2 * width] per layer, arbitrary values after the end; [batch]
        """
        if change is not None:
            layers, lengths = self.with_boundaries(sentences, given, below)
            for layer in range(len(below), len(layers)):
                new = change(layer, layers[layer])
                if new is not layers[layer]:
                    layers = self._above(sentences, [*layers[:layer], new])[0]
            return layers, lengths
        if below:
            return self._above(sentences, below)
        vectors, words, lengths = self._words(sentences)
        device = words.device
        order = reading_order(lengths).to(device)
        lengths = sent(lengths, device)
        tokens = vectors[words]  # [batch, longest, width]
        if given is not None:
            position = torch.arange(1, tokens.shape[1] - 1, device=device)
            is_word = (position < lengths[:, None] - 1)[..., None]  # [batch, words, 1]
            inside = torch.where(is_word, given[:, : len(position)].to(tokens), tokens[:, 1:-1])
            tokens = torch.cat([tokens[:, :1], inside, tokens[:, -1:]], 1)
        halves = []
        for direction, position in enumerate((order.forward, order.backward)):
            cells = (order.sentence, position)
            inputs = vectors[words[cells]] if given is None else tokens[cells]
            rows = self.read(inputs, order.sizes, direction)
            halves.append([torch.zeros_like(tokens).index_put(cells, layer) for layer in rows])
        both = [(tokens, tokens), *zip(*halves, strict=True)]
        return [torch.cat(pair, dim=2) for pair in both], lengths

    def embedded(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """The token vectors alone, once, which no LSTM has read.  # [batch, words, width]"""
        vectors, words, lengths = self._words(sentences)
        position = torch.arange(1, words.shape[1] - 1)
        is_word = sent(position < lengths[:, None] - 1, words.device)
        return vectors[words][:, 1:-1].masked_fill(~is_word[..., None], 0)

    def _words(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor, Tensor]:
        """Vectors of distinct words, the index of each word with the ends, and lengths on the CPU.

        # [distinct, width], [batch, longest], [batch]
        """
        device = self.weights["char_embed"].device
        indexed = index_words(sentences, self.options.max_characters)
        characters, words, lengths = (torch.from_numpy(part) for part in indexed)
        if not len(words):
            words = words.new_zeros(0, 2)
        return self.token_vectors(sent(characters, device)), sent(words, device), lengths

    def _above(
        self, sentences: Sequence[Sequence[str]], below: Sequence[Tensor]
    ) -> tuple[list[Tensor], Tensor]:
        """The states of the first layers, and all layers above them; and the lengths."""
        lengths = torch.tensor([len(sentence) + 2 for sentence in sentences])
        order = reading_order(lengths).to(below[-1].device)
        halves = []
        for direction, (position, half) in enumerate(
            zip((order.forward, order.backward), below[-1].chunk(2, dim=2), strict=True)
        ):
            cells = (order.sentence, position)
            rows = self.read(half[cells], order.sizes, direction, len(below) - 1)
            halves.append([torch.zeros_like(half).index_put(cells, layer) for layer in rows])
        above = [torch.cat(pair, dim=2) for pair in zip(*halves, strict=True)]
        return [*below, *above], sent(lengths, below[-1].device)

    def token_vectors(self, characters: Tensor) -> Tensor:
        """Context-free word vectors.  # [words, characters] -> [words, width]"""
        parts = torch.split(characters, WORDS_AT_ONCE[characters.device.type])
        return torch.cat([_convolve_words(part, self.weights, self.options) for part in parts])

    def read(self, rows: Tensor, sizes: list[int], direction: int, first: int = 0) -> list[Tensor]:
        """The LSTM layers of one direction over packed words, from the layer `first` on.

        # [rows, width] per layer
        """
        outputs: list[Tensor] = []
        for layer in range(first, self.options.layers):
            out = _lstm(rows, sizes, self.weights, cell_name(direction, layer), self.options)
            rows = rows + out if self.options.skip and layer else out
            outputs.append(rows)
        return outputs


class ReadingOrder(NamedTuple):
    """Words packed by step: the first word of every sentence, then the second words, and so on.

    Step s reads `sizes[s]` words, longest sentence first, so finished sentences drop off the end.
    """

    sizes: list[int]  # [steps]
    sentence: Tensor  # [rows], row of the batch
    forward: Tensor  # [rows], position in the sentence
    backward: Tensor  # [rows], position in the sentence when read from its end

    def to(self, device: torch.device) -> "ReadingOrder":
        """A copy on a device."""
        return ReadingOrder(self.sizes, *(sent(each, device) for each in self[1:]))


def reading_order(lengths: Tensor) -> ReadingOrder:
    """The order in which LSTMs read sentences of these lengths, computed on the host."""
    device, lengths = lengths.device, lengths.cpu()
    longest_first = lengths.argsort(descending=True, stable=True)
    steps = torch.arange(int(lengths.max()) if len(lengths) else 0, device=lengths.device)
    running = steps[:, None] < lengths[longest_first]  # [steps, batch]
    step, rank = running.nonzero(as_tuple=True)
    sentence = longest_first[rank]
    sizes: list[int] = running.sum(dim=1).tolist()
    order = ReadingOrder(sizes, sentence, step, lengths[sentence] - 1 - step)
    return order.to(device)


def _convolve_words(characters: Tensor, weights: nn.ParameterDict, options: ElmoOptions) -> Tensor:
    """Context-free word vectors from character ids.  # [words, width]"""
    activate = functional.relu if options.activation == "relu" else torch.tanh
    # [words, character_width, characters]
    letters = weights["char_embed"][characters].transpose(1, 2)
    features = []
    for i in range(len(options.filters)):
        kernel = weights[f"CNN/W_cnn_{i}"][0].permute(2, 1, 0)  # [filters, character_width, seen]
        # The bias and the activation do not change which position has the maximum.
        best = _convolved(letters, kernel).amax(dim=2)  # [words, filters]
        features.append(activate(best + weights[f"CNN/b_cnn_{i}"]))
    x = torch.cat(features, dim=1)  # [words, all filters]
    for i in range(options.highways):
        high = f"CNN_high_{i}"
        carry = torch.sigmoid(x @ weights[f"{high}/W_carry"] + weights[f"{high}/b_carry"])
        new = functional.relu(x @ weights[f"{high}/W_transform"] + weights[f"{high}/b_transform"])
        x = carry * new + (1 - carry) * x  # the original's "carry" gate weights the new values
    if "CNN_proj/W_proj" in weights:
        x = x @ weights["CNN_proj/W_proj"] + weights["CNN_proj/b_proj"]
    return x  # [words, width]


def _convolved(letters: Tensor, kernel: Tensor) -> Tensor:
    """A convolution in full float32: cuDNN's default TF32 has errors of one in a thousand."""
    flags = {name: getattr(cudnn, name) for name in ("enabled", "benchmark", "deterministic")}
    with cudnn.flags(**flags, allow_tf32=False):
        return functional.conv1d(letters, kernel)


def _lstm(
    rows: Tensor, sizes: list[int], weights: nn.ParameterDict, name: str, options: ElmoOptions
) -> Tensor:
    """One layer over words packed as in `ReadingOrder`.  # [rows, width] -> [rows, width]"""
    from_input, from_hidden = weights[f"{name}/W_0"].split(options.width)
    inputs = Steps(torch.addmm(weights[f"{name}/B"], rows, from_input), from_hidden, sizes)
    projected = None
    if options.width != options.cells:
        zeros = rows.new_zeros(len(rows), options.width)
        projected = Steps(zeros, weights[f"{name}/W_P_0"], sizes)
    running = max(sizes, default=0)
    hidden, cell = rows.new_zeros(running, options.width), rows.new_zeros(running, options.cells)
    outputs = [hidden[:0]]
    for step, running in enumerate(sizes):
        gates = inputs.plus(step, hidden[:running])  # [running, 4 * cells]
        input_gate, candidate, forget_gate, output_gate = gates.chunk(4, dim=1)
        cell = (
            forget_gate.add(1).sigmoid() * cell[:running] + input_gate.sigmoid() * candidate.tanh()
        )
        cell = _clip(cell, options.cell_clip)
        hidden = output_gate.sigmoid() * cell.tanh()
        if projected is not None:
            hidden = _clip(projected.plus(step, hidden), options.projection_clip)
        outputs.append(hidden)
    return torch.cat(outputs)


class Steps:
    """A product with one matrix at every step, added to rows known before the first step.

    The gradient of the matrix is one product over all steps at the end. Autograd alone would
    compute one product per step and add them: most of the cost of an LSTM's backward pass.
    """

    def __init__(self, rows: Tensor, matrix: Tensor, sizes: list[int]) -> None:
        """# [rows, out], [in, out]; number of rows of each step"""
        self.matrix = matrix.detach()
        self.seen: list[Tensor] = []
        self.needs_gradient = torch.is_grad_enabled() and matrix.requires_grad
        if self.needs_gradient:
            rows = _SingleProductGradient.apply(rows, matrix, self.seen)  # type: ignore[no-untyped-call]
        self.rows = torch.split(rows, sizes)

    def plus(self, step: int, values: Tensor) -> Tensor:
        """The rows of a step plus the step's product.  # [rows of the step, in] -> [.., out]"""
        if self.needs_gradient:
            self.seen.append(values.detach())
        return torch.addmm(self.rows[step], values, self.matrix)


class _SingleProductGradient(torch.autograd.Function):
    """Identity on rows; backward also computes the matrix gradient of all steps in one product."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, matrix: Tensor, seen: list[Tensor]) -> Tensor:
        ctx.seen, ctx.kind = seen, matrix.dtype
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        (gradient,) = gradients  # [rows, out]
        # under autocast the rows are in bf16 while the weights stay in float32
        seen = torch.cat([values.to(ctx.kind) for values in ctx.seen])
        return gradient, seen.T @ gradient.to(ctx.kind), None


def _clip(values: Tensor, limit: float | None) -> Tensor:
    return values if limit is None else values.clamp(-limit, limit)


def _draw(name: str, weight: Tensor, options: ElmoOptions, generator: torch.Generator) -> None:
    """Initialise one weight in place."""
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


# --- `weights.hdf5` -------------------------------------------------------------------------------
#
# The names and shapes are the original's (see `dataset_shapes`), so files written here run there
# and the reverse. Costs: the file's bytes once, 4 per parameter.

OPTIONS, WEIGHTS = "options.json", "weights.hdf5"


def read_weights(path: Path, options: ElmoOptions) -> dict[str, Tensor]:
    """Every dataset that the options require, in float32, by its name in the file."""
    shapes = dataset_shapes(options)
    try:
        with _h5py().File(require_regular(path), "r") as file:
            _reject_unknown(file, shapes, path)
            return {
                name: torch.from_numpy(_read(file, name, shape, path))
                for name, shape in shapes.items()
            }
    except (OSError, KeyError, RuntimeError, ValueError) as error:  # all exceptions of h5py
        exists = path.is_file()
        raise WorkbenchError(
            f"the file cannot be read as HDF5: {error}." if exists else "there is no such file.",
            code="file-unreadable" if exists else "file-not-found",
            where=str(path),
            remedy="Name the complete weights.hdf5 of these options.",
        ) from None


def write_original(folder: Path, options: ElmoOptions, weights: Mapping[str, Tensor]) -> None:
    """Write `options.json` and `weights.hdf5` in the original's format."""
    with (
        atomic_write(folder / WEIGHTS) as draft,
        _h5py().File(draft, "w") as file,
    ):
        for name in dataset_shapes(options):
            file[name] = weights[name].detach().float().cpu().numpy()
    write_options(folder, options)


def write_options(folder: Path, options: ElmoOptions) -> None:
    """Write `options.json` only."""
    write_atomically(folder / OPTIONS, json.dumps(options_as_json(options), indent=2) + "\n")


def _read(file: "h5py.File", name: str, shape: tuple[int, ...], path: Path) -> NDArray[np.float32]:
    dataset = file.get(name)
    if not isinstance(dataset, _h5py().Dataset):
        raise _mismatch(f"dataset {name!r} of shape {list(shape)} is missing.", path)
    if dataset.dtype.kind != "f":
        raise _mismatch(f"dataset {name!r} holds {dataset.dtype}, not floats.", path)
    if name == "char_embed" and dataset.shape == (CHARACTERS + 1, *shape[1:]):
        return _without_extra_row(dataset[...].astype(np.float32))
    if dataset.shape != shape:
        actual = list(dataset.shape or ())
        raise _mismatch(f"dataset {name!r} has shape {actual}, expected {list(shape)}.", path)
    values: NDArray[np.float32] = dataset[...].astype(np.float32)
    return values


def _without_extra_row(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Drop the 262nd row: the zeros that the run time puts first, or an unused last row."""
    return rows[1:] if not rows[0].any() else rows[:-1]


def _reject_unknown(file: "h5py.File", shapes: Mapping[str, Any], path: Path) -> None:
    """Raise on a layer, filter or highway not in the options, which would be ignored silently."""
    names: list[str | bytes] = []  # bytes if a name in a damaged file is not UTF-8
    file.visit(names.append)
    for name in (os.fsdecode(name) for name in names):
        known = name in shapes or any(other.startswith(f"{name}/") for other in shapes)
        if name.startswith(("CNN", "RNN_")) and not known:
            raise _mismatch(f"dataset {name!r} is not in the options.", path)


def _mismatch(what: str, path: Path) -> WorkbenchError:
    return WorkbenchError(
        what,
        code="file-format",
        where=str(path),
        remedy="Use the options.json that these weights were trained with.",
    )


def _h5py() -> Any:
    try:
        import h5py
    except ImportError:
        raise missing_package("h5py", "ELMo's weights file") from None
    return h5py
