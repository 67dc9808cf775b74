"""Captum with a model's own forward pass over embeddings, as in its tutorials."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.analyses.predictions.prediction import Prediction
from workbench.analyses.predictions.target import Target, Unit, baseline_vectors, units_of
from workbench.models.huggingface import require_transformer

STEPS = 16
Floats = NDArray[np.float64]


def _setting(
    prediction: Prediction, target: Target
) -> tuple[Callable[[Tensor], Tensor], Tensor, Tensor, list[Unit]]:
    net: Any = require_transformer(prediction.model, "", "").net
    text, own = prediction.text, prediction.inputs

    def forward(embeddings: Tensor) -> Tensor:
        more: dict[str, Any] = {"attention_mask": text.mask.long().expand(len(embeddings), -1)}
        if text.segments is not None:
            more["token_type_ids"] = text.segments.expand(len(embeddings), -1)
        if prediction.target is not None:
            more["decoder_input_ids"] = own["decoder"].ids.expand(len(embeddings), -1)
        logits: Tensor = net(inputs_embeds=embeddings, **more).logits
        return logits[:, prediction.position, target.choice]

    stack = next(iter(own))
    embeddings = net.get_input_embeddings()(text.ids).detach()
    units = [unit for unit in units_of(prediction) if unit.stack == stack]
    return forward, embeddings, baseline_vectors(prediction)[stack], units


def _by_unit(pieces: Tensor, units: list[Unit]) -> Floats:
    scores = [float(pieces[0, list(unit.pieces)].sum()) for unit in units]
    return np.where([unit.fixed for unit in units], 0, scores)


def integrated_gradients(prediction: Prediction, target: Target) -> Floats:
    from captum.attr import IntegratedGradients

    forward, embeddings, baseline, units = _setting(prediction, target)
    found = IntegratedGradients(forward).attribute(embeddings, baseline, n_steps=STEPS)
    return _by_unit(found.sum(-1).detach(), units)


def gradient_x_input(prediction: Prediction, target: Target) -> Floats:
    from captum.attr import InputXGradient

    forward, embeddings, _, units = _setting(prediction, target)
    found = InputXGradient(forward).attribute(embeddings.requires_grad_())
    return _by_unit(found.sum(-1).detach(), units)


def occlusion(prediction: Prediction, target: Target) -> Floats:
    from captum.attr import FeatureAblation

    forward, embeddings, baseline, units = _setting(prediction, target)
    groups = torch.zeros(1, embeddings.shape[1], 1, dtype=torch.int64)
    for n, unit in enumerate(units):
        groups[0, list(unit.pieces)] = n
    with torch.no_grad():
        found = FeatureAblation(forward).attribute(embeddings, baseline, feature_mask=groups)
    scores = [float(found[0, unit.pieces[0], 0]) for unit in units]
    return np.where([unit.fixed for unit in units], 0, scores)


FUNCTIONS: dict[str, Callable[[Prediction, Target], Floats]] = {
    "integrated-gradients": integrated_gradients,
    "gradient-x-input": gradient_x_input,
    "occlusion": occlusion,
}
