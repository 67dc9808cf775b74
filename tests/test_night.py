"""What a grid keeps by day, and which models of the zoo."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests import conftest
from tests.models import zoo
from tests.night import mostly


def test_all_cases_but_those_named_are_slow() -> None:
    found = mostly(["a", "b", ("c", 1)], "b", ("c", 1))
    assert [each.values for each in found] == [("a",), ("b",), ("c", 1)]
    assert [[mark.name for mark in each.marks] for each in found] == [["slow"], [], []]


def test_a_case_that_is_none_is_an_error() -> None:
    with pytest.raises(ValueError, match="'z'"):
        mostly(["a", "b"], "z")


@pytest.mark.parametrize(
    ("file", "names", "by_night"),
    [
        ("test_prefix.py", zoo.NAMES, conftest.ALIKE | conftest.DEEP),
        ("test_attention.py", zoo.NAMES, conftest.DEEP),
        ("test_families.py", ("bert", "roberta", "t5"), set()),
    ],
)
def test_models_like_others_are_for_the_night_where_all_of_the_zoo_is_tried(
    file: str, names: tuple[str, ...], by_night: set[str]
) -> None:
    marked: list[str] = []

    def item(name: str) -> Any:
        return SimpleNamespace(
            nodeid=f"{file}::test_it[{name}]",
            path=SimpleNamespace(name=file),
            callspec=SimpleNamespace(params={"name": name}),
            add_marker=lambda mark: marked.append(name),
        )

    conftest.pytest_collection_modifyitems(list(map(item, names)))
    assert set(marked) == by_night and set(zoo.NAMES) >= conftest.ALIKE
