"""What the engine asks of a model: stacks of layers that turn pieces into states, and their sites.

`workbench.models` has the models that keep this contract. A model without heads has no sites, and
says so when asked for attention.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

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
    """

    hidden: Mapping[StackName, Sequence[Tensor]]  # [batch, pieces, width] each
    final: Mapping[StackName, Tensor]  # [batch, pieces, width]
    logits: Tensor | None = None  # [batch, pieces, vocabulary], or [chosen, vocabulary]
    texts: Mapping[StackName, Pieces] = field(default_factory=dict)  # what each stack read


class Model(Protocol):
    """Anything that turns text into states, and perhaps shows attention."""

    name: str
    family: str
    width: int
    max_pieces: int | None  # the longest input; None where there is no limit
    stacks: tuple[Stack, ...]
    sites: tuple[Site, ...]
    objective: Objective  # "": no head, none with weights of its own, or none that can be measured

    @property
    def parameters(self) -> int: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def precision(self) -> str: ...

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


def require_sites(model: Model, taps: Iterable[Tap]) -> None:
    """Asking for attention of a model that has none is an error, not an empty answer."""
    if list(taps) and not model.sites:
        raise WorkbenchError(
            f"{model.name} ({model.family}) has no attention heads to look at.",
            remedy="Ask it for hidden states, or choose a model with attention such as BERT.",
        )
