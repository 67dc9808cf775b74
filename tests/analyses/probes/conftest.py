"""States made by hand, for probes with known answers."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from workbench.analyses.probes.probe_training import Data
from workbench.analyses.probes.representations import MODEL, Bank, Source, build_banks


class Silent:
    """Progress that nobody watches."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, done: int, total: int | None = None, doing: str = "") -> None:
        pass

    def log(self, text: str) -> None:
        self.lines.append(text)

    warn = log


@pytest.fixture
def silent() -> Silent:
    return Silent()


@pytest.fixture
def bank() -> Callable[..., Bank]:
    """A bank of these tables, one a layer."""

    def made(*tables: Tensor, encoder: str = MODEL) -> Bank:
        sources = [Source(encoder, "encoder", layer, table) for layer, table in enumerate(tables)]
        return build_banks(sources, torch.device("cpu"), torch.arange(len(tables[0])))[0]

    return made


@pytest.fixture
def data() -> Callable[..., Data]:
    """Targets of one word each (or of given spans) with a class each."""

    def made(
        classes: Sequence[int] | Tensor, number: int, spans: Sequence[Tensor] = (), **more: Any
    ) -> Data:
        known = torch.as_tensor(classes)
        rows = torch.arange(len(known))
        labels = torch.nn.functional.one_hot(known.clamp(min=0), number).bool()
        labels &= (known >= 0)[:, None]
        return Data(
            tuple(spans) or (torch.stack([rows, rows + 1], 1),),
            torch.stack([labels, labels]),
            (known < 0).long(),
            torch.ones(number, dtype=torch.bool),
            **more,
        )

    return made
