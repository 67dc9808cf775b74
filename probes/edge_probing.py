"""Edge probing (Tenney et al. 2019): what each layer knows of each task, beside its baselines.

Every sentence is encoded once; then all probes of a task (each layer, mixes up to each layer,
control tasks, the random twin, static vectors) train together for each seed. What a task and seed
came to is written down, so a run that was stopped goes on from there. Costs one pass of the model
and of its twin, and then about 10 ms for 1,000 targets, an epoch and a probe at width 128 on a CPU;
`preview` answers in seconds with closed-form ridge probes instead.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from probes import edge_tables
from probes.edge_tables import rows_of, sentence_hash, tables_of
from probes.edge_trials import EdgeProbing, estimated_time, ready_tasks, trials_of
from probes.probe_inputs import kept_in, opened, tasks_in
from probes.representations import MODEL, banked
from workbench.core.experiment import Caveat, Experiment, Inputs, Progress, Result, Table
from workbench.corpora.corpus import Corpus

SHOWN = 4  # probes that a caveat names
ONE_PROBE = ["task", "probe", "encoder", "stack", "layer", "control"]

TABLES = {
    "scores": Table(
        "What each probe scored; `layer` is the last one it reads. A control task's labels are "
        "drawn by word type.",
        (*edge_tables.KEYS, "seed", "split", "metric"),
    ),
    "means": Table(
        "Means over seeds with 95 % intervals (sentences and seeds drawn again), and the gain over "
        "the layer below with its p-value. converged: dev stopped every seed (a linear probe is at "
        "its optimum); learnt: the score is at least that of the majority baseline and of the "
        "probe's own control task.",
        (*edge_tables.KEYS, "metric"),
    ),
    "summary": Table(
        "Where each task is found: centre of gravity of the mix, expected layer of the cumulative "
        "curve (empty where it does not rise), the best layer, and its baselines. "
        "baseline_majority always predicts the most frequent label that is scored. data_gain: the "
        "most that a layer gains from the second half of the targets; over 2 points, more data "
        "would change the curve (enough_data is false).",
        ("task", "probe", "stack"),
    ),
    "halves": Table(
        "F1 of the model's layers with half of the training targets and with all of them.",
        ("task", "probe", "stack", "mode", "layer"),
    ),
    "per_label": Table(
        "Each label at each layer, seeds together; `n` are the gold ones.",
        ("task", "probe", "stack", "mode", "layer", "label"),
    ),
    "mix": Table(
        "How much each layer counts in the learnt mix of all.",
        ("task", "probe", "stack", "seed", "layer"),
    ),
    "confusion": Table(
        "Which label was taken for which, of tasks with one label a target; seeds together.",
        ("task", "probe", "stack", "mode", "layer", "gold", "predicted"),
    ),
    "gains": Table(
        "Targets that a layer gets right and the layer below it wrong; spans are characters of "
        "the text.",
        ("task", "probe", "stack", "layer", "target"),
    ),
    "tasks": Table("What each task asks, and of how many targets.", ("task",)),
    "predictions": Table(
        "Every answer of the first seed, target by target.",
        ("task", "probe", "stack", "layer", "target"),
    ),
}  # fmt: skip


def fits(corpus: Corpus, settings: EdgeProbing) -> None:
    """Raise where the corpus has none of the tasks asked for."""
    tasks_in(corpus, settings.tasks)


def run(inputs: Inputs, settings: EdgeProbing, progress: Progress) -> Result:
    """Encode, train, and tell."""
    with kept_in(inputs.scratch) as home:
        read = opened(
            inputs,
            home,
            settings.split_sizes,
            settings.tasks,
            progress,
            random=settings.random,
            vectors=settings.vectors,
            windows=settings.windows,
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
    whole = means[means["share"] == max(settings.shares)]
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


EXPERIMENT = Experiment(
    name="edge-probing",
    about="What each layer knows: probes of every layer and task, with controls and baselines.",
    settings=EdgeProbing,
    run=run,
    tables=TABLES,
    fits=fits,
    version=3,
    figures="workbench.figures.probing:FIGURES",
)
