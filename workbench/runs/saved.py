"""Saved selections of runs: a filter that finds new runs too, or a named group of runs.

They are in one JSON file in the folder of runs. An entry that cannot be read is left out, and a
file that is broken is put aside before another is written. Costs: one small file.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from workbench.core import machine
from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.files import read_json, read_regular, write_atomically
from workbench.experiment.definition import EXPERIMENTS
from workbench.runs.notes import Note
from workbench.runs.status import Status

FILE, ASIDE = "saved.json", "saved.broken.json"
MOST, LONGEST = 500, 80  # saved selections; characters of a name
_WHOLE = b"{}"


class Saved(BaseModel):
    """A filter; with `runs`, a group of these runs, of which the filter takes some."""

    model_config = ConfigDict(frozen=True)

    text: str = ""
    experiments: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()

    def has(self, name: str, now: Status, note: Note) -> bool:
        """Whether a run has one of these experiments, models and states, all tags and all words."""
        said = (name, now.experiment, now.state, *now.models, *now.corpora, *note.tags, note.text)
        title = _title(now.experiment) if self.text else ""  # its import takes time
        searched = " ".join((*said, title)).lower()
        return (
            (not self.runs or name in self.runs)
            and (not self.experiments or now.experiment in self.experiments)
            and (not self.states or now.state in self.states)
            and (not self.models or not {*self.models}.isdisjoint(now.models))
            and {*self.tags} <= {*note.tags}
            and all(word in searched for word in self.text.lower().split())
        )


def _title(experiment: str) -> str:
    """The words of a run's title before its models and corpora; empty if it has none."""
    try:
        return EXPERIMENTS[experiment].title if experiment in EXPERIMENTS else ""
    except WorkbenchError:  # it cannot be imported
        return ""


def read() -> Mapping[str, Saved]:
    """Return the saved selections by name; none if the file is broken."""
    found = {}
    for name, stored in _stored().items():
        try:
            found[name] = Saved.model_validate(stored)
        except ValidationError:
            continue
    return found


def named(name: str) -> Saved:
    """Return a saved selection."""
    found = read()
    if name not in found:
        raise WorkbenchError(
            f"no selection of runs is saved as {name[:LONGEST]!r}.",
            code="saved-not-found",
            remedy=did_you_mean(name, list(found)) or "Save one on the page Runs.",
        )
    return found[name]


def write(name: str, selection: Saved) -> None:
    """Store a selection under a name, in place of one that has it."""
    name = _checked(name)
    stored = _stored()
    if len(stored) >= MOST and name not in stored:
        raise WorkbenchError(
            f"at most {MOST} selections are saved.",
            code="saved-invalid",
            remedy="Remove one that is no longer needed.",
        )
    _write({**stored, name: selection.model_dump(mode="json", exclude_defaults=True)})


def rename(name: str, to: str) -> None:
    """Give a saved selection another name."""
    found, to = named(name), _checked(to)
    if to != name and to in read():
        raise WorkbenchError(
            f"another selection is saved as {to!r}.",
            code="saved-invalid",
            remedy="Choose another name, or remove the other one.",
        )
    changed = {to if key == name else key: stored for key, stored in _stored().items()}
    _write({**changed, to: found.model_dump(mode="json", exclude_defaults=True)})


def remove(name: str) -> None:
    """Remove a saved selection; the runs stay."""
    _write({key: stored for key, stored in _stored().items() if key != name})


def _checked(name: str) -> str:
    name = " ".join(name.split())
    if 0 < len(name) <= LONGEST:
        return name
    raise WorkbenchError(
        f"{name[:LONGEST]!r} cannot be the name of a selection.",
        code="saved-invalid",
        remedy=f"Choose one of 1 to {LONGEST} characters.",
    )


def _path() -> Path:
    return machine.runs() / FILE


def _stored() -> dict[str, object]:
    try:
        stored = read_json(_path())
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}


def _write(stored: Mapping[str, object]) -> None:
    path = _path()
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_file() and not _stored() and read_regular(path).strip() != _WHOLE:
        path.replace(path.with_name(ASIDE))
    write_atomically(path, json.dumps(stored, indent=1, sort_keys=True))
