"""A run's figures, ready to be drawn anywhere: made anew of its tables, else as the run left them.

Where the experiment is installed in the version that ran, its figures are made again, so that an
old run gets the looks of today; otherwise the run's own JSON does. Either way they are made
harmless, for a run may come from anyone. Costs milliseconds a figure.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.report.question import registered
from workbench.runs.names import is_name
from workbench.runs.run import Run
from workbench.view.harmless import harmless

USUAL_HEIGHT = 420  # pixels, where a figure does not say


@dataclass(frozen=True)
class Drawing:
    """A figure as plain data, without a template, and what it shows in words."""

    name: str
    about: str
    plain: Mapping[str, Any]  # data and layout

    @property
    def height(self) -> int:
        height = self.plain["layout"].get("height", USUAL_HEIGHT)
        return round(height) if isinstance(height, int | float) else USUAL_HEIGHT


def drawings(run: Run) -> Mapping[str, Drawing]:
    """Every figure there is to a run, by name."""
    draws, stored = _draws(run), run.figures
    found = {}
    for name in [*draws, *(own for own in stored if own not in draws)]:
        try:
            plain = harmless(draws[name](run.tables))
        except Exception:  # of an experiment that may be anyone's: a table it lacks, or a fault
            if name not in stored:
                continue
            plain = harmless(stored[name])
        found[name] = Drawing(name, _about(draws.get(name)), plain)
    return found


def _draws(run: Run) -> Mapping[str, Callable[..., Any]]:
    """The functions that draw; none for a sweep, whose tables hold several runs'."""
    experiment = None if run.spec.sweep else registered(run.spec.experiment)
    if experiment is None or experiment.version != run.spec.version:
        return {}
    try:
        return {name: draw for name, draw in experiment.drawings().items() if is_name(name)}
    except Exception:  # the home of the figures may be gone
        return {}


def _about(draw: Callable[..., Any] | None) -> str:
    """The first paragraph of what the function says of itself."""
    text = inspect.getdoc(draw) if inspect.isfunction(draw) else None
    return " ".join((text or "").split("\n\n")[0].split())
