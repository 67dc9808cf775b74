"""Registries: names for objects that are imported when they are first used.

A registry maps a name to `"module:attribute"`. The error for an unknown name suggests the nearest.
Costs: nothing until a name is looked up, then one import.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from importlib import import_module
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from workbench.core.errors import WorkbenchError, did_you_mean, line_of, what_is_wrong

T = TypeVar("T")
F = TypeVar("F")


class Registry(Mapping[str, T], Generic[T]):
    """A lazy mapping from names to objects, whose homes are looked up when it is first used."""

    def __init__(
        self,
        what: str,
        homes: Callable[[], Mapping[str, str]],
        kind: type[T],
        faults: Callable[[], Sequence[WorkbenchError]] = tuple,
    ) -> None:
        self.what, self._homes, self.kind, self._faults = what, homes, kind, faults
        self.added: dict[str, T] = {}  # in this process alone, such as in a cell of a notebook

    @cached_property
    def homes(self) -> Mapping[str, str]:
        """Return `"module:attribute"` of each name."""
        return dict(sorted(self._homes().items()))

    def add(self, name: str, value: T, module: str) -> None:
        """Add what this process alone has; one of the same name is replaced.

        What an analysis announces is there already: nothing is added for it.
        """
        home = self.homes.get(name, "").partition(":")[0]
        if home and home != module:
            raise WorkbenchError(
                f"the {self.what} {name!r} is there already.",
                code="name-conflict",
                where=home,
                remedy="Choose another name.",
            )
        if not home:
            self.added[name] = value

    def __getitem__(self, name: str) -> T:
        if name in self.added:
            return self.added[name]
        for fault in self._faults():
            if fault.code == "name-conflict" and f"{self.what} {name!r}" in fault.what:
                raise fault.with_traceback(None)  # never one in the place of the other
        if name not in self.homes:
            faults = (fault.what.removesuffix(".") for fault in self._faults())
            raise WorkbenchError(
                "; ".join([f"there is no {self.what} {name!r}", *faults]) + ".",
                code=f"{self.what}-not-found".replace(" ", "-"),
                remedy=did_you_mean(name, self),
            )
        value = imported(self.homes[name], f"{self.what} {name!r}")
        if not isinstance(value, self.kind):
            raise WorkbenchError(
                f"{self.what} {name!r} is a {type(value).__name__}, no {self.kind.__name__}.",
                code="plugin-invalid",
                where=self.homes[name],
                remedy="Fix the package that provides it.",
            )
        if (own := getattr(value, "name", name)) != name:
            raise WorkbenchError(
                f"{self.what} {name!r} calls itself {own!r}.",
                code="plugin-invalid",
                where=self.homes[name],
                remedy="Announce it under its own name.",
            )
        return value

    def usable(self) -> tuple[dict[str, T], list[WorkbenchError]]:
        """Return what can be imported, by name, and why the rest, or a package, cannot."""
        found, wrong = {}, list(self._faults())
        for name in self:
            try:
                found[name] = self[name]
            except WorkbenchError as error:
                wrong.append(error)
        return found, list(dict.fromkeys(wrong))

    def __contains__(self, name: object) -> bool:
        return name in self.added or name in self.homes

    def __repr__(self) -> str:
        return f"<{len(self)} {self.what}s: {', '.join(self)}>"

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self.homes, *self.added}))

    def __len__(self) -> int:
        return len({*self.homes, *self.added})


def imported(home: str, what: str) -> Any:
    """Return the object at `"module:attribute"`; an error names `what` where the import fails."""
    module, _, attribute = home.partition(":")
    if not attribute:
        raise WorkbenchError(
            f"{what} cannot be imported: {home!r:.80} is not 'module:attribute'.",
            code="import-failed",
            where=home,
            remedy="Write the module, a colon, and the name in it.",
        )
    try:
        return getattr(import_module(module), attribute)
    except Exception as error:  # code of others may raise anything
        if isinstance(error, WorkbenchError) and error.code != "wrong-type":
            raise
        raise WorkbenchError(
            f"{what} cannot be imported: {what_is_wrong(error)}",
            code="import-failed",
            where=home,
            remedy=f"Install what is missing, or fix {line_of(error) or home}.",
        ) from error


class Code(Generic[F]):
    """A dataclass field that holds a function, or its name "module:function".

    A function given by name is imported when it is first called. A default makes it optional.
    """

    def __init__(self, *default: F) -> None:
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> F:
        if instance is not None:
            function: F = vars(instance)[self.name]
            return function
        if not self.default:
            raise AttributeError(self.name)  # a dataclass then treats the field as required
        return self.default[0]

    def __set__(self, instance: Any, value: F | str) -> None:
        what = f"{self.name} of {instance.name}"
        vars(instance)[self.name] = Placed(value, what) if isinstance(value, str) else value


@dataclass(frozen=True)
class Placed:
    """The function at `home`, "module:function"; `what` names it in an error."""

    home: str
    what: str

    @property
    def function(self) -> Callable[..., Any]:
        """Return the function itself, imported."""
        function: Callable[..., Any] = imported(self.home, self.what)
        return function

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


# --- results cached per object --------------------------------------------------------------------
#
# For results that are slow to compute and do not change. Costs: memory for the results.

A = TypeVar("A")


def once(compute: Callable[[A], T]) -> Callable[[A], T]:
    """Return the same function with its result cached per object; errors are not cached."""
    results: WeakKeyDictionary[A, T] = WeakKeyDictionary()

    @wraps(compute)
    def cached(item: A) -> T:
        if item not in results:
            results[item] = compute(item)
        return results[item]

    return cached
