"""One adapter for every Hugging Face encoder, decoder and encoder-decoder.

It runs the model through the engine's attention function, finds out by one small forward pass which
attention calls there are and of what kind (by looking: a causal map has nothing above its diagonal,
a cross map is not square), and hands back the states of every layer. No class per architecture.
Loading costs one forward pass over four pieces on top of transformers' own.
"""

import copy
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from workbench.core.errors import WorkbenchError
from workbench.core.public import public
from workbench.engine import attention
from workbench.engine.batch import Batch, Pieces
from workbench.engine.model import (
    Model,
    Output,
    Stack,
    Symbols,
    WeightPlace,
    refusal,
    require_sites,
)
from workbench.engine.taps import Capture, Gate, Kind, Site, StackName, Tap, session
from workbench.models import (
    attention_hooks,
    budget,
    head_removal,
    net_parts,
    projections,
    pruned_checkpoint,
)
from workbench.models.lm_heads import (
    classes_of,
    in_order,
    objective_of,
    output_map,
    placed,
    symbols,
)
from workbench.models.net_parts import PROBE, blocks, probe
from workbench.models.split import layers_of
from workbench.models.tokenization import tokenize_batch, written

UNLIMITED = 2**31 - 1  # pieces, of a model whose positions are relative
WIDENED = 16_384  # rows of an output map that are made float32 at a time
_PRECISIONS = {
    torch.float32: "fp32",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
    torch.float64: "fp64",
}


class HuggingFace(Model):
    """A transformers model that is in memory, and its tokenizer, seen through the engine.

    Args:
        net: An encoder, decoder or encoder-decoder of transformers.
        tokenizer: Its fast tokenizer.
        name: What it is called in tables and figures.
        sites: Its attention sites, where they are known already (default: found by one pass).

    Raises:
        WorkbenchError: The architecture has no known attention, or the numbers in its config do not
            fit its tokenizer.

    Example:
        >>> net, tokenizer = wb.tiny_bert(["The", "dog", "barks"])
        >>> wb.HuggingFace(net, tokenizer, "tiny")
        <Model tiny: bert; encoder of 2 layers x 2 heads; width 32; 35,710 parameters; cpu, fp32>
    """

    def __init__(
        self,
        net: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        name: str,
        sites: tuple[Site, ...] | None = None,
    ) -> None:
        """`sites` where they are known already, as of a model whose heads were taken out."""
        self.net = net
        self.tokenizer = tokenizer
        self.name = name
        self.family: str = net.config.model_type
        self.width: int = net.config.hidden_size
        self.two_sided = bool(net.config.is_encoder_decoder)
        self.max_pieces: int | None = _max_pieces(net, tokenizer)
        _through_engine(net, self.family)
        self._is_finite = True  # every attention map of the pass that finds the sites
        self.sites = self._find_sites() if sites is None else sites
        # which heads these are, and of how many, where some were taken out
        self.kept = {site.index: tuple(range(site.heads)) for site in self.sites}
        self.whole = {site.index: site.heads for site in self.sites}
        self.stacks = self._stacks()
        self.objective = objective_of(net, tokenizer, "causal" in self.stacks[-1].kinds)
        self.classes = classes_of(net)

    @property
    def lacking(self) -> int:
        return sum(self.whole.values()) - sum(len(heads) for heads in self.kept.values())

    @property
    def device(self) -> torch.device:
        """Where texts are sent; of a model over several cards the first."""
        return self.net.device

    @property
    def parameters(self) -> int:
        return int(self.net.num_parameters())

    @property
    def precision(self) -> str:
        return _PRECISIONS[self.net.dtype]

    @cached_property
    def content_hash(self) -> str:
        """Of every tensor, the configuration and the tokenizer; reads the weights once."""
        return self._hashed({})

    def content_hash_in_fp32(self) -> str | None:
        """The content hash that it has when its files are opened in fp32, without doing so.

        None where that cannot be promised: some weights were not in the files, transformers may
        treat parts of the model differently in another precision, or this one overflowed. Costs one
        tensor in fp32.
        """
        net = self.net
        kept = net.state_dict().keys()
        if (
            not all(getattr(weight, "_is_hf_initialized", False) for weight in net.parameters())
            or any(b.is_floating_point() and name in kept for name, b in net.named_buffers())
            or net.config.sub_configs
            or self.lacking
            or not self._is_finite
        ):
            return None
        return self._hashed(dict.fromkeys((torch.bfloat16, torch.float16), torch.float32))

    def _hashed(self, widened: Mapping[torch.dtype, torch.dtype]) -> str:
        digest = hashlib.blake2b(digest_size=16)
        for key, weight in sorted(self.net.state_dict().items()):
            tensor = weight.detach().cpu().to(widened.get(weight.dtype, weight.dtype))
            digest.update(f"{key} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())
        config = self.net.config.to_dict()
        for passing in ("_name_or_path", "transformers_version", "dtype", "architectures"):
            config.pop(passing, None)
        digest.update(json.dumps(config, sort_keys=True, default=str).encode())
        digest.update(_tokenizer_text(self.tokenizer).encode())
        if self.lacking:  # which heads are left decides what their biases of positions are
            digest.update(json.dumps(sorted(self.kept.items())).encode())
        return digest.hexdigest()

    @property
    def sequence_first(self) -> bool:
        """Whether blocks put the pieces before the texts."""
        return self.family == "xlnet"

    @public
    def encode(self, batch: Batch, documents: Sequence[int] | None = None) -> Pieces:
        chosen = range(len(batch)) if documents is None else documents
        if documents is not None and any(not 0 <= one < len(batch) for one in documents):
            raise WorkbenchError(
                f"the batch has {len(batch)} documents; one of {list(documents)[:5]} is not there.",
                code="document-unknown",
                remedy=f"Choose from 0 to {len(batch) - 1}.",
            )
        found = tokenize_batch(self.tokenizer, batch, chosen, self.max_pieces or UNLIMITED)
        largest, table = int(found.ids.max()) if found.ids.numel() else 0, self._pieces_known
        if table is not None and largest >= table:  # looked up on a GPU, it would stop it for good
            raise self._misfit(f"piece {largest}, of {table} that have an embedding")
        return found

    @cached_property
    def _pieces_known(self) -> int | None:
        """How many pieces have an embedding; None where they are spelt otherwise (CANINE)."""
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
        **refused: Any,
    ) -> Output:
        """`alone`: of an encoder-decoder the encoder alone is run."""
        _refuse(refused)
        taps = list(taps)
        require_sites(self, taps)
        self._require_one_pass(taps)
        self._require_here(pieces, targets, taps, logits)
        texts = self.texts_of(pieces, targets, alone)
        with (
            session(taps, self.sites, texts),
            self._last_blocks(hidden) as raw,
            _head_reads(self.net, logits),
        ):
            answer = self._answered(texts, hidden, logits is not False)
        found = answer.get("logits", answer.get("prediction_logits"))
        if isinstance(logits, Tensor) and found is not None and found.ndim == 3:
            found = found[logits.to(found.device)]  # [chosen, vocabulary]
        found = None if found is None else found.to(self.device)
        return replace(self._output(answer, raw, texts), logits=found)

    # --- what there is ----------------------------------------------------------------------------

    @property
    def _first(self) -> StackName:
        """The stack that reads the text."""
        return "encoder" if self.two_sided else self.stacks[0].name

    def _find_sites(self) -> tuple[Site, ...]:
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

    def _kind(self, probabilities: Tensor) -> tuple[StackName, Kind]:
        """Read the kind of attention off one map.  # [1, heads, queries, keys]"""
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
            own = [site for site in self.sites if site.stack == name]
            kinds = tuple(dict.fromkeys(site.kind for site in own))
            stacks.append(
                Stack(
                    name,
                    layers_of(self.net.config, name),
                    max((s.heads for s in own), default=0),
                    kinds,
                )
            )
        return tuple(stacks)

    # --- one forward pass -------------------------------------------------------------------------

    def body(self, stack: StackName) -> nn.Module:
        """The module that holds a stack's blocks."""
        if not self.two_sided:
            return self.net.base_model
        net: Any = self.net
        body: nn.Module = net.get_encoder() if stack == "encoder" else net.get_decoder()
        return body

    def _answered(
        self, texts: dict[StackName, Pieces], hidden: bool, logits: bool
    ) -> dict[str, Any]:
        """What the model makes of the texts, or an error where its files do not fit together."""
        try:
            return self._run(texts, hidden, logits)
        except IndexError as error:
            raise self._misfit(str(error)) from None

    def _misfit(self, why: str) -> WorkbenchError:
        return WorkbenchError(
            f"the tokenizer gives pieces, positions or segments that the model has not: {why}.",
            where=self.name,
            remedy="Copy config.json, the weights and the tokenizer from the same checkpoint.",
        )

    def _run(self, texts: dict[StackName, Pieces], hidden: bool, logits: bool) -> dict[str, Any]:
        if not self.two_sided:
            pieces = texts.get("encoder") or texts["decoder"]
            net = self.net if logits else self.net.base_model
            return dict(net(**self._inputs(pieces), output_hidden_states=hidden))
        source, target = texts["encoder"], texts.get("decoder")
        if logits and target is not None:
            return dict(
                self.net(
                    **self._inputs(source),
                    decoder_input_ids=target.ids,
                    decoder_attention_mask=target.mask.long(),
                    output_hidden_states=hidden,
                )
            )
        encoded = self.body("encoder")(
            **self._inputs(source, cache=False), output_hidden_states=hidden
        )
        answer = {
            "encoder_last_hidden_state": encoded.last_hidden_state,
            "encoder_hidden_states": encoded.hidden_states,
        }
        if target is None:
            return answer
        decoded = self.body("decoder")(
            **self._inputs(target),
            encoder_hidden_states=encoded.last_hidden_state,
            encoder_attention_mask=source.mask.long(),
            output_hidden_states=hidden,
        )
        return {
            **answer,
            "last_hidden_state": decoded.last_hidden_state,
            "decoder_hidden_states": decoded.hidden_states,
        }

    def _require_one_pass(self, taps: Sequence[Tap]) -> None:
        """Gradient checkpoints run blocks again in the backward pass, where no tap would be."""
        if taps and self.net.training and self.net.is_gradient_checkpointing:
            raise WorkbenchError(
                "taps do not go with gradient checkpointing, which runs blocks a second time.",
                where=self.name,
                remedy="Call model.net.gradient_checkpointing_disable(), or use smaller batches.",
            )

    def _require_here(
        self, pieces: Pieces, targets: Pieces | None, taps: Sequence[Tap], logits: bool | Tensor
    ) -> None:
        """What a pass reads is on the model's device."""
        target = None if targets is None else targets.ids
        given = [("the text", pieces.ids), ("the target", target), ("the mask of logits", logits)]
        given += [("a Gate", tap.values) for tap in taps if isinstance(tap, Gate)]
        for what, tensor in given:
            if isinstance(tensor, Tensor) and tensor.device != self.device:
                raise WorkbenchError(
                    f"{what} is on {tensor.device}, and the model on {self.device}.",
                    where=self.name,
                    remedy="Send it there with .to(model.device).",
                )

    def _inputs(self, pieces: Pieces, cache: bool = True) -> dict[str, Any]:
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
        """What each stack reads in such a pass."""
        texts: dict[StackName, Pieces] = {self._first: pieces}
        if self.two_sided and not alone:
            texts["decoder"] = self._shifted(pieces if targets is None else targets)
        return texts

    def _shifted(self, pieces: Pieces) -> Pieces:
        """What a decoder reads to predict these pieces: a start symbol, then all but the last."""
        start = getattr(self.net.config, "decoder_start_token_id", None)
        if start is None:
            raise WorkbenchError(
                "config.json has no decoder_start_token_id, so the decoder cannot be run.",
                where=self.name,
                remedy="Add the id of the symbol that its decoder was trained to start with.",
            )
        return replace(pieces, segments=None).begun(1, start).narrowed(pieces.ids.shape[1])

    @contextmanager
    def _last_blocks(self, wanted: bool) -> Iterator[dict[StackName, Tensor]]:
        """What the last block of each stack hands on, before any final norm."""
        raw: dict[StackName, Tensor] = {}
        hooks = []
        for stack in self.stacks if wanted else ():
            found = blocks(self.body(stack.name), stack.layers)
            if found is not None:
                hooks.append(found[-1].register_forward_hook(self._keeper(stack.name, raw)))
        try:
            yield raw
        finally:
            for hook in hooks:
                hook.remove()

    def _keeper(self, stack: StackName, raw: dict[StackName, Tensor]) -> Any:
        def keep(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            states = output[0] if isinstance(output, tuple | list) else output
            raw[stack] = states.transpose(0, 1) if self.sequence_first else states

        return keep

    def _output(
        self, answer: dict[str, Any], raw: dict[StackName, Tensor], texts: dict[StackName, Pieces]
    ) -> Output:
        hidden: dict[StackName, Sequence[Tensor]] = {}
        final: dict[StackName, Tensor] = {}
        for stack in self.stacks:
            states = (
                answer.get(f"{stack.name}_hidden_states")
                if self.two_sided
                else answer.get("hidden_states")
            )
            first = f"{stack.name}_last_hidden_state"
            last = answer.get(first, answer.get("last_hidden_state"))
            if states is not None:
                if texts[stack.name].unseen is not None:
                    states = states[::2]  # of two streams, the one that knows its own pieces
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
        found: Tensor = self.net.get_input_embeddings()(pieces.ids)
        return found

    @cached_property
    def symbols(self) -> Symbols:
        known = symbols(self.tokenizer)
        return replace(known, mask=None) if in_order(self.net) else known

    @property
    def vocabulary(self) -> Mapping[str, int]:
        found: dict[str, int] = self.tokenizer.get_vocab()
        return found

    @property
    def folds_case(self) -> bool:
        large, small = self.tokenizer(["The", "the"])["input_ids"]
        return bool(large == small and self.tokenizer.unk_token_id not in small)

    def piece_texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        return written(self.tokenizer, ids)

    def unknown_pieces(self, pieces: Pieces) -> Tensor:
        unknown = self.symbols.unknown
        return torch.zeros_like(pieces.mask) if unknown is None else pieces.ids == unknown

    def pieces_to_draw(self) -> Sequence[int]:
        size = min(self._pieces_known or self.net.config.vocab_size, len(self.tokenizer))
        special = set(self.tokenizer.all_special_ids)
        return [number for number in range(size) if number not in special]

    # --- weights ----------------------------------------------------------------------------------

    def copy(self, in_fp32: bool = False) -> "HuggingFace":
        own = HuggingFace(copy.deepcopy(self.net), self.tokenizer, self.name, sites=self.sites)
        own.kept, own.whole = self.kept, self.whole
        if in_fp32:
            own.net.to(dtype=torch.float32)  # type: ignore[call-arg]
        return own

    def reinitialised(self, seed: int) -> "HuggingFace":
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            net = type(self.net)(copy.deepcopy(self.net.config))
        placed(net, self.device, self.net.dtype)
        twin = HuggingFace(net, self.tokenizer, f"{self.name}@random")
        return head_removal.cut(twin, self.kept) if twin.sites != self.sites else twin

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if self.lacking:
            pruned_checkpoint.save(self, folder)
        else:
            self.net.save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)

    def bare_name(self, name: str) -> str:
        """A weight's name without that of the body, which a model with a head has before it."""
        return name.removeprefix(f"{self.net.base_model_prefix}.")

    def named_weights(self) -> dict[str, Tensor]:
        named = self.net.named_parameters(remove_duplicate=False)
        return {self.bare_name(name): weights for name, weights in named}

    def weight_places(self) -> dict[str, WeightPlace]:
        return net_parts.weight_places(self)

    def parameters_by_part(self) -> dict[str, int]:
        return net_parts.parameters_by_part(self)

    def memory(self) -> dict[str, Any]:
        return budget.memory(self)

    def train(self, learning: bool) -> None:
        self.net.train(learning)


def transformer_of(model: Model, why: str, remedy: str) -> HuggingFace:
    """The model where it is one of transformers; any other is refused with the reason.

    For what is done to a net's own modules: heads that are gated or taken out, vectors that are put
    between blocks, text that is written. `why` goes on from the model's name.
    """
    if not isinstance(model, HuggingFace):
        raise refusal(model, why, remedy)
    return model


def _in_order(unseen: Tensor, dtype: torch.dtype) -> dict[str, Tensor]:
    """XLNet's way of hiding pieces: they come last in the order of prediction, and side by side.

    No piece reads one that is hidden but itself, and every piece is predicted by a second stream,
    which reads all but the hidden and knows its own place alone.  # unseen: [batch, pieces]
    """
    batch, length = unseen.shape
    places = torch.eye(length, dtype=dtype, device=unseen.device)
    return {
        "perm_mask": unseen[:, None, :].expand(batch, length, length).to(dtype),
        "target_mapping": places.expand(batch, length, length),
    }


@contextmanager
def _head_reads(net: PreTrainedModel, wanted: bool | Tensor) -> Iterator[None]:
    """The output map sees only the states of the pieces wanted: the rest is too large to make.

    Logits of weights in half precision are made in float32, for rounded ones tie.
    """
    head = output_map(net)
    if head is None or wanted is False:
        yield
        return

    def choose(module: nn.Module, args: tuple[Any, ...]) -> tuple[Tensor] | None:
        states = args[0]  # [batch, pieces, width]
        assert isinstance(wanted, Tensor)
        fits = states.shape[:-1] == wanted.shape
        return (states[wanted.to(states.device)],) if fits else None

    with ExitStack() as back:
        if isinstance(wanted, Tensor):
            back.callback(head.register_forward_pre_hook(choose).remove)
        if isinstance(head, nn.Linear) and head.weight.dtype.itemsize < 4:
            head.forward = partial(_exactly, head)  # type: ignore[method-assign]
            back.callback(head.__dict__.pop, "forward", None)
        yield


def _exactly(head: nn.Linear, states: Tensor) -> Tensor:
    """What the map makes, in float32; its weights are widened some rows at a time.

    # [..., width] -> [..., vocabulary]
    """
    wide = states.float()
    parts = [functional.linear(wide, rows.float()) for rows in torch.split(head.weight, WIDENED)]
    found = torch.cat(parts, -1)
    return found if head.bias is None else found + head.bias.float()


def _tokenizer_text(tokenizer: PreTrainedTokenizerBase) -> str:
    """Everything that decides how a tokenizer cuts text."""
    return str(tokenizer.backend_tokenizer.to_str())


def _refuse(arguments: dict[str, Any]) -> None:
    if "head_mask" in arguments:
        raise WorkbenchError(
            "head_mask is not followed by transformers 5, which ignores it without a word.",
            remedy="Scale heads with taps=[Gate(values)], values [sites, heads].",
        )
    if arguments:
        raise WorkbenchError(
            f"forward takes no {', '.join(sorted(arguments))}.",
            remedy="It takes targets, taps, hidden, logits and alone.",
        )


def _through_engine(net: PreTrainedModel, family: str) -> None:
    if attention_hooks.is_special(family):
        attention_hooks.install(net, family)
        return
    attention.register()
    net.set_attn_implementation(attention.NAME)


def _max_pieces(net: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The longest input: what the positions allow, or what the tokenizer was told."""
    limits = [int(tokenizer.model_max_length)]
    for attribute in ("max_position_embeddings", "n_positions"):
        positions = getattr(net.config, attribute, None)
        if isinstance(positions, int) and positions > 0:
            limits.append(positions - _reserved(net))
    return min(limits) if min(limits) < UNLIMITED else None


def _reserved(net: PreTrainedModel) -> int:
    """Positions RoBERTa and its kin never use: they start counting behind the padding index."""
    for name, module in net.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return 0 if module.padding_idx is None else module.padding_idx + 1
    return 0
