"""Check the arguments of public functions, so that a wrong type is an error with a remedy.

    @public
    def attention(model: Model, text: "str | Doc") -> AttentionMaps: ...

`wb.attention("mini:bert", "Ben walks.")` then says that `model` is a string, not a Model, and that
`wb.load` opens one. Arguments are compared with the annotations, and whole numbers of NumPy and
torch become those of Python. A class whose module is not yet imported has no instances, so nothing
is imported to check. An argument `seed` must be in the range of all random generators.
`require_choice` and `require_seed` check other values.
`docs/decisions/arguments.md` says why no library does this. Costs: some 50 microseconds per call,
less once every class is imported.
"""

import builtins
import operator
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from workbench.core.errors import WorkbenchError, did_you_mean

P = ParamSpec("P")
R = TypeVar("R")

# How to obtain an object of each class; the first that a parameter accepts is the remedy.
REMEDIES = {
    "Model": "Open a model with wb.load(...).",
    "Corpus": "Open a corpus with wb.read(...).",
    "Docs": "Read texts with wb.read([...]), or take Docs from a corpus: wb.read(...).docs().",
    "Doc": "Take a Doc from a corpus: next(wb.read(...).docs()).",
    "lists": "Of texts: model.encode(wb.encode(wb.read([text, ...]))). Of ids: a list for each "
    "text, without padding, such as model.encode(tokenizer(texts).input_ids).",
    "Batch": "Make a batch with wb.encode(wb.read([...])), of texts or of any corpus.",
    "Pieces": "Make pieces with model.encode(ids), or model.encode(wb.encode(wb.read([...]))).",
    "AttentionMaps": "Make maps with wb.attention(model, text).",
    "Run": "Pass a Run, from wb.run(...) or wb.open_run(name).",
    "HasMaps": "Pass a run of tuned-lens, from wb.run(...) or wb.open_run(name).",
    "Tap": "Pass taps, such as [wb.Capture()].",
    "Tensor": "Make a tensor with torch.tensor(...).",
}
NAMES = {"write_report": "report"}  # of functions that `workbench` exports under another name
WORDS = {
    str: "a string",
    bytes: "bytes",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    type(None): "None",
    os.PathLike: "a path",
    Path: "a path",
    Any: "anything",
}
PLURALS = {
    "Corpus": "Corpora", "anything": "anything", "list of whole numbers": "lists of whole numbers"
}  # fmt: skip
PLAIN = (str, bytes, int, float, list, tuple, dict, set, type, type(None))


class _Absent:
    """Stands for a class whose module is not imported: nothing is an instance of it."""


def public(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function raise `WorkbenchError` where an argument has the wrong type."""
    parameters = signature(function).parameters
    name = function.__qualname__.removesuffix(".__init__")
    name = NAMES.get(name, name)
    hints: dict[str, Any] = {}  # kept once every name in them is known

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        values = dict(zip(parameters, args, strict=False)) | kwargs
        known = hints or _hints(function, hints)
        given, named = list(args), dict(kwargs)
        for key, value in values.items():
            parameter = parameters.get(key)
            if parameter is None or parameter.annotation is Parameter.empty:
                continue
            if parameter.kind is Parameter.VAR_KEYWORD:
                continue
            several = parameter.kind is Parameter.VAR_POSITIONAL
            first = list(parameters).index(key)
            for index, each in enumerate(args[first:] if several else (value,), first):
                if not _accepts(known[key], each):
                    raise _wrong_type(name, key, known[key], each)
                if key == "seed" and isinstance(each, int):
                    require_seed(each)
                if key in named:
                    named[key] = _python_integer(known[key], each)
                else:
                    given[index] = _python_integer(known[key], each)
        return function(*given, **named)  # type: ignore[arg-type]

    return checked


def require_choice(name: str, value: object, choices: Any) -> None:
    """Raise `WorkbenchError` where a value is none of the choices, a `Literal` or some strings."""
    known = typing.get_args(choices) or tuple(choices)
    if isinstance(value, str) and value in known:
        return
    shown = value if isinstance(value, str) else f"{value!r:.40}"
    raise WorkbenchError(
        f"{name} is {value!r:.40}, which is not one of its values.",
        code="setting-invalid",
        remedy=did_you_mean(shown, known),
    )


def require_seed(seed: int) -> None:
    """Raise `WorkbenchError` where a seed is not in the range of all random generators."""
    if not 0 <= seed < 2**32:
        raise WorkbenchError(
            f"the seed is {seed}.",
            code="seed-invalid",
            remedy="Use a whole number from 0 to 4294967295.",
        )


def _wrong_type(name: str, key: str, hint: Any, value: object) -> WorkbenchError:
    wanted = _written(hint)
    named = re.findall(r"\w+", wanted)
    remedies = [
        text
        for kind, text in REMEDIES.items()
        if {kind, f"{kind}s"} & {*named} and not {"string", "strings"} & {*named}
    ]
    if type(value).__name__ == "Experiment":
        remedies = [
            "Pass its name, if an installed package offers it; or call "
            "experiment.run(inputs, settings, progress)."
        ]
    if "Figure" in named and hasattr(value, "figure"):
        remedies = ["Pass its figure, which its method figure() returns."]
    shown = f" ({value!r:.40})" if isinstance(value, str | int | float) else ""
    if isinstance(value, list | tuple) and len(value) and {"list", "tuple"} & {*named}:
        items = [part for part in _items(hint) if part is not Any]
        accepted = [any(_accepts(part, item) for part in items) for item in value]
        wrong = [n for n, is_accepted in enumerate(accepted) if items and not is_accepted]
        if wrong:
            shown = f" whose item {wrong[0]} is {_written(type(value[wrong[0]]))}"
    return WorkbenchError(
        f"{key} must be {wanted}, not {_written(type(value))}{shown}.",
        code="wrong-type",
        where=name if "." in name else f"wb.{name}",  # of a method, its class need not be exported
        remedy=remedies[0] if remedies else f"Pass {wanted} as {key}.",
    )


def _items(hint: Any) -> list[Any]:
    """The types that items of a list may have, where a list may be passed."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return [item for part in arguments for item in _items(part)]
    is_list = isinstance(origin, type) and issubclass(origin, Iterable)
    return [arguments[0]] if is_list and arguments else []


def _written(hint: Any) -> str:
    """A type as a reader knows it: `a string or a Doc`."""
    origin, arguments = _parts(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(_written, arguments)))
    kind = origin or hint
    if origin is typing.Literal:
        return " or ".join(map(repr, arguments))
    if origin is tuple and Ellipsis not in arguments:
        return f"({', '.join(map(_written, arguments))})"
    if kind in WORDS:
        return WORDS[kind]
    if kind is Callable:
        return "a function"
    if not isinstance(kind, type):
        return str(hint)
    if kind.__name__ == "ndarray":
        return "a numpy array"
    if arguments and issubclass(kind, Iterable) and not issubclass(kind, Mapping):
        items = [
            each.removeprefix("a ").removeprefix("an ")
            for each in _written(arguments[0]).split(" or ")
        ]
        listed = "tuple" if kind is tuple else "list"
        return f"a {listed} of {' or '.join(PLURALS.get(each, f'{each}s') for each in items)}"
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    return f"{article} {kind.__name__.removeprefix('_')}"


def check_fields(instance: object, skip: tuple[str, ...] = ()) -> None:
    """Raise `WorkbenchError` where a field of a dataclass has the wrong type."""
    kind = type(instance)
    for key, hint in _hints(kind, {}).items():
        if key not in skip and not _accepts(hint, value := getattr(instance, key, None)):
            raise _wrong_type(kind.__name__, key, hint, value)


class _Module:
    """A module that is not imported, such as `pd`, in `pd.DataFrame`."""

    def __getattr__(self, name: str) -> Any:
        return Any


class _Names(Mapping[str, Any]):
    """The names in annotations: of the function's module, or of modules that are imported."""

    def __init__(self, module: str) -> None:
        self.known = vars(sys.modules[module])
        self.absent = False

    def __getitem__(self, name: str) -> Any:
        if name in self.known:
            return self.known[name]
        if hasattr(builtins, name):
            return getattr(builtins, name)
        for module in (
            "workbench",
            "spacy.tokens",
            "torch",
            "pathlib",
            "os",
            "numpy",
            "numpy.typing",
        ):
            found = vars(sys.modules[module]).get(name) if module in sys.modules else None
            if isinstance(found, type | types.GenericAlias) or hasattr(found, "__value__"):
                return found  # the latter two are NDArray, up to Python 3.11 and from 3.12 on
        home = (sys.modules["workbench"].home_of(name) or "").partition(":")[0]
        found = vars(sys.modules[home]).get(name) if home in sys.modules else None
        if isinstance(found, type):
            return found
        if name in sys.modules:
            return sys.modules[name]
        self.absent = True
        if name.islower():
            return _Module()
        return type(name, (_Absent,), {}) if home or name in REMEDIES else Any

    def __iter__(self) -> Any:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)


def _hints(function: Callable[..., Any], kept: dict[str, Any]) -> dict[str, Any]:
    names = _Names(function.__module__)
    try:
        hints = typing.get_type_hints(function, localns=names)
    except (AttributeError, NameError, TypeError):  # a name that cannot be resolved: no check
        hints = dict.fromkeys([*signature(function).parameters, *function.__annotations__], Any)
    if not names.absent:
        kept.update(hints)
    return hints


def _parts(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """The origin and the arguments of a type.

    NDArray[np.int64] is np.ndarray here, also where numpy declares it by a `type` statement.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    declared = getattr(origin, "__value__", None)
    return (typing.get_origin(declared) or declared or origin), arguments


def _accepts(hint: Any, value: object) -> bool:
    """Whether a value may be passed where this type is annotated; unsure is yes."""
    origin, arguments = _parts(hint)
    if hint is Any:
        return True
    if hint is None or hint is type(None):
        return value is None
    if origin in (typing.Union, types.UnionType):
        return any(_accepts(part, value) for part in arguments)
    if origin is typing.Literal:
        return True  # the function names the choices
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return _is_integer(value)
    kind = origin or hint
    if kind is Callable or kind is getattr(typing, "Callable", None):
        return callable(value)
    if not isinstance(kind, type):
        return True
    if getattr(kind, "_is_protocol", False):  # a class of the user's need not inherit from it
        return not isinstance(value, (*PLAIN, Iterator))
    has_places = hasattr(value, "__getitem__") and hasattr(value, "__len__")
    if kind is Sequence and has_places and not isinstance(value, Mapping):
        pass  # an array serves
    elif not isinstance(value, kind):
        return False
    if origin is not None and issubclass(kind, Iterable) and not issubclass(kind, Mapping):
        if isinstance(value, str | bytes):  # a text is never meant as a sequence of letters
            return False
        if arguments and isinstance(arguments[0], type) and arguments[0] in type(value).__mro__:
            return False  # one of what is to be several
        if origin is tuple and Ellipsis not in arguments:
            return True
        if arguments and isinstance(value, list | tuple):
            return all(_accepts(arguments[0], item) for item in value)
    return True


def _is_integer(value: object) -> bool:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return False
    try:
        operator.index(value)
    except (TypeError, RuntimeError):  # an array of several numbers, or of other numbers
        return False
    return str(getattr(value, "dtype", "")) not in ("bool", "torch.bool")


def _python_integer(hint: Any, value: Any) -> Any:
    """A whole number of NumPy or torch as one of Python, where nothing else of it is accepted."""
    if isinstance(value, int) or not hasattr(value, "__index__"):
        return value
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    parts = typing.get_args(hint) if is_union else (hint,)
    if int not in parts or any(_accepts(part, value) for part in parts if part is not int):
        return value
    return operator.index(value)
