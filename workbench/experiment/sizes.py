"""Settings of an experiment that samples: how much to compute, and how much of a corpus to read."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from workbench.corpora.splits import SplitSizes
from workbench.experiment.definition import Settings

Effort = Literal["quick", "standard", "full"]
_NUMBER = r"\d+(?:\.\d+)?"
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(time: str) -> float:
    """Return a time in seconds: `90s`, `10m`, `1.5h`, `1h30m`; a number alone is seconds."""
    text = time.lower().replace(" ", "")
    if not re.fullmatch(rf"{_NUMBER}|({_NUMBER}[smhd])+", text):
        raise ValueError("a time is a number with a unit, such as 90s, 10m or 1h30m")
    parts = re.findall(rf"({_NUMBER})([smhd]?)", text)
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _checked_time(time: str) -> str:
    seconds_of(time)
    return time.strip()


Time = Annotated[
    str,
    BeforeValidator(lambda time: f"{time:g}s" if isinstance(time, int | float) else time),
    AfterValidator(_checked_time),
]


class GrowingSettings(Settings):
    """Settings of an experiment whose sample grows until its question is decided."""

    effort: Effort = Field(
        "standard",
        description="How much to compute (default: standard). quick: one small sample, marked as "
        "rough. standard: from the sizes below, four times as much at each step, until the "
        "findings are decided, the data or the time ends; sizes other than the defaults do not "
        "grow. full: all data.",
    )
    time: Time = Field(
        "10m",
        description="Time after which a sample no longer grows, such as 90s, 10m or 2h (default "
        "10m). 0s: one step. A step that has begun is finished.",
    )


class SplitSettings(GrowingSettings):
    """Settings of an experiment that trains: how many sentences of each split it uses."""

    max_sentences: int | None = Field(
        1000,
        ge=1,
        description="Maximum number of sentences of each split (default 1000; empty: all).",
    )
    max_train: int | None = Field(
        None, ge=1, description="Maximum number of sentences to train on (default: max_sentences)."
    )
    max_dev: int | None = Field(
        None,
        ge=1,
        description="Maximum number of dev sentences, for early stopping (default: max_sentences).",
    )
    max_test: int | None = Field(
        None, ge=1, description="Maximum number of sentences to score (default: max_sentences)."
    )

    @property
    def split_sizes(self) -> SplitSizes:
        """Return the maximum of each split."""
        each = (self.max_train, self.max_dev, self.max_test)
        return SplitSizes(*(self.max_sentences if size is None else size for size in each))
