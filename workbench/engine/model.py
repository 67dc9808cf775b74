"""What the engine asks of a model: stacks of layers that turn pieces into states, and their sites.

`workbench.models` has the models that keep this contract. A kind of model is a class that inherits
from `Model` and writes what has no default there: its facts, `encode` and `forward`. All else has a
default: an empty value where a model may well have none (heads, a vocabulary, a language-model
head), or an error that says what it lacks (weights by name, a copy, a folder on disk). So an
analysis finds what it needs or refuses the model with a reason, and never asks of what class it is.
Costs nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from workbench.core.errors import WorkbenchError
from workbench.engine.batch import Batch, Pieces
from workbench.engine.taps import Kind, Site, StackName, Tap

# What a language-model head predicts; bidirectional: the next word and, by itself, the one before.
Objective = Literal["causal", "masked", "seq2seq", "bidirectional", ""]


@dataclass(frozen=True)
class Stack:
    """One column of layers; `heads` is 0 where it has no attention."""

    name: StackName
    layers: int
    heads: int
    kinds: tuple[Kind, ...]


@dataclass(frozen=True)
class Output:
    """What a forward pass leaves: states by stack and layer, and logits where they were asked for.

    `hidden[stack][0]` is the embedding layer, `hidden[stack][k]` what block k hands on, the last
    one raw; `final[stack]` is the same after the final norm, where the model has one. Of a model
    over several cards each layer is on its own card; all else is on the model's device.

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
    """The pieces that stand for what is hidden, and those that fill up and end a text."""

    pad: int = 0
    end: int | None = None
    unknown: int | None = None
    mask: int | None = None  # None: hidden pieces stay, unseen by the others
    sentinels: tuple[int, ...] = ()  # <extra_id_0>, …: one for each hidden span, in turn


class WeightPlace(NamedTuple):
    """Where a weight is; `layer` is 0 for embeddings, and None for what belongs to no layer."""

    stack: StackName | None
    layer: int | None
    module: str  # its name within the layer, the same in every layer


class Model(Protocol):
    """Anything that turns text into states, and perhaps shows attention; `wb.load` opens one.

    Example:
        >>> model = wb.load("mini:gpt", device="cpu")
        >>> [stack.name for stack in model.stacks], model.objective
        (['decoder'], 'causal')
    """

    # --- what every model says and does -----------------------------------------------------------

    name: str
    family: str
    width: int
    stacks: tuple[Stack, ...]

    @property
    def parameters(self) -> int: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def content_hash(self) -> str:
        """Of weights, configuration and tokenizer: the same for the same model under any name."""
        ...

    def encode(self, batch: Batch, documents: Sequence[int] | None = None) -> Pieces:
        """Documents of a batch in pieces, on the CPU."""
        ...

    def forward(
        self,
        pieces: Pieces,
        *,
        targets: Pieces | None = None,
        taps: Iterable[Tap] = (),
        hidden: bool = True,
        logits: bool | Tensor = False,
    ) -> Output:
        """One forward pass; `targets` is what a decoder beside an encoder must write.

        Logits of chosen pieces alone are asked for by a mask over what the last stack reads,
        [batch, pieces]; the others are then never made, where the architecture allows it.
        """
        ...

    def __repr__(self) -> str:
        """Its name and what it is made of, in one line."""
        stacks = ", ".join(
            f"{stack.name} of {stack.layers} layers"
            + (f" x {stack.heads} heads" if stack.heads else "")
            for stack in self.stacks
        )
        facts = f"{stacks}; width {self.width}; {self.parameters:,} parameters"
        return f"<Model {self.name}: {self.family}; {facts}; {self.device}, {self.precision}>"

    # --- what a model may do without --------------------------------------------------------------

    max_pieces: int | None = None  # the longest input; None where there is no limit
    sites: tuple[Site, ...] = ()  # where its heads are
    objective: Objective = ""  # "": no head, none with weights of its own, or none to be measured
    classes: tuple[str, ...] = ()  # of a classifier of whole texts
    without_heads: str = "It has no attention heads"  # and what it has instead, as a sentence

    @property
    def lacking(self) -> int:
        """How many heads were taken out."""
        return 0

    @property
    def precision(self) -> str:
        """Of the weights: fp32, bf16, fp16 or fp64."""
        return "fp32"

    def content_hash_in_fp32(self) -> str | None:
        """The content hash of the same files opened in fp32; None where it is not known."""
        return None

    def memory(self) -> Mapping[str, Any] | None:
        """Bytes that it takes with a batch; None where that is not known."""
        return None

    def states(self, text: Pieces) -> Sequence[Tensor]:
        """Every layer of the stack that reads the text, embeddings first; no other stack is run.

        # [batch, pieces, width] each
        """
        return self.forward(text).hidden[self.stacks[0].name]

    def texts_of(self, pieces: Pieces) -> Mapping[StackName, Pieces]:
        """What each stack reads in a pass over these pieces."""
        return {stack.name: pieces for stack in self.stacks}

    def output_weights(self) -> Mapping[Site, Tensor]:
        """What each head writes with: its slice of the output map, of sites where that is known.

        # [heads, width of a head, width] a site
        """
        return {}

    def embeddings_without_positions(self, pieces: Pieces) -> Tensor | None:
        """Embeddings of pieces before positions are added; None where layer 0 has none.

        # [batch, pieces, width]
        """
        return None

    # --- its vocabulary ---------------------------------------------------------------------------

    @property
    def symbols(self) -> Symbols:
        """The pieces that are no text."""
        return Symbols()

    @property
    def vocabulary(self) -> Mapping[str, int]:
        """Rows of the embeddings, or of the head, by what they stand for; empty where unknown."""
        return {}

    @property
    def folds_case(self) -> bool:
        """Whether it reads upper case as lower case."""
        return False

    def piece_texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        """How each piece is written."""
        return tuple(f"<{number}>" for number in ids)

    def unknown_pieces(self, pieces: Pieces) -> Tensor:
        """Which pieces stand for what the vocabulary does not have.  # [batch, pieces], bool"""
        return torch.zeros_like(pieces.mask)

    def pieces_to_draw(self) -> Sequence[int]:
        """The pieces that random texts can be made of: with an embedding, and no symbols."""
        return ()

    # --- its weights ------------------------------------------------------------------------------

    def copy(self, in_fp32: bool = False) -> "Model":
        """The same model with weights of its own."""
        raise refusal(self, "cannot be copied", _ANOTHER)

    def reinitialised(self, seed: int) -> "Model":
        """The same architecture, device and precision, with weights drawn from the seed."""
        raise refusal(
            self,
            "cannot be made again with random weights",
            "Leave the random baseline out where a setting says so, or choose another model.",
        )

    def save(self, folder: Path) -> None:
        """Write it into a folder, made where it is not there, that `wb.load` opens."""
        raise refusal(self, "cannot be saved", _ANOTHER)

    def named_weights(self) -> Mapping[str, Tensor]:
        """Every weight that can learn, by the name it has whatever head the model was saved with.

        A tensor that is tied stands there under each of its names.
        """
        raise refusal(self, "does not name its weights", _ANOTHER)

    def weight_places(self) -> Mapping[str, WeightPlace]:
        """The place of every weight, by its first name; of shared layers it is layer 1."""
        raise refusal(self, "does not say which layer its weights are of", _ANOTHER)

    def parameters_by_part(self) -> Mapping[str, int]:
        """How many parameters each part has; they add up to all the model's."""
        return {"all": self.parameters}

    def train(self, learning: bool) -> None:
        """Switch what a model does only while it learns, such as dropout, on or off."""
        return


_ANOTHER = "Choose a model of transformers, such as mini:bert, or one of words, such as mini:elmo."


class LackingError(WorkbenchError):
    """What was asked for is nothing that this kind of model has or does."""


def refusal(model: Model, what: str, remedy: str) -> LackingError:
    """The error that says what a model does not have or do; `what` goes on from its name."""
    return LackingError(f"{model.name} ({model.family}) {what}.", remedy=remedy)


def require_sites(model: Model, taps: Iterable[Tap]) -> None:
    """Asking for attention of a model that has none is an error, not an empty answer."""
    if list(taps) and not model.sites:
        raise refusal(
            model,
            "has no attention heads to look at",
            "Ask it for hidden states, or choose a model with attention such as BERT.",
        )
