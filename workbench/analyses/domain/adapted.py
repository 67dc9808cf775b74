"""The experiment `domain`: one model adapted to a domain in several ways, and what each gives.

Each training is a `train` run, each layer's drift is of a `drift` run and each task of a `finetune`
run, read from disk if it was finished before. The texts are scored here, so that all arms are
compared on the same characters. Costs: the runs that are new, with the defaults about ten minutes
on two cores, and a pass of each model over the scored texts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

import numpy as np
import pandas as pd

from workbench.analyses.domain.experiments import (
    ARMS,
    AS_IS,
    DOMAIN_TEXT,
    FAMILIES,
    FURTHER,
    GENERAL,
    MORE,
    OWN,
    PAIRS,
    SCRATCH,
    Domain,
)
from workbench.analyses.domain.fertility import (
    COUNTED,
    fertility,
    n_pieces,
    words_of_domain,
)
from workbench.analyses.domain.unseen import Text, text_to_train_on
from workbench.analyses.training.train import open_tokenizer
from workbench.analyses.transfer.experiments import Adapting, Method
from workbench.analyses.transfer.frozen_vs_finetuned import cell_caveats, finetune_request
from workbench.analyses.transfer.pretraining import (
    Scored,
    estimate,
    facts_of,
    gain,
    tasks_of,
)
from workbench.core.errors import WorkbenchError
from workbench.core.stats import holm, interval, t_interval
from workbench.corpora.encode import encode
from workbench.experiment.definition import (
    Caveat,
    Inputs,
    Progress,
    Result,
    SubrunRequest,
    SubrunResult,
)
from workbench.models.loading import load
from workbench.models.references import as_random, net_folder
from workbench.models.scoring.bits_per_character import (
    Bits,
    bits_per_character,
    kind_of,
    likelihood,
)
from workbench.models.scoring.lm_scoring import Scores, start_of

if TYPE_CHECKING:
    from workbench.engine.batch import Batch
    from workbench.engine.model import Model

METHODS: tuple[Method, ...] = ("frozen", "fine-tuned")
TEXT_OF = {AS_IS: GENERAL, MORE: GENERAL, FURTHER: DOMAIN_TEXT, SCRATCH: DOMAIN_TEXT,
           OWN: DOMAIN_TEXT}  # fmt: skip
MASKED = ("bert", "albert")  # whose usual objective also needs documents
DRIFT_TEXTS = 300
DRAWS = 5_000  # bootstrap samples: with fewer, no p-value of so many pairs could be small
Texts = Mapping[str, Text]  # by kind


@dataclass(frozen=True)
class Arms:
    """The model of each arm and seed: its folder, and the run that trained it."""

    seeds: tuple[int, ...]
    runs: Mapping[tuple[str, int], SubrunResult]
    given: Path | None  # the model as it is, where none was trained here

    def folder(self, arm: str, seed: int) -> Path:
        if (run := self.runs.get((arm, seed))) is None:
            assert self.given is not None, "a model that is not trained here is given"
            return self.given
        assert run.model is not None, "a finished run of train has a model"
        return run.model


def run(inputs: Inputs, settings: Domain, progress: Progress) -> Result:
    """Train the arms, and compute the tables."""
    progress(0, None, "reading the corpora")
    texts = {
        kind: text_to_train_on(corpus, inputs.split, settings.max_test)
        for kind, corpus in zip((GENERAL, DOMAIN_TEXT), inputs.corpora[:2], strict=True)
    }
    adapting = Adapting.model_validate({"effort": settings.effort, "max_test": settings.max_test})
    labelled = inputs.corpora[2:]
    tasks = tasks_of(inputs, adapting, labelled, settings.tasks) if labelled else []
    arms = _trained(inputs, settings, texts, progress)
    texts = {kind: _unseen(kind, text, settings, arms) for kind, text in texts.items()}
    batches = {kind: encode(text.docs) for kind, text in texts.items()}
    bits, kind = _scored(inputs, arms, batches, progress)
    tables = {
        "bits": pd.DataFrame(
            [
                {"text": text, "arm": arm, "kind": kind, **found.row(row)}
                for text, found in bits.items()
                for row, arm in enumerate(ARMS)
            ]
        ),
        "differences": _differences(bits, kind),
        **_words(inputs, texts, bits, arms, progress),
        "drift": _drift(inputs, texts[DOMAIN_TEXT], arms, progress),
        "trainings": _trainings(arms),
    }
    of_tasks: list[Caveat] = []
    if tasks:
        tables["tasks"], of_tasks = _tasks(inputs, adapting, tasks, arms, progress)
    caveats = [*_caveats(settings, texts, arms, bits, kind, tables), *of_tasks]
    return Result(tables, caveats=tuple(dict.fromkeys(caveats)))


# --- the trainings --------------------------------------------------------------------------------


def _trained(inputs: Inputs, settings: Domain, texts: Texts, progress: Progress) -> Arms:
    """Train all arms: first the model as it is, then those that begin with it or its shape."""
    seeds = tuple(dict.fromkeys(settings.seeds))
    runs: dict[tuple[str, int], SubrunResult] = {}
    given = _given(inputs)
    stages = (
        ((OWN, SCRATCH, FURTHER, MORE),) if given else ((AS_IS,), (OWN, SCRATCH, FURTHER, MORE))
    )
    total = len(seeds) * sum(map(len, stages))
    for stage in stages:
        keys = [(arm, seed) for arm in stage for seed in seeds]
        arms, before = Arms(seeds, runs, given), len(runs)
        results = inputs.run_experiments(
            [_request(inputs, settings, texts, arms, *key) for key in keys],
            lambda done, before=before: progress(before + done, total, "training models"),  # type: ignore[misc]
            later=None,
        )
        runs |= zip(keys, results, strict=True)
    return Arms(seeds, runs, given)


def _given(inputs: Inputs) -> Path | None:
    """The folder of the model that is given, if any."""
    if not inputs.models:
        return None
    if (folder := inputs.folders[0] if inputs.folders else None) is None:
        raise WorkbenchError(
            "the trainings begin with the files of the model, and it is in memory only.",
            code="model-not-found",
            where=inputs.model.name,
            remedy="Save it with model.save(folder), and name the folder.",
        )
    return folder


def _request(
    inputs: Inputs, settings: Domain, texts: Texts, arms: Arms, arm: str, seed: int
) -> SubrunRequest:
    """The `train` run of an arm and a seed."""
    text = texts[TEXT_OF[arm]]
    start = str(arms.folder(AS_IS, seed)) if arm in (MORE, FURTHER, SCRATCH) else ""
    family = FAMILIES[inputs.model.family] if inputs.models else settings.family
    own: dict[str, Any] = {
        "family": family,
        "objective": "masked" if family in MASKED else "",
        "steps": _steps(settings, arms, arm),
        "batch_size": settings.batch_size,
        "sequence_length": settings.sequence_length,
        "learning_rate": settings.learning_rate,
        "held_out_fraction": text.held_out_fraction,
    }
    if not start:
        own |= _shape(inputs, settings)
    models = [as_random(start) if arm == SCRATCH else start] if start else []
    return SubrunRequest("train", models, [text.corpus], own, text.trained_on, seed)


def _steps(settings: Domain, arms: Arms, arm: str) -> int:
    """The steps of a training; from random weights, as many as two trainings in a row have."""
    if arm == AS_IS:
        return settings.general_steps
    both = arm in (SCRATCH, OWN) and arms.given is None
    return settings.steps + (settings.general_steps if both else 0)


def _shape(inputs: Inputs, settings: Domain) -> dict[str, Any]:
    """The shape of a new model: of a size, or of the model that is given."""
    if not inputs.models:
        return {"size": settings.size, "vocabulary_size": settings.vocabulary_size}
    model = inputs.model
    return {
        "n_layers": model.stacks[0].layers,
        "width": model.width,
        "n_heads": model.sites[0].heads,
        "vocabulary_size": settings.vocabulary_size or len(model.vocabulary),
    }


def _unseen(kind: str, text: Text, settings: Domain, arms: Arms) -> Text:
    """The text, with only those texts to score that no training on it has read."""
    trainings = [
        (open_tokenizer(net_folder(arms.folder(arm, seed))), facts_of(run)[1])
        for (arm, seed), run in arms.runs.items()
        if TEXT_OF[arm] == kind
    ]
    return text.unseen(trainings, settings.sequence_length)


def _trainings(arms: Arms) -> pd.DataFrame:
    """The table `trainings`."""
    rows = []
    for arm in ARMS:
        for seed in arms.seeds:
            if (run := arms.runs.get((arm, seed))) is None:
                continue
            last, (parameters, pieces) = run.tables["curves"].iloc[-1], facts_of(run)
            tokenizer = open_tokenizer(net_folder(arms.folder(arm, seed)))
            rows.append(
                {
                    "arm": arm, "seed": seed, "text": TEXT_OF[arm],
                    "start": AS_IS if arm in (MORE, FURTHER) else "random weights",
                    "steps": int(last["step"]), "tokens": int(last["tokens"]),
                    "passes": last["tokens"] / pieces, "loss": last["loss"],
                    "held_out": last["held_out"], "parameters": parameters,
                    "vocabulary": len(tokenizer), "seconds": last["seconds"], "run": run.name,
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


# --- likelihood -----------------------------------------------------------------------------------


def _scored(
    inputs: Inputs, arms: Arms, batches: "Mapping[str, Batch]", progress: Progress
) -> tuple[dict[str, Bits], str]:
    """Bits per character of both texts by each arm, and what kind of number they are."""
    scored: dict[Path, dict[str, Scores]] = {}  # of each model, once
    kind = ""
    with_start: bool | None = None  # as the model as is reads best; the same for all arms
    folders = [[arms.folder(arm, seed) for seed in arms.seeds] for arm in ARMS]
    models = list(dict.fromkeys(folder for of_arm in folders for folder in of_arm))
    for done, folder in enumerate(models):
        progress(done, len(models), "scoring the texts")
        model = _open(inputs, folder)
        kind = kind_of(model)
        if with_start is None:
            with_start = start_of(model, batches[GENERAL]) is not None
        scored[folder] = {
            text: likelihood(model, batch, inputs.seed, with_start)
            for text, batch in batches.items()
        }
    scores = {
        text: [[scored[folder][text] for folder in of_arm] for of_arm in folders]
        for text in batches
    }
    return {
        text: bits_per_character(
            batch, scores[text], inputs.seed, inputs.corpora[index].name, DRAWS
        )
        for index, (text, batch) in enumerate(batches.items())
    }, kind


def _open(inputs: Inputs, folder: Path) -> "Model":
    return load(folder, inputs.device, "fp32")


def _differences(bits: Mapping[str, Bits], kind: str) -> pd.DataFrame:
    """The tested pairs; pseudo-likelihoods only where both arms share a vocabulary."""
    pairs = [pair for pair in PAIRS if kind != "pseudo" or OWN not in pair]
    table = pd.DataFrame(
        [
            {"text": text, "arm": arm, "against": against,
             **found.gap(ARMS.index(arm), ARMS.index(against))}
            for text, found in bits.items()
            for arm, against in pairs
        ]
    )  # fmt: skip
    table["p"] = holm(table["p"].to_numpy(np.float64))
    return table


# --- words ----------------------------------------------------------------------------------------


def _words(
    inputs: Inputs, texts: Texts, bits: Mapping[str, Bits], arms: Arms, progress: Progress
) -> dict[str, pd.DataFrame]:
    """The words that mark the domain, and pieces per word by both vocabularies."""
    progress(0, None, "counting words")
    read = {kind: text.corpus.docs(text.trained_on, COUNTED) for kind, text in texts.items()}
    words = words_of_domain(read[DOMAIN_TEXT], read[GENERAL])
    general, own = (_open(inputs, arms.folder(arm, arms.seeds[0])) for arm in (AS_IS, OWN))
    whole = {
        kind: encode([text.docs[n] for n in np.flatnonzero(bits[kind].whole)])
        for kind, text in texts.items()
    }
    tables = {"fertility": pd.DataFrame([*fertility(general, own, list(words["word"]), whole)])}
    if len(words):
        names = list(words["word"])
        tables["words"] = words.assign(
            pieces_general=n_pieces(general, names), pieces_own=n_pieces(own, names)
        )
    return tables


# --- drift ----------------------------------------------------------------------------------------


def _drift(inputs: Inputs, text: Text, arms: Arms, progress: Progress) -> pd.DataFrame:
    """How far the states of each layer moved, further on the domain and on general text."""
    keys = [(arm, seed) for seed in arms.seeds for arm in (FURTHER, MORE)]
    requests = [
        SubrunRequest(
            "drift", [str(arms.folder(AS_IS, seed)), str(arms.folder(arm, seed))], [text.corpus],
            {"max_sentences": DRIFT_TEXTS}, text.scored_on, inputs.seed,
        )
        for arm, seed in keys
    ]  # fmt: skip
    activity = "comparing layers"
    progress(0, len(keys), activity)
    results = inputs.run_experiments(
        requests, lambda done: progress(done, len(keys), activity), later=None
    )
    moved = {
        arm: np.stack(
            [
                1 - result.tables["drift"]["cka"].to_numpy(np.float64)
                for (of, _), result in zip(keys, results, strict=True)
                if of == arm
            ],
            axis=1,
        )
        for arm in (FURTHER, MORE)
    }  # [layers, seeds]
    return drift_table(results[0].tables["drift"][["stack", "layer"]], moved[FURTHER], moved[MORE])


def drift_table(
    layers: pd.DataFrame, further: "np.ndarray[Any, Any]", control: "np.ndarray[Any, Any]"
) -> pd.DataFrame:
    """The table `drift` of layers, and of how far their states moved.  # [layers, seeds] twice"""
    gaps = further - control
    lower, upper = t_interval(gaps)
    p = np.full(len(gaps), np.nan)
    if gaps.shape[1] > 1:
        from scipy.stats import ttest_1samp

        with catch_warnings():
            simplefilter("ignore")  # of layers that moved alike in all seeds
            p = holm(np.nan_to_num(ttest_1samp(gaps, 0, axis=1).pvalue, nan=1.0))
    return layers.reset_index(drop=True).assign(
        further=further.mean(1), control=control.mean(1), difference=gaps.mean(1), lower=lower,
        upper=upper, p=p, seeds=gaps.shape[1],
    )  # fmt: skip


# --- tasks ----------------------------------------------------------------------------------------


def _tasks(
    inputs: Inputs, adapting: Adapting, tasks: Sequence[Scored], arms: Arms, progress: Progress
) -> tuple[pd.DataFrame, list[Caveat]]:
    """The score of each arm on each task, frozen and fine-tuned."""
    cells = list(dict.fromkeys(str(arms.folder(arm, seed)) for arm in ARMS for seed in arms.seeds))
    keys = [
        (index, method, folder)
        for index in range(len(tasks))
        for method in METHODS
        for folder in cells
    ]
    requests = [
        finetune_request(
            inputs, adapting, folder, tasks[index].corpus, tasks[index].name, method, "plain"
        )
        for index, method, folder in keys
    ]
    activity = "adapting models to tasks"
    progress(0, len(keys), activity)
    answered = inputs.run_experiments(requests, lambda done: progress(done, len(keys), activity))
    results = dict(zip(keys, answered, strict=True))

    def runs_of(index: int, method: Method, arm: str) -> list[SubrunResult]:
        return [results[index, method, str(arms.folder(arm, seed))] for seed in arms.seeds]

    rows, caveats = list[dict[str, Any]](), list[Caveat]()
    for index, task in enumerate(tasks):
        name = task.split.task.name
        for method in METHODS:
            runs = [runs_of(index, method, arm) for arm in ARMS]
            found = estimate(runs, task.split, inputs.seed)
            lower, upper = interval(found.draws)
            baseline = float(runs[0][0].tables["means"]["baseline"].iloc[0])
            rows += [
                {
                    "task": name, "method": method, "arm": arm, "metric": found.metric,
                    "value": found.values[row], "lower": lower[row], "upper": upper[row],
                    "baseline": baseline, **gain(found.values, found.draws, row, 0),
                    "texts": len(task.split.test),
                }
                for row, arm in enumerate(ARMS)
            ]  # fmt: skip
        own = [run for (of, _, _), run in results.items() if of == index]
        common = set.intersection(*({each.text for each in run.caveats} for run in own))
        caveats += [Caveat(f"{name}: {text}", ("tasks",)) for text in sorted(common)]
    means = [
        results[index, method, folder].tables["means"].assign(model=arm)
        for index, method, folder in keys
        for arm in ARMS
        if folder in {str(arms.folder(arm, seed)) for seed in arms.seeds}
    ]
    by_arm = pd.concat(means).groupby(
        ["task", "model", "method", "head"], sort=False, as_index=False
    )
    learnt = by_arm.agg({"learned": "any", "converged": "all"})
    for caveat in cell_caveats(learnt):  # which names the marks of another figure
        text = caveat.text.replace(" (crosses)", "").replace(" (hollow marks)", "")
        caveats.append(Caveat(text, ("tasks",)))
    return pd.DataFrame(rows), caveats


# --- caveats --------------------------------------------------------------------------------------


def _caveats(
    settings: Domain,
    texts: Texts,
    arms: Arms,
    bits: Mapping[str, Bits],
    kind: str,
    tables: Mapping[str, pd.DataFrame],
) -> Iterator[Caveat]:
    trainings = tables["trainings"]
    passes = trainings.groupby("text", sort=False)["passes"].max()
    yield Caveat(
        f"A model was trained further for {settings.steps:,} steps of {settings.batch_size} "
        f"sequences of {settings.sequence_length} pieces; Gururangan et al. (2020) used 12,500 "
        "steps of 2,048 sequences, SciBERT read 3.2 billion pieces and LEGAL-BERT 12 GB. What does "
        "not hold here may hold with more."
    )
    for text, most in passes.items():
        if most > 1:
            yield Caveat(
                f"The longest training on the {text} text read it {most:.2g} times: what a model "
                "gains from repeated text is less than from new text.",
                ("bits", "differences"),
            )
    if arms.given is not None:
        yield Caveat(
            "The model that is given has read text for longer than any trained here, an unknown "
            f"amount: scratch and own vocabulary had only the {settings.steps:,} steps of further, "
            "so they are not at equal budget with it. It may also have read the scored texts."
        )
    if len(arms.seeds) == 1:
        yield Caveat(
            "One training per arm: intervals and p-values cover texts, not the variation between "
            "trainings.",
            ("bits", "differences", "drift", "tasks"),
        )
    elif len(arms.seeds) < 3:
        yield Caveat("Fewer than three seeds: the variation between trainings is not known.")
    if kind == "pseudo":
        yield Caveat(
            "Models that see both sides give a text no likelihood. The pseudo-likelihood depends "
            "on how finely words are split, so own vocabulary is not compared with the other arms.",
            ("bits", "differences"),
        )
    yield from _of_shapes(trainings)
    for name, text in texts.items():
        if text.ending is not None:
            yield Caveat(
                f"The {name} corpus has no split of its own to score: the last "
                f"{len(text.docs):,} texts of what is trained on are scored, which no training "
                "read; but tokenizers were made from all of it.",
                ("bits", "differences"),
            )
        if len(text.docs) < settings.max_test:
            yield Caveat(
                f"Only {len(text.docs):,} texts of {name} text were there to be scored.",
                ("bits", "differences"),
            )
        for remark in bits[name].remarks(ARMS):
            yield Caveat(f"{name.capitalize()} text: {remark}", ("bits", "differences"))
    if texts[DOMAIN_TEXT].scored_on is None:
        yield Caveat("Drift is measured on the first texts of the domain, trained on.", ("drift",))


def _of_shapes(trainings: pd.DataFrame) -> Iterator[Caveat]:
    """Where the vocabularies, and so the models, are not of one size."""
    sizes = trainings.groupby("arm")[["vocabulary", "parameters"]].first()
    general, own = sizes.loc[SCRATCH], sizes.loc[OWN]
    if tuple(general) != tuple(own):
        yield Caveat(
            f"The general vocabulary has {general['vocabulary']:,} pieces and the own one "
            f"{own['vocabulary']:,}: those models have {general['parameters']:,} and "
            f"{own['parameters']:,} weights.",
            ("bits", "differences", "fertility"),
        )
