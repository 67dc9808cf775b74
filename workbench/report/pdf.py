"""A report as PDF, typeset by Typst: it needs no browser, no LaTeX and no fonts of the machine.

Text reaches Typst only as quoted strings, which hold no markup, and Typst reads only files that
this module writes for it. The same runs give the same bytes, without a date. A character that no
font has is shown as a box; Typst takes it from any installed font that has it. Costs: some tenths
of a second per figure, and about a second for the pages.
"""

import re
import tempfile
from collections.abc import Callable, Sequence
from datetime import date
from functools import cache
from pathlib import Path

from jinja2 import Environment

from workbench.core.errors import WorkbenchError, missing_package
from workbench.core.files import write_atomically
from workbench.core.findings import listing
from workbench.drawing.sanitize import is_right_to_left, visible
from workbench.report.content import Content, Drawing
from workbench.report.drawn import pictured
from workbench.report.format import Column, Grid
from workbench.report.templating import environment
from workbench.report.text_formats import RUN_OF, uncited

ONE_LINE = 80  # characters of a command that fit on a line
WIDE = 36  # characters, above which the lines of a column break
TOGETHER = 14  # maximum number of rows of a table that stays on one page
SIZES = (9.0, 8.0, 7.0, 6.5, 6.0)  # of the letters of a table, in points
UPRIGHT, TURNED = 481, 728  # width of the text of a page, in points
LETTER, GAP = 0.52, 0.9  # widths of a letter and of a gap between columns, in sizes of the letters
_BREAK = "\u200b"  # a line may break here
_ISOLATE, _END = "\u2068", "\u2069"  # around text from right to left
_AFTER_A_JOINT = re.compile(r"(?<=[_ ])")  # where the name of a column may break
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": " "})


def write(content: Content, path: Path) -> None:
    """Write the report as PDF."""
    pdf = typeset(content, path)
    write_atomically(path, pdf)


def typeset(content: Content, path: Path) -> bytes:
    """Return the report as PDF; `path` is its file, for errors."""
    try:
        import typst
    except ImportError as error:
        raise missing_package("typst", "a report as PDF") from error
    source, images = source_of(content)
    with tempfile.TemporaryDirectory(prefix="workbench-") as temporary:
        folder = Path(temporary)  # Typst reads nothing outside
        for name, image in images.items():
            (folder / name).write_bytes(image)
        main = folder / "main.typ"
        main.write_text(source, encoding="utf-8", newline="\n")
        try:
            return typst.compile(
                main,
                root=folder,
                package_path=folder,
                package_cache_path=folder,
                font_paths=[_fonts()],
            )
        except typst.TypstError as error:
            raise WorkbenchError(
                f"the report cannot be typeset as PDF: {error}.",
                code="typesetting-failed",
                where=str(path),
                remedy="Write the report as .html, open it and print it to a file.",
            ) from error


def source_of(content: Content) -> tuple[str, dict[str, bytes]]:
    """Return the report as Typst markup, and its pictures by name."""
    images: dict[str, bytes] = {}

    def draw(drawing: Drawing, columns: int = 2) -> str:
        """Return the name of a picture; "" if the figure has marks that only Plotly draws."""
        if not (image := pictured(drawing, "svg", columns=columns)):
            return ""
        name = f"{len(images) + 1}.svg"
        images[name] = image
        return name

    template = _templates().get_template("report.typ.j2")
    return template.render(content=content, draw=draw, byline=_byline(content)), images


@cache
def _templates() -> Environment:
    """Return the Typst templates; their delimiters do not occur in Typst."""
    templates = environment(
        text,
        lambda name: f"#raw({quoted(_breakable(visible(name)))});",
        {
            "quoted": lambda value: quoted(visible(value)),
            "heading": lambda name: text(name.replace("_", f"_{_BREAK}")),
            "command": lambda command: quoted(
                _breakable(visible(command, lines=True, marks=True), ONE_LINE)
            ),
        },
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        comment_start_string="<#",
        comment_end_string="#>",
    )
    own: dict[str, Callable[..., object]] = {
        "uncited": uncited,
        "fitted": fitted,
        "upright_first": upright_first,
    }
    templates.filters |= own
    templates.globals |= {"TOGETHER": TOGETHER}
    return templates


def text(value: str) -> str:
    """Return text as Typst: a quoted string, in which long words may break.

    The semicolon ends the expression, whatever follows. Right-to-left text is isolated.
    """
    shown = _breakable(visible(value, lines=True))
    return f"#{quoted(f'{_ISOLATE}{shown}{_END}') if is_right_to_left(shown) else quoted(shown)};"


def quoted(value: str) -> str:
    """Return a string of Typst."""
    return f'"{value.translate(_ESCAPES)}"'


def _breakable(value: str, most: int = RUN_OF) -> str:
    """Return text whose words may break after so many characters."""
    return re.sub(rf"([^\s{_BREAK}-]{{{most}}})(?=[^\s-])", rf"\1{_BREAK}", value)


def fitted(grid: Grid) -> tuple[float, bool] | None:
    """Return the size of a table's letters, and whether its page is turned; None if none fits."""
    letters = sum(map(_letters, grid.columns))
    widths = {size: size * (LETTER * letters + GAP * len(grid.columns)) for size in SIZES}
    for page, smallest in ((UPRIGHT, SIZES[-2]), (TURNED, SIZES[-1])):
        for size in SIZES:
            if size >= smallest and widths[size] <= page:
                return size, page == TURNED
    return None


def upright_first(grids: Sequence[Grid]) -> list[Grid]:
    """Return the tables with those last that turn their page: each leaves a page half empty."""
    return sorted(grids, key=lambda grid: bool((fit := fitted(grid)) and fit[1]))


def _letters(column: Column) -> int:
    """Return the number of letters of the longest line of a column."""
    names = map(len, _AFTER_A_JOINT.split(column.name))
    return min(WIDE, max([*names, *map(len, column.cells)]))


def _byline(content: Content) -> str:
    """Return the version and the dates of the runs, such as `Workbench 0.1.0, 25 November 2026`."""
    provenances = [part.run.provenance for part in content.parts]
    versions = sorted({str(each.get("workbench", "")) for each in provenances} - {""})
    days = sorted({str(each.get("ended", ""))[:10] for each in provenances})
    dates = [_day(day) for day in dict.fromkeys((days[0], days[-1])) if _day(day)]
    return ", ".join(filter(None, (f"Workbench {listing(versions)}".strip(), " to ".join(dates))))


def _day(text: str) -> str:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return ""
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July",
    "August", "September", "October", "November", "December",
)  # fmt: skip


@cache
def _fonts() -> Path:
    """Return the folder of the fonts of matplotlib, which draw the figures."""
    import matplotlib

    return Path(matplotlib.get_data_path(), "fonts", "ttf")
