"""Small ELMos with a softmax, in folders as training writes them."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from workbench.models.bilm import MARKS, BiLM, Words
from workbench.models.elmo import ElmoOptions

SMALL = ElmoOptions(
    character_width=4,
    filters=((1, 4), (2, 6), (5, 8)),
    cells=12,
    width=5,
    highways=1,
    max_characters=12,
)


def words_of(words: Iterable[str]) -> Words:
    """These words, the first the most frequent."""
    own = tuple(dict.fromkeys(words))
    return Words((*MARKS, *own), (0, 0, 0, *range(len(own), 0, -1)))


def saved(
    folder: Path, words: Iterable[str], softmax: int = 1_000, width: int = 5, seed: int = 0
) -> BiLM:
    """A model with weights so large that its predictions are far from even, and its folder."""
    own = words_of(words)
    net = BiLM.fresh(replace(SMALL, width=width), own, softmax, seed).eval()
    with torch.no_grad():
        net.weight.mul_(8)
        net.bias.normal_(generator=torch.Generator().manual_seed(seed))
    assert net.save(folder)
    return net


def halved(folder: Path) -> None:
    """The same folder with its tensors in half precision, and without what the original reads."""
    path = folder / "model.safetensors"
    with safe_open(path, framework="pt") as file:
        kept = {name: file.get_tensor(name).half() for name in file.keys()}  # noqa: SIM118
        metadata = file.metadata()
    save_file(kept, path, metadata=metadata)
    (folder / "weights.hdf5").unlink()


def edited(folder: Path, **tensors: torch.Tensor | None) -> None:
    """The same folder with tensors of the softmax replaced, added, or left out for None."""
    path = folder / "model.safetensors"
    with safe_open(path, framework="pt") as file:
        kept = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = file.metadata()
    for name, tensor in tensors.items():
        kept.pop(f"softmax/{name}", None)
        if tensor is not None:
            kept[f"softmax/{name}"] = tensor
    save_file(kept, path, metadata=metadata)
