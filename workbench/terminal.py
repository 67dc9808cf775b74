"""What the commands print: results on standard output, everything else on standard error.

Progress is shown on a terminal only, so that pipes and logs stay clean.
"""

import codecs
import errno
import io
import json
import os
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

if TYPE_CHECKING:
    from workbench.corpora.catalogue import Catalogue
    from workbench.corpora.description import Description
    from workbench.doctor import Facts

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


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
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


def fitting(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> int:
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
    table(
        f"Corpus {d.name}".rstrip(),
        ("split", "Docs", "documents", "sentences", "words", "types"),
        [(s.split, s.docs, s.documents, s.sentences, s.words, s.types) for s in d.splits],
    )
    if d.lengths:
        table(
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
        table("Coreference", ("chains", "mentions"), rows)
    for label, classes in d.classes.items():
        _counts(f"Label {label}", classes)
    for label, s in d.scores.items():
        table(
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
    table(title + more, columns, rows[:ROWS])


def print_facts(facts: "Facts") -> None:
    """What `workbench doctor` found, and last what is missing."""
    device = facts.device
    table(
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
    table(
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
        table("Built in", ("name", ""), [(corpus.name, corpus.about), *rows])
    rows = [(" ".join(known.endings), known.about) for known in catalogue.formats]
    table("Formats", ("endings", ""), rows)


def print_models(catalogue: Mapping[str, Any]) -> None:
    """How to name a model, and the families there are."""
    table("How to name a model", ("name", ""), catalogue["references"].items())
    rows = [(f["name"], f["stacks"], f["about"], f["limits"]) for f in catalogue["families"]]
    table("Families", ("family", "stacks", "", "limits"), rows)


def _bytes(number: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number / 1e3:,.1f} kB"


def print_model(facts: Mapping[str, Any]) -> None:
    """One open model."""
    apart = ("stacks", "memory")
    plain = [(key.replace("_", " "), value) for key, value in facts.items() if key not in apart]
    told = [(key, "none" if value in (None, "") else value) for key, value in plain]
    table("The model", ("", ""), told)
    rows = [(s["name"], s["layers"], s["heads"], ", ".join(s["kinds"])) for s in facts["stacks"]]
    table("Stacks", ("stack", "layers", "heads", "attention"), rows)
    if (memory := facts.get("memory")) is not None:
        batch = f"of {memory['texts']} texts of {memory['length']} pieces"
        told = [
            (f"weights in {facts['precision']}", _bytes(memory["weights"])),
            (f"states of all layers, {batch}", _bytes(memory["states"])),
            (f"attention map of one site, {batch}", _bytes(memory["attention_map"])),
            (f"logits, {batch}", _bytes(memory["logits"])),
            (f"keys and values when generating, {batch}", _bytes(memory["cache"])),
        ]
        table("Memory", ("", ""), told)
