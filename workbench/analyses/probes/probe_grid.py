"""The probes of a task (modes, baselines and control tasks), their scores, and ridge probes.

`layer` reads one layer, `cumulative` a learned mix of the layers up to one. `lexical`, `top` and
`mix` are their ends (layer 0, the last layer, the mix of all), so no probe is trained twice. Layer
0 and the baselines are always probed: top layer and mix with random weights, embeddings without
positions, static vectors. Costs: nothing to plan; the other parts state theirs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from workbench.analyses.probes.experiments import Mode
from workbench.analyses.probes.probe_training import (
    Data,
    Probe,
    Trained,
    controls_of,
    count_labels,
    f1,
    linear_probes,
    mean_pooled_sides,
    outputs,
    predictions,
)
from workbench.analyses.probes.representations import MODEL, RANDOM, Bank, Source
from workbench.analyses.probes.targets import Examples
from workbench.corpora.splits import TRAIN


def plan_probes(
    sources: Sequence[Source], modes: Sequence[Mode], controls: bool
) -> tuple[Probe, ...]:
    """The probes of one bank of sources."""
    probes: list[Probe] = []
    for encoder, stack in dict.fromkeys((source.encoder, source.stack) for source in sources):
        indices = [
            index
            for index, source in enumerate(sources)
            if (source.encoder, source.stack) == (encoder, stack)
        ]
        if encoder == MODEL:
            probes += _model_probes(indices, modes, controls)
        elif encoder == RANDOM:
            probes.append(Probe((indices[-1],)))
            if len(indices) > 1:
                probes.append(Probe(tuple(indices)))
        else:
            probes += [Probe((index,)) for index in indices]
    return tuple(dict.fromkeys(probes))


def _model_probes(layers: Sequence[int], modes: Sequence[Mode], controls: bool) -> list[Probe]:
    """Probes of a stack's layers: each layer alone, and mixes up to each layer."""
    single = layers if "layer" in modes else {layers[0], *(layers[-1:] if "top" in modes else ())}
    ends = range(2, len(layers) + 1) if "cumulative" in modes else ()
    mixes = {tuple(layers[:last]) for last in ends}
    if "mix" in modes and len(layers) > 1:
        mixes.add(tuple(layers))
    probes = [Probe((index,)) for index in sorted(single)]
    probes += [Probe(mix) for mix in sorted(mixes, key=len)]
    if controls:
        probes += [
            Probe(probe.sources, control=True) for probe in probes if len(probe.sources) == 1
        ]
        if "layer" not in modes and mixes:
            probes.append(Probe(max(mixes, key=len), control=True))
    return probes


def modes_of(
    probe: Probe, sources: Sequence[Source], modes: Sequence[Mode]
) -> list[tuple[Mode, int]]:
    """Mode and layer of each row of the scores that a probe appears in."""
    first, last = sources[probe.sources[0]], sources[probe.sources[-1]]
    stack = [s for s in sources if (s.encoder, s.stack) == (last.encoder, last.stack)]
    bottom, top = stack[0].layer, stack[-1].layer
    if last.encoder != MODEL:
        if len(probe.sources) > 1:
            return [("mix", top)]
        return [("top" if last.encoder == RANDOM else "lexical", last.layer)]
    rows: list[tuple[Mode, int]] = []
    if len(probe.sources) > 1:
        rows += [("cumulative", last.layer)] if "cumulative" in modes else []
        rows += [("mix", last.layer)] if "mix" in modes and last.layer == top else []
        return rows or [("mix", last.layer)]
    if "layer" in modes:
        rows.append(("layer", last.layer))
    if last.layer == top and "top" in modes:
        rows.append(("top", last.layer))
    if first.layer == bottom:
        rows.append(("lexical", bottom))
        rows += [("cumulative", bottom)] if "cumulative" in modes else []
        rows += [("mix", bottom)] if "mix" in modes and top == bottom else []
    return rows


# --- scores of a grid -----------------------------------------------------------------------------
#
# Scores of trained probes on test targets: counts by sentence and by label, and predictions. Also
# the majority baseline, which needs no probe.
#
# Costs: one pass over the targets, for all probes at once; in memory, a few counts per sentence and
# one number per target and probe.


@dataclass(frozen=True)
class Measured:
    """Results of some probes on the same targets."""

    counts: NDArray[np.int32]  # [probes, documents, 3]: labels right, predicted, gold
    labels: NDArray[np.int32]  # [probes, labels, 3]
    likeliest: NDArray[np.int16]  # [probes, n], the label with the largest logit
    right: NDArray[np.bool_]  # [probes, n], the likeliest is gold; of several labels, exactly all


def measured(
    trained: Trained, bank: Bank, data: Data, document: Tensor, documents: int, single: bool
) -> Measured:
    """Results of every probe on every target; `document` is the row of a target's counts."""
    n_probes = len(trained.probes)
    control = controls_of(trained.probes, bank.device)
    counts = torch.zeros(n_probes, documents, 3, dtype=torch.int32, device=bank.device)
    labels = torch.zeros(n_probes, trained.shape.labels, 3, dtype=torch.int32, device=bank.device)
    likeliest, right = [], []
    chunks = outputs(trained.shape, trained.parameters, trained.reads, bank, data.spans)
    for indices, logits in chunks:
        part = data.take(indices)
        by_target = count_labels(logits, part, control)  # [probes, chunk, 3]
        counts.index_add_(1, document[indices].to(bank.device), by_target.int())
        gold = part.labels.to(logits.device).index_select(0, control)
        predicted = predictions(logits, data.softmax)
        labels += torch.stack([predicted & gold, predicted, gold], dim=3).sum(1).int()
        best = logits.argmax(2)  # [probes, chunk]
        is_gold = gold.gather(2, best[..., None])[..., 0]
        likeliest.append(best.short().cpu())
        unseen = part.unseen.to(logits.device) * (control == 0)[:, None]
        right.append((is_gold if single else (predicted == gold).all(2) & (unseen == 0)).cpu())
    return Measured(
        counts.cpu().numpy(),
        labels.cpu().numpy(),
        _concatenated(likeliest, n_probes).numpy(),
        _concatenated(right, n_probes).numpy().astype(np.bool_),
    )


def _concatenated(parts: list[Tensor], n_probes: int) -> Tensor:
    """The parts along the targets.  # [probes, n]"""
    return torch.cat(parts, dim=1) if parts else torch.zeros(n_probes, 0)


def majority(examples: Examples, data: Data) -> Tensor:
    """Counts of the majority baseline, which always predicts the most frequent scored label. If
    targets have several labels, it predicts each label that most targets have.  # [n, 3]
    """
    frequency = examples.labels[examples.of(TRAIN)].double().mean(0)  # [labels]
    frequency = torch.where(examples.scored, frequency, -1.0)
    if examples.single:
        predicted = torch.zeros(len(frequency), dtype=torch.bool)
        predicted[frequency.argmax()] = True
    else:
        predicted = frequency >= 0.5
    logits = torch.where(predicted, 1.0, -1.0).expand(1, len(data), -1)
    return count_labels(logits, data, torch.zeros(1, dtype=torch.long))[0]


# --- ridge probes in closed form, from two Gram matrices per layer and task: a preview ------------
#
# Ridge regression on the labels; penalty and threshold are chosen on dev. The result has the form
# of a trained linear probe. Costs: one product of features by features per source, and one Cholesky
# factor per source and penalty; seconds where training takes minutes.

PENALTIES = (1e-3, 1e-2, 1e-1, 1.0)  # relative to the mean diagonal of the Gram matrix
THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
CHUNK = 2_048


def ridge(bank: Bank, probes: Sequence[Probe], train_data: Data, dev: Data) -> Trained:
    """The best ridge probe of each source; `probes` read one source each."""
    sides, labels = len(train_data.spans), train_data.labels.shape[2]
    gram, right = _sums(
        bank, train_data
    )  # [sources, features, features], [2, sources, features, K]
    size = gram.diagonal(dim1=1, dim2=2).mean(1)  # [sources]
    eye = torch.eye(gram.shape[1], device=bank.device, dtype=gram.dtype)
    selection = dev if len(dev) else train_data
    best = torch.full((2, len(bank.sources)), -1.0, dtype=torch.double, device=bank.device)
    weights_by_source = torch.zeros_like(right)  # [2, sources, features, K]
    shift = torch.zeros_like(best)
    for penalty in PENALTIES:
        factor = torch.linalg.cholesky(gram + (penalty * size)[:, None, None] * eye)
        solved = torch.stack([torch.cholesky_solve(each, factor) for each in right])
        for threshold in (0.5,) if train_data.softmax else THRESHOLDS:
            score = _score(bank, solved, threshold, selection)  # [2, sources]
            better = score > best
            best = torch.where(better, score, best)
            shift = torch.where(better, threshold, shift)
            weights_by_source[better] = solved[better]
    chosen = [(int(probe.control), probe.sources[0]) for probe in probes]
    weights = torch.stack(
        [weights_by_source[c, s] for c, s in chosen]
    ).float()  # [probes, features, K]
    shifts = torch.stack([shift[c, s] for c, s in chosen]).float()
    return linear_probes(
        bank,
        probes,
        weights[:, :-1].reshape(len(probes), sides, bank.width, labels),
        weights[:, -1] - shifts[:, None],
        torch.ones(len(probes), dtype=torch.bool),
    )


def _features(bank: Bank, data: Data) -> Tensor:
    """Pooled spans of each target, and a constant 1.  # [sources, n, sides * width + 1]"""
    return functional.pad(mean_pooled_sides(bank, data.spans), (0, 1), value=1.0)


def _sums(bank: Bank, data: Data) -> tuple[Tensor, Tensor]:
    """Products of features by features and features by labels, in double precision."""
    gram = right = None
    for indices in torch.split(torch.arange(len(data)), CHUNK):
        part = data.take(indices)
        features = _features(bank, part).double()
        labels = part.labels.to(bank.device).double()  # [2, n, K]
        both = torch.einsum("snf,cnk->csfk", features, labels)
        products = features.transpose(1, 2) @ features
        gram = products if gram is None else gram + products
        right = both if right is None else right + both
    assert gram is not None and right is not None, "there are no targets"
    return gram, right


def _score(bank: Bank, solved: Tensor, threshold: float, data: Data) -> Tensor:
    """Micro-F1 at a threshold.  # [2, sources]"""
    counts = torch.zeros(*solved.shape[:2], 3, dtype=torch.long, device=bank.device)
    scored = data.scored.to(bank.device)
    for indices in torch.split(torch.arange(len(data)), CHUNK):
        part = data.take(indices)
        logits = _features(bank, part).double() @ solved - threshold  # [2, S, n, K]
        predicted = predictions(logits.flatten(0, 1), part.softmax).view(logits.shape) & scored
        gold = (part.labels.to(bank.device) & scored)[:, None]
        counts += torch.stack(
            [
                (predicted & gold).sum((2, 3)),
                predicted.sum((2, 3)),
                gold.sum((2, 3)).expand(predicted.shape[:2]),
            ],
            dim=2,
        )
    return f1(counts)
