"""From one sequence to another: what an encoder-decoder takes. Costs a sort of each row."""

from torch import Tensor

from workbench.training.objectives.causal import IGNORED
from workbench.training.objectives.noise import compact
from workbench.training.vocabulary import Vocabulary, need


def translation(
    inputs: Tensor,  # [batch, some]
    read: Tensor,  # [batch, some] bool, which of them the encoder reads
    targets: Tensor,  # [batch, others]
    written: Tensor,  # [batch, others] bool, which of them the decoder writes
    vocabulary: Vocabulary,
    start: int,
) -> dict[str, Tensor]:
    """Inputs and targets moved together and padded, and what the decoder reads to write them."""
    pad = need(vocabulary.pad, "padding", "an encoder-decoder")
    ids = compact(inputs, read, pad)
    labels = compact(targets, written, IGNORED)
    shifted = labels.new_full(labels.shape, start)
    shifted[:, 1:] = labels[:, :-1].masked_fill(labels[:, :-1] == IGNORED, pad)
    return {
        "input_ids": ids,
        "attention_mask": (ids != pad).long(),
        "labels": labels,
        "decoder_input_ids": shifted,
    }
