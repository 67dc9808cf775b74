"""Exact ablation: the loss of every text without each head.

Layers below the head are not computed again (`prefix_cache`), and one batch holds several heads,
row after row. The output of a head is replaced by zero, by its mean over the corpus, or by its
output on another text. Costs: about half a forward pass for each head, less if batches have room
for several; in a race, on a part of the texts.
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
from numpy.typing import NDArray
from torch import Tensor

from workbench.analyses.pruning.evaluation import (
    Evaluation,
    OnProgress,
    TextScores,
    baseline,
    better,
    caveats,
    evaluation_of,
    learnt_texts_caveat,
    not_better_caveat,
    numbers_of,
)
from workbench.analyses.pruning.experiments import HeadAblation
from workbench.analyses.pruning.head_masks import Head, each_closed, heads_of, named
from workbench.analyses.pruning.importance import GateGradients, gate_gradients, table_of
from workbench.core.arrays import Floats
from workbench.core.errors import WorkbenchError
from workbench.core.groups import grouped
from workbench.core.racing import Round, along, race, sizes
from workbench.core.stats import SIGNIFICANT, rank_correlation, ratio_intervals, sign_flip_p_values
from workbench.engine.batch import Pieces, sent
from workbench.engine.forward_pass import chunks
from workbench.engine.halving import Limit, Places, in_halves
from workbench.engine.taps import Gate, Site, StackName, Tap
from workbench.engine.task import objective_table
from workbench.experiment.definition import HEAD, Caveat, Inputs, Progress, Result
from workbench.models.huggingface import HuggingFace
from workbench.models.interventions.prefix_cache import recorded, replay_points
from workbench.models.scoring.eval_tasks import EvalTask, Question
from workbench.models.scoring.lm_scoring import limit_of

# --- replacements of a head's output --------------------------------------------------------------
#
# If not zero: the mean of the head, or its output on another text.
#
# The mean is over all pieces of the corpus. The other text is drawn from the seed and the index of
# the text only, and each piece gets the output at the same relative position there. In the decoder
# of an encoder-decoder, pieces are the target pieces, whatever the padding of the batch. Costs: a
# pass over the corpus for means; for other texts a pass over some thousands of pieces, which stay
# in memory.

POOL = 4_096  # number of pieces of other texts in memory


def pieces_at(site: Site, question: Question) -> Pieces:
    """The pieces at a site's queries: in the decoder of an encoder-decoder, the target pieces."""
    in_decoder = site.stack == "decoder" and question.target is not None
    return question.target if in_decoder and question.target is not None else question.text


@dataclass(frozen=True)
class Means:
    """The mean output of each head."""

    of: dict[Site, Tensor]  # [heads, width of a head]

    def index(self, site: Site, question: Question) -> Tensor | None:
        """None: the mean is the same for every piece."""
        return None

    def at(self, site: Site, index: Tensor | None) -> Tensor:
        """[1, 1, heads, width of a head]"""
        return self.of[site][None, None]


@dataclass(frozen=True)
class Others:
    """Outputs of heads over a pool of other texts."""

    of: dict[Site, Tensor]  # [pieces of the pool, heads, width of a head]
    texts: dict[Site, list[tuple[int, int, int]]]  # index in the corpus, first and last piece + 1
    seed: int

    def index(self, site: Site, question: Question) -> Tensor | None:
        """The piece of the pool that replaces each piece; the same at all sites of a stack.

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


Replacement = Means | Others


@dataclass(eq=False)
class Replaced(Tap):
    """A tap that replaces the output of heads whose gate is closed."""

    gates: Tensor  # [rows, sites, heads]
    replacement: Replacement
    question: Question  # the texts of these rows
    _replaces: list[bool] = field(init=False)  # [sites]
    _index: dict[StackName, Tensor | None] = field(default_factory=dict)

    needs_probabilities = False

    def __post_init__(self) -> None:
        self._replaces = (self.gates != 1).any(0).any(1).tolist()  # one transfer from the device

    def passed(self, site: Site, output: Tensor, text: Pieces | None) -> Tensor:
        """[rows, queries, heads, width of a head]"""
        if not self._replaces[site.index]:
            return output
        if site.stack not in self._index:
            self._index[site.stack] = self.replacement.index(site, self.question)
        open_ = self.gates[:, site.index, : site.heads][:, None, :, None].to(output)
        other = self.replacement.at(site, self._index[site.stack]).to(output)
        return output * open_ + other * (1 - open_)

    def close(self, whole: bool) -> None:
        pass


@dataclass(eq=False)
class _Mean(Tap):
    """Adds up the outputs of heads, over real pieces."""

    question: Question | None = None
    sums: dict[Site, Tensor] = field(default_factory=dict)
    pieces: dict[Site, Tensor] = field(default_factory=dict)
    _pending: dict[Site, tuple[Tensor, Tensor]] = field(default_factory=dict)

    needs_probabilities = False

    def passed(self, site: Site, output: Tensor, text: Pieces | None) -> Tensor:
        assert self.question is not None, "set before the pass"
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
    """Keeps the outputs of heads, text by text, up to POOL pieces."""

    question: Question | None = None
    kept: dict[Site, list[Tensor]] = field(default_factory=dict)
    texts: dict[Site, list[tuple[int, int, int]]] = field(default_factory=dict)
    _pending: dict[Site, Tensor] = field(default_factory=dict)

    needs_probabilities = False

    def passed(self, site: Site, output: Tensor, text: Pieces | None) -> Tensor:
        self._pending[site] = output
        return output

    def close(self, whole: bool) -> None:
        assert self.question is not None, "set before the pass"
        for site, output in self._pending.items() if whole else ():
            text = pieces_at(site, self.question)
            texts = self.texts.setdefault(site, [])
            lengths = text.mask.sum(1).tolist()
            for row, (order, long) in enumerate(zip(text.order.tolist(), lengths, strict=True)):
                start = texts[-1][2] if texts else 0
                if long and (not texts or start + long <= POOL):
                    self.kept.setdefault(site, []).append(output[row, :long].clone())
                    texts.append((order, start, start + long))
        self._pending.clear()


@torch.no_grad()
def _run_tap(tap: "_Mean | _Keep", model: HuggingFace, aim: EvalTask, question: Question) -> None:
    tap.question = question
    aim.answer(model, question, [tap])


def means(model: HuggingFace, aim: EvalTask, questions: Iterable[Question]) -> Means:
    """The mean output of every head over all texts."""
    tap, room = _Mean(), Limit()
    for question in questions:
        deque(in_halves(partial(_run_tap, tap, model, aim), question, room), 0)
    return Means({site: sum_ / tap.pieces[site].clamp(min=1) for site, sum_ in tap.sums.items()})


def others(model: HuggingFace, aim: EvalTask, questions: Iterable[Question], seed: int) -> Others:
    """The outputs of every head on the first texts, up to POOL pieces."""
    tap, room = _Keep(), Limit()
    for question in questions:
        deque(in_halves(partial(_run_tap, tap, model, aim), question, room), 0)
        if all(texts and texts[-1][2] > POOL - 64 for texts in tap.texts.values()):
            break
    if not tap.kept:
        raise WorkbenchError(
            "no text has a piece whose output can replace that of another text.",
            code="too-few-sentences",
            where=model.name,
            remedy="Use a corpus that has words, or replacement=zero.",
        )
    kept = {site: torch.cat(parts) for site, parts in tap.kept.items()}
    return Others(kept, tap.texts, seed)


# --- leave-one-out of every head ------------------------------------------------------------------

Mode = Literal["zero", "mean", "resample"]
MODES: tuple[Mode, ...] = ("zero", "mean", "resample")


@dataclass(frozen=True)
class Ablated:
    """Scores of the texts with all heads, and without each set of heads."""

    base: TextScores
    without: Floats  # [sets, 2, texts], nats and correct predictions

    def part(self, metric: str) -> Floats:
        """The sums of a metric.  # [texts, sets]"""
        return self.without[:, 0 if metric == "loss" else 1].T

    def values(self, metric: str) -> Floats:
        """The score without each set.  # [sets]"""
        values: Floats = self.part(metric).sum(0) / max(self.base.number.sum(), 1e-12)
        return values

    def differences(self, metric: str) -> Floats:
        """The change of each text's sum without each set.  # [texts, sets]"""
        return self.part(metric) - self.base.part(metric)[:, None]


def ablated(
    model: HuggingFace,
    aim: EvalTask,
    questions: Iterable[Question],
    sets: Sequence[Sequence[Head]],
    replacement: Replacement | None = None,
    on_progress: OnProgress | None = None,
    removed: Sequence[Head] = (),
    pieces: int | None = None,
) -> Ablated:
    """Score every text without the `removed` heads, and again without each set of heads.

    `replacement` replaces the output of a head (default: zero); `pieces` is the maximum number of
    pieces in a batch.
    """
    max_pieces = limit_of(model) if pieces is None else pieces
    by_site, places = _by_lowest_site(sets), replay_points(model)
    mixes_layers = model.task_head is not None and model.task_head.mix is not None
    base, without, done = [np.zeros((3, 0))], [np.zeros((len(sets), 2, 0))], 0

    @torch.no_grad()
    def score(question: Question) -> tuple[Floats, Floats]:
        with recorded(places) as prefix:
            whole = numbers_of(
                aim.answer(model, question, _taps(model, [removed], question, replacement))
            )  # [3, texts]
        ablated_sums = np.zeros((len(sets), 2, len(question)))

        def ablate(site: int, part: Places) -> Floats:
            closed = [[*removed, *sets[index]] for index in part.places]
            pass_sets = _sets_of_pass(model, closed, removed)
            rows = torch.arange(len(question)).repeat(len(pass_sets))
            repeated = question if len(pass_sets) == 1 else question.take(rows)
            with prefix.from_site(site, rows, states=mixes_layers):
                answer = aim.answer(model, repeated, _taps(model, pass_sets, repeated, replacement))
            numbers = numbers_of(answer)[:2].reshape(2, len(pass_sets), len(question))
            if len(pass_sets) == len(part):
                return numbers
            # differences to the whole model in the same pass, added to its scores
            return whole[:2, None] + numbers[:, : len(part)] - numbers[:, -1:]

        extra = int(model.device.type != "cpu")  # see `_sets_of_pass`
        at_once = max(1, max_pieces // max(question.pieces, 1) - extra)
        n_done = 0
        for site, members in by_site.items():
            for some in chunks(members, at_once):
                whole_part = Places(some, question.pieces)  # each set repeats the texts
                run = partial(ablate, site)
                for part, numbers in in_halves(run, whole_part, passes, within=True):
                    ablated_sums[list(part.places)] = numbers.swapaxes(0, 1)
                    n_done += len(part) * len(question)
                    if on_progress is not None:
                        on_progress(done + n_done)
        return whole, ablated_sums

    room, passes = Limit(), Limit()
    for question in questions:
        for part, (whole, ablated_sums) in in_halves(score, question, room):
            done += len(part) * len(sets)
            base.append(whole)
            without.append(ablated_sums)
    return Ablated(TextScores(*np.concatenate(base, 1)), np.concatenate(without, 2))


def _sets_of_pass(
    model: HuggingFace, closed: Sequence[Sequence[Head]], removed: Sequence[Head]
) -> list[Sequence[Head]]:
    """The sets of one forward pass; on a GPU with the unablated model as the last one.

    Rounding on a GPU depends on the number of rows, so scores that are compared must come from one
    pass. A single set has as many rows as the pass of the unablated model.
    """
    alone = len(closed) == 1 or model.device.type == "cpu"
    return [*closed] if alone else [*closed, removed]


def _taps(
    model: HuggingFace,
    sets: Sequence[Sequence[Head]],
    question: Question,
    replacement: Replacement | None,
) -> list[Tap]:
    gates = each_closed(model, sets, len(question) // len(sets))
    return [Gate(gates)] if replacement is None else [Replaced(gates, replacement, question)]


def _by_lowest_site(sets: Sequence[Sequence[Head]]) -> dict[int, list[int]]:
    """Indices of the sets, by the site of their lowest head."""
    return grouped(
        (min((site for site, _ in heads), default=0), index) for index, heads in enumerate(sets)
    )


# --- the experiment `head-ablation` ---------------------------------------------------------------
#
# Each head is ablated alone, and pairs of heads if `pairs` is set. First-order importance is shown
# too, since the two disagree. A head matters if the score is significantly worse without it, in a
# model that is better than its trivial baseline: the loss of random weights also changes with every
# head. Heads race (`workbench.core.racing`): all are scored on some texts, and on more only while
# it is open whether they are among the ten largest changes of the loss, or significant. Gradients,
# which are known for every text, are the guesses. Costs: see above, times the share of texts that a
# head races on.

MAX_PAIRS = 20_000
TOP = 10  # heads with the largest changes of the loss, whose membership is decided
TIE = 1e-4  # share of the loss; smaller differences are ties


@dataclass(frozen=True)
class Changes:
    """The change of a metric without each head, in arrays of [heads]."""

    delta: Floats
    lower: Floats
    upper: Floats
    p_value: Floats


@dataclass(frozen=True)
class Outcome:
    """What one replacement changes: by metric, and how much was scored."""

    changes: Mapping[str, Changes]
    base: TextScores
    texts: NDArray[np.int64]  # that each head was scored on  # [heads]
    number: NDArray[np.int64]  # predictions in them  # [heads]
    top: NDArray[np.bool_]  # [heads], by the loss
    decided: NDArray[np.bool_]  # [heads], by the loss
    rounds: Sequence[Round]


def run(inputs: Inputs, settings: HeadAblation, progress: Progress) -> Result:
    """Compute the tables of `head-ablation`."""
    evaluation = evaluation_of(inputs, settings)
    heads = heads_of(evaluation.model)
    alone = [[head] for head in heads]
    together = _pairs(heads, settings.pairs)
    questions = evaluation.questions
    gradients = gate_gradients(evaluation.model, evaluation.aim, questions)
    importance = table_of(evaluation.model, gradients, inputs.seed)
    whole = baseline(evaluation, gradients.texts, inputs.seed)
    modes: Sequence[Mode] = MODES if settings.replacement == "all" else (settings.replacement,)
    texts = len(gradients.texts.number)
    races = settings.effort != "full" and not together and len(sizes(texts)) > 1
    parts: list[pd.DataFrame] = []
    pairs: list[pd.DataFrame] = []
    agreement, rounds = [], []
    for index, mode in enumerate(modes):
        replacement = _replacement(evaluation, questions, mode, inputs.seed)
        if races:
            most = 1 if settings.effort == "quick" else None
            outcome = _raced(evaluation, gradients, replacement, mode, most, inputs.seed, progress)
        else:
            result = ablated(
                evaluation.model,
                evaluation.aim,
                questions,
                [*alone, *together],
                replacement,
                _on_progress(progress, evaluation, len(alone + together), index, len(modes), mode),
            )
            outcome = _exact(result, len(heads), evaluation.aim.metrics, inputs.seed)
            if together:
                pairs.append(_pair_rows(evaluation, result, heads, together, mode, inputs.seed))
        parts.extend(
            _rows(evaluation, outcome, heads, metric, mode, better(whole, metric))
            for metric in evaluation.aim.metrics
        )
        change = outcome.changes["loss"].delta
        agreement.append((mode, rank_correlation(gradients.importance(), change), len(heads)))
        rounds += [
            (mode, number, each.sentences, len(each.units))
            for number, each in enumerate(outcome.rounds, 1)
        ]
    tables = {
        "ablation": pd.concat(parts, ignore_index=True),
        "agreement": pd.DataFrame(agreement, columns=["mode", "spearman", "heads"]),
        "importance": importance,
        "heads": _head_rows(importance, parts[0], parts[1]),
        "rounds": pd.DataFrame(rounds, columns=["mode", "round", "sentences", "heads"]),
        "baseline": whole,
        "objective": objective_table(evaluation.aim.task),
    }
    if pairs:
        tables["pairs"] = pd.concat(pairs, ignore_index=True)
    notes = (
        *caveats(evaluation, texts),
        *not_better_caveat(whole),
        *learnt_texts_caveat(inputs, evaluation),
    )
    return Result(tables, caveats=(*notes, *_undecided_caveat(tables["ablation"])))


def _exact(result: Ablated, n_heads: int, metrics: Iterable[str], seed: int) -> Outcome:
    """Every head on all texts."""
    number, changes = result.base.number, {}
    for metric in metrics:
        differences = result.differences(metric)[:, :n_heads]
        lower, upper = ratio_intervals(differences, number, seed)
        delta = result.values(metric)[:n_heads] - result.base.value(metric)
        changes[metric] = Changes(delta, lower, upper, sign_flip_p_values(differences, seed))
    place = np.argsort(np.argsort(-changes["loss"].delta, kind="stable"))
    whole = np.ones(n_heads, np.int64)
    return Outcome(
        changes,
        result.base,
        len(number) * whole,
        int(number.sum()) * whole,
        place < TOP,
        whole > 0,
        [Round(len(number), np.arange(n_heads))],
    )


def _raced(
    evaluation: Evaluation,
    gradients: GateGradients,
    replacement: Replacement | None,
    mode: Mode,
    most: int | None,
    seed: int,
    progress: Progress,
) -> Outcome:
    """Every head on as many texts as decide about it; `most` is the maximum number of rounds."""
    heads, base = gradients.heads, gradients.texts
    changes = np.zeros((2, len(base.number), len(heads)))  # loss and accuracy

    def score(some: NDArray[np.int64], texts: NDArray[np.int64]) -> Floats:
        total = len(some) * len(texts)
        progress.log(f"Scoring {len(some)} of {len(heads)} heads on {len(texts):,} more texts.")
        result = ablated(
            evaluation.model,
            evaluation.aim,
            _some_texts(evaluation.questions, np.sort(texts)),
            [[heads[head]] for head in some],
            replacement,
            lambda done: progress(done, total, f"removing heads: {mode}, texts times heads"),
        )
        for kind, metric in enumerate(evaluation.aim.metrics):
            changes[kind][np.ix_(np.sort(texts), some)] = result.differences(metric)
        of_loss: Floats = changes[0][np.ix_(texts, some)]
        return of_loss

    guess = -gradients.values  # a gate that closes goes from 1 to 0
    tie = TIE * base.value("loss")
    found = race(score, base.number, guess, TOP, tie, seed, most)
    loss, right = evaluation.aim.metrics
    scored = np.concatenate([[0], np.cumsum(base.number[found.order])])  # predictions so far
    return Outcome(
        {
            loss: Changes(found.value, found.lower, found.upper, found.p_value),
            right: Changes(*along(changes[1], base.number, found)),
        },
        base,
        found.n,
        scored[found.n].astype(np.int64),
        found.top,
        ~found.open_top & ~found.open_effect,
        found.rounds,
    )


def _some_texts(questions: Sequence[Question], texts: NDArray[np.int64]) -> Iterator[Question]:
    """Batches of some texts, by their sorted indices in the order of all batches."""
    first = 0
    for question in questions:
        rows = texts[(first <= texts) & (texts < first + len(question))] - first
        first += len(question)
        if len(rows):
            yield question.take(torch.from_numpy(rows))


def _undecided_caveat(table: pd.DataFrame) -> tuple[Caveat, ...]:
    """A caveat if heads left the race before all was decided."""
    n_open = int((~table.loc[table["metric"] == "loss", "decided"]).sum())
    if not n_open:
        return ()
    return (
        Caveat(
            f"Undecided: {n_open} {'head' if n_open == 1 else 'heads'} (the column decided). "
            "effort=full scores every head on all sentences."
        ),
    )


def _pairs(heads: Sequence[Head], which: str) -> list[list[Head]]:
    if which == "none":
        return []
    pairs = [
        [one, other]
        for one, other in combinations(heads, 2)
        if which == "all" or one[0] == other[0]
    ]
    if len(pairs) > MAX_PAIRS:
        raise WorkbenchError(
            f"the model has {len(pairs):,} pairs of heads; the maximum is {MAX_PAIRS:,}.",
            code="too-many-pairs",
            remedy="Set pairs=layer.",
        )
    return pairs


def _replacement(
    evaluation: Evaluation, questions: Sequence[Question], mode: Mode, seed: int
) -> Replacement | None:
    if mode == "mean":
        return means(evaluation.model, evaluation.aim, questions)
    if mode == "resample":
        return others(evaluation.model, evaluation.aim, questions, seed)
    return None


def _on_progress(
    progress: Progress, evaluation: Evaluation, sets: int, index: int, modes: int, mode: str
) -> OnProgress:
    """A callback that reports texts, each counted once for every ablated set."""
    each = len(evaluation.batch) * sets
    return lambda done: progress(
        index * each + done, modes * each, f"removing heads: {mode}, texts times heads"
    )


def _rows(
    evaluation: Evaluation,
    outcome: Outcome,
    heads: Sequence[Head],
    metric: str,
    mode: str,
    is_better: bool,
) -> pd.DataFrame:
    """One row per head; `is_better`: the whole model is better than its baseline by this metric."""
    sites = {site.index: site for site in evaluation.model.sites}
    changes, base = outcome.changes[metric], outcome.base.value(metric)
    is_worse = (1 if metric == "loss" else -1) * changes.delta > 0
    rows = [
        {
            "mode": mode,
            "metric": metric,
            **named(sites[site], head),
            "base": base,
            "ablated": base + changes.delta[row],
            "delta": changes.delta[row],
            "lower": changes.lower[row],
            "upper": changes.upper[row],
            "p_value": changes.p_value[row],
            "matters": bool(is_better and is_worse[row] and changes.p_value[row] < SIGNIFICANT),
            "n": int(outcome.number[row]),
            "sentences": int(outcome.texts[row]),
            "top_ten": bool(outcome.top[row]),
            "decided": bool(outcome.decided[row]),
        }
        for row, (site, head) in enumerate(heads)
    ]
    return pd.DataFrame(rows)


def _head_rows(
    importance: pd.DataFrame, loss: pd.DataFrame, accuracy: pd.DataFrame
) -> pd.DataFrame:
    """One row per head with all its scores, for the attention browser."""
    return importance[[*HEAD, "importance"]].assign(
        loss_added=loss["delta"].to_numpy(),
        accuracy_added=accuracy["delta"].to_numpy(),
        p_value=loss["p_value"].to_numpy(),
        matters=loss["matters"].to_numpy(),
    )


def _pair_rows(
    evaluation: Evaluation,
    result: Ablated,
    heads: Sequence[Head],
    together: Sequence[Sequence[Head]],
    mode: str,
    seed: int,
) -> pd.DataFrame:
    """One row per pair of heads."""
    index = {head: number for number, head in enumerate(heads)}
    differences = result.differences("loss")
    alone, both = differences[:, : len(heads)], differences[:, len(heads) :]
    first, second = (np.array([index[pair[n]] for pair in together]) for n in (0, 1))
    interaction = both - alone[:, first] - alone[:, second]
    total = max(result.base.number.sum(), 1e-12)
    lower, upper = ratio_intervals(interaction, result.base.number, seed)
    p_values = sign_flip_p_values(interaction, seed)
    sites = {site.index: site for site in evaluation.model.sites}
    rows = [
        {
            "mode": mode,
            **dict(_sided(sites, pair)),
            "delta": both[:, row].sum() / total,
            "alone_a": alone[:, first[row]].sum() / total,
            "alone_b": alone[:, second[row]].sum() / total,
            "interaction": interaction[:, row].sum() / total,
            "lower": lower[row],
            "upper": upper[row],
            "p_value": p_values[row],
        }
        for row, pair in enumerate(together)
    ]
    return pd.DataFrame(rows)


def _sided(sites: Mapping[int, Site], pair: Sequence[Head]) -> Iterator[tuple[str, object]]:
    for which, (site, head) in zip("ab", pair, strict=True):
        for name, value in named(sites[site], head).items():
            yield f"{name}_{which}", value
