"""Workbench: train or load language models and see what is inside them.

    import workbench as wb
    run = wb.run("describe", corpus="primer")
    run.tables["relations"]

Names are looked up when first used, so `import workbench` costs milliseconds.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from workbench.core.errors import WorkbenchError

if TYPE_CHECKING:
    from workbench.corpora import read, write
    from workbench.corpora.describe import describe
    from workbench.models.loading import load
    from workbench.report import write_report as report
    from workbench.runs.api import experiments, open_run, run

__version__ = "0.1.0"
__all__ = [
    "WorkbenchError",
    "__version__",
    "describe",
    "experiments",
    "load",
    "open_run",
    "read",
    "report",
    "run",
    "write",
]

_HOMES = {
    "describe": "workbench.corpora.describe:describe",
    "experiments": "workbench.runs.api:experiments",
    "load": "workbench.models.loading:load",
    "open_run": "workbench.runs.api:open_run",
    "read": "workbench.corpora:read",
    "report": "workbench.report:write_report",
    "run": "workbench.runs.api:run",
    "write": "workbench.corpora:write",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
