"""What the recipe leaves: a folder with the model, its card and a report of one page.

The report has size, speed, quality, what was lost and how the model is opened, from the tables of
the run. Costs: a copy of the weights.
"""

import html
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.analyses.smaller_model.findings import cut_of, score_of, unit_of
from workbench.core.files import write_atomically
from workbench.core.findings import decimal, percent, percent_span, rows_of, span, with_unit
from workbench.core.metrics import spelt
from workbench.runs.copied_model import copied

if TYPE_CHECKING:
    from workbench.runs.run import Run

REPORT = "report.html"
STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 1.4rem 0 .3rem; }
table { border-collapse: collapse; width: 100%; } .wide { overflow-x: auto; }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #8884; }
pre { overflow-x: auto; padding: .6rem; border: 1px solid #8884; border-radius: 6px; }
"""


def written(run: "Run", out: Path | None) -> tuple[Path, Path, str]:
    """The folder of the model, copied if `out` names one, its report, and the code to open it."""
    folder = copied(run, out)
    report = (run.path if out is None else folder) / REPORT
    write_atomically(report, one_page(run))
    return folder, report, code_of(run, folder)


def code_of(run: "Run", folder: Path) -> str:
    """The code that opens the model of a folder."""
    code = str(run.tables["opening"]["code"].iloc[0])
    return code.replace("FOLDER", str(folder))


def one_page(run: "Run") -> str:
    """The report as HTML that needs no other file."""
    model, corpus = run.spec.models[0].name, run.spec.corpora[0].name
    title = html.escape(f"What can be cut from {model} on {corpus}")
    body = "\n".join(_body(run))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n{body}\n</body></html>\n"
    )


def _body(run: "Run") -> Iterator[str]:
    tables, findings = run.tables, run.findings
    for finding in findings[:1]:
        badge = f" <em>({finding.badge})</em>" if finding.badge else ""
        yield f"<p><strong>{html.escape(finding.claim)}</strong>{badge}</p>"
    test = rows_of(tables["kept"])[-1]
    if run.model is not None:
        yield from _section("Size", _size(tables))
        yield f"<p>Removed: {html.escape(cut_of(tables))}.</p>"
    yield from _section(f"Quality on {test['split']} ({test['n']} texts)", _quality(tables))
    for row in rows_of(tables["kept"]) if run.model is not None else ():
        where = "which chose the model" if row["split"] != test["split"] else "which chose nothing"
        yield (
            f"<p>On {html.escape(str(row['split']))}, {where}, it keeps "
            f"{percent(row['kept'], 1)} of {html.escape(score_of(row))} (95 % "
            f"{percent_span(row['lower'], row['upper'])}); {percent(row['bound'], 1)} were to be "
            "kept.</p>"
        )
    if "cost" in tables:
        yield from _section(
            "Speed on this machine, in a new process; ratios are medians over pairs of passes",
            _speed(tables),
        )
    for finding in findings[1:]:
        if finding.table in ("lost", "opening"):
            yield f"<h2>{'What was lost' if finding.table == 'lost' else 'Open it'}</h2>"
            yield f"<p>{html.escape(finding.claim)}</p>"
    if run.model is not None:
        yield f"<pre>{html.escape(str(tables['opening']['code'].iloc[0]))}</pre>"
    if run.caveats:
        yield "<h2>Caveats</h2><ul>"
        yield from (f"<li>{html.escape(caveat.text)}</li>" for caveat in run.caveats)
        yield "</ul>"
    yield f"<p>Run <code>{html.escape(run.name)}</code>.</p>"


Rows = list[tuple[str, ...]]


def _section(title: str, rows: Rows) -> Iterator[str]:
    yield f'<h2>{html.escape(title)}</h2><div class="wide"><table>'
    for number, row in enumerate(rows):
        tag = "td" if number else "th"
        cells = "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row)
        yield f"<tr>{cells}</tr>"
    yield "</table></div>"


def _size(tables: Any) -> Rows:
    rows: Rows = [("", "MiB on disk", "parameters", "layers")]
    rows += [
        (row["model"], decimal(row["disk"]), f"{row['parameters']:,}", str(row["layers"]))
        for row in rows_of(tables["sizes"])
    ]
    return rows


def _quality(tables: Any) -> Rows:
    rows: Rows = [("", "metric", "value", "95 % interval", "constant prediction")]
    decides = f"{tables['kept']['score'].iloc[0]} (decides)"
    for row in rows_of(tables["scores"]):
        unit = unit_of(row)
        name = decides if row["decides"] else spelt(row["metric"])
        rows.append(
            (row["model"], name, with_unit(row["value"], unit),
             span(row["lower"], row["upper"], unit), with_unit(row["baseline"], unit))
        )  # fmt: skip
    return rows


def _speed(tables: Any) -> Rows:
    rows: Rows = [("texts in a batch", "original, ms", "smaller, ms", "times as fast",
                   "95 % interval", "")]  # fmt: skip
    for row in rows_of(tables["cost"]):
        rows.append(
            (str(row["texts"]), decimal(row["original"]), decimal(row["compressed"]),
             decimal(row["speedup"], 2), span(row["lower"], row["upper"]),
             "faster" if row["faster"] else "not significantly faster")
        )  # fmt: skip
    return rows
