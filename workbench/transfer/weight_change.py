"""How far training has moved each layer's and each module's weights, and whether it could have.

Weights meet by name, whatever head the model was saved with: what only one side has, such as
another head, is told and left out. Costs two passes over the weights.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd
from torch import Tensor

from workbench.engine.model import Model
from workbench.errors import WorkbenchError
from workbench.models.huggingface import HuggingFace
from workbench.models.parts import where
from workbench.models.words import WordModel
from workbench.transfer.distance import weight_changes

COLUMNS = ["stack", "layer", "module", "weight_distance", "norm_before", "parameters"]
ELSEWHERE = -1  # the layer of what belongs to none
KINDS = (".weight", ".bias")  # of one module


class Place(NamedTuple):
    """Where a weight is, as the tables tell it."""

    stack: str
    layer: int
    module: str


@dataclass(frozen=True)
class Moved:
    """‖after - before‖ / ‖before‖ by layer and by module."""

    layers: Mapping[tuple[str, int], float]  # of those that have weights of their own
    modules: pd.DataFrame
    left_out: tuple[str, ...]  # names that one side alone has, or in another shape


def require_same(before: Model, after: Model) -> None:
    """Two models of one architecture, or an error that says in what they differ."""
    sides = [
        (model.family, model.width, model.stacks, [site.heads for site in model.sites])
        for model in (before, after)
    ]
    if sides[0] != sides[1]:
        raise _other(f"{_said(before)}; {_said(after)}")


def moved(before: Model, after: Model) -> Moved:
    """What has become of the weights that both have."""
    old, new = _weights(before), _weights(after)
    told = {**_places(after), **_places(before)}
    places = {name: told.get(name, Place("", ELSEWHERE, name)) for name in {**old, **new}}
    both = [name for name in old if name in new]
    odd = [name for name in both if old[name].shape != new[name].shape]
    for name in odd:
        if places[name].layer > 0:
            raise _other(
                f"{name} is {tuple(old[name].shape)} before and {tuple(new[name].shape)} after"
            )
    shared = [name for name in both if name not in odd]
    old_shared, new_shared = ({name: side[name] for name in shared} for side in (old, new))

    def grouped(by: Callable[[Place], Place]) -> dict[Place, tuple[float, float, int]]:
        labels = {str(by(places[name])): by(places[name]) for name in shared}
        changes = weight_changes(old_shared, new_shared, lambda name: str(by(places[name])))
        return {
            labels[one.group]: (one.distance, one.norm_before, one.parameters)
            for one in changes.groups
        }

    layers = grouped(lambda place: Place(place.stack, place.layer, ""))
    modules = grouped(lambda place: place)
    rows = [(*place, *numbers) for place, numbers in modules.items()]
    return Moved(
        {
            (place.stack, place.layer): numbers[0]
            for place, numbers in layers.items()
            if place.layer != ELSEWHERE
        },
        pd.DataFrame(rows, columns=COLUMNS),
        tuple(dict.fromkeys([name for name in (*old, *new) if name not in shared])),
    )


def same_vocabulary(before: Model, after: Model) -> bool:
    """Whether rows of the embeddings stand for the same words or pieces."""
    if isinstance(before, HuggingFace) and isinstance(after, HuggingFace):
        return bool(before.tokenizer.get_vocab() == after.tokenizer.get_vocab())
    if isinstance(before, WordModel) and isinstance(after, WordModel):
        return before.vocabulary == after.vocabulary
    return False


def _weights(model: Model) -> dict[str, Tensor]:
    """Every weight by a name that does not tell which head is on top."""
    if isinstance(model, WordModel):
        return dict(model.weights)
    assert isinstance(model, HuggingFace), "there are no other models"
    named = model.net.named_parameters(remove_duplicate=False)
    return {_bare(model, name): weights for name, weights in named}


def _places(model: Model) -> dict[str, Place]:
    """Where each is; a module's weight and bias are together."""
    if isinstance(model, WordModel):
        found = {name: Place("", ELSEWHERE, name) for name in model.weights}  # the softmax
        for name, place in where(model).items():
            found[name] = Place(place.stack or "", place.layer or 0, place.module)
        return found
    assert isinstance(model, HuggingFace), "there are no other models"
    named = {}
    for name, place in where(model).items():
        layer, bare = ELSEWHERE if place.layer is None else place.layer, _bare(model, name)
        inner = place.module if layer > 0 else bare  # the same in every layer
        named[bare] = Place(place.stack or "", layer, _module(inner))
    return named


def _module(name: str) -> str:
    return next((name.removesuffix(kind) for kind in KINDS if name.endswith(kind)), name)


def _bare(model: HuggingFace, name: str) -> str:
    return name.removeprefix(f"{model.net.base_model_prefix}.")


def _said(model: Model) -> str:
    stacks = ", ".join(
        f"{stack.layers} {stack.name} layers"
        + (f" of {stack.heads} heads" if stack.heads else " without attention")
        for stack in model.stacks
    )
    return f"{model.name} is {model.family}, {stacks}, width {model.width}"


def _other(what: str) -> WorkbenchError:
    return WorkbenchError(
        f"drift follows one architecture from before to after: {what}.",
        remedy="Name a model and what was trained from it, or compare any two with similarity.",
    )
