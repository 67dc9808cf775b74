"""How much of the attribution of given pieces falls in each part of what a model reads.

    read = Reading(text, ["passage", "passage", "question"], wanted=[3, 4])
    found = by_part(model, read, "integrated-gradients")
    found.share("passage"), found.length("passage")

What is explained is the log-probability of the pieces `wanted`: those of a causal model's text, of
what a decoder writes, or hidden ones of a masked model. Every piece gets a score by a method of
`methods`, and the scores of a part are summed. Costs: those of the method for each reading; in a
masked model for each of its pieces; and the same for each model with random weights.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workbench.analyses.attribution.agreement import LARGE
from workbench.analyses.attribution.faithfulness import UNFIT
from workbench.analyses.attribution.methods import Method, attribute_prediction
from workbench.analyses.predictions.prediction import Prediction
from workbench.analyses.predictions.target import Target
from workbench.core.cluster_sample import ClusterSample
from workbench.core.errors import WorkbenchError
from workbench.core.stats import prediction_p_value
from workbench.corpora.encode import doc_of
from workbench.engine.batch import Pieces
from workbench.engine.model import Model, UnsupportedError, refusal
from workbench.experiment.definition import Progress
from workbench.models.output_heads.lm_losses import hidden_with, logits_of, masked

RANDOM_MODELS = 5
STEPS = 128  # maximum, of integrated gradients
LEFT_OUT = (*UNFIT, "not-a-number", "text-empty")  # errors of what has no attribution
OTHER = ""  # the part of pieces that belong to none


@dataclass(frozen=True)
class Reading:
    """Pieces that a model reads, the part of each, and those whose probability is explained."""

    text: Pieces  # [1, pieces]
    parts: Sequence[str]  # of the pieces of the text
    wanted: Sequence[int]  # pieces of the target; without one, of the text
    target: Pieces | None = None  # [1, pieces], of an encoder-decoder
    target_parts: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Continuation(Prediction):
    """The log-probability of given pieces, as a prediction of a single choice."""

    read: tuple[int, ...] = ()  # where the pieces are predicted
    given: tuple[int, ...] = ()  # the pieces

    def _logits(self, text: Pieces, target: Pieces | None) -> Tensor:
        mask = torch.zeros_like((text if target is None else target).mask)  # [batch, pieces]
        mask[:, list(self.read)] = True
        logits = logits_of(self.model, text, mask, target).float()
        shares = logits.log_softmax(-1).view(len(text), len(self.read), -1)
        index = torch.tensor(self.given, device=shares.device).expand(len(text), -1)
        return shares.gather(-1, index[..., None])[..., 0].sum(1, keepdim=True)  # [batch, 1]


@dataclass(frozen=True, eq=False)
class PartScores:
    """The attribution of one reading, by part; pieces without a score count nowhere."""

    value: float  # log-probability of the pieces
    baseline_value: float  # without any piece of the reading; NaN: the method has none
    nats: Mapping[str, float]  # sums of scores
    sizes: Mapping[str, float]  # sums of absolute scores
    pieces: Mapping[str, float]  # numbers of pieces

    @property
    def change(self) -> float:
        """How much the value differs from that of the baseline, the sum of complete scores."""
        return self.value - self.baseline_value

    def share(self, *parts: str) -> float:
        """The share of all absolute scores that some parts have; NaN if all scores are 0."""
        return _share(self.sizes, parts)

    def length(self, *parts: str) -> float:
        """The share of pieces: what the parts would have if all pieces counted alike."""
        return _share(self.pieces, parts)

    def signed(self, *parts: str) -> float:
        """The sum of scores of some parts, relative to all absolute ones."""
        whole = sum(self.sizes.values())
        return sum(self.nats.get(part, 0.0) for part in parts) / whole if whole else np.nan

    def grouped(self, groups: Mapping[str, str]) -> "PartScores":
        """The same with the parts of each group as one; those without a group keep their names."""
        sums = []
        for own in (self.nats, self.sizes, self.pieces):
            sums.append(defaultdict[str, float](float))
            for part, value in own.items():
                sums[-1][groups.get(part, part)] += value
        return PartScores(self.value, self.baseline_value, *sums)


def _share(values: Mapping[str, float], parts: Sequence[str]) -> float:
    whole = sum(values.values())
    return sum(values.get(part, 0.0) for part in parts) / whole if whole else np.nan


def method_for(model: Model) -> Method:
    """Integrated gradients; of a large model, gradient x input, which takes one pass."""
    return "integrated-gradients" if model.parameters <= LARGE else "gradient-x-input"


def by_part(model: Model, read: Reading, method: Method, max_steps: int = STEPS) -> PartScores:
    """Attribute the log-probability of the wanted pieces, and sum the scores of each part.

    Raises:
        WorkbenchError: The model has no input vectors, or predicts no single pieces.
    """
    value = baseline_value = 0.0
    nats, sizes, pieces = (defaultdict[str, float](float) for _ in range(3))
    first = model.stacks[0].name
    for continuation in _continuations(model, read):
        found = attribute_prediction(
            continuation, Target(0), method, by="piece", max_steps=max_steps
        )
        value += found.value
        baseline_value += np.nan if found.baseline_value is None else found.baseline_value
        for unit, score in zip(found.units, found.scores.tolist(), strict=True):
            if not unit.fixed:
                (place,) = unit.pieces
                # a decoder reads a start piece, then what it has written
                part = (read.parts if unit.stack == first else [OTHER, *read.target_parts])[place]
                nats[part] += score
                sizes[part] += abs(score)
                pieces[part] += 1
    return PartScores(value, baseline_value, nats, sizes, pieces)


def _continuations(model: Model, read: Reading) -> Iterator[Continuation]:
    """One for all wanted pieces; in a masked model one for each, the later ones hidden too."""
    doc, device, wanted = doc_of("x"), model.device, list(read.wanted)  # no word is looked up
    given = tuple((read.text if read.target is None else read.target).ids[0, wanted].tolist())
    if read.target is not None:
        target = read.target.narrowed(max(wanted) + 1).to(device)
        yield Continuation(
            model, doc, "written", read.text.to(device), max(wanted), target, read=tuple(wanted),
            given=given,
        )  # fmt: skip
    elif model.objective == "causal":
        places = tuple(place - 1 for place in wanted)
        text = read.text.narrowed(max(wanted)).to(device)
        yield Continuation(model, doc, "next", text, max(places), read=places, given=given)
    elif model.objective == "masked":
        for place, piece in zip(wanted, given, strict=True):
            hidden = hidden_with(read.text, torch.tensor([[0, place]]), "within-word")
            text = masked(read.text, hidden, model.symbols.mask).to(device)
            yield Continuation(model, doc, "hidden", text, place, read=(place,), given=(piece,))
    else:
        raise refusal(model, "does not predict given pieces", "Choose a model such as mini:gpt.")


# --- many readings, next to models with random weights --------------------------------------------


@dataclass(frozen=True, eq=False)
class Attributed:
    """The attribution of some readings in a model, and in models with random weights."""

    method: Method
    own: Sequence[PartScores]  # [readings]
    random: Sequence[Sequence[PartScores]]  # [models] of [readings]

    def take(self, chosen: Sequence[int]) -> "Attributed":
        """Some of the readings."""
        random = [[each[n] for n in chosen] for each in self.random]
        return replace(self, own=[self.own[n] for n in chosen], random=random)

    def grouped(self, groups: Sequence[Mapping[str, str]]) -> "Attributed":
        """The same with parts that are grouped in each reading."""
        own, *random = (
            [part.grouped(group) for part, group in zip(each, groups, strict=True)]
            for each in (self.own, *self.random)
        )
        return replace(self, own=own, random=random)

    def rows(
        self, parts: Mapping[str, Sequence[str]], sample: ClusterSample
    ) -> list[dict[str, Any]]:
        """A row for each group of parts that some reading has: its share, by chance, in nats."""
        rows = []
        gaps = sum(abs(each.change - sum(each.nats.values())) for each in self.own)
        missed = gaps / max(sum(abs(each.change) for each in self.own), 1e-12)
        for name, own in parts.items():
            row = self.compared(lambda _, scores, own=own: scores.share(*own), sample)  # type: ignore[misc]
            by_length = float(np.nanmean([each.length(*own) for each in self.own]))
            if row and by_length:
                sums = [sum(each.nats.get(part, 0.0) for part in own) for each in self.own]
                rows.append(
                    {
                        "part": name, "share": row.pop("value"), "by_length": by_length, **row,
                        "nats": float(np.mean(sums)), "missed": missed, "method": self.method,
                    }
                )  # fmt: skip
        return rows

    def compared(
        self, number: Callable[[int, PartScores], float], sample: ClusterSample
    ) -> dict[str, Any]:
        """The mean of a number of each reading, its interval, and that of random weights.

        `p` is one-sided, that the mean is above those of random weights, from a t prediction
        interval. Readings in which the number is NaN are left out; {}: all of them.
        """
        values = np.array([number(n, each) for n, each in enumerate(self.own)])
        known = np.isfinite(values)
        if not known.any():
            return {}
        random = [np.array([number(n, each) for n, each in enumerate(own)]) for own in self.random]
        means = np.array([np.nanmean(each) for each in random if np.isfinite(each).any()])
        mean = float(values[known].mean())
        lower, upper = sample.take(known).mean_interval(values[known])
        return {
            "value": mean, "lower": float(lower), "upper": float(upper),
            "random": float(means.mean()) if len(means) else np.nan,
            "p": prediction_p_value(-mean, -means), "n": int(known.sum()),
        }  # fmt: skip


def attributed(
    model: Model,
    readings: Sequence[Reading],
    seed: int,
    progress: Progress,
    random_models: int = RANDOM_MODELS,
) -> Attributed | None:
    """Attribute readings in a model, and in models with random weights if these can be made.

    None for a model without input vectors or finite gradients, or that predicts no single pieces,
    and without readings in which a piece is wanted.
    """
    method, found = method_for(model), list[list[PartScores]]()
    total = (1 + random_models) * len(readings)
    if not readings or not all(read.wanted for read in readings):
        return None
    try:
        for number, each in enumerate(chain([model], _random(model, seed, random_models))):
            found.append([])
            for n, read in enumerate(readings):
                found[-1].append(by_part(each, read, method))
                progress(number * len(readings) + n + 1, total, "attributing")
    except WorkbenchError as error:
        if error.code not in LEFT_OUT:
            raise
        return None
    return Attributed(method, found[0], found[1:])


def _random(model: Model, seed: int, number: int) -> Iterator[Model]:
    with suppress(UnsupportedError):
        for n in range(number):
            yield model.reinitialised(seed + 1 + n)
