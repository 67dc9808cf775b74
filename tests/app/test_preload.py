"""What is prepared when the app starts: the first visit of a page computes none of it again."""

from collections.abc import Callable
from typing import Any

import pytest

from probes.views import curves as probing_views
from tests.app.pages import home, opened  # noqa: F401
from workbench.analyses.attribution import faithfulness
from workbench.analyses.heads.views import all_heads as heads_views
from workbench.app import tables_and_figures
from workbench.app.frame import preload
from workbench.drawing import sanitize

pytestmark = pytest.mark.usefixtures("home")


def never(what: str) -> Callable[..., Any]:
    def call(*arguments: object, **options: object) -> Any:
        raise AssertionError(f"{what} again")

    return call


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
        app = opened(page)
        assert not app.error and not app.exception
