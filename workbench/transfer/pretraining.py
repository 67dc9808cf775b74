"""What pretraining is worth, objective by objective: BERT's Tables 5 and 6, as `pretraining`.

Models that differ in what they learn by, or in size, are pretrained on the same text for the same
number of steps, then adapted to the same tasks under the same head. Each pretraining is a `train`
run and each cell a `finetune` run of its own, answered from disk where it was asked before. Costs
those that are new: of the primer some ten minutes on two cores.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from workbench.core.errors import WorkbenchError
from workbench.core.experiment import Answer, Asked, Caveat, Inputs, Progress, Result
from workbench.core.stats import Floats, difference, interval, resampled
from workbench.transfer.experiments import HeadKind, Pretraining
from workbench.transfer.frozen_vs_finetuned import cell_of, texts_of
from workbench.transfer.tasks import Split, corpora_of, metrics_of, task_of

if TYPE_CHECKING:
    from workbench.corpora import Corpus


class Kind(NamedTuple):
    """How an arm is pretrained, and the head it is scored under."""

    family: str
    objective: str
    head: HeadKind


ARMS: Mapping[str, Kind] = {
    "mlm+nsp": Kind("bert", "masked-next", "plain"),
    "mlm": Kind("bert", "masked", "plain"),
    "ltr": Kind("gpt", "causal", "plain"),
    "ltr+lstm": Kind("gpt", "causal", "lstm"),
}
NEXT = "mlm+nsp"
LOOKED_AT = 500  # texts that tell whether there are documents
COUNTED = 5000  # texts whose pieces are counted
LITTLE = 0.1  # of the nats of guessing by how often a piece is there: a model should win as much


class Model(NamedTuple):
    """An arm at a size: a row of the tables, of as many pretrainings as there are seeds."""

    arm: str
    size: str


class Source(NamedTuple):
    """What is trained once, for however many arms."""

    family: str
    objective: str
    size: str
    seed: int


class Scored(NamedTuple):
    """A task, with the corpus that has it."""

    corpus: "Corpus"
    name: str
    split: Split


@dataclass(frozen=True)
class Cell:
    """A pretrained model on a task, and its run."""

    model: Model
    seed: int
    task: str
    answer: Answer

    @property
    def key(self) -> dict[str, Any]:
        return {**self.model._asdict(), "pretraining": self.seed, "task": self.task}


def run(inputs: Inputs, settings: Pretraining, progress: Progress) -> Result:
    """Have everything trained and scored, and compare."""
    arms, sizes = list(dict.fromkeys(settings.arms)), list(dict.fromkeys(settings.size))
    seeds = list(dict.fromkeys(settings.pretrainings))
    if NEXT in arms:
        _require_documents(inputs.corpus)
    progress(0, None, "reading")
    tasks = _tasks(inputs, settings)
    models = [Model(arm, size) for size in sizes for arm in arms]
    trained = _pretrained(inputs, settings, models, seeds, progress)
    cells = _cells(inputs, settings, models, seeds, tasks, trained, progress)
    parameters = {model: _facts(trained[_source(model, seeds[0])])[0] for model in models}
    rows: dict[str, list[dict[str, Any]]] = {"table": [], "sizes": []}
    for scored in tasks:
        own = [cell for cell in cells if cell.task == scored.split.task.name]
        table, by_size = _compared(own, models, scored.split, inputs.seed, parameters)
        rows["table"] += table
        rows["sizes"] += by_size
    for found in rows.values():
        found.sort(key=lambda row: sizes.index(row["size"]))
    tables = {name: pd.DataFrame(found) for name, found in rows.items() if found}
    ended = {source: _ended(inputs.corpus, answer) for source, answer in trained.items()}
    tables["pretraining"] = pd.DataFrame(
        [
            {**model._asdict(), "pretraining": seed, **ended[_source(model, seed)]}
            for model in models
            for seed in seeds
        ]
    )
    tables["scores"] = pd.concat([_scores(cell) for cell in cells], ignore_index=True)
    tables["cells"] = pd.DataFrame([{**cell.key, "run": cell.answer.name} for cell in cells])
    caveats = [*_caveats(inputs, settings, arms, tables["pretraining"]), *_told(tasks, cells)]
    return Result(tables, caveats=tuple(dict.fromkeys(caveats)))


# --- what is asked --------------------------------------------------------------------------------


def _tasks(inputs: Inputs, settings: Pretraining) -> list[Scored]:
    """The tasks of the corpora behind the first, or of the only one."""
    found = []
    for given in inputs.corpora[1:] or inputs.corpora:
        for corpus, name in corpora_of(given, settings.tasks):
            split = texts_of(inputs, settings, corpus, name)
            found.append(Scored(corpus, name, split))
    names = [scored.split.task.name for scored in found]
    if not found:
        raise WorkbenchError(
            "there is no task to score the models on.",
            where=", ".join(corpus.name for corpus in inputs.corpora),
            remedy="Name a corpus with labels behind the text: --corpus TEXT --corpus LABELLED.",
        )
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise WorkbenchError(
            f"two tasks are called {twice[0]}.",
            remedy="Name one of the corpora, or name the tasks with the setting tasks.",
        )
    return found


def _source(model: Model, seed: int) -> Source:
    kind = ARMS[model.arm]
    return Source(kind.family, kind.objective, model.size, seed)


def _pretrained(
    inputs: Inputs,
    settings: Pretraining,
    models: Sequence[Model],
    seeds: Sequence[int],
    progress: Progress,
) -> dict[Source, Answer]:
    """Each model trained once on the first corpus."""
    wanted = list(dict.fromkeys(_source(model, seed) for model in models for seed in seeds))
    questions = [
        Asked("train", (), [inputs.corpus], _training(source, settings), seed=source.seed)
        for source in wanted
    ]
    progress(0, len(wanted), "pretraining")
    found = inputs.ask_all(questions, lambda done: progress(done, len(wanted), "pretraining"))
    return dict(zip(wanted, found, strict=True))


def _training(source: Source, settings: Pretraining) -> dict[str, Any]:
    """The settings of a training; all arms read packed sequences, for pairs are cut from them."""
    masked = {"hidden": settings.hidden} if source.family == "bert" else {}
    return {
        "family": source.family,
        "objective": source.objective,
        "size": source.size,
        "steps": settings.steps,
        "batch": settings.batch,
        "length": settings.pieces,
        "vocabulary": settings.vocabulary,
        "rate": settings.rate,
        "dropout": 0.0,
        **masked,
    }


def _cells(
    inputs: Inputs,
    settings: Pretraining,
    models: Sequence[Model],
    seeds: Sequence[int],
    tasks: Sequence[Scored],
    trained: Mapping[Source, Answer],
    progress: Progress,
) -> list[Cell]:
    """Every model on every task."""
    wanted, questions = [], []
    for scored in tasks:
        for model in models:
            head = ARMS[model.arm].head
            for seed in seeds:
                folder = _folder(trained[_source(model, seed)])
                wanted.append((model, seed, scored.split.task.name))
                questions.append(
                    cell_of(
                        inputs, settings, folder, scored.corpus, scored.name, settings.method, head
                    )
                )
    what = "models adapted to tasks"
    progress(0, len(wanted), what)
    found = inputs.ask_all(questions, lambda done: progress(done, len(wanted), what))
    return [Cell(*key, answer) for key, answer in zip(wanted, found, strict=True)]


# --- tables ---------------------------------------------------------------------------------------


def _compared(
    cells: Sequence[Cell],
    models: Sequence[Model],
    split: Split,
    seed: int,
    parameters: Mapping[Model, int],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Of one task: means, and what each model wins over the first arm, and over the first size.

    Of several pretrainings these are drawn again, of one the seeds of its heads.
    """
    metric = split.task.metric
    measure = metrics_of(split.task, split.test, split.test.gold)[metric].measure
    counts = np.stack(
        [
            np.stack([np.asarray(c.answer.arrays["counts"]) for c in cells if c.model == model])
            for model in models
        ]
    )  # [models, pretrainings, heads, texts, numbers]
    if counts.shape[1] == 1:
        counts = counts.swapaxes(1, 2)
    rows, units, inner, texts, numbers = counts.shape
    counts = np.moveaxis(counts, 2, 3).reshape(rows, units, texts, inner * numbers)

    def means(sums: Floats) -> Floats:
        found: Floats = measure(sums.reshape(*sums.shape[:-1], inner, numbers)).mean(-1)
        return found

    values = means(counts.sum(2).astype(np.float64)).mean(1)  # [models]
    draws = resampled(counts, means, seed)  # [models, draws]
    lower, upper = interval(draws)
    place = {model: row for row, model in enumerate(models)}
    arm, size = models[0]
    table, by_size = [], []
    for row, model in enumerate(models):
        key = {**model._asdict(), "task": split.task.name, "metric": metric}
        own = {"value": values[row], "lower": lower[row], "upper": upper[row]}
        won = _won(values, draws, row, place[Model(arm, model.size)])
        table.append({**key, "parameters": parameters[model], **own, **won})
        if model.size != size:
            first = place[Model(model.arm, size)]
            against = {"against": size, "value": values[row]}
            by_size.append({**key, **against, **_won(values, draws, row, first)})
    return table, by_size


def _won(values: Floats, draws: Floats, row: int, first: int) -> dict[str, float]:
    """A row's gain over the first; nothing over itself."""
    names = ("delta", "delta_lower", "delta_upper", "p_value")
    if row == first:
        return dict.fromkeys(names, np.nan)
    found = float(values[row] - values[first]), *difference(draws[first], draws[row])
    return dict(zip(names, found, strict=True))


def _facts(answer: Answer) -> tuple[int, int]:
    """Parameters, and pieces of the text."""
    facts = answer.tables["facts"].set_index("fact")["value"]
    return int(facts["parameters"]), int(facts["tokens of text"])


def _ended(corpus: "Corpus", answer: Answer) -> dict[str, Any]:
    last = answer.tables["curves"].iloc[-1]
    parameters, text = _facts(answer)
    return {
        "parameters": parameters, "steps": int(last["step"]), "tokens": int(last["tokens"]),
        "passes": last["tokens"] / text, "loss": last["loss"], "held_out": last["held_out"],
        "unigram": _unigram(corpus, answer), "seconds": last["seconds"], "run": answer.name,
    }  # fmt: skip


def _unigram(corpus: "Corpus", answer: Answer) -> float:
    """Nats a piece of who knows only how often each piece is there, in the model's own pieces."""
    from workbench.corpora.encode import encode
    from workbench.models.loading import load

    split = "train" if "train" in corpus.splits else None
    text = load(_folder(answer), "cpu").encode(encode(corpus.docs(split, COUNTED)))
    counts = text.ids[text.mask & ~text.special].bincount().double()
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * shares.log()).sum())


def _folder(answer: Answer) -> str:
    assert answer.model is not None, "a run of train is not done without its model"
    return str(answer.model)


def _scores(cell: Cell) -> pd.DataFrame:
    own = cell.answer.tables["scores"].rename(columns={"size": "file_size"})
    first = {**cell.model._asdict(), "pretraining": cell.seed}
    return own.assign(**first)[[*first, *own.columns]]


# --- what to know ---------------------------------------------------------------------------------


def _caveats(
    inputs: Inputs, settings: Pretraining, arms: Sequence[str], ended: pd.DataFrame
) -> Iterable[Caveat]:
    least, most = ended["passes"].min(), ended["passes"].max()
    passes = f"{least:.2g}" if f"{least:.2g}" == f"{most:.2g}" else f"{least:.2g} to {most:.2g}"
    yield Caveat(
        f"A pretraining is {settings.steps:,} steps of {settings.batch} sequences of "
        f"{settings.pieces} pieces, {passes} times through its text; BERT had 1,000,000 of 256 of "
        "up to 512. So short a one shows which objective gets somewhere soonest, not which gets "
        "furthest: that an order differs from the published one says nothing against that one."
    )
    pairs = np.where(ended["arm"] == NEXT, np.log(2), 0)  # nats of two even answers
    last = ended["held_out"].fillna(ended["loss"]) - pairs
    for row in ended[last > (1 - LITTLE) * ended["unigram"]].to_dict("records"):
        yield Caveat(
            f"{row['arm']} {row['size']} (seed {row['pretraining']}) has learnt hardly more than "
            f"how often each piece is there ({row['unigram']:.2f} nats): its scores are those of a "
            "model that was pretrained too shortly. Give it more steps.",
            ("table", "sizes", "pretraining"),
        )
    if {"ltr", "ltr+lstm"} & set(arms) and {"mlm", NEXT} & set(arms):
        yield Caveat(
            f"A masked model learns from {settings.hidden:.0%} of its pieces, a left-to-right one "
            "from all: in as many steps it has far fewer answers to learn from."
        )
        yield Caveat(
            "The same for all arms: text, steps, sequences in a step and pieces in a sequence, "
            "width, layers, vocabulary as asked, rate, head, texts and seeds of the tasks. Not the "
            "same: ltr is GPT-2, with byte-level pieces and norms before its layers; mlm is BERT, "
            "with WordPiece and norms behind them. BERT's own left-to-right model was a BERT."
        )
    if NEXT in arms:
        yield Caveat(
            "Next sentences are told apart within packed sequences: a pair is parted inside a "
            "document, but may run on into the next one. Of mlm and ltr no sequence is parted."
        )
    if len(set(settings.pretrainings)) == 1:
        yield Caveat(
            "One pretraining of each model: intervals and p-values are of texts and heads, and do "
            "not say how much another pretraining would differ.",
            ("table", "sizes"),
        )
    elif len(set(settings.pretrainings)) < 3:
        yield Caveat("Fewer than three pretrainings: how much they differ is not known.")
    if len(set(settings.size)) > 1:
        yield Caveat(
            "All sizes have the same steps, rate and vocabulary: a larger model that was given "
            "too few steps, or too high a rate, is no worse for its size.",
            ("table", "sizes"),
        )
    if "train" not in inputs.corpus.splits and not inputs.corpora[1:]:
        yield Caveat(
            "The text has no part to train on: models were pretrained on all of it, texts that are "
            "scored included, if without their labels."
        )


def _told(tasks: Sequence[Scored], cells: Sequence[Cell]) -> Iterable[Caveat]:
    """What is to be known of the tasks, once for all models."""
    for scored in tasks:
        task = scored.split.task.name
        texts = [
            caveat.text.replace(
                str(cell.answer.tables["scores"]["model"].iloc[0]), " ".join(cell.model)
            )
            for cell in cells
            if cell.task == task
            for caveat in cell.answer.caveats
        ]
        for text in dict.fromkeys(texts):
            if text.startswith("Fewer than three"):
                yield Caveat(text)
            else:
                yield Caveat(f"{task}: {text}", ("scores",))


# --- what can be looked at ------------------------------------------------------------------------


def fits(corpus: "Corpus", settings: Pretraining) -> None:
    """A text with documents to pretrain on, or one with tasks to score; one may be both."""
    if NEXT not in settings.arms or has_documents(corpus):
        return
    try:
        found = [task_of(own, name) for own, name in corpora_of(corpus, settings.tasks)]
    except WorkbenchError:
        found = []
    if not found:
        _require_documents(corpus)


def _require_documents(corpus: "Corpus") -> None:
    if not has_documents(corpus):
        raise WorkbenchError(
            f"{NEXT} needs documents: here no sentence follows another.",
            where=corpus.name,
            remedy=f"Pretrain on running text, named first, or leave {NEXT} out of arms.",
        )


def has_documents(corpus: "Corpus") -> bool:
    """Whether some document has a second sentence, among the first texts that are trained on."""
    split = "train" if "train" in corpus.splits else None
    before = ""
    for doc in corpus.docs(split, LOOKED_AT):
        if doc._.document and doc._.document == before:
            return True
        if doc.has_annotation("SENT_START") and sum(1 for _ in doc.sents) > 1:
            return True
        before = doc._.document
    return False
