"""A clock that is set back a year every second while runs go on: `python -m tests.attack.clock`.

Runs are asked, cancelled, resumed, listed and removed under it; their tables must be those of an
undisturbed clock, and no command may hang or fail. Costs a dozen commands.
"""

import os
import sys
import tempfile
from pathlib import Path
from unittest.mock import patch

from tests.attack.commands import Commands
from tests.attack.kills import JOBS, contents
from tests.attack.shims import CLOCK, installed


def main() -> int:
    """Try every job under both clocks; 1 where they differ."""
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="attack-clock-") as folder:
        place = Commands(Path(folder))
        for name in ("counts", "sweep", "averages", "train"):
            code, said = place.completed(JOBS[name], "undisturbed")
            assert code == 0, said
            with patch.dict(os.environ, PYTHONPATH=installed(place.folder, CLOCK)):
                code, said = place.completed(JOBS[name])
            runs = {path.name: contents(path) for path in place.folder.glob("runs/*-*")}
            right = {path.name: contents(path) for path in place.folder.glob("undisturbed/*-*")}
            same = code == 0 and runs == right
            wrong += not same
            print(f"{'same tables' if same else f'WRONG ({code}): {said[-300:]}'}: {name}")
        with patch.dict(os.environ, PYTHONPATH=installed(place.folder, CLOCK)):
            for arguments in (
                ["runs", "list", "--all"],
                ["runs", "verify"],
                ["runs", "rm", next(iter(right)), "--yes"],
            ):
                code, said = place.completed(arguments)
                wrong += code != 0 or "Traceback" in said
                print(f"{'ok' if code == 0 else f'WRONG: {said[-300:]}'}: {arguments[:2]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
