"""The process of one run: `python -m workbench.runs.worker FOLDER --lock DESCRIPTOR`.

It holds the run's lock for as long as it lives, waits for its device, opens what the question names
(which must still be what it was), runs the experiment, and writes down how it ended. The
terminating signal ends it cleanly. Costs the imports and the opening: half a second where neither
torch nor spaCy is needed.
"""

import argparse
import faulthandler
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from workbench.runs.status import Cancelled, Journal


def main() -> int:
    """Do the run of a folder; 0 done, 1 failed, 2 bad input, 130 cancelled."""
    parser = argparse.ArgumentParser(prog="workbench.runs.worker", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lock", type=int, required=True, help="descriptor of the held lock")
    parser.add_argument("--share", action="store_true", help="do not wait for the device")
    parser.add_argument("--with-parent", action="store_true", help="end when standard input does")
    asked = parser.parse_args()
    faulthandler.enable()
    signal.signal(signal.SIGTERM, _cancel)
    os.set_inheritable(asked.lock, False)
    if asked.with_parent:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    told = Journal(asked.folder)  # from here on it can be ended by its number
    from workbench.runs.execute import execute
    from workbench.runs.subruns import SUBRUNS

    return execute(told, SUBRUNS, share=asked.share)


def _cancel(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough; the next is SIGKILL
    raise Cancelled


def _end_with_parent() -> None:
    """A job on a cluster must not outlive the worker that the cluster believes it is on."""
    os.read(0, 1)  # not through sys.stdin, whose lock Python would wait for as it ends
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
