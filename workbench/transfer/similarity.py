"""How alike the layers of any models are, word by word: the experiment `similarity`.

Debiased linear CKA of every layer with every other, within each model and between any two, whatever
their widths, stacks and tokenizers. Costs one pass of each model over the corpus, what
`word_states` keeps on disk meanwhile, and for each two layers a product of words by width by width:
13 by 13 layers of width 768 and 6,000 words take a minute on two cores.
"""

from collections.abc import Iterator
from itertools import combinations_with_replacement

import pandas as pd
from pydantic import Field
from torch import Tensor

from workbench.corpora.encode import encode
from workbench.engine.batch import Batch
from workbench.errors import WorkbenchError
from workbench.experiment import Caveat, Experiment, Inputs, Progress, Result, Settings, Table
from workbench.transfer.word_states import States, Words, every_pair, words_of

ROUGH = 100  # words, below which CKA is rough
SIMILARITY = ("model_a", "stack_a", "layer_a", "model_b", "stack_b", "layer_b")
SIMILARITY_TABLE = Table(
    "Debiased linear CKA of two layers' states of the same words: 1 is the same up to rotation, "
    "scale and shift, 0 what independent layers have on average, a little below 0 chance; empty "
    "where a layer gives all words one state. Layer 0 are the embeddings.",
    SIMILARITY,
)


class Similarity(Settings):
    """What is compared."""

    limit: int | None = Field(300, ge=1, description="Sentences at most; all where none is said.")
    words: int = Field(
        20_000, ge=10, le=10_000_000, description="Words compared at most, drawn by the seed."
    )


TABLES = {
    "similarity": SIMILARITY_TABLE,
    "words": Table(
        "Words of the corpus, those that the model has no piece for, and those that were compared.",
        ("model",),
    ),
}


def run(inputs: Inputs, settings: Similarity, progress: Progress) -> Result:
    """States of every model, then every two models' layers."""
    batch = read(inputs)
    with words_of(inputs, batch, settings.words, progress) as words:
        pairs = list(combinations_with_replacement(words.models, 2))
        parts = []
        for place, (a, b) in enumerate(pairs):
            progress(place, len(pairs), f"layers of {a.name} and {b.name}")
            parts.append(similarity(a, b, every_pair(words, a, b)))
        compared = [
            (each.name, words.all, int(each.missing.sum()), len(words.rows))
            for each in words.models
        ]
        progress(len(pairs), len(pairs), "layers")
        caveats = [Caveat(text, ("similarity",)) for text in word_caveats(words)]
    caveats += [Caveat(text, ("similarity",)) for text in stack_caveats(words.models)]
    tables = {
        "similarity": pd.concat(parts, ignore_index=True),
        "words": pd.DataFrame(compared, columns=["model", "words", "without_piece", "compared"]),
    }
    return Result(tables, caveats=tuple(caveats))


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


EXPERIMENT = Experiment(
    name="similarity",
    about="How alike the layers of two or more models are, word by word: debiased linear CKA.",
    settings=Similarity,
    run=run,
    tables=TABLES,
    models=(2, None),
    split="held-out",
    figures="workbench.view.transfer_drift:SIMILARITY",
)
