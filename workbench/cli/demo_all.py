"""`workbench demo --all`: every experiment on the built-in corpus and models, offline.

Each stop is a normal run, so it can be interrupted and continued, and the second time all results
are read from disk. At the end it writes one report of all runs. What an experiment shows, its
declaration says. Costs: the sum of its runs, some minutes; the next runs start while one computes.
"""

import webbrowser
from collections import deque
from itertools import islice

from workbench.cli import output
from workbench.cli.demo import begin, cancel
from workbench.core import machine
from workbench.experiment.definition import EXPERIMENTS, Demo
from workbench.runs.run import Run

AHEAD = 2  # runs that start while one computes


def stops() -> dict[str, Demo]:
    """Return what each experiment shows, in order."""
    found = {
        name: kind.demo for name, kind in EXPERIMENTS.usable()[0].items() if kind.demo is not None
    }
    return dict(sorted(found.items(), key=lambda stop: stop[1].order))


def every_experiment(json: bool = False, open_report: bool = False) -> None:
    """Run all stops in order, start the next ones meanwhile, and write the report.

    Args:
        json: Print one JSON object instead of the results.
        open_report: Open the report in a browser.
    """
    runs: list[Run] = []
    ahead: deque[tuple[Run, bool]] = deque()
    planned = stops()
    waiting = iter(planned.items())
    try:
        for number, stop in enumerate(planned.values(), start=1):
            if not json:
                output.heading(f"{number} of {len(planned)}: {stop.title}")
            ahead.extend(map(_started, islice(waiting, AHEAD + 1 - len(ahead))))
            run, from_disk = ahead.popleft()
            output.follow(run, from_disk)
            if not json or run.status.state != "done":
                output.result(run, json)
            runs.append(run)
    finally:
        cancel((run for run, _ in ahead), "workbench demo --all")
    with output.progress("writing the report"):
        from workbench.report import write_report

        title = f"Every experiment of Workbench: {len(runs)} analyses of the built-in models"
        path = write_report(runs, machine.runs() / "demo-all.html", title=title)
    if json:
        output.print_json({"runs": [run.as_data() for run in runs], "report": str(path)})
    else:
        output.heading("Report")
        print(f"{path}\nOpen it in a browser; it needs no network.")
    if open_report:
        webbrowser.open(path.resolve().as_uri())


def _started(stop: tuple[str, Demo]) -> tuple[Run, bool]:
    """Start the run of an experiment; return it, and whether it was done before."""
    experiment, shown = stop
    run = begin(experiment, shown.models, shown.corpora, shown.settings)
    return run, run.status.state == "done"
