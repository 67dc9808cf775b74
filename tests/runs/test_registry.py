"""Experiments of other packages are found through entry points, and theirs are the mistakes."""

from pathlib import Path

import pytest

from tests.runs.conftest import forget_experiments, installed
from workbench import Experiment, WorkbenchError, experiments
from workbench.core.analysis import analyses
from workbench.core.registry import Registry
from workbench.experiment.definition import EXPERIMENTS


@pytest.fixture
def offering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    def offer(name: str, value: str) -> None:
        monkeypatch.syspath_prepend(
            str(installed(tmp_path / f"{name}{abs(hash(value))}", name, value))
        )
        forget_experiments()

    return offer


def test_a_third_party_experiment_is_found() -> None:
    assert (
        "steps" in experiments() and experiments()["steps"].about == "Draws numbers, step by step."
    )
    assert {"describe", "profile", "steps"} <= set(experiments())


def test_the_same_entry_point_twice_is_one(offering) -> None:  # type: ignore[no-untyped-def]
    offering("steps", "workbench_steps:EXPERIMENT")
    assert experiments()["steps"].name == "steps"


def test_two_of_one_name_are_an_error_that_names_both(offering) -> None:  # type: ignore[no-untyped-def]
    offering("describe", "workbench_steps:EXPERIMENT")
    with pytest.raises(WorkbenchError) as raised:
        experiments()["describe"]
    for words in ("experiment 'describe'", "describe_announced", "analyses.basics", "uninstall"):
        assert words in str(raised.value)
    usable, wrong = EXPERIMENTS.usable()
    assert "describe" not in usable and {"steps", "profile"} <= set(usable)
    assert [each.code for each in wrong] == ["name-conflict"], "said once"


def test_an_unknown_name_says_which_is_near() -> None:
    with pytest.raises(WorkbenchError, match="Did you mean 'profile'"):
        experiments()["profil"]


def test_an_unknown_name_and_a_package_at_fault_are_one_sentence() -> None:
    fault = WorkbenchError("the analysis own cannot be imported.", code="import-failed", remedy="")
    lazy = Registry("experiment", dict, Experiment, lambda: [fault])
    with pytest.raises(WorkbenchError) as raised:
        lazy["own"]
    assert raised.value.what == "there is no experiment 'own'; the analysis own cannot be imported."


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("no_such_module:EXPERIMENT", "No module named 'no_such_module'"),
        ("workbench_steps:NOTHING", "cannot import name 'NOTHING'"),
        ("workbench_steps:Steps", "no Experiment"),
    ],
)
def test_a_broken_entry_point_is_named_and_harms_no_other(  # type: ignore[no-untyped-def]
    value: str, said: str, offering
) -> None:
    offering("broken", value)
    with pytest.raises(WorkbenchError) as raised:
        experiments()["broken"]
    assert "'broken'" in str(raised.value) and said in str(raised.value)
    assert experiments()["steps"].name == "steps"


def test_a_registry_imports_nothing_until_a_name_is_looked_up() -> None:
    lazy = Registry("experiment", lambda: {"a": "no_such_module:A"}, Experiment)
    assert list(lazy) == ["a"] and "a" in lazy and len(lazy) == 1


def test_a_package_that_joins_the_path_later_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a process that was forked from one with another path."""
    assert "later_announced" not in analyses()
    site = installed(tmp_path / "later", "later", "workbench_steps:EXPERIMENT")
    monkeypatch.syspath_prepend(str(site))
    assert "later_announced" in analyses()
