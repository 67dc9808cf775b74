"""A graphics card that is not there: tensors on the CPU that say they are on a GPU.

Within `card()` whatever is sent to `cuda` stays where it is and is marked, and what is computed
from it is marked too. As on a real card, tensors of both places do not go together, and `waits`
counts every time that the host must wait for the device: a number that is read (`item`, `tolist`,
`bool`), a size that depends on values (`nonzero`, a mask as an index), a copy to the host, and a
copy from memory of the host that is not pinned. So faults that only a GPU shows are seen, and its
idle times counted, on a machine without one; arithmetic and speed are the CPU's. Costs some
microseconds an operation.
"""

import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

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


def is_on(tensor: Tensor) -> bool:
    """Whether a tensor says that it is on the card."""
    return getattr(tensor, "_on_card", False)


def _marked(found: Any) -> Any:
    for each in tree_leaves(found):
        if isinstance(each, Tensor):
            each._on_card = True  # type: ignore[attr-defined]
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
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        on = any(map(is_on, tensors))
        if name == "__get__":
            return _attribute(function.__self__.__name__, function(*args), is_on(args[0]))
        if name == "__set__":
            function(*args)
            return _marked(args[0]) if on and function.__self__.__name__ == "data" else None
        if name == "pin_memory":
            args[0]._is_pinned = True
            return args[0]
        if name in ("to", "cpu", "cuda"):
            return self._moved(name, function, args, kwargs)
        if (device := kwargs.get("device")) is not None:
            if torch.device(device).type != "cuda":
                return function(*args, **kwargs)
            if name in ("tensor", "as_tensor", "new_tensor"):
                self._waited("copied from the host")
            return _marked(function(*args, **{**kwargs, "device": CPU}))
        if on:
            self._look_at(name, args, kwargs, tensors)
        found = function(*args, **kwargs)
        return _marked(found) if on else found

    def _waited(self, what: str) -> None:
        ours = [
            each
            for each in traceback.extract_stack()
            if any(f"/{room}/" in each.filename for room in ("workbench", "probes", "transformers"))
        ]
        place = f" at {ours[-1].filename.rsplit('/', 1)[-1]}:{ours[-1].lineno}" if ours else ""
        self.waits[what + place] += 1

    def _moved(self, name: str, function: Any, args: Any, kwargs: Any) -> Any:
        tensor, *rest = args
        asked = {"cpu": CPU, "cuda": CUDA}.get(name)
        for each in [*rest, *kwargs.values()]:
            if isinstance(each, Tensor):
                asked = CUDA if is_on(each) else CPU
            elif isinstance(each, str | torch.device):
                asked = torch.device(each)
        before = is_on(tensor)
        after = before if asked is None else asked.type == "cuda"
        if name == "to" and (asked is None or asked.type != "cuda"):
            found = function(tensor, *rest, **kwargs)
        elif name == "to":
            rest = [CPU if isinstance(each, str | torch.device) else each for each in rest]
            there = {"device": CPU} if kwargs.get("device") is not None else {}
            found = function(tensor, *rest, **{**kwargs, **there})
        else:
            found = tensor
        if before != after:
            found = found.clone() if found is tensor else found
            later = kwargs.get("non_blocking", False)
            if not after and not later:
                self._waited("copied to the host")
            if after and not (later and getattr(tensor, "_is_pinned", False)):
                self._waited("copied from the host")
        found._on_card = after
        return found

    def _look_at(self, name: str, args: Any, kwargs: Any, tensors: list[Tensor]) -> None:
        repeats = name == "repeat_interleave" and len(tensors) > 1
        if name in _READ or (repeats and not kwargs.get("output_size")):
            self._waited(name)
        elif name == "copy_":
            if is_on(args[0]) != is_on(args[1]) and not (args[2:] or kwargs.get("non_blocking")):
                self._waited("copied")
        elif name in _ITEMS:
            parts = args[1] if isinstance(args[1], tuple) else (args[1],)
            indices = [part for part in parts if isinstance(part, Tensor)]
            if any(part.dtype == torch.bool and part.ndim for part in indices):
                self._waited("a mask as index")
            if any(isinstance(part, list) for part in parts) or not all(map(is_on, indices)):
                self._waited("an index from the host")
        elif name not in _ANYWHERE:
            strange = [tuple(each.shape) for each in tensors if each.ndim and not is_on(each)]
            if strange:
                raise RuntimeError(f"{name} of tensors on cuda:0 and on the CPU: {strange}")


def _attribute(name: str, found: Any, on: bool) -> Any:
    if not on:
        return found
    known = {"device": CUDA, "is_cuda": True, "is_cpu": False}
    return known.get(name, _marked(found))


@contextmanager
def card() -> Iterator[Card]:
    """In its context torch finds a GPU; the waits of the host are counted."""
    gibi = 1 << 30
    with pytest.MonkeyPatch.context() as patch:

        @contextmanager
        def on(stream: object) -> Iterator[None]:
            yield

        stream = SimpleNamespace(wait_stream=lambda other: None, synchronize=lambda: None)
        event = SimpleNamespace(record=lambda *a: None, synchronize=lambda: None)
        about = {
            "is_available": lambda: True,
            "is_bf16_supported": lambda: True,
            "device_count": lambda: 1,
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
            "mem_get_info": lambda *a: (gibi, gibi),
            "max_memory_allocated": lambda *a: 0,
            "reset_peak_memory_stats": lambda *a: None,
        }
        drawn, kept = torch.Generator, torch.nn.Parameter.__new__

        def parameter(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
            made = kept(cls, data, requires_grad)
            return _marked(made) if isinstance(data, Tensor) and is_on(data) else made

        patch.setattr(torch.nn.Parameter, "__new__", parameter)
        patch.setattr(torch, "Generator", lambda device=None: drawn())
        patch.setattr(Tensor, "record_stream", lambda self, stream: None)
        for name, value in about.items():
            patch.setattr(torch.cuda, name, value)
        found = Card()
        with found:
            yield found
