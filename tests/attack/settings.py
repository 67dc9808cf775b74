"""Settings of every experiment, as text from a command line and as values from Python.

The question is made and written down, and no run is started. Costs milliseconds a case; commands
some tens.
"""

import contextlib
import io
import json
import random
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.attack.mutations import ODD_TEXTS, ODD_VALUES

CORPUS = "primer:size=2000"
_places: dict[str, Path] = {}


def prepare(folder: Path) -> None:
    """What is known of the mini models, found out once."""
    from workbench.runs.model_facts import known

    for name in ("mini:bert", "mini:gpt"):
        known(name)
    _places["folder"] = folder


def case(draw: random.Random, folder: Path) -> tuple[str, Callable[[], object]]:
    """A question with odd settings, a sweep, or a whole command line."""
    from workbench import experiments

    name = draw.choice(list(experiments()))
    match draw.choice(["text", "text", "values", "values", "sweep", "command"]):
        case "text":
            given: dict[str, Any] = {key: _text(draw) for key in _keys(draw, name)}
            return "text", lambda: _asked(name, given, folder)
        case "values":
            values: dict[str, Any] = {key: _value(draw) for key in _keys(draw, name)}
            return "values", lambda: _asked(name, values, folder)
        case "sweep":
            pairs = [f"{key}={_text(draw)},{_text(draw)}" for key in _keys(draw, name)]
            return "sweep", lambda: _swept(name, pairs)
    arguments = _command(draw, name)
    return "command", lambda: _commanded(arguments)


def _keys(draw: random.Random, name: str) -> list[str]:
    from workbench import experiments

    known = list(experiments()[name].settings.model_fields)
    chosen = draw.sample(known, min(len(known), draw.randint(1, 3)))
    if draw.random() < 0.1:
        chosen.append(draw.choice(ODD_TEXTS))
    return chosen


def _text(draw: random.Random) -> str:
    kind = draw.random()
    if kind < 0.5:
        return draw.choice(ODD_TEXTS)
    if kind < 0.8:
        return str(draw.choice([0, 1, 2, 5, 0.1, "true", "auto", "1,2", "layer", "pos", "quick"]))
    return "".join(draw.choice(string.printable) for _ in range(draw.randint(1, 12)))


def _value(draw: random.Random) -> Any:
    kind = draw.random()
    if kind < 0.6:
        return draw.choice(ODD_VALUES)
    if kind < 0.8:
        return draw.choice(ODD_TEXTS)
    return draw.choice([object(), b"x", {1, 2}, {"a"}, (1, "a"), 1j, Path("x"), range(3), str, ...])


def _inputs(name: str) -> tuple[list[str], list[str]]:
    from workbench import experiments

    kind = experiments()[name]
    return ["mini:bert", "mini:gpt"][: kind.models[0]], [CORPUS] * kind.corpora[0]


def _asked(name: str, given: dict[str, Any], folder: Path) -> None:
    """Make the question, write it down and read it again: it must be the same."""
    from workbench.runs import spec
    from workbench.runs.request import make_request

    models, corpora = _inputs(name)
    question = make_request(name, models, corpora, given)
    question.unmet_requirements()
    place = folder / question.spec.name
    place.mkdir()
    spec.write(place, question.spec)
    again = spec.read(place)
    assert again.name == question.spec.name, "read again, it is another question"


def _swept(name: str, pairs: list[str]) -> None:
    from workbench.runs.request import named
    from workbench.runs.subruns import MOST, make_sweep, values

    swept = {key: values(text) for key, text in named(pairs, "sweep").items()}
    number = 1
    for some in swept.values():
        number *= len(some)
    if 50 < number <= MOST:
        return  # allowed, and as slow as so many questions are
    models, corpora = _inputs(name)
    make_sweep(name, models, corpora, {}, swept)


def _command(draw: random.Random, name: str) -> list[str]:
    """A line as somebody types it, mostly near a sound one."""
    models, corpora = _inputs(name)
    line = ["run", name]
    for ref in models:
        line += ["--model", ref if draw.random() < 0.8 else draw.choice(ODD_TEXTS)]
    for ref in corpora:
        line += ["--corpus", ref if draw.random() < 0.8 else draw.choice(ODD_TEXTS)]
    for key in _keys(draw, name):
        way = draw.random()
        if way < 0.4:
            line += ["--set", f"{key}={_text(draw)}"]
        elif way < 0.7:
            line += [f"--{key.replace('_', '-')}", _text(draw)]
        else:
            line += ["--sweep", f"{key}={_text(draw)}"]
    if draw.random() < 0.5:
        flag = draw.choice(
            "--seed --split --device --precision --unit --pipeline --language --text --label "
            "--edge-layer".split()
        )
        line += [flag, _text(draw)]
    if draw.random() < 0.2:
        line[0] = draw.choice(["runs", "train", "report", "export", "models", "corpora", "x"])
    if draw.random() < 0.3:
        draw.shuffle(line)
    return line


class _NoStartError(Exception):
    """A run would have been started."""


def _commanded(arguments: list[str]) -> None:
    """The command ends with a code of ours, and prints no traceback."""
    from workbench.cli import main

    said = io.StringIO()
    code: object = 0
    with (
        patch("sys.argv", ["workbench", *arguments]),
        patch("workbench.runs.api.start", side_effect=_NoStartError),
        patch("workbench.runs.launch.start", side_effect=_NoStartError),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
        contextlib.chdir(_places["folder"]),
    ):
        try:
            main.main()
        except _NoStartError:
            return
        except SystemExit as end:
            code = end.code
    assert code in (0, None, 1, 2, 130), f"exit code {code!r}"
    assert "Traceback" not in said.getvalue(), json.dumps(arguments)
    if code == 2:
        from workbench import WorkbenchError

        raise WorkbenchError(said.getvalue()[-200:] or "refused", remedy="See above.")
