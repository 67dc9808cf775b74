"""The tuned lens: what each layer predicts through a trained affine map, against the logit lens.

Maps learn on the train split and are scored on held-out texts: how far the lens's distribution is
from the final one, how often both have the same most likely piece, how well it predicts the true
pieces, and the bias check of the paper (the divergence of mean distributions). Two baselines read
no layer: the model's mean distribution and the frequencies of pieces. Costs: what
`tuned_maps` states for training; a pass over the train texts for statistics; a pass over the
held-out texts, with the logits of every layer twice.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.analyses.lenses.experiments import TunedLens
from workbench.analyses.lenses.tuned_maps import (
    Maps,
    Predicted,
    Reader,
    Trained,
    TrainFacts,
    arrays_of,
    divergence,
    train_facts,
    trained_maps,
)
from workbench.core.arrays import Floats
from workbench.core.cluster_sample import ClusterSample
from workbench.core.errors import WorkbenchError
from workbench.core.findings import capital, of_all
from workbench.core.stats import document_weights, interval, interval_around
from workbench.corpora.encode import encode
from workbench.corpora.splits import DEV, PARTS, TEST, TRAIN, Parts, parts_of
from workbench.engine.model import Model
from workbench.engine.taps import StackName
from workbench.experiment.definition import Caveat, Inputs, Progress, Result

LOGIT, TUNED = "logit", "tuned"
LENSES = (LOGIT, TUNED)
FINAL, CONSTANT, FREQUENCIES = "model", "constant", "frequencies"
SAMPLES = 100  # bootstrap samples of the bias
MEANS = 1 << 26  # numbers of mean distributions in memory, of as many layers as fit
MEASURES = ("loss", "agreement", "accuracy", "cross_entropy")  # summed per document

Key = tuple[str, int, str]  # stack, layer, lens; of a baseline "", -1 and its name


def run(inputs: Inputs, settings: TunedLens, progress: Progress) -> Result:
    """Train the maps and compute the tables of `tuned-lens`."""
    started = time.perf_counter()
    model = inputs.model
    parts = parts_of(inputs.corpus, inputs.split, settings.split_sizes, inputs.seed)
    batch = encode(parts.docs)
    documents = {
        name: [n for n, part in enumerate(parts.part_of) if PARTS[part] == name] for name in PARTS
    }
    reader = Reader.of(model)
    facts = train_facts(
        reader,
        batch,
        documents[TRAIN],
        inputs.seed,
        lambda done: progress(done, len(documents[TRAIN]), "reading the layers of training texts"),
    )
    steps = settings.steps_over(len(documents[TRAIN]))
    trained = trained_maps(
        reader,
        facts.scales,
        batch,
        documents[TRAIN],
        documents[DEV],
        steps,
        settings.batch_size,
        settings.learning_rate,
        inputs.seed,
        lambda step, loss: progress(step, steps, f"training the lens: loss {loss:.4f}"),
    )
    scores = _Scores(documents[TEST])
    groups = list(_groups(model, reader.choices))
    for layers in groups:
        for predicted in reader.predictions(batch, documents[TEST], inputs.seed):
            _score(reader, predicted, trained.maps, facts, scores, inputs.seed, layers)
            total = len(groups) * len(documents[TEST])
            progress(scores.done, total, "scoring held-out texts")
        scores.settle()
    if not scores.counts.any():
        raise WorkbenchError(
            "the held-out texts have no piece to predict.",
            code="too-few-sentences",
            where=inputs.corpus.name,
            remedy="Choose a corpus that has words.",
        )
    tables = _tables(model, scores, trained, inputs.seed)
    tables["facts"] = _facts(model, parts, facts, scores, trained, time.perf_counter() - started)
    return Result(tables, arrays_of(trained.maps), tuple(_caveats(parts, trained, settings)))


# --- scores on held-out texts ---------------------------------------------------------------------


@dataclass(eq=False)
class _Scores:
    """Sums over the predictions of each document, and of distributions in bootstrap samples."""

    documents: Sequence[int]
    sums: dict[Key, Floats] = field(default_factory=dict)  # [documents, MEASURES]
    means: dict[Key, Tensor] = field(default_factory=dict)  # [1 + SAMPLES, choices]
    biases: dict[Key, Floats] = field(default_factory=dict)  # [1 + SAMPLES], of settled means
    done: int = 0  # documents, once for each group of layers

    def __post_init__(self) -> None:
        self.row_of = {document: row for row, document in enumerate(self.documents)}
        self.counts = np.zeros(len(self.documents))  # predictions of each document

    def add(self, key: Key, rows: NDArray[np.int64], values: Tensor) -> None:
        """Add the measures of some predictions.  # rows: [n]; values: [n, MEASURES]"""
        sums = self.sums.setdefault(key, np.zeros((len(self.documents), len(MEASURES))))
        np.add.at(sums, rows, values.double().cpu().numpy())

    def add_mean(self, key: Key, weights: Tensor, probabilities: Tensor) -> None:
        """Add distributions, as often as each is in each sample.

        # [1 + SAMPLES, n], [n, choices]
        """
        sums = weights @ probabilities
        self.means[key] = self.means[key] + sums if key in self.means else sums

    def settle(self) -> None:
        """Compare the mean distributions of some layers with the final one, and drop them."""
        for key, mean in self.means.items():
            self.biases[key] = _bias(self.means["", -1, FINAL], mean)
        self.means.clear()


def _groups(model: Model, choices: int) -> Iterator[list[tuple[StackName, int]]]:
    """The layers whose mean distributions are in memory at the same time."""
    layers = [(stack.name, layer) for stack in model.stacks for layer in range(stack.layers)]
    size = max(1, MEANS // ((1 + SAMPLES) * choices * len(LENSES)))
    yield from (layers[first : first + size] for first in range(0, len(layers), size))


@torch.no_grad()
def _score(
    reader: Reader,
    predicted: Predicted,
    maps: Mapping[StackName, Maps],
    facts: TrainFacts,
    scores: _Scores,
    seed: int,
    layers: Sequence[tuple[StackName, int]],
) -> None:
    """Add the scores of a batch: of both lenses at some layers, and first of the baselines."""
    final = reader.final(predicted)  # [n, choices]
    best, gold = final.argmax(-1), predicted.gold
    rows = np.array([scores.row_of[each] for each in predicted.document.tolist()], dtype=np.int64)
    documents = np.unique(predicted.document)
    scores.done += len(documents)
    drawn = document_weights(documents.tolist(), SAMPLES, seed)  # [1 + SAMPLES, documents]
    weights = torch.from_numpy(drawn[:, np.searchsorted(documents, predicted.document)])
    weights = weights.float().to(final.device)  # [1 + SAMPLES, n]

    def measured(key: Key, lens: Tensor, loss: Tensor | None = None) -> None:
        likeliest = lens.argmax(-1)
        loss = divergence(final, lens).clamp(min=0) if loss is None else loss
        nats = -lens.gather(-1, gold[:, None])[:, 0]
        values = [loss, likeliest == best, likeliest == gold, nats]
        scores.add(key, rows, torch.stack([each.double() for each in values], 1))

    if not scores.biases:  # the first group of layers
        np.add.at(scores.counts, rows, 1)
        for name, distribution in ((CONSTANT, facts.constant), (FREQUENCIES, facts.frequencies)):
            measured(("", -1, name), distribution.log().expand_as(final))
        measured(("", -1, FINAL), final, torch.zeros(len(final), device=final.device))
    scores.add_mean(("", -1, FINAL), weights, final.exp())
    for stack, layer in layers:
        for name in LENSES:
            change = None if name == LOGIT else maps[stack]
            lens = reader.logits(predicted, stack, [layer], change)[0].log_softmax(-1)
            measured((stack, layer, name), lens)
            scores.add_mean((stack, layer, name), weights, lens.exp())


# --- tables ---------------------------------------------------------------------------------------

_MEASURED = (
    "loss lower upper agreement agreement_lower agreement_upper accuracy cross_entropy gain "
    "gain_lower gain_upper n".split()
)
_LAYER = ["stack", "layer"]


def _tables(model: Model, scores: _Scores, trained: Trained, seed: int) -> dict[str, pd.DataFrame]:
    draws = _draws(scores, seed)
    keys: list[Key] = [
        (stack.name, layer, lens)
        for stack in model.stacks
        for layer in range(stack.layers + 1)
        for lens in LENSES
    ]
    last: dict[str, int] = {stack.name: stack.layers for stack in model.stacks}
    source = {  # both lenses of the last layer are the final prediction
        key: ("", -1, FINAL) if key[1] == last[key[0]] else key for key in keys
    }
    layers = [(*key, *_measured(scores, draws, source[key])) for key in keys]
    biases = {key: scores.biases[source[key]] for key in keys}
    bias = [(*key, *_with_interval(biases[key])) for key in keys]
    baselines = [
        (name, *_measured(scores, draws, ("", -1, name))) for name in (FINAL, CONSTANT, FREQUENCIES)
    ]
    return {
        "layers": pd.DataFrame(layers, columns=[*_LAYER, "lens", *_MEASURED]),
        "gains": pd.DataFrame(
            list(_gains(last, source, scores, draws, biases)),
            columns=[*_LAYER, "measure", *LENSES, "gain", "lower", "upper", "better"],
        ),
        "bias": pd.DataFrame(bias, columns=[*_LAYER, "lens", "bias", "lower", "upper"]),
        "baselines": pd.DataFrame(baselines, columns=["baseline", *_MEASURED]),
        "curve": pd.DataFrame(list(_curve(trained)), columns=[*_LAYER, "split", "step", "loss"]),
        "training": pd.DataFrame(
            list(_training(trained)),
            columns=[*_LAYER, "best_step", "dev_logit", "dev_tuned", "converged", "learnt"],
        ),
    }


def _draws(scores: _Scores, seed: int) -> dict[Key, Floats]:
    """Every measure in every bootstrap sample of documents.  # [MEASURES, draws] per key"""
    keys = list(scores.sums)
    sums = np.stack([scores.sums[key] for key in keys], 1)  # [documents, keys, MEASURES]
    sample = ClusterSample.of(np.arange(len(sums)), seed)  # each document
    drawn = np.nan_to_num(sample.ratio_draws(sums, scores.counts[:, None, None]))
    return dict(zip(keys, drawn, strict=True))


def _values(scores: _Scores, key: Key) -> Floats:
    """# [MEASURES]"""
    values: Floats = scores.sums[key].sum(0) / scores.counts.sum()
    return values


def _measured(scores: _Scores, draws: Mapping[Key, Floats], key: Key) -> tuple[float, ...]:
    """The cells of `_MEASURED`."""
    frequencies = ("", -1, FREQUENCIES)
    values = dict(zip(MEASURES, _values(scores, key).tolist(), strict=True))
    drawn = dict(zip(MEASURES, draws[key], strict=True))
    nats = MEASURES.index("cross_entropy")
    gain = float(_values(scores, frequencies)[nats]) - values["cross_entropy"]
    ends = {
        "loss": interval(drawn["loss"]),
        "agreement": interval(drawn["agreement"]),
        "gain": interval(draws[frequencies][nats] - drawn["cross_entropy"]),
    }
    of = {name: tuple(float(end) for end in both) for name, both in ends.items()}
    return (
        values["loss"], *of["loss"], values["agreement"], *of["agreement"], values["accuracy"],
        values["cross_entropy"], gain, *of["gain"], int(scores.counts.sum()),
    )  # fmt: skip


def _bias(final: Tensor, lens: Tensor) -> Floats:
    """The divergence of mean distributions: of all texts, then of each sample.  # [1 + SAMPLES]"""
    final, lens = (each.double() / each.double().sum(-1, keepdim=True) for each in (final, lens))
    return divergence(final.log(), lens.log()).clamp(min=0).cpu().numpy()


def _with_interval(values: Floats) -> tuple[float, float, float]:
    """The first value, and the interval of the others; it contains the value."""
    value = float(values[0])
    lower, upper = interval_around(value, values[1:])
    return value, float(lower), float(upper)


def _gains(
    last: Mapping[str, int],
    source: Mapping[Key, Key],
    scores: _Scores,
    draws: Mapping[Key, Floats],
    biases: Mapping[Key, Floats],
) -> Iterator[tuple[object, ...]]:
    """How much closer the tuned lens is than the logit lens, at each layer but the last."""
    for stack, layers in last.items():
        for layer in range(layers):
            logit, tuned = ((stack, layer, lens) for lens in LENSES)
            for n, (measure, sign) in enumerate((("loss", 1), ("agreement", -1))):
                both = [float(_values(scores, source[key])[n]) for key in (logit, tuned)]
                drawn = sign * (draws[source[logit]][n] - draws[source[tuned]][n])
                ends = tuple(float(each) for each in interval(drawn))
                gain = sign * (both[0] - both[1])
                yield stack, layer, measure, *both, gain, *ends, ends[0] > 0
            apart = biases[logit] - biases[tuned]
            gain, lower, upper = _with_interval(apart)
            both = [float(biases[key][0]) for key in (logit, tuned)]
            yield stack, layer, "bias", *both, gain, lower, upper, lower > 0


def _curve(trained: Trained) -> Iterator[tuple[object, ...]]:
    for split, curve in (("train", trained.train), ("dev", trained.dev)):
        for step, stacks in curve.items():
            for stack, losses in stacks.items():
                for layer, loss in enumerate(losses):
                    yield stack, layer, split, step, loss


def _training(trained: Trained) -> Iterator[tuple[object, ...]]:
    for stack, steps in trained.best.items():
        for layer, step in enumerate(steps):
            first, best = (trained.dev[at][stack][layer] for at in (0, step))
            yield stack, layer, step, first, best, trained.converged[stack][layer], step > 0


def _facts(
    model: Model,
    parts: Parts,
    facts: TrainFacts,
    scores: _Scores,
    trained: Trained,
    seconds: float,
) -> pd.DataFrame:
    rows = {
        "objective": model.objective,
        "steps": trained.steps,
        "stopped_early": trained.stopped,
        "train_texts": len(parts.train),
        "train_predictions": facts.predictions,
        "dev_texts": len(parts.dev),
        "scored_texts": len(parts.test),
        "scored_predictions": int(scores.counts.sum()),
        "model_hash": model.content_hash,
        "seconds": round(seconds, 2),
    }
    return pd.DataFrame([(name, str(value)) for name, value in rows.items()],
                        columns=["fact", "value"])  # fmt: skip


def _caveats(parts: Parts, trained: Trained, settings: TunedLens) -> Iterator[Caveat]:
    done = [each for layers in trained.converged.values() for each in layers]
    if not all(done):
        yield Caveat(
            f"{capital(of_all(done.count(False), len(done), 'map'))} still improved on dev when "
            f"training ended after {trained.steps:,} steps: their losses are too high. More steps "
            "(--set steps=…) or a higher learning rate would lower them.",
            ("layers", "gains", "bias", "curve", "training"),
        )
    if trained.diverged:
        yield Caveat("Training was stopped by a loss that is not finite; lower learning_rate.")
    for note in parts.notes:
        yield Caveat(note)
