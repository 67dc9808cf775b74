"""ELMo's `options.json`: the sizes of the model, and the datasets its weights file must hold.

Keys and meanings are the original's; what only its training used is not kept. Costs nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from workbench.errors import WorkbenchError
from workbench.files import parsed_json, read_regular
from workbench.models.elmo_characters import CHARACTERS

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
