"""DistilBERT's loss: the teacher's soft targets, the masked language model, and its hidden states.

Weights and temperature are those of the published model. Costs two passes over the logits given:
give those at masked positions only, for nothing else is compared.
"""

import torch
from torch import Tensor
from torch.nn import functional

from workbench.training.objectives.causal import IGNORED
from workbench.training.task import sent

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
