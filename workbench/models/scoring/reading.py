"""Answers that a model gives with a passage before it: their probability, and those that it writes.

    reader = Reader.of(model)
    answer = reader.answer(question, "the hill")
    logs = log_probabilities(model, [reader.prompt(question, passage)], [answer])  # [[pieces]]

An encoder-decoder reads passage and question, and writes the answer; a decoder continues both. In a
text with a gap an encoder-decoder fills the gap as it was trained to. Several passages are combined
as in RAG (Lewis et al. 2020), for the whole answer or for each piece. Costs: one forward pass for
each prompt, and one for each piece of a written answer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import logsumexp
from torch import Tensor

from workbench.core.arrays import Floats, Ints
from workbench.engine.batch import NO_WORD, Pieces, Row, pad
from workbench.engine.model import Model
from workbench.models.huggingface import HuggingFace, require_transformer
from workbench.models.output_heads.lm_losses import logits_of
from workbench.models.scoring.lm_scoring import limit_of

LONGEST = 12  # maximum number of pieces of an answer whose end the model writes
PASSAGE, QUESTION = "{passage}", "{question}"
PROMPT = f"{PASSAGE} {QUESTION}"  # default text before the answer, for decoders


class Asked(NamedTuple):
    """A question; with text after the gap, a text in which the answer fills a gap."""

    before: str
    after: str | None = None  # with its first space


@dataclass(frozen=True)
class Prompt:
    """What a model reads before the first piece of an answer."""

    source: Ints  # [pieces], of an encoder; empty without one
    prefix: Ints  # [pieces], of the decoder


@dataclass(frozen=True)
class Reader:
    """A model that answers, and the form of its prompts."""

    model: HuggingFace
    template: str = PROMPT
    start: int | None = None  # start token that the tokenizer of a decoder does not add

    @classmethod
    def of(cls, model: Model, template: str = PROMPT, start: int | None = None) -> "Reader":
        """The reader of a decoder, or of an encoder-decoder."""
        net = require_transformer(model, "does not answer", "Choose mini:gpt or mini:t5.")
        return cls(net, template, start)

    @property
    def is_tuned(self) -> bool:
        """Whether the model was fine-tuned to write the answers of questions."""
        head = self.model.task_head
        return head is not None and head.task.kind == "text" and head.task.label == "answers"

    @property
    def two_sided(self) -> bool:
        return self.model.language_model == "seq2seq"

    def has_end(self, asked: Asked) -> bool:
        """Whether the model itself ends the answer."""
        return self.two_sided and (asked.after is None or self.is_tuned)

    def prompt(self, asked: Asked, passage: str) -> Prompt:
        """The prompt with as many words of the passage as fit before an answer."""
        prompt = self._prompt(asked, self.fitting(asked, passage))
        return Prompt(prompt.source[: self._longest], prompt.prefix[-self._longest :])

    @property
    def _longest(self) -> int:
        return (self.model.max_pieces or 2**31) - LONGEST

    def fitting(self, asked: Asked, passage: str) -> str:
        """As many words of the passage as fit before an answer."""
        words = passage.split()
        while True:
            prompt = self._prompt(asked, passage)
            beyond = max(len(prompt.source), len(prompt.prefix)) - self._longest
            if beyond <= 0 or not words:
                return passage
            words = words[: max(0, len(words) - beyond)]
            passage = " ".join(words)

    def _prompt(self, asked: Asked, passage: str) -> Prompt:
        source, prefix = self.texts(asked, passage)
        tokenize: Any = self.model.tokenizer
        ids = tokenize(*source)["input_ids"] if source else []
        return Prompt(np.array(ids, dtype=np.int64), self.opened(prefix))

    def texts(self, asked: Asked, passage: str) -> tuple[tuple[str, ...], str]:
        """The text, or the two texts, of the encoder, and what the decoder has written."""
        before, after = asked
        if not self.two_sided:
            text = self.template.replace(QUESTION, before).replace(PASSAGE, passage)
            return (), text.strip()
        if self.is_tuned:
            question = before if after is None else f"{before} ___{after}"
            return ((question, passage) if passage else (question,)), ""
        if after is None:
            return (f"question: {before} context: {passage}",), ""
        gap, sentinels = self.model.tokenizer.mask_token, self.model.symbols.sentinels
        if sentinels:
            gap = prefix = self.model.tokenizer.convert_ids_to_tokens(sentinels[0])
        else:
            prefix = f"{passage} {before}".strip()
        return (f"{passage} {before} {gap}{after}".strip(),), prefix

    def opened(self, prefix: str) -> Ints:
        """The pieces of a text that goes on, after the start token.  # [pieces]"""
        ids = self.model.tokenizer(prefix)["input_ids"] if prefix or self.two_sided else []
        while ids and ids[-1] == self.model.symbols.end:
            ids = ids[:-1]
        start = [] if self.start is None else [self.start]
        return np.array([*start, *ids], dtype=np.int64)

    def answer(self, asked: Asked, answer: str) -> Ints:
        """The pieces of an answer after its question, with the end if the model writes it."""
        _, prefix = self.texts(asked, "")
        text = f"{prefix} {answer}".strip()
        tokenize: Any = self.model.tokenizer
        found = tokenize(text, add_special_tokens=False, return_offsets_mapping=True)
        pairs = zip(found["input_ids"], found["offset_mapping"], strict=True)
        ids = [id_ for id_, (_, last) in pairs if last > len(prefix)]
        end = self.model.symbols.end
        return np.array([*ids, end] if self.has_end(asked) else ids, dtype=np.int64)


# --- one passage ----------------------------------------------------------------------------------


@torch.no_grad()
def log_probabilities(
    model: HuggingFace, prompts: Sequence[Prompt], answers: Sequence[Ints]
) -> list[Floats]:
    """The log-probability of each piece of an answer after its prompt and the pieces before it.

    # [prompts] of [pieces]
    """
    found: list[Floats] = [np.empty(0)] * len(prompts)
    for rows, logits in _logits(model, prompts, answers):
        gold = torch.from_numpy(np.concatenate([answers[row] for row in rows])).to(logits.device)
        logs = -torch.nn.functional.cross_entropy(logits.float(), gold, reduction="none")
        sizes = [len(answers[row]) for row in rows]
        for row, part in zip(rows, torch.split(logs.double().cpu(), sizes), strict=True):
            found[row] = part.numpy()
    return found


@torch.no_grad()
def _logits(
    model: HuggingFace, prompts: Sequence[Prompt], answers: Sequence[Ints]
) -> Iterator[tuple[list[int], Tensor]]:
    """Batches of prompts, and the logits of each piece of their answers, in order.

    # [pieces of the batch's answers, vocabulary]
    """
    limit, device = limit_of(model), model.device
    two_sided = model.language_model == "seq2seq"
    room = 0 if model.added is None else model.added.room  # of learnt vectors before a text
    lengths = [
        max(len(prompt.source), len(prompt.prefix) + len(answer))
        for prompt, answer in zip(prompts, answers, strict=True)
    ]
    order = sorted(range(len(prompts)), key=lambda row: -lengths[row])
    while order:
        size = max(1, limit // max(1, lengths[order[0]]))
        rows, order = order[:size], order[size:]
        target = _padded(
            model, [np.concatenate([prompts[row].prefix, answers[row]]) for row in rows]
        )
        first = torch.tensor([len(prompts[row].prefix) for row in rows])[:, None]
        if not two_sided:
            target, first = target.prefixed(room, 0), first + room
        places = torch.arange(target.ids.shape[1])
        within = target.mask & (places >= first)  # [batch, pieces], those of the answers
        if two_sided:
            source = _padded(model, [prompts[row].source for row in rows]).prefixed(room, 0)
            yield rows, logits_of(model, source.to(device), within.to(device), target.to(device))
        else:
            before = torch.nn.functional.pad(within[:, 1:], (0, 1))  # the predicting pieces
            yield rows, logits_of(model, target.to(device), before.to(device))


def _padded(model: HuggingFace, rows: Sequence[Ints]) -> Pieces:
    pad_id = model.symbols.pad
    return pad([_row(ids) for ids in rows], 0 if pad_id is None else pad_id)


def _row(ids: Ints) -> Row:
    words, special = np.full(len(ids), NO_WORD), np.zeros(len(ids), dtype=np.bool_)
    return Row(ids, words, special, None, 0)


# --- several passages -----------------------------------------------------------------------------


def rag_sequence(log_prior: Floats, logs: Sequence[Floats]) -> float:
    """log p(y | x): the sum over passages of p(z | x) times the product over pieces.

    # [passages], [passages] of [pieces]
    """
    return float(logsumexp(log_prior + np.array([each.sum() for each in logs])))


def rag_token(log_prior: Floats, logs: Sequence[Floats]) -> float:
    """log p(y | x): the product over pieces of the sum over passages of p(z | x) p(piece).

    # [passages], [passages] of [pieces]
    """
    return float(logsumexp(log_prior[:, None] + np.stack(logs), axis=0).sum())


@torch.no_grad()
def written(
    model: HuggingFace,
    groups: Sequence[Sequence[Prompt]],
    log_priors: Sequence[Floats],
    longest: Sequence[int],
) -> list[Ints]:
    """The answer of each group of prompts, greedily: each piece has the highest sum over prompts.

    With several passages in a group this is RAG-token's decoding.
    # [groups] of [prompts] twice, [groups] -> [groups] of [pieces], without the end
    """
    ends = {model.symbols.end, *model.symbols.sentinels}
    so_far: list[list[int]] = [[] for _ in groups]
    active = [group for group, most in enumerate(longest) if most]
    while active:
        flat = [(group, n) for group in active for n in range(len(groups[group]))]
        prompts = [groups[group][n] for group, n in flat]
        asked = [np.array([*so_far[group], 0], dtype=np.int64) for group, _ in flat]  # 0: next
        scores: dict[int, Tensor] = {}  # by group: [vocabulary]
        for rows, logits in _logits(model, prompts, asked):
            last = torch.tensor([len(asked[row]) for row in rows]).cumsum(0) - 1
            logs = logits[last.to(logits.device)].double().log_softmax(-1).cpu()
            for row, each in zip(rows, logs, strict=True):
                group, n = flat[row]
                each = each + float(log_priors[group][n])
                scores[group] = torch.logaddexp(scores[group], each) if group in scores else each
        for group in list(active):
            piece = int(scores[group].argmax())
            if piece not in ends:
                so_far[group].append(piece)
            if piece in ends or len(so_far[group]) >= longest[group]:
                active.remove(group)
    return [np.array(ids, dtype=np.int64) for ids in so_far]
