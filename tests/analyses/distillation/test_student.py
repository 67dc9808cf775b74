"""A student begins as what it was cut from: with all of its teacher's layers it is the teacher."""

from typing import Any

import pytest
import torch

from tests.models import headed
from tests.models.bag_of_embeddings import BagOfEmbeddings
from tests.models.test_logits import HEADED
from tests.night import mostly
from workbench.analyses.distillation.experiments import LOSSES
from workbench.analyses.distillation.losses import Pair
from workbench.analyses.distillation.student import (
    continued,
    layer_map,
    matched,
    require_equal_heads,
    require_teacher,
    student_of,
)
from workbench.core.errors import WorkbenchError

FAMILIES = {
    name: HEADED[name]
    for name in (
        "bert",
        "roberta",
        "distilbert",
        "electra",
        "albert",
        "modernbert",
        "deberta-v2",
        "gpt2",
        "bloom",
        "gpt-neox",
        "llama",
        "t5-3-2",
        "bart-3-2",
    )
}

BY_DAY = ("bert", "albert", "t5-3-2")


def inputs_for(two_sided: bool) -> dict[str, torch.Tensor]:
    ids = torch.tensor([[7, 9, 11, 13, 8, 12], [9, 8, 10, 7, 0, 0]])
    inputs = {"input_ids": ids, "attention_mask": (ids > 0).long()}
    if two_sided:
        inputs["decoder_input_ids"] = torch.tensor([[1, 9, 11], [1, 7, 9]])
    at = torch.tensor([0, 1, 2, 3, 4, 5] if two_sided else [1, 4, 8])
    return {**inputs, "at": at, "gold": torch.tensor([9, 12, 10, 7, 8, 11])[: len(at)]}


def losses_of(teacher: Any, student: Any, layers: Any) -> dict[str, float]:
    pair = Pair(student, teacher, layers, LOSSES, 2.0).eval()
    return dict(zip(LOSSES, pair(inputs_for(teacher.two_sided)).tolist(), strict=True))


@pytest.mark.parametrize("family", mostly(FAMILIES, *BY_DAY))
def test_with_all_layers_a_student_begins_as_its_teacher(family: str) -> None:
    teacher = headed.made(family, FAMILIES[family])
    layers = {s.name: tuple(range(1, s.layers + 1)) for s in teacher.stacks}
    student = student_of(teacher, layers, None, seed=1, copied=True)
    found = losses_of(teacher, student, layers)
    hard = found.pop("hard")
    assert hard > 1
    assert max(map(abs, found.values())) < 1e-4, found
    fresh = losses_of(teacher, student_of(teacher, layers, None, seed=1, copied=False), layers)
    assert min(fresh[name] for name in found) > 1e-2, fresh


@pytest.mark.parametrize("family", mostly(FAMILIES, *BY_DAY))
@pytest.mark.parametrize("width", [None, 16])
def test_every_architecture_can_be_cut(family: str, width: int | None) -> None:
    teacher = require_teacher(headed.made(family, FAMILIES[family]))
    layers = matched(teacher, 1, "uniform")
    student = student_of(teacher, layers, width, seed=0, copied=width is None)
    require_equal_heads(student, teacher, layers)
    assert student.width == (width or teacher.width)
    assert [stack.layers for stack in student.stacks] == [1] * len(teacher.stacks)
    assert (student.parameters < teacher.parameters) == (family != "albert" or width is not None)
    assert all(
        torch.isfinite(torch.tensor(v)) for v in losses_of(teacher, student, layers).values()
    )


def test_the_first_layers_begin_at_zero_where_the_map_is_from_the_bottom() -> None:
    teacher = headed.made("bert", "BertForMaskedLM")
    bottom, top = ({"encoder": layer_map(kind, 1, 2)} for kind in ("bottom", "top"))
    found = losses_of(teacher, student_of(teacher, bottom, None, 0, copied=True), bottom)
    assert max(found[name] for name in ("states", "embeddings", "maps")) < 1e-6
    assert min(found[name] for name in ("soft", "cosine")) > 1e-3  # its output is another layer's
    other = losses_of(teacher, student_of(teacher, top, None, 0, copied=True), top)
    assert other["embeddings"] < 1e-6 < other["states"]


def test_layer_maps() -> None:
    assert layer_map("uniform", 6, 12) == (2, 4, 6, 8, 10, 12)  # every second layer
    assert layer_map("uniform", 4, 12) == (3, 6, 9, 12)  # TinyBERT's
    assert layer_map("uniform", 3, 4) == (1, 3, 4)
    assert layer_map("top", 2, 4) == (3, 4)
    assert layer_map("bottom", 2, 4) == (1, 2)


def test_what_cannot_teach_says_why() -> None:
    xlnet = headed.made("xlnet", "XLNetLMHeadModel")
    with pytest.raises(WorkbenchError, match="attention"):
        require_teacher(xlnet)
    bert = headed.made("bert", "BertForMaskedLM")
    with pytest.raises(WorkbenchError, match="3"):
        matched(bert, 3, "uniform")
    with pytest.raises(WorkbenchError, match="multiple of 4"):
        student_of(bert, matched(bert, 1, "top"), 30, 0, copied=False)
    with pytest.raises(WorkbenchError, match="pieces"):
        continued(headed.made("roberta", "RobertaForMaskedLM"), bert, 0)
    with pytest.raises(WorkbenchError, match="transformers"):
        require_teacher(BagOfEmbeddings())
