"""The lens of a task head: what it would say if all blocks after a layer did nothing.

    opened = open_task_lens(model)          # a fine-tuned run, or a text classifier
    final, points = opened.read(labels)     # the head's own logits, and those of every layer

A head may read a mix of all layers: with the blocks after layer l doing nothing, layer j is the
state of layer min(j, l), and the weights of the mix stay. A standard head of transformers reads the
state of layer l of its last stack with its own end. At the last layer both give the model's own
output. Costs: a pass; for each layer the embeddings, the final norm and the head again.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from workbench.analyses.predictions.prediction import Kind, Prediction, writes_labels
from workbench.core.cluster_sample import ClusterSample
from workbench.core.errors import WorkbenchError
from workbench.corpora.encode import encode
from workbench.corpora.layers import document_numbers
from workbench.corpora.task_gold import gold_of, task_on
from workbench.corpora.text_prediction import require_texts
from workbench.engine.batch import Batch, Pieces, sent
from workbench.engine.forward_pass import chunks
from workbench.engine.model import Model, refusal
from workbench.models.interventions.head_replay import Point, ended, ended_states
from workbench.models.output_heads.task_heads import MixHead, TaskHead, read_states, segments_of

if TYPE_CHECKING:
    from spacy.tokens import Doc

T = TypeVar("T")
ROWS = 32  # texts in a batch
NO_ANSWER = -1  # the gold of a text without an answer
NEAR = 0.1  # of the spread of the gold scores: a score so near to the final one counts as the same
REMEDY = (
    "Name a run of finetune (with save_model) or a folder with a text classifier, or choose a "
    "model "
    "with a language-model head, such as mini:bert."
)


@dataclass(frozen=True, eq=False)
class Labels:
    """Predictions of a task head in one batch of texts."""

    text: Pieces  # [texts, pieces], on the model's device
    segments: Tensor  # [texts, words], words of the second text of a pair; on the host
    rows: Tensor  # [places], the text
    at: Tensor  # [places], the word whose tag is predicted; of other heads 0
    kind: Kind
    gold: Tensor | None = None  # [places], the true choices, if known; on the host

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class OpenTaskLens:
    """A model whose layers can be read by its task head."""

    model: Model
    head: TaskHead
    note: str = "a task head reads whole layers."

    @property
    def task_kind(self) -> str:
        """The kind of the task, as of `transfer.tasks`."""
        return self.head.task.kind

    @property
    def mixes_layers(self) -> bool:
        """Whether the head reads a mix of all layers."""
        return isinstance(self.head, MixHead)

    @property
    def of_words(self) -> bool:
        """Whether words are labelled, not texts."""
        return self.task_kind in ("tags", "entities")

    @property
    def names(self) -> tuple[str, ...]:
        """The classes or tags."""
        return self.head.task.names

    def scores(self, outputs: Tensor) -> list[float]:
        """Scores as in the corpus, from the standardised ones of the head.  # [places, 1]"""
        scale = self.head.scale
        return (outputs[:, 0] * scale.spread + scale.mean).tolist()

    def read(self, labels: Labels) -> tuple[Tensor, Iterator[tuple[Point, Tensor]]]:
        """The model's own logits, and those of every layer, the embeddings first.

        # [places, choices]; [places, choices] each
        """
        layers = list(self._layers(labels))
        stack = self.model.stacks[0 if self.mixes_layers else -1].name
        points = (
            (Point(stack, layer, "mlp" if layer else "embeddings"), logits)
            for layer, logits in enumerate(layers)
        )
        return layers[-1], points

    def _layers(self, labels: Labels) -> Iterator[Tensor]:
        if self.mixes_layers:
            for states in ended_states(self.model, labels.text):
                yield head_logits(self.head, states, labels)
            return

        def outputs() -> Tensor:
            read = self.head.read(self.model, labels.text, labels.segments)
            whole: Tensor = self.head(read)
            return whole

        rows, at = (sent(each, labels.text.ids.device) for each in (labels.rows, labels.at))
        for each in ended(self.model, labels.text, outputs):
            yield _of_places(each.float(), labels.kind, rows, at)


def head_logits(head: TaskHead, states: Sequence[Tensor], labels: Labels) -> Tensor:
    """What a head predicts at the places for states of all layers of the texts.

    # [texts, pieces, width] each -> [places, choices]
    """
    rows, at = (sent(each, labels.text.ids.device) for each in (labels.rows, labels.at))
    read = read_states(lambda _: states, head.mix, labels.text, labels.segments)
    return _of_places(head(read).float(), labels.kind, rows, at)


def _of_places(outputs: Tensor, kind: Kind, rows: Tensor, at: Tensor) -> Tensor:
    """The outputs of a head at the places.  # -> [places, choices]"""
    if kind == "tag":
        return outputs[rows, at]
    if kind in ("start", "end"):
        return outputs[rows, int(kind == "end")]
    return outputs[rows]


def open_task_lens(model: Model) -> OpenTaskLens:
    """A model with a task head whose layers can be read."""
    if model.task_head is None:
        raise refusal(model, "has no task head", REMEDY)
    if model.task_head.task.kind == "text":
        raise writes_labels(model)
    return OpenTaskLens(model, model.task_head)


def labels_of_prediction(predictions: Sequence[Prediction]) -> Labels:
    """Predictions of one text and of one kind, such as the tags of all of its words."""
    first = predictions[0]
    at = [each.position if each.kind == "tag" else 0 for each in predictions]
    rows = torch.zeros(len(at), dtype=torch.int64)
    return Labels(first.text, segments_of(encode([first.doc])), rows, torch.tensor(at), first.kind)


# --- a corpus -------------------------------------------------------------------------------------


def known_labels(
    opened: OpenTaskLens, docs: "Sequence[Doc]", layers: Collection[str]
) -> dict[tuple[int, int], int | None]:
    """The places (text, word) that the head predicts, each with the true choice if it is known.

    Of an answer, its first word is predicted, and a text without an answer has `NO_ANSWER`.
    """
    task = opened.head.task
    try:
        task = task_on(task, docs, "", opened.model.name, "")
        has_gold = True
    except WorkbenchError:  # the texts have no gold
        has_gold = False
    found: dict[tuple[int, int], int | None] = {}
    for text, doc in enumerate(docs):
        gold: Any = gold_of(doc, task) if has_gold and len(doc) else None
        if task.kind in ("tags", "entities"):
            for word in range(len(doc)):
                found[text, word] = None if gold is None or gold[word] < 0 else gold[word]
        elif task.kind == "answers" and gold is not None:
            found[text, 0] = min((start for start, _ in gold), default=NO_ANSWER)
        elif len(doc):
            found[text, 0] = gold
    return found


def batches_of(
    opened: OpenTaskLens,
    batch: Batch,
    chosen: Sequence[tuple[int, int]],
    gold: Sequence[int | None],
) -> Iterator[Labels]:
    """The predictions of places (text, word), some texts at a time, in their order."""
    model = opened.model
    kind = _KINDS[opened.task_kind]
    segments = segments_of(batch)
    begin = 0
    for texts in chunks(sorted({text for text, _ in chosen}), ROWS):
        some = chosen[begin : begin + sum(text in set(texts) for text, _ in chosen[begin:])]
        known = gold[begin : begin + len(some)]
        begin += len(some)
        text = model.encode(batch, texts)
        choices = None
        if None not in known:
            width = int(text.word_counts.max())  # the choice after the last word is no answer
            choices = torch.tensor([width if g == NO_ANSWER else g for g in known])
        yield Labels(
            text.to(model.device),
            segments[texts],
            torch.tensor([texts.index(each) for each, _ in some]),
            torch.tensor([word for _, word in some]),
            kind,
            choices,
        )


_KINDS: Mapping[str, Kind] = {
    "class": "class", "score": "score", "tags": "tag", "entities": "tag", "answers": "start"
}  # fmt: skip


def with_pieces(
    model: Model, batch: Batch, places: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """The places whose word has a piece: neither cut off nor left out by the tokenizer."""
    found: list[tuple[int, int]] = []
    for texts in chunks(sorted({text for text, _ in places}), 256):
        words = model.encode(batch, texts).words
        known = {text: set(words[row].tolist()) for row, text in enumerate(texts)}
        found += [place for place in places if place[0] in known and place[1] in known[place[0]]]
    return found


def require_pairs(opened: OpenTaskLens, docs: "Sequence[Doc]") -> None:
    """Raise if the head reads two texts and a Doc has one."""
    for doc in docs:
        require_texts(opened.head.task, doc, opened.model.name)


def drawn_labels(
    opened: OpenTaskLens,
    batch: Batch,
    known: Mapping[tuple[int, int], int | None],
    most: int,
    seed: int,
) -> tuple[list[tuple[int, int]], list[int | None], list[str]]:
    """Places drawn uniformly, from those whose true choice is known if there are any.

    Also their true choices, and notes on what is left out.
    """
    what = "words" if opened.of_words else "texts"
    possible = with_pieces(opened.model, batch, list(known)) if opened.of_words else list(known)
    labelled = [place for place in possible if known[place] is not None]
    notes = []
    if not labelled:
        notes.append(
            f"The corpus has no true labels of its {what}, so only agreement with the model's own "
            "predictions is measured."
        )
    elif left_out := len(possible) - len(labelled):
        notes.append(f"{left_out:,} {what} without a true label are left out.")
    possible = labelled or possible
    if not possible:
        raise WorkbenchError(
            f"the corpus has no {what} that the head can label.",
            code="too-few-sentences",
            where=opened.model.name,
            remedy="Choose a corpus with texts.",
        )
    chosen = drawn(possible, most, seed)
    return chosen, [known[place] for place in chosen], notes


def drawn(places: Sequence[T], most: int, seed: int) -> list[T]:
    """So many of the places drawn uniformly, in the order of the texts."""
    order = np.random.default_rng([seed, len(places)]).permutation(len(places))
    return [places[index] for index in sorted(order[:most].tolist())]


def sample_of(docs: "Sequence[Doc]", places: Sequence[tuple[int, int]], seed: int) -> ClusterSample:
    """Places (document, word) in the documents that a bootstrap draws."""
    numbers = np.array(document_numbers(docs))
    return ClusterSample.of(numbers[[document for document, _ in places]], seed)
