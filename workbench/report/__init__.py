"""Reports: the results of runs in one file that opens anywhere, without the model or the corpus.

    write_report([run], "heads.html")

A report reads like a short paper. The same runs give the same bytes, at any time. Costs: reading
the tables of the runs, and some tenths of a second per figure.
"""

import inspect
import sys
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from types import ModuleType

from workbench.core.errors import WorkbenchError, require_one_of
from workbench.core.files import user_path
from workbench.core.public import public
from workbench.runs.compare import Comparison
from workbench.runs.run import Run, opened_run

__all__ = ["ENDINGS", "write_report"]

ENDINGS = (".html", ".md", ".tex", ".pdf", ".zip")


@public
def write_report(
    runs: Run | str | Comparison | Sequence[Run | str],
    out: "str | PathLike[str]",
    *,
    title: str = "",
    notes: str = "",
) -> Path:
    """Write a report of one run, or of several runs side by side.

    Args:
        runs: A `Run` or its name, several in a list, or what `wb.compare` returns.
        out: The output file; its suffix is the format: .html, .md, .tex (with the papers cited in
            a .bib next to it), .pdf, or .zip with all data.
        title: The title (default: the experiment, models and corpora in words).
        notes: Your own comments, shown below the title; a blank line separates paragraphs.

    Returns:
        The file's path.

    Raises:
        WorkbenchError: The suffix is not known, a run is not done, the notes are longer than 20,000
            characters, or the file cannot be written.

    Example:
        >>> run = wb.run("describe", corpus="primer:size=40")
        >>> wb.report(run, "primer.html").name
        'primer.html'
    """
    path = user_path(out)
    compared = runs.runs if isinstance(runs, Comparison) else runs
    named = [compared] if isinstance(compared, Run | str) else compared
    found = [opened_run(run, "wb.report") for run in named]
    ending = path.suffix.lower()
    require_one_of(
        ending,
        ENDINGS,
        f"a report cannot be written as {ending!r}." if ending else "the file has no suffix.",
        code="format-unknown",
        where=str(path),
    )
    if not found:
        raise WorkbenchError(
            "a report needs a run.",
            code="too-few-runs",
            remedy="Name a run; workbench runs list shows them.",
        )
    for run in found:
        _require_usable_input(run)
    from workbench.report import export, html, pdf, text_formats
    from workbench.report.content import content
    from workbench.report.format import FEWER, MOST

    writers = {
        ".html": html.write,
        ".md": text_formats.write_markdown,
        ".tex": text_formats.write_latex,
        ".pdf": pdf.write,
        ".zip": export.write,
    }
    most = FEWER if ending in (".tex", ".pdf") else MOST
    writers[ending](content(found, title, notes, most), path)
    return path


def _require_usable_input(run: Run) -> None:
    """An error with the remedy of what was wrong, if bad input ended the run: it ends so again."""
    failure = run.status.failure
    if run.status.state == "failed" and failure is not None and failure.kind == "input":
        where = f"{failure.where}: " if failure.where else ""
        raise WorkbenchError(
            f"the run failed and has no results: {where}{failure.what}",
            code="run-not-finished",
            where=run.name,
            remedy=failure.remedy,
        )


class _Report(ModuleType):
    """Makes `wb.report`, which is this package, callable as `write_report`."""

    __call__ = staticmethod(write_report)


__doc__ = f"{write_report.__doc__}\n{__doc__}"
__signature__ = inspect.signature(write_report)  # of `wb.report`, as notebooks show it
sys.modules[__name__].__class__ = _Report
