"""A net that its user holds: fine-tuned a minute ago, wrapped by PEFT, quantised, on any device.

    model = opened(net, tokenizer, "mine")
    model = of_hash("0123…")          a net of this process that was opened before, by its content

The net itself is never run. A model runs a view of it: the same modules around the same weights,
but with a mode, hooks, a configuration, an attention function and gradients of its own. So whatever
a call does, and however it ends, the net is as it was; and two calls may run at once. Hooks that
the user registered do not run in a view: a result belongs to the weights, whose hash names it. PEFT
updates are merged into copies of the weights that they change, as they are in a saved adapter that
is opened. Half-precision weights on a CPU are computed with in float32, as those of a folder are.

The content hash is computed once, and again if a weight was replaced (its address) or changed in
place (its version). Adding up the bits of all weights also notices changes through `.data`: when a
run is requested, and of a net below a gigabyte whenever its hash is read, but once while something
reads it as `unchanging`. A net on `meta` has facts and no results. Costs: a copy of the modules
without their weights, one pass over four pieces, and the hash: seconds per billion parameters, with
a bar from two gigabytes on. Weights that are widened are copied: 4 bytes per parameter.
"""

import copy
import json
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from workbench.core.errors import WorkbenchError
from workbench.engine.batch import Pieces
from workbench.engine.model import Model
from workbench.engine.taps import Site
from workbench.models.formats import checkpoint
from workbench.models.huggingface import PRECISION_NAMES, HuggingFace
from workbench.models.output_heads.standard_heads import HEADS
from workbench.models.references import folder_of, require_model

# whose hooks are parts of a net; hooks of others are not copied into a view
_OWN_HOOKS = ("torch.", "transformers.", "accelerate.", "peft.", "workbench.")
SMALL = 1 << 30  # bytes of weights that are added up whenever the hash is read
_WRAPPERS = ("_orig_mod", "module")  # of torch.compile, and of parallel training
Stamp = tuple[Any, ...]


@dataclass
class Held:
    """What is known of a net that was opened, while it lives."""

    given: PreTrainedTokenizerBase
    tokenizer: PreTrainedTokenizerBase  # a copy: its user's may pad and truncate
    total: int = -1  # the bits of its weights
    # by whether half-precision weights are widened, the hash and what it is of
    hashes: dict[bool, tuple[Stamp, str]] = field(default_factory=dict)


_HELD: "WeakKeyDictionary[nn.Module, Held]" = WeakKeyDictionary()
_UNCHANGING: ContextVar[frozenset[int]] = ContextVar("unchanging", default=frozenset())  # their ids


class LiveModel(HuggingFace):
    """A model that shares the weights of a net that its user holds."""

    held_net: nn.Module | None = None  # None: a model that was made of this one
    requested: str = "auto"  # precision
    _seen: Stamp = ()

    def encode(self, batch: Any, documents: Sequence[int] | None = None) -> Pieces:
        """Documents of a batch in pieces, on the CPU (default: all documents)."""
        if self.device.type == "meta":
            raise WorkbenchError(
                "the net is on the device meta: it has no weights to compute with.",
                code="no-weights",
                where=self.name,
                remedy="Open it with weights; on meta it has facts only, such as its sizes.",
            )
        self._follow()
        return super().encode(batch, documents)

    @property
    def content_hash(self) -> str:
        """Hash of all tensors, the configuration and the tokenizer; computed when they change."""
        self._look_at_weights()
        self._follow()
        known, net = vars(self), self.held_net
        if "content_hash" not in known:
            hashes = {} if net is None else _HELD[net].hashes
            widens = net is not None and _widens(net, self.requested)
            seen, found = hashes.get(widens, ((), ""))
            if net is None or seen != self._seen:
                found = self._hashed({})
                hashes[widens] = self._seen, found
            known["content_hash"] = found
        return str(known["content_hash"])

    @contextmanager
    def unchanging(self, *, of_any_size: bool = False) -> Iterator[None]:
        self._look_at_weights(of_any_size)
        before = _UNCHANGING.set(_UNCHANGING.get() | {id(self.held_net)})
        try:
            yield
        finally:
            _UNCHANGING.reset(before)

    def _look_at_weights(self, of_any_size: bool = False) -> None:
        """Add up the bits of a small net, unless it is read as unchanging."""
        if self.held_net is not None and id(self.held_net) not in _UNCHANGING.get():
            size = 0 if of_any_size else sum(each.nbytes for each in self.net.parameters())
            if size < SMALL:
                _HELD[self.held_net].total = _total(self.held_net)

    def with_task_head(self, head: Any) -> Model:
        twin = super().with_task_head(head)
        vars(twin)["held_net"] = None
        return twin

    def _follow(self) -> None:
        """Take over weights that were replaced or changed since the last call."""
        net, name, requested = self.held_net, self.name, self.requested
        if net is None or (now := _seen(net)) == self._seen:
            return
        vars(self).clear()  # with all that is cached of the earlier weights
        self.held_net, self.requested, self._seen = net, requested, now
        HuggingFace.__init__(self, _view(net, _widens(net, requested)), _HELD[net].tokenizer, name)

    def _find_sites(self) -> tuple[Site, ...]:
        with _as_zeros(self.net):
            return super()._find_sites()


def opened(
    net: nn.Module,
    tokenizer: PreTrainedTokenizerBase | None = None,
    name: str = "",
    precision: str = "auto",
) -> LiveModel:
    """The model of a net; without a tokenizer, with the one it was opened with, or read from.

    `auto` is float32 on a CPU, else the precision of the net.
    """
    held, transformer = _held(net, tokenizer), _transformer(net)
    name = name or Path(transformer.name_or_path or "").name or type(transformer).__name__
    held.total = _total(net)
    try:
        seen = _seen(net)
        model = LiveModel(_view(net, _widens(net, precision)), held.tokenizer, name)
    except WorkbenchError:
        raise
    except Exception as error:  # what a net of another architecture lacks
        reason = (str(error).splitlines() or [""])[0] or type(error).__name__
        raise WorkbenchError(
            f"a net of the class {type(transformer).__name__} cannot be run: {reason:.200}",
            code="model-unsupported",
            where=name,
            remedy="Pass an encoder, decoder or encoder-decoder of transformers that reads text; "
            "`workbench models` lists what is tested.",
        ) from error
    model.held_net, model.requested, model._seen = net, precision, seen
    if precision not in ("auto", model.precision):
        raise WorkbenchError(
            f"the weights of the net are in {model.precision}; they are computed with as they are "
            "or in fp32.",
            code="option-conflict",
            where=name,
            remedy="Leave the precision out, or convert the net before, with net.to(...).",
        )
    return model


def of_hash(content_hash: str) -> LiveModel | None:
    """The net of this process with this content, if it is still there."""
    for net, held in list(_HELD.items()):
        for widens, (_, known) in list(held.hashes.items()):
            if known == content_hash:
                model = opened(net, precision="fp32" if widens else _own_precision(net))
                if model.content_hash == content_hash:
                    return model
    return None


# --- the net and its tokenizer --------------------------------------------------------------------


def _held(net: nn.Module, tokenizer: PreTrainedTokenizerBase | None) -> Held:
    """What is known of a net, with its tokenizer."""
    held = _HELD.get(net)
    given = tokenizer or (held.given if held else _tokenizer_of(_transformer(net)))
    if not getattr(given, "is_fast", False):
        raise WorkbenchError(
            f"the tokenizer is a {type(given).__name__}, which gives no character offsets.",
            code="tokenizer-unsupported",
            remedy="Pass a fast tokenizer, as AutoTokenizer.from_pretrained gives.",
        )
    if held is None or held.given is not given or len(held.tokenizer) != len(given):
        held = _HELD[net] = Held(given, _copied(given))
    return held


def _copied(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """A tokenizer as it is saved and opened; a copy in memory rounds the scores of its pieces."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        return checkpoint.read_tokenizer(folder)


def _tokenizer_of(net: PreTrainedModel) -> PreTrainedTokenizerBase:
    """The tokenizer of the files that a net was read from."""
    try:
        folder = folder_of(net.name_or_path) if net.name_or_path else None
        if folder is not None:
            require_model(str(folder))
            return checkpoint.read_tokenizer(str(folder))
    except WorkbenchError:
        pass  # what is missing is said below
    raise WorkbenchError(
        "the net has no tokenizer, and none is next to the files that it was read from.",
        code="tokenizer-missing",
        where=type(net).__name__,
        remedy="Pass both: wb.load(net, tokenizer), or model=(net, tokenizer).",
    )


def _transformer(net: nn.Module) -> PreTrainedModel:
    """The net of transformers inside what wraps it."""
    found: Any = _unwrapped(net)
    if _is_peft(found):
        found = found.get_base_model()
    if not isinstance(found, PreTrainedModel):
        raise WorkbenchError(
            f"a {type(found).__name__} is no net of transformers.",
            code="model-unsupported",
            remedy="Pass a PreTrainedModel, such as AutoModel.from_pretrained gives, with its "
            "tokenizer.",
        )
    return found


def _unwrapped(net: Any) -> Any:
    while not isinstance(net, PreTrainedModel) and not _is_peft(net):
        inner = next((getattr(net, name) for name in _WRAPPERS if hasattr(net, name)), None)
        if not isinstance(inner, nn.Module):
            break
        net = inner
    return net


def _is_peft(net: object) -> bool:
    peft = sys.modules.get("peft")
    return peft is not None and isinstance(net, peft.PeftModel)


# --- a view ---------------------------------------------------------------------------------------


def _widens(net: nn.Module, precision: str) -> bool:
    """Whether weights in half precision are computed with in float32."""
    transformer = _transformer(net)
    on_cpu = transformer.device.type == "cpu"
    if precision not in ("auto", "fp32") or (precision == "auto" and not on_cpu):
        return False
    if getattr(transformer, "is_quantized", False):  # its kernels need the precision it has
        return False
    return any(_is_half(tensor) for _, tensor in _named(net))


def _is_half(tensor: Tensor) -> bool:
    return tensor.dtype in (torch.bfloat16, torch.float16)


def _own_precision(net: nn.Module) -> str:
    return PRECISION_NAMES[_transformer(net).dtype]


def _view(net: nn.Module, widens: bool) -> PreTrainedModel:
    """The same modules around the same weights, in eval mode; nothing of the net is changed.

    If it widens, those in half precision are float32 copies.
    """
    inner = _unwrapped(net)
    shared: dict[int, Any] = {}  # by id, what stands for it in the copy
    for module in inner.modules():
        for tensor in _tensors(module):
            if id(tensor) not in shared:
                shared[id(tensor)] = _shared(tensor, widens)
        for key, hooks in vars(module).items():
            if "_hooks" in key and isinstance(hooks, dict):
                own = OrderedDict((n, hook) for n, hook in hooks.items() if _is_own(hook))
                shared[id(hooks)] = own
    found: Any = copy.deepcopy(inner, shared)
    if any("lora_" in name or ".base_layer." in name for name, _ in found.named_parameters()):
        found = _merged(found)
    elif _is_peft(found):
        _require_merges(found)
        found = found.get_base_model()
    kinds = [kind.__name__ for kind in type(found).__mro__ if kind.__module__.startswith("trans")]
    if not any(name.endswith(HEADS) for name in kinds):  # as it would be opened from its files
        found = found.base_model
    if widens:
        _compute_buffers(found)
    found.train(False)
    return found


def _tensors(module: nn.Module) -> Iterator[Tensor]:
    """The tensors of one module: weights, buffers and others."""
    held = (*module._parameters.values(), *module._buffers.values(), *vars(module).values())
    yield from (each for each in held if isinstance(each, Tensor))


def _shared(tensor: Tensor, widens: bool) -> Tensor:
    """A tensor with the same storage, and with a gradient and hooks of its own.

    If it widens, one in half precision is a float32 copy.
    """
    if type(tensor) is nn.Parameter and type(tensor.data) is Tensor:
        held = tensor.detach().float() if widens and _is_half(tensor) else tensor.detach()
        twin = nn.Parameter(held, requires_grad=tensor.is_floating_point())
        twin._is_hf_initialized = True  # type: ignore[attr-defined]  # no part of it is random
        return twin
    if isinstance(tensor, nn.Parameter):
        return tensor
    return tensor.detach().float() if widens and _is_half(tensor) else tensor.detach()


@torch.no_grad()
def _compute_buffers(net: PreTrainedModel) -> None:
    """Compute again what files do not hold, such as rotary frequencies; `net.half()` rounds it."""
    for module in net.modules():
        held = (module._buffers[name] for name in module._non_persistent_buffers_set)
        if any(buffer is not None and buffer.is_floating_point() for buffer in held):
            # weights are marked as initialised, and stay
            net._init_weights(module)


def _is_own(hook: Any) -> bool:
    """Whether a hook is a part of the net, such as weight norm, and not its user's."""
    module = getattr(hook, "__module__", None) or type(hook).__module__
    return f"{module}.".startswith(_OWN_HOOKS)


def _merged(view: Any) -> Any:
    """A view with PEFT's updates merged into copies of the weights that they change."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    from workbench.models.formats import peft_adapter

    for module in view.modules():
        if isinstance(module, BaseTunerLayer):
            base = module.get_base_layer()
            for name, weight in base.named_parameters(recurse=False):
                setattr(base, name, nn.Parameter(weight.detach().clone(), weight.requires_grad))
    if not _is_peft(view):
        peft_adapter.merge(view)
        return view
    _require_merges(view)
    net = view.merge_and_unload()
    for weight in net.parameters():
        weight._is_hf_initialized = True
    return net.requires_grad_(False)


def _require_merges(view: Any) -> None:
    if view.active_peft_config.is_prompt_learning:
        raise WorkbenchError(
            f"the net is wrapped by PEFT with {view.active_peft_config.peft_type.value}, whose "
            "vectors are no weights of the net.",
            code="model-unsupported",
            remedy="Pass net.get_base_model() for the net without them, or train a prefix or "
            "prompt with workbench run finetune.",
        )


@contextmanager
def _as_zeros(net: nn.Module) -> Iterator[None]:
    """Tensors on `meta` are zeros for one pass, which take no memory: one number each."""
    replaced: list[tuple[dict[str, Any], str, Tensor]] = []
    for module in net.modules():
        holders: tuple[dict[str, Any], ...] = (module._parameters, module._buffers, vars(module))
        for held in holders:
            for name, tensor in list(held.items()):
                if isinstance(tensor, Tensor) and tensor.is_meta:
                    zeros = torch.zeros((), dtype=tensor.dtype).expand(tensor.shape)
                    is_weight = held is module._parameters
                    held[name] = nn.Parameter(zeros, False) if is_weight else zeros
                    replaced.append((held, name, tensor))
    try:
        yield
    finally:
        for held, name, tensor in replaced:
            held[name] = tensor


# --- what tells whether it has changed ------------------------------------------------------------


def _seen(net: nn.Module) -> Stamp:
    """The addresses and versions of all tensors of a net, its configuration, and the last total."""
    config = _transformer(net).config.to_dict()
    return (
        _HELD[net].total,
        json.dumps(config, sort_keys=True, default=str),
        *(
            (name, tensor.untyped_storage().data_ptr(), tensor._version, tensor.dtype, tensor.shape)
            for name, tensor in _named(net)
        ),
    )


@torch.no_grad()
def _total(net: nn.Module) -> int:
    """The bits of all weights, added up; a change through `.data` changes no version."""
    total = 0
    for _, tensor in _named(net):
        if tensor.is_meta or tensor.is_quantized or not tensor.numel():
            continue
        bits = tensor.detach().contiguous().view(-1).view(torch.uint8)
        if bits.storage_offset() % 8:
            bits = bits.clone()
        whole = len(bits) // 8 * 8
        added = bits[:whole].view(torch.int64).sum() + bits[whole:].sum()  # wraps around
        total = (31 * total + int(added)) % (1 << 63)
    return total


def _named(net: nn.Module) -> Iterator[tuple[str, Tensor]]:
    return chain(net.named_parameters(), net.named_buffers())
