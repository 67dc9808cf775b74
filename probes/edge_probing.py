"""Edge probing (Tenney et al. 2019): what each layer knows of each task, beside its baselines.

Every sentence is encoded once; then all probes of a task (each layer, mixes up to each layer,
control tasks, the random twin, static vectors) train together for each seed. What a task and seed
came to is written down, so a run that was stopped goes on from there. Costs one pass of the model
and of its twin, and then about 10 ms for 1,000 targets, an epoch and a probe at width 128 on a CPU;
`preview` answers in seconds with closed-form ridge probes instead.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from probes.edge_trials import Ready, Trial, estimated_time, modes_asked, ready_tasks, trials_of
from probes.experiments import EDGE_KEYS, EdgeProbing
from probes.probe_grid import majority, modes_of
from probes.probe_inputs import Opened, opened, tasks_in
from probes.representations import BARE, MODEL, NO_LAYER, RANDOM, STATIC, Bank, banked
from probes.targets import Examples
from workbench.core.experiment import Caveat, Inputs, Progress, Result
from workbench.core.files import folder_or_temporary
from workbench.core.splits import DEV
from workbench.core.stats import Floats, f1, interval, p_value, resampled
from workbench.corpora.corpus import Corpus

SHOWN = 4  # probes that a caveat names
ONE_PROBE = ["task", "probe", "encoder", "stack", "layer", "control"]


def fits(corpus: Corpus, settings: EdgeProbing) -> None:
    """Raise where the corpus has none of the tasks asked for."""
    tasks_in(corpus, settings.tasks)


def run(inputs: Inputs, settings: EdgeProbing, progress: Progress) -> Result:
    """Encode, train, and tell."""
    with folder_or_temporary(inputs.scratch) as home:
        read = opened(
            inputs,
            home,
            settings.split_sizes,
            settings.tasks,
            progress,
            random=settings.random_baseline,
            vectors=settings.static_vectors,
            windows=settings.cnn_windows,
        )
        banks = banked(read.sources, inputs.model.device, read.train_words)
        ready, caveats = ready_tasks(read, settings.effort.targets, settings.loss, inputs.seed)
        progress.log(estimated_time(ready, banks, settings))
        trials = list(trials_of(read, ready, banks, settings, home, progress))
    rows, halves = rows_of(read, ready, banks, trials, settings)
    tables = tables_of(read, ready, banks, trials, rows, halves, settings, inputs.seed)
    counts = np.stack([row.counts for row in rows])  # [scores, sentences, 3]
    hashes = np.array([sentence_hash(doc.text) for doc in read.parts.test], dtype=np.int64)
    arrays: dict[str, NDArray[np.generic]] = {"counts": counts, "sentences": hashes}
    said = (*read.caveats(), *caveats, *_rough(settings), *_reliability(tables, settings))
    return Result(tables, arrays, said)


def _rough(settings: EdgeProbing) -> Iterator[Caveat]:
    if settings.preview:
        yield Caveat("A preview: closed-form ridge probes, not trained ones. Scores are rougher.")
    elif settings.preset == "quick":
        yield Caveat(
            "Preset quick: few targets, one seed and few epochs. Scores are rough; use "
            "preset=standard or preset=full for curves to rely on."
        )


def _reliability(tables: Mapping[str, pd.DataFrame], settings: EdgeProbing) -> Iterator[Caveat]:
    """What cannot be read off the curves: probes cut off, probes that failed, too little data."""
    means, summary = tables["means"], tables["summary"]
    whole = means[means["share"] == max(settings.data_fractions)]
    whole = whole.drop_duplicates([*ONE_PROBE, "mean"])  # one probe may stand under several modes
    cut = whole[~whole["converged"]]
    if len(cut):
        yield Caveat(
            f"{len(cut)} of {len(whole)} probes were still improving at the maximum number of "
            f"epochs, {settings.effort.epochs} ({_named(cut)}). Their scores are too low: raise "
            "epochs, or use preset=full.",
            ("means", "scores", "curves"),
        )
    failed = whole[~whole["learnt"] & (whole["encoder"] == MODEL)]
    if len(failed):
        yield Caveat(
            f"{len(failed)} of the model's probes score under the majority baseline or under their "
            f"own control task ({_named(failed)}). They did not learn the task; their scores say "
            "nothing about the layer.",
            ("means", "curves"),
        )
    starved = summary[~summary["enough_data"].astype(bool)]
    if len(starved):
        moved = "; ".join(
            f"{row['task']} +{100 * row['data_gain']:.1f} points at layer "
            f"{row['data_gain_layer']:.0f}"
            for row in starved.to_dict("records")
        )
        yield Caveat(
            f"More training targets would change these curves. Twice the targets gained: {moved}.",
            ("means", "curves", "summary"),
        )


def _named(rows: pd.DataFrame) -> str:
    """The first probes of a table, in words."""
    names = [f"{row.task}, {row.mode} {row.layer}" for row in rows.head(SHOWN).itertuples()]
    return "; ".join(names) + (f"; and {len(rows) - SHOWN} more" if len(rows) > SHOWN else "")


# --- scores, means and the summary ----------------------------------------------------------------
#
# From what probes scored to tables: scores, means with intervals, summaries, labels, examples.
#
# Pure functions of counts; the bootstrap is all they cost.

MAJORITY = "majority"
SCORES = [*EDGE_KEYS, "seed", "split", "metric", "value", "n", "converged"]
MEANS = [
    *EDGE_KEYS, "metric", "mean", "lower", "upper", "seeds", "n", "delta", "p_value", "converged",
    "learnt",
]  # fmt: skip
SUMMARY = (
    "task probe stack metric centre_of_gravity expected_layer best_layer best_score lower upper "
    "baseline_majority baseline_lexical baseline_static baseline_random baseline_no_positions "
    "selectivity converged learnt data_gain data_gain_layer enough_data n"
).split()
HALVES = "task probe stack mode layer half all gain".split()
PER_LABEL = "task probe stack mode layer label precision recall f1 n".split()
MIX = "task probe stack seed layer weight".split()
CONFUSION = "task probe stack mode layer gold predicted n".split()
MOVES = 0.02  # what twice the targets may gain, and the curve still counts as settled
UNDEFINED = 0.005  # a curve that gains less has no expected layer
RISES = 1 / 3  # of all ups and downs, the least that must be left: else falls took half back
OTHER = "(other)"
MOST_LABELS = 30  # in a confusion matrix


class Key(NamedTuple):
    """One true probe of the model, seeds together."""

    task: str
    probe: str
    stack: str
    mode: str
    layer: int


@dataclass(frozen=True)
class Row:
    """One probe under one mode, of one seed, with its counts."""

    task: str
    probe: str
    encoder: str
    mode: str
    stack: str
    layer: int
    share: float
    control: bool
    seed: int
    metric: str
    n: int
    counts: NDArray[np.int32]  # [documents, 3]
    converged: bool = True

    @property
    def key(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in EDGE_KEYS)


def scores(rows: Sequence[Row], split: str) -> pd.DataFrame:
    """One row a probe, mode and seed."""
    data = [
        (
            *row.key,
            row.seed,
            split,
            row.metric,
            float(f1(row.counts.sum(0).astype(float))),
            row.n,
            row.converged,
        )
        for row in rows
    ]
    return pd.DataFrame(data, columns=SCORES)


def means_of(rows: Sequence[Row], seed: int) -> pd.DataFrame:
    """Means over seeds with intervals, and each layer against the one below it, pair by pair."""
    data = []
    for task in dict.fromkeys(row.task for row in rows):
        groups: dict[tuple[object, ...], list[Row]] = {}
        for row in rows:
            if row.task == task:
                groups.setdefault(row.key, []).append(row)
        draws: dict[tuple[object, ...], Floats] = {}
        for seeds in {len(group) for group in groups.values()}:
            chosen = [key for key, group in groups.items() if len(group) == seeds]
            counts = np.stack([np.stack([r.counts for r in groups[key]]) for key in chosen])
            draws |= dict(zip(chosen, resampled(counts, f1, seed), strict=True))
        for key, group in groups.items():
            values = [float(f1(row.counts.sum(0).astype(float))) for row in group]
            lower, upper = interval(draws[key])
            delta = p = float("nan")
            below = _below(key)
            if below is not None and below in draws:
                delta = float(np.mean(values)) - _mean(groups[below])
                p = float(p_value(draws[key] - draws[below]))
            data.append(
                (*key, group[0].metric, float(np.mean(values)), float(lower), float(upper),
                 len(group), group[0].n, delta, p, all(row.converged for row in group), True)
            )  # fmt: skip
    found = pd.DataFrame(data, columns=MEANS)
    found["learnt"] = _learnt(found)
    return found


def _learnt(means: pd.DataFrame) -> list[bool]:
    """Whether each probe scores at least its majority baseline and its own control task.

    One that does not has learnt nothing, whatever its layer holds. Controls are not judged.
    """
    baseline = means[means["encoder"] == MAJORITY].set_index("task")["mean"]
    baseline = baseline[~baseline.index.duplicated()]
    own = [key for key in EDGE_KEYS if key not in ("control", "share")]
    control = means[means["control"] & (means["share"] == means["share"].max())]
    of_control = control.set_index(own)["mean"].to_dict()
    return [
        bool(
            row["control"]
            or row["mean"] >= max(
                float(baseline.get(row["task"], 0.0)),
                float(of_control.get(tuple(row[name] for name in own), 0.0)),
            )
        )
        for row in means.to_dict("records")
    ]  # fmt: skip


def _mean(group: Sequence[Row]) -> float:
    return float(np.mean([f1(row.counts.sum(0).astype(float)) for row in group]))


def _below(key: tuple[object, ...]) -> tuple[object, ...] | None:
    """The same probe one layer down."""
    told = dict(zip(EDGE_KEYS, key, strict=True))
    if told["encoder"] != MODEL or told["mode"] not in ("layer", "cumulative"):
        return None
    return tuple({**told, "layer": int(str(told["layer"])) - 1}.values())


def halves_of(whole: Sequence[Row], half: Sequence[Row]) -> pd.DataFrame:
    """What each of the model's layers scores with all targets and with half of them."""
    groups: dict[tuple[object, ...], tuple[list[Row], list[Row]]] = {}
    for side, rows in enumerate((whole, half)):
        for row in rows:
            key = (row.task, row.probe, row.stack, row.mode, row.layer)
            if row.encoder == MODEL and not row.control:
                groups.setdefault(key, ([], []))[side].append(row)
    data = [
        (*key, before := _mean(few), after := _mean(every), after - before)
        for key, (every, few) in groups.items()
        if every and few
    ]
    return pd.DataFrame(data, columns=HALVES)


def summary(means: pd.DataFrame, mix: pd.DataFrame, half: pd.DataFrame) -> pd.DataFrame:
    """A line for each task, probe and stack, with all targets; `half` is the table of `halves`."""
    data = []
    whole = means[means["share"] == means["share"].max()]
    true = whole[~whole["control"]]
    models = true[true["encoder"] == MODEL]
    for (task, probe, stack), own in models.groupby(["task", "probe", "stack"], sort=False):
        beside = true[(true["task"] == task) & (true["probe"].isin([probe, MAJORITY]))]
        best = _best(own)
        control = whole[
            whole["control"]
            & (whole["task"] == task)
            & (whole["probe"] == probe)
            & (whole["stack"] == stack)
        ]
        weights = mix[(mix["task"] == task) & (mix["probe"] == probe) & (mix["stack"] == stack)]
        by_layer = weights.groupby("layer")["weight"].mean()
        random = beside[(beside["encoder"] == RANDOM) & (beside["stack"] == stack)]
        data.append(
            (
                task,
                probe,
                stack,
                best["metric"],
                float((by_layer.index * by_layer).sum()) if len(by_layer) else float("nan"),
                expected_layer(own[own["mode"] == "cumulative"]),
                int(best["layer"]),
                best["mean"],
                best["lower"],
                best["upper"],
                _most(beside[beside["encoder"] == MAJORITY]),
                _most(own[own["mode"] == "lexical"]),
                _most(beside[beside["encoder"] == STATIC]),
                _most(random),
                _most(beside[beside["encoder"] == BARE]),
                best["mean"] - _at(control, int(best["layer"])),
                bool(best["converged"]),
                bool(best["learnt"]),
                *_data_gain(
                    half[
                        (half["task"] == task) & (half["probe"] == probe) & (half["stack"] == stack)
                    ]
                ),
                int(best["n"]),
            )
        )
    return pd.DataFrame(data, columns=SUMMARY)


def _data_gain(half: pd.DataFrame) -> tuple[float, float, bool]:
    """The most that a layer gains from the second half of the targets; where; is it little?"""
    if half.empty:
        return float("nan"), float("nan"), True
    gain = half["gain"].to_numpy(dtype=float)
    most = int(gain.argmax())
    return float(gain[most]), float(half["layer"].iloc[most]), bool(gain[most] <= MOVES)


def _best(own: pd.DataFrame) -> "pd.Series[Any]":
    """The best of the layers; of the mixes where no more than layer 0 was read alone."""
    for modes in (["layer", "top"], ["mix", "cumulative"], ["lexical"]):
        some = own[own["mode"].isin(modes)]
        if len(some):
            return some.sort_values("mean", kind="stable").iloc[-1]
    return own.iloc[-1]


def _most(rows: pd.DataFrame) -> float:
    return float(rows["mean"].max()) if len(rows) else float("nan")


def _at(control: pd.DataFrame, layer: int) -> float:
    """What the probe of a layer scores on its control task."""
    same = control[control["layer"] == layer]
    return float(same["mean"].iloc[0]) if len(same) else float("nan")


def expected_layer(cumulative: pd.DataFrame) -> float:
    """Σ ℓ Δ(ℓ) / Σ Δ(ℓ) over layers from 1; undefined (NaN) where the curve does not rise.

    Gains are not clipped; where falls take back more than half of what was gained, the sum means
    nothing either.
    """
    curve = cumulative.set_index("layer")["mean"].sort_index()
    gains = curve.diff().dropna()
    total = gains.sum()
    if len(gains) == 0 or total < max(UNDEFINED, RISES * gains.abs().sum()):
        return float("nan")
    return float((gains.index.to_numpy(dtype=float) * gains.to_numpy(dtype=float)).sum() / total)


def per_label(
    found: Mapping[Key, tuple[Examples, NDArray[np.int64]]],
) -> pd.DataFrame:
    """Precision, recall and F1 of each label."""
    data = []
    for key, (examples, counts) in found.items():  # counts [labels, 3], over seeds
        for name, (right, said, there) in zip(examples.names, counts.tolist(), strict=True):
            data.append(
                (
                    *key,
                    name,
                    right / said if said else float("nan"),
                    right / there if there else float("nan"),
                    2 * right / (said + there) if said + there else float("nan"),
                    there,
                )
            )
    return pd.DataFrame(data, columns=PER_LABEL)


def confusion(
    key: Key, names: Sequence[str], gold: NDArray[np.int64], said: NDArray[np.int64]
) -> list[tuple[object, ...]]:
    """How often each label was taken for each; the rarest labels stand together."""
    size = len(names)
    table = np.zeros((size, size), dtype=np.int64)
    np.add.at(table, (gold, said), 1)
    often = set(np.argsort(-table.sum(1), kind="stable")[:MOST_LABELS].tolist())
    told: dict[tuple[str, str], int] = {}
    for i, j in zip(*np.nonzero(table), strict=True):
        pair = (names[i] if i in often else OTHER, names[j] if j in often else OTHER)
        told[pair] = told.get(pair, 0) + int(table[i, j])
    return [(*key, one, other, number) for (one, other), number in sorted(told.items())]


# --- the tables: means, mixes, confusions, gains from layer to layer, predictions -----------------

GAINS = 20  # examples told for each layer


def rows_of(
    read: Opened,
    ready: Mapping[str, Ready],
    banks: Sequence[Bank],
    trials: Sequence[Trial],
    settings: EdgeProbing,
) -> tuple[list[Row], list[Row]]:
    """Every probe's counts, and those of the probes that were trained on half of the targets."""
    rows: list[Row] = []
    halves: list[Row] = []
    for trial in trials:
        task, bank = ready[trial.task], banks[trial.bank]
        for place, probe in enumerate(trial.probes):
            last = bank.sources[probe.sources[-1]]
            (halves if trial.half else rows).extend(
                Row(
                    trial.task,
                    trial.kind,
                    last.encoder,
                    mode,
                    last.stack,
                    layer,
                    trial.share,
                    probe.control,
                    trial.seed,
                    task.examples.task.metric,
                    len(task.test),
                    trial.found.counts[place],
                    bool(trial.converged[place]),
                )
                for mode, layer in modes_of(probe, bank.sources, modes_asked(settings))
            )
    for name, task in ready.items():
        counts = torch.zeros(len(read.parts.test), 3, dtype=torch.int32)
        said = majority(task.examples, task.test).int()
        counts.index_add_(0, task.tested.document - read.first_scored, said)
        for share in settings.data_fractions:
            rows.append(
                Row(
                    name,
                    MAJORITY,
                    MAJORITY,
                    "baseline",
                    MAJORITY,
                    NO_LAYER,
                    share,
                    False,
                    settings.effort.seeds[0],
                    task.examples.task.metric,
                    len(task.test),
                    counts.numpy(),
                )
            )
    return rows, halves


def tables_of(
    read: Opened,
    ready: Mapping[str, Ready],
    banks: Sequence[Bank],
    trials: Sequence[Trial],
    rows: Sequence[Row],
    halves: Sequence[Row],
    settings: EdgeProbing,
    seed: int,
) -> dict[str, pd.DataFrame]:
    mix = _mix(banks, trials, settings)
    means = means_of(rows, seed)
    half = halves_of([row for row in rows if row.share == max(settings.data_fractions)], halves)
    answers = [
        answer
        for trial in trials
        if trial.share == max(settings.data_fractions) and not trial.half
        for answer in _answers(trial, banks[trial.bank], settings)
    ]
    labels: dict[Key, tuple[Examples, NDArray[np.int64]]] = {}
    for key, trial, place in answers:
        before = labels.get(key, (None, 0))[1]
        labels[key] = (ready[trial.task].examples, before + trial.found.labels[place].astype(int))
    tables = {
        "summary": summary(means, mix, half),
        "scores": scores(rows, read.parts.scored),
        "means": means,
        "halves": half,
        "per_label": per_label(labels),
        "mix": mix,
        "confusion": _confusion(ready, answers),
        "gains": _gains(read, ready, answers, settings),
        "tasks": _about(read, ready),
    }
    if settings.save_predictions:
        tables["predictions"] = _predictions(read, ready, answers, settings)
    return tables


_Answer = tuple[Key, Trial, int]  # of the trial, the probe at this place


def _answers(trial: Trial, bank: Bank, settings: EdgeProbing) -> Iterator[_Answer]:
    """The true probes of the model, each under its first mode."""
    for place, probe in enumerate(trial.probes):
        last = bank.sources[probe.sources[-1]]
        if last.encoder == MODEL and not probe.control:
            mode, layer = modes_of(probe, bank.sources, modes_asked(settings))[0]
            yield Key(trial.task, trial.kind, last.stack, mode, layer), trial, place


def _mix(banks: Sequence[Bank], trials: Sequence[Trial], settings: EdgeProbing) -> pd.DataFrame:
    data = []
    for trial in trials:
        sources = banks[trial.bank].sources
        mixing_probes = [probe for probe in trial.probes if len(probe.sources) > 1]
        for probe, weights in zip(mixing_probes, trial.mixes, strict=True):
            last = sources[probe.sources[-1]]
            whole = sum((s.encoder, s.stack) == (last.encoder, last.stack) for s in sources)
            if last.encoder != MODEL or len(probe.sources) < whole or probe.control:
                continue
            if trial.half or trial.share < max(settings.data_fractions):
                continue
            for place in probe.sources:
                source = sources[place]
                data.append(
                    (trial.task, trial.kind, source.stack, trial.seed, source.layer,
                     float(weights[place]))
                )  # fmt: skip
    return pd.DataFrame(data, columns=MIX)


def _confusion(ready: Mapping[str, Ready], answers: Sequence[_Answer]) -> pd.DataFrame:
    said: dict[Key, list[NDArray[np.int64]]] = {}
    gold: dict[Key, list[NDArray[np.int64]]] = {}
    for key, trial, place in answers:
        tested = ready[trial.task].tested
        if not ready[trial.task].examples.single:
            continue
        known = (tested.unseen == 0).numpy()
        gold.setdefault(key, []).append(tested.labels.int().argmax(1).numpy()[known])
        said.setdefault(key, []).append(trial.found.likeliest[place].astype(np.int64)[known])
    data = []
    for key in said:
        names = ready[key.task].examples.names
        data += confusion(key, names, np.concatenate(gold[key]), np.concatenate(said[key]))
    return pd.DataFrame(data, columns=CONFUSION)


def _about(read: Opened, ready: Mapping[str, Ready]) -> pd.DataFrame:
    data = []
    for task in read.tasks:
        if task.name not in ready:
            continue
        one = ready[task.name]
        data.append(
            (
                task.name,
                task.layer,
                task.about,
                len(one.examples.spans),
                task.metric,
                "softmax" if one.train.softmax else "sigmoid",
                len(one.examples.names),
                len(one.train),
                len(one.examples.of(DEV)),
                len(one.test),
                sum(one.examples.left_out.values()),
            )
        )
    columns = "task layer about spans metric loss labels train dev test left_out".split()
    return pd.DataFrame(data, columns=columns)


SPANS = ("span1_start", "span1_end", "span2_start", "span2_end")


def _targets(read: Opened, task: Ready) -> pd.DataFrame:
    """The sentence, spans (as characters of its text) and gold labels of every scored target."""
    words = read.batch.words  # [words, 2], characters
    tested = task.tested
    data: dict[str, object] = {
        "target": np.arange(len(tested)),
        "sentence": (tested.document - read.first_scored).numpy(),
        "text": [read.parts.docs[document].text for document in tested.document.tolist()],
    }
    for side in (0, 1):
        spans = tested.spans[side].numpy() if side < len(tested.spans) else None
        start, end = SPANS[2 * side : 2 * side + 2]
        data[start] = NO_LAYER if spans is None else words[spans[:, 0], 0]
        data[end] = NO_LAYER if spans is None else words[spans[:, 1] - 1, 1]
    edges = read.batch.edges[tested.task.layer]
    data["gold"] = [
        ", ".join(
            edges.names[label]
            for label in edges.labels[edges.label_offsets[edge] : edges.label_offsets[edge + 1]]
        )
        for edge in tested.edge.tolist()
    ]
    return pd.DataFrame(data)


def _firsts(answers: Sequence[_Answer], settings: EdgeProbing) -> list[_Answer]:
    """Those of the first seed that read one layer."""
    return [
        (key, trial, place)
        for key, trial, place in answers
        if trial.seed == settings.effort.seeds[0] and len(trial.probes[place].sources) == 1
    ]


def _gains(
    read: Opened, ready: Mapping[str, Ready], answers: Sequence[_Answer], settings: EdgeProbing
) -> pd.DataFrame:
    """Some targets that each layer is the first to get right."""
    by_layer = {
        (trial.task, trial.kind, key.stack, key.layer): (trial, place)
        for key, trial, place in _firsts(answers, settings)
    }
    targets = {name: _targets(read, task) for name, task in ready.items()}
    parts = []
    for (name, kind, stack, layer), (trial, place) in by_layer.items():
        below = by_layer.get((name, kind, stack, layer - 1))
        if below is None:
            continue
        better = trial.found.right[place] & ~below[0].found.right[below[1]]
        some = np.flatnonzero(better)[:GAINS]
        part = (
            targets[name]
            .iloc[some]
            .assign(
                task=name,
                probe=kind,
                stack=stack,
                layer=layer,
                below=np.array(ready[name].examples.names, dtype=object)[
                    below[0].found.likeliest[below[1]][some]
                ],
            )
        )
        parts.append(part)
    columns = [
        "task",
        "probe",
        "stack",
        "layer",
        "target",
        "sentence",
        "text",
        *SPANS,
        "gold",
        "below",
    ]
    return pd.concat(parts)[columns] if parts else pd.DataFrame(columns=columns)


def _predictions(
    read: Opened, ready: Mapping[str, Ready], answers: Sequence[_Answer], settings: EdgeProbing
) -> pd.DataFrame:
    parts = []
    targets = {name: _targets(read, task) for name, task in ready.items()}
    for key, trial, place in _firsts(answers, settings):
        names = np.array(ready[trial.task].examples.names, dtype=object)
        part = targets[trial.task].assign(
            task=trial.task,
            probe=trial.kind,
            stack=key.stack,
            layer=key.layer,
            predicted=names[trial.found.likeliest[place]],
            right=trial.found.right[place],
        )
        parts.append(part)
    columns = ["task", "probe", "stack", "layer", "target", "sentence", "text", *SPANS, "gold"]
    columns += ["predicted", "right"]
    return pd.concat(parts)[columns] if parts else pd.DataFrame(columns=columns)


def sentence_hash(text: str) -> int:
    """The same for the same sentence, on any machine."""
    return int.from_bytes(
        hashlib.blake2b(text.encode(), digest_size=8).digest(), "big", signed=True
    )
