"""When training ends, and how the learning rate goes until then.

Training is tied to a number of steps or to a time budget; either way it knows only its progress, a
fraction from 0 to 1, and every schedule is a function of that fraction. So a run of five minutes
ends with its rate at the floor on a slow machine too. Costs nothing.
"""

import math
from typing import Literal, get_args

from workbench.errors import WorkbenchError, did_you_mean

Shape = Literal["linear", "cosine", "constant", "wsd"]
SHAPES: tuple[str, ...] = get_args(Shape)
DECAY = 0.2  # of a run under `wsd`, at its end
FLOOR = 0.0  # of the rate, where a schedule ends


def multiplier(progress: float, shape: str, warmup: float) -> float:
    """What the rate is multiplied with: up to 1 over `warmup`, then down as the shape says.

    linear and cosine fall all the way; constant does not; wsd (warm-up, stable, decay) stays at 1
    and falls in a line over the last fifth.
    """
    progress = min(max(progress, 0.0), 1.0)
    if progress < warmup:
        return progress / warmup
    rest = (progress - warmup) / (1 - warmup) if warmup < 1 else 1.0
    if shape == "constant":
        return 1.0
    if shape == "linear":
        return FLOOR + (1 - FLOOR) * (1 - rest)
    if shape == "cosine":
        return FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * rest)) / 2
    return FLOOR + (1 - FLOOR) * min(1.0, (1 - progress) / DECAY)


def require_shape(shape: str) -> None:
    """Refuse what is no schedule."""
    if shape not in SHAPES:
        raise WorkbenchError(f"there is no schedule {shape!r}.", remedy=did_you_mean(shape, SHAPES))


def progress_at(step: int, elapsed: float, steps: int | None, seconds: float | None) -> float:
    """How far a step is into the run; steps count from 0 and are taken in their middle."""
    if steps is not None:
        return (step + 0.5) / steps
    assert seconds is not None, "a plan has steps or seconds"
    return elapsed / seconds


def is_over(step: int, elapsed: float, steps: int | None, seconds: float | None) -> bool:
    """Whether no further step is to be made."""
    if steps is not None:
        return step >= steps
    assert seconds is not None, "a plan has steps or seconds"
    return elapsed >= seconds
