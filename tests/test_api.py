"""The public API: every name of `workbench` is documented, and what it returns; examples print what
they say."""

import doctest
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import workbench as wb
from tests.examples import site_hooks
from tests.night import mostly

pytestmark = pytest.mark.usefixtures("warm_workers")

NAMES = [  # not those of other packages that are installed here
    name for name in wb.__all__ if (wb.home_of(name) or "").startswith("workbench.")
]
HOMES = re.findall(r"^::: (\S+)$", site_hooks().python_api(), re.MULTILINE)  # of the reference
# Their examples take longest. By day the functions are tested in `tests/`, as the rest.
LONG = {
    "workbench.Write", "workbench.analyses.steering.erase.Erased", "workbench.compare",
    "workbench.analyses.training.callback.callback", "workbench.export", "workbench.read",
    "workbench.report.write_report", "workbench.run", "workbench.sweep", "workbench.train",
    "workbench.analyses.words.senses.Senses",
    "workbench.analyses.words.tokenizations.Tokenizations",
    "workbench.analyses.lenses.lens.LensReading",
    "workbench.analyses.attention.grids.Grid", "workbench.analyses.patching.patch.Patching",
    "workbench.analyses.words.neighbours.Neighbours",
    "workbench.analyses.attribution.attribute.Explanation", "workbench.write",
    "workbench.analyses.attribution.attribute.attribute", "workbench.runs.compare.Comparison",
    "workbench.analyses.words.senses.senses",
    "workbench.analyses.lenses.contributions.DirectContributions",
    "workbench.analyses.steering.erase.erase", "workbench.analyses.steering.steer.steer",
    "workbench.analyses.training.callback.TrainingCallback",
    "workbench.Model", "workbench.experiment.declare", "workbench.analyses.lenses.lens.lens",
    "workbench.runs.interactive.background.PendingRun",
    "workbench.analyses.attention.capture.attention",
    "workbench.analyses.patching.patch.patch", "workbench.analyses.words.neighbours.neighbours",
    "workbench.analyses.lenses.contributions.contributions",
    "workbench.analyses.steering.steer.Steered", "workbench.runs.exported_model.ExportedModel",
    "workbench.analyses.attribution.faithfulness.Faithfulness",
    "workbench.analyses.attention.capture.AttentionMaps",
    "workbench.analyses.predictions.results.SideBySide",
    "workbench.analyses.predictions.results.Labelled",
    "workbench.analyses.predictions.results.Generated",
    "workbench.analyses.predictions.generate.summarise",
    "workbench.analyses.predictions.generate.answer",
    "workbench.analyses.words.occurrences.occurrences",
    "workbench.analyses.words.occurrences.Occurrences",
    "workbench.analyses.words.nearest.Rows", "workbench.engine.activation_store.Store",
    "workbench.runs.list_runs", "workbench.analyses.predictions.results.TopChoices",
    "workbench.export_model",
    "workbench.analyses.words.tokenizations.tokenizations",
    "workbench.analyses.words.tokenizations.TokenizationSteps",
}  # fmt: skip
MOST = 50  # names, so that one can read the list
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def documented(name: str) -> Any:
    """The object whose docstring documents a name: of a package, what calling it calls."""
    found = getattr(wb, name)
    is_called = isinstance(found, ModuleType) and callable(found)
    return type(found).__call__ if is_called else found


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("study")


def docstrings(found: Any) -> Iterator[str]:
    """Of an object of the reference, and of the public methods of a class."""
    yield found.__doc__ or ""
    for name, member in vars(found).items() if inspect.isclass(found) else ():
        if not name.startswith("_") and inspect.isroutine(member):
            yield member.__doc__ or ""


@pytest.mark.parametrize("home", mostly(HOMES, *(home for home in HOMES if home not in LONG)))
def test_the_examples_of_the_reference_print_what_they_show(
    home: str, study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(study)
    module, _, name = home.rpartition(".")
    for text in docstrings(getattr(import_module(module), name)):
        test = doctest.DocTestParser().get_doctest(text, {"wb": wb}, home, None, None)
        printed: list[str] = []
        runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
        assert not runner.run(test, out=printed.append).failed, "".join(printed)


@pytest.mark.parametrize("name", NAMES)
def test_each_name_has_an_example(name: str) -> None:
    assert isinstance(getattr(wb, name), ModuleType) or ">>> " in (documented(name).__doc__ or "")


def test_the_list_of_names_is_short() -> None:
    assert len(NAMES) <= MOST


@pytest.mark.parametrize("name", NAMES)
def test_functions_document_their_arguments_and_what_they_return(name: str) -> None:
    found = documented(name)
    if not isinstance(found, FunctionType):
        return
    text = inspect.getdoc(found) or ""
    missing = [
        parameter
        for parameter in inspect.signature(found).parameters
        if f"    {parameter}: " not in text
        and f"    *{parameter}: " not in text
        and f"    **{parameter}: " not in text
    ]
    assert not missing
    assert "Returns:" in text


def test_each_name_has_one_home() -> None:
    homes = [wb.home_of(name) for name in NAMES]
    assert all(homes) and len(NAMES) == len(set(NAMES))


@pytest.mark.parametrize("name", NAMES)
def test_help_of_the_package_leads_to_each_name(name: str) -> None:
    assert wb.__doc__ and re.search(rf"\b{name}\b", wb.__doc__)
