"""The walk in docs/architecture.md: the files that a run of `heads` enters, in this order."""

import re

import pytest

from tests import house

PAGE = house.ROOT / "docs" / "architecture.md"
STEPS = re.findall(r"^\d+\. `([\w/.]+)`", PAGE.read_text("utf-8"), flags=re.MULTILINE)


def test_every_file_of_the_walk_is_there() -> None:
    assert len(STEPS) > 20 and STEPS[-1] == "workbench/analyses/heads/findings.py"
    assert all((house.ROOT / step).is_file() for step in STEPS)


@pytest.mark.slow
def test_a_run_enters_the_files_in_the_order_of_the_walk() -> None:
    run = house.RUNS["workbench/analyses/heads/"]
    entered = house.entered_files(house.ROOT, ["-m", "workbench", *run.split()])
    assert [file for file in entered if file in STEPS] == STEPS
