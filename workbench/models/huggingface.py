"""One adapter for every Hugging Face encoder, decoder and encoder-decoder.

The adapter runs the model through the engine's attention function and returns the states of every
layer. One small forward pass finds the attention calls and their kinds: a causal map has zeros
above its diagonal, a cross-attention map is not square. There is no class per architecture. Costs:
loading adds one forward pass over four pieces to transformers' own loading.
"""

import copy
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from workbench.core.errors import WorkbenchError
from workbench.core.groups import grouped
from workbench.core.public import public
from workbench.engine import attention
from workbench.engine.batch import Batch, Pieces, of_ids
from workbench.engine.model import (
    Model,
    Output,
    Stack,
    Symbols,
    WeightPlace,
    refusal,
    require_sites,
)
from workbench.engine.taps import Capture, Gate, Kind, Site, StackName, Tap, hooked, session
from workbench.engine.task import Task
from workbench.engine.text_pieces import Segmentation, Segmented, Splitter
from workbench.models import attention_hooks, budget, head_removal, net_parts, projections
from workbench.models.formats import task_checkpoint
from workbench.models.net_parts import PROBE, blocks, probe
from workbench.models.output_heads.lm_heads import (
    in_order,
    objective_of,
    output_map,
    placed,
    symbols,
)
from workbench.models.output_heads.standard_heads import standard_head, with_language_head
from workbench.models.references import as_random
from workbench.models.segmentation import Segmenter
from workbench.models.split import layers_of
from workbench.models.tokenization import tokenize_batch, written
from workbench.models.transformer import Transformer

UNLIMITED = 2**31 - 1  # pieces, for a model with relative positions
HASHED_UNSEEN = 2 << 30  # bytes of weights that are hashed without a bar
WIDENED = 16_384  # rows of an output layer converted to float32 at a time
_NO_PADDING = '"truncation":null,"padding":null,"added_tokens":'
PRECISION_NAMES = {
    torch.float32: "fp32",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
    torch.float64: "fp64",
}


class HuggingFace(Transformer):
    """A transformers model in memory and its tokenizer, run through the engine.

    Args:
        net: An encoder, decoder or encoder-decoder of transformers.
        tokenizer: Its fast tokenizer.
        name: Its name in tables and figures.
        sites: Its attention sites, if known (default: found by one forward pass).

    Raises:
        WorkbenchError: The architecture has no known attention, or its config does not fit its
            tokenizer.

    Example:
        >>> model = wb.load("mini:bert", device="cpu")
        >>> type(model)(model.net, model.tokenizer, "mine")
        <Model mine: bert; encoder of 4 layers x 4 heads; width 128; ... parameters; cpu, fp32>
    """

    def __init__(
        self,
        net: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        name: str,
        sites: tuple[Site, ...] | None = None,
    ) -> None:
        """`sites` are given if already known, for example after heads were removed."""
        self.net = net
        self.tokenizer = tokenizer
        self.name = name
        self.family: str = net.config.model_type
        self.width: int = net.config.hidden_size
        self.two_sided = bool(net.config.is_encoder_decoder)
        self.max_pieces: int | None = _max_pieces(net, tokenizer)
        _through_engine(net, self.family)
        self._is_finite = (
            True  # whether every attention map of the pass that finds the sites is finite
        )
        self.sites = self._find_sites() if sites is None else sites
        if not self._is_finite:
            self._require_finite_weights()
        self.kept = {site.index: tuple(range(site.heads)) for site in self.sites}
        self.whole = {site.index: site.heads for site in self.sites}
        self.stacks = self._stacks()
        self.language_model = objective_of(net, tokenizer, "causal" in self.stacks[-1].kinds)
        self.task_head = standard_head(net)
        self.language_head, self.added, self.packed = None, None, {}

    @property
    def device(self) -> torch.device:
        """The device of the inputs; the first GPU if the model is split over several."""
        device: torch.device = self.net.device
        return device

    @property
    def parameters(self) -> int:
        added = [] if self.added is None else self.added.modules.parameters()
        return int(self.net.num_parameters()) + sum(weight.numel() for weight in added)

    @property
    def precision(self) -> str:
        return PRECISION_NAMES[self.net.dtype]

    @cached_property
    def content_hash(self) -> str:
        """Hash of all tensors, the configuration and the tokenizer; reads the weights once."""
        return self._hashed({})

    def content_hash_in_fp32(self) -> str | None:
        """The content hash of the same files opened in fp32, without opening them again.

        None if it is not certain: some weights were not in the files, transformers may treat parts
        of the model differently in another precision, or this precision overflowed. Costs: one
        tensor in fp32.
        """
        net = self.net
        saved = net.state_dict().keys()
        if (
            not all(getattr(weight, "_is_hf_initialized", False) for weight in net.parameters())
            or any(b.is_floating_point() and name in saved for name, b in net.named_buffers())
            or net.config.sub_configs
            or self.n_removed_heads
            or not self._is_finite
        ):
            return None
        return self._hashed(dict.fromkeys((torch.bfloat16, torch.float16), torch.float32))

    def _hashed(self, widened: Mapping[torch.dtype, torch.dtype]) -> str:
        digest = hashlib.blake2b(digest_size=16)
        state = sorted(self.net.state_dict().items())
        sizes = {key: value.nbytes for key, value in state if isinstance(value, Tensor)}
        total = sum(sizes.values())
        with tqdm(
            total=total, desc="hashing the weights, once", unit="B", unit_scale=True, leave=False,
            disable=total < HASHED_UNSEEN,
        ) as bar:  # fmt: skip
            for key, value in state:
                _update_hash(digest, key, value, widened)
                bar.update(sizes.get(key, 0))
        config = self.net.config.to_dict()
        for irrelevant in ("_name_or_path", "transformers_version", "dtype", "architectures"):
            config.pop(irrelevant, None)
        digest.update(json.dumps(config, sort_keys=True, default=str).encode())
        digest.update(_tokenizer_text(self.tokenizer).encode())
        if self.n_removed_heads:  # the position biases depend on which heads remain
            digest.update(json.dumps(sorted(self.kept.items())).encode())
        task_checkpoint.update_hash(digest, self)
        return digest.hexdigest()

    @public
    def encode(
        self,
        batch: Batch | Tensor | list[list[int]],
        documents: Sequence[int] | None = None,
    ) -> Pieces:
        """Documents of a batch in pieces, on the CPU (default: all documents).

        Or texts that are given as ids of pieces, a row of a tensor or a list of any length each.
        """
        if not isinstance(batch, Batch):
            padding = self.tokenizer.pad_token_id, self.tokenizer.eos_token_id
            return of_ids(batch, self.symbols.pad, self._pieces_known, self.max_pieces, padding)
        indices = range(len(batch)) if documents is None else documents
        if documents is not None and any(not 0 <= one < len(batch) for one in documents):
            raise WorkbenchError(
                f"the batch has {len(batch)} documents; one of {list(documents)[:5]} is missing.",
                code="document-unknown",
                remedy=f"Choose from 0 to {len(batch) - 1}.",
            )
        pieces = tokenize_batch(self.tokenizer, batch, indices, self.max_pieces or UNLIMITED)
        if self.added is not None and self.added.room:
            pieces = pieces.prefixed(self.added.room, self._first_piece)
        largest, n_embeddings = (
            int(pieces.ids.max()) if pieces.ids.numel() else 0,
            self._pieces_known,
        )
        # a lookup beyond the table breaks a GPU process
        if n_embeddings is not None and largest >= n_embeddings:
            raise self._misfit(f"piece {largest}, but only {n_embeddings} have an embedding")
        return pieces

    @property
    def _first_piece(self) -> int:
        """The piece in the place of learnt vectors before a text, which is not read."""
        names = (self.tokenizer.cls_token_id, self.tokenizer.bos_token_id)
        return next((int(id_) for id_ in names if id_ is not None), 0)

    @cached_property
    def _pieces_known(self) -> int | None:
        """How many pieces have an embedding; None without an embedding table (CANINE)."""
        return getattr(self.net.get_input_embeddings(), "num_embeddings", None)

    @public
    def forward(
        self,
        pieces: Pieces,
        *,
        targets: Pieces | None = None,
        taps: Iterable[Tap] = (),
        hidden: bool = True,
        logits: bool | Tensor = False,
        alone: bool = False,
        **unknown: Any,
    ) -> Output:
        """One forward pass; with `alone`, an encoder-decoder runs its encoder only."""
        _reject_arguments(unknown)
        taps = list(taps)
        require_sites(self, taps)
        self._require_no_checkpointing(taps)
        self._require_device(pieces, targets, taps, logits)
        texts = self.texts_of(pieces, targets, alone)
        with (
            hooked(self, taps),
            session(taps, self.sites, texts),
            self._last_blocks(hidden) as raw,
            _head_reads(self.net, logits),
        ):
            outputs = self._checked_run(texts, hidden, logits is not False)
        scores = outputs.get("logits", outputs.get("prediction_logits"))
        if "start_logits" in outputs:  # of answers: [batch, pieces, 2]
            scores = torch.stack([outputs["start_logits"], outputs["end_logits"]], -1)
        if isinstance(logits, Tensor) and scores is not None and scores.ndim == 3:
            scores = scores[logits.to(scores.device)]  # [chosen, vocabulary]
        scores = None if scores is None else scores.to(self.device)
        return replace(self._output(outputs, raw, texts), logits=scores)

    # --- stacks and attention sites ---------------------------------------------------------------

    @property
    def _first(self) -> StackName:
        """The stack that reads the input text."""
        return "encoder" if self.two_sided else self.stacks[0].name

    def _find_sites(self) -> tuple[Site, ...]:
        """The attention sites, found by a forward pass over a few pieces."""
        text = probe(self.net)
        shorter = replace(text, ids=text.ids[:, 1:], mask=text.mask[:, 1:])
        capture = Capture()
        training = self.net.training
        self.net.train(False)
        with torch.no_grad(), session([capture], None):
            self._run({"encoder": text, "decoder": shorter}, hidden=False, logits=False)
        self.net.train(training)
        counted: dict[tuple[StackName, Kind], int] = {}
        sites = []
        for placeholder, (probabilities,) in capture.maps.items():
            self._is_finite &= bool(probabilities.isfinite().all())
            stack, kind = self._kind(probabilities)
            layer = counted.get((stack, kind), 0)
            counted[stack, kind] = layer + 1
            sites.append(replace(placeholder, stack=stack, kind=kind, layer=layer))
        return tuple(sites)

    def _require_finite_weights(self) -> None:
        """Raise if weights are NaN or infinite, rather than states that overflowed."""
        for name, weight in self.net.named_parameters():
            if not bool(weight.isfinite().all()):
                raise WorkbenchError(
                    f"the weight {name} has values that are NaN or infinite.",
                    code="file-format",
                    where=self.name,
                    remedy="Use a checkpoint from before the training diverged, or copy the file "
                    "again.",
                )

    def _kind(self, probabilities: Tensor) -> tuple[StackName, Kind]:
        """Stack and kind of one attention map.  # [1, heads, queries, keys]"""
        queries, keys = probabilities.shape[-2:]
        if queries != keys:
            return "decoder", "cross"
        if bool((probabilities.triu(1) == 0).all()):
            return "decoder", "causal"
        return ("decoder" if self.two_sided and queries < PROBE else "encoder"), "self"

    def _stacks(self) -> tuple[Stack, ...]:
        names: tuple[StackName, ...] = ("encoder", "decoder") if self.two_sided else ()
        if not names:
            names = ("decoder",) if any(s.kind == "causal" for s in self.sites) else ("encoder",)
        stacks = []
        for name in names:
            sites = [site for site in self.sites if site.stack == name]
            kinds = tuple(dict.fromkeys(site.kind for site in sites))
            stacks.append(
                Stack(
                    name,
                    layers_of(self.net.config, name),
                    max((s.heads for s in sites), default=0),
                    kinds,
                )
            )
        return tuple(stacks)

    # --- one forward pass -------------------------------------------------------------------------

    def _checked_run(
        self, texts: dict[StackName, Pieces], hidden: bool, logits: bool
    ) -> dict[str, Any]:
        """The model's outputs; raises if tokenizer and weights do not fit together."""
        try:
            return self._run(texts, hidden, logits)
        except IndexError as error:
            raise self._misfit(str(error)) from None

    def _misfit(self, reason: str) -> WorkbenchError:
        return WorkbenchError(
            "the tokenizer produces pieces, positions or segments that the model does not have: "
            f"{reason}.",
            code="file-format",
            where=self.name,
            remedy="Copy config.json, the weights and the tokenizer from the same checkpoint.",
        )

    def _run(self, texts: dict[StackName, Pieces], hidden: bool, logits: bool) -> dict[str, Any]:
        if not self.two_sided:
            pieces = texts.get("encoder") or texts["decoder"]
            net = self.net if logits else self.net.base_model
            return dict(net(**self.net_inputs(pieces), output_hidden_states=hidden))
        source, target = texts["encoder"], texts.get("decoder")
        if logits and target is not None:
            return dict(
                self.net(
                    **self.net_inputs(source),
                    decoder_input_ids=target.ids,
                    decoder_attention_mask=target.mask.long(),
                    output_hidden_states=hidden,
                )
            )
        encoded = self.body("encoder")(
            **self.net_inputs(source, cache=False), output_hidden_states=hidden
        )
        outputs = {
            "encoder_last_hidden_state": encoded.last_hidden_state,
            "encoder_hidden_states": encoded.hidden_states,
        }
        if target is None:
            return outputs
        decoded = self.body("decoder")(
            **self.net_inputs(target),
            encoder_hidden_states=encoded.last_hidden_state,
            encoder_attention_mask=source.mask.long(),
            output_hidden_states=hidden,
        )
        return {
            **outputs,
            "last_hidden_state": decoded.last_hidden_state,
            "decoder_hidden_states": decoded.hidden_states,
        }

    def _require_no_checkpointing(self, taps: Sequence[Tap]) -> None:
        """Raise on gradient checkpointing, which runs blocks again in the backward pass."""
        if taps and self.net.training and self.net.is_gradient_checkpointing:
            raise WorkbenchError(
                "taps do not work with gradient checkpointing, which runs blocks a second time.",
                code="model-unsupported",
                where=self.name,
                remedy="Call model.net.gradient_checkpointing_disable(), or use smaller batches.",
            )

    def _require_device(
        self, pieces: Pieces, targets: Pieces | None, taps: Sequence[Tap], logits: bool | Tensor
    ) -> None:
        """Raise if an input of a pass is not on the model's device."""
        target = None if targets is None else targets.ids
        inputs = [("the text", pieces.ids), ("the target", target), ("the mask of logits", logits)]
        inputs += [("a Gate", tap.values) for tap in taps if isinstance(tap, Gate)]
        for name, tensor in inputs:
            if isinstance(tensor, Tensor) and tensor.device != self.device:
                raise WorkbenchError(
                    f"{name} is on {tensor.device}, but the model is on {self.device}.",
                    code="device-mismatch",
                    where=self.name,
                    remedy="Move it with .to(model.device).",
                )

    def net_inputs(self, pieces: Pieces, cache: bool = True) -> dict[str, Any]:
        inputs: dict[str, Any] = {"input_ids": pieces.ids, "attention_mask": pieces.mask.long()}
        if pieces.segments is not None:
            inputs["token_type_ids"] = pieces.segments
        if cache and hasattr(self.net.config, "use_cache"):
            inputs["use_cache"] = False
        if pieces.unseen is not None:
            inputs |= _in_order(pieces.unseen, self.net.dtype)
        return inputs

    def states(self, text: Pieces) -> Sequence[Tensor]:
        return self.forward(text, alone=True).hidden[self.stacks[0].name]

    def texts_of(
        self, pieces: Pieces, targets: Pieces | None = None, alone: bool = False
    ) -> dict[StackName, Pieces]:
        """What each stack reads in a forward pass."""
        texts: dict[StackName, Pieces] = {self._first: pieces}
        if self.two_sided and not alone:
            texts["decoder"] = self._shifted(pieces if targets is None else targets)
        return texts

    def _shifted(self, pieces: Pieces) -> Pieces:
        """The decoder input for these targets: a start token, then all pieces but the last."""
        start = getattr(self.net.config, "decoder_start_token_id", None)
        if start is None:
            raise WorkbenchError(
                "config.json has no decoder_start_token_id, so the decoder cannot run.",
                code="file-format",
                where=self.name,
                remedy="Add the id of the token that the decoder was trained to start with.",
            )
        return replace(pieces, segments=None).prefixed(1, start).narrowed(pieces.ids.shape[1])

    @contextmanager
    def _last_blocks(self, enabled: bool) -> Iterator[dict[StackName, Tensor]]:
        """Collect the output of each stack's last block, before any final norm."""
        raw: dict[StackName, Tensor] = {}
        hooks = []
        for stack in self.stacks if enabled else ():
            stack_blocks = blocks(self.body(stack.name), stack.layers)
            if stack_blocks is not None:
                hooks.append(
                    stack_blocks[-1].register_forward_hook(self._store_states(stack.name, raw))
                )
        try:
            yield raw
        finally:
            for hook in hooks:
                hook.remove()

    def _store_states(self, stack: StackName, raw: dict[StackName, Tensor]) -> Any:
        """A forward hook that stores a block's output."""

        def store(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            states = output[0] if isinstance(output, tuple | list) else output
            raw[stack] = states.transpose(0, 1) if self.sequence_first else states

        return store

    def _output(
        self, outputs: dict[str, Any], raw: dict[StackName, Tensor], texts: dict[StackName, Pieces]
    ) -> Output:
        """States of every layer, from transformers' outputs."""
        hidden: dict[StackName, Sequence[Tensor]] = {}
        final: dict[StackName, Tensor] = {}
        for stack in self.stacks:
            states = (
                outputs.get(f"{stack.name}_hidden_states")
                if self.two_sided
                else outputs.get("hidden_states")
            )
            key = f"{stack.name}_last_hidden_state"
            last = outputs.get(key, outputs.get("last_hidden_state"))
            if states is not None:
                if texts[stack.name].unseen is not None:
                    states = states[::2]  # of XLNet's two streams, the content stream
                last = states[-1] if last is None else last
                length = texts[stack.name].ids.shape[1]
                raw_last = raw.get(stack.name, last)[:, :length]
                hidden[stack.name] = [*states[:-1], raw_last]
            if last is not None:
                final[stack.name] = last.to(self.device)
        return Output(hidden, final, None, texts)

    # --- heads and vocabulary ---------------------------------------------------------------------

    def output_weights(self) -> Mapping[Site, Tensor]:
        return projections.output_weights(self)

    def embeddings_without_positions(self, pieces: Pieces) -> Tensor:
        embeddings: Tensor = self.net.get_input_embeddings()(pieces.ids)
        return embeddings

    @cached_property
    def symbols(self) -> Symbols:
        known = symbols(self.tokenizer)
        return replace(known, mask=None) if in_order(self.net) else known

    @property
    def vocabulary(self) -> Mapping[str, int]:
        ids: dict[str, int] = self.tokenizer.get_vocab()
        return ids

    @property
    def folds_case(self) -> bool:
        large, small = self.tokenizer(["The", "the"])["input_ids"]
        return bool(large == small and self.tokenizer.unk_token_id not in small)

    def _embeddings_of(self, stack: StackName) -> nn.Module:
        """The embedding table of a stack; an encoder-decoder may share one between its stacks."""
        body: Any = self.body(stack)
        table: nn.Module = body.get_input_embeddings()
        return table

    def input_vectors(self, text: Pieces, targets: Pieces | None = None) -> dict[StackName, Tensor]:
        texts = self.texts_of(text, targets, alone=targets is None)
        return {stack: self._embeddings_of(stack)(read.ids) for stack, read in texts.items()}

    def modules(self) -> Sequence[nn.Module]:
        return (self.net,)

    @torch.no_grad()
    def mean_input_vectors(self) -> dict[StackName, Tensor]:
        ids = torch.split(torch.tensor(self.pieces_to_draw(), device=self.device), WIDENED)
        means = {}
        for stack in self.stacks:
            table = self._embeddings_of(stack.name)
            total = torch.stack([table(part).double().sum(0) for part in ids]).sum(0)
            means[stack.name] = (total / sum(map(len, ids))).float()
        return means

    @contextmanager
    def reading(self, vectors: Mapping[StackName, Tensor]) -> Iterator[None]:
        # by table, what its calls return, in the order of the stacks; None: its own embeddings
        waiting = grouped(
            (self._embeddings_of(stack.name), vectors.get(stack.name)) for stack in self.stacks
        )

        def replace_output(table: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
            left = waiting.get(table)  # None: a copy that another thread makes has this hook too
            given = left.pop(0) if left else None
            if given is None:
                return output
            if self.sequence_first:
                return given.transpose(0, 1).to(output.dtype)
            # Longformer itself pads its input to whole windows
            return torch.cat([given.to(output.dtype), output[:, given.shape[1] :]], 1)

        with ExitStack() as restore:
            for table in waiting:
                restore.callback(table.register_forward_hook(replace_output).remove)
            yield

    def piece_texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        return written(self.tokenizer, ids)

    def shown_pieces(self, pieces: Pieces) -> tuple[str, ...]:
        """The learnt vectors before a text by their number: `prefix 1`."""
        texts = super().shown_pieces(pieces)
        if self.added is None or not self.added.room:
            return texts
        vectors = (f"{self.added.kind} {n + 1}" for n in range(self.added.room))
        return (*vectors, *texts[self.added.room :])

    def decode(self, choices: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(choices), skip_special_tokens=True))

    @cached_property
    def _segmenter(self) -> Segmenter:
        return Segmenter(self.tokenizer)

    def segmented(self, text: str, words: NDArray[Any]) -> Segmented:
        return self._segmenter.segmented(text, words)

    def segmentation_steps(self, text: str, words: NDArray[Any]) -> Sequence[Segmentation]:
        return self._segmenter.steps(text)

    def splitter(self) -> Splitter:
        own = self._segmenter
        return Splitter(
            self.name,
            self.content_hash,
            self.max_pieces,
            own.segmented,
            lambda text, words: own.steps(text),
        )

    def unknown_pieces(self, pieces: Pieces) -> Tensor:
        unknown = self.symbols.unknown
        return torch.zeros_like(pieces.mask) if unknown is None else pieces.ids == unknown

    def pieces_to_draw(self) -> Sequence[int]:
        size = min(self._pieces_known or self.net.config.vocab_size, len(self.tokenizer))
        special = set(self.tokenizer.all_special_ids)
        return [id_ for id_ in range(size) if id_ not in special]

    # --- weights ----------------------------------------------------------------------------------

    def copy(self, in_fp32: bool = False) -> "HuggingFace":
        net, added = copy.deepcopy((self.net, self.added))
        twin = HuggingFace(net, self.tokenizer, self.name, sites=self.sites)
        twin.kept, twin.whole = self.kept, self.whole
        twin.take_heads(self)
        twin.task_head = copy.deepcopy(self.task_head)  # its weights may learn
        twin.added, twin.packed, twin.max_pieces = added, self.packed, self.max_pieces
        if in_fp32:
            twin.net.to(dtype=torch.float32)
        return twin

    @property
    def objectives(self) -> tuple[Task, ...]:
        of_pieces = () if self.language_head is None else (self.language_head.task,)
        return (*super().objectives, *of_pieces)

    def for_objective(self, task: Task) -> Model:
        if self.language_head is None or task != self.language_head.task:
            return super().for_objective(task)
        return with_language_head(self, self.language_head)

    def reinitialised(self, seed: int) -> "HuggingFace":
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            net = type(self.net)(copy.deepcopy(self.net.config))
        placed(net, self.device, self.net.dtype)
        twin = HuggingFace(net, self.tokenizer, as_random(self.name))
        return head_removal.cut(twin, self.kept) if twin.sites != self.sites else twin

    def save(self, folder: Path) -> None:
        task_checkpoint.save(self, folder)

    def named_weights(self) -> dict[str, Tensor]:
        named = self.net.named_parameters(remove_duplicate=False)
        return {self.bare_name(name): weights for name, weights in named}

    def weight_places(self) -> dict[str, WeightPlace]:
        return net_parts.weight_places(self)

    def parameters_by_part(self) -> dict[str, int]:
        parts = net_parts.parameters_by_part(self)
        if self.added is not None:
            parts[self.added.kind] = sum(w.numel() for w in self.added.modules.parameters())
        return parts

    def memory(self) -> dict[str, Any]:
        return budget.memory(self)

    def train(self, learning: bool) -> None:
        self.net.train(learning)
        if self.added is not None:
            self.added.modules.train(learning)


def require_transformer(model: Model, why: str, remedy: str) -> HuggingFace:
    """The model, if it is a transformers model; raises `UnsupportedError` for any other.

    For operations on the net's own modules: gating or removing heads, inserting vectors between
    blocks, generating text. `why` continues the sentence after the model's name.
    """
    if not isinstance(model, HuggingFace):
        raise refusal(model, why, remedy)
    return model


def _in_order(unseen: Tensor, dtype: torch.dtype) -> dict[str, Tensor]:
    """XLNet's inputs for hiding pieces: hidden pieces come last in the prediction order.

    No piece attends to a hidden piece other than itself. Every piece is predicted by a second
    stream, which reads all visible pieces and only its own position.

    # unseen: [batch, pieces], or [batch, pieces, pieces] by the piece that looks
    """
    batch, length = unseen.shape[:2]
    positions = torch.eye(length, dtype=dtype, device=unseen.device)
    by_piece = unseen if unseen.ndim == 3 else unseen[:, None, :].expand(batch, length, length)
    return {
        "perm_mask": by_piece.to(dtype),
        "target_mapping": positions.expand(batch, length, length),
    }


@contextmanager
def _head_reads(net: PreTrainedModel, chosen: bool | Tensor) -> Iterator[None]:
    """Make the output layer compute logits for the chosen pieces only, to save memory.

    With half-precision weights, logits are computed in float32, because rounded logits tie.
    """
    head = output_map(net)
    if head is None or chosen is False:
        yield
        return

    def select(module: nn.Module, args: tuple[Any, ...]) -> tuple[Tensor] | None:
        states = args[0]  # [batch, pieces, width]
        assert isinstance(chosen, Tensor)
        fits = states.shape[:-1] == chosen.shape
        return (states[chosen.to(states.device)],) if fits else None

    with ExitStack() as restore:
        if isinstance(chosen, Tensor):
            restore.callback(head.register_forward_pre_hook(select).remove)
        if isinstance(head, nn.Linear) and head.weight.dtype.itemsize < 4:
            head.forward = partial(_linear_in_fp32, head)  # type: ignore[method-assign]
            restore.callback(head.__dict__.pop, "forward", None)
        yield


def _linear_in_fp32(head: nn.Linear, states: Tensor) -> Tensor:
    """The output of a linear layer in float32, converting some rows of its weights at a time.

    # [..., width] -> [..., vocabulary]
    """
    wide = states.float()
    parts = [functional.linear(wide, rows.float()) for rows in torch.split(head.weight, WIDENED)]
    logits = torch.cat(parts, -1)
    return logits if head.bias is None else logits + head.bias.float()


def _update_hash(
    digest: Any, key: str, value: Any, widened: Mapping[torch.dtype, torch.dtype]
) -> None:
    """Add an entry of a state to a hash; that of a quantised module may be no plain tensor."""
    if isinstance(value, tuple | list):
        for index, part in enumerate(value):
            _update_hash(digest, f"{key}.{index}", part, widened)
    elif not isinstance(value, Tensor) or value.is_meta:
        digest.update(f"{key} {_shown(value)}".encode())
    elif hasattr(value, "__tensor_flatten__"):  # torchao's, of several plain tensors
        for part in value.__tensor_flatten__()[0]:
            _update_hash(digest, f"{key}.{part}", getattr(value, part), {})
    elif value.is_quantized:
        _update_hash(digest, key, value.int_repr(), {})
        _update_hash(digest, f"{key} as numbers", value.dequantize(), {})
    else:
        tensor = value.detach().cpu().to(widened.get(value.dtype, value.dtype))
        digest.update(f"{key} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())


def _shown(value: Any) -> str:
    """What is hashed of a value without numbers: a tensor on `meta` has a type and a shape."""
    return f"{value.dtype} {tuple(value.shape)} meta" if isinstance(value, Tensor) else repr(value)


def _tokenizer_text(tokenizer: PreTrainedTokenizerBase) -> str:
    """The tokenizer's full definition as text, without how its last call padded and truncated."""
    text = str(tokenizer.backend_tokenizer.to_str())
    return re.sub('"truncation":.*?,"added_tokens":', _NO_PADDING, text, count=1)


def _reject_arguments(arguments: dict[str, Any]) -> None:
    """Raise on unknown arguments of `forward`."""
    if "head_mask" in arguments:
        raise WorkbenchError(
            "head_mask has no effect: transformers 5 ignores it silently.",
            code="argument-unknown",
            remedy="Scale heads with taps=[Gate(values)], where values is [sites, heads].",
        )
    if arguments:
        raise WorkbenchError(
            f"forward has no argument {', '.join(sorted(arguments))}.",
            code="argument-unknown",
            remedy="Its arguments are targets, taps, hidden, logits and alone.",
        )


def _through_engine(net: PreTrainedModel, family: str) -> None:
    """Make the net use the engine's attention function, or its hooks."""
    if attention_hooks.is_special(family):
        attention_hooks.install(net, family)
        return
    attention.register()
    net.set_attn_implementation(attention.NAME)


def _max_pieces(net: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The maximum input length, by the number of positions and the tokenizer's limit."""
    limits = [int(tokenizer.model_max_length)]
    for attribute in ("max_position_embeddings", "n_positions"):
        positions = getattr(net.config, attribute, None)
        if isinstance(positions, int) and positions > 0:
            limits.append(positions - _reserved(net))
    return min(limits) if min(limits) < UNLIMITED else None


def _reserved(net: PreTrainedModel) -> int:
    """Unused positions: RoBERTa and similar models count positions from the padding index."""
    for name, module in net.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return 0 if module.padding_idx is None else module.padding_idx + 1
    return 0
