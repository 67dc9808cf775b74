"""Text that a model writes, piece after piece, with the distribution at every step.

    continued(model, text, 20, on_step=print)

transformers' `generate` runs the model, with its cache of keys and values. A hook reads the logits
of each step, so the probability of a piece is that of the model, whatever chose it: temperature and
nucleus sampling, or rules of generation in the model's own configuration (a forced first piece, a
minimum length, no repeated n-grams). It has no beams, so each piece can be shown when it is chosen;
`written_texts` writes for many texts, with beams too. Costs: one pass over the text, then one pass
per piece over this piece alone.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers.generation.logits_process import (
    LogitsProcessor,
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopPLogitsWarper,
)

from workbench.core.errors import WorkbenchError
from workbench.engine.batch import Pieces
from workbench.engine.forward_pass import length_batches
from workbench.engine.halving import Limit
from workbench.engine.model import Model
from workbench.engine.taps import session
from workbench.models.huggingface import require_transformer

PIECES = 1 << 14  # of the texts, in a batch of `written_texts`


@dataclass(frozen=True)
class Step:
    """A chosen piece, and the most probable pieces in its place with their probabilities."""

    piece: int
    probability: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Sampling:
    """How a piece is chosen: the most probable one, or one drawn at random."""

    sample: bool = False
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.temperature > 0 or not 0 < self.top_p <= 1:
            raise WorkbenchError(
                "temperature must be above 0, and top_p above 0 and not above 1.",
                code="setting-invalid",
                remedy="Use a temperature such as 0.7 and a top_p such as 0.9; both default to 1.",
            )
        if not self.sample and (self.temperature, self.top_p) != (1.0, 1.0):
            raise WorkbenchError(
                "temperature and top_p have no effect when the most probable piece is chosen.",
                code="setting-invalid",
                remedy="Pass sample=True as well.",
            )


def continued(
    model: Model,
    text: Pieces,
    max_pieces: int,
    top: int = 5,
    sampling: Sampling = Sampling(),
    on_step: Callable[[Step], object] | None = None,
) -> tuple[list[Step], bool]:
    """The pieces written after a text, or by a decoder for it, and whether the end was reached.

    # text: [1, pieces]
    """
    net, ends = _writer(model)
    recorder = _Recorder(
        text.ids.shape[1] if model.objective == "causal" else 1, ends, top, on_step
    )
    with (
        seeded(model.device, sampling.seed),
        torch.no_grad(),
        session((), None, {model.stacks[0].name: text}),  # its words, for a `Write` of one
        recorder.of(net),
    ):
        ids = net.generate(
            **_arguments(model, text, max_pieces, sampling),
            logits_processor=LogitsProcessorList([recorder]),
        )
    recorder.finish(ids)
    steps = recorder.steps
    return steps, bool(steps) and steps[-1].piece in ends


def written_texts(
    model: Model,
    text: Pieces,
    max_pieces: int,
    beams: int = 1,
    sampling: Sampling = Sampling(),
    on_done: Callable[[int], object] | None = None,
) -> list[list[int]]:
    """The pieces that a model writes after each text, or for it, without special ones.

    A decoder gets texts of the same length together, so that nothing is padded. `on_done` gets the
    number of written texts.

    # text: [texts, pieces], on the host
    """
    net, _ = _writer(model)
    lengths = text.mask.sum(1)
    is_causal = model.objective == "causal"
    special = set(model.tokenizer.all_special_ids)  # type: ignore[attr-defined]
    rows: list[list[int]] = [[] for _ in range(len(text))]
    done = 0
    with seeded(model.device, sampling.seed), torch.no_grad():
        for places, width in length_batches(lengths, Limit(PIECES // beams)):
            groups = [places[lengths[places] == n] for n in lengths[places].unique()]
            for group in groups if is_causal else [places]:
                read = text.take(group)
                read = read.narrowed(int(lengths[group].max()) if is_causal else width)
                ids = net.generate(
                    **_arguments(model, read.to(model.device), max_pieces, sampling, beams)
                )
                start = read.ids.shape[1] if is_causal else 1
                for place, row in zip(group.tolist(), ids[:, start:].tolist(), strict=True):
                    rows[place] = [piece for piece in row if piece not in special]
                done += len(group)
                if on_done is not None:
                    on_done(done)
    return rows


def _writer(model: Model) -> tuple[Any, frozenset[int]]:
    """The net of a model that writes, and the pieces that end its texts."""
    net: Any = require_transformer(model, "does not write text", "Choose mini:gpt or mini:t5.").net
    return net, _ends(net, model)


def _arguments(
    model: Model, text: Pieces, max_pieces: int, sampling: Sampling, beams: int = 1
) -> dict[str, Any]:
    """The arguments of transformers' `generate`."""
    net, ends = _writer(model)
    options: dict[str, Any] = {
        "input_ids": text.ids,
        "attention_mask": text.mask.long(),
        "max_new_tokens": max_pieces,
        "num_beams": beams,
        "do_sample": sampling.sample,
        "use_cache": _has_cache(net, model),
        "forced_eos_token_id": None,  # BART's config ends every text that is long enough
        "pad_token_id": model.symbols.pad,
        "eos_token_id": sorted(ends) or None,
    }
    if sampling.sample:
        options |= {"temperature": sampling.temperature, "top_p": sampling.top_p, "top_k": 0}
    return options


def choose(logits: Tensor, sampling: Sampling, top: int) -> Step:
    """One step of a model that `generate` cannot run.  # [1, choices]"""
    probabilities = logits.softmax(-1)
    if sampling.sample:
        ids = torch.empty(1, 0, dtype=torch.int64)
        warped = TopPLogitsWarper(sampling.top_p)(
            ids, TemperatureLogitsWarper(sampling.temperature)(ids, logits)
        )
        chosen = int(torch.multinomial(warped.softmax(-1), 1))
    else:
        chosen = int(logits.argmax())
    return _step(probabilities[0], chosen, top)


@contextmanager
def seeded(device: torch.device, seed: int) -> Iterator[None]:
    """A context with its own random numbers; those outside are not advanced."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def _has_cache(net: Any, model: Model) -> bool:
    """Whether the cache fits; transformers sizes that of T5's decoder by the encoder's layers."""
    config = net.config.get_text_config(decoder=True)
    return bool(model.stacks[-1].layers <= config.num_hidden_layers)


def _ends(net: Any, model: Model) -> frozenset[int]:
    """The pieces that end a text; some models have several."""
    config = net.generation_config.eos_token_id
    known = [config] if isinstance(config, int) else list(config or ())
    own = [] if model.symbols.end is None else [model.symbols.end]
    return frozenset(known or own)


def _step(probabilities: Tensor, chosen: int, top: int) -> Step:
    best = probabilities.topk(min(top, len(probabilities)))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return Step(chosen, float(probabilities[chosen]), tuple(pairs))


@dataclass(eq=False)
class _Recorder(LogitsProcessor):  # type: ignore[misc]  # of an untyped base
    """Records each step's distribution; a step is complete when the next one begins."""

    prompt: int  # number of pieces before the first step
    ends: frozenset[int]
    top: int
    on_step: Callable[[Step], object] | None
    steps: list[Step] = field(default_factory=list)
    logits: Tensor | None = None  # [choices], of the model's last pass
    waiting: Tensor | None = None  # [choices], probabilities of the piece that is not yet chosen

    @contextmanager
    def of(self, net: nn.Module) -> Iterator[None]:
        """Read the logits of every pass of a model in the context."""

        def read(module: nn.Module, args: object, output: Any) -> None:
            self.logits = output.logits[0, -1]

        hook = net.register_forward_hook(read)
        try:
            yield
        finally:
            hook.remove()

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Called once before each piece is chosen; it changes nothing."""
        assert self.logits is not None, "a pass of the model comes before a choice"
        self._complete(input_ids[0])
        self.waiting = self.logits.float().softmax(-1)
        return scores

    def finish(self, ids: Tensor) -> None:
        """Add the last step.  # [1, pieces]"""
        self._complete(ids[0])

    def _complete(self, ids: Tensor) -> None:
        """Add the step whose piece has been chosen; steps after the end do not count."""
        position = self.prompt + len(self.steps)
        ended = bool(self.steps) and self.steps[-1].piece in self.ends
        if self.waiting is None or ended or position >= len(ids):
            return
        self.steps.append(_step(self.waiting, int(ids[position]), self.top))
        self.waiting = None
        if self.on_step is not None:
            self.on_step(self.steps[-1])
