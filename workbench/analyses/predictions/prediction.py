"""One prediction of a model for one text: what `predict` shows and every explanation explains.

A `Prediction` is a distribution over choices: pieces of the vocabulary for a hidden piece, the next
piece or the next written piece; classes, tags or word positions for a task head. The functions
here make predictions of a text (`following`, `written`, `labelled`) and of a word of a
corpus (`of_word`). `Prediction.logits` computes the distribution for any batch of variants of the
text, and `logits_from` for any input vectors, which is all that attribution needs. Costs:
tokenising the text; a forward pass per call of `logits`.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor

from workbench.core.errors import WorkbenchError
from workbench.core.objectives import PREDICTED
from workbench.corpora.encode import encode
from workbench.engine.batch import NO_WORD, Pieces, Row, pad
from workbench.engine.model import Model, UnsupportedError, not_a_number, refusal
from workbench.engine.taps import StackName
from workbench.models.output_heads.lm_losses import (
    candidates,
    hidden_with,
    logits_of,
    masked,
    one_hidden,
)
from workbench.models.output_heads.task_heads import MixHead, TaskHead, read_states, segments_of

if TYPE_CHECKING:
    from spacy.tokens import Doc

# What is predicted: a hidden piece; the next piece or, by ELMo, the previous word; the next piece
# that a decoder writes; the class or the score of the text; the tag of a word; the first or the
# last word of an answer.
Kind = Literal["hidden", "next", "previous", "written", "class", "score", "tag", "start", "end"]
NO_ANSWER = "(no answer)"


@dataclass(frozen=True, eq=False)
class Prediction:
    """A distribution that a model predicts for a text.

    `position` is the piece in question: the hidden piece, the last piece before the predicted one
    (-1 before the first), or the last piece of `target`. For a tag it is the word; for a text, 0.
    """

    model: Model
    doc: "Doc"
    kind: Kind
    text: Pieces  # [1, pieces], the input of the first stack, on the model's device
    position: int = 0
    target: Pieces | None = None  # [1, written + 1], of an encoder-decoder; the last is predicted
    gold: int | None = None  # the true choice, if known
    head: TaskHead | None = None  # of a model that was made for a task
    so_far: tuple[int, ...] = ()  # what the model has written before, if it has chosen it itself

    def logits(self, text: Pieces | None = None, target: Pieces | None = None) -> Tensor:
        """The distribution before the softmax, for variants of the text of the same length.

        A score of a regression is on the scale of its corpus.  # [batch, choices], float32

        Raises:
            WorkbenchError: The output is not a number.
        """
        logits = self._logits(text or self.text, target or self.target)
        if bool(logits.isnan().any()):
            raise not_a_number(self.model.name)
        return logits

    def _logits(self, text: Pieces, target: Pieces | None) -> Tensor:
        if self.head is not None:
            read = self.head.read(self.model, text, self.segments(text))
            return self.of_head(self.head(read))
        if self.model.objective == "bidirectional":
            return self._word_logits(text)
        mask = torch.zeros_like((text if target is None else target).mask)  # [batch, pieces]
        mask[:, self.position] = True
        return logits_of(self.model, text, mask, target).float()

    def logits_from(self, vectors: Mapping[StackName, Tensor]) -> Tensor:
        """The distribution for input vectors, as `Model.input_vectors` returns them for one text.

        # [batch, pieces, width] per stack -> [batch, choices]
        """
        rows = [0] * len(next(iter(vectors.values())))
        target = None if self.target is None else self.target.take(rows)
        with self.model.reading(vectors):
            return self.logits(self.text.take(rows), target)

    def input_vectors(self) -> dict[StackName, Tensor]:
        """The input vectors of each stack.  # [1, pieces, width] per stack"""
        with torch.no_grad():
            return dict(self.model.input_vectors(self.text, self.target))

    @cached_property
    def inputs(self) -> dict[StackName, Pieces]:
        """The pieces that each stack reads: of a decoder, a start piece and what it has written."""
        if self.target is None:
            return {self.model.stacks[0].name: self.text}
        return dict(self.model.texts_of(self.text, self.target))  # type: ignore[call-arg]

    def names(self, choices: Sequence[int]) -> tuple[str, ...]:
        """Choices as they are shown."""
        if self.kind in ("start", "end"):
            words = [*(token.text for token in self.doc), NO_ANSWER]
            return tuple(words[choice] for choice in choices)
        if self.head is not None:
            names = self.head.task.names or ("score",)
            return tuple(names[choice] for choice in choices)
        return self.model.choice_texts(choices)

    @property
    def mixes_layers(self) -> bool:
        """Whether it is of a task head that reads a mix of all layers."""
        return isinstance(self.head, MixHead)

    def head_logits(self, states: Callable[[Pieces], Sequence[Tensor]], text: Pieces) -> Tensor:
        """The distribution of a head on a mix of layers, for the states of a text in all layers.

        # [batch, pieces, width] per layer -> [batch, choices]
        """
        assert self.head is not None and self.mixes_layers, "the head mixes layers"
        read = read_states(states, self.head.mix, text, self.segments(text))
        return self.of_head(self.head(read))

    def segments(self, text: Pieces) -> Tensor:
        """Words of the second text of a pair.  # [batch, words]"""
        return segments_of(encode([self.doc])).expand(len(text), -1)

    def of_head(self, outputs: Tensor) -> Tensor:
        """The distribution in question, of the outputs of the task head.  # -> [batch, choices]"""
        assert self.head is not None, "the prediction is of a task head"
        if self.kind in ("start", "end"):
            outputs = outputs[:, int(self.kind == "end")]  # [batch, words + 1]
        elif self.kind == "tag":
            outputs = outputs[:, self.position]
        elif self.kind == "score":
            outputs = outputs * self.head.scale.spread + self.head.scale.mean
        return outputs.float()

    def _word_logits(self, text: Pieces) -> Tensor:
        """The softmax of ELMo; a hidden word is read by neither direction.

        Its two predictions, from the left and from the right, are multiplied.
        """
        model, place = self.model, self.position
        if self.kind in ("next", "previous"):
            return model.word_logits(text, place, self.kind)
        left = model.word_logits(text, place - 1, "next")
        right = model.word_logits(text, place + 1, "previous")
        return left.log_softmax(-1) + right.log_softmax(-1)


# --- predictions of a text ------------------------------------------------------------------------


def following(model: Model, doc: "Doc", room: int = 0) -> Prediction:
    """The piece after a text, of a model that reads from left to right (and of ELMo).

    Of a text too long for the model, the last words are read; `room` pieces more stay free.
    """
    if model.objective not in ("causal", "bidirectional"):
        raise refusal(
            model,
            "does not predict the next word",
            "Hide a word of the text and ask for it, or choose a model such as mini:gpt.",
        )
    doc = last_words(model, doc, room)
    text = _pieces(model, doc)
    if model.objective == "bidirectional":
        return Prediction(model, doc, "next", text, int(text.word_counts[0]) - 1)
    end = model.symbols.end
    if end is not None and int(text.mask.sum()) and int(text.ids[0, -1]) == end:
        text = text.narrowed(text.ids.shape[1] - 1)  # a tokenizer that adds an end piece
    if not bool(text.mask.any()):
        raise WorkbenchError("The text is empty.", code="text-empty", remedy="Type a few words.")
    return Prediction(model, doc, "next", text, text.ids.shape[1] - 1)


def last_words(model: Model, doc: "Doc", room: int = 0) -> "Doc":
    """The end of a text that fits into the model, with `room` pieces more; whole words only."""
    limit = model.max_pieces
    if limit is None:
        return doc

    def fits(first: int) -> bool:
        text = model.encode(encode([doc[first:].as_doc()]))
        return not text.cut and int(text.mask.sum()) <= limit - room

    if not len(doc) or fits(0):
        return doc
    firsts = range(1, len(doc))
    first = bisect_left(firsts, True, key=fits)
    return doc[firsts[min(first, len(firsts) - 1)] :].as_doc() if firsts else doc


def written(model: Model, doc: "Doc", so_far: Sequence[int] = ()) -> Prediction:
    """The next piece that an encoder-decoder writes for a text, after the pieces `so_far`."""
    if model.objective != "seq2seq":
        remedy = "Choose a model such as mini:t5."
        raise cannot(model, "has no decoder that writes", remedy, ("seq2seq",))
    return Prediction(
        model, doc, "written", _pieces(model, doc), len(so_far), target_pieces(model, [*so_far, 0])
    )


AS_LANGUAGE_MODEL = (
    "Open it as a language model: objective='language-model' in Python, --objective language-model "
    "on the command line."
)


def cannot(model: Model, what: str, remedy: str, kinds: Sequence[str] = ()) -> UnsupportedError:
    """The refusal of what only a language model does; one made for a task may be opened as one.

    `kinds` are the language models that can do it; by default all.
    """
    if model.task_head is None or model.language_model not in (kinds or PREDICTED):
        return refusal(model, what, remedy)
    made_for = model.task_head.task.name
    return refusal(model, f"was made for {made_for}, and {what}", AS_LANGUAGE_MODEL)


def writes_labels(model: Model) -> UnsupportedError:
    """The refusal to explain labels that a decoder writes: there are no scores of them."""
    what = "writes its labels as text, and has no scores of labels to explain"
    return refusal(model, what, AS_LANGUAGE_MODEL)


def labelled(model: Model, doc: "Doc") -> list[Prediction]:
    """What a classifier or a fine-tuned task head predicts.

    One prediction for a class or a score, one for each word's tag, two for an answer: its first and
    its last word.
    """
    text = _pieces(model, doc)
    if (head := model.task_head) is not None:
        kind = head.task.kind
        if kind == "text":
            raise writes_labels(model)
        if kind in ("tags", "entities"):
            has_piece = set(text.words[0].tolist())
            words = [word for word in range(len(doc)) if word in has_piece]
            return [Prediction(model, doc, "tag", text, word, head=head) for word in words]
        if kind == "answers":
            return [Prediction(model, doc, part, text, head=head) for part in ("start", "end")]
        return [Prediction(model, doc, "score" if kind == "score" else "class", text, head=head)]
    raise refusal(
        model,
        "has no task head",
        "Name a run of finetune (with save_model), or a folder with a text classifier.",
    )


def of_word(model: Model, doc: "Doc", word: int) -> Prediction:
    """The prediction of a word of a text from its context, with the word's first piece as `gold`.

    Models that see both sides read the text with all pieces of the word hidden; an encoder-decoder
    writes the hidden span; a causal model reads only what comes before the word.
    """
    batch = encode([doc])
    text = model.encode(batch)  # on the host
    pieces = (text.words[0] == word).nonzero()[:, 0].tolist()
    if not pieces or word == NO_WORD:
        raise WorkbenchError(
            f"word {word} has no piece: it is not in the text, or was cut off.",
            code="word-unknown",
            where=model.name,
            remedy=f"Choose a word from 0 to {max(0, int(text.kept[0]) - 1)}.",
        )
    first = pieces[0]
    gold = int(text.ids[0, first])
    device = model.device
    if model.objective == "bidirectional":
        row = model.vocabulary.get(doc[word].text, model.symbols.unknown)
        return Prediction(model, doc, "hidden", text.to(device), word, gold=row)
    if model.objective == "causal":
        if not first:
            raise WorkbenchError(
                f"{model.name} reads nothing before the first word, so it predicts none.",
                code="word-unknown",
                remedy="Choose a later word.",
            )
        return Prediction(model, doc, "next", text.narrowed(first).to(device), first - 1, gold=gold)
    place = torch.tensor([[0, first]])
    if model.objective == "masked":
        seen = masked(text, hidden_with(text, place, "within-word"), model.symbols.mask)
        return Prediction(model, doc, "hidden", seen.to(device), first, gold=gold)
    if model.objective == "seq2seq":
        source, target, index = one_hidden(text, place, model.symbols, "within-word")
        end = int(index[0]) + 1
        return Prediction(
            model, doc, "written", source.to(device), end - 1,
            target.narrowed(end).to(device), gold,
        )  # fmt: skip
    raise no_head(model)


def words_to_predict(model: Model, doc: "Doc") -> list[int]:
    """The words of a text that `of_word` can predict."""
    text = model.encode(encode([doc]))
    owned = text.words[0][candidates(text)[0]]
    words = sorted(set(owned.tolist()) - {NO_WORD})
    if model.objective == "causal":
        words = [word for word in words if (text.words[0] == word).nonzero()[0, 0] > 0]
    return words


def no_head(model: Model) -> WorkbenchError:
    """The refusal to predict words without a language-model head."""
    return cannot(
        model,
        "has no head with trained weights that predicts words",
        "Choose a model saved with such a head, for example bert-base-uncased or gpt2.",
    )


def _pieces(model: Model, doc: "Doc") -> Pieces:
    """The text in pieces, [1, pieces], on the model's device."""
    text = model.encode(encode([doc]))
    if not bool(text.mask.any()):
        raise WorkbenchError("The text is empty.", code="text-empty", remedy="Type a few words.")
    return replace(text, unaligned=(), cut=()).to(model.device)


def target_pieces(model: Model, *targets: Sequence[int]) -> Pieces:
    """Pieces that a decoder writes, as a batch with one row for each target."""
    rows = []
    for ids in targets:
        no_word = np.full(len(ids), NO_WORD, dtype=np.int64)
        rows.append(Row(np.array(ids, dtype=np.int64), no_word, no_word < 0, None, 0))
    return pad(rows).to(model.device)
