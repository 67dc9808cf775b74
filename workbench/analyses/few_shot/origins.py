"""Which demonstration an answer comes from: its attribution, summed by demonstration.

The log-probability of the chosen label is attributed to the pieces of the prompt; the scores of the
text and of the label of each demonstration, of the template and of the text in question are summed.
Demonstrations with the chosen label are compared with the others. Costs: those of
`attribution.parts`, for some of the texts.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.analyses.attribution.parts import OTHER, PartScores, Reading, attributed
from workbench.core.arrays import Ints
from workbench.core.cluster_sample import ClusterSample
from workbench.engine.batch import NO_WORD
from workbench.models.output_heads.lm_losses import one_hidden
from workbench.models.scoring.prompts import QUERY, Demonstration, PromptDesign, Text, filled

if TYPE_CHECKING:
    from workbench.engine.model import Model
    from workbench.experiment.definition import Progress

KINDS = ("text", "label", "template")
ANSWER = "answer"  # pieces of the label that is explained, which later ones read
QUERIED = "in question"


def origin_tables(
    model: "Model",
    design: PromptDesign,
    shown: Sequence[Demonstration],
    texts: Sequence[Text],
    chosen: Ints,
    start: int | None,
    number: int,
    seed: int,
    progress: "Progress",
) -> dict[str, pd.DataFrame]:
    """The tables `attribution`, `same_label` and `origins` of the chosen labels of some texts."""
    random = np.random.default_rng([seed, len(texts)])
    rows = np.sort(random.choice(len(texts), min(number, len(texts)), replace=False)).tolist()
    words, labels = list(design.words.values()), [design.labels[n] for n in chosen[rows]]
    readings = [
        reading(model, design, shown, texts[n], words[label], start)
        for n, label in zip(rows, chosen[rows].tolist(), strict=True)
    ]
    if (found := attributed(model, readings, seed, progress)) is None:
        return {}
    sample = ClusterSample.of(np.arange(len(rows)), seed)
    table = []
    for n in (*range(len(shown)), QUERY):
        parts = {"all": [_part(n, kind) for kind in KINDS]}
        parts |= {kind: [_part(n, kind)] for kind in KINDS}
        about = {"demonstration": QUERIED, "label": "", "said": ""}
        if n != QUERY:
            said = " | ".join((each,) if isinstance(each := shown[n].text, str) else each)
            about = {"demonstration": str(n + 1), "label": shown[n].label, "said": said}
        table += [{**about, **row} for row in found.rows(parts, sample)]
    is_same = np.array([[each.label == label for each in shown] for label in labels])
    same = []
    for part, kinds in (("all", KINDS), ("label", ("label",)), ("text", ("text",))):

        def more(row: int, scores: PartScores, kinds: Sequence[str] = kinds) -> float:
            return _more(scores, is_same[row], kinds)

        if found_row := found.compared(more, sample):
            same.append({"part": part, "difference": found_row.pop("value"), **found_row})
    origins = _origins(found.own, shown, rows, labels)
    tables = {"attribution": table, "same_label": same, "origins": origins}
    return {name: pd.DataFrame(each) for name, each in tables.items() if each}


def _more(scores: PartScores, is_same: NDArray[np.bool_], kinds: Sequence[str]) -> float:
    """How much more demonstrations with the chosen label speak for it than others, from -1 to 1.

    The difference of their mean sums of scores, relative to twice the mean absolute scores of a
    demonstration; NaN without both, or without scores.
    """
    if is_same.all() or not is_same.any():
        return np.nan
    numbers = range(len(is_same))
    each = [sum(scores.nats.get(_part(n, kind), 0.0) for kind in kinds) for n in numbers]
    whole = sum(scores.sizes.get(_part(n, kind), 0.0) for kind in KINDS for n in numbers)
    own = np.array(each)
    gap = own[is_same].mean() - own[~is_same].mean()
    return float(gap * len(is_same) / 2 / whole) if whole else np.nan


def _part(n: int, kind: str) -> str:
    return f"{n} {kind}"


def _origins(
    own: Sequence[PartScores],
    shown: Sequence[Demonstration],
    rows: Sequence[int],
    labels: Sequence[str],
) -> list[dict[str, object]]:
    """The demonstration whose text and label speak most for the chosen label of each text."""
    table: list[dict[str, object]] = []
    for row, label, scores in zip(rows, labels, own, strict=True):
        both = [(_part(n, "text"), _part(n, "label")) for n in range(len(shown))]
        nats = [sum(scores.nats.get(part, 0.0) for part in parts) for parts in both]
        best = int(np.argmax(nats))
        table.append(
            {
                "text": row + 1, "chosen": label, "demonstration": best + 1,
                "label": shown[best].label, "nats": nats[best],
                "share": scores.share(*both[best]), "by_length": scores.length(*both[best]),
            }
        )  # fmt: skip
    return table


def reading(
    model: "Model",
    design: PromptDesign,
    shown: Sequence[Demonstration],
    text: Text,
    word: str,
    start: int | None,
) -> Reading:
    """A prompt with the words of a label, and the part of it that each piece belongs to."""
    before, after = design.stretches(shown, text)
    sides = ("".join(each.text for each in side) for side in (before, after))
    batch, ((first, last),) = filled(model, [(next(sides), next(sides))], [word])
    named = [
        *((_part(each.demonstration, each.kind), len(each.text)) for each in before),
        (ANSWER, len(word)),
        *((_part(each.demonstration, each.kind), len(each.text)) for each in after),
    ]
    ends = np.cumsum([size for _, size in named])
    places = np.searchsorted(ends, batch.words_of(0)[:, 0], side="right")
    of_word = [named[place][0] for place in places]
    of_word[first:last] = [ANSWER] * (last - first)

    def parts(words: Tensor) -> list[str]:
        return [OTHER if word == NO_WORD else of_word[word] for word in words[0].tolist()]

    def places_of(words: Tensor) -> list[int]:
        return ((words[0] >= first) & (words[0] < last)).nonzero()[:, 0].tolist()

    pieces = model.encode(batch)
    if model.objective == "seq2seq" and (own := places_of(pieces.words)):
        place = torch.tensor([[0, own[0]]])
        source, target, _ = one_hidden(pieces, place, model.symbols, "within-word")
        wanted = places_of(target.words)
        return Reading(source, parts(source.words), wanted, target, parts(target.words))
    if model.objective == "causal" and start is not None:
        pieces = pieces.prefixed(1, start)
    return Reading(pieces, parts(pieces.words), places_of(pieces.words))
