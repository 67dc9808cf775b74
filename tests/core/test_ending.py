"""A process that ends early has done all that it would have done."""

import subprocess
import sys

import pytest

from tests.night import mostly

PROGRAM = """
from workbench.core.ending import run_process
def main():
    import atexit, os, sys, threading, time
    class Late:
        def __del__(self, write=os.write):
            write(1, b"freed")
    sys.late = Late()  # freed when the interpreter is taken down
    atexit.register(print, "exit handler")
    threading.Thread(target=lambda: (time.sleep(0.1), print("thread"))).start()
    print("main", end=" ")
    {end}
run_process(main)
"""


ENDS = [
    ("return", 0, ""),
    ("return 3", 3, ""),
    ("sys.exit(2)", 2, ""),
    ("sys.exit()", 0, ""),
    ("sys.exit('why')", 1, "why"),
    ("raise ZeroDivisionError", 1, "ZeroDivisionError"),
]


@pytest.mark.parametrize(
    ("end", "code", "errors"),
    mostly(ENDS, ENDS[0], ENDS[2], ENDS[4], ENDS[5]),
)
def test_threads_handlers_and_streams_come_first(end: str, code: int, errors: str) -> None:
    program = PROGRAM.format(end=end)
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True)
    assert done.returncode == code
    assert done.stdout.startswith("main thread\nexit handler\n") and errors in done.stderr
    assert ("freed" in done.stdout) == bool(errors), "only an error takes the interpreter down"
