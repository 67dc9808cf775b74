"""Runs: an experiment as a job with a folder on disk, so that nothing asked is ever lost.

`wb.runs()` lists them: the package is called as `list_runs`.
"""

import inspect
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.runs.run import Run


def list_runs() -> "list[Run]":
    """List all runs on disk, the newest first.

    Returns:
        A list of `Run`s, whatever their state.

    Example:
        >>> run = wb.run("describe", corpus="primer:size=40")
        >>> run in wb.runs()
        True
    """
    from workbench.runs.run import all_runs

    return [run for run, _ in all_runs()]


class _Runs(ModuleType):
    __call__ = staticmethod(list_runs)


__doc__ = f"{list_runs.__doc__}\n{__doc__}"
__signature__ = inspect.signature(list_runs)  # of `wb.runs`, as notebooks show it
sys.modules[__name__].__class__ = _Runs
