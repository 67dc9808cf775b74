"""Text-to-text fine-tuning: an encoder-decoder writes the label instead of a task head.

The decoder writes the label greedily; the prediction is right if the text equals the label's text.
Classes whose names the vocabulary cannot write are written as letters, scores rounded to a fifth,
as in T5. One model learns one task, so there is no task prefix. Costs: the decoder in addition to
the encoder, and one pass of it per written piece.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.core.errors import WorkbenchError
from workbench.engine.batch import NO_WORD, Batch, Pieces, Row, pad, text_of_span
from workbench.engine.model import refusal
from workbench.engine.task import Gold, Task
from workbench.models.huggingface import HuggingFace, require_transformer
from workbench.models.task_heads import Scale
from workbench.transfer.backbone import Body

FIFTHS = 5  # scores are rounded to 1 / 5
LONGEST = 24  # maximum number of pieces written


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
    """The model's own decoder, used in place of a task head."""

    mix = None

    def __init__(self, task: Task, body: Body, batch: Batch, scale: Scale) -> None:
        super().__init__()
        self.task, self.scale, self.batch = task, scale, batch
        self.model = [writer_of(body, task)]  # in a list, because its weights belong to the body
        tokenizer = self.model[0].tokenizer
        self.end: int = tokenizer.eos_token_id
        self.names = class_texts(tokenizer, task.names) if task.kind == "class" else ()

    def forward(self, read: Texts) -> Any:
        """The written texts; None in training, where the loss uses the gold text."""
        if self.training:
            return None
        model: Any = self.model[0]
        with torch.no_grad():
            ids: Tensor = model.net.generate(
                input_ids=read.text.ids,
                attention_mask=read.text.mask.long(),
                max_new_tokens=LONGEST,
                num_beams=1,
                do_sample=False,
            )
        return model.tokenizer.batch_decode(ids, skip_special_tokens=True)

    def loss(self, outputs: Any, gold: Sequence[Gold], read: Texts) -> Tensor:
        """Nats per piece of the gold text."""
        rows, model = self._rows(gold, read), self.model[0]
        target = pad(rows, model.tokenizer.pad_token_id).to(model.device)
        logits = model.forward(read.text, targets=target, hidden=False, logits=True).logits
        assert logits is not None, "a writer has logits"
        labels = target.ids.masked_fill(~target.mask, -100)
        return functional.cross_entropy(
            logits.float().flatten(0, 1), labels.flatten(), ignore_index=-100
        )

    def targets(self, gold: Sequence[Gold], read: Texts) -> int:
        """The number of pieces that `loss` is the mean of."""
        return sum(len(row.ids) for row in self._rows(gold, read))

    def _rows(self, gold: Sequence[Gold], read: Texts) -> list[Row]:
        pairs = zip(gold, read.indices, strict=True)
        return [self._row(self.text_of(each, index)) for each, index in pairs]

    def text_of(self, gold: Gold, index: int) -> str:
        """The text that the model should write for a gold label."""
        if self.task.kind == "class":
            assert isinstance(gold, int), "a text has a class"
            return self.names[gold]
        if self.task.kind == "score":
            assert isinstance(gold, int | float), "a text has a score"
            return f"{round(gold * FIFTHS) / FIFTHS:.1f}"
        assert isinstance(gold, list), "answers are spans"
        spans = [span for span in gold if isinstance(span, tuple)]
        return text_of_span(self.batch, index, spans[0]) if spans else ""

    def guesses(self, outputs: Sequence[str], read: Texts, lengths: Sequence[int]) -> list[Any]:
        """The written texts in the form of the gold labels; for answers the text itself."""
        return [self._parsed(text.strip()) for text in outputs]

    def _parsed(self, text: str) -> Any:
        if self.task.kind == "class":
            return self.names.index(text) if text in self.names else -1
        if self.task.kind == "answers":
            return text
        try:
            value = float(text)
        except ValueError:
            return self.scale.mean
        return value if np.isfinite(value) else self.scale.mean

    def _row(self, text: str) -> Row:
        tokenizer = self.model[0].tokenizer
        ids = [*tokenizer(text, add_special_tokens=False)["input_ids"], self.end]
        size = len(ids)
        blank = np.full(size, NO_WORD)
        return Row(np.array(ids), blank, np.zeros(size, dtype=np.bool_), None, 0)


def writer_of(body: Body, task: Task) -> HuggingFace:
    """The model, if it can write the labels of the task; else an error."""
    why = "cannot write text: it is not an encoder-decoder with a language-model head"
    remedy = "Choose an encoder-decoder with a language-model head, such as mini:t5, or set head "
    remedy += "to plain."
    model = require_transformer(body.model, why, remedy)
    if model.objective != "seq2seq":
        raise refusal(model, why, remedy)
    if task.kind in ("tags", "entities"):
        raise WorkbenchError(
            f"the task {task.name} has tags of words, which the head text cannot write.",
            code="setting-invalid",
            where=model.name,
            remedy="Set head to plain.",
        )
    return model


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
