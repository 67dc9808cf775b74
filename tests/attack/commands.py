"""The `workbench` command in folders of its own: what it says, and how it ends. Costs a process."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

LIMIT = 600.0  # seconds that a command may take


@dataclass
class Commands:
    """A folder with its own runs, home and scratch."""

    folder: Path

    def __post_init__(self) -> None:
        (self.folder / "tmp").mkdir(exist_ok=True)

    def env(self, runs: str = "runs") -> dict[str, str]:
        """What a command finds around it."""
        return {
            **os.environ,
            "WORKBENCH_RUNS": str(self.folder / runs),
            "WORKBENCH_HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
        }

    def begun(self, arguments: list[str], runs: str = "runs") -> subprocess.Popen[bytes]:
        """A command that goes on by itself, in a session of its own."""
        with (self.folder / "said").open("ab") as said:
            return subprocess.Popen(
                [sys.executable, "-m", "workbench", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=self.env(runs),
                cwd=self.folder,
                start_new_session=True,
            )

    def completed(self, arguments: list[str], runs: str = "runs") -> tuple[int, str]:
        """Its exit code and what it said; -1 where it did not end in time."""
        said = self.folder / "said"
        before = said.stat().st_size if said.exists() else 0
        process = self.begun(arguments, runs)
        try:
            code = process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = -1
        return code, said.read_bytes()[before:].decode(errors="replace")
