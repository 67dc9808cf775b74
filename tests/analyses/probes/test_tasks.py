"""Tasks are recognised by the names of other data sets, and requested by any of their names."""

import pytest

from workbench import WorkbenchError
from workbench.analyses.probes.targets import tasks_of


def test_a_layer_is_known_by_what_others_call_it() -> None:
    found = tasks_of(("pos", "entities"), edges=("srl-ewt", "spr1", "my-own"))
    assert [(task.name, task.layer) for task in found] == [
        ("pos", "pos"),
        ("entities", "entities"),
        ("roles", "srl-ewt"),
        ("proto-roles", "spr1"),
        ("my-own", "my-own"),
    ]


def test_two_layers_of_one_kind_keep_their_names() -> None:
    assert [task.name for task in tasks_of((), edges=("srl-a", "srl-b"))] == ["srl-a", "srl-b"]


@pytest.mark.parametrize("name", ["roles", "srl-ewt", "srl", "propbank"])
def test_a_task_is_requested_by_any_of_its_names(name: str) -> None:
    assert [task.layer for task in tasks_of(("pos",), [name], ("srl-ewt",))] == ["srl-ewt"]


@pytest.mark.parametrize("name", ["role", "ner", "my-srl", ""])
def test_what_is_not_there_is_refused_and_what_is_named(name: str) -> None:
    with pytest.raises(WorkbenchError, match="task-not-found") as failure:
        tasks_of(("pos",), [name], ("srl-ewt",))
    assert "roles" in failure.value.remedy and "pos" in failure.value.remedy


def test_tags_are_a_task_only_where_they_are_named() -> None:
    assert [task.name for task in tasks_of(("pos", "tags"))] == ["pos"]
    assert [task.name for task in tasks_of(("pos", "tags"), ["tags"])] == ["tags"]
    with pytest.raises(WorkbenchError, match="layer-missing"):
        tasks_of(("tags",), where="here")
