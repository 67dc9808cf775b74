"""What corpora there are without any file, and what files can be read.

The formats' summaries are the first lines of their readers' modules, which are not imported for
it: most need spaCy. Costs a look at their files.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from pkgutil import get_data
from typing import Any

from workbench.corpora import BUILT_IN
from workbench.corpora.formats import FORMATS


@dataclass(frozen=True)
class BuiltIn:
    """A corpus that comes with Workbench, and the tasks that are read as `NAME/TASK`."""

    name: str
    about: str
    tasks: Mapping[str, str]  # with what each asks


@dataclass(frozen=True)
class Format:
    """A kind of file that can be read, known by its endings."""

    endings: tuple[str, ...]
    about: str


@dataclass(frozen=True)
class Catalogue:
    """All of it, as plain data."""

    built_in: tuple[BuiltIn, ...]
    formats: tuple[Format, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)


def catalogue() -> Catalogue:
    """Look up what there is."""
    return Catalogue(tuple(_built_in()), tuple(_formats()))


def _built_in() -> Iterator[BuiltIn]:
    for name, path in BUILT_IN.items():
        module = import_module(path)
        tasks = {task: _first_line(made.__doc__) for task, made in module.TASKS.items()}
        yield BuiltIn(name, _first_line(module.__doc__), tasks)


def _formats() -> Iterator[Format]:
    endings: dict[str, list[str]] = {}
    for ending, path in FORMATS.items():
        endings.setdefault(path, []).append(ending)
    for path, known in endings.items():
        package, _, name = path.rpartition(".")
        source = get_data(package, f"{name}.py") or b""
        yield Format(tuple(known), _first_line(ast.get_docstring(ast.parse(source))))


def _first_line(docstring: str | None) -> str:
    return (docstring or "").strip().split("\n")[0]
