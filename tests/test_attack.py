"""The attack itself: a few inputs of each kind, one kill, one visitor; and that it finds faults."""

import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.attack import fuzz, kills
from workbench import WorkbenchError


@pytest.fixture(autouse=True)
def places(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an attack sets in its own process is as before when the test ends."""
    for name in ("WORKBENCH_HOME", "WORKBENCH_RUNS", "TMPDIR"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.mark.parametrize("kind", fuzz.KINDS)
def test_a_few_inputs_of_each_kind(kind: str, tmp_path: Path) -> None:
    fuzz.prepared(kind, tmp_path)
    outcomes = [fuzz.tried_here(kind, 0, number, tmp_path) for number in range(2)]
    assert {outcome for _, outcome in outcomes} <= {"accepted", "refused"}, outcomes


def test_what_is_no_error_of_ours_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(error: BaseException) -> Callable[[], None]:
        def trial() -> None:
            raise error

        return trial

    for error, outcome in (
        (WorkbenchError("no.", remedy="Do another thing."), "refused"),
        (KeyError("x"), "KeyError at"),
        (MemoryError(), "MemoryError at"),
        (SystemExit(3), "SystemExit at"),
    ):
        trial = raising(error)
        bad = SimpleNamespace(case=lambda draw, folder, trial=trial: ("bad", trial))
        monkeypatch.setitem(sys.modules, "tests.attack.bad", bad)
        assert fuzz.tried_here("bad", 0, 0, tmp_path)[1].startswith(outcome)


def test_a_case_is_the_same_each_time() -> None:
    first, again = fuzz.draw_of(7, "corpora", 3), fuzz.draw_of(7, "corpora", 3)
    assert first.random() == again.random() != random.Random(7).random()
    assert "--seed 7 --only corpora --case 3 " in fuzz.finding("corpora", 7, 3, "why")


@pytest.mark.slow
def test_a_killed_run_is_finished_and_right() -> None:
    told = kills.attack(0, iter([0]), lambda: False, jobs=("counts",))
    assert not told.findings and told.begun["counts"] == 1


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(
    not (shutil.which("chromium") or shutil.which("chromium-browser")),
    reason="no Chromium; on Debian: apt-get install chromium",
)
def test_a_visitor_finds_nothing() -> None:
    from tests.attack import browsers

    with ThreadPoolExecutor(1) as beside:  # other tests may have an event loop in this thread
        told = beside.submit(browsers.attack, 0, 8.0, pages=1).result()
    assert not told.findings and told.loads
