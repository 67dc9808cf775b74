"""Edge probing (Tenney et al. 2019): what each layer knows of each task, beside its baselines.

Every sentence is encoded once; then all probes of a task (each layer, mixes up to each layer,
control tasks, the random twin, static vectors) train together for each seed. What a task and seed
came to is written down, so a run that was stopped goes on from there. Costs one pass of the model
and of its twin, and then about 10 ms for 1,000 targets, an epoch and a probe at width 128 on a CPU;
`preview` answers in seconds with closed-form ridge probes instead.
"""

import numpy as np
from numpy.typing import NDArray

from probes import results
from probes.asked import EdgeProbing
from probes.bank import banked
from probes.inputs import kept_in, opened, tasks_in
from probes.ready import ready_tasks
from probes.told import rows_of, sentence_hash, tables_of
from probes.trials import trials_of
from workbench.corpora.corpus import Corpus
from workbench.experiment import Caveat, Experiment, Inputs, Progress, Result, Table

TABLES = {
    "scores": Table(
        "What each probe scored; `layer` is the last one it reads. A control task's labels are "
        "drawn by word type.",
        (*results.KEYS, "seed", "split", "metric"),
    ),
    "means": Table(
        "Means over seeds with 95 % intervals (sentences and seeds drawn again), and the gain over "
        "the layer below with its p-value.",
        (*results.KEYS, "metric"),
    ),
    "summary": Table(
        "Where each task is found: centre of gravity of the mix, expected layer of the cumulative "
        "curve (empty where it does not rise), the best layer, and baselines beside it.",
        ("task", "probe", "stack"),
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
        ready, caveats = ready_tasks(read, settings, inputs.seed)
        trials = list(trials_of(read, ready, banks, settings, home, progress))
    rows = rows_of(read, ready, banks, trials, settings)
    tables = tables_of(read, ready, banks, trials, rows, settings, inputs.seed)
    counts = np.stack([row.counts for row in rows])  # [scores, sentences, 3]
    hashes = np.array([sentence_hash(doc.text) for doc in read.parts.test], dtype=np.int64)
    arrays: dict[str, NDArray[np.generic]] = {"counts": counts, "sentences": hashes}
    return Result(tables, arrays, (*read.caveats(), *caveats, *_preview(settings)))


def _preview(settings: EdgeProbing) -> list[Caveat]:
    if not settings.preview:
        return []
    return [Caveat("A preview: closed-form ridge probes, not trained ones. Scores are rougher.")]


EXPERIMENT = Experiment(
    name="edge-probing",
    about="What each layer knows: probes of every layer and task, with controls and baselines.",
    settings=EdgeProbing,
    run=run,
    tables=TABLES,
    fits=fits,
    figures="workbench.view.probing:FIGURES",
)
