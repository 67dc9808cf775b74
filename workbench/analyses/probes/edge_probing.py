"""Edge probing (Tenney et al. 2019): what each layer encodes of each task, with baselines.

Every sentence is encoded once. Then all probes of a task (each layer, mixes up to each layer,
control tasks, the random-weight baseline, static vectors) train together, for all seeds. The
results of each task and seed are saved, so a stopped run continues from there. Costs: one pass of
the model and one of the random-weight model, then about 10 ms per 1,000 targets, epoch and probe at
width 128 on a CPU. With `preview`, closed-form ridge probes take seconds instead.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from workbench.analyses.probes.edge_trials import (
    TaskData,
    Trial,
    estimated_time,
    prepare_tasks,
    resolve_modes,
    train_trials,
)
from workbench.analyses.probes.experiments import EDGE_KEYS, MAX_DATA_GAIN, EdgeProbing
from workbench.analyses.probes.probe_grid import majority, modes_of
from workbench.analyses.probes.probe_inputs import ProbeInputs, open_inputs, tasks_in
from workbench.analyses.probes.representations import (
    BARE,
    MODEL,
    NO_LAYER,
    RANDOM,
    STATIC,
    Bank,
    build_banks,
)
from workbench.analyses.probes.targets import Examples
from workbench.core.arrays import Floats
from workbench.core.files import folder_or_temporary
from workbench.core.findings import capital, of_all, verb_of
from workbench.core.groups import grouped
from workbench.core.head_names import at_state, state_name
from workbench.core.stats import f1, interval, p_value, resampled
from workbench.corpora.corpus import Corpus
from workbench.corpora.splits import DEV
from workbench.experiment.definition import Caveat, Inputs, Progress, Result

MAX_NAMED = 4  # probes that a caveat names
ONE_PROBE = ["task", "probe", "encoder", "stack", "layer", "control"]


def fits(corpus: Corpus, settings: EdgeProbing) -> None:
    """Raise an error if the corpus does not have the requested tasks."""
    tasks_in(corpus, settings.tasks)


def still_open(tables: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """Yield the tasks whose curves twice the targets would still change."""
    summary = tables["summary"]
    for row in summary[summary["data_gain"] > MAX_DATA_GAIN].to_dict("records"):
        gain = 100 * row["data_gain"]
        yield f"the curve of {row['task']} (the second half of the targets adds {gain:.1f} points)"


def run(inputs: Inputs, settings: EdgeProbing, progress: Progress) -> Result:
    """Encode the corpus, train all probes and build the tables."""
    with folder_or_temporary(inputs.scratch) as home:
        probe_inputs = open_inputs(
            inputs,
            home,
            settings.split_sizes,
            settings.tasks,
            progress,
            random=settings.random_baseline,
            vectors=settings.static_vectors,
            windows=settings.cnn_windows,
        )
        banks = build_banks(probe_inputs.sources, inputs.model.device, probe_inputs.train_words)
        tasks, caveats = prepare_tasks(
            probe_inputs, settings.budget.targets, settings.loss, inputs.seed
        )
        progress.log(estimated_time(tasks, banks, settings))
        trials = list(train_trials(probe_inputs, tasks, banks, settings, home, progress))
    rows, halves = rows_of(probe_inputs, tasks, banks, trials, settings)
    tables = tables_of(probe_inputs, tasks, banks, trials, rows, halves, settings, inputs.seed)
    counts = np.stack([row.counts for row in rows])  # [scores, sentences, 3]
    hashes = np.array([sentence_hash(doc.text) for doc in probe_inputs.parts.test], dtype=np.int64)
    arrays: dict[str, NDArray[np.generic]] = {"counts": counts, "sentences": hashes}
    caveats += [*_rough_caveats(settings), *_reliability_caveats(tables, settings)]
    return Result(tables, arrays, (*probe_inputs.caveats(), *caveats))


def _rough_caveats(settings: EdgeProbing) -> Iterator[Caveat]:
    """Warnings that the preview or little effort gives rough scores."""
    if settings.preview:
        yield Caveat(
            "This is a preview with closed-form ridge probes. Scores are rougher than of "
            "trained probes."
        )
    elif settings.effort == "quick":
        yield Caveat(
            "Effort quick trains on few targets, with one seed and few epochs, so scores are "
            "rough. For reliable curves use effort=standard or effort=full."
        )


def _reliability_caveats(
    tables: Mapping[str, pd.DataFrame], settings: EdgeProbing
) -> Iterator[Caveat]:
    """Warnings of unconverged probes, and of probes that did not learn."""
    means = tables["means"]
    whole = means[means["share"] == max(settings.data_fractions)]
    whole = whole.drop_duplicates([*ONE_PROBE, "mean"])  # one probe may have several modes
    cut = whole[~whole["converged"]]
    if len(cut):
        yield Caveat(
            f"{capital(of_all(len(cut), len(whole), 'probe'))} "
            f"{verb_of(len(cut), 'was', 'were')} still improving at the maximum number of "
            f"epochs, {settings.budget.epochs} ({_named(cut)}). Their scores are too low. Raise "
            "max_epochs, or use effort=full.",
            ("means", "scores", "curves"),
        )
    failed = whole[~whole["learnt"] & (whole["encoder"] == MODEL)]
    if len(failed):
        yield Caveat(
            f"{len(failed)} of the model's probes {verb_of(len(failed), 'scores', 'score')} below "
            f"the majority baseline or below their own control task ({_named(failed)}). "
            "They did not learn the task, so their scores say nothing about the layer.",
            ("means", "curves"),
        )


def _input(row: Any) -> str:
    """What the probe of a row reads, with layers as figures name them."""
    if row.encoder == STATIC:
        return "static vectors"
    read = state_name(row.layer)
    if row.mode in ("mix", "cumulative"):
        read = f"mix up to {at_state(row.layer)}"
    return {RANDOM: f"random weights, {read}", BARE: f"{read}, {BARE}"}.get(row.encoder, read)


def _named(rows: pd.DataFrame) -> str:
    """The first probes of a table by name, and how many more there are."""
    names = [f"{row.task}, {_input(row)}" for row in rows.head(MAX_NAMED).itertuples()]
    return "; ".join(names) + (
        f"; and {len(rows) - MAX_NAMED} more" if len(rows) > MAX_NAMED else ""
    )


# --- scores, means and the summary ----------------------------------------------------------------
#
# Tables from the counts of the probes: scores, means with intervals, summaries, labels, examples.
#
# Pure functions of counts. Costs: the bootstrap.

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
MIN_TOTAL_GAIN = 0.005  # a curve that gains less has no expected layer
MIN_NET_SHARE = 1 / 3  # of all rises and falls; below, falls take back over half of the rises
OTHER = "(other)"
MOST_LABELS = 30  # in a confusion matrix


class Key(NamedTuple):
    """A probe of the model on the true labels, over all seeds."""

    task: str
    probe: str
    stack: str
    mode: str
    layer: int


@dataclass(frozen=True)
class Row:
    """One probe in one mode and for one seed, with its counts."""

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
    """The table of scores: one row per probe, mode and seed."""
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
    """Means over seeds with intervals, and paired tests of each layer against the one below."""
    data = []
    for task in dict.fromkeys(row.task for row in rows):
        groups = grouped((row.key, row) for row in rows if row.task == task)
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
                delta = float(np.mean(values)) - _mean_f1(groups[below])
                p = float(p_value(draws[key] - draws[below]))
            data.append(
                (*key, group[0].metric, float(np.mean(values)), float(lower), float(upper),
                 len(group), group[0].n, delta, p, all(row.converged for row in group), True)
            )  # fmt: skip
    table = pd.DataFrame(data, columns=MEANS)
    table["learnt"] = _learnt(table)
    return table


def _learnt(means: pd.DataFrame) -> list[bool]:
    """Whether each probe scores at least its majority baseline and its own control task.

    A probe that does not has not learned the task, whatever its layer encodes. Probes of control
    tasks always count as learned.
    """
    baseline = means[means["encoder"] == MAJORITY].set_index("task")["mean"]
    baseline = baseline[~baseline.index.duplicated()]
    probe_columns = [key for key in EDGE_KEYS if key not in ("control", "share")]
    control = means[means["control"] & (means["share"] == means["share"].max())]
    control_scores = control.set_index(probe_columns)["mean"].to_dict()
    return [
        bool(
            row["control"]
            or row["mean"] >= max(
                float(baseline.get(row["task"], 0.0)),
                float(control_scores.get(tuple(row[name] for name in probe_columns), 0.0)),
            )
        )
        for row in means.to_dict("records")
    ]  # fmt: skip


def _mean_f1(group: Sequence[Row]) -> float:
    return float(np.mean([f1(row.counts.sum(0).astype(float)) for row in group]))


def _below(key: tuple[object, ...]) -> tuple[object, ...] | None:
    """The key of the same probe one layer below."""
    fields = dict(zip(EDGE_KEYS, key, strict=True))
    if fields["encoder"] != MODEL or fields["mode"] not in ("layer", "cumulative"):
        return None
    return tuple({**fields, "layer": int(str(fields["layer"])) - 1}.values())


def halves_of(whole: Sequence[Row], half: Sequence[Row]) -> pd.DataFrame:
    """The table `halves`: F1 of each layer of the model with half of the targets and with all."""
    groups: dict[tuple[object, ...], tuple[list[Row], list[Row]]] = {}
    for side, rows in enumerate((whole, half)):
        for row in rows:
            key = (row.task, row.probe, row.stack, row.mode, row.layer)
            if row.encoder == MODEL and not row.control:
                groups.setdefault(key, ([], []))[side].append(row)
    data = [
        (*key, before := _mean_f1(few), after := _mean_f1(every), after - before)
        for key, (every, few) in groups.items()
        if every and few
    ]
    return pd.DataFrame(data, columns=HALVES)


def summary(means: pd.DataFrame, mix: pd.DataFrame, half: pd.DataFrame) -> pd.DataFrame:
    """One row per task, probe and stack, with all targets; `half` is the table `halves`."""
    data = []
    whole = means[means["share"] == means["share"].max()]
    true = whole[~whole["control"]]
    models = true[true["encoder"] == MODEL]
    for (task, probe, stack), rows in models.groupby(["task", "probe", "stack"], sort=False):
        comparable = true[(true["task"] == task) & (true["probe"].isin([probe, MAJORITY]))]
        best = _best(rows)
        control = whole[
            whole["control"]
            & (whole["task"] == task)
            & (whole["probe"] == probe)
            & (whole["stack"] == stack)
        ]
        weights = mix[(mix["task"] == task) & (mix["probe"] == probe) & (mix["stack"] == stack)]
        by_layer = weights.groupby("layer")["weight"].mean()
        random = comparable[(comparable["encoder"] == RANDOM) & (comparable["stack"] == stack)]
        data.append(
            (
                task,
                probe,
                stack,
                best["metric"],
                float((by_layer.index * by_layer).sum()) if len(by_layer) else float("nan"),
                expected_layer(rows[rows["mode"] == "cumulative"]),
                int(best["layer"]),
                best["mean"],
                best["lower"],
                best["upper"],
                _max_mean(comparable[comparable["encoder"] == MAJORITY]),
                _max_mean(rows[rows["mode"] == "lexical"]),
                _max_mean(comparable[comparable["encoder"] == STATIC]),
                _max_mean(random),
                _max_mean(comparable[comparable["encoder"] == BARE]),
                best["mean"] - _score_at(control, int(best["layer"])),
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


def _data_gain(half: pd.DataFrame) -> tuple[float, float, bool | None]:
    """Largest gain from the second half of the targets, its layer, and whether it is small."""
    if half.empty:
        return float("nan"), float("nan"), None
    gain = half["gain"].to_numpy(dtype=float)
    row = int(gain.argmax())
    return float(gain[row]), float(half["layer"].iloc[row]), bool(gain[row] <= MAX_DATA_GAIN)


def _best(rows: pd.DataFrame) -> "pd.Series[Any]":
    """The best single layer; the best mix if no single layer above 0 was probed."""
    for modes in (["layer", "top"], ["mix", "cumulative"], ["lexical"]):
        candidates = rows[rows["mode"].isin(modes)]
        if len(candidates):
            return candidates.sort_values("mean", kind="stable").iloc[-1]
    return rows.iloc[-1]


def _max_mean(rows: pd.DataFrame) -> float:
    return float(rows["mean"].max()) if len(rows) else float("nan")


def _score_at(control: pd.DataFrame, layer: int) -> float:
    """The score of a layer's probe on its control task."""
    rows = control[control["layer"] == layer]
    return float(rows["mean"].iloc[0]) if len(rows) else float("nan")


def expected_layer(cumulative: pd.DataFrame) -> float:
    """Σ ℓ Δ(ℓ) / Σ Δ(ℓ) over layers from 1; undefined (NaN) if the curve does not rise.

    Gains are not clipped. It is also undefined if falls take back more than half of the rises.
    """
    curve = cumulative.set_index("layer")["mean"].sort_index()
    gains = curve.diff().dropna()
    total = gains.sum()
    if len(gains) == 0 or total < max(MIN_TOTAL_GAIN, MIN_NET_SHARE * gains.abs().sum()):
        return float("nan")
    return float((gains.index.to_numpy(dtype=float) * gains.to_numpy(dtype=float)).sum() / total)


def per_label(
    label_counts: Mapping[Key, tuple[Examples, NDArray[np.int64]]],
) -> pd.DataFrame:
    """Precision, recall and F1 of each label."""
    data = []
    for key, (examples, counts) in label_counts.items():  # counts [labels, 3], over seeds
        for name, (right, predicted, gold) in zip(examples.names, counts.tolist(), strict=True):
            data.append(
                (
                    *key,
                    name,
                    right / predicted if predicted else float("nan"),
                    right / gold if gold else float("nan"),
                    2 * right / (predicted + gold) if predicted + gold else float("nan"),
                    gold,
                )
            )
    return pd.DataFrame(data, columns=PER_LABEL)


def confusion(
    key: Key, names: Sequence[str], gold: NDArray[np.int64], predicted: NDArray[np.int64]
) -> list[tuple[object, ...]]:
    """Number of targets by gold and predicted label; rare labels are merged into `(other)`."""
    size = len(names)
    table = np.zeros((size, size), dtype=np.int64)
    np.add.at(table, (gold, predicted), 1)
    frequent = set(np.argsort(-table.sum(1), kind="stable")[:MOST_LABELS].tolist())
    counts: dict[tuple[str, str], int] = {}
    for i, j in zip(*np.nonzero(table), strict=True):
        pair = (names[i] if i in frequent else OTHER, names[j] if j in frequent else OTHER)
        counts[pair] = counts.get(pair, 0) + int(table[i, j])
    return [(*key, *pair, count) for pair, count in sorted(counts.items())]


# --- the tables: means, mixes, confusions, gains from layer to layer, predictions -----------------

MAX_GAINS = 20  # examples for each layer


def rows_of(
    probe_inputs: ProbeInputs,
    tasks: Mapping[str, TaskData],
    banks: Sequence[Bank],
    trials: Sequence[Trial],
    settings: EdgeProbing,
) -> tuple[list[Row], list[Row]]:
    """Counts of every probe, and of the probes trained on half of the targets."""
    rows: list[Row] = []
    halves: list[Row] = []
    for trial in trials:
        task, bank = tasks[trial.task], banks[trial.bank]
        for index, probe in enumerate(trial.probes):
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
                    trial.measured.counts[index],
                    bool(trial.converged[index]),
                )
                for mode, layer in modes_of(probe, bank.sources, resolve_modes(settings))
            )
    for name, task in tasks.items():
        counts = torch.zeros(len(probe_inputs.parts.test), 3, dtype=torch.int32)
        by_target = majority(task.examples, task.test).int()
        counts.index_add_(0, task.tested.document - probe_inputs.first_scored, by_target)
        rows.extend(
            Row(
                name,
                MAJORITY,
                MAJORITY,
                "baseline",
                MAJORITY,
                NO_LAYER,
                share,
                False,
                settings.budget.seeds[0],
                task.examples.task.metric,
                len(task.test),
                counts.numpy(),
            )
            for share in settings.data_fractions
        )
    return rows, halves


def tables_of(
    probe_inputs: ProbeInputs,
    tasks: Mapping[str, TaskData],
    banks: Sequence[Bank],
    trials: Sequence[Trial],
    rows: Sequence[Row],
    halves: Sequence[Row],
    settings: EdgeProbing,
    seed: int,
) -> dict[str, pd.DataFrame]:
    """All tables of the experiment, by name."""
    mix = _mix(banks, trials, settings)
    means = means_of(rows, seed)
    half = halves_of([row for row in rows if row.share == max(settings.data_fractions)], halves)
    true_probes = [
        probe
        for trial in trials
        if trial.share == max(settings.data_fractions) and not trial.half
        for probe in _true_probes(trial, banks[trial.bank], settings)
    ]
    labels: dict[Key, tuple[Examples, NDArray[np.int64]]] = {}
    for key, trial, index in true_probes:
        before = labels.get(key, (None, 0))[1]
        labels[key] = (
            tasks[trial.task].examples,
            before + trial.measured.labels[index].astype(int),
        )
    tables = {
        "summary": summary(means, mix, half),
        "scores": scores(rows, probe_inputs.parts.scored),
        "means": means,
        "halves": half,
        "per_label": per_label(labels),
        "mix": mix,
        "confusion": _confusion(tasks, true_probes),
        "gains": _gains(probe_inputs, tasks, true_probes, settings),
        "tasks": _task_table(probe_inputs, tasks),
    }
    if settings.save_predictions:
        tables["predictions"] = _predictions(probe_inputs, tasks, true_probes, settings)
    return tables


_TrueProbe = tuple[Key, Trial, int]  # the index of the probe in the trial


def _true_probes(trial: Trial, bank: Bank, settings: EdgeProbing) -> Iterator[_TrueProbe]:
    """Probes of the model on the true labels, each in its first mode."""
    for index, probe in enumerate(trial.probes):
        last = bank.sources[probe.sources[-1]]
        if last.encoder == MODEL and not probe.control:
            mode, layer = modes_of(probe, bank.sources, resolve_modes(settings))[0]
            yield Key(trial.task, trial.kind, last.stack, mode, layer), trial, index


def _mix(banks: Sequence[Bank], trials: Sequence[Trial], settings: EdgeProbing) -> pd.DataFrame:
    """The table `mix`: layer weights of the mixes of all layers."""
    data = []
    for trial in trials:
        sources = banks[trial.bank].sources
        mixing_probes = [probe for probe in trial.probes if len(probe.sources) > 1]
        for probe, weights in zip(mixing_probes, trial.mixes, strict=True):
            last = sources[probe.sources[-1]]
            n_layers = sum((s.encoder, s.stack) == (last.encoder, last.stack) for s in sources)
            if last.encoder != MODEL or len(probe.sources) < n_layers or probe.control:
                continue
            if trial.half or trial.share < max(settings.data_fractions):
                continue
            for index in probe.sources:
                source = sources[index]
                data.append(
                    (trial.task, trial.kind, source.stack, trial.seed, source.layer,
                     float(weights[index]))
                )  # fmt: skip
    return pd.DataFrame(data, columns=MIX)


def _confusion(tasks: Mapping[str, TaskData], true_probes: Sequence[_TrueProbe]) -> pd.DataFrame:
    """The table `confusion`, for tasks with one label per target."""
    predicted: dict[Key, list[NDArray[np.int64]]] = {}
    gold: dict[Key, list[NDArray[np.int64]]] = {}
    for key, trial, index in true_probes:
        tested = tasks[trial.task].tested
        if not tasks[trial.task].examples.single:
            continue
        known = (tested.unseen == 0).numpy()
        gold.setdefault(key, []).append(tested.labels.int().argmax(1).numpy()[known])
        predicted.setdefault(key, []).append(
            trial.measured.likeliest[index].astype(np.int64)[known]
        )
    data = []
    for key in predicted:
        names = tasks[key.task].examples.names
        data += confusion(key, names, np.concatenate(gold[key]), np.concatenate(predicted[key]))
    return pd.DataFrame(data, columns=CONFUSION)


def _task_table(probe_inputs: ProbeInputs, tasks: Mapping[str, TaskData]) -> pd.DataFrame:
    """The table `tasks`: definition and number of targets of each task."""
    data = []
    for task in probe_inputs.tasks:
        if task.name not in tasks:
            continue
        task_data = tasks[task.name]
        data.append(
            (
                task.name,
                task.layer,
                task.about,
                len(task_data.examples.spans),
                task.metric,
                "softmax" if task_data.train.softmax else "sigmoid",
                len(task_data.examples.names),
                len(task_data.train),
                len(task_data.examples.of(DEV)),
                len(task_data.test),
                sum(task_data.examples.left_out.values()),
            )
        )
    columns = "task layer about spans metric loss labels train dev test left_out".split()
    return pd.DataFrame(data, columns=columns)


SPANS = ("span1_start", "span1_end", "span2_start", "span2_end")


def _targets(probe_inputs: ProbeInputs, task: TaskData) -> pd.DataFrame:
    """Sentence, spans (character offsets in the text) and gold labels of every test target."""
    words = probe_inputs.batch.words  # [words, 2], characters
    tested = task.tested
    data: dict[str, object] = {
        "target": np.arange(len(tested)),
        "sentence": (tested.document - probe_inputs.first_scored).numpy(),
        "text": [probe_inputs.parts.docs[document].text for document in tested.document.tolist()],
    }
    for side in (0, 1):
        spans = tested.spans[side].numpy() if side < len(tested.spans) else None
        start, end = SPANS[2 * side : 2 * side + 2]
        data[start] = NO_LAYER if spans is None else words[spans[:, 0], 0]
        data[end] = NO_LAYER if spans is None else words[spans[:, 1] - 1, 1]
    edges = probe_inputs.batch.edges[tested.task.layer]
    data["gold"] = [
        ", ".join(
            edges.names[label]
            for label in edges.labels[edges.label_offsets[edge] : edges.label_offsets[edge + 1]]
        )
        for edge in tested.edge.tolist()
    ]
    return pd.DataFrame(data)


def _first_seed(true_probes: Sequence[_TrueProbe], settings: EdgeProbing) -> list[_TrueProbe]:
    """Probes of the first seed that read a single layer."""
    return [
        (key, trial, index)
        for key, trial, index in true_probes
        if trial.seed == settings.budget.seeds[0] and len(trial.probes[index].sources) == 1
    ]


def _gains(
    probe_inputs: ProbeInputs,
    tasks: Mapping[str, TaskData],
    true_probes: Sequence[_TrueProbe],
    settings: EdgeProbing,
) -> pd.DataFrame:
    """Example targets that are right at a layer and wrong at the layer below."""
    by_layer = {
        (trial.task, trial.kind, key.stack, key.layer): (trial, index)
        for key, trial, index in _first_seed(true_probes, settings)
    }
    targets = {name: _targets(probe_inputs, task) for name, task in tasks.items()}
    parts = []
    for (name, kind, stack, layer), (trial, index) in by_layer.items():
        below = by_layer.get((name, kind, stack, layer - 1))
        if below is None:
            continue
        better = trial.measured.right[index] & ~below[0].measured.right[below[1]]
        rows = np.flatnonzero(better)[:MAX_GAINS]
        part = (
            targets[name]
            .iloc[rows]
            .assign(
                task=name,
                probe=kind,
                stack=stack,
                layer=layer,
                below=np.array(tasks[name].examples.names, dtype=object)[
                    below[0].measured.likeliest[below[1]][rows]
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
    probe_inputs: ProbeInputs,
    tasks: Mapping[str, TaskData],
    true_probes: Sequence[_TrueProbe],
    settings: EdgeProbing,
) -> pd.DataFrame:
    """The table `predictions`: predicted label of every test target at every layer."""
    parts = []
    targets = {name: _targets(probe_inputs, task) for name, task in tasks.items()}
    for key, trial, index in _first_seed(true_probes, settings):
        names = np.array(tasks[trial.task].examples.names, dtype=object)
        part = targets[trial.task].assign(
            task=trial.task,
            probe=trial.kind,
            stack=key.stack,
            layer=key.layer,
            predicted=names[trial.measured.likeliest[index]],
            right=trial.measured.right[index],
        )
        parts.append(part)
    columns = ["task", "probe", "stack", "layer", "target", "sentence", "text", *SPANS, "gold"]
    columns += ["predicted", "right"]
    return pd.concat(parts)[columns] if parts else pd.DataFrame(columns=columns)


def sentence_hash(text: str) -> int:
    """A 64-bit hash of a sentence, the same on every machine."""
    return int.from_bytes(
        hashlib.blake2b(text.encode(), digest_size=8).digest(), "big", signed=True
    )
