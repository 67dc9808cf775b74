"""The public API: every name of `workbench` is documented, and its example prints what it says."""

import doctest
import inspect
import re
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import workbench as wb

pytestmark = pytest.mark.usefixtures("warm_workers")

NAMES = [name for name in wb.__all__ if name != "__version__"]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def documented(name: str) -> Any:
    """The object whose docstring documents a name: of a package, what calling it calls."""
    found = getattr(wb, name)
    is_called = isinstance(found, ModuleType) and callable(found)
    return type(found).__call__ if is_called else found


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("study")


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_each_name_prints_what_it_shows(
    name: str, study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(study)
    text = documented(name).__doc__
    test = doctest.DocTestParser().get_doctest(text, {"wb": wb}, name, None, None)
    assert test.examples or isinstance(getattr(wb, name), ModuleType), "no example"
    printed: list[str] = []
    result = doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=printed.append)
    assert not result.failed, "".join(printed)


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
