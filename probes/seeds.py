"""Seeds as a setting: each once, and none that a random generator cannot take. Costs nothing."""

from typing import Annotated

from pydantic import AfterValidator


def _checked(seeds: tuple[int, ...]) -> tuple[int, ...]:
    if seeds and (min(seeds) < 0 or max(seeds) >= 1 << 32):
        raise ValueError("seeds are whole numbers from 0 to 4294967295")
    return tuple(dict.fromkeys(seeds))


Seeds = Annotated[tuple[int, ...], AfterValidator(_checked)]
