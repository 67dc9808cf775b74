"""Graphics cards that are not there: tensors on the CPU that say they are on a GPU.

Within `card()` whatever is sent to `cuda` stays where it is and is marked with its card, and what
is computed from it is marked too. As with real cards, of which `card(2)` has two, tensors of
different places do not go together, and `waits` counts every time that the host must wait for the
device: a number that is read (`item`, `tolist`, `bool`), a size that depends on values (`nonzero`,
a mask as an index), a copy to the host, and a copy from memory of the host that is not pinned.
So faults that only GPUs show are seen, and their idle times counted, on a machine without one;
arithmetic and speed are the CPU's. Costs some microseconds an operation.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel  # noqa: F401 - imported while torch has no card

import workbench

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
_READ = {
    "item", "tolist", "__bool__", "__int__", "__float__", "__index__", "__contains__", "numpy",
    "__array__", "nonzero", "argwhere", "masked_select", "unique", "_return_output", "equal",
    "allclose", "is_nonzero", "bincount",  # which looks for the least and the largest
}  # fmt: skip
_ANYWHERE = {
    "backward", "grad", "size", "dim", "numel", "__len__", "__hash__", "is_floating_point",
    "is_contiguous", "stride", "data_ptr", "element_size", "_has_compatible_shallow_copy_type",
}  # fmt: skip
_ITEMS = ("__getitem__", "__setitem__")
_ROOMS = tuple(  # by their whole paths, because a checkout is often named workbench, too
    str(Path(str(package.__file__)).parent) + os.sep for package in (workbench, transformers)
)


def card_of(tensor: Tensor) -> int | None:
    """The index of the card that a tensor says it is on; None on the CPU."""
    found: int | None = getattr(tensor, "_card", None)
    return found


def is_on(tensor: Tensor) -> bool:
    """Whether a tensor says that it is on a card."""
    return card_of(tensor) is not None


def _named(device: Any) -> int | None:
    """The index of the card of this name; None of the CPU."""
    if isinstance(device, int):
        return device
    found = torch.device(device)
    return (found.index or 0) if found.type == "cuda" else None


def _tensors(value: Any) -> list[Tensor]:
    """The tensors in nested tuples, lists and dictionaries, much sooner than torch walks there."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return []
    found = []
    for each in value:
        if isinstance(each, Tensor):
            found.append(each)
        elif isinstance(each, (tuple, list, dict)):
            found += _tensors(each)
    return found


def _marked(found: Any, index: int | None) -> Any:
    for each in _tensors(found):
        each._card = index  # type: ignore[attr-defined]
    return found


class Card(TorchFunctionMode):
    """The card, and what the host waited for, by operation and by line of the project."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[str] = Counter()

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(function, "__name__", str(function))
        tensors = _tensors(args) + _tensors(kwargs)
        on = next((index for each in tensors if (index := card_of(each)) is not None), None)
        if name == "__get__":
            return _attribute(function.__self__.__name__, function(*args), card_of(args[0]))
        if name == "__set__":
            function(*args)
            is_data = function.__self__.__name__ == "data"
            return _marked(args[0], card_of(args[1])) if is_data else None
        if name == "pin_memory":
            args[0]._is_pinned = True
            return args[0]
        if name in ("to", "cpu", "cuda"):
            return self._moved(name, function, args, kwargs)
        if (device := kwargs.get("device")) is not None:
            if (there := _named(device)) is None:
                return _marked(function(*args, **kwargs), None)
            if name in ("tensor", "as_tensor", "new_tensor"):
                self._waited("copied from the host")
            return _marked(function(*args, **{**kwargs, "device": CPU}), there)
        if on is None:
            return function(*args, **kwargs)
        self._look_at(name, args, kwargs, tensors)
        found = function(*args, **kwargs)
        if name in ("copy_", "__setitem__"):  # which leave the tensor where it is
            on = card_of(args[0])
        return _marked(found, on)

    def _waited(self, what: str) -> None:
        frame: FrameType | None = sys._getframe()
        while frame and not frame.f_code.co_filename.startswith(_ROOMS):
            frame = frame.f_back
        place = f" at {Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else ""
        self.waits[what + place] += 1

    def _moved(self, name: str, function: Any, args: Any, kwargs: Any) -> Any:
        tensor, *rest = args
        before = after = card_of(tensor)
        if name in ("cpu", "cuda"):
            after = None if name == "cpu" else 0
        for each in [*rest, *kwargs.values()]:
            if isinstance(each, Tensor):
                after = card_of(each)
            elif isinstance(each, str | torch.device):
                after = _named(each)
        if name == "to":
            rest = [CPU if _is_card(each) else each for each in rest]
            there = {"device": CPU} if _is_card(kwargs.get("device")) else {}
            found = function(tensor, *rest, **{**kwargs, **there})
        else:
            found = tensor
        if before != after:
            found = found.clone() if found is tensor else found
            later = kwargs.get("non_blocking", False)
            if after is None and not later:
                self._waited("copied to the host")
            if before is None and not (later and getattr(tensor, "_is_pinned", False)):
                self._waited("copied from the host")
        found._card = after
        return found

    def _look_at(self, name: str, args: Any, kwargs: Any, tensors: list[Tensor]) -> None:
        repeats = name == "repeat_interleave" and len(tensors) > 1
        if name in _READ or (repeats and not kwargs.get("output_size")):
            self._waited(name)
        elif name == "copy_":
            if is_on(args[0]) != is_on(args[1]) and not (args[2:] or kwargs.get("non_blocking")):
                self._waited("copied")  # from one card to another nobody waits
        elif name in _ITEMS:
            parts = args[1] if isinstance(args[1], tuple) else (args[1],)
            indices = [part for part in parts if isinstance(part, Tensor)]
            if any(part.dtype == torch.bool and part.ndim for part in indices):
                self._waited("a mask as index")
            if any(isinstance(part, list) for part in parts) or not all(map(is_on, indices)):
                self._waited("an index from the host")
            _require_one(name, [args[0], *indices])
        elif name not in _ANYWHERE:
            _require_one(name, tensors)
            strange = [tuple(each.shape) for each in tensors if each.ndim and not is_on(each)]
            if strange:
                raise RuntimeError(f"{name} of tensors on cuda:0 and on the CPU: {strange}")


def _is_card(device: Any) -> bool:
    return isinstance(device, str | torch.device) and _named(device) is not None


def _require_one(name: str, tensors: list[Tensor]) -> None:
    """Tensors of two cards never go together, not even single numbers."""
    cards = sorted({index for each in tensors if (index := card_of(each)) is not None})
    if len(cards) > 1:
        shapes = [tuple(each.shape) for each in tensors]
        raise RuntimeError(f"{name} of tensors on the cards {cards}: {shapes}")


def _attribute(name: str, found: Any, on: int | None) -> Any:
    if on is None:
        return found
    known = {"device": torch.device("cuda", on), "is_cuda": True, "is_cpu": False}
    return known[name] if name in known else _marked(found, on)


@contextmanager
def card(cards: int = 1, free: int = 1 << 30) -> Iterator[Card]:
    """In its context torch finds so many GPUs; the waits of the host are counted.

    `free` is the bytes of memory that each has, and has free.
    """
    with pytest.MonkeyPatch.context() as patch:

        @contextmanager
        def on(stream: object) -> Iterator[None]:
            yield

        stream = SimpleNamespace(
            wait_stream=lambda other: None, synchronize=lambda: None, is_capturing=lambda: False
        )
        event = SimpleNamespace(record=lambda *a: None, synchronize=lambda: None)
        about = {
            "is_available": lambda: True,
            "is_bf16_supported": lambda: True,
            "device_count": lambda: cards,
            "current_device": lambda: 0,
            "_exchange_device": lambda index: 0,
            "_maybe_exchange_device": lambda index: 0,
            "Stream": lambda *a, **k: stream,
            "stream": on,
            "current_stream": lambda *a: stream,
            "Event": lambda *a, **k: event,
            "empty_cache": lambda: None,
            "synchronize": lambda *a: None,
            "get_rng_state": lambda *a: torch.get_rng_state(),
            "set_rng_state": lambda *a: None,
            "mem_get_info": lambda *a: (free, free),
            "max_memory_allocated": lambda *a: 0,
            "reset_peak_memory_stats": lambda *a: None,
        }
        drawn, kept = torch.Generator, torch.nn.Parameter.__new__

        def parameter(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
            made = kept(cls, data, requires_grad)
            return _marked(made, card_of(data)) if isinstance(data, Tensor) else made

        patch.setattr(torch.nn.Parameter, "__new__", parameter)
        patch.setattr(torch, "Generator", lambda device=None: drawn())
        patch.setattr(Tensor, "record_stream", lambda self, stream: None)
        for name, value in about.items():
            patch.setattr(torch.cuda, name, value)
        patch.setattr(torch.accelerator, "current_stream", lambda *a: stream)  # of a CUDA build
        found = Card()
        with found:
            yield found
