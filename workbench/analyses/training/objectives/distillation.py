"""Distillation: DistilBERT as the student of any masked language model with its tokenizer.

The student has the teacher's width and half its layers. If the teacher is a BERT, the student
starts from every other layer of it, as published. Costs: a forward pass of the teacher in addition
to the student's, and both models' logits at masks.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from workbench.analyses.training.objectives.chunked_lm_loss import logits_at
from workbench.analyses.training.objectives.masked import IGNORED, masked
from workbench.analyses.training.task import Objective
from workbench.engine.batch import sent

# --- the objective: masked pieces with the teacher's soft targets ---------------------------------
#
# DistilBERT's loss: the teacher's soft targets, the masked language model, and the hidden states.
#
# Weights and temperature are those of the published model. Costs: two passes over the logits, which
# should be those at masked positions only.

TEMPERATURE = 2.0
SOFT, HARD, COSINE = 5.0, 2.0, 1.0


def distillation(
    student: Tensor,  # [predicted, vocabulary], logits
    teacher: Tensor,  # [predicted, vocabulary]
    labels: Tensor,  # [predicted]
    student_hidden: Tensor,  # [tokens, width], last states without padding
    teacher_hidden: Tensor,  # [tokens, width]
    *,
    temperature: float = TEMPERATURE,
    weights: tuple[float, float, float] = (SOFT, HARD, COSINE),
) -> dict[str, Tensor]:
    """The weighted loss and its three parts, each a mean over tokens."""
    soft = soft_targets(student, teacher, temperature).mean()
    hard = functional.cross_entropy(student.float(), labels, ignore_index=IGNORED)
    cosine = cosine_distance(student_hidden, teacher_hidden).mean()
    parts = torch.stack([soft, hard, cosine])
    loss = parts @ sent(torch.tensor(weights, dtype=parts.dtype), parts.device)
    return {"loss": loss, "soft": soft, "hard": hard, "cosine": cosine}


def soft_targets(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Divergence from the teacher's distribution at a temperature.  # [n, outputs] twice -> [n]

    Times the squared temperature, which keeps the size of the gradient.
    """
    own, theirs = (
        functional.log_softmax(each.float() / temperature, -1) for each in (student, teacher)
    )
    divergence = functional.kl_div(own, theirs, reduction="none", log_target=True)
    return divergence.sum(-1) * temperature**2


def cosine_distance(student: Tensor, teacher: Tensor) -> Tensor:
    """One minus the cosine of states.  # [..., width] twice -> [...]"""
    return 1 - functional.cosine_similarity(student.float(), teacher.float(), dim=-1)


# --- the student, initialised from every other layer of its teacher -------------------------------

# Modules of a block: BERT's name and DistilBERT's name.
_PARTS = {
    "attention.self.query": "attention.q_lin",
    "attention.self.key": "attention.k_lin",
    "attention.self.value": "attention.v_lin",
    "attention.output.dense": "attention.out_lin",
    "attention.output.LayerNorm": "sa_layer_norm",
    "intermediate.dense": "ffn.lin1",
    "output.dense": "ffn.lin2",
    "output.LayerNorm": "output_layer_norm",
}
_AROUND = {
    "bert.embeddings.word_embeddings": "distilbert.embeddings.word_embeddings",
    "bert.embeddings.position_embeddings": "distilbert.embeddings.position_embeddings",
    "bert.embeddings.LayerNorm": "distilbert.embeddings.LayerNorm",
    "cls.predictions.transform.dense": "vocab_transform",
    "cls.predictions.transform.LayerNorm": "vocab_layer_norm",
}


class Distilled(nn.Module):
    """A student with its frozen teacher; only the student is saved."""

    def __init__(self, student: PreTrainedModel, teacher: PreTrainedModel) -> None:
        super().__init__()
        self.student = student
        self._teacher = [teacher.eval().requires_grad_(False)]

    @property
    def config(self) -> Any:
        return self.student.config

    def teacher(self, device: torch.device) -> PreTrainedModel:
        """The teacher on a device, in evaluation mode."""
        teacher: Any = self._teacher[0]
        if teacher.device != device:
            teacher.to(device)
        return teacher

    def save_pretrained(self, folder: Path) -> None:
        """Save the student alone."""
        self.student.save_pretrained(folder)


def copy_teacher_layers(student: PreTrainedModel, teacher: PreTrainedModel) -> bool:
    """Copy every other layer of a BERT teacher into the student; False for another model type."""
    if teacher.config.model_type != "bert":
        return False
    teacher_state, student_state = teacher.state_dict(), student.state_dict()
    names = dict(_AROUND)
    for layer in range(student.config.num_hidden_layers):
        source = f"bert.encoder.layer.{2 * layer}"
        target = f"distilbert.transformer.layer.{layer}"
        names |= {f"{source}.{a}": f"{target}.{b}" for a, b in _PARTS.items()}
    with torch.no_grad():
        for a, b in names.items():
            for kind in ("weight", "bias"):
                if f"{b}.{kind}" in student_state:
                    student_state[f"{b}.{kind}"].copy_(teacher_state[f"{a}.{kind}"])
        student_state["vocab_projector.bias"].copy_(teacher_state["cls.predictions.bias"])
    return True


def distilled_losses(net: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    """Summed losses: soft and hard targets at masks, cosine distance of states at tokens.  # [3]

    `real` [tokens] are the flat positions in [batch, length] without padding; without `real` there
    is no padding.
    """
    assert isinstance(net, Distilled)
    model_inputs = {name: tensor for name, tensor in inputs.items() if name != "real"}
    logits, student_output = logits_at(net.student, model_inputs, output_hidden_states=True)
    with torch.no_grad():
        teacher = net.teacher(logits.device)
        teacher_logits, teacher_output = logits_at(teacher, model_inputs, output_hidden_states=True)
    states, teacher_states = (
        _real(output.hidden_states[-1], inputs.get("real"))
        for output in (student_output, teacher_output)
    )
    parts = distillation(logits, teacher_logits, inputs["gold"], states, teacher_states)
    targets, tokens = len(inputs["gold"]), len(states)
    return torch.stack([parts["soft"] * targets, parts["hard"] * targets, parts["cosine"] * tokens])


def _real(states: Tensor, positions: Tensor | None) -> Tensor:
    """The states of all tokens but padding; indices, because a mask would have to be read first.

    # [batch, length, width] -> [tokens, width]
    """
    flat = states.flatten(0, 1)
    return flat if positions is None else flat.index_select(0, positions)


def _with_real(inputs: dict[str, Tensor], labels: Tensor) -> tuple[int, int]:
    """Add the positions of tokens if there is padding; targets are masks twice, and all tokens."""
    mask = inputs["attention_mask"].flatten()
    if not bool(mask.all()):
        inputs["real"] = mask.nonzero()[:, 0]
    return len(inputs["at"]), int(mask.sum())


OBJECTIVES = {
    "distilled": Objective(
        masked,
        "encoder",
        losses=lambda vocabulary: distilled_losses,
        terms=("soft", "hard", "cosine"),
        weights=(SOFT, HARD, COSINE),
        complete=_with_real,
    )
}
