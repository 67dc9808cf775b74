"""Probabilities of the labels of a text, as words in a prompt with demonstrations.

    design = PromptDesign("{text} It was {label}.", {"positive": "great", "negative": "awful"})
    demonstrations = [Demonstration("I loved the soup.", "positive")]
    found = label_probabilities(model, design, demonstrations, ["The coat was ugly."])
    found.probabilities("contextual")  # [texts, labels]

A causal model predicts the words of a label from what is before them. A masked model fills them in
where they stand, piece after piece, and sees what follows. An encoder-decoder writes the gap (a
sentinel of T5, a mask of BART), or its whole output if it was fine-tuned so. Costs: a forward pass
for each text and label, in masked models for each piece of a label; four texts more for the
calibration.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp

from workbench.core.arrays import Bools, Floats
from workbench.core.errors import WorkbenchError
from workbench.engine.batch import Batch, Pieces, batch_of
from workbench.engine.forward_pass import by_length
from workbench.engine.halving import Limit, in_halves
from workbench.engine.model import Model
from workbench.engine.task import Task
from workbench.models.huggingface import HuggingFace
from workbench.models.output_heads.lm_losses import denoising_losses, one_hidden
from workbench.models.output_heads.text_head import TextHead, Writing
from workbench.models.scoring.gap_scores import gap_scores
from workbench.models.scoring.lm_scoring import limit_of

Text = str | tuple[str, str]  # one text, or a pair
Calibration = Literal["none", "length", "contextual", "domain"]
CALIBRATIONS: Mapping[Calibration, str] = {
    "none": "the probability of the label's words",
    "length": "the mean over the pieces of the label",
    "contextual": "divided by the probabilities after texts without content (Zhao et al. 2021)",
    "domain": "divided by the probability after the template alone (Holtzman et al. 2021)",
}
CONTENT_FREE = ("N/A", "[MASK]", "")  # texts without content, of Zhao et al.
FIELDS = ("text", "first", "second", "label")
QUERY = -1  # in a prompt, the text that gets a label


class Demonstration(NamedTuple):
    """A text with its label, as a prompt shows it."""

    text: Text
    label: str


class Stretch(NamedTuple):
    """A part of a prompt: a text, the words of a label, or what the template has around them."""

    demonstration: int  # from 0; -1: the text that gets a label
    kind: Literal["text", "label", "template"]
    text: str


@dataclass(frozen=True)
class PromptDesign:
    """How a text and its label are written, and with which words each label.

    Args:
        template: Has `{label}`, and `{text}` or, of a pair, `{first}` and `{second}`.
        words: The words of each label.
        separator: What stands between two demonstrations.
        whole_output: The label is all that an encoder-decoder writes, as in a model fine-tuned to
            write labels (default: it fills the gap).
    """

    template: str
    words: Mapping[str, str]
    separator: str = " "
    whole_output: bool = False

    def __post_init__(self) -> None:
        try:
            fields = [name for _, name, *_ in Formatter().parse(self.template) if name is not None]
        except ValueError:
            fields = []
        pair = sorted(set(fields) - {"label"})
        if fields.count("label") != 1 or pair not in (["text"], ["first", "second"]):
            raise WorkbenchError(
                f"the template {self.template!r} has not one {{label}} and one {{text}}.",
                code="template-invalid",
                remedy="Write {text} where the text belongs (of a pair {first} and {second}) and "
                "{label} where its label, as in '{text} It was {label}.'",
            )
        words = list(self.words.values())
        if len(words) < 2 or len(set(words)) < len(words) or not all(map(str.strip, words)):
            raise WorkbenchError(
                f"the words of the labels are not all different: {', '.join(words)}.",
                code="label-words-invalid",
                remedy="Give each of two or more labels words of its own.",
            )

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, in the order of all results."""
        return tuple(self.words)

    def prompt(self, demonstrations: Sequence[Demonstration], text: Text | None) -> tuple[str, str]:
        """What is before the words of the label, and after them; without a text its template.

        A demonstration whose label has no words shows the label itself.
        """
        before, after = self.stretches(demonstrations, text)
        return "".join(each.text for each in before), "".join(each.text for each in after)

    def stretches(
        self, demonstrations: Sequence[Demonstration], text: Text | None
    ) -> tuple[list[Stretch], list[Stretch]]:
        """The parts of a prompt before the words of the label, and after them."""
        before: list[Stretch] = []
        for n, each in enumerate(demonstrations):
            label = Stretch(n, "label", self.words.get(each.label, each.label))
            left, right = (self._around(n, each.text, before=side) for side in (True, False))
            before += [*left, label, *right, Stretch(n, "template", self.separator)]
        query = [*self._around(QUERY, text or "", before=True)]
        while query and not query[0].text.lstrip(" "):
            query.pop(0)
        if query:
            query[0] = query[0]._replace(text=query[0].text.lstrip(" "))
        return [*before, *query], [*self._around(QUERY, text or "", before=False)]

    def _around(self, n: int, text: Text, before: bool) -> Iterator[Stretch]:
        """The parts of the template on one side of its label, with the text."""
        first, second = text if isinstance(text, tuple) else (text, "")
        whole = f"{first} {second}".strip()
        filled = {"text": whole, "first": first, "second": second}
        is_before = True
        for literal, name, *_ in Formatter().parse(self.template):
            if is_before == before:
                yield Stretch(n, "template", literal)
            if name == "label":
                is_before = False
            elif name is not None and is_before == before:
                yield Stretch(n, "text", filled[name])


@dataclass(frozen=True, eq=False)
class LabelProbabilities:
    """How probable the words of each label are, in texts and without any."""

    labels: tuple[str, ...]
    nats: Floats  # [texts, labels], -log p of the label's words
    pieces: NDArray[np.int64]  # [labels], number of pieces of its words
    content_free: Floats  # [content-free texts, labels], nats
    domain: Floats  # [labels], nats after the template alone; NaN: nothing is before the label

    def probabilities(self, calibration: Calibration = "none") -> Floats:
        """Probabilities of the labels, which sum to 1.  # [texts, labels]"""
        scores = log_softmax(-self.nats, axis=-1)
        if calibration == "length":
            scores = -self.nats / self.pieces
        elif calibration == "contextual":
            scores = scores - self.prior_scores
        elif calibration == "domain":
            scores = self.domain - self.nats
        shares: Floats = np.exp(log_softmax(scores, axis=-1))
        return shares

    @property
    def prior_scores(self) -> Floats:
        """Log of the mean probabilities after texts without content.  # [labels]"""
        each = log_softmax(-self.content_free, axis=-1)
        mean: Floats = logsumexp(each, axis=0) - np.log(max(len(each), 1))
        return mean


def label_probabilities(
    model: Model,
    design: PromptDesign,
    demonstrations: Sequence[Demonstration],
    texts: Sequence[Text],
    start_token: int | None = None,
) -> LabelProbabilities:
    """Score the words of each label after the demonstrations and each text.

    `start_token` as in `lm_scoring.score`. Raises an error if a prompt is longer than the model
    reads: nothing is cut.
    """
    free: list[Text] = [(each, each) if is_pair(texts) else each for each in CONTENT_FREE]
    prompts = [design.prompt(demonstrations, text) for text in (*texts, *free)]
    prompts.append(design.prompt((), None))
    read = fit(model, design, prompts, start_token)
    if not read.all():
        raise WorkbenchError(
            f"a prompt with {len(demonstrations)} demonstrations is longer than the "
            f"{model.max_pieces} pieces that {model.name} reads.",
            code="prompt-too-long",
            remedy="Use fewer demonstrations, or shorter texts.",
        )
    # a causal model without a start token does not predict the first piece of a text
    is_bare = [model.objective == "causal" and start_token is None and not b for b, _ in prompts]
    scored = np.flatnonzero(~np.array(is_bare))
    nats = np.full((len(prompts), len(design.words)), np.nan)
    nats[scored], pieces = _nats(model, design, [prompts[n] for n in scored], start_token)
    content_free = nats[len(texts) : -1]
    known = ~np.isnan(content_free).any(1)
    return LabelProbabilities(
        design.labels, nats[: len(texts)], pieces, content_free[known], nats[-1]
    )


def is_pair(texts: Sequence[Text]) -> bool:
    """Whether the texts are pairs."""
    return bool(texts) and isinstance(texts[0], tuple)


def fit(
    model: Model,
    design: PromptDesign,
    prompts: Sequence[tuple[str, str]],
    start_token: int | None = None,
) -> Bools:
    """Whether the model reads all of each prompt, with the words of any label.  # [prompts]"""
    labels, limit = list(design.words.values()), model.max_pieces
    fits = np.ones(len(prompts) * len(labels), dtype=np.bool_)
    if limit is not None:
        every = [prompt for prompt in prompts for _ in labels]
        batch, _ = filled(model, every, labels * len(prompts))
        pieces = model.encode(batch)
        fits = (pieces.mask.sum(1) + int(start_token is not None) <= limit).numpy()
        fits[[row for row, *_ in pieces.cut]] = False
    return np.array(fits.reshape(len(prompts), len(labels)).all(1))


def filled(
    model: Model, prompts: Sequence[tuple[str, str]], words: Sequence[str]
) -> tuple[Batch, list[tuple[int, int]]]:
    """Prompts with the words of a label, and where those are, as ranges of words.

    Words of a label count as one, so that all of them are hidden together; but a model that reads
    words gets them one by one. A causal model is not shown what follows.
    """
    texts, ranges, gaps = [], [], []
    for (before, after), label in zip(prompts, words, strict=True):
        end = len(before) + len(label)
        text = before + label + ("" if model.objective == "causal" else after)
        split = model.objective == "bidirectional"
        left = _words(text, 0, len(before))
        inside = _words(text, len(before), end) if split else [(len(before), end)]
        texts.append(text)
        ranges.append([*left, *inside, *_words(text, end, len(text))])
        gaps.append((len(left), len(left) + len(inside)))
    return batch_of(texts, ranges), gaps


def _words(text: str, first: int, last: int) -> list[tuple[int, int]]:
    return [each.span() for each in re.compile(r"\w+|[^\w\s]").finditer(text, first, last)]


def _nats(
    model: Model, design: PromptDesign, prompts: Sequence[tuple[str, str]], start: int | None
) -> tuple[Floats, NDArray[np.int64]]:
    """-log p of each label's words in each prompt, and their number of pieces.

    # [prompts, labels], [labels]
    """
    labels = list(design.words.values())
    every = [prompt for prompt in prompts for _ in labels]
    words = labels * len(prompts)
    if model.objective == "seq2seq" and isinstance(model, HuggingFace):
        nats, pieces = _written(model, every, words, design.whole_output)
    else:
        batch, gaps = filled(model, every, words)
        found = gap_scores(model, batch, gaps, ("gap",), start_token=start)
        nats, pieces = found.gap, found.pieces
    shape = (len(prompts), len(labels))
    return nats.reshape(shape), pieces.reshape(shape)[0]


@torch.no_grad()
def _written(
    model: HuggingFace, prompts: Sequence[tuple[str, str]], words: Sequence[str], whole: bool
) -> tuple[Floats, NDArray[np.int64]]:
    """Nats of the words that a decoder writes, and their number of pieces.  # [prompts] twice"""
    shown = [(before.rstrip(), "") if whole else (before, after) for before, after in prompts]
    batch, gaps = filled(model, shown, ["" if whole else each for each in words])
    nats, pieces = np.zeros(len(words)), np.zeros(len(words), dtype=np.int64)
    writer = TextHead(Task("", "text", "", (), None, ""))

    def score(text: Pieces) -> list[tuple[float, int]]:
        order = text.order.tolist()
        if whole:
            losses = writer.losses([words[n] for n in order], Writing(model, text.to(model.device)))
            wanted = losses.scored
        else:
            first = torch.tensor([gaps[n][0] for n in order])  # [batch]
            places = (text.words == first[:, None]).int().argmax(1)  # its first piece
            rows = torch.stack([torch.arange(len(order)), places], 1)
            source, target, _ = one_hidden(text, rows, model.symbols, "within-word")
            losses = denoising_losses(model, source.to(model.device), target.to(model.device))
            wanted = losses.text.words == first.to(model.device)[:, None]
        wanted = wanted & losses.scored
        sums = (losses.nats.double() * wanted).sum(1)
        return list(zip(sums.tolist(), wanted.sum(1).tolist(), strict=True))

    for part in by_length(model.encode(batch), Limit(limit_of(model))):
        for text, scores in in_halves(score, part, Limit()):
            for n, (value, size) in zip(text.order.tolist(), scores, strict=True):
                nats[n], pieces[n] = value, size
    return nats, pieces
