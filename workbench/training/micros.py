"""From an objective's batch to a micro-batch: places wanted instead of labels, and what is counted.

Each term of a loss is a mean over targets of its own, which are counted here. Costs a look at the
labels.
"""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from workbench.training import hybrid, spanbert
from workbench.training.objectives import IGNORED
from workbench.training.task import Micro

# What is asked of a pair of texts, and the model's answer, beside masks.
OF_PAIRS: Mapping[str, tuple[str, str]] = {
    "masked-next": ("next_sentence_label", "seq_relationship_logits"),
    "masked-order": ("sentence_order_label", "sop_logits"),
}


def micro(batch: Mapping[str, Tensor], objective: str) -> Micro:
    """Labels become `at` [targets], the flat places wanted, and `gold` [targets]."""
    if objective == "hybrid":
        return _of_both_kinds(batch)
    inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}
    labels = batch["labels"]
    if objective == "causal":  # what is predicted stands one place on
        labels = functional.pad(labels[:, 1:], (0, 1), value=IGNORED)
    at = (labels.flatten() != IGNORED).nonzero()[:, 0]
    inputs["at"], inputs["gold"] = at, labels.flatten()[at]
    counts = [len(at)]
    tokens = int(inputs["attention_mask"].sum())
    if objective in OF_PAIRS:
        counts.append(len(labels))
    if objective == "masked-spans":
        counts.append(len(at))
        own = {name: inputs[name].flatten()[at] for name in spanbert.OWN}  # [targets] each
        row = at - at % labels.shape[1]  # the flat place where each target's row begins
        inputs |= own | {name: own[name] + row for name in ("left", "right")}
    if objective == "replaced":
        counts.append(tokens)
    if objective == "distilled":
        counts += [counts[0], tokens]
    if "decoder_input_ids" in inputs:
        tokens += counts[0]
    if bool(inputs["attention_mask"].all()):  # attention is faster without a mask
        del inputs["attention_mask"]
    elif objective == "distilled":
        inputs["real"] = inputs["attention_mask"].flatten().nonzero()[:, 0]
    return Micro(inputs, torch.tensor(counts), tokens)


def _of_both_kinds(batch: Mapping[str, Tensor]) -> Micro:
    """Rows with masks as `masked` has them, and those read from left to right by other names."""
    ahead = batch["causal"]  # [batch] bool
    inputs: dict[str, Tensor] = {}
    counts, tokens = [], 0
    for kind, prefix, rows in (("masked", "", ~ahead), ("causal", hybrid.NEXT, ahead)):
        part = {name: tensor[rows] for name, tensor in batch.items() if name != "causal"}
        found = micro(part, kind)
        if bool(rows.any()):
            inputs |= {prefix + name: tensor for name, tensor in found.inputs.items()}
        counts.append(int(found.counts))
        tokens += found.tokens
    return Micro(inputs, torch.tensor(counts), tokens)
