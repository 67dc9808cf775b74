"""What an experiment is: its definition, its settings, and how its sample grows.

`wb.experiment` makes one of a function: calling the package calls `declare`. Authors of analyses
import from here what `import workbench` does not have: `Caveat`, `Inputs`, `Progress`, `Table`.
Costs: importing pydantic.
"""

import inspect
import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, overload

from workbench.core.public import public
from workbench.experiment.definition import (
    Caveat,
    Experiment,
    Inputs,
    Progress,
    Result,
    Settings,
    Table,
)

if TYPE_CHECKING:
    from workbench.experiment.from_function import FunctionExperiment

__all__ = [
    "Caveat",
    "Experiment",
    "Inputs",
    "Progress",
    "Result",
    "Settings",
    "Table",
    "declare",
]


@overload
def declare(function: Callable[..., Any]) -> "FunctionExperiment": ...
@overload
def declare(*, name: str) -> "Callable[[Callable[..., Any]], FunctionExperiment]": ...
@public
def declare(function: Callable[..., Any] | None = None, *, name: str = "") -> Any:
    """Make an experiment of a function, for `wb.run`, `wb.sweep` and reports at once.

    Its arguments `model` (or `models`), `corpus` (or `corpora`), `docs`, `seed`, `progress` and
    `inputs` are given by the run; every other argument is a setting and needs a default. It returns
    a data frame, or a mapping of names to data frames, or a `Result`. The columns of a named index
    identify the rows of a table; without one, it gets a column `row`. In a file that an analysis
    announces, the same function is an experiment of the command line and the app.

    Args:
        function: The function; its docstring says in a sentence what is computed.
        name: The name of the experiment (default: that of the function).

    Returns:
        The `Experiment`, which can be called as the function.

    Raises:
        WorkbenchError: An argument has no default, or another experiment has the name.

    Example:
        >>> import pandas as pd
        >>> @wb.experiment
        ... def sentence_lengths(docs, longest: int = 40):
        ...     "Counts the words of each sentence."
        ...     return pd.DataFrame({"words": [len(doc) for doc in docs if len(doc) <= longest]})
        >>> run = wb.run(sentence_lengths, corpus=["The dog saw Mary.", "Mary ran."])
        >>> run.tables["results"]["words"].tolist()
        [5, 3]
    """
    from workbench.experiment.from_function import made

    return partial(made, name=name) if function is None else made(function, name)


class _Declare(ModuleType):
    __call__ = staticmethod(declare)


__doc__ = f"{declare.__doc__}\n{__doc__}"
__signature__ = inspect.signature(declare)  # of `wb.experiment`, as notebooks show it
sys.modules[__name__].__class__ = _Declare
