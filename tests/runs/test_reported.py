"""What a run reports is read once: stages, and values of curves from progress and log lines."""

from pathlib import Path

import pandas as pd

from workbench.drawing import progress
from workbench.runs import reported, status
from workbench.runs.reported import Reported
from workbench.runs.similar import Candidate, most_similar


def add(folder: Path, done: int, doing: str, total: int | None = 100) -> None:
    status.add_event(folder, "progress", done=done, total=total, doing=doing, left=None)


def test_values_of_details_and_of_log_lines_are_points(tmp_path: Path) -> None:
    add(tmp_path, 0, "reading the corpus", None)
    add(tmp_path, 10, "training: seed 0, learning rate 0.001, loss 2.5")
    add(tmp_path, 20, "training: seed 0, learning rate 0.001, loss 1.5e-1")
    status.add_event(tmp_path, "log", text="Step 1,000: loss 1.25, held-out loss 1.75.")
    status.add_event(tmp_path, "log", text="Step of no use: loss 3.")
    found = reported.reported(tmp_path)
    assert found.stages == ("reading the corpus", "training")
    assert found.total == 100
    assert found.curves == {
        ("seed 0, learning rate 0.001", "loss"): ((10.0, 2.5), (20.0, 0.15)),
        ("", "loss"): ((1000.0, 1.25),),
        ("", "held-out loss"): ((1000.0, 1.75),),
    }


def test_only_new_events_are_read_and_a_new_attempt_replaces_what_it_repeats(
    tmp_path: Path,
) -> None:
    for step in (1, 2, 3):
        add(tmp_path, step, f"training: loss {step}")
    first = reported.reported(tmp_path)
    assert reported.reported(tmp_path, first) is first
    status.add_event(tmp_path, "state", state="queued", text="")
    add(tmp_path, 2, "training: loss 9")
    second = reported.reported(tmp_path, first)
    assert second.offset == (tmp_path / status.EVENTS).stat().st_size
    assert second.curves == {("", "loss"): ((1.0, 1.0), (2.0, 9.0))}
    assert second.stages == ("training",)


def test_a_long_curve_is_thinned(tmp_path: Path) -> None:
    events = [
        {"kind": "progress", "done": n, "total": None, "doing": "training: loss 1", "left": None}
        for n in range(5_000)
    ]
    (points,) = reported._after(Reported(), events).curves.values()
    assert len(points) <= reported.MOST
    assert points[-1][0] == 4_999


def test_earlier_attempts_are_grey_and_measures_share_a_panel() -> None:
    rows = [("a", f"seed {s}", m, x, 1.0, 100) for s in (0, 1) for m in ("loss", "held-out loss")
            for x in (1.0, 2.0)]  # fmt: skip
    figure = progress.curves(pd.DataFrame(rows, columns=list(progress.COLUMNS)))
    assert [trace.showlegend is not False for trace in figure.data] == [
        False,
        False,
        True,
        True,
    ] or [trace.opacity for trace in figure.data] == [0.4, 0.4, 1.0, 1.0]
    assert len({trace.yaxis or "y" for trace in figure.data}) == 1


def test_the_median_of_the_most_similar_runs_is_chosen() -> None:
    def candidate(
        seconds: float, models: bool, corpora: bool, own: bool = True
    ) -> Candidate[float]:
        return Candidate(seconds, seconds, models, corpora, is_own=own)

    runs = [candidate(1.0, False, True), candidate(9.0, True, False), candidate(5.0, True, False)]
    assert most_similar([*runs, candidate(7.0, True, False)]) == 7.0
    assert most_similar([*runs, candidate(3.0, True, True, own=False)]) == 3.0
    assert most_similar([]) is None
