"""Claims of `steering` and `erasure` about random weights, for the pooled gate.

What must not be called effective are directions and subspaces that are random themselves: each of a
hundred is measured like the difference of two sets of texts, or like what a probe finds, against
others. (The difference of two sets of texts moves random weights, too: it is not claimed that they
know anything.) Each is one claim over all layers. Costs: some ten seconds for each twin.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

import workbench as wb
from tests.judges.twins_facts import LEVEL, Claims
from workbench import Corpus
from workbench.analyses.predictions.target import Target
from workbench.analyses.steering import erasure_corpus, steering_corpus
from workbench.analyses.steering.leace import Whitened, random_eraser
from workbench.analyses.steering.moved import (
    Against,
    Moving,
    layers_of,
    open_states,
    random_directions,
)
from workbench.core.cluster_sample import ClusterSample
from workbench.experiment import Inputs
from workbench.experiment.definition import EXPERIMENTS

TRIED, NULL = 100, 99  # directions that are tried, each against some of the others
TEXTS, RANK = 12, 5


def called(effects: Any, contexts: list[str], seed: int) -> Claims:
    """How many random directions are called effective in some layer.

    # effects: [texts, directions, layers]
    """
    sample, random = ClusterSample.of(contexts, seed), np.random.default_rng(seed)
    n_all = effects.shape[1]
    made = 0
    for n in range(TRIED):
        others = random.permutation([m for m in range(n_all) if m != n])[:NULL]
        rows = Against(effects[:, n], effects[:, others], sample).rows()
        made += any(row["significant"] for row in rows)
    return TRIED, made, LEVEL


def steering(twin: Any, corpus: Corpus, seed: int) -> Mapping[str, Claims]:
    """Random directions of length 1 move the logits of two words as the difference would.

    A twin that is right about too few texts to steer is refused, and claims nothing.
    """
    pairs = wb.read(f"primer/counterfactuals:seed={seed}")
    inputs = Inputs((twin,), (pairs,), split="test", seed=seed)
    settings = EXPERIMENTS["steering"].settings(max_words=1, max_texts=2 * TEXTS)
    try:
        group = steering_corpus.word_pairs(twin, inputs, settings)[0][0]
    except wb.WorkbenchError as error:
        assert error.code == "too-few-sentences"
        return {"steering: random directions": (0, 0, LEVEL)}
    points = open_states(twin, group.sides[0].prediction)
    unit = random_directions(2 * TRIED, twin.width, seed + 1)
    tested = np.flatnonzero(~group.fitted(seed))[:TEXTS].tolist()
    effects = np.zeros((len(tested), len(unit), len(layers_of(points))))
    for row, text in enumerate(tested):
        side, own = group.sides[text], Moving.of(points, group.sides[text].prediction)
        value = Target(side.other, side.choice).value
        sign = -1.0 if group.is_first[text] else 1.0
        for layer in range(effects.shape[2]):
            new = own.states[layer] + sign * own.states[layer].norm() * unit
            effects[row, :, layer] = own.numbers(layer, new, value) - own.number(value)
    contexts = [group.sides[n].context for n in tested]
    return {"steering: random directions": called(effects, contexts, seed)}


def erasure(twin: Any, corpus: Corpus, seed: int) -> Mapping[str, Claims]:
    """Random subspaces cost log-probability as what a probe finds would."""
    own = corpus if "pos" in corpus.layers() else wb.read("primer")
    docs = list(own.docs("test" if "test" in own.splits else None, 300))
    sample = erasure_corpus.sampled(twin, docs, "pos", (100, TEXTS), seed)
    generator = torch.Generator().manual_seed(seed + 1)
    n_layers = len(layers_of(sample.test[0].moving.points))
    effects = np.zeros((len(sample.test), 2 * TRIED, n_layers))
    for layer in range(n_layers):
        space = Whitened.of(sample.states(sample.fit, layer))
        erasers = [random_eraser(space, RANK, generator) for _ in range(2 * TRIED)]
        for row, word in enumerate(sample.test):
            zero = torch.zeros(twin.width)
            numbers = erasure_corpus.costs(word, layer, erasers[0], erasers, zero)
            effects[row, :, layer] = numbers[2:]
    contexts = [str(word.document) for word in sample.test]
    return {"erasure: random subspaces": called(effects, contexts, seed)}
