"""Homes and folders of runs that may only be read: `python -m tests.attack.read_only` (needs root).

A folder is mounted read-only, and the commands tried on it: what is finished can be looked at, and
what would be written is refused with what to do. Costs twenty commands.
"""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.attack.commands import Commands

CORPUS = ["--corpus", "primer:size=2000"]
MODEL = ["--model", "mini:bert", "--device", "cpu"]


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """The folder on a mount that nobody may write to."""
    subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def main() -> int:
    """Try the commands; 1 where one hangs, shows a traceback or ends otherwise than it should."""
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="attack-read-only-") as temporary:
        place = Commands(Path(temporary))
        code, said = place.completed(["run", "describe", *CORPUS, "--set", "max_sentences=10"])
        assert code == 0, said
        code, said = place.completed(
            ["run", "profile", *MODEL, *CORPUS, "--set", "max_sentences=5"]
        )
        assert code == 0, said
        name = next(path.name for path in place.folder.glob("runs/describe-*"))
        looks = [
            (["runs", "list"], 0),
            (["runs", "show", name], 0),
            (["runs", "verify"], 0),
            (["report", name, "--out", str(place.folder / "report.html")], 0),
            (["export", name, "tags", "--out", str(place.folder / "tags.csv")], 0),
            (["run", "describe", *CORPUS, "--set", "max_sentences=10"], 0),
            (["doctor"], 0),
        ]
        new = ["run", "describe", *CORPUS, "--set"]
        tries = {
            "runs": [
                *looks,
                ([*new, "max_sentences=11"], 2),
                (["runs", "rm", name, "--yes"], 2),
                (["runs", "resume", name], 0),
            ],
            "home": [
                *looks,
                ([*new, "max_sentences=12"], 2),
                ([*new, "max_sentences=12", "--share"], 0),
                (["run", "profile", *MODEL, *CORPUS, "--share", "--set", "max_sentences=6"], 0),
                (["models", "show", "mini:gpt"], 0),
                (["fetch", "elmo-small"], 2),
            ],
        }
        for part, commands in tries.items():
            with read_only(place.folder / part):
                for arguments, right in commands:
                    began = time.monotonic()
                    code, said = place.completed(arguments)
                    seconds = time.monotonic() - began
                    fine = code == right and "Traceback" not in said
                    if code == 2:
                        fine = fine and len(said.strip().splitlines()) >= 2  # a remedy is there
                    wrong += not fine
                    errors = [line for line in said.splitlines() if line.startswith("error")]
                    last = (errors or ["done"])[0][:100]
                    command = " ".join(arguments[:2])
                    mark = "ok   " if fine else "WRONG"
                    print(f"{mark} {part} {code:2} {seconds:5.1f} s  {command}: {last}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
