"""Several models on one text: likelihood, minimal pairs, heads, probes, tasks and cost.

The likelihoods are computed here, text by text, so that models are compared on the same characters;
all else are runs of other experiments, read from disk if they were computed before. A model that
cannot be measured in some part is left out of it, and the table `left_out` says why. Costs: a
forward pass of each model over the text, one for each piece where the likelihood is a pseudo-
likelihood, and the runs that are new.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from workbench.analyses.family.experiments import Family
from workbench.core.errors import WorkbenchError
from workbench.core.stats import holm, wilson_interval
from workbench.corpora.encode import encode
from workbench.corpora.readers.tables import minimal_pairs
from workbench.corpora.tasks import corpora_of, corpus_of, is_primer, tasks_of
from workbench.engine.batch import Batch
from workbench.engine.forward_pass import forward
from workbench.engine.model import Model
from workbench.experiment.definition import (
    EXPERIMENTS,
    LM_HEAD,
    Caveat,
    Inputs,
    Progress,
    Result,
    SubrunRequest,
    SubrunResult,
    unmet_requirements,
)
from workbench.models.references import facts
from workbench.models.scoring.bits_per_character import bits_per_character, kind_of, likelihood
from workbench.models.scoring.lm_scoring import Scores

if TYPE_CHECKING:
    from workbench.corpora import Corpus

TIMED_TEXTS, TIMES = 64, 3
SEARCHED = 200  # texts in which minimal pairs are looked for


class Row(NamedTuple):
    """A row of the table `scores`, without its model."""

    part: str
    measure: str
    value: float
    lower: float
    upper: float
    baseline: float
    n: int
    detail: str


@dataclass
class Comparison:
    """The models by their names, and what is found about them."""

    models: Mapping[str, Model]
    rows: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[dict[str, str]] = field(default_factory=list)

    def leave_out(self, model: str, part: str, measure: str, why: str) -> None:
        self.left_out.append({"model": model, "part": part, "measure": measure, "why": why})


def run(inputs: Inputs, settings: Family, progress: Progress) -> Result:
    """Compute the tables of `family`."""
    compared = Comparison(_named(inputs.models))
    batch = encode(inputs.docs())
    tables: dict[str, pd.DataFrame] = {}
    caveats: list[Caveat] = []
    if "text" in settings.parts:
        scored = _scored(inputs, compared, batch, progress)
        if scored:
            tables["text"], tables["differences"], caveats = _text_tables(
                inputs, compared.models, batch, scored
            )
    _run_parts(inputs, settings, compared, progress)
    if compared.rows:
        tables["scores"] = pd.DataFrame(compared.rows)
    if "cost" in settings.parts:
        progress(0, None, "timing the models")
        few = encode(
            inputs.corpus.docs(inputs.split, min(TIMED_TEXTS, inputs.limit or TIMED_TEXTS))
        )
        tables["cost"] = pd.DataFrame(
            [{"model": name, **_cost(model, few)} for name, model in compared.models.items()]
        )
    if not tables:
        raise WorkbenchError(
            "none of the models can be measured in any of these parts.",
            code="nothing-to-compare",
            where=", ".join(compared.models),
            remedy=compared.left_out[0]["why"],
        )
    if compared.left_out:
        tables["left_out"] = pd.DataFrame(compared.left_out)
    return Result(tables, caveats=tuple(caveats))


def _named(models: Sequence[Model]) -> dict[str, Model]:
    """The models by name; a name that several have is numbered."""
    named: dict[str, Model] = {}
    for model in models:
        same = sum(other.name == model.name for other in named.values())
        named[f"{model.name} ({same + 1})" if same else model.name] = model
    return named


# --- likelihood -----------------------------------------------------------------------------------


def _scored(
    inputs: Inputs, compared: Comparison, batch: Batch, progress: Progress
) -> dict[str, Scores]:
    """The scores of every text by each model that predicts words."""
    scored = {}
    for done, (name, model) in enumerate(compared.models.items()):
        progress(done, len(compared.models), "scoring the text")
        if not LM_HEAD.met(facts(model)):
            why = f"It has no such part: {LM_HEAD.what}."
            compared.leave_out(name, "text", "bits_per_character", why)
            continue
        scored[name] = likelihood(model, batch, inputs.seed)
    return scored


def _text_tables(
    inputs: Inputs, models: Mapping[str, Model], batch: Batch, scored: Mapping[str, Scores]
) -> tuple[pd.DataFrame, pd.DataFrame, list[Caveat]]:
    """The tables `text` and `differences`, on the texts that every model reads whole."""
    found = bits_per_character(
        batch, [[each] for each in scored.values()], inputs.seed, inputs.corpus.name
    )
    names = list(scored)
    kinds = [kind_of(models[name]) for name in names]
    rows = [{"model": name, "kind": kinds[row], **found.row(row)} for row, name in enumerate(names)]
    differences = []
    for kind in dict.fromkeys(kinds):
        own = [row for row in range(len(names)) if kinds[row] == kind]
        best = min(own, key=lambda row: found.values[row])
        differences += [
            {"model": names[row], "kind": kind, "best": names[best], **found.gap(row, best)}
            for row in own
            if row != best
        ]
    columns = ["model", "kind", "best", "difference", "lower", "upper", "p"]
    against = pd.DataFrame(differences, columns=columns)
    against["p"] = holm(against["p"].to_numpy(np.float64))
    caveats = [*(Caveat(text, ("text",)) for text in found.remarks(names)), *_kind_caveats(kinds)]
    return pd.DataFrame(rows), against, caveats


def _kind_caveats(kinds: Sequence[str]) -> Iterator[Caveat]:
    if "pseudo" in kinds and len(set(kinds)) > 1:
        yield Caveat(
            "Models that see both sides give a text no likelihood. Their pseudo-likelihood, of "
            "pieces guessed from both sides, is not compared with the others.", ("text",),
        )  # fmt: skip
    if "both directions" in kinds:
        yield Caveat(
            "A model of whole words does not predict the spaces between them, and words outside "
            "its vocabulary count as one: its bits per character are somewhat too low.", ("text",),
        )  # fmt: skip


# --- runs of other experiments --------------------------------------------------------------------


class Asked(NamedTuple):
    """A run of another experiment, and how to read its scores."""

    model: str
    part: str
    measure: str
    request: SubrunRequest


def _run_parts(inputs: Inputs, settings: Family, compared: Comparison, progress: Progress) -> None:
    """Run the other experiments on each model that they suit, and read their scores."""
    asked = []
    known = {name: facts(model) for name, model in compared.models.items()}
    for each in _asked(inputs, settings, compared):
        experiment = EXPERIMENTS[each.request.experiment]
        own = experiment.settings(**each.request.settings)
        corpora: Any = each.request.corpora
        if errors := unmet_requirements(experiment, own, [known[each.model]], corpora):
            compared.leave_out(each.model, each.part, each.measure, str(errors[0].what))
        else:
            asked.append(each)
    if not asked:
        return
    activity = "measuring the models"
    progress(0, len(asked), activity)
    results = inputs.run_experiments(
        [each.request for each in asked], lambda done: progress(done, len(asked), activity)
    )
    for each, result in zip(asked, results, strict=True):
        rows = _READ[each.part](result, each.measure)
        compared.rows += [
            {"model": each.model, **row._asdict(), "run": result.name} for row in rows
        ]


def _asked(inputs: Inputs, settings: Family, compared: Comparison) -> Iterator[Asked]:
    """Every run, model by model and part by part."""
    measured = list(_measured(inputs, settings))
    for name, model in compared.models.items():
        for part, measure, experiment, corpus, own in measured:
            split = inputs.split if inputs.split in corpus.splits else None
            request = SubrunRequest(experiment, [model], [corpus], own, split, inputs.seed)
            yield Asked(name, part, measure, request)


def _measured(
    inputs: Inputs, settings: Family
) -> "Iterator[tuple[str, str, str, Corpus, dict[str, Any]]]":
    """What is measured of every model: part, measure, experiment, corpus and settings."""
    parts, effort = settings.parts, {"effort": settings.effort}
    if "pairs" in parts and (pairs := _pairs_of(inputs)) is not None:
        yield "pairs", "right pairs", "minimal-pairs", pairs, {}
    if "heads" in parts:
        few = {"max_sentences": inputs.limit}
        yield "heads", "heads with a role", "heads", inputs.corpus, few
    if "probes" in parts:
        alone = {"modes": ("layer",), "random_baseline": False, "control_tasks": False}
        for task in settings.probes:
            own = {**effort, **alone, "tasks": (task,)}
            yield "probes", task, "edge-probing", inputs.corpus, own
    if "tasks" in parts:
        for corpus, task in _tasks_of(inputs, settings):
            for method in ("frozen", "fine-tuned"):
                own = {**effort, "task": task, "method": method, "save_model": False}
                yield "tasks", f"{task}, {method}", "finetune", corpus, own


def _pairs_of(inputs: Inputs) -> "Corpus | None":
    """The first corpus with minimal pairs; for primer, the one generated for acceptability."""
    for given in inputs.corpora:
        corpus, _ = corpus_of(given, "acceptability")
        try:
            next(minimal_pairs(corpus.docs(None, SEARCHED)))
        except WorkbenchError:
            continue
        return corpus
    return None


def _tasks_of(inputs: Inputs, settings: Family) -> "list[tuple[Corpus, str]]":
    """The labels of all corpora with their corpora; for primer, by default sentiment."""
    found = []
    for corpus in inputs.corpora:
        labels = [name for name in tasks_of(corpus) if f"label:{name}" in corpus.layers()]
        names = settings.tasks or labels or (("sentiment",) if is_primer(corpus) else ())
        found += corpora_of(corpus, names) if names else []
    return found


def _of_pairs(result: SubrunResult, measure: str) -> Iterator[Row]:
    row = result.tables["pairs"].iloc[-1]  # of all phenomena
    baseline = max(0.5, float(row["fewer_pieces"]))
    yield Row("pairs", measure, row["accuracy"], row["lower"], row["upper"], baseline,
              int(row["n"]), "accuracy")  # fmt: skip


def _of_heads(result: SubrunResult, measure: str) -> Iterator[Row]:
    """The share of heads with any role, and with each role that some head has."""
    roles = result.tables["heads"]["role"].fillna("")
    counts = {measure: int((roles != "").sum())}
    counts |= {str(role): int(n) for role, n in roles[roles != ""].value_counts().items()}
    for name, n in counts.items():
        yield Row("heads", name, n / len(roles), *wilson_interval(n, len(roles)), math.nan,
                  len(roles), f"{n} of {len(roles)}")  # fmt: skip


def _of_probes(result: SubrunResult, measure: str) -> Iterator[Row]:
    row = result.tables["summary"].sort_values("best_score").iloc[-1]  # of the better stack
    where = f"{row['stack']} {row['best_layer']}"
    yield Row("probes", measure, row["best_score"], row["lower"], row["upper"],
              row["baseline_majority"], int(row["n"]), where)  # fmt: skip


def _of_tasks(result: SubrunResult, measure: str) -> Iterator[Row]:
    row = result.tables["means"].iloc[0]
    texts = int(np.asarray(result.arrays["counts"]).shape[1])
    yield Row("tasks", measure, row["value"], row["lower"], row["upper"], row["baseline"], texts,
              str(row["metric"]))  # fmt: skip


_READ = {"pairs": _of_pairs, "heads": _of_heads, "probes": _of_probes, "tasks": _of_tasks}


# --- cost -----------------------------------------------------------------------------------------


def _cost(model: Model, batch: Batch) -> dict[str, Any]:
    """Weights, pieces per word, and words per second of a forward pass."""
    reports = [forward(model, batch) for _ in range(TIMES)]
    seconds = statistics.median(report.seconds for report in reports)
    return {
        "parameters": model.parameters,
        "pieces_per_word": reports[0].pieces / max(reports[0].words, 1),
        "words_per_second": reports[0].words / seconds,
    }
