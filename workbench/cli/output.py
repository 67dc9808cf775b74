"""What the commands about runs print: results on standard output, progress on standard error."""

import codecs
import errno
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeVar

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from workbench.core.errors import WorkbenchError
from workbench.runs.status import CODES, Status

if TYPE_CHECKING:
    import pandas as pd

    from workbench.corpora.catalogue import Catalogue
    from workbench.corpora.describe import Description
    from workbench.doctor import Facts
    from workbench.runs.run import Run

_OF_RUN = re.compile(r"[A-Z] ")  # how a column of one run, or of a difference, begins
SHORT = 8  # rows of a table that `run` prints


def followed(run: "Run", from_disk: bool | None = None) -> None:
    """Show a run's events until it has ended; an interrupt ends the run, with exit code 130.

    `from_disk`: whether it was done when it was asked for; if left out, whether it is done now.
    """
    from workbench.runs.api import watched
    from workbench.runs.launch import cancel

    if from_disk is None:
        from_disk = run.status.state == "done"
    if from_disk:
        note(f"Answered from disk: {run.name}.")
        for warning in run.warnings:
            note(warning)
        return
    try:
        watched(run)
    except KeyboardInterrupt:
        note(f"Interrupted; ending {run.name}.")
        if run.status.under_way:
            cancel(run)
        note(f"Go on with: workbench runs resume {run.name}")
        raise SystemExit(130) from None


def started(run: "Run", json: bool) -> None:
    """A run that is not waited for."""
    if json:
        print_json(run.as_data())
    else:
        print(f"{run.name}: {run.status.state}")


def answer(run: "Run", json: bool) -> None:
    """A run that has ended: its tables, or why there are none and the exit code for it."""
    now = run.status
    if json:
        print_json(run.as_data())
    elif now.state == "done":
        print(f"{run.name}: done in {now.seconds:.1f} s")
        for name in run.tables:
            _table(name, run.tables[name], SHORT)
        _notes(run)
        print(f"Report: workbench report {run.name} --out report.html")
    if now.state == "done":
        return
    _failure(run, now)
    raise SystemExit(2 if now.failure and now.failure.kind == "input" else CODES[now.state])


def _notes(run: "Run") -> None:
    """What to know when reading it."""
    for caveat in run.caveats:
        print(f"Note: {caveat.text}")


def _failure(run: "Run", now: Status) -> None:
    if now.failure is None:
        print(f"{run.name}: {now.state}", file=sys.stderr)
        return
    print(f"error: {now.failure.error()}", file=sys.stderr)
    if now.failure.kind != "input":
        for line in now.failure.lines:
            print(f"    {line}", file=sys.stderr)
        print(f"The run: workbench runs show {run.name}", file=sys.stderr)


def _table(name: str, table: "pd.DataFrame", most: int) -> None:
    columns = list(map(str, table.columns))
    rows = _rows(table, most)
    fitting = columns_that_fit(columns, rows)
    cut = []
    if len(table) > most:
        cut.append(f"{most:,} of {len(table):,} rows")
    if fitting < len(columns):
        cut.append(f"{fitting} of {len(columns)} columns")
    more = f" (the first {', '.join(cut)})" if cut else ""
    print_table(f"Table {name}{more}", columns[:fitting], [row[:fitting] for row in rows])


def _rows(table: "pd.DataFrame", most: int) -> list[tuple[object, ...]]:
    head = table.head(most)
    return [tuple(_plain(value) for value in row) for row in head.itertuples(index=False)]


def _plain(value: Any) -> object:
    """A cell as a plain value; what is missing is empty."""
    value = value.item() if hasattr(value, "item") else value
    if value is None or value != value:
        return ""
    return str(value) if isinstance(value, bool) else value


def run_list(found: Sequence[tuple["Run", Status]], most: int, json: bool) -> None:
    """Runs and how they stand."""
    if json:
        print_json({"runs": [_brief(run, now) for run, now in found]})
        return
    if not found:
        from workbench.core.machine import runs

        print(f"There are no runs in {runs()}.")
        return
    more = f" (the newest {most} of {len(found):,}; --all lists them)" if len(found) > most else ""
    rows = [
        (
            run.name,
            _standing(run, now),
            ", ".join(now.models),
            ", ".join(now.corpora),
            now.created[:16].replace("T", " "),
            f"{now.seconds:.1f} s" if now.state == "done" else "",
        )
        for run, now in found[:most]
    ]
    print_table(f"Runs{more}", ("run", "status", "models", "corpora", "asked (UTC)", "took"), rows)


def _standing(run: "Run", now: Status) -> str:
    return f"{now.state}, incomplete" if _is_incomplete(run, now) else now.state


def _is_incomplete(run: "Run", now: Status) -> bool:
    """Whether files of a run that is done are gone; provenance that cannot be read is one."""
    try:
        return now.state == "done" and bool(run.missing)
    except WorkbenchError:
        return True


def _brief(run: "Run", now: Status) -> dict[str, Any]:
    return {
        "run": run.name,
        "path": str(run.path),
        "status": now.state,
        "experiment": now.experiment,
        "models": list(now.models),
        "corpora": list(now.corpora),
        "created": now.created,
        "seconds": round(now.seconds, 3),
    }


def run(found: "Run", json: bool) -> None:
    """One run."""
    from workbench.runs.status import log_lines

    now, asked = found.status, found.spec
    if json:
        data = found.as_data() | {"spec": asked.model_dump(mode="json")}
        if now.state == "done":
            data["provenance"] = dict(found.provenance)
        print_json(data | {"log": list(log_lines(found.path))})
        return
    rows = [
        ("run", found.name),
        ("status", _standing(found, now)),
        ("experiment", asked.experiment),
        ("models", ", ".join(f"{m.name} ({m.hash[:12]}, {m.precision})" for m in asked.models)),
        ("corpora", ", ".join(f"{c.name} ({c.hash[:12]})" for c in asked.corpora)),
        ("split", asked.split or "all"),
        ("seed", str(asked.seed)),
        ("settings", ", ".join(f"{k}={v}" for k, v in found.settings.items())),
        ("sweep", ", ".join(f"{k}={v}" for k, v in found.sweep.items())),
        ("device", now.device),
        ("asked", now.created),
        ("took", f"{now.seconds:.1f} s" if now.state == "done" else ""),
        ("attempts", str(now.attempt)),
        ("folder", str(found.path)),
    ]
    print_table("The run", ("", ""), [row for row in rows if row[1]])
    if now.state == "done":
        about = [(n, len(found.tables[n]), found.tables[n].attrs["about"]) for n in found.tables]
        print_table("Tables", ("table", "rows", ""), about)
        if drawn := list(found.figures):
            print(f"Figures: {', '.join(drawn)}\n")
        _notes(found)
    elif now.failure:
        print(f"{now.failure.error()}\n")
    if now.state != "done" and (lines := log_lines(found.path)):
        print("The last lines of its log:", *(f"    {line}" for line in lines), sep="\n")


def verified(damage: Mapping[str, Sequence[str]], json: bool) -> None:
    """What is wrong with each run; exit code 1 where anything is."""
    from workbench.runs.run import computed_again

    wrong = {name: list(found) for name, found in damage.items() if found}
    if json:
        print_json({"checked": len(damage), "damaged": wrong})
    else:
        for name, found in wrong.items():
            print(f"{name}:", *found, sep="\n    ")
            gone = all(what.endswith(" is missing") for what in found)
            anew = f"Run: workbench runs rm {name} --yes, then ask again."
            print(f"    {computed_again(name) if gone else anew}")
        runs = "run" if len(damage) == 1 else "runs"
        print(f"{len(damage):,} {runs} checked, {len(wrong):,} damaged.")
    if wrong:
        raise SystemExit(1)


def comparison(runs: Sequence["Run"], json: bool) -> None:
    """Runs side by side."""
    from workbench.runs.compare import LETTERS, compared, current_tables

    letters = dict(zip(LETTERS, (run.name for run in runs), strict=False))
    tables = dict(compared([current_tables(run) for run in runs]))
    if json:
        records = {name: _records(table) for name, table in tables.items()}
        print_json({"runs": letters, "tables": records})
        return
    print_table("Runs", ("", "run"), list(letters.items()))
    for name, table in tables.items():
        rows = list(_laid_out(table, list(letters)))
        more = f" (the first {ROWS} of {len(rows):,} rows)" if len(rows) > ROWS else ""
        keys = [str(key) for key in table.columns if not _OF_RUN.match(str(key))]
        differences = [f"{letter} − A" for letter in letters if letter != "A"]
        columns = [*keys, "", *letters, *differences]
        print_table(f"Table {name}{more}", columns, rows[:ROWS])


def _laid_out(table: "pd.DataFrame", letters: Sequence[str]) -> Iterator[tuple[object, ...]]:
    """A row for each number: of what, its name, each run's, and the signed differences."""
    keys = [key for key in table.columns if not _OF_RUN.match(str(key))]
    numbers = [str(key)[2:] for key in table.columns if re.match("A ", str(key))]
    for row in table.to_dict("records"):
        for number in numbers:
            own = [_whole(row[f"{letter} {number}"]) for letter in letters]
            apart = [_signed(_whole(row[f"{one} − A {number}"])) for one in letters if one != "A"]
            yield (*(_plain(row[key]) for key in keys), number, *own, *apart)


def _whole(value: Any) -> object:
    """A count as a count, though a row that one run lacks has made it a float."""
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
    """Every experiment, in a line; one that cannot be imported says why."""
    from workbench.core.experiment import EXPERIMENTS

    found = []
    for name in EXPERIMENTS:
        try:
            found.append({"name": name, "about": EXPERIMENTS[name].about})
        except WorkbenchError as error:
            found.append({"name": name, "about": f"cannot be used: {error.what}"})
    return found


def print_experiments(found: Sequence[Mapping[str, Any]]) -> None:
    """The list of experiments."""
    print_table("Experiments", ("name", ""), [(e["name"], e["about"]) for e in found])
    print("workbench experiments show NAME tells what one can be asked.")


def experiment(
    name: str, models: Sequence[str], corpora: Sequence[str], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """What an experiment can be asked; and where models or corpora are named, whether they fit."""
    from workbench.core.experiment import EXPERIMENTS
    from workbench.runs.request import checked_settings, fits

    kind = EXPERIMENTS[name]
    schema = kind.settings.model_json_schema()["properties"]
    chosen = checked_settings(kind, settings)
    found: dict[str, Any] = {
        "name": kind.name,
        "about": kind.about,
        "version": kind.version,
        "models": list(kind.models),
        "corpora": list(kind.corpora),
        "needs": {
            "models": [need.what for need in kind.needs],
            "layers": list(kind.layers_for(chosen)),
        },
        "settings": {
            field: {
                "about": about.get("description", ""),
                "default": chosen.model_dump(mode="json")[field],
                **_bounds(about),
            }
            for field, about in schema.items()
        },
        "tables": {table: about.about for table, about in kind.tables.items()},
    }
    if models or corpora:
        reasons = fits(kind, chosen, models, corpora)
        found |= {"fits": not reasons, "reasons": [str(reason) for reason in reasons]}
    return found


def _bounds(about: Mapping[str, Any]) -> dict[str, Any]:
    """Bounds and choices of a setting, out of its schema."""
    words = {
        "minimum": "least",
        "exclusiveMinimum": "above",
        "maximum": "most",
        "exclusiveMaximum": "below",
        "enum": "choices",
    }
    parts = [about, about.get("items", {}), *about.get("anyOf", ())]
    return {words[key]: part[key] for part in parts for key in words if key in part}


def print_experiment(found: Mapping[str, Any]) -> None:
    """One experiment."""
    print(f"{found['name']}: {found['about']}\n")
    rows = [
        (
            name,
            str(setting["default"]),
            ", ".join(f"{k} {v}" for k, v in setting.items() if k not in ("about", "default")),
            setting["about"],
        )
        for name, setting in found["settings"].items()
    ]
    print_table("Settings", ("setting", "default", "", ""), rows)
    print_table("Tables", ("table", ""), found["tables"].items())
    needs = [*found["needs"]["models"], *found["needs"]["layers"]]
    if needs:
        print(f"Needs: {', '.join(needs)}")
    if "fits" in found:
        print("It fits." if found["fits"] else "It does not fit:")
        for reason in found["reasons"]:
            print(f"  {reason}")


# --- what the commands print: results on standard output, everything else on standard error -------
#
# Progress is shown on a terminal only, so that pipes and logs stay clean.

Item = TypeVar("Item")
_OUTPUT_FAULTS = {errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT}
ROWS = 12  # of a long table; --json has them all

out = Console(highlight=False, soft_wrap=True)
err = Console(highlight=False, soft_wrap=True, stderr=True)


def print_json(data: Mapping[str, Any]) -> None:
    """The one JSON object of a command called with --json; ASCII where UTF-8 cannot be printed."""
    text = json.dumps(data, ensure_ascii=False, indent=2)
    try:
        text.encode("utf-8")  # half a surrogate pair, as in file names that are not UTF-8, cannot
        plain = codecs.lookup(getattr(sys.stdout, "encoding", None) or "utf-8").name == "utf-8"
    except UnicodeEncodeError:
        plain = False
    print(text if plain else json.dumps(data, indent=2))


def print_whatever_comes() -> None:
    """Have what standard output cannot encode escaped, rather than end with an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def whole_output() -> Iterator[None]:
    """Hand on all that is printed; where that is impossible, say so and end with 1.

    A reader that left early needs no telling.
    """
    try:
        try:
            yield
        finally:
            if sys.stdout:
                sys.stdout.flush()
    except OSError as error:
        if error.filename is not None or error.errno not in _OUTPUT_FAULTS:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else tried again at exit
        if error.errno != errno.EPIPE:
            print(f"error: the output cannot be written: {error.strerror}.", file=sys.stderr)
        raise SystemExit(1) from None


def note(text: str) -> None:
    """Something the user should know, that is not the result."""
    err.print(f"note: {text}", markup=False)


@contextmanager
def progress(doing: str) -> Iterator[Callable[[int], None]]:
    """A spinner with a counter, on a terminal; call it with the number done so far."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(doing)
        yield lambda done: bar.update(task, description=f"{doing}: {done:,}")


def counted(items: Iterable[Item], done: Callable[[int], None]) -> Iterator[Item]:
    """The same items, telling how many have passed."""
    for number, item in enumerate(items, start=1):
        yield item
        done(number)


def heading(text: str) -> None:
    """A line above what belongs together."""
    out.print(f"\n{text}", style="bold", markup=False)
    out.print("─" * len(text))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table on standard output: text to the left, numbers to the right."""
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
        if header:  # stands on its column
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
    for row in cells:
        for line in lines(row):
            print(line)
    print()


def _columns(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> Table:
    """A table without rows, whose columns are as wide as they must be at least."""
    drawn = Table(
        show_header=any(columns),
        box=None,
        pad_edge=False,
        padding=(0, BETWEEN, 0, 0),
    )
    longest = [max((len(row[i]) for row in cells), default=0) for i in range(len(columns))]
    least = [min(NARROW, size) for size in longest]
    fits = sum(least) + BETWEEN * len(least) <= out.width + BETWEEN
    for i, column in enumerate(columns):
        numeric = bool(cells) and all(_is_number(row[i]) for row in cells)
        drawn.add_column(
            column,
            justify="right" if numeric else "left",
            overflow="fold",
            min_width=least[i] if fits else None,  # headers are broken before cells are
            no_wrap=column == "run",  # a name is there to be copied
        )
    return drawn


def _widths(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    """How wide rich makes each column, by its longest cell and its longest word alone.

    Rich measures and draws a cell in a fifth of a millisecond, which thousands of rows add up to.
    """
    drawn = _columns(columns, cells)
    for i in range(len(columns)):
        own = {row[i] for row in cells}
        for cell in {
            *(text for text in own if not text.isprintable()),
            max(own, key=cell_len, default=""),
            max(own, key=lambda text: max(map(cell_len, text.split()), default=0), default=""),
        }:
            drawn.add_row(*("" if i != j else Text(cell) for j in range(len(columns))))
    widths = [_Width() for _ in columns]
    drawn.add_row(*widths)
    with out.capture():
        out.print(drawn)
    return [width.found for width in widths]


class _Width:
    """A cell that is nothing, and notes the room it was given."""

    found = 0

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(0, 0)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.found = options.max_width
        yield ""


@lru_cache(4096)
def _folded(cell: str, width: int, whole: bool) -> list[str]:
    """The lines of a cell, words broken where they are longer than one."""
    options = out.options.update(width=width, no_wrap=whole, overflow="fold")
    lines = out.render_lines(Text(cell), options, pad=False)
    return ["".join(segment.text for segment in line).rstrip() for line in lines]


def _aligned(text: str, width: int, right: bool) -> str:
    blank = " " * (width - (len(text) if text.isascii() and text.isprintable() else cell_len(text)))
    return blank + text if right else text + blank


NARROW, BETWEEN = 10, 2  # what a column is given at most where there are many, and between them


def columns_that_fit(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> int:
    """How many of these columns can be read side by side; words are broken, numbers are not."""
    room = out.width
    for place, column in enumerate(columns):
        longest = max((len(_cell(row[place])) for row in rows), default=0)
        room -= min(NARROW, max(longest, len(column) // 2, 4)) + BETWEEN
        if room < -BETWEEN and place > 0:
            return place
    return len(columns)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1e}" if 0 < abs(value) < 0.005 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _is_number(cell: str) -> bool:
    return cell.lstrip("+-").replace(",", "").replace(".", "").rstrip(" %").isdigit()


def print_description(description: "Description") -> None:
    """A corpus' counts as tables, the long ones cut."""
    d = description
    print_table(
        f"Corpus {d.name}".rstrip(),
        ("split", "Docs", "documents", "sentences", "words", "types"),
        [(s.split, s.docs, s.documents, s.sentences, s.words, s.types) for s in d.splits],
    )
    if d.lengths:
        print_table(
            "Words a sentence",
            ("least", "median", "mean", "most"),
            [(d.lengths.min, d.lengths.median, d.lengths.mean, d.lengths.max)],
        )
    _counts("Universal tags", d.upos)
    _counts("Treebank tags", d.xpos)
    if d.relations:
        _cut(
            "Relations, and where the head mostly is, seen from the dependent",
            ("relation", "count", "offset", "share"),
            [(r.label, r.count, f"{r.offset:+d}", f"{r.share:.0%}") for r in d.relations],
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
            ("texts", "least", "mean", "most"),
            [(s.count, s.min, s.mean, s.max)],
        )
    _counts("Words", d.words)
    if d.zipf:
        out.print(f"Zipf slope {d.zipf.slope:.2f} over ranks {d.zipf.first} to {d.zipf.last}")


def _counts(title: str, counts: Mapping[str, int]) -> None:
    if counts:
        _cut(title, ("", "count"), list(counts.items()))


def _cut(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    more = f" (the first {ROWS} of {len(rows):,})" if len(rows) > ROWS else ""
    print_table(title + more, columns, rows[:ROWS])


def print_facts(facts: "Facts") -> None:
    """What `workbench doctor` found, and last what is missing."""
    device = facts.device
    print_table(
        "This machine",
        ("", ""),
        [
            ("Workbench", facts.workbench),
            ("Python", facts.python),
            ("platform", facts.platform),
            ("device", "; ".join((device.kind, *device.names))),
            ("processor", f"{device.cores} cores, {device.threads} threads used"),
            ("spaCy pipelines", ", ".join(facts.pipelines) or "none"),
            ("browser for images", facts.browser or "none"),
            *(
                (name, f"{folder} ({facts.free_bytes[name] / 2**30:,.0f} GiB free)")
                for name, folder in facts.folders.items()
            ),
        ],
    )
    print_table(
        "Packages",
        ("package", "installed", "wanted"),
        [(p.name, p.installed or "none", p.wanted or "any") for p in facts.packages],
    )
    if not facts.missing:
        out.print("Nothing is missing.")
    for missing in facts.missing:
        out.print(f"missing: {missing.what}: {missing.why}", markup=False)
        out.print(f"    {missing.command}", markup=False)


def print_catalogue(catalogue: "Catalogue") -> None:
    """Built-in corpora with their tasks, and the formats that can be read."""
    for corpus in catalogue.built_in:
        rows = [(f"{corpus.name}/{task}", about) for task, about in corpus.tasks.items()]
        print_table("Built in", ("name", ""), [(corpus.name, corpus.about), *rows])
    rows = [(" ".join(known.endings), known.about) for known in catalogue.formats]
    print_table("Formats", ("endings", ""), rows)


def print_models(catalogue: Mapping[str, Any]) -> None:
    """How to name a model, and the families there are."""
    print_table("How to name a model", ("name", ""), catalogue["references"].items())
    rows = [(f["name"], f["stacks"], f["about"], f["limits"]) for f in catalogue["families"]]
    print_table("Families", ("family", "stacks", "", "limits"), rows)


def in_bytes(number: int) -> str:
    """A size in GB, MB or kB."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number / 1e3:,.1f} kB"


def print_model(facts: Mapping[str, Any]) -> None:
    """One open model."""
    apart = ("stacks", "memory")
    plain = [(key.replace("_", " "), value) for key, value in facts.items() if key not in apart]
    told = [(key, "none" if value in (None, "") else value) for key, value in plain]
    print_table("The model", ("", ""), told)
    rows = [(s["name"], s["layers"], s["heads"], ", ".join(s["kinds"])) for s in facts["stacks"]]
    print_table("Stacks", ("stack", "layers", "heads", "attention"), rows)
    if (memory := facts.get("memory")) is not None:
        batch = f"of {memory['texts']} texts of {memory['length']} pieces"
        told = [
            (f"weights in {facts['precision']}", in_bytes(memory["weights"])),
            (f"states of all layers, {batch}", in_bytes(memory["states"])),
            (f"attention map of one site, {batch}", in_bytes(memory["attention_map"])),
            (f"logits, {batch}", in_bytes(memory["logits"])),
            (f"keys and values when generating, {batch}", in_bytes(memory["cache"])),
        ]
        print_table("Memory", ("", ""), told)
