"""One job on a device at a time, in the order in which they came."""

import os
import signal
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.runs.conftest import Asking, done, finished, wait_until
from workbench import WorkbenchError
from workbench.runs import launch, status
from workbench.runs.launch import start
from workbench.runs.processes import device_queue
from workbench.runs.run import Run


def times(run: Run) -> tuple[str, str]:
    now = run.status
    return now.started, now.ended


def in_line(run: Run) -> bool:
    return any("Waiting for" in str(e.get("text")) for e in status.read_events(run.path)[0])


def test_never_two_at_once_and_the_first_come_first(asking: Asking) -> None:
    first, runs = start(asking(mood="numb")), list[Run]()
    wait_until(lambda: first.status.state == "running")
    for seed in (2, 1):
        runs.append(start(asking(seed, pause=0.03)))
        wait_until(lambda: in_line(runs[-1]))
    launch.cancel(first)
    spans = [times(finished(run)) for run in runs]
    assert spans == sorted(spans), "in the order in which they were asked"
    assert all("The wait for cpu is over." in status.log_lines(run.path) for run in runs)
    for (_, ended), (started, _) in pairwise(spans):
        assert ended <= started, "never two at once"


def test_who_shares_does_not_wait(asking: Asking) -> None:
    first = start(asking(mood="numb"))
    wait_until(lambda: first.status.state == "running")
    assert done(asking(1), share=True).status.device == "cpu"
    assert first.status.state == "running"
    waits = start(asking(2))
    wait_until(lambda: in_line(waits))
    assert done(asking(2), share=True) == waits and waits.status.state == "done"
    assert first.status.state == "running"
    launch.cancel(first)


def test_a_ticket_whose_holder_died_is_passed_over(asking: Asking) -> None:
    first = start(asking(0, mood="numb"))
    wait_until(lambda: first.status.state == "running")
    second = start(asking(1))
    wait_until(lambda: in_line(second))
    os.kill(second.status.pid, signal.SIGKILL)
    third = start(asking(2))
    wait_until(lambda: in_line(third))
    os.kill(first.status.pid, signal.SIGKILL)
    assert finished(third).status.state == "done"
    assert second.status.state == first.status.state == "failed"


def never(ahead: device_queue.Ahead) -> None:
    raise AssertionError(f"{ahead} before")


def test_devices_are_apart_and_any_gpu_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "_raw_device_uuid_nvml", lambda: ["GPU-a", "GPU-b"])
    with device_queue.turn("cpu", never) as cpu, device_queue.turn("cuda", never) as one:
        with device_queue.turn("cuda", never) as other:
            assert {cpu.title, one.name, other.name} == {"cpu", "GPU-a", "GPU-b"}
            with pytest.raises(KeyboardInterrupt), device_queue.turn("cuda", stop):
                pass
        with device_queue.turn("cuda:1", never):
            pass


def stop(ahead: device_queue.Ahead) -> None:
    raise KeyboardInterrupt


def test_whoever_stops_waiting_leaves_the_line(tmp_path: Path) -> None:
    with device_queue.turn("cpu", never):
        with pytest.raises(KeyboardInterrupt), device_queue.turn("cpu", stop):
            pass
        looks = []

        def look(ahead: device_queue.Ahead) -> None:
            looks.append(ahead)
            if len(looks) == 3:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt), device_queue.turn("cpu", look):
            pass
    assert looks == [(("",), ())] * 3, "it is heard at every look, and nobody is before it"
    with device_queue.turn("cpu", never):
        pass
    assert not list((tmp_path / "home" / "queue").rglob("*.ticket"))


def test_strange_files_in_the_line_are_passed_over(tmp_path: Path) -> None:
    with device_queue.turn("cpu", never):
        pass
    (folder,) = (tmp_path / "home" / "queue").iterdir()
    (folder / "x.ticket").touch()
    (folder / "counter").write_text("no number")
    (folder / "000000000001.ticket").write_bytes(b"\xff")
    clock = time.monotonic()
    with device_queue.turn("cpu", never):
        pass
    assert time.monotonic() - clock < 1


def test_a_home_without_write_access_is_an_error(
    asking: Asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").touch()
    failure = finished(start(asking())).status.failure
    assert failure and failure.kind == "input" and "WORKBENCH_HOME" in failure.remedy
    with (
        pytest.raises(WorkbenchError, match="file-unwritable"),
        device_queue.turn("cpu", never),
    ):
        pass
    assert done(asking(), share=True)
