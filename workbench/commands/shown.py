"""What the commands about runs print: results on standard output, progress on standard error."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench import terminal
from workbench.errors import WorkbenchError
from workbench.runs.status import CODES, Status

if TYPE_CHECKING:
    import pandas as pd

    from workbench.runs.run import Run

_OF_RUN = re.compile(r"[A-Z] ")  # how a column of one run, or of a difference, begins
SHORT = 8  # rows of a table that `run` prints


def followed(run: "Run", from_disk: bool | None = None) -> None:
    """Show a run's events until it has ended; an interrupt ends the run, with exit code 130.

    `from_disk`: whether it was done when it was asked for; if left out, whether it is done now.
    """
    from workbench.runs.launch import cancel
    from workbench.runs.watch import watched

    if from_disk is None:
        from_disk = run.status.state == "done"
    if from_disk:
        terminal.note(f"Answered from disk: {run.name}.")
        for warning in run.warnings:
            terminal.note(warning)
        return
    try:
        watched(run)
    except KeyboardInterrupt:
        terminal.note(f"Interrupted; ending {run.name}.")
        if run.status.under_way:
            cancel(run)
        terminal.note(f"Go on with: workbench runs resume {run.name}")
        raise SystemExit(130) from None


def started(run: "Run", json: bool) -> None:
    """A run that is not waited for."""
    if json:
        terminal.print_json(run.as_data())
    else:
        print(f"{run.name}: {run.status.state}")


def answer(run: "Run", json: bool) -> None:
    """A run that has ended: its tables, or why there are none and the exit code for it."""
    now = run.status
    if json:
        terminal.print_json(run.as_data())
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
    fitting = terminal.fitting(columns, rows)
    cut = []
    if len(table) > most:
        cut.append(f"{most:,} of {len(table):,} rows")
    if fitting < len(columns):
        cut.append(f"{fitting} of {len(columns)} columns")
    more = f" (the first {', '.join(cut)})" if cut else ""
    terminal.table(f"Table {name}{more}", columns[:fitting], [row[:fitting] for row in rows])


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
        terminal.print_json({"runs": [_brief(run, now) for run, now in found]})
        return
    if not found:
        from workbench.places import runs

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
    terminal.table(
        f"Runs{more}", ("run", "status", "models", "corpora", "asked (UTC)", "took"), rows
    )


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
        terminal.print_json(data | {"log": list(log_lines(found.path))})
        return
    rows = [
        ("run", found.name),
        ("status", _standing(found, now)),
        ("experiment", asked.experiment),
        ("models", ", ".join(f"{m.name} ({m.hash[:12]}, {m.precision})" for m in asked.models)),
        ("corpora", ", ".join(f"{c.name} ({c.hash[:12]})" for c in asked.corpora)),
        ("split", asked.split or "all"),
        ("seed", str(asked.seed)),
        ("settings", ", ".join(f"{k}={v}" for k, v in asked.settings.items())),
        ("sweep", ", ".join(f"{k}={v}" for k, v in asked.sweep.items())),
        ("device", now.device),
        ("asked", now.created),
        ("took", f"{now.seconds:.1f} s" if now.state == "done" else ""),
        ("attempts", str(now.attempt)),
        ("folder", str(found.path)),
    ]
    terminal.table("The run", ("", ""), [row for row in rows if row[1]])
    if now.state == "done":
        about = [(n, len(found.tables[n]), found.tables[n].attrs["about"]) for n in found.tables]
        terminal.table("Tables", ("table", "rows", ""), about)
        if drawn := list(found.figures):
            print(f"Figures: {', '.join(drawn)}\n")
        _notes(found)
    elif now.failure:
        print(f"{now.failure.error()}\n")
    if now.state != "done" and (lines := log_lines(found.path)):
        print("The last lines of its log:", *(f"    {line}" for line in lines), sep="\n")


def verified(damage: Mapping[str, Sequence[str]], json: bool) -> None:
    """What is wrong with each run; exit code 1 where anything is."""
    from workbench.runs.results import computed_again

    wrong = {name: list(found) for name, found in damage.items() if found}
    if json:
        terminal.print_json({"checked": len(damage), "damaged": wrong})
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
    from workbench.runs.compare import LETTERS, compared

    letters = dict(zip(LETTERS, (run.name for run in runs), strict=False))
    tables = dict(compared([run.tables for run in runs]))
    if json:
        records = {name: _records(table) for name, table in tables.items()}
        terminal.print_json({"runs": letters, "tables": records})
        return
    terminal.table("Runs", ("", "run"), list(letters.items()))
    for name, table in tables.items():
        rows = list(_laid_out(table, list(letters)))
        more = (
            f" (the first {terminal.ROWS} of {len(rows):,} rows)"
            if len(rows) > terminal.ROWS
            else ""
        )
        keys = [str(key) for key in table.columns if not _OF_RUN.match(str(key))]
        differences = [f"{letter} − A" for letter in letters if letter != "A"]
        columns = [*keys, "", *letters, *differences]
        terminal.table(f"Table {name}{more}", columns, rows[: terminal.ROWS])


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
    from workbench.experiment import EXPERIMENTS

    found = []
    for name in EXPERIMENTS:
        try:
            found.append({"name": name, "about": EXPERIMENTS[name].about})
        except WorkbenchError as error:
            found.append({"name": name, "about": f"cannot be used: {error.what}"})
    return found


def print_experiments(found: Sequence[Mapping[str, Any]]) -> None:
    """The list of experiments."""
    terminal.table("Experiments", ("name", ""), [(e["name"], e["about"]) for e in found])
    print("workbench experiments show NAME tells what one can be asked.")


def experiment(
    name: str, models: Sequence[str], corpora: Sequence[str], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """What an experiment can be asked; and where models or corpora are named, whether they fit."""
    from workbench.experiment import EXPERIMENTS
    from workbench.runs.asking import checked_settings, fits

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
    terminal.table("Settings", ("setting", "default", "", ""), rows)
    terminal.table("Tables", ("table", ""), found["tables"].items())
    needs = [*found["needs"]["models"], *found["needs"]["layers"]]
    if needs:
        print(f"Needs: {', '.join(needs)}")
    if "fits" in found:
        print("It fits." if found["fits"] else "It does not fit:")
        for reason in found["reasons"]:
            print(f"  {reason}")
