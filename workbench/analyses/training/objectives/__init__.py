"""Training objectives: pure functions from token batches to inputs and targets.

    objective(tokens, special, generator, vocabulary, **settings) -> tensors for the model

`tokens` [batch, length] are not modified; `special` tokens, padding included, are never corrupted;
all random numbers come from the generator. Names follow transformers' models: `input_ids`,
`attention_mask`, `labels` with -100 for no loss, `decoder_input_ids`. Objectives in `BY_SENTENCE`
also take the sentence starts as `sentences=`. Costs: see each module.
"""

import inspect
from collections.abc import Callable

from torch import Tensor

from workbench.analyses.training.objectives import bart, sentence_pairs, t5
from workbench.analyses.training.objectives.masked import (
    IGNORED,
    bidirectional,
    causal,
    masked,
    spans,
    to_generate,
)
from workbench.analyses.training.objectives.permuted import permuted
from workbench.analyses.training.objectives.prefix_lm import prefix_lm
from workbench.analyses.training.objectives.unilm import unilm

__all__ = ["BY_SENTENCE", "IGNORED", "OBJECTIVES", "Objective", "takes"]

Objective = Callable[..., dict[str, Tensor]]
OBJECTIVES: dict[str, Objective] = {
    "causal": causal,
    "bidirectional": bidirectional,
    "masked": masked,
    "masked-next": sentence_pairs.bert,
    "masked-order": sentence_pairs.albert,
    "masked-spans": spans,
    "permuted": permuted,
    "prefix-lm": prefix_lm,
    "unilm": unilm,
    "replaced": to_generate,  # the generator's half; see `masked.detect`
    "prefix": t5.prefix_lm,
    "bert-style": t5.bert_style,
    "deshuffle": t5.deshuffle,
    "mass-style": t5.mass_style,
    "replace-spans": t5.replace_spans,
    "drop-tokens": t5.drop_tokens,
    "random-spans": t5.random_spans,
    "denoisers": t5.denoisers,
    "token-masking": bart.token_masking,
    "token-deletion": bart.token_deletion,
    "infilling": bart.infilling,
    "sentence-permutation": bart.sentence_permutation,
    "document-rotation": bart.document_rotation,
    "bart": bart.bart,
}
BY_SENTENCE = {"masked-next", "masked-order", "sentence-permutation", "bart"}


def takes(objective: str, parameter: str) -> bool:
    """Whether an objective has a parameter; distilled uses those of masked."""
    function = OBJECTIVES.get({"distilled": "masked"}.get(objective, objective))
    return function is not None and parameter in inspect.signature(function).parameters
