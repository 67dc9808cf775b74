"""A step neither reads a device nor waits for a copy to it.

The device is `meta`, whose tensors have no content: whatever would read them is an error there, as
`item`, `bool` of a tensor, `nonzero`, or picking rows by a mask are. On a GPU each of these would
make the processor wait until everything before is computed.
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from transformers import PreTrainedModel, masking_utils

from tests.analyses.training.lessons import lesson, settings
from tests.analyses.training.test_trainer import Line, line_task
from tests.night import mostly
from workbench.analyses.training import train as training
from workbench.analyses.training import trainer
from workbench.analyses.training.distributed import Process
from workbench.analyses.training.families import FAMILIES
from workbench.analyses.training.objectives import electra
from workbench.analyses.training.objectives.distillation import Distilled
from workbench.analyses.training.task import Micro, Plan, Quiet, Task

META = Process(torch.device("meta"))


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the loop reads the device, and how often it copies there, waiting or not."""
    found: Counter[str] = Counter()
    pinned: set[int] = set()
    kept: list[Tensor] = []  # so that no other tensor has their numbers
    to, read = Tensor.to, Tensor.cpu

    def pin(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        pinned.add(id(tensor))
        return tensor

    def copied(tensor: Tensor, *args: Any, **how: Any) -> Tensor:
        answer = to(tensor, *args, **how)
        if answer.is_meta and not tensor.is_meta and not isinstance(tensor, nn.Parameter):
            later = how.get("non_blocking", False) and id(tensor) in pinned
            found["copies" if later else "waiting copies"] += 1
        return answer

    def looked(tensor: Tensor) -> Tensor:
        if not tensor.is_meta:
            return read(tensor)
        found["reads"] += 1
        return torch.zeros(tensor.shape, dtype=tensor.dtype)

    monkeypatch.setattr(Tensor, "pin_memory", pin)
    monkeypatch.setattr(Tensor, "to", copied)
    monkeypatch.setattr(Tensor, "cpu", looked)
    return found


def test_steps_do_not_wait(waits: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """25 steps of 2 micro-batches of 2 tensors, and a scale each."""
    monkeypatch.setattr(trainer, "MAX_UNREAD", 10)
    plan = Plan(steps=25, batch_size=8, micro_batch_size=4, points=2, evaluations=1)
    rows = trainer.fit(Line(), line_task(4), plan, Quiet(), process=META)
    assert [row.step for row in rows] == [13, 25]
    waits["copies"] -= 2 * 2 * (25 + 1)  # the inputs, also of the step that is over
    assert waits == {"copies": 25, "reads": 4}  # after 10, 13, 23 and 25 steps


def test_held_out_text_is_read_once(waits: Counter[str]) -> None:
    task = line_task(4)
    held: list[Micro] = [task.draw(0, number) for number in range(1, 8)]
    plan = Plan(steps=10, batch_size=4, points=5, evaluations=5)
    trainer.fit(Line(), replace(task, held_out=lambda: held), plan, Quiet(), process=META)
    assert waits["waiting copies"] == 0
    assert waits["reads"] == 10, "at five rows, and at five evaluations"


class OverError(Exception):
    """The training is over; there is nothing to save."""


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `meta` cannot do, and a GPU can: arithmetic in half precision, and drawing by a seed.

    And what transformers itself looks at, at every pass: whether a mask is all ones, and of GPT
    whether a row is padded, or has several texts.
    """
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: False)
    monkeypatch.setattr(electra.torch, "Generator", lambda *_: Generator())
    monkeypatch.setattr(Tensor, "exponential_", lambda own, generator: own)
    for kind in ("causal", "bidirectional"):
        name = f"_ignore_{kind}_mask_sdpa"
        monkeypatch.setattr(masking_utils, name, lambda mask, *_: mask is None)
    monkeypatch.setattr(masking_utils, "find_packed_sequence_indices", lambda *_: None)
    monkeypatch.setattr(
        PreTrainedModel, "warn_if_padding_and_no_attention_mask", lambda *_, **__: None
    )


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize("name", mostly((n for n in FAMILIES if n != "elmo"), "electra"))
def test_a_familys_losses_do_not_wait(
    name: str,
    waits: Counter[str],
    tmp_path: Path,
    tokens: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But for ELMo's, which find on the device which rows predict."""

    def fitted(net: nn.Module, task: Task, plan: Plan, *_: Any, **how: Any) -> None:
        net.to(META.device)
        if isinstance(net, Distilled):
            net.teacher(META.device)
        waits.clear()  # of buffers, which go there once
        plan = replace(plan, steps=2, batch_size=4, micro_batch_size=2, points=1, evaluations=1)
        trainer.fit(net, replace(task, held_out=None), plan, Quiet(), process=META)
        raise OverError

    teacher = tmp_path / "bert" if name == "distilbert" else None
    if teacher is not None:
        training.train("bert", lesson(60), teacher, settings(2), home=tokens)
    monkeypatch.setattr(training, "fit", fitted)
    own = settings(n_layers=None if teacher else 1)
    with pytest.raises(OverError):
        training.train(name, lesson(60), tmp_path / name, own, home=tokens, teacher=teacher)
    assert waits["copies"] and (waits["waiting copies"], waits["reads"]) == (0, 1)
