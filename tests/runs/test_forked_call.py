"""A request is checked without torch and spaCy where it is made, with the same result."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from workbench import WorkbenchError
from workbench.runs.request import make_request

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, sys
from pathlib import Path
from workbench.core.errors import WorkbenchError
from workbench.runs.processes import starter
from workbench.runs.request import make_request
starter._place = lambda: starter._Place(Path(sys.argv[1]), "tests")
answers = []
for experiment, models, corpora in json.loads(sys.argv[2]):
    try:
        request = make_request(experiment, models, corpora)
        answers.append([request.spec.name, [str(error) for error in request.unmet_requirements()]])
    except WorkbenchError as error:
        answers.append(str(error))
heavy = sorted({"torch", "spacy", "transformers", "pandas"} & sys.modules.keys())
print(json.dumps([answers, heavy]))
"""


def here(experiment: str, models: Sequence[str], corpora: Sequence[str]) -> Any:
    try:
        request = make_request(experiment, models, corpora)
    except WorkbenchError as error:
        return str(error)
    return [request.spec.name, [str(error) for error in request.unmet_requirements()]]


def test_it_is_as_if_it_were_checked_here(place: Path, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("A plain text.\n")
    (tmp_path / "broken.conllu").write_text("1\tA\n")
    requests = [
        ["heads", ["mini:bert"], ["primer:size=40"]],
        ["heads", ["mini:elmo"], ["primer:size=40"]],  # has no heads
        ["structural-probe", ["mini:bert@random"], [str(tmp_path / "words.txt")]],  # has no trees
        ["describe", [], [str(tmp_path / "broken.conllu")]],
        ["profile", ["mini:nonsense"], ["primer:size=40"]],
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "WORKBENCH_HOME": str(tmp_path / "new")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, os.environ[warm.FOLDER], json.dumps(requests)],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    answers, heavy = json.loads(done.stdout)
    assert heavy == []
    assert answers == [here(*request) for request in requests]
    codes = ["", "no-attention", "layer-missing", "file-format", "model-not-found"]
    for answer, code in zip(answers, codes, strict=True):
        assert code in str(answer)


def test_a_default_device_is_known_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without a GPU; where there may be one, torch decides."""
    from workbench.core import machine
    from workbench.runs import request

    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(request, "forked_call", lambda function, *given: "cuda")
    monkeypatch.setattr(request, "has_no_gpu", lambda: True)
    assert request._device(None, True) == request._device("cpu", True) == "cpu"
    assert request._device("cuda:1", True) == "cuda"
    monkeypatch.setattr(request, "has_no_gpu", lambda: False)
    assert request._device(None, True) == "cuda"
    assert request._device("cpu", True) == request._device(None, False) == "cpu"
    assert isinstance(machine.has_no_gpu(), bool)
