"""`workbench train mini`, and other sets: trains the models of a set, and scores them.

A `train` run of each, two in parallel if there are cores for it, then a `minimal-pairs` run, and on
the built-in corpus `trigram` and the heads that follow a relation; the second time the runs are
read from disk. With a folder to write to, the models are saved there as they are shipped: in half
precision, each with its provenance, all scores (of the rounded weights) in `scores.json`, and those
of the quartet with the built-in results in `built_in`. Costs: the time budget, some minutes for the
scores, and more for the results.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from workbench.cli import output
from workbench.core.errors import WorkbenchError
from workbench.core.files import drafted, write_atomically

if TYPE_CHECKING:
    import pandas as pd

    from workbench.analyses.training.shipped import ModelSet
    from workbench.runs.run import Run

SCORED = 500  # sentences, and pairs, of the held-out split
LEFT_OUT = ("weights.hdf5", "curves.csv", "README.md")  # that a shipped model does not need
SCORES = "scores.json"
RESULTS = "built_in"  # the folder of built-in results, next to the models
PERPLEXITY = ("gpt", "elmo", "llama")  # families measured by it; others by accuracy
WITH_RELATIONS = ("bert", "gpt", "xlnet", "unilm", "modernbert", "llama")


def measure_of(family: str) -> str:
    """What a model of the family is compared with trigrams by."""
    return "perplexity" if family in PERPLEXITY else "accuracy"


def make(
    name: str,
    corpus: str | None,
    budget: str | None,
    out: Path | None,
    seed: int = 0,
    device: str | None = None,
    json: bool = False,
) -> None:
    """Train and score a set, and print the scores; save the models if a folder is named."""
    from workbench.analyses.training.shipped import SETS
    from workbench.experiment.sizes import seconds_of

    made = SETS[name]
    text = corpus or made.corpus
    try:
        total = seconds_of(budget) if budget else made.budget
    except ValueError as error:
        raise WorkbenchError(
            f"the time budget is {budget!r}: {error}.",
            code="setting-invalid",
            remedy="Give a time, such as 5m.",
        ) from None
    if not isinstance(total, int | float) or not 0 < total < float("inf"):
        raise WorkbenchError(
            f"the time budget is {budget!r}.",
            code="setting-invalid",
            remedy="Give a time, such as 5m.",
        )
    runs = _trained(made, text, float(total), seed, device)
    refs = {family: runs[family].name for family in made.settings}
    draft = None
    if out is not None:
        from workbench.models.formats.checkpoint import in_half_precision
        from workbench.models.references import TRAINED

        draft = drafted(out)
        shutil.rmtree(draft, ignore_errors=True)
        refs = {
            family: str(in_half_precision(runs[family].path / TRAINED, draft / family, LEFT_OUT))
            for family in made.settings
        }
    scores = {
        family: _scored(made, family, refs[family], runs[family], seed) for family in made.settings
    }
    if out is not None and draft is not None:
        write_atomically(draft / SCORES, _as_json(scores))
        draft.rename(out)
        if name == "mini":
            _make_results(out)
    if json:
        output.print_json({"models": scores, "out": str(out) if out else None})
        return
    _show(name, scores, runs, out)


def _seconds_each(made: "ModelSet", budget: float, device: str | None) -> dict[str, float]:
    """Return the seconds of each training, so that all end within the budget; see `_lanes`."""
    longest = max(sum(made.shares[name] for name in lane) for lane in _lanes(made, device))
    return {name: round(share * budget / longest, 1) for name, share in made.shares.items()}


def _lanes(made: "ModelSet", device: str | None) -> tuple[tuple[str, ...], ...]:
    """Return the models that are trained in sequence; with two cores, two lanes run in parallel."""
    from workbench.models.loading import resolve_device

    if resolve_device(device).type == "cpu" and (os.cpu_count() or 1) > 1:
        return made.lanes
    return (tuple(name for lane in made.lanes for name in lane),)


# --- training -------------------------------------------------------------------------------------


def _trained(
    made: "ModelSet", text: str, budget: float, seed: int, device: str | None
) -> dict[str, "Run"]:
    """Train each model; return the finished runs."""
    from workbench.runs.launch import end
    from workbench.runs.run import require_finished

    runs: dict[str, Run] = {}
    lanes = _lanes(made, device)
    with output.progress("preparing the runs"):
        requests = _requests(made, text, _seconds_each(made, budget, device), seed, device)
    with _threads(len(lanes)), _watching() as watch, ThreadPoolExecutor(len(lanes)) as pool:

        def train(lane: Sequence[str]) -> None:
            from workbench.runs.api import begun
            from workbench.runs.launch import follow

            for name in lane:
                runs[name] = begun(requests[name], share=True)
                watch(name, follow(runs[name]))
                require_finished(runs[name])

        try:
            for done in [pool.submit(train, lane) for lane in lanes]:
                done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            end([run for run in runs.values() if run.status.under_way])
            raise
    return runs


def _requests(
    made: "ModelSet", text: str, each: Mapping[str, float], seed: int, device: str | None
) -> dict[str, Any]:
    from workbench.runs.request import make_request

    seen: dict[Any, Any] = {}
    return {
        name: make_request(
            "train",
            corpora=[text],
            settings={**settings, "family": name, "time_budget": each[name]},
            seed=seed,
            device=device,
            seen=seen,
        )
        for name, settings in made.settings.items()
    }


@contextmanager
def _threads(lanes: int) -> Iterator[None]:
    """Divide the cores among the models that are trained in parallel."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = before or str(max(1, (os.cpu_count() or 1) // lanes))
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]


@contextmanager
def _watching() -> Iterator[Any]:
    """Yield a function that shows the events of several runs: bars in a terminal, else lines."""
    console = Console(highlight=False, soft_wrap=True, stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        tasks: dict[str, TaskID] = {}

        def watch(name: str, events: Iterator[Mapping[str, Any]]) -> None:
            tasks[name] = bars.add_task(name, total=None)
            for event in events:
                if event["kind"] == "progress":
                    bars.update(tasks[name], completed=event["done"], total=event["total"])
                else:
                    text = event["state"] if event["kind"] == "state" else event["text"]
                    console.print(f"{name}: {text}", markup=False)

        yield watch


# --- scores ---------------------------------------------------------------------------------------


def _scored(made: "ModelSet", name: str, ref: str, run: "Run", seed: int) -> dict[str, Any]:
    """Return the scores of a model and, on the built-in corpus, those of a trigram model."""
    from workbench.experiment.definition import EXPERIMENTS
    from workbench.runs.api import answered
    from workbench.runs.request import make_request
    from workbench.runs.run import require_finished

    def tables(experiment: str, corpus: str) -> Any:
        with output.progress(f"{name}: {experiment}"):
            request = make_request(
                experiment, [ref], [corpus], {"max_sentences": SCORED}, seed=seed
            )
            return require_finished(answered(request, progress=lambda event: None)).tables

    pairs = tables("minimal-pairs", "primer/acceptability")["pairs"].set_index("phenomenon")
    facts = run.tables["facts"].set_index("fact")["value"]
    result: dict[str, Any] = {
        "run": run.name,
        "parameters": int(facts["parameters"]),
        "steps": int(facts["steps"]),
        "seconds": float(facts["seconds"]),
        "corpus": run.spec.corpora[0].name,
        "corpus_hash": run.spec.corpora[0].hash,
        "seed": seed,
        "pairs": {phenomenon: float(row["accuracy"]) for phenomenon, row in pairs.iterrows()},
    }
    if made.corpus:
        scores = tables("trigram", made.corpus)["scores"].set_index("measure")
        result["scores"] = {
            measure: {"model": row["model"], "trigram": row["trigram"], "n": int(row["n"])}
            for measure, row in scores.iterrows()
        }
    if name in WITH_RELATIONS and made.corpus and "heads" in EXPERIMENTS:
        result["relations"] = _relations(tables("heads", "primer")["best"])
    return result


def _make_results(models: Path) -> None:
    """Compute the built-in results of the models in a folder, and write them there."""
    from workbench.runs import builtin

    def report(line: str) -> None:
        output.note(f"built-in result {line}")

    builtin.remake(models / RESULTS, models=models.absolute(), report=report)


def _relations(best: "pd.DataFrame") -> dict[str, dict[str, float]]:
    """Return relations whose best head beats the best fixed offset by 10 points, with scores."""
    best = best[best["syntactic"]].sort_values("gain", ascending=False)
    best = best.drop_duplicates("relation").set_index("relation").sort_index()
    columns = {"accuracy": "head", "baseline_accuracy": "offset"}
    rounded = best[list(columns)].rename(columns=columns).round(4)
    return {
        str(name): {"head": float(row["head"]), "offset": float(row["offset"])}
        for name, row in rounded.iterrows()
    }


def _show(
    name: str, results: Mapping[str, Any], runs: Mapping[str, "Run"], out: Path | None
) -> None:
    rows = []
    for family, facts in results.items():
        measure = measure_of(family)
        scores = facts.get("scores", {}).get(measure, {"model": "", "trigram": ""})
        n_relations = len(facts["relations"]) if "relations" in facts else ""
        numbers = (measure, scores["model"], scores["trigram"])
        rows.append((family, facts["parameters"], *numbers, facts["pairs"]["all"], n_relations))
    columns = ("model", "parameters", "measure", "model", "trigram", "pairs accuracy", "relations")
    output.print_table(f"The set {name} on held-out sentences", columns, rows)
    print("relations: those whose best head beats the best fixed offset by 10 points")
    for family in results:
        print(f"{name} {family}: {out / family if out else runs[family].name}")


def _as_json(results: Mapping[str, Any]) -> str:
    return json.dumps(results, indent=1) + "\n"
