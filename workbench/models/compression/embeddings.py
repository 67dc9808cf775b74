"""Embeddings of a lower rank: a table of pieces by width becomes two matrices (ALBERT's argument).

Of the table V x H, the E largest singular values stay: V x E times E x H has fewer numbers where E
is small (Lan et al. 2020). An output layer that is tied to the table changes with it. Where a
config has a width of embeddings that is projected without a norm between (OPT's
`word_embed_proj_dim`), the model is smaller itself, and plain transformers opens it. BERT has no
such field, and ALBERT and ELECTRA normalise before they project, which no product equals: their
folder holds both matrices (`formats.packed_checkpoint`), and the product is computed when it is
opened. Costs: the eigenvectors of a matrix of H x H.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from workbench.core.errors import WorkbenchError
from workbench.engine.model import refusal
from workbench.models.compression.rebuilding import (
    Order,
    mark_read,
    number_left,
    rebuilt,
    require_whole,
)
from workbench.models.formats.packed_checkpoint import LowRank, factors
from workbench.models.huggingface import HuggingFace

PROJECTED = "word_embed_proj_dim"  # a config's width of embeddings, if it is projected


def factorise_embeddings(
    model: HuggingFace, amount: float, *, order: Order = "best", seed: int = 0
) -> HuggingFace:
    """The model whose table of pieces has this share of its numbers less, as two matrices.

    `random` projects embeddings onto random directions, `reversed` onto those of the smallest
    singular values.
    """
    model = require_whole(model, "embeddings")
    number_left(1, amount)  # raises outside 0 to 1
    table: Any = model.net.get_input_embeddings()
    if not isinstance(table, nn.Embedding):
        raise refusal(model, "has no table of embeddings", "Choose a model with pieces.")
    rows, columns = table.weight.shape
    rank = rank_left(rows, columns, amount)
    if rank == columns or not amount:
        return model.copy()
    left, right = _factors(table.weight.detach(), rank, order, seed)
    if getattr(model.net.config, PROJECTED, None) == model.width:
        return _projected(model, left, right)
    twin = model.copy()
    twin_table: Any = twin.net.get_input_embeddings()
    names: dict[Any, str] = {module: path for path, module in twin.net.named_modules()}
    with torch.no_grad():
        twin_table.weight.copy_(left.double() @ right.double())
    twin.packed = {**model.packed, f"{names[twin_table]}.weight": LowRank(rank)}
    mark_read(twin.net, model)
    return twin


def rank_left(rows: int, columns: int, amount: float) -> int:
    """The largest rank whose two matrices have this share of the table's numbers less."""
    rank = int((1 - amount) * rows * columns / (rows + columns) + 1e-9)
    if amount and not rank:
        raise WorkbenchError(
            f"{amount:.0%} less than a table of {rows:,} x {columns:,} leaves no rank of 1.",
            code="setting-invalid",
            remedy="Choose a smaller amount.",
        )
    return rank if amount else columns


def _factors(table: Tensor, rank: int, order: Order, seed: int) -> tuple[Tensor, Tensor]:
    """Two matrices whose product is the table on some directions.  # [rows, rank], [rank, width]"""
    if order == "best":
        return factors(table, rank)
    columns = table.shape[1]
    if order == "random":
        drawn = torch.randn(columns, rank, generator=torch.Generator().manual_seed(seed)).double()
        right = torch.linalg.qr(drawn).Q.T.to(table.device)
    else:
        right = torch.linalg.eigh(table.double().T @ table.double()).eigenvectors[:, :rank].T
    return (table.double() @ right.T).float(), right.float()


def _projected(model: HuggingFace, left: Tensor, right: Tensor) -> HuggingFace:
    """The model with narrower embeddings, and a projection to and from the width of its states."""
    config: Any = copy.deepcopy(model.net.config)
    setattr(config, PROJECTED, left.shape[1])
    state = dict(model.net.state_dict())
    module = next(m for m in model.net.modules() if hasattr(m, "project_in"))
    path = next(path for path, each in model.net.named_modules() if each is module)
    changed = {
        name: left for name, weights in state.items() if weights.data_ptr() == state[
            f"{path}.embed_tokens.weight"].data_ptr()
    }  # fmt: skip
    more = {f"{path}.project_in.weight": right.T, f"{path}.project_out.weight": right}
    return rebuilt(model, config, {**state, **changed, **more})
