r"""A report as LaTeX, to be typeset or taken apart for a paper: booktabs, and pictures beside it.

Any engine typesets it; characters that pdfLaTeX has no letter for stand there by their number, so
other scripts want LuaLaTeX or XeLaTeX. What comes from data is escaped. Costs the start of a
browser where there are figures.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from workbench.core.files import written_whole
from workbench.figures.sanitize import visible
from workbench.report.content import Comparison, Content, Part
from workbench.report.format import MINUS, MOST, NONE, Column, Grid
from workbench.report.images import Beside, key, write_beside

PREAMBLE = r"""\documentclass[a4paper,11pt]{article}
\usepackage{iftex}
\ifPDFTeX
  \usepackage[T1]{fontenc}
  \usepackage[utf8]{inputenc}
  \usepackage{textcomp}
  \IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
  \newcommand{\letter}[2]{\texttt{U+#1}}
\else
  \usepackage{fontspec}
  \newcommand{\letter}[2]{#2}
\fi
\usepackage[margin=25mm]{geometry}
\usepackage{array,booktabs,graphicx,longtable,pdflscape}
\setlength{\parindent}{0pt}
\setlength{\parskip}{6pt}
\setlength{\LTleft}{0pt}
\setcounter{tocdepth}{2}
\emergencystretch=3em
"""
LONG = 30  # rows of a table that may break across pages
WIDE = 36  # characters of a column before its lines break
BROAD = 84  # characters of a table before it is turned
RUN_OF = 24  # characters without a place to break
_SIGNS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}", "`": r"\textasciigrave{}", "[": "{[}", "]": "{]}", "*": "{*}",
    "\t": " ", "\n": r"\ensuremath{\hookleftarrow} ",
    MINUS: r"\ensuremath{-}", NONE: r"\textendash{}", "…": r"\ldots{}", "∞": r"\ensuremath{\infty}",
    "⟨": r"\ensuremath{\langle}", "⟩": r"\ensuremath{\rangle}", "\N{NO-BREAK SPACE}": "~",
}  # fmt: skip
_LIGATURES = re.compile("(?<=-)-|(?<=,),")  # two hyphens would be a dash, two commas a quote


def write(content: Content, path: Path) -> None:
    """Write the report, and its pictures beside it."""
    beside = write_beside(content, path, "pdf")
    whole = latex(content, beside)
    with written_whole(path) as draft:
        draft.write_text(whole, encoding="utf-8", newline="\n")


def latex(content: Content, beside: Beside) -> str:
    """The whole document."""
    blocks = [rf"\title{{{text(content.title)}}}", r"\date{}", r"\begin{document}", r"\maketitle"]
    if len(content.parts) > 1:
        blocks.append(r"\tableofcontents")
    for found in content.comparisons:
        blocks += _comparison(found)
    for part in content.parts:
        blocks += _part(part, content.heading(part), beside)
    return PREAMBLE + "\n" + "\n\n".join([*blocks, r"\end{document}"]) + "\n"


def text(value: str) -> str:
    """Text that shows as it is, whatever it holds, with places to break in long words."""
    words = re.split(r"(\s+)", visible(value, lines=True))
    return "".join(map(_word, words))


def _word(word: str) -> str:
    parts = [word[start : start + RUN_OF] for start in range(0, len(word), RUN_OF)]
    spelt = r"\allowbreak{}".join("".join(map(_sign, part)) for part in parts)
    return _LIGATURES.sub(r"{}\g<0>", spelt)


def _sign(sign: str) -> str:
    if sign in _SIGNS:
        return _SIGNS[sign]
    if sign.isascii() or ("\u00c0" <= sign <= "\u00ff" and sign not in "×÷"):
        return sign
    return rf"\letter{{{ord(sign):04X}}}{{{sign}}}"


def prose(value: str) -> str:
    """Words of ours, with names in `backticks` set apart."""
    parts = value.split("`")
    if not len(parts) % 2:
        return text(value)
    return "".join(
        rf"\texttt{{{text(part)}}}" if place % 2 else text(part) for place, part in enumerate(parts)
    )


def _part(part: Part, heading: str, beside: Beside) -> Iterator[str]:
    yield rf"\section{{{text(heading)}}}"
    if part.about:
        yield prose(part.about)
    yield from _caveats(part.of_all)
    for warning in part.warnings:
        yield rf"\textbf{{The run warned.}} {text(warning)}"
    yield r"\subsection{The question}"
    for group, rows in part.facts.items():
        if rows:
            yield rf"\subsubsection*{{{group}}}"
            yield _described(rows)
    if part.swept:
        names = ", ".join(rf"\texttt{{{text(name)}}}" for name in part.swept)
        yield rf"The {len(part.swept)} runs of this sweep: {names}."
    if part.drawings:
        yield r"\subsection{Figures}"
        yield from _figures(part, beside)
    yield r"\subsection{Tables}"
    for grid in part.tables:
        yield rf"\subsubsection{{{text(_headline(grid.name))}}}"
        yield from _caveats(part.beside(grid.name))
        yield from table(grid, part.export(grid.name, ".csv"))
    yield r"\subsection{To make it again}"
    lines = (rf"\texttt{{{text(line)}}}" for line in part.command.splitlines())
    yield "{\\raggedright " + "\\\\\n".join(lines) + "\\par}"


def _described(rows: Iterable[tuple[str, str]]) -> str:
    items = "\n".join(rf"\item[{{{text(name)}}}] {text(value)}" for name, value in rows)
    tight = r"\setlength{\itemsep}{0pt}\setlength{\parskip}{0pt}"
    return f"\\begin{{description}}{tight}\n{items}\n\\end{{description}}"


def _figures(part: Part, beside: Beside) -> Iterator[str]:
    if beside.why_not:
        yield text(beside.why_not)
    for name, drawing in part.drawings.items():
        yield rf"\subsubsection{{{text(_headline(name))}}}"
        yield from _caveats(part.beside(name))
        if place := beside.places.get(key(part.number, name)):
            size = r"width=\linewidth,height=0.8\textheight,keepaspectratio"
            yield rf"\includegraphics[{size}]{{{place}}}"
        if drawing.about:
            yield prose(drawing.about)


def table(grid: Grid, export: str = "") -> Iterator[str]:
    """A table with booktabs; a long one breaks across pages, a broad one is turned."""
    if grid.about:
        yield prose(grid.about)
    if not grid.total:
        yield "It has no rows."
        return
    broad = sum(map(_width, grid.columns)) > BROAD
    frame = "longtable" if grid.shown > LONG or broad else "tabular"
    head = [r"\toprule", _row([column.name for column in grid.columns]), r"\midrule"]
    head += [r"\endhead", r"\bottomrule", r"\endlastfoot"] if frame == "longtable" else []
    foot = [] if frame == "longtable" else [r"\bottomrule"]
    lines = [
        rf"\begin{{{frame}}}{{@{{}}{''.join(map(_place, grid.columns))}@{{}}}}",
        *head,
        *map(_row, grid.rows),
        *foot,
        rf"\end{{{frame}}}",
    ]
    drawn = "\n".join(["{\\small", *lines, "\\par}"])
    yield f"\\begin{{landscape}}\n{drawn}\n\\end{{landscape}}" if broad else drawn
    if grid.total > MOST:
        how = rf" All: \texttt{{{text(export)}}}" if export else ""
        yield f"{grid.total - MOST:,} more rows are not in this file.{how}"


def _row(cells: Sequence[str]) -> str:
    return " & ".join(map(text, cells)) + r" \tabularnewline"


def _place(column: Column) -> str:
    if column.is_number:
        return "r"
    if _width(column) < WIDE:
        return "l"
    return r">{\raggedright\arraybackslash}p{0.35\linewidth}"


def _width(column: Column) -> int:
    return min(WIDE, max(map(len, (column.name, *column.cells))))


def _caveats(texts: Iterable[str]) -> Iterator[str]:
    for one in texts:
        yield rf"\textbf{{Caveat.}} {text(one)}"


def _comparison(found: Comparison) -> Iterator[str]:
    yield rf"\section{{{len(found.runs)} runs of {text(found.experiment)} compared}}"
    yield from table(found.asked)
    yield (
        "Rows are aligned by what they speak of. A difference is a run's number less that of A; "
        r"\textendash{} is where a run has no such row."
    )
    for note in found.notes:
        yield text(note)
    for grid in found.tables:
        yield rf"\subsubsection{{{text(_headline(grid.name))}}}"
        yield from table(grid)


def _headline(name: str) -> str:
    return name[:1].upper() + name[1:].replace("_", " ")
