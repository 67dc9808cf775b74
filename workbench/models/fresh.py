"""What a model is compared with: a copy, the same with fresh weights, and its bare embeddings.

`copied` and `fresh` cost a second model in memory; the latter is what `REF@random` opens, made of a
model that is open already. `bare` is what stands for a piece before positions are added: a table
looked up.
"""

import copy
from typing import overload

import torch
from torch import Tensor

from workbench.engine.model import Model
from workbench.engine.pieces import Pieces
from workbench.errors import WorkbenchError
from workbench.models.huggingface import HuggingFace
from workbench.models.precision import placed
from workbench.models.removal import cut
from workbench.models.words import WordModel


def fresh(model: Model, seed: int) -> Model:
    """The same architecture, device and precision; weights drawn anew."""
    if isinstance(model, WordModel) and model.anew is not None:
        return model.anew(seed)
    if not isinstance(model, HuggingFace):
        raise WorkbenchError(
            f"{model.name} ({model.family}) cannot be made anew with other weights.",
            remedy="Leave the random baseline out.",
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = type(model.net)(copy.deepcopy(model.net.config))
    placed(net, model.device, model.net.dtype)
    twin = HuggingFace(net, model.tokenizer, f"{model.name}@random")
    return cut(twin, model.kept) if twin.sites != model.sites else twin


@overload
def copied(model: HuggingFace) -> HuggingFace: ...
@overload
def copied(model: Model) -> Model: ...
def copied(model: Model) -> Model:
    """The same model with weights of its own."""
    if isinstance(model, HuggingFace):
        net = copy.deepcopy(model.net)
        own = HuggingFace(net, model.tokenizer, model.name, sites=model.sites)
        own.kept, own.whole = model.kept, model.whole
        return own
    assert isinstance(model, WordModel) and model.again is not None, "there are no other models"
    again = model.again()
    again.name = model.name
    again._number, again._word = model._number, model._word  # what is encoded serves both
    return again


def bare(model: Model, pieces: Pieces) -> Tensor | None:
    """Embeddings of pieces without positions; None where layer 0 has none.  # [batch, pieces, d]"""
    if not isinstance(model, HuggingFace):
        return None
    found: Tensor = model.net.get_input_embeddings()(pieces.ids)
    return found
