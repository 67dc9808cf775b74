"""What exactly is lost when a head goes: the loss of every text without it.

Blocks below the head are not run again (`prefix`), and several heads stand in one batch, row after
row. A head's output is replaced by zero, by its mean over the corpus, or by its output on another
text. Costs about half a forward pass a head, less where batches have room for several.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from workbench.core.errors import WorkbenchError
from workbench.core.experiment import HEAD, Inputs, Progress, Result
from workbench.core.stats import SIGNIFICANT, ratio_intervals, sign_flip_p_values
from workbench.engine.batch import Pieces, sent
from workbench.engine.forward_pass import chunks
from workbench.engine.halving import Limit, Places, in_halves
from workbench.engine.taps import Gate, Site, StackName, Tap
from workbench.models.eval_tasks import Aim, Question
from workbench.models.huggingface import HuggingFace
from workbench.models.lm_scoring import limit_of
from workbench.models.prefix_cache import places_of, recorded
from workbench.pruning.evaluation import (
    METRICS,
    Asking,
    Floats,
    Texts,
    Told,
    asking,
    baseline,
    better,
    caveats,
    not_better,
    numbers_of,
)
from workbench.pruning.experiments import HeadAblation
from workbench.pruning.head_masks import Head, each_closed, heads_of, named
from workbench.pruning.importance import gate_gradients, table_of

# --- what a head's output is replaced by ----------------------------------------------------------
#
# What replaces a head's output, where that is not zero: its mean, or its output on another text.
#
# A mean is over all pieces of a corpus. A text's other text is drawn from the seed and its index
# alone, and each piece takes what the head handed on at the piece as far along in that. In a
# decoder next to an encoder, pieces are those that it has to write, however a batch is padded.
# Costs a pass over the corpus for means; for other texts one over some thousands of pieces, kept
# in memory.

POOL = 4_096  # pieces of other texts that are kept


def pieces_at(site: Site, question: Question) -> Pieces:
    """The pieces whose queries a site has; each predicts one, where a decoder must write them."""
    writes = site.stack == "decoder" and question.target is not None
    return question.target if writes and question.target is not None else question.text


@dataclass(frozen=True)
class Means:
    """Each head's mean output."""

    of: dict[Site, Tensor]  # [heads, width of a head]

    def index(self, site: Site, question: Question) -> Tensor | None:
        """The same for every piece."""
        return None

    def at(self, site: Site, index: Tensor | None) -> Tensor:
        """[1, 1, heads, width of a head]"""
        return self.of[site][None, None]


@dataclass(frozen=True)
class Others:
    """What heads handed on over a pool of other texts."""

    of: dict[Site, Tensor]  # [pieces of the pool, heads, width of a head]
    texts: dict[Site, list[tuple[int, int, int]]]  # place in the corpus, first and last piece + 1
    seed: int

    def index(self, site: Site, question: Question) -> Tensor | None:
        """Which piece of the pool each piece takes after; the same at all sites of a stack.

        # [batch, queries]
        """
        pool, text = self.texts[site], pieces_at(site, question)
        lengths = text.mask.sum(1).tolist()
        index = torch.zeros(text.mask.shape, dtype=torch.long)
        for row, (order, long) in enumerate(zip(text.order.tolist(), lengths, strict=True)):
            free = [each for each in pool if each[0] != order] or pool
            draw = np.random.default_rng([self.seed, order, 5])
            _, first, last = free[int(draw.integers(len(free)))]
            along = torch.arange(text.mask.shape[1]) * (last - first) // max(long, 1)
            index[row] = first + along.clamp(max=last - first - 1)
        return sent(index, self.of[site].device)

    def at(self, site: Site, index: Tensor | None) -> Tensor:
        """[batch, queries, heads, width of a head]"""
        assert index is not None, "see `index`"
        return self.of[site][index.to(self.of[site].device)]


Instead = Means | Others


@dataclass(eq=False)
class Replaced(Tap):
    """A tap that lets heads whose gate is closed hand on something else."""

    gates: Tensor  # [rows, sites, heads]
    instead: Instead
    question: Question  # whose rows these are
    _replaces: list[bool] = field(init=False)  # [sites]
    _index: dict[StackName, Tensor | None] = field(default_factory=dict)

    needs_probabilities = False

    def __post_init__(self) -> None:
        self._replaces = (self.gates != 1).any(0).any(1).tolist()  # asked of the device once

    def passed(self, site: Site, output: Tensor, text: Pieces | None) -> Tensor:
        """[rows, queries, heads, width of a head]"""
        if not self._replaces[site.index]:
            return output
        if site.stack not in self._index:
            self._index[site.stack] = self.instead.index(site, self.question)
        stays = self.gates[:, site.index, : site.heads][:, None, :, None].to(output)
        other = self.instead.at(site, self._index[site.stack]).to(output)
        return output * stays + other * (1 - stays)

    def close(self, whole: bool) -> None:
        pass


@dataclass(eq=False)
class _Mean(Tap):
    """Adds up what heads hand on, over real pieces."""

    question: Question | None = None
    sums: dict[Site, Tensor] = field(default_factory=dict)
    pieces: dict[Site, Tensor] = field(default_factory=dict)
    _pending: dict[Site, tuple[Tensor, Tensor]] = field(default_factory=dict)

    needs_probabilities = False

    def passed(self, site: Site, output: Tensor, text: Pieces | None) -> Tensor:
        assert self.question is not None, "a mean is over what is asked"
        mask = pieces_at(site, self.question).mask.to(output.device)  # [batch, pieces]
        real = torch.where(mask[..., None, None], output, 0).flatten(0, 1)
        self._pending[site] = real.sum(0, dtype=torch.float64), mask.sum()
        return output

    def close(self, whole: bool) -> None:
        for site, (real, number) in self._pending.items() if whole else ():
            self.sums[site] = self.sums[site] + real if site in self.sums else real
            self.pieces[site] = self.pieces[site] + number if site in self.pieces else number
        self._pending.clear()


@dataclass(eq=False)
class _Keep(Tap):
    """Keeps what heads hand on, text by text, while there is room."""

    question: Question | None = None
    kept: dict[Site, list[Tensor]] = field(default_factory=dict)
    texts: dict[Site, list[tuple[int, int, int]]] = field(default_factory=dict)
    _pending: dict[Site, Tensor] = field(default_factory=dict)

    needs_probabilities = False

    def passed(self, site: Site, output: Tensor, text: Pieces | None) -> Tensor:
        self._pending[site] = output
        return output

    def close(self, whole: bool) -> None:
        assert self.question is not None, "outputs are kept of what is asked"
        for site, output in self._pending.items() if whole else ():
            text = pieces_at(site, self.question)
            own = self.texts.setdefault(site, [])
            lengths = text.mask.sum(1).tolist()
            for row, (order, long) in enumerate(zip(text.order.tolist(), lengths, strict=True)):
                start = own[-1][2] if own else 0
                if long and (not own or start + long <= POOL):
                    self.kept.setdefault(site, []).append(output[row, :long].clone())
                    own.append((order, start, start + long))
        self._pending.clear()


@torch.no_grad()
def _shown(tap: "_Mean | _Keep", model: HuggingFace, aim: Aim, question: Question) -> None:
    tap.question = question
    aim.answer(model, question, [tap])


def means(model: HuggingFace, aim: Aim, questions: Iterable[Question]) -> Means:
    """Of every head over all that is asked."""
    tap, room = _Mean(), Limit()
    for question in questions:
        deque(in_halves(partial(_shown, tap, model, aim), question, room), 0)
    return Means({site: sum_ / tap.pieces[site].clamp(min=1) for site, sum_ in tap.sums.items()})


def others(model: HuggingFace, aim: Aim, questions: Iterable[Question], seed: int) -> Others:
    """A pool of texts, the first that there is room for."""
    tap, room = _Keep(), Limit()
    for question in questions:
        deque(in_halves(partial(_shown, tap, model, aim), question, room), 0)
        if all(texts and texts[-1][2] > POOL - 64 for texts in tap.texts.values()):
            break
    if not tap.kept:
        raise WorkbenchError(
            "no text has a piece that could stand in for another's.",
            where=model.name,
            remedy="Use a corpus with words in it, or mode=zero.",
        )
    kept = {site: torch.cat(parts) for site, parts in tap.kept.items()}
    return Others(kept, tap.texts, seed)


# --- leave-one-out of every head ------------------------------------------------------------------

Mode = Literal["zero", "mean", "resample"]
MODES: tuple[Mode, ...] = ("zero", "mean", "resample")


@dataclass(frozen=True)
class Ablated:
    """The texts with all heads, and without each set of heads."""

    base: Texts
    without: Floats  # [sets, 2, texts], nats and right

    def part(self, metric: str) -> Floats:
        """[texts, sets]"""
        return self.without[:, 0 if metric == "loss" else 1].T

    def values(self, metric: str) -> Floats:
        """[sets]"""
        found: Floats = self.part(metric).sum(0) / max(self.base.number.sum(), 1e-12)
        return found

    def differences(self, metric: str) -> Floats:
        """What is added without each set.  # [texts, sets]"""
        return self.part(metric) - self.base.part(metric)[:, None]


def ablated(
    model: HuggingFace,
    aim: Aim,
    questions: Iterable[Question],
    sets: Sequence[Sequence[Head]],
    instead: Instead | None = None,
    told: Told | None = None,
    gone: Sequence[Head] = (),
    pieces: int | None = None,
) -> Ablated:
    """Ask every question with all heads but `gone`, and again without each set of heads.

    `instead` is what heads give way to, nothing by itself; `pieces` the most in a batch.
    """
    most = limit_of(model) if pieces is None else pieces
    by_site, places = _by_lowest_site(sets), places_of(model)
    base, without, done = [np.zeros((3, 0))], [np.zeros((len(sets), 2, 0))], 0

    @torch.no_grad()
    def ask(question: Question) -> tuple[Floats, Floats]:
        with recorded(places) as prefix:
            whole = numbers_of(
                aim.answer(model, question, _taps(model, [gone], question, instead))
            )  # [3, texts]
        found = np.zeros((len(sets), 2, len(question)))

        def close(site: int, part: Places) -> Floats:
            closed = [[*gone, *sets[number]] for number in part.places]
            beside = _stands_beside(model, closed, gone)
            rows = torch.arange(len(question)).repeat(len(beside))
            again = question if len(beside) == 1 else question.take(rows)
            with prefix.from_site(site, rows):
                answer = aim.answer(model, again, _taps(model, beside, again, instead))
            numbers = numbers_of(answer)[:2].reshape(2, len(beside), len(question))
            if len(beside) == len(part):
                return numbers
            # of the whole model once more: only differences count
            return whole[:2, None] + numbers[:, : len(part)] - numbers[:, -1:]

        extra = int(model.device.type != "cpu")  # see `_stands_beside`
        at_once = max(1, most // max(question.pieces, 1) - extra)
        so_far = 0
        for site, members in by_site.items():
            for some in chunks(members, at_once):
                whole_part = Places(some, question.pieces)  # each set takes the texts once more
                run = partial(close, site)
                for part, numbers in in_halves(run, whole_part, passes, within=True):
                    found[list(part.places)] = numbers.swapaxes(0, 1)
                    so_far += len(part) * len(question)
                    if told is not None:
                        told(done + so_far)
        return whole, found

    room, passes = Limit(), Limit()
    for question in questions:
        for part, (whole, found) in in_halves(ask, question, room):
            done += len(part) * len(sets)
            base.append(whole)
            without.append(found)
    return Ablated(Texts(*np.concatenate(base, 1)), np.concatenate(without, 2))


def _stands_beside(
    model: HuggingFace, closed: Sequence[Sequence[Head]], gone: Sequence[Head]
) -> list[Sequence[Head]]:
    """The sets that are asked about in one pass; on a GPU with the whole model among them.

    A GPU's products depend on how many rows there are, so that what is compared must be computed
    together; alone, a set stands in rows as many as the whole model did.
    """
    alone = len(closed) == 1 or model.device.type == "cpu"
    return [*closed] if alone else [*closed, gone]


def _taps(
    model: HuggingFace, sets: Sequence[Sequence[Head]], question: Question, instead: Instead | None
) -> list[Tap]:
    gates = each_closed(model, sets, len(question) // len(sets))
    return [Gate(gates)] if instead is None else [Replaced(gates, instead, question)]


def _by_lowest_site(sets: Sequence[Sequence[Head]]) -> dict[int, list[int]]:
    """Sets whose lowest head is at the same site, by that site."""
    found: dict[int, list[int]] = {}
    for number, heads in enumerate(sets):
        found.setdefault(min((site for site, _ in heads), default=0), []).append(number)
    return found


# --- what exactly is lost with each head: the experiment `head-ablation` --------------------------
#
# Every head is left out alone, exactly, and so are pairs of heads if `pairs` says so; importance
# to first order is shown too, for the two disagree. A head is said to matter where the score is
# significantly worse without it, in a model that is better than its trivial baseline: the loss of
# random weights also changes with every head. See `ablation` for what it costs.

MOST_PAIRS = 20_000


def run(inputs: Inputs, settings: HeadAblation, progress: Progress) -> Result:
    """Leave out each head, then pairs."""
    asked = asking(inputs, settings)
    heads = heads_of(asked.model)
    alone = [[head] for head in heads]
    together = _pairs(heads, settings.pairs)
    questions = asked.questions
    gradients = gate_gradients(asked.model, asked.aim, questions)
    importance = table_of(asked.model, gradients, inputs.seed)
    whole = baseline(asked, gradients.texts, inputs.seed)
    modes: Sequence[Mode] = MODES if settings.replacement == "all" else (settings.replacement,)
    parts: list[pd.DataFrame] = []
    pairs: list[pd.DataFrame] = []
    agreement = []
    texts = 0
    for number, mode in enumerate(modes):
        found = ablated(
            asked.model,
            asked.aim,
            questions,
            [*alone, *together],
            _instead(asked, questions, mode, inputs.seed),
            _told(progress, asked, len(alone) + len(together), number, len(modes), mode),
        )
        texts = len(found.base.number)
        for metric in METRICS:
            known = better(whole, metric)
            parts.append(_rows(asked, found, heads, metric, mode, known, inputs.seed))
        if together:
            pairs.append(_pair_rows(asked, found, heads, together, mode, inputs.seed))
        exact = found.values("loss")[: len(heads)] - found.base.value("loss")
        agreement.append((mode, _spearman(gradients.importance(), exact), len(heads)))
    tables = {
        "ablation": pd.concat(parts, ignore_index=True),
        "agreement": pd.DataFrame(agreement, columns=["mode", "spearman", "heads"]),
        "importance": importance,
        "heads": _a_head(importance, parts[0], parts[1]),
        "baseline": whole,
    }
    if pairs:
        tables["pairs"] = pd.concat(pairs, ignore_index=True)
    return Result(tables, caveats=(*caveats(asked, texts), *not_better(whole)))


def _pairs(heads: Sequence[Head], which: str) -> list[list[Head]]:
    if which == "none":
        return []
    found = [
        [one, other]
        for one, other in combinations(heads, 2)
        if which == "all" or one[0] == other[0]
    ]
    if len(found) > MOST_PAIRS:
        raise WorkbenchError(
            f"{len(found):,} pairs of heads are more than the {MOST_PAIRS:,} that are tried.",
            remedy="Set pairs=layer.",
        )
    return found


def _instead(asked: Asking, questions: Sequence[Question], mode: Mode, seed: int) -> Instead | None:
    if mode == "mean":
        return means(asked.model, asked.aim, questions)
    return others(asked.model, asked.aim, questions, seed) if mode == "resample" else None


def _told(progress: Progress, asked: Asking, sets: int, place: int, modes: int, mode: str) -> Told:
    """Progress in texts, each as often as it is asked."""
    each = len(asked.batch) * sets
    return lambda done: progress(place * each + done, modes * each, f"{mode}: texts without a head")


def _rows(
    asked: Asking,
    found: Ablated,
    heads: Sequence[Head],
    metric: str,
    mode: str,
    known: bool,
    seed: int,
) -> pd.DataFrame:
    """A row a head; `known`: the whole model is better than its baseline by this metric."""
    sites = {site.index: site for site in asked.model.sites}
    number = len(heads)
    apart = found.differences(metric)[:, :number]
    lower, upper = ratio_intervals(apart, found.base.number, seed)
    chance = sign_flip_p_values(apart, seed)
    base, values = found.base.value(metric), found.values(metric)
    worse = (1 if metric == "loss" else -1) * (values[:number] - base) > 0
    rows = [
        {
            "mode": mode,
            "metric": metric,
            **named(sites[site], head),
            "base": base,
            "ablated": values[row],
            "delta": values[row] - base,
            "lower": lower[row],
            "upper": upper[row],
            "p_value": chance[row],
            "matters": bool(known and worse[row] and chance[row] < SIGNIFICANT),
            "n": int(found.base.number.sum()),
        }
        for row, (site, head) in enumerate(heads)
    ]
    return pd.DataFrame(rows)


def _a_head(importance: pd.DataFrame, loss: pd.DataFrame, accuracy: pd.DataFrame) -> pd.DataFrame:
    """All that is known of each head, for the attention browser to show."""
    return importance[[*HEAD, "importance"]].assign(
        loss_added=loss["delta"].to_numpy(),
        accuracy_added=accuracy["delta"].to_numpy(),
        p_value=loss["p_value"].to_numpy(),
        matters=loss["matters"].to_numpy(),
    )


def _pair_rows(
    asked: Asking,
    found: Ablated,
    heads: Sequence[Head],
    together: Sequence[Sequence[Head]],
    mode: str,
    seed: int,
) -> pd.DataFrame:
    place = {head: number for number, head in enumerate(heads)}
    apart = found.differences("loss")
    alone, both = apart[:, : len(heads)], apart[:, len(heads) :]
    first, second = (np.array([place[pair[n]] for pair in together]) for n in (0, 1))
    extra = both - alone[:, first] - alone[:, second]
    whole = max(found.base.number.sum(), 1e-12)
    lower, upper = ratio_intervals(extra, found.base.number, seed)
    chance = sign_flip_p_values(extra, seed)
    sites = {site.index: site for site in asked.model.sites}
    rows = [
        {
            "mode": mode,
            **dict(_sided(sites, pair)),
            "delta": both[:, row].sum() / whole,
            "alone_a": alone[:, first[row]].sum() / whole,
            "alone_b": alone[:, second[row]].sum() / whole,
            "interaction": extra[:, row].sum() / whole,
            "lower": lower[row],
            "upper": upper[row],
            "p_value": chance[row],
        }
        for row, pair in enumerate(together)
    ]
    return pd.DataFrame(rows)


def _sided(sites: Mapping[int, Site], pair: Sequence[Head]) -> Iterator[tuple[str, object]]:
    for which, (site, head) in zip("ab", pair, strict=True):
        for name, value in named(sites[site], head).items():
            yield f"{name}_{which}", value


def _spearman(one: Floats, other: Floats) -> float:
    """0 where either is all alike."""
    from scipy.stats import spearmanr

    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(spearmanr(one, other).statistic)
