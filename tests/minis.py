"""Built-in models, each opened once in a process: for tests that change nothing of them."""

from functools import cache

import workbench as wb


def shared(name: str, seed: int = 0) -> wb.Model:
    """A model on the CPU; a built-in one, such as `mini:bert` or `mini:bert@random`, is kept."""
    return _kept(name, seed) if name.startswith("mini:") else wb.load(name, device="cpu")


@cache
def _kept(name: str, seed: int) -> wb.Model:
    return wb.load(name, device="cpu", seed=seed)
