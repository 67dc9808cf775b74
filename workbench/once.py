"""A look at an object that is taken once, and remembered for as long as the object is there.

For what is slow to find out and stays as it is. Costs what is remembered.
"""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

A = TypeVar("A")
T = TypeVar("T")


def once(look: Callable[[A], T]) -> Callable[[A], T]:
    """The same look, taken once of each object; an error is not remembered."""
    told: WeakKeyDictionary[A, T] = WeakKeyDictionary()

    @wraps(look)
    def answer(one: A) -> T:
        if one not in told:
            told[one] = look(one)
        return told[one]

    return answer
