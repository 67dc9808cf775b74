"""Wait until the tests are collected: the first import of the process that forks their workers.

In a fresh environment whoever imports a module first compiles it. Processes that import the same at
the same time all do, which takes longer than the imports.
"""

import os
import sys
import time
from pathlib import Path

named = os.environ.get("WORKBENCH_TESTS_COLLECTED")
while named and not Path(named).exists():
    if os.getppid() == 1:  # whoever began it is gone
        sys.exit()
    time.sleep(0.05)
