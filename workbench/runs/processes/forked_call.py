"""Calls of functions that need torch or spaCy, in a process that the starter forks.

    facts = forked_call(opened_facts, "mini:bert", 0, False)

So the calling process imports neither. Arguments and results are JSON. If there is no starter, or
this process has imported them anyway, the function is called here; except in a process of many
threads (`always_fork`), which others would wait for. Costs: a fork; the first time the imports of
the starter.
"""

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from workbench.core.errors import WorkbenchError
from workbench.runs.processes import starter

T = TypeVar("T")
_ERROR = ("what", "code", "where", "remedy")


_always = False


def always_fork() -> None:
    """Fork from here on whenever the starter is ready, also if this process has imported torch."""
    global _always
    _always = True


def forked_call(function: Callable[..., T], *arguments: Any) -> T:
    """Return what a function of a module returns, or raise its `WorkbenchError`."""
    has_imported = bool({"torch", "spacy"} & sys.modules.keys())
    if has_imported and not _always:
        return function(*arguments)
    if not has_imported:
        starter.begin()
    with tempfile.TemporaryFile() as out, Path(os.devnull).open("rb") as nothing:
        process = starter.fork(
            __name__,
            [function.__module__, function.__qualname__, json.dumps(arguments)],
            stdin=nothing.fileno(),
            stdout=out.fileno(),
            stderr=_standard_error(nothing.fileno()),
            patience=0.0 if has_imported else starter.PATIENCE,
        )
        if process is None:
            return function(*arguments)
        try:
            process.wait()
        finally:
            process.kill()
        out.seek(0)
        lines = out.read().splitlines()
    try:
        reply = json.loads(lines[-1])
    except (ValueError, IndexError):  # it died, perhaps for lack of memory
        return function(*arguments)
    if error := reply.get("error"):
        raise WorkbenchError(error["what"], **{name: error[name] for name in _ERROR[1:]})
    result: T = reply["result"]
    return result


def _standard_error(otherwise: int) -> int:
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return otherwise


def main() -> int:
    """Call the function that the arguments name; print its result as JSON."""
    module, name, arguments = sys.argv[1:]
    reply: dict[str, Any]
    try:
        with contextlib.redirect_stdout(sys.stderr):
            reply = {"result": getattr(import_module(module), name)(*json.loads(arguments))}
    except WorkbenchError as error:
        reply = {"error": {name: getattr(error, name) for name in _ERROR}}
    except Exception:  # a bug: the calling process calls it again, and has its traceback
        return 1
    print(json.dumps(reply))
    return 0
