"""A run's figures on a page, in the looks of its theme. Costs milliseconds a figure."""

from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.view.theme import Kind, template

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from workbench.report.drawings import Drawing
    from workbench.runs.run import Run

CONFIG = {"displaylogo": False, "modeBarButtonsToRemove": ["select2d", "lasso2d"]}


def kind() -> Kind:
    """Whether the page is light or dark."""
    return "dark" if st.context.theme.type == "dark" else "light"


def of(run: "Run") -> "Mapping[str, Drawing]":
    """The figures of a run that is done."""
    return _drawn(str(run.path), run.status.ended)


@st.cache_data(max_entries=16, show_spinner=False)
def _drawn(path: str, ended: str) -> "Mapping[str, Drawing]":
    from pathlib import Path

    from workbench.report.drawings import drawings
    from workbench.runs.run import Run

    return dict(drawings(Run(Path(path))))


def draw(drawing: "Drawing", key: str, pointed: "Callable[[], None] | None" = None) -> None:
    """One figure, which is harmless already, with its caption.

    Where one may point at something, `pointed` is called, and `points` tells what it was.
    """
    import plotly.graph_objects as go

    figure: Any = go.Figure(dict(drawing.plain), skip_invalid=True)
    figure.update_layout(template=template(kind()), height=drawing.height)
    st.plotly_chart(
        figure,
        theme=None,
        key=key,
        config=CONFIG,
        alt=drawing.about or drawing.name,
        on_select=pointed or "ignore",
        selection_mode="points",
    )
    if drawing.about:
        st.text(drawing.about)


def points(key: str) -> list[Any]:
    """What is told of the marks that were pointed at in a figure: their `customdata`."""
    state = st.session_state.get(key) or {}
    found = state.get("selection", {}).get("points", [])
    return [point["customdata"] for point in found if point.get("customdata")]
