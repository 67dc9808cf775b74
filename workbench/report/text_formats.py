r"""A report as Markdown or LaTeX, with its pictures in a folder next to it.

All data is escaped, so that any text appears literally. LaTeX cites the papers whose methods were
used, and writes their BibTeX entries next to it. Costs: some tenths of a second per figure.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from jinja2 import Environment

from workbench.core.files import atomic_write, write_atomically
from workbench.core.findings import MINUS
from workbench.drawing.sanitize import is_right_to_left, visible
from workbench.report.content import Content
from workbench.report.drawn import pictured
from workbench.report.format import NONE
from workbench.report.prose import Paper, cited
from workbench.report.templating import environment

Kind = Literal["svg", "pdf"]
LONG = 30  # rows, above which a LaTeX table breaks across pages
WIDE = 36  # characters, above which the lines of a column break
BROAD = 84  # characters, above which a table is in landscape format
BROADEST = 250  # characters, above which a table is left out
RUN_OF = 24  # maximum number of characters without a line break
_MARKDOWN = re.compile(r"([\\`*_\[\]|~${}])")
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": "<br>", "\t": " "})
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}", "`": r"\textasciigrave{}", "[": "{[}", "]": "{]}", "*": "{*}",
    "\t": " ", "\n": r"\ensuremath{\hookleftarrow} ",
    MINUS: r"\ensuremath{-}", NONE: r"\textendash{}", "…": r"\ldots{}", "∞": r"\ensuremath{\infty}",
    "→": r"\ensuremath{\rightarrow}", "×": r"\ensuremath{\times}", "±": r"\ensuremath{\pm}",
    "≤": r"\ensuremath{\leq}", "≥": r"\ensuremath{\geq}", "≈": r"\ensuremath{\approx}",
    "Δ": r"\ensuremath{\Delta}", "λ": r"\ensuremath{\lambda}", "α": r"\ensuremath{\alpha}",
    "⟨": r"\ensuremath{\langle}", "⟩": r"\ensuremath{\rangle}", "\N{NO-BREAK SPACE}": "~",
}  # fmt: skip
_LIGATURES = re.compile("(?<=-)-|(?<=,),")  # two hyphens would become a dash, two commas a quote


def write_markdown(content: Content, path: Path) -> None:
    """Write the report as Markdown, for a repository or a wiki, with its pictures next to it."""
    _write(_markdown_templates(), "report.md.j2", content, path, "svg")


def write_latex(content: Content, path: Path) -> None:
    """Write the report as LaTeX, for a paper, with its pictures and its papers next to it."""
    _write(_latex_templates(), "report.tex.j2", content, path, "pdf")
    if content.papers:
        with atomic_write(path.with_name(f"{_stem(path)}.bib")) as draft:
            entries = "\n\n".join(paper.entry for paper in content.papers)
            draft.write_text(f"{entries}\n", encoding="utf-8", newline="\n")


def _write(templates: Environment, name: str, content: Content, path: Path, kind: Kind) -> None:
    pictures = _write_pictures(content, path, kind)
    template = templates.get_template(name)
    report = template.render(content=content, pictures=pictures, papers=_stem(path))
    write_atomically(path, f"{report.rstrip()}\n")


def _write_pictures(content: Content, path: Path, kind: Kind) -> dict[tuple[int, str], str]:
    """Draw all figures into the folder NAME_files; return their paths, relative to the report.

    The path of a figure that only Plotly can draw is "".
    """
    paths: defaultdict[tuple[int, str], str] = defaultdict(str)
    for part in content.parts:
        for name, drawing in part.drawings.items():
            relative = f"{_stem(path)}_files/run-{part.number}-{name}.{kind}"
            if image := pictured(drawing, kind):
                write_atomically(path.parent / relative, image)
                paths[part.number, name] = relative
    return paths


def _stem(path: Path) -> str:
    """Return the name of the report without signs that links and TeX cannot have."""
    return re.sub(r"[^A-Za-z0-9-]+", "-", path.stem).strip("-") or "report"


@cache
def _markdown_templates() -> Environment:
    return environment(markdown, lambda name: f"`{visible(name)}`", {"fenced": _fenced})


@cache
def _latex_templates() -> Environment:
    """Return the LaTeX templates; their delimiters do not occur in LaTeX."""
    templates = environment(
        latex,
        lambda name: rf"\texttt{{{latex(name)}}}",
        {},
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        comment_start_string="<#",
        comment_end_string="#>",
    )
    templates.globals |= {"LONG": LONG, "WIDE": WIDE, "BROAD": BROAD, "BROADEST": BROADEST}
    templates.filters["uncited"] = uncited
    return templates


def markdown(value: str) -> str:
    """Return text as Markdown; right-to-left text is isolated."""
    shown = _MARKDOWN.sub(r"\\\1", visible(value, lines=True)).translate(_HTML)
    return f"\u2068{shown}\u2069" if is_right_to_left(shown) else shown


def uncited(papers: Sequence[Paper], method: Sequence[str]) -> list[Paper]:
    """Return the papers that the words of the method do not cite."""
    found = [paper for text in method for _, paper in cited(text, papers)]
    return [paper for paper in papers if paper not in found]


def _fenced(command: str) -> str:
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", command)), default=0))
    return f"{fence}sh\n{visible(command, lines=True, marks=True)}\n{fence}"


def latex(value: str) -> str:
    """Return text as LaTeX, with possible line breaks in long words."""
    words = re.split(r"(\s+)", visible(value, lines=True))
    return "".join(map(_word, words))


def _word(word: str) -> str:
    parts = [word[start : start + RUN_OF] for start in range(0, len(word), RUN_OF)]
    spelt = r"\allowbreak{}".join("".join(map(_sign, part)) for part in parts)
    return _LIGATURES.sub(r"{}\g<0>", spelt)


def _sign(sign: str) -> str:
    if sign in _LATEX:
        return _LATEX[sign]
    if sign.isascii() or ("\u00c0" <= sign <= "\u00ff" and sign not in "×÷"):
        return sign
    return rf"\letter{{{ord(sign):04X}}}{{{sign}}}"
