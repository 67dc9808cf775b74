"""What an experiment is called, sets and needs is known without the code that computes it."""

import json
import subprocess
import sys
from dataclasses import replace
from inspect import signature
from pathlib import Path
from random import Random
from typing import Any, get_type_hints

import pytest
from pydantic import Field

import workbench as wb
from tests import oracle
from tests.night import mostly
from workbench import Corpus
from workbench.cli.run import given_settings
from workbench.core import analysis
from workbench.core.analysis import is_built_in
from workbench.core.errors import WorkbenchError
from workbench.core.registry import Placed
from workbench.experiment import definition as declaring
from workbench.experiment.definition import (
    ARGUMENTS,
    EXPERIMENTS,
    Demo,
    Experiment,
    Inputs,
    Result,
    Settings,
    Table,
    built_in_experiments,
)

ROOT = Path(__file__).parents[2]
HEAVY = (
    "torch", "transformers", "spacy", "scipy", "sklearn", "plotly", "streamlit", "pandas",
)  # fmt: skip
PROGRAM = f"""
import importlib.metadata, json, sys
importlib.metadata.entry_points = lambda **group: ()  # packages of one's own may import anything
from workbench.cli.output import experiment, experiments
from workbench.experiment.definition import (EXPERIMENTS, built_in_experiments)
listed = experiments()
names = built_in_experiments()
shown = [experiment(name, (), (), {{}}) for name in names]
schemas = {{name: EXPERIMENTS[name].settings.model_json_schema() for name in names}}
heavy = [name for name in {HEAVY!r} if name in sys.modules]
import workbench.corpora, workbench.corpora.catalogue, workbench.corpora.describe
reading = [name for name in {HEAVY!r} if name in sys.modules]
print(json.dumps([[one["name"] for one in listed], schemas, heavy, reading]))
"""


@pytest.fixture(scope="module")
def fresh() -> Any:
    """What a process says that has read every declaration, and then imported the readers."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_experiments_are_listed_and_shown_without_the_code_that_computes_them(fresh: Any) -> None:
    names, schemas, heavy, _ = fresh
    assert set(names) >= set(built_in_experiments())
    assert schemas["heads"]["properties"]["alpha"]["default"] == 0.01
    assert heavy == []


def test_readers_of_corpora_are_imported_without_spacy_and_torch(fresh: Any) -> None:
    assert fresh[-1] == []


@pytest.mark.parametrize("name", built_in_experiments())
def test_the_code_of_every_experiment_takes_its_settings(name: str) -> None:
    kind = EXPERIMENTS[name]
    assert kind.name == name
    assert isinstance(kind.run, Placed) and isinstance(kind.fits, Placed | None)
    run = kind.import_code()
    assert get_type_hints(run)["settings"] is kind.settings
    assert get_type_hints(run)["return"] is Result
    if kind.fits is not None:
        assert callable(kind.fits.function)
    assert kind.drawings()
    assert kind.title and kind.findings, f"give {name} a `title` and `findings`"


@pytest.mark.parametrize("first", mostly(["workbench.corpora", "spacy"], "spacy"))
def test_docs_of_ones_own_carry_layers_whichever_is_imported_first(first: str) -> None:
    """torch, which spaCy imports where it can, is hidden: only the order matters here."""
    program = f"""
import sys
sys.modules["torch"] = None
import {first}
import spacy.tokens, workbench.corpora
doc = spacy.tokens.Doc(spacy.vocab.Vocab(), words=["A", "text"])
doc._.labels = {{"kind": "short"}}
assert workbench.corpora.layers(doc) == {{"words", "label:kind"}}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_page_that_an_analysis_announces_has_its_file() -> None:
    pages = [page for owner, page in analysis.pages() if is_built_in(owner.home(page.draw))]
    without = [p.name for p in pages if not (ROOT / "pages" / f"{p.name}.py").is_file()]
    assert not without, f"write pages/NAME.py of {without}"


def declared(**code: Any) -> Experiment[Settings]:
    return Experiment(name="own", about="", settings=Settings, tables={"t": Table("", ())}, **code)


def test_code_may_be_a_function_or_its_place() -> None:
    def run(inputs: Inputs, settings: Settings, progress: object) -> Result:
        return Result({})

    assert declared(run=run).run is run and declared(run=run).fits is None
    home = "tests.experiment.test_declarations:answer"
    placed = declared(run=home, fits="builtins:print")
    assert placed.run(Inputs(), Settings(), None) == Result({}, {"asked": ()})  # type: ignore[arg-type]
    assert placed == declared(
        run="tests.experiment.test_declarations:answer", fits="builtins:print"
    )
    with pytest.raises(TypeError, match="run"):
        declared()


def answer(inputs: Inputs, settings: Settings, progress: object) -> Result:
    return Result({}, {"asked": inputs.models})  # type: ignore[dict-item]


def test_code_that_is_not_there_is_an_error_when_it_is_run_and_names_the_experiment() -> None:
    broken = declared(run="no_such_module:run")
    with pytest.raises(WorkbenchError, match="run of own cannot be imported"):
        broken.run(Inputs(), Settings(), None)  # type: ignore[arg-type]


def test_the_oracle_runs_every_experiment() -> None:
    missing = {*built_in_experiments()} - {name for name, *_ in oracle.RUNS}
    assert not missing, f"give {sorted(missing)} a small run in RUNS of tests/oracle.py"


def test_settings_whose_defaults_are_refused_are_a_mistake_of_the_declaration() -> None:
    class Counting(Settings):
        words: int = Field(0, ge=1, description="Minimum number of words.")

    with pytest.raises(WorkbenchError, match="with its defaults, words is 0: input should be"):
        replace(declared(run=answer), settings=Counting)


def test_a_setting_that_could_not_be_given_is_a_mistake_of_the_declaration() -> None:
    class Seeded(Settings):
        seed: int = Field(1, description="Of a sample.")

    with pytest.raises(WorkbenchError, match="a setting is named 'seed', which is an argument of"):
        replace(declared(run=answer), settings=Seeded)
    public = set(signature(wb.run).parameters) - {"objective", "settings"}
    assert public == set(ARGUMENTS), "a training has an objective as a setting"


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"sentences": 30}, "with the preset 'Quick', there is no setting 'sentences'"),
        ({"max_sentences": 0}, "with the preset 'Quick', max_sentences is 0: input should be"),
    ],
)
def test_a_preset_of_settings_that_are_refused_is_a_mistake_of_the_declaration(
    changes: Any, wrong: str
) -> None:
    with pytest.raises(WorkbenchError, match=wrong):
        replace(declared(run=answer), presets={"Quick": changes})


def test_a_demo_without_its_title_is_refused() -> None:
    models: Any = ("mini:bert",)
    with pytest.raises(WorkbenchError, match="title must be a string"):
        Demo(models)


def test_a_command_without_flags_reads_no_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    import workbench.runs.request  # noqa: F401 (else it would keep the empty registry)

    monkeypatch.setattr(declaring, "EXPERIMENTS", {})
    assert given_settings("run heads", "heads", ["max_sentences=3"], []) == {"max_sentences": "3"}
    with pytest.raises(KeyError):
        given_settings("run heads", "heads", [], ["--max-sentences", "3"])


DRAWING = """
import random

import pandas as pd

from workbench.experiment.definition import (Result)

drawn = random.random()


def run(inputs, settings, progress):
    return Result({"drawn": pd.DataFrame({"number": [random.random()]})})
"""
DECLARED = """
from workbench.experiment.definition import (Experiment, Settings, Table)

EXPERIMENT = Experiment(
    name="drawing", about="", settings=Settings, run="drawing:run", models=(0, 0),
    tables={"drawn": Table("", ())},
)
"""


def test_what_an_import_draws_is_no_part_of_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "drawing.py").write_text(DRAWING)
    (tmp_path / "declared_drawing.py").write_text(DECLARED)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    homes = {**EXPERIMENTS.homes, "drawing": "declared_drawing:EXPERIMENT"}
    monkeypatch.setitem(EXPERIMENTS.__dict__, "homes", homes)
    corpus = wb.read("primer:size=30")
    found = wb.run("drawing", corpus=Corpus(corpus.name, corpus.splits), seed=3)
    assert found.tables["drawn"]["number"].tolist() == [Random(3).random()]
