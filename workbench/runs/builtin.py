"""Built-in results: finished runs of the four mini models on `primer`, shipped with Workbench.

They are shown before a user has run anything, apart from the user's own runs. `RECIPES` says what
they compute; `python -m workbench.runs.builtin` computes them again, and `workbench train mini
--out` computes them for new models. With `--findings` it only states the findings of the stored
tables again. Figures are drawn from the tables, so they are not stored. Costs: listing a folder;
some minutes to compute all.
"""

import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.core.errors import WorkbenchError, require_one_of
from workbench.core.files import drafted, write_atomically
from workbench.experiment.definition import EXPERIMENTS
from workbench.models.references import MINI, MINI_CORPUS, MORE, NOVELS, RANDOM
from workbench.runs import spec, status
from workbench.runs.run import (
    ARRAYS,
    BUILT_IN,
    FINDINGS,
    PROVENANCE,
    SHIPPED,
    TABLES,
    Run,
    builtin_names,
    open_run,
    recorded,
    store_findings,
)

if TYPE_CHECKING:
    from workbench.runs.request import Request

THREADS = 1  # the last digits of some results depend on the number of threads
_LINES = ("platform", "peak_memory_bytes")  # of a provenance, which say nothing of the result
BERT, GPT, ELMO, T5 = MINI


@dataclass(frozen=True)
class Recipe:
    """What a built-in result computes; settings that are not named have their defaults."""

    experiment: str
    models: tuple[str, ...] = ()
    corpora: tuple[str, ...] = ("primer",)
    settings: Mapping[str, Any] = field(default_factory=dict)
    arrays: tuple[str, ...] = ()  # that are shipped; others are not

    @property
    def name(self) -> str:
        """Return the name of the folder: the experiment, and the last model or else the corpus."""
        if len(self.models) > 2:
            return f"{self.experiment}-mini"
        inputs = self.models[-1:] or self.corpora[:1]
        return f"{self.experiment}-{inputs[0].replace(':', '-').replace('/', '-')}"

    @property
    def command(self) -> str:
        """Return the command that computes the same as a run of the user's own."""
        words = ["workbench", "run", self.experiment]
        words += [word for ref in self.models for word in ("--model", ref)]
        words += [word for ref in self.corpora for word in ("--corpus", ref)]
        if self.settings:
            words.append("--set")
            words += [f"{name}={_as_text(value)}" for name, value in self.settings.items()]
        return shlex.join(words)


def _as_text(value: object) -> str:
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


ONE_STEP = {"time": "0s"}  # the same on every machine; the caveats say what is left open
RECIPES = (  # in the order of a story
    # what the corpus holds
    Recipe("describe"),
    Recipe("tokenization", (BERT, GPT, T5)),
    # how the models predict
    *(Recipe("profile", (model,)) for model in MINI),
    *(Recipe("trigram", (model,), (MINI_CORPUS,)) for model in MINI),
    *(Recipe("minimal-pairs", (model,), ("primer/acceptability",)) for model in MINI),
    # what heads do
    Recipe("heads", (BERT,), settings={"max_examples": 20}),
    Recipe("heads", (GPT,), settings={"max_examples": 20}),
    Recipe("heads", (T5,), settings={"max_examples": 20}),
    *(Recipe("heads", (model,), settings={"max_examples": 5}) for model in NOVELS),
    # which heads can go
    Recipe("head-importance", (BERT,)),
    Recipe("head-ablation", (BERT,)),
    Recipe("head-pruning", (BERT,), settings={"random_orders": 20, "max_sentences": 400}),
    # what layers know
    Recipe("edge-probing", (BERT,), settings=ONE_STEP),
    Recipe("description-length", (BERT,), settings={"tasks": ("pos", "entities"), **ONE_STEP}),
    Recipe("structural-probe", (BERT,), settings=ONE_STEP),
    Recipe("lens", (BERT,), settings=ONE_STEP),
    Recipe(
        "tuned-lens",
        (BERT,),
        settings={"max_sentences": 4000, "max_train": 4000, "steps": 1500},
    ),
    Recipe("geometry", (BERT,), settings=ONE_STEP),
    Recipe("neighbours", (BERT,)),
    Recipe("similarity", MINI, settings=ONE_STEP),
    # one text, eight models
    Recipe(
        "family",
        (*MINI, *MORE),
        settings={"max_sentences": 200, "parts": ("text", "pairs", "heads", "probes", "cost")},
    ),
    # frozen or fine-tuned
    Recipe(
        "frozen-vs-finetuned",
        (BERT,),
        settings={
            "tasks": ("sentiment", "entities"),
            "max_test": 500,
            "learning_rates": (0.0003, 0.001, 0.003),
            "max_epochs": 15,
            "save_models": False,
            **ONE_STEP,
        },
    ),
    Recipe("drift", (f"{BERT}{RANDOM}", BERT)),
    # why this prediction
    Recipe("attribution", (BERT,), settings=ONE_STEP),
    Recipe("contributions", (GPT,), settings=ONE_STEP),
    Recipe("patching", (GPT,), ("primer/counterfactuals",)),
    Recipe("steering", (GPT,), ("primer/counterfactuals",), arrays=("directions",)),
    Recipe("erasure", (BERT,)),
    # a model of one's own
    Recipe("train", settings={"family": "gpt", "size": "tiny", "rows": "sentences", "steps": 600}),
)


def builtin_runs() -> list[Run]:
    """The built-in results, in the order of `RECIPES`."""
    there = builtin_names()
    order = [recipe.name for recipe in RECIPES]
    return [Run(SHIPPED / name) for name in order if name in there]


def builtin_run(name: str) -> Run:
    """Return a built-in result by its name, with or without `built-in/`."""
    return open_run(f"{BUILT_IN}{name.removeprefix(BUILT_IN)}")


def builtin_run_of(experiment: str, model: str | None, corpus: str | None) -> Run | None:
    """Return the built-in result of an experiment with this model and corpus; None without one.

    Of an experiment with several models, one of them must be this model. `primer` stands for its
    tasks too, such as `primer/acceptability`.
    """
    for recipe in RECIPES:
        if recipe.experiment != experiment or recipe.name not in builtin_names():
            continue
        corpora = {*recipe.corpora, *(ref.split("/")[0].split(":")[0] for ref in recipe.corpora)}
        of_model = not recipe.models or model in recipe.models
        if of_model and (not recipe.corpora or corpus in corpora):
            return Run(SHIPPED / recipe.name)
    return None


# --- making them ----------------------------------------------------------------------------------


def recipe_of(run: Run) -> Recipe:
    """Return what a built-in result computes."""
    return next(recipe for recipe in RECIPES if recipe.name == run.path.name)


def request_of(recipe: Recipe, models: Path | None = None, seen: Any = None) -> "Request":
    """Return the request of a recipe, with the mini models of a folder (default: the shipped).

    The models are called `mini:…` wherever they are.
    """
    from workbench.runs.request import make_request

    refs = [_in_folder(ref, models) for ref in recipe.models]
    request = make_request(
        recipe.experiment, refs, recipe.corpora, recipe.settings, device="cpu", seen=seen
    )
    named = (
        each.model_copy(update={"name": ref})
        for each, ref in zip(request.spec.models, recipe.models, strict=True)
    )
    return replace(request, spec=request.spec.model_copy(update={"models": tuple(named)}))


def _in_folder(ref: str, models: Path | None) -> str:
    return str(models / ref.removeprefix("mini:")) if models and ref in MINI else ref


def pack(run: Run, recipe: Recipe, target: Path) -> None:
    """Write a finished run as a built-in result: without figures, models and private paths."""
    (target / TABLES).mkdir(parents=True)
    for table in sorted((run.path / TABLES).glob("*.parquet")):
        _compact(table, target / TABLES / table.name)
    for array in recipe.arrays:
        (target / ARRAYS).mkdir(exist_ok=True)
        shutil.copyfile(
            *(folder / ARRAYS / f"{array}.safetensors" for folder in (run.path, target))
        )
    shutil.copyfile(run.path / FINDINGS, target / FINDINGS)
    request = run.spec
    models = [
        model.model_copy(update={"ref": ref, "name": ref})
        for model, ref in zip(request.models, recipe.models, strict=True)
    ]
    spec.write(target, request.model_copy(update={"models": tuple(models)}))
    now = replace(run.status, pid=0, host="", part_of="")
    facts = {key: value for key, value in run.provenance.items() if key not in _LINES}
    facts |= {"command": recipe.command, "files": recorded(target)}
    for name, data in ((status.FILE, asdict(now)), (PROVENANCE, facts)):
        write_atomically(target / name, json.dumps(data))
    for text in dict.fromkeys(run.warnings):
        status.add_event(target, "warning", text=text)


def _compact(source: Path, target: Path) -> None:
    """Write a table in half the bytes: compressed, and with its description once, not twice."""
    import pyarrow.parquet as parquet

    table = parquet.read_table(source)
    bare = table.replace_schema_metadata()
    with parquet.ParquetWriter(
        target,
        bare.schema,
        compression="zstd",
        compression_level=19,
        use_dictionary=False,  # most values are numbers that differ
        store_schema=False,
        write_statistics=False,
    ) as writer:
        writer.write_table(bare)
        writer.add_key_value_metadata(table.schema.metadata)


def remake(
    target: Path = SHIPPED,
    models: Path | None = None,
    names: Sequence[str] = (),
    runs: Path | None = None,
    report: Callable[[str], object] = print,
) -> None:
    """Compute built-in results and write them to a folder, all or those that are named.

    Args:
        target: The folder; results that are not named stay in it.
        models: A folder with the four mini models (default: the shipped ones).
        names: Which results, without `built-in/` (default: all, and others are removed).
        runs: The folder of the runs that compute them (default: a temporary one).
        report: Called with a line for each result.
    """
    known = {recipe.name: recipe for recipe in RECIPES}
    for name in names:
        require_one_of(name, known, f"there is no built-in result {name!r}.", code="run-not-found")
    draft = drafted(target)
    shutil.rmtree(draft, ignore_errors=True)
    try:
        _compute([known[name] for name in names or known], draft, models, runs, report)
        for name in names:
            target.mkdir(exist_ok=True)
            shutil.rmtree(target / name, ignore_errors=True)
            (draft / name).rename(target / name)
        if not names:
            shutil.rmtree(target, ignore_errors=True)
            draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _compute(
    recipes: Sequence[Recipe],
    target: Path,
    models: Path | None,
    runs: Path | None,
    report: Callable[[str], object],
) -> None:
    from workbench.runs.api import answered

    seen: dict[Any, Any] = {}
    with alone(runs):
        for recipe in recipes:
            run = answered(request_of(recipe, models, seen), lambda event: None)
            pack(run, recipe, target / recipe.name)
            files = (target / recipe.name).rglob("*.*")
            n_bytes = sum(path.stat().st_size for path in files)
            report(f"{recipe.name}: {run.status.seconds:.1f} s, {n_bytes:,} bytes")


def restate(names: Sequence[str] = (), target: Path = SHIPPED) -> None:
    """State the findings of built-in results again, from their tables (default: of all)."""
    for run in [Run(target / name) for name in names or builtin_names()]:
        store_findings(run.path, EXPERIMENTS[run.spec.experiment].findings_of(run.tables))
        facts = {**run.provenance, "files": recorded(run.path)}
        write_atomically(run.path / PROVENANCE, json.dumps(facts))


@contextmanager
def alone(runs: Path | None = None) -> Iterator[None]:
    """Compute with one thread, in a folder of runs that no earlier result is read from."""
    with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
        changed = {
            "OMP_NUM_THREADS": str(THREADS),
            "OPENBLAS_NUM_THREADS": str(THREADS),
            "WORKBENCH_RUNS": str(runs or folder),
        }
        before = {name: os.environ.get(name) for name in changed}
        os.environ.update(changed)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


if __name__ == "__main__":
    words = sys.argv[1:]
    try:
        if "--findings" in words:
            restate([word for word in words if word != "--findings"])
        else:
            remake(names=words)
    except WorkbenchError as error:
        sys.exit(f"error: {error}")
