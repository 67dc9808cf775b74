"""Training tasks: the content of micro-batch m of step s, and its loss, for every objective.

Sequences come in the order of the packing, random numbers from (seed, step, micro-batch). A
fraction at the end of the text, at most 64,000 tokens, is held out and corrupted the same way every
time it is scored. Costs: those of the objective on the CPU, some milliseconds per micro-batch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn
from torch.nn import functional

from workbench.analyses.training import objectives
from workbench.analyses.training.curves import Work
from workbench.analyses.training.elmo import SAMPLED, bilm_losses, sample, spell
from workbench.analyses.training.objectives.chunked_lm_loss import output_map, token_losses
from workbench.analyses.training.objectives.distillation import Distilled
from workbench.analyses.training.objectives.electra import Electra
from workbench.analyses.training.objectives.masked import IGNORED, masked_statically
from workbench.analyses.training.objectives.skipgram import WordSampler
from workbench.analyses.training.objectives.spanbert import SpanBert
from workbench.analyses.training.packing import Packing, Sentences, Sequences
from workbench.analyses.training.task import Micro, Objective, Plan, Task, WordObjective, has
from workbench.analyses.training.trainer import seed_of
from workbench.analyses.training.vocabulary import Vocabulary
from workbench.models.bilm import BiLM, Words

HELD_OUT_TOKENS = 64_000
COPIES = 10  # copies of the text with different masks, for static masking
_HELD_OUT_STEP = -1  # the step that seeds the corruption of the held-out text

Corrupt = Callable[
    [Sequences, Generator, int], Mapping[str, Tensor]
]  # the last argument is the epoch


@dataclass(frozen=True)
class Shortened(Packing):
    """A packing without its last sequences, which are held out."""

    without: int = 0

    def __len__(self) -> int:
        return super().__len__() - self.without


def split_held_out(packing: Packing, fraction: float = 0.02) -> tuple[Packing, NDArray[np.int64]]:
    """The packing to train on, and the indices of the held-out sequences."""
    n_sequences = len(packing)
    n_out = n_held_out(n_sequences, packing.length, fraction)
    train_part = Shortened(packing.store, packing.vocabulary, packing.length, packing.seed, n_out)
    return train_part, np.arange(n_sequences - n_out, n_sequences)


def n_held_out(n_sequences: int, length: int, fraction: float) -> int:
    """Number of sequences at the end of a text that are held out."""
    if n_sequences < 2:
        return 0
    return min(int(np.ceil(n_sequences * fraction)), max(HELD_OUT_TOKENS // length, 1))


def piece_task(
    objective: str | Objective,
    net: nn.Module,
    packing: Packing,
    held_out_index: NDArray[np.int64],
    plan: Plan,
    world: int,
    *,
    unit: str = "",
    static: bool = False,
    corruption: Mapping[str, float] = MappingProxyType({}),
) -> Task:
    """The task of a model that reads pieces.

    `corruption` has arguments of the objective, such as its rate, for training; held-out text
    always uses the objective's defaults.
    """
    vocabulary = packing.vocabulary
    size = plan.batch_size // plan.micros(world)
    row = objectives.known()[objective] if isinstance(objective, str) else objective
    corrupt = _corruption(row, vocabulary, plan.seed, unit, static, corruption)
    corrupt_held_out = _corruption(row, vocabulary, plan.seed, unit, static, {}, scored=True)

    def draw(step: int, index: int) -> Micro:
        position = step * plan.batch_size + index * size
        generator = Generator().manual_seed(seed_of(plan.seed, step, index))
        batch = corrupt(packing.batch(position, size), generator, position // len(packing))
        return micro(batch, row)

    @lru_cache(maxsize=1)
    def held_out() -> Sequence[Micro]:
        micros = []
        for first in range(0, len(held_out_index), size):
            generator = Generator().manual_seed(seed_of(plan.seed, _HELD_OUT_STEP, first))
            sequences = packing.sequences(held_out_index[first : first + size])
            micros.append(micro(corrupt_held_out(sequences, generator, 0), row))
        return micros

    return Task(
        draw,
        row.losses(vocabulary) if row.losses else token_losses,
        row.terms,
        row.weights,
        held_out if len(held_out_index) else None,
        work_of(net),
        packing.length,
        row.mapped,
    )


def _corruption(
    objective: Objective,
    vocabulary: Vocabulary,
    seed: int,
    unit: str,
    static: bool,
    arguments: Mapping[str, float],
    scored: bool = False,
) -> Corrupt:
    function = objective.scored if scored and objective.scored else objective.corrupt
    units = {"unit": unit} if unit and has(function, "unit") else {}
    options: dict[str, Any] = {**units, **arguments}

    def corrupt(sequences: Sequences, generator: Generator, epoch: int) -> Mapping[str, Tensor]:
        if static:
            copy = epoch % COPIES
            return masked_statically(
                sequences.tokens,
                sequences.special,
                sequences.indices,
                vocabulary,
                seed=seed,
                copy=copy,
                **options,
            )
        starts = {"sentences": sequences.sentences} if has(function, "sentences") else {}
        return function(
            sequences.tokens, sequences.special, generator, vocabulary, **starts, **options
        )

    return corrupt


def work_of(net: nn.Module) -> Work | None:
    """The arithmetic per token of a transformer; None for other models.

    In an encoder-decoder a token passes one of two stacks, so half of the weights count. The layers
    of ALBERT share weights, which count once per layer.
    """
    if isinstance(net, (Electra, Distilled)) or not hasattr(net, "config"):
        return None
    if isinstance(net, SpanBert):  # its second head is small enough to ignore
        net = net.bert
    config: Any = net.config
    output = output_map(net)
    embeddings = {id(m.weight) for m in net.modules() if isinstance(m, nn.Embedding)}
    skipped = embeddings | {id(output.weight)}
    matrices = sum(p.numel() for p in net.parameters() if p.ndim > 1 and id(p) not in skipped)
    layers = int(config.num_hidden_layers)
    if config.model_type == "albert":
        matrices *= layers
    if config.is_encoder_decoder:
        matrices //= 2
    return Work(matrices, output.weight.numel(), layers, int(config.hidden_size))


# --- micro-batches --------------------------------------------------------------------------------
#
# From an objective's batch to a micro-batch: positions of targets instead of labels, and counts.
#
# Each term of a loss is a mean over its own targets, which are counted here. Costs: one pass over
# the labels.


def micro(batch: Mapping[str, Tensor], objective: Objective) -> Micro:
    """Replace labels by `at` [targets], flat positions of the targets, and `gold` [targets]."""
    inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}
    labels = batch["labels"]
    if objective.next_token:
        labels = functional.pad(labels[:, 1:], (0, 1), value=IGNORED)
    at = (labels.flatten() != IGNORED).nonzero()[:, 0]
    inputs["at"], inputs["gold"] = at, labels.flatten()[at]
    counts = [len(at), *objective.complete(inputs, labels)]
    seen = inputs["attention_mask"]  # by each token if [batch, 1, length, length]
    tokens = int((seen.diagonal(dim1=2, dim2=3) if seen.ndim == 4 else seen).sum())
    if "decoder_input_ids" in inputs:
        tokens += counts[0]
    if bool(seen.all()):  # attention is faster without a mask
        del inputs["attention_mask"]
    return Micro(inputs, torch.tensor(counts), tokens)


# --- batches of whole words -----------------------------------------------------------------------
#
# Tasks of models that read whole words: ELMo over sentences, static vectors over windows of text.
#
# Both take as many words per step as other families take tokens. Costs: some milliseconds of CPU
# per micro-batch; distinct words are spelt once, pairs take a few passes over the batch.


def elmo_task(
    net: BiLM, sentences: Sentences, held_out_index: NDArray[np.int64], plan: Plan, world: int
) -> Task:
    """The task of ELMo: both directions of enough sentences for the words of a batch."""
    spelt = spell(net.words, net.elmo.options.max_characters)  # [words + 1, characters]
    mean_length = max(1.0, len(sentences.store) / sentences.store.manifest.sentences)
    micro_sequences = plan.batch_size // plan.micros(world)
    size = max(
        1, round(micro_sequences * sentences.length / mean_length)
    )  # sentences per micro-batch
    per_step = size * plan.micros(world)
    full_softmax = len(net.bias) <= 2 * SAMPLED

    def read(sequences: Sequences, generator: Generator) -> Micro:
        inputs = _elmo_inputs(sequences.tokens, spelt, net, sentences)
        if not full_softmax:
            inputs["sampled"] = sample(len(net.bias), SAMPLED, generator)
        lengths = inputs["lengths"]
        targets = 2 * int((lengths - 1).sum())
        return Micro(inputs, torch.tensor([targets]), int(lengths.sum()))

    def draw(step: int, index: int) -> Micro:
        generator = Generator().manual_seed(seed_of(plan.seed, step, index))
        return read(sentences.batch(step * per_step + index * size, size), generator)

    @lru_cache(maxsize=1)
    def held_out() -> Sequence[Micro]:
        parts = [
            held_out_index[first : first + size] for first in range(0, len(held_out_index), size)
        ]
        return [read(sentences.sequences(part), Generator().manual_seed(0)) for part in parts]

    return Task(draw, bilm_losses, held_out=held_out if len(held_out_index) else None)


def _elmo_inputs(
    tokens: Tensor, spelt: Tensor, net: BiLM, sentences: Sentences
) -> dict[str, Tensor]:
    """Characters of the distinct words, the index of each word among them, and the targets.

    Columns that are padding in all words, and too far from a word for any filter to see it, change
    nothing and are left out.
    """
    lengths = sentences.vocabulary.attention_mask(tokens).sum(1)  # [batch]
    distinct, places = torch.unique(tokens, return_inverse=True)
    characters = spelt[distinct]  # [distinct, characters]
    longest = int((characters != spelt[-1, -1]).sum(1).max())
    widest = max(filter_width for filter_width, _ in net.elmo.options.filters)
    unknown = net.words.unknown
    return {
        "characters": characters[:, : longest + widest].long(),
        "places": places,
        "lengths": lengths,
        "gold": tokens.masked_fill(tokens >= len(net.bias), unknown),
    }


def vectors_task(
    objective: WordObjective, words: Words, packing: Packing, plan: Plan, world: int
) -> Task:
    """The task of static vectors: words and those around them in windows of text."""
    sampler = WordSampler(words)
    size = plan.batch_size // plan.micros(world)
    draw_words, losses = objective.draw, objective.losses
    assert draw_words is not None and losses is not None, "an objective that has steps"

    def draw(step: int, index: int) -> Micro:
        generator = Generator().manual_seed(seed_of(plan.seed, step, index))
        tokens = packing.batch(step * plan.batch_size + index * size, size).tokens
        inputs = draw_words(tokens, sampler, generator)
        return Micro(inputs, torch.tensor([len(next(iter(inputs.values())))]), tokens.numel())

    return Task(draw, losses)
