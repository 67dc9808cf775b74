"""From tokens and an objective to a task: what micro-batch m of step s holds, and its loss.

Sequences come in the packing's order, chance from (seed, step, micro-batch). A share at the
end of the text, no more than 64,000 tokens, is held out, and corrupted the same way whenever it is
scored. Costs what the objective costs on the CPU: some milliseconds a micro-batch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn
from torch.nn import functional

from workbench.models.bilm import BiLM, Words
from workbench.training import distillation, electra, spanbert
from workbench.training.chunked_lm_loss import nats_at, output_map
from workbench.training.curves import Work
from workbench.training.elmo import SAMPLED, bilm_losses, sample, spell
from workbench.training.objectives import BY_SENTENCE, IGNORED, OBJECTIVES, takes
from workbench.training.objectives.masked import masked_statically
from workbench.training.packing import Packing, Sentences, Sequences
from workbench.training.skipgram import NEGATIVES, WINDOW, Chances, pairs, skipgram_losses
from workbench.training.task import Losses, Micro, Plan, Task
from workbench.training.trainer import seed_of
from workbench.training.vocabulary import Vocabulary

HELD_OUT_TOKENS = 64_000
COPIES = 10  # of the text with other masks, where masks are static
_HELD_OUT_STEP = -1  # whose chance the held-out text's corruption is

Corrupt = Callable[[Sequences, Generator, int], Mapping[str, Tensor]]  # the last is the epoch


@dataclass(frozen=True)
class Shortened(Packing):
    """A packing without its last sequences, which are held out."""

    without: int = 0

    def __len__(self) -> int:
        return super().__len__() - self.without


def parted(packing: Packing, share: float = 0.02) -> tuple[Packing, NDArray[np.int64]]:
    """What is trained on, and the numbers of the sequences that are held out."""
    whole = len(packing)
    held = min(int(np.ceil(whole * share)), max(HELD_OUT_TOKENS // packing.length, 1))
    held = held if whole > 1 else 0
    part = Shortened(packing.store, packing.vocabulary, packing.length, packing.seed, held)
    return part, np.arange(whole - held, whole)


def task_of(
    objective: str,
    net: nn.Module,
    packing: Packing,
    held: NDArray[np.int64],
    plan: Plan,
    world: int,
    *,
    unit: str = "",
    static: bool = False,
    hidden: float | None = None,
) -> Task:
    """The task of a model that reads pieces.

    A share `hidden` of them is hidden in training; of what is held out it is the objective's own.
    """
    vocabulary = packing.vocabulary
    size = plan.batch // plan.micros(world)
    corrupt = _corruption(objective, vocabulary, plan.seed, unit, static, hidden)
    scored = _corruption(objective, vocabulary, plan.seed, unit, static, scored=True)
    losses, terms, weights = _losses(objective, vocabulary)

    def draw(step: int, number: int) -> Micro:
        position = step * plan.batch + number * size
        generator = Generator().manual_seed(seed_of(plan.seed, step, number))
        found = corrupt(packing.batch(position, size), generator, position // len(packing))
        return micro(found, objective)

    @lru_cache(maxsize=1)
    def held_out() -> Sequence[Micro]:
        micros = []
        for first in range(0, len(held), size):
            generator = Generator().manual_seed(seed_of(plan.seed, _HELD_OUT_STEP, first))
            sequences = packing.sequences(held[first : first + size])
            micros.append(micro(scored(sequences, generator, 0), objective))
        return micros

    return Task(
        draw,
        losses,
        terms,
        weights,
        held_out if len(held) else None,
        work_of(net),
        packing.length,
        len(terms) if objective == "masked-spans" else 1,
    )


def _corruption(
    objective: str,
    vocabulary: Vocabulary,
    seed: int,
    unit: str,
    static: bool,
    hidden: float | None = None,
    scored: bool = False,
) -> Corrupt:
    alike = {"distilled": "masked"} | ({"denoisers": "random-spans"} if scored else {})
    name = alike.get(objective, objective)
    more: dict[str, Any] = {"unit": unit} if unit and takes(name, "unit") else {}
    if hidden is not None:
        more["rate"] = hidden

    def corrupt(found: Sequences, generator: Generator, epoch: int) -> Mapping[str, Tensor]:
        if static:
            copy = epoch % COPIES
            return masked_statically(
                found.tokens, found.special, found.number, vocabulary, seed=seed, copy=copy, **more
            )
        told = {"sentences": found.sentences} if name in BY_SENTENCE else {}
        batch = OBJECTIVES[name](found.tokens, found.special, generator, vocabulary, **told, **more)
        return {**batch, "tokens": found.tokens} if objective == "replaced" else batch

    return corrupt


def _losses(
    objective: str, vocabulary: Vocabulary
) -> tuple[Losses, tuple[str, ...], tuple[float, ...]]:
    if objective in OF_PAIRS:
        of_pairs = partial(_of_pairs, asked=OF_PAIRS[objective])
        return of_pairs, tuple(objective.split("-")), (1.0, 1.0)
    if objective == "masked-spans":
        return spanbert.spanbert_losses, spanbert.TERMS, spanbert.WEIGHTS
    if objective == "replaced":
        losses = partial(electra.electra_losses, vocabulary=vocabulary)
        return losses, electra.TERMS, electra.WEIGHTS
    if objective == "distilled":
        return distillation.distilled_losses, distillation.TERMS, distillation.WEIGHTS
    return _predicted, ("loss",), (1.0,)


def _predicted(net: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    return nats_at(net, inputs)[0][None]


def _of_pairs(net: nn.Module, inputs: Mapping[str, Tensor], asked: tuple[str, str]) -> Tensor:
    label, logits = asked
    nats, answer = nats_at(net, {name: tensor for name, tensor in inputs.items() if name != label})
    found = answer[logits].float()  # [batch, 2]
    return torch.stack([nats, functional.cross_entropy(found, inputs[label], reduction="sum")])


def work_of(net: nn.Module) -> Work | None:
    """What a token of a transformer costs; None where its parts are of another kind.

    Of an encoder-decoder a token passes one stack: half of the weights, as stacks go. The layers of
    ALBERT share their weights, and each token passes them as often.
    """
    if isinstance(net, (electra.Electra, distillation.Distilled)) or not hasattr(net, "config"):
        return None
    if isinstance(net, spanbert.SpanBert):  # its second head is small
        net = net.bert
    config: Any = net.config
    output = output_map(net)
    tables = {id(m.weight) for m in net.modules() if isinstance(m, nn.Embedding)}
    skipped = tables | {id(output.weight)}
    matrices = sum(p.numel() for p in net.parameters() if p.ndim > 1 and id(p) not in skipped)
    layers = int(config.num_hidden_layers)
    if config.model_type == "albert":
        matrices *= layers
    if config.is_encoder_decoder:
        matrices //= 2
    return Work(matrices, output.weight.numel(), layers, int(config.hidden_size))


# --- micro-batches --------------------------------------------------------------------------------
#
# From an objective's batch to a micro-batch: places wanted instead of labels, and what is
# counted.
#
# Each term of a loss is a mean over targets of its own, which are counted here. Costs a look at
# the labels.

# What is asked of a pair of texts, and the model's answer, beside masks.
OF_PAIRS: Mapping[str, tuple[str, str]] = {
    "masked-next": ("next_sentence_label", "seq_relationship_logits"),
    "masked-order": ("sentence_order_label", "sop_logits"),
}


def micro(batch: Mapping[str, Tensor], objective: str) -> Micro:
    """Labels become `at` [targets], the flat places wanted, and `gold` [targets]."""
    inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}
    labels = batch["labels"]
    if objective == "causal":  # what is predicted stands one place on
        labels = functional.pad(labels[:, 1:], (0, 1), value=IGNORED)
    at = (labels.flatten() != IGNORED).nonzero()[:, 0]
    inputs["at"], inputs["gold"] = at, labels.flatten()[at]
    counts = [len(at)]
    tokens = int(inputs["attention_mask"].sum())
    if objective in OF_PAIRS:
        counts.append(len(labels))
    if objective == "masked-spans":
        counts.append(len(at))
        own = {name: inputs[name].flatten()[at] for name in spanbert.OWN}  # [targets] each
        row = at - at % labels.shape[1]  # the flat place where each target's row begins
        inputs |= own | {name: own[name] + row for name in ("left", "right")}
    if objective == "replaced":
        counts.append(tokens)
    if objective == "distilled":
        counts += [counts[0], tokens]
    if "decoder_input_ids" in inputs:
        tokens += counts[0]
    if bool(inputs["attention_mask"].all()):  # attention is faster without a mask
        del inputs["attention_mask"]
    elif objective == "distilled":
        inputs["real"] = inputs["attention_mask"].flatten().nonzero()[:, 0]
    return Micro(inputs, torch.tensor(counts), tokens)


# --- batches of whole words -----------------------------------------------------------------------
#
# Tasks of the models that read whole words: ELMo over sentences, vectors over windows of text.
#
# Both take as many words a step as other families take tokens. Costs some milliseconds of CPU a
# micro-batch: distinct words are spelt once, pairs are made in a few passes over the batch.


def elmo_task(
    net: BiLM, sentences: Sentences, held: NDArray[np.int64], plan: Plan, world: int
) -> Task:
    """Both directions of sentences, as many of them as make up the words of a batch."""
    spelt = spell(net.words, net.elmo.options.max_characters)  # [words + 1, characters]
    mean = max(1.0, len(sentences.store) / sentences.store.manifest.sentences)
    of_micro = plan.batch // plan.micros(world)
    size = max(1, round(of_micro * sentences.length / mean))  # sentences a micro-batch
    a_step = size * plan.micros(world)
    few = len(net.bias) <= 2 * SAMPLED

    def read(found: Sequences, generator: Generator) -> Micro:
        inputs = _bilm_inputs(found.tokens, spelt, net, sentences)
        if not few:
            inputs["sampled"] = sample(len(net.bias), SAMPLED, generator)
        lengths = inputs["lengths"]
        targets = 2 * int((lengths - 1).sum())
        return Micro(inputs, torch.tensor([targets]), int(lengths.sum()))

    def draw(step: int, number: int) -> Micro:
        generator = Generator().manual_seed(seed_of(plan.seed, step, number))
        return read(sentences.batch(step * a_step + number * size, size), generator)

    @lru_cache(maxsize=1)
    def held_out() -> Sequence[Micro]:
        parts = [held[first : first + size] for first in range(0, len(held), size)]
        return [read(sentences.sequences(part), Generator().manual_seed(0)) for part in parts]

    return Task(draw, bilm_losses, held_out=held_out if len(held) else None)


def _bilm_inputs(
    tokens: Tensor, spelt: Tensor, net: BiLM, sentences: Sentences
) -> dict[str, Tensor]:
    """Distinct words spelt, where they stand, and what is to be predicted.

    Columns of characters that are padding in all words, and so wide that no filter sees a word
    beside them, change nothing and are left out.
    """
    lengths = sentences.vocabulary.attention_mask(tokens).sum(1)  # [batch]
    distinct, places = torch.unique(tokens, return_inverse=True)
    characters = spelt[distinct]  # [distinct, characters]
    longest = int((characters != spelt[-1, -1]).sum(1).max())
    widest = max(seen for seen, _ in net.elmo.options.filters)
    unknown = net.words.unknown
    return {
        "characters": characters[:, : longest + widest].long(),
        "places": places,
        "lengths": lengths,
        "gold": tokens.masked_fill(tokens >= len(net.bias), unknown),
    }


def vectors_task(words: Words, packing: Packing, plan: Plan, world: int) -> Task:
    """Pairs of words near one another in windows of text."""
    chances = Chances(words)
    size = plan.batch // plan.micros(world)

    def draw(step: int, number: int) -> Micro:
        generator = Generator().manual_seed(seed_of(plan.seed, step, number))
        tokens = packing.batch(step * plan.batch + number * size, size).tokens
        centers, contexts = pairs(tokens, chances, WINDOW, generator)
        negatives = chances.negatives((len(centers), NEGATIVES), generator)
        inputs = {"centers": centers, "contexts": contexts, "negatives": negatives}
        return Micro(inputs, torch.tensor([len(centers)]), tokens.numel())

    return Task(draw, skipgram_losses)
