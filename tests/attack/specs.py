"""Stored runs whose files were changed at random: listed, opened, shown, compared, reported.

Costs tens of milliseconds a case.
"""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.attack.mutations import changed, json_bytes

_runs: list[Path] = []


def prepare(folder: Path) -> None:
    """Runs computed in this process: two counts to compare, one with arrays."""
    from workbench.core import machine
    from workbench.runs.launch import start
    from workbench.runs.request import make_request
    from workbench.runs.subruns import compute_here

    kept = folder / "kept"
    for experiment, models, settings in (
        ("describe", [], {"max_sentences": 50}),
        ("describe", [], {"max_sentences": 60}),
        ("attention-averages", ["mini:bert"], {"max_sentences": 5}),
    ):
        asked = make_request(experiment, models, ["primer"], settings)
        run = start(asked.spec, compute=compute_here(asked))
        assert run.status.state == "done", run.status
        _runs.append(kept / run.name)
    shutil.copytree(machine.runs(), kept)


def case(draw: random.Random, folder: Path) -> tuple[str, Callable[[], object]]:
    """A folder of three runs, one of which was changed."""
    runs = folder / "runs"
    for path in _runs:
        shutil.copytree(path, runs / path.name)
    damaged = runs / draw.choice([_runs[0], _runs[2]]).name
    files = sorted(path for path in damaged.rglob("*") if path.is_file())
    own = [path for path in files if path.parent == damaged and path.suffix in (".json", ".jsonl")]
    path = draw.choice(files if draw.random() < 0.4 else own)
    for _ in range(draw.randint(1, 2)):
        match draw.choice(["change", "change", "change", "change", "empty", "remove", "folder"]):
            case "change" if path.suffix == ".json" and path.is_file():
                try:
                    found = json.loads(path.read_bytes())
                except ValueError:
                    continue
                path.write_bytes(json_bytes(draw, found))
            case "change" if path.is_file():
                path.write_bytes(changed(draw, path.read_bytes(), 2))
            case "empty" if path.is_file():
                path.write_bytes(b"")
            case "remove" if path.is_file():
                path.unlink()
            case "folder" if path.is_file():
                path.unlink()
                path.mkdir()
    label = path.name if path.parent == damaged else path.parent.name
    looks = draw.sample(list(LOOKS), 3)
    return label, lambda: _looked(runs, damaged, looks)


def _looked(runs: Path, damaged: Path, looks: list[str]) -> None:
    """Several looks at it; the first refusal is raised when all have been tried."""
    from workbench import Run, WorkbenchError
    from workbench.runs.run import all_runs

    refused: WorkbenchError | None = None
    with patch.dict("os.environ", WORKBENCH_RUNS=str(runs)):
        assert len(all_runs()) == len(_runs), "a run is not listed"
        for name in looks:
            try:
                LOOKS[name](Run(damaged))
            except WorkbenchError as error:
                refused = refused or error
    if refused:
        raise refused


def _as_data(run: Any) -> None:
    json.dumps(run.as_data())


def _tables(run: Any) -> None:
    for name in list(run.tables):
        len(run.tables[name])


def _figures(run: Any) -> None:
    for name in list(run.figures):
        run.figures[name].to_json()


def _arrays(run: Any) -> None:
    for name in list(run.arrays):
        assert run.arrays[name].shape is not None


def _verified(run: Any) -> None:
    from workbench.runs.run import damage, is_whole

    assert all(isinstance(line, str) for line in damage(run.path))
    is_whole(run.path)


def _compared(run: Any) -> None:
    from workbench import Run
    from workbench.runs.compare import compared

    other = Run(run.path.parent / _runs[1].name)
    list(compared([run.tables, other.tables]))


def _reported(run: Any) -> None:
    from workbench import report as write_report

    ending = (".html", ".md", ".tex", ".zip")[int(run.name[-1], 16) % 4]
    write_report([run], run.path.parent.parent / f"report{ending}")


def _shown(run: Any) -> None:
    import contextlib
    import io
    from types import SimpleNamespace

    from workbench.cli import runs

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        runs.show(run.name)
        runs.list_runs(SimpleNamespace(invoked_subcommand=None), json=False)  # type: ignore[arg-type]


LOOKS: dict[str, Callable[..., None]] = {
    "data": _as_data,
    "tables": _tables,
    "figures": _figures,
    "arrays": _arrays,
    "verify": _verified,
    "compare": _compared,
    "report": _reported,
    "show": _shown,
}
