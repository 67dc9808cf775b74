"""A file system without locks, as some NFS is: `python -m tests.attack.no_locks`.

Every command must end at once, with an error that says what is missing and what to do; what is
finished can still be looked at. Costs ten commands.
"""

import os
import sys
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

from tests.attack.commands import Commands
from tests.attack.shims import NO_LOCKS, installed

ASK = ["run", "describe", "--corpus", "primer:size=2000", "--set"]
SECONDS = 60.0  # within which a command must have ended, on a busy machine


def main() -> int:
    """Try the commands; 1 where one hangs, dies, or says nothing of locks."""
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="attack-locks-") as folder:
        place = Commands(Path(folder))
        code, said = place.completed([*ASK, "max_sentences=10"])
        assert code == 0, said
        name = next(path.name for path in place.folder.glob("runs/describe-*"))
        for error in ("ENOLCK", "EOPNOTSUPP"):
            shim = installed(place.folder, NO_LOCKS.format(error=error))
            with patch.dict(os.environ, PYTHONPATH=shim):
                for arguments, right in (
                    ([*ASK, "max_sentences=10"], 0),
                    ([*ASK, "max_sentences=11"], 2),
                    ([*ASK, "max_sentences=11", "--share"], 2),
                    ([*ASK[:-1], "--sweep", "max_sentences=12,13"], 2),
                    (["runs", "list"], 0),
                    (["runs", "show", name], 0),
                    (["runs", "resume", name], 0),
                    (["runs", "rm", name, "--yes"], 2),
                ):
                    began = time.monotonic()
                    code, said = place.completed(arguments)
                    seconds = time.monotonic() - began
                    clear = code == 0 or "lock" in said
                    fine = code == right and clear and "Traceback" not in said
                    wrong += not fine or seconds > SECONDS
                    errors = [line for line in said.splitlines() if line.startswith("error")]
                    last = (errors or ["done"])[0][-90:]
                    mark = "ok   " if fine else "WRONG"
                    print(f"{mark} {error:10} {code:2} {seconds:5.1f} s  {arguments[:2]}: {last}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
