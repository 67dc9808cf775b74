"""`python -m tests.gpu`, as far as it can be tried without a GPU.

What it needs not is hidden from it and from every process that it starts.
"""

import json
import os
import subprocess
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.gpu import __main__ as script
from tests.gpu import answers, checks, passes
from tests.gpu.checks import Figures, Setting, run_one
from tests.gpu.made import opened
from workbench.models.huggingface import HuggingFace

ROOT = Path(__file__).parents[1]
CPU = torch.device("cpu")
CHECKS = dict(script.CHECKS)
HIDDEN = (
    "spacy", "streamlit", "pytest", "hypothesis", "playwright", "accelerate", "captum", "peft",
    "plotly", "dask", "datasets", "h5py", "typer", "rich",
)  # fmt: skip
HIDES = f"""
from importlib.machinery import PathFinder
found = PathFinder.find_spec
def find_spec(name, path=None, target=None):
    return None if name.split(".")[0] in {HIDDEN!r} else found(name, path, target)
PathFinder.find_spec = find_spec
"""


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment in which what is hidden is not there."""
    (tmp_path / "hides").mkdir()
    (tmp_path / "hides" / "sitecustomize.py").write_text(HIDES)
    return {**os.environ, "PYTHONPATH": str(tmp_path / "hides"), "OMP_NUM_THREADS": "1"}


def run(bare: dict[str, str], *given: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tests.gpu", "--device", "cpu", "--small", *given]
    return subprocess.run(command, env=bare, cwd=ROOT, capture_output=True, text=True, check=False)


def read(out: Path) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in json.loads(out.read_text("utf-8"))["checks"]}


def test_what_is_hidden_cannot_be_imported(bare: dict[str, str]) -> None:
    for name in ("spacy", "streamlit"):
        done = subprocess.run([sys.executable, "-c", f"import {name}"], env=bare, check=False)
        assert done.returncode == 1


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks that raise, miss a bound, never end, and pass."""

    def raises(setting: Setting, figures: Figures) -> None:
        figures.note("before", 1)
        raise ValueError("it broke")

    def misses(setting: Setting, figures: Figures) -> None:
        figures.at_most("far", 2.0, 1.0)
        figures.at_least("near", float("nan"), 0.0)
        figures.at_most("kept", 1.0, 1.0)

    def lasts(setting: Setting, figures: Figures) -> None:
        time.sleep(60)

    def passes(setting: Setting, figures: Figures) -> None:
        figures.holds("true", True)

    module = ModuleType("broken")
    own = {"raises": raises, "misses": misses, "lasts": lasts, "passes": passes}
    vars(module).update(own)
    monkeypatch.setitem(sys.modules, "broken", module)
    monkeypatch.setattr(script, "CHECKS", {name: f"broken:{name}" for name in own})


def test_a_check_that_fails_does_not_stop_the_next(
    broken: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "found.json"
    names = ("raises", "misses", "passes")
    code = script.main(["--device", "cpu", "--out", str(out), "--only", *names])
    found, printed = read(out), capsys.readouterr().out
    assert code == 1
    assert [found[name]["outcome"] for name in names] == ["failed", "failed", "passed"]
    assert found["raises"]["reason"] == "ValueError: it broke"
    assert found["raises"]["traceback"][-1] == "ValueError: it broke"
    assert found["raises"]["figures"] == {"before": {"value": 1}}
    assert "far is 2, not at most 1" in found["misses"]["reason"]
    assert found["misses"]["figures"]["near"] == {"value": "nan", "at least": 0.0, "kept": False}
    assert found["misses"]["figures"]["kept"]["kept"]
    assert "ValueError: it broke" in printed and "1 ok, 2 FAILED, 0 skipped" in printed


def test_checks_that_all_pass_exit_with_nought(broken: None) -> None:
    assert script.main(["--device", "cpu", "--only", "passes"]) == 0


def test_a_check_that_does_not_end_is_ended(broken: None) -> None:
    started = time.monotonic()
    found = run_one("lasts", "broken:lasts", CPU, True, 0.2)
    assert time.monotonic() - started < 10
    assert found["outcome"] == "failed" and found["reason"].startswith("TimeoutError")


def test_what_is_not_there_fails_one_check() -> None:
    found = run_one("absent", "tests.gpu.absent:absent", CPU, True, 10)
    assert found["outcome"] == "failed" and "tests.gpu.absent" in found["reason"]


def test_no_check_begins_when_time_is_over(broken: None, tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    assert script.main(["--device", "cpu", "--minutes", "0", "--out", str(out)]) == 0
    assert {each["reason"] for each in read(out).values()} == {"no time was left"}


def test_a_lost_device_sends_the_others_to_a_new_process_without_spacy_and_streamlit(
    broken: None, bare: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they find is written, in the script's own order; with -m slow all checks are tried."""
    for name in ("PYTHONPATH", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, bare[name])
    ours = ("machine", "halving")
    for name in ours:
        monkeypatch.setitem(script.CHECKS, name, CHECKS[name])
    monkeypatch.setattr(checks, "is_usable", lambda device: False)
    out = tmp_path / "found.json"
    given = ["--device", "cpu", "--small", "--out", str(out), "--only", *reversed(ours), "raises"]
    assert script.main(given) == 1
    found = read(out)
    assert list(found) == ["raises", *ours]
    outcomes = [each["outcome"] for each in found.values()]
    assert outcomes == ["failed", "passed", "skipped"]
    assert found["machine"]["figures"]["torch"]["value"] == version("torch")
    assert found["halving"]["reason"] == "needs a GPU"
    assert found["machine"]["seconds"] > 0 and found["machine"]["peak_mib"] is None
    assert found["machine"]["traceback"] == []


def test_a_model_that_is_another_on_the_device_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Weights that differ by one in a hundred show in float32 in all that is compared."""

    def spoiled(folder: Path, *where: Any) -> HuggingFace:
        model = opened(folder, *where)
        for weights in model.net.parameters() if where else ():
            weights.data *= 1 + 0.01 * torch.randn_like(weights)
        return model

    monkeypatch.setattr(answers, "FAMILIES", {"bert": "BertForMaskedLM"})
    exact, moved = Figures(), Figures()
    for place, figures in (("exact", exact), ("moved", moved)):
        if place == "moved":
            monkeypatch.setattr(answers, "opened", spoiled)
        (tmp_path / place).mkdir()
        answers.families(Setting(CPU, True, tmp_path / place), figures)
    assert exact.missed == []
    wrong = {name for name, figure in moved.found.items() if not figure["kept"]}
    assert {f"bert fp32 {what}" for what in answers.BOUNDS["fp32"]} <= wrong


def test_time_in_kernels_is_counted_once() -> None:
    """Copies run beside kernels, and one of them may cover several others."""
    ranges = [(5.0, 6.0), (0.0, 3.0), (1.0, 2.0), (2.5, 4.0), (9.0, 9.5)]
    assert passes._covered(ranges) == 5.5
    assert passes._covered([]) == 0


def test_waits_are_counted_by_place(monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[object] = []
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)

    def waits() -> None:
        for _ in range(3):
            warnings.warn("called a synchronizing CUDA operation", stacklevel=1)
        warnings.warn("something else", stacklevel=1)

    number, places = passes._synchronisations(waits)
    assert number == 3 and list(places.values()) == [3]
    assert next(iter(places)).startswith("tests/test_gpu_script.py:")
    assert modes == ["warn", 0]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_what_can_be_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        script.main([])
    assert ended.value.code == 2
    assert "--device cpu --small" in capsys.readouterr().err


@pytest.mark.slow
def test_all_that_a_cpu_can_run_passes(bare: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    done = run(bare, "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    found = read(out)
    assert list(found) == list(script.CHECKS)
    assert {name for name, each in found.items() if each["outcome"] != "passed"} == {"halving"}
    for name in set(found) - {"halving"}:
        assert found[name]["peak_mib"] is None and found[name]["traceback"] == []
        bounded = [figure for figure in found[name]["figures"].values() if "kept" in figure]
        assert all(figure["kept"] for figure in bounded)
        assert bounded or name.endswith("-speed")
    assert f"{len(found) - 1} ok, 0 FAILED, 1 skipped" in done.stdout
