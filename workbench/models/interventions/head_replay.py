"""The logits that a model's own head gives for the states of any layer: the logit lens.

    with torch.no_grad():
        recorded = recorded_states(model, text, target)
        logits = layer_logits(model, recorded, mask)  # [layers, chosen, vocabulary]

One pass records the states before and after every block. In a second pass all blocks of a stack
are bypassed and return the states of the chosen layers, as rows of one batch, so that the model's
own final norm, head, scaling and bias give the logits, for every architecture. For the encoder of
an encoder-decoder, the decoder then runs in full on the intermediate states (Langedijk et al.
2023). `replay_head` gives the same logits for single states without their text, except of an
encoder-decoder's encoder. ELMo's softmax reads any layer. Gradients flow unless switched off.
Costs: memory for the states of every block; embeddings and head for a row per layer, and for the
encoder of an encoder-decoder as many rows of its decoder.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.core.errors import WorkbenchError
from workbench.engine.batch import NO_WORD, Pieces, sent
from workbench.engine.model import Direction, Model, Output
from workbench.engine.taps import StackName, current
from workbench.models.huggingface import HuggingFace, require_transformer
from workbench.models.interventions.prefix_cache import blocks_of, replaced_forward
from workbench.models.net_parts import probe
from workbench.models.output_heads.lm_losses import logits_of

# A change of the states of a layer before the head reads them, such as a tuned lens.
Change = Callable[[int, Tensor], Tensor]  # layer, [batch, pieces, width] -> the same shape
Sublayer = Literal["embeddings", "attention", "cross-attention", "mlp"]
ROW = 32  # pieces in a row of states without a text
_REMEDY = "Choose a transformers model with a language-model head, or an ELMo with its softmax."


class Point(NamedTuple):
    """Where a state is: after the embeddings (layer 0), an attention, or an MLP (a whole block)."""

    stack: StackName
    layer: int
    sublayer: Sublayer

    @property
    def ends_layer(self) -> bool:
        """Whether this is the state between two blocks."""
        return self.sublayer in ("embeddings", "mlp")


@dataclass(frozen=True, eq=False)
class Recorded:
    """The states of a pass that the head would read, by stack and layer, and what to replay.

    `states[stack][0]` is what the first block reads, `states[stack][k]` what block k returns. Of
    XLNet with hidden pieces they are those of the second stream, which predicts; of ELMo they
    include the start and the end of the text, so word w is at w + 1.
    """

    text: Pieces
    target: Pieces | None
    states: Mapping[StackName, Sequence[Tensor]]  # [batch, pieces, width] each
    ends: Mapping[StackName, Any]  # all that the last block returned
    output: Output  # of the pass

    @property
    def last(self) -> StackName:
        """The stack that the head reads."""
        return list(self.states)[-1]


def recorded_states(
    model: Model, text: Pieces, target: Pieces | None = None, alone: bool = False
) -> Recorded:
    """The states of every layer of every stack, or of the first one alone, in one pass."""
    if model.objective == "bidirectional":
        layers = model.states_with_ends(text)
        return Recorded(text, None, {"encoder": layers}, {}, Output({}, {}))
    net = _transformer(model)
    stream = 0 if text.unseen is None else 1
    inputs: dict[StackName, list[Tensor]] = {stack.name: [] for stack in net.stacks}
    ends: dict[StackName, Any] = {}

    def recording(stack: StackName) -> "_Wrap":
        def wrap(block: nn.Module, run: Callable[..., Any]) -> Callable[..., Any]:
            def forward(*args: Any, **kwargs: Any) -> Any:
                inputs[stack].append(_read(args, kwargs, stream))
                output = run(*args, **kwargs)
                ends[stack] = output  # the last call's stays
                return output

            return forward

        return wrap

    with wrapped(net, recording):
        output = net.forward(text, targets=target, hidden=False, alone=alone)
    states = {}
    for stack, read in inputs.items():
        if stack not in ends:
            continue  # the stack did not run
        length = output.texts[stack].ids.shape[1]
        layers = [*read, stream_of(ends[stack], stream)]
        states[stack] = [batch_first(net, layer)[:, :length] for layer in layers]
    return Recorded(text, target, states, ends, output)


def layer_logits(
    model: Model,
    recorded: Recorded,
    mask: Tensor,
    stack: StackName | None = None,
    layers: Sequence[int] | None = None,
    change: Change | None = None,
    direction: Direction = "next",
) -> Tensor:
    """Logits of the pieces in the mask from the states of each layer of a stack.

    `mask` chooses pieces of the last stack, [batch, pieces]; of ELMo words with the text's start
    and end, which predict in one direction. Defaults: the stack that the head reads, all layers.
    # [layers, chosen, vocabulary]
    """
    stack = stack or recorded.last
    states = recorded.states[stack]
    chosen = list(range(len(states)) if layers is None else layers)
    read = [states[n] if change is None else change(n, states[n]) for n in chosen]
    device = model.device
    rows = torch.cat([sent(layer, device) for layer in read])  # [layers * batch, pieces, width]
    logits = replayed_logits(
        model, recorded, {stack: rows}, mask.repeat(len(chosen), 1), direction=direction
    )
    return logits.view(len(chosen), -1, logits.shape[-1])


def replayed_logits(
    model: Model,
    recorded: Recorded,
    states: Mapping[StackName, Tensor],
    mask: Tensor,
    documents: Tensor | None = None,
    direction: Direction = "next",
) -> Tensor:
    """Logits of the pieces in the mask if a stack ends in the given states.

    `states` are [rows, pieces, width] per stack; `documents` are the rows' documents in the
    recorded pass (default: all of them in turn, as often as there are rows). An encoder before the
    given stack ends in its recorded states.  # mask: [rows, pieces] -> [chosen, vocabulary]
    """
    if model.objective == "bidirectional":
        return model.logits_of_states(states["encoder"][mask], direction)
    net = _transformer(model)
    if documents is None:
        documents = torch.arange(len(mask)) % len(recorded.text)
    given = dict(states)
    if len(recorded.states) > 1 and "encoder" not in given:
        encoded = recorded.states["encoder"][-1]
        given["encoder"] = encoded[sent(documents, encoded.device)]
    target = None if recorded.target is None else recorded.target.take(documents)
    with _bypassed(net, given, recorded.ends, 0 if recorded.text.unseen is None else 1):
        return logits_of(net, recorded.text.take(documents), mask, target).float()


@dataclass(frozen=True, eq=False)
class ReplayHead:
    """The end of a model, from states of its last stack to logits: norm, head, scaling, bias."""

    model: Model
    ends: Mapping[StackName, Any]

    def __call__(self, states: Tensor, direction: Direction = "next") -> Tensor:
        """Logits of single states; of ELMo in one direction.

        # [states, width] -> [states, vocabulary], float32
        """
        if self.model.objective == "bidirectional":
            return self.model.logits_of_states(states, direction)
        net = _transformer(self.model)
        stack = net.stacks[-1].name
        n_rows = -(-len(states) // ROW)
        filled = functional.pad(states, (0, 0, 0, n_rows * ROW - len(states)))
        text, target = _filler(net, n_rows, ROW if len(net.stacks) == 1 else 1), None
        if len(net.stacks) > 1:
            target = _filler(net, n_rows, ROW)
        mask = (torch.arange(n_rows * ROW, device=net.device) < len(states)).view(n_rows, ROW)
        given = {stack: filled.view(n_rows, ROW, -1)}
        with _bypassed(net, given, self.ends, 0):
            return logits_of(net, text, mask, target).float()


def replay_head(model: Model) -> ReplayHead:
    """The end of a model as a function of states; costs a pass over four pieces."""
    if model.objective == "bidirectional":
        return ReplayHead(model, {})
    net = _transformer(model)
    text = probe(net.net)
    with torch.no_grad():
        return ReplayHead(model, recorded_states(net, text, text).ends)


# --- task heads -----------------------------------------------------------------------------------


def ended_states(model: Model, text: Pieces) -> Iterator[Sequence[Tensor]]:
    """For each layer, what `Model.states` returns if the blocks after it do nothing.

    Layer j is then the state of layer min(j, layer), and the last one is that state after the
    model's own final norm, if it has one.  # [batch, pieces, width] each
    """
    if not model.sites:  # vectors and ELMo, which has no final norm
        states = model.states(text)
        for layer in range(len(states)):
            yield [states[min(j, layer)] for j in range(len(states))]
        return
    net = _transformer(model)
    recorded = recorded_states(net, text, alone=True)
    stack = net.stacks[0].name
    own = recorded.states[stack]
    for layer in range(len(own)):
        outputs = [own[min(j, layer)] for j in range(1, len(own))]  # of each block
        with _bypassed(net, {stack: outputs}, recorded.ends, 0):
            yield net.states(text)


def ended(model: Model, text: Pieces, run: Callable[[], Tensor]) -> Iterator[Tensor]:
    """For each layer, what a pass over the text gives if the blocks after the layer do nothing."""
    net = _transformer(model)
    recorded = recorded_states(net, text)
    for states in recorded.states[recorded.last]:
        with _bypassed(net, {recorded.last: states}, recorded.ends, 0):
            outputs = run()
        yield outputs


# --- bypassing blocks -----------------------------------------------------------------------------

_Wrap = Callable[[nn.Module, Callable[..., Any]], Callable[..., Any]]


@contextmanager
def _bypassed(
    net: HuggingFace,
    states: Mapping[StackName, Tensor | Sequence[Tensor]],
    ends: Mapping[StackName, Any],
    stream: int,
) -> Iterator[None]:
    """The blocks of the given stacks return these states, one for all or one each; none runs."""

    def bypass(stack: StackName) -> _Wrap | None:
        if stack not in states:
            return None
        of_stack = states[stack]
        by_block = None if isinstance(of_stack, Tensor) else iter(of_stack)
        calls = max((site.index + 1 for site in net.sites if site.stack == stack), default=0)

        def wrap(block: nn.Module, run: Callable[..., Any]) -> Callable[..., Any]:
            def forward(*args: Any, **kwargs: Any) -> Any:
                running = current()
                if running is not None:
                    running.calls = calls
                given = of_stack if by_block is None else next(by_block)
                assert isinstance(given, Tensor), "one state of a block"
                read = _read(args, kwargs, stream)
                filled = batch_first(net, read)
                # Longformer pads its input to whole windows
                added = filled.shape[1] - given.shape[1]
                output = functional.pad(given.to(read.device, read.dtype), (0, 0, 0, added))
                return with_stream(ends[stack], batch_first(net, output), stream)

            return forward

        return wrap

    with wrapped(net, bypass):
        yield


@contextmanager
def wrapped(net: HuggingFace, wrap: Callable[[StackName], _Wrap | None]) -> Iterator[None]:
    """Replace the forward of each stack's blocks, where `wrap` returns a function for the stack."""
    stacks = list(blocks_of(net))
    wraps = [wrap(stack.name) for stack in net.stacks]
    owner = {block: n for n, stack in enumerate(stacks) for block in stack}
    changed = [blocks for blocks, change in zip(stacks, wraps, strict=True) if change]

    def replace_block(block: nn.Module, run: Callable[..., Any]) -> Callable[..., Any]:
        change = wraps[owner[block]]
        assert change is not None, "only the chosen stacks' blocks are replaced"
        return change(block, run)

    with replaced_forward(changed, replace_block):
        yield


def _read(args: Sequence[Any], kwargs: Mapping[str, Any], stream: int) -> Tensor:
    """The states that a block reads; of XLNet's two streams the second if `stream` is 1."""
    states: Tensor = args[stream] if len(args) > stream else kwargs["hidden_states"]
    return states


def stream_of(output: Any, stream: int) -> Tensor:
    """The states that a block returns."""
    return output if isinstance(output, Tensor) else output[stream]


def with_stream(output: Any, states: Tensor, stream: int) -> Any:
    """What a block returns, with other states."""
    if isinstance(output, Tensor):
        return states
    parts = [states if n == stream else part for n, part in enumerate(output)]
    return type(output)(parts)


def batch_first(net: HuggingFace, states: Tensor) -> Tensor:
    """[batch, pieces, width] from the shape of a block, and back."""
    return states.transpose(0, 1) if net.sequence_first else states


def _filler(net: HuggingFace, rows: int, pieces: int) -> Pieces:
    """Pieces of a text that is not read."""
    one = probe(net.net)
    ids = one.ids[:, :1].expand(rows, pieces)
    no_word = torch.full_like(ids, NO_WORD)
    counts = torch.ones(rows, dtype=torch.int64)
    return replace(
        one, ids=ids, mask=no_word < 0, words=no_word, special=no_word > 0,
        word_counts=counts, kept=counts, order=counts,
    )  # fmt: skip


def _transformer(model: Model) -> HuggingFace:
    net = require_transformer(model, "has no language-model head to read its layers with", _REMEDY)
    stacks = list(blocks_of(net))
    if len(stacks) < len(net.stacks):
        raise WorkbenchError(
            f"the blocks of {net.name} ({net.family}) were not found, so no layer can be replayed.",
            code="model-unsupported",
            remedy=_REMEDY,
        )
    return net
