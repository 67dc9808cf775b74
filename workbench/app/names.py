"""Names that visitors give to models and corpora, kept in one small file among the caches.

A name is shown in place of a reference; the reference itself, such as a path, stays in addresses,
runs and reports. Costs: reading a small file.
"""

import json

from workbench.core import machine
from workbench.core.errors import WorkbenchError
from workbench.core.files import atomic_write, parse_json, read_regular

FILE = "names.json"
LONGEST = 60  # characters of a name
MOST = 1_000  # names


def given(ref: str) -> str:
    """The name that was given to a reference; "" if none was."""
    name = _all().get(ref, "")
    return name if isinstance(name, str) else ""


def give(ref: str, name: str) -> None:
    """Name a reference; an empty name takes the name back."""
    names = {key: value for key, value in _all().items() if key != ref}
    if name := " ".join(name.split())[:LONGEST]:
        names[ref] = name
    if len(names) > MOST:
        raise WorkbenchError(
            f"there are {MOST:,} names already.",
            code="too-many-names",
            remedy=f"Remove names from {machine.home() / FILE}.",
        )
    path = machine.home() / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as draft:
        draft.write_text(json.dumps(names, ensure_ascii=False, indent=1), encoding="utf-8")


def _all() -> dict[str, object]:
    try:
        names = parse_json(read_regular(machine.home() / FILE))
    except (OSError, ValueError, WorkbenchError):
        return {}
    return names if isinstance(names, dict) else {}
