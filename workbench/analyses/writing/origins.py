"""Where written words come from: the attribution of each one to the source and to what it follows.

The log-probability of the pieces of a written word is attributed to all that the model reads before
it: the words of the source, among them those that are the same as the written one, the rest of the
prompt, and what it has already written. Costs: those of `attribution.parts`, for each written word
of some texts.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from workbench.analyses.attribution.parts import OTHER, Attributed, Reading, attributed
from workbench.core.cluster_sample import ClusterSample
from workbench.engine.batch import NO_WORD, Pieces, Row, pad

if TYPE_CHECKING:
    from workbench.engine.model import Model
    from workbench.experiment.definition import Progress

SOURCE, SAME, WRITTEN, PROMPT = "source", "same word in the source", "written before", "prompt"
PARTS = {
    SOURCE: (SOURCE, SAME), SAME: (SAME,), WRITTEN: (WRITTEN,), PROMPT: (OTHER,),
}  # fmt: skip
EVERY, COPIED, NOVEL = "all", "in the source", "in no source"
_WORD = re.compile(r"\w+")


class Source(NamedTuple):
    """What a model read for a text: its pieces, and the source's word that each belongs to."""

    read: Pieces  # [1, pieces]
    words: Sequence[str]  # of the source, by piece; "": of the prompt, or special


def origin_tables(
    model: "Model",
    sources: Mapping[int, Source],
    rows: Sequence[Sequence[int]],
    sample: ClusterSample,
    seed: int,
    progress: "Progress",
) -> dict[str, pd.DataFrame]:
    """The tables `origins` and `words` of the written words of some texts, by their index.

    # rows: [texts] of [pieces], what was written
    """
    readings: list[Reading] = []
    groups: list[dict[str, str]] = []  # by reading: which parts of it are of the same group
    about: list[tuple[int, str, bool]] = []  # by reading: its text, its word, whether it is copied
    for n, source in sources.items():
        for word, pieces in words_of(model, rows[n]):
            readings.append(_reading(model, source, rows[n], pieces))
            same = {place for place in source.words if place.partition(":")[2] == word.lower()}
            groups.append(
                {place: SAME if place in same else SOURCE for place in source.words if place}
            )
            about.append((n, word, bool(same)))
    if (found := attributed(model, readings, seed, progress)) is None:
        return {}
    grouped, copied = found.grouped(groups), np.array([each[-1] for each in about])
    texts = np.array([n for n, *_ in about])
    table = []
    for name, chosen in ((EVERY, copied | True), (COPIED, copied), (NOVEL, ~copied)):
        if chosen.any():
            part = grouped.take(np.flatnonzero(chosen).tolist())
            table += [
                {"words": name, **row} for row in part.rows(PARTS, sample.take(texts[chosen]))
            ]
    return {"origins": pd.DataFrame(table), "words": _words(found, grouped, about)}


def words_of(model: "Model", ids: Sequence[int]) -> list[tuple[str, list[int]]]:
    """The words of a written text, with the places of their pieces; punctuation is none.

    A decoder's text ends with its line.
    """
    tokenizer: Any = model.tokenizer  # type: ignore[attr-defined]
    so_far = [tokenizer.decode(ids[:n], skip_special_tokens=True) for n in range(len(ids) + 1)]
    ends, end = [len(text) for text in so_far], -1
    if model.objective == "causal":
        end = so_far[-1].find("\n", len(so_far[-1]) - len(so_far[-1].lstrip()))
    found = []
    for match in _WORD.finditer(so_far[-1], 0, ends[-1] if end < 0 else end):
        first, last = match.span()
        pieces = [n for n in range(len(ids)) if ends[n] < last and ends[n + 1] > first]
        if pieces:
            found.append((match[0], pieces))
    return found


def _reading(model: "Model", source: Source, ids: Sequence[int], wanted: Sequence[int]) -> Reading:
    """What a model reads before a written word, and the word."""
    parts = [word or OTHER for word in source.words]
    last = max(wanted) + 1
    tokenizer: Any = model.tokenizer  # type: ignore[attr-defined]
    own = np.array(ids[:last], dtype=np.int64)
    special = np.isin(own, tokenizer.all_special_ids)
    written = [WRITTEN] * last
    if model.objective == "seq2seq":
        target = pad([Row(own, np.full(last, NO_WORD), special, None, 0)])
        return Reading(source.read, parts, wanted, target, written)
    before, n_read = source.read, source.read.ids.shape[1]
    whole = Row(
        np.concatenate([before.ids[0].numpy(), own]), np.full(n_read + last, NO_WORD),
        np.concatenate([before.special[0].numpy(), special]), None, 0,
    )  # fmt: skip
    return Reading(pad([whole]), [*parts, *written], [n_read + place for place in wanted])


def _words(
    found: Attributed, grouped: Attributed, about: Sequence[tuple[int, str, bool]]
) -> pd.DataFrame:
    """The table `words`."""
    table = []
    places = Counter[int]()
    for own, group, (n, word, copied) in zip(found.own, grouped.own, about, strict=True):
        places[n] += 1
        of_source = {part: nats for part, nats in own.nats.items() if ":" in part}
        best = max(of_source, key=lambda part: of_source[part], default="")
        table.append(
            {
                "item": n, "place": places[n], "word": word, "copied": copied,
                "probability": np.exp(own.value),
                "source": group.share(SOURCE, SAME), "same_word": group.share(SAME),
                "written_before": group.share(WRITTEN), "from": best.partition(":")[2],
                "nats": of_source.get(best, np.nan),
            }
        )  # fmt: skip
    return pd.DataFrame(table)
