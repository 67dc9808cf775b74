"""Probes in closed form: a preview of every layer and task from two Gram matrices each.

Ridge regression onto the labels; the penalty and the threshold are chosen on the dev part. The
answer has the form of a trained linear probe. Costs one product of features by features a source,
and one Cholesky factor a source and penalty: seconds where training takes minutes.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from probes.bank import Bank
from probes.kinds import Shape, averaged
from probes.stack import Data, Probe, Trained, f1, predictions, reads_of

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
    width = bank.width
    chosen = [(int(probe.control), probe.sources[0]) for probe in probes]
    weights = torch.stack([kept[c, s] for c, s in chosen]).float()  # [probes, features, K]
    shifts = torch.stack([shift[c, s] for c, s in chosen]).float()
    number = len(probes)
    own = {
        "mix": torch.zeros(number, len(bank.sources), device=bank.device),
        "scale": torch.ones(number, device=bank.device),
        "out": weights[:, :-1].reshape(number, sides, width, labels),
        "out_bias": weights[:, -1] - shifts[:, None],
    }
    shape = Shape("linear", width, sides, labels, 0, len(bank.sources))
    epochs = torch.zeros(number, dtype=torch.long)
    converged = torch.ones(number, dtype=torch.bool)
    reads = reads_of(probes, len(bank.sources), bank.device)
    return Trained(shape, tuple(probes), reads, own, epochs, 1, converged)


def _features(bank: Bank, data: Data) -> Tensor:
    """Both spans of each target, and a one.  # [sources, n, sides * width + 1]"""
    sides = [averaged(bank, spans) for spans in data.spans]
    ones = torch.ones_like(sides[0][..., :1])
    return torch.cat([*sides, ones], dim=2)


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
