"""The output of the commands: results on standard output, progress on standard error.

Costs: milliseconds; tables of thousands of rows take longer.
"""

import codecs
import json
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from itertools import zip_longest
from textwrap import shorten
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from workbench.core.analysis import INSIDE, announced, faults, is_built_in
from workbench.core.errors import WorkbenchError
from workbench.core.findings import Finding, percent, plural
from workbench.core.objectives import described
from workbench.runs.status import CODES, Status

if TYPE_CHECKING:
    import pandas as pd

    from workbench.core.doctor import Facts
    from workbench.corpora.catalogue import Catalogue
    from workbench.corpora.describe import Description
    from workbench.runs.run import Run

_OF_RUN = re.compile(r"[A-Z] ")  # beginning of a column of one run, or of a difference
SHORT = 8  # maximum number of rows of a table that `run` prints
WIDE = 120  # characters of a terminal in which a list of runs has all columns
LONG_CLAIM = 120  # characters, above which a finding in a list is cut


def follow(run: "Run", from_disk: bool | None = None, resumed_by: str | None = None) -> None:
    """Show the progress of a run until it has ended; an interrupt cancels it, with exit code 130.

    `resumed_by`: what continues it then (default: `workbench runs resume`).
    `from_disk`: whether the run was done before it was requested (default: whether it is done now).
    """
    from workbench.runs.interactive.progress import watched
    from workbench.runs.launch import cancel

    if from_disk is None:
        from_disk = run.status.state == "done"
    if from_disk:
        note(f"Read from disk: {run.name} was computed before.")
        if not is_built_in(announced("experiments").get(run.spec.experiment, f"{INSIDE}.")):
            note("If its code has changed since, raise its version, or remove the run first.")
        for warning in run.warnings:
            note(warning)
        return
    try:
        watched(run)
    except KeyboardInterrupt:
        note(f"Interrupted: cancelling {run.name}.")
        if run.status.under_way:
            cancel(run)
        note(f"Continue with: {resumed_by or f'workbench runs resume {run.name}'}")
        raise SystemExit(130) from None


def import_ahead() -> None:
    """Import what the tables of a result need, while its run is computed."""
    threading.Thread(target=import_module, args=("pandas",), daemon=True).start()


def started(run: "Run", json: bool) -> None:
    """Print a run that was started and is not waited for."""
    if json:
        print_json(run.as_data())
    else:
        print(f"{run.name}: {run.status.state}")


def result(run: "Run", json: bool) -> None:
    """Print a run that has ended: what it found, or its error; exit with the code of the error.

    `follow` has printed its log.
    """
    now = run.status
    if json:
        print_json(run.as_data())
    elif now.state == "done":
        print(f"{run.name}: done in {now.seconds:.1f} s\n")
        print_findings(run.findings)
        tables = list(run.tables)
        shown = [each.table for each in run.findings if each.table in tables][:1] or tables[:1]
        for name in shown:
            _table(name, run.tables[name], SHORT)
        _caveats(run)
        rest = f"{plural(len(tables), 'table')} and {plural(len(run.figures), 'figure')}"
        print(f"{rest}: workbench runs show {run.name}")
        print(f"Report: workbench report {run.name} --out report.html")
    if now.state == "done":
        return
    _failure(run, now)
    raise SystemExit(2 if now.failure and now.failure.kind == "input" else CODES[now.state])


def print_findings(findings: Sequence[Finding], title: str = "Findings") -> None:
    """Print findings as a numbered list, the first with its number; each says its verdict."""
    if not findings:
        return
    from workbench.drawing.sanitize import visible  # labels of a corpus may control a terminal

    out.print(title, style="bold")
    for number, finding in enumerate(findings, start=1):
        text = Text(visible(f"{finding.claim}{_verdict(finding)}"))
        lines = [*text.wrap(out, max(20, out.width - 5))]
        if number == 1 and (more := _strip(finding)):
            lines += [*Text(more).wrap(out, max(20, out.width - 5))]
        for index, line in enumerate(lines):
            print(f"{number:3}. {line}" if index == 0 else f"     {line}")
    print()


def _strip(finding: Finding) -> str:
    """Return the number and the verdict of the finding that stands for a run, below its claim."""
    verdict = "" if finding.badge else f"[{finding.verdict}]"
    number = f"{finding.measure}: {finding.key_number}" if finding.key_number else ""
    return " ".join(filter(None, (number, verdict)))


def _verdict(finding: Finding) -> str:
    decided_by = f"; would decide it: {finding.decided_by}" if finding.decided_by else ""
    return f" [{finding.badge}{decided_by}]" if finding.badge else ""


def _caveats(run: "Run") -> None:
    for caveat in run.caveats:
        print(f"Caveat: {caveat.text}")


def _failure(run: "Run", now: Status) -> None:
    if now.failure is None:
        print(f"{run.name}: {now.state}", file=sys.stderr)
        return
    print(f"error: {now.failure.error()}", file=sys.stderr)
    if now.failure.kind == "died":  # the remedy of a bug has the command
        print(f"Details: workbench runs show {run.name}", file=sys.stderr)


def _table(name: str, table: "pd.DataFrame", max_rows: int) -> None:
    columns = list(map(str, table.columns))
    rows = _rows(table, max_rows)
    n_columns = columns_that_fit(columns, rows)
    cut = []
    if len(table) > max_rows:
        cut.append(f"{max_rows:,} of {len(table):,} rows")
    if n_columns < len(columns):
        cut.append(f"{n_columns} of {len(columns)} columns")
    more = f" (the first {', '.join(cut)})" if cut else ""
    print_table(f"Table {name}{more}", columns[:n_columns], [row[:n_columns] for row in rows])


def _rows(table: "pd.DataFrame", max_rows: int) -> list[tuple[object, ...]]:
    head = table.head(max_rows)
    return [
        tuple(
            _p_value(value) if name == "p" else value
            for name, value in zip(table.columns, map(_plain, row), strict=True)
        )
        for row in head.itertuples(index=False)
    ]


def _p_value(value: object) -> object:
    """Return a p-value that only two digits make 0.05 with as many as show on which side it is."""
    from workbench.core.stats import SIGNIFICANT

    if not isinstance(value, float) or value == SIGNIFICANT:
        return value
    digits = next(n for n in range(2, 20) if round(value, n) != SIGNIFICANT)
    return f"{value:.{digits}f}" if digits > 2 else value


def _plain(value: Any) -> object:
    """Return a cell as a Python value; a missing value is empty."""
    if hasattr(value, "tolist"):  # of numpy: a number, or a list or set that a table stores
        value = value.tolist()
    if value is None or value != value:
        return ""
    return str(value) if isinstance(value, bool) else value


def run_list(
    statuses: Sequence[tuple["Run", Status]],
    built_in: Sequence[tuple["Run", Status]],
    max_runs: int | None,
    json: bool,
) -> None:
    """Print the user's runs with their status, and below them the built-in results.

    Without `max_runs`, all of them, each with the runs that it has started.
    """
    if json:
        own, shipped = ([_brief(run, now) for run, now in each] for each in (statuses, built_in))
        print_json({"runs": own, "built_in": shipped})
        return
    if statuses:
        _print_runs(statuses, max_runs)
    else:
        from workbench.core.machine import runs

        print(f"There are no runs in {runs()}.\n")
    if built_in:
        _print_built_in([run for run, _ in built_in])


def _print_runs(statuses: Sequence[tuple["Run", Status]], max_runs: int | None) -> None:
    """Print a line for each run that no other has started; without a maximum, also for those."""
    from workbench.runs.run import stored_headline
    from workbench.runs.status import families

    opened = {run.name: run for run, _ in statuses}
    grouped = families((run.name, now) for run, now in statuses)
    listed = [(opened[name], now, parts) for (name, now), parts in grouped[:max_runs]]
    hidden = len(statuses) - len(listed)
    which = f"the newest {len(listed)} of {len(grouped):,}; " if len(grouped) > len(listed) else ""
    more = f" ({which}--all lists all)" if hidden and max_runs is not None else ""
    wide = out.width >= WIDE
    columns = ["run", "status", "models", "corpora"]
    columns += ["created (UTC)", "duration", "finding"] if wide else []
    rows = []
    below: list[str] = []
    for whole, of_whole, parts in listed:
        listed_parts = [(opened[name], now, True) for name, now in parts if max_runs is None]
        for run, now, is_part in [(whole, of_whole, False), *listed_parts]:
            state = _state(run, now)
            if parts and not is_part:
                state += f" (started {len(parts)})"
            name = f"  {run.name}" if is_part else run.name
            row = [name, state, ", ".join(now.models), ", ".join(now.corpora)]
            if wide:
                row += [
                    now.created[:16].replace("T", " "),
                    f"{now.seconds:.1f} s" if now.state == "done" else "",
                ]
            claim = _in_line(stored_headline(run.path, now), LONG_CLAIM)
            rows.append([*row, claim] if wide else row)
            below.append("" if wide else claim)
    print_table(f"Runs{more}", columns, rows, below)


def _print_built_in(runs: Sequence["Run"]) -> None:
    """Print a line for each built-in result: its name and its first finding."""
    from workbench.runs.run import stored_headline

    longest = max(len(run.name) for run in runs)
    room = max(20, min(out.width, WIDE) - longest - 2)
    claims = [_in_line(stored_headline(run.path, run.status), room) for run in runs]
    rows = [(run.name, claim) for run, claim in zip(runs, claims, strict=True)]
    print_table("Built-in results, shipped with Workbench", ("run", "finding"), rows)


def _in_line(finding: Finding | None, room: int) -> str:
    """Return the number or the missing support of a finding, and its claim, which may be cut."""
    if finding is None:
        return ""
    first = finding.number if finding.verdict == "supported" else f"[{finding.verdict}]"
    return shorten(f"{first}: {finding.claim}" if first else finding.claim, room, placeholder=" …")


def _state(run: "Run", now: Status) -> str:
    if run.is_builtin and now.state == "done":
        return "built-in, incomplete" if _is_incomplete(run, now) else "built-in"
    return f"{now.state}, incomplete" if _is_incomplete(run, now) else now.state


def _is_incomplete(run: "Run", now: Status) -> bool:
    """Return whether files of a run that is done are missing, or its provenance is damaged."""
    try:
        return now.state == "done" and bool(run.missing)
    except WorkbenchError:
        return True


def _brief(run: "Run", now: Status) -> dict[str, Any]:
    from workbench.runs.run import stored_headline

    first = stored_headline(run.path, now)
    return {
        "run": run.name,
        "path": str(run.path),
        "status": now.state,
        "experiment": now.experiment,
        "models": list(now.models),
        "corpora": list(now.corpora),
        "created": now.created,
        "seconds": round(now.seconds, 3),
        "part_of": now.part_of,
        "finding": first.claim if first else "",
        "key_number": first.key_number if first else "",
        "verdict": first.verdict if first else "",
        "built_in": run.is_builtin,
    }


def run(run: "Run", json: bool) -> None:
    """Print one run: its findings, request, status, tables, caveats and the end of its log."""
    from workbench.runs import notes
    from workbench.runs.status import log_lines

    now, spec, note = run.status, run.spec, notes.read(run.path)
    if json:
        data = run.as_data() | {"spec": spec.model_dump(mode="json")}
        data |= {"tags": note.tags, "note": note.text}
        if now.state == "done":
            data["provenance"] = dict(run.provenance)
        print_json(data | {"log": list(log_lines(run.path))})
        return
    rows = [
        ("run", run.name),
        ("status", _state(run, now)),
        ("experiment", f"{spec.experiment}, version {spec.version}"),
        ("models", ", ".join(f"{m.name} ({m.hash[:12]}, {m.precision})" for m in spec.models)),
        ("corpora", ", ".join(f"{c.name} ({c.hash[:12]})" for c in spec.corpora)),
        ("split", spec.split or "all"),
        ("seed", str(spec.seed)),
        ("settings", ", ".join(f"{k}={v}" for k, v in run.settings.items() if k not in run.sweep)),
        ("sweep", ", ".join(f"{k}={v}" for k, v in run.sweep.items())),
        ("device", now.device),
        ("created (UTC)", now.created),
        ("duration", f"{now.seconds:.1f} s" if now.state == "done" else ""),
        ("attempts", str(now.attempt)),
        ("tags", ", ".join(note.tags)),
        ("note", note.text),
        ("folder", str(run.path)),
        ("command", str(run.provenance["command"]) if run.is_builtin else ""),
    ]
    if now.state == "done":
        print_findings(run.findings)
    print_table("Run", ("", ""), [row for row in rows if row[1]])
    if now.state == "done":
        about = [(n, len(run.tables[n]), run.tables[n].attrs["about"]) for n in run.tables]
        print_table("Tables", ("table", "rows", ""), about)
        if figures := list(run.figures):
            print(f"Figures: {', '.join(figures)}\n")
        _caveats(run)
    elif now.failure:
        print(f"error: {now.failure.error()}\n")
    if now.state != "done" and (lines := log_lines(run.path)):
        print("Last lines of the log:", *(f"    {line}" for line in lines), sep="\n")


def verified(damage: Mapping[str, Sequence[str]], json: bool) -> None:
    """Print what is wrong with each run; exit with 1 if any is damaged."""
    from workbench.runs.run import BUILT_IN, recompute_remedy

    damaged = {name: list(problems) for name, problems in damage.items() if problems}
    if json:
        print_json({"checked": len(damage), "damaged": damaged})
    else:
        for name, problems in damaged.items():
            print(f"{name}:", *problems, sep="\n    ")
            are_missing = name.startswith(BUILT_IN) or all(
                problem.endswith(" is missing") for problem in problems
            )
            remove = f"Remove it with workbench runs rm {name} --yes, and start it again."
            print(f"    {recompute_remedy(name) if are_missing else remove}")
        runs = "run" if len(damage) == 1 else "runs"
        print(f"{len(damage):,} {runs} checked, {len(damaged):,} damaged.")
    if damaged:
        raise SystemExit(1)


def comparison(runs: Sequence["Run"], json: bool) -> None:
    """Print what changed between runs: findings, and tables side by side with differences."""
    from workbench.runs.compare import LETTERS, caveats_of, compare, groups

    letters = dict(zip(LETTERS, (run.name for run in runs), strict=False))
    tables = compare(*runs)
    if json:
        records = {name: _records(table) for name, table in tables.items()}
        findings = [finding.as_data() for finding in tables.findings]
        print_json({"runs": letters, "findings": findings, "tables": records})
        return
    differing = {name: values for name, values in groups(runs).items() if name != "run"}
    rows = list(zip(letters, letters.values(), *differing.values(), strict=True))
    print_table("Runs", ("", "run", *differing), rows)
    print_findings(tables.findings, "What changed")
    for name, table in tables.items():
        rows = list(_laid_out(table, list(letters)))
        more = f" (the first {ROWS} of {len(rows):,} rows)" if len(rows) > ROWS else ""
        keys, same = _row_keys(table)
        of = f": {', '.join(f'{key} {_plain(table[key].iloc[0])}' for key in same)}" if same else ""
        differences = [f"{letter} − A" for letter in letters if letter != "A"]
        columns = [*keys, "", *letters, *differences]
        if rows:  # else the table has no numbers
            print_table(f"Table {name}{of}{more}", columns, rows[:ROWS])
    for caveat in caveats_of(runs):
        print(f"Caveat: {caveat}")


def _laid_out(table: "pd.DataFrame", letters: Sequence[str]) -> Iterator[tuple[object, ...]]:
    """Yield a row for each number: keys, its name, its value in each run, signed differences."""
    keys, _ = _row_keys(table)
    numbers = [str(key)[2:] for key in table.columns if re.match("A ", str(key))]
    for row in table.to_dict("records"):
        for number in numbers:
            values = [_whole(row[f"{letter} {number}"]) for letter in letters]
            others = [letter for letter in letters if letter != "A"]
            differences = [_signed(_whole(row.get(f"{one} − A {number}"))) for one in others]
            yield (*(_plain(row[key]) for key in keys), number, *values, *differences)


def _row_keys(table: "pd.DataFrame") -> tuple[list[str], list[str]]:
    """Return the keys that tell rows apart, and those that are the same in all of several rows."""
    keys = [str(key) for key in table.columns if not _OF_RUN.match(str(key))]
    own = [key for key in keys if len(table) < 2 or table[key].nunique(dropna=False) > 1]
    return own, [key for key in keys if key not in own]


def _whole(value: Any) -> object:
    """Return a whole number as an int: a column with a missing value has floats."""
    value = _plain(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _signed(value: Any) -> str:
    value = _plain(value)
    if isinstance(value, float):
        return f"{value:+.4g}"
    return f"{value:+,}" if isinstance(value, int) else ""


def _records(table: "pd.DataFrame") -> list[dict[str, object]]:
    return [
        {str(key): None if value == "" else value for key, value in zip(table, row, strict=True)}
        for row in _rows(table, len(table))
    ]


def experiments() -> list[dict[str, Any]]:
    """Return the name and description of every experiment, or why it cannot be imported."""
    from workbench.experiment.definition import EXPERIMENTS

    rows = []
    for name in EXPERIMENTS:
        try:
            rows.append({"name": name, "about": EXPERIMENTS[name].about})
        except WorkbenchError as error:
            rows.append({"name": name, "about": f"cannot be used: {error.what}"})
    return rows


def print_experiments(experiments: Sequence[Mapping[str, Any]]) -> None:
    """Print the list of experiments."""
    print_table("Experiments", ("name", ""), [(e["name"], e["about"]) for e in experiments])
    print("Settings of an experiment: workbench experiments show NAME")
    for fault in faults():
        note(str(fault))


def experiment(
    name: str, models: Sequence[str], corpora: Sequence[str], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings, requirements and tables of an experiment.

    If models or corpora are named, also whether the experiment can use them, and why not.
    """
    from workbench.experiment.definition import EXPERIMENTS
    from workbench.runs.request import checked_settings, fits

    kind = EXPERIMENTS[name]
    schema = kind.settings.model_json_schema()["properties"]
    checked = checked_settings(kind, settings)
    defaults = checked.model_dump(mode="json")
    data: dict[str, Any] = {
        "name": kind.name,
        "about": kind.about,
        "version": kind.version,
        "models": list(kind.models),
        "corpora": list(kind.corpora),
        "splits": list(kind.default_splits),
        "needs": {
            "models": [need.what for need in kind.needs_for(kind.settings())],
            "layers": list(kind.layers_for(checked)),
        },
        "settings": {
            field: {
                "about": about.get("description", ""),
                "default": defaults[field],
                **_bounds(about),
            }
            for field, about in schema.items()
        },
        "tables": {table: about.about for table, about in kind.tables.items()},
    }
    if models or corpora:
        reasons = fits(kind, checked, models, corpora)
        data |= {"fits": not reasons, "reasons": [str(reason) for reason in reasons]}
    return data


def _bounds(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the bounds and choices of a setting, from its schema."""
    keys = {
        "minimum": "least",
        "exclusiveMinimum": "above",
        "maximum": "most",
        "exclusiveMaximum": "below",
        "enum": "choices",
    }
    parts = [about, about.get("items", {}), *about.get("anyOf", ())]
    return {keys[key]: part[key] for part in parts for key in keys if key in part}


def print_experiment(data: Mapping[str, Any]) -> None:
    """Print one experiment."""
    print(f"{data['name']}: {data['about']}\n")
    rows = [
        (name, str(setting["default"]), _allowed(setting), setting["about"])
        for name, setting in data["settings"].items()
    ]
    print_table("Settings", ("setting", "default", "allowed", ""), rows)
    print_table("Tables", ("table", ""), data["tables"].items())
    if data["corpora"][1] != 0:
        print(f"Default split: {', else '.join([*data['splits'], 'all'])}")
    needs = [*data["needs"]["models"], *data["needs"]["layers"]]
    if needs:
        print(f"Needs: {', '.join(needs)}")
    if "fits" in data:
        print("Ready to run." if data["fits"] else "Cannot run:")
        for reason in data["reasons"]:
            print(f"  {reason}")


def _allowed(setting: Mapping[str, Any]) -> str:
    """Return the bounds and choices of a setting as text."""
    signs = {"least": "≥", "above": ">", "most": "≤", "below": "<"}
    bounds = [f"{sign} {setting[key]}" for key, sign in signs.items() if key in setting]
    return ", ".join([*bounds, *map(str, setting.get("choices", ()))])


# --- printing: results on standard output, everything else on standard error ----------------------
#
# Progress is shown in a terminal only, so that pipes and logs contain results only.

Item = TypeVar("Item")
ROWS = 12  # maximum number of rows of a long table; --json prints all

out = Console(highlight=False, soft_wrap=True)
err = Console(highlight=False, soft_wrap=True, stderr=True)


def print_json(data: Mapping[str, Any]) -> None:
    """Print the JSON object of a command with --json; as ASCII if UTF-8 cannot be printed."""
    text = json.dumps(data, ensure_ascii=False, indent=2)
    try:
        text.encode("utf-8")  # fails for file names that are not UTF-8
        plain = codecs.lookup(getattr(sys.stdout, "encoding", None) or "utf-8").name == "utf-8"
    except UnicodeEncodeError:
        plain = False
    print(text if plain else json.dumps(data, indent=2))


class Answer(Protocol):
    """What a command that answers at once prints: a dataclass whose repr is its text."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def notes(self) -> Sequence[str]: ...

    def as_dict(self) -> Mapping[str, Any]: ...


def answer(found: Answer, json: bool) -> None:
    """Print a result, with its notes on standard error; or all of it as JSON."""
    if json:
        print_json(found.as_dict())
        return
    for text in found.notes:
        note(text)
    print(repr(replace(found, notes=())))


def note(text: str) -> None:
    """Print a note on standard error."""
    err.print(f"note: {text}", markup=False)


@contextmanager
def progress(doing: str) -> Iterator[Callable[[int], None]]:
    """Show a spinner with a counter in a terminal; call the yielded function with the count."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(doing)
        yield lambda done: bar.update(task, description=f"{doing}: {done:,}")


def counted(items: Iterable[Item], done: Callable[[int], None]) -> Iterator[Item]:
    """Yield the same items, and report the count after each."""
    for number, item in enumerate(items, start=1):
        yield item
        done(number)


def heading(text: str) -> None:
    """Print a heading."""
    out.print(f"\n{text}", style="bold", markup=False)
    out.print("─" * len(text))


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    below: Sequence[str] = (),
) -> None:
    """Print a table on standard output: text left-aligned, numbers right-aligned.

    `below` are texts under the rows, over the whole width.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    drawn, widths = _columns(columns, cells), _widths(columns, cells)
    right = [column.justify == "right" for column in drawn.columns]
    whole = [column.no_wrap for column in drawn.columns]

    def lines(row: Sequence[str], header: bool = False) -> Iterator[str]:
        folded = [
            [cell]
            if cell.isascii() and cell.isprintable() and len(cell) <= width
            else _folded(cell, width, cut)
            for cell, width, cut in zip(row, widths, whole, strict=True)
        ]
        if header:  # broken at underscores, aligned at the bottom
            folded = [
                [line.replace("_ ", "_") for line in _folded(_spaced(cell), width, no_wrap=False)]
                if len(part) > 1
                else part
                for cell, part, width in zip(row, folded, widths, strict=True)
            ]
            height = max(map(len, folded), default=0)
            folded = [[""] * (height - len(part)) + part for part in folded]
        for line in zip_longest(*folded, fillvalue=""):
            parts = zip(line, widths, right, strict=True)
            yield (" " * BETWEEN).join(_aligned(*part) for part in parts).rstrip()

    header = lines(columns, header=True) if any(columns) else ()
    with out.capture() as capture:
        for line in (title, *header) if title else header:
            out.print(Text(line, style="bold"))
    print(capture.get(), end="")
    for row, text in zip_longest(cells, below, fillvalue=""):
        for line in lines(row):
            print(line)
        for part in _folded(_cell(text), out.width - INDENT, no_wrap=False) if text else ():
            print(f"{'':{INDENT}}{part}".rstrip())
    print()


def _columns(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> Table:
    """Return a table without rows, with the minimum width of each column."""
    drawn = Table(
        show_header=any(columns),
        box=None,
        pad_edge=False,
        padding=(0, BETWEEN, 0, 0),
    )
    longest = [max((len(row[i]) for row in cells), default=0) for i in range(len(columns))]
    minimum = [min(NARROW, size) for size in longest]
    for whole in (list(map(max, minimum, map(_word, columns))), minimum):
        fits = sum(whole) + BETWEEN * len(whole) <= out.width + BETWEEN
        if fits:
            minimum = whole
            break
    for i, column in enumerate(columns):
        numeric = bool(cells) and all(_is_number(row[i]) for row in cells)
        drawn.add_column(
            column,
            justify="right" if numeric else "left",
            overflow="fold",
            min_width=minimum[i] if fits else None,  # headers are folded before cells
            no_wrap=column == "run",  # users copy these names
        )
    return drawn


def _widths(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    """Return the width that rich gives each column, from its longest cell and longest word.

    Rich needs a fifth of a millisecond per cell, which is slow for thousands of rows.
    """
    drawn = _columns(columns, cells)
    for i in range(len(columns)):
        texts = {row[i] for row in cells}
        for cell in {
            *(text for text in texts if not text.isprintable()),
            max(texts, key=cell_len, default=""),
            max(texts, key=lambda text: max(map(cell_len, text.split()), default=0), default=""),
        }:
            drawn.add_row(*("" if i != j else Text(cell) for j in range(len(columns))))
    widths = [_Width() for _ in columns]
    drawn.add_row(*widths)
    with out.capture():
        out.print(drawn)
    return [width.width for width in widths]


class _Width:
    """An empty cell that stores the width of its column."""

    width = 0

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(0, 0)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.width = options.max_width
        yield ""


@lru_cache(4096)
def _folded(cell: str, width: int, no_wrap: bool) -> list[str]:
    """Return the lines of a cell; words that are longer than a line are broken."""
    options = out.options.update(width=width, no_wrap=no_wrap, overflow="fold")
    lines = out.render_lines(Text(cell), options, pad=False)
    return ["".join(segment.text for segment in line).rstrip() for line in lines]


def _aligned(text: str, width: int, right: bool) -> str:
    blank = " " * (width - (len(text) if text.isascii() and text.isprintable() else cell_len(text)))
    return blank + text if right else text + blank


NARROW, BETWEEN = 10, 2  # characters: minimum width of a wide column, and between columns
INDENT = 4  # characters in front of a text below a row


def _spaced(header: str) -> str:
    """Return a header with spaces where it may be broken."""
    return header.replace("_", "_ ")


def _word(header: str) -> int:
    """Return the length of a header's longest word, which is not broken if there is room."""
    return max(map(cell_len, _spaced(header).split()), default=0)


def columns_that_fit(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> int:
    """Return how many columns are readable side by side; words are broken, numbers are not."""
    room = out.width
    for index, column in enumerate(columns):
        longest = max((len(_cell(row[index])) for row in rows), default=0)
        room -= max(min(NARROW, longest), _word(column), 4) + BETWEEN
        if room < -BETWEEN and index > 0:
            return index
    return len(columns)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1e}" if 0 < abs(value) < 0.005 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _is_number(cell: str) -> bool:
    return cell.lstrip("+-").replace(",", "").replace(".", "").rstrip(" %").isdigit()


def print_description(description: "Description") -> None:
    """Print the counts of a corpus as tables; long tables are cut."""
    d = description
    print_table(
        f"Corpus {d.name}".rstrip(),
        ("split", "Docs", "documents", "sentences", "words", "types"),
        [(s.split, s.docs, s.documents, s.sentences, s.words, s.types) for s in d.splits],
    )
    if d.lengths:
        print_table(
            "Words per sentence",
            ("minimum", "median", "mean", "maximum"),
            [(d.lengths.min, d.lengths.median, d.lengths.mean, d.lengths.max)],
        )
    _counts("Universal tags", d.upos)
    _counts("Treebank tags", d.xpos)
    if d.relations:
        _cut(
            "Relations, with the most frequent offset from the dependent to its governor",
            ("relation", "count", "offset", "share"),
            [(r.label, r.count, f"{r.offset:+d}", percent(r.share)) for r in d.relations],
        )
    for layer, labels in d.labels.items():
        _counts(f"Layer {layer}", labels)
    if d.coreference:
        rows = [(d.coreference.chains, d.coreference.mentions)]
        print_table("Coreference", ("chains", "mentions"), rows)
    for label, classes in d.classes.items():
        _counts(f"Label {label}", classes)
    for label, s in d.scores.items():
        print_table(
            f"Label {label}",
            ("texts", "minimum", "mean", "maximum"),
            [(s.count, s.min, s.mean, s.max)],
        )
    _counts("Words", d.words)
    if d.zipf:
        out.print(f"Zipf exponent {d.zipf.slope:.2f} over ranks {d.zipf.first} to {d.zipf.last}")


def _counts(title: str, counts: Mapping[str, int]) -> None:
    if counts:
        _cut(title, ("", "count"), list(counts.items()))


def _cut(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    more = f" (the first {ROWS} of {len(rows):,})" if len(rows) > ROWS else ""
    print_table(title + more, columns, rows[:ROWS])


def print_facts(facts: "Facts") -> None:
    """Print the facts of `workbench doctor`; missing packages last."""
    device = facts.device
    print_table(
        "Machine",
        ("", ""),
        [
            ("Workbench", facts.workbench),
            ("Python", facts.python),
            ("platform", facts.platform),
            ("device", "; ".join((device.kind, *device.names))),
            ("CPU", f"{device.cores} cores, {device.threads} threads used"),
            ("spaCy pipelines", ", ".join(facts.pipelines) or "none"),
            *(
                (name, f"{folder} ({facts.free_bytes[name] / 2**30:,.0f} GiB free)")
                for name, folder in facts.folders.items()
            ),
        ],
    )
    print_table(
        "Packages",
        ("package", "installed", "required"),
        [(p.name, p.installed or "none", p.wanted or "any") for p in facts.packages],
    )
    if not facts.missing:
        out.print("Nothing is missing.")
    for missing in facts.missing:
        out.print(f"missing: {missing.what}: {missing.why}", markup=False)
        out.print(f"    {missing.command}", markup=False)


def print_catalogue(catalogue: "Catalogue") -> None:
    """Print the built-in corpora with their tasks, and the formats that can be read."""
    for corpus in catalogue.built_in:
        rows = [(f"{corpus.name}/{task}", about) for task, about in corpus.tasks.items()]
        print_table("Built-in corpora", ("name", ""), [(corpus.name, corpus.about), *rows])
    rows = [(" ".join(known.endings), known.about) for known in catalogue.formats]
    print_table("Formats", ("suffixes", ""), rows)


def print_models(catalogue: Mapping[str, Any]) -> None:
    """Print the references of models, and the families."""
    print_table("References of models", ("reference", ""), catalogue["references"].items())
    rows = [(f["name"], f["stacks"], f["about"], f["limits"]) for f in catalogue["families"]]
    print_table("Families", ("family", "stacks", "", "limits"), rows)


def in_bytes(number: int) -> str:
    """Return a size in GB, MB or kB."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number / 1e3:,.1f} kB"


def print_model(facts: Mapping[str, Any]) -> None:
    """Print the facts of an open model."""
    separate = {"stacks", "memory", "objective", "classes", "task", "added", "mixes_layers"}
    first, *others = map(described, facts["objectives"]) if facts["objectives"] else ["nothing"]
    shown_as = {"predicts": first, "objectives": "; ".join(others)}
    names = {key: key.replace("_", " ") for key in facts} | {"objectives": "also predicts"}
    separate |= set() if facts["edit"] else {"edit"}
    values = [(names[k], shown_as.get(k, value)) for k, value in facts.items() if k not in separate]
    shown = [(key, "none" if value in (None, "") else value) for key, value in values]
    print_table("Model", ("", ""), shown)
    rows = [(s["name"], s["layers"], s["heads"], ", ".join(s["kinds"])) for s in facts["stacks"]]
    print_table("Stacks", ("stack", "layers", "heads", "attention"), rows)
    if (memory := facts.get("memory")) is not None:
        batch = f"for {memory['texts']} texts of {memory['length']} pieces"
        sizes = [
            (f"weights in {facts['precision']}", in_bytes(memory["weights"])),
            (f"hidden states of all layers, {batch}", in_bytes(memory["states"])),
            (f"attention map of one attention site, {batch}", in_bytes(memory["attention_map"])),
            (f"logits, {batch}", in_bytes(memory["logits"])),
        ]
        if memory["cache"]:  # of a model that writes
            sizes.append((f"key-value cache, {batch}", in_bytes(memory["cache"])))
        print_table("Memory", ("", ""), sizes)
