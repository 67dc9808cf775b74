"""Workbench: train or load language models and see what is inside them.

    import workbench as wb
    corpus = wb.read("primer")
    wb.describe(corpus).relations

Names are looked up when first used, so `import workbench` costs milliseconds.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from workbench.corpora import read, write
    from workbench.corpora.describe import describe
    from workbench.models.loading import load

__version__ = "0.1.0"
__all__ = ["WorkbenchError", "__version__", "describe", "load", "read", "write"]

_HOMES = {
    "describe": "workbench.corpora.describe",
    "load": "workbench.models.loading",
    "read": "workbench.corpora",
    "write": "workbench.corpora",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
