"""A card is the same to every process, and a run touches no card but its own; CUDA is patched."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.runs.conftest import Asking, finished, wait_until
from tests.runs.test_queue import in_line, never, stop
from workbench import WorkbenchError
from workbench.core import machine
from workbench.core.machine import peak_memory
from workbench.runs import cluster, launch
from workbench.runs.launch import start
from workbench.runs.processes import device_queue
from workbench.runs.processes.device_queue import VISIBLE
from workbench.runs.request import _device_of
from workbench.runs.run import Run
from workbench.runs.status import Status

ONE, OTHER = "GPU-aaaaaaaa-0000-0000-0000-000000000001", "GPU-bbbbbbbb-0000-0000-0000-000000000002"
PART = "MIG-cccccccc-0000-0000-0000-000000000003"

# What a worker with two cards finds: whatever would start CUDA is written down, with the cards that
# could be seen then.
PATCHES = f"""
import contextlib, json, os, torch
def told(name, answer):
    def call(*args, **_):
        with open(os.environ["CALLS"], "a") as file:
            found = [name, os.environ.get("{VISIBLE}"), [str(each) for each in args]]
            file.write(json.dumps(found) + "\\n")
        return answer
    return call
torch.cuda._raw_device_uuid_nvml = lambda: ["{ONE}", "{OTHER}"]
torch.cuda._lazy_init = told("init", None)
torch._C._cuda_getDeviceCount = told("count", 2)
torch.cuda.is_available = told("available", True)
torch.cuda.device_count = told("count", 2)
torch.cuda.device = told("device", contextlib.nullcontext())
torch.cuda.max_memory_allocated = told("memory", 4321)
"""


@pytest.fixture(autouse=True)
def two_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VISIBLE, raising=False)
    monkeypatch.setattr(torch.cuda, "_raw_device_uuid_nvml", lambda: [ONE, OTHER])
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "_lazy_init", lambda: pytest.fail("CUDA was started"))


def names(device: str = "cuda") -> list[str]:
    return [slot.name for slot in device_queue.slots(device)]


@pytest.mark.parametrize(
    ("named", "found"),
    [
        (None, [ONE, OTHER]),
        ("1", [OTHER]),
        ("1,0", [OTHER, ONE]),
        ("0,7,1", [ONE]),
        (OTHER, [OTHER]),
        ("GPU-bbbb", [OTHER]),
        (PART, [PART]),
        ("MIG-GPU-cccc/1/0", ["MIG-GPU-cccc-1-0"]),
    ],
)
def test_a_card_goes_by_its_uuid(
    named: str | None, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if named is not None:
        monkeypatch.setenv(VISIBLE, named)
    assert names() == found
    assert [names(f"cuda:{index}") for index in range(len(found))] == [[one] for one in found]
    with pytest.raises(WorkbenchError, match=f"no cuda:{len(found)}"):
        device_queue.slots(f"cuda:{len(found)}")


def test_one_card_under_two_indexes_is_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """And two cards under one index are two."""
    with device_queue.turn("cuda:1", never) as held:
        assert held.title == "cuda:1 (GPU-bbbbbbbb)"
        monkeypatch.setenv(VISIBLE, "1")
        with pytest.raises(KeyboardInterrupt), device_queue.turn("cuda:0", stop):
            pass
        monkeypatch.setenv(VISIBLE, "0")
        with device_queue.turn("cuda:0", never) as other:
            assert (held.name, other.name) == (OTHER, ONE)
            assert other.title == "cuda:0 (GPU-aaaaaaaa)"


@pytest.mark.parametrize(
    ("named", "found"), [(None, ["cuda-0", "cuda-1"]), ("1", ["cuda-1"]), (PART, [PART])]
)
def test_without_the_drivers_library_the_environment_tells(
    named: str | None, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of a card on its machine is its name; one of a MIG device needs no library."""

    def missing() -> None:
        raise OSError("libnvidia-ml.so.1: no such file")

    monkeypatch.setattr(torch.cuda, "_raw_device_uuid_nvml", missing)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    if named is not None:
        monkeypatch.setenv(VISIBLE, named)
    assert names() == found


def test_in_a_shared_process_cuda_reports_the_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its order may differ from that of the driver's library; and it stays as it is."""
    chosen: list[int] = []
    uuids = [OTHER.removeprefix("GPU-"), ONE.removeprefix("GPU-")]

    class Properties:
        def __init__(self, index: int) -> None:
            self.uuid = uuids[index]

    @contextmanager
    def device(index: int) -> Iterator[None]:
        chosen.append(index)
        yield

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", Properties)
    monkeypatch.setattr(torch.cuda, "device", device)
    (card,) = device_queue.fitting("cuda:1")
    assert card.key == ONE
    with device_queue.on(card, alone=False) as own:
        assert (own, chosen) == ("cuda:1", [1])
    assert VISIBLE not in os.environ


def test_a_process_of_its_own_sees_its_card_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VISIBLE, "0,1")
    (card,) = device_queue.fitting("cuda:1")
    with device_queue.on(card, alone=True) as own:
        assert (own, os.environ[VISIBLE]) == ("cuda:0", OTHER)
        assert names() == names("cuda:0") == [OTHER], "what is asked on the way is on it too"


def test_the_memory_is_that_of_its_own_card(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {"cuda:0": 1, "cuda:1": 2}
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device=None: held[device])
    assert peak_memory("cuda:1")["cuda"] == 2
    assert "cuda" not in peak_memory("cpu")


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where workers write down what they ask of CUDA; they find two cards."""
    (tmp_path / "patches").mkdir()
    (tmp_path / "patches" / "sitecustomize.py").write_text(PATCHES)
    paths = [str(tmp_path / "patches"), os.environ["PYTHONPATH"]]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    return tmp_path / "calls"


def on_card(asking: Asking, device: str, seed: int = 0, mood: str = "well") -> Run:
    return start(asking(seed, mood=mood).model_copy(update={"device": device}))


def test_a_worker_is_left_with_its_card_before_cuda_starts(asking: Asking, calls: Path) -> None:
    run = finished(on_card(asking, "cuda:1"))
    assert run.status.state == "done", run.status.failure
    assert run.status.device == run.provenance["device"] == "cuda:1 (GPU-bbbbbbbb)"
    assert run.provenance["peak_memory_bytes"]["cuda"] == 4321
    asked = [json.loads(line) for line in calls.read_text().splitlines()]
    assert asked == [["memory", OTHER, ["cuda:0"]]]


def test_what_torchrun_started_sees_every_card(
    asking: Asking, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its processes send one another gradients; each computes on the card of its number."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    run = finished(on_card(asking, "cuda"))
    assert run.status.device == "cuda:1 (GPU-bbbbbbbb)", run.status.failure
    asked = [json.loads(line) for line in calls.read_text().splitlines()]
    assert ["device", None, ["1"]] in asked and ["memory", None, ["cuda:1"]] in asked


def test_on_a_cluster_a_card_is_waited_for(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of its workers may be on one machine; cores are its own to share out."""
    shared: list[bool] = []

    class Ended:
        def __init__(self, command: list[str], **_: object) -> None:
            shared.append("--share" in command)

        def poll(self) -> int:
            return 0

    monkeypatch.setattr(cluster.subprocess, "Popen", Ended)
    for seed, device in enumerate(("cuda", "cpu")):
        asked = asking(seed).model_copy(update={"device": device})
        folder = machine.runs() / asked.name
        folder.mkdir(parents=True)
        launch._queue(folder, asked, Status("queued"))
        cluster.supervise(str(folder), {})
    assert shared == [False, True]


def test_a_model_on_a_gpu_is_used_there() -> None:
    class Opened:
        def __init__(self, place: str) -> None:
            self.device = torch.device(place)

    given: list[Any] = ["mini:bert", Opened("cpu"), Opened("cuda:1")]
    assert _device_of(given) == "cuda:1"
    assert _device_of(given[:2]) == "cpu" and _device_of(given[:1]) is None


def test_two_cards_compute_at_once_and_a_third_run_waits(asking: Asking, calls: Path) -> None:
    first, second = (on_card(asking, "cuda", seed, "numb") for seed in (0, 1))
    wait_until(lambda: first.status.state == second.status.state == "running")
    assert {first.status.device[-9:-1], second.status.device[-9:-1]} == {"aaaaaaaa", "bbbbbbbb"}
    third = on_card(asking, "cuda", 2)
    wait_until(lambda: in_line(third))
    held = first.status.device
    launch.cancel(first)
    assert finished(third).status.device == held
    assert second.status.state == "running"
    launch.cancel(second)
