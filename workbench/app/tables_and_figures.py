"""A run's tables and figures on a page: a thousand rows at a time, figures in the page's theme.

Cells are drawn on a canvas, so nothing in them is read as markup. Costs: reading the table once.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import streamlit as st

from workbench.app import glossary, navigation
from workbench.app.text import plain
from workbench.core.errors import WorkbenchError
from workbench.drawing.layout import with_filled_shares
from workbench.drawing.primitives import TITLE, WIDEST
from workbench.drawing.theme import Kind, template

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from workbench.report.content import Drawing
    from workbench.report.format import Grid
    from workbench.runs.run import Run

ROWS = 1_000  # at a time
VIEW = 15  # rows in view
LARGE, HEIGHT = 24, 400  # pixels of words in a presentation; of a figure without a height
TITLE_LENGTH = 12  # characters in a line of the title of a narrow panel in a presentation
_DIFFERENCE = re.compile(r"[B-Z] − A ")
_BEYOND = re.compile(r"^([↓↑]) (.+) (\S+)$")  # a curve beyond an axis: its name, its value
_P_VALUE = re.compile(r"(?:[A-Z] )?(?:p$|(?:\w+_)?p_value)")  # of one run


def table_of(run: "Run", name: str) -> "pd.DataFrame":
    """A table of a run that is done."""
    return _read(str(run.path), run.status.ended, name)


def table_with(run: "Run", name: str, columns: Iterable[str]) -> "pd.DataFrame":
    """A table with these columns; an error if one is missing or the table is empty."""
    table = table_of(run, name)
    missing = [column for column in columns if column not in table.columns]
    if missing or table.empty:
        what = f"has no column {missing[0]!r}" if missing else "is empty"
        raise WorkbenchError(
            f"The table {name!r} of this run {what}.",
            code="table-outdated",
            where=run.name,
            remedy="It was made by another version of Workbench. Run the experiment again.",
        )
    return table


@st.cache_data(max_entries=32, show_spinner=False)
def _read(path: str, ended: str, name: str) -> "pd.DataFrame":
    from workbench.runs.run import Run

    table: pd.DataFrame = Run(Path(path)).tables[name]
    return table


def first_of_page(count: int, page_size: int, key: str) -> int:
    """Draw page numbers if needed; return the index of the first item on the open page."""
    if count <= page_size:
        return 0
    return (int(st.pagination(-(-count // page_size), key=key)) - 1) * page_size


def draw_table(table: "pd.DataFrame", key: str) -> None:
    """Draw a table, page by page if it is long."""
    first = first_of_page(len(table), ROWS, f"{key} page")
    if len(table) > ROWS:
        last = min(first + ROWS, len(table))
        st.caption(f"Rows {first + 1:,} to {last:,} of {len(table):,}.")
    head = table.iloc[first : first + ROWS]
    p_values = [
        name
        for name, dtype in head.dtypes.items()
        if dtype.kind == "f" and _P_VALUE.match(str(name))
    ]
    spaced = _spaced(head)
    st.dataframe(
        spaced.style.format(dict.fromkeys(p_values, _of_p), na_rep="–") if p_values else spaced,
        hide_index=True,
        column_config={
            str(name): _column(str(name), dtype.kind == "f" and name not in p_values)
            for name, dtype in head.dtypes.items()
        },
        height=_height(len(head), VIEW),
        placeholder="–",
        key=key,
    )


def _of_p(p: Any) -> str:
    """A p-value as findings bound it."""
    return "< 0.001" if 0 <= p < 0.001 else f"{p:.3f}"


def _spaced(table: "pd.DataFrame") -> "pd.DataFrame":
    """The table with marks of word starts drawn as spaces."""
    from workbench.drawing.sanitize import spaced

    texts = [index for index, dtype in enumerate(table.dtypes) if dtype.kind == "O"]
    shown = table.copy(deep=False)
    for index in texts:
        column = shown.iloc[:, index]
        if any(isinstance(cell, str) and spaced(cell) != cell for cell in column):
            name = shown.columns[index]
            shown[name] = [spaced(cell) if isinstance(cell, str) else cell for cell in column]
    return shown


def _height(count: int, most: int) -> Any:
    """The height of a table: that of its rows, or of the first ones if there are many."""
    return "content" if count <= most else (most + 1) * 35 + 3


def draw_grid(grid: "Grid", key: str) -> None:
    """Draw a table whose cells are already text."""
    import pandas as pd

    names = [column.name or "setting" for column in grid.columns]
    draw_table(pd.DataFrame(list(grid.rows), columns=names), key)


def _column(name: str, is_float: bool = False) -> Any:
    from workbench.drawing.sanitize import visible

    if _DIFFERENCE.match(name):
        digits = "%+.3f" if _P_VALUE.match(_DIFFERENCE.sub("", name)) else "%+.4g"
        return st.column_config.NumberColumn(visible(name), format=digits)
    if is_float:  # else 1e-30 is written with all its zeros
        return st.column_config.NumberColumn(visible(name), format="%.4g", help=_explained(name))
    return st.column_config.Column(visible(name), help=_explained(name))


def _explained(column: str) -> str | None:
    """The glossary's explanation of a column that is called like a term."""
    return glossary.terms().get(column.replace("_", " "))


def about(table: "pd.DataFrame") -> Sequence[str]:
    """The description that a table carries, if any."""
    from workbench.report.format import attributes

    description, _ = attributes(table)
    return [description] if description else []


# --- figures --------------------------------------------------------------------------------------

CONFIG = {"displaylogo": False, "modeBarButtonsToRemove": ["select2d", "lasso2d"]}


def _enlarge(figure: Any) -> None:
    """Enlarge all words of a figure for an audience, and the room that they need."""
    figure.update_layout(font_size=LARGE, height=round(1.6 * (figure.layout.height or HEIGHT)))
    figure.update_xaxes(title_font_size=LARGE, tickfont_size=LARGE)
    figure.update_yaxes(title_font_size=LARGE, tickfont_size=LARGE)
    if right := figure.layout.margin.r:  # names of curves stand there
        figure.update_layout(margin_r=round(1.9 * right))
    is_narrow = _across(figure) > FITTING  # a panel of so many has no room for a long name
    for note in figure.layout.annotations:
        if is_narrow and _is_title(note):
            note.text = "<br>".join(wrap(note.text, TITLE_LENGTH))
        elif is_narrow:
            note.text = _BEYOND.sub(r"\1 \3", note.text)
        note.font.size = max(LARGE, note.font.size or 0)
        note.yshift = 2 * (note.yshift or 0)  # names of curves are apart by lines that are larger
    if is_narrow:
        _move_apart(figure)
    for trace in figure.data:
        if "textfont" in trace:
            trace.textfont.size = LARGE
        if "colorbar" in trace:
            trace.colorbar.update(tickfont_size=LARGE, title_font_size=LARGE)
    figure.update_coloraxes(colorbar_tickfont_size=LARGE, colorbar_title_font_size=LARGE)
    if figure.layout.margin.t:
        figure.update_layout(margin_t=figure.layout.margin.t + TITLE * (_title_lines(figure) - 1))


def _move_apart(figure: Any) -> None:
    """Begin each panel further to the right: large ticks would lie on the panel before it."""
    by_middle: dict[float, float] = {}
    for axis in figure.select_xaxes(lambda axis: axis.domain):
        left, right = axis.domain
        by_middle[round((left + right) / 2, 3)] = moved = 0.15 * (right - left)
        axis.domain = (left + moved, right)
    for note in filter(_is_title, figure.layout.annotations):
        note.x += by_middle.get(round(note.x, 3), 0) / 2


def _is_title(note: Any) -> bool:
    """Whether an annotation is the title of a panel."""
    return bool(note.yref == "paper" and note.yanchor == "bottom")


def _title_lines(figure: Any) -> int:
    """The number of lines of the longest title of a panel in the first row, at least 1."""
    titles = [n for n in figure.layout.annotations if _is_title(n) and (n.y or 0) > 0.98]
    return max([1 + title.text.count("<br>") for title in titles], default=1)


def kind() -> Kind:
    """Whether the page is light or dark."""
    return "dark" if st.context.theme.type == "dark" else "light"


def figures_of(run: "Run") -> "Mapping[str, Drawing]":
    """The figures of a run that is done."""
    return _drawn(str(run.path), run.status.ended)


@st.cache_data(max_entries=16, show_spinner=False)
def _drawn(path: str, ended: str) -> "Mapping[str, Drawing]":
    from workbench.report.content import drawings
    from workbench.runs.run import Run

    return dict(drawings(Run(Path(path))))


_IN_VIEW: ContextVar[frozenset[str]] = ContextVar("claims that the page shows", default=frozenset())


@contextmanager
def claims_in_view(claims: Iterable[str]) -> Iterator[None]:
    """Figures that are drawn meanwhile have no title that is one of these claims."""
    token = _IN_VIEW.set(frozenset(claims))
    try:
        yield
    finally:
        _IN_VIEW.reset(token)


def draw_figure(drawing: "Drawing", key: str, pointed: "Callable[[], None] | None" = None) -> None:
    """Draw one figure, already sanitised, under its title and subtitle; below it, how to read it.

    `pointed` is called when the user clicks a mark; `points` then returns which one. On a phone,
    figures of more than two panels in a row scroll sideways, and say so.
    """
    is_large = navigation.is_presenting()
    figure = _finished(repr(drawing.plain), kind(), is_large, drawing)
    across = _across(figure)
    with st.container(key=f"drawn-{min(across, WIDE)} {key}", gap="small"):
        if drawing.title and drawing.title not in _IN_VIEW.get():
            st.markdown(f"**{plain(drawing.title.replace('`', ''))}**")
        if drawing.subtitle:
            st.caption(plain(drawing.subtitle))
        st.plotly_chart(
            figure,
            width=_width(figure),
            theme=None,
            key=key,
            config=CONFIG,
            alt=" ".join(filter(None, (drawing.title, drawing.about))) or drawing.name,
            on_select=pointed or "ignore",
            selection_mode="points",
        )
        if across > FITTING:
            st.html('<p class="swipe" tabindex="0">Swipe sideways to see all panels.</p>')
        beyond = _names_beyond(drawing.plain) if is_large and across > FITTING else ""
        if reading := " ".join(filter(None, (drawing.reading, beyond))):
            st.caption(plain(reading))


def _names_beyond(plain: "Mapping[str, Any]") -> str:
    """Which curve each value beyond an axis belongs to, where `_enlarge` leaves the names out."""
    values: dict[str, list[str]] = {}
    for note in plain["layout"].get("annotations", ()):
        if found := _BEYOND.match(note.get("text") or ""):
            values.setdefault(f"{found[1]} {found[2]}", []).append(found[3])
    if len(values) < 2:  # the caption names the only one
        return ""
    return "; ".join(f"{name} {', '.join(each)}" for name, each in values.items()) + "."


@st.cache_resource(max_entries=128, show_spinner=False)
def _finished(content: str, theme: Kind, is_large: bool, _drawing: "Drawing") -> "go.Figure":
    """The figure of a drawing in the theme of the page; nobody changes it any more."""
    import plotly.graph_objects as go

    figure = go.Figure(dict(_drawing.plain), skip_invalid=True)
    figure.update_layout(template=template(theme), height=_drawing.height)
    for trace, data in zip(figure.data, _drawing.plain["data"], strict=True):
        trace.update(with_filled_shares(data))
    if is_large:
        _enlarge(figure)
    return _tight(figure)


def finish_ahead(plain: "Mapping[str, Any]") -> None:
    """Prepare a figure for a light page before a visitor sees it."""
    from workbench.report.content import Drawing

    _finished(repr(plain), "light", False, Drawing("", "", "", "", plain))


FITTING, WIDE = 2, 4  # panels in a row that a phone shows whole; and as many as have a style


def _across(figure: Any) -> int:
    """The number of panels in a row; two whose rows have names need the room of three."""
    axes = [axis for axis in figure.select_xaxes() if axis.overlaying is None]
    across = max(1, len({round((axis.domain or (0.0, 1.0))[0], 2) for axis in axes}))
    has_names = any(axis.categoryarray for axis in figure.select_yaxes())
    return across + 1 if across == FITTING and has_names else across


def _width(figure: Any) -> Any:
    """The width that a map of few cells is limited to; other figures fill the page."""
    meta = figure.layout.meta
    widest = meta.get(WIDEST) if isinstance(meta, dict) else None
    limited = isinstance(widest, int) and widest > 0 and not navigation.is_presenting()
    return widest if limited else "stretch"


def _tight(figure: Any) -> Any:
    """The figure without empty room at its top, where neither a legend nor a menu is."""
    top, height = figure.layout.margin.t, figure.layout.height
    named = [trace for trace in figure.data if trace.name and trace.showlegend is not False]
    has_legend = figure.layout.showlegend is not False and (
        len(named) > 1 or any(trace.showlegend for trace in named)
    )
    if top is None or has_legend or figure.layout.updatemenus or figure.layout.title.text:
        return figure
    is_titled = any(
        (note.y or 0) > 0.98 and note.yref == "paper" for note in figure.layout.annotations
    )
    room = min(top, TITLE * _title_lines(figure) if is_titled else 8)
    return figure.update_layout(height=height - (top - room), margin={"t": room})


def points(key: str) -> list[Any]:
    """The `customdata` of the marks that the user clicked in a figure."""
    state = st.session_state.get(key) or {}
    marks = state.get("selection", {}).get("points", [])
    return [mark["customdata"] for mark in marks if mark.get("customdata")]


# --- parts of the views of a run ------------------------------------------------------------------


@st.cache_data(max_entries=64, show_spinner=False)
def remembered(key: tuple[Any, ...], _build: "Callable[[], go.Figure]") -> Mapping[str, Any]:
    """The figure that `_build` makes, as plain data; the key is all that it depends on."""
    from workbench.drawing.sanitize import harmless

    return harmless(_build())


def draw_view(
    run: "Run",
    name: str,
    figure: "go.Figure | Mapping[str, Any]",
    about: object,
    key: str = "",
    pointed: "Callable[[], None] | None" = None,
    title: str = "",
) -> None:
    """Draw a figure on a run's page; `about` is a subtitle, or the function whose docstring has
    the words.

    `pointed` is called when the user clicks a mark; `points(key)` then returns which one.
    """
    from workbench.drawing.sanitize import harmless
    from workbench.report.content import Drawing, words_of

    words = (about, "") if isinstance(about, str) else words_of(cast("Callable[..., Any]", about))
    data = figure if isinstance(figure, Mapping) else harmless(figure)
    drawing = Drawing(name, title, *words, data)
    draw_figure(drawing, key or f"{name} {run.name}", pointed)


def caption_of(about: object) -> str:
    """A caption: the text itself, or the docstring of a figure's function."""
    return about if isinstance(about, str) else " ".join((about.__doc__ or "").split())


def view_of(
    run: "Run",
    name: str,
    drawing: "Callable[[Mapping[str, pd.DataFrame]], go.Figure]",
    tables: "Mapping[str, pd.DataFrame] | None" = None,
) -> None:
    """Draw one of the run's own figures, from its tables or from the given ones.

    Its title is that of reports, if it has all rows of the run's tables.
    """
    from workbench.report.content import titles_of

    title = titles_of(run).get(name, "") if tables is None else ""
    figure = _own(run, drawing) if tables is None else drawing(tables)
    draw_view(run, name, figure, drawing, title=title)


def _own(
    run: "Run", drawing: "Callable[[Mapping[str, pd.DataFrame]], go.Figure]"
) -> Mapping[str, Any]:
    """What a function draws of all tables of a run."""
    key = ("own", str(run.path), run.status.ended, drawing.__module__, drawing.__qualname__)
    return remembered(key, lambda: drawing(run.tables))


def draw_ahead(run: "Run") -> None:
    """Draw the figures of a run before a visitor sees them."""
    from workbench.report.prose import registered

    experiment = registered(run.spec.experiment)
    for drawing in experiment.drawings().values() if experiment else ():
        with suppress(KeyError):  # the run has no such table
            finish_ahead(_own(run, drawing))


def select(label: str, options: Sequence[str], key: str, index: int = 0, **style: Any) -> str:
    """Draw a box whose choice is in the address; a value there that is no option is ignored."""
    picked = st.selectbox(label, options, index, key=key, bind="query-params", **style)
    return str(picked) if picked in options else options[index]


def segment(label: str, options: Sequence[str], key: str, **style: Any) -> str:
    """Like `select`, as a row of buttons; the first option is the default."""
    picked = st.segmented_control(
        label, options, default=options[0], required=True, key=key, bind="query-params", **style
    )
    return str(picked) if picked in options else options[0]


class Column(NamedTuple):
    """How a column is shown: heading, number format, share (shown in per cent), help."""

    heading: str
    format: str | None = None
    is_share: bool = False
    help: str | None = None


def draw_columns(
    table: "pd.DataFrame", columns: Mapping[str, Column], key: str, rows: int = VIEW, **style: Any
) -> None:
    """Draw those of the columns that the table has, under their headings."""
    import pandas as pd

    present = {name: column for name, column in columns.items() if name in table}
    shown = {
        column.heading: 100 * table[name] if column.is_share else table[name]
        for name, column in present.items()
    }
    st.dataframe(
        _spaced(pd.DataFrame(shown)),
        hide_index=True,
        height=_height(len(table), rows),
        column_config={
            column.heading: st.column_config.NumberColumn(
                format=column.format, help=column.help or _explained(column.heading)
            )
            if column.format
            else st.column_config.Column(help=column.help or _explained(column.heading))
            for column in present.values()
        },
        placeholder="–",
        key=key,
        **style,
    )


def intervals(table: "pd.DataFrame") -> list[str]:
    """The confidence interval of each row, in per cent."""
    bounds = zip(table["lower"], table["upper"], strict=True)
    return [f"{100 * lower:.1f}–{100 * upper:.1f}" for lower, upper in bounds]
