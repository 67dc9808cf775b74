"""The built-in corpora, and the file formats that can be read.

The summary of a format is the first line of its reader's docstring. The modules are not imported
for it, because most of them need spaCy. Costs: the reading of the modules' source files.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from workbench.core.groups import grouped
from workbench.corpora import BUILT_IN
from workbench.corpora.formats import formats


@dataclass(frozen=True)
class BuiltIn:
    """A corpus that comes with Workbench, and its tasks, which are read as `NAME/TASK`."""

    name: str
    about: str
    tasks: Mapping[str, str]  # task -> description


@dataclass(frozen=True)
class Format:
    """A file format that can be read, recognised by its file extensions."""

    endings: tuple[str, ...]
    about: str


@dataclass(frozen=True)
class Catalogue:
    """Built-in corpora and file formats, as plain data."""

    built_in: tuple[BuiltIn, ...]
    formats: tuple[Format, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)


def catalogue() -> Catalogue:
    """Collect the built-in corpora and the file formats."""
    return Catalogue(tuple(_built_in()), tuple(_formats()))


def _built_in() -> Iterator[BuiltIn]:
    for name, path in BUILT_IN.items():
        module = import_module(path)
        tasks = {task: _first_line(made.__doc__) for task, made in module.TASKS.items()}
        yield BuiltIn(name, _first_line(module.__doc__), tasks)


def _formats() -> Iterator[Format]:
    endings = grouped((path, ending) for ending, path in formats().items())
    for path, known in endings.items():
        spec = find_spec(path)
        assert spec and spec.origin, "a module of `readers`"
        source = Path(spec.origin).read_bytes()
        yield Format(tuple(known), _first_line(ast.get_docstring(ast.parse(source))))


def _first_line(docstring: str | None) -> str:
    return (docstring or "").strip().split("\n")[0].partition(" Costs: ")[0]
