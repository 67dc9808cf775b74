"""What edge probing and description length claim of random weights and random labels.

Tags are shuffled over all words of a corpus, so no layer of any model knows them: every gain of a
layer over the one below it, every score significantly above the majority, every code shorter
than that of the label frequencies, and every supported finding with a null is a false claim.
"""

import random
from typing import Any

from spacy.tokens import Doc

from tests.judges.odd import run_here
from workbench import Corpus, Result
from workbench.experiment.definition import EXPERIMENTS

LEVEL = 0.05
Claims = tuple[int, int, float]  # tried, false, at this level
SIZES = {"train": 80, "dev": 40, "test": 80}


def claimed(experiment: str, result: Result) -> tuple[int, int]:
    """Findings with a null, and how many of them are supported."""
    verdicts = [
        finding.verdict
        for finding in EXPERIMENTS[experiment].findings_of(result.tables)
        if finding.null is not None
    ]
    return len(verdicts), verdicts.count("supported")


def shuffled(corpus: Corpus, seed: int) -> Corpus:
    """Some sentences of each split, with the tags of a split shuffled over its words."""
    draw = random.Random(seed)
    splits = {}
    for split, size in SIZES.items():
        docs = list(corpus.docs(split, size))
        tags = [token.pos_ for doc in docs for token in doc]
        draw.shuffle(tags)
        place = iter(tags)
        splits[split] = [
            Doc(doc.vocab, words=[t.text for t in doc], spaces=[bool(t.whitespace_) for t in doc],
                pos=[next(place) for _ in doc])
            for doc in docs
        ]  # fmt: skip
    return Corpus("shuffled", {name: (lambda d=d: iter(d)) for name, d in splits.items()})


def edge_probing(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """Gains from layer to layer with p < 0.05, and intervals that lie above the majority."""
    result = run_here(
        "edge-probing", twin, shuffled(corpus, seed), seed, probes=("linear",), modes=("layer",),
        tasks=("pos",), half_data_check=False, random_baseline=False, seeds=(seed,),
    )  # fmt: skip
    means = result.tables["means"]
    majority = float(means.loc[means["encoder"] == "majority", "mean"].iloc[0])
    layers = means[(means["encoder"] == "model") & ~means["control"]]
    gains = layers["p_value"].dropna()
    false = int((gains < LEVEL).sum()) + int((layers["lower"] > majority).sum())
    tried, supported = claimed("edge-probing", result)
    return len(gains) + len(layers) + tried, false + supported, LEVEL


def description_length(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """Layers whose code is significantly shorter than that of the label frequencies."""
    result = run_here(
        "description-length", twin, shuffled(corpus, seed), seed, tasks=("pos",),
        codes=("online",), max_targets=300, control_tasks=False, seeds=(seed,),
    )  # fmt: skip
    summary = result.tables["summary"]
    false = int((summary["lower"] > summary["baseline_frequency"]).sum())
    tried, supported = claimed("description-length", result)
    return len(summary) + tried, false + supported, LEVEL
