"""How alike the layers of two models are, whatever the rotation, scale and shift: debiased CKA.

Linear CKA with the unbiased HSIC (Song et al., 2012), from `Moments` instead of maps of rows by
rows. 1 is the same, 0 is what independent layers have on average however few the rows, where the
usual form nears 1; a little below 0 is chance. Beyond the moments, costs one pass over each
pair's.
"""

import torch
from torch import Tensor

from workbench.transfer.moments import Centred, Moments

FEWEST = 4  # rows for which the estimate is defined
ROUNDING = 1e-12  # of the terms it is a difference of: what is smaller than this is none


def debiased_cka(moments: Moments) -> Tensor:
    """Of every pair of layers, or of the pairs asked for.  # [layers_a, layers_b], or [pairs]

    NaN for fewer than 4 rows, and where a layer has no shape to compare: constant, or with all its
    rows but one the same, or all equally far apart.
    """
    layers = {layer for pair in moments.pairs for layer in pair}
    own = {layer: _size(moments.centred(layer, layer)) for layer in layers}
    found = [_debiased_hsic(moments.centred(i, j)) / (own[i] * own[j]) for i, j in moments.pairs]
    if not found:
        return torch.zeros(moments.shape, dtype=torch.float64)
    return torch.stack(found).view(moments.shape)


def _size(own: Centred) -> Tensor:
    """The root of a layer's HSIC with itself, NaN where that is none.  # []"""
    hsic = _debiased_hsic(own)
    whole = own.cross.square().sum() / max(own.rows * (own.rows - 3), 1)
    return torch.where(hsic > ROUNDING * whole, hsic, torch.nan).sqrt()


def _debiased_hsic(pair: Centred) -> Tensor:
    """Song et al.'s estimate, of which centred rows leave little.  # []

    With K = x xᵀ and L = y yᵀ without their diagonals, rows that sum to 0 give
    tr KL = ‖cross‖² - products, 1ᵀK1 = -x_squares, 1ᵀL1 = -y_squares and 1ᵀKL1 = products.
    """
    n = pair.rows
    if n < FEWEST:
        return torch.full_like(pair.products, torch.nan)
    trace = pair.cross.square().sum() - pair.products
    means = pair.x_squares * pair.y_squares / ((n - 1) * (n - 2))
    return (trace + means - 2 / (n - 2) * pair.products) / (n * (n - 3))
