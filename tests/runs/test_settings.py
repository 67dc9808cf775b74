"""Settings from text, and what is said where they are wrong; what else a question may get wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runs.conftest import Asking, done_here
from workbench import WorkbenchError, experiments
from workbench.runs.request import checked_settings, make_request, named


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("steps", "7", 7),
        ("pause", "0.5", 0.5),
        ("max_sentences", "none", None),
        ("max_sentences", "", None),
        ("max_sentences", "10", 10),
        ("layers", "1,2, 3,", (1, 2, 3)),
        ("layers", "4", (4,)),
        ("layers", "[1, 2]", (1, 2)),
        ("layers", "", ()),
        ("loud", "true", True),
        ("loud", "No", False),
        ("loud", "1", True),
        ("pattern", "[a-z],{2}", "[a-z],{2}"),
        ("pattern", '["a"]', '["a"]'),
        ("pattern", "none", "none"),
        ("kind", "listed", "listed"),
        ("depth", "all", "all"),
        ("depth", "3", 3),
        ("words", "a,b", frozenset("ab")),
        ("most", "inf", float("inf")),
    ],
)
def test_text_becomes_a_value(name: str, text: str, value: Any) -> None:
    assert getattr(checked_settings(experiments()["steps"], {name: text}), name) == value


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"step": 1}, ["no setting 'step'", "Did you mean 'steps'?"]),
        ({"steps": "many"}, ["steps is 'many'", "whole number", "How many steps there are."]),
        ({"steps": 0}, ["steps is 0", "greater than or equal to 1", "How many steps"]),
        ({"steps": "2.5"}, ["steps is '2.5'"]),
        ({"max_sentences": 0}, ["max_sentences is 0", "Maximum number"]),
        ({"mood": "gloomy"}, ["mood is 'gloomy'", "'well'", "How it goes."]),
        ({"layers": "1,b"}, ["layers.1 is 'b'", "Some numbers."]),
        ({"loud": "perhaps"}, ["loud is 'perhaps'", "Yes or no."]),
        ({"pause": "[1"}, ["pause is '[1'"]),
    ],
)
def test_an_invalid_setting_is_an_error_with_its_help_text(
    given: dict[str, Any], said: list[str]
) -> None:
    with pytest.raises(WorkbenchError) as raised:
        make_request("steps", settings=given)
    for words in said:
        assert words in str(raised.value)


@pytest.mark.parametrize("most", ["inf", "nan", "1e300"])
def test_odd_numbers_are_the_same_question_when_read_again(most: str, asking: Asking) -> None:
    from workbench.runs import spec

    asked = asking(most=most)
    run = done_here(asked)
    assert spec.read(run.path).name == asked.name


def test_pairs_are_parsed() -> None:
    assert named(["max-steps=3", "a=b=c"], "setting") == {"max_steps": "3", "a": "b=c"}
    for wrong in ("steps", "=3"):
        with pytest.raises(WorkbenchError, match="name=value"):
            named([wrong], "setting")


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, "1", True, None])
def test_a_seed_that_is_none(seed: Any) -> None:
    with pytest.raises(WorkbenchError, match="the seed is"):
        make_request("steps", seed=seed)


def test_a_seed_of_numpy_is_a_seed(asking: Asking) -> None:
    assert asking(np.int64(3)).name == asking(3).name  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"experiment": "describ"}, "Did you mean 'describe'"),
        ({"experiment": "steps", "models": ["x"]}, "model-count"),
        ({"experiment": "describe"}, "takes one corpus; none"),
        ({"experiment": "describe", "corpora": ["primer", "primer"]}, "corpus-count"),
        ({"experiment": "describe", "corpora": ["Ann ran", "Al sat"]}, r"texts are wb.read\("),
        ({"experiment": "describe", "corpora": ["primer"], "split": "tset"}, "Did you mean 'test'"),
        ({"experiment": "steps", "split": "test"}, "corpus-count"),
        ({"experiment": "profile", "models": ["a\0b"]}, "neither a folder nor a hub id"),
        ({"experiment": "profile", "models": ["vectors:~no-such-user/x"]}, "path-invalid"),
        ({"experiment": "describe", "corpora": [Path("/nowhere")]}, "no such file"),
    ],
)
def test_other_invalid_requests_are_errors_before_anything_runs(
    how: dict[str, Any], said: str
) -> None:
    with pytest.raises(WorkbenchError, match=said):
        make_request(**how)
