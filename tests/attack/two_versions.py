"""Two versions of Workbench that share one folder of runs: `python -m tests.attack.two_versions`.

A copy of this one is made the later version: another number, a status with more in it, and then
another format of specs. What one has computed the other must answer from disk, list, or refuse in
words; neither may overwrite the other's. Costs a dozen commands.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from unittest.mock import patch

from tests.attack.commands import Commands
from tests.attack.kills import contents

ASK = ["run", "describe", "--corpus", "primer:size=2000", "--set"]


def main() -> int:
    """1 where one version damages or cannot live with the other's runs."""
    import workbench

    wrong = 0
    with tempfile.TemporaryDirectory(prefix="attack-versions-") as folder:
        place = Commands(Path(folder))
        later = place.folder / "later"
        source = Path(workbench.__file__).parent
        shutil.copytree(source, later / "workbench")
        _edit(later / "workbench/__init__.py", '__version__ = "', '__version__ = "9.')
        _edit(
            later / "workbench/runs/status.py",
            "    failure: Failure | None = None\n",
            '    failure: Failure | None = None\n    mood: str = "calm"\n',
        )
        newer = later / "workbench/runs/spec.py"

        def command(which: str, arguments: list[str], right: int, noun: str = "") -> None:
            nonlocal wrong
            path = {"PYTHONPATH": str(later)} if which == "later" else {}
            with patch.dict(os.environ, path):
                code, said = place.completed(arguments)
            fine = code == right and noun in said and "Traceback" not in said
            wrong += not fine
            errors = [line for line in said.splitlines() if line.startswith(("error", "note"))]
            last = (errors or ["done"])[0][:110]
            mark = "ok   " if fine else "WRONG"
            print(f"{mark} {which:5} {code} {' '.join(arguments[:2])}: {last}", flush=True)

        command("later", [*ASK, "max_sentences=10"], 0)
        command("this", [*ASK, "max_sentences=10"], 0, "Read from disk")
        command("this", [*ASK, "max_sentences=11"], 0)
        command("later", [*ASK, "max_sentences=11"], 0, "Read from disk")
        _edit(newer, "FORMAT = 1", "FORMAT = 2")
        _edit(newer, "    seed: int = 0\n", "    seed: int = 0\n    mood: str = 'calm'\n")
        command("later", [*ASK, "max_sentences=12"], 0)
        runs = {path: contents(path) for path in place.folder.glob("runs/describe-*")}
        for which in ("this", "later"):
            command(which, ["runs", "list"], 0)
        name = next(path.name for path in runs if '"format": 2' in (path / "spec.json").read_text())
        command("later", [*ASK, "max_sentences=10"], 2, "another version")
        command("this", ["runs", "show", name], 2, "another version")
        command("this", ["runs", "resume", name], 2, "another version")
        command("this", [*ASK, "max_sentences=12"], 2, "another version")
        if {path: contents(path) for path in place.folder.glob("runs/describe-*")} != runs:
            wrong += 1
            print("WRONG: a finished run was changed")
    return 1 if wrong else 0


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, f"{path.name} has no {old!r}"
    path.write_text(text.replace(old, new, 1))


if __name__ == "__main__":
    sys.exit(main())
