"""Built-in results: whole, of today's code, readable like any run, and never changed."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from getpass import getuser
from pathlib import Path

import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import workbench as wb
from tests.night import mostly
from workbench import WorkbenchError
from workbench.cli.main import commands
from workbench.experiment.definition import EXPERIMENTS
from workbench.models.references import BUILT_IN_MODELS
from workbench.runs import builtin
from workbench.runs.builtin import RECIPES, builtin_run, builtin_run_of, builtin_runs
from workbench.runs.effort import Step, _undecided
from workbench.runs.launch import cancel, move_to_bin, remove
from workbench.runs.run import BUILT_IN, SHIPPED, Run, Tables, damage
from workbench.runs.run import all_runs as own_runs

REMAKE = "python -m workbench.runs.builtin"
RUNS = builtin_runs()
BYTES = 1_500_000  # of all results; two thirds of it in a wheel
FIRST = {run.spec.experiment: run for run in reversed(RUNS)}  # one of each experiment
each = pytest.mark.parametrize("run", RUNS, ids=lambda run: run.path.name)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))


@pytest.fixture(scope="module")
def seen() -> dict[object, object]:
    """Models and corpora that were hashed."""
    return {}


def test_each_recipe_has_its_result_and_no_other_is_shipped() -> None:
    names = [recipe.name for recipe in RECIPES]
    assert len(set(names)) == len(names)
    remake = f"remake them with: {REMAKE}"
    assert sorted(path.name for path in SHIPPED.iterdir()) == sorted(names), remake
    assert [run.name for run in RUNS] == [f"{BUILT_IN}{name}" for name in names]


def test_all_built_in_models_and_every_stop_of_the_story_are_there() -> None:
    models = {model.name for run in RUNS for model in run.spec.models}
    assert models == {*BUILT_IN_MODELS, "mini:bert@random"}
    wanted = "describe profile heads head-importance head-ablation head-pruning edge-probing lens"
    wanted += " description-length structural-probe tuned-lens contributions attribution patching"
    wanted += " neighbours geometry tokenization similarity trigram minimal-pairs drift"
    experiments = {run.spec.experiment for run in RUNS}
    assert experiments >= {*wanted.split(), "frozen-vs-finetuned"}
    assert RUNS[0].name == "built-in/describe-primer"


@each
def test_each_is_whole(run: Run) -> None:
    assert run.is_builtin
    assert run.status.state == "done"
    assert damage(run.path) == []
    assert run.missing == []
    assert {*run.tables} <= {*EXPERIMENTS[run.spec.experiment].tables}
    assert run.findings


def outdated(run: Run, seen: dict[object, object]) -> str:
    """Why a built-in result is not what this version would compute; "" if it is."""
    recipe = builtin.recipe_of(run)
    stored, made = run.spec, builtin.request_of(recipe, seen=seen).spec
    if stored.version != EXPERIMENTS[recipe.experiment].version:
        return f"{recipe.experiment} has another version"
    if [model.hash for model in stored.models] != [model.hash for model in made.models]:
        return "a model has changed"
    if [corpus.hash for corpus in stored.corpora] != [corpus.hash for corpus in made.corpora]:
        return "the corpus has changed"
    return "" if stored.fingerprint == made.fingerprint else "the settings are others"


def has_other_weights(run: Run) -> bool:
    """Whether its random weights are others here, so that no tolerance makes its hash the same.

    With AVX2 and AVX-512, torch computes the logarithms and cosines of normal numbers with vector
    instructions; without them, weights differ in their last bits, and so do hashes of weights.
    """
    is_random = any(model.name.endswith("@random") for model in run.spec.models)
    return is_random and not torch.backends.cpu.get_cpu_capability().startswith("AVX")


@each
def test_each_is_what_this_version_computes(run: Run, seen: dict[object, object]) -> None:
    if has_other_weights(run):
        pytest.skip("its random weights have other last bits where there is no AVX2")
    why = outdated(run, seen)
    assert not why, f"{run.name}: {why}. Remake it with: {REMAKE} {run.path.name}"


@pytest.mark.parametrize("run", mostly(RUNS, *FIRST.values()), ids=lambda run: run.path.name)
def test_its_findings_are_those_of_its_tables(run: Run) -> None:
    found = EXPERIMENTS[run.spec.experiment].findings_of(run.tables)
    assert [finding.claim for finding in found] == [finding.claim for finding in run.findings], (
        f"the findings have other words. Remake it with: {REMAKE} {run.path.name}"
    )


def test_the_caveat_of_what_is_open_has_the_words_of_this_version() -> None:
    grown = [run for run in RUNS if run.provenance.get("growth", {}).get("still_open")]
    assert grown
    for run in grown:
        growth = run.provenance["growth"]
        said = _undecided(Step(growth["sizes"], 0.0, tuple(growth["still_open"])), growth["ended"])
        assert said.text in [each.text for each in run.caveats], f"{REMAKE} {run.path.name}"


def test_they_say_how_they_were_made() -> None:
    for run in RUNS:
        facts = run.provenance
        assert facts["command"].startswith(f"workbench run {run.spec.experiment}")
        assert facts["seconds"] > 0
        assert facts["threads"] == builtin.THREADS
        assert {"torch", "transformers", "spacy"} <= facts["packages"].keys()
        assert run.spec.seed == 0
        assert all(len(part.hash) == 32 for part in (*run.spec.models, *run.spec.corpora))


def test_the_command_asks_for_the_same_run(seen: dict[object, object]) -> None:
    """What a user types gives the name that the result has by its content."""
    from workbench.cli.options import spread
    from workbench.runs.request import make_request, named

    for run in (each for each in RUNS if not has_other_weights(each)):
        _, _, experiment, *words = run.provenance["command"].split()
        options: dict[str, list[str]] = {"--model": [], "--corpus": [], "--set": []}
        words = list(spread(words))
        for flag, value in zip(words[::2], words[1::2], strict=True):
            options[flag].append(value)
        request = make_request(
            experiment,
            options["--model"],
            options["--corpus"],
            named(options["--set"], "setting"),
            device="cpu",
            seen=seen,
        )
        assert request.spec.fingerprint == run.spec.fingerprint, run.name


def test_they_are_small_and_name_no_machine() -> None:
    files = [path for path in SHIPPED.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < BYTES
    assert {path.suffix for path in files} <= {".json", ".parquet", ".jsonl", ".safetensors"}
    private = {str(Path.home()), str(Path(__file__).parents[2]), str(Path.cwd())}
    private |= {f'"{name}"' for name in {socket.gethostname(), getuser()} - {"root"}}  # a label
    folder = re.compile(r"(?<![\w.])/(?:home|root|tmp|work|Users|usr|var|mnt)/")
    for path in files:
        if path.suffix == ".parquet":
            words = pd.read_parquet(path).select_dtypes(["object", "string"])
            text = "\n".join(
                str(each) for name in words for each in words[name].astype(str).unique()
            )
        else:
            text = path.read_text("utf-8", errors="replace")  # of safetensors: names, then numbers
        assert not folder.search(text), path
        assert not any(name in text for name in private), path
    assert all(run.status.host == "" and run.status.pid == 0 for run in RUNS)


# --- as runs --------------------------------------------------------------------------------------


def test_they_open_by_name_and_by_its_beginning() -> None:
    run = wb.open_run("built-in/heads-mini-bert")
    assert run == builtin_run("heads-mini-bert") == wb.open_run("built-in/heads-mini-b")
    assert run.tables["heads"].shape[0] == 16
    with pytest.raises(WorkbenchError, match=r"built-in result.*heads-mini-bret"):
        wb.open_run("built-in/heads-mini-bret")
    with pytest.raises(WorkbenchError, match="begin with"):
        wb.open_run("built-in/heads-mini")
    with pytest.raises(WorkbenchError, match="name of a run"):
        wb.open_run("built-in/../../core")


def test_figures_are_drawn_from_the_tables() -> None:
    figures = builtin_run("describe-primer").figures
    assert len(figures) == len(list(figures)) > 1
    assert figures[next(iter(figures))].data
    with pytest.raises(WorkbenchError, match="no figure"):
        figures["nothing"]


def test_they_are_never_among_the_users_runs() -> None:
    assert wb.runs() == [] and own_runs() == []
    assert [run.name for run in wb.runs(built_in=True)] == [run.name for run in RUNS]


def test_they_cannot_be_cancelled_resumed_or_removed() -> None:
    run = builtin_run("describe-primer")
    for change in (cancel, remove, move_to_bin):
        with pytest.raises(WorkbenchError, match="built-in") as refused:
            change(run)
        assert refused.value.code == "run-built-in"
        assert "workbench run describe --corpus primer" in refused.value.remedy
    for words in (["cancel"], ["resume"], ["rm", "--yes"]):
        result = CliRunner().invoke(commands(), ["runs", *words, run.name])
        assert isinstance(result.exception, WorkbenchError)
        assert result.exception.code == "run-built-in"
    assert damage(run.path) == []


def test_the_list_shows_them_apart(capsys: pytest.CaptureFixture[str]) -> None:
    result = CliRunner().invoke(commands(), ["runs", "list", "--json"])
    data = json.loads(result.stdout)
    assert data["runs"] == []
    assert [row["run"] for row in data["built_in"]] == [run.name for run in RUNS]
    text = CliRunner().invoke(commands(), ["runs", "list"]).stdout
    assert text.index("There are no runs") < text.index("Built-in results")
    assert len(text.splitlines()) < len(RUNS) + 8


@pytest.mark.parametrize("name", mostly(["trigram-mini-gpt", "heads-mini-bert"], "heads-mini-bert"))
def test_its_report_can_be_written(name: str, tmp_path: Path) -> None:
    """And nothing is written next to the result."""
    folder = builtin_run(name).path
    before = sorted(os.listdir(folder))  # noqa: PTH208
    text = wb.report([builtin_run(name)], tmp_path / "report.html").read_text("utf-8")
    assert sorted(os.listdir(folder)) == before  # noqa: PTH208
    assert f"built-in/{name}" in text
    assert builtin_run(name).findings[0].claim.split()[0] in text


@pytest.mark.slow
@each
def test_a_report_of_each_can_be_written(run: Run, tmp_path: Path) -> None:
    for ending in (".html", ".md", ".zip"):
        assert wb.report([run], tmp_path / f"{run.path.name}{ending}").is_file()


@pytest.mark.slow  # a new process
def test_drawing_all_of_them_imports_no_model() -> None:
    """A page shows them in its own process, which must not import torch."""
    code = """
import sys
from workbench.report.content import drawings
from workbench.runs.builtin import builtin_runs
for run in builtin_runs():
    assert drawings(run).keys() == {*run.figures} and run.findings
print(sorted({"torch", "transformers", "spacy"} & {*sys.modules}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- for a page -----------------------------------------------------------------------------------


def test_the_result_of_a_choice() -> None:
    def name(*choice: str) -> str | None:
        run = builtin_run_of(*choice)
        return run and run.name

    assert name("heads", "mini:gpt", "primer") == "built-in/heads-mini-gpt"
    assert name("drift", "mini:bert", "primer") == "built-in/drift-mini-bert"
    assert name("describe", "mini:gpt", "primer") == "built-in/describe-primer"
    assert name("minimal-pairs", "mini:t5", "primer") == "built-in/minimal-pairs-mini-t5"
    assert name("heads", "mini:bert", "my.txt") is None
    assert name("heads", "my-model", "primer") is None
    assert name("train", "mini:bert", "primer") == "built-in/train-primer"  # it takes no model
    assert name("finetune", "mini:bert", "primer") is None


# --- computed again -------------------------------------------------------------------------------

MEASURED = {  # columns of times and memory, which are those of a machine
    "seconds", "memory", "peak_memory", "speedup", "whole", "smaller", "whole_memory",
    "smaller_memory", "tokens_per_second", "mfu",
}  # fmt: skip


def assert_equal(run: Run, tables: Mapping[str, pd.DataFrame]) -> None:
    """The tables are those of the result; other processors differ in the last digits."""
    assert {*tables} == {*run.tables}
    for name, table in tables.items():
        stored = run.tables[name]
        if (run.spec.experiment, name) == ("train", "facts"):  # one of the facts is a time
            stored, table = (each[each["fact"] != "seconds"] for each in (stored, table))
        columns = [column for column in stored if column not in MEASURED]
        pd.testing.assert_frame_equal(
            stored[columns], table[columns], rtol=1e-3, atol=1e-4, obj=name
        )
        assert run.tables[name].attrs == table.attrs


@pytest.mark.slow
@each
def test_each_computed_again_is_the_same(run: Run, tmp_path: Path) -> None:
    name = run.path.name
    builtin.remake(tmp_path / "remade", names=[name], report=lambda line: None)
    assert_equal(run, Tables(tmp_path / "remade" / name))
