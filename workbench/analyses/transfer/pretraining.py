"""The experiment `pretraining`: ways to pretrain and sizes compared, as papers do (`studies`).

Models that differ in objective, its settings or size are pretrained on the same text for the same
number of steps, then adapted to the same tasks under the same head. Each pretraining is a `train`
run and each cell a `finetune` run, read from disk if it was finished before. Costs: the runs that
are new, for the primer about ten minutes on two cores.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from workbench.analyses.transfer.experiments import Adapting, Pretraining
from workbench.analyses.transfer.frozen_vs_finetuned import finetune_request, texts_of
from workbench.analyses.transfer.studies import ARMS, NEXT, PER_PIECE, STUDIES
from workbench.core.arrays import Floats
from workbench.core.errors import WorkbenchError
from workbench.core.findings import percent
from workbench.core.stats import difference, interval, resampled
from workbench.corpora.tasks import Split, corpora_of, metrics_of, task_of
from workbench.experiment.definition import (
    Caveat,
    Inputs,
    Progress,
    Result,
    SubrunRequest,
    SubrunResult,
)

if TYPE_CHECKING:
    from workbench.corpora import Corpus


MASKED = ("bert", "albert", "electra")  # families whose arms share the rate of hidden pieces
DOCUMENT_TEXTS = 500  # texts searched for documents
UNIGRAM_TEXTS = 5000  # texts whose pieces are counted
ERROR = "mse"  # the metric of which less is better
LITTLE = 0.1  # a model should gain at least this fraction of the unigram model's nats


class Model(NamedTuple):
    """An arm and a size: a row of the tables, with one pretraining per seed."""

    arm: str
    size: str


class Source(NamedTuple):
    """One pretraining, which several arms may share."""

    family: str
    objective: str
    settings: tuple[tuple[str, Any], ...]
    size: str
    seed: int


class Scored(NamedTuple):
    """A task with its corpus and its texts."""

    corpus: "Corpus"
    name: str
    split: Split


@dataclass(frozen=True)
class Cell:
    """A pretrained model on a task, with the result of its run."""

    model: Model
    seed: int
    task: str
    result: SubrunResult

    @property
    def key(self) -> dict[str, Any]:
        return {**self.model._asdict(), "pretraining": self.seed, "task": self.task}


def run(inputs: Inputs, settings: Pretraining, progress: Progress) -> Result:
    """Pretrain and score every model, and compare them."""
    arms, sizes = settings.compared, list(dict.fromkeys(settings.sizes))
    seeds = list(dict.fromkeys(settings.pretraining_seeds))
    if NEXT in arms:
        _require_documents(inputs.corpus)
    progress(0, None, "reading the corpora")
    tasks = tasks_of(inputs, settings, inputs.corpora[1:] or inputs.corpora, settings.tasks)
    models = [Model(arm, size) for size in sizes for arm in arms]
    trained = _pretrain(inputs, settings, models, seeds, progress)
    cells = _cells(inputs, settings, models, seeds, tasks, trained, progress)
    parameters = {model: facts_of(trained[_source(model, seeds[0])])[0] for model in models}
    rows: dict[str, list[dict[str, Any]]] = {"table": [], "sizes": []}
    estimates = []
    for scored in tasks:
        task_cells = [cell for cell in cells if cell.task == scored.split.task.name]
        of_models = [[c.result for c in task_cells if c.model == model] for model in models]
        estimates.append(found := estimate(of_models, scored.split, inputs.seed))
        table, by_size = _compared(found, models, scored.split, parameters)
        rows["table"] += table
        rows["sizes"] += by_size
    rows["claims"] = [*_claims(STUDIES[settings.study].claims, estimates, models)]
    for table_rows in rows.values():
        table_rows.sort(key=lambda row: sizes.index(row["size"]))
    tables = {name: pd.DataFrame(table_rows) for name, table_rows in rows.items() if table_rows}
    final_state = {
        source: _final_state(inputs.corpus, result) for source, result in trained.items()
    }
    tables["pretraining"] = pd.DataFrame(
        [
            {**model._asdict(), "pretraining": seed, **final_state[_source(model, seed)]}
            for model in models
            for seed in seeds
        ]
    )
    tables["scores"] = pd.concat([_scores(cell) for cell in cells], ignore_index=True)
    tables["cells"] = pd.DataFrame([{**cell.key, "run": cell.result.name} for cell in cells])
    caveats = [
        *_caveats(inputs, settings, arms, tables["pretraining"]),
        *_task_caveats(tasks, cells),
    ]
    return Result(tables, caveats=tuple(dict.fromkeys(caveats)))


# --- the runs --------------------------------------------------------------------------------


def tasks_of(
    inputs: Inputs, settings: Adapting, corpora: "Sequence[Corpus]", names: Sequence[str]
) -> list[Scored]:
    """The tasks of these names that some corpora have; without names, all their tasks."""
    tasks = []
    for input_corpus in corpora:
        for corpus, name in corpora_of(input_corpus, names):
            split = texts_of(inputs, settings, corpus, name)
            tasks.append(Scored(corpus, name, split))
    found = [scored.split.task.name for scored in tasks]
    if not tasks:
        raise WorkbenchError(
            "there is no task to score the models on.",
            code="no-task",
            where=", ".join(corpus.name for corpus in corpora),
            remedy="Name a corpus with labels after the text: --corpus TEXT --corpus LABELLED.",
        )
    if repeated := sorted({name for name in found if found.count(name) > 1}):
        raise WorkbenchError(
            f"two corpora have a task named {repeated[0]}.",
            code="task-ambiguous",
            remedy="Name only one of the corpora, or choose tasks with the setting tasks.",
        )
    return tasks


def _source(model: Model, seed: int) -> Source:
    kind = ARMS[model.arm]
    return Source(kind.family, kind.objective, (*kind.settings.items(),), model.size, seed)


def _pretrain(
    inputs: Inputs,
    settings: Pretraining,
    models: Sequence[Model],
    seeds: Sequence[int],
    progress: Progress,
) -> dict[Source, SubrunResult]:
    """Pretrain each model once on the first corpus."""
    sources = list(dict.fromkeys(_source(model, seed) for model in models for seed in seeds))
    requests = [
        SubrunRequest(
            "train", (), [inputs.corpus], _train_settings(source, settings), seed=source.seed
        )
        for source in sources
    ]
    progress(0, len(sources), "pretraining models")
    results = inputs.run_experiments(
        requests, lambda done: progress(done, len(sources), "pretraining models"), later=None
    )
    return dict(zip(sources, results, strict=True))


def _train_settings(source: Source, settings: Pretraining) -> dict[str, Any]:
    """The settings of a `train` run; all arms read packed sequences, which pairs need."""
    masked = {"mask_rate": settings.mask_rate} if source.family in MASKED else {}
    return {
        "family": source.family,
        "objective": source.objective,
        "size": source.size,
        "steps": settings.pretraining_steps,
        "batch_size": settings.pretraining_batch_size,
        "sequence_length": settings.sequence_length,
        "vocabulary_size": settings.vocabulary_size,
        "learning_rate": settings.pretraining_learning_rate,
        "dropout": 0.0,
        **masked,
        **dict(source.settings),
    }


def _cells(
    inputs: Inputs,
    settings: Pretraining,
    models: Sequence[Model],
    seeds: Sequence[int],
    tasks: Sequence[Scored],
    trained: Mapping[Source, SubrunResult],
    progress: Progress,
) -> list[Cell]:
    """Adapt every model to every task."""
    keys, requests = [], []
    for scored in tasks:
        for model in models:
            head = ARMS[model.arm].head
            for seed in seeds:
                folder = _folder(trained[_source(model, seed)])
                keys.append((model, seed, scored.split.task.name))
                requests.append(
                    finetune_request(
                        inputs, settings, folder, scored.corpus, scored.name, settings.method, head
                    )
                )
    activity = "adapting models to tasks"
    progress(0, len(keys), activity)
    results = inputs.run_experiments(requests, lambda done: progress(done, len(keys), activity))
    return [Cell(*key, result) for key, result in zip(keys, results, strict=True)]


# --- tables ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Estimate:
    """Scores of all models on a task, and their bootstrap samples."""

    metric: str
    values: Floats  # [models]
    draws: Floats  # [models, draws]


def estimate(results: Sequence[Sequence[SubrunResult]], split: Split, seed: int) -> Estimate:
    """The scores of `finetune` runs of a task: of each model, one run for each pretraining.

    The bootstrap resamples pretrainings if there are several, else the seeds of the heads.
    """
    metric = split.task.metric
    measure = metrics_of(split.task, split.test, split.test.gold)[metric].measure
    counts = np.stack(
        [np.stack([np.asarray(run.arrays["counts"]) for run in runs]) for runs in results]
    )  # [models, pretrainings, heads, texts, numbers]
    if counts.shape[1] == 1:
        counts = counts.swapaxes(1, 2)
    rows, units, inner, texts, numbers = counts.shape
    counts = np.moveaxis(counts, 2, 3).reshape(rows, units, texts, inner * numbers)

    def means(sums: Floats) -> Floats:
        mean: Floats = measure(sums.reshape(*sums.shape[:-1], inner, numbers)).mean(-1)
        return mean

    values = means(counts.sum(2).astype(np.float64)).mean(1)
    return Estimate(metric, values, resampled(counts, means, seed))


def _compared(
    estimate: Estimate, models: Sequence[Model], split: Split, parameters: Mapping[Model, int]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of the tables `table` and `sizes` for one task."""
    values, draws = estimate.values, estimate.draws
    lower, upper = interval(draws)
    index = {model: row for row, model in enumerate(models)}
    arm, size = models[0]
    table, by_size = [], []
    for row, model in enumerate(models):
        key = {**model._asdict(), "task": split.task.name, "metric": estimate.metric}
        score = {"value": values[row], "lower": lower[row], "upper": upper[row]}
        compared = gain(values, draws, row, index[Model(arm, model.size)])
        table.append({**key, "parameters": parameters[model], **score, **compared})
        if model.size != size:
            first = index[Model(model.arm, size)]
            by_size.append(
                {**key, "against": size, "value": values[row], **gain(values, draws, row, first)}
            )
    return table, by_size


def _claims(
    claims: Sequence[tuple[str, str]], estimates: Sequence[Estimate], models: Sequence[Model]
) -> Iterator[dict[str, Any]]:
    """Rows of the table `claims`: differences that the paper found positive, means over tasks."""
    higher_is_better = [each for each in estimates if each.metric != ERROR]
    if not higher_is_better:
        return
    values = np.mean([each.values for each in higher_is_better], 0)
    draws = np.mean([each.draws for each in higher_is_better], 0)
    index = {model: row for row, model in enumerate(models)}
    for size in dict.fromkeys(model.size for model in models):
        for arm, against in claims:
            if (better := Model(arm, size)) in index and (worse := Model(against, size)) in index:
                named = {"arm": arm, "against": against, "size": size}
                compared = gain(values, draws, index[better], index[worse])
                yield {**named, "tasks": len(higher_is_better), **compared}


def gain(values: Floats, draws: Floats, row: int, first: int) -> dict[str, float]:
    """The gain of a row over the row `first`; NaN for that row itself."""
    names = ("delta", "delta_lower", "delta_upper", "p_value")
    if row == first:
        return dict.fromkeys(names, np.nan)
    compared = float(values[row] - values[first]), *difference(draws[first], draws[row])
    return dict(zip(names, compared, strict=True))


def facts_of(result: SubrunResult) -> tuple[int, int]:
    """Number of parameters, and of pieces in the text."""
    facts = result.tables["facts"].set_index("fact")["value"]
    return int(facts["parameters"]), int(facts["tokens of text"])


def _final_state(corpus: "Corpus", result: SubrunResult) -> dict[str, Any]:
    """The final state of a pretraining, a row of the table `pretraining`."""
    last = result.tables["curves"].iloc[-1]
    parameters, text = facts_of(result)
    return {
        "parameters": parameters, "steps": int(last["step"]), "tokens": int(last["tokens"]),
        "passes": last["tokens"] / text, "loss": last["loss"], "held_out": last["held_out"],
        "unigram": _unigram(corpus, result), "seconds": last["seconds"], "run": result.name,
    }  # fmt: skip


def _unigram(corpus: "Corpus", result: SubrunResult) -> float:
    """Nats per piece of a model that knows only piece frequencies, with the model's tokenizer."""
    from workbench.corpora.encode import encode
    from workbench.models.loading import load

    split = "train" if "train" in corpus.splits else None
    text = load(_folder(result), "cpu").encode(encode(corpus.docs(split, UNIGRAM_TEXTS)))
    counts = text.ids[text.mask & ~text.special].bincount().double()
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * shares.log()).sum())


def _folder(result: SubrunResult) -> str:
    assert result.model is not None, "a finished run of train has a model"
    return str(result.model)


def _scores(cell: Cell) -> pd.DataFrame:
    scores = cell.result.tables["scores"].rename(columns={"size": "file_size"})
    first = {**cell.model._asdict(), "pretraining": cell.seed}
    return scores.assign(**first)[[*first, *scores.columns]]


# --- caveats ---------------------------------------------------------------------------------


def _caveats(
    inputs: Inputs, settings: Pretraining, arms: Sequence[str], ended: pd.DataFrame
) -> Iterable[Caveat]:
    least, most = ended["passes"].min(), ended["passes"].max()
    passes = f"{least:.2g}" if f"{least:.2g}" == f"{most:.2g}" else f"{least:.2g} to {most:.2g}"
    yield Caveat(
        f"A pretraining is {settings.pretraining_steps:,} steps of "
        f"{settings.pretraining_batch_size} sequences of {settings.sequence_length} pieces, "
        f"{passes} passes over its text; BERT used 1,000,000 steps of 256 sequences of up to 512. "
        "Such a short pretraining shows which objective learns fastest, not which is best in the "
        "end. An order unlike the published one does not contradict it."
    )
    pairs = np.where(ended["arm"] == NEXT, np.log(2), 0)  # the nats of guessing next sentences
    last = ended["held_out"].fillna(ended["loss"]) - pairs
    comparable = ended["arm"].map(lambda arm: ARMS[arm].objective in PER_PIECE)
    for row in ended[comparable & (last > (1 - LITTLE) * ended["unigram"])].to_dict("records"):
        yield Caveat(
            f"{row['arm']} {row['size']} (seed {row['pretraining']}) is hardly better than a "
            f"unigram model ({row['unigram']:.2f} nats): its pretraining was too short to "
            "compare its scores. Raise pretraining_steps.",
            ("table", "sizes", "pretraining"),
        )
    if {"ltr", "ltr+lstm"} & set(arms) and {"mlm", NEXT} & set(arms):
        yield Caveat(
            f"A masked model learns from {percent(settings.mask_rate)} of its pieces, a "
            "left-to-right model from all of them: with the same number of steps it has far "
            "fewer targets."
        )
        yield Caveat(
            "The same for all arms: text, steps, batch size, sequence length, width, layers, "
            "requested vocabulary size, learning rate, head, and texts and seeds of the tasks. "
            "Different: ltr is GPT-2 with byte-level pieces and pre-norm layers; mlm is BERT with "
            "WordPiece and post-norm layers. The left-to-right model in BERT's paper was a BERT."
        )
    if "shared layers" in arms and "mlm" in arms:
        yield Caveat(
            "Besides sharing layers, ALBERT has embeddings a quarter as wide as its states, which "
            "mlm has not."
        )
    if NEXT in arms:
        yield Caveat(
            "Sentence pairs of mlm+nsp are cut from packed sequences: the cut lies inside a "
            "document, but the pair may continue into the next document. mlm and ltr cut no "
            "sequences."
        )
    if len(set(settings.pretraining_seeds)) == 1:
        yield Caveat(
            "One pretraining per model: intervals and p-values cover texts and heads, not the "
            "variation between pretrainings.",
            ("table", "sizes"),
        )
    elif len(set(settings.pretraining_seeds)) < 3:
        yield Caveat("Fewer than three pretrainings: the variation between them is not known.")
    if len(set(settings.sizes)) > 1:
        yield Caveat(
            "All sizes use the same steps, learning rate and vocabulary size: a larger model may "
            "score lower because of too few steps or too high a learning rate, not its size.",
            ("table", "sizes"),
        )
    if "train" not in inputs.corpus.splits and not inputs.corpora[1:]:
        yield Caveat(
            "The text has no train split: models were pretrained on all of it, including the "
            "scored texts (without their labels)."
        )


def _task_caveats(tasks: Sequence[Scored], cells: Sequence[Cell]) -> Iterable[Caveat]:
    """Caveats of the finetune runs, each listed once for all models."""
    for scored in tasks:
        task = scored.split.task.name
        texts = [
            caveat.text.replace(
                str(cell.result.tables["scores"]["model"].iloc[0]), " ".join(cell.model)
            )
            for cell in cells
            if cell.task == task
            for caveat in cell.result.caveats
        ]
        for text in dict.fromkeys(texts):
            if text.startswith("Fewer than three"):
                yield Caveat(text)
            else:
                yield Caveat(f"{task}: {text}", ("scores",))


# --- requirements ------------------------------------------------------------------------


def fits(corpus: "Corpus", settings: Pretraining) -> None:
    """Raise an error unless the corpus has documents to pretrain on, or tasks to score."""
    if NEXT not in settings.compared or has_documents(corpus):
        return
    try:
        tasks = [
            task_of(task_corpus, name) for task_corpus, name in corpora_of(corpus, settings.tasks)
        ]
    except WorkbenchError:
        tasks = []
    if not tasks:
        _require_documents(corpus)


def _require_documents(corpus: "Corpus") -> None:
    if not has_documents(corpus):
        raise WorkbenchError(
            f"{NEXT} needs documents of several sentences, and the corpus has none.",
            code="no-documents",
            where=corpus.name,
            remedy=f"Name running text as the first corpus, or leave {NEXT} out of arms.",
        )


def has_documents(corpus: "Corpus") -> bool:
    """Whether a document has a second sentence, among the first texts of train."""
    split = "train" if "train" in corpus.splits else None
    before = ""
    for doc in corpus.docs(split, DOCUMENT_TEXTS):
        if doc._.document and doc._.document == before:
            return True
        if doc.has_annotation("SENT_START") and sum(1 for _ in doc.sents) > 1:
            return True
        before = doc._.document
    return False
