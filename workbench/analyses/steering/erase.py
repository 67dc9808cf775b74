"""Erase what a linear probe finds from the states of a layer: `wb.erase`.

    found = wb.erase(model, corpus, layer=2)              # parts of speech of predicted words
    wb.run("lens", model=found.into(model), corpus=corpus)
    wb.erase(model, directions=probe.coef_, layer=2)      # what your own probe found

Costs: as the experiment `erasure` for one layer, without its random subspaces.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from workbench.analyses.steering.erasure_corpus import probed, sampled
from workbench.analyses.steering.experiments import Label
from workbench.analyses.steering.leace import Eraser, fitted, without
from workbench.analyses.steering.moved import require_layer
from workbench.core.errors import WorkbenchError
from workbench.core.findings import percent, plural
from workbench.core.head_names import at_state
from workbench.core.public import public, require_choice
from workbench.engine.model import Model
from workbench.models.interventions.states import Positions, Write

if TYPE_CHECKING:
    from workbench.corpora.corpus import Corpus

MAX_WORDS, MAX_TESTED = 600, 200


@dataclass(frozen=True, eq=False, repr=False)
class Erased:
    """A map of the states of one layer that removes some directions.

    Example:
        >>> model = wb.load("mini:bert", device="cpu")
        >>> found = wb.erase(model, wb.read("primer:size=300"), layer=2)
        >>> found.probe["probe_erased"] < found.probe["probe"]
        True
    """

    model: Model
    stack: str
    layer: int  # 0: the embeddings
    eraser: Eraser
    labels: tuple[str, ...] = ()
    probe: dict[str, float] | None = None  # accuracies on other documents, before and after

    def write(self, *, positions: Positions = None) -> Write:
        """A `wb.Write` that removes the directions.

        Args:
            positions: The pieces, as for `wb.Write` (default: all pieces).

        Returns:
            A tap; its `into` and `on` change a model.
        """
        name = f"block {self.layer}" if self.layer else "embeddings"
        return Write(
            f"{self.stack} {name}", times=self.eraser.map, plus=self.eraser.offset,
            positions=positions,
        )  # fmt: skip

    def into(self, model: Model) -> Model:
        """A model whose states are without the directions in every pass."""
        return self.write().into(model)

    def __repr__(self) -> str:
        """What is removed, and what a probe finds before and after."""
        text = (
            f"{self.model.name}: {plural(self.eraser.rank, 'direction')} removed from "
            f"{at_state(self.layer)} of the {self.stack}"
        )
        if self.probe is None:
            return text
        return (
            f"{text}; a linear probe of {plural(len(self.labels), 'label')}: "
            f"{percent(self.probe['probe'])} before, {percent(self.probe['probe_erased'])} after "
            f"(always the label most frequent in the fit: {percent(self.probe['majority'])})"
        )


@public
def erase(
    model: Model,
    corpus: "Corpus | None" = None,
    *,
    layer: int,
    label: Label = "pos",
    directions: Any = None,
    split: str | None = None,
    seed: int = 0,
) -> Erased:
    """Remove what a linear probe finds of a label from the states of a layer (LEACE).

    The label is that of the predicted word, and the states are those that predict it. The change is
    the smallest after which no linear probe finds the label. Whether the model used it, says the
    experiment `erasure`.

    Args:
        model: A transformers model with a language-model head, or an ELMo with its softmax.
        corpus: A corpus with the label.
        layer: Index of the layer whose states are changed: 0 for the embeddings, 2 for block 2.
        label: `pos` or `tags`.
        directions: Instead of a corpus: the directions to remove, [directions, width], such as the
            weights of your own probe.
        split: The split to fit on (default: `test` or `dev`, else all).
        seed: Seed of the words.

    Returns:
        An `Erased`: `write()` and `into(model)` to use it; `probe` has accuracies before and after.

    Raises:
        WorkbenchError: There is no such layer, or too few words.

    Example:
        >>> import torch
        >>> model = wb.load("mini:gpt", device="cpu")
        >>> found = wb.erase(model, directions=torch.eye(128)[:3], layer=4)
        >>> found.eraser.rank
        3
    """
    stack = model.stacks[-1]
    require_choice("label", label, Label)
    require_layer(layer, stack.layers, model)
    if (corpus is None) == (directions is None):
        raise WorkbenchError(
            "either a corpus or directions must be given.",
            code="setting-invalid",
            remedy="Pass a corpus with labels, or the directions of your own probe.",
        )
    if corpus is None:
        given = torch.as_tensor(directions)
        if given.shape[-1] != model.width:
            raise WorkbenchError(
                f"the directions have {given.shape[-1]} numbers, the states {model.width}.",
                code="setting-invalid",
                remedy="Pass a tensor of [directions, width].",
            )
        return Erased(model, stack.name, layer, without(given))
    corpus.require([label], "erase")
    split = split or next((name for name in ("test", "dev") if name in corpus.splits), None)
    sample = sampled(model, list(corpus.docs(split)), label, (MAX_WORDS, MAX_TESTED), seed)
    eraser = fitted(sample.states(sample.fit, layer), sample.indices(sample.fit))
    return Erased(model, stack.name, layer, eraser, sample.labels, probed(sample, layer, eraser))
