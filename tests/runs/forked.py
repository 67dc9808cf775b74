"""What a process finds around it, as JSON; or it ends as it is told, or waits."""

import gc
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from workbench.core.ending import run_process
from workbench.runs.processes import resources


def main() -> int:
    match sys.argv[1:]:
        case ["touch", name]:
            Path(name).touch()
        case ["wait", *_]:
            time.sleep(600)
        case ["end", code]:
            return int(code)
        case ["die", number]:
            os.kill(os.getpid(), int(number))
        case ["priority"]:
            before = resources.PRIORITY
            resources.lower_priority()
            print(json.dumps([os.nice(0), before == resources.PRIORITY]))
        case _:
            print(json.dumps(_facts()))
    return 0


def _facts() -> dict[str, object]:
    umask = os.umask(0)
    os.umask(umask)
    return {
        "arguments": sys.argv[1:],
        "environment": dict(os.environ),
        "folder": os.getcwd(),  # noqa: PTH109
        "path": sys.path,
        "umask": umask,
        "leads its session": os.getpid() == os.getsid(0) == os.getpgid(0),
        "files": sorted(os.listdir("/proc/self/fd"))[:-1],  # noqa: PTH208 - the last lists them
        "handlers": [str(signal.getsignal(n)) for n in (signal.SIGINT, signal.SIGTERM)],
        "hash": hash("a text"),
        "threads": threading.active_count(),
        "garbage": gc.isenabled(),
        "main": sys.modules["__main__"].__spec__.name,  # type: ignore[union-attr]
        "command": Path("/proc/self/cmdline").read_text().rstrip("\0").split("\0")[1:],
        "input": sys.stdin.read(),
    }


if __name__ == "__main__":
    run_process(main)
