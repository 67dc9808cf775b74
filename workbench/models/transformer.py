"""A net of transformers with its tokenizer, and what was taken from it or added to it.

`huggingface.HuggingFace` runs it. Removal of heads, added modules, task heads and checkpoints are
written against this class, below the adapter that uses them. Costs: nothing.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar

from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from workbench.engine.model import Model
from workbench.engine.taps import Site, StackName
from workbench.engine.task import Task

AddedKind = Literal["adapters", "prefix", "prompt"]


@dataclass
class Added:
    """The modules added to one net."""

    kind: AddedKind
    size: int  # hidden width of an adapter, or number of vectors
    modules: nn.ModuleDict

    @property
    def room(self) -> int:
        """Number of learnt vectors before each text."""
        return 0 if self.kind == "adapters" else self.size


@dataclass(frozen=True)
class LanguageHead:
    """The language-model head of a net whose body has got a task head."""

    class_name: str  # of transformers
    task: Task
    weights: dict[str, Tensor]  # those that are not the body's, nor tied to them


class Transformer(Model):
    """A net, its tokenizer, its remaining heads, and the parts outside the net."""

    net: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    two_sided: bool  # whether it is an encoder-decoder
    # by site: the original indices of the heads, and the original number of heads
    kept: Mapping[int, tuple[int, ...]]
    whole: Mapping[int, int]
    language_head: LanguageHead | None  # that a standard task head has replaced
    packed: Mapping[str, Any]  # the form of weights on disk: see formats.packed_checkpoint
    added: Added | None  # adapters, a prefix or a prompt

    @abstractmethod
    def __init__(
        self,
        net: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        name: str,
        sites: tuple[Site, ...] | None = None,
    ) -> None:
        """`sites` are given if already known, for example after heads were removed."""

    @abstractmethod
    def copy(self, in_fp32: bool = False) -> Self:
        """A copy with weights of its own."""

    def in_weights(self) -> Self:
        """The model with all that is changed in its passes in its weights."""
        return self

    @property
    def n_removed_heads(self) -> int:
        """How many heads were removed."""
        return sum(self.whole.values()) - sum(len(heads) for heads in self.kept.values())

    @property
    def sequence_first(self) -> bool:
        """Whether blocks use the shape [pieces, batch, width]."""
        return self.family == "xlnet"

    def body(self, stack: StackName) -> nn.Module:
        """The module that contains a stack's blocks."""
        net: Any = self.net
        if not self.two_sided:
            whole: nn.Module = net.base_model
            return whole
        body: nn.Module = net.get_encoder() if stack == "encoder" else net.get_decoder()
        return body

    def bare_name(self, name: str) -> str:
        """A weight's name without the prefix of the body, which models with a head add."""
        return name.removeprefix(f"{self.net.base_model_prefix}.")

    def take_heads(self, other: "Transformer") -> None:
        """Take the description of the task, and the heads outside the net, of another model."""
        self.task_head, self.language_head = other.task_head, other.language_head


T = TypeVar("T", bound=Transformer)
