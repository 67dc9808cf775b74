"""Text-to-text fine-tuning: an encoder-decoder writes the label instead of a task head.

The decoder writes the label greedily; the prediction is right if the text equals the label's text.
Classes whose names the vocabulary cannot write are written as letters, scores rounded to a fifth,
as in T5. One model learns one task, so there is no task prefix. Costs: the decoder in addition to
the encoder, and one pass of it per written piece.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor, nn

from workbench.analyses.transfer.backbone import Body
from workbench.core.errors import WorkbenchError
from workbench.corpora.task_gold import score_text
from workbench.engine.batch import Batch, Pieces, text_of_span
from workbench.engine.model import refusal
from workbench.engine.task import Gold, Task
from workbench.models.huggingface import HuggingFace, require_transformer
from workbench.models.output_heads.task_heads import Scale
from workbench.models.output_heads.text_head import TextHead, Writing, class_texts, written_task


@dataclass(frozen=True)
class Texts:
    """Input texts, with their indices in the corpus."""

    text: Pieces
    indices: Sequence[int]


class Written:
    """Texts in pieces, which the model reads itself."""

    def __init__(self, body: Body, batch: Batch) -> None:
        self.batch, self.device = batch, body.model.device
        text = body.model.encode(batch)
        self.text = replace(text, unaligned=(), cut=())
        self.lengths: list[int] = self.text.mask.sum(1).tolist()

    def __len__(self) -> int:
        return len(self.text)

    def read(self, texts: Sequence[int], mix: Any) -> Texts:
        width = max(1, *(self.lengths[text] for text in texts))
        return Texts(self.text.take(list(texts)).narrowed(width).to(self.device), texts)


class Writer(nn.Module):
    """The model's own decoder, used in place of a task head that scores."""

    mix = None

    def __init__(self, task: Task, body: Body, batch: Batch, scale: Scale) -> None:
        super().__init__()
        self.task, self.scale, self.batch = task, scale, batch
        self.model = [writer_of(body, task)]  # in a list, because its weights belong to the body
        self.head = TextHead(written_task(task))
        if task.kind == "class":
            class_texts(self.model[0].tokenizer, task.names)  # an error if it cannot write them

    def forward(self, read: Texts) -> Any:
        """The written texts; None in training, where the loss uses the gold text."""
        if self.training:
            return None
        writing = Writing(self.model[0], read.text)
        return self.head.guesses(writing, writing, [])

    def loss(self, outputs: Any, gold: Sequence[Gold], read: Texts) -> Tensor:
        """Nats per piece of the gold text."""
        return self.head.losses(self._texts(gold, read), Writing(self.model[0], read.text)).mean

    def targets(self, gold: Sequence[Gold], read: Texts) -> int:
        """The number of pieces that `loss` is the mean of."""
        writing = Writing(self.model[0], read.text)
        return int(self.head.written(self._texts(gold, read), writing).mask.sum())

    def _texts(self, gold: Sequence[Gold], read: Texts) -> list[str]:
        return [self.text_of(each, n) for each, n in zip(gold, read.indices, strict=True)]

    def text_of(self, gold: Gold, index: int) -> str:
        """A gold label as text."""
        if self.task.kind == "class":
            assert isinstance(gold, int), "a text has a class"
            return self.task.names[gold]
        if self.task.kind == "score":
            assert isinstance(gold, int | float), "a text has a score"
            return score_text(gold)
        assert isinstance(gold, list), "answers are spans"
        spans = [span for span in gold if isinstance(span, tuple)]
        return text_of_span(self.batch, index, spans[0]) if spans else ""

    def guesses(self, outputs: Sequence[str], read: Texts, lengths: Sequence[int]) -> list[Any]:
        """The written texts in the form of the gold labels; for answers the text itself."""
        return [self._parsed(text) for text in outputs]

    def _parsed(self, text: str) -> Any:
        if self.task.kind == "class":
            return self.task.names.index(text) if text in self.task.names else -1
        if self.task.kind == "answers":
            return text
        try:
            value = float(text)
        except ValueError:
            return self.scale.mean
        return value if np.isfinite(value) else self.scale.mean


def writer_of(body: Body, task: Task) -> HuggingFace:
    """The model, if it can write the labels of the task; else an error."""
    why = "cannot write text: it is not an encoder-decoder with a language-model head"
    remedy = (
        "Choose an encoder-decoder with a language-model head, such as mini:t5, or set head "
        "to plain."
    )
    model = require_transformer(body.model, why, remedy)
    if model.language_model != "seq2seq":
        raise refusal(model, why, remedy)
    if task.kind in ("tags", "entities"):
        raise WorkbenchError(
            f"the task {task.name} has tags of words, which the head text cannot write.",
            code="setting-invalid",
            where=model.name,
            remedy="Set head to plain.",
        )
    return model
