"""Two grids side by side: whether they can be laid on one another, and if not, why.

Items must agree one by one, in what they say and in the word they belong to, and both grids must
have the same rows and columns; nothing is guessed. Costs a pass over the items.
"""

from itertools import zip_longest

from workbench.maps.grids import Grid
from workbench.maps.items import Items


def apart(one: Grid, other: Grid) -> str:
    """Why no difference can be taken, as a sentence; "" where one can."""
    if one.options.weigh != other.options.weigh:
        return (
            "One side is attention, the other attention times the norm of what is written: "
            "they are not in one unit, so there is no difference to take."
        )
    for what, mine, yours in (
        ("row", one.sides.rows, other.sides.rows),
        ("column", one.sides.columns, other.sides.columns),
    ):
        if why := _unlike(what, mine, yours):
            return why
    if (one.rows, one.columns) != (other.rows, other.columns):
        return (
            f"{one.look.model} has {len(one.rows)} x {len(one.columns)} maps here and "
            f"{other.look.model} {len(other.rows)} x {len(other.columns)}: maps that both have are "
            "shown side by side, without a difference."
        )
    return ""


def _unlike(what: str, mine: Items, yours: Items) -> str:
    pairs = zip_longest(mine.alike, yours.alike)
    for place, (here, there) in enumerate(pairs):
        if here == there:
            continue
        if here is None or there is None:
            longer, rest = (mine, "the first") if there is None else (yours, "the second")
            return (
                f"The texts do not align: there are {len(mine)} {what}s here and {len(yours)} "
                f"there; {longer.names[place]!r} is in {rest} alone."
            )
        if here[0] != there[0]:
            special = (*mine.special[place : place + 1], *yours.special[place : place + 1])
            hint = " Hide special tokens to compare." if any(special) else _by_words(mine, yours)
            return (
                f"The texts do not align: {what} {place} is {here[0]!r} here and {there[0]!r} "
                f"there.{hint}"
            )
        return (
            f"The texts do not align: {what} {place} is {here[0]!r} in both, but of word "
            f"{here[1]} here and word {there[1]} there."
        )
    return ""


def _by_words(mine: Items, yours: Items) -> str:
    """A way out, where two tokenizers cut the same words differently."""
    ours = [max(side.words, default=-1) for side in (mine, yours)]
    cut = len(mine) > len(set(mine.words)) or len(yours) > len(set(yours.words))
    return " By words they may." if ours[0] == ours[1] and cut else ""
