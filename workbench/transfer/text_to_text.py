"""Text to text: a model that writes answers a task in words of its own, with no head of ours.

The label is written by the decoder, greedily, and is right where it is the label's text; whatever
else is written is wrong. Classes whose names the vocabulary cannot write are written as letters,
scores to a fifth, as with T5. One model learns one task, so no prefix says which. Costs the decoder
beside the encoder, and a pass of it for every piece that is written.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.core.errors import WorkbenchError
from workbench.engine.batch import NO_WORD, Batch, Pieces, Row, pad
from workbench.engine.model import refusal
from workbench.models.huggingface import HuggingFace, transformer_of
from workbench.transfer.backbone import Body
from workbench.transfer.task_heads import Scale
from workbench.transfer.tasks import Gold, Task, answer_text

FIFTHS = 5  # of a score
LONGEST = 24  # pieces that are written


@dataclass(frozen=True)
class Texts:
    """What is read, and where in the corpus it stands."""

    text: Pieces
    places: Sequence[int]


class Written:
    """Texts in pieces, as they are; the writer reads them itself."""

    def __init__(self, body: Body, batch: Batch, widened: Any) -> None:
        self.batch, self.device = batch, body.model.device
        text = widened(body.model.encode(batch))
        self.text = replace(text, unaligned=(), cut=())
        self.lengths: list[int] = self.text.mask.sum(1).tolist()

    def __len__(self) -> int:
        return len(self.text)

    def read(self, texts: Sequence[int], mix: Any) -> Texts:
        width = max(1, *(self.lengths[text] for text in texts))
        return Texts(self.text.take(list(texts)).narrowed(width).to(self.device), texts)


class Writer(nn.Module):
    """A model's own decoder in the place of a head."""

    mix = None

    def __init__(self, task: Task, body: Body, batch: Batch, scale: Scale) -> None:
        super().__init__()
        self.task, self.scale, self.batch = task, scale, batch
        self.model = [writer_of(body, task)]  # in a list: its weights are the body's
        tokenizer = self.model[0].tokenizer
        self.end: int = tokenizer.eos_token_id
        self.names = names_of(tokenizer, task.names) if task.kind == "class" else ()

    def forward(self, read: Texts) -> Any:
        """What it writes; while it learns nothing, for then it is told what to write."""
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

    def loss(self, found: Any, gold: Sequence[Gold], read: Texts) -> Tensor:
        """Nats a piece of what should be written."""
        rows, model = self._rows(gold, read), self.model[0]
        target = pad(rows, model.tokenizer.pad_token_id).to(model.device)
        logits = model.forward(read.text, targets=target, hidden=False, logits=True).logits
        assert logits is not None, "a writer has logits"
        wanted = target.ids.masked_fill(~target.mask, -100)
        return functional.cross_entropy(
            logits.float().flatten(0, 1), wanted.flatten(), ignore_index=-100
        )

    def targets(self, gold: Sequence[Gold], read: Texts) -> int:
        """How many pieces `loss` is the mean of."""
        return sum(len(row.ids) for row in self._rows(gold, read))

    def _rows(self, gold: Sequence[Gold], read: Texts) -> list[Row]:
        places = zip(gold, read.places, strict=True)
        return [self._row(self.text_of(each, place)) for each, place in places]

    def text_of(self, gold: Gold, place: int) -> str:
        """What should be written."""
        if self.task.kind == "class":
            assert isinstance(gold, int), "a text has a class"
            return self.names[gold]
        if self.task.kind == "score":
            assert isinstance(gold, int | float), "a text has a score"
            return f"{round(gold * FIFTHS) / FIFTHS:.1f}"
        assert isinstance(gold, list), "answers are spans"
        spans = [span for span in gold if isinstance(span, tuple)]
        return answer_text(self.batch, place, spans[0]) if spans else ""

    def guesses(self, found: Sequence[str], read: Texts, lengths: Sequence[int]) -> list[Any]:
        """What was written, in the form of the gold; of answers the text itself."""
        return [self._understood(text.strip()) for text in found]

    def _understood(self, text: str) -> Any:
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
    """The model, if it can write answers to such a task."""
    why = "does not write text after reading it"
    remedy = "Choose an encoder-decoder with its language-model head, such as mini:t5, or the "
    remedy += "plain head."
    model = transformer_of(body.model, why, remedy)
    if model.objective != "seq2seq":
        raise refusal(model, why, remedy)
    if task.kind in ("tags", "entities"):
        raise WorkbenchError(
            f"{task.name} are tags of words, which are not written as text here.",
            where=model.name,
            remedy="Choose the plain head.",
        )
    return model


def names_of(tokenizer: Any, names: Sequence[str]) -> tuple[str, ...]:
    """Texts for classes that the vocabulary can write, and read back as they were."""
    for texts in _candidates(names):
        written = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
        read = [tokenizer.decode(ids, skip_special_tokens=True).strip() for ids in written]
        if read == list(texts):
            return tuple(texts)
    raise WorkbenchError(
        f"its vocabulary can write neither {', '.join(names)} nor letters for them.",
        remedy="Choose the plain head.",
    )


def _candidates(names: Sequence[str]) -> Iterator[Sequence[str]]:
    yield names
    for first in "aA0":
        if len(names) <= 26 and first != "0":
            yield [chr(ord(first) + number) for number in range(len(names))]
    yield [str(number) for number in range(len(names))]
