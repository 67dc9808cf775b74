"""What the two probes of trees claim where the trees are drawn at random.

The words and their order are a corpus' own and their heads are drawn, so no layer, no head and no
random twin knows them: every score whose interval lies over the best baseline, every gain of a
layer over the one below it, and every supported finding with a null is a false claim. Costs seconds
each.
"""

import random
from typing import Any

from spacy.tokens import Doc

from tests.judges.odd import run_here
from tests.judges.twins_probes import claimed
from workbench import Corpus

LEVEL = 0.05
Claims = tuple[int, int, float]  # tried, false, at this level
SIZES = {"train": 60, "dev": 40, "test": 80}


def with_random_trees(corpus: Corpus, seed: int) -> Corpus:
    """Some sentences of each split; each word hangs on any that hangs already, or is the root."""
    draw = random.Random(f"trees {seed}")
    splits = {}
    for split, size in SIZES.items():
        found = []
        for doc in corpus.docs(split, size):
            order = draw.sample(range(len(doc)), len(doc))
            heads = [0] * len(doc)
            for place, word in enumerate(order):
                heads[word] = order[draw.randrange(place)] if place else word
            deps = ["ROOT" if head == word else "dep" for word, head in enumerate(heads)]
            found.append(Doc(doc.vocab, words=[t.text for t in doc], heads=heads, deps=deps))
        splits[split] = found
    return Corpus("random trees", {name: (lambda d=d: iter(d)) for name, d in splits.items()})


def structural_probe(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """Layers whose interval lies over the chain's score, and gains with p < 0.05."""
    result = run_here(
        "structural-probe", twin, with_random_trees(corpus, seed), seed, probe_rank=16,
        half_data_check=False,
        seeds=(seed,), measures=("distance",),
    )  # fmt: skip
    means = result.tables["means"]
    means = means[means["metric"] == "uuas"]
    chain = float(means.loc[means["encoder"] == "chain", "value"].iloc[0])
    layers = means[means["encoder"] == "model"]
    gains = layers["p_value"].dropna()
    false = int((gains < LEVEL).sum()) + int((layers["lower"] > chain).sum())
    tried, supported = claimed("structural-probe", result)
    return len(gains) + len(layers) + tried, false + supported, LEVEL


def attention_probe(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """Probes of heads whose interval lies over the best offset and an even guess."""
    result = run_here(
        "attention-probe",
        twin,
        with_random_trees(corpus, seed),
        seed,
        half_data_check=False,
        seeds=(seed,),
    )
    means = result.tables["means"]
    own = means[(means["probe"] == "attention") & (means["encoder"] == "model") & ~means["control"]]
    tried, supported = claimed("attention-probe", result)
    return len(own) + tried, int((own["lower"] > own["baseline"]).sum()) + supported, LEVEL
