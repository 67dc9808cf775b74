"""An experiment written as one function, in a cell of a notebook or in a file.

    @wb.experiment
    def lengths(docs, longest: int = 40) -> pd.DataFrame:
        "Counts the words of each sentence."
        rows = [len(doc) for doc in docs if len(doc) <= longest]
        return pd.DataFrame({"words": rows})

    wb.run(lengths, corpus="primer", longest=20)

Arguments with these names are the inputs of a run: `model` or `models`, `corpus` or `corpora`,
`docs` (the Docs of the split, in a list), `seed`, `progress`, and `inputs`, which has all of them.
Each other argument is a setting, with its annotation and default. The version is a hash of the
function and of the functions and numbers that it uses of its module, so a changed cell is another
request. Costs: a hash of its source.
"""

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import wraps
from types import CodeType, FunctionType
from typing import Any, get_type_hints

import pandas as pd
from pydantic import PydanticUserError, create_model

from workbench.core.errors import WorkbenchError
from workbench.experiment.definition import (
    EXPERIMENTS,
    Experiment,
    Inputs,
    Progress,
    Result,
    Settings,
    Table,
)

MODELS = {"model": (1, 1), "models": (1, None), "inputs": (0, None)}
CORPORA = {"corpus": (1, 1), "docs": (1, 1), "corpora": (1, None), "inputs": (0, None)}
INPUTS = {*MODELS, *CORPORA, "seed", "progress"}
TABLE = "results"  # the name of the table that a function returns
ROW = "row"  # the key of a table without a named index
_PLAIN = (str, int, float, bool, tuple, frozenset, type(None))  # values that a hash can have


@dataclass(frozen=True, kw_only=True, repr=False)
class FunctionExperiment(Experiment[Any]):
    """An experiment that is still called as the function that it was."""

    function: Callable[..., Any] = field(compare=False)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function itself."""
        return self.function(*arguments, **named)


def made(function: Callable[..., Any], name: str) -> FunctionExperiment:
    """The experiment of a function, which this process knows from now on."""
    name = name or function.__name__.replace("_", "-").strip("-")
    taken, settings = _arguments(function, name)
    tables: dict[str, Table] = {}  # known when it has run
    about = (inspect.getdoc(function) or "").partition("\n\n")[0].replace("\n", " ")

    @wraps(function)
    def run(inputs: Inputs, settings: Settings, progress: Progress) -> Result:
        given = {key: _input(key, inputs, progress) for key in taken}
        own = {key: getattr(settings, key) for key in type(settings).model_fields}
        own = own if "max_sentences" in inspect.signature(function).parameters else _without(own)
        found = function(**given, **own)
        result = _result(found, name)
        tables.update({each: Table(about, result.keys[each]) for each in result.keys})
        return result.result

    experiment = FunctionExperiment(
        name=name,
        about=about or f"What the function {function.__name__} computes.",
        settings=settings,
        run=run,
        tables=tables,
        version=_version(function),
        models=next((MODELS[key] for key in taken if key in MODELS), (0, 0)),
        corpora=next((CORPORA[key] for key in taken if key in CORPORA), (0, 0)),
        function=function,
    )
    EXPERIMENTS.add(name, experiment, function.__module__)
    return experiment


def _without(own: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without that of every experiment, which its inputs heed."""
    return {key: value for key, value in own.items() if key != "max_sentences"}


def _input(key: str, inputs: Inputs, progress: Progress) -> Any:
    if key == "docs":
        return list(inputs.docs())
    return {"inputs": inputs, "progress": progress}.get(key) or getattr(inputs, key)


def _arguments(function: Callable[..., Any], name: str) -> tuple[list[str], type[Settings]]:
    """The inputs that a function takes, and the class of its settings."""
    hints = get_type_hints(function, include_extras=True)
    taken, fields = [], {}
    for key, each in inspect.signature(function).parameters.items():
        any_number = each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        if key in INPUTS and not any_number:
            taken.append(key)
        elif each.default is each.empty or any_number:
            raise WorkbenchError(
                f"the argument {key!r} has no default, and is none of {', '.join(sorted(INPUTS))}.",
                code="experiment-invalid",
                where=name,
                remedy=f"Write {key}=… with a default: then it is a setting.",
            )
        else:
            kind = hints.get(key, Any if each.default is None else type(each.default))
            fields[key] = (kind, each.default)
    try:
        settings: type[Settings] = create_model(
            f"{function.__name__} settings",
            __base__=Settings,
            __doc__=f"Settings of {name}.",
            **fields,  # type: ignore[call-overload]
        )
        settings()
    except (PydanticUserError, NameError, TypeError) as error:
        raise WorkbenchError(
            f"its settings cannot be declared: {str(error).splitlines()[0]}",
            code="experiment-invalid",
            where=name,
            remedy="Annotate settings with plain types, such as int, str or tuple[int, ...].",
        ) from None
    return taken, settings


# --- what a function returns ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Keyed:
    """A result, and the keys of its tables."""

    result: Result
    keys: Mapping[str, tuple[str, ...]]


def _result(found: Any, name: str) -> _Keyed:
    """The tables of what a function returned."""
    result = found if isinstance(found, Result) else None
    given = {TABLE: found} if isinstance(found, pd.DataFrame) else found
    tables = result.tables if result is not None else given
    if not isinstance(tables, Mapping) or not all(
        isinstance(each, pd.DataFrame) for each in tables.values()
    ):
        raise WorkbenchError(
            f"it returned a {type(found).__name__}, which is no table.",
            code="result-invalid",
            where=name,
            remedy="Return a data frame, a mapping of names to data frames, or a Result.",
        )
    keyed = {str(each): _keyed(table) for each, table in tables.items()}
    frames = {each: table for each, (table, _) in keyed.items()}
    arrays, caveats = (result.arrays, result.caveats) if result is not None else ({}, ())
    keys = {each: key for each, (_, key) in keyed.items()}
    return _Keyed(Result(frames, arrays, caveats), keys)


def _keyed(table: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """A table with the columns that identify a row: its named index, else the number of the row."""
    names = [name for name in table.index.names if name is not None]
    if names:
        return table.reset_index().rename(columns=str), tuple(map(str, names))
    plain = table.reset_index(drop=True).rename(columns=str)
    if ROW not in plain.columns:
        plain.insert(0, ROW, range(len(plain)))
    return plain, (ROW,)


# --- the version ----------------------------------------------------------------------------------


def _version(function: Callable[..., Any]) -> int:
    """A number that changes with the code of a function, and with what it uses of its module."""
    digest = hashlib.sha256()
    for part in _parts(function, set()):
        digest.update(part.encode())
    return int.from_bytes(digest.digest()[:4], "big") >> 1 or 1


def _parts(function: Any, seen: set[int]) -> Iterator[str]:
    """The source of a function, without comments, and of the functions of its module it calls."""
    seen.add(id(function))
    yield _source(function)
    used = inspect.getclosurevars(function)
    for name, value in sorted({**used.globals, **used.nonlocals}.items()):
        if isinstance(value, FunctionType) and value.__module__ == function.__module__:
            if id(value) not in seen:
                yield from _parts(value, seen)
        elif isinstance(value, _PLAIN):
            yield f"{name}={value!r}"


def _source(function: FunctionType) -> str:
    try:
        source = textwrap.dedent(inspect.getsource(function))
        return ast.unparse(ast.parse(source))
    except (OSError, SyntaxError, TypeError):  # typed into a prompt, or made by exec
        return "".join(_code(function.__code__))


def _code(code: CodeType) -> Iterator[str]:
    yield repr((code.co_code, code.co_names, code.co_varnames))
    for value in code.co_consts:
        yield from _code(value) if isinstance(value, CodeType) else [repr(value)]
