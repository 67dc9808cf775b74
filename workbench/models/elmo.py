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

import json
import os
from collections.abc import Iterable, Mapping, Sequence
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
from workbench.core.files import parsed_json, read_regular, require_regular, written_whole
from workbench.engine.batch import sent

if TYPE_CHECKING:
    import h5py

# --- words as characters --------------------------------------------------------------------------
#
# The ids are those of the weights file, whose `char_embed` has one row each: 0 to 255 the bytes,
# then begin of sentence, end of sentence, begin of word, end of word, padding. The original adds
# one to every id at run time and lets 0 stand for "no word here"; we know each sentence's length
# instead, so no id is shifted and no row is added. Costs 400 bytes a distinct word of a batch.

BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = range(256, 261)
CHARACTERS = 261
# Words of the text that read so are boundaries too: the original looks them up by this name.
BOUNDARIES = {"<S>": BEGIN_SENTENCE, "</S>": END_SENTENCE}


class IndexedWords(NamedTuple):
    """A batch of sentences between boundaries, each distinct word spelt once."""

    characters: NDArray[np.int64]  # [distinct, characters], see `character_ids`
    words: NDArray[np.int64]  # [batch, longest], rows of `characters`; 0 after the end
    lengths: NDArray[np.int64]  # [batch], boundaries included


def character_ids(words: Iterable[str], most: int) -> NDArray[np.int64]:
    """Spell words with `most` ids each; of longer ones the first `most - 2` bytes are kept.

    # [words, characters]
    """
    words = list(words)
    ids = np.full((len(words), most), PADDING, dtype=np.int64)
    ids[:, 0] = BEGIN_WORD
    for row, word in zip(ids, words, strict=True):
        spelling = _spelling(word)[: most - 2]
        row[1 : len(spelling) + 1] = spelling
        row[len(spelling) + 1] = END_WORD
    return ids


def index_words(sentences: Sequence[Sequence[str]], most: int) -> IndexedWords:
    """Put each sentence between boundaries and number its words by first occurrence."""
    bounded = [["<S>", *sentence, "</S>"] for sentence in sentences]
    numbers: dict[str, int] = {}
    lengths = np.array([len(sentence) for sentence in bounded], dtype=np.int64)
    words = np.zeros((len(bounded), lengths.max(initial=0)), dtype=np.int64)
    for row, sentence in zip(words, bounded, strict=True):
        row[: len(sentence)] = [numbers.setdefault(word, len(numbers)) for word in sentence]
    return IndexedWords(character_ids(numbers, most), words, lengths)


def _spelling(word: str) -> list[int]:
    """Half a surrogate pair has no bytes, and is left out as in the original."""
    if word in BOUNDARIES:
        return [BOUNDARIES[word]]
    return list(word.encode("utf-8", "ignore"))


# --- `options.json` -------------------------------------------------------------------------------
#
# Keys and meanings are the original's; what only its training used is not kept. Costs nothing.

# Where each field stands in options.json.
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
# What the original takes a missing key to mean; the others must be there.
MISSING = {"highways": 0, "layers": 1, "cell_clip": None, "projection_clip": None}
# Characters seen at once, and how many filters see so many; as published.
FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
ACTIVATIONS = ("relu", "tanh")


@dataclass(frozen=True)
class ElmoOptions:
    """Sizes of a bidirectional language model over characters; as published, unless told."""

    activation: str = "relu"
    character_width: int = 16
    filters: tuple[tuple[int, int], ...] = FILTERS
    max_characters: int = 50  # of a word, its two marks included
    highways: int = 2
    cells: int = 4096  # of the LSTM of one direction
    width: int = 512  # of a direction's output, and of the words read
    layers: int = 2
    cell_clip: float | None = 3.0
    projection_clip: float | None = 3.0
    skip: bool = True  # each layer after the first adds its input to its output

    def __post_init__(self) -> None:
        if complaint := _complaint(self):
            raise WorkbenchError(complaint, remedy="Correct it, or use the file as it was made.")


def parse_options(raw: object, where: str) -> ElmoOptions:
    """From the parsed JSON of `where`, which errors name."""
    fields = {name: _find(raw, key, name, where) for name, key in KEYS.items()}
    filters = fields["filters"]
    if isinstance(filters, list):
        fields["filters"] = tuple(tuple(f) if isinstance(f, list) else f for f in filters)
    # 262 counts the row that the original adds for "no word here"; in training it says 261.
    characters = raw["char_cnn"].get("n_characters") if isinstance(raw, dict) else None
    if characters not in (None, CHARACTERS, CHARACTERS + 1):
        raise WorkbenchError(
            f"char_cnn.n_characters is {characters!r}, not {CHARACTERS} or {CHARACTERS + 1}.",
            where=where,
            remedy="Only the original's character set is supported: bytes and five marks.",
        )
    try:
        return ElmoOptions(**fields)
    except WorkbenchError as error:
        raise WorkbenchError(error.what, where=where, remedy=error.remedy) from None


def options_as_json(options: ElmoOptions) -> dict[str, Any]:
    """As the original reads them when it runs a model."""
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
    remedy = "Name the options.json that belongs to the weights, as a file on this machine."
    try:
        return parse_options(parsed_json(read_regular(path).decode("utf-8-sig")), str(path))
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}."
        raise WorkbenchError(reason, where=str(path), remedy=remedy) from None
    except json.JSONDecodeError as error:
        place = f"{path}:{error.lineno}"
        raise WorkbenchError(f"not JSON: {error.msg}.", where=place, remedy=remedy) from None
    except ValueError:
        raise WorkbenchError("not JSON in UTF-8.", where=str(path), remedy=remedy) from None


def dataset_shapes(options: ElmoOptions) -> dict[str, tuple[int, ...]]:
    """Every dataset of the weights file by its name there, with its shape."""
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
    for part in key.split("."):
        if isinstance(raw, Mapping) and part in raw:
            raw = raw[part]
        elif name in MISSING:
            return MISSING[name]
        else:
            raise WorkbenchError(
                f"lacks {key!r}.",
                where=where,
                remedy=f"ELMo's options.json has: {', '.join(KEYS.values())}.",
            )
    return raw


def _complaint(options: ElmoOptions) -> str:
    """What is wrong with the values, or nothing."""
    values = asdict(options)
    for name in ("character_width", "max_characters", "cells", "width", "layers"):
        if not _is_count(values[name]):
            return f"{KEYS[name]} is {values[name]!r}, not a whole number above 0."
    if type(options.highways) is not int or options.highways < 0:
        return f"{KEYS['highways']} is {options.highways!r}, not a whole number."
    for name in ("cell_clip", "projection_clip"):
        clip = values[name]
        if clip is not None and (isinstance(clip, bool) or not _is_positive(clip)):
            return f"{KEYS[name]} is {clip!r}, neither a number above 0 nor null."
    if not isinstance(options.skip, bool):
        return f"{KEYS['skip']} is {options.skip!r}, not true or false."
    if options.activation not in ACTIVATIONS:
        return f"{KEYS['activation']} is {options.activation!r}, not relu or tanh."
    if not _are_filters(options.filters):
        return f"{KEYS['filters']} is not a list of [characters seen at once, how many]."
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


# --- `weights.hdf5` -------------------------------------------------------------------------------
#
# The names and shapes are the original's (see `dataset_shapes`), so what is written
# here runs there, and the reverse. Costs the file's bytes once: 4 a parameter.

OPTIONS, WEIGHTS = "options.json", "weights.hdf5"


def read_weights(path: Path, options: ElmoOptions) -> dict[str, Tensor]:
    """Every dataset that the options call for, as float32 by its name in the file."""
    shapes = dataset_shapes(options)
    try:
        with _h5py().File(require_regular(path), "r") as file:
            _refuse_unknown(file, shapes, path)
            return {
                name: torch.from_numpy(_read(file, name, shape, path))
                for name, shape in shapes.items()
            }
    except (OSError, KeyError, RuntimeError, ValueError) as error:  # all of h5py's own
        reason = f"cannot be read as HDF5: {error}." if path.is_file() else "there is no such file."
        raise WorkbenchError(
            reason,
            where=str(path),
            remedy="Name the weights.hdf5 that belongs to the options, copied whole.",
        ) from None


def write_original(folder: Path, options: ElmoOptions, weights: Mapping[str, Tensor]) -> None:
    """Write `options.json` and `weights.hdf5` as the original has them."""
    with (
        written_whole(folder / WEIGHTS) as draft,
        _h5py().File(draft, "w") as file,
    ):
        for name in dataset_shapes(options):
            file[name] = weights[name].detach().float().cpu().numpy()
    write_options(folder, options)


def write_options(folder: Path, options: ElmoOptions) -> None:
    """Write `options.json` alone."""
    with written_whole(folder / OPTIONS) as draft:
        draft.write_text(json.dumps(options_as_json(options), indent=2) + "\n", "utf-8")


def _read(file: "h5py.File", name: str, shape: tuple[int, ...], path: Path) -> NDArray[np.float32]:
    dataset = file.get(name)
    if not isinstance(dataset, _h5py().Dataset):
        raise _mismatch(f"has no dataset {name!r}, expected with shape {list(shape)}.", path)
    if dataset.dtype.kind != "f":
        raise _mismatch(f"dataset {name!r} holds {dataset.dtype}, not floats.", path)
    if name == "char_embed" and dataset.shape == (CHARACTERS + 1, *shape[1:]):
        return _without_the_spare(dataset[...].astype(np.float32))
    if dataset.shape != shape:
        found = list(dataset.shape or ())
        raise _mismatch(f"dataset {name!r} has shape {found}, expected {list(shape)}.", path)
    values: NDArray[np.float32] = dataset[...].astype(np.float32)
    return values


def _without_the_spare(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """A 262nd row is the run time's zeros, put first, or else one that training never used."""
    return rows[1:] if not rows[0].any() else rows[:-1]


def _refuse_unknown(file: "h5py.File", shapes: Mapping[str, Any], path: Path) -> None:
    """A layer, filter or highway more than the options say would else be left out in silence."""
    names: list[str | bytes] = []  # bytes where a damaged file's name is no UTF-8
    file.visit(names.append)
    for name in (os.fsdecode(name) for name in names):
        known = name in shapes or any(other.startswith(f"{name}/") for other in shapes)
        if name.startswith(("CNN", "RNN_")) and not known:
            raise _mismatch(f"has {name!r}, which the options do not call for.", path)


def _mismatch(what: str, path: Path) -> WorkbenchError:
    return WorkbenchError(
        what, where=str(path), remedy="Give the options.json that these weights were made with."
    )


def _h5py() -> Any:
    try:
        import h5py
    except ImportError:
        raise missing_package("h5py", "ELMo's weights file") from None
    return h5py
