"""The experiment `patching`: which states, heads and MLPs carry what decides a prediction.

A counterfactual pair has a clean and a corrupt text that differ in a word of the context, so that
one word is right after the first and another after the second. Activations of the clean text are
restored in a pass over the corrupt one (Vig et al. 2020, Meng et al. 2022). The effect is the
logit of the clean text's word minus that of the corrupt text's word, above that of the corrupt text
alone; 1 is the whole difference between the two texts (Zhang and Nanda 2024).

Any state of another text removes what was wrong, so the null restores the states of an unrelated
clean text of the same alignment. The test takes all pairs in nats, whether the model distinguishes
them or not: then random weights, whose differences have random signs, show nothing. Its unit is the
exchange of words: pairs that exchange the same words are not independent. Costs: a few passes over
each pair and its unrelated texts, and for all activations of a kind one batch of rows.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.analyses.patching.experiments import PatchingOverCorpus
from workbench.analyses.patching.patch import MARGIN, open_points
from workbench.analyses.predictions.prediction import Prediction, of_word
from workbench.analyses.predictions.target import Target, fixed_pieces
from workbench.core.arrays import Floats
from workbench.core.cluster_sample import ClusterSample
from workbench.core.errors import WorkbenchError, require_one_of
from workbench.core.findings import listing, plural
from workbench.core.groups import grouped
from workbench.core.stats import SIGNIFICANT, holm, ratio
from workbench.corpora.counterfactuals import Counterfactual, counterfactual_pairs
from workbench.corpora.splits import FEW
from workbench.engine.batch import NO_WORD, joined
from workbench.engine.model import Model, UnsupportedError, refusal
from workbench.engine.taps import StackName
from workbench.engine.task import objective_table
from workbench.experiment.definition import Caveat, Inputs, Progress, Result
from workbench.models.interventions.patching import (
    Patch,
    PatchPoints,
    Point,
    What,
    activations,
    patched,
    recorded_base,
)

PLACES = ("changed", "between", "previous", "predicted", "other", "special")
KEYS = {"states": ("layer", "place"), "heads": ("kind", "layer", "head"), "mlps": ("layer",)}
ALL, NO_NAME = "all", "(none)"  # the row of all pairs; of pairs whose phenomenon is not known
MANY = 6  # exchanges; with fewer, no p-value can be below 0.05
# what rounding can change of a number, relative to the largest one, by precision
ROUNDING = {"fp64": 1e-12, "fp32": 1e-5, "fp16": 2e-3, "bf16": 1e-2}


# --- pairs as a model reads them ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Aligned:
    """A counterfactual pair whose two texts have the same pieces but for the exchanged words."""

    phenomenon: str
    clean: Prediction
    corrupt: Prediction
    target: Target
    places: Mapping[StackName, Mapping[str, tuple[int, ...]]]  # pieces by place; ELMo: words
    exchanges: tuple[str, str]  # of pieces of the context, and of the predicted words

    @property
    def alignment(self) -> tuple[object, ...]:
        """What two pairs have in common if one's states can stand for the other's."""
        return tuple(
            (stack, text.ids.shape[1], places.get("changed"), places.get("predicted"))
            for (stack, text), places in zip(
                self.clean.inputs.items(), self.places.values(), strict=True
            )
        )

    @property
    def n_pieces(self) -> int:
        return max(text.ids.shape[1] for text in self.clean.inputs.values())


NOT_PREDICTED = "the model does not predict the word: nothing is before it, or it is cut off"
UNKNOWN = "a predicted word is not in the vocabulary"
SAME_PIECE = "both predicted words begin with the same piece"
OTHER_PLACE = "their predicted words are not at the same place"
OTHER_PIECES = "their words have different numbers of pieces in the two texts"
SAME_CONTEXT = (
    "the model reads the same in both texts: the exchanged word is after the predicted one"
)


def aligned(model: Model, pair: Counterfactual) -> Aligned | str:
    """The pair as a model reads it, or why it cannot be used."""
    if pair.word != pair.corrupt_word:
        return OTHER_PLACE
    try:
        clean = of_word(model, pair.clean, pair.word)
        corrupt = of_word(model, pair.corrupt, pair.corrupt_word)
    except WorkbenchError as error:
        if error.code != "word-unknown":
            raise
        return NOT_PREDICTED
    assert clean.gold is not None and corrupt.gold is not None, "words of a text are known"
    if model.symbols.unknown in (clean.gold, corrupt.gold):
        return UNKNOWN
    if pair.has_against and clean.gold == corrupt.gold:
        return SAME_PIECE
    texts = zip(clean.inputs.values(), corrupt.inputs.values(), strict=True)
    if not all(torch.equal(one.words, other.words) for one, other in texts):
        return OTHER_PIECES
    places = {stack: _places(clean, corrupt, stack, pair.word) for stack in clean.inputs}
    if not any("changed" in each for each in places.values()):
        return SAME_CONTEXT
    against = corrupt.gold if pair.has_against else None
    target = Target(clean.gold, against, "logit" if pair.has_against else "log-probability")
    first = next(iter(places))
    changed = list(places[first].get("changed", ()))
    context = _exchange(
        *(str(each.inputs[first].ids[0, changed].tolist()) for each in (clean, corrupt))
    )
    words = _exchange(str(clean.gold), str(corrupt.gold))
    return Aligned(pair.phenomenon, clean, corrupt, target, places, (context, words))


def _exchange(one: str, other: str) -> str:
    """The name of an exchange, the same in both directions."""
    return " / ".join(sorted((one, other)))


def _places(
    clean: Prediction, corrupt: Prediction, stack: StackName, word: int
) -> dict[str, tuple[int, ...]]:
    """The pieces of a stack by place; a piece that changed may be the predicting one as well."""
    text = clean.inputs[stack]
    real = text.mask[0].tolist()
    owners: list[int] = text.words[0].tolist()
    fixed = fixed_pieces(clean, stack)
    predicted = _predicting(clean, stack, word)
    is_own = (text.words[0] == word) & (clean.kind == "hidden")  # read by no other piece
    differs = (text.ids[0] != corrupt.inputs[stack].ids[0]) & ~is_own
    words = {owners[piece] for piece in differs.nonzero()[:, 0].tolist()} - {NO_WORD}
    before = max((owner for owner in owners if owner != NO_WORD and owner < word), default=NO_WORD)
    found: dict[str, list[int]] = {"predicted": list(predicted)}
    for piece, owner in enumerate(owners):
        if not real[piece]:
            continue
        if differs[piece] or owner in words:
            found.setdefault("changed", []).append(piece)
            continue
        if piece in predicted or (owner == word and clean.model.objective == "bidirectional"):
            continue
        if fixed[piece] or owner in (NO_WORD, word):
            place = "special"
        elif owner == before:
            place = "previous"
        elif words and (min(words) < owner < word or word < owner < max(words)):
            place = "between"
        else:
            place = "other"
        found.setdefault(place, []).append(piece)
    return {place: tuple(found[place]) for place in PLACES if found.get(place)}


def _predicting(prediction: Prediction, stack: StackName, word: int) -> tuple[int, ...]:
    """The piece whose state predicts; in an encoder below a decoder, the mark of what is hidden.

    ELMo predicts from the words on both sides; -1 and the number of words are the text's ends.
    """
    model = prediction.model
    if model.objective == "bidirectional":
        return word - 1, word + 1
    if prediction.target is None or stack == model.stacks[-1].name:
        return (prediction.position,)
    marks = {model.symbols.mask, *model.symbols.sentinels}
    ids = prediction.inputs[stack].ids[0].tolist()
    return tuple(piece for piece, id_ in enumerate(ids) if id_ in marks)


# --- the run --------------------------------------------------------------------------------------


class Restoration(NamedTuple):
    """One activation that is restored: of a place in a layer, of a head, or of an MLP."""

    what: str
    stack: StackName
    layer: int
    kind: str = ""
    place: str = ""
    head: int = -1


@dataclass(frozen=True)
class _Measured:
    """Effects in nats: of the clean text, and the mean of unrelated texts; NaN where not known."""

    cells: Sequence[Restoration]
    clean: Floats  # [pairs], the logit difference after the clean text
    corrupt: Floats  # [pairs]
    effects: Floats  # [pairs, cells]
    random: Floats  # [pairs, cells]


def run(inputs: Inputs, settings: PatchingOverCorpus, progress: Progress) -> Result:
    """Compute the tables of `patching`."""
    model = inputs.model
    every, unusable = counterfactual_pairs(inputs.docs())
    chosen = _of_phenomena(every, settings.phenomena, inputs.corpus.name)
    order = np.random.default_rng([inputs.seed, len(chosen)]).permutation(len(chosen))
    pairs: list[Aligned] = []
    rejected: list[tuple[str, str]] = []  # phenomenon and reason
    for pair in (chosen[index] for index in order.tolist()):
        if len(pairs) == settings.max_pairs:
            break
        found = aligned(model, pair)
        if isinstance(found, str):
            rejected.append((pair.phenomenon, found))
        else:
            pairs.append(found)
    reasons = Counter(reason for _, reason in rejected)
    if not pairs:
        texts = " ".join(f"{count:,}: {reason}." for reason, count in reasons.items())
        raise WorkbenchError(
            f"{model.name} can use none of {plural(len(chosen), 'pair')}. {texts}",
            code="too-few-sentences",
            where=inputs.corpus.name,
            remedy="Choose pairs whose words are in the model's vocabulary.",
        )
    points, without = _points(pairs[0].corrupt, settings.restore)
    measured = _measured(pairs, points, settings.random_pairs, inputs.seed, progress)
    tables = _Tables(pairs, measured, inputs.seed)
    found_tables = {"pairs": tables.pairs_table(Counter(name for name, _ in rejected))}
    found_tables |= {each.what: tables.cells_table(each.what) for each in points}
    found_tables["objective"] = objective_table(model.predicts)
    missing = {pair.phenomenon for pair in chosen} - {pair.phenomenon for pair in pairs}
    caveats = [*without, *_caveats(pairs, tables, {**unusable, **reasons}, sorted(missing))]
    return Result(found_tables, caveats=tuple(Caveat(text) for text in caveats))


def _of_phenomena(
    pairs: Sequence[Counterfactual], names: Sequence[str], where: str
) -> list[Counterfactual]:
    known = dict.fromkeys(pair.phenomenon for pair in pairs)
    for name in names:
        require_one_of(
            name,
            known,
            f"there is no phenomenon {name!r:.60}.",
            code="setting-invalid",
            where=where,
        )
    return [pair for pair in pairs if not names or pair.phenomenon in names]


def _points(prediction: Prediction, restore: Sequence[What]) -> tuple[list[PatchPoints], list[str]]:
    """The points to restore, and what the model has not."""
    found, without = [], []
    for what in restore:
        try:
            found.append(open_points(prediction, what))
        except UnsupportedError as error:
            if len(restore) == 1:
                raise
            without.append(f"No {what} are restored: {error.what}")
    if not found:
        raise refusal(prediction.model, f"has no {listing(restore)}", "Restore states.")
    return found, without


# --- measuring ------------------------------------------------------------------------------------


def _measured(
    pairs: Sequence[Aligned],
    points: Sequence[PatchPoints],
    n_random: int,
    seed: int,
    progress: Progress,
) -> _Measured:
    cells = [cell for each in points for cell in _cells(each, pairs)]
    unrelated = _unrelated(pairs, n_random, seed)
    shape = len(pairs), len(cells)
    clean, corrupt = np.zeros(len(pairs)), np.zeros(len(pairs))
    effects, random = np.full(shape, np.nan), np.full(shape, np.nan)
    for index, pair in enumerate(pairs):
        sources = [pair, *(pairs[other] for other in unrelated[index])]
        patches = {n: each for n, cell in enumerate(cells) if (each := _patch(cell, pair))}
        found = _patched(points, pair, sources, list(patches.values()))
        clean[index], corrupt[index] = found.clean, found.corrupt
        effects[index, list(patches)] = found.patched[0] - found.corrupt
        if len(sources) > 1:
            random[index, list(patches)] = found.patched[1:].mean(0) - found.corrupt
        progress(index + 1, len(pairs), "patching pairs")
    largest = max(float(np.abs(clean).max()), float(np.abs(corrupt).max()))
    rounding = ROUNDING[pairs[0].clean.model.precision] * largest
    for values in (effects, random):
        values[np.abs(values) <= rounding] = 0.0
    return _Measured(cells, clean, corrupt, effects, random)


def _cells(points: PatchPoints, pairs: Sequence[Aligned]) -> Iterator[Restoration]:
    for point in points.points:
        if points.what == "states":
            for place in PLACES:
                if any(place in pair.places[point.stack] for pair in pairs):
                    yield Restoration("states", point.stack, point.layer, place=place)
        elif points.what == "heads":
            for head in range(points.heads[point]):
                yield Restoration("heads", point.stack, point.layer, point.kind, head=head)
        else:
            yield Restoration(points.what, point.stack, point.layer)


def _patch(cell: Restoration, pair: Aligned) -> Patch | None:
    """What to restore in a pair; None without such a place."""
    point = Point(cell.what, cell.stack, cell.layer, cell.kind)  # type: ignore[arg-type]
    if cell.place:
        pieces = pair.places[cell.stack].get(cell.place)
        return None if pieces is None else Patch(point, pieces, pieces)
    pieces = tuple(range(pair.clean.inputs[cell.stack].ids.shape[1]))
    return Patch(point, pieces, pieces, None if cell.head < 0 else cell.head)


class _Values(NamedTuple):
    """The number of both texts, and of the corrupt text with what each text gives."""

    clean: float
    corrupt: float
    patched: Floats  # [sources, patches]


@torch.no_grad()
def _patched(
    points: Sequence[PatchPoints],
    pair: Aligned,
    sources: Sequence[Aligned],
    patches: Sequence[Patch],
) -> _Values:
    """The corrupt text's number with activations of the clean texts of some pairs.

    All texts have the same alignment, so the sources are rows of one batch; their activations are
    laid side by side, as those of one long text.
    """
    corrupt, model = pair.corrupt, pair.corrupt.model
    given = [each.clean for each in sources]
    texts = joined([each.text for each in given])
    targets = [each.target for each in given if each.target is not None]
    written = joined(targets) if targets else None

    def logits(rows: int) -> Tensor:
        copies = [0] * rows
        target = None if corrupt.target is None else corrupt.target.take(copies)
        return corrupt.logits(corrupt.text.take(copies), target)

    def read_sources() -> object:
        if points[0].is_recurrent:
            return model.states_with_ends(texts)
        return pair.clean.logits(texts, written)

    def read_corrupt() -> object:
        return model.states_with_ends(corrupt.text) if points[0].is_recurrent else logits(1)

    base = recorded_base(points[0], read_corrupt)
    found = np.zeros((len(sources), len(patches)))
    for each in points:
        chosen = [n for n, patch in enumerate(patches) if patch.point.what == each.what]
        recorded = activations(each, read_sources)
        width = {point: states.shape[1] for (point, _), states in recorded.items()}
        side_by_side = {key: states.flatten(0, 1)[None] for key, states in recorded.items()}
        rows = [
            patches[n]._replace(
                sources=tuple(at + source * width[patches[n].point] for at in patches[n].sources)
            )
            for source in range(len(sources))
            for n in chosen
        ]
        numbers = patched(
            each, base, side_by_side, rows, lambda n, _: pair.target.value(logits(n)), pair.n_pieces
        )
        found[:, chosen] = numbers.numpy().reshape(len(sources), len(chosen))
    both = [float(pair.target.value(each.logits())) for each in (pair.clean, corrupt)]
    return _Values(both[0], both[1], found)


def _unrelated(pairs: Sequence[Aligned], number: int, seed: int) -> list[list[int]]:
    """For each pair, some others of its alignment that exchange other words, drawn at random."""
    same = grouped((pair.alignment, index) for index, pair in enumerate(pairs))
    random = np.random.default_rng([seed, len(pairs), number])
    chosen = []
    for pair in pairs:
        context, _ = pair.exchanges
        others = [n for n in same[pair.alignment] if pairs[n].exchanges[0] != context]
        chosen.append([others[n] for n in random.permutation(len(others))[:number].tolist()])
    return chosen


# --- tables ---------------------------------------------------------------------------------------


class _Tables:
    """Means over pairs, with intervals and tests over exchanges of words."""

    def __init__(self, pairs: Sequence[Aligned], measured: _Measured, seed: int) -> None:
        self.pairs, self.measured = pairs, measured
        self.sample = ClusterSample.of(_exchanges(pairs), seed)
        self.difference: Floats = measured.clean - measured.corrupt  # [pairs]
        self.distinguished: NDArray[np.bool_] = np.greater(self.difference, MARGIN)  # [pairs]
        self.has_random = np.array(~np.isnan(measured.random).all(1), dtype=np.bool_)  # [pairs]

    def cells_table(self, what: str) -> pd.DataFrame:
        """Effects of states, heads or MLPs."""
        columns = [n for n, cell in enumerate(self.measured.cells) if cell.what == what]
        cells = [self.measured.cells[n] for n in columns]
        effects, random = self.measured.effects[:, columns], self.measured.random[:, columns]
        is_distinct = self.distinguished[:, None] & ~np.isnan(effects)  # [pairs, cells]
        whole = np.where(is_distinct, self.difference[:, None], 0.0)
        part = np.where(is_distinct, effects, 0.0)
        effect = ratio(part.sum(0), whole.sum(0), np.nan)
        lower, upper = self.sample.ratio_interval(part, whole)
        is_tested = ~np.isnan(effects) & ~np.isnan(random)
        above = np.where(is_tested, effects - random, 0.0)  # [pairs, cells], nats
        also_distinct = is_distinct & is_tested
        p_values = self.sample.p_values(above)
        table = pd.DataFrame(cells)[["stack", "kind", "layer", "place", "head"]]
        table = table[["stack", *KEYS[what]]]
        return table.assign(
            effect=effect,
            lower=lower,
            upper=upper,
            random=ratio(
                np.where(also_distinct, random, 0.0).sum(0),
                np.where(also_distinct, self.difference[:, None], 0.0).sum(0),
                np.nan,
            ),
            nats=above.sum(0) / np.maximum(is_tested.sum(0), 1),
            p=p_values,
            restores=(p_values < SIGNIFICANT) & (above.sum(0) > 0) & (lower > 0),
            n=is_distinct.sum(0),
            n_tested=is_tested.sum(0),
        )

    def pairs_table(self, left_out: Mapping[str, int]) -> pd.DataFrame:
        """What the model predicts for the pairs of each phenomenon, and of all."""
        of_pair = np.array([pair.phenomenon for pair in self.pairs], dtype=object)
        names = sorted(set(of_pair))
        rows = [self._pairs_row(name, of_pair == name, left_out.get(name, 0)) for name in names]
        corrected = holm([row["p"] for row in rows])
        for row, p in zip(rows, corrected, strict=True):
            row["p"] = p
        if names != [ALL]:
            for row in rows:
                row["phenomenon"] = NO_NAME if row["phenomenon"] == ALL else row["phenomenon"]
            everything = np.full(len(of_pair), True)
            rows.append(self._pairs_row(ALL, everything, sum(left_out.values())))
        for row in rows:
            row["significant"] = bool(row["p"] < SIGNIFICANT)
        return pd.DataFrame(rows)

    def _pairs_row(self, name: str, chosen: NDArray[np.bool_], left_out: int) -> dict[str, Any]:
        clean, corrupt = self.measured.clean[chosen], self.measured.corrupt[chosen]
        of_two = [pair.target.against is not None for pair in self.pairs]
        compares: NDArray[np.bool_] = np.array(of_two)[chosen]
        prefers: list[float] = [
            float(right[compares].mean()) if compares.any() else np.nan
            for right in (clean > 0, corrupt < 0)
        ]
        sample, difference = self.sample.take(chosen), clean - corrupt
        lower, upper = sample.mean_interval(difference)
        return {
            "phenomenon": name,
            "clean_prefers": prefers[0],
            "corrupt_prefers": prefers[1],
            "clean": clean.mean(),
            "corrupt": corrupt.mean(),
            "difference": difference.mean(),
            "lower": lower,
            "upper": upper,
            "p": sample.p_above_zero(difference),
            "n": len(clean),
            "distinguished": int(self.distinguished[chosen].sum()),
            "with_random": int(self.has_random[chosen].sum()),
            "exchanges": sample.n_clusters,
            "left_out": left_out,
        }


def _exchanges(pairs: Sequence[Aligned]) -> list[str]:
    """The exchange of each pair: within a phenomenon, of the side that has more of them.

    Pairs that exchange one determiner for another are independent if they predict other words, and
    pairs that predict "was" or "were" are if their contexts exchange other words.
    """
    names = [""] * len(pairs)
    by_phenomenon = grouped((pair.phenomenon, index) for index, pair in enumerate(pairs))
    for phenomenon, members in by_phenomenon.items():
        sides = [[pairs[index].exchanges[side] for index in members] for side in (0, 1)]
        chosen = max(sides, key=lambda side: len(set(side)))
        for index, exchange in zip(members, chosen, strict=True):
            names[index] = f"{phenomenon}: {exchange}"
    return names


# --- caveats --------------------------------------------------------------------------------------


def _caveats(
    pairs: Sequence[Aligned],
    tables: _Tables,
    left_out: Mapping[str, int],
    missing: Sequence[str],
) -> Iterator[str]:
    for reason, count in left_out.items():
        yield f"{plural(count, 'pair')} left out: {reason}."
    if missing:
        yield f"No pair could be used of {listing(missing, 7)}."
    n_distinct, n_random = int(tables.distinguished.sum()), int(tables.has_random.sum())
    if n_distinct < len(pairs):
        yield (
            f"The model distinguishes {n_distinct:,} of {plural(len(pairs), 'pair')} (by more than "
            f"{MARGIN} nats). Effects as shares of the difference are of these; tests are of all."
        )
    if n_random < len(pairs):
        yield (
            f"No other pair has the alignment of {plural(len(pairs) - n_random, 'pair')} and "
            "exchanges other words, so that these have no random pair and are not tested."
        )
    n_exchanges = tables.sample.n_clusters
    if n_exchanges < FEW:
        yield (
            f"The pairs have only {plural(n_exchanges, 'distinct exchange')} of words: "
            f"with fewer than {FEW}, intervals are too narrow"
            + (
                f", and with fewer than {MANY} nothing can be significant."
                if n_exchanges < MANY
                else "."
            )
        )
    if any(pair.target.against is None for pair in pairs):
        yield (
            "Minimal pairs have one predicted word, so its log-probability is measured instead of "
            "the difference of two logits."
        )
