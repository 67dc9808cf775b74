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

from probes.edge_tables import rows_of, sentence_hash, tables_of
from probes.edge_trials import estimated_time, ready_tasks, trials_of
from probes.experiments import EdgeProbing
from probes.probe_inputs import kept_in, opened, tasks_in
from probes.representations import MODEL, banked
from workbench.core.experiment import Caveat, Inputs, Progress, Result
from workbench.corpora.corpus import Corpus

SHOWN = 4  # probes that a caveat names
ONE_PROBE = ["task", "probe", "encoder", "stack", "layer", "control"]


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
