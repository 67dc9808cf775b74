"""What is prepared when the app starts: the first visit of a page computes none of it again."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.app.pages import home, opened  # noqa: F401
from workbench.analyses.attribution import faithfulness, views
from workbench.analyses.heads.views import all_heads as heads_views
from workbench.analyses.predictions.views import results
from workbench.analyses.predictions.views.choices import EXAMPLE
from workbench.analyses.predictions.views.page import usual_side
from workbench.analyses.probes.views import curves as probing_views
from workbench.app import tables_and_figures
from workbench.app.choice import FIRST_READER
from workbench.app.frame import preload
from workbench.drawing import sanitize
from workbench.engine import forward_pass

pytestmark = pytest.mark.usefixtures("home")


def never(what: str) -> Callable[..., Any]:
    def call(*arguments: object, **options: object) -> Any:
        raise AssertionError(f"{what} again")

    return call


def test_the_explanation_of_the_example_waits_for_nothing_that_it_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What needs a pass of the model is read before the pass; else no page is ever drawn again."""
    results._top.clear()
    views._compared.clear()
    monkeypatch.setattr(forward_pass, "ALONE", lock := Watched())
    side = usual_side("mini:bert", EXAMPLE)
    assert views.compared(side, views.USUAL).maps and lock.n_held > 1


class Watched:
    """A lock that raises an error where a thread would wait for itself."""

    def __init__(self) -> None:
        self.lock, self.n_held = threading.Lock(), 0

    def __enter__(self) -> None:
        assert self.lock.acquire(timeout=0.5), "the thread waits for itself"
        self.n_held += 1

    def __exit__(self, *error: object) -> None:
        self.lock.release()


def test_first_visits_compute_nothing_that_was_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in preload._show_ahead():
        pass
    monkeypatch.setattr(heads_views, "by_role", never("draws the grid of heads"))
    monkeypatch.setattr(probing_views, "draw_curves", never("draws the curves"))
    monkeypatch.setattr(faithfulness, "faithfulness", never("checks the map"))
    assert any("Head" in str(each.value) for each in opened("heads").subheader)
    monkeypatch.setattr(sanitize, "harmless", never("draws a figure"))
    monkeypatch.setattr(tables_and_figures, "template", never("finishes a figure"))
    for page in ("probing", "pruning", "transfer", "predict"):
        query = {"model": FIRST_READER} if page == "predict" else {}  # as it opens
        app = opened(page, **query)
        assert not app.error and not app.exception
