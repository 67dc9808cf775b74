"""Names for things that are imported only when they are asked for.

A registry maps a name to `"module:attribute"`; other packages add to it by an entry point of its
group. Two things of one name are an error, an unknown name says which is near. Costs nothing until
a name is looked up, then one import.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, wraps
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from workbench.core.errors import WorkbenchError, did_you_mean

T = TypeVar("T")
F = TypeVar("F")


class Registry(Mapping[str, T], Generic[T]):
    """Lazy `name -> thing`, open to other packages through the entry points of `group`."""

    def __init__(self, what: str, group: str, own: Mapping[str, str], kind: type[T]) -> None:
        self.what, self.group, self.own, self.kind = what, group, own, kind

    @cached_property
    def homes(self) -> Mapping[str, str]:
        """Where each name's thing is: our own, and those of installed packages."""
        homes = dict(self.own)
        for point in entry_points(group=self.group):
            if homes.get(point.name, point.value) != point.value:
                raise WorkbenchError(
                    f"two {self.what}s are called {point.name!r}: {homes[point.name]} and "
                    f"{point.value}.",
                    remedy=f"Uninstall one, or rename its entry point in {self.group}.",
                )
            homes[point.name] = point.value
        return dict(sorted(homes.items()))

    def __getitem__(self, name: str) -> T:
        if name not in self.homes:
            raise WorkbenchError(
                f"there is no {self.what} {name!r}.", remedy=did_you_mean(name, self.homes)
            )
        found = imported(self.homes[name], f"{self.what} {name!r}")
        if not isinstance(found, self.kind):
            raise WorkbenchError(
                f"{self.what} {name!r} is a {type(found).__name__}, not a {self.kind.__name__}.",
                where=self.homes[name],
                remedy="Mend the package that offers it.",
            )
        return found

    def __contains__(self, name: object) -> bool:
        return name in self.homes

    def __repr__(self) -> str:
        return f"<{len(self)} {self.what}s: {', '.join(self)}>"

    def __iter__(self) -> Iterator[str]:
        return iter(self.homes)

    def __len__(self) -> int:
        return len(self.homes)


def imported(home: str, what: str) -> Any:
    """The thing at `"module:attribute"`; a package that cannot be imported is named."""
    module, _, attribute = home.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise WorkbenchError(
            f"{what} cannot be imported: {error}.",
            where=home,
            remedy="Install or mend the package that offers it.",
        ) from error


class Code(Generic[F]):
    """A dataclass field that holds a function, given as itself or by its place: "module:function".

    What is given by its place is imported when it is first called. A default makes it optional.
    """

    def __init__(self, *default: F) -> None:
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> F:
        if instance is not None:
            found: F = vars(instance)[self.name]
            return found
        if not self.default:
            raise AttributeError(self.name)  # so that a dataclass takes it for a required field
        return self.default[0]

    def __set__(self, instance: Any, given: F | str) -> None:
        what = f"{self.name} of {instance.name}"
        vars(instance)[self.name] = Placed(given, what) if isinstance(given, str) else given


@dataclass(frozen=True)
class Placed:
    """The function at `home`, "module:function"; `what` it is for an error."""

    home: str
    what: str

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself, imported."""
        found: Callable[..., Any] = imported(self.home, self.what)
        return found

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


# --- remembered per object ------------------------------------------------------------------------
#
# For what is slow to find out and stays as it is. Costs what is remembered.

A = TypeVar("A")


def once(look: Callable[[A], T]) -> Callable[[A], T]:
    """The same look, taken once of each object; an error is not remembered."""
    told: WeakKeyDictionary[A, T] = WeakKeyDictionary()

    @wraps(look)
    def answer(one: A) -> T:
        if one not in told:
            told[one] = look(one)
        return told[one]

    return answer
