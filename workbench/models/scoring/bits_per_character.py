"""Bits per character of the same texts by several models, with paired intervals over texts.

Losses per piece depend on the tokenizer; the bits of a text divided by its characters do not. Only
texts count that every model reads whole. Costs: a forward pass of each model over the texts, one
for each piece where the likelihood is a pseudo-likelihood.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.core.arrays import Floats
from workbench.core.errors import WorkbenchError
from workbench.core.stats import DRAWS, difference, interval_around, resampled
from workbench.engine.batch import Batch
from workbench.engine.model import Model
from workbench.models.huggingface import HuggingFace
from workbench.models.references import Pseudo
from workbench.models.scoring.lm_scoring import PSEUDO, Scores, score, start_of

KINDS = {"causal": "left to right", "bidirectional": "both directions"}  # by objective


def kind_of(model: Model) -> str:
    """What the number of a model is; only numbers of one kind can be compared."""
    return KINDS.get(str(model.objective), "pseudo")


def likelihood(model: Model, batch: Batch, seed: int = 0, with_start: bool | None = None) -> Scores:
    """The likelihood of each text; of a model that sees both sides, its pseudo-likelihood.

    `with_start` says whether a model that reads from the left reads its start token first; by
    default, if it predicts these texts better after it.
    """
    pseudo: Pseudo | None = "original" if model.objective in PSEUDO else None
    start = None
    if with_start is None:
        start = start_of(model, batch)
    elif with_start and isinstance(model, HuggingFace):
        start = model.tokenizer.bos_token_id
    return score(model, batch, pseudo=pseudo, seed=seed, start_token=start)


@dataclass(frozen=True)
class Bits:
    """Bits per character of each model, a mean over its seeds, and their bootstrap samples."""

    scored: Sequence[Sequence[Scores]]  # [models][seeds]
    whole: NDArray[np.bool_]  # [texts], read whole by every model
    characters: Floats  # [models]
    values: Floats  # [models]
    draws: Floats  # [models, draws]

    def row(self, model: int) -> dict[str, Any]:
        """The columns of a table; counts are of the first seed."""
        first, whole = self.scored[model][0], self.whole
        lower, upper = interval_around(self.values[model], self.draws[model])
        return {
            "bits_per_character": self.values[model], "lower": float(lower), "upper": float(upper),
            "texts": int(whole.sum()), "characters": round(self.characters[model]),
            "pieces": int(first.pieces[whole].sum()), "unknown": int(first.unknown[whole].sum()),
            "unscored": int(first.bare[whole].sum()),
        }  # fmt: skip

    def gap(self, model: int, against: int) -> dict[str, float]:
        """Bits of a model minus those of another, with interval and uncorrected p-value."""
        lower, upper, p = difference(self.draws[against], self.draws[model])
        gap = float(self.values[model] - self.values[against])
        return {"difference": gap, "lower": lower, "upper": upper, "p": p}

    def remarks(self, names: Sequence[str]) -> Iterator[str]:
        """What the numbers leave out, in sentences."""
        left_out = int((~self.whole).sum())
        if left_out:
            yield (
                f"{left_out:,} of {len(self.whole):,} texts are longer than what some model reads, "
                "or have no piece for one: they are left out for all."
            )
        for model, name in enumerate(names):
            row = self.row(model)
            if row["unscored"]:
                yield (
                    f"{name} has no start token, so the first piece of {row['unscored']:,} texts "
                    "has no context: neither its bits nor its characters count."
                )
            if row["unknown"]:
                yield (
                    f"{row['unknown']:,} of {row['pieces']:,} pieces are unknown to {name}, and "
                    "easier to predict than what they stand for."
                )


def bits_per_character(
    batch: Batch, scored: Sequence[Sequence[Scores]], seed: int, where: str, draws: int = DRAWS
) -> Bits:
    """Bits per character on the texts that every model reads whole.

    `scored` has the scores of the texts of a batch by each seed of each model; `where` names the
    corpus in errors.
    """
    every = [each for seeds in scored for each in seeds]
    whole = np.all([(each.cut == 0) & (each.pieces > 0) for each in every], axis=0)
    if not whole.any():
        raise WorkbenchError(
            "there is no text that all of the models read whole.",
            code="too-few-sentences",
            where=where,
            remedy="Choose a corpus with shorter texts, or models that read longer ones.",
        )
    texts = [batch.text_of(n) for n in range(len(batch)) if whole[n]]
    per_byte = np.array([len(text) / len(text.encode()) for text in texts])  # characters, [texts]
    counts = np.stack(
        [
            np.stack(
                [
                    np.stack([each.nats[whole] / math.log(2), each.bytes[whole] * per_byte], -1)
                    for each in seeds
                ]
            )
            for seeds in scored
        ]
    )  # [models, seeds, texts, 2]

    def bits(sums: Floats) -> Floats:
        return sums[..., 0] / sums[..., 1]

    values = bits(counts.sum(2).astype(np.float64)).mean(1)
    characters = counts[:, 0, :, 1].sum(-1)
    return Bits(scored, whole, characters, values, resampled(counts, bits, seed, draws))
