"""A student and the teacher it learns from: DistilBERT out of any masked model of its tokenizer.

The student has the teacher's width and half its layers, and where the teacher is a BERT it begins
as every other one of them, as published. Costs a forward pass of the teacher beside the student's
own, and both models' logits at masks.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from workbench.engine.batch import sent
from workbench.training.chunked_lm_loss import logits_at
from workbench.training.objectives.masked import IGNORED

# --- the objective: masked pieces with the teacher's soft targets ---------------------------------
#
# DistilBERT's loss: the teacher's soft targets, the masked language model, and its hidden states.
#
# Weights and temperature are those of the published model. Costs two passes over the logits
# given: give those at masked positions only, for nothing else is compared.

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
    """The loss and its three parts, each a mean over tokens."""
    soft = functional.kl_div(
        functional.log_softmax(student.float() / temperature, dim=1),
        functional.log_softmax(teacher.float() / temperature, dim=1),
        reduction="batchmean",
        log_target=True,
    )
    soft = soft * temperature**2  # so that its gradient does not sink with the temperature
    hard = functional.cross_entropy(student.float(), labels, ignore_index=IGNORED)
    alike = functional.cosine_similarity(student_hidden.float(), teacher_hidden.float(), dim=1)
    cosine = (1 - alike).mean()
    parts = torch.stack([soft, hard, cosine])
    loss = parts @ sent(torch.tensor(weights, dtype=parts.dtype), parts.device)
    return {"loss": loss, "soft": soft, "hard": hard, "cosine": cosine}


# --- the student, made of every other layer of its teacher ----------------------------------------

TERMS, WEIGHTS = ("soft", "hard", "cosine"), (SOFT, HARD, COSINE)
# Of a block: BERT's name for a part, and DistilBERT's.
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
    """A student that learns; its teacher does not, and is no part of what is kept."""

    def __init__(self, student: PreTrainedModel, teacher: PreTrainedModel) -> None:
        super().__init__()
        self.student = student
        self._teacher = [teacher.eval().requires_grad_(False)]  # type: ignore[no-untyped-call]

    @property
    def config(self) -> Any:
        return self.student.config

    def teacher(self, device: torch.device) -> PreTrainedModel:
        """On the student's device, and never in training."""
        found: Any = self._teacher[0]
        if found.device != device:
            found.to(device)
        return found  # type: ignore[no-any-return]

    def save_pretrained(self, folder: Path) -> None:
        """The student alone."""
        self.student.save_pretrained(folder)


def begin_as(student: PreTrainedModel, teacher: PreTrainedModel) -> bool:
    """Give the student every other layer of a BERT; False, and nothing done, for another kind."""
    if teacher.config.model_type != "bert":
        return False
    theirs, own = teacher.state_dict(), student.state_dict()
    names = dict(_AROUND)
    for layer in range(student.config.num_hidden_layers):
        above = f"bert.encoder.layer.{2 * layer}"
        here = f"distilbert.transformer.layer.{layer}"
        names |= {f"{above}.{a}": f"{here}.{b}" for a, b in _PARTS.items()}
    with torch.no_grad():
        for a, b in names.items():
            for kind in ("weight", "bias"):
                if f"{b}.{kind}" in own:
                    own[f"{b}.{kind}"].copy_(theirs[f"{a}.{kind}"])
        own["vocab_projector.bias"].copy_(theirs["cls.predictions.bias"])
    return True


def distilled_losses(net: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    """Soft and hard targets at masks, and how alike states are at every token, in sums.  # [3]

    `real` [tokens] are the flat places of [batch, length] that are no padding; where it is left
    out, all are.
    """
    assert isinstance(net, Distilled)
    own = {name: tensor for name, tensor in inputs.items() if name != "real"}
    logits, answer = logits_at(net.student, own, output_hidden_states=True)
    with torch.no_grad():
        teacher = net.teacher(logits.device)
        wanted, taught = logits_at(teacher, own, output_hidden_states=True)
    states, others = (
        _real(each.hidden_states[-1], inputs.get("real")) for each in (answer, taught)
    )
    parts = distillation(logits, wanted, inputs["gold"], states, others)
    targets, tokens = len(inputs["gold"]), len(states)
    return torch.stack([parts["soft"] * targets, parts["hard"] * targets, parts["cosine"] * tokens])


def _real(states: Tensor, places: Tensor | None) -> Tensor:
    """The states of what is no padding; a mask would have to be read first.

    # [batch, length, width] -> [tokens, width]
    """
    flat = states.flatten(0, 1)
    return flat if places is None else flat.index_select(0, places)
