"""How alike the layers of one or more models are, word by word: the experiment `similarity`.

Debiased linear CKA of every layer with every other, within each model and between any two, whatever
their widths, stacks and tokenizers. One model alone stands next to its random twin: layers that
share a residual stream are alike whatever was learnt. Costs one pass of each model over the corpus,
what `word_states` keeps on disk meanwhile, and for each two layers a product of words by width by
width: 13 by 13 layers of width 768 and 6,000 words take a minute on two cores.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations_with_replacement

import pandas as pd
from pydantic import Field
from torch import Tensor

from workbench.corpora.encode import encode
from workbench.engine.batch import Batch
from workbench.engine.model import Model
from workbench.errors import WorkbenchError
from workbench.experiment import Caveat, Experiment, Inputs, Progress, Result, Settings, Table
from workbench.models.fresh import fresh
from workbench.models.references import RANDOM
from workbench.transfer.word_states import States, Words, every_pair, words_of

ROUGH = 100  # words, below which CKA is rough
SIMILARITY = ("model_a", "stack_a", "layer_a", "model_b", "stack_b", "layer_b")
SIMILARITY_TABLE = Table(
    "Debiased linear CKA of two layers' states of the same words: 1 is the same up to rotation, "
    "scale and shift, 0 what independent layers have on average, a little below 0 chance; empty "
    "where a layer gives all words one state. Layer 0 are the embeddings. One model stands next to "
    "its random twin, each compared with itself.",
    SIMILARITY,
)


class Similarity(Settings):
    """What is compared."""

    limit: int | None = Field(300, ge=1, description="Sentences at most; all where none is said.")
    words: int = Field(
        20_000, ge=10, le=10_000_000, description="Words compared at most, drawn by the seed."
    )
    twin: bool = Field(
        True, description="Random twin next to one model alone, for what its architecture explains."
    )


TABLES = {
    "similarity": SIMILARITY_TABLE,
    "words": Table(
        "Words of the corpus, those that the model has no piece for, and those that were compared.",
        ("model",),
    ),
}


def run(inputs: Inputs, settings: Similarity, progress: Progress) -> Result:
    """States of every model, then every two models' layers; of a model and its twin each's own."""
    batch = read(inputs)
    alone = len(inputs.models) == 1 and settings.twin
    if alone:
        inputs = replace(inputs, models=(inputs.model, twin_of(inputs.model, inputs.seed)))
    with words_of(inputs, batch, settings.words, progress) as words:
        pairs = list(combinations_with_replacement(words.models, 2))
        if alone:
            pairs = [(a, b) for a, b in pairs if a is b]
        parts = []
        for place, (a, b) in enumerate(pairs):
            progress(place, len(pairs), f"layers of {_names(a.name, b.name)}")
            parts.append(similarity(a, b, every_pair(words, a, b)))
        compared = [
            (each.name, words.all, int(each.missing.sum()), len(words.rows))
            for each in words.models
        ]
        progress(len(pairs), len(pairs), "layers")
        caveats = [Caveat(text, ("similarity",)) for text in word_caveats(words)]
    texts = [*stack_caveats(words.models), *(twin_caveats(words.models) if alone else ())]
    caveats += [Caveat(text, ("similarity",)) for text in texts]
    tables = {
        "similarity": pd.concat(parts, ignore_index=True),
        "words": pd.DataFrame(compared, columns=["model", "words", "without_piece", "compared"]),
    }
    return Result(tables, caveats=tuple(caveats))


def _names(one: str, other: str) -> str:
    """Of one model, its name once: its layers are compared with themselves."""
    return one if one == other else f"{one} and {other}"


def twin_of(model: Model, seed: int) -> Model:
    """The same architecture with random weights, by the name that opens it."""
    twin = fresh(model, seed)
    twin.name = f"{model.name.removesuffix(RANDOM)}{RANDOM}"
    return twin


def read(inputs: Inputs) -> Batch:
    """The texts to compare on."""
    batch = encode(inputs.docs())
    if not len(batch):
        raise WorkbenchError(
            "there is no sentence to look at.",
            where=inputs.corpus.name,
            remedy="Name a corpus or a split that has some.",
        )
    return batch


def similarity(a: States, b: States, cka: Tensor) -> pd.DataFrame:
    """The rows of two models.  # of [layers of A, layers of B]"""
    rows = [
        (a.name, *one, b.name, *other, float(cka[i, j]))
        for i, one in enumerate(a.layers)
        for j, other in enumerate(b.layers)
    ]
    return pd.DataFrame(rows, columns=[*SIMILARITY, "cka"])


def word_caveats(words: Words) -> Iterator[str]:
    """What is to be known of the words compared."""
    if words.shared < words.all:
        yield (
            f"{words.all - words.shared:,} of {words.all:,} words are left out: one of the models "
            "has no piece for them, or they are beyond its length."
        )
    if len(words.rows) < words.shared:
        yield f"Compared on {len(words.rows):,} of {words.shared:,} words, drawn by the seed."
    if len(words.rows) < ROUGH:
        yield f"Only {len(words.rows)} words are compared: numbers of fewer than {ROUGH} are rough."


def stack_caveats(models: tuple[States, ...]) -> Iterator[str]:
    """What is to be known of stacks."""
    if any(len(each.stores) > 1 for each in models):
        yield (
            "A decoder beside an encoder was given the same text, a piece behind: a word's state "
            "is where it is read, not where it is written."
        )


def twin_caveats(models: tuple[States, ...]) -> Iterator[str]:
    """What a model's random twin stands there for."""
    model, twin = models
    yield (
        f"{twin.name} is the same architecture with random weights: what layers of {model.name} "
        "have in common was learnt only as far as they are more, or less, alike than the twin's."
    )


EXPERIMENT = Experiment(
    name="similarity",
    about="How alike the layers of one or more models are, word by word: debiased linear CKA.",
    settings=Similarity,
    run=run,
    exact_up_to=math.inf,
    tables=TABLES,
    version=2,
    models=(1, None),
    split="held-out",
    figures="workbench.view.transfer_drift:SIMILARITY",
)
