"""The arms of `pretraining`, and the comparisons that papers draw from them.

An arm is a way of pretraining with the head it is scored under; a study is some arms, the one that
the paper settled on first, and which of them the paper found better. A new study is a row of
`STUDIES` and its arms. Costs: nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

HeadKind = Literal["plain", "lstm"]
StudyName = Literal[
    "objectives", "masking", "t5-spans", "t5-objectives", "bart-noise", "electra-generator",
    "albert",
]  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """Family and objective of an arm, the head it is scored with, and its settings of `train`."""

    family: str
    objective: str
    head: HeadKind = "plain"
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """Arms that a paper compares, and its claims: pairs of arms, the better one first."""

    about: str
    paper: str
    arms: tuple[str, ...]
    claims: tuple[tuple[str, str], ...]


def _masked(**settings: Any) -> Kind:
    return Kind("bert", "masked", settings=settings)


def _spans(**settings: Any) -> Kind:
    return Kind("t5", "random-spans", settings=settings)


BERT_RATE = 0.15  # of pieces that BERT predicts
NEXT = "mlm+nsp"
PER_PIECE = ("masked-next", "masked", "causal")  # objectives whose loss is nats per piece
ARMS: Mapping[str, Kind] = {
    # BERT's Table 5
    NEXT: Kind("bert", "masked-next"),
    "mlm": Kind("bert", "masked"),
    "ltr": Kind("gpt", "causal"),
    "ltr+lstm": Kind("gpt", "causal", "lstm"),
    # BERT's Table 8 (mask / same / random), and how much is hidden
    "80/10/10": _masked(mask_rate=BERT_RATE),
    "100/0/0": _masked(mask_rate=BERT_RATE, mask_share=1.0, random_share=0.0),
    "80/0/20": _masked(mask_rate=BERT_RATE, mask_share=0.8, random_share=0.2),
    "0/0/100": _masked(mask_rate=BERT_RATE, mask_share=0.0, random_share=1.0),
    "rate 30": _masked(mask_rate=0.3),
    "rate 50": _masked(mask_rate=0.5),
    "whole words": _masked(mask_rate=BERT_RATE, mask_by="word"),
    "word spans": _masked(mask_rate=BERT_RATE, mask_by="span"),
    # T5's Tables 6 and 7
    "spans of 3": _spans(mean_span=3.0),
    "spans of 2": _spans(mean_span=2.0),
    "spans of 5": _spans(mean_span=5.0),
    "spans of 10": _spans(mean_span=10.0),
    "spans, rate 10": _spans(mask_rate=0.1),
    "spans, rate 25": _spans(mask_rate=0.25),
    "spans, rate 50": _spans(mask_rate=0.5),
    # T5's Tables 4 and 5
    "replaced runs": Kind("t5", "replace-spans"),
    "dropped pieces": Kind("t5", "drop-tokens"),
    "MASS": Kind("t5", "mass-style"),
    "BERT style": Kind("t5", "bert-style"),
    "deshuffled": Kind("t5", "deshuffle"),
    "prefix": Kind("t5", "prefix"),
    # BART's Table 1
    "infilled and permuted": Kind("bart", "bart"),
    "infilled": Kind("bart", "infilling"),
    "masked pieces": Kind("bart", "token-masking"),
    "deleted pieces": Kind("bart", "token-deletion"),
    "permuted sentences": Kind("bart", "sentence-permutation"),
    "rotated documents": Kind("bart", "document-rotation"),
    # ELECTRA's Figure 3
    "generator 1/4": Kind("electra", "replaced", settings={"generator": 0.25}),
    "generator 1/2": Kind("electra", "replaced", settings={"generator": 0.5}),
    "generator 1/1": Kind("electra", "replaced", settings={"generator": 1.0}),
    # ALBERT's Tables 4 and 5
    "shared layers, order": Kind("albert", "masked-order"),
    "shared layers": Kind("albert", "masked"),
}

STUDIES: Mapping[StudyName, Study] = {
    "objectives": Study(
        "BERT's Table 5: masked pieces with and without next sentences, and left to right",
        "devlin-2019-bert",
        (NEXT, "mlm", "ltr", "ltr+lstm"),
        ((NEXT, "mlm"), ("mlm", "ltr"), ("ltr+lstm", "ltr")),
    ),
    "masking": Study(
        "BERT's Table 8: the percentages of hidden pieces that become the mask, stay, and become "
        "a random piece; and how much is hidden, by piece, word or span",
        "devlin-2019-bert",
        (
            "80/10/10", "100/0/0", "80/0/20", "0/0/100", "rate 30", "rate 50", "whole words",
            "word spans",
        ),
        (("80/10/10", "0/0/100"), ("word spans", "80/10/10")),
    ),
    "t5-spans": Study(
        "T5's Tables 6 and 7: the length of hidden spans, and how much is hidden",
        "raffel-2020-t5",
        (
            "spans of 3", "spans of 2", "spans of 5", "spans of 10", "spans, rate 10",
            "spans, rate 25", "spans, rate 50",
        ),
        (("spans of 3", "spans of 10"), ("spans of 3", "spans, rate 50")),
    ),
    "t5-objectives": Study(
        "T5's Tables 4 and 5: what is hidden of a text, and what of it is written",
        "raffel-2020-t5",
        (
            "spans of 3", "replaced runs", "dropped pieces", "MASS", "BERT style", "deshuffled",
            "prefix",
        ),
        (("BERT style", "prefix"), ("BERT style", "deshuffled")),
    ),
    "bart-noise": Study(
        "BART's Table 1: five ways to corrupt a text, and the published combination",
        "lewis-2020-bart",
        (
            "infilled and permuted", "infilled", "masked pieces", "deleted pieces",
            "permuted sentences", "rotated documents",
        ),
        (("infilled", "permuted sentences"), ("infilled", "rotated documents")),
    ),
    "electra-generator": Study(
        "ELECTRA's Figure 3: the width of the generator, and masked pieces instead",
        "clark-2020-electra",
        ("generator 1/4", "generator 1/2", "generator 1/1", "mlm"),
        (("generator 1/4", "generator 1/1"), ("generator 1/4", "mlm")),
    ),
    "albert": Study(
        "ALBERT's Tables 4 and 5: layers that share weights, and sentence order",
        "lan-2020-albert",
        ("shared layers, order", "shared layers", "mlm"),
        (("mlm", "shared layers"), ("shared layers, order", "shared layers")),
    ),
}  # fmt: skip
