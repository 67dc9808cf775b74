"""What a model is compared with: the same architecture with fresh weights, and its bare embeddings.

`fresh` is what `REF@random` opens, made of a model that is open already; it costs a second model in
memory. `bare` is what stands for a piece before positions are added: a table looked up.
"""

import copy

import torch
from torch import Tensor

from workbench.engine.model import Model
from workbench.engine.pieces import Pieces
from workbench.errors import WorkbenchError
from workbench.models.huggingface import HuggingFace
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
    net.to(device=model.net.device, dtype=model.net.dtype).train(False)  # type: ignore[call-arg]
    twin = HuggingFace(net, model.tokenizer, f"{model.name}@random")
    return cut(twin, model.kept) if twin.sites != model.sites else twin


def bare(model: Model, pieces: Pieces) -> Tensor | None:
    """Embeddings of pieces without positions; None where layer 0 has none.  # [batch, pieces, d]"""
    if not isinstance(model, HuggingFace):
        return None
    found: Tensor = model.net.get_input_embeddings()(pieces.ids)
    return found
