"""A starter that has imported next to nothing, for tests of how it listens, forks and ends."""

import os
import threading
import time

from workbench.core.ending import run_process
from workbench.runs.processes import starter

starter._FIRST = starter._THEN = ()
starter._analyses = tuple  # type: ignore[assignment]
starter.EVERY = 0.1
if os.environ.get("WORKBENCH_TESTS_THREAD"):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
if __name__ == "__main__":
    run_process(starter.main)
