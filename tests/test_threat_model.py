"""The threat model names a test for each claim, and every test it names is there."""

import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "threat-model.md"


def test_every_test_that_the_threat_model_names_is_there() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE.read_text())
    assert len(named) > 25
    for file, name in named:
        assert f"def {name}(" in (TESTS / file).read_text(), f"{file}::{name}"
