"""A small text with something to learn in it, the smallest settings, and progress that is kept."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from torch import nn

from workbench.analyses.training import train as training
from workbench.analyses.training.config import Settings
from workbench.analyses.training.task import Plan

NOUNS = "the cat|a dog|my old friend|the queen|every teacher|some birds|two small children".split(
    "|"
)
VERBS = "sees|likes|hears|follows|admires|remembers".split("|")
ENDS = "today|in the garden|at night|again|without a word".split("|")


def lesson(count: int = 300, seed: int = 0) -> list[str]:
    """Paragraphs of four sentences; a blank line after every fifth."""
    rng, lines = Random(seed), []
    for number in range(count):
        parts = (
            f"{rng.choice(NOUNS)} {rng.choice(VERBS)} {rng.choice(NOUNS)} {rng.choice(ENDS)}."
            for _ in range(4)
        )
        lines.append(" ".join(part.capitalize() for part in parts))
        if number % 5 == 4:
            lines.append("")
    return lines


def settings(steps: int = 30, **more: Any) -> Settings:
    """Two layers of 64, sequences of 32, 16 of them a step."""
    plan = Plan(steps=steps, batch_size=16, learning_rate=3e-3, points=10, evaluations=2)
    names = set(Plan.__dataclass_fields__)
    plan = replace(plan, **{key: value for key, value in more.items() if key in names})
    own = {key: value for key, value in more.items() if key not in names}
    return replace(Settings(size="tiny", sequence_length=32, vocabulary_size=360, plan=plan), **own)


class Told:
    """Progress that is kept."""

    def __init__(self) -> None:
        self.progress: list[tuple[int, int | None]] = []
        self.logs: list[str] = []
        self.warnings: list[str] = []

    def __call__(self, done: int, total: int | None = None, doing: str = "") -> None:
        self.progress.append((done, total))

    def log(self, text: str) -> None:
        self.logs.append(text)

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def keep_models(monkeypatch: Any) -> dict[Path, nn.Module]:
    """The models that `train` saves, as they were in memory, by folder."""
    kept: dict[Path, nn.Module] = {}
    save = training.save_trained

    def watched(net: nn.Module, tokenizer: Any, out: Path, *rest: Any) -> None:
        kept[out] = net
        save(net, tokenizer, out, *rest)

    monkeypatch.setattr(training, "save_trained", watched)
    return kept
