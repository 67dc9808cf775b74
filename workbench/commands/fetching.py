"""What `workbench fetch` prints: the catalogue, licences, and the progress of a download."""

import sys
from dataclasses import asdict

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from workbench import terminal
from workbench.fetch import entries, fetch, find, is_there


def print_entries(json: bool) -> None:
    """All there is to fetch."""
    found = entries()
    if json:
        told = [{**asdict(e), "size": e.size, "here": is_there(e)} for e in found]
        terminal.print_json({"entries": told})
        return
    for kind, title in (("corpus", "Corpora"), ("model", "Models")):
        rows = [
            (e.name, _size(e.size), e.licence, "here" if is_there(e) else "", e.about)
            for e in found
            if e.kind == kind
        ]
        terminal.table(title, ("name", "size", "licence", "", ""), rows)


def fetch_one(name: str, verify: bool, json: bool) -> None:
    """Fetch one entry; its licence is said before, and how to use it after."""
    entry = find(name)
    print(f"{entry.name}: {entry.licence} ({entry.licence_url})", file=sys.stderr)
    print(f"Checksums: {entry.checksum}; revision {entry.revision}", file=sys.stderr)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    console = terminal.err
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("looking")
        path = fetch(
            name,
            lambda done, total, doing: bar.update(
                task, completed=done, total=total, description=doing
            ),
            verify=verify,
        )
    if json:
        terminal.print_json({"name": name, "path": str(path), "licence": entry.licence})
    else:
        print(f"--{entry.kind} {path}")


def _size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size else ""
