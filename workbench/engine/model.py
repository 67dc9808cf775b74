"""The model interface of the engine: stacks of layers that turn pieces into states.

`workbench.models` implements it. A new kind of model is a class that inherits from `Model` and
defines what has no default: its facts, `encode` and `forward`. Everything else has a default. It is
an empty value for parts that a model may lack (heads, a vocabulary, a language-model head), or an
error that names what is missing (named weights, a copy, a folder on disk). So an analysis either
finds what it needs or rejects the model with a reason, and never checks the class. Costs: nothing.
"""

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from workbench.core.display import html_of
from workbench.core.errors import WorkbenchError
from workbench.core.findings import plural
from workbench.core.registry import imported
from workbench.engine.batch import NO_WORD, Batch, Pieces, one_text
from workbench.engine.taps import Kind, Site, StackName, Tap, reads_attention
from workbench.engine.task import LanguageModel, Task, language_model
from workbench.engine.text_pieces import NO_ID, Segmentation, Segmented, Splitter, TextPiece

Objective = Literal[LanguageModel, ""]  # of a language-model head; "": none
Direction = Literal["next", "previous"]  # of a bidirectional model's predictions


@dataclass(frozen=True)
class Stack:
    """One stack of layers; `heads` is 0 without attention."""

    name: StackName
    layers: int
    heads: int
    kinds: tuple[Kind, ...]


@dataclass(frozen=True)
class Output:
    """The result of a forward pass: states by stack and layer, and logits if requested.

    `hidden[stack][0]` is the embedding layer, `hidden[stack][k]` the output of block k, before any
    final norm; `final[stack]` is the last one after the final norm, if the model has one. In a
    model split over several GPUs each layer is on its own GPU; all else is on the model's device.

    Example:
        >>> model = wb.load("mini:bert", device="cpu")
        >>> text = model.encode(wb.encode(wb.read("primer").docs("test", limit=1)))
        >>> len(model.forward(text).hidden["encoder"])  # embeddings and 4 layers
        5
    """

    hidden: Mapping[StackName, Sequence[Tensor]]  # [batch, pieces, width] each
    final: Mapping[StackName, Tensor]  # [batch, pieces, width]
    logits: Tensor | None = None  # [batch, pieces, vocabulary], or [chosen, vocabulary]
    texts: Mapping[StackName, Pieces] = field(default_factory=dict)  # what each stack read

    def __repr__(self) -> str:
        """The states and logits it has, with their shapes; not their numbers."""
        parts = [
            f"hidden[{stack!r}]: {len(states)} x {list(states[0].shape)}"
            for stack, states in self.hidden.items()
            if len(states)
        ]
        parts += [] if self.logits is None else [f"logits: {list(self.logits.shape)}"]
        return f"<Output {'; '.join(parts) or 'without states'}>"


@dataclass(frozen=True)
class Symbols:
    """The ids of special pieces: padding, end, unknown, and those for hidden pieces."""

    pad: int = 0
    end: int | None = None
    unknown: int | None = None
    mask: int | None = None  # None: hidden pieces stay, but no other piece attends to them
    sentinels: tuple[int, ...] = ()  # <extra_id_0>, …: one per hidden span, in order


class WeightPlace(NamedTuple):
    """The layer of a weight: 0 for embeddings, None for a weight outside all layers."""

    stack: StackName | None
    layer: int | None
    module: str  # its name within the layer, the same in every layer


class Model(Protocol):
    """A model that turns text into states and may expose attention; `wb.load` opens one.

    Example:
        >>> model = wb.load("mini:gpt", device="cpu")
        >>> [stack.name for stack in model.stacks], model.objective
        (['decoder'], 'causal')
    """

    # --- what every model defines -----------------------------------------------------------------

    name: str
    family: str
    width: int
    stacks: tuple[Stack, ...]

    @property
    @abstractmethod
    def parameters(self) -> int: ...

    @property
    @abstractmethod
    def device(self) -> torch.device: ...

    @property
    @abstractmethod
    def content_hash(self) -> str:
        """Hash of weights, configuration and tokenizer; it does not depend on the name."""
        ...

    @abstractmethod
    def encode(self, batch: Batch, documents: Sequence[int] | None = None) -> Pieces:
        """Documents of a batch in pieces, on the CPU (default: all documents)."""
        ...

    @abstractmethod
    def forward(
        self,
        pieces: Pieces,
        *,
        targets: Pieces | None = None,
        taps: Iterable[Tap] = (),
        hidden: bool = True,
        logits: bool | Tensor = False,
    ) -> Output:
        """One forward pass; `targets` are the targets of an encoder-decoder.

        `logits` may be a mask over the last stack's pieces, [batch, pieces]. Only logits of these
        pieces are then computed, if the architecture allows it.
        """
        ...

    def __repr__(self) -> str:
        """Name, family, sizes, device and precision in one line."""
        stacks = ", ".join(
            f"{stack.name} of {plural(stack.layers, 'layer')}"
            + (f" x {plural(stack.heads, 'head')}" if stack.heads else "")
            for stack in self.stacks
        )
        facts = f"{stacks}; width {self.width}; {self.parameters:,} parameters"
        return f"<Model {self.name}: {self.family}; {facts}; {self.device}, {self.precision}>"

    def _repr_html_(self) -> str | None:
        return html_of(self, "workbench.report.notebook:model")

    # --- what a model may lack --------------------------------------------------------------------

    max_pieces: int | None = None  # maximum input length; None without a limit
    sites: tuple[Site, ...] = ()  # the attention sites
    # what its language-model head predicts; "": no head, no trained head, or none to be scored
    language_model: Objective = ""
    task_head: Any = None  # a `models.task_heads.TaskHead`: it labels texts or words
    without_heads: str = "It has no attention heads"  # a sentence; may say what it has instead

    @property
    def predicts(self) -> Task | None:
        """What it was made for: the task of its task head, else that of its language model."""
        return next(iter(self.objectives), None)

    @property
    def objectives(self) -> tuple[Task, ...]:
        """All that it can predict, what it was made for first; `for_objective` chooses."""
        of_pieces = (language_model(self.language_model),) if self.language_model else ()
        return of_pieces if self.task_head is None else (self.task_head.task, *of_pieces)

    def for_objective(self, task: Task) -> "Model":
        """The model with one of its `objectives` as what it was made for.

        A task head that is not wanted is left out; the weights are shared.
        """
        return self if task == self.predicts else self.with_task_head(None)

    def with_task_head(self, head: Any) -> "Model":
        """The model with this task head, or without any; the weights are shared."""
        twin = copy.copy(self)
        twin.task_head = head
        vars(twin).pop("content_hash", None)  # cached of the model with another head
        return twin

    @property
    def objective(self) -> Objective:
        """What it predicts as a language model; "" if it was made for a task."""
        return self.language_model if self.task_head is None else ""

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of texts, if it was made to classify them."""
        task = self.predicts
        return task.names if task is not None and task.kind == "class" else ()

    @property
    def sites_with_heads(self) -> tuple[Site, ...]:
        """The attention sites without those whose heads have all been removed."""
        return tuple(site for site in self.sites if site.heads)

    edit: str = ""  # what is changed in every pass, as `models.edit_terms` writes it
    stored_as: str = ""  # how its file holds the weights, where that is not as they are

    @property
    def n_removed_heads(self) -> int:
        """Number of removed heads."""
        return 0

    @property
    def precision(self) -> str:
        """Precision of the weights: fp32, bf16, fp16 or fp64."""
        return "fp32"

    def content_hash_in_fp32(self) -> str | None:
        """The content hash of the same files opened in fp32; None if unknown."""
        return None

    def unchanging(self, *, of_any_size: bool = False) -> AbstractContextManager[None]:
        """Of a model whose weights others hold too: notice their changes now, and then no more.

        Until this context ends, the content hash does not look at all weights again. With
        `of_any_size`, those of a large model are looked at too.
        """
        return nullcontext()

    def memory(self) -> Mapping[str, Any] | None:
        """Bytes that the model needs with a batch; None if unknown."""
        return None

    def states(self, text: Pieces) -> Sequence[Tensor]:
        """All layers of the stack that reads the text, embeddings first; no other stack runs.

        # [batch, pieces, width] each
        """
        return self.forward(text).hidden[self.stacks[0].name]

    def texts_of(self, pieces: Pieces) -> Mapping[StackName, Pieces]:
        """The input pieces of each stack in a pass over these pieces."""
        return {stack.name: pieces for stack in self.stacks}

    def output_weights(self) -> Mapping[Site, Tensor]:
        """Each head's slice of the output projection, for sites where it is known.

        # [heads, width of a head, width] per site
        """
        return {}

    def embeddings_without_positions(self, pieces: Pieces) -> Tensor | None:
        """Embeddings of pieces before positions are added; None if layer 0 has no positions.

        # [batch, pieces, width]
        """
        return None

    def input_vectors(
        self, text: Pieces, targets: Pieces | None = None
    ) -> Mapping[StackName, Tensor]:
        """The embedding of every input piece of each stack, before positions are added.

        # [batch, pieces, width of an embedding] per stack
        """
        raise refusal(self, "does not show its input vectors", _ANOTHER)

    def reading(self, vectors: Mapping[StackName, Tensor]) -> AbstractContextManager[None]:
        """A context whose next forward pass reads these vectors instead of its pieces' embeddings.

        They have the shape of `input_vectors`; a stack that is not named reads its own. Gradients
        flow into them.
        """
        raise refusal(self, "does not read other input vectors", _ANOTHER)

    def modules(self) -> Sequence[nn.Module]:
        """The torch modules whose non-linearities a library may hook; empty if there are none."""
        return ()

    def mean_input_vectors(self) -> Mapping[StackName, Tensor]:
        """The mean input vector of the vocabulary, without special pieces.  # [width] per stack"""
        raise refusal(self, "does not show its input vectors", _ANOTHER)

    def word_logits(self, text: Pieces, position: int, direction: Direction) -> Tensor:
        """Of a bidirectional model: logits of the word after, or before, a word of every row.

        `position` is -1 for the start of the text, and its number of words for its end.
        # [batch, choices]
        """
        raise refusal(self, "does not predict words in two directions", _ANOTHER)

    def states_with_ends(self, text: Pieces) -> Sequence[Tensor]:
        """Of ELMo: all layers, with the start and the end of each text.

        # [batch, words + 2, width] each, arbitrary values after the end
        """
        raise refusal(self, "does not predict words in two directions", _ANOTHER)

    def resuming(self, below: Sequence[Tensor]) -> AbstractContextManager[None]:
        """Of ELMo: a context whose passes start above these layers of `states_with_ends`.

        The next layer reads the last of them.  # [batch, words + 2, width] each
        """
        raise refusal(self, "does not resume a pass above one of its layers", _ANOTHER)

    def changing(self, change: Callable[[int, Tensor], Tensor]) -> AbstractContextManager[None]:
        """Of ELMo: a context whose passes change the states of each layer before they are read.

        # layer, [batch, words + 2, width] -> the same shape
        """
        raise refusal(self, "has no layers whose states can be changed", _ANOTHER)

    def logits_of_states(self, states: Tensor, direction: Direction) -> Tensor:
        """Of a bidirectional model: the logits of its softmax for states of any layer.

        # [..., width] -> [..., choices]
        """
        raise refusal(self, "does not predict words in two directions", _ANOTHER)

    # --- its vocabulary ---------------------------------------------------------------------------

    @property
    def symbols(self) -> Symbols:
        """The special pieces."""
        return Symbols()

    @property
    def vocabulary(self) -> Mapping[str, int]:
        """Row of the embeddings, or of the head, of each piece; empty if unknown."""
        return {}

    @property
    def folds_case(self) -> bool:
        """Whether upper case is read as lower case."""
        return False

    def piece_texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Each piece as text."""
        return tuple(f"<{id_}>" for id_ in ids)

    def shown_pieces(self, pieces: Pieces) -> tuple[str, ...]:
        """Each piece of the first text as it is shown, also what stands for no piece."""
        return self.piece_texts(pieces.ids[0].tolist())

    def choice_texts(self, choices: Sequence[int]) -> tuple[str, ...]:
        """Each choice of the language-model head as text."""
        return self.piece_texts(choices)

    def decode(self, choices: Sequence[int]) -> str:
        """Choices of the language-model head as one readable text, without special pieces."""
        return " ".join(self.choice_texts(choices))

    def unknown_pieces(self, pieces: Pieces) -> Tensor:
        """The mask of unknown pieces (outside the vocabulary).  # [batch, pieces], bool"""
        return torch.zeros_like(pieces.mask)

    def segmented(self, text: str, words: NDArray[Any]) -> Segmented:
        """One text in pieces, each with its characters; `words` are character ranges.

        Here each piece stands for its whole word, as in models that read words.  # [words, 2]
        """
        ranges = np.asarray(words, dtype=np.int32).reshape(-1, 2)
        pieces = self.encode(one_text(text, ranges))
        names = self.piece_texts(pieces.ids[0].tolist())
        unknown = self.unknown_pieces(pieces)[0].tolist()
        found = []
        for index, word in enumerate(pieces.words[0].tolist()):
            if not pieces.mask[0, index]:
                continue
            first, last = ranges[word].tolist() if word != NO_WORD else (0, 0)
            says = "" if unknown[index] else text[first:last]
            row = self.vocabulary.get(names[index], NO_ID)
            special = bool(pieces.special[0, index])
            piece = TextPiece(names[index], row, first, last, word, says, special, unknown[index])
            found.append(piece)
        return Segmented(tuple(found), "words", marks_spaces=False)

    def segmentation_steps(self, text: str, words: NDArray[Any]) -> Sequence[Segmentation]:
        """How each part of a text becomes pieces, step by step.  # words: [words, 2]"""
        raise refusal(self, "does not show how it splits text", _ANOTHER)

    def splitter(self) -> Splitter:
        """What splits texts as this model; models with a tokenizer leave their weights behind."""
        return Splitter(
            self.name, self.content_hash, self.max_pieces, self.segmented, self.segmentation_steps
        )

    def pieces_to_draw(self) -> Sequence[int]:
        """The pieces for random texts: those with an embedding, without special pieces."""
        return ()

    # --- its weights ------------------------------------------------------------------------------

    def edited(self, edit: str, texts: Sequence[str] = ()) -> "Model":
        """The model with parts turned off, scaled, or set to their means, in every pass.

        The weights are shared, and the model itself is not changed. An edit of an edited model
        adds to its edit.

        Args:
            edit: The parts, each with a factor or `mean`: `3.7=0` (head 7 of layer 3),
                `4.attention=2`, `4.mlp=0.5`, `3.n45=mean` (a neuron of the MLP), or `4.RUN=2` (the
                direction of layer 4 that a run of `steering` stored, added twice), separated by
                commas; before each, `decoder.` for the decoder of an encoder-decoder. Layers,
                heads and neurons are counted from 1.
            texts: Over whose pieces means are taken (default: 64 sentences of primer).

        Returns:
            A `Model`; its name is the reference that opens it, if texts are the default.

        Raises:
            WorkbenchError: The edit cannot be read, or the model has no such part.

        Example:
            >>> wb.load("mini:bert", device="cpu").edited("2.1=2,1.4=0").name
            'mini:bert@edit:1.4=0,2.1=2'
        """
        if not edit:
            return self
        edited: Model = imported(_EDITED, "the editing of models")(self, edit, texts)
        return edited

    def copy(self, in_fp32: bool = False) -> "Model":
        """A copy of the model with its own weights."""
        raise refusal(self, "cannot be copied", _ANOTHER)

    def reinitialised(self, seed: int) -> "Model":
        """The same architecture, device and precision, with random weights by the seed."""
        raise refusal(
            self,
            "cannot be created with random weights",
            "Turn the random weights off if the experiment has a setting for it "
            "(random_baseline=False, random_twin=False or random_models=0), or choose another "
            "model; a class of your own may define reinitialised.",
        )

    def save(self, folder: Path) -> None:
        """Save the model to a folder (created if needed) that `wb.load` opens."""
        raise refusal(self, "cannot be saved", _ANOTHER)

    def named_weights(self) -> Mapping[str, Tensor]:
        """Every trainable weight, by a name that does not depend on the model's head.

        A tied tensor is listed under each of its names.
        """
        raise refusal(self, "gives no names of its weights", _ANOTHER)

    def weight_places(self) -> Mapping[str, WeightPlace]:
        """Stack and layer of every weight, by its first name; shared layers count as layer 1."""
        raise refusal(self, "does not give the layers of its weights", _ANOTHER)

    def parameters_by_part(self) -> Mapping[str, int]:
        """Number of parameters of each part; they sum to the model's total."""
        return {"all": self.parameters}

    def train(self, learning: bool) -> None:
        """Switch train mode (such as dropout) on or off."""
        return


_EDITED = "workbench.models.interventions.edited:edited"  # above this floor
_ANOTHER = "Choose a transformers model such as mini:bert, or a word model such as mini:elmo."


class UnsupportedError(WorkbenchError):
    """This kind of model does not support the requested operation."""


def refusal(model: Model, what: str, remedy: str) -> UnsupportedError:
    """The error for an unsupported operation; `what` continues after the model's name."""
    return UnsupportedError(
        f"{model.name} ({model.family}) {what}.", code="model-unsupported", remedy=remedy
    )


def not_a_number(name: str, read: str = "this text") -> WorkbenchError:
    """The error for an output of a model that is not a number."""
    return WorkbenchError(
        f"the model's output is not a number (NaN) for {read}.",
        code="model-unreadable",
        where=name,
        remedy="Its weights are damaged or overflow: train it again with a lower learning rate, "
        "copy it again, or open it with a type of more bits.",
    )


def require_sites(model: Model, taps: Iterable[Tap]) -> None:
    """Raise if attention is requested from a model without attention."""
    if any(map(reads_attention, taps)) and not model.sites:
        raise UnsupportedError(
            f"{model.name} ({model.family}) has no attention heads.",
            code="no-attention",
            remedy="Use its hidden states, or choose a model with attention such as BERT.",
        )
