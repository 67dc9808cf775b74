"""Runs: each computation of an experiment, with a folder on disk that stores all its results.

`wb.runs()` lists them: calling the package calls `list_runs`. Costs: nothing until it is called.
"""

import inspect
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.runs.run import Run


def list_runs(built_in: bool = False) -> "list[Run]":
    """List all runs on disk, the newest first, or the results that are shipped with Workbench.

    Args:
        built_in: Whether to list the built-in results instead: finished runs of the mini models, in
            the order of a story (corpus, predictions, heads, pruning, layers, fine-tuning,
            attribution). Their names begin with `built-in/`, and they cannot be changed.

    Returns:
        A list of `Run`s in any state.

    Example:
        >>> run = wb.run("describe", corpus="primer:size=40")
        >>> run in wb.runs()
        True
        >>> wb.runs(built_in=True)[0].name
        'built-in/describe-primer'
    """
    if built_in:
        from workbench.runs.builtin import builtin_runs

        return builtin_runs()
    from workbench.runs.run import all_runs

    return [run for run, _ in all_runs()]


class _Runs(ModuleType):
    __call__ = staticmethod(list_runs)


__doc__ = f"{list_runs.__doc__}\n{__doc__}"
__signature__ = inspect.signature(list_runs)  # of `wb.runs`, as notebooks show it
sys.modules[__name__].__class__ = _Runs
