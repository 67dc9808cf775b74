"""The student: a teacher's architecture with fewer layers or a smaller width.

    layers = matched(teacher, 2, "uniform")             # {"encoder": (2, 4)}
    student = student_of(teacher, layers, None, seed=0, copied=True)

A layer of the student starts as the teacher's layer that it is matched with, and all else as in the
teacher, if the widths are equal; otherwise all weights are random. There is no code for single
architectures: layers are found as in `models.net_parts`. Costs: a copy of the weights.
"""

import copy
import re
from collections.abc import Mapping
from typing import Any, get_args

import torch
from torch import Tensor

from workbench.analyses.distillation.experiments import LayerMap
from workbench.analyses.distillation.losses import LayerMaps, place_of
from workbench.analyses.training.initial_model import AUTO
from workbench.core.errors import WorkbenchError, require_one_of
from workbench.engine.model import refusal
from workbench.engine.taps import StackName
from workbench.models.huggingface import HuggingFace, require_transformer
from workbench.models.net_parts import blocks
from workbench.models.output_heads.lm_heads import in_order, placed
from workbench.models.output_heads.standard_heads import with_standard_head
from workbench.models.output_heads.task_heads import StandardHead

_PER_LAYER = ("layer_types", "attention_window", "mlp_layer_types")  # lists of a config
_INNER = (  # widths within a layer, which shrink with the states
    "intermediate_size", "hidden_dim", "d_ff", "n_inner", "encoder_ffn_dim", "decoder_ffn_dim",
)  # fmt: skip
_FIRST_LAYERS = ("num_hidden_layers", "encoder_layers")
_DECODER_LAYERS = ("num_decoder_layers", "decoder_layers")
_PER_HEAD = ("head_dim", "d_kv")  # widths of a head
_ARCHITECTURES: Mapping[str, Any] = {
    "causal": AUTO["decoder"],
    "masked": AUTO["encoder"],
    "seq2seq": AUTO["encoder-decoder"],
}
REMEDY = (
    "Choose a BERT, RoBERTa, GPT-2, Llama, T5 or BART, or a run of finetune with head standard."
)


def require_teacher(model: Any) -> HuggingFace:
    """The teacher, if it has what the losses need; else an error with the reason."""
    teacher = require_transformer(model, "cannot teach: it is no model of transformers", REMEDY)
    if in_order(teacher.net) or teacher.family == "longformer":
        why = "its attention in training cannot be compared with a student's"
    elif teacher.n_removed_heads or teacher.added is not None:
        why = "heads were removed from it, or modules were added"
    elif teacher.task_head is None and not teacher.objective:
        why = "it has no head whose predictions a student could learn"
    elif teacher.task_head is not None and (
        not isinstance(teacher.task_head, StandardHead)
        or teacher.task_head.task.kind not in ("class", "score")
    ):
        why = "its task head is not one of transformers for the classes or the score of a text"
    else:
        return teacher
    raise refusal(teacher, f"cannot teach: {why}", REMEDY)


def matched(teacher: HuggingFace, n_layers: int | None, kind: LayerMap) -> LayerMaps:
    """The teacher's layer for each layer of a student, by stack (default: half the layers)."""
    chosen = {}
    for stack in teacher.stacks:
        count = n_layers or max(1, stack.layers // 2)
        if count > stack.layers:
            raise WorkbenchError(
                f"n_layers is {count}; the teacher's {stack.name} has {stack.layers} layers.",
                code="setting-invalid",
                where=teacher.name,
                remedy=f"Set n_layers to {stack.layers} or less.",
            )
        chosen[stack.name] = layer_map(kind, count, stack.layers)
    return chosen


def matched_with(student: HuggingFace, teacher: HuggingFace, kind: LayerMap) -> LayerMaps:
    """The teacher's layer for each layer of a student that there is."""
    layers = {}
    for stack in student.stacks:
        of = next((each.layers for each in teacher.stacks if each.name == stack.name), 0)
        if not stack.layers <= of:
            raise WorkbenchError(
                f"the student's {stack.name} has {stack.layers} layers, its teacher's {of}.",
                code="model-mismatch",
                where=student.name,
                remedy="Choose a smaller student, of the same kind as its teacher.",
            )
        layers[stack.name] = layer_map(kind, stack.layers, of)
    return layers


def layer_map(kind: LayerMap, count: int, of: int) -> tuple[int, ...]:
    """The teacher's layer for each of a student's layers, both from 1.

    uniform: at equal distances up to the last, so every second one of twice as many; top: the last
    ones; bottom: the first ones.
    """
    if kind == "uniform":
        return tuple((2 * layer * of + count) // (2 * count) for layer in range(1, count + 1))
    require_one_of(
        kind, get_args(LayerMap), f"{kind!r} is not a layer map.", code="setting-invalid"
    )
    first = of - count if kind == "top" else 0
    return tuple(range(first + 1, first + count + 1))


def student_of(
    teacher: HuggingFace, layers: LayerMaps, width: int | None, seed: int, copied: bool
) -> HuggingFace:
    """A new student; `copied` starts it from the teacher's layers, else it is random."""
    config = _config(teacher, layers, width or teacher.width)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        kind = type(teacher.net) if teacher.task_head else _ARCHITECTURES[teacher.objective]
        net = kind(config) if teacher.task_head else kind.from_config(config)
    placed(net, teacher.device, torch.float32)
    student = HuggingFace(net, teacher.tokenizer, f"student of {teacher.name}")
    student.task_head = copy.deepcopy(teacher.task_head)
    if copied:
        student.net.load_state_dict(_state(teacher, layers), strict=False)
        student.net.tie_weights()
    return student


def continued(start: HuggingFace, teacher: HuggingFace, seed: int) -> HuggingFace:
    """A student that goes on from a model; under a new task head, if the teacher has one."""
    if dict(start.vocabulary) != dict(teacher.vocabulary):
        raise WorkbenchError(
            f"{start.name} and its teacher {teacher.name} do not have the same pieces.",
            code="model-mismatch",
            where=start.name,
            remedy="Choose a student that was distilled from the same model.",
        )
    if teacher.task_head is None:
        if start.objective != teacher.objective:
            raise refusal(start, f"cannot learn what {teacher.name} predicts", REMEDY)
        return start.copy(in_fp32=True)
    task = teacher.task_head.task
    if start.task_head is not None and start.task_head.task.names == task.names:
        return start.copy(in_fp32=True)
    return with_standard_head(start.copy(in_fp32=True), task, seed)


def require_equal_heads(student: HuggingFace, teacher: HuggingFace, layers: LayerMaps) -> None:
    """Raise an error if the maps of matched layers cannot be compared head by head."""
    heads = {place_of(site): site.heads for site in teacher.sites}
    for site in student.sites:
        place = (site.stack, site.kind, layers[site.stack][site.layer] - 1)
        if heads.get(place) != site.heads:
            raise WorkbenchError(
                f"{site.name} of the student has {site.heads} heads, the teacher's matched layer "
                f"{heads.get(place, 0)}.",
                code="setting-invalid",
                where=student.name,
                remedy="Leave maps out of losses, or choose a student with as many heads.",
            )


def _config(teacher: HuggingFace, layers: LayerMaps, width: int) -> Any:
    """The teacher's config with other numbers of layers, and another width with as many heads."""
    config: Any = copy.deepcopy(teacher.net.config)
    for stack in teacher.stacks:
        chosen = layers[stack.name]
        names = _FIRST_LAYERS if stack is teacher.stacks[0] else _DECODER_LAYERS
        for name in names:
            if hasattr(config, name):
                setattr(config, name, len(chosen))
        for name in _PER_LAYER:
            if len(of_layer := getattr(config, name, None) or ()) == stack.layers:
                setattr(config, name, [of_layer[layer - 1] for layer in chosen])
    if width != teacher.width:
        n_heads = config.num_attention_heads
        if width % n_heads or width > 16 * teacher.width:
            raise WorkbenchError(
                f"a width of {width} cannot be divided among {n_heads} heads.",
                code="setting-invalid",
                where=teacher.name,
                remedy=f"Set width to a multiple of {n_heads}.",
            )
        for name in _INNER:
            if isinstance(inner := getattr(config, name, None), int):
                setattr(config, name, max(1, inner * width // teacher.width))
        for name in _PER_HEAD:
            if isinstance(getattr(config, name, None), int):
                setattr(config, name, width // n_heads)
        config.hidden_size = width
    return config


def _state(teacher: HuggingFace, layers: LayerMaps) -> dict[str, Tensor]:
    """The teacher's weights under the names that they have in the student."""
    state = dict(teacher.net.state_dict())
    for stack in teacher.stacks:
        if (name := _name_of_blocks(teacher, stack.name)) is None:
            continue  # all layers share one block
        inside = re.compile(rf"{re.escape(name)}\.(\d+)\.(.+)")
        found = {key: match for key in state if (match := inside.fullmatch(key))}
        of_block = {(int(m[1]), m[2]): state.pop(key) for key, m in found.items()}
        # what only the first block has, such as T5's position bias, stays there
        last = {part for block, part in of_block if block == stack.layers - 1}
        state |= {
            f"{name}.0.{part}": weights
            for (block, part), weights in of_block.items()
            if block == 0 and part not in last
        }
        for own, layer in enumerate(layers[stack.name]):
            state |= {
                f"{name}.{own}.{part}": weights
                for (block, part), weights in of_block.items()
                if block == layer - 1 and (part in last or own == 0)
            }
    return state


def _name_of_blocks(model: HuggingFace, stack: StackName) -> str | None:
    """The name of a stack's list of blocks in the net."""
    layers = next(each.layers for each in model.stacks if each.name == stack)
    found = blocks(model.body(stack), layers)
    if found is None:
        return None
    names: dict[Any, str] = {module: name for name, module in model.net.named_modules()}
    return names[found]
