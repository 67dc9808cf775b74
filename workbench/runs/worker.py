"""The process of one run: `python -m workbench.runs.worker FOLDER --lock DESCRIPTOR`.

It holds the lock of the run until it ends, waits for its device, opens the models and corpora of
the request (which must not have changed), runs the experiment, and writes the final status. SIGTERM
cancels it cleanly. Costs: the opening; and the imports, unless the starter forked this process.
"""

import argparse
import faulthandler
import os
import signal
import threading
from pathlib import Path
from types import FrameType

from workbench.core.ending import run_process
from workbench.runs.processes.resources import lower_priority
from workbench.runs.status import Cancelled, Journal


def main() -> int:
    """Compute the run of a folder; return 0 done, 1 failed, 2 bad input, 130 cancelled."""
    parser = argparse.ArgumentParser(prog="workbench.runs.worker", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lock", type=int, required=True, help="descriptor of the held lock")
    parser.add_argument("--share", action="store_true", help="do not wait for the device")
    parser.add_argument("--with-parent", action="store_true", help="end when standard input does")
    arguments = parser.parse_args()
    faulthandler.enable()
    signal.signal(signal.SIGTERM, _cancel)
    os.set_inheritable(arguments.lock, False)
    if arguments.with_parent:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    journal = Journal(arguments.folder)  # stores the process id, so it can be cancelled
    if journal.status.device == "cpu" and not arguments.with_parent:
        lower_priority()
    from workbench.runs.execute import execute
    from workbench.runs.subruns import SUBRUNS

    return execute(journal, SUBRUNS, share=arguments.share)


def _cancel(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # only once; the next signal is SIGKILL
    raise Cancelled


def _end_with_parent() -> None:
    """End this process when its parent on the cluster ends, which restarts the job elsewhere."""
    os.read(0, 1)  # not sys.stdin: Python would wait for its lock at exit
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    run_process(main)
