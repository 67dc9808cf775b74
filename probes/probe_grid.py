"""Which probes a task gets: modes of reading the layers, their baselines and controls.

`layer` reads one layer, `cumulative` a learnt mix of the layers up to one; `lexical`, `top` and
`mix` are their ends (layer 0, the last layer, the mix of all), so no probe is trained twice.
Layer 0 is always read, and so are what stands beside: the random twin's top and mix, bare
embeddings, static vectors. Costs nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from probes.experiments import Mode
from probes.probe_training import (
    Data,
    Probe,
    Trained,
    averaged_sides,
    controls_of,
    counted,
    f1,
    linear_probes,
    outputs,
    predictions,
)
from probes.representations import MODEL, RANDOM, Bank, Source
from probes.targets import Examples
from workbench.core.splits import TRAIN


def planned(sources: Sequence[Source], modes: Sequence[Mode], controls: bool) -> tuple[Probe, ...]:
    """The probes of one bank of sources."""
    found: list[Probe] = []
    for encoder, stack in dict.fromkeys((source.encoder, source.stack) for source in sources):
        column = [
            place
            for place, source in enumerate(sources)
            if (source.encoder, source.stack) == (encoder, stack)
        ]
        if encoder == MODEL:
            found += _of_model(column, modes, controls)
        elif encoder == RANDOM:
            found += [Probe((column[-1],)), *([Probe(tuple(column))] if len(column) > 1 else [])]
        else:
            found += [Probe((place,)) for place in column]
    return tuple(dict.fromkeys(found))


def _of_model(column: Sequence[int], modes: Sequence[Mode], controls: bool) -> list[Probe]:
    """A stack's layers: each alone, or mixed up to each."""
    alone = column if "layer" in modes else {column[0], *(column[-1:] if "top" in modes else ())}
    upto = range(2, len(column) + 1) if "cumulative" in modes else ()
    mixes = {tuple(column[:last]) for last in upto}
    if "mix" in modes and len(column) > 1:
        mixes.add(tuple(column))
    found = [Probe((place,)) for place in sorted(alone)]
    found += [Probe(mix) for mix in sorted(mixes, key=len)]
    if controls:
        found += [Probe(probe.sources, control=True) for probe in found if len(probe.sources) == 1]
        if "layer" not in modes and mixes:
            found.append(Probe(max(mixes, key=len), control=True))
    return found


def modes_of(
    probe: Probe, sources: Sequence[Source], asked: Sequence[Mode]
) -> list[tuple[Mode, int]]:
    """Under which modes, and of which layer, a probe's score is told."""
    first, last = sources[probe.sources[0]], sources[probe.sources[-1]]
    own = [s for s in sources if (s.encoder, s.stack) == (last.encoder, last.stack)]
    bottom, top = own[0].layer, own[-1].layer
    if last.encoder != MODEL:
        if len(probe.sources) > 1:
            return [("mix", top)]
        return [("top" if last.encoder == RANDOM else "lexical", last.layer)]
    found: list[tuple[Mode, int]] = []
    if len(probe.sources) > 1:
        found += [("cumulative", last.layer)] if "cumulative" in asked else []
        found += [("mix", last.layer)] if "mix" in asked and last.layer == top else []
        return found or [("mix", last.layer)]
    if "layer" in asked:
        found.append(("layer", last.layer))
    if last.layer == top and "top" in asked:
        found.append(("top", last.layer))
    if first.layer == bottom:
        found.append(("lexical", bottom))
        found += [("cumulative", bottom)] if "cumulative" in asked else []
        found += [("mix", bottom)] if "mix" in asked and top == bottom else []
    return found


# --- scores of a grid -----------------------------------------------------------------------------
#
# What trained probes say of held-out targets: counts by sentence and by label, and each answer.
#
# One pass over the targets, all probes at once; what stays is a few counts a sentence and one
# number a target and probe. Also the majority's answer, which needs no probe.


@dataclass(frozen=True)
class Measured:
    """Answers of some probes on the same targets."""

    counts: NDArray[np.int32]  # [probes, documents, 3]: rightly said, said, there
    labels: NDArray[np.int32]  # [probes, labels, 3]
    likeliest: NDArray[np.int16]  # [probes, n], the label with the largest logit
    right: NDArray[np.bool_]  # [probes, n], the likeliest is gold; of several, all and no more


def measured(
    trained: Trained, bank: Bank, data: Data, document: Tensor, documents: int, single: bool
) -> Measured:
    """Send every target through every probe; `document` is where each is counted, of so many."""
    number = len(trained.probes)
    control = controls_of(trained.probes, bank.device)
    counts = torch.zeros(number, documents, 3, dtype=torch.int32, device=bank.device)
    labels = torch.zeros(number, trained.shape.labels, 3, dtype=torch.int32, device=bank.device)
    likeliest, right = [], []
    for places, said in outputs(trained.shape, trained.own, trained.reads, bank, data.spans):
        part = data.take(places)
        each = counted(said, part, control)  # [probes, some, 3]
        counts.index_add_(1, document[places].to(bank.device), each.int())
        wanted = part.labels.to(said.device).index_select(0, control)
        answers = predictions(said, data.softmax)
        labels += torch.stack([answers & wanted, answers, wanted], dim=3).sum(1).int()
        best = said.argmax(2)  # [probes, some]
        hit = wanted.gather(2, best[..., None])[..., 0]
        likeliest.append(best.short().cpu())
        unseen = part.unseen.to(said.device) * (control == 0)[:, None]
        right.append((hit if single else (answers == wanted).all(2) & (unseen == 0)).cpu())
    return Measured(
        counts.cpu().numpy(),
        labels.cpu().numpy(),
        _joined(likeliest, number).numpy(),
        _joined(right, number).numpy().astype(np.bool_),
    )


def _joined(parts: list[Tensor], number: int) -> Tensor:
    return torch.cat(parts, dim=1) if parts else torch.zeros(number, 0)


def majority(examples: Examples, data: Data) -> Tensor:
    """Counts of always predicting the most frequent label that is scored (of several labels a
    target: each that most targets have).  # [n, 3] of `data`
    """
    frequency = examples.labels[examples.of(TRAIN)].double().mean(0)  # [labels]
    frequency = torch.where(examples.scored, frequency, -1.0)
    if examples.single:
        predicted = torch.zeros(len(frequency), dtype=torch.bool)
        predicted[frequency.argmax()] = True
    else:
        predicted = frequency >= 0.5
    logits = torch.where(predicted, 1.0, -1.0).expand(1, len(data), -1)
    return counted(logits, data, torch.zeros(1, dtype=torch.long))[0]


# --- probes in closed form: a preview of every layer and task from two Gram matrices each ---------
#
# Ridge regression onto the labels; the penalty and the threshold are chosen on the dev part. The
# answer has the form of a trained linear probe. Costs one product of features by features a
# source, and one Cholesky factor a source and penalty: seconds where training takes minutes.

PENALTIES = (1e-3, 1e-2, 1e-1, 1.0)  # times the mean of the Gram matrix' diagonal
THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
CHUNK = 2_048


def ridge(bank: Bank, probes: Sequence[Probe], learnt: Data, dev: Data) -> Trained:
    """The best ridge probe of each source; `probes` read one source each."""
    sides, labels = len(learnt.spans), learnt.labels.shape[2]
    gram, right = _sums(bank, learnt)  # [sources, features, features], [2, sources, features, K]
    size = gram.diagonal(dim1=1, dim2=2).mean(1)  # [sources]
    eye = torch.eye(gram.shape[1], device=bank.device, dtype=gram.dtype)
    judged = dev if len(dev) else learnt
    best = torch.full((2, len(bank.sources)), -1.0, dtype=torch.double, device=bank.device)
    kept = torch.zeros_like(right)  # [2, sources, features, K]
    shift = torch.zeros_like(best)
    for penalty in PENALTIES:
        factor = torch.linalg.cholesky(gram + (penalty * size)[:, None, None] * eye)
        solved = torch.stack([torch.cholesky_solve(each, factor) for each in right])
        for threshold in (0.5,) if learnt.softmax else THRESHOLDS:
            score = _score(bank, solved, threshold, judged)  # [2, sources]
            better = score > best
            best = torch.where(better, score, best)
            shift = torch.where(better, threshold, shift)
            kept[better] = solved[better]
    chosen = [(int(probe.control), probe.sources[0]) for probe in probes]
    weights = torch.stack([kept[c, s] for c, s in chosen]).float()  # [probes, features, K]
    shifts = torch.stack([shift[c, s] for c, s in chosen]).float()
    return linear_probes(
        bank,
        probes,
        weights[:, :-1].reshape(len(probes), sides, bank.width, labels),
        weights[:, -1] - shifts[:, None],
        torch.ones(len(probes), dtype=torch.bool),
    )


def _features(bank: Bank, data: Data) -> Tensor:
    """Both spans of each target, and a one.  # [sources, n, sides * width + 1]"""
    return functional.pad(averaged_sides(bank, data.spans), (0, 1), value=1.0)


def _sums(bank: Bank, data: Data) -> tuple[Tensor, Tensor]:
    """Features by features, and features by labels, in double precision."""
    gram = right = None
    for places in torch.split(torch.arange(len(data)), CHUNK):
        part = data.take(places)
        features = _features(bank, part).double()
        labels = part.labels.to(bank.device).double()  # [2, n, K]
        both = torch.einsum("snf,cnk->csfk", features, labels)
        own = features.transpose(1, 2) @ features
        gram = own if gram is None else gram + own
        right = both if right is None else right + both
    assert gram is not None and right is not None, "there is a target"
    return gram, right


def _score(bank: Bank, solved: Tensor, threshold: float, data: Data) -> Tensor:
    """Micro-F1 at a threshold.  # [2, sources]"""
    counts = torch.zeros(*solved.shape[:2], 3, dtype=torch.long, device=bank.device)
    scored = data.scored.to(bank.device)
    for places in torch.split(torch.arange(len(data)), CHUNK):
        part = data.take(places)
        logits = _features(bank, part).double() @ solved - threshold  # [2, S, n, K]
        answers = predictions(logits.flatten(0, 1), part.softmax).view(logits.shape) & scored
        wanted = (part.labels.to(bank.device) & scored)[:, None]
        counts += torch.stack(
            [
                (answers & wanted).sum((2, 3)),
                answers.sum((2, 3)),
                wanted.sum((2, 3)).expand(answers.shape[:2]),
            ],
            dim=2,
        )
    return f1(counts)
