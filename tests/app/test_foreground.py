"""Work in the background waits for pages: not for ever, and not for a page that waits for it."""

import time
from threading import Event, Thread

import pytest

from workbench.app import foreground


def working(steps: list[float], ended: Event) -> Thread:
    """A thread of which each step is written down with its time."""

    def work() -> None:
        while not ended.is_set():
            foreground.let_pages_be_drawn()
            steps.append(time.monotonic())
            time.sleep(0.005)

    thread = Thread(target=work, daemon=True)
    thread.start()
    return thread


def await_more(steps: list[float], so_far: int) -> None:
    until = time.monotonic() + 5
    while len(steps) <= so_far:
        assert time.monotonic() < until, "the work does not go on"
        time.sleep(0.005)


def test_work_waits_while_a_page_is_drawn_and_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreground, "SENDING", 0.05)
    steps, ended = list[float](), Event()
    with foreground.drawing():
        began = time.monotonic()
        thread = working(steps, ended)
        time.sleep(0.1)
        assert not steps
        with foreground.waiting():  # for this work
            await_more(steps, 0)
        time.sleep(0.05)  # a step may be under way
        so_far = len(steps)
        time.sleep(0.1)
        assert len(steps) == so_far
    drawn = time.monotonic()
    await_more(steps, so_far)
    ended.set()
    thread.join()
    assert steps[so_far] >= drawn + 0.04
    assert time.monotonic() - began < 5


def test_a_page_that_takes_long_does_not_stop_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreground, "LONGEST", 0.1)
    with foreground.drawing():
        began = time.monotonic()
        foreground.let_pages_be_drawn()
        assert 0.09 < time.monotonic() - began < 5
