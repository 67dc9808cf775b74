"""Every kind of probe on a device and on the CPU: the same scores.

States with classes planted into their upper layers, random trees with their distances planted, and
heads of attention that look where the tree says. A convex probe has one optimum, so it is held to
it; a probe that Adam trains may end elsewhere, so only its score is. Costs half a minute.
"""

from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tests.gpu.checks import Figures, Setting, apart, timed
from tests.gpu.made import RELATIONS, trees_of
from workbench.analyses.probes import attention_features, codes
from workbench.analyses.probes.attention_features import Maps, Sentence
from workbench.analyses.probes.dependency_trees import Tree
from workbench.analyses.probes.logistic import logistic
from workbench.analyses.probes.probe_training import (
    Data,
    Probe,
    Schedule,
    Trained,
    evaluate_probes,
    train,
)
from workbench.analyses.probes.representations import MODEL, Bank, Source, build_banks
from workbench.analyses.probes.structural_training import Probe as TreeProbe
from workbench.analyses.probes.structural_training import States, trained

CLASSES, LAYERS = 5, 3
CPU = torch.device("cpu")
KINDS: tuple[Literal["edge", "linear", "mlp"], ...] = ("edge", "linear", "mlp")
NOISE = 0.1  # of a code, where the noise that a probe learns with is the device's own


class Planted(NamedTuple):
    """States of words in several layers, and their labels."""

    bank: Bank
    learnt: Data
    dev: Data
    test: Data


def planted(device: torch.device, number: int, softmax: bool, width: int = 32) -> Planted:
    """Layer k holds the class of a word k times as loud; the control's labels are random."""
    random = torch.Generator().manual_seed(0)
    classes, control = torch.randint(0, CLASSES, (2, number), generator=random)
    tables = torch.randn(LAYERS, number, width, generator=random)
    for layer in range(LAYERS):
        tables[layer, torch.arange(number), classes] += 1.5 * layer
    sources = [Source(MODEL, "encoder", layer, own) for layer, own in enumerate(tables.half())]
    rows = torch.arange(number)
    whole = Data(
        (torch.stack([rows, rows + 1], 1),),
        one_hot(torch.stack([classes, control]), CLASSES).bool(),
        torch.zeros(number, dtype=torch.long),
        torch.ones(CLASSES, dtype=torch.bool),
        softmax,
    )
    ends = (0, number // 2, 3 * number // 4, number)
    parts = (whole.take(torch.arange(*ends[place : place + 2])) for place in range(3))
    return Planted(build_banks(sources, device, rows[: ends[1]])[0], *parts)


def probes(setting: Setting, figures: Figures) -> None:
    """Edge, linear and MLP probes, by sigmoids and by softmax, and the convex one."""
    number, schedule = 2_000 if setting.small else 6_000, Schedule()
    probes = [Probe((layer,), control) for layer in range(LAYERS) for control in (False, True)]
    probes.append(Probe(tuple(range(LAYERS))))
    for softmax in (False, True):
        both = [planted(device, number, softmax) for device in (CPU, setting.device)]
        code = "softmax" if softmax else "sigmoids"
        for kind in KINDS:
            found = [
                train(kind, 16, own.bank, probes, own.learnt, own.dev, schedule, 0) for own in both
            ]
            said = [_assessed(one, own) for one, own in zip(found, both, strict=True)]
            figures.at_most(f"{kind} by {code}: F1 apart", _largest(said, 0), 0.05)
            best = float(said[1][0].max())
            figures.at_least(f"{kind} by {code}: F1 of what is planted", best, 0.8)
        alone = [probe for probe in probes if len(probe.sources) == 1]
        found = [logistic(own.bank, alone, own.learnt, own.dev) for own in both]
        said = [_assessed(one, own) for one, own in zip(found, both, strict=True)]
        figures.at_most(f"logistic by {code}: F1 apart", _largest(said, 0), 0.01)
        figures.at_most(f"logistic by {code}: nats a target apart", _largest(said, 1), 0.01)
        figures.holds(f"logistic by {code}: converged", bool(found[1].converged.all()))


def _assessed(found: Trained, own: Planted) -> tuple[Tensor, Tensor]:
    """F1 and nats a target of each probe, on the CPU."""
    control = torch.tensor([int(probe.control) for probe in found.probes], device=own.bank.device)
    score, loss = evaluate_probes(
        found.shape, found.parameters, found.reads, control, own.bank, own.test
    )
    return score.cpu(), loss.cpu()


def _largest(said: Sequence[tuple[Tensor, Tensor]], which: int) -> float:
    return float((said[0][which] - said[1][which]).abs().max())


def trees(setting: Setting, figures: Figures) -> None:
    """The structural probe: distances and depths in states that hold each word's ancestors."""
    number, epochs = (60, 10) if setting.small else (600, 40)
    every = trees_of(number, 5, 9, 0)
    cut = number * 3 // 4
    known, judges = every[:cut], every[cut:]
    exact = _ancestors(every, 9)
    noise = torch.randn(exact.shape, generator=torch.Generator().manual_seed(0))
    rows = np.concatenate([tree.rows for tree in known])
    probes = [TreeProbe(task, source, 0) for task in ("distance", "depth") for source in (0, 1)]
    found = {}
    for place, device in (("cpu", CPU), ("device", setting.device)):
        states = States.of([noise, exact], rows, device)
        learn = partial(trained, states, known, judges, probes, 16, epochs=epochs)
        fitted, seconds = timed(setting, learn)
        found[place] = fitted.losses.cpu()
        figures.note(f"seconds on the {place}", seconds)
    figures.note("losses", found["device"].tolist())
    far = float((found["device"] / found["cpu"] - 1).abs().max())
    figures.at_most("losses apart, of themselves", far, 0.1)
    best = float((found["device"][1::2] / found["device"][::2]).max())
    figures.at_most("loss of planted trees, of that of noise", best, 0.9)


def _ancestors(every: Sequence[Tree], longest: int) -> Tensor:
    """A state a word: a 1 for each word on its way to the root, so distances are exact."""
    states = torch.zeros(sum(map(len, every)), longest)
    for tree in every:
        for word, row in enumerate(tree.rows.tolist()):
            at = word
            while at > 0:
                states[row, at] = 1
                at = int(tree.heads[at])
    return states


def heads_of_words(setting: Setting, figures: Figures) -> None:
    """The attention probe: each word's head from maps, of which one looks where the tree says."""
    every = trees_of(60 if setting.small else 400, 5, 9, 1)
    sentences = [_sentence(tree) for tree in every]
    maps = _maps(every, 4)
    cut = len(every) * 3 // 4
    words = sum(map(len, every))
    vectors = torch.randn(words, 6, generator=torch.Generator().manual_seed(1))
    found = {}
    for place, device in (("cpu", CPU), ("device", setting.device)):
        sizes = attention_features.sizes_of(maps, sentences[:cut])
        train_on, scored = (
            attention_features.cases(part, maps, sizes, vectors, (0,), device)
            for part in (sentences[:cut], sentences[cut:])
        )
        variants = torch.tensor([0, 1], device=device)
        for name, (weights, score) in {
            "attention": attention_features.by_attention(2, slice(0, 4), device),
            "words": attention_features.by_words_alone(2, 7, device),
            "attention and words": attention_features.by_attention_and_words(
                2, slice(0, 4), 7, device
            ),
        }.items():
            end = attention_features.train_probes(weights, score, variants, train_on, scored)
            answers = attention_features.attached(end.weights, score, variants, scored)
            right = _right(answers, sentences[cut:])
            found[place, name] = right, [weight.cpu() for weight in end.weights]
    for name in ("attention", "words", "attention and words"):
        (one, first), (two, second) = found["cpu", name], found["device", name]
        figures.at_most(f"{name}: accuracy apart", abs(one - two), 0.05)
        figures.note(f"{name}: weights apart", apart(second[0], first[0]))
    figures.at_least("accuracy of the planted head", found["device", "attention"][0], 0.9)


def _sentence(tree: Tree) -> Sentence:
    words = len(tree)
    return Sentence(
        tree.document,
        int(tree.rows[0]),
        tree.heads >= 0,
        tree.heads,
        np.ones(words, dtype=np.bool_),
        tuple(f"w{place}" for place in range(words)),
        tuple(RELATIONS[place % len(RELATIONS)] for place in range(words)),
    )


def _maps(every: Sequence[Tree], heads: int) -> Maps:
    """Attention that is noise, and a first head that half looks at each word's head."""
    sizes = np.array([len(tree) for tree in every])
    starts = np.cumsum(sizes**2) - sizes**2
    flat = torch.zeros(int((sizes**2).sum()), heads, dtype=torch.float16)
    maps = Maps(tuple((0, head) for head in range(heads)), flat, starts, sizes)
    random = torch.Generator().manual_seed(2)
    for tree in every:
        words = len(tree)
        looks = torch.rand(words, words, heads, generator=random)
        looks /= looks.sum(1, keepdim=True)
        child = np.flatnonzero(tree.heads >= 0)
        looks[:, :, 0] /= 2
        looks[child, tree.heads[child], 0] += 0.5
        maps.of(tree.document)[:] = looks - 1 / words
    return maps


def _right(answers: dict[int, np.ndarray], sentences: Sequence[Sentence]) -> float:
    """The share of words whose head the probe of the task finds."""
    right = [
        (answers[place][0][: len(one)] == one.heads)[one.scored]
        for place, one in enumerate(sentences)
    ]
    return float(np.concatenate(right).mean())


def description_length(setting: Setting, figures: Figures) -> None:
    """The online and the variational code of planted labels and of the control's, in bits."""
    number, steps = (2_000, 120) if setting.small else (4_000, 600)
    probes = [Probe((layer,), control) for layer in range(LAYERS) for control in (False, True)]
    bits: dict[tuple[str, str], Tensor] = {}
    for place, device in (("cpu", CPU), ("device", setting.device)):
        own = planted(device, number, True)
        ends = codes.ends_of(len(own.learnt), (25.0, 50.0, 100.0))
        given = (own.bank, probes, own.learnt, own.dev, ends, Schedule(), 0)
        nats, _ = codes.prequential_code("mlp", 16, *given)
        bits[place, "online"] = nats.sum(1).cpu()
        found = codes.train_bayesian(None, own.bank, probes, own.learnt, steps, 0)
        nats = codes.variational_code(found, own.bank, own.learnt, 0).sum(1)
        bits[place, "variational"] = (nats + codes.divergence(found.layers)).cpu()
    for code in ("online", "variational"):
        one, two = bits["cpu", code], bits["device", code]
        figures.at_most(f"{code}: code apart, of itself", float((two / one - 1).abs().max()), NOISE)
        share = float(two[-2] / two[-1])
        figures.at_most(f"{code}: code of planted labels, of the control's", share, 0.7)
