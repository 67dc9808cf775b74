"""Runs: each computation of an experiment, with a folder on disk that stores all its results.

`wb.runs()` lists them: calling the package calls `list_runs`. Costs: nothing until it is called.
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
        A list of `Run`s in any state.

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
