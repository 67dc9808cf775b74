"""How far apart two models' layers stay when one is turned and scaled to fit: Procrustes.

Rows are centred and scaled to unit norm as a whole; half of the squared distance that is left after
the best rotation or reflection is in [0, 1], and 0 is the same shape. Without as many rows as
widths even independent layers fit in part: mind the number of rows, or compare at the same
number. Beyond the moments, costs the singular values of a width by width matrix for each pair.
"""

import torch
from torch import Tensor

from workbench.transfer.moments import Centred, Moments


def procrustes_distance(moments: Moments) -> Tensor:
    """Of every pair of layers, or of the pairs asked for.  # [layers_a, layers_b], or [pairs]

    NaN where a layer is constant.
    """
    found = [_distance(moments.centred(i, j)) for i, j in moments.pairs]
    if not found:
        return torch.zeros(moments.shape, dtype=torch.float64)
    return torch.stack(found).view(moments.shape)


def _distance(pair: Centred) -> Tensor:
    """(1 + 1 - 2 ‖xᵀy‖*) / 2, of x and y of unit norm.  # []"""
    norm = pair.x_squares.sqrt() * pair.y_squares.sqrt()
    if not 0 < norm < torch.inf:
        return torch.full_like(norm, torch.nan)
    nuclear: Tensor = torch.linalg.svdvals(pair.cross).sum()
    return (1 - nuclear / norm).clamp(0, 1)
