"""A text head: an encoder-decoder writes the label of a text, as in T5.

The label is right if the decoder, which writes greedily, writes exactly its text. Classes whose
names the vocabulary cannot write are written as letters. The loss is that of the whole text, end
piece included, so that texts of labels of any length compare. The weights are the net's own. Costs:
the decoder in addition to the encoder; for a prediction one pass of it per written piece.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workbench.core.errors import WorkbenchError
from workbench.engine.batch import NO_WORD, Pieces, Row, pad
from workbench.engine.model import Model
from workbench.engine.taps import Tap
from workbench.engine.task import METRICS, Gold, Task
from workbench.models.output_heads.lm_losses import Losses, Tapped, denoising_losses
from workbench.models.output_heads.task_heads import BatchScores, Scale, TaskHead

LONGEST = 24  # maximum number of pieces written


def written_task(task: Task) -> Task:
    """The task of writing the labels of another task as text."""
    return Task(task.name, "text", task.label, task.names, task.pairs, METRICS["text"][0])


@dataclass(frozen=True)
class Writing:
    """The model that writes, the texts that it reads, and the taps of its passes."""

    model: Any
    text: Pieces
    taps: Sequence[Tap] = ()


class TextHead(TaskHead):
    """The decoder of the model itself; its outputs are what it reads, for it scores no classes."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task, self.scale, self.mix = task, Scale(), None

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        """None beside those of the net."""
        return iter(())

    def read(  # type: ignore[override]
        self, model: Model, text: Pieces, segments: Tensor, taps: Iterable[Tap] = ()
    ) -> Writing:
        return Writing(model, text, list(taps))

    def forward(self, read: Writing) -> Writing:
        return read

    def scores(  # type: ignore[override]
        self, outputs: Writing, gold: Sequence[Gold], read: Writing
    ) -> BatchScores:
        losses = self.losses([str(label) for label in gold], read)
        right = (losses.right | ~losses.scored).all(1)
        return BatchScores(losses.nats.sum(1), right.float(), torch.ones_like(losses.nats[:, 0]))

    def losses(self, labels: Sequence[str], read: Writing) -> Losses:
        """The losses of the pieces of each label's text."""
        model: Any = Tapped(read.model, read.taps)
        return denoising_losses(model, read.text, self.written(labels, read))

    def written(self, labels: Sequence[str], read: Writing) -> Pieces:
        """The pieces of each label's text, end piece included."""
        tokenizer = read.model.tokenizer
        texts = self._texts(tokenizer)
        rows = [_row(tokenizer, texts.get(label, label)) for label in labels]
        return pad(rows, tokenizer.pad_token_id).to(read.model.device)

    @torch.no_grad()
    def guesses(  # type: ignore[override]
        self, outputs: Writing, read: Writing, lengths: Sequence[int]
    ) -> list[str]:
        """The written labels; other texts as they are written."""
        tokenizer = read.model.tokenizer
        ids = read.model.net.generate(
            input_ids=read.text.ids,
            attention_mask=read.text.mask.long(),
            max_new_tokens=LONGEST,
            num_beams=1,
            do_sample=False,
        )
        names = {text: label for label, text in self._texts(tokenizer).items()}
        written = [text.strip() for text in tokenizer.batch_decode(ids, skip_special_tokens=True)]
        return [names.get(text, text) for text in written]

    def _texts(self, tokenizer: Any) -> dict[str, str]:
        """The text of each class; empty for other labels, which are texts themselves."""
        names = self.task.names
        return dict(zip(names, class_texts(tokenizer, names), strict=True)) if names else {}


def _row(tokenizer: Any, text: str) -> Row:
    ids = [*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    size = len(ids)
    return Row(np.array(ids), np.full(size, NO_WORD), np.zeros(size, dtype=np.bool_), None, 0)


def class_texts(tokenizer: Any, names: Sequence[str]) -> tuple[str, ...]:
    """Texts for the classes that the tokenizer encodes and decodes without loss."""
    for texts in _candidates(names):
        written = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
        read = [tokenizer.decode(ids, skip_special_tokens=True).strip() for ids in written]
        if read == list(texts):
            return tuple(texts)
    raise WorkbenchError(
        f"the tokenizer can write neither {', '.join(names)} nor letters for them.",
        code="model-unsupported",
        remedy="Set head to plain.",
    )


def _candidates(names: Sequence[str]) -> Iterator[Sequence[str]]:
    yield names
    for first in "aA0":
        if len(names) <= 26 and first != "0":
            yield [chr(ord(first) + number) for number in range(len(names))]
    yield [str(number) for number in range(len(names))]
